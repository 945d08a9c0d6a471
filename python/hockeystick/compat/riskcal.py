"""Noise for a bound on attacks, under the names of riskcal.

riskcal finds noise by a grid of privacy losses whose step is to be chosen (``grid_step``), and stops within a
tolerance of the target on either side. Here the target is met, by certified bounds, and nothing is to be
chosen: the arguments that say how to search are checked and have no effect. The same questions, for groups
and other ways of sampling, are answered by `hockeystick.get_noise_multiplier` with ``advantage=`` or ``tpr=``
and ``fpr=``.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from hockeystick import PrivacyCurve, get_noise_multiplier, privacy_curve
from hockeystick._arguments import FloatOrFloats, float_scalar, require
from hockeystick.accountants import GroupAccountant
from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "CTDAccountant",
    "find_noise_multiplier_for_advantage",
    "find_noise_multiplier_for_err_rates",
    "get_advantage_for_dpsgd",
    "get_advantage_from_adp",
    "get_advantage_from_gdp",
    "get_bayes_risk_from_gdp",
    "get_beta_for_dpsgd",
    "get_beta_from_adp",
    "get_beta_from_gdp",
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
    _positive(grid_step=grid_step, advantage_tol=advantage_tol)
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
    _positive(grid_step=grid_step, beta_tol=beta_tol)
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
    _positive(grid_step=grid_step)
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
    _positive(grid_step=grid_step)
    return TradeoffCurve.from_curve(_dpsgd(noise_multiplier, sample_rate, num_steps)).beta(alpha)


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


class CTDAccountant(GroupAccountant):
    """Accountant with a trade-off function and Opacus's interface: `GroupAccountant` for one record.

    Examples
    --------
    >>> from hockeystick.compat.riskcal import CTDAccountant
    >>> accountant = CTDAccountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=0.5, sample_rate=0.002)
    >>> round(accountant.get_advantage(), 4), round(float(accountant.get_beta(alpha=0.1)), 4)
    (0.0368, 0.873)
    >>> 0.0 < accountant.get_epsilon(1e-5) < 10.0
    True
    """

    def __init__(self) -> None:
        super().__init__()

    def get_epsilon(self, delta: float, **grid: Any) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `delta` is out of range.
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return super().get_epsilon(delta)

    def get_beta(self, *, alpha: ArrayLike, **grid: Any) -> FloatOrFloats:
        """Lower bound on the false negative rate of an attack.

        Parameters
        ----------
        alpha : array_like
            False positive rate, in [0, 1].
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float or ndarray, shape of `alpha`

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return TradeoffCurve.from_curve(self._exact_curve()).beta(alpha)

    def get_advantage(self, **grid: Any) -> float:
        """Upper bound on the advantage of an attack.

        Parameters
        ----------
        **grid
            ``grid_step`` and ``use_connect_dots`` of riskcal, without effect.

        Returns
        -------
        float

        Raises
        ------
        TypeError
            If another argument is given.
        """
        _grid_only(grid)
        return self.privacy_curve().advantage()


def _grid_only(named: dict[str, Any]) -> None:
    unknown = set(named) - {"grid_step", "use_connect_dots"}
    if unknown:
        raise TypeError(f"grid_step and use_connect_dots are all that is taken, got {sorted(unknown)}")


def _dpsgd(noise_multiplier: float, sample_rate: float, num_steps: int) -> PrivacyCurve:
    return privacy_curve(noise_multiplier=noise_multiplier, sample_rate=sample_rate, steps=num_steps)


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        require(float_scalar(value, name) > 0.0, name, value, "positive")


def _in_range(found: float, noise_min: float, noise_max: float) -> float:
    least, most = float_scalar(noise_min, "noise_min"), float_scalar(noise_max, "noise_max")
    require(0.0 <= least <= most, "noise_min", least, f"in [0, noise_max], which is {most:g}")
    if found > most:
        raise ValueError(f"noise_max must be at least {found:.6g}, which the target needs, got {most:g}")
    return max(found, least)
