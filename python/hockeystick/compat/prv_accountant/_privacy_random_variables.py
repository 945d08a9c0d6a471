"""Privacy random variables: the law of the privacy loss of one step, under the names of prv-accountant."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import FullBatch, Laplace, PrivacyCurve, RandomizedResponse, privacy_curve
from hockeystick._arguments import float_scalar, require

__all__ = [
    "ApproximateDPMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "PoissonSubsampledGaussianMechanism",
    "PrivacyRandomVariable",
    "PureDPMechanism",
]


def __dir__() -> list[str]:
    return list(__all__)


LARGEST_PURE_EPSILON = 30.0
"""Largest epsilon of a purely private step: above it the smaller probability of its two answers, about
exp(-epsilon), is within a few hundred roundings of 1 - p of zero, and the interval would be wide."""


class Curves(NamedTuple):
    """A run whose parameters were rounded: it leaks no less than `least` and no more than `most`."""

    least: PrivacyCurve
    most: PrivacyCurve

    def compose(self, other: Curves) -> Curves:
        """Return the curves of both runs on the same data."""
        return Curves(self.least + other.least, self.most + other.most)


class PrivacyRandomVariable(ABC):
    """Privacy loss of one step, as a random variable; the base of those that can be composed.

    `PRVAccountant` composes the five below. It refuses others, for which it has no dominating pair.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import GaussianMechanism, PrivacyRandomVariable
    >>> step = GaussianMechanism(noise_multiplier=2.0)
    >>> isinstance(step, PrivacyRandomVariable), step.pm_inf, round(step.rdp(3.0), 6)
    (True, 0.0, 0.375)
    >>> round(float(step.cdf(0.125)), 6), round(float(step.probability(-10.0, 0.125)), 6)  # median 1 / (2 σ²)
    (0.5, 0.5)
    >>> step.composed(10).most.steps
    10
    """

    @abstractmethod
    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of the loss, given that it is finite, when the record is removed.

        Parameters
        ----------
        t : array_like
            Where, in nats.

        Returns
        -------
        float or ndarray, shape of `t`
            Probability of a loss of at most `t`, to about 15 digits.
        """

    def probability(self, a: ArrayLike, b: ArrayLike) -> Any:
        """Probability that a finite loss is above `a` and at most `b`.

        Parameters
        ----------
        a, b : array_like
            Ends of the interval, in nats.

        Returns
        -------
        float or ndarray, broadcast shape
        """
        return self.cdf(b) - self.cdf(a)

    def pdf(self, t: ArrayLike) -> Any:
        """Density of the loss: not provided.

        Raises
        ------
        NotImplementedError
            Always: the original's base class raises it for what a variable does not define.

        Examples
        --------
        >>> from hockeystick.compat.prv_accountant import GaussianMechanism
        >>> GaussianMechanism(noise_multiplier=2.0).pdf(0.0)
        Traceback (most recent call last):
        NotImplementedError: ...
        """
        raise NotImplementedError(f"{type(self).__name__} has no density; use cdf or probability")

    def mean(self) -> float:
        """Mean of the loss: not provided.

        Raises
        ------
        NotImplementedError
            Always: the original's base class raises it for what a variable does not define.

        Examples
        --------
        >>> from hockeystick.compat.prv_accountant import GaussianMechanism
        >>> GaussianMechanism(noise_multiplier=2.0).mean()
        Traceback (most recent call last):
        NotImplementedError: ...
        """
        raise NotImplementedError(f"{type(self).__name__} has no mean; use cdf or rdp")

    def rdp(self, alpha: float) -> float:
        """Rényi divergence of the step, given that the loss is finite.

        Parameters
        ----------
        alpha : float
            Order, above 1.

        Returns
        -------
        float
            An upper bound, in nats: the larger of the two directions.

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        NotImplementedError
            If this is a variable of one's own without divergences, as in the original's base class.
        """
        curves = self.composed(1)
        if curves is None:
            raise NotImplementedError(f"{type(self).__name__} has no Rényi divergences")
        return float(curves.most.renyi(alpha))

    @property
    def pm_inf(self) -> float:
        """Probability of an infinite loss."""
        return 0.0

    def composed(self, steps: int) -> Curves | None:
        """Curves of the finite part of so many steps, None if no dominating pair is known.

        Parameters
        ----------
        steps : int
            How many, at least zero.

        Returns
        -------
        Curves or None
            Two runs with rounded parameters, around the one that is meant.
        """
        return None


