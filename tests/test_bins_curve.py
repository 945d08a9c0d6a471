"""Certified curves of correlated noise with random bins, against integrals, samples, independent noise."""

import math
import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import _core

CGD = hs.CorrelatedNoise.lambda_cgd(0.5)
TWO_BANDS = hs.CorrelatedNoise.toeplitz([2.0, 1.0])
BUFFER = hs.CorrelatedNoise.blt([0.3], [0.8])


def interval(epsilon, direction, **run):
    """Both ends of delta, whose width is asserted elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.errors.WideIntervalWarning)
        return hs.get_delta(epsilon=epsilon, adjacency=direction, bounds=True, **run)


def chain_of_identity(epsilon, direction, noise, bins, epochs):
    """The chain with alpha = 0 and any lambda, which `get_delta` does not use for independent noise."""
    at = np.array([epsilon])
    ends = _core.correlated_bins_interval(
        "delta", (bins, epochs), (0.0, 0.4), noise, direction, at, np.ones(1)
    )
    return float(ends[0][0]), float(ends[1][0])


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("noise", "bins", "epochs", "epsilon"),
    [(2.0, 4, 1, 0.5), (2.5, 4, 3, 1.0), (3.0, 5, 4, 0.0), (2.0, 3, 2, 3.0)],
)
def test_independent_noise_is_fixed_bins(noise, bins, epochs, epsilon, direction):
    run = {"sampling": hs.FixedBins(bins), "steps": bins * epochs, "adjacency": direction}
    exact = hs.get_delta(epsilon=epsilon, noise_multiplier=noise, bounds=True, tolerance=1e-9, **run)
    found = chain_of_identity(epsilon, direction, noise, bins, epochs)
    assert found[0] <= exact[1]
    assert exact[0] <= found[1]
    assert found[1] - found[0] < 1e-11 * math.exp(epsilon)


def test_the_identity_takes_the_curve_of_independent_noise():
    run = {"sampling": hs.FixedBins(10), "steps": 30}
    found = hs.get_epsilon(delta=1e-6, mechanism=hs.CorrelatedNoise.toeplitz([2.0], 4.0), **run)
    assert found == pytest.approx(hs.get_epsilon(delta=1e-6, noise_multiplier=2.0, **run), rel=1e-9)


def normal_tail(x):
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def of_two_bins(matrix, steps, noise, epsilon, direction):
    """Delta for two bins: an integral over one of the two log-normal variables, the other in closed form."""
    columns = matrix.matrix(steps)
    sums = np.stack([columns[:, place::2].sum(axis=1) for place in (0, 1)])
    gram = sums @ sums.T / noise**2
    first, slope = math.sqrt(gram[0, 0]), gram[0, 1] / math.sqrt(gram[0, 0])
    spread = math.sqrt(gram[1, 1] - slope**2)

    def excess(mean, level, sign):
        """E[(sign (Y - level))_+] for log Y ~ N(log(mean) - spread^2/2, spread^2)."""
        if level <= 0.0:
            return mean - level if sign > 0.0 else 0.0
        near = (math.log(mean / level) + 0.5 * spread**2) / spread
        return sign * (mean * normal_tail(-sign * near) - level * normal_tail(-sign * (near - spread)))

    step = 0.004
    total = 0.0
    for x in np.arange(-14.0, 14.0 + first, step):
        one = math.exp(first * x - 0.5 * gram[0, 0])
        mean = math.exp(slope * x - 0.5 * slope**2)
        level = math.exp(epsilon if direction == "remove" else -epsilon)
        value = excess(mean, 2.0 * level - one, 1.0 if direction == "remove" else -1.0) / 2.0 / level
        total += math.exp(-0.5 * x * x) * value * (level if direction == "remove" else 1.0)
    return total * step / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("mechanism", "steps", "noise", "epsilon"),
    [
        (CGD, 2, 1.5, 1.0),
        (CGD, 6, 3.0, 0.5),
        (TWO_BANDS, 8, 12.0, 0.4),
        (BUFFER, 4, 3.0, 2.0),
        (CGD, 6, 6.0, 1.8),
    ],
)
def test_two_bins_against_an_integral(mechanism, steps, noise, epsilon, direction):
    exact = of_two_bins(mechanism, steps, noise, epsilon, direction)
    lower, upper = interval(
        epsilon, direction, mechanism=mechanism.with_noise(noise), sampling=hs.FixedBins(2), steps=steps
    )
    assert lower * (1.0 - 1e-9) <= exact <= upper * (1.0 + 1e-9)
    assert upper - lower < 1e-11 * math.exp(epsilon)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("mechanism", "noise", "bins", "steps"),
    [
        (CGD, 3.0, 5, 5),
        (CGD, 4.0, 5, 15),
        (TWO_BANDS, 5.0, 4, 8),
        pytest.param(BUFFER, 3.0, 4, 12, marks=pytest.mark.slow),
    ],
)
def test_monte_carlo_intervals_contain_it(mechanism, noise, bins, steps, direction):
    run = {"mechanism": mechanism.with_noise(noise), "sampling": hs.FixedBins(bins), "steps": steps}
    lower, upper = interval(1.0, direction, **run)
    found = hs.estimate_delta(
        epsilon=1.0, adjacency=direction, samples=200_000, seed=7, confidence=0.9999, **run
    )
    assert found.lower <= lower <= upper <= found.upper


@pytest.mark.slow
def test_epsilon_at_a_small_delta_and_back():
    run = {"mechanism": CGD.with_noise(5.0), "sampling": hs.FixedBins(4), "steps": 12}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.errors.WideIntervalWarning)
        lower, upper = hs.get_epsilon(delta=1e-8, bounds=True, **run)
    assert lower < upper < lower * 1.001
    assert interval(upper, "add_remove", **run)[1] <= 1e-8
    # Delta is certainly above 1e-8 there; another call has other contours, and an interval of its own.
    least, most = interval(lower, "add_remove", **run)
    assert most > 1e-8
    assert least > 1e-8 - (most - least)
    assert most - least < 1e-11
    known = hs.get_epsilon(delta=1e-8, mechanism=run["mechanism"], sampling=hs.FixedOrder(4), steps=12)
    assert upper < known


def test_numbers_broadcast_and_no_steps_reveal_nothing():
    run = {"mechanism": CGD.with_noise(4.0), "sampling": hs.FixedBins(2)}
    found = hs.get_delta(epsilon=[[0.5], [1.0]], steps=[0, 2, 4], tolerance=1e-3, **run)
    assert found.shape == (2, 3)
    assert np.all(found[:, 0] == 0.0)
    assert np.all(np.diff(found, axis=1) > 0.0)
    assert np.all(found[1] <= found[0])


def test_beyond_the_largest_epsilon_the_bin_counts_as_known():
    run = {"mechanism": CGD.with_noise(0.5), "steps": 4, "tolerance": 0.1}
    with pytest.warns(hs.errors.WideIntervalWarning):
        found = hs.get_delta(epsilon=30.0, sampling=hs.FixedBins(2), **run)
    assert found == hs.get_delta(epsilon=30.0, sampling=hs.FixedOrder(2), **run)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mechanism": hs.CorrelatedNoise.prefix_sum_root(4.0)}, "lambda_cgd, blt with one buffer"),
        ({"mechanism": hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25], 4.0)}, "two coefficients"),
        ({"mechanism": hs.CorrelatedNoise.blt([0.3, 0.2], [0.9, 0.5], 4.0)}, "one buffer"),
        ({"mechanism": hs.CorrelatedNoise.lambda_cgd(1.0, 4.0)}, "r below 1"),
        ({"mechanism": hs.CorrelatedNoise.from_matrix(np.eye(8), 4.0)}, "estimate_delta"),
        ({"group_size": 2}, "group_size 2"),
        ({"mechanism": CGD.with_noise(0.001)}, "too much work"),
        ({"adjacency": "replace"}, "replace"),
    ],
)
def test_what_has_no_certified_answer_is_refused_with_advice(changed, words):
    run = {"mechanism": CGD.with_noise(4.0), "sampling": hs.FixedBins(4), "steps": 8} | changed
    with pytest.raises(hs.UnsupportedError, match=words):
        hs.get_delta(epsilon=1.0, **run)
