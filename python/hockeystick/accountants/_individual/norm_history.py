"""What the norms of all examples were, for groups of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hockeystick._arguments import Counts, Floats
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants._packing import packed, unpacked

StepParameters = tuple[float, float | Sampling]
"""Noise multiplier and sampling of a step."""


MAX_BYTES = 2**26
"""Memory for norms: 64 MB, say 140 refreshes of 60,000 examples."""


class NormHistory:
    """Norms of all examples and the steps that were taken with them.

    Once they take more than `MAX_BYTES`, the largest norm of each example is kept for every kind of step: a
    group's epsilon from these is an upper bound that is no longer the least.
    """

    def __init__(self) -> None:
        self.is_whole = True
        """Whether nothing was replaced by largest norms."""
        self._spans: list[tuple[Floats, dict[StepParameters, int]]] = []

    def __iter__(self) -> Iterator[tuple[Floats, dict[StepParameters, int]]]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, norms: Floats, steps: Mapping[StepParameters, int], *, refreshed: bool) -> None:
        """Add steps with these norms, which nobody changes any more and which are new if `refreshed`."""
        if not refreshed and self.is_whole and self._spans:
            known = self._spans[-1][1]
            for kind, count in steps.items():
                known[kind] = known.get(kind, 0) + count
            return
        self._spans.append((norms, dict(steps)))
        if len(self._spans) * norms.nbytes > MAX_BYTES and len(self._spans) > len(self._kinds()):
            self._shorten()

    def _kinds(self) -> set[StepParameters]:
        return {kind for _, steps in self._spans for kind in steps}

    def counts(self) -> dict[StepParameters, int]:
        """Return how many steps there are of each kind."""
        total: dict[StepParameters, int] = {}
        for _, steps in self._spans:
            for kind, count in steps.items():
                total[kind] = total.get(kind, 0) + count
        return total

    def shortened(self) -> NormHistory:
        """Return the same with one span for each kind of step."""
        history = NormHistory()
        history._spans = list(self._spans)
        history._shorten()
        return history

    def _shorten(self) -> None:
        largest: dict[StepParameters, tuple[Floats, int]] = {}
        for norms, steps in self._spans:
            for kind, count in steps.items():
                before, total = largest.get(kind, (norms, 0))
                largest[kind] = (np.maximum(before, norms), total + count)
        # In an order that does not depend on which kind came first.
        order = sorted(largest, key=repr)
        self._spans = [(largest[kind][0], {kind: largest[kind][1]}) for kind in order]
        self.is_whole = False

    def joined(self, other: NormHistory, own: Counts) -> NormHistory:
        """Return the norms at `own` of these, or of `other` where negative: -1 is the first there.

        Where both were not refreshed, or not shortened, at the same steps, largest norms are joined.
        """
        if not self.has_steps_of(other):
            return self.shortened().joined(other.shortened(), own)
        history = NormHistory()
        history.is_whole = self.is_whole and other.is_whole
        for (first, steps), (second, _) in zip(self, other, strict=True):
            norms = first[np.maximum(own, 0)]
            norms[own < 0] = second[-1 - own[own < 0]]
            history._spans.append((norms, dict(steps)))
        return history

    def copied(self) -> NormHistory:
        """Return a copy that can grow on its own."""
        history = NormHistory()
        history.is_whole = self.is_whole
        history._spans = [(norms, dict(steps)) for norms, steps in self._spans]
        return history

    def has_steps_of(self, other: NormHistory) -> bool:
        """Whether both have the same steps between the same refreshes."""
        return [steps for _, steps in self._spans] == [steps for _, steps in other._spans]

    def state(self, to_json: Callable[[StepParameters], list[Any]]) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "is_whole": self.is_whole,
            "spans": [
                [packed(norms), [[*to_json(kind), count] for kind, count in steps.items()]]
                for norms, steps in self._spans
            ],
        }

    @classmethod
    def from_state(
        cls, state: Any, examples: int, segments: Callable[[object, str], list[Any]]
    ) -> NormHistory:
        """Return the norms of a state; ``ValueError`` or ``TypeError`` if it is not one."""
        history = cls()
        if not isinstance(state, dict) or sorted(state) != ["is_whole", "spans"]:
            raise ValueError("norm_history must be a mapping with the keys ['is_whole', 'spans']")
        if not isinstance(state["is_whole"], bool) or not isinstance(state["spans"], list):
            raise ValueError("norm_history is damaged: is_whole must be a bool and spans a list")
        history.is_whole = state["is_whole"]
        for i, span in enumerate(state["spans"]):
            if not isinstance(span, list | tuple) or len(span) != 2:
                raise ValueError(f"norm_history[{i}] must be norms and steps")
            norms = unpacked(span[0], f"norm_history[{i}]", "<f8", (examples,))
            if not np.all((norms >= 0.0) & (norms <= 1.0)):
                raise ValueError(f"norm_history[{i}] is damaged: it has norms outside [0, 1]")
            steps: dict[StepParameters, int] = {}
            for noise, draw, count in segments(span[1], f"norm_history[{i}]"):
                steps[noise, draw] = steps.get((noise, draw), 0) + count
            history._spans.append((norms, steps))
        return history
