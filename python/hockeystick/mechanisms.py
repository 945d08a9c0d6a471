"""The noise that a step adds to its sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hockeystick._arguments import float_scalar, require


@dataclass(frozen=True)
class Laplace:
    """Laplace noise on a query of one dimension, in place of the Gaussian.

    Parameters
    ----------
    scale : float
        Scale b of the density exp(-abs(x) / b) / (2 b), in units of the clipping norm; in (0, inf).

    Raises
    ------
    ValueError
        If `scale` is not in (0, inf).
    TypeError
        If `scale` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Laplace(2.0)
    Laplace(scale=2.0)
    """

    scale: float

    def __post_init__(self) -> None:
        scale = float_scalar(self.scale, "scale")
        require(math.isfinite(scale) and scale > 0.0, "scale", scale, "in (0, inf)")
        object.__setattr__(self, "scale", scale)


def check_mechanism(value: object) -> Laplace:
    """Return `value`, which must be a mechanism."""
    if not isinstance(value, Laplace):
        raise TypeError(f"mechanism must be Laplace(scale), or left out for Gaussian noise, got {value!r}")
    return value


def check_noise_multiplier(value: object, name: str = "noise_multiplier") -> float:
    """`value` as a noise multiplier."""
    noise_multiplier = float_scalar(value, name)
    allowed = math.isfinite(noise_multiplier) and noise_multiplier >= 0.0
    require(allowed, name, noise_multiplier, "in [0, inf)")
    return noise_multiplier
