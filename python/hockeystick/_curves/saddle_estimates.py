"""Where the curve of dealt batches is, about, if the certified interval is wide: far in the tail.

Nothing here is certified: the checker proves what is claimed with these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._curves.tilted_witness import LARGEST_MOMENT, RunInDoubles
from hockeystick.errors import UnsupportedError

WIDE = 2e-6
"""Width of an interval for epsilon, relative to its upper end, from which on a number inside it is sought."""
NOT_KNOWN = 0.5
"""Part of the upper end of delta that its lower end must have, or delta is estimated."""
TILTS = np.concatenate([np.geomspace(0.02, 20.0, 80), np.arange(21.0, LARGEST_MOMENT - 2.0)])
"""Whole ones where the height may have a kink, between what all batches add and what a single one does."""
ROUNDS, RENEWALS, CLOSE = 60, 4, 1e-10
"""Most steps, new witnesses, and how close delta has to be to its level, relatively."""


class _Saddle:
    """Logarithm of delta of one ordered pair by the saddle-point approximation, to some percent of delta."""

    def __init__(self, run: dict[str, Any], direction: str) -> None:
        found = RunInDoubles(run, direction)
        self.heights = np.array([found.cumulant(float(tilt)) for tilt in TILTS])
        self.heights -= np.log(TILTS * (1 + TILTS))
        self.curvatures = np.gradient(np.gradient(self.heights, TILTS), TILTS)

    def log_delta(self, epsilon: float) -> float:
        """Logarithm of delta at an epsilon."""
        heights: Floats = self.heights - TILTS * epsilon
        place = int(heights.argmin())
        return float(heights[place]) - 0.5 * math.log(2 * math.pi * max(float(self.curvatures[place]), 1e-12))


def estimated(
    run: dict[str, Any], ways: Sequence[str], ends: tuple[float, float], deltas: tuple[float, float]
) -> tuple[float, float, float] | None:
    """Return epsilons below and above, and delta, in place of an interval that is wide; None if it is not.

    Parameters
    ----------
    run : dict
        A plain run, as the checker reads it.
    ways : sequence of str
        Its ordered pairs.
    ends : tuple of float
        Interval of epsilon; a point where delta is asked for.
    deltas : tuple of float
        Interval of delta; a point where epsilon is asked for.
    """
    (low, high), (least, level) = ends, deltas
    wide = high - low > WIDE * high if low < high else least < NOT_KNOWN * level
    if not wide or level <= 0.0:
        return None
    saddles = [_Saddle(run, way) for way in ways]

    def log_delta(epsilon: float) -> float:
        return max(each.log_delta(epsilon) for each in saddles)

    if low == high:
        return low, high, math.exp(max(min(math.log(level), log_delta(high) + 0.5), -690.0))
    target = math.log(level)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle) > target else (low, middle)
    return high, high, level


def root(
    bounds: Callable[[list[float]], list[tuple[float, float]]],
    renew: Callable[[float, float], None],
    ends: tuple[float, float],
    level: float,
) -> float:
    """Return where what is proven of delta has a level, by Newton's method within a bracket.

    Where the proven interval of delta is wide, as far from the epsilon of the witness, the bracket is halved,
    after the witness is renewed if it does not say on which side the level is.

    Raises
    ------
    UnsupportedError
        If it is not found.
    """
    low, high = ends
    epsilon, renewals = high, RENEWALS
    for _ in range(ROUNDS):
        (least, here), (_, next_to) = bounds([epsilon, epsilon * (1 + 1e-6) + 1e-6])
        if least < level < here and least < 0.5 * here and renewals:
            renew(epsilon, level)
            renewals -= 1
            continue
        low, high = (epsilon, high) if here > level else (low, epsilon)
        slope = (math.log(here) - math.log(max(next_to, 1e-320))) / (epsilon * 1e-6 + 1e-6)
        if least > 0.5 * here and slope > 0.0:
            step = math.log(here / level) / slope
            if abs(step) * slope < CLOSE:
                return epsilon
            high = max(high, epsilon + 2.0 * step) if step > 0.0 else high
            epsilon = max(low, epsilon + step)
        else:
            epsilon = (low + high) / 2
    raise UnsupportedError(
        "no epsilon was found where what is proven of delta has the level that is asked for"
    )
