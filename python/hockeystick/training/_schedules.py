"""Numbers that may change from step to step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hockeystick._arguments import float_scalar, require
from hockeystick.training._clipping import check_norm


def rate_schedule(learning_rate: object) -> Callable[[int], float]:
    """Step size by the number of the step."""
    return _schedule(learning_rate, _check_rate)


def clipping_schedule(max_grad_norm: object) -> Callable[[int], float]:
    """Clipping norm by the number of the step."""
    return _schedule(max_grad_norm, check_norm)


def _schedule(value: object, check: Callable[[object], float]) -> Callable[[int], float]:
    if callable(value):
        function = value
        return lambda step: check(function(step))
    constant = check(value)
    return lambda step: constant


def _check_rate(value: object) -> float:
    rate = float_scalar(value, "learning_rate")
    require(0.0 <= rate < np.inf, "learning_rate", rate, "in [0, inf)")
    return rate
