"""Tensor products of groups, minima, maxima, and of what is subsampled after composition: no pair of laws."""

import numpy as np
import pytest
from nightly import some
from scipy.special import ndtr

from hockeystick import TradeoffCurve

pytestmark = pytest.mark.slow

gaussian, laplace = TradeoffCurve.gaussian, TradeoffCurve.laplace
from_epsilon_delta, from_points = TradeoffCurve.from_epsilon_delta, TradeoffCurve.from_points

CORNERS = ([0.0, 0.1, 0.4, 1.0], [0.9, 0.5, 0.1, 0.0])
EPSILON = np.array([0.0, 0.2, 0.7, 1.5, 3.0])
ALPHA = np.array([1e-6, 0.01, 0.1, 0.4, 0.8])
NEARLY_ONE = 1 - 2**-53


def group_of_two(mu):
    """G_mu up to 1e-15, as the group of two of a curve that is not known to be G_{mu/2}."""
    return gaussian(mu / 2).subsample(NEARLY_ONE).group(2)


def larger_of_two(mu):
    """The same as a maximum."""
    return gaussian(mu).maximum(gaussian(mu).subsample(NEARLY_ONE))


def smaller_of_two(mu):
    return gaussian(mu).subsample(NEARLY_ONE).minimum(gaussian(0.9 * mu))


def assert_encloses(curve, low, high, width, above, **question):
    """`low` to `high` holds the truth; the safe side, `delta` from above, is within `above` of it."""
    lower, upper = curve.bounds(**question)
    assert np.all(lower <= high), (lower - high).max()
    assert np.all(upper >= low), (low - upper).max()
    assert np.all(upper - lower <= width), (upper - lower).max()
    safe = lower if "alpha" in question else upper
    assert np.abs(safe - 0.5 * (low + high)).max() <= above


