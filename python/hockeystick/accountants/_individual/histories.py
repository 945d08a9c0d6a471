"""Epsilon of single examples from the history of their norms, where their accounts are not exact."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hockeystick import _core
from hockeystick._arguments import Floats
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._vocabulary.sampling import Poisson, WithoutReplacement
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick.accountants._individual.accounts import of_single_batches, shifts_of
from hockeystick.accountants._individual.norm_history import NormHistory, StepParameters
from hockeystick.errors import WideIntervalWarning
from hockeystick.kernels import accumulate_rdp, rdp_to_epsilon

EXACT_WIDTH = 1e-9
"""Relative width of an interval below which its upper end counts as exact."""

CERTIFIED_WIDTH = 1e-6
"""Relative width that counts as exact for examples of few steps; wider ones are not computed again."""

SMALLEST_TOLERANCE = 1e-9
"""Relative width of intervals for single examples."""

MAX_CURVES = 128
"""Different norms that `history_epsilon` makes curves of."""

ORDERS = 1.0 + np.geomspace(0.05, 500.0, 96)
"""Rényi orders of what is not exact."""


def is_wide(lower: Floats, upper: Floats, width: float = EXACT_WIDTH) -> NDArray[np.bool_]:
    """Tell which intervals are wide, as those are of which nothing is known, up to infinity."""
    return np.isinf(upper) | (upper - lower > width * upper)


def history_epsilon(history: NormHistory, places: NDArray[np.int64], delta: float) -> Floats:
    """Epsilon of the examples at `places` from what their norms were.

    Exact wherever that can be certified, in closed form after a single step. Of many examples with different
    histories, some may be left open after a few steps: for norms that never changed they are the exact
    engine's, with some of more than `MAX_CURVES` different norms rounded up to others, else Rényi bounds.
    """
    steps = []
    for norms, counts in history:
        for (noise, draw), count in counts.items():
            single_noise, single_draw, singles = of_single_batches(noise, draw, count)
            shifts, largest, rate = shifts_of(norms[places], single_draw)
            steps.append((shifts, largest, single_noise, rate, float(singles)))
    lower, upper = _core.epsilons_of_histories(len(places), steps, delta)
    wide = np.flatnonzero(is_wide(lower, upper, CERTIFIED_WIDTH))
    if wide.size:
        upper[wide] = np.minimum(upper[wide], _uncertified_epsilon(history, places[wide], delta))
    return upper


def _uncertified_epsilon(history: NormHistory, places: NDArray[np.int64], delta: float) -> Floats:
    if len(history) == 1:
        ((norms, steps),) = history
        return _same_norm_epsilon(norms[places], steps, delta)
    rdp = np.zeros((len(places), len(ORDERS)))
    for norms, steps in history:
        for (noise, draw), count in steps.items():
            single_noise, single_draw, singles = of_single_batches(noise, draw, count)
            shifts, _, rate = shifts_of(norms[places], single_draw)
            accumulate_rdp(rdp, shifts, ORDERS, single_noise, rate, steps=singles)
    return np.asarray(rdp_to_epsilon(ORDERS, rdp, delta))


def _same_norm_epsilon(norms: Floats, steps: Mapping[StepParameters, int], delta: float) -> Floats:
    levels = np.unique(norms)
    if len(levels) > MAX_CURVES:
        levels = levels[np.linspace(0, len(levels) - 1, MAX_CURVES).round().astype(np.int64)]
    found = np.array([_of_norm(float(norm), steps, delta) for norm in levels])
    return np.asarray(found[np.searchsorted(levels, norms)])


def _of_norm(norm: float, steps: Mapping[StepParameters, int], delta: float) -> float:
    # Noise a thousand billion billion times as large hides everything, and is a number.
    norm = max(norm, 1e-21)
    kinds: dict[StepKind, int] = {}
    for (noise, draw), count in steps.items():
        if isinstance(draw, WithoutReplacement):
            # The pair has shift 2 for the full norm.
            relative = Fraction(noise) * 2 / (1 + Fraction(norm))
            kind, _ = step_kind(noise_multiplier=_rounded_down(relative), sampling=draw)
        else:
            sampling = Poisson(draw) if isinstance(draw, float) else draw
            relative = Fraction(noise) / Fraction(norm)
            kind, _ = step_kind(noise_multiplier=_rounded_down(relative), sampling=sampling)
        kinds[kind] = kinds.get(kind, 0) + count
    return _closely(kinds, delta)


def _rounded_down(noise: Fraction) -> float:
    """Return the largest float that is not above `noise`: less noise reveals no less."""
    found = float(min(noise, Fraction(sys.float_info.max)))
    return found if Fraction(found) <= noise else math.nextafter(found, 0.0)


def _closely(kinds: dict[StepKind, int], delta: float) -> float:
    """Epsilon as closely as can be: what is not close is an upper bound nevertheless."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WideIntervalWarning)
        return float(PrivacyCurve(kinds, "add_remove", SMALLEST_TOLERANCE).epsilon(delta))
