"""What a question of plain numbers costs in Python: the whole call less the same question to the core.

The question has an answer in closed form, so that little else is measured. With ``--limit`` it fails where a
call costs more microseconds than that.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hockeystick as hs
from benches.compare.machine import describe_machine
from hockeystick import _core

ROUNDS, CALLS = 100, 20
"""Calls are timed by twenties: the fastest of all rounds is the one that nothing else has disturbed."""

DELTA, EPSILON, TOLERANCE = 1e-5, 1.0, 1e-6
RUN: dict[str, Any] = {"noise_multiplier": 1.0, "sample_rate": 1.0, "steps": 1}
STEP = (1.0, 1.0, 1)
POINTS = np.array([DELTA])

QUESTIONS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "get_epsilon": (
        lambda: hs.get_epsilon(delta=DELTA, **RUN),
        lambda: _core.solve("epsilon", STEP, 1, "add_remove", 0.0, DELTA, TOLERANCE),
    ),
    "get_delta": (
        lambda: hs.get_delta(epsilon=EPSILON, **RUN),
        lambda: _core.solve("delta", STEP, 1, "add_remove", EPSILON, 0.5, TOLERANCE),
    ),
    "privacy_curve, epsilon": (
        lambda: hs.privacy_curve(**RUN).epsilon(DELTA),
        lambda: _core.Composition([(*STEP, 1)], "add_remove", TOLERANCE).epsilon(POINTS),
    ),
}
"""A call, and what it asks the core."""


def fastest(question: Callable[[], object]) -> float:
    """Microseconds of one call, in the fastest round."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            question()
        shortest = min(shortest, time.perf_counter() - start)
    return 1e6 * shortest / CALLS


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each question; stop with a message where one costs more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, help="microseconds that a call may cost besides the core")
    options = parser.parse_args(arguments)
    print("| question | whole call | asked of the core | in Python |\n|---|---|---|---|")
    most = 0.0
    for name, (whole, core) in QUESTIONS.items():
        called, asked = fastest(whole), fastest(core)
        most = max(most, called - asked)
        print(f"| {name} | {called:.1f} µs | {asked:.1f} µs | {called - asked:.1f} µs |")
    if options.limit is not None and most > options.limit:
        sys.exit(f"a question costs {most:.1f} µs in Python, more than {options.limit:g} µs")


if __name__ == "__main__":
    print(describe_machine(), "\n")
    main()
