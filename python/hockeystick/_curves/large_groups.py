"""Which shifts of a large group a certificate leaves out: few members are in one batch.

Nothing here is proven, as in `hockeystick._curves.witness`; V24 of docs/theory/certificates.md is the bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hockeystick._curves.witness import ENOUGH, MOST_WORK, Kind, Witness

if TYPE_CHECKING:
    from hockeystick._arguments import Floats

MANY = 64
"""Shifts of a law above which no witness with all of them is looked for, where that is not needed: the search
takes a second for 64, and 50 seconds for 256, as it computes all losses."""
PART = 1.0 / 16.0
"""Part of the tolerance that the shifts which are left out may take."""

Law = tuple["Floats", "Floats"]


class Cut(NamedTuple):
    """Kinds of steps with fewer shifts, and the largest that each keeps."""

    kinds: list[Kind]
    largest: list[float]


def cut(kinds: list[Kind], log_delta: float, tolerance: float) -> Cut | None:
    """Leave out shifts that hardly matter at a delta, or return None if all do."""
    level = math.log(PART * tolerance / len(kinds))
    found = Cut([], [])
    for kind in kinds:
        # What P loses counts in full; Q is to be the same at every output that matters, in all steps.
        deviations = math.sqrt(-2.0 * (level + log_delta)) + 1.0
        kept = [
            _needed_of_p(kind.p, level + log_delta - math.log(kind.steps)),
            _needed_of_q(kind.q, level - math.log(kind.steps), deviations / kind.sigma, kind.sigma),
        ]
        shifts = [law[1] for law in (kind.p, kind.q) if law is not None]
        largest = max(float(s[n - 1]) for s, n in zip(shifts, [n for n in kept if n], strict=True))
        above = [float(each) for s in shifts for each in s if each > largest]
        laws = [None if law is None else _up_to(law, largest) for law in (kind.p, kind.q)]
        found.kinds.append(Kind(kind.sigma, laws[0], laws[1], kind.steps))
        found.largest.append((largest + min(above)) / 2.0 if above else largest)
    return None if all(a.largest == b.largest for a, b in zip(kinds, found.kinds, strict=True)) else found


def _up_to(law: Law, largest: float) -> Law:
    keep = law[1] <= largest
    return law[0][keep], law[1][keep]


def _needed_of_p(law: Law | None, level: float) -> int:
    """Shifts whose tail is above a level; at least two."""
    if law is None:
        return 0
    tails = np.logaddexp.accumulate(law[0][::-1])[::-1]
    return max(2, int((tails > level).sum()))


def _needed_of_q(law: Law | None, level: float, reach: float, sigma: float) -> int:
    """Shifts that add more than a part to the likelihood ratio somewhere up to so many units of the noise."""
    if law is None:
        return 0
    weights, shifts = law
    outputs = np.linspace(-1.0, 1.0, 33) * reach
    terms = weights - shifts**2 / (2 * sigma**2) + np.multiply.outer(outputs, shifts)
    tails = np.logaddexp.accumulate(terms[:, ::-1], axis=1)[:, ::-1]
    return max(2, int((tails - tails[:, :1] > level).any(axis=0).sum()))


class Proof(NamedTuple):
    """A witness about one ordered pair."""

    witness: dict[str, Any]
    cost: float
    """In products; the checker refuses more than 1e8."""
    tilt: float
    is_sharp: bool
    """Whether it proves a lower end too."""


def witness_on_a_line(
    kinds: list[Kind], mu_squared: float, at: tuple[float, float], tolerance: float, *, guarantee: bool
) -> Proof:
    """Look for the cheapest proof about one ordered pair, with all shifts or without the largest.

    Parameters
    ----------
    kinds, mu_squared
        As `described_run.laws` returns them.
    at : tuple of float
        Epsilon, and the logarithm of delta.
    tolerance : float
        Relative width of the interval to be proven.
    guarantee : bool
        Whether the upper end is all that is needed of this pair. Where shifts of Q are left out, there is no
        other one.
    """
    short = cut(kinds, at[1], tolerance)
    free = short is not None and (guarantee or all(kind.q is None for kind in kinds))
    most = max(len(law[1]) for kind in kinds for law in (kind.p, kind.q) if law is not None)
    if short is not None and free and most > MANY:
        return _shortened(kinds, short, mu_squared, at, tolerance)
    search = Witness(kinds, mu_squared, *at, tolerance)
    cost, witness = search.find()
    best = Proof(witness, cost, search.tilt, True)
    if short is None or cost <= (ENOUGH if free else MOST_WORK):
        return best
    return min(best, _shortened(kinds, short, mu_squared, at, tolerance), key=lambda proof: proof.cost)


def _shortened(
    kinds: list[Kind], short: Cut, mu_squared: float, at: tuple[float, float], tolerance: float
) -> Proof:
    search = Witness(short.kinds, mu_squared, *at, tolerance)
    cost, witness = search.find()
    sharp = all(_keeps(a.q, b.q) for a, b in zip(kinds, short.kinds, strict=True))
    return Proof({**witness, "largest_shifts": short.largest}, cost, search.tilt, sharp)


def _keeps(law: Law | None, other: Law | None) -> bool:
    return law is None or other is None or len(law[1]) == len(other[1])
