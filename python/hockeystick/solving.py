"""One call of the compiled solver for all public functions that look for one unknown."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import CountOrCounts, Counts, Floats, count_array, float_array, in_shape, shown
from hockeystick._distinct import answered_once
from hockeystick._executors import check_bounds, check_executor, ordered_map, slices
from hockeystick.configuration import Configuration
from hockeystick.intervals import check_tolerance, warn_if_loose, warn_if_wide

Solved = tuple[Floats, Floats, NDArray[np.bool_]]

SAFE_SIDE = {
    "epsilon": "upper",
    "delta": "upper",
    "noise_multiplier": "upper",
    "sample_rate": "lower",
    "steps": "lower",
    "group_size": "lower",
}
"""The end of the certified interval at which the guarantee holds, for each unknown."""

WHOLE = ("steps", "group_size")
"""Unknowns that are whole numbers."""

LARGEST_STEPS = 10**9
"""Number of steps at which the core's search for the largest one ends."""

LARGEST_EXACT = float(2**53)
"""Largest count that a float64 tells from its neighbours."""


def solve(
    unknown: str,
    configuration: Configuration,
    *,
    steps: ArrayLike = 1,
    epsilon: ArrayLike = 0.0,
    delta: ArrayLike = 0.5,
    bounds: bool,
    tolerance: float,
    executor: Executor | None = None,
) -> Any:
    """Safe side of the certified interval for `unknown`, or both sides, in the broadcast shape.

    The default of an argument stands for the unknown, which the core ignores, or for what the
    question does not mention. Elements do not depend on each other: equal ones are computed once, and an
    executor computes parts of them.
    """
    if executor is not None:
        check_executor(executor)
    if not isinstance(bounds, bool | np.bool_):
        raise TypeError(f"bounds must be True or False, got {type(bounds).__name__}")
    width = check_tolerance(tolerance)
    shape, step, others = configuration.columns(
        epsilon=float_array(epsilon, "epsilon"),
        delta=float_array(delta, "delta"),
        steps=count_array(steps, "steps", 0),
    )
    epsilons, deltas, counts = others
    columns = (
        step.noise,
        step.sample_rate,
        step.batch_size,
        step.dataset_size,
        counts,
        step.group_size,
        epsilons,
        deltas,
    )
    fixed = (
        unknown,
        configuration.adjacency,
        step.mechanism,
        step.sampling,
        None if step.rates is None else np.array(step.rates),
        None if step.norms is None else np.array(step.norms),
        step.orthogonal,
        width,
    )
    if shape == ():
        lower, upper, loose = _shared_out(fixed, columns, executor)
    else:
        lower, upper, loose = answered_once(columns, lambda *rows: _shared_out(fixed, rows, executor))
    if unknown in ("epsilon", "delta"):
        warn_if_wide(unknown, lower, upper, width)
    elif loose.any():
        warn_if_loose(unknown, lower, upper, loose, width)
    # The upper end of whole numbers stays a float: it may be infinite.
    low = _counts_in_shape(lower, shape) if unknown in WHOLE else in_shape(lower, shape)
    ends = (low, in_shape(upper, shape))
    return ends if bounds else ends[("lower", "upper").index(SAFE_SIDE[unknown])]


def _shared_out(fixed: tuple[Any, ...], columns: tuple[Any, ...], executor: Executor | None) -> Solved:
    """Solve for all elements, parts of which the executor computes."""
    if executor is None:
        return _solved(fixed, columns)
    jobs = [(fixed, tuple(column[part] for column in columns)) for part in slices(len(columns[0]))]
    # An empty array has no parts, and the core knows what is wrong with the other arguments.
    found = list(ordered_map(executor, _solved, jobs, _check_solved)) or [_solved(fixed, columns)]
    lower, upper, loose = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return lower, upper, loose


def _check_solved(answer: object, job: tuple[Any, ...]) -> None:
    """Raise ``RuntimeError`` unless a worker's answer can be one."""
    (unknown, *_), columns = job
    length = len(columns[0])
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise RuntimeError(
            f"a worker of the executor answered with {shown(answer)} for {unknown}, "
            "which must be (lower, upper, loose)"
        )
    check_bounds(answer[:2], unknown, length)
    loose = answer[2]
    if not isinstance(loose, np.ndarray) or loose.dtype != np.bool_ or loose.shape != (length,):
        raise RuntimeError(
            f"a worker of the executor answered with {shown(loose)} for whether {unknown} is loose, "
            f"which must be bool of shape {(length,)}"
        )


def _solved(fixed: tuple[Any, ...], columns: tuple[Any, ...]) -> Solved:
    """Both ends of the interval of each element, and whether a search ended with the two too far apart."""
    unknown, adjacency, mechanism, sampling, rates, norms, orthogonal, width = fixed
    noise, sample_rate, batch_size, dataset_size, steps, group_size, epsilon, delta = columns
    return _core.solve(
        unknown,
        adjacency,
        mechanism,
        noise,
        sampling,
        sample_rate,
        batch_size,
        dataset_size,
        steps,
        group_size,
        rates,
        norms,
        orthogonal,
        epsilon,
        delta,
        width,
    )


def _counts_in_shape(values: Floats, shape: tuple[int, ...]) -> CountOrCounts:
    counts: Counts = np.minimum(values, LARGEST_EXACT).astype(np.int64)
    return int(counts[0]) if shape == () else counts.reshape(shape)
