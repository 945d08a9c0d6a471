"""Noise of DP-SGD for a bound on attacks, and the attacks that a run allows."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from hockeystick import PrivacyCurve, get_noise_multiplier, privacy_curve
from hockeystick._arguments import FloatOrFloats, float_scalar, require
from hockeystick.compat.riskcal._checks import positive
from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "find_noise_multiplier_for_advantage",
    "find_noise_multiplier_for_err_rates",
    "get_advantage_for_dpsgd",
    "get_beta_for_dpsgd",
]


def __dir__() -> list[str]:
    return list(__all__)


def find_noise_multiplier_for_advantage(
    advantage: float,
    sample_rate: float,
    num_steps: int,
    grid_step: float = 1e-4,
    advantage_tol: float = 1e-3,
    noise_min: float = 0.0,
    noise_max: float = math.inf,
) -> float:
    """Smallest noise multiplier of DP-SGD with which an attack's advantage is at most a target.

    Parameters
    ----------
    advantage : float
        Hit rate less false alarms of the best attack, in (0, 1).
    sample_rate : float
        Probability in [0, 1] that a record is in a batch.
    num_steps : int
        Number of steps.
    grid_step, advantage_tol : float, optional
        Positive; without effect.
    noise_min, noise_max : float, optional
        Range in which the noise multiplier is wanted.

    Returns
    -------
    float
        A noise multiplier, rounded up; `noise_min` if that is enough.

    Raises
    ------
    ValueError
        If an argument is out of range, or more than `noise_max` is needed.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import find_noise_multiplier_for_advantage
    >>> round(find_noise_multiplier_for_advantage(0.1, sample_rate=0.002, num_steps=10_000), 4)
    1.0249
    """
    positive(grid_step=grid_step, advantage_tol=advantage_tol)
    found = get_noise_multiplier(advantage=advantage, sample_rate=sample_rate, steps=num_steps)
    return _in_range(float(found), noise_min, noise_max)


def find_noise_multiplier_for_err_rates(
    alpha: float,
    beta: float,
    sample_rate: float,
    num_steps: int,
    grid_step: float = 1e-4,
    beta_tol: float = 1e-3,
    noise_min: float = 0.0,
    noise_max: float = math.inf,
) -> float:
    """Smallest noise multiplier of DP-SGD with which an attack misses often enough.

    Parameters
    ----------
    alpha : float
        False positive rate of the attack, in (0, 1).
    beta : float
        False negative rate that it has at least, in (0, 1 - alpha).
    sample_rate : float
        Probability in [0, 1] that a record is in a batch.
    num_steps : int
        Number of steps.
    grid_step, beta_tol : float, optional
        Positive; without effect.
    noise_min, noise_max : float, optional
        Range in which the noise multiplier is wanted.

    Returns
    -------
    float
        A noise multiplier, rounded up; `noise_min` if that is enough.

    Raises
    ------
    ValueError
        If an argument is out of range, or more than `noise_max` is needed.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import find_noise_multiplier_for_err_rates
    >>> round(find_noise_multiplier_for_err_rates(0.01, 0.95, sample_rate=0.002, num_steps=10_000), 4)
    0.6375
    """
    positive(grid_step=grid_step, beta_tol=beta_tol)
    misses = float_scalar(beta, "beta")
    require(0.0 < misses < 1.0, "beta", misses, "in (0, 1)")
    found = get_noise_multiplier(tpr=1.0 - misses, fpr=alpha, sample_rate=sample_rate, steps=num_steps)
    return _in_range(float(found), noise_min, noise_max)


def get_advantage_for_dpsgd(
    noise_multiplier: float, sample_rate: float, num_steps: int, grid_step: float = 1e-4
) -> float:
    """Advantage of the best attack on a run of DP-SGD.

    Parameters
    ----------
    noise_multiplier : float
        Finite and at least zero.
    sample_rate : float
        Probability in [0, 1] that a record is in a batch.
    num_steps : int
        Number of steps.
    grid_step : float, optional
        Positive; without effect.

    Returns
    -------
    float
        An upper bound in [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_advantage_for_dpsgd
    >>> round(get_advantage_for_dpsgd(1.0, sample_rate=0.01, num_steps=1000), 4)
    0.161
    """
    positive(grid_step=grid_step)
    return _dpsgd(noise_multiplier, sample_rate, num_steps).advantage()


def get_beta_for_dpsgd(
    noise_multiplier: float, sample_rate: float, num_steps: int, alpha: ArrayLike, grid_step: float = 1e-4
) -> FloatOrFloats:
    """Compute the false negative rate of the best attack on a run of DP-SGD.

    Parameters
    ----------
    noise_multiplier : float
        Finite and at least zero.
    sample_rate : float
        Probability in [0, 1] that a record is in a batch.
    num_steps : int
        Number of steps.
    alpha : array_like
        False positive rate, in [0, 1].
    grid_step : float, optional
        Positive; without effect.

    Returns
    -------
    float or ndarray, shape of `alpha`
        A lower bound.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_beta_for_dpsgd
    >>> round(float(get_beta_for_dpsgd(0.5, 0.002, 100, alpha=0.1)), 4)
    0.873
    """
    positive(grid_step=grid_step)
    return TradeoffCurve.from_curve(_dpsgd(noise_multiplier, sample_rate, num_steps)).beta(alpha)


def _dpsgd(noise_multiplier: float, sample_rate: float, num_steps: int) -> PrivacyCurve:
    return privacy_curve(noise_multiplier=noise_multiplier, sample_rate=sample_rate, steps=num_steps)


def _in_range(found: float, noise_min: float, noise_max: float) -> float:
    least, most = float_scalar(noise_min, "noise_min"), float_scalar(noise_max, "noise_max")
    require(0.0 <= least <= most, "noise_min", least, f"in [0, noise_max], which is {most:g}")
    if found > most:
        raise ValueError(f"noise_max must be at least {found:.6g}, which the target needs, got {most:g}")
    return max(found, least)
