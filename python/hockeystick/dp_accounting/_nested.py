"""Samples of samples."""

from __future__ import annotations

import math
from fractions import Fraction


def rate_of_both(outer: float, inner: float) -> float:
    """Rate of a Poisson sample of a Poisson sample, rounded up.

    A record is in it if two independent coins say so, and coins of different records are independent: it has
    the law of one Poisson sample (docs/theory/known-curves.md, statement 6).
    """
    rate = outer * inner
    exact = Fraction(outer) * Fraction(inner)
    return rate if Fraction(rate) >= exact else min(1.0, math.nextafter(rate, 1.0))
