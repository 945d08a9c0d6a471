"""Optional dependencies, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str) -> Any:
    """Import a module that one of the extras of this package installs.

    Raises
    ------
    ImportError
        If it is not installed; the message says what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = error.name or module
        raise ImportError(f'this needs {name}: pip install "hockeystick[{extra}]"') from error
