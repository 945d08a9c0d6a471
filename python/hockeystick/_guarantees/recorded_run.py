"""A run as the list of its steps: what can be asked about it for other groups, schemes and lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hockeystick._arguments import DEFAULT_TOLERANCE, count_scalar
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.making import privacy_curve
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Mixture,
    Sampling,
    WithoutReplacement,
    noise_and_sampling,
)
from hockeystick._vocabulary.step_kinds import StepKind
from hockeystick.accountants._adaptors import AnySegment, merged
from hockeystick.errors import UnsupportedError


@dataclass(frozen=True)
class RecordedRun:
    """Segments of equal steps in their order, and whose privacy it is.

    Segments are those of an accountant's history: (noise multiplier or mechanism, sample rate or scheme,
    number of steps).
    """

    segments: tuple[AnySegment, ...]
    group_size: int = 1
    group: Group | None = None
    adjacency: str = "add_remove"
    tolerance: float = DEFAULT_TOLERANCE

    @classmethod
    def of_curve(cls, curve: PrivacyCurve) -> RecordedRun:
        """Return the run of a curve; the order of its segments is not that of the run."""
        steps = tuple((kind.asked, count) for kind, count in curve.segments)
        if any(kind.pair.stands_for_others and kind.pair.clipped is None for kind, _ in steps):
            raise UnsupportedError(
                "this curve has steps of one record that stand for several groups in batches clipped as a "
                "whole: ask about each of them"
            )
        if any(isinstance(kind.draw, Mixture) for kind, _ in steps):
            raise UnsupportedError(
                "this curve has steps that are given by their mixture of shifts, of which nothing is known "
                "for other groups and schemes: ask the curve itself"
            )
        if any(kind.pair.of_whole_run for kind, _ in steps):
            raise UnsupportedError(
                "this curve has steps that stand for a run with correlated noise, of which nothing is known "
                "for other groups and schemes: ask the curve itself, or a GroupAccountant that recorded it"
            )
        segments = tuple(_segment(kind, count, curve.adjacency) for kind, count in steps)
        kinds = [kind for kind, _ in steps]
        group = _group(kinds[0]) if kinds else None
        size = kinds[0].records if kinds else 1
        if any(_group(kind) != group or kind.records != size for kind in kinds):
            raise UnsupportedError(
                "the steps of this curve are about different groups: ask about each of its parts"
            )
        return cls(segments, size, group, curve.adjacency, curve.tolerance)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(count for _, _, count in self.segments)

    @property
    def has_own_rates(self) -> bool:
        """Whether members' rates take the place of the sample rate."""
        return self.group is not None and self.group.rates is not None

    def curve(self) -> PrivacyCurve:
        """Return the exact privacy curve of the run."""
        found = PrivacyCurve({}, self.adjacency, self.tolerance)
        counts = dict(found.segments)
        for noise, draw, steps in merged(self.segments):
            part = privacy_curve(
                steps=steps,
                **noise_and_sampling(noise, draw),
                group_size=self.group_size,
                group=self.group,
                adjacency=self.adjacency,
                tolerance=self.tolerance,
            )
            for kind, count in part.segments:
                counts[kind] = counts.get(kind, 0) + count
        return PrivacyCurve(counts, self.adjacency, self.tolerance)

    def for_group(self, size: int) -> RecordedRun:
        """Return the same run for a group of `size` records."""
        if size == self.group_size:
            return self
        if self.group is not None:
            raise UnsupportedError(
                "the members of this group differ, so that nothing is known of groups of other sizes"
            )
        return replace(self, group_size=size)

    def until(self, steps: int) -> RecordedRun:
        """Return the first `steps` steps."""
        count_scalar(steps, "steps", 0, self.steps)
        kept: list[AnySegment] = []
        for noise, draw, count in self.segments:
            if steps <= 0:
                break
            kept.append((noise, draw, min(count, steps)))
            steps -= count
        return replace(self, segments=tuple(kept))

    def drawn(self, scheme: Callable[[float | Sampling], float | Sampling], adjacency: str) -> RecordedRun:
        """Return the run with other sampling, segment by segment, and another relation."""
        segments = tuple((noise, scheme(draw), count) for noise, draw, count in self.segments)
        return replace(self, segments=segments, adjacency=adjacency)


def _segment(kind: StepKind, count: int, adjacency: str) -> AnySegment:
    draw: Any = kind.draw
    if (
        isinstance(draw, WithoutReplacement)
        and adjacency == "replace"
        and draw.batch_size == draw.dataset_size
    ):
        draw = FullBatch()  # the same pairs
    return kind.noise, draw, count


def _group(kind: StepKind) -> Group | None:
    """Return the group of a step, None if its members are alike."""
    group = kind.group
    if isinstance(group, int):
        return None
    if group.norms is None or set(group.norms) != {1.0} or group.gradients != "aligned":
        return group
    return None if group.rates is None else Group(rates=group.rates)