class PoissonSubsampledGaussianMechanism(PrivacyRandomVariable):
    """One step of DP-SGD: Gaussian noise on the sum of a Poisson sample.

    Parameters
    ----------
    sampling_probability : float
        Probability in [0, 1] that a record is in the batch.
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm, finite and at least zero.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import PoissonSubsampledGaussianMechanism
    >>> step = PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1.0)
    >>> round(float(step.cdf(0.0)), 4), round(step.rdp(2.0), 6)
    (0.6876, 0.000172)
    >>> step.composed(1000).most.steps
    1000
    """

    def __init__(self, sampling_probability: float, noise_multiplier: float) -> None:
        rate = float_scalar(sampling_probability, "sampling_probability")
        require(0.0 <= rate <= 1.0, "sampling_probability", rate, "in [0, 1]")
        self.p = rate
        self.sigma = _number(noise_multiplier, "noise_multiplier", zero=True)

    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of the loss when the record is removed; see the base class."""
        losses = np.asarray(t, dtype=np.float64)
        if self.p == 0.0 or self.sigma == 0.0:  # the loss is 0, or infinite
            return np.where(losses >= 0.0, 1.0, 0.0)[()]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # The loss grows with the output x of the step, and is t at this one. Above 30 the exponential
            # would overflow in the end, and the 1 - p beside it is below a rounding.
            ratio = np.log1p(np.expm1(losses) / self.p)
            ratio = np.where(losses > _LARGE_LOSS, losses - math.log(self.p), ratio)
            x = self.sigma * ratio + 0.5 / self.sigma
        below = (1.0 - self.p) * _normal_cdf(x) + self.p * _normal_cdf(x - 1.0 / self.sigma)
        attained = losses > (math.log1p(-self.p) if self.p < 1.0 else -math.inf)
        return np.where(attained, below, 0.0)[()]

    def composed(self, steps: int) -> Curves:
        """Curves of so many steps; see the base class."""
        run = privacy_curve(noise_multiplier=self.sigma, sample_rate=self.p, steps=steps)
        return Curves(run, run)


class GaussianMechanism(PrivacyRandomVariable):
    """Gaussian noise on a query of all records.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise, positive.
    l2_sensitivity : float, optional
        How far a record moves the answer, positive.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import GaussianMechanism
    >>> round(GaussianMechanism(noise_multiplier=2.0).rdp(3.0), 6)
    0.375
    >>> step = GaussianMechanism(noise_multiplier=2.0)
    >>> round(float(step.cdf(0.125)), 6), step.composed(10).most.steps
    (0.5, 10)
    """

    def __init__(self, noise_multiplier: float, l2_sensitivity: float = 1.0) -> None:
        self._noise = _number(noise_multiplier, "noise_multiplier")
        self._sensitivity = _number(l2_sensitivity, "l2_sensitivity")
        self.mu = self._sensitivity / self._noise

    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of the loss; see the base class."""
        return _normal_cdf(np.asarray(t, dtype=np.float64) / self.mu - self.mu / 2.0)[()]

    def composed(self, steps: int) -> Curves:
        """Curves of so many steps; see the base class."""
        noise = self._noise / self._sensitivity
        ends = (noise, noise) if self._sensitivity == 1.0 else (_above(noise), _below(noise))
        least, most = (privacy_curve(noise_multiplier=end, sampling=FullBatch(), steps=steps) for end in ends)
        return Curves(least, most)


