"""The command line, ``hockeystick`` or ``python -m hockeystick``: needs the extra "cli"."""

from __future__ import annotations

import sys

from hockeystick._extras import needed

__all__ = ["main"]


def __dir__() -> list[str]:
    return list(__all__)


def main() -> None:
    """Run the command that the arguments of the process name, and exit.

    The exit status is 0 for an answer, 1 where there is none (an unreachable target, an unsupported
    combination, a missing extra) and 2 for bad arguments. Messages go to stderr.
    """
    try:
        needed("click", "cli")
    except ImportError as error:
        sys.exit(f"hockeystick: {error}")
    from hockeystick.cli._commands import hockeystick

    hockeystick()
