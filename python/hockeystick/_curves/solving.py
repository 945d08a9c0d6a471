"""One call of the compiled solver for all public functions that look for one unknown."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import (
    CountOrCounts,
    Counts,
    Floats,
    broadcast,
    count_or_counts,
    flat,
    float_or_floats,
    in_shape,
    shown,
)
from hockeystick._distinct import answered_once
from hockeystick._executors import check_bounds, ordered_map, slices
from hockeystick._vocabulary.configuration import Step
from hockeystick._vocabulary.intervals import check_settings, warn_if_loose, warn_if_wide

Solved: TypeAlias = tuple[Floats, Floats, NDArray[np.bool_]]
"""Lower ends, upper ends, and whether a search ended with the two further apart than was asked for."""

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
    step: Step,
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
    width = check_settings(bounds, tolerance, executor)
    numbers = (
        float_or_floats(epsilon, "epsilon"),
        float_or_floats(delta, "delta"),
        count_or_counts(steps, "steps", 0),
        step.noise,
        step.draw,
        step.group,
    )
    about = (unknown, step.adjacency, width)
    if np.ndarray in map(type, numbers):
        names = ("epsilon", "delta", "steps", "noise_multiplier", "sample_rate", "group_size")
        shape, (lower, upper, loose) = answered(
            lambda *rows: _shared_out(about, rows, executor), dict(zip(names, numbers, strict=True))
        )
    elif executor is None:
        shape, (lower, upper, loose) = (), _solved(about, numbers)
    else:
        shape, (lower, upper, loose) = (), _shared_out(about, numbers, executor)
    if unknown in ("epsilon", "delta"):
        warn_if_wide(unknown, lower, upper, width)
    elif loose.any():
        warn_if_loose(unknown, lower, upper, loose, width)
    if not bounds:
        safe = upper if SAFE_SIDE[unknown] == "upper" else lower
        return _counts_in_shape(safe, shape) if unknown in WHOLE else in_shape(safe, shape)
    # The upper end of whole numbers stays a float: it may be infinite.
    low = _counts_in_shape(lower, shape) if unknown in WHOLE else in_shape(lower, shape)
    return low, in_shape(upper, shape)


def answered(
    answer: Callable[..., tuple[NDArray[Any], ...]], arguments: dict[str, Any]
) -> tuple[tuple[int, ...], tuple[NDArray[Any], ...]]:
    """Answers to questions whose numbers are arrays that broadcast: their shape, and the answers flat.

    Parameters
    ----------
    answer : callable
        Called once with all `arguments`, in which arrays are replaced by vectors of one length, one
        entry for each different question.
    arguments : dict
        Numbers, arrays of numbers, and objects that are the same for all questions, by their names.
    """
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    shape = broadcast(**arrays)

    def asked(*columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        vectors = dict(zip(arrays, columns, strict=True))
        return answer(*(vectors.get(name, value) for name, value in arguments.items()))

    return shape, answered_once(flat(arrays.values(), shape), asked)


def _length(numbers: tuple[Any, ...]) -> int:
    """How many questions there are."""
    return next((len(column) for column in numbers if isinstance(column, np.ndarray)), 1)


def _shared_out(about: tuple[Any, ...], numbers: tuple[Any, ...], executor: Executor | None) -> Solved:
    """Solve for all elements, parts of which the executor computes."""
    if executor is None:
        return _solved(about, numbers)
    jobs = [
        (about, tuple(column[part] if isinstance(column, np.ndarray) else column for column in numbers))
        for part in slices(_length(numbers))
    ]
    # An empty array has no parts, and the core knows what is wrong with the other arguments.
    found = list(ordered_map(executor, _solved, jobs, _check_solved)) or [_solved(about, numbers)]
    lower, upper, loose = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return lower, upper, loose


def _check_solved(answer: object, job: tuple[Any, ...]) -> None:
    """Raise ``RuntimeError`` unless a worker's answer can be one."""
    (unknown, *_), numbers = job
    length = _length(numbers)
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


def _solved(about: tuple[Any, ...], numbers: tuple[Any, ...]) -> Solved:
    """Both ends of the interval of each element, and whether a search ended with the two too far apart."""
    unknown, adjacency, width = about
    epsilon, delta, steps, noise, draw, group = numbers
    return _core.solve(unknown, (noise, draw, group), steps, adjacency, epsilon, delta, width)


def _counts_in_shape(values: Floats, shape: tuple[int, ...]) -> CountOrCounts:
    counts: Counts = np.minimum(values, LARGEST_EXACT).astype(np.int64)
    return int(counts[0]) if shape == () else counts.reshape(shape)
