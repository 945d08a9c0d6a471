"""Questions of every kind that the Python package answers."""

import importlib
import pkgutil
from types import ModuleType

from benches.constants.comparing import SEED, Question
from benches.constants.questions import drawn
from benches.python_constants import certificates, examples, others

EACH_KIND = 2
"""Questions of each kind of those about the core."""
WITHOUT = ("hockeystick.opacus",)


def every() -> list[Question]:
    """Import all of the package, so that no question does, and make the questions."""
    modules = imported()
    return [
        *drawn(EACH_KIND, SEED),
        *examples.of_docstrings(modules),
        *examples.of_pages(),
        *certificates.questions(),
        *others.questions(),
    ]


def imported() -> list[ModuleType]:
    """Import the modules of both packages, but for those whose libraries are missing or large."""
    found = []
    for package in ("hockeystick", "hockeystick_verify"):
        folder = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}.", onerror=lambda _: None):
            if module.name.startswith(WITHOUT) or module.name.endswith("__main__"):
                continue
            try:
                found.append(importlib.import_module(module.name))
            except ImportError:
                continue
    return found
