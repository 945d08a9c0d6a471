"""Numbers that make the proof of a certificate of shuffled batches short: the law of the members in batches.

Nothing here is proven, as in `hockeystick._curves.witness`. The laws are those of the checker, in doubles.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._extras import needed
from hockeystick._vocabulary.sampling import Shuffle
from hockeystick.errors import UnsupportedError

NEGLIGIBLE = 1e-13
"""Part of delta that members in batches may have whose law is not listed."""
MOST_VALUES = 20_000
"""Most places of the law: the checker takes a second for each point of the curve."""
LARGEST_KINDS = 64
LEAST_NOISE, MOST_NOISE = 1e-3, 1e9
"""Limits of the checker."""
TILTS = np.geomspace(1e-9, 1e3, 241)
SPARE_BITS = 64


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
        first = run.parts[0].least
        self.weights = [(first / part.least) ** 2 for part in run.parts]

    def find(self) -> dict[str, Any]:
        """Return the witness; where the law would be too long, all members count as in one batch."""
        published: dict[str, Any] = {"pairs": None, "unit": 1, "values": 0, "from": "least"}
        pairs = self._pairs()
        if pairs is None:
            return published
        laws = [self.checker.law_of_part(self.run, part.batches, pairs) for part in self.run.parts]
        found = self._places(laws)
        return published if found is None else {"pairs": pairs, **found}

    def _pairs(self) -> int | None:
        """How many pairs of members in one batch are to be told apart; None if that takes too long."""
        group, pairs = self.run.group, 0
        most = group * (group - 1) // 2
        known = None
        while True:
            try:
                self.checker.require_countable(self.run, pairs)
            except self.checker.RefusedError:
                return known
            rest = 0.0
            for part in self.run.parts:
                law = self.checker.law_of_part(self.run, part.batches, pairs)
                rest += part.epochs * float((1 - sum(law.values())).upper())
            known = pairs
            if pairs >= min(most, self.checker.LARGEST_PAIRS) or rest <= math.exp(max(self.least, -690.0)):
                return pairs
            pairs = min(max(1, 2 * pairs), most, self.checker.LARGEST_PAIRS)

    def _places(self, laws: list[dict[int, Any]]) -> dict[str, Any] | None:
        """Spacing, number and order of the places of the law; None if no choice has few enough."""
        starts = [min(law, default=self.run.largest) for law in laws]
        distances = [s - start for law, start in zip(laws, starts, strict=True) for s in law]
        alike = all(weight == 1 for weight in self.weights)
        unit = float(math.gcd(*distances) or 1) if alike else self._fine_unit(laws, starts)
        for _ in range(60):
            best: tuple[float, dict[str, Any]] | None = None
            for name in ("least", "most"):
                values, mean = self._length(laws, starts, unit, name)
                if values <= MOST_VALUES and (best is None or mean < best[0]):
                    best = mean, {"unit": unit, "values": values, "from": name}
            if best is not None:
                return best[1]
            unit *= 2.0
        return None

    def _fine_unit(self, laws: list[dict[int, Any]], starts: list[int]) -> float:
        """Return a spacing by which little is rounded where noise differs between epochs."""
        most = sum(
            float(weight) * part.epochs * (max(law, default=start) - start)
            for law, start, weight, part in zip(laws, starts, self.weights, self.run.parts, strict=True)
        )
        return float(f"{max(most, 1.0) / MOST_VALUES:.3g}")

    def _length(
        self, laws: list[dict[int, Any]], starts: list[int], unit: float, name: str
    ) -> tuple[int, float]:
        """How many places the law needs, by Chernoff's bound, and the mean of the squared distance."""
        total, mean, farthest = np.zeros(len(TILTS)), 0.0, 0
        for law, start, weight, part in zip(laws, starts, self.weights, self.run.parts, strict=True):
            places, masses = _rounded(law, start, self.run.largest, weight / Fraction(unit), name)
            farthest += part.epochs * int(places.max(initial=0))
            with np.errstate(over="ignore", divide="ignore"):
                total += part.epochs * np.log(np.exp(np.outer(TILTS, places)) @ masses)
            base = start if name == "least" else self.run.largest
            moved = unit * float(places @ masses) * (1 if name == "least" else -1)
            mean += part.epochs * (float(weight) * base + moved)
        enough = float(np.min((total - self.least) / TILTS)) if farthest else 0.0
        return min(farthest, math.ceil(max(0.0, enough))), mean


def _rounded(
    law: dict[int, Any], start: int, largest: int, scale: Fraction, name: str
) -> tuple[Floats, Floats]:
    """Places of the sums of squares of an epoch, and their probabilities."""
    found: dict[int, float] = {}
    for square, probability in law.items():
        away = (square - start) * scale if name == "least" else (largest - square) * scale
        place = math.ceil(away) if name == "least" else math.floor(away)
        found[place] = found.get(place, 0.0) + float(probability)
    return np.array(list(found), dtype=np.float64), np.array(list(found.values()))
