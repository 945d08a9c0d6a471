"""Statistics of individual privacy parameters, released with differential privacy.

The epsilon of an example depends on that example: it may go to its owner, and to no one else. What may be
published is a statistic of all of them with noise, at a privacy cost of its own.

- `mean`: the average.
- `quantiles`: the median and the like.

The noise is OpenDP's, drawn by its exact samplers, and so is the proof of the guarantee.

What the guarantee is about. A value v_i = f(trajectory, example i), such as an epsilon of
`hockeystick.accountants.IndividualAccountant`, depends on the weights at which norms were taken and, given
those, on example i alone; other examples act on it through the weights only. So with the trajectory given,
one example changes one value, and the release is (epsilon, delta)-differentially private for fixed weights.
The weights come from DP-SGD, whose own guarantee covers all of them, not only the last. By composition,
trained model and released statistic together have the sum of both guarantees: for example i, in the sense of
INDIVIDUAL (output-specific), epsilon_i + epsilon at delta_i + delta. This holds only if the value of one
example does not depend on others in another way: no batch normalisation, no values divided by their maximum,
no examples left out because of what others are; and only if `lower` and `upper` are chosen without looking
at the values. The epsilon of the whole run at full clipping norm (`hockeystick.get_epsilon`) is such an upper
end.
Gradients in floating point depend on the company of their batch in the last bits, which is neglected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    FloatOrFloats,
    Floats,
    choice,
    count_scalar,
    float_array,
    float_scalar,
    float_vector,
    require,
    text,
)
from hockeystick._extras import needed

__all__ = ["Released", "mean", "quantiles"]


def __dir__() -> list[str]:
    return list(__all__)


ADJACENCIES = ("add_remove", "replace")

LEVELS = 2**30
"""Steps of the grid to which values are rounded before they are added, so that sums are exact."""

SCALE_TOLERANCE = 1e-3
"""Relative excess of the noise over the least that the guarantee needs."""

LARGEST_SCALE = 2.0**40
"""Largest scale of noise, in units of the sensitivity, that is searched."""


@dataclass(frozen=True)
class Released:
    """A released statistic and what it costs.

    Attributes
    ----------
    value : float or ndarray
        The statistic, with noise: it may be published.
    epsilon, delta : float
        Guarantee of this release alone, with all else fixed, as OpenDP's privacy map proves it; epsilon
        is at most what was asked for.
    adjacency : str
        Neighbouring relation of the list of values.
    lower, upper : float
        Range to which the values were clipped.
    mechanism : str
        What was done, in words.
    standard_error : float or None
        Standard deviation of the value due to noise; None for quantiles.

    Examples
    --------
    >>> import hockeystick as hs
    >>> found = hs.release.Released(
    ...     value=0.7, epsilon=1.0, delta=0.0, adjacency="replace", lower=0.0, upper=2.0, mechanism="Laplace"
    ... )
    >>> found.value, found.epsilon, found.standard_error
    (0.7, 1.0, None)
    """

    value: FloatOrFloats
    epsilon: float
    delta: float
    adjacency: str
    lower: float
    upper: float
    mechanism: str
    standard_error: float | None = None

    def __post_init__(self) -> None:
        float_array(self.value, "value")
        for name, end in (("epsilon", math.inf), ("delta", 1.0)):
            number = float_scalar(getattr(self, name), name)
            require(0.0 <= number <= end, name, number, f"in [0, {end:g}]")
        choice(self.adjacency, "adjacency", ADJACENCIES)
        lower, upper = float_scalar(self.lower, "lower"), float_scalar(self.upper, "upper")
        require(lower <= upper, "lower", lower, f"at most upper, {upper}")
        text(self.mechanism, "mechanism")
        if self.standard_error is not None:
            error = float_scalar(self.standard_error, "standard_error")
            require(error >= 0.0, "standard_error", error, "at least 0")

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" +- {self.standard_error:.2g} (one standard error)"
        shown = np.array2string(np.asarray(self.value), precision=6)
        return "\n".join(
            (
                f"{shown}{error}",
                f"  guarantee: ({self.epsilon:.6g}, {self.delta:.6g})-DP, given the trained weights",
                f"  adjacency: {self.adjacency}, of one value",
                f"  values clipped to [{self.lower:.6g}, {self.upper:.6g}]",
                f"  mechanism: {self.mechanism}",
            )
        )


def mean(
    values: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    upper: float,
    lower: float = 0.0,
    adjacency: str = "add_remove",
) -> Released:
    """Release the mean of values that belong to one example each.

    Parameters
    ----------
    values : array_like, shape (n,)
        One value an example, at least one; each depends on its example and on released weights alone
        (see `hockeystick.release`). Infinite ones are clipped too.
    epsilon : float
        Privacy to spend, in (0, inf).
    delta : float, optional
        Delta to spend besides epsilon, in [0, 1).
    upper, lower : float
        Range to which values are clipped: finite, and chosen without looking at the values. The noise
        is proportional to its width.
    adjacency : {"add_remove", "replace"}, optional
        Whether neighbouring data sets have one example more or less, or one other example. With
        "replace" the number of examples is public and the noise is about half.

    Returns
    -------
    Released
        The mean of the clipped values with noise.

    Raises
    ------
    ValueError
        If an argument is out of range, a value is NaN or there is none.
    TypeError
        If an argument has the wrong type.
    ImportError
        If OpenDP is not installed.

    Notes
    -----
    Values are clipped, shifted so that the middle of the range is zero, rounded to whole multiples of the
    width over 2^30, and added up as integers: exactly, in any order. The sum has sensitivity (upper -
    lower) / 2 where an example is added or removed, and upper - lower where one is replaced. OpenDP adds
    discrete Laplace or discrete Gaussian noise to it, whichever has the smaller variance at this
    (epsilon, delta); for one or two numbers that is nearly always Laplace. With "add_remove" the number of
    examples is counted with noise as well, and half of the privacy goes there.

    With "replace" the release is unbiased (for the clipped values). With "add_remove" it is a ratio, with a
    relative bias of the order of the squared noise of the count over n^2.

    INDIVIDUAL, Section 3.4, releases means by the Gaussian mechanism.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import hockeystick as hs
    >>> epsilons = [0.5, 1.0, 1.5] * 20_000
    >>> released = hs.release.mean(epsilons, epsilon=0.1, upper=4.0)
    >>> abs(released.value - 1.0) < 0.05
    True
    >>> released.epsilon <= 0.1
    True
    """
    data, bottom, top = _check_values(values, lower, upper)
    relation = choice(adjacency, "adjacency", ADJACENCIES)
    half = LEVELS // 2
    unit = (top / 2 - bottom / 2) / half
    require(unit > 0.0, "upper", top, f"above lower, {bottom}, by more than rounding")
    middle = bottom / 2 + top / 2
    grid = np.clip(np.rint((data - middle) / unit), -half, half).astype(np.int64).tolist()
    with _opendp() as dp:
        domain = dp.vector_domain(dp.atom_domain(bounds=(-half, half), T=dp.i64), **_size(relation, data))
        total = dp.t.make_sum(domain, dp.symmetric_distance())
        count = dp.t.make_count(domain, dp.symmetric_distance())

        def make(noise: Any, scale: float) -> Any:
            """Return the measurement of the sum and, where the size is private, of the count."""
            # The same noise relative to what one example can change.
            parts = [total >> noise(scale=scale * half)]
            if relation == "add_remove":
                parts.append(count >> noise(scale=scale))
            return dp.c.make_composition(parts)

        kinds = [
            ("discrete Laplace", lambda scale: make(dp.m.then_laplace, scale), math.sqrt(2.0)),
            (
                "discrete Gaussian",
                lambda scale: _approximate(dp, make(dp.m.then_gaussian, scale), delta),
                1.0,
            ),
        ]
        plan = _least_noise(kinds, relation, *_check_budget(epsilon, delta))
        answers = plan.measurement(grid)
    number = max(1, int(answers[1])) if relation == "add_remove" else len(data)
    centred = float(answers[0]) * unit / number
    deviation = plan.deviation / number
    spread = half * unit
    error = math.hypot(spread, centred) if relation == "add_remove" else spread
    noisy = "sum and number" if relation == "add_remove" else "sum"
    return Released(
        middle + centred,
        plan.epsilon,
        plan.delta,
        relation,
        bottom,
        top,
        f"{plan.name} noise on the {noisy} of the values (OpenDP)",
        error * deviation,
    )


def quantiles(
    values: ArrayLike,
    probabilities: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    upper: float,
    lower: float = 0.0,
    adjacency: str = "add_remove",
    candidates: int = 1000,
) -> Released:
    """Release quantiles of values that belong to one example each.

    Parameters
    ----------
    values : array_like, shape (n,)
        One value an example, at least one; each depends on its example and on released weights alone
        (see `hockeystick.release`). Infinite ones are clipped too.
    probabilities : float or array_like, shape (k,)
        Which quantiles, in [0, 1]; 0.5 is the median. The privacy is for all of them together.
    epsilon : float
        Privacy to spend, in (0, inf).
    delta : float, optional
        Delta to spend besides epsilon, in [0, 1); it helps where there are several quantiles.
    upper, lower : float
        Range to which values are clipped: finite, and chosen without looking at the values.
    adjacency : {"add_remove", "replace"}, optional
        Whether neighbouring data sets have one example more or less, or one other example; with
        "replace" the number of examples is public.
    candidates : int, optional
        Number of equal steps of the grid over [lower, upper] whose points the answers are chosen from,
        in [1, 1000000].

    Returns
    -------
    Released
        The quantiles, a float or an array as `probabilities`; larger probabilities have larger ones.

    Raises
    ------
    ValueError
        If an argument is out of range, a value is NaN or there is none.
    TypeError
        If an argument has the wrong type.
    ImportError
        If OpenDP is not installed.

    Notes
    -----
    Each quantile is OpenDP's ``make_private_quantile`` (Smith 2011): of the candidates c, the one chosen
    makes (1 - p) #{v < c} and p #{v > c} nearly equal, by a noisy maximum that is calibrated to what one
    example can change in that score. Its rank is off by about log(candidates) times the scale of the
    noise. The privacy adds up over the quantiles, as pure differential privacy or, where delta is positive
    and that needs less noise, as zero-concentrated. Sorting the answers costs nothing.

    INDIVIDUAL, Section 3.4, releases quantiles by the gradient descent of Andrew et al. (2021).

    References
    ----------
    A. Smith, "Privacy-preserving Statistical Estimation with Optimal Convergence Rates", STOC 2011.
    doi:10.1145/1993636.1993743

    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    G. Andrew, O. Thakkar, H. B. McMahan and S. Ramaswamy, "Differentially Private Learning with Adaptive
    Clipping", NeurIPS 2021. arXiv:1905.03871

    Examples
    --------
    >>> import hockeystick as hs
    >>> epsilons = [0.5, 1.0, 1.5] * 20_000
    >>> released = hs.release.quantiles(epsilons, [0.1, 0.5, 0.9], epsilon=0.1, delta=1e-6, upper=4.0)
    >>> [round(float(value), 1) for value in released.value]
    [0.5, 1.0, 1.5]
    """
    data, bottom, top = _check_values(values, lower, upper)
    wanted = np.asarray(probabilities, dtype=object)
    chances = float_vector(np.atleast_1d(probabilities), "probabilities")
    require(chances.size >= 1, "probabilities", "none", "at least one number")
    bad = chances[~((chances >= 0.0) & (chances <= 1.0))]
    if bad.size:
        raise ValueError(f"probabilities must be in [0, 1], got {bad[0]}")
    relation = choice(adjacency, "adjacency", ADJACENCIES)
    steps = count_scalar(candidates, "candidates", 1, 1_000_000)
    grid = np.unique(np.linspace(bottom, top, steps + 1)).tolist()
    with _opendp() as dp:
        atoms = dp.atom_domain(bounds=(bottom, top), nan=False)
        space = dp.vector_domain(atoms, **_size(relation, data)), dp.symmetric_distance()

        def make(measure: Any, scale: float) -> Any:
            parts = [dp.m.make_private_quantile(*space, measure, grid, float(p), scale) for p in chances]
            return dp.c.make_composition(parts)

        pure, concentrated = dp.max_divergence(), dp.zero_concentrated_divergence()
        kinds = [
            ("pure", lambda scale: make(pure, scale), 1.0),
            ("zero-concentrated", lambda scale: _approximate(dp, make(concentrated, scale), delta), 1.0),
        ]
        plan = _least_noise(kinds, relation, *_check_budget(epsilon, delta))
        answers = np.array(plan.measurement(data.tolist()), dtype=np.float64)
    ordered = np.empty_like(answers)
    ordered[np.argsort(chances, kind="stable")] = np.sort(answers)
    return Released(
        float(ordered[0]) if wanted.ndim == 0 else ordered,
        plan.epsilon,
        plan.delta,
        relation,
        bottom,
        top,
        f"{len(chances)} private quantiles of {len(grid)} candidates (OpenDP), composed as {plan.name}",
    )


class _Plan(NamedTuple):
    """A measurement of OpenDP with its guarantee."""

    name: str
    measurement: Any
    epsilon: float
    delta: float
    deviation: float
    """Standard deviation of the noise, in units of what one example adds."""


def _least_noise(
    kinds: list[tuple[str, Callable[[float], Any], float]], relation: str, epsilon: float, delta: float
) -> _Plan:
    """Choose the kind (name, measurement by scale, deviation at scale 1) that needs the least noise."""
    distance = 2 if relation == "replace" else 1
    plans = []
    for number, (name, make, deviation) in enumerate(kinds if delta > 0.0 else kinds[:1]):
        scale = _smallest_scale(make, distance, epsilon)
        measurement = make(scale)
        spent = _spent(measurement, distance)
        plans.append(_Plan(name, measurement, spent, delta if number else 0.0, deviation * scale))
    return min(plans, key=lambda plan: plan.deviation)


def _smallest_scale(make: Callable[[float], Any], distance: int, epsilon: float) -> float:
    """Scale of noise at which a measurement spends just less than epsilon, by bisection."""
    failure = needed("opendp.mod", "release").OpenDPException

    def enough(scale: float) -> bool:
        """Whether noise of this scale spends at most epsilon."""
        try:
            return _spent(make(scale), distance) <= epsilon
        except failure as error:
            if error.variant != "Overflow":
                raise
            return False  # what so little noise spends is beyond the arithmetic of OpenDP

    scale = 1.0
    while not enough(scale):
        require(scale < LARGEST_SCALE, "epsilon", epsilon, "larger: the noise would drown everything")
        scale *= 2.0
    while scale > 1.0 / LARGEST_SCALE and enough(scale / 2.0):
        scale /= 2.0
    low, high = scale / 2.0, scale
    while high > low * (1.0 + SCALE_TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _spent(measurement: Any, distance: int) -> float:
    """Epsilon of a measurement for neighbours at a symmetric distance."""
    spent = measurement.map(distance)
    return float(spent[0] if isinstance(spent, tuple) else spent)


def _approximate(dp: Any, measurement: Any, delta: float) -> Any:
    """Zero-concentrated as (epsilon, delta)-differential privacy."""
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), delta)


def _size(relation: str, data: Floats) -> dict[str, int]:
    """Tell the domain of the data their number, where that is public because it cannot change."""
    return {"size": len(data)} if relation == "replace" else {}


@contextmanager
def _opendp() -> Iterator[Any]:
    """OpenDP with the features that this needs; others who use it find it as they left it."""
    dp = needed("opendp.prelude", "release")
    features = needed("opendp.mod", "release").GLOBAL_FEATURES
    missing = {"contrib"} - set(features)
    dp.enable_features(*missing)
    try:
        yield dp
    finally:
        dp.disable_features(*missing)


def _check_budget(epsilon: object, delta: object) -> tuple[float, float]:
    budget, slack = float_scalar(epsilon, "epsilon"), float_scalar(delta, "delta")
    require(0.0 < budget < math.inf, "epsilon", budget, "in (0, inf)")
    require(0.0 <= slack < 1.0, "delta", slack, "in [0, 1)")
    return budget, slack


def _check_values(values: object, lower: object, upper: object) -> tuple[Floats, float, float]:
    """Values clipped to the range, and the range."""
    data = float_vector(values, "values")
    bottom, top = float_scalar(lower, "lower"), float_scalar(upper, "upper")
    require(math.isfinite(bottom), "lower", bottom, "finite")
    require(math.isfinite(top) and top > bottom, "upper", top, f"finite and above lower, {bottom}")
    require(data.size >= 1, "values", "none", "at least one number")
    if np.isnan(data).any():
        raise ValueError("values must not be NaN")
    return np.clip(data, bottom, top), bottom, top
