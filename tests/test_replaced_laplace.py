"""Replaced records of a Poisson sample with Laplace noise: docs/theory/dominating-pairs.md, Theorem 7."""

import itertools

import numpy as np
import pytest
from scipy import integrate, optimize

import hockeystick as hs

SCALE, RATES = 1.7, (0.3, 0.1, 0.2)


def weights(rates):
    """Law of the number of members in a batch."""
    law = np.ones(1)
    for rate in rates:
        law = np.convolve(law, [1 - rate, rate])
    return law


def density(x, law, sign=1, scale=SCALE):
    """Density of the noisy sum to which each member in the batch adds `sign`."""
    shifts = sign * np.arange(len(law))
    return np.exp(-np.abs(np.asarray(x)[..., None] - shifts) / scale) @ law / (2 * scale)


def one_step(epsilon, law, scale=SCALE):
    """Delta of one step by its definition, between the places where the densities have corners."""
    reach = len(law) + 60 * scale
    corners = np.unique(np.concatenate([np.arange(-len(law), len(law) + 1), [-reach, reach]]))

    def excess(x):
        return max(density(x, law, 1, scale) - np.exp(epsilon) * density(x, law, -1, scale), 0.0)

    pairs = itertools.pairwise(corners)
    return sum(integrate.quad(excess, *pair, epsabs=1e-13, epsrel=1e-12, limit=400)[0] for pair in pairs)


def check(run, epsilon, exact, tolerance=1e-9):
    lower, upper = hs.get_delta(epsilon=epsilon, adjacency="replace", bounds=True, **run)
    assert lower <= exact + tolerance
    assert upper >= exact - tolerance
    assert upper - lower <= 1e-6 * upper + tolerance


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7, 2.0])
@pytest.mark.parametrize("rates", [(0.2,), (0.05, 0.05), RATES])
def test_one_step_is_its_definition(epsilon, rates):
    group = hs.Group(rates=rates)
    run = {"mechanism": hs.Laplace(SCALE), "sample_rate": max(rates), "group": group, "steps": 1}
    check(run, epsilon, one_step(epsilon, weights(rates)))


def tail(x, law, sign):
    """Probability of a noisy sum above x."""
    away = (x - sign * np.arange(len(law))) / SCALE
    return float(np.where(away > 0, 0.5 * np.exp(-np.abs(away)), 1 - 0.5 * np.exp(-np.abs(away))) @ law)


def one_step_by_threshold(epsilon, law):
    """Delta of one step: outputs above the place where the log ratio, which grows, is epsilon."""
    last = len(law) - 1

    def gap(x):
        return float(np.log(density(x, law) / density(x, law, -1)) - epsilon)

    if gap(last) <= 0:
        return 0.0
    if gap(-last) >= 0:
        return 1 - np.exp(epsilon)
    place = optimize.brentq(gap, -last, last, xtol=1e-14)
    return tail(place, law, 1) - np.exp(epsilon) * tail(place, law, -1)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_two_steps_are_an_integral_over_the_first(epsilon):
    law = weights((0.25, 0.25))
    assert one_step_by_threshold(0.4, law) == pytest.approx(one_step(0.4, law), rel=1e-9)

    def rest(x):
        loss = float(np.log(density(x, law) / density(x, law, -1)))
        return one_step_by_threshold(epsilon - loss, law)

    # Beyond -2 and 2 the loss does not change.
    exact = tail(2.0, law, 1) * rest(2.0) + (1 - tail(-2.0, law, 1)) * rest(-2.0)
    nodes, node_weights = np.polynomial.legendre.leggauss(6)
    half = 1 / 128
    for middle in np.arange(-2.0 + half, 2.0, 2 * half):
        points = middle + half * nodes
        exact += half * sum(
            w * float(density(x, law)) * rest(x) for x, w in zip(points, node_weights, strict=True)
        )
    run = {"mechanism": hs.Laplace(SCALE), "sample_rate": 0.25, "group_size": 2, "steps": 2}
    check(run, epsilon, exact, 1e-8)


