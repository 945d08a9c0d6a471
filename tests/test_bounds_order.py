"""How the bounds must be ordered, whatever the run: property tests."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import RenyiGroupAccountant

ROUNDING = 1 + 1e-9
"""Slack for the accuracy to which each bound is computed and rounded up."""

sigmas = st.floats(0.3, 30.0)
rates = st.floats(1e-5, 0.9)
group_sizes = st.integers(1, 40)
orders = st.floats(1.01, 200.0)
steps = st.integers(1, 5000)
some = settings(max_examples=60, deadline=None, derandomize=True)
few = settings(max_examples=12, deadline=None, derandomize=True)
"""Where an example is several questions to the exact engine, at corners that take a second each."""


def renyi(bound, order, sigma, rate, group_size, adjacency="add_remove"):
    accountant = RenyiGroupAccountant(group_size, bound, adjacency=adjacency)
    accountant.step(noise_multiplier=sigma, sample_rate=rate)
    return accountant.get_renyi(order)


@some
@given(orders, sigmas, rates, group_sizes)
def test_the_exact_divergence_is_the_smallest_bound(order, sigma, rate, group_size):
    exact = renyi("exact", order, sigma, rate, group_size)
    assert exact <= renyi("jensen", order, sigma, rate, group_size) * ROUNDING
    assert exact <= renyi("black_box", order, sigma, rate, group_size) * ROUNDING


@some
@given(orders, sigmas, rates)
def test_for_one_record_the_black_box_changes_nothing(order, sigma, rate):
    exact = renyi("exact", order, sigma, rate, 1)
    assert renyi("black_box", order, sigma, rate, 1) == pytest.approx(exact, rel=1e-9)


@some
@given(orders, sigmas, rates, group_sizes)
def test_without_sampling_every_direction_is_the_gaussian_closed_form(order, sigma, rate, group_size):
    expected = order * group_size**2 / (2 * sigma**2)
    for direction in ("add", "remove"):
        assert renyi("exact", order, sigma, 1.0, group_size, direction) == pytest.approx(expected, rel=1e-9)
        # Sampling only helps.
        assert renyi("exact", order, sigma, rate, group_size, direction) <= expected * ROUNDING


@some
@given(orders, sigmas, rates, group_sizes, st.floats(1.001, 3.0))
def test_the_divergence_falls_with_noise_and_rises_with_order_rate_and_group(
    order, sigma, rate, group_size, factor
):
    value = renyi("exact", order, sigma, rate, group_size)
    assert renyi("exact", order, sigma * factor, rate, group_size) <= value * ROUNDING
    assert renyi("exact", order * factor, sigma, rate, group_size) * ROUNDING >= value
    assert renyi("exact", order, sigma, min(1.0, rate * factor), group_size) * ROUNDING >= value
    assert renyi("exact", order, sigma, rate, group_size + 1) * ROUNDING >= value


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@few
@given(st.floats(1e-12, 0.5), sigmas, rates, steps, group_sizes)
def test_epsilon_rises_with_steps_and_group_and_falls_with_delta(delta, sigma, rate, count, group_size):
    run = {"noise_multiplier": sigma, "sample_rate": rate}
    # The true values are ordered, so no lower bound of the smaller exceeds an upper bound of the larger.
    lower, _ = hs.get_epsilon(delta=delta, steps=count, group_size=group_size, bounds=True, **run)
    more = hs.get_epsilon(
        delta=[delta, delta, delta / 2],
        steps=[count + 1, count, count],
        group_size=[group_size, group_size + 1, group_size],
        **run,
    )
    assert np.all(more >= lower)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@few
@given(st.floats(0.0, 30.0), sigmas, rates, steps, group_sizes)
def test_delta_falls_with_epsilon_and_noise_and_rises_with_steps_and_group(
    epsilon, sigma, rate, count, group_size
):
    run = {"sample_rate": rate}
    lower, upper = hs.get_delta(
        epsilon=epsilon, noise_multiplier=sigma, steps=count, group_size=group_size, bounds=True, **run
    )
    assert 0.0 <= lower <= upper <= 1.0
    more = hs.get_delta(
        epsilon=[epsilon / 2, epsilon, epsilon, epsilon],
        noise_multiplier=[sigma, sigma * 0.9, sigma, sigma],
        steps=[count, count, count + 1, count],
        group_size=[group_size, group_size, group_size, group_size + 1],
        **run,
    )
    assert np.all(more >= lower)


@some
@given(st.lists(st.tuples(sigmas, rates, st.integers(1, 50)), min_size=1, max_size=5), orders, group_sizes)
def test_divergences_of_segments_add_up_in_any_order(history, order, group_size):
    accountant = RenyiGroupAccountant(group_size, adjacency="remove")
    accountant.history = history
    total = accountant.get_renyi(order)
    parts = sum(n * renyi("exact", order, s, q, group_size, "remove") for s, q, n in history)
    assert total == pytest.approx(parts, rel=1e-9)
    accountant.history = history[::-1]
    assert accountant.get_renyi(order) == pytest.approx(total, rel=1e-12)


@some
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_the_law_of_any_rates_is_a_law(member_rates):
    log_weights, shifts = kernels.poisson_binomial_law(member_rates, log=True)
    weights = np.exp(log_weights)
    assert weights.sum() == pytest.approx(1.0, abs=1e-13)
    assert weights @ shifts == pytest.approx(sum(member_rates), rel=1e-12, abs=1e-300)
    assert np.all(np.diff(shifts) > 0)


@some
@given(st.floats(-20.0, 20.0), sigmas, rates, group_sizes)
def test_the_loss_of_a_group_grows_along_the_axis(x, sigma, rate, group_size):
    law = kernels.binomial_law(group_size, rate, log=True)
    values = kernels.log_likelihood_ratio([x, x + 0.1], *law, sigma, log_weights=True)
    assert values[0] <= values[1] + 4e-16 * abs(
        values[1]
    )  # equal but for the last bit where the loss is flat
    # Never below the weight of an empty batch.
    assert values[0] >= law[0][0] * (1 + 1e-12)


@some
@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=50), st.floats(-6.0, 6.0), st.floats(0.0, 3.0))
def test_the_hockey_stick_falls_with_epsilon_and_stays_in_its_range(losses, epsilon, more):
    first, second = kernels.hockey_stick(losses, [epsilon, epsilon + more])
    assert 0.0 <= second <= first <= 1.0


@some
@given(
    st.lists(st.tuples(st.floats(1.01, 500.0), st.floats(0.0, 50.0)), min_size=1, max_size=8),
    st.floats(1e-15, 0.99),
)
def test_more_orders_never_hurt(pairs, delta):
    points, rdp = map(list, zip(*pairs, strict=True))
    best = kernels.rdp_to_epsilon(points, rdp, delta)
    assert best <= kernels.rdp_to_epsilon(points[:1], rdp[:1], delta)
    assume(best > 0)
    assert kernels.rdp_to_delta(points, rdp, best) <= delta * (1 + 1e-6)
