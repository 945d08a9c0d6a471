"""Maxima over the patterns in which a record can take part: sets of steps that keep a distance."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Floats
from hockeystick._factorization.rounding import error_of

MOST_PATTERNS = 20_000
"""Most patterns that are enumerated; twice as many take twice the time (a second at 20 participations)."""

_ROWS_AT_ONCE = 256
"""Rows whose sums are computed together, so that memory is bounded: 8 MB for 4,096 steps. Fewer make more
calls of NumPy, and more take more memory."""


def most_participations(steps: int, separation: int, at_most: int | None) -> int:
    """How often a record can take part in so many steps."""
    possible = -(-steps // separation)
    return possible if at_most is None else min(at_most, possible)


def count_of_patterns(steps: int, separation: int, participations: int) -> int:
    """Return number of sets of so many steps, any two of which differ by `separation` or more."""
    return math.comb(steps - (participations - 1) * (separation - 1), participations)


def all_patterns(steps: int, separation: int, participations: int) -> NDArray[np.int64]:
    """Every such set, one a row, in increasing order."""
    room = steps - (participations - 1) * (separation - 1)
    chosen = np.array(list(itertools.combinations(range(room), participations)), dtype=np.int64)
    return chosen + np.arange(participations) * (separation - 1)


def largest_sums(weights: Floats, separation: int, participations: int) -> Floats:
    """For each row of non-negative weights the largest sum over a pattern, rounded up.

    Dynamic programming: with j further participations the best of the entries from t on is that from t + 1
    on, or the entry t and the best of j - 1 from t + separation on.
    """
    rows, steps = weights.shape
    found = np.empty(rows)
    for start in range(0, rows, _ROWS_AT_ONCE):
        block = weights[start : start + _ROWS_AT_ONCE]
        best = np.zeros((block.shape[0], steps + separation))
        for _ in range(participations):
            best[:, :steps] = block + best[:, separation:]
            best = np.maximum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
        found[start : start + _ROWS_AT_ONCE] = best[:, 0]
    return found * (1.0 + error_of(participations + 1.0))


def largest_sum(weights: Floats, separation: int, participations: int) -> tuple[float, float]:
    """Both ends of the largest sum of non-negative weights over a pattern."""
    upper = float(largest_sums(weights[None, :], separation, participations)[0])
    return upper * (1.0 - 2.0 * error_of(participations + 1.0)), upper
