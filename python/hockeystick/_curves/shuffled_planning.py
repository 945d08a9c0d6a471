"""Noise, steps and group size with which a run of shuffled batches meets a target.

The guarantee of a run is the upper end of its interval, and so the safe end of an answer is what meets the
target by the upper end. Its other end is what certainly misses the target, by the lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    LARGEST_GROUP,
    CountOrCounts,
    Floats,
    count_or_counts,
    float_or_floats,
    in_shape,
    require,
)
from hockeystick._curves.shuffled_upper import upper_curve
from hockeystick._curves.solving import LARGEST_STEPS, answered
from hockeystick._executors import ordered_map
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.intervals import check_settings
from hockeystick._vocabulary.mechanisms import Mechanism
from hockeystick._vocabulary.sampling import Shuffle
from hockeystick._vocabulary.shuffled_step import configure_shuffled
from hockeystick.errors import UnreachableError

SMALLEST_NOISE, LARGEST_NOISE = 1e-6, 1e12
"""Range of the search for a noise multiplier."""

LOWER_WIDTH = 1e-2
"""Relative width to which lower ends are computed, and at which the search for a number that misses the
target ends. Lower ends are far from upper ends anyway. They take 0.1 s at this width and a second at 1e-6."""

COUNT_WIDTH = 5e-2
"""Relative width of the lower ends of epsilon in a search for steps or group sizes. It is larger than
`LOWER_WIDTH`, because the smallest count that misses the target is several times the one that meets it."""

_ROUNDING_STEPS = 60
"""How often an answer is moved to the safe side by a part of the tolerance until it meets the target."""


class _Question(NamedTuple):
    """The question of one element of the arrays. The number that is asked for has no meaning in it."""

    unknown: str
    sampling: Shuffle
    adjacency: str
    tolerance: float
    bounds: bool
    epsilon: float
    delta: float
    noise_multiplier: float
    group_size: int
    steps: int

    def misses(self, value: float) -> bool:
        """Whether a value of the unknown certainly misses the target, by a rough lower end."""
        return self.ends(value, max(self.tolerance, LOWER_WIDTH))[0] > self.epsilon

    def ends(self, value: float, tolerance: float) -> tuple[float, float]:
        """Both ends of epsilon at a value of the unknown."""
        run = self.at(value)
        lower, upper = _core.shuffled_interval(
            "epsilon",
            (self.sampling.batch_size, self.sampling.dataset_size),
            run.noise_multiplier,
            run.group_size,
            run.steps,
            self.adjacency,
            self.delta,
            tolerance,
        )
        return float(lower[0]), float(upper[0])

    def upper(self, value: float) -> float:
        """Upper end of epsilon alone, which takes far less time than the lower one."""
        run = self.at(value)
        if run.steps == 0:
            return 0.0
        curve = upper_curve(
            self.sampling, ((run.noise_multiplier, run.steps),), run.group_size, self.adjacency
        )
        return float(curve.epsilon(np.array([self.delta]))[1][0])

    def at(self, value: float) -> _Question:
        """Return the run with a value of the unknown."""
        if self.unknown == "noise_multiplier":
            return self._replace(noise_multiplier=value)
        return (
            self._replace(steps=int(value))
            if self.unknown == "steps"
            else self._replace(group_size=int(value))
        )


def plan_shuffled(
    unknown: str,
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    mechanism: Mechanism | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Shuffle,
    steps: ArrayLike = 1,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str,
    bounds: bool,
    tolerance: float,
    executor: Executor | None = None,
) -> Any:
    """Return the number that meets the target, by the upper end, or both ends, in the broadcast shape.

    Parameters
    ----------
    unknown : {"noise_multiplier", "steps", "group_size"}
        What is asked for.
    epsilon, delta : array_like
        Target.
    noise_multiplier, mechanism, sample_rate, sampling, steps, group_size, group, adjacency
        As in `get_epsilon`; what is asked for is left out.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Raises
    ------
    UnreachableError
        If nothing in the supported range meets the target.
    """
    width = check_settings(bounds, tolerance, executor)
    step = configure_shuffled(
        adjacency=adjacency,
        noise_multiplier=1.0 if unknown == "noise_multiplier" else noise_multiplier,
        mechanism=mechanism,
        sample_rate=sample_rate,
        sampling=sampling,
        group_size=group_size,
        group=group,
    )
    numbers: dict[str, Any] = {
        "epsilon": float_or_floats(epsilon, "epsilon"),
        "delta": float_or_floats(delta, "delta"),
        "noise_multiplier": step.noise_multiplier,
        "group_size": step.group_size,
        "steps": count_or_counts(steps, "steps", 0),
    }
    about = (unknown, step.sampling, step.adjacency, width, bool(bounds))

    def answer(*columns: Any) -> tuple[Floats, Floats]:
        """Solve the question of every element, by the executor if there is one."""
        length = next((len(column) for column in columns if isinstance(column, np.ndarray)), 1)
        rows = [
            # mypy cannot count the columns.
            _Question(*about, *(_entry(column, i) for column in columns))  # type: ignore[arg-type]
            for i in range(length)
        ]
        if executor is None:
            found = [_solved(row) for row in rows]
        else:
            found = list(ordered_map(executor, _solved, [(row,) for row in rows]))
        lower, upper = np.array(found, dtype=np.float64).reshape(-1, 2).T
        return lower, upper

    if np.ndarray in map(type, numbers.values()):
        shape, (lower, upper) = answered(answer, numbers)
    else:
        shape, (lower, upper) = (), answer(*numbers.values())
    if unknown == "noise_multiplier":
        return (in_shape(lower, shape), in_shape(upper, shape)) if bounds else in_shape(upper, shape)
    whole = _whole(lower, shape)
    return (whole, in_shape(upper, shape)) if bounds else whole


def _entry(column: Any, i: int) -> float | int:
    found: float | int = column[i].item() if isinstance(column, np.ndarray) else column
    return found


def _whole(values: Floats, shape: tuple[int, ...]) -> CountOrCounts:
    counts = values.astype(np.int64)
    return int(counts[0]) if shape == () else counts.reshape(shape)


def _solved(question: _Question) -> tuple[float, float]:
    """Both ends of one answer; the end that is not the safe one is only computed if it is asked for."""
    require(0.0 <= question.epsilon < math.inf, "epsilon", question.epsilon, "finite and at least 0")
    require(0.0 < question.delta < 1.0, "delta", question.delta, "in (0, 1)")
    if question.unknown == "noise_multiplier":
        return _smallest_noise(question)
    return _largest_count(question)


def _smallest_noise(question: _Question) -> tuple[float, float]:
    target, width = question.epsilon, question.tolerance
    high = 1.0
    while question.upper(high) > target:
        high *= 4.0
        if high > LARGEST_NOISE:
            raise _unreachable(question, f"no noise multiplier up to {LARGEST_NOISE:g} meets it")
    low = high / 4.0
    while low > SMALLEST_NOISE and question.upper(low) <= target:
        high, low = low, low / 4.0
    while high > low * (1.0 + 0.25 * width):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if question.upper(middle) <= target else (middle, high)
    # Two certified upper ends of one run may differ by their own widths.
    high = _moved(question, high, lambda noise: noise * (1.0 + 0.5 * width))
    if not question.bounds:
        return math.nan, high
    lower = high
    misses = 0.0
    for _ in range(20):
        lower *= 0.5
        if lower < SMALLEST_NOISE or question.misses(lower):
            misses = 0.0 if lower < SMALLEST_NOISE else lower
            break
    beyond = high if misses == 0.0 else 2.0 * misses
    while misses > 0.0 and beyond > misses * (1.0 + LOWER_WIDTH):
        middle = math.sqrt(misses * beyond)
        misses, beyond = (middle, beyond) if question.misses(middle) else (misses, middle)
    return misses, high


def _largest_count(question: _Question) -> tuple[float, float]:
    target = question.epsilon
    most = LARGEST_STEPS
    if question.unknown == "group_size":
        most = min(LARGEST_GROUP, question.sampling.dataset_size)
    least = 0 if question.unknown == "steps" else 1
    if question.upper(least) > target:
        raise _unreachable(question, f"one record has epsilon up to {question.upper(least):.6g}")
    low, high = least, least + 1
    while high <= most and question.upper(high) <= target:
        low, high = high, high * 2
    high = min(high, most + 1)
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (middle, high) if question.upper(middle) <= target else (low, middle)
    low = int(_moved(question, low, lambda count: max(least, count - 1)))
    if not question.bounds:
        return float(low), math.nan
    if question.unknown == "group_size" and not question.misses(most):
        return float(low), math.inf  # lower ends follow few members: often no group certainly misses
    meets, misses = low, 2 * low + 1
    while misses <= most and not question.misses(misses):
        meets, misses = misses, 2 * misses
    if misses > most:
        if not question.misses(most):
            return float(low), math.inf
        misses = most
    while misses > meets + max(1, int(COUNT_WIDTH * misses)):
        middle = (meets + misses) // 2
        meets, misses = (meets, middle) if question.misses(middle) else (middle, misses)
    return float(low), float(misses)


def _moved(question: _Question, value: float, move: Callable[[float], float]) -> float:
    """Move an answer to the safe side until `get_epsilon` is at most the target there."""
    for _ in range(_ROUNDING_STEPS):
        if question.ends(value, question.tolerance)[1] <= question.epsilon:
            return value
        value = move(value)
    raise _unreachable(question, "the certified ends are further apart than the tolerance")


def _unreachable(question: _Question, why: str) -> UnreachableError:
    return UnreachableError(
        f"epsilon = {question.epsilon!r} cannot be reached at delta = {question.delta!r} for any "
        f"{question.unknown} of shuffled batches; {why}"
    )
