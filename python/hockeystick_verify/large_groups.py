"""Large groups (V24): shifts that hardly ever occur are left out and accounted for, and norms are rounded.

Of a large group few members are in one batch, but the largest shift decides how close nodes have to be.
Members with norms of their own have many different sums, unless their norms are multiples of one number.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from flint import arb, ctx

from hockeystick_verify.checker import (
    LARGEST_GROUP,
    Composition,
    Law,
    NotProvenError,
    Object,
    Pair,
    items,
    number,
)
from hockeystick_verify.variants import composition

LARGEST_SHIFT = 1e6
"""Largest bound on the shifts that are kept: a limit on what is read."""


class Shortened(NamedTuple):
    """A run whose laws have fewer shifts, and what that changes."""

    run: Composition
    lost: arb
    """Probability that P loses in all steps together, at most."""
    of_p_only: bool
    """Whether every Q is as it was, so that delta of the shorter run is no larger."""

    def enclosed(self, delta: arb) -> arb:
        """Enclose delta of the whole run by that of the shorter one (V24)."""
        least = delta if self.of_p_only else arb(0)
        return least.union(delta + self.lost)


def up_to(law: Law | None, largest: Fraction) -> tuple[Law | None, arb]:
    """Return a law without shifts above the largest one, and the probability that it loses."""
    if law is None:
        return None, arb(0)
    kept = {shift: weight for shift, weight in law.items() if shift <= largest}
    if len(kept) < 2:
        raise NotProvenError("V24: a law must keep two shifts")
    return kept, sum((weight for shift, weight in law.items() if shift > largest), arb(0))


def shortened(run: Composition, witness: Object) -> Shortened:
    """Leave out shifts above those that the witness gives, one for each kind of step; none without them."""
    if "largest_shifts" not in witness:
        return Shortened(run, arb(0), True)
    kinds, lost, of_p_only = [], arb(0), True
    given = items(witness["largest_shifts"], "largest_shifts", len(run.kinds), len(run.kinds))
    for value, (pair, count) in zip(given, run.kinds, strict=True):
        number(value, "a largest shift", 0.0, LARGEST_SHIFT)
        (p, missing), (q, _) = (up_to(law, Fraction(value)) for law in (pair.p, pair.q))
        kinds.append((Pair(pair.sigma, p, q), count))
        lost += count * missing
        of_p_only = of_p_only and len(q or ()) == len(pair.q or ())
    return Shortened(Composition(kinds, run.mu_squared), lost, of_p_only)


# ---------------------------------------------------------------- norms that are multiples of one number


def rounded(norm: Any, unit: Fraction, upwards: bool) -> float:
    """Return the next multiple of a unit, not below a norm or not above it."""
    number(norm, "a norm", 0.0, 1.0)
    places = Fraction(norm) / unit
    multiple = (math.ceil(places) if upwards else math.floor(places)) * unit
    if Fraction(float(multiple)) != multiple:
        raise NotProvenError("V24: the multiples of a unit must be doubles")
    return float(multiple)


def with_rounded_norms(run: Object, witness: Object, upwards: bool) -> Object:
    """Return the run with norms that are multiples of the witness's units, which are for down and up."""
    if "norm_units" not in witness:
        return run
    units = items(witness["norm_units"], "norm_units", 2, 2)
    for each in units:
        number(each, "a unit of norms", 1e-6, 1.0)
    unit, steps = Fraction(units[upwards]), []
    for step in run["steps"]:
        group = step["group"]
        if isinstance(group, dict) and group.get("norms") is not None:
            norms = items(group["norms"], "norms", 1, LARGEST_GROUP)
            group = {**group, "norms": [rounded(norm, unit, upwards) for norm in norms]}
        steps.append({**step, "group": group})
    return {**run, "steps": steps}


def composition_of(run: Object, direction: str, witness: Object) -> Composition:
    """Return the pairs of a run, with norms that are rounded as the witness says."""
    rounded_run = with_rounded_norms(run, witness, not witness.get("downwards", False))
    return known_composition(json.dumps([rounded_run, direction]), ctx.prec)


@lru_cache(maxsize=8)
def known_composition(text: str, _precision: int) -> Composition:
    """Return the pairs of a run; the last ones are kept, as the parts of a proof ask for them in turn."""
    return composition(*json.loads(text))
