"""Files that are replaced as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the file at `path` by one with these bytes, which its owner alone may read.

    Whenever the process or the machine stops, the file is the old one or the new one. What a process leaves
    behind that is killed in the middle is a file beside it, whose name begins with a dot and ends in ".tmp".

    Parameters
    ----------
    path : path-like
        Of a file, in a folder that exists. A link is followed.
    data : bytes
        Content of the file.

    Raises
    ------
    OSError
        If the file cannot be written; it is then as it was.
    """
    target = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(target.parent)


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
