"""The privacy loss of a mixture, and the hockey-stick mean over samples of it."""

import by_definition
import mpmath as mp
import numpy as np
import pytest

from hockeystick import kernels


@pytest.mark.parametrize("x", [-300.0, -4.0, 0.0, 0.37, 5.0, 2_000.0])
@pytest.mark.parametrize(("group_size", "sigma"), [(1, 1.0), (16, 0.3), (200, 7.0)])
def test_log_likelihood_ratio_meets_mpmath(group_size, sigma, x):
    weights, shifts = by_definition.binomial(group_size, 0.01)
    expected = float(by_definition.log_ratio(mp.mpf(x), sigma, weights, shifts))
    log_weights, shifts = kernels.binomial_law(group_size, 0.01, log=True)
    value = kernels.log_likelihood_ratio(x, log_weights, shifts, sigma, log_weights=True)
    assert value == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_log_likelihood_ratio_beyond_the_range_of_floats_is_infinite():
    x = [1e292, -1e292, 1e-9, 0.0]
    for weights, shifts in ([0.9, 0.1], [0.0, 1.0]), ([0.9, 0.1, 0.0], [0.0, 1.0, 2.0]):
        values = kernels.log_likelihood_ratio(x, weights, shifts, 1e-9)
        assert values[0] == np.inf
        assert values[1:] == pytest.approx(np.log(0.9), abs=1e-15)
    assert np.array_equal(kernels.log_likelihood_ratio(x[:2], [1.0], [1.0], 1e-9), [np.inf, -np.inf])


@pytest.mark.parametrize("x", [1e300, -1e300, np.inf, np.nan])
def test_log_likelihood_ratio_refuses_outputs_that_are_no_number_of_deviations(x):
    with pytest.raises(ValueError, match="x must be finite, and so must x / noise_multiplier be"):
        kernels.log_likelihood_ratio([0.0, x], [0.9, 0.1], [0.0, 1.0], 1e-9)


def test_log_likelihood_ratio_keeps_the_shape_of_x():
    weights, shifts = kernels.binomial_law(2, 0.1)
    x = np.linspace(-1, 1, 24).reshape(2, 3, 4)
    values = kernels.log_likelihood_ratio(x, weights, shifts, 1.0)
    assert values.shape == (2, 3, 4)
    assert values[1, 2, 3] == kernels.log_likelihood_ratio(x[1, 2, 3], weights, shifts, 1.0)
    assert kernels.log_likelihood_ratio([], weights, shifts, 1.0).shape == (0,)


def test_hockey_stick_is_the_mean_by_its_definition():
    losses = np.random.default_rng(1).normal(0.3, 1.5, size=(40, 25))
    for epsilon in (-2.0, 0.0, 1.0, 6.0):
        expected = (
            mp.fsum(max(0, 1 - mp.exp(epsilon - mp.mpf(loss))) for loss in losses.ravel()) / losses.size
        )
        assert kernels.hockey_stick(losses, epsilon) == pytest.approx(float(expected), rel=1e-13)


def test_hockey_stick_keeps_the_digits_of_a_loss_just_above_epsilon():
    gap = 2.0**-40
    assert kernels.hockey_stick([1.0 + gap], 1.0) == pytest.approx(float(-mp.expm1(-gap)), rel=1e-15)


def test_hockey_stick_takes_the_shape_of_epsilon():
    values = kernels.hockey_stick([0.0, 1.0, 2.0], [[0.0, 0.5], [1.0, 1.5]])
    assert values.shape == (2, 2)
    assert np.all(np.diff(values.ravel()) < 0)
    assert isinstance(kernels.hockey_stick([1.0], 0.0), float)
    assert kernels.hockey_stick([1.0], []).shape == (0,)


def test_hockey_stick_of_exact_losses_meets_the_closed_form():
    # Losses of the plain Gaussian mechanism at stratified points of its law.
    from statistics import NormalDist

    points = (np.arange(200_000) + 0.5) / 200_000
    losses = np.array([NormalDist(0.5, 1.0).inv_cdf(p) for p in points])
    expected = float(by_definition.gaussian_delta(1.0, 1.0))
    assert kernels.hockey_stick(losses, 1.0) == pytest.approx(expected, rel=1e-4)
