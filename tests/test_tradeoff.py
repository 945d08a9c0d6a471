"""Trade-off functions against formulas, lists of outcomes and their definitions on fine grids."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from tradeoff_formulas import (
    ALPHA,
    CORNERS,
    EPSILON,
    LEAVES,
    Outcomes,
    assert_enclosed,
    convexified,
    corners_beta,
    from_epsilon_delta,
    from_points,
    gaussian,
    gaussian_delta,
    laplace,
    laplace_delta,
)

import hockeystick as hs
from hockeystick import TradeoffCurve

# Leaves.


@pytest.mark.parametrize("name", LEAVES)
def test_leaves_are_their_formulas(name):
    curve, beta = LEAVES[name]
    truth = beta(ALPHA)
    assert_enclosed(curve, truth, 1e-14, alpha=ALPHA)
    assert np.all(curve.beta(ALPHA) <= truth + 1e-15)
    np.testing.assert_array_equal(curve(ALPHA), curve.beta(ALPHA))


@pytest.mark.parametrize("name", LEAVES)
def test_delta_is_the_supremum_over_false_positive_rates(name):
    curve, beta = LEAVES[name]
    kinks = [(1 - d) / (1 + np.exp(e)) for e, d in [(0.7, 0.0), (1.0, 1e-3), (5.0, 0.9)]] + CORNERS[0]
    grid = np.concatenate([kinks, np.geomspace(1e-9, 0.5, 20_001), np.linspace(0.5, 1.0, 20_001)])
    misses = beta(grid)
    for epsilon in EPSILON:
        t = np.exp(epsilon)
        # Both orders: the points of the inverse are those of the curve with coordinates exchanged.
        found = max((1 - misses - t * grid).max(), (1 - grid - t * misses).max())
        delta = curve.delta(epsilon)
        assert found - 1e-14 <= delta <= found + 1e-6


@pytest.mark.parametrize("mu", [1e-3, 0.5, 1.0, 4.0])
def test_delta_of_gaussian_and_laplace_noise_is_the_closed_form(mu):
    assert_enclosed(gaussian(mu), gaussian_delta(mu, EPSILON), 1e-13, epsilon=EPSILON)
    assert_enclosed(laplace(mu), laplace_delta(mu, EPSILON), 1e-14, epsilon=EPSILON)


@pytest.mark.parametrize("mu", [1e-3, 0.5, 2.0])
def test_epsilon_of_laplace_noise_is_the_closed_form(mu):
    delta = np.array([1e-12, 1e-5, 0.01, 0.3])
    expected = np.maximum(0.0, mu + 2 * np.log1p(-delta))
    np.testing.assert_allclose(laplace(mu).epsilon(delta), expected, rtol=1e-12, atol=1e-15)
    assert np.all(laplace(mu).epsilon(delta) >= expected * (1 - 1e-15))


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9, 1e-12])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 10.0])
def test_epsilon_of_gaussian_noise_is_the_root_of_its_delta(mu, delta):
    found = gaussian(mu).epsilon(delta)
    with mpmath.workdps(50):

        def excess(epsilon):
            first = mpmath.ncdf(mpmath.mpf(mu) / 2 - epsilon / mu)
            second = mpmath.exp(epsilon) * mpmath.ncdf(-mpmath.mpf(mu) / 2 - epsilon / mu)
            return mpmath.log(first - second) - mpmath.log(mpmath.mpf(delta))

        exact = mpmath.findroot(excess, (found * 0.999, found * 1.001))
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-12"))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 1e-3), (3.0, 1e-9)])
def test_epsilon_of_a_pair_of_epsilon_and_delta_is_theirs(epsilon, delta):
    curve = from_epsilon_delta(epsilon, delta)
    assert curve.delta(epsilon) == pytest.approx(delta, rel=1e-13)
    assert curve.epsilon(delta * (1 + 1e-9)) == pytest.approx(epsilon, abs=1e-9 + 1e-8 * delta)
    assert curve.epsilon(0.5 * delta) == np.inf


def test_a_hundred_gaussians_are_one_that_is_ten_times_as_wide():
    many, one = gaussian(1) * 100, gaussian(10)
    np.testing.assert_allclose(many(ALPHA), one(ALPHA), atol=1e-9)
    np.testing.assert_allclose(many.epsilon([1e-9, 0.1]), one.epsilon([1e-9, 0.1]), rtol=1e-9)
    np.testing.assert_allclose(many.delta([0.5, 40.0]), one.delta([0.5, 40.0]), rtol=1e-9)


def test_points_above_their_lower_hull_do_not_count():
    bumpy = from_points([0, 0.05, 0.1, 0.4, 1], [0.9, 0.8, 0.5, 0.1, 0])
    # Curves with straight edges are read off to some 3e-14, on the safe side.
    np.testing.assert_allclose(bumpy(ALPHA), corners_beta(ALPHA), atol=1e-13)
    jump = from_points([0, 0, 1], [1, 0.5, 0])
    np.testing.assert_allclose(jump(ALPHA), 0.5 * (1 - ALPHA), atol=1e-13)
    nothing_left = from_points([0, 1], [0, 0])
    np.testing.assert_array_equal(nothing_left(ALPHA), 0 * ALPHA)


# Subsampling.


@pytest.mark.parametrize("p", [0.01, 0.3, 0.8])
@pytest.mark.parametrize("name", ["gaussian(1.0)", "gaussian(4.0)", "laplace(1.0)", "bounded(1.0, 0.001)"])
def test_subsampling_is_the_convexified_smaller_of_the_mixture_and_its_inverse(name, p):
    curve, beta = LEAVES[name]
    kinks = [0.0, (1 - 1e-3) / (1 + np.e)]
    grid = np.concatenate([kinks, np.geomspace(1e-10, 0.01, 8001), np.linspace(0.01, 1.0, 8001)])
    mixed = p * beta(grid) + (1 - p) * (1 - grid)
    asked = np.linspace(0.0, 1.0, 41)
    expected = convexified(asked, (grid, mixed), (mixed, grid))
    found = curve.subsample(p)(asked)
    # Points on the curve have a hull above it.
    assert np.all(found <= expected + 1e-14)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("p", [0.3, 0.7])
@pytest.mark.parametrize("inverted", [False, True])
def test_subsampling_a_curve_without_symmetry_is_that_of_the_symmetrised_one(p, inverted):
    curve = from_points(*CORNERS)
    alpha = np.linspace(0.0, 1.0, 20_001)
    beta = corners_beta(alpha)
    if inverted:
        curve = curve.inverse()
        beta = curve(alpha)
    mixed = p * beta + (1 - p) * (1 - alpha)
    found = curve.subsample(p).delta(EPSILON)
    np.testing.assert_allclose(found, curve.symmetrize().subsample(p).delta(EPSILON), atol=1e-14)
    for epsilon, delta in zip(EPSILON, found, strict=True):
        t = np.exp(epsilon)
        # C_p of f itself, by its definition, is no smaller: it tells no more.
        assert max((1 - mixed - t * alpha).max(), (1 - alpha - t * mixed).max()) <= delta + 1e-14


@pytest.mark.parametrize("name", LEAVES)
def test_subsampling_twice_is_subsampling_with_the_product(name):
    curve, _ = LEAVES[name]
    twice, once = curve.subsample(0.4).subsample(0.3), curve.subsample(0.4 * 0.3)
    np.testing.assert_allclose(twice(ALPHA), once(ALPHA), atol=2e-10)
    np.testing.assert_allclose(twice.delta(EPSILON), once.delta(EPSILON), atol=1e-14)


@pytest.mark.parametrize("name", LEAVES)
def test_everyone_sampled_changes_nothing_and_nobody_sampled_tells_nothing(name):
    curve, _ = LEAVES[name]
    np.testing.assert_array_equal(curve.subsample(1.0)(ALPHA), curve.symmetrize()(ALPHA))
    np.testing.assert_allclose(curve.subsample(0.0)(ALPHA), 1 - ALPHA, atol=1e-15)


@pytest.mark.parametrize(("noise", "batch", "steps"), [(1.0, 5, 1), (0.8, 10, 1000), (1.5, 50, 1000)])
def test_composed_subsampling_is_a_run_that_draws_batches_without_replacement(noise, batch, steps):
    curve = gaussian(2 / noise).subsample(batch / 1000) * steps
    sampling = hs.WithoutReplacement(batch, 1000)
    run = hs.privacy_curve(noise_multiplier=noise, sampling=sampling, steps=steps, adjacency="replace")
    delta, epsilon = np.array([1e-9, 1e-5, 1e-2]), np.array([0.0, 0.1, 0.5, 1.0, 3.0])
    np.testing.assert_allclose(curve.epsilon(delta), run.epsilon(delta), rtol=2e-6)
    np.testing.assert_allclose(curve.delta(epsilon), run.delta(epsilon), rtol=2e-6, atol=1e-14)


@pytest.mark.parametrize(("scale", "batch", "steps"), [(1.0, 5, 1), (3.0, 2, 1000)])
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_composed_subsampled_laplace_is_a_run_that_draws_batches_without_replacement(scale, batch, steps):
    curve = laplace(2 / scale).subsample(batch / 100) * steps
    sampling = hs.WithoutReplacement(batch, 100)
    mechanism = hs.Laplace(scale)
    run = hs.privacy_curve(mechanism=mechanism, sampling=sampling, steps=steps, adjacency="replace")
    epsilon = np.array([0.0, 0.1, 0.5])
    lower, upper = run.bounds(epsilon=epsilon)
    low, high = curve.bounds(epsilon=epsilon)
    assert np.all(np.maximum(low, lower) <= np.minimum(high, upper) * (1 + 1e-12))
    np.testing.assert_allclose(high, upper, rtol=2e-6)


@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_one_subsampled_step_is_one_step_of_poisson_sampling(noise):
    curve = gaussian(1 / noise).subsample(0.1)
    run = hs.privacy_curve(noise_multiplier=noise, sampling=hs.Poisson(0.1), steps=1)
    np.testing.assert_allclose(curve.epsilon([1e-9, 1e-3]), run.epsilon([1e-9, 1e-3]), rtol=2e-6)
    np.testing.assert_allclose(curve.delta([0.0, 0.2, 2.0]), run.delta([0.0, 0.2, 2.0]), rtol=2e-6)


# Composition.


def test_products_of_points_are_those_of_all_pairs_of_outcomes():
    first, other = Outcomes.of_corners(*CORNERS), ([0.0, 0.2, 0.5, 1.0], [1.0, 0.5, 0.2, 0.0])
    second, third = Outcomes.of_corners(*other), Outcomes.of_epsilon_delta(0.8, 0.02)
    curves = from_points(*CORNERS), from_points(*other), from_epsilon_delta(0.8, 0.02)
    alpha = np.linspace(0, 1, 201)
    for outcomes, curve in [
        (first * first, curves[0] * 2),
        (first * second, curves[0].compose(curves[1])),
        (second * third * third, curves[1].compose(curves[2] * 2)),
        (first * first * second * third, (curves[0] * 2).compose(curves[1]).compose(curves[2])),
    ]:
        assert_enclosed(curve, outcomes.beta(alpha), 1e-12, alpha=alpha)
        assert_enclosed(curve, outcomes.delta(EPSILON), 1e-12, epsilon=EPSILON)
        assert_enclosed(curve.inverse(), outcomes.swapped().beta(alpha), 1e-12, alpha=alpha)


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(1.0, 0.0, 40), (0.1, 1e-6, 300), (3.0, 0.01, 30)])
def test_pairs_of_epsilon_and_delta_compose_like_randomised_response(epsilon, delta, steps):
    curve = from_epsilon_delta(epsilon, delta) * steps
    asked = epsilon * np.array([0.0, 0.5, 0.1 * steps, 0.4 * steps])
    lower, upper = curve.bounds(epsilon=asked)
    with mpmath.workdps(80):
        likely = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        for target, low, high in zip(asked, lower, upper, strict=True):
            told = mpmath.mpf(0)
            for ones in range(steps + 1):
                p = likely**ones * (1 - likely) ** (steps - ones)
                q = (1 - likely) ** ones * likely ** (steps - ones)
                told += mpmath.binomial(steps, ones) * max(0, p - mpmath.exp(mpmath.mpf(target)) * q)
            kept = (1 - mpmath.mpf(delta)) ** steps
            exact = 1 - kept + kept * told
            assert low <= exact <= high
            assert high - low <= 1e-9


@pytest.mark.parametrize("epsilon", [1e-8, 1e-6, 1e-3])
def test_answers_that_tell_next_to_nothing_compose_within_their_bounds(epsilon):
    lower, upper = (from_epsilon_delta(epsilon, 0.0) * 2).bounds(epsilon=0.0)
    # p^2 - q^2 = p - q
    exact = mpmath.tanh(mpmath.mpf(epsilon) / 2)
    assert lower <= exact <= upper


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
def test_laplace_and_gaussian_noise_compose_by_a_convolution(epsilon):
    mu, width = 1.0, 0.8

    def inside(x):
        # δ of the Gaussian once the loss of the Laplace noise is known: |x - 1| - |x| under its law.
        loss = abs(x) - abs(x - mu)
        left = epsilon - loss
        gain = norm.cdf(width / 2 - left / width) - np.exp(left) * norm.cdf(-width / 2 - left / width)
        return 0.5 * np.exp(-abs(x - mu)) * gain

    exact = sum(quad(inside, *ends, epsabs=1e-13, epsrel=1e-12)[0] for ends in [(-40, 0), (0, mu), (mu, 40)])
    curve = laplace(mu).compose(gaussian(width))
    lower, upper = curve.bounds(epsilon=epsilon)
    assert lower - 1e-11 <= exact <= upper + 1e-11
    assert upper - lower < 1e-8


PAIRS = {
    "polygons": (from_points(*CORNERS), from_epsilon_delta(1.0, 0.01)),
    "a polygon and noise": (from_points(*CORNERS), gaussian(0.7)),
    "noise": (laplace(0.5), gaussian(0.7)),
    "subsampled": (gaussian(0.7).subsample(0.1) * 1000, from_epsilon_delta(0.5, 1e-4)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_composition_does_not_depend_on_the_order(name):
    first, second = PAIRS[name]
    one, other = first.compose(second), second.compose(first)
    alpha = [0.001, 0.05, 0.3, 0.8]
    np.testing.assert_allclose(one(alpha), other(alpha), atol=1e-9)
    np.testing.assert_allclose(one.delta(EPSILON), other.delta(EPSILON), atol=1e-9)
    third = gaussian(0.4)
    left, right = first.compose(second).compose(third), first.compose(second.compose(third))
    np.testing.assert_allclose(left.delta(EPSILON), right.delta(EPSILON), atol=1e-9)


@pytest.mark.parametrize("name", LEAVES)
def test_no_information_is_the_neutral_element(name):
    curve, _ = LEAVES[name]
    for composed in (curve.compose(gaussian(0)), gaussian(0).compose(curve), curve * 1):
        np.testing.assert_array_equal(composed(ALPHA), curve(ALPHA))
    np.testing.assert_allclose((curve * 0)(ALPHA), 1 - ALPHA, atol=1e-15)


def test_curves_of_runs_compose_to_the_curve_of_both_runs():
    first = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    second = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.02, steps=500)
    composed = TradeoffCurve.from_curve(first).compose(TradeoffCurve.from_curve(second))
    whole = TradeoffCurve.from_curve(first + second)
    np.testing.assert_allclose(composed.delta(EPSILON), whole.delta(EPSILON), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(composed.epsilon([1e-9, 1e-3]), whole.epsilon([1e-9, 1e-3]), rtol=1e-6)
    alpha = [0.01, 0.2, 0.7]
    np.testing.assert_allclose(composed(alpha), whole(alpha), atol=1e-9)
    np.testing.assert_allclose(whole.delta(EPSILON), (first + second).delta(EPSILON), rtol=2e-6, atol=1e-14)
