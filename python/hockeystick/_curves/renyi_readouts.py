"""Rényi divergences, zCDP and tCDP of a trade-off function, from the expression it was built by.

Upper bounds that hold in both orders of the hypotheses (`docs/theory/renyi-of-tradeoff.md`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats, Floats, float_array, float_scalar, in_shape, require
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.expression import Step, steps_of
from hockeystick.errors import UnsupportedError

_UP = 1.0 + 1e-12
"""Makes up for the rounding of logarithms and sums of thousands of terms."""

_OF_A_LOGARITHM = 2.0**-50
"""The error of log(fall/width) of a part of a line, absolutely: an order multiplies it."""

_RATIO = 1.02
"""Of neighbouring orders where a bound is taken on every order between: it is at most so much too large."""

LARGEST_ORDER = 1e6
"""Largest order of a divergence of a curve. Beyond it the rounding of logarithms, which an order multiplies,
is no longer small next to the bound."""


class GaussianMixture(NamedTuple):
    """G_μ with μ drawn at random and known: squares of μ, their probabilities, and a bound on the rest."""

    squares: Floats
    probabilities: Floats
    left_out: float
    rounding: float
    largest: float


class RenyiReadOuts:
    """Rényi divergences and concentrated differential privacy, where they follow from an expression."""

    __slots__ = ()

    _recipe: tuple[Any, ...]
    _mixtures: tuple[GaussianMixture, ...] | None

    def renyi(self, order: ArrayLike) -> FloatOrFloats:
        """Upper bound on the Rényi divergences that the trade-off function allows, in both orders.

        Parameters
        ----------
        order : array_like
            Orders, in (1, 1e6].

        Returns
        -------
        float or ndarray, shape of `order`
            In nats; inf where the curve allows an output that gives a data set away, as (ε, δ) with δ > 0
            does. Exact but for rounding if the curve is of Gaussian or Laplace noise, of (ε, 0), of points,
            of a run, or of `hockeystick.shuffle.tradeoff`, and for their compositions if they are symmetric.

        Raises
        ------
        ValueError
            If an order is out of range.
        TypeError
            If `order` is not real.
        UnsupportedError
            For curves of `group`, `subsample` and bounds of one split, from which no such bound is derived.

        Notes
        -----
        An f-divergence is a mixture of hockey-stick divergences, so that the divergence of a pair with this
        trade-off function bounds that of every mechanism with it (Dong, Roth and Su 2022, Appendix B).
        SHUFFLE, Section 2, reads G_μ in the same way.

        Examples
        --------
        >>> import hockeystick as hs
        >>> (hs.TradeoffCurve.gaussian(0.5) * 4).renyi([2.0, 8.0]).round(6)
        array([1., 4.])
        >>> run = hs.shuffle.tradeoff(hs.Shuffle(100, 5000), noise_multiplier=20.0, epochs=10, group_size=4)
        >>> round(run.renyi(8.0), 4)
        1.7274
        """
        orders = float_array(order, "order")
        bad = orders[~((orders > 1.0) & (orders <= LARGEST_ORDER))]
        if bad.size:
            raise ValueError(f"order must be in (1, {LARGEST_ORDER:g}], got {bad[0]}")
        found = np.array([self._divergence(value) for value in orders.ravel().tolist()])
        return in_shape(found, orders.shape)

    def zcdp(self) -> float:
        """Smallest ρ of ρ-zCDP that is derived: Rényi divergences of at most ρ times the order.

        Returns
        -------
        float
            ρ, an upper bound; inf where a Rényi divergence is.

        Raises
        ------
        UnsupportedError
            For curves from which no bound at all orders is derived: those of runs with sampling have `tcdp`.

        Notes
        -----
        μ²/2 of G_μ, and of the largest μ of a mixture over known μ; ε²/2 of pure ε-differential privacy
        (Bun and Steinke 2016, Proposition 3.3). Adds up under composition.

        Examples
        --------
        >>> import hockeystick as hs
        >>> round((hs.TradeoffCurve.gaussian(0.5) * 8).zcdp(), 6)
        1.0
        """
        return self._folded(_Concentrated())

    def tcdp(self, omega: float) -> float:
        """Smallest ρ of (ρ, ω)-tCDP that is derived: at most ρ times the order, at orders in (1, ω).

        Parameters
        ----------
        omega : float
            Above 1, at most 1e6.

        Returns
        -------
        float
            ρ, an upper bound.

        Raises
        ------
        ValueError
            If `omega` is out of range.
        TypeError
            If `omega` is not a real number.
        UnsupportedError
            As for `renyi`.

        Notes
        -----
        Bun, Dwork, Rothblum and Steinke 2018. Divergences do not decrease with the order, so that those at
        orders a factor of 1.02 apart bound all between them: ρ is at most 2 % too large.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
        >>> curve = hs.TradeoffCurve.from_curve(run)
        >>> curve.tcdp(8.0) < 0.1 < curve.tcdp(64.0)
        True
        """
        largest = float_scalar(omega, "omega")
        require(1.0 < largest <= LARGEST_ORDER, "omega", largest, f"in (1, {LARGEST_ORDER:g}]")
        orders = [largest]
        while orders[-1] > 1.0:
            orders.append(max(1.0, orders[-1] / _RATIO))
        return max(self._divergence(above) / below * _UP for above, below in pairwise(orders))

    def _divergence(self, order: float) -> float:
        return self._folded(_AtOrder(order))

    def _folded(self, of: _Bound) -> float:
        """Value of the expression, operation by operation."""
        stack: list[float] = []
        for step in steps_of(self._recipe):
            operation, curves, arguments = step
            if not curves:
                stack.append(self._leaf(of, step))
                continue
            others = [stack.pop() for _ in range(curves)][::-1]
            if operation not in _RULES:
                raise UnsupportedError(
                    f"a trade-off function made by {operation}() has no Rényi bound that is derived here: "
                    f"ask the curve before {operation}(), or hockeystick.renyi about the mechanism"
                )
            stack.append(_RULES[operation](of, others, arguments))
        (found,) = stack
        return found

    def _leaf(self, of: _Bound, step: Step) -> float:
        operation, _, arguments = step
        if operation != "shuffle":
            return float(getattr(of, operation)(*arguments))
        function, sampling, named = arguments
        mixtures = function(sampling, **dict(named))._mixtures
        if mixtures is None:
            raise UnsupportedError(
                f"hockeystick.shuffle.{function.__name__} has a singular part, or is no guarantee: ask "
                f"hockeystick.shuffle.tradeoff of the same run"
            )
        return math.fsum(of.mixture(each) for each in mixtures) * _UP


class _Bound(ABC):
    """A number of every leaf of an expression that bounds its privacy, and how operations change it."""

    @abstractmethod
    def mixture(self, law: GaussianMixture) -> float:
        """Return the number of G_μ with a random μ whose value the adversary knows."""

    @abstractmethod
    def both(self, one: float, other: float) -> float:
        """Return the number of the smaller of two trade-off functions, from theirs."""


class _AtOrder(_Bound):
    """The Rényi divergence at an order."""

    def __init__(self, order: float) -> None:
        self.order = order

    def gaussian(self, mu: float) -> float:
        return 0.5 * self.order * mu * mu * _UP if mu else 0.0

    def laplace(self, mu: float) -> float:
        a = self.order
        first = math.log(a / (2.0 * a - 1.0)) + (a - 1.0) * mu
        second = math.log((a - 1.0) / (2.0 * a - 1.0)) - a * mu
        return self._scaled(float(np.logaddexp(first, second)))

    def from_epsilon_delta(self, epsilon: float, delta: float) -> float:
        if delta > 0.0:
            return math.inf
        # Randomised response with p = e^ε / (1 + e^ε): with x = (α − 1)ε the moment is 1 + (e^x − 1)·part,
        # a sum of positive terms at every order.
        x = (self.order - 1.0) * epsilon
        part = -math.expm1(-epsilon - x) / (1.0 + math.exp(-epsilon))
        log_moment = (
            math.log1p(math.expm1(x) * part)
            if x < 1.0
            else x + math.log(math.exp(-x) - math.expm1(-x) * part)
        )
        return log_moment / (self.order - 1.0) * _UP

    def from_points(self, alpha: tuple[float, ...], beta: tuple[float, ...]) -> float:
        return max(self._of_line(alpha, beta), self._of_line(beta[::-1], alpha[::-1]))

    def _of_line(self, alpha: tuple[float, ...], beta: tuple[float, ...]) -> float:
        """Divergence of the density |f'| from the uniform one on [0, 1], for the hull f of some points."""
        x, y = _lower_hull(alpha, beta)
        if y[0] < 1.0 or x[0] > 0.0:
            return math.inf
        width, fall = np.diff(x), -np.diff(y)
        used = (width > 0.0) & (fall > 0.0)
        if np.any((width == 0.0) & (fall > 0.0)):
            return math.inf
        ratios = np.log1p((fall[used] - width[used]) / width[used])
        logs = np.log(width[used]) + self.order * (ratios + _OF_A_LOGARITHM)
        return self._scaled(float(np.logaddexp.reduce(logs)))

    def from_curve(self, privacy_curve: PrivacyCurve) -> float:
        if privacy_curve.adjacency in ("add", "remove"):  # taken in both orders
            steps = dict(privacy_curve.segments)
            privacy_curve = PrivacyCurve(steps, "add_remove", privacy_curve.tolerance)
        return float(privacy_curve.renyi(self.order))

    def mixture(self, law: GaussianMixture) -> float:
        rise = 0.5 * self.order * (self.order - 1.0)
        with np.errstate(divide="ignore"):
            logs = np.log(law.probabilities) + math.log1p(law.rounding)
        total = float(np.logaddexp.reduce(logs + rise * law.squares))
        if law.left_out > 0.0:
            total = float(np.logaddexp(total, math.log(law.left_out) + rise * law.largest))
        return self._scaled(total)

    def both(self, one: float, other: float) -> float:
        return self._scaled(float(np.logaddexp((self.order - 1.0) * one, (self.order - 1.0) * other)))

    def _scaled(self, log_moment: float) -> float:
        return max(0.0, log_moment + 1e-13) / (self.order - 1.0) * _UP


