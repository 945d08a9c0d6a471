"""Checks of arguments that several functions of riskcal have."""

from __future__ import annotations

from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, float_array, float_scalar, require

__all__ = ["positive", "probabilities"]


def __dir__() -> list[str]:
    return list(__all__)


def positive(**numbers: float) -> None:
    """Check numbers that have no effect, by their names."""
    for name, value in numbers.items():
        require(float_scalar(value, name) > 0.0, name, value, "positive")


def probabilities(value: ArrayLike, name: str) -> Floats:
    """Return an array of numbers in [0, 1]."""
    found = float_array(value, name)
    outside = ~((found >= 0.0) & (found <= 1.0))
    if outside.any():
        require(False, name, found[outside].flat[0], "in [0, 1]")
    return found
