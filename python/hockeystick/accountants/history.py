"""What a run has done so far: segments of equal steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hockeystick._arguments import count_scalar
from hockeystick.mechanisms import check_noise_multiplier
from hockeystick.sampling import check_sample_rate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from hockeystick._arguments import Counts, Floats

    Segment: TypeAlias = tuple[float, float, int]
    """(noise multiplier, sample rate, number of steps)."""


class SegmentArrays(NamedTuple):
    """A history as the core takes it: one element a segment."""

    noise_multipliers: Floats
    sample_rates: Floats
    steps: Counts


def check_history(segments: object, name: str = "history") -> list[Segment]:
    """Return a new list of checked segments.

    Raises
    ------
    ValueError
        If a segment does not have three entries or one of them is out of range.
    TypeError
        If `segments` or one of its entries has the wrong type.
    """
    if not isinstance(segments, list | tuple):
        raise TypeError(f"{name} must be a list, got {type(segments).__name__}")
    return [_check_segment(segment, f"{name}[{i}]") for i, segment in enumerate(segments)]


def with_step(segments: list[Segment], noise_multiplier: float, sample_rate: float) -> None:
    """Append one step, in place; it joins the last segment where that has the same parameters."""
    if segments and segments[-1][:2] == (noise_multiplier, sample_rate):
        segments[-1] = (noise_multiplier, sample_rate, segments[-1][2] + 1)
    else:
        segments.append((noise_multiplier, sample_rate, 1))


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """One segment for each pair of noise multiplier and sample rate; the order does not matter."""
    steps: dict[tuple[float, float], int] = {}
    for noise_multiplier, sample_rate, count in segments:
        key = (noise_multiplier, sample_rate)
        steps[key] = steps.get(key, 0) + count
    return [(*key, count) for key, count in steps.items()]


def as_arrays(segments: Iterable[Segment]) -> SegmentArrays:
    """`segments` as three arrays."""
    columns = list(zip(*segments, strict=True)) or [(), (), ()]
    return SegmentArrays(
        np.array(columns[0], dtype=np.float64),
        np.array(columns[1], dtype=np.float64),
        np.array(columns[2], dtype=np.int64),
    )


def _check_segment(segment: object, name: str) -> Segment:
    if not isinstance(segment, list | tuple):
        raise TypeError(
            f"{name} must be (noise_multiplier, sample_rate, num_steps), got {type(segment).__name__}"
        )
    if len(segment) != 3:
        raise ValueError(f"{name} must be (noise_multiplier, sample_rate, num_steps), got {segment!r}")
    noise_multiplier, sample_rate, steps = segment
    return (
        check_noise_multiplier(noise_multiplier, f"{name} noise_multiplier"),
        check_sample_rate(sample_rate, f"{name} sample_rate"),
        count_scalar(steps, f"{name} num_steps", 1),
    )
