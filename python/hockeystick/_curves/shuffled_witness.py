"""Numbers that make the proof of a certificate of shuffled batches short: the law of the members in batches.

Nothing here is proven, as in `hockeystick._curves.witness`. The laws are those of the checker, in doubles.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._extras import needed
from hockeystick._vocabulary.sampling import Shuffle
from hockeystick.errors import UnsupportedError

NEGLIGIBLE = 1e-13
"""Part of delta that members in batches may have whose law is not listed."""
FINE_VALUES, MOST_VALUES = 20_000, 40_000
"""Places of the law where noise differs between epochs, and most of them: the checker takes a second or two
for each point of the curve."""
LARGEST_KINDS = 64
"""Different noise multipliers of a run: a limit of the checker."""
LEAST_NOISE, MOST_NOISE = 1e-3, 1e9
"""Limits of the checker."""
TILTS = np.geomspace(1e-9, 1e3, 241)
"""Tilts of Chernoff's bounds on members in batches, 12 % apart: a bound near its least is flat. The squares
that they belong to differ by many orders of magnitude between runs."""
SPARE_BITS = 64
"""Bits beyond those of a delta and 96 more, for what sums and transforms lose. With fewer, a proof of a small
delta can fail; with more, all products take longer."""


def described_shuffled(
    sampling: Shuffle, segments: tuple[tuple[float, int], ...], group_size: int, adjacency: str
) -> dict[str, Any]:
    """Return a run with shuffled batches as a certificate describes it.

    Raises
    ------
    UnsupportedError
        If the checker does not cover it; the message says why.
    """
    if not 1 <= len(segments) <= LARGEST_KINDS:
        raise UnsupportedError(
            f"certificates cover shuffled batches with 1 to {LARGEST_KINDS} noise multipliers one after the "
            f"other, got {len(segments)}"
        )
    worst = min(segments)[0] if min(segments)[0] < LEAST_NOISE else max(segments)[0]
    if not LEAST_NOISE <= worst <= MOST_NOISE:
        raise UnsupportedError(f"certificates cover noise from {LEAST_NOISE} to {MOST_NOISE:g}, got {worst}")
    batches = {"batch_size": sampling.batch_size, "dataset_size": sampling.dataset_size}
    steps = [
        {
            "mechanism": {"name": "gaussian", "noise_multiplier": noise},
            "sampling": {"name": "shuffle", **batches},
            "group": {"size": group_size},
            "count": count,
        }
        for noise, count in segments
    ]
    return {"adjacency": adjacency, "steps": steps}


def bits_for(log_delta: float) -> int:
    """Bits of balls whose errors are small next to delta."""
    return min(4096, max(192, SPARE_BITS + 96 + math.ceil(-log_delta / math.log(2.0))))


class UpperWitness:
    """Looks for a law of the members in batches that is close to the true one, for a delta."""

    def __init__(self, run: Any, log_delta: float) -> None:
        self.checker, self.run = needed("hockeystick_verify.shuffled", "verify"), run
        self.least = log_delta + math.log(NEGLIGIBLE)
        self.one = needed("flint", "verify").arb(1)
        first = run.parts[0].least
        self.weights = [(first / part.least) ** 2 for part in run.parts]

    def find(self) -> dict[str, Any]:
        """Return the witness; where the law would be too long, all members count as in one batch."""
        published = {"pairs": None, "unit": 1.0, "values": 0, "from": "least", "coarser": 1}
        pairs = self._pairs()
        if pairs is None:
            return published
        laws = [self.checker.law_of_part(self.run, part.batches, pairs) for part in self.run.parts]
        coarser = 1
        while coarser < 1 << 60:
            both = [self._lattice(laws, coarser, name) for name in ("least", "most")]
            found = [each for each in both if each is not None]
            if found:
                _, lattice = min(found, key=operator.itemgetter(0))
                return {"pairs": pairs, **lattice}
            coarser *= 2
        return published

    def _pairs(self) -> int | None:
        """How many pairs of members in one batch are to be told apart; None if that takes too long."""
        most = min(self.run.group * (self.run.group - 1) // 2, self.checker.LARGEST_PAIRS)
        pairs, known = 0, None
        while True:
            try:
                self.checker.require_countable(self.run, pairs)
            except self.checker.RefusedError:
                return known
            rest = 0.0
            for part in self.run.parts:
                law = self.checker.law_of_part(self.run, part.batches, pairs)
                rest += part.epochs * float((self.one - sum(law.values())).upper())
            known = pairs
            if pairs >= most or rest <= math.exp(max(self.least, -690.0)):
                return pairs
            pairs = min(max(1, 2 * pairs), most)

    def _limits(self) -> tuple[float, float, float]:
        """Places of a law where noise differs, most of them, and work on powers that the checker accepts."""
        affordable = self.checker.BITS / needed("flint", "verify").ctx.prec
        most, products = float(MOST_VALUES), len(self.run.parts) - 1
        if products:
            most = min(most, 0.98 * math.sqrt(self.checker.LARGEST_PRODUCTS * affordable / products))
        return min(float(FINE_VALUES), 0.95 * most), most, 0.9 * self.checker.LARGEST_POWERS * affordable

    def _cost(self, part: Any) -> int:
        """Work of the checker on each place of the power of a part."""
        return 2 * int(part.epochs).bit_length() + int(self.checker.EACH)

    def _lattice(
        self, laws: list[dict[int, Any]], coarser: int, name: str
    ) -> tuple[tuple[float, int], dict[str, Any]] | None:
        """Places of the law, and its mean once it is rounded with their number; None if they are too many."""
        total, mean, farthest, common, longest = np.zeros(len(TILTS)), 0.0, 0.0, 0, 0.0
        fine, most, powers = self._limits()
        for law, weight, part in zip(laws, self.weights, self.run.parts, strict=True):
            start = min(law, default=self.run.largest) if name == "least" else self.run.largest
            away = [abs(square - start) for square in law]
            own = coarser * (math.gcd(*away) or 1)
            common = math.gcd(common, own)
            rounded = math.ceil if name == "least" else math.floor
            places = np.array([own * rounded(Fraction(each, own)) for each in away], dtype=np.float64)
            masses = np.array([float(each) for each in law.values()])
            scaled, size = places * float(weight), part.epochs * float(places.max(initial=0.0))
            with np.errstate(over="ignore", divide="ignore"):
                logarithms = part.epochs * np.log(np.exp(np.outer(TILTS, scaled)) @ masses)
            total += logarithms
            length = min(size, _enough(logarithms, self.least) / float(weight)) / own
            longest, powers = max(longest, length), powers - length * self._cost(part)
            farthest += size * float(weight)
            moved = part.epochs * float(scaled @ masses)
            mean += part.epochs * float(weight) * start + (moved if name == "least" else -moved)
        reach = min(farthest, _enough(total, self.least))
        if all(weight == 1 for weight in self.weights):
            unit, values = float(common), math.ceil(reach / common)
        else:
            unit = float(f"{max(reach, 1e-3) / fine:.3g}")
            values = math.ceil(reach / unit) + len(laws)
        if max(longest, values) > most or powers < 0.0:
            return None
        return (float(f"{mean:.9g}"), values), {
            "unit": unit,
            "values": values,
            "from": name,
            "coarser": coarser,
        }


def _enough(logarithms: Floats, least: float) -> float:
    """Return what a sum is above with a negligible probability, by Chernoff's bound."""
    return max(0.0, float(np.min((logarithms - least) / TILTS)))
