"""The smallest noise with which planned steps meet a target, for any accountant."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hockeystick import Poisson, Shuffle, get_noise_multiplier
from hockeystick._arguments import float_scalar, require
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants import Accountant, GroupAccountant

SMALLEST, LARGEST = 1e-3, 1e6
"""Range of the search."""

WIDTH = 1e-6
"""Relative distance from the smallest noise multiplier at which the search ends."""


def noise_for(
    accountant: Any, *, epsilon: float, delta: float, draw: float | Sampling | Shuffle, steps: int
) -> float:
    """Noise multiplier with which the accountant's steps so far and planned ones meet a target.

    Parameters
    ----------
    accountant : Accountant or opacus.accountants.IAccountant
        Whose epsilon is meant; it is not changed.
    epsilon : float
        Target, positive and finite.
    delta : float
        In (0, 1).
    draw : float or sampling scheme
        Of the planned steps: a sample rate, or a scheme that the accountant covers.
    steps : int
        Their number, at least one.

    Returns
    -------
    float
        Noise multiplier, rounded up: the accountant's own answer for it is at most `epsilon`.

    Raises
    ------
    ValueError
        If an argument is out of range, or no noise multiplier up to 1e6 meets the target.
    """
    target = float_scalar(epsilon, "target_epsilon")
    require(0.0 < target < math.inf, "target_epsilon", target, "positive and finite")
    level = float_scalar(delta, "target_delta")
    require(0.0 < level < 1.0, "target_delta", level, "in (0, 1)")
    past = list(accountant.history)
    trial = deepcopy(accountant)

    def met(noise_multiplier: float) -> bool:
        """Whether the whole run stays within the target with this noise."""
        trial.history = [*past, (noise_multiplier, draw, steps)]
        if isinstance(trial, Accountant):
            return bool(trial.get_epsilon(level) <= target)
        try:
            return bool(trial.get_epsilon(level) <= target)
        except (ArithmeticError, ValueError):
            # Opacus's accountants fail where little noise is left: GDP finds no sign change, PRV no grid.
            return False

    if not past and isinstance(accountant, GroupAccountant):
        return _of_equal_steps(accountant, target, level, draw, steps)
    return _smallest(met, target)


def _of_equal_steps(
    accountant: GroupAccountant, epsilon: float, delta: float, draw: float | Sampling | Shuffle, steps: int
) -> float:
    """Return what the compiled solver finds in one call."""
    given: Any = Poisson(draw) if isinstance(draw, float) else draw
    whose: dict[str, Any] = {"group_size": accountant.group_size}
    if accountant.group is not None:
        whose = {"group": accountant.group}
    noise = get_noise_multiplier(
        epsilon=epsilon,
        delta=delta,
        sampling=given,
        steps=steps,
        adjacency=accountant.adjacency,
        tolerance=accountant.tolerance,
        **whose,
    )
    return float(noise)


def _smallest(met: Callable[[float], bool], target: float) -> float:
    """Return a noise multiplier that meets the target, within `WIDTH` of one that does not."""
    high = 1.0
    while not met(high):
        high *= 4.0
        if high > LARGEST:
            raise ValueError(
                f"target_epsilon {target} is out of reach: no noise multiplier up to {LARGEST:g} meets it "
                "with the steps so far"
            )
    low = high / 4.0
    while low >= SMALLEST and met(low):
        high, low = low, low / 4.0
    while high > low * (1.0 + WIDTH):
        middle = math.sqrt(low * high)
        if met(middle):
            high = middle
        else:
            low = middle
    return high
