"""What the workers of the tests' cluster do; they import it by name."""

import os
import resource
import signal
import time
from pathlib import Path

import numpy as np

STEPS = [(1.2, 0.02, 60), (1.5, 0.05, 30), (2.0, 0.01, 500)]


def norms_of(start, stop):
    """Norms of some examples, made on the fly: the same in whatever partition they are."""
    examples = np.arange(start, stop, dtype=np.float64)[:, np.newaxis]
    return np.modf(examples * [0.6180339887, 0.7548776662, 0.5698402910])[0]


def norms_block(block_info=None):
    """Block of a Dask array of norms."""
    (start, stop), _ = block_info[None]["array-location"]
    return norms_of(start, stop)


def slow_square(number, marker):
    """Say that it began, take a while, and answer."""
    Path(marker).touch()
    time.sleep(0.05)
    return number * number


def die_once(flag):
    """Kill the worker that does this; the one that does it again finds the flag and lives."""
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def peak_memory():
    """Largest memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
