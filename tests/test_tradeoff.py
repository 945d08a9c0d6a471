"""Trade-off functions against formulas, lists of outcomes and their definitions on fine grids."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import hockeystick as hs
from hockeystick import TradeoffCurve

gaussian, laplace = TradeoffCurve.gaussian, TradeoffCurve.laplace
from_epsilon_delta, from_points = TradeoffCurve.from_epsilon_delta, TradeoffCurve.from_points

ALPHA = np.concatenate([[0.0, 1e-300, 1e-12, 1e-6], np.linspace(0.001, 0.999, 23), [1 - 1e-9, 1.0]])
EPSILON = np.array([0.0, 1e-6, 0.05, 0.3, 1.0, 1.9, 4.0])
CORNERS = ([0.0, 0.1, 0.4, 1.0], [0.9, 0.5, 0.1, 0.0])
"""Neither symmetric nor without an event that tells all."""


def gaussian_beta(mu, alpha):
    return ndtr(-ndtri(alpha) - mu)


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def laplace_beta(mu, alpha):
    """Laplace's F(F^-1(1 - α) - μ)."""
    with np.errstate(divide="ignore"):
        x = np.where(alpha <= 0.5, -np.log(2 * alpha), np.log(2 - 2 * alpha)) - mu
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.abs(x)))


def laplace_delta(mu, epsilon):
    return np.maximum(0.0, -np.expm1((epsilon - mu) / 2))


def bounded_beta(epsilon, delta, alpha):
    lines = [0 * alpha, 1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)]
    return np.maximum.reduce(lines)


def corners_beta(alpha):
    return np.interp(alpha, *CORNERS)


def lower_hull(x, y):
    """Corners of the largest convex function below points."""
    hull = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (d - b) * (point[0] - a) < (point[1] - b) * (c - a):
                break
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            continue
        hull.append(point)
    return np.array(hull).T


def convexified(alpha, *points):
    x, y = (np.concatenate(parts) for parts in zip(*points, strict=True))
    return np.interp(alpha, *lower_hull(x, y))


class Outcomes:
    """A pair of laws as the probabilities of finitely many outcomes."""

    def __init__(self, p, q):
        self.p, self.q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)

    @classmethod
    def of_corners(cls, alpha, beta):
        return cls(np.append(-np.diff(beta), 1 - beta[0]), np.append(np.diff(alpha), 0.0))

    @classmethod
    def of_epsilon_delta(cls, epsilon, delta):
        likely = 1 / (1 + np.exp(-epsilon))
        answers = (1 - delta) * np.array([likely, 1 - likely])
        return cls([*answers, delta, 0.0], [*answers[::-1], 0.0, delta])

    def __mul__(self, other):
        return Outcomes(np.outer(self.p, other.p).ravel(), np.outer(self.q, other.q).ravel())

    def swapped(self):
        return Outcomes(self.q, self.p)

    def one_sided_delta(self, epsilon):
        gains = self.p - np.exp(np.reshape(epsilon, (-1, 1))) * self.q
        return np.maximum(gains, 0.0).sum(axis=1).reshape(np.shape(epsilon))

    def delta(self, epsilon):
        return np.maximum(self.one_sided_delta(epsilon), self.swapped().one_sided_delta(epsilon))

    def beta(self, alpha):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(self.p / self.q, nan=0.0), kind="stable")
        telling = self.p[self.q == 0].sum()
        order = order[self.q[order] > 0]
        alarms = np.append(0.0, np.cumsum(self.q[order]))
        hits = np.append(telling, telling + np.cumsum(self.p[order]))
        return np.interp(alpha, alarms, 1 - hits)


def assert_enclosed(curve, truth, error, **question):
    lower, upper = curve.bounds(**question)
    assert np.all(lower <= upper)
    assert np.all(lower <= truth + error), (lower - truth).max()
    assert np.all(upper >= truth - error), (truth - upper).max()
    assert np.all(upper - lower <= 2 * error + 1e-9), (upper - lower).max()


# Leaves.

LEAVES = {
    **{f"gaussian({m})": (gaussian(m), lambda a, m=m: gaussian_beta(m, a)) for m in (1e-3, 0.5, 1.0, 4.0)},
    **{f"laplace({m})": (laplace(m), lambda a, m=m: laplace_beta(m, a)) for m in (1e-3, 0.5, 1.0, 6.0)},
    **{
        f"bounded({e}, {d})": (from_epsilon_delta(e, d), lambda a, e=e, d=d: bounded_beta(e, d, a))
        for e, d in [(0.0, 0.0), (0.7, 0.0), (1.0, 1e-3), (0.0, 0.3), (5.0, 0.9), (2.0, 1.0)]
    },
    "corners": (from_points(*CORNERS), corners_beta),
}


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


# Groups.


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("name", LEAVES)
def test_groups_are_iterates_of_the_power(name, size):
    curve, beta = LEAVES[name]
    alpha = np.linspace(0.0, 1.0, 30)
    power = alpha
    for _ in range(size):
        power = np.clip(1 - beta(power), 0.0, 1.0)
    assert_enclosed(curve.group(size), 1 - power, 1e-11, alpha=alpha)


@pytest.mark.parametrize("noise", [gaussian, laplace])
def test_a_group_of_noise_is_noise_that_is_shifted_as_often(noise):
    group, wide = noise(0.3).group(7), noise(2.1)
    np.testing.assert_allclose(group(ALPHA), wide(ALPHA), atol=1e-14)
    np.testing.assert_allclose(group.delta(EPSILON), wide.delta(EPSILON), rtol=1e-11)


