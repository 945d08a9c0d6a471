"""What randomises the answer of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from hockeystick._arguments import count_scalar, float_scalar, require, shown

LARGEST_SENSITIVITY = 2**20
"""Largest sensitivity of Skellam noise."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise, on a query of any dimension.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation sigma in units of the l2 sensitivity of one record (the clipping norm),
        finite and at least zero.

    Raises
    ------
    ValueError
        If `noise_multiplier` is out of range.
    TypeError
        If `noise_multiplier` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Gaussian(1.1)
    Gaussian(noise_multiplier=1.1)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_noise_multiplier(self.noise_multiplier))


@dataclass(frozen=True)
class Laplace:
    """Laplace noise.

    Parameters
    ----------
    scale : float
        Scale b of the density exp(-abs(x) / b) / (2 b) of every coordinate, in units of the l1
        sensitivity of one record; in (0, inf).

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
        object.__setattr__(self, "scale", _positive(self.scale, "scale"))


@dataclass(frozen=True)
class Skellam:
    """Symmetric Skellam noise on whole numbers: the difference of two equal Poisson variables.

    Parameters
    ----------
    variance : float
        Variance of the noise, twice the rate of either Poisson variable; in (0, inf).
    sensitivity : int, optional
        l1 sensitivity of one record, a whole number in [1, 2**20].

    Raises
    ------
    ValueError
        If an argument is out of range or `sensitivity` is not whole.
    TypeError
        If an argument is not a real number.

    Notes
    -----
    RGP writes Sk(0, C^2 mu) and calls its variance twice that; their equation 18 is the known bound
    for a variance of C^2 mu, and their code passes twice the Poisson rate for mu. Here there is one
    word for it: the variance.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Skellam(232.26)
    Skellam(variance=232.26, sensitivity=1)
    """

    variance: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _positive(self.variance, "variance"))
        object.__setattr__(self, "sensitivity", check_sensitivity(self.sensitivity))


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomised response on one bit: the true answer with probability p, the other one otherwise.

    Parameters
    ----------
    p : float
        Probability of the true answer, in (0.5, 1).

    Raises
    ------
    ValueError
        If `p` is not in (0.5, 1).
    TypeError
        If `p` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.RandomizedResponse(0.75)
    RandomizedResponse(p=0.75)
    """

    p: float

    def __post_init__(self) -> None:
        p = float_scalar(self.p, "p")
        require(0.5 < p < 1.0, "p", p, "in (0.5, 1)")
        object.__setattr__(self, "p", p)


Mechanism: TypeAlias = Gaussian | Laplace | Skellam | RandomizedResponse

FAMILIES: dict[str, type[Mechanism]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "skellam": Skellam,
    "randomized_response": RandomizedResponse,
}
"""Mechanisms by the names of their families."""

_NAMES = {mechanism: name for name, mechanism in FAMILIES.items()}

_MECHANISMS = "Gaussian(noise_multiplier), Laplace(scale), Skellam(variance) or RandomizedResponse(p)"


def check_mechanism(value: object) -> Mechanism:
    """Return `value`, which must be a mechanism."""
    if not isinstance(value, Gaussian | Laplace | Skellam | RandomizedResponse):
        raise TypeError(f"mechanism must be {_MECHANISMS}, got {shown(value)}")
    return value


def check_mechanism_class(value: object) -> type[Mechanism]:
    """Return `value`, which must be the class of a mechanism."""
    for mechanism in FAMILIES.values():
        if value is mechanism:
            return mechanism
    raise TypeError(
        f"mechanism must be the class Gaussian, Laplace, Skellam or RandomizedResponse, got {shown(value)}"
    )


def family_of(noise: float | Mechanism) -> str:
    """Name of the family of `noise`, a mechanism or the noise multiplier of Gaussian noise."""
    return "gaussian" if isinstance(noise, float) else _NAMES[type(noise)]


def parameter_of(noise: float | Mechanism) -> float:
    """How much noise: the multiplier, the scale, the variance or the probability of the true answer."""
    if isinstance(noise, float):
        return noise
    if isinstance(noise, Gaussian):
        return noise.noise_multiplier
    if isinstance(noise, Laplace):
        return noise.scale
    return noise.variance if isinstance(noise, Skellam) else noise.p


def check_noise_multiplier(value: object, name: str = "noise_multiplier") -> float:
    """`value` as a noise multiplier."""
    noise_multiplier = float_scalar(value, name)
    allowed = math.isfinite(noise_multiplier) and noise_multiplier >= 0.0
    require(allowed, name, noise_multiplier, "in [0, inf)")
    return noise_multiplier


def check_sensitivity(value: object) -> int:
    """`value` as the l1 sensitivity of Skellam noise."""
    return count_scalar(value, "sensitivity", 1, LARGEST_SENSITIVITY)


def _positive(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(math.isfinite(number) and number > 0.0, name, number, "in (0, inf)")
    return number
