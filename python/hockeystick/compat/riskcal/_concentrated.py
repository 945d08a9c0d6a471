"""Attacks under Rényi and zero-concentrated differential privacy.

Derived in docs/theory/renyi-of-tradeoff.md, Theorem 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats, Floats, float_scalar, require
from hockeystick.compat.riskcal._checks import positive, probabilities

__all__ = ["get_advantage_from_zcdp", "get_beta_from_rdp", "get_beta_from_zcdp"]


def __dir__() -> list[str]:
    return list(__all__)


_ORDERS = 1.0 + np.concatenate([np.geomspace(1e-3, 31.0, 700), np.geomspace(32.0, 1023.0, 100)])
"""Orders at which a zero-concentrated guarantee is used; twice as many change β by less than 1e-5."""

_ROUNDING = 64.0 * 2.0**-52
"""Relative error of a logarithm and of the few operations behind it, with room for the fastest libraries."""

_BISECTIONS = 64
"""Halvings of an interval within [0, 1]: a number of the size of 1e-3 has 16 digits then."""


def get_beta_from_rdp(
    epsilon: float,
    alpha: ArrayLike,
    order: float,
    linear_search_step: float = 1e-3,
    max_bisection_steps: int = 50,
    tol: float = 1e-7,
) -> FloatOrFloats:
    """Compute the false negative rate that one Rényi divergence leaves to the best attack.

    Parameters
    ----------
    epsilon : float
        Largest Rényi divergence of neighbouring data sets, both ways; finite and at least zero.
    alpha : array_like
        False positive rate, in [0, 1].
    order : float
        Order of the divergence, positive and finite.
    linear_search_step, max_bisection_steps, tol : float, optional
        Positive; without effect.

    Returns
    -------
    float or ndarray, shape of `alpha`
        A lower bound.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    - van Erven and Harremoës 2014, "Rényi Divergence and Kullback-Leibler Divergence", IEEE Transactions on
      Information Theory 60(7), doi:10.1109/TIT.2014.2320500, Theorem 9 (data processing)

    Examples
    --------
    >>> from hockeystick.compat.riskcal import get_beta_from_rdp
    >>> round(float(get_beta_from_rdp(1.0, alpha=0.1, order=2.0)), 4)
    0.5068
    """
    positive(linear_search_step=linear_search_step, max_bisection_steps=max_bisection_steps, tol=tol)
    divergence, of_order = _at_least_zero(epsilon, "epsilon"), float_scalar(order, "order")
    require(0.0 < of_order < math.inf, "order", of_order, "positive and finite")
    return _betas(alpha, np.array([of_order]), np.array([divergence]))


def get_beta_from_zcdp(
    rho: float,
    alpha: ArrayLike,
    tol: float = 1e-9,
    min_order: float = 1.0,
    max_order: float = 1024.0,
    grid_size: int = 1000,
) -> FloatOrFloats:
    """Compute the false negative rate that zero-concentrated differential privacy leaves to the best attack.

    Parameters
    ----------
    rho : float
        Parameter ρ of the guarantee, finite and at least zero.
    alpha : array_like
        False positive rate, in [0, 1].
    tol, min_order, max_order, grid_size : float, optional
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
    >>> from hockeystick.compat.riskcal import get_beta_from_zcdp
    >>> round(float(get_beta_from_zcdp(0.5, alpha=0.1)), 4)
    0.5163
    """
    positive(tol=tol, min_order=min_order, max_order=max_order, grid_size=grid_size)
    return _betas(alpha, _ORDERS, _ORDERS * _at_least_zero(rho, "rho"))


def get_advantage_from_zcdp(
    rho: float,
    tol: float = 1e-9,
    min_order: float = 1.0,
    max_order: float = 1024.0,
    grid_size: int = 1000,
) -> float:
    """Advantage of the best attack on a mechanism with zero-concentrated differential privacy.

    Parameters
    ----------
    rho : float
        Parameter ρ of the guarantee, finite and at least zero.
    tol, min_order, max_order, grid_size : float, optional
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
    >>> from hockeystick.compat.riskcal import get_advantage_from_zcdp
    >>> round(get_advantage_from_zcdp(0.5), 4)
    0.4791
    """
    positive(tol=tol, min_order=min_order, max_order=max_order, grid_size=grid_size)
    divergences = _ORDERS * _at_least_zero(rho, "rho")
    both = _largest_excluded(lambda rate: (rate, rate), 0.5, _ORDERS, divergences)
    return 1.0 - 2.0 * both


def _betas(alpha: ArrayLike, orders: Floats, divergences: Floats) -> FloatOrFloats:
    """Largest β below which the divergence of the two answers is certainly too large, for each α."""
    rates = probabilities(alpha, "alpha")
    found = [_beta(float(rate), orders, divergences) for rate in rates.flat]
    return found[0] if rates.ndim == 0 else np.array(found).reshape(rates.shape)


def _beta(alpha: float, orders: Floats, divergences: Floats) -> float:
    alphas = np.full(orders.shape, alpha)
    return _largest_excluded(lambda beta: (alphas, beta), 1.0 - alpha, orders, divergences)


def _largest_excluded(
    errors: Callable[[Floats], tuple[Floats, Floats]], limit: float, orders: Floats, divergences: Floats
) -> float:
    """Largest rate below `limit`, over the orders, at which the two errors need too large a divergence."""
    low, high = np.zeros(orders.shape), np.full(orders.shape, limit)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        excluded = _least_divergence(*errors(middle), orders) > divergences
        low, high = np.where(excluded, middle, low), np.where(excluded, high, middle)
    return float(low.max())


def _least_divergence(alpha: Floats, beta: Floats, orders: Floats) -> Floats:
    """Lower bound on the larger Rényi divergence of the answers of a test, both ways, for β below 1 - α.

    A test with these error rates says "yes" with the probabilities 1 - β and α.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hit, miss = np.log1p(-beta), np.log(beta)
        false_alarm, correct_rejection = np.log(alpha), np.log1p(-alpha)
        one_way = _of_logs(orders, hit, false_alarm, miss, correct_rejection)
        other_way = _of_logs(orders, false_alarm, hit, correct_rejection, miss)
    return np.maximum(one_way, other_way)


