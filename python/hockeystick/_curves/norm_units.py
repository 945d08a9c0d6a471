"""A number of which the norms of a group are multiples, so that their sums are few; for certificates (V24).

Norms such as 0.35 are no exact multiples of 0.01 in binary, and a group of forty would have 2^40 sums.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

FEW = 6
"""Members up to which all sums are taken one by one: 64, each of which costs the checker an exponential."""
SOME = 11
"""Members up to which that is done too if norms have no unit: 2,048 sums. Of more, norms are rounded."""
MOST_MULTIPLES = 16_000
"""Most multiples of the unit in the sum of all norms; the checker takes 20,000 sums."""
SAME = 1e-9
"""Norms closer than this to multiples, relative to the largest, are meant to be such."""
DIGITS = 52
"""Bits of a double: a multiple has those of the unit, and those of how many times it is taken. With more,
rounded multiples are no multiples any more, and certificates take five times as long."""
TINY_SHIFT = 2.0**-9
"""The shift of a sampled step, in units of the noise, below which a witness on a line is checked too: most
for shifts below a thousandth were too coarse."""


class Units(NamedTuple):
    """Units for rounding norms down, and for rounding them up."""

    down: float
    up: float
    is_rough: bool
    """Whether norms move by more than their last digits."""


def units_of(run: dict[str, Any]) -> Units | None:
    """Return the units of the norms of a described run, or None if their sums are few without."""
    groups = [
        step["group"]["norms"] * step["sampling"].get("microbatches", 1)
        for step in run["steps"]
        if "norms" in step["group"] and step["group"].get("gradients", "aligned") == "aligned"
    ]
    if all(len(set(norms)) == 1 or len(norms) <= FEW for norms in groups):
        return None
    norms = [norm for group in groups for norm in group]
    total = max(sum(group) for group in groups)
    exact = _greatest_divisor([Fraction(norm) for norm in norms])
    if total <= MOST_MULTIPLES * exact:
        return None
    unit = _unit_of_doubles(norms)
    rough = total > MOST_MULTIPLES * unit
    if rough and all(len(norms) <= SOME for norms in groups):
        return None
    if rough:
        unit = total / MOST_MULTIPLES
    bits = DIGITS - 1 - math.ceil(math.log2(max(norms) / unit + 1.0))
    scale = math.ldexp(1.0, bits - math.frexp(unit)[1])
    return Units(math.floor(unit * scale) / scale, math.ceil(unit * scale) / scale, rough)


def _greatest_divisor(values: list[Fraction]) -> Fraction:
    common = math.lcm(*(value.denominator for value in values))
    return Fraction(math.gcd(*(int(value * common) for value in values)), common)


def _unit_of_doubles(norms: list[float]) -> float:
    """Greatest number of which all norms are multiples up to rounding, by Euclid's algorithm."""
    unit, largest = 0.0, max(norms)
    for norm in norms:
        rest = norm
        while rest > SAME * largest:
            unit, rest = rest, abs(unit - rest * round(unit / rest))
    places = [round(norm / unit) for norm in norms]
    # The last steps of Euclid's algorithm have lost digits; the mean of all norms has not.
    return sum(norms) / sum(places) if sum(places) else unit


def with_units(run: dict[str, Any], units: Units | None) -> dict[str, Any]:
    """Return the run with norms that are rounded up to multiples."""
    if units is None:
        return run
    steps = []
    for step in run["steps"]:
        group = dict(step["group"])
        if "norms" in group:
            unit = Fraction(units.up)
            group["norms"] = [float(math.ceil(Fraction(norm) / unit) * unit) for norm in group["norms"]]
        steps.append({**step, "group": group})
    return {**run, "steps": steps}


def in_units(run: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run with norms rounded up to multiples, if they are rounded, and the entry of a witness."""
    units = units_of(run)
    return with_units(run, units), {} if units is None else {"norm_units": [units.down, units.up]}


def has_tiny_shifts(run: dict[str, Any]) -> bool:
    """Whether a record moves the sum of some sampled batch by next to nothing."""
    for step in run["steps"]:
        noise = step["mechanism"].get("noise_multiplier", 0.0)
        norms = [norm for norm in step["group"].get("norms", [1.0]) if norm > 0.0]
        if step["sampling"]["name"] != "full_batch" and norms and min(norms) < TINY_SHIFT * noise:
            return True
    return False
