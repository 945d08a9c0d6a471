"""Random questions over the whole domain, with a fixed seed: how wide and how slow the answers are.

All parameters are log-uniform. ``--few`` draws few steps at small sample rates, where intervals used to be
wide. Times are processor times of one thread, so that other work on the machine counts little.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import hockeystick as hs
from benches.compare.machine import describe_machine

WIDE, VERY_WIDE = 1e-6, 1e-3
"""Widths over epsilon: what is asked for, and what hardly says anything."""

SLOW, VERY_SLOW = 0.02, 0.5
"""Seconds."""


class Box(NamedTuple):
    """Ranges of the parameters."""

    noise_multiplier: tuple[float, float] = (0.3, 20.0)
    sample_rate: tuple[float, float] = (1e-5, 0.5)
    steps: tuple[float, float] = (1.0, 1e6)
    group_size: tuple[float, float] = (1.0, 1000.0)
    delta: tuple[float, float] = (1e-12, 1e-3)


FEW = Box(sample_rate=(1e-4, 1e-2), steps=(2.0, 9.0), group_size=(1.0, 4.0))
"""Few steps at small rates."""


class Answer(NamedTuple):
    """An interval, relative to its upper end, and what it took."""

    width: float
    seconds: float
    question: dict[str, float]


def questions(box: Box, count: int, seed: int) -> list[dict[str, float]]:
    """Draw questions from the box."""
    generator = np.random.default_rng(seed)
    low, high = np.log(np.array(box)).T
    rows = np.exp(generator.uniform(low, high, size=(count, len(box))))
    return [dict(zip(Box._fields, row.tolist(), strict=True)) for row in rows]


def ask(question: dict[str, float]) -> Answer:
    """Return how narrow and how fast the answer to one question is."""
    counts = {name: max(1, round(question[name])) for name in ("steps", "group_size")}
    run: dict[str, Any] = question | counts
    start = time.process_time()
    lower, upper = hs.get_epsilon(**run, bounds=True)
    seconds = time.process_time() - start
    width = float((upper - lower) / upper) if upper > 0.0 else 0.0
    return Answer(width, seconds, run)


def main(arguments: Sequence[str] = ()) -> None:
    """Ask and print fractions of wide and slow answers, and the worst ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--few", action="store_true")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", hs.WideIntervalWarning)
    answers = [ask(question) for question in questions(FEW if given.few else Box(), given.count, given.seed)]
    widths, seconds = (np.array([answer[i] for answer in answers]) for i in (0, 1))
    print(describe_machine())
    print(f"{given.count} questions, seed {given.seed}")
    for limit in (WIDE, VERY_WIDE):
        print(f"wider than {limit:g}: {100 * np.mean(widths > limit):.1f} %")
    for limit in (SLOW, VERY_SLOW):
        print(f"over {1000 * limit:g} ms: {100 * np.mean(seconds > limit):.1f} %")
    print(f"slowest {seconds.max():.2f} s, all {seconds.sum():.1f} s")
    for title, order in (("slowest", -seconds), ("widest", -widths)):
        print(title)
        for i in np.argsort(order)[:8]:
            shown = ", ".join(f"{name} {value:.5g}" for name, value in answers[i].question.items())
            print(f"  {answers[i].seconds:.2f} s, width {answers[i].width:.1e}: {shown}")


if __name__ == "__main__":
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    main(sys.argv[1:])
