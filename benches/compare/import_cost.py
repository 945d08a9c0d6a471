"""What ``import hockeystick`` costs beside ``import numpy``, and how large the wheel is.

With ``--limit-ratio`` or ``--limit-mb`` it fails where the figure is above the limit.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

STARTS = 15


def seconds_to_run(statement: str) -> float:
    """Processor time of a fresh interpreter that runs the statement and ends."""
    start = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    end = os.times()
    return end.children_user + end.children_system - start.children_user - start.children_system


def import_costs() -> tuple[float, float]:
    """How much longer the import of hockeystick takes than that of NumPy: milliseconds, and as a ratio.

    Of the fastest of some starts, which other work disturbs least; the ratio says the same on a slow machine.
    """
    statements = ("import numpy", "import hockeystick")
    for statement in statements:
        seconds_to_run(statement)  # writes the byte code and warms the file cache
    pairs = [[seconds_to_run(statement) for statement in statements] for _ in range(STARTS)]
    for statement, times in zip(statements, zip(*pairs, strict=True), strict=True):
        print(f"{statement}: {1e3 * min(times):.0f} ms, the fastest of {STARTS} starts")
    numpys, ours = (min(times) for times in zip(*pairs, strict=True))
    return 1e3 * (ours - numpys), ours / numpys


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both figures; stop with a message where one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel to weigh")
    parser.add_argument(
        "--limit-ratio", type=float, help="how many times as long as NumPy's a start may take"
    )
    parser.add_argument("--limit-mb", type=float, help="largest size of the wheel, in 1e6 bytes")
    options = parser.parse_args(arguments)

    extra, ratio = import_costs()
    print(
        f"import hockeystick costs {extra:.0f} ms more than import numpy: {ratio:.2f} times as long a start"
    )
    if options.limit_ratio is not None and ratio > options.limit_ratio:
        sys.exit(f"a start takes more than {options.limit_ratio:g} times as long as one with NumPy alone")

    if options.wheel is not None:
        megabytes = options.wheel.stat().st_size / 1e6
        print(f"{options.wheel.name}: {megabytes:.2f} MB")
        if options.limit_mb is not None and megabytes > options.limit_mb:
            sys.exit(f"the wheel is larger than {options.limit_mb:g} MB")


if __name__ == "__main__":
    main()
