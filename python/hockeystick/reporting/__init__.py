"""Reports: a guarantee with everything that belongs to it, in one file."""

from hockeystick.reporting._writing import report

__all__ = ["report"]


def __dir__() -> list[str]:
    return list(__all__)
