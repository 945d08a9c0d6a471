"""Where the curve of dealt batches is, about, if the certified interval is wide: far in the tail.

Nothing here is certified: the checker proves what is claimed with these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._curves.tilted_witness import LARGEST_ORDER, RunInDoubles
from hockeystick.errors import UnsupportedError

WIDE = 1e-4
"""Width of an interval for epsilon, relative to its upper end, from which on a number inside it is sought."""
NOT_KNOWN = 0.5
"""Part of the upper end of delta that its lower end must have, or delta is estimated."""
TILTS = np.geomspace(0.02, LARGEST_ORDER - 1.0, 120)
ROUNDS, CLOSE = 8, 1e-10
"""Most steps of Newton's method, and how close delta has to be to its level, relatively."""


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


def root(bounds: Callable[[list[float]], list[tuple[float, float]]], start: float, level: float) -> float:
    """Return where what is proven of delta has a level, by Newton's method for its logarithm.

    Raises
    ------
    UnsupportedError
        If it is not found.
    """
    epsilon = start
    for _ in range(ROUNDS):
        (_, here), (_, next_to) = bounds([epsilon, epsilon * (1 + 1e-6) + 1e-6])
        slope = (math.log(here) - math.log(next_to)) / (epsilon * 1e-6 + 1e-6)
        if slope <= 0.0:
            break
        step = math.log(here / level) / slope
        epsilon = max(0.0, epsilon + step)
        if abs(step) * slope < CLOSE:
            return epsilon
    raise UnsupportedError(
        "no epsilon was found where what is proven of delta has the level that is asked for"
    )
