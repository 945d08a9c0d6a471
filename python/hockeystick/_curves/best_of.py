"""The best of a random number of runs: what is published when hyperparameters were tuned.

Two upper bounds, of which the smaller counts: from the privacy profile of one run (docs/theory/best-of.md,
after Koskela, Redberg and Wang), and from its Rényi divergences (Papernot and Steinke).
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats, Floats, float_array, in_shape, require, shown
from hockeystick._curves.number_of_runs import RUNS, NegativeBinomialRuns, NumberOfRuns, PoissonRuns
from hockeystick._readouts import SafeAnswers
from hockeystick._vocabulary.adjacency import ZERO_OUT
from hockeystick.errors import UnsupportedError, WideIntervalWarning
from hockeystick.kernels import rdp_to_delta, rdp_to_epsilon

POINTS = 240
"""Points of the profile that are computed; the chords between them are above it by 0.1 % at most."""

CELLS = 40_000
"""Cells of the probability that a run is better. With half of them epsilon grows by the mean / 80,000 or
so."""

LEVELS = 1_000
"""Terms of the sum over cells, which are joined where they have almost the same loss."""

DEEPEST = 100.0
"""Logarithm of the weight below which cells count as having the loss infinity: e^-100 is no part of any
delta."""

DEEPEST_DELTA = 1e-18
"""Delta of one run down to which the profile is computed to answer for delta: further points take seconds,
and the other bound answers there."""

DEPTH = 1e-6
"""Profiles are computed down to powers of this delta, so that an answer does not depend on what was asked
before."""

BELOW = 1e-4
"""The profile goes down to this part of the delta of the best run over their mean number, at least: what
is below it counts as no less than its end."""

SLACK = 1e-10
"""Relative rounding error of sums of a thousand terms and of their exponents, with room."""

_ORDERS = (
    1.0 + np.arange(1, 100) / 10.0,
    np.arange(11.0, 64.0),
    2.0 ** np.arange(7, 13),
    np.geomspace(1.01, 4096.0, 120),
)
"""Parts of `ORDERS`, dense where the best order usually is. With fewer this bound is a little larger."""
ORDERS = np.array(sorted({order for part in _ORDERS for order in part.tolist()}))
"""Rényi orders of the other bound: those of dp-accounting among them."""


def _deltas(value: ArrayLike) -> Floats:
    """`value` as numbers in (0, 1)."""
    deltas = float_array(value, "delta")
    wrong = ~((deltas > 0.0) & (deltas < 1.0))
    if np.any(wrong):
        require(False, "delta", float(deltas[wrong].ravel()[0]), "in (0, 1)")
    return deltas


def _epsilons(value: ArrayLike) -> Floats:
    """`value` as finite numbers of at least 0."""
    epsilons = float_array(value, "epsilon")
    wrong = ~((epsilons >= 0.0) & (epsilons < np.inf))
    if np.any(wrong):
        require(False, "epsilon", float(epsilons[wrong].ravel()[0]), "finite and at least 0")
    return epsilons


class Profile(Protocol):
    """What a privacy curve answers."""

    @property
    def adjacency(self) -> str:
        """Neighbouring relation."""

    def epsilon(self, delta: ArrayLike) -> FloatOrFloats:
        """Upper bound on epsilon."""

    def delta(self, epsilon: ArrayLike) -> FloatOrFloats:
        """Upper bound on delta."""

    def renyi(self, order: ArrayLike) -> FloatOrFloats:
        """Upper bound on the Rényi divergence."""


class _Profile(NamedTuple):
    """The profile of one run down to some delta, and the sum that it gives the best of several."""

    epsilons: Floats
    deltas: Floats
    losses: Floats
    weights: Floats


class BestOf(SafeAnswers):
    """Privacy of the best of a random number of runs, made by ``curve.best_of(runs)``.

    Every answer is an upper bound: the smaller of one from the privacy profile of a run and one from its
    Rényi divergences.

    Notes
    -----
    Each run trains on the same data with hyperparameters of its own, drawn independently and by a law that
    does not depend on the data, and has at most the loss of the curve. The best run and its hyperparameters
    are published, and nothing else; equal scores are decided at random. The number of runs is drawn from
    the law, and is not published.

    References
    ----------
    - Koskela, Redberg and Wang 2024, "Privacy Profiles for Private Selection", arXiv:2402.06137
    - Papernot and Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy", arXiv:2110.03620

    Examples
    --------
    >>> import hockeystick as hs
    >>> curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
    >>> best = curve.best_of(hs.PoissonRuns(20))
    >>> print(f"{curve.epsilon(1e-6):.2f} {best.epsilon(1e-6):.2f}")
    0.72 1.89
    >>> best.runs
    PoissonRuns(mean=20.0)
    """

    __slots__ = ("_curve", "_divergences", "_profiles", "_runs")

    def __init__(self, curve: Profile, runs: NumberOfRuns) -> None:
        if not isinstance(runs, RUNS):
            raise TypeError(
                "runs must be PoissonRuns, GeometricRuns, NegativeBinomialRuns or BinomialRuns, got "
                f"{shown(runs)}"
            )
        if curve.adjacency not in ("add_remove", "replace", ZERO_OUT):
            raise UnsupportedError(
                f"the best of several runs needs both orders of the data sets, got adjacency "
                f"{curve.adjacency!r}: use 'add_remove' or 'replace'"
            )
        self._curve, self._runs = curve, runs
        self._divergences: Floats | None = None
        self._profiles: dict[int, _Profile] = {}

    @property
    def runs(self) -> NumberOfRuns:
        """The law of the number of runs."""
        return self._runs

    def __repr__(self) -> str:
        return f"<best of {self._runs!r}, each {self._curve!r}>"

    def _upper_end(self, unknown: str, at: ArrayLike) -> FloatOrFloats:
        if unknown == "epsilon":
            levels = _deltas(at)
            found = [
                min(self._epsilon_by_profile(d), self._epsilon_by_renyi(d)) for d in levels.ravel().tolist()
            ]
        else:
            levels = _epsilons(at)
            found = [min(self._delta_by_profile(e), self._delta_by_renyi(e)) for e in levels.ravel().tolist()]
        return in_shape(np.array(found), levels.shape)

    def bound_used(self, delta: float) -> str:
        """Which of the two bounds is the smaller one.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        {"profile", "renyi"}
            The bound of Koskela, Redberg and Wang, in layers; or that of Papernot and Steinke.

        Raises
        ------
        ValueError
            If `delta` is out of range.
        TypeError
            If `delta` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
        >>> curve.best_of(hs.PoissonRuns(5)).bound_used(1e-6)
        'profile'
        """
        level = float(_deltas(delta))
        return "profile" if self._epsilon_by_profile(level) <= self._epsilon_by_renyi(level) else "renyi"

    def _profile_to(self, depth: int) -> _Profile:
        """Return the profile down to a delta of ``DEPTH**depth``, and its cells."""
        if depth in self._profiles:
            return self._profiles[depth]
        with warnings.catch_warnings():
            # The upper ends hold, however wide the intervals are.
            warnings.simplefilter("ignore", WideIntervalWarning)
            whole = float(self._curve.delta(0.0))
            least = max(min(DEPTH**depth, 0.5 * whole), 1e-300)
            deltas = np.geomspace(whole, least, POINTS) if whole > 0.0 else np.zeros(2)
            asked = np.clip(deltas, 1e-300, 1.0 - 2.0**-53)
            epsilons = np.asarray(self._curve.epsilon(asked)) if whole > 0.0 else np.zeros(2)
        epsilons[0] = 0.0
        # Both are certified one by one; together they have to be monotone for the chords to be found.
        points = np.maximum.accumulate(epsilons), deltas
        self._profiles[depth] = _Profile(*points, *self._layers(points))
        return self._profiles[depth]

    @staticmethod
    def _chords(profile: _Profile, epsilons: Floats) -> Floats:
        """Upper bound on delta of one run by chords, convex in e^epsilon; epsilon may be negative."""
        at, deltas = profile.epsilons, profile.deltas
        size = np.abs(epsilons)
        right = np.minimum(np.searchsorted(at, size, side="right"), at.size - 1)
        left = right - 1
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            share = np.expm1(size - at[left]) / np.expm1(at[right] - at[left])
            found = deltas[left] + (deltas[right] - deltas[left]) * np.clip(share, 0.0, 1.0)
        found = np.where(np.isfinite(share) & np.isfinite(at[right]), found, deltas[left])
        found = np.where(size >= at[-1], deltas[-1], found)
        below = np.exp(-size)
        whole: Floats = np.where(epsilons >= 0.0, found, np.minimum(1.0, 1.0 - below + below * found))
        return whole

    @staticmethod
    def _better(points: tuple[Floats, Floats], u: Floats) -> Floats:
        """Lower bound on the probability of an event whose probability for the other data set is u."""
        finite = np.isfinite(points[0])
        at, deltas = points[0][finite], points[1][finite]
        slopes, v = np.exp(-at), 1.0 - u
        heights = slopes * deltas
        with np.errstate(all="ignore"):
            # Where two tangents of the trade-off function meet, on either side of its diagonal.
            near = (heights[:-1] - heights[1:]) / (slopes[:-1] - slopes[1:])
            far = (deltas[:-1] - deltas[1:]) / (np.exp(at[1:]) - np.exp(at[:-1]))
        found = np.zeros_like(u)
        for joints, x in ((near, u), (far, v)):
            ascending = np.maximum.accumulate(np.nan_to_num(joints, posinf=1.0, neginf=0.0)[::-1])
            # Every tangent is a bound. A joint that is rounded may choose another one, which is hardly lower.
            line = at.size - 1 - np.searchsorted(ascending, x)
            with np.errstate(over="ignore", invalid="ignore"):
                steep = 1.0 - deltas[line] - np.exp(at[line]) * v
            value = slopes[line] * (u - deltas[line]) if x is u else np.nan_to_num(steep, neginf=0.0)
            found = np.maximum(found, value)
        found = np.clip(found * (1.0 - 1e-13) - 1e-15, 0.0, None)
        return np.minimum(np.maximum.accumulate(found), u)

    def _layers(self, points: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Losses and weights of the sum that bounds delta; see the theorem."""
        deepest = min(float(-self._runs.log_weight(np.array([1.0]))[0]), DEEPEST)
        edges = self._runs.place(-np.linspace(0.0, deepest, CELLS + 1))
        edges = np.unique(np.concatenate(([0.0], edges[(edges > 0.0) & (edges < 1.0)], [1.0])))
        top = self._runs.log_weight(self._better(points, edges[:-1]))
        with np.errstate(invalid="ignore"):
            losses = np.maximum.accumulate(top - self._runs.log_weight(edges[1:]))
        weights = np.exp(top)
        steps = np.maximum(weights - np.append(weights[1:], 0.0), 0.0)
        levels = np.unique(np.linspace(0, losses.size, LEVELS + 1).astype(np.int64))
        joined = np.add.reduceat(steps, levels[:-1])
        return losses[levels[1:] - 1], joined

    def _bound(self, profile: _Profile, epsilon: float) -> float:
        """Upper bound on delta of the best run: the sum over the cells."""
        terms = profile.weights * self._chords(profile, epsilon - profile.losses - SLACK)
        return min(1.0, self._runs.mean * float(np.sum(terms)) * (1.0 + SLACK))

    def _delta_by_profile(self, epsilon: float) -> float:
        """Bound of the theorem, from the profile as far down as delta asks for."""
        depth = 1
        while True:
            profile = self._profile_to(depth)
            found = self._bound(profile, epsilon)
            floor = max(self._runs.mean, 1.0) * float(profile.deltas[-1])
            if (
                found * BELOW > floor
                or DEPTH**depth <= DEEPEST_DELTA
                or not np.isfinite(profile.epsilons[-1])
            ):
                return found
            depth += 1

    def _epsilon_by_profile(self, delta: float) -> float:
        """Return the smallest epsilon, up to 1e-9 of itself, at which that bound is `delta` at most."""
        smallest = max(BELOW * delta / max(self._runs.mean, 1.0), 1e-300)
        profile = self._profile_to(max(1, math.ceil(math.log(smallest) / math.log(DEPTH))))
        if self._bound(profile, 0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self._bound(profile, high) > delta:
            low, high = high, 2.0 * high
            if high > 1e6:
                return math.inf
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._bound(profile, middle) > delta else (low, middle)
            if high - low <= 1e-9 * high:
                break
        return high

    def _renyi(self) -> Floats:
        """Rényi divergences of the best run (Papernot and Steinke, Theorems 2 and 6)."""
        if self._divergences is None:
            self._divergences = np.asarray(self._curve.renyi(ORDERS))
        one, runs = self._divergences, self._runs
        growth = max(math.log(runs.mean), 0.0) / (ORDERS - 1.0)
        if isinstance(runs, PoissonRuns):
            near = np.log1p(1.0 / (ORDERS - 1.0)) * (1.0 - 1e-12)
            found = one + runs.mean * self._chords(self._profile_to(1), near) + growth
        elif isinstance(runs, NegativeBinomialRuns):
            other = np.min((1.0 - 1.0 / ORDERS) * one - math.log(runs.success) / ORDERS)
            found = one + (1.0 + runs.shape) * other + growth
        else:
            return np.full(ORDERS.size, np.inf)
        # The divergence grows with the order.
        return np.minimum.accumulate((found * (1.0 + SLACK))[::-1])[::-1]

    def _epsilon_by_renyi(self, delta: float) -> float:
        """Bound from the Rényi divergences; infinite where none is finite."""
        rdp = self._renyi()
        if not np.any(np.isfinite(rdp)):
            return math.inf
        good = np.isfinite(rdp)
        return float(rdp_to_epsilon(ORDERS[good], rdp[good], delta, conversion="optimal"))

    def _delta_by_renyi(self, epsilon: float) -> float:
        """Bound from the Rényi divergences; 1 where none is finite."""
        rdp = self._renyi()
        good = np.isfinite(rdp)
        return (
            float(rdp_to_delta(ORDERS[good], rdp[good], epsilon, conversion="optimal"))
            if np.any(good)
            else 1.0
        )
