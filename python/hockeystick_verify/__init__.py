"""An independent checker of privacy certificates, in ball arithmetic.

``python -m hockeystick_verify certificate.json`` prints *verified* with the proven interval, or
*not verified* and which inequality failed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from hockeystick_verify.checker import LARGEST_FILE, NotProvenError, Proven, RefusedError, read
from hockeystick_verify.claims import check
from hockeystick_verify.parallel import Report

__version__ = "0.1.0"

__all__ = [
    "NotProvenError",
    "Proven",
    "RefusedError",
    "as_document",
    "check",
    "examine",
    "main",
    "read",
    "verify",
    "verify_text",
]


def verify(path: str | Path, *, progress: Report | None = None, processes: int = 1) -> tuple[bool, list[str]]:
    """Check the certificate of a file.

    Parameters
    ----------
    path : str or path-like
        A JSON file; at most 1 MiB of it is read.
    progress : callable, optional
        Is called with how many parts of the work are done, and with their number.
    processes : int, optional
        Processes that share the terms of the sums; the result does not depend on it.

    Returns
    -------
    verified : bool
        Whether every claim was proven.
    lines : list of str
        What was proven, or which inequality failed.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with Path(path).open("rb") as file:
        return verify_text(file.read(LARGEST_FILE + 1), progress=progress, processes=processes)


def verify_text(
    text: str | bytes, *, progress: Report | None = None, processes: int = 1
) -> tuple[bool, list[str]]:
    """Check a certificate that is given as text; as `verify`."""
    verified, found, reason = examine(text, progress=progress, processes=processes)
    if not found:
        return False, [f"not verified: {reason}"]
    lines = ["verified" if verified else f"not verified: {reason}"]
    for each in found:
        state = "proven" if each.holds else "NOT PROVEN"
        lines.append(f"  {state}: {each.claim}; {each.quantity} is in [{each.lower!r}, {each.upper!r}]")
    return verified, lines


def examine(
    text: str | bytes, *, progress: Report | None = None, processes: int = 1
) -> tuple[bool, list[Proven], str]:
    """Check a certificate that is given as text: whether it holds, what was proven, and why it does not hold.

    The list is empty where the certificate was refused, or an inequality failed on the way.
    """
    try:
        found = check(read(text), progress=progress, processes=processes)
    except RefusedError as error:
        return False, [], f"refused: {error}"
    except NotProvenError as error:
        return False, [], str(error)
    verified = all(each.holds for each in found)
    return verified, found, "" if verified else "the proven interval does not imply every claim"


def bar(done: int, total: int) -> None:
    """Draw a bar of what is done on the terminal."""
    full = 30 * done // max(total, 1)
    print(
        f"\r[{'#' * full}{'.' * (30 - full)}] {done}/{total}",
        end="\n" if done == total else "",
        file=sys.stderr,
    )


def main(arguments: list[str] | None = None) -> int:
    """Check certificates: 0 if all are verified, 1 if one is not, 2 if one cannot be read.

    With ``--json`` one document is printed, a list with an entry for each file: its name, whether it is
    verified, what was proven of each claim, and the reason if it is not verified.
    """
    parser = argparse.ArgumentParser(prog="hockeystick_verify", description=__doc__)
    parser.add_argument("certificates", nargs="+", help="JSON files")
    parser.add_argument("--processes", type=int, default=1, help="processes that share the terms of the sums")
    parser.add_argument("--progress", action="store_true", help="show a bar")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--version", action="version", version=__version__)
    status, given = 0, parser.parse_args(arguments)
    documents = []
    for name in given.certificates:
        options = {"progress": bar if given.progress else None, "processes": given.processes}
        try:
            if given.json:
                document = as_document(name, **options)
                verified = document["verified"]
                documents.append(document)
            else:
                verified, lines = verify(name, **options)
                print("\n".join([f"{name}: {lines[0]}", *lines[1:]]))
        except OSError as error:
            print(f"{name}: {error.strerror}", file=sys.stderr)
            documents.append({"path": name, "verified": False, "claims": [], "reason": str(error.strerror)})
            status = 2
            continue
        status = max(status, 0 if verified else 1)
    if given.json:
        print(json.dumps(documents, indent=2, allow_nan=False))
    return status


def as_document(path: str, *, progress: Report | None = None, processes: int = 1) -> dict[str, Any]:
    """Check the certificate of a file, and return the result of plain JSON types; as `verify`."""
    with Path(path).open("rb") as file:
        text = file.read(LARGEST_FILE + 1)
    verified, found, reason = examine(text, progress=progress, processes=processes)
    return {"path": path, "verified": verified, "claims": [_plain(each) for each in found], "reason": reason}


def _plain(proven: Proven) -> dict[str, Any]:
    """Return what was proven; null stands for an infinite end."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in proven._asdict().items()
    }
