"""Optional dependencies, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

DISTRIBUTIONS = {"flint": "python-flint"}
"""Distributions whose name is not that of their module."""


def needed(module: str, extra: str) -> Any:
    """Import a module that one of the extras of this package installs.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = error.name or module
        module_name = name.partition(".")[0]
        distribution = DISTRIBUTIONS.get(module_name, module_name.replace("_", "-"))
        raise ImportError(
            f'this needs {name}: pip install "hockeystick[{extra}]", or pip install {distribution}'
        ) from error
