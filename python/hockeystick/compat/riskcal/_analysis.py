"""Attacks under a guarantee: Gaussian, or one pair of epsilon and delta."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats
from hockeystick.compat.riskcal._checks import probabilities
from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "get_advantage_from_adp",
    "get_advantage_from_gdp",
    "get_bayes_risk_from_gdp",
    "get_beta_from_adp",
    "get_beta_from_gdp",
    "get_epsilon_from_err_rates",
]


def __dir__() -> list[str]:
    return list(__all__)


_UNIT = 2.0**-50
"""Roundings of three subtractions, a quotient and a logarithm, with room."""


def get_beta_from_gdp(mu: float, alpha: ArrayLike) -> FloatOrFloats:
    """Trade-off function of Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Distance of the two means in standard deviations, finite and at least zero.
    alpha : array_like
        False positive rate, in [0, 1].

    Returns
    -------
    float or ndarray, shape of `alpha`
        A lower bound on the false negative rate.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_beta_from_gdp
    >>> round(float(get_beta_from_gdp(0.0, alpha=0.1)), 6)  # no better than a coin
    0.9
    """
    return TradeoffCurve.gaussian(mu).beta(alpha)


def get_advantage_from_gdp(mu: float) -> float:
    """Advantage under Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Distance of the two means in standard deviations, finite and at least zero.

    Returns
    -------
    float
        An upper bound in [0, 1].

    Raises
    ------
    ValueError
        If `mu` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_advantage_from_gdp
    >>> round(get_advantage_from_gdp(1.0), 4)
    0.3829
    """
    return TradeoffCurve.gaussian(mu).advantage()


def get_bayes_risk_from_gdp(mu: float, prior: ArrayLike) -> FloatOrFloats:
    """How often the best attack is wrong under Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Distance of the two means in standard deviations, finite and at least zero.
    prior : array_like
        Probability in [0, 1] that the record took part.

    Returns
    -------
    float or ndarray, shape of `prior`
        A lower bound, at most ``min(prior, 1 - prior)``, which an attack reaches by the prior alone.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_bayes_risk_from_gdp
    >>> round(float(get_bayes_risk_from_gdp(1.0, prior=0.5)), 6)  # Φ(-1 / 2)
    0.308538
    """
    return 1.0 - TradeoffCurve.gaussian(mu).attack_success(prior)


def get_beta_from_adp(epsilon: float, delta: float, alpha: ArrayLike) -> FloatOrFloats:
    """Trade-off function of one pair (ε, δ), which is far below that of most runs.

    Parameters
    ----------
    epsilon : float
        Finite and at least zero.
    delta : float
        In [0, 1].
    alpha : array_like
        False positive rate, in [0, 1].

    Returns
    -------
    float or ndarray, shape of `alpha`
        A lower bound on the false negative rate.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_beta_from_adp
    >>> round(float(get_beta_from_adp(0.0, 0.1, alpha=0.2)), 6)  # 1 - δ - α
    0.7
    """
    return TradeoffCurve.from_epsilon_delta(epsilon, delta).beta(alpha)


def get_advantage_from_adp(epsilon: float, delta: float) -> float:
    """Advantage under one pair (ε, δ).

    Parameters
    ----------
    epsilon : float
        Finite and at least zero.
    delta : float
        In [0, 1].

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
    >>> from hockeystick.compat.riskcal import get_advantage_from_adp
    >>> round(get_advantage_from_adp(0.0, 0.1), 6)
    0.1
    """
    return TradeoffCurve.from_epsilon_delta(epsilon, delta).advantage()


def get_epsilon_from_err_rates(delta: ArrayLike, alpha: ArrayLike, beta: ArrayLike) -> FloatOrFloats:
    """Largest epsilon with which a pair (ε, δ) excludes that an attack has lower error rates than these.

    It is also a lower bound on the epsilon of a mechanism on which an attack has these rates.

    Parameters
    ----------
    delta : array_like
        In [0, 1].
    alpha : array_like
        False positive rate, in [0, 1].
    beta : array_like
        False negative rate, in [0, 1].

    Returns
    -------
    float or ndarray
        Rounded down; 0 if no epsilon excludes the rates, infinity if every one does.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The trade-off function of (ε, δ) is at least β at α if ``exp(ε) <= (1 - δ - β) / α`` or
    ``exp(ε) <= (1 - δ - α) / β`` (Dong, Roth and Su 2022, Proposition 3).

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_epsilon_from_err_rates
    >>> round(float(get_epsilon_from_err_rates(0.001, 0.001, 0.8)), 4)
    5.2933
    """
    slack = probabilities(delta, "delta")
    alarm, miss = probabilities(alpha, "alpha"), probabilities(beta, "beta")
    with np.errstate(divide="ignore", invalid="ignore"):
        # The subtractions are exact to one unit in the last place of 1, the rest to a few of its own.
        logs = [np.log((1.0 - slack - x - _UNIT).clip(0.0) / y) for x, y in ((miss, alarm), (alarm, miss))]
        found = np.fmax(*(np.where(np.isinf(each), each, each - _UNIT * (1.0 + abs(each))) for each in logs))
    found = np.fmax(found, 0.0)
    return float(found) if found.ndim == 0 else found