@pytest.mark.parametrize("curve", [*(curve for curve, _ in LEAVES.values()), gaussian(1).subsample(0.2)])
def test_groups_of_groups_are_groups(curve):
    nested, whole = curve.group(2).group(3), curve.group(6)
    np.testing.assert_allclose(nested(ALPHA), whole(ALPHA), atol=1e-12)


def test_groups_of_epsilon_are_groups_of_its_multiple():
    np.testing.assert_allclose(from_epsilon_delta(0.5, 0.0).group(4).epsilon([1e-12, 1e-6]), 2.0, rtol=1e-5)


# Inverse, symmetry, minimum, maximum.


def test_the_inverse_exchanges_the_coordinates():
    curve = from_points(*CORNERS)
    inverse = curve.inverse()
    corners = np.array([0.0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0])
    expected = np.interp(corners, [0.0, 0.1, 0.5, 0.9, 1.0], [1.0, 0.4, 0.1, 0.0, 0.0])
    np.testing.assert_allclose(inverse(corners), expected, atol=1e-14)
    for name in ("group", "compose"):
        argument = 2 if name == "group" else gaussian(0.5)
        one = getattr(curve, name)(argument)
        grid = np.linspace(0, 1, 1001)
        beta = one(grid)
        expected = np.interp(corners, beta[::-1], grid[::-1])
        np.testing.assert_allclose(one.inverse()(corners), expected, atol=2e-3)


NOT_SYMMETRIC = {
    "points": from_points(*CORNERS),
    "group": from_points(*CORNERS).group(2),
    "composed": from_points(*CORNERS).compose(gaussian(0.5)),
    "repeated": from_points(*CORNERS) * 3,
    "minimum": from_points(*CORNERS).minimum(gaussian(0.5)),
    "maximum": from_points(*CORNERS).maximum(gaussian(0.9)),
}


@pytest.mark.parametrize("name", NOT_SYMMETRIC)
def test_the_inverse_of_the_inverse_is_the_curve_to_the_last_bit(name):
    curve = NOT_SYMMETRIC[name]
    assert not curve.is_symmetric
    inverse = curve.inverse()
    assert inverse != curve
    again = inverse.inverse()
    assert again == curve
    assert hash(again) == hash(curve)
    assert again(ALPHA).tobytes() == curve(ALPHA).tobytes()
    # The privacy curve is about both orders.
    np.testing.assert_allclose(inverse.delta(EPSILON), curve.delta(EPSILON), atol=1e-9)


@pytest.mark.parametrize("name", NOT_SYMMETRIC)
def test_symmetrizing_is_the_convexified_smaller_of_both(name):
    curve = NOT_SYMMETRIC[name]
    grid = np.linspace(0, 1, 1001)
    beta = curve(grid)
    asked = np.linspace(0, 1, 21)
    found = curve.symmetrize()(asked)
    expected = convexified(asked, (grid, beta), (beta, grid))
    assert np.all(found <= expected + 1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    NOT_SYMMETRIC,
)
def test_what_was_symmetrized_is_its_own_inverse(name):
    curve = NOT_SYMMETRIC[name].symmetrize()
    assert curve.is_symmetric
    assert curve.inverse() == curve == curve.symmetrize()


def test_symmetric_curves_are_their_own_inverses():
    for curve in (gaussian(1), laplace(1), from_epsilon_delta(1, 0.1), from_points(*CORNERS).subsample(0.2)):
        assert curve.is_symmetric
        assert curve.inverse() == curve == curve.symmetrize()


@pytest.mark.parametrize("first", ["gaussian(1.0)", "corners", "bounded(1.0, 0.001)"])
@pytest.mark.parametrize("second", ["laplace(1.0)", "bounded(0.0, 0.3)", "gaussian(4.0)"])
def test_minimum_and_maximum_are_those_of_the_values(first, second):
    (f, f_beta), (g, g_beta) = LEAVES[first], LEAVES[second]
    kinks = [0.0, 0.1, 0.4, 0.7, (1 - 1e-3) / (1 + np.e), (1 - 1e-3) * np.e / (1 + np.e)]
    grid = np.concatenate([kinks, np.geomspace(1e-9, 0.01, 3001), np.linspace(0.01, 1, 6001)])
    asked = np.linspace(0, 1, 41)
    larger = np.maximum(f_beta(asked), g_beta(asked))
    np.testing.assert_allclose(f.maximum(g)(asked), larger, atol=1e-14)
    np.testing.assert_allclose(g.maximum(f)(asked), larger, atol=1e-14)
    expected = convexified(asked, (grid, f_beta(grid)), (grid, g_beta(grid)))
    for found in (f.minimum(g)(asked), g.minimum(f)(asked)):
        assert np.all(found <= expected + 1e-13)
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("second", ["laplace(1.0)", "bounded(0.0, 0.3)", "gaussian(4.0)"])
@pytest.mark.parametrize("first", ["gaussian(1.0)", "corners", "bounded(1.0, 0.001)"])
def test_a_maximum_keeps_both_promises_and_a_minimum_only_the_weaker(first, second):
    f, g = LEAVES[first][0], LEAVES[second][0]
    one, other = f.delta(EPSILON), g.delta(EPSILON)
    np.testing.assert_allclose(f.minimum(g).delta(EPSILON), np.maximum(one, other), atol=1e-12)
    assert np.all(f.maximum(g).delta(EPSILON) <= np.minimum(one, other) + 1e-9)


def test_every_curve_is_convex_already():
    for curve, _ in LEAVES.values():
        assert curve.convexify() is curve
