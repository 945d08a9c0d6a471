"""What the norms of all examples were, for groups of examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick.accountants.packing import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hockeystick._arguments import Counts, Floats
    from hockeystick.sampling import Sampling

    Kind = tuple[float, float | Sampling]
    """Noise multiplier and sampling of a step."""

MOST_BYTES = 2**26
"""Memory for norms: 64 MB, say 140 refreshes of 60,000 examples."""


class NormHistory:
    """Norms of all examples and the steps that were taken with them.

    Once they take more than `MOST_BYTES`, the largest norm of each example is kept for every kind of step: a
    group's epsilon from these is an upper bound that is no longer the least.
    """

    def __init__(self) -> None:
        self.is_whole = True
        """Whether nothing was replaced by largest norms."""
        self._spans: list[tuple[Floats, dict[Kind, int]]] = []

    def __iter__(self) -> Iterator[tuple[Floats, dict[Kind, int]]]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, norms: Floats, kind: Kind, steps: int) -> None:
        """Add steps with these norms, an array that nobody changes any more."""
        if self._spans and self._spans[-1][0] is norms:
            known = self._spans[-1][1]
            known[kind] = known.get(kind, 0) + steps
            return
        self._spans.append((norms, {kind: steps}))
        if len(self._spans) * norms.nbytes > MOST_BYTES and len(self._spans) > len(self._kinds()):
            self._shorten()

    def _kinds(self) -> set[Kind]:
        return {kind for _, steps in self._spans for kind in steps}

    def _shorten(self) -> None:
        """Keep one span for each kind of step."""
        largest: dict[Kind, tuple[Floats, int]] = {}
        for norms, steps in self._spans:
            for kind, count in steps.items():
                before, total = largest.get(kind, (norms, 0))
                largest[kind] = (np.maximum(before, norms), total + count)
        self._spans = [(norms, {kind: count}) for kind, (norms, count) in largest.items()]
        self.is_whole = False

    def joined(self, other: NormHistory, own: Counts) -> NormHistory:
        """Return the norms at `own` of these, or of `other` where negative: -1 is the first there."""
        history = NormHistory()
        history.is_whole = self.is_whole and other.is_whole
        for (first, steps), (second, _) in zip(self, other, strict=True):
            norms = first[np.maximum(own, 0)]
            norms[own < 0] = second[-1 - own[own < 0]]
            history._spans.append((norms, dict(steps)))
        return history

    def has_steps_of(self, other: NormHistory) -> bool:
        """Whether both have the same steps between the same refreshes."""
        return [steps for _, steps in self._spans] == [steps for _, steps in other._spans]

    def state(self, to_json: Callable[[Kind], list[Any]]) -> dict[str, Any]:
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
            steps: dict[Kind, int] = {}
            for noise, draw, count in segments(span[1], f"norm_history[{i}]"):
                steps[noise, draw] = steps.get((noise, draw), 0) + count
            history._spans.append((norms, steps))
        return history
