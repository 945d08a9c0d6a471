"""What ``import hockeystick`` costs beside ``import numpy``, and how large the wheel is.

With ``--limit-modules`` or ``--limit-mb`` it fails where the figure is above the limit. Times have
no limit: they depend on what else the machine does, and how many modules a start reads does not.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

STARTS = 15
OUR_IMPORT = "from hockeystick import get_epsilon"

# A start reads byte code, as it does for most users, even where the calling shell forbids to write it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds_to_run(statement: str) -> float:
    """Time from starting a fresh interpreter until it has run the statement and ended."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def processor_seconds_to_run(statement: str) -> float:
    """Processor time of the same, which other work on the machine hardly changes."""
    before = os.times()
    seconds_to_run(statement)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def extra_seconds(
    statement: str, starts: int = STARTS, run: Callable[[str], float] = seconds_to_run
) -> float:
    """Median over pairs of starts of how much longer an import takes than that of NumPy."""
    statements = ("import numpy", statement)
    for each in statements:
        run(each)  # writes the byte code and warms the file cache
    pairs = [[run(each) for each in statements] for _ in range(starts)]
    return statistics.median(theirs - numpys for numpys, theirs in pairs)


def fastest(statement: str) -> float:
    """Processor time of the fastest of some starts, which other work disturbs least."""
    processor_seconds_to_run(statement)  # writes the byte code and warms the file cache
    return min(processor_seconds_to_run(statement) for _ in range(STARTS))


def modules_beyond_numpy(statement: str = OUR_IMPORT) -> int:
    """How many modules a statement loads that NumPy does not."""
    program = (
        f"import sys, numpy; before = set(sys.modules); {statement}; print(len(set(sys.modules) - before))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, env=ENVIRONMENT, capture_output=True, text=True
    )
    return int(shown.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both figures; stop with a message where one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel to weigh")
    parser.add_argument("--limit-modules", type=int, help="how many modules beyond NumPy's a start may load")
    parser.add_argument("--limit-mb", type=float, help="largest size of the wheel, in 1e6 bytes")
    options = parser.parse_args(arguments)

    numpys, ours = fastest("import numpy"), fastest(OUR_IMPORT)
    print(f"import hockeystick costs {1e3 * (ours - numpys):.0f} ms of processor time more than import numpy")
    print(f"a start takes {ours / numpys:.2f} times as long")
    modules = modules_beyond_numpy()
    print(f"a start loads {modules} modules beyond NumPy's")
    if options.limit_modules is not None and modules > options.limit_modules:
        sys.exit(f"a start loads more than {options.limit_modules} modules beyond NumPy's")

    if options.wheel is not None:
        megabytes = options.wheel.stat().st_size / 1e6
        print(f"{options.wheel.name}: {megabytes:.2f} MB")
        if options.limit_mb is not None and megabytes > options.limit_mb:
            sys.exit(f"the wheel is larger than {options.limit_mb:g} MB")


if __name__ == "__main__":
    main()
