"""Mechanisms that are known by a trade-off function, not by noise on a sum.

The function says how well two neighbouring data sets can be told apart whatever else the mechanism does, so
that the neighbouring relation is that of the event, and such functions compose with all other steps.

*(ε, δ).* Kairouz, Oh and Viswanath 2015: a mechanism that is (ε, δ)-differentially private is a randomised
function of a randomised response that gives the record away with probability δ.

*Exponential mechanism.* Its privacy loss lies in some interval of length ε (Durfee and Rogers 2019), so that
the worst pair of laws has the two losses t and t - ε, for some t (Dong, Durfee and Rogers 2020). The largest
of their curves is δ(x) = (e^{ε/2} - e^{x/2})² / (e^ε - 1) for |x| <= ε, the curve of two logistic laws at
distance ε. A bound for all t composes as the pair of any curve does (Zhu, Dong and Wang 2022).

*Permute and flip.* It reports the largest of scores with exponential noise of scale s = 2Δ/ε (Ding et al.
2021). Let D be the largest noisy score of some answers less that of all others, and T its upper tail. The
maximum of exponential variables has a hazard rate of at most 1/s, so that D has a density of at most
min{T, 1 - T}/s. Scores that move by Δ shift D by 2Δ at most: by ε in units of s. The tail of Laplace noise of
scale s attains that bound everywhere, so that no set of answers gains more than with Laplace noise at
distance ε.

*Discrete Laplace and Gaussian noise* in one dimension: two laws on the whole numbers at some distance, whose
losses fall with the output, and whose curve is a sum. Larger distances are worse, as both laws are
log-concave. Several coordinates with discrete Laplace noise are a chain of moves in one dimension, as those
of Laplace noise are.

*The best of several runs* has the bound of ``curve.best_of``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hockeystick import BestOf
from hockeystick._arguments import Floats, require
from hockeystick.tradeoff import TradeoffCurve

LARGEST_EPSILON = 600.0
"""Largest loss of a curve, as of `TradeoffCurve`."""

LARGEST_SENSITIVITY = 1000
"""Largest distance of two discrete laws: as many losses, each of which takes part in every composition."""

LARGEST_SIGMA = 10_000.0
"""Largest scale of discrete Gaussian noise, whose law is summed term by term."""

POINTS = 256
"""Tangents of a curve that has no corners. With half of them epsilon grows by 1e-4 or so, relatively."""

SMALLEST_DELTA = 1e-18
"""Where the curve of discrete Gaussian noise and of the best of several runs ends: what is below counts as an
infinite loss."""

_ROUNDING = 1e-12
"""Relative error of sums of a few thousand terms, with room, by which deltas are rounded up."""

_TINY = 1e-30
"""Probability of the tails that are left out."""

_ABSOLUTE = 1e-15
"""Absolute error of a point of the trade-off function, a difference of numbers up to 1."""


class KnownCurve(NamedTuple):
    """A mechanism by its trade-off function."""

    curve: TradeoffCurve
    largest_loss: float
    """Epsilon at delta zero; inf where there is none."""
    infinite_loss: float
    """Probability of an infinite loss: delta at an infinite epsilon."""


def epsilon_delta(epsilon: float, delta: float) -> KnownCurve:
    """Return what is known of a mechanism of which nothing is known but (ε, δ)."""
    require(0.0 <= epsilon <= LARGEST_EPSILON, "epsilon", epsilon, f"in [0, {LARGEST_EPSILON:g}]")
    require(0.0 <= delta <= 1.0, "delta", delta, "in [0, 1]")
    curve = TradeoffCurve.from_epsilon_delta(epsilon, delta)
    return KnownCurve(curve, epsilon if delta == 0.0 else math.inf, delta)


def permute_and_flip(epsilon: float) -> KnownCurve:
    """Return the curve of the ε-differentially private permute-and-flip mechanism: that of Laplace noise."""
    require(0.0 <= epsilon <= LARGEST_EPSILON, "epsilon", epsilon, f"in [0, {LARGEST_EPSILON:g}]")
    return KnownCurve(TradeoffCurve.laplace(epsilon), epsilon, 0.0)


def exponential_mechanism(epsilon: float) -> KnownCurve:
    """Return the curve of the ε-differentially private exponential mechanism: two logistic laws."""
    require(0.0 <= epsilon <= LARGEST_EPSILON, "epsilon", epsilon, f"in [0, {LARGEST_EPSILON:g}]")
    if epsilon == 0.0:
        return epsilon_delta(0.0, 0.0)
    at = np.linspace(0.0, epsilon, POINTS // 2 + 1)
    # (e^{ε/2} - e^{x/2})² / (e^ε - 1), without differences of nearly equal numbers.
    deltas = np.exp(at - epsilon) * np.expm1(0.5 * (epsilon - at)) ** 2 / -np.expm1(-epsilon)
    return KnownCurve(_of_profile(at, deltas), epsilon, 0.0)


def discrete_laplace(parameter: float, sensitivity: int) -> KnownCurve:
    """Return the curve of noise with probabilities e^{-a|x|} tanh(a/2), at a distance of `sensitivity`."""
    require(0.0 < parameter < math.inf, "noise_parameter", parameter, "in (0, inf)")
    allowed = f"in [1, {LARGEST_SENSITIVITY}]"
    require(1 <= sensitivity <= LARGEST_SENSITIVITY, "sensitivity", sensitivity, allowed)
    largest = parameter * sensitivity
    require(
        largest <= LARGEST_EPSILON, "noise_parameter", parameter, f"at most {LARGEST_EPSILON:g} / sensitivity"
    )
    if sensitivity == 1:  # two losses, of a randomised response
        return epsilon_delta(largest, 0.0)
    # The losses a(s - 2x) at x = 0, ..., s; of the outputs beyond, the probabilities are the tails.
    x = np.arange(sensitivity + 1, dtype=np.float64)
    losses = parameter * (sensitivity - 2.0 * x)
    masses = math.tanh(0.5 * parameter) * np.exp(-parameter * x)
    ends = 1.0 / (1.0 + math.exp(-parameter))  # P(noise <= 0), and of s and more what is left of it
    masses[0], masses[-1] = ends, math.exp(-parameter * sensitivity) * ends
    at = np.unique(np.append(losses[losses >= 0.0], 0.0))
    return KnownCurve(_of_profile(at, _deltas(losses, masses, at)), largest, 0.0)


def discrete_gaussian(sigma: float, sensitivity: int) -> KnownCurve:
    """Return the curve of noise with probabilities ~ e^{-x²/2σ²}, at a distance of `sensitivity`."""
    require(0.0 < sigma <= LARGEST_SIGMA, "sigma", sigma, f"in (0, {LARGEST_SIGMA:g}]")
    allowed = f"in [1, {LARGEST_SENSITIVITY}]"
    require(1 <= sensitivity <= LARGEST_SENSITIVITY, "sensitivity", sensitivity, allowed)
    reach = sensitivity + math.ceil(12.0 * sigma) + 2  # beyond is less than 1e-31
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    masses = weights / weights.sum()
    losses = sensitivity * (sensitivity - 2.0 * x) / (2.0 * sigma * sigma)
    # What is above the last point counts as an infinite loss.
    rare = int(np.searchsorted(np.cumsum(masses), SMALLEST_DELTA))
    last = min(float(losses[rare]), LARGEST_EPSILON)
    at = np.unique(np.append(losses[(losses >= 0.0) & (losses <= last)], 0.0))
    if at.size > POINTS:
        at = np.linspace(0.0, last, POINTS)
    deltas = _deltas(losses, masses, at)
    return KnownCurve(_of_profile(at, deltas), math.inf, float(deltas[-1]))


def randomized_response(noise: float, buckets: int) -> KnownCurve:
    """Return the curve of an answer that is replaced, with probability `noise`, by one of some at random."""
    likely, unlikely = 1.0 - noise + noise / buckets, noise / buckets
    largest = math.log(likely / unlikely) * (1.0 + _ROUNDING)
    require(largest <= LARGEST_EPSILON, "noise_parameter", noise, f"of a loss of at most {LARGEST_EPSILON:g}")
    return KnownCurve(_of_profile(np.array([0.0, largest]), np.array([1.0 - noise, 0.0])), largest, 0.0)


def best_of(curve: BestOf) -> KnownCurve:
    """Return the curve of the best of several runs."""
    largest = float(curve.epsilon(SMALLEST_DELTA))
    if not largest <= LARGEST_EPSILON:
        return epsilon_delta(0.0, 1.0)
    at = np.linspace(0.0, largest, POINTS // 2) if largest > 0.0 else np.zeros(1)
    deltas = np.minimum.accumulate(np.asarray(curve.delta(at)))
    return KnownCurve(_of_profile(at, deltas), math.inf, float(deltas[-1]))


def _deltas(losses: Floats, masses: Floats, at: Floats) -> Floats:
    """Return δ(ε) = Σ mass (1 - e^{ε - loss})_+ at each ε, a sum of positive terms."""
    return np.array([float(np.sum(masses * -np.expm1(np.minimum(e - losses, 0.0)))) for e in at.tolist()])


def _of_profile(epsilons: Floats, deltas: Floats) -> TradeoffCurve:
    """Return the largest symmetric trade-off function that points of a privacy curve, from 0 on, allow.

    Each point gives the line 1 - δ - e^ε α and its mirror image. The function is the largest of 0 and of
    these lines: its corners are where neighbouring lines meet, and it is nowhere above that of the curve.
    """
    slopes, raised = np.exp(epsilons), np.minimum(deltas * (1.0 + _ROUNDING) + _TINY, 1.0)
    kept = _convex(slopes, raised)
    slopes, raised = slopes[kept], raised[kept]
    heights = 1.0 - raised
    # From the steepest line, which starts at α = 0, to the diagonal; the other half is the mirror image.
    alpha = np.append(0.0, ((raised[:-1] - raised[1:]) / (slopes[1:] - slopes[:-1]))[::-1])
    alpha = np.maximum.accumulate(alpha)  # but for rounding it ascends, as the points are convex
    beta = np.maximum(heights[::-1] - slopes[::-1] * alpha - _ABSOLUTE, 0.0)
    middle = float(np.max(heights / (1.0 + slopes))) * (1.0 - _ROUNDING)
    left = (alpha < middle) & (beta > middle)
    alpha, beta = np.append(alpha[left], middle), np.append(beta[left], middle)
    beta = np.minimum.accumulate(np.minimum(beta, 1.0 - alpha))
    points = np.concatenate((alpha, beta[::-1], [1.0])), np.concatenate((beta, alpha[::-1], [0.0]))
    return TradeoffCurve.from_points(*points)


def _convex(slopes: Floats, deltas: Floats) -> list[int]:
    """Return which points stand on the lower convex hull: the others say nothing besides them."""
    kept: list[int] = []
    for place in range(slopes.size):
        while len(kept) >= 2:
            a, b = kept[-2:]
            before = (deltas[b] - deltas[a]) * (slopes[place] - slopes[b])
            after = (deltas[place] - deltas[b]) * (slopes[b] - slopes[a])
            if before < after:
                break
            kept.pop()
        kept.append(place)
    return kept
