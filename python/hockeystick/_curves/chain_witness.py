"""Witness for a chain of records: how epsilon is divided; nothing here is proven."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._curves.allocation_witness import allocation_witness
from hockeystick._curves.described_run import directions, method_of
from hockeystick._curves.lattice_witness import LatticeWitness
from hockeystick._extras import needed
from hockeystick._vocabulary.sampling import WithoutReplacement
from hockeystick.errors import UnsupportedError, WideIntervalWarning

if TYPE_CHECKING:
    from hockeystick._arguments import Floats
    from hockeystick._curves.curve import PrivacyCurve
    from hockeystick._vocabulary.step_kinds import StepKind

LARGEST_CHAIN = 64
"""Most links: each has a part of epsilon of its own."""
MARGIN = 0.1
"""By which part the epsilons of the links may move before the curve of one record needs another witness."""
PLACES = 300
"""Epsilons at which the curve of one record is known to the search."""


class Links:
    """The curve of one record, and how much of epsilon each link of a chain gets.

    The bound is B_k with B_0 = 0 and B_i = e^(epsilon_i) B_(i-1) + delta(epsilon_i). Where it is smallest
    under a fixed sum, -delta'(epsilon_i) = e^(epsilon_i) (B_(i-1) + m_(i-1)) with
    m_i = m_0 e^(epsilon_1 + ... + epsilon_i): every part follows from the first one.
    """

    def __init__(self, curve: PrivacyCurve, adjacency: str) -> None:
        sizes = {kind.records for kind, _ in curve.segments}
        if len(sizes) > 1 or max(sizes) > LARGEST_CHAIN:
            raise UnsupportedError(f"certificates cover chains of one group of up to {LARGEST_CHAIN} records")
        self.number = sizes.pop()
        segments: dict[StepKind, int] = {}
        for kind, count in curve.segments:
            link = self._link(kind, adjacency)
            segments[link] = segments.get(link, 0) + count
        self.one = type(curve)(segments, adjacency, curve.tolerance)
        self._at = self._deltas = self._steepness = np.zeros(0)

    def _link(self, kind: StepKind, adjacency: str) -> StepKind:
        """Return the step of one record, in the smallest data set of a chain (V16)."""
        draw = kind.draw
        if isinstance(draw, WithoutReplacement) and adjacency != "replace":
            smallest = max(draw.batch_size, draw.dataset_size - self.number + 1)
            draw = WithoutReplacement(draw.batch_size, smallest)
        return kind._replace(draw=draw, group=1)

    def _know(self, most: float) -> None:
        """Tabulate the curve up to `most`."""
        if self._at.size and self._at[-1] >= most:
            return
        self._at = np.linspace(0.0, most, PLACES)
        with warnings.catch_warnings():  # the parts are chosen by it, and nothing is claimed of it
            warnings.simplefilter("ignore", WideIntervalWarning)
            self._deltas = np.maximum(np.asarray(self.one.delta(self._at)), 1e-300)
        logs = np.log(self._deltas)
        slopes = -np.gradient(logs, self._at) * self._deltas
        self._steepness = np.minimum.accumulate(np.log(np.maximum(slopes, 1e-300)) - self._at)

    def _delta(self, epsilon: float) -> float:
        return math.exp(float(np.interp(epsilon, self._at, np.log(self._deltas))))

    def _from_first(self, first: float) -> list[float]:
        """All parts, if the first one is this."""
        parts, total = [first], self._delta(first)
        rest = math.exp(float(np.interp(first, self._at, self._steepness)) + first)
        for _ in range(self.number - 1):
            wanted = math.log(total + rest)
            part = float(np.interp(-wanted, -self._steepness, self._at))
            total = math.exp(part) * total + self._delta(part)
            rest *= math.exp(part)
            parts.append(part)
        return parts

    def split(self, epsilon: float) -> Floats:
        """Return parts of epsilon with about the smallest bound."""
        self._know(epsilon)
        low, high = 0.0, epsilon
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(self._from_first(middle)) < epsilon else (low, middle)
        parts = np.array(self._from_first(low))
        return parts * min(1.0, epsilon * (1 - 1e-13) / max(float(parts.sum()), 1e-300))


class Chains:
    """Witnesses for a group in all directions of a run, at any epsilons near the first ones."""

    def __init__(self, curve: PrivacyCurve, run: dict[str, Any]) -> None:
        self._ones: dict[str, dict[str, Any]] = {}
        self._links = {direction: Links(curve, direction) for direction in directions(run)}
        checker = needed("hockeystick_verify.claims", "verify")
        try:
            self._single = {direction: checker.single(run, direction)[0] for direction in self._links}
        except checker.RefusedError as error:
            raise UnsupportedError(f"the checker does not cover this chain: {error}") from None

    def witnesses(self, epsilons: list[float]) -> dict[str, Any]:
        """Return the witness of each direction: that of one record, and the parts of every epsilon."""
        found, splits = (
            {},
            {way: [links.split(each) for each in epsilons] for way, links in self._links.items()},
        )
        if not self._ones:
            self._ones = self._of_one_record(splits)
        for direction, each in splits.items():
            parts = [[{"epsilon": float(part), "links": 1} for part in split] for split in each]
            one = self._ones[direction]
            found[direction] = {"bits": one["bits"], "method": "chain", "splits": parts, "one": one}
        return found

    def _of_one_record(self, splits: dict[str, list[Floats]]) -> dict[str, dict[str, Any]]:
        """Witnesses of the curve of one record; of dealt batches both orders have one, and one transform."""
        least, most, levels = {}, {}, {}
        for way, each in splits.items():
            least[way] = min(map(min, each)) * (1 - MARGIN)
            most[way] = max(map(max, each)) * (1 + MARGIN)
            level = float(np.asarray(self._links[way].one.bounds(epsilon=most[way])[1]))
            levels[way] = math.log(max(level, 1e-300))
        if all(method_of(single) == "allocation" for single in self._single.values()):
            # Parts of epochs have long lines where much is asked for: those are proven on a lattice.
            with suppress(UnsupportedError):
                way, single = next(iter(self._single.items()))
                at = max(most.values()), min(levels.values())
                shared = allocation_witness(single, way, *at, for_both=True)
                return dict.fromkeys(self._single, shared)
        return {
            way: LatticeWitness(single, way, most[way], levels[way], least[way]).find()
            for way, single in self._single.items()
        }
