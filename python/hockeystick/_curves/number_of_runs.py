"""How many training runs are made before the best is chosen: a random number, with a law that hides it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hockeystick._arguments import Floats, count_scalar, float_scalar, require
from hockeystick._vocabulary.spelling import spelled_class

LARGEST_MEAN = 1e6
"""Largest mean number of runs; the grid of the bound is too coarse for more."""

_MARGIN = 1e-12
"""Relative distance of the success probability from the root, to the side of more runs: its bisection ends
at 1e-15."""


class NumberOfRuns(Protocol):
    """The law of a number K of runs, by the derivative of its generating function φ(z) = E z^K.

    The derivative at 1 is the mean m. Bounds use how fast it falls below 1: ln(φ'(1 - u) / m).
    """

    @property
    def mean(self) -> float:
        """Mean number of runs."""

    def log_weight(self, u: Floats) -> Floats:
        """ln(φ'(1 - u) / m) for u in [0, 1]: 0 at 0, and decreasing."""

    def place(self, log_weight: Floats) -> Floats:
        """Return u with this log_weight; above 1 where there is none."""


@spelled_class
@dataclass(frozen=True)
class PoissonRuns:
    """A Poisson number of runs; none at all with probability ``exp(-mean)``.

    Parameters
    ----------
    mean : float
        Mean number of runs, in (0, 1e6].

    Raises
    ------
    ValueError
        If `mean` is out of range.
    TypeError
        If `mean` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.PoissonRuns(10)
    PoissonRuns(mean=10.0)
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _mean(self.mean, 0.0))

    def log_weight(self, u: Floats) -> Floats:
        """ln(φ'(1 - u) / m).

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> hs.PoissonRuns(10).log_weight(np.array([0.5, 1.0])).tolist()  # φ(z) = exp(10 (z - 1))
        [-5.0, -10.0]
        """
        return -self.mean * u

    def place(self, log_weight: Floats) -> Floats:
        """Return u with this log_weight.

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> hs.PoissonRuns(10).place(np.array([-5.0, -10.0])).tolist()
        [0.5, 1.0]
        """
        return -log_weight / self.mean


@spelled_class
@dataclass(frozen=True)
class NegativeBinomialRuns:
    """A truncated negative binomial number of runs, at least one.

    ``P(K = k)`` is proportional to ``binomial(k + shape - 1, k) (1 - γ)^k`` for k >= 1. Shape 1 is the
    geometric law, 0 the logarithmic one.

    Parameters
    ----------
    mean : float
        Mean number of runs, in [1, 1e6].
    shape : float
        Shape η, in [0, 1000].

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If a number is not real.

    Examples
    --------
    >>> import hockeystick as hs
    >>> runs = hs.NegativeBinomialRuns(10, shape=0.5)
    >>> round(runs.success, 4)
    0.0625
    """

    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _mean(self.mean, 1.0))
        shape = float_scalar(self.shape, "shape")
        require(0.0 <= shape <= 1000.0, "shape", shape, "in [0, 1000]")
        object.__setattr__(self, "shape", shape)

    @property
    def success(self) -> float:
        """Parameter γ of the law, in (0, 1)."""
        if self.shape == 1.0:
            return 1.0 / self.mean * (1.0 - _MARGIN)
        low, high = -50.0, 0.0  # of ln γ
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _mean_at(middle, self.shape) > self.mean else (low, middle)
        return math.exp(low) * (1.0 - _MARGIN)

    def log_weight(self, u: Floats) -> Floats:
        """ln(φ'(1 - u) / m).

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> hs.GeometricRuns(10).log_weight(np.array([1.0])).round(4).tolist()  # ln(P(K = 1) / m)
        [-4.6052]
        """
        return -(self.shape + 1.0) * np.log1p((1.0 / self.success - 1.0) * u)

    def place(self, log_weight: Floats) -> Floats:
        """Return u with this log_weight.

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> runs = hs.GeometricRuns(10)
        >>> runs.place(runs.log_weight(np.array([0.25, 0.5]))).round(6).tolist()
        [0.25, 0.5]
        """
        return np.expm1(-log_weight / (self.shape + 1.0)) / (1.0 / self.success - 1.0)


@spelled_class
@dataclass(frozen=True)
class GeometricRuns(NegativeBinomialRuns):
    """A geometric number of runs, at least one: after each run one stops with probability ``1 / mean``.

    Parameters
    ----------
    mean : float
        Mean number of runs, in [1, 1e6].

    Raises
    ------
    ValueError
        If `mean` is out of range.
    TypeError
        If `mean` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.GeometricRuns(10)
    GeometricRuns(mean=10.0)
    """

    def __init__(self, mean: float) -> None:
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", 1.0)
        self.__post_init__()

    def __repr__(self) -> str:
        return f"GeometricRuns(mean={self.mean!r})"


@spelled_class
@dataclass(frozen=True)
class BinomialRuns:
    """A binomial number of runs: of at most `most` runs each is made with probability ``mean / most``.

    Parameters
    ----------
    mean : float
        Mean number of runs, in (0, most].
    most : int
        Largest number of runs, in [1, 10**9].

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If a number is not real, or `most` not whole.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.BinomialRuns(10, most=20)
    BinomialRuns(mean=10.0, most=20)
    """

    mean: float
    most: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _mean(self.mean, 0.0))
        object.__setattr__(self, "most", count_scalar(self.most, "most", 1, 10**9))
        require(self.mean <= self.most, "mean", self.mean, f"at most most = {self.most}")

    def log_weight(self, u: Floats) -> Floats:
        """ln(φ'(1 - u) / m).

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> runs = hs.BinomialRuns(10, most=20)
        >>> runs.log_weight(np.array([0.5])).round(4).tolist()  # 19 ln(3 / 4)
        [-5.466]
        """
        if self.most == 1:
            return np.zeros_like(u)
        with np.errstate(divide="ignore"):
            return (self.most - 1.0) * np.log1p(-np.minimum(self.mean / self.most * u, 1.0))

    def place(self, log_weight: Floats) -> Floats:
        """Return u with this log_weight.

        Examples
        --------
        >>> import numpy as np
        >>> import hockeystick as hs
        >>> runs = hs.BinomialRuns(10, most=20)
        >>> runs.place(runs.log_weight(np.array([0.25, 0.5]))).round(6).tolist()
        [0.25, 0.5]
        """
        if self.most == 1:
            return np.full_like(log_weight, 2.0)
        return -np.expm1(log_weight / (self.most - 1.0)) * self.most / self.mean


RUNS = (PoissonRuns, NegativeBinomialRuns, BinomialRuns)


def _mean(value: object, least: float) -> float:
    mean = float_scalar(value, "mean")
    good = mean > 0.0 and least <= mean <= LARGEST_MEAN
    require(good, "mean", mean, f"in {'[' if least else '('}{least:g}, {LARGEST_MEAN:g}]")
    return mean


def _mean_at(log_success: float, shape: float) -> float:
    """Mean of the truncated negative binomial law."""
    odds = math.expm1(-log_success)
    if shape == 0.0:
        return odds / -log_success if log_success else 1.0
    fraction = -math.expm1(shape * log_success)
    return shape * odds / fraction if fraction else 1.0
