"""Epsilon of dealt batches on a grid and in a random box: ``python -m benches.compare.allocation_box``.

Each record is in one batch of an epoch, with fresh bins in every epoch or with bins that stay; Gaussian
noise; both directions. Parameters of the random box are log-uniform. Times are processor times of one thread.
"""

import argparse
import itertools
import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import hockeystick as hs
from benches.compare.box import VERY_WIDE, WIDE
from benches.compare.machine import describe_machine

FAST = 0.01
"""Seconds that an answer should take at most."""

BATCHES = (2, 10, 100, 1_000, 100_000)
NOISES = (0.5, 1.0, 2.0, 5.0, 20.0)
RUNS = ((1, 1e-5), (10, 1e-5), (1_000, 1e-8), (1, 1e-20))
"""Epochs, and delta."""

RANGES = {"batches": (1.5, 1e6), "noise": (0.3, 100.0), "epochs": (1.0, 1e9), "log_delta": (3.0, 100.0)}
"""Ranges of the random box; the last are decimal digits of delta."""

FIXED_SHARE = 0.2
"""The share of random settings with bins that stay."""


class Setting(NamedTuple):
    """A run and a delta."""

    batches: int
    noise: float
    epochs: int
    delta: float
    is_fixed: bool = False


class Answer(NamedTuple):
    """An interval, its width over its upper end, and what it took."""

    lower: float
    upper: float
    width: float
    seconds: float
    setting: Setting


def grid() -> list[Setting]:
    """Return the settings that people use, and some beyond."""
    return [Setting(t, noise, *run) for t, noise, run in itertools.product(BATCHES, NOISES, RUNS)]


def random_settings(count: int, seed: int) -> list[Setting]:
    """Draw settings from the box."""
    generator = np.random.default_rng(seed)
    low, high = np.log(np.array(list(RANGES.values()))).T
    found = []
    for row in generator.uniform(low, high, size=(count, len(RANGES))):
        batches, noise, epochs, digits = np.exp(row)
        is_fixed = bool(generator.random() < FIXED_SHARE)
        # Bins that stay are released so often that more epochs leave no noise.
        epochs = min(epochs, 10.0 * noise**2) if is_fixed else epochs
        setting = Setting(round(batches), float(noise), max(1, round(epochs)), float(10.0**-digits), is_fixed)
        found.append(setting)
    return found


def ask(setting: Setting) -> Answer:
    """Return how narrow and how fast the answer is."""
    kind = hs.FixedBins if setting.is_fixed else hs.RandomAllocation
    start = time.process_time()
    lower, upper = hs.get_epsilon(
        noise_multiplier=setting.noise,
        sampling=kind(setting.batches),
        steps=setting.batches * setting.epochs,
        delta=setting.delta,
        bounds=True,
    )
    seconds = time.process_time() - start
    width = float((upper - lower) / upper) if upper > 0.0 else 0.0
    return Answer(float(lower), float(upper), width, seconds, setting)


def summarize(name: str, answers: Sequence[Answer], is_long: bool) -> None:
    """Print shares, times, and the worst answers or all."""
    widths, seconds = (np.array([answer[i] for answer in answers]) for i in (2, 3))
    print(f"\n{name}: {len(answers)} settings")
    print(f"at most {1000 * FAST:g} ms: {100 * np.mean(seconds <= FAST):.0f} %")
    median = 1000 * np.median(seconds)
    print(f"median {median:.1f} ms, slowest {seconds.max():.2f} s, all {seconds.sum():.1f} s")
    print(f"wider than {WIDE:g}: {100 * np.mean(widths > WIDE):.0f} %")
    print(f"wider than {VERY_WIDE:g}, no useful bound: {100 * np.mean(widths > VERY_WIDE):.0f} %")
    orders = {"all": np.arange(len(answers))} if is_long else {"slowest": -seconds, "widest": -widths}
    for title, order in orders.items():
        print(title)
        for i in np.argsort(order, kind="stable")[: len(answers) if is_long else 8]:
            answer = answers[i]
            shown = ", ".join(f"{key} {value:g}" for key, value in answer.setting._asdict().items())
            interval = f"[{answer.lower:.9g}, {answer.upper:.9g}]"
            print(f"  {1000 * answer.seconds:.1f} ms, width {answer.width:.1e}, {interval}: {shown}")


def main(arguments: Sequence[str] = ()) -> None:
    """Ask both sets of questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="random settings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="print all answers")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", hs.WideIntervalWarning)
    print(describe_machine())
    ask(Setting(10, 1.0, 1, 1e-5))
    summarize("grid", [ask(setting) for setting in grid()], given.long)
    settings = random_settings(given.count, given.seed)
    summarize(f"random, seed {given.seed}", [ask(setting) for setting in settings], given.long)


if __name__ == "__main__":
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    main(sys.argv[1:])
