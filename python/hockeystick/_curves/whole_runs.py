"""Runs with correlated noise as independent steps that reveal as much: one Gaussian, or cyclic samples.

Proofs: docs/theory/correlated-noise.md.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    LARGEST_GROUP,
    Floats,
    broadcast,
    count_or_counts,
    count_scalar,
    float_array,
    in_shape,
)
from hockeystick._curves.bins_curve import BinsCurve
from hockeystick._curves.bins_solving import check_one_record, solve_bins
from hockeystick._curves.chain_of_bins import of_independent_noise
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.equivalent_steps import ROUNDED_DOWN, Equivalent, equivalent, placements
from hockeystick._curves.solving import solve
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.configuration import configure
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.intervals import check_settings
from hockeystick._vocabulary.participation import CyclicPoisson
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick.errors import UnsupportedError


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
) -> PrivacyCurve | BinsCurve:
    """Privacy curve of a run with correlated noise; the arguments are those of `privacy_curve`."""
    _check_arguments(noise_multiplier, sample_rate, sampling)
    members = _members(group_size, group)
    noise = _known_noise(mechanism)
    if isinstance(sampling, FixedBins):
        check_one_record(members)
        return bins_curve(mechanism, sampling, count_scalar(steps, "steps", 0), adjacency, tolerance)
    found = equivalent(
        mechanism,
        sampling,
        count_scalar(steps, "steps", 0),
        count_scalar(members, "group_size", 1, LARGEST_GROUP),
    )
    return PrivacyCurve(found.kinds(noise, adjacency), adjacency, tolerance)


def bins_curve(
    mechanism: CorrelatedNoise, sampling: FixedBins, steps: int, adjacency: str, tolerance: float
) -> PrivacyCurve | BinsCurve:
    """Privacy curve of one record in a random bin: that of `FixedBins` alone where noise is independent."""
    independent = of_independent_noise(mechanism, _known_noise(mechanism))
    if independent is None:
        return BinsCurve(mechanism, sampling, steps, adjacency, tolerance)
    kind, relation = step_kind(noise_multiplier=independent, sampling=sampling, adjacency=adjacency)
    return PrivacyCurve({kind: steps} if steps else {}, relation, tolerance)


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
    members = _members(group_size, group)
    mechanism.settings()
    if isinstance(sampling, FixedBins):
        check_one_record(members)
        # A run of no steps asks whether there is a curve for such a matrix.
        bins_curve(mechanism, sampling, 0, adjacency, DEFAULT_TOLERANCE)
        return
    # A cyclic scheme needs as many bands at most as it has parts: one step more shows whether there are more.
    steps = min(sampling.cycle, _STEPS_TO_CHECK) + 1 if isinstance(sampling, CyclicPoisson) else 1
    placed_kinds(mechanism, sampling, steps, group_size, adjacency)


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
    width = check_settings(bounds, tolerance, executor)
    _check_arguments(noise_multiplier, sample_rate, sampling)
    if isinstance(sampling, FixedBins):
        return solve_bins(
            unknown,
            mechanism if unknown == "noise_multiplier" else mechanism.with_noise(_known_noise(mechanism)),
            sampling,
            steps=steps,
            group_size=_members(group_size, group),
            adjacency=adjacency,
            targets=targets,
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
        placed = placements(mechanism, sampling, count, size)
        for found in placed:
            found.require(adjacency)
        ends = [answer(mechanism, found, adjacency, width, asked) for found in placed]
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
        """Return both ends of the noise multiplier of so many equal steps of so many records."""
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
    upper = np.nextafter(high * (scale / ROUNDED_DOWN / ROUNDED_DOWN), np.inf)
    if len(found.parts) == 1:
        return np.nextafter(low * worst.least, 0.0), upper
    lower = np.nextafter(solved(worst.times, worst.members)[0] * worst.least, 0.0)
    for place in range(upper.size):

        def epsilons(noise: float, at: float = delta[place]) -> tuple[float, float]:
            """Return both ends of epsilon at this noise."""
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
            "MinimumSeparation(separation, participations), CyclicPoisson(sample_rate, cycle) or "
            "FixedBins(batches)"
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