class LaplaceMechanism(PrivacyRandomVariable):
    """Laplace noise of scale 1 on a query that a record moves by `mu`.

    Parameters
    ----------
    mu : float
        l1 sensitivity over the scale of the noise, positive.

    Raises
    ------
    ValueError
        If `mu` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import LaplaceMechanism
    >>> LaplaceMechanism(mu=1.0).cdf([-1.5, 1.0]).tolist()
    [0.0, 1.0]
    >>> LaplaceMechanism(mu=1.0).composed(10).most.steps
    10
    """

    def __init__(self, mu: float) -> None:
        self.mu = _number(mu, "mu")

    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of the loss; see the base class."""
        losses = np.asarray(t, dtype=np.float64)
        with np.errstate(over="ignore"):
            between = 0.5 * np.exp(np.minimum(0.5 * (losses - self.mu), 0.0))
        return np.where(losses >= self.mu, 1.0, np.where(losses >= -self.mu, between, 0.0))[()]

    def composed(self, steps: int) -> Curves:
        """Curves of so many steps; see the base class."""
        scale = 1.0 / self.mu
        least, most = (
            privacy_curve(mechanism=Laplace(end), sampling=FullBatch(), steps=steps)
            for end in (_above(scale), _below(scale))
        )
        return Curves(least, most)


class PureDPMechanism(PrivacyRandomVariable):
    """Any step that is ε-differentially private: the randomised response that dominates all of them.

    Parameters
    ----------
    eps : float
        Epsilon of the step, in [0, 30].

    Raises
    ------
    ValueError
        If `eps` is out of range.

    References
    ----------
    Kairouz, Oh and Viswanath 2015, "The Composition Theorem for Differential Privacy", arXiv:1311.0776,
    Theorem 3.3: a mechanism that is (ε, δ)-differentially private is a randomised function of the answer of
    a randomised response that gives the record away with probability δ.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import PRVAccountant, PureDPMechanism
    >>> releases = PRVAccountant(PureDPMechanism(0.01), 0.1, 1e-9, max_self_compositions=1000)
    >>> round(releases.compute_epsilon(1e-6, 1000)[2], 3)
    1.365
    >>> step = PureDPMechanism(0.01)
    >>> step.cdf([-1.0, 1.0]).tolist(), step.composed(10).most.steps
    ([0.0, 1.0], 10)
    """

    def __init__(self, eps: float) -> None:
        self.eps = float_scalar(eps, "eps")
        require(0.0 <= self.eps <= LARGEST_PURE_EPSILON, "eps", self.eps, f"in [0, {LARGEST_PURE_EPSILON:g}]")

    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of the loss; see the base class."""
        losses = np.asarray(t, dtype=np.float64)
        smaller = math.exp(-self.eps) / (1.0 + math.exp(-self.eps))
        return np.where(losses >= self.eps, 1.0, np.where(losses >= -self.eps, smaller, 0.0))[()]

    def composed(self, steps: int) -> Curves:
        """Curves of so many steps; see the base class."""
        p = 1.0 / (1.0 + math.exp(-self.eps))
        return Curves(_responses(_below(p), steps), _responses(_above(p) if self.eps else p, steps))


class ApproximateDPMechanism(PrivacyRandomVariable):
    """Any step that is (ε, δ)-differentially private.

    With probability δ it gives the record away; otherwise it is as `PureDPMechanism`, whose reference has the
    proof that this dominates all such steps.

    Parameters
    ----------
    epsilon : float
        Epsilon of the step, in [0, 30].
    delta : float
        Delta of the step, in [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import ApproximateDPMechanism
    >>> ApproximateDPMechanism(epsilon=0.1, delta=1e-8).pm_inf
    1e-08
    >>> step = ApproximateDPMechanism(epsilon=0.1, delta=1e-8)
    >>> step.cdf([-1.0, 1.0]).tolist(), step.composed(10).most.steps
    ([0.0, 1.0], 10)
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.delta = float_scalar(delta, "delta")
        require(0.0 <= self.delta <= 1.0, "delta", self.delta, "in [0, 1]")
        self.pure_dp = PureDPMechanism(eps=epsilon)

    def cdf(self, t: ArrayLike) -> Any:
        """Distribution function of a finite loss; see the base class."""
        return self.pure_dp.cdf(t)

    @property
    def pm_inf(self) -> float:
        """Probability of an infinite loss."""
        return self.delta

    def composed(self, steps: int) -> Curves:
        """Curves of the finite part of so many steps; see the base class."""
        return self.pure_dp.composed(steps)


_LARGE_LOSS = 30.0
"""Losses above this are those of the larger part of the mixture alone, to a rounding of exp(-30) / p."""

_ROUNDINGS = 8.0 * np.finfo(np.float64).eps
"""Relative error of a quotient or of a logistic function, with room."""


def _above(number: float) -> float:
    return number * (1.0 + _ROUNDINGS)


def _below(number: float) -> float:
    return number * (1.0 - _ROUNDINGS)


def _responses(p: float, steps: int) -> PrivacyCurve:
    """Randomised responses, none where the answer is a fair coin."""
    fair = p <= 0.5
    answer = RandomizedResponse(0.75 if fair else p)
    return privacy_curve(mechanism=answer, sampling=FullBatch(), steps=0 if fair else steps)


def _number(value: object, name: str, *, zero: bool = False) -> float:
    number = float_scalar(value, name)
    allowed = math.isfinite(number) and (number > 0.0 or (zero and number == 0.0))
    require(allowed, name, number, "in [0, inf)" if zero else "in (0, inf)")
    return number


def _normal_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(x, dtype=np.float64)
    erfc = [math.erfc(-value / math.sqrt(2.0)) for value in values.ravel().tolist()]
    return 0.5 * np.array(erfc).reshape(values.shape)
