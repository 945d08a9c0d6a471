"""Files that are replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes, *, private: bool = True) -> None:
    """Replace the file at `path` by one with these bytes.

    Whenever the process or the machine stops, the file is the old one or the new one. What a process leaves
    behind that is killed in the middle is a file next to it, whose name begins with a dot and ends in ".tmp".

    Parameters
    ----------
    path : path-like
        Of a file, in a folder that exists; of one that is there already or not. A symbolic link is followed:
        what it points to is replaced, or made where there is nothing yet.
    data : bytes
        Content of the file.
    private : bool, optional
        Whether its owner alone may read it; otherwise whoever may read new files of this process.

    Raises
    ------
    OSError
        If the file cannot be written, or a folder, a pipe, a socket or a device is there, which no file may
        take the place of; whatever is there is then as it was.
    """
    target = Path(os.path.realpath(path))
    _require_regular(target)
    # Names have at most 255 bytes on most systems.
    name = os.fsdecode(os.fsencode(target.name)[:200])
    temporary = target.with_name(f".{name}.{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # Once more: the file took a while to write.
        _require_regular(target)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(target.parent)


def read_regular(path: str | os.PathLike[str], most_bytes: int, what: str) -> bytes:
    """Return what is in a file, which may be replaced meanwhile: the old content or the new one.

    Parameters
    ----------
    path : path-like
        Of a file.
    most_bytes : int
        Bytes that it may have.
    what : str
        What it is called in errors.

    Raises
    ------
    ValueError
        If it is no regular file, or larger. A pipe is not waited for.
    OSError
        If it cannot be read.
    """
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        # Sockets cannot be opened; Windows does not open folders.
        if error.errno == errno.ENXIO or os.path.isdir(path):
            raise ValueError(f"{what} must be a file") from None
        raise
    with _closed(descriptor):
        # Of what was opened: the name may be another file's by now.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{what} must be a file")
        if status.st_size > most_bytes:
            raise ValueError(
                f"{what} must have at most most_bytes = {most_bytes} bytes, got {status.st_size}"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # Should the file grow meanwhile, no more than this is read: its end is then not what it must be.
            return file.read(status.st_size)


@contextmanager
def _closed(descriptor: int) -> Iterator[None]:
    """Close a descriptor in the end."""
    try:
        yield
    finally:
        os.close(descriptor)


def _require_regular(target: Path) -> None:
    """Raise unless a regular file is at `target`, or nothing."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a file cannot take the place of a folder", str(target))
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "the symbolic link leads to itself", str(target))
    if not stat.S_ISREG(mode):
        kinds = {
            stat.S_IFIFO: "a pipe",
            stat.S_IFSOCK: "a socket",
            stat.S_IFCHR: "a device",
            stat.S_IFBLK: "a device",
        }
        kind = kinds.get(stat.S_IFMT(mode), "what is no regular file")
        raise FileExistsError(errno.EEXIST, f"a file cannot take the place of {kind}", str(target))


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
