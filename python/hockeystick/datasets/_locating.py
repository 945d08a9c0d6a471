"""Locations of the files of data sets."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

VARIABLE = "HOCKEYSTICK_DATA"
"""Environment variable with a folder that is searched first."""

Folder = str | os.PathLike[str]


class Source(NamedTuple):
    """A package that has the files of a data set."""

    what: str
    """The data set, in words."""
    install: str
    """Command that installs the package."""
    place: Path
    """Folder of the files: absolute, or below the package `package` of Python."""
    package: str | None = None


def files_of(source: Source, names: tuple[str, ...], folder: Folder | None) -> list[Path]:
    """Paths of the files with these names, all in the first folder that has them all.

    Raises
    ------
    ImportError
        If no folder has them; the message names the folders that were searched and how to install the files.
    TypeError
        If `folder` is not a path.
    """
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder must be a path or None, got {type(folder).__name__}")
    folders = [Path(folder)] if folder is not None else _usual_folders(source)
    for place in folders:
        paths = [place / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    searched = ", ".join(map(str, folders)) or "no folder, as the package is not installed"
    raise ImportError(
        f"{source.what} needs the files {', '.join(names)}: {source.install}, or name their folder by "
        f"folder= or the environment variable {VARIABLE} (searched: {searched})"
    )


def _usual_folders(source: Source) -> list[Path]:
    """Return the folder of the environment variable and that of the package, as far as there are any."""
    folders = []
    if os.environ.get(VARIABLE):
        folders.append(Path(os.environ[VARIABLE]))
    if source.package is None:
        folders.append(source.place)
    else:
        # The specification of a package that is not part of another one is found without an import of it.
        found = find_spec(source.package)
        locations = None if found is None else found.submodule_search_locations
        folders.extend(Path(location) / source.place for location in locations or ())
    return folders
