"""Stop if a file in a wheel names a path of the machine that built it: its checkout, its home or cargo's.

usage: check_paths.py WHEEL
"""

import getpass
import os
import sys
import zipfile
from pathlib import Path


def private_paths() -> dict[str, bytes]:
    """Return what must not be in a wheel, by what it is."""
    home = Path.home()
    cargo = Path(os.environ.get("CARGO_HOME", home / ".cargo"))
    found = {"checkout": str(Path.cwd()), "home": f"{home}/", "cargo home": str(cargo)}
    target = os.environ.get("CARGO_TARGET_DIR")
    if target:
        found["target folder"] = target
    # As a folder: the name alone may be any word.
    found["user"] = f"/{getpass.getuser()}/"
    return {what: path.encode() for what, path in found.items()}


def found_in(wheel: Path, private: dict[str, bytes]) -> list[str]:
    """Return which files of a wheel have which of these, and where."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            for what, path in private.items():
                place = content.find(path)
                if place >= 0:
                    around = content[max(place - 40, 0) : place + len(path) + 80]
                    found.append(f"{name} has the {what}: {around!r}")
    return found


if __name__ == "__main__":
    paths = private_paths()
    problems = found_in(Path(sys.argv[1]), paths)
    if problems:
        sys.exit("\n".join(["the wheel names paths of this machine:", *problems]))
    print(f"the wheel names none of {', '.join(path.decode() for path in paths.values())}")
