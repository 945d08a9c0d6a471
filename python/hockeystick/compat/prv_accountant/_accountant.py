"""Accountants of compositions of privacy random variables, under the names of prv-accountant."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick.compat.prv_accountant._privacy_random_variables import (
    Curves,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
)
from hockeystick.errors import UnsupportedError

__all__ = ["Accountant", "ComposedPrivacyRandomVariable", "PRVAccountant"]


def __dir__() -> list[str]:
    return list(__all__)


Counts: TypeAlias = int | Sequence[int] | None
"""How often each variable is composed with itself: one number for a single variable, once each if None."""

Triple: TypeAlias = tuple[float, float, float]

_ROUNDING = 1e-14
"""Relative error of the few operations that join the finite and the infinite part, with room."""


class ComposedPrivacyRandomVariable:
    """Privacy loss of a whole run, as `PRVAccountant.compute_composition` returns it.

    Parameters
    ----------
    curves : Curves
        The finite part, enclosed by two privacy curves.
    log_pmc_inf : float
        Logarithm of the probability of a finite loss.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    >>> sgd = PoissonSubsampledGaussianMechanism(noise_multiplier=0.8, sampling_probability=5e-3)
    >>> run = PRVAccountant(sgd, 0.1, 1e-10, max_self_compositions=1000).compute_composition(1000)
    >>> lower, estimate, upper = run.compute_epsilon(1e-6)
    >>> round(upper, 4)
    2.0041
    >>> run.compute_delta_estimate(upper) == run.compute_delta(upper)[2] <= 1e-6
    True
    """

    def __init__(self, curves: Curves, log_pmc_inf: float) -> None:
        self.curves = curves
        self.log_pmc_inf = log_pmc_inf

    def compute_epsilon(self, delta: float, delta_error: float = 0.0, epsilon_error: float = 0.0) -> Triple:
        """Certified interval for epsilon.

        Parameters
        ----------
        delta : float
            In (0, 1).
        delta_error, epsilon_error : float, optional
            Not needed: the interval is certified as it is.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end. All are inf where `delta` is at most the probability of an infinite
            loss.

        Raises
        ------
        ValueError
            If `delta` is out of range.
        """
        target = float_scalar(delta, "delta")
        require(0.0 < target < 1.0, "delta", target, "in (0, 1)")
        if self.log_pmc_inf == 0.0:
            lower = float(self.curves.least.bounds(delta=target)[0])
            upper = float(self.curves.most.bounds(delta=target)[1])
            return lower, upper, upper
        revealed = -math.expm1(self.log_pmc_inf)
        # δ = revealed + (1 - revealed) δ_finite, solved for δ_finite on either side.
        finite = (target - revealed) / math.exp(self.log_pmc_inf)
        error = _ROUNDING * (target + revealed) / math.exp(self.log_pmc_inf)
        ends = []
        for at, curve, end in ((finite + error, self.curves.least, 0), (finite - error, self.curves.most, 1)):
            if at <= 0.0:
                ends.append(math.inf)
            elif at >= 1.0:
                ends.append(0.0)
            else:
                ends.append(float(curve.bounds(delta=at)[end]))
        lower, upper = ends
        return lower, upper, upper

    def compute_delta(self, epsilon: float) -> Triple:
        """Certified interval for delta.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end.

        Raises
        ------
        ValueError
            If `epsilon` is out of range.
        """
        at = float_scalar(epsilon, "epsilon")
        least = float(self.curves.least.bounds(epsilon=at)[0])
        most = float(self.curves.most.bounds(epsilon=at)[1])
        if self.log_pmc_inf == 0.0:
            return least, most, most
        revealed, rest = -math.expm1(self.log_pmc_inf), math.exp(self.log_pmc_inf)
        lower = (revealed + rest * least) * (1.0 - _ROUNDING)
        upper = min((revealed + rest * most) * (1.0 + _ROUNDING), 1.0)
        return lower, upper, upper

    def compute_delta_estimate(self, epsilon: float) -> float:
        """Upper bound on delta: the last number of `compute_delta`.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `epsilon` is out of range.
        """
        return self.compute_delta(epsilon)[2]


class PRVAccountant:
    """Accountant of the composition of privacy random variables.

    Parameters
    ----------
    prvs : PrivacyRandomVariable or sequence of them
        What is composed.
    eps_error, delta_error : float
        Errors that are allowed, positive. They are not needed: see the notes.
    max_self_compositions : int or sequence of int, optional
        How often each variable may be composed with itself, once if left out. More is an error, as in
        prv-accountant; a larger number costs nothing here.
    eps_max : float, optional
        Not needed; nothing is assumed about the size of epsilon.

    Raises
    ------
    ValueError
        If an argument is out of range or the numbers of variables and compositions differ.
    TypeError
        If `prvs` are not privacy random variables.
    UnsupportedError
        If there is no dominating pair for a variable, such as one with a distribution function of one's own.

    Notes
    -----
    The interval is that of the exact privacy curve, of a relative width of about a millionth. Parameters of
    the variables that have to be rounded, such as one over the scale of Laplace noise, are rounded to either
    side.

    References
    ----------
    - Gopi, Lee and Wutschitz 2021, "Numerical Composition of Differential Privacy", arXiv:2106.02848, whose
      interface this is
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant import GaussianMechanism, LaplaceMechanism
    >>> from hockeystick.compat.prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    >>> sgd = PoissonSubsampledGaussianMechanism(noise_multiplier=0.8, sampling_probability=5e-3)
    >>> prvs = [sgd, GaussianMechanism(noise_multiplier=8.0), LaplaceMechanism(mu=0.1)]
    >>> accountant = PRVAccountant(prvs, 0.1, 1e-10, max_self_compositions=[1000, 1000, 1000])
    >>> lower, estimate, upper = accountant.compute_epsilon(delta=1e-6, num_self_compositions=[100, 200, 100])
    >>> round(upper, 4), estimate == upper, 0.0 < upper - lower < 2e-5
    (11.1492, True, True)
    >>> lower, estimate, upper = accountant.compute_delta(epsilon=11.2, num_self_compositions=[100, 200, 100])
    >>> 0.0 < lower <= estimate == upper < 1e-6
    True
    >>> run = accountant.compute_composition([100, 200, 100])
    >>> round(run.compute_epsilon(1e-6)[2], 4)
    11.1492
    """

    def __init__(
        self,
        prvs: PrivacyRandomVariable | Sequence[PrivacyRandomVariable],
        eps_error: float,
        delta_error: float,
        max_self_compositions: Counts = None,
        eps_max: float | None = None,
    ) -> None:
        single = isinstance(prvs, PrivacyRandomVariable)
        self.prvs: list[PrivacyRandomVariable] = (
            [prvs] if isinstance(prvs, PrivacyRandomVariable) else list(prvs)
        )
        require(len(self.prvs) > 0, "prvs", self.prvs, "at least one privacy random variable")
        for prv in self.prvs:
            if not isinstance(prv, PrivacyRandomVariable):
                raise TypeError(f"prvs must be privacy random variables, got {type(prv).__name__}")
            if prv.composed(0) is None:
                raise UnsupportedError(
                    f"{type(prv).__name__} has no known dominating pair: give one of the variables of this "
                    f"module, or state the trade-off function as hockeystick.TradeoffCurve.from_points"
                )
        self.eps_error = _error(eps_error, "eps_error")
        self.delta_error = _error(delta_error, "delta_error")
        if eps_max is not None:
            require(float_scalar(eps_max, "eps_max") > 0.0, "eps_max", eps_max, "positive")
        if single and isinstance(max_self_compositions, Sequence):
            require(
                len(max_self_compositions) == 1, "max_self_compositions", max_self_compositions, "one number"
            )
        self.max_self_compositions = self._counts(max_self_compositions, "max_self_compositions")

    def compute_composition(self, num_self_compositions: Counts = None) -> ComposedPrivacyRandomVariable:
        """Privacy loss of a run.

        Parameters
        ----------
        num_self_compositions : int or sequence of int, optional
            How often each variable occurs, once if left out.

        Returns
        -------
        ComposedPrivacyRandomVariable

        Raises
        ------
        ValueError
            If a number is negative or above the largest one that was announced, or there are not as many
            numbers as variables.
        """
        counts = self._counts(num_self_compositions, "num_self_compositions")
        for count, most in zip(counts, self.max_self_compositions, strict=True):
            if count > most:
                raise ValueError(
                    f"num_self_compositions must be at most max_self_compositions={most}, got {count}: make "
                    f"the accountant with a larger number, which costs nothing"
                )
        total: Curves | None = None
        log_pmc_inf = 0.0
        for prv, count in zip(self.prvs, counts, strict=True):
            curves = prv.composed(count)
            assert curves is not None  # looked at when the accountant was made
            total = curves if total is None else total.compose(curves)
            if prv.pm_inf > 0.0 and count > 0:
                log_pmc_inf += count * (math.log1p(-prv.pm_inf) if prv.pm_inf < 1.0 else -math.inf)
        assert total is not None
        return ComposedPrivacyRandomVariable(total, log_pmc_inf)

    def compute_delta(self, epsilon: float, num_self_compositions: Counts = None) -> Triple:
        """Certified interval for delta at an epsilon.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.
        num_self_compositions : int or sequence of int, optional
            How often each variable occurs.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end.

        Raises
        ------
        ValueError
            As for `compute_composition`, or if `epsilon` is out of range.
        """
        return self.compute_composition(num_self_compositions).compute_delta(epsilon)

    def compute_epsilon(self, delta: float, num_self_compositions: Counts = None) -> Triple:
        """Certified interval for epsilon at a delta.

        Parameters
        ----------
        delta : float
            In (0, 1).
        num_self_compositions : int or sequence of int, optional
            How often each variable occurs.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end.

        Raises
        ------
        ValueError
            As for `compute_composition`, or if `delta` is out of range.
        """
        return self.compute_composition(num_self_compositions).compute_epsilon(delta)

    def _counts(self, counts: Counts, name: str) -> list[int]:
        if counts is None:
            return [1] * len(self.prvs)
        # One number or several, which numpy tells apart and mypy does not.
        given = [counts] if np.ndim(counts) == 0 else list(counts)  # type: ignore[arg-type]
        require(
            len(given) == len(self.prvs), name, counts, f"{len(self.prvs)} numbers, one for each variable"
        )
        return [count_scalar(count, name, 0) for count in given]


class Accountant:
    """Accountant of DP-SGD at one delta, which prv-accountant has deprecated: use `DPSGDAccountant`.

    Parameters
    ----------
    noise_multiplier, sampling_probability : float
        As in `PoissonSubsampledGaussianMechanism`.
    delta : float
        At which epsilon is asked for, in (0, 1).
    max_compositions : int
        Largest number of steps.
    eps_error : float, optional
        Not needed.
    mesh_size : float, optional
        Must be left out.
    verbose : bool, optional
        Has no effect.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Warns
    -----
    DeprecationWarning
        Always.

    Examples
    --------
    >>> import warnings
    >>> from hockeystick.compat.prv_accountant import Accountant
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     accountant = Accountant(0.8, 5e-3, delta=1e-6, max_compositions=1000)
    >>> lower, estimate, upper = accountant.compute_epsilon(1000)
    >>> round(upper, 4)
    2.0041
    """

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        delta: float,
        max_compositions: int,
        eps_error: float | None = None,
        mesh_size: float | None = None,
        verbose: bool = False,
    ) -> None:
        warnings.warn("use DPSGDAccountant in place of Accountant", DeprecationWarning, stacklevel=2)
        require(mesh_size is None, "mesh_size", mesh_size, "left out")
        self.delta = float_scalar(delta, "delta")
        require(0.0 < self.delta < 1.0, "delta", self.delta, "in (0, 1)")
        step = PoissonSubsampledGaussianMechanism(sampling_probability, noise_multiplier)
        allowed = 0.1 if eps_error is None else eps_error
        self.accountant = PRVAccountant(step, allowed, self.delta / 1000.0, max_compositions)

    def compute_epsilon(self, num_compositions: int) -> Triple:
        """Certified interval for epsilon.

        Parameters
        ----------
        num_compositions : int
            Number of steps.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end.

        Raises
        ------
        ValueError
            If there are more steps than were announced.
        """
        return self.accountant.compute_epsilon(self.delta, num_compositions)


def _error(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(number > 0.0, name, number, "positive")
    return number
