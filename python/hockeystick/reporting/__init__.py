"""Reports: a guarantee with everything that belongs to it, in one file."""

from hockeystick.reporting.report import report

__all__ = ["report"]