def divergence_of_mixture(order: float, law: GaussianMixture) -> float:
    """Rényi divergence of an order, of G_μ with a random μ that is known."""
    return _AtOrder(order).mixture(law)


class _Concentrated(_Bound):
    """The supremum over all orders of the divergence over the order."""

    def gaussian(self, mu: float) -> float:
        return 0.5 * mu * mu * _UP if mu else 0.0

    def laplace(self, mu: float) -> float:
        return self.gaussian(mu)

    def from_epsilon_delta(self, epsilon: float, delta: float) -> float:
        return math.inf if delta > 0.0 else self.gaussian(epsilon)

    def from_points(self, alpha: tuple[float, ...], beta: tuple[float, ...]) -> float:
        steepest = 0.0
        for x, y in (_lower_hull(alpha, beta), _lower_hull(beta[::-1], alpha[::-1])):
            if y[0] < 1.0 or x[0] > 0.0:
                return math.inf
            width, fall = np.diff(x), -np.diff(y)
            if np.any((width > 0.0) & (fall == 0.0)) or np.any((width == 0.0) & (fall > 0.0)):
                return math.inf
            ratios = np.log1p((fall - width) / width)
            steepest = max(steepest, float(np.abs(ratios).max()) + _OF_A_LOGARITHM)
        return self.gaussian(steepest)

    def from_curve(self, privacy_curve: PrivacyCurve) -> float:
        raise UnsupportedError(
            "zCDP bounds divergences at all orders, which is not derived for a run: use tcdp(omega)"
        )

    def mixture(self, law: GaussianMixture) -> float:
        return 0.5 * law.largest * _UP

    def both(self, one: float, other: float) -> float:
        raise UnsupportedError("zCDP is not derived for a minimum of trade-off functions: use tcdp(omega)")


def _lower_hull(alpha: tuple[float, ...], beta: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Vertices of the largest convex function below some points."""
    hull: list[tuple[float, float]] = []
    for point in zip(alpha, beta, strict=True):
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    x, y = np.array(hull).T
    return x, y


def _is_above(before: tuple[float, float], point: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether a point is on or above the line between two others."""
    rise = (point[1] - before[1]) * (after[0] - before[0])
    return rise >= (after[1] - before[1]) * (point[0] - before[0])


_RULES: dict[str, Callable[[_Bound, list[float], tuple[Any, ...]], float]] = {
    "compose": lambda of, values, arguments: math.fsum(values) * _UP,
    "repeat": lambda of, values, arguments: values[0] * arguments[0] * _UP if arguments[0] else 0.0,
    "inverse": lambda of, values, arguments: values[0],
    "symmetrize": lambda of, values, arguments: of.both(values[0], values[0]),
    "minimum": lambda of, values, arguments: of.both(*values),
    "maximum": lambda of, values, arguments: min(values),
}
"""Bounds of composed, reversed and combined curves by those of the parts."""