@pytest.mark.parametrize(
    "make", [group_of_two, larger_of_two, pytest.param(smaller_of_two, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("mu", "times", "width", "above"),
    some([(1.0, 2, 2e-8, 5e-9), (0.3, 10, 4e-8, 5e-9), (0.05, 1000, 2e-5, 2e-7)]),
)
def test_hidden_gaussians_compose_like_gaussians(make, mu, times, width, above):
    curve, truth = make(mu) * times, gaussian(mu * np.sqrt(times))
    for question in ({"epsilon": EPSILON}, {"alpha": ALPHA}):
        low, high = truth.bounds(**question)
        assert_encloses(curve, low - 2e-15 * times, high + 2e-15 * times, width, above, **question)
    exact = truth.epsilon([1e-9, 1e-5, 1e-2])
    found = curve.epsilon([1e-9, 1e-5, 1e-2])
    assert np.all(found >= exact * (1 - 1e-9))
    np.testing.assert_allclose(found[1:], exact[1:], rtol=1e-5)
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-4)


@pytest.mark.parametrize("make", [group_of_two, larger_of_two])
def test_hidden_gaussians_compose_with_others(make):
    mixed = make(1.0).compose(gaussian(2.0))
    truth = gaussian(np.sqrt(5.0))
    low, high = truth.bounds(epsilon=EPSILON)
    assert_encloses(mixed, low - 1e-14, high + 1e-14, 1e-7, 1e-8, epsilon=EPSILON)
    both = make(0.6).compose(make(0.8))
    low, high = gaussian(1.0).bounds(epsilon=EPSILON)
    assert_encloses(both, low - 1e-14, high + 1e-14, 1e-7, 1e-8, epsilon=EPSILON)


def of_outcomes(p, q, epsilon):
    return np.maximum(p - np.exp(np.reshape(epsilon, (-1, 1))) * q, 0.0).sum(axis=1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_groups_of_randomised_response_are_those_of_three_outcomes(epsilon):
    corner = 1 / (1 + np.exp(epsilon))
    tiny = corner * np.exp(-epsilon)
    q, p = np.array([tiny, corner - tiny, 1 - corner]), np.array([1 - corner, corner - tiny, tiny])
    curve = from_epsilon_delta(epsilon, 0.0).group(2)
    asked = epsilon * np.array([0.0, 0.3, 1.1, 2.6, 5.1])
    for times in (1, 2, 6):
        all_p, all_q = np.ones(1), np.ones(1)
        for _ in range(times):
            all_p, all_q = np.outer(all_p, p).ravel(), np.outer(all_q, q).ravel()
        truth = of_outcomes(all_p, all_q, asked)
        assert_encloses(curve * times, truth - 1e-14, truth + 1e-14, 1e-7, 1e-8, epsilon=asked)


def twofold(delta, epsilon, farthest, step):
    """Bound from above on δ of f ⊗ f: E[δ(ε - ℓ)] over chords of δ, second order in the step."""
    losses = np.arange(-farthest, farthest + step / 2, step)
    t, values = np.exp(losses), delta(losses)
    slopes = -np.diff(values) / np.diff(t)
    before = np.append((1 - values[0]) / t[0], slopes)
    mass = t * np.maximum(before - np.append(slopes, 0.0), 0.0)
    told = values[-1]
    return np.array([told + mass @ delta(one - losses) for one in epsilon])


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(np.minimum(epsilon, 600)) * ndtr(-mu / 2 - epsilon / mu)


def laplace_delta(mu, epsilon):
    inside = -np.expm1((np.minimum(epsilon, mu) - mu) / 2)
    return np.where(epsilon < -mu, -np.expm1(np.minimum(epsilon, 0.0)), inside)


def subsampled_delta(delta, p, epsilon):
    size = np.abs(epsilon)
    found = p * delta(np.log1p(np.expm1(size) / p))
    return np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * found, found)


def minimum_delta(epsilon):
    return np.maximum(gaussian_delta(1.0, epsilon), laplace_delta(1.2, epsilon))


DISCRETISED = {
    "minimum": (gaussian(1.0).minimum(laplace(1.2)), minimum_delta),
    "subsampled minimum": (
        gaussian(1.0).minimum(laplace(1.2)).subsample(0.3),
        lambda epsilon: subsampled_delta(minimum_delta, 0.3, epsilon),
    ),
    "subsampled after composition": (
        (gaussian(0.6).subsample(NEARLY_ONE).compose(gaussian(0.8))).subsample(0.2),
        lambda epsilon: subsampled_delta(lambda inner: gaussian_delta(1.0, inner), 0.2, epsilon),
    ),
}


@pytest.mark.parametrize("name", some(DISCRETISED))
def test_two_steps_are_those_of_a_fine_discretisation(name):
    curve, delta = DISCRETISED[name]
    asked = np.array([0.0, 0.3, 0.9, 2.0])
    fine, coarse = (twofold(delta, asked, 12.0, step) for step in (2e-4, 4e-4))
    # Chords are above the curve, by a quarter as much at half the step but for what straight edges do.
    error = 3 * np.abs(fine - coarse) + 1e-8
    assert error.max() < 1e-5
    assert_encloses(curve * 2, fine - error, fine + 1e-12, 1e-4, 1e-5, epsilon=asked)


@pytest.mark.parametrize(
    "curve",
    [
        from_points(*CORNERS).group(2),
        pytest.param(from_points(*CORNERS).minimum(gaussian(0.8)), marks=pytest.mark.long),
        pytest.param(from_points(*CORNERS).maximum(gaussian(0.8)), marks=pytest.mark.long),
    ],
)
@pytest.mark.slow
def test_curves_without_symmetry_compose_in_both_orders(curve):
    product = curve * 3
    assert not product.is_symmetric
    assert product.inverse().inverse() == product
    one, other = product.inverse(), curve.inverse() * 3
    for question in ({"alpha": ALPHA}, {"epsilon": EPSILON}):
        (low, high), (lower, upper) = one.bounds(**question), other.bounds(**question)
        assert np.all(np.maximum(low, lower) <= np.minimum(high, upper) + 1e-14)
    # No more than thrice the total variation; no less than one step.
    assert curve.advantage() - 1e-9 <= product.advantage() <= 3 * curve.advantage()


def test_a_composition_is_that_of_the_points_where_those_are_known():
    # min{f, f^-1}** of these corners is a polygon, whose own composition is a sum over outcomes.
    symmetric = from_points(*CORNERS).symmetrize()
    corners_alpha = np.array([0.0, 0.1, 0.4, 0.5, 0.9, 1.0])
    points = np.array([corners_alpha, np.minimum(*[c(corners_alpha) for c in (symmetric, symmetric)])])
    polygon = from_points(points[0], points[1])
    low, high = (polygon * 3).bounds(epsilon=EPSILON)
    lower, upper = (symmetric * 3).bounds(epsilon=EPSILON)
    assert np.all(lower <= high + 1e-12)
    assert np.all(upper >= low - 1e-12)
    assert (upper - lower).max() < 1e-3


@pytest.mark.slow
def test_composition_of_curves_without_a_pair_keeps_the_order():
    generator = np.random.default_rng(5)
    small, large = np.sort(np.exp(generator.uniform(-2, 0.5, 2)))
    p, times = generator.uniform(0.05, 0.9), int(generator.integers(2, 30))
    for operation in (
        lambda curve: curve.subsample(p).group(2),
        lambda curve: curve.minimum(laplace(0.7)),
        lambda curve: curve.maximum(laplace(0.9)),
    ):
        below, above = operation(gaussian(large)) * times, operation(gaussian(small)) * times
        assert np.all(below.delta([0.0, 0.5, 2.0]) >= above.bounds(epsilon=[0.0, 0.5, 2.0])[0] - 1e-12)
        assert np.all(below.bounds(alpha=[0.05, 0.4])[0] <= above.bounds(alpha=[0.05, 0.4])[1] + 1e-12)


@pytest.mark.parametrize(
    "telling", [from_points([0, 1], [0, 0]).group(2), from_epsilon_delta(1.0, 1.0).group(2)]
)
def test_what_tells_all_does_so_in_compositions(telling):
    assert (telling * 2).delta(1.0) == 1.0
    assert telling.compose(gaussian(1.0))(0.3) == 0.0


def test_no_information_composes_to_none():
    nothing = from_epsilon_delta(0.0, 0.0).group(3).minimum(from_points([0, 1], [1, 0]))
    np.testing.assert_allclose((nothing * 100)(ALPHA), 1 - ALPHA, atol=1e-9)
