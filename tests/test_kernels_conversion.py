"""Rényi group bounds and the conversion of Rényi bounds to (epsilon, delta)."""

import by_definition
import mpmath as mp
import numpy as np
import pytest

from hockeystick import kernels


def gaussian_components(orders, group_size, sigma):
    members = np.arange(group_size + 1.0)[:, None]
    return np.asarray(orders) * members**2 / (2 * sigma**2)


@pytest.mark.parametrize(
    ("group_size", "sample_rate", "sigma"), [(1, 0.01, 1.0), (16, 0.03, 26.6), (64, 0.5, 0.4)]
)
def test_renyi_group_bound_meets_its_definition(group_size, sample_rate, sigma):
    orders = np.array([1.01, 2.0, 4.5, 100.0])
    components = gaussian_components(orders, group_size, sigma)
    weights, _ = by_definition.binomial(group_size, sample_rate)
    values = kernels.renyi_group_bound(orders, components, sample_rate)
    for column, order in enumerate(map(mp.mpf, orders.tolist())):
        moments = [mp.exp((order - 1) * mp.mpf(tau)) for tau in components[:, column].tolist()]
        expected = mp.log(mp.fsum(w * m for w, m in zip(weights, moments, strict=True))) / (order - 1)
        assert values[column] == pytest.approx(float(expected), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("components", "sample_rate"),
    [
        # q (e^((alpha-1) tau) - 1) is of the order 1e-12: log(1 + small) must keep its digits.
        ([0.0, 1e-6], 1e-6),
        # A weight of e^-691 against a moment of e^690, and the like above 1: large exponents round most.
        ([0.0, 690.0], 1e-300),
        ([0.0, 700.0], 1e-300),
        ([0.0, 1.5, 650.0], 1e-140),
        (gaussian_components([2.0], 40, 2.0)[:, 0].tolist(), 0.3),
    ],
)
def test_renyi_group_bound_is_rounded_up_and_by_little(components, sample_rate):
    weights, _ = by_definition.binomial(len(components) - 1, sample_rate)
    excess = mp.fsum(w * mp.expm1(mp.mpf(tau)) for w, tau in zip(weights, components, strict=True))
    expected = mp.log1p(excess)
    value = mp.mpf(float(kernels.renyi_group_bound(2.0, components, sample_rate)))
    assert expected <= value <= expected * (1 + mp.mpf("2e-12"))


def test_renyi_group_bound_takes_any_components_and_ends_at_rate_zero_and_one():
    components = np.array([[0.0, 0.0], [0.3, 0.5], [0.9, 2.5]])
    np.testing.assert_allclose(kernels.renyi_group_bound([2.0, 3.0], components, 1.0), [0.9, 2.5], rtol=1e-12)
    np.testing.assert_allclose(kernels.renyi_group_bound([2.0, 3.0], components, 0.0), [0.0, 0.0], atol=0)


def test_renyi_group_bound_is_infinite_where_a_component_that_occurs_is():
    assert kernels.renyi_group_bound(2.0, [0.0, np.inf], 0.1) == np.inf


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.3])
@pytest.mark.parametrize("order", [1.001, 1.5, 4.0, 64.0, 9_999.0])
def test_conversions_meet_the_lemma_and_invert_each_other(order, delta):
    rdp = 0.37
    expected = by_definition.epsilon_of_rdp(order, mp.mpf(rdp), mp.mpf(delta))
    epsilon = kernels.rdp_to_epsilon(order, rdp, delta)
    if expected <= 0:
        assert epsilon == 0.0
        return
    assert epsilon == pytest.approx(float(expected), rel=1e-12)
    assert epsilon >= expected  # a bound is rounded up
    log_delta = (
        (order - 1) * (rdp - mp.mpf(epsilon)) + (order - 1) * mp.log1p(-1 / mp.mpf(order)) - mp.log(order)
    )
    assert kernels.rdp_to_delta(order, rdp, epsilon) == pytest.approx(float(mp.exp(log_delta)), rel=1e-9)


def test_the_published_conversion_is_met():
    assert kernels.rdp_to_epsilon(4.0, 1.0, 1e-5) == pytest.approx(4.087861628831665, rel=1e-14)


def test_the_best_order_is_chosen_and_returned():
    orders = np.array([1.5, 3.0, 10.0, 40.0, 200.0])
    rdp = 0.02 * orders
    each = [kernels.rdp_to_epsilon(order, tau, 1e-6) for order, tau in zip(orders, rdp, strict=True)]
    epsilon, order = kernels.rdp_to_epsilon(orders, rdp, 1e-6, return_order=True)
    assert (epsilon, order) == (min(each), orders[np.argmin(each)])
    delta, order = kernels.rdp_to_delta(orders, rdp, 1.0, return_order=True)
    each = [kernels.rdp_to_delta(o, tau, 1.0) for o, tau in zip(orders, rdp, strict=True)]
    assert (delta, order) == (min(each), orders[np.argmin(each)])


def test_leading_axes_of_rdp_broadcast_against_delta():
    orders = np.array([2.0, 8.0, 32.0])
    rdp = np.random.default_rng(0).uniform(0, 1, (4, 1, 3))
    delta = np.array([1e-7, 1e-5])
    epsilon, order = kernels.rdp_to_epsilon(orders, rdp, delta, return_order=True)
    assert epsilon.shape == order.shape == (4, 2)
    assert epsilon[3, 1] == kernels.rdp_to_epsilon(orders, rdp[3, 0], 1e-5)
    deltas = kernels.rdp_to_delta(orders, rdp, [0.5, 1.0, 2.0])
    assert deltas.shape == (4, 3)
    assert deltas[2, 1] == kernels.rdp_to_delta(orders, rdp[2, 0], 1.0)


def test_scalars_give_floats_and_empty_batches_empty_arrays():
    assert isinstance(kernels.rdp_to_epsilon([2.0, 3.0], [0.1, 0.2], 1e-5), float)
    assert kernels.rdp_to_epsilon([2.0, 3.0], np.empty((0, 2)), 1e-5).shape == (0,)
    assert kernels.rdp_to_delta([2.0, 3.0], [0.1, 0.2], np.empty((2, 0))).shape == (2, 0)


def test_infinite_rdp_is_passed_over_or_gives_no_guarantee():
    assert kernels.rdp_to_epsilon([2.0, 3.0], [0.1, np.inf], 1e-5) == kernels.rdp_to_epsilon(2.0, 0.1, 1e-5)
    assert kernels.rdp_to_epsilon(2.0, np.inf, 1e-5) == np.inf
    assert kernels.rdp_to_delta(2.0, np.inf, 1.0) == 1.0
