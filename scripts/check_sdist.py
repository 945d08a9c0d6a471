"""Stop if a source distribution lacks a file that the wheel is made of.

These are the files that the compiler read for the extension, as its list of dependencies names them, the
Python files of the wheel, and what pip and cargo read to build it: nothing need be compiled again.

usage: check_sdist.py DEPENDENCIES SDIST WHEEL
"""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

READ_BY_TOOLS = (
    "Cargo.toml",
    "Cargo.lock",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
)


def compiled(dependencies: str, checkout: Path) -> set[str]:
    """Return the files of the checkout in a line `target: file file ...`, where spaces are escaped."""
    _, _, files = dependencies.partition(": ")
    paths = (Path(each.replace("\\ ", " ")) for each in re.split(r"(?<!\\)\s+", files.strip()))
    return {path.relative_to(checkout).as_posix() for path in paths if path.is_relative_to(checkout)}


def packaged(wheel: Path) -> set[str]:
    """Return the files of the wheel that come from the folder `python`, without metadata and extension."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    return {f"python/{name}" for name in names if not name.endswith((".so", ".pyd"))}


def contained(sdist: Path) -> set[str]:
    """Return the files of a source distribution, relative to its one folder."""
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def missing(dependencies: str, sdist: Path, wheel: Path, checkout: Path) -> list[str]:
    """Return what the source distribution lacks of what the wheel is made of."""
    sources = compiled(dependencies, checkout)
    if "src/lib.rs" not in sources:
        raise ValueError(f"the list of dependencies names no source of {checkout}")
    return sorted((sources | packaged(wheel) | set(READ_BY_TOOLS)) - contained(sdist))


if __name__ == "__main__":
    listed, sdist, wheel = map(Path, sys.argv[1:])
    if lacking := missing(listed.read_text("utf-8").splitlines()[0], sdist, wheel, Path.cwd()):
        sys.exit(f"{sdist} lacks {', '.join(lacking)}")
    print(f"{sdist} has all files that {wheel} is made of")