def _of_logs(orders: Floats, p: Floats, q: Floats, other_p: Floats, other_q: Floats) -> Floats:
    """Rényi divergence of two Bernoulli laws with these logarithms of probabilities, rounded down.

    A term with a logarithm of -∞ is 0 or ∞ without an error; the slack also covers the product of ρ and an
    order with which the result is compared.
    """
    first, second = orders * p + (1.0 - orders) * q, orders * other_p + (1.0 - orders) * other_q
    slack = _ROUNDING * (1.0 + _size(orders, p, q) + _size(orders, other_p, other_q))
    logarithm = np.logaddexp(first, second)
    value = (logarithm - slack * np.sign(orders - 1.0)) / (orders - 1.0)
    relative_entropy = _entropy(p, q) + _entropy(other_p, other_q) - slack
    found = np.where(orders == 1.0, relative_entropy, value)
    # What cannot be told, such as no probability at all against none, excludes nothing.
    return np.where(np.isnan(found), -math.inf, found)


def _size(orders: Floats, p: Floats, q: Floats) -> Floats:
    """Size of the numbers whose roundings are in one term."""
    size = orders * np.abs(p) + np.abs(orders - 1.0) * np.abs(q)
    return np.where(np.isfinite(size), size, 0.0)


def _entropy(p: Floats, q: Floats) -> Floats:
    """One term of a relative entropy."""
    return np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))


def _at_least_zero(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(0.0 <= number < math.inf, name, number, "finite and at least zero")
    return number
