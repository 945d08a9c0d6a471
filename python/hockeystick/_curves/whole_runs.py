"""Runs with correlated noise as independent steps that reveal as much: one Gaussian, or cyclic samples.

Proofs: docs/theory/correlated-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    LARGEST_GROUP,
    Floats,
    broadcast,
    count_or_counts,
    count_scalar,
    float_array,
    in_shape,
    require,
    shown,
)
from hockeystick._curves.bins_curve import solve_bins
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.solving import solve
from hockeystick._executors import check_executor
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.configuration import configure
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick._vocabulary.support import Pair
from hockeystick.errors import UnsupportedError

MOST_PLACED = 8
"""Up to so many members each way to place them in parts is computed: 22 ways, as many times the work."""

MOST_NOISE = 1e30
"""More noise than this is taken as this much."""

_ROUNDED_DOWN = 1.0 - 1e-15
"""Makes up for the rounding of a few operations."""


class Part(NamedTuple):
    """Equal steps that stand for a part of the run."""

    scale: float
    """The noise of each is the noise multiplier of Z over this, which is rounded up."""
    least: float
    """`scale` rounded down, for the lower end of an interval."""
    times: int
    members: int
    """How many records change together in such a step."""


class Equivalent(NamedTuple):
    """Independent steps that reveal at least as much as a run with correlated noise."""

    parts: tuple[Part, ...]
    sampling: Sampling
    attained: bool
    """Whether they reveal as much for some data sets, and not more."""
    reason: str

    def kinds(self, noise_multiplier: float, adjacency: str) -> dict[StepKind, int]:
        """Return the steps and how often each occurs."""
        found: dict[StepKind, int] = {}
        for part in self.parts:
            noise = min(noise_multiplier / part.scale * _ROUNDED_DOWN, MOST_NOISE)
            kind, _ = step_kind(
                noise_multiplier=noise,
                sampling=self.sampling,
                group_size=part.members,
                adjacency=adjacency,
            )
            attained = kind.pair.tight and self.attained
            pair = Pair(attained, f"{kind.pair.source}; {self.reason}", of_whole_run=True)
            found[kind._replace(pair=pair)] = part.times
        return found


def equivalent(mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int) -> Equivalent:
    """Return the independent steps for a run of so many steps.

    Raises
    ------
    ValueError
        If there are more steps than the matrix has rows, or a group does not fit the scheme.
    UnsupportedError
        If no such steps are proven for the scheme.
    """
    count = mechanism.check_steps(steps)
    if isinstance(sampling, CyclicPoisson):
        return _cyclic(mechanism, sampling, count, group_size, (group_size,))
    if not isinstance(sampling, FullBatch | FixedOrder | MinimumSeparation):
        raise UnsupportedError(
            f"sampling {shown(sampling)} and CorrelatedNoise are not supported together: use FullBatch(), "
            f"FixedOrder(batches), MinimumSeparation(separation, participations) or "
            f"CyclicPoisson(sample_rate, cycle); or, for FixedBins(batches), "
            f"get_epsilon, get_delta or estimate_delta"
        )
    if count == 0:
        return Equivalent((), FullBatch(), True, "no steps")
    found = mechanism.sensitivity(sampling, count, group_size)
    # A group of m at full batches moves the sum by m: what is left is how far one of them does.
    scale = math.nextafter(found.upper / group_size, math.inf)
    part = Part(scale, math.nextafter(found.lower / group_size, 0.0), 1, group_size)
    reason = f"correlated noise, {count} steps: {found.method}"
    return Equivalent((part,), FullBatch(), found.exact, reason)


def placements(mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int) -> list[Equivalent]:
    """Return independent steps for each way to place a group, at most that of the worst is revealed.

    Where members may be in any parts of a cycle, each way to place them has a bound of its own, and the
    largest of these is below that of `equivalent`, which one composition has to cover.
    """
    several = isinstance(sampling, CyclicPoisson) and sampling.members == "any" and group_size > 1
    if not several or group_size > MOST_PLACED or steps == 0:
        return [equivalent(mechanism, sampling, steps, group_size)]
    assert isinstance(sampling, CyclicPoisson)
    count = mechanism.check_steps(steps)
    together = equivalent(mechanism, replace(sampling, members="together"), steps, group_size)
    placed = [sizes for sizes in _partitions(group_size) if 1 < len(sizes) <= sampling.cycle]
    return [together, *(_cyclic(mechanism, sampling, count, group_size, sizes) for sizes in placed)]


def _partitions(number: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """Return all ways to write a number as a sum of positive ones, the largest first."""
    if number == 0:
        return [()]
    top = number if largest is None else min(largest, number)
    return [(first, *rest) for first in range(top, 0, -1) for rest in _partitions(number - first, first)]


def _cyclic(
    mechanism: CorrelatedNoise,
    scheme: CyclicPoisson,
    steps: int,
    group_size: int,
    sizes: tuple[int, ...],
) -> Equivalent:
    """Return the steps of a group with these numbers of members in its parts; (m,) stands for any parts."""
    sampling = Poisson(scheme.sample_rate)
    matrix, cycle = mechanism.factor, min(scheme.cycle, max(steps, 1))
    if steps == 0:
        return Equivalent((), sampling, True, "no steps")
    bands = matrix.bands(steps)
    if bands > cycle:
        raise UnsupportedError(
            f"{scheme!r} needs a matrix of at most {cycle} bands, as the noise of two steps with the same "
            f"record must not overlap; {mechanism!r} has {bands}: use toeplitz with fewer coefficients, or a "
            f"longer cycle"
        )
    turns = -(-steps // cycle)
    if group_size == 1 or scheme.members == "together":
        parts, attained = _one_part(matrix.squared_columns(steps), cycle, turns, group_size)
        return Equivalent(parts, sampling, attained, f"correlated noise, {steps} steps in turns")
    if scheme.members == "apart":
        require(group_size <= scheme.cycle, "group_size", group_size, f"at most {scheme.cycle} parts")
        sizes = (1,) * group_size
    # Members anywhere: at worst they are in as many parts as there are, and all of them move the same steps.
    used = len(sizes) if len(sizes) > 1 else group_size
    scale = math.nextafter(math.sqrt(matrix.overlap(steps, cycle, min(used, cycle) - 1)), math.inf)
    reason = f"correlated noise, {steps} steps in turns: members in several parts"
    found = tuple(
        Part(scale, scale * _ROUNDED_DOWN, turns * sizes.count(size), size)
        for size in sorted(set(sizes), reverse=True)
    )
    return Equivalent(found, sampling, False, reason)


def _one_part(
    squares: tuple[Floats, Floats], cycle: int, turns: int, members: int
) -> tuple[tuple[Part, ...], bool]:
    """Return the norms of the columns of the worst part, largest first; and whether one part has them all."""
    lower, upper = (_by_turns(ends, cycle, turns) for ends in squares)
    worst = upper.max(axis=1)
    attained = bool(np.any(np.all(upper == worst[:, None], axis=0)))
    norms, counts = np.unique(worst, return_counts=True)
    parts = []
    for norm, count in zip(norms.tolist(), counts.tolist(), strict=True):
        if norm > 0.0:
            least = float(lower.max(axis=1)[worst == norm].min())
            roots = math.nextafter(math.sqrt(norm), math.inf), math.nextafter(math.sqrt(least), 0.0)
            parts.append(Part(*roots, count, members))
    return tuple(parts), attained


def _by_turns(squares: Floats, cycle: int, turns: int) -> Floats:
    """Return the squared norms of each part in a column, largest first; 0 where a part has a turn less."""
    padded = np.zeros(turns * cycle)
    padded[: squares.size] = squares
    return np.sort(padded.reshape(turns, cycle), axis=0)[::-1]


def whole_run_curve(
    mechanism: CorrelatedNoise,
    *,
    noise_multiplier: object = None,
    sample_rate: object = None,
    sampling: object,
    steps: int,
    group_size: int,
    group: Group | None = None,
    adjacency: str,
    tolerance: float,
) -> PrivacyCurve:
    """Privacy curve of a run with correlated noise; the arguments are those of `privacy_curve`."""
    _check_arguments(noise_multiplier, sample_rate, sampling)
    members = _members(group_size, group)
    noise = _known_noise(mechanism)
    found = equivalent(
        mechanism,
        sampling,
        count_scalar(steps, "steps", 0),
        count_scalar(members, "group_size", 1, LARGEST_GROUP),
    )
    return PrivacyCurve(found.kinds(noise, adjacency), adjacency, tolerance)


def whole_run_kinds(
    mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int, adjacency: str
) -> dict[StepKind, int]:
    """Return the steps that stand for a run, and how often each occurs."""
    return equivalent(mechanism, sampling, steps, group_size).kinds(_known_noise(mechanism), adjacency)


def placed_kinds(
    mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int, adjacency: str
) -> list[dict[StepKind, int]]:
    """Return the steps that stand for a run, for each way to place a group."""
    noise = _known_noise(mechanism)
    found = placements(mechanism, sampling, steps, group_size)
    return [placement.kinds(noise, adjacency) for placement in found]


_STEPS_TO_CHECK = 2**20
"""Longer cycles are not checked for more bands than parts before a run has as many steps."""


def check_whole_run(
    mechanism: CorrelatedNoise, sampling: object, group_size: int, group: Group | None, adjacency: str
) -> None:
    """Raise unless a run of any length can be accounted for that is recorded step by step.

    Raises
    ------
    TypeError
        If the noise multiplier or the sampling is missing.
    UnsupportedError
        If the run has no account, or the matrix is too large to be saved.
    """
    if sampling is None:
        _check_arguments(None, None, None)
    _members(group_size, group)
    mechanism.settings()
    # A cyclic scheme needs as many bands at most as it has parts: one step more shows whether there are more.
    steps = min(sampling.cycle, _STEPS_TO_CHECK) + 1 if isinstance(sampling, CyclicPoisson) else 1
    whole_run_kinds(mechanism, sampling, steps, group_size, adjacency)


def solve_whole_run(
    unknown: str,
    mechanism: CorrelatedNoise,
    *,
    noise_multiplier: object = None,
    sample_rate: object = None,
    sampling: object,
    steps: ArrayLike,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str,
    targets: dict[str, ArrayLike],
    bounds: bool,
    tolerance: float,
    executor: Executor | None = None,
) -> Any:
    """Epsilon, delta or the noise multiplier of runs with correlated noise, in the broadcast shape.

    Parameters
    ----------
    unknown : {"epsilon", "delta", "noise_multiplier"}
        What is asked for.
    targets : dict of array_like
        Delta, epsilon, or both, by their names.

    Notes
    -----
    An executor is not needed: runs that share a sensitivity are computed together.
    """
    if executor is not None:
        check_executor(executor)
    if not isinstance(bounds, bool | np.bool_):
        raise TypeError(f"bounds must be True or False, got {type(bounds).__name__}")
    width = check_tolerance(tolerance)
    _check_arguments(noise_multiplier, sample_rate, sampling)
    if isinstance(sampling, FixedBins) and unknown != "noise_multiplier":
        fixed = FixedOrder(sampling.batches)

        def known_bin(count: int, at: Floats) -> Any:
            asked = {next(iter(targets)): at}
            return _on_the_curve(mechanism, equivalent(mechanism, fixed, count, 1), adjacency, width, asked)[
                1
            ]

        return solve_bins(
            unknown,
            mechanism,
            sampling,
            noise_multiplier=_known_noise(mechanism),
            steps=steps,
            group_size=_members(group_size, group),
            adjacency=adjacency,
            at=next(iter(targets.values())),
            known_bin=known_bin,
            bounds=bounds,
            tolerance=width,
        )
    counts = np.asarray(count_or_counts(steps, "steps", 0))
    members = np.asarray(count_or_counts(_members(group_size, group), "group_size", 1))
    numbers = {name: float_array(value, name) for name, value in targets.items()}
    shape = broadcast(steps=counts, group_size=members, **numbers)
    columns = {name: np.broadcast_to(value, shape).ravel() for name, value in numbers.items()}
    runs = np.stack([np.broadcast_to(array, shape).ravel() for array in (counts, members)])
    lower, upper = np.empty(runs.shape[1]), np.empty(runs.shape[1])
    answer = _ANSWERS[unknown]
    for run in np.unique(runs, axis=1).T.tolist():
        alike = np.all(runs == np.array(run)[:, None], axis=0)
        count, size = run[0], count_scalar(run[1], "group_size", 1, LARGEST_GROUP)
        asked = {name: column[alike] for name, column in columns.items()}
        ends = [
            answer(mechanism, found, adjacency, width, asked)
            for found in placements(mechanism, sampling, count, size)
        ]
        lower[alike] = np.max([low for low, _ in ends], axis=0)
        upper[alike] = np.max([high for _, high in ends], axis=0)
    if bounds:
        return in_shape(lower, shape), in_shape(upper, shape)
    return in_shape(upper, shape)


def _on_the_curve(
    mechanism: CorrelatedNoise, found: Equivalent, adjacency: str, width: float, asked: dict[str, Floats]
) -> tuple[Any, Any]:
    """Both ends of epsilon or delta."""
    curve = PrivacyCurve(found.kinds(_known_noise(mechanism), adjacency), adjacency, width)
    return curve.bounds(**asked)


def _least_noise(
    mechanism: CorrelatedNoise, found: Equivalent, adjacency: str, width: float, asked: dict[str, Floats]
) -> tuple[Any, Any]:
    """Both ends of the smallest noise multiplier of Z that meets the targets."""
    epsilon, delta = asked["epsilon"], asked["delta"]

    def solved(times: int, members: int) -> tuple[Floats, Floats]:
        step = configure(
            adjacency=adjacency, sampling=found.sampling, group_size=members, unknown="noise_multiplier"
        )
        ends = solve(
            "noise_multiplier",
            step,
            steps=times,
            epsilon=epsilon,
            delta=delta,
            bounds=True,
            tolerance=width,
        )
        return np.atleast_1d(ends[0]), np.atleast_1d(ends[1])

    if not found.parts:
        return solved(0, 1)
    # All steps like the worst: enough for all of them, and needed where there is one kind.
    worst = max(found.parts, key=lambda part: (part.members, part.scale))
    scale = max(part.scale for part in found.parts)
    low, high = solved(sum(part.times for part in found.parts), worst.members)
    upper = np.nextafter(high * (scale / _ROUNDED_DOWN / _ROUNDED_DOWN), np.inf)
    if len(found.parts) == 1:
        return np.nextafter(low * worst.least, 0.0), upper
    lower = np.nextafter(solved(worst.times, worst.members)[0] * worst.least, 0.0)
    for place in range(upper.size):

        def epsilons(noise: float, at: float = delta[place]) -> tuple[float, float]:
            ends = PrivacyCurve(found.kinds(noise, adjacency), adjacency, width).bounds(delta=at)
            return float(ends[0]), float(ends[1])

        lower[place], upper[place] = _bisected(epsilons, epsilon[place], lower[place], upper[place], width)
    return lower, upper


def _bisected(
    epsilons: Callable[[float], tuple[float, float]], target: float, low: float, high: float, width: float
) -> tuple[float, float]:
    """Noise that misses the target, or may, and noise that meets it, brought together."""
    while high > low * (1.0 + width):
        middle = 0.5 * (low + high)
        lower, upper = epsilons(middle)
        if upper <= target:
            high = middle
        elif lower > target:
            low = middle
        else:
            break
    return low, high


_ANSWERS = {"epsilon": _on_the_curve, "delta": _on_the_curve, "noise_multiplier": _least_noise}


def _known_noise(mechanism: CorrelatedNoise) -> float:
    if mechanism.noise_multiplier is None:
        raise TypeError(
            f"{mechanism!r} has no noise multiplier: give it one by with_noise(noise_multiplier), or find it "
            f"by get_noise_multiplier"
        )
    return mechanism.noise_multiplier


def _check_arguments(noise_multiplier: object, sample_rate: object, sampling: object) -> None:
    if noise_multiplier is not None:
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    if sample_rate is not None or sampling is None:
        raise TypeError(
            "with CorrelatedNoise give sampling: FullBatch(), FixedOrder(batches), "
            "MinimumSeparation(separation, participations) or CyclicPoisson(sample_rate, cycle)"
        )


def _members(group_size: Any, group: Group | None) -> Any:
    """Numbers of records of which nothing else is known."""
    if group is None:
        return group_size
    known = check_group(group)
    if known.rates is not None or known.norms is not None or known.gradients != "aligned":
        raise UnsupportedError(
            f"{known!r} and CorrelatedNoise are not supported together: use group_size, without rates, norms "
            f"and orthogonal gradients, which is an upper bound for members with smaller gradients"
        )
    return known.size
