"""What a run has done so far: segments of equal steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, overload

from hockeystick._arguments import count_scalar, shown
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.configuration import Segment as CoreSegment
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import (
    FAMILIES,
    BatchClipping,
    Gaussian,
    Mechanism,
    check_mechanism,
    check_noise_multiplier,
)
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Poisson,
    Sampling,
    UnaccountedSampling,
    WithoutReplacement,
    check_sample_rate,
    check_sampling,
)
from hockeystick.errors import SamplingMismatchError, UnsupportedError

Segment: TypeAlias = tuple[float, float, int]
"""(noise multiplier, sample rate, number of steps)."""
RateSegment: TypeAlias = tuple[float | Mechanism, float, int]
"""(noise, sample rate, number of steps): noise is a noise multiplier or, if not Gaussian, a mechanism."""
AnySegment: TypeAlias = tuple[float | Mechanism, float | Sampling, int]
"""(noise, sampling, number of steps): sampling is a rate of one Poisson batch or another scheme."""

Draw: TypeAlias = float | Sampling | UnaccountedSampling
"""What stands for the sampling: a sample rate, a scheme, or why there is no answer."""

SCHEMES = (WithoutReplacement, FullBatch, RandomAllocation, FixedBins)
"""Sampling schemes that stand for themselves in a history."""


def check_noise(value: object, name: str) -> float | Mechanism:
    """`value` as a noise multiplier, or a mechanism with other noise than Gaussian."""
    if isinstance(value, Gaussian):
        return value.noise_multiplier
    if isinstance(value, BatchClipping):
        raise UnsupportedError(
            f"{name} must be noise on gradients that are clipped one by one, got {value!r}: GroupAccountant "
            f"accounts for batches that are clipped as a whole"
        )
    if isinstance(value, tuple(FAMILIES.values())):
        return check_mechanism(value)
    return check_noise_multiplier(value, name)


def check_draw(value: object, name: str) -> Any:
    """`value` as a sample rate where one Poisson batch is drawn, or a sampling scheme."""
    if isinstance(value, SCHEMES) or (isinstance(value, Poisson) and value.is_truncated):
        return value
    return check_poisson_draw(value, name)


def check_poisson_draw(value: object, name: str) -> Any:
    """`value` as a sample rate, or what stands for several Poisson batches or a loader without account."""
    if isinstance(value, Poisson):
        _require_whole_samples(value, name)
        return value.sample_rate if value.microbatches == 1 else value
    if isinstance(value, UnaccountedSampling):
        return value
    if isinstance(value, SCHEMES):
        raise UnsupportedError(f"{name} must be a sample rate or Poisson(...), got {value!r}: {ONLY_POISSON}")
    return check_sample_rate(value, name)


def _require_whole_samples(draw: object, name: str) -> None:
    """Raise ``UnsupportedError`` if samples are cut to a largest size, which few accountants know."""
    if isinstance(draw, Poisson) and draw.is_truncated:
        raise UnsupportedError(
            f"{name} must be without a largest batch size, got {draw!r}: GroupAccountant accounts for it"
        )
    if isinstance(draw, RandomAllocation | FixedBins):
        raise UnsupportedError(
            f"{name} must draw every batch on its own, got {draw!r}, which deals records into the batches of "
            f"an epoch: GroupAccountant accounts for it, and MonteCarloAccountant simulates it"
        )


ONLY_POISSON = "GroupAccountant and IndividualAccountant account for batches of other kinds"


def is_answerable(segments: Iterable[tuple[Any, Any, int]]) -> bool:
    """Whether an account is known for all steps."""
    return not any(isinstance(draw, UnaccountedSampling) for _, draw, _ in segments)


def draw_in_words(draw: object) -> str:
    """Return a sampling scheme as it is printed."""
    return "not known to be covered" if isinstance(draw, UnaccountedSampling) else repr(draw)


def draws_in_words(segments: Iterable[tuple[Any, Any, int]]) -> str:
    """Name every way to draw batches of a history once, in its order."""
    words = ("Poisson" if isinstance(draw, float) else draw_in_words(draw) for _, draw, _ in segments)
    return ", ".join(dict.fromkeys(words))


def check_answerable(segments: Iterable[tuple[Any, Any, int]]) -> None:
    """Raise ``SamplingMismatchError`` if some steps were drawn in a way that no account is known for.

    Epochs into whose batches records are dealt have to be whole before anything else changes: a record is
    in one of the batches of an epoch, whatever their noise, and the account of a segment knows of no other.
    """
    given = _joined(segments)
    for place, (_, draw, count) in enumerate(given):
        if isinstance(draw, UnaccountedSampling):
            draw.refuse()
        if isinstance(draw, RandomAllocation) and place + 1 < len(given) and count % draw.batches:
            raise SamplingMismatchError(
                f"noise or sampling changed within an epoch of {draw!r}, after {count} steps: change them "
                f"after a multiple of {draw.batches} steps; or, of a run that is done, record all steps of "
                f"the epoch with its smallest noise multiplier, which is an upper bound"
            )
        if isinstance(draw, FixedBins) and any(other[1] == draw for other in given[place + 1 :]):
            raise SamplingMismatchError(
                f"noise changed between steps with the same bins of {draw!r}, which are one release: keep "
                f"the noise as it is; or, of a run that is done, record all of these steps with the smallest "
                f"noise multiplier, which is an upper bound"
            )


def _joined(segments: Iterable[tuple[Any, Any, int]]) -> list[tuple[Any, Any, int]]:
    """Segments with equal neighbours in one."""
    joined: list[tuple[Any, Any, int]] = []
    for noise, draw, count in segments:
        if joined and joined[-1][:2] == (noise, draw):
            count += joined.pop()[2]
        joined.append((noise, draw, count))
    return joined


def microbatches_of(draw: object) -> int:
    """How many batches are added up in a step."""
    return draw.microbatches if isinstance(draw, Poisson) else 1


def check_gaussian_step(
    noise_multiplier: object, sample_rate: object, sampling: object
) -> tuple[float, float | Sampling]:
    """Noise multiplier and draw of a step that is given either a sample rate or a sampling scheme."""
    _require_one(sample_rate, sampling)
    _require_whole_samples(sampling, "sampling")
    return check_noise_multiplier(noise_multiplier), _check_step_draw(sample_rate, sampling)


def check_step(
    noise_multiplier: object,
    mechanism: object,
    sample_rate: object,
    sampling: object,
    *,
    check: Callable[[object, str], float | Mechanism] = check_noise,
) -> tuple[float | Mechanism, float | Sampling]:
    """Noise and draw of a step that is given one of the first two and one of the next two arguments."""
    if (noise_multiplier is None) == (mechanism is None):
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    _require_one(sample_rate, sampling)
    if mechanism is None:
        noise: float | Mechanism = check_noise_multiplier(noise_multiplier)
    else:
        noise = check(check_mechanism(mechanism), "mechanism")
    return noise, _check_step_draw(sample_rate, sampling)


def _require_one(sample_rate: object, sampling: object) -> None:
    if (sample_rate is None) == (sampling is None):
        raise TypeError("give exactly one of sample_rate and sampling")


def _check_step_draw(sample_rate: object, sampling: object) -> float | Sampling:
    if sampling is None:
        return check_sample_rate(sample_rate)
    draw: float | Sampling = check_draw(check_sampling(sampling), "sampling")
    return draw


@overload
def check_history(segments: object, name: str = ...) -> list[Segment]: ...
@overload
def check_history(
    segments: object, name: str = ..., *, noise: Callable[[object, str], float | Mechanism]
) -> list[RateSegment]: ...
@overload
def check_history(
    segments: object,
    name: str = ...,
    *,
    noise: Callable[[object, str], float | Mechanism] = ...,
    draw: Callable[[object, str], Any],
) -> list[AnySegment]: ...
def check_history(
    segments: object,
    name: str = "history",
    *,
    noise: Callable[[object, str], float | Mechanism] = check_noise_multiplier,
    draw: Callable[[object, str], float | Sampling] = check_sample_rate,
) -> Any:
    """Return a new list of checked segments, noise as `noise` returns it, sampling as `draw` does.

    Raises
    ------
    ValueError
        If a segment does not have three entries or one of them is out of range.
    TypeError
        If `segments` or one of its entries has the wrong type.
    """
    if not isinstance(segments, list | tuple):
        raise TypeError(f"{name} must be a list, got {type(segments).__name__}")
    return [_check_segment(segment, f"{name}[{i}]", noise, draw) for i, segment in enumerate(segments)]


def with_step(segments: list[Any], noise: object, draw: object, count: int = 1) -> None:
    """Append equal steps, in place; they join the last segment where that has the same parameters."""
    if segments and segments[-1][:2] == (noise, draw):
        segments[-1] = (noise, draw, segments[-1][2] + count)
    else:
        segments.append((noise, draw, count))


_Noise = TypeVar("_Noise", bound="float | Mechanism")
_Draw = TypeVar("_Draw", bound="float | Sampling")


def merged(segments: Iterable[tuple[_Noise, _Draw, int]]) -> list[tuple[_Noise, _Draw, int]]:
    """One segment for each pair of noise and sampling; the order does not matter."""
    steps: dict[tuple[_Noise, _Draw], int] = {}
    for noise, draw, count in segments:
        steps[noise, draw] = steps.get((noise, draw), 0) + count
    return [(*key, count) for key, count in steps.items()]


def by_microbatches(segments: Iterable[tuple[Any, Any, int]]) -> dict[int, list[Any]]:
    """Segments with sample rates for schemes, by the number of batches that are added up in a step."""
    found: dict[int, list[Any]] = {}
    for noise, draw, count in segments:
        rate = draw.sample_rate if isinstance(draw, Poisson) else draw
        found.setdefault(microbatches_of(draw), []).append((noise, rate, count))
    return found


def as_core_segments(segments: Iterable[RateSegment], group_size: int) -> list[CoreSegment]:
    """`segments` as the core takes them, for a group of this size."""
    return [(noise, sample_rate, group_size, steps) for noise, sample_rate, steps in segments]


def _check_segment(
    segment: object,
    name: str,
    noise: Callable[[object, str], float | Mechanism],
    draw: Callable[[object, str], float | Sampling],
) -> AnySegment:
    if not isinstance(segment, list | tuple):
        raise TypeError(
            f"{name} must be (noise_multiplier, sample_rate, num_steps), got {type(segment).__name__}"
        )
    if len(segment) != 3:
        raise ValueError(f"{name} must be (noise_multiplier, sample_rate, num_steps), got {shown(segment)}")
    noise_multiplier, sample_rate, steps = segment
    return (
        noise(noise_multiplier, f"{name} noise_multiplier"),
        draw(sample_rate, f"{name} sample_rate"),
        count_scalar(steps, f"{name} num_steps", 1),
    )


def group_as_json(group: Group) -> dict[str, Any]:
    """Return the arguments of a group, of plain JSON types."""
    found = {
        "size": group.size,
        "rates": None if group.rates is None else list(group.rates),
        "norms": None if group.norms is None else list(group.norms),
        "gradients": group.gradients,
    }
    return found | ({"cosine": group.cosine} if group.gradients == "bounded" else {})
