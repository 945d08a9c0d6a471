"""Epsilon and delta of shuffled batches against the usual adversary: a certified interval.

No tight pair is known. The lower end is what two concrete data sets certainly reveal, and the upper end
holds even against an adversary who knows every batch (docs/theory/shuffling-interval.md).
"""

from __future__ import annotations

import warnings
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import Floats, count_or_counts, float_or_floats, in_shape
from hockeystick._curves.solving import answered
from hockeystick._executors import check_bounds, ordered_map, slices
from hockeystick._vocabulary.intervals import check_settings, levels_inside
from hockeystick._vocabulary.shuffled_step import ShuffledStep
from hockeystick.errors import WideIntervalWarning


def solve_shuffled(
    unknown: str,
    step: ShuffledStep,
    *,
    steps: ArrayLike,
    at: ArrayLike,
    bounds: bool,
    tolerance: float,
    executor: Executor | None = None,
) -> Any:
    """Both ends of the interval for epsilon or delta, or its upper end with a warning.

    Parameters
    ----------
    unknown : {"epsilon", "delta"}
        What is asked for.
    step : ShuffledStep
        One step of the run.
    steps, at : array_like
        Number of batches, and the delta or epsilon that is given.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Warns
    -----
    WideIntervalWarning
        If the upper end alone is returned and the lower one is below it by more than the tolerance.
    """
    width = check_settings(bounds, tolerance, executor)
    about = (unknown, step.sampling.batch_size, step.sampling.dataset_size, step.adjacency)
    given = "delta" if unknown == "epsilon" else "epsilon"
    numbers: dict[str, Any] = {
        given: float_or_floats(at, given),
        "noise_multiplier": step.noise_multiplier,
        "group_size": step.group_size,
        "steps": count_or_counts(steps, "steps", 0),
    }
    asked = (*about, width)
    if np.ndarray in map(type, numbers.values()):
        shape, (lower, upper) = answered(lambda *columns: _shared_out(asked, columns, executor), numbers)
    else:
        shape, (lower, upper) = (), _shared_out(asked, tuple(numbers.values()), executor)
    if bounds:
        return in_shape(lower, shape), in_shape(upper, shape)
    _warn(unknown, lower, upper, width)
    return in_shape(upper, shape)


def _shared_out(
    about: tuple[Any, ...], numbers: tuple[Any, ...], executor: Executor | None
) -> tuple[Floats, Floats]:
    """Answer all elements, parts of which the executor computes."""
    if executor is None:
        return _solved(about, numbers)
    length = next((len(column) for column in numbers if isinstance(column, np.ndarray)), 1)
    jobs = [
        (about, tuple(column[part] if isinstance(column, np.ndarray) else column for column in numbers))
        for part in slices(length)
    ]
    found = list(ordered_map(executor, _solved, jobs, _check_solved)) or [_solved(about, numbers)]
    lower, upper = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return lower, upper


def _check_solved(answer: object, job: tuple[Any, ...]) -> None:
    """Raise ``RuntimeError`` unless a worker's answer can be one."""
    (unknown, *_), numbers = job
    length = next((len(column) for column in numbers if isinstance(column, np.ndarray)), 1)
    check_bounds(answer, unknown, length)


def _solved(about: tuple[Any, ...], numbers: tuple[Any, ...]) -> tuple[Floats, Floats]:
    """Both ends of the interval of each element."""
    unknown, batch_size, dataset_size, adjacency, width = about
    at, noise_multiplier, group_size, steps = numbers
    return _core.shuffled_interval(
        unknown, (batch_size, dataset_size), noise_multiplier, group_size, steps, adjacency, at, width
    )


def _warn(unknown: str, lower: Floats, upper: Floats, tolerance: float) -> None:
    """Say once, at the user's line, that the upper end need not be attained."""
    wide = lower < upper * (1.0 - tolerance)
    if not np.any(wide):
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        worst = int(np.argmin(np.where(wide, lower / upper, np.inf)))
    others = int(np.count_nonzero(wide)) - 1
    warnings.warn(
        f"{unknown} of shuffled batches is certified to lie in [{lower[worst]:.9g}, {upper[worst]:.9g}]: no "
        f"tight bound is proven against the usual adversary, and the upper end is returned, at which the "
        f"guarantee holds; bounds=True returns both"
        + (f"; so it is for {others} further elements" if others else ""),
        WideIntervalWarning,
        stacklevel=levels_inside(),
    )
