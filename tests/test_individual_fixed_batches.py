"""Batches of a fixed size: individual accounts against brute force over all batches of small data sets.

In the worst case all other gradients are 1 and those of the examples in question point the other way: a batch
without them has sum b, and one with j of them, of norm Z, has b - j(1 + Z), as they displace j others.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant, IndividualFilter

GRID = np.linspace(-40.0, 45.0, 400_001)
"""Where outputs are; the trapezoidal rule is exact to rounding there."""


def density(gradients, batch_size, sigma):
    """Density of the noisy sum of a batch: a mixture over all batches."""
    sums = [sum(batch) for batch in combinations(gradients, batch_size)]
    return np.mean([np.exp(-0.5 * ((GRID - x) / sigma) ** 2) for x in sums], axis=0) / (
        sigma * np.sqrt(2.0 * np.pi)
    )


def pair(norms, others, batch_size, sigma):
    """Densities with and without the examples that have these norms, next to `others` with gradient 1."""
    mine = [-norm for norm in norms]
    return density([1.0] * others + mine, batch_size, sigma), density([1.0] * others, batch_size, sigma)


def divergence(p, q, order):
    seen = p > 0.0
    integral = np.trapezoid(q[seen] * (p[seen] / q[seen]) ** order, GRID[seen])
    return np.log(integral) / (order - 1.0)


def brute_epsilon(p, q, delta):
    def excess(epsilon):
        return max(np.trapezoid(np.maximum(a - np.exp(epsilon) * b, 0.0), GRID) for a, b in ((p, q), (q, p)))

    return brentq(lambda epsilon: excess(epsilon) - delta, 0.0, 60.0, xtol=1e-12)


@pytest.mark.parametrize("norm", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("size", "batch_size"), [(2, 1), (3, 2), (5, 2)])
def test_an_example_pays_for_whom_it_displaces(norm, size, batch_size):
    sigma, orders = 1.3, [1.5, 4.0]
    p, q = pair([norm], size - 1, batch_size, sigma)
    step = {"noise_multiplier": sigma, "sampling": hs.WithoutReplacement(batch_size, size)}
    renyi = IndividualAccountant(1, exact=False, orders=orders)
    renyi.update_norms([norm])
    renyi.step(**step)
    expected = [max(divergence(p, q, order), divergence(q, p, order)) for order in orders]
    np.testing.assert_allclose(renyi.get_rdp()[0], expected, rtol=1e-9)
    exact = IndividualAccountant(1)
    exact.update_norms([norm])
    exact.step(**step)
    assert exact.get_epsilons(1e-3)[0] == pytest.approx(brute_epsilon(p, q, 1e-3), rel=1e-6)


@pytest.mark.parametrize("norm", [0.0, 0.4, 1.0])
def test_members_of_a_group_pay_for_all_whom_they_displace(norm):
    p, q = pair([norm, norm], 2, 2, 1.3)
    accountant = IndividualAccountant(4)
    accountant.update_norms([norm, norm, 1.0, 1.0])
    accountant.step(noise_multiplier=1.3, sampling=hs.WithoutReplacement(2, 4))
    expected = brute_epsilon(p, q, 1e-3)
    of_group = accountant.get_group_epsilon([0, 1], 1e-3)
    _, epsilons = accountant.get_user_epsilons(["ada", "ada", "bob", "eve"], 1e-3)
    assert epsilons[0] == of_group >= expected * (1.0 - 1e-6)
    if norm == 1.0:
        assert of_group == pytest.approx(expected, rel=1e-5)


def test_shards_keep_what_is_paid_for_displaced_examples():
    p, q = pair([0.0], 2, 2, 1.3)
    shards = [IndividualAccountant(1), IndividualAccountant(2)]
    for shard, norms in zip(shards, ([1.0], [0.0, 1.0]), strict=True):
        shard.update_norms(norms)
        shard.step(noise_multiplier=1.3, sampling=hs.WithoutReplacement(2, 3))
    merged = shards[0].merge(shards[1])
    assert merged.get_epsilons(1e-3)[1] == pytest.approx(brute_epsilon(p, q, 1e-3), rel=1e-6)


def test_a_filter_refuses_fixed_batches_as_whoever_is_stopped_still_displaces_others():
    # What a filter that charged nothing for an example without gradient would give away in every step.
    p, q = pair([0.0], 2, 2, 1.3)
    assert divergence(p, q, 4.0) > 0.5
    for started in (False, True):
        gate = IndividualFilter(60.0, 1e-5, order=32.0)
        if started:
            gate.step([1.0, 0.5], noise_multiplier=0.7, sample_rate=0.1)
        before = gate.state_dict()
        for sampling in (hs.WithoutReplacement(1000, 1001), hs.WithoutReplacement(2, 2)):
            with pytest.raises(
                hs.UnsupportedError, match=r"sampling must be Poisson or FullBatch .* displaces"
            ):
                gate.step([1.0, 0.5], noise_multiplier=0.7, sampling=sampling)
        assert gate.state_dict() == before


@pytest.mark.parametrize("sampling", [hs.Poisson(0.5), hs.FullBatch()], ids=["poisson", "full"])
def test_who_is_stopped_pays_nothing_where_nobody_is_displaced(sampling):
    gate = IndividualFilter(3.0, 1e-5)
    for _ in range(20):
        gate.step([1.0], noise_multiplier=1.0, sampling=sampling)
    assert not gate.active[0]
    used = gate.used[0]
    gate.step([1.0], noise_multiplier=1.0, sampling=sampling)
    assert gate.used[0] == used
    # The sum of a batch without a gradient is that of a batch without the record.
    accountant = IndividualAccountant(1)
    accountant.update_norms([0.0])
    accountant.step(noise_multiplier=1.0, sampling=sampling)
    assert accountant.get_epsilons(1e-9)[0] == 0.0
