"""Norms that users pass: checked, and named where they are bad."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from hockeystick._arguments import Floats

MAX_NAMED = 5
"""Bad norms that an error names."""

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
"""Smallest float with all of its digits."""

FloatOrArray = TypeVar("FloatOrArray", float, Floats)


def check_norms(values: Floats) -> Floats:
    """Return `values`, which must be finite and at least zero."""
    good = (values >= 0.0) & np.isfinite(values)
    if not np.all(good):
        bad = np.flatnonzero(~good)
        named = ", ".join(f"{values[i]} at index {i}" for i in bad[:MAX_NAMED])
        more = f" and {len(bad) - MAX_NAMED} more" if len(bad) > MAX_NAMED else ""
        raise ValueError(f"norms must be finite and at least 0, got {named}{more}")
    return values


def rounded_up(values: Floats, unit: float) -> Floats:
    """Return the next multiples of `unit`, never below `values`."""
    multiples = np.ceil(values / unit) * unit
    # Divided and multiplied again, a number may come out below itself.
    return np.where(multiples < values, multiples + unit, multiples)


def quotients_rounded_up(values: Floats, divisor: float) -> Floats:
    """Return `values`, at least zero, over a positive `divisor`: rounded up, but for exact quotients."""
    numerators, powers = np.frexp(values)
    denominator, power = math.frexp(divisor)
    quotients = numerators / denominator
    # By Dekker's product, product + error is quotients * denominator. What a quotient that was rounded to the
    # nearest float leaves is a float, so that nothing here is rounded.
    product = quotients * denominator
    (high, low), (head, tail) = _halves(quotients), _halves(denominator)
    error = ((high * head - product) + high * tail + low * head) + low * tail
    remainder = (numerators - product) - error
    quotients = np.where(remainder > 0.0, np.nextafter(quotients, np.inf), quotients)
    found: Floats = np.ldexp(quotients, powers - power)
    # Smaller numbers lose digits, or all.
    loses_digits = (found < SMALLEST_NORMAL) & (values > 0.0)
    return np.where(loses_digits, np.nextafter(found, np.inf), found)


def _halves(values: FloatOrArray) -> tuple[FloatOrArray, FloatOrArray]:
    """Split numbers of moderate size into sums of two with half the digits (Veltkamp)."""
    large = (2.0**27 + 1.0) * values
    high = large - (large - values)
    return high, values - high
