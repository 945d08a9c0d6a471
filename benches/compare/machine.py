"""What a timing was taken on: printed above every table."""

import os
import platform
from pathlib import Path

import numpy as np

import hockeystick


def processor_name() -> str:
    """Name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine()
    )


def describe_machine() -> str:
    """One line: processor, cores, and the versions of what is timed."""
    return (
        f"{processor_name()}, {os.cpu_count()} logical cores, {platform.system()}; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, hockeystick {hockeystick.__version__}"
    )
