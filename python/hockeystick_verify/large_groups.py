"""Large groups of which few members are in one batch (V24): large shifts are left out, and accounted for."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from flint import arb

from hockeystick_verify.checker import Composition, Law, NotProvenError, Object, Pair, items, number

LARGEST_SHIFT = 1e6


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
