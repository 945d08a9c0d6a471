"""Histories with batches that records are dealt into, by simulation: which are, and their intervals."""

from __future__ import annotations

from typing import Any

from hockeystick import _core
from hockeystick._arguments import require
from hockeystick._curves.bins_estimate import LEAST_NOISE
from hockeystick._curves.coarsening import rounded_segments
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.configuration import Segment as CoreSegment
from hockeystick._vocabulary.mechanisms import AdaptiveClipping, Mechanism
from hockeystick._vocabulary.sampling import UnaccountedSampling
from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._history import by_microbatches, merged
from hockeystick.errors import UnsupportedError

DEALT = (RandomAllocation, FixedBins)
"""Schemes whose epochs are one release each, or all steps of a run."""

LARGEST_GROUP = 256
"""Largest number of records, in all accumulated batches together, whose ratio is computed at an output."""

LEAST_RATE = 1e-9
"""Smallest sample rate above 0 beside dealt batches: a place among 1/rate batches is drawn with 53 bits."""

COARSE = 1e-3
"""Relative width of the certified bound that the search starts from: samples are far less precise."""


def has_dealt(history: list[Any]) -> bool:
    """Whether records are dealt into the batches of some steps."""
    return any(isinstance(draw, DEALT) for _, draw, _ in history)


def multiplier_of(noise: float | Mechanism) -> float:
    """Noise multiplier of a step: the sum and the count of adaptive clipping are one Gaussian query."""
    return noise.joint_noise_multiplier if isinstance(noise, AdaptiveClipping) else float(noise)  # type: ignore[arg-type]  # the accountant takes no other mechanism


def require_simulated(history: list[Any], group_size: int, *, beside: bool = False) -> None:
    """Raise ``UnsupportedError`` or ``ValueError`` if a history with dealt batches has no estimate.

    Histories of Poisson samples alone have one always, and pass, unless they stand `beside` dealt batches.
    """
    if not (beside or has_dealt(history)):
        return
    require(
        group_size <= LARGEST_GROUP,
        "group_size",
        group_size,
        f"at most {LARGEST_GROUP} beside dealt batches",
    )
    for batches, segments in by_microbatches(history).items():
        if group_size * batches > LARGEST_GROUP:
            raise ValueError(
                f"group_size times microbatches must be at most {LARGEST_GROUP} beside dealt batches, got "
                f"{group_size} times {batches}"
            )
        for noise, draw, _ in segments:
            if isinstance(draw, UnaccountedSampling):
                continue  # there will be no answer
            multiplier = multiplier_of(noise)
            require(
                multiplier >= LEAST_NOISE,
                "noise_multiplier",
                multiplier,
                f"at least {LEAST_NOISE} beside dealt batches",
            )
            if isinstance(draw, RandomAllocation) and draw.times > 1 and group_size > 1:
                raise UnsupportedError(
                    f"a group of {group_size} records with sampling {draw!r} has no estimate: use "
                    f"group_size=1 or times=1; or GroupAccountant, which has a bound"
                )
            if not isinstance(draw, DEALT):
                require(
                    draw == 0.0 or draw >= LEAST_RATE,
                    "sample_rate",
                    draw,
                    f"0 or at least {LEAST_RATE:g} beside dealt batches",
                )


def interval(
    epsilon: float,
    history: list[Any],
    group_size: int,
    leaking: bool,
    kinds: tuple[int, int],
    settings: tuple[int, str, int, float],
) -> tuple[float, float, float]:
    """Estimate, lower and upper end of delta in one direction.

    Of more than the first of `kinds` of Poisson samples, the run has about the second number of kinds, which
    leak no less, or no more. `settings` are samples, direction, seed and confidence.
    """
    most_exact, most_rounded = kinds
    dealt = merged(segment for segment in history if isinstance(segment[1], DEALT))
    if len(dealt) > most_exact:
        raise UnsupportedError(
            f"at most {most_exact} kinds of steps with dealt batches are simulated, got {len(dealt)}: use "
            f"GroupAccountant"
        )
    segments: list[CoreSegment] = [(noise, draw, group_size, steps) for noise, draw, steps in dealt]
    others = by_microbatches(segment for segment in history if not isinstance(segment[1], DEALT))
    for batches, parts in others.items():
        for noise, rate, steps in rounded_segments(merged(parts), leaking, most_exact, most_rounded):
            # A member is in each of the accumulated batches on its own, as another member would be.
            segments.append((noise, rate, group_size * batches, steps))
    samples, direction, seed, confidence = settings
    return _core.run_monte_carlo_delta(epsilon, segments, samples, direction, seed, confidence, None)


def certified_epsilon(history: list[Any], group_size: int, adjacency: str, delta: float) -> float:
    """Return an upper bound on epsilon that no samples are needed for."""
    accountant = GroupAccountant(group_size, adjacency, tolerance=COARSE)
    accountant.history = history
    _, upper = accountant.privacy_curve().bounds(delta=delta)
    return float(upper)
