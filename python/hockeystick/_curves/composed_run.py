"""The compositions of the compiled core that answer for one run."""

from __future__ import annotations

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Floats
from hockeystick._curves.coarsening import coarsened
from hockeystick._vocabulary import step_kinds
from hockeystick._vocabulary.configuration import Segment
from hockeystick._vocabulary.intervals import are_wide
from hockeystick._vocabulary.step_kinds import StepKind

MERGED_FROM = 2_000
"""Different kinds of steps from which on those of noise schedules are merged: fewer are as fast alone."""


class ComposedRun:
    """A run of steps, composed when it is first asked."""

    __slots__ = ("_adjacency", "_composition", "_is_merged", "_less", "_merged", "_steps", "_tolerance")

    def __init__(self, steps: dict[StepKind, int], adjacency: str, tolerance: float) -> None:
        self._steps = steps
        self._adjacency = adjacency
        self._tolerance = tolerance
        self._composition: _core.Composition | None = None
        self._less: _core.Composition | None = None
        self._merged: _core.Composition | None = None
        self._is_merged = False

    def both_ends(self, unknown: str, questions: Floats) -> tuple[Floats, Floats]:
        """Both ends of the interval for epsilon or delta at each question."""
        merged = self._of_schedules()
        if merged is None:
            return self._both_ends_of_all(unknown, questions)
        lower, upper = getattr(merged, unknown)(questions)
        wide = are_wide(unknown, lower, upper, self._tolerance)
        if np.any(wide):
            others = self._both_ends_of_all(unknown, questions[wide])
            closer = np.maximum(lower[wide], others[0]), np.minimum(upper[wide], others[1])
            lower[wide], upper[wide] = _core.meet_bounds(*closer)
        return lower, upper

    def composition(self) -> _core.Composition:
        """Return the run in the core; where it, or noise, was rounded, the one that leaks no less."""
        if self._composition is None:
            more, less = coarsened(self._steps) or (self._steps, None)
            less = step_kinds.surely_attained(less or self._steps) or less
            if less is not None:
                self._less = self._in_core(less)
            self._composition = self._in_core(more)
        return self._composition

    def core_segments(self) -> list[Segment]:
        """Segments as the compiled core takes them, rounded to leak more if there are very many."""
        rounded = coarsened(self._steps)
        return step_kinds.for_core(self._steps if rounded is None else rounded[0])

    def _both_ends_of_all(self, unknown: str, questions: Floats) -> tuple[Floats, Floats]:
        """Both ends by the composition of all kinds of steps, rounded if there are very many."""
        lower, upper = getattr(self.composition(), unknown)(questions)
        if self._less is not None:
            # The upper end is that of a run that leaks more, so the lower end is that of one that leaks less.
            lower = getattr(self._less, unknown)(questions)[0]
        return _core.meet_bounds(lower, upper)

    def _of_schedules(self) -> _core.Composition | None:
        """Return the run of very many kinds with its noise schedules merged; None where that is no help."""
        many = len(self._steps) >= MERGED_FROM and step_kinds.surely_attained(self._steps) is None
        if not self._is_merged and many:
            segments = step_kinds.for_core(self._steps)
            self._merged = _core.Composition.merged(segments, self._adjacency, self._tolerance)
        self._is_merged = True
        return self._merged

    def _in_core(self, steps: dict[StepKind, int]) -> _core.Composition:
        return _core.Composition(step_kinds.for_core(steps), self._adjacency, self._tolerance)
