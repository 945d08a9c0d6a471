"""Groups, inverses, symmetry, minimum and maximum of trade-off functions, against their definitions."""

import numpy as np
import pytest
from tradeoff_formulas import (
    ALPHA,
    CORNERS,
    EPSILON,
    LEAVES,
    assert_enclosed,
    convexified,
    from_epsilon_delta,
    from_points,
    gaussian,
    laplace,
)

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
