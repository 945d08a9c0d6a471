"""Random questions over the whole domain, with a fixed seed: how wide and how slow the answers are.

All parameters are log-uniform. ``--few`` draws few steps at small sample rates, where intervals used to be
wide. ``--ask`` asks for another unknown than epsilon; an unknown takes as long as some answers for epsilon,
and the quotient is printed. ``--scheme`` draws batches otherwise, or takes groups whose members differ, or
other noise, and ``--least-delta`` and ``--largest-delta`` ask for another range of delta. Times are processor
times of one thread, so that other work on the machine counts little. A delta below 1e-100, for which no
width is promised, is never counted as wide.
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


TARGET_EPSILON = (0.01, 30.0)
"""Epsilons that are given where another unknown is asked for."""

UNKNOWNS = ("epsilon", "delta", "noise_multiplier", "sample_rate", "steps", "group_size")
SCHEMES = ("poisson", "fixed", "replace", "group", "laplace")

LEAST_DELTA = 1e-100
"""No width is promised below."""

DATASET_SIZE = 1_000_000
"""Records from which fixed batches are drawn."""


class Answer(NamedTuple):
    """An interval, relative to its upper end, and what it took."""

    width: float
    seconds: float
    quotient: float
    """Its time over that of epsilon at the answer; 0 where epsilon itself was asked for."""
    question: dict[str, float]


def questions(box: Box, count: int, seed: int) -> list[dict[str, float]]:
    """Draw questions from the box."""
    generator = np.random.default_rng(seed)
    low, high = np.log(np.array(box)).T
    rows = np.exp(generator.uniform(low, high, size=(count, len(box))))
    return [dict(zip(Box._fields, row.tolist(), strict=True)) for row in rows]


def run_of(question: dict[str, float], scheme: str) -> dict[str, Any]:
    """Return the arguments of a run; epsilon and delta are left as they are."""
    counts = {name: max(1, round(question[name])) for name in ("steps", "group_size") if name in question}
    run: dict[str, Any] = question | counts
    if scheme == "laplace":
        run["mechanism"] = hs.Laplace(run.pop("noise_multiplier"))
    elif scheme == "fixed":
        batch = max(1, round(run.pop("sample_rate") * DATASET_SIZE))
        run["sampling"] = hs.WithoutReplacement(batch, DATASET_SIZE)
    elif scheme == "replace":
        run["adjacency"] = "replace"
    elif scheme == "group":
        # A tenth to all of the rate and of the norm, in equal steps.
        size = min(run.pop("group_size"), 12)
        shares = np.linspace(0.1, 1.0, size) if size > 1 else np.ones(1)
        rates = run.pop("sample_rate") * shares
        run |= {"group": hs.Group(size, rates=rates, norms=shares[::-1]), "sample_rate": float(rates.max())}
    return run


def ask(question: dict[str, float], unknown: str = "epsilon", scheme: str = "poisson") -> Answer:
    """Return how narrow and how fast the answer to one question is."""
    asked = {name: value for name, value in question.items() if name != unknown}
    run = run_of(asked, scheme)
    start = time.process_time()
    try:
        lower, upper = getattr(hs, f"get_{unknown}")(**run, bounds=True)
    except hs.UnreachableError:
        return Answer(0.0, time.process_time() - start, 0.0, asked)
    seconds = time.process_time() - start
    largest = max(float(lower), float(upper))
    is_whole = unknown in ("steps", "group_size")
    apart = max(abs(float(upper - lower)) - 1.0, 0.0) if is_whole else abs(float(upper - lower))
    # A tiny delta, or a target that every count meets, has no width.
    least = LEAST_DELTA if unknown == "delta" else sys.float_info.min
    width = apart / largest if np.isfinite(largest) and largest > least else 0.0
    return Answer(width, seconds, quotient_of(run, unknown, (lower, upper), seconds), asked)


def quotient_of(run: dict[str, Any], unknown: str, found: tuple[Any, Any], seconds: float) -> float:
    """Return how many times as long an unknown took as epsilon there."""
    if unknown in ("epsilon", "delta"):
        return 0.0
    # What meets the target: the larger noise, and the smaller rate or count.
    answer = float(max(found) if unknown == "noise_multiplier" else min(found))
    if not (np.isfinite(answer) and answer > 0.0):
        return 0.0
    there = {name: value for name, value in run.items() if name != "epsilon"}
    there[unknown] = int(answer) if unknown in ("steps", "group_size") else answer
    start = time.process_time()
    hs.get_epsilon(**there)
    return seconds / max(time.process_time() - start, 1e-9)


def main(arguments: Sequence[str] = ()) -> None:
    """Ask and print fractions of wide and slow answers, and the worst ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--least-delta", type=float, default=Box().delta[0])
    parser.add_argument("--largest-delta", type=float, default=Box().delta[1])
    parser.add_argument("--ask", choices=UNKNOWNS, default="epsilon")
    parser.add_argument("--scheme", choices=SCHEMES, default="poisson")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", hs.WideIntervalWarning)
    warnings.simplefilter("ignore", hs.UnusualValueWarning)
    box = (FEW if given.few else Box())._replace(delta=(given.least_delta, given.largest_delta))
    drawn = questions(box, given.count, given.seed)
    if given.ask != "epsilon":
        low, high = np.log(TARGET_EPSILON)
        epsilons = np.exp(np.random.default_rng(given.seed + 1).uniform(low, high, size=given.count))
        drawn = [row | {"epsilon": float(epsilon)} for row, epsilon in zip(drawn, epsilons, strict=True)]
    # The first call also imports what it needs.
    ask(drawn[0], given.ask, given.scheme)
    answers = [ask(question, given.ask, given.scheme) for question in drawn]
    widths, seconds, quotients = (np.array([answer[i] for answer in answers]) for i in range(3))
    print(describe_machine())
    print(f"{given.count} questions for {given.ask}, {given.scheme}, seed {given.seed}")
    for limit in (WIDE, VERY_WIDE):
        print(f"wider than {limit:g}: {100 * np.mean(widths > limit):.1f} %")
    for limit in (SLOW, VERY_SLOW):
        print(f"over {1000 * limit:g} ms: {100 * np.mean(seconds > limit):.1f} %")
    print(
        f"median {1000 * np.median(seconds):.2f} ms, slowest {seconds.max():.2f} s, all {seconds.sum():.1f} s"
    )
    if quotients.any():
        middle, high = np.percentile(quotients[quotients > 0.0], (50, 90))
        print(f"times epsilon's time: {middle:.1f}, of a tenth more than {high:.1f}")
    for title, order in (("slowest", -seconds), ("widest", -widths)):
        print(title)
        for i in np.argsort(order)[:8]:
            shown = ", ".join(f"{name} {value:.5g}" for name, value in answers[i].question.items())
            print(f"  {answers[i].seconds:.2f} s, width {answers[i].width:.1e}: {shown}")


if __name__ == "__main__":
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    main(sys.argv[1:])
