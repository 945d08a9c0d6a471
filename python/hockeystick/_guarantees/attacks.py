"""Error rates of attacks, from a privacy curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hockeystick._arguments import Floats

SMALL_DELTA = 1e-9
"""Delta of the largest epsilon whose tangent is drawn."""

LARGEST_SLOPE = 12.0
"""Slopes of exp(12) and more matter for false positive rates below 1e-5 alone."""

TANGENTS = 100
"""Lines whose maximum bounds the trade-off function; more lines move it by less than a line's width."""


class Attacks(NamedTuple):
    """Error rates that attacks can have."""

    false_negative_rates: Callable[[Floats], Floats]
    """Lower bound on the false negative rate at false positive rates."""
    advantage: float
    """Upper bound on the largest difference of true and false positive rate."""


def error_rates(deltas: Callable[[Floats], Floats], largest: float) -> Attacks:
    """Bounds on error rates of attacks, from a privacy curve that holds in both directions.

    Each (epsilon, delta) bounds the trade-off function from below by two lines (Wasserman and Zhou 2010), so
    that the largest of them is a lower bound, whichever points are taken. This is much faster than the
    trade-off function itself and differs from it by less than the width of a plotted line.

    Parameters
    ----------
    deltas : callable
        Upper bounds on delta at an array of epsilons, shape (m,) to shape (m,).
    largest : float
        Epsilon at a small delta, where the points end.

    References
    ----------
    L. Wasserman and S. Zhou, "A Statistical Framework for Differential Privacy", Journal of the American
    Statistical Association 105(489), 2010. arXiv:0811.2501
    """
    top = min(LARGEST_SLOPE, largest) if largest > 0.0 else 1.0
    epsilons = top * np.linspace(0.0, 1.0, TANGENTS) ** 1.5
    values = deltas(epsilons)[:, np.newaxis]
    slopes = np.exp(epsilons)[:, np.newaxis]

    def false_negative_rates(rates: Floats) -> Floats:
        steep, flat = 1.0 - values - slopes * rates, (1.0 - values - rates) / slopes
        found: Floats = np.maximum(steep, flat).max(axis=0)
        return np.clip(found, 0.0, 1.0 - rates)

    return Attacks(false_negative_rates, float(values[0, 0]))
