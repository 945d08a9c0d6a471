"""Numbers as text: on the safe side, and with their nouns."""

from __future__ import annotations

import math


def rounded_up(value: float, digits: int = 5) -> str:
    """`value` >= 0 in `digits` significant digits, which are no smaller than it."""
    return _rounded(value, digits, 1)


def rounded_down(value: float, digits: int = 5) -> str:
    """`value` >= 0 in `digits` significant digits, which are no larger than it."""
    return _rounded(value, digits, -1)


def percent_up(share: float) -> str:
    """Return a share in [0, 1] as a percentage of three digits, rounded up, at most 100."""
    return f"{min(100.0, float(rounded_up(100.0 * share, 3))):g} %"


def steps_in_words(count: int) -> str:
    """Return "1 step" or "7 steps"."""
    return f"{count} step{'' if count == 1 else 's'}"


def _rounded(value: float, digits: int, side: int) -> str:
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    shown = f"{value:.{digits}g}"
    if (float(shown) - value) * side >= 0.0:
        return shown
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return f"{float(shown) + side * unit:.{digits}g}"
