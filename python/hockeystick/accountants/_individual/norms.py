"""Norms that users pass: checked, and named where they are bad."""

from __future__ import annotations

import numpy as np

from hockeystick._arguments import Floats

MAX_NAMED = 5
"""Bad norms that an error names."""


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
