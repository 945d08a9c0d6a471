"""The guarantee of shuffled batches: the upper end of their interval, as a trade-off function of the core.

It holds even if the adversary knows every batch (docs/theory/shuffling-interval.md, Theorem 4): a run is
then N(0, 1) against N(cs/σ, 1), with the law of c², the sum of the squared numbers of members in a batch, and
s clipping norms by which one of them moves a sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Counts, Floats, require
from hockeystick._curves.renyi_readouts import GaussianMixture, divergence_of_mixture
from hockeystick._vocabulary.sampling import Shuffle

SENSITIVITY = {"zero_out": 1.0, "replace": 2.0}
"""Clipping norms by which a member moves the sum of its batch, by adjacency."""

LEAST_NOISE = 1e-290
"""Noise multipliers below count as that: distances in standard deviations would overflow."""

Steps = tuple[tuple[float, int], ...]
"""Noise multipliers and numbers of batches, in the order of the run."""


class Law(NamedTuple):
    """Law of c² of a part of a run: values, their probabilities, and what bounds the rest."""

    squares: Counts
    probabilities: Floats
    left_out: float
    rounding: float
    largest: int


def epochs_by_noise(steps: Steps, rounds: int) -> dict[float, tuple[int, int]]:
    """Whole epochs and rounds of the last one by noise multiplier; an epoch has the smallest of its steps."""
    whole: dict[float, int] = {}
    done, least = 0, math.inf
    for noise, count in steps:
        left = count
        if done > 0:
            taken = min(left, rounds - done)
            done, left, least = done + taken, left - taken, min(least, noise)
            if done == rounds:
                whole[least] = whole.get(least, 0) + 1
                done, least = 0, math.inf
        if left >= rounds:
            whole[noise] = whole.get(noise, 0) + left // rounds
            left %= rounds
        if left > 0:
            done, least = left, noise
    blocks = {noise: (epochs, 0) for noise, epochs in whole.items()}
    if done > 0:
        blocks[least] = (whole.get(least, 0), done)
    return blocks


def mixture(parts: Iterable[tuple[Law, float]], sensitivity: float) -> _core.TradeoffCurve:
    """Composition of independent parts of a run, each with its law of c² and its noise multiplier."""
    whole = _core.TradeoffCurve.gaussian(0.0)
    for law, noise in parts:
        part = _core.TradeoffCurve.mixture(
            sensitivity * np.sqrt(law.squares.astype(np.float64)) / noise,
            law.probabilities,
            law.left_out,
            law.rounding,
            sensitivity * math.sqrt(law.largest) / noise,
        )
        whole = whole.compose(part)
    return whole


def law_of(sampling: Shuffle, group_size: int, epochs: int, rounds: int) -> Law:
    """Law of c² over whole epochs and the first rounds of another; the largest value where it is too long.

    A law of one value that is never below the truth is one too: it leaks no less.
    """
    size, batch = sampling.dataset_size, sampling.batch_size
    largest = (epochs + (rounds > 0)) * group_size * min(group_size, batch)
    require(largest < 2**63, "steps", f"some of {epochs} epochs", "so few that c² stays below 2**63")
    try:
        found = _core.membership_law("shuffle", size, batch, batch, group_size, epochs, rounds)
    except ValueError:  # too many terms
        return Law(np.array([largest], dtype=np.int64), np.ones(1), 0.0, 0.0, largest)
    return Law(*found, largest)


def divergence(order: float, sampling: Shuffle, steps: Steps, group_size: int, adjacency: str) -> float:
    """Upper bound on the Rényi divergence of an order: of N(cs/σ, 1) against N(0, 1), where c is known.

    That pair is symmetric, so that both orders of the data sets have the same divergence.
    """
    if any(noise == 0.0 for noise, _ in steps):
        return math.inf
    blocks = epochs_by_noise(steps, sampling.dataset_size // sampling.batch_size)
    found = []
    for noise, counts in blocks.items():
        law = law_of(sampling, group_size, *counts)
        distance = SENSITIVITY[adjacency] / max(noise, LEAST_NOISE)
        square = distance * distance
        squares = law.squares.astype(np.float64) * square
        largest = law.largest * square
        mixture_law = GaussianMixture(squares, law.probabilities, law.left_out, law.rounding + 1e-14, largest)
        found.append(divergence_of_mixture(order, mixture_law))
    return math.fsum(found) * (1.0 + 1e-12)


def upper_curve(sampling: Shuffle, steps: Steps, group_size: int, adjacency: str) -> _core.TradeoffCurve:
    """Trade-off function below which no attack on the run gets."""
    if any(noise == 0.0 for noise, _ in steps):
        return _core.TradeoffCurve.epsilon_delta(0.0, 1.0)
    blocks = epochs_by_noise(steps, sampling.dataset_size // sampling.batch_size)
    parts = [
        (law_of(sampling, group_size, *counts), max(noise, LEAST_NOISE)) for noise, counts in blocks.items()
    ]
    return mixture(parts, SENSITIVITY[adjacency])
