"""Certified intervals: which end is safe, and when they are too wide to go unmentioned."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import (
    FloatOrFloats,
    Floats,
    float_array,
    float_scalar,
    in_shape,
    require,
)
from hockeystick._distinct import answered_once
from hockeystick._executors import check_executor
from hockeystick.errors import WideIntervalWarning

TINY_DELTA = 1e-12
"""At and below this delta a width of `TINY_DELTA_TOLERANCE` is as good as intended."""

TINY_DELTA_TOLERANCE = 1e-3
"""Relative width that is good enough there: such deltas are compared by their orders of magnitude, and
narrower intervals take longer. With a larger one, wide intervals would go without a warning."""

_LEAST = {"epsilon": sys.float_info.min, "delta": sys.float_info.min}
"""Below this upper end, the smallest normal number, a float64 has fewer digits the smaller it is: a
relative width cannot be asked for there, and the interval from 0 is as good as intended."""


def check_tolerance(value: object) -> float:
    """`value` as a relative width."""
    tolerance = float_scalar(value, "tolerance")
    require(1e-9 <= tolerance <= 0.1, "tolerance", tolerance, "in [1e-9, 0.1]")
    return tolerance


def check_settings(bounds: object, tolerance: object, executor: object) -> float:
    """`tolerance` as a relative width, after a look at what planners and read-outs take besides."""
    if executor is not None:
        check_executor(executor)
    if not isinstance(bounds, bool | np.bool_):
        raise TypeError(f"bounds must be True or False, got {type(bounds).__name__}")
    return check_tolerance(tolerance)


def wanted_widths(name: str, upper: Floats, tolerance: float) -> Floats:
    """Relative widths that intervals for epsilon or delta with these upper ends should have."""
    wanted = np.full(upper.shape, tolerance)
    if name == "delta":
        wanted[upper <= TINY_DELTA] = max(tolerance, TINY_DELTA_TOLERANCE)
    return wanted


def are_wide(name: str, lower: Floats, upper: Floats, tolerance: float) -> NDArray[np.bool_]:
    """Which intervals for epsilon or delta are wider than they should be."""
    with np.errstate(invalid="ignore"):
        width = upper - lower
        wide = (width > wanted_widths(name, upper, tolerance) * upper) | (
            np.isinf(upper) & np.isfinite(lower)
        )
    wide &= upper >= _LEAST[name]
    return wide


def warn_if_wide(name: str, lower: Floats, upper: Floats, tolerance: float) -> None:
    """Warn once, at the user's line, if an interval for epsilon or delta is too wide."""
    # The reduction itself, as `all` passes through Python code.
    if np.logical_and.reduce(lower >= upper * (1.0 - 0.999 * tolerance)):
        return
    wide = are_wide(name, lower, upper, tolerance)
    if np.any(wide):
        wanted = wanted_widths(name, upper, tolerance)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(wide, lower / upper, np.inf)
        worst = int(np.argmin(shares))
        others = int(np.count_nonzero(wide)) - 1
        warnings.warn(
            f"{name} is certified to lie in [{lower[worst]:.9g}, {upper[worst]:.9g}], which is wider than "
            f"the tolerance {wanted[worst]:g}" + (f"; so are {others} further intervals" if others else ""),
            WideIntervalWarning,
            stacklevel=levels_inside(),
        )


_UNKNOWNS = {
    "noise_multiplier": "the smallest noise_multiplier that meets the target",
    "sample_rate": "the largest sample_rate that meets the target",
    "steps": "the largest number of steps that meets the target",
    "group_size": "the largest group_size that meets the target",
}
"""The names of what planners search for."""


def warn_if_loose(
    name: str, lower: Floats, upper: Floats, loose: NDArray[np.bool_], tolerance: float
) -> None:
    """Warn once, at the user's line, that a search could not bring its two ends together as asked."""
    # The furthest apart by their ratio; a lower end of zero or an infinite upper one counts as the worst.
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(loose, lower / upper, np.inf)
    worst = int(np.argmin(shares))
    others = int(np.count_nonzero(loose)) - 1
    warnings.warn(
        f"{_UNKNOWNS[name]} certainly lies in [{lower[worst]:.9g}, {upper[worst]:.9g}], as the certified "
        f"intervals in between are wider than the tolerance {tolerance:g}; the safe end is returned"
        + (f"; so it is for {others} further elements" if others else ""),
        WideIntervalWarning,
        stacklevel=levels_inside(),
    )


def levels_inside() -> int:
    """`stacklevel` with which the caller blames the first line outside this package."""
    package = __name__.partition(".")[0]
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level + 1


def both_ends(
    delta: ArrayLike | None,
    epsilon: ArrayLike | None,
    answer: Callable[[str, Floats], tuple[Floats, Floats]],
    tolerance: float,
) -> tuple[FloatOrFloats, FloatOrFloats]:
    """Both ends of the intervals of a curve for epsilon at `delta`, or for delta at `epsilon`.

    `answer` takes "epsilon" or "delta", which is unknown, and a one-dimensional array of values of the other
    one. Equal values are asked about once, and an interval wider than `tolerance` is warned of.
    """
    if (delta is None) == (epsilon is None):
        raise TypeError("give exactly one of delta and epsilon")
    if delta is not None:
        unknown, given = "epsilon", float_array(delta, "delta")
    else:
        unknown, given = "delta", float_array(epsilon, "epsilon")
    questions = given.ravel()
    if given.ndim == 0:
        lower, upper = answer(unknown, questions)
    else:
        lower, upper = answered_once([questions], lambda each: answer(unknown, each))
    warn_if_wide(unknown, lower, upper, tolerance)
    return in_shape(lower, given.shape), in_shape(upper, given.shape)