def test_no_replaced_group_exceeds_the_pair():
    random = np.random.default_rng(5)
    outputs, width = np.linspace(-40.0, 40.0, 80_001, retstep=True)
    run = {"mechanism": hs.Laplace(SCALE), "group": hs.Group(rates=RATES), "sample_rate": 0.3, "steps": 1}
    closest = np.inf
    for _ in range(40):
        before, after = random.uniform(-1.0, 1.0, size=(2, 3))
        laws = []
        for shifts in (before, after):
            law = np.zeros_like(outputs)
            for chosen in itertools.product((False, True), repeat=3):
                weight = np.prod([r if c else 1 - r for r, c in zip(RATES, chosen, strict=True)])
                mean = float(np.dot(shifts, chosen))
                law += weight * np.exp(-np.abs(outputs - mean) / SCALE) / (2 * SCALE)
            laws.append(law)
        for epsilon in (0.0, 0.1, 0.2, 0.8):
            found = float(np.sum(np.maximum(laws[0] - np.exp(epsilon) * laws[1], 0.0)) * width)
            bound = hs.get_delta(epsilon=epsilon, adjacency="replace", **run)
            assert found <= bound + 1e-6
            closest = min(closest, bound - found)
    assert closest < 0.05


@pytest.mark.parametrize("steps", [1, 5, 300])
def test_always_sampled_records_are_twice_as_far(steps):
    run = {"delta": 1e-5, "steps": steps}
    replaced = hs.get_epsilon(
        mechanism=hs.Laplace(6.0), sample_rate=1.0, adjacency="replace", group_size=2, **run
    )
    added = hs.get_epsilon(mechanism=hs.Laplace(6.0), sampling=hs.FullBatch(), group_size=4, **run)
    assert replaced == pytest.approx(added, rel=2e-6)


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.4])
@pytest.mark.parametrize("group_size", [1, 3])
def test_replaced_records_are_between_added_ones_and_their_chain(rate, group_size):
    run = {"delta": 1e-6, "mechanism": hs.Laplace(4.0), "sample_rate": rate, "steps": 100}
    lower, upper = hs.get_epsilon(adjacency="replace", group_size=group_size, bounds=True, **run)
    assert lower >= hs.get_epsilon(group_size=group_size, **run) * (1 - 1e-6)
    assert upper - lower <= 1e-6 * upper


def test_renyi_divergences_are_those_of_the_pair():
    law = weights((0.2, 0.2, 0.2))
    run = {"sample_rate": 0.2, "group_size": 3, "orders": [1.5, 4, 20], "adjacency": "replace"}
    found = hs.renyi.group_rdp(hs.Laplace(SCALE), bound="exact", **run)
    corners = [-200.0, *range(-3, 4), 200.0]
    for order, divergence in zip(run["orders"], found, strict=True):

        def power(x, order=order):
            p, q = density(x, law), density(x, law, -1)
            return p * (p / q) ** (order - 1)

        moment = sum(integrate.quad(power, *pair, epsrel=1e-11)[0] for pair in itertools.pairwise(corners))
        assert divergence == pytest.approx(np.log(moment) / (order - 1), rel=1e-8)
        assert divergence >= np.log(moment) / (order - 1) * (1 - 1e-10)
    assert (found <= hs.renyi.group_rdp(hs.Laplace(SCALE), bound="jensen", **run) * (1 + 1e-12)).all()


def test_tradeoffs_plans_and_accountants_take_replaced_records():
    noise = {"mechanism": hs.Laplace(3.0), "sample_rate": 0.1, "adjacency": "replace"}
    curve = hs.privacy_curve(steps=20, **noise)
    epsilon = hs.get_epsilon(delta=1e-5, steps=20, **noise)
    assert curve.epsilon(delta=1e-5) == epsilon
    beta = curve.beta(0.1)
    assert 0.0 < float(beta) < 0.9
    accountant = hs.accountants.GroupAccountant(group_size=1, adjacency="replace")
    for _ in range(20):
        accountant.step(mechanism=hs.Laplace(3.0), sample_rate=0.1)
    assert accountant.get_epsilon(delta=1e-5) == pytest.approx(epsilon, rel=1e-9)
    assert hs.get_steps(epsilon=epsilon * (1 + 1e-6), delta=1e-5, **noise) == 20
