"""The figures of PITFALLS that compare curves, in small; notebooks/pitfalls.ipynb draws them."""

import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import kernels


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_figure_1_the_simulation_of_appendix_b_2_encloses_the_curves_at_all_points_at_once(direction):
    scale, rate, samples = 1.0, 0.5, 200_000
    all_steps, epsilons = (1, 2, 5), np.linspace(0.05, 1.6, 8)
    # Hoeffding's inequality for both sides of every point of both directions: wrong once in a thousand times.
    margin = math.sqrt(math.log(2 * 2 * len(all_steps) * epsilons.size / 1e-3) / (2 * samples))
    generator = np.random.default_rng(1)
    for steps in all_steps:
        x = generator.laplace(scale=scale, size=(steps, samples))
        if direction == "remove":
            x += generator.random(x.shape) < rate
        log_ratio = np.log(1 - rate + rate * np.exp((np.abs(x) - np.abs(x - 1)) / scale)).sum(axis=0)
        losses = log_ratio if direction == "remove" else -log_ratio
        run = {"mechanism": hs.Laplace(scale), "sample_rate": rate, "steps": steps, "adjacency": direction}
        exact = hs.get_delta(epsilon=epsilons, **run)
        estimates = [kernels.hockey_stick(losses, epsilon) for epsilon in epsilons]
        assert np.max(np.abs(estimates - exact)) <= margin


def test_figure_3_three_pairs_are_each_worst_somewhere_and_theorem_14_covers_them():
    """Two records, batches of one, two steps; one record is replaced, the other may differ by query."""
    scale = 3.0
    edges = np.concatenate([[-np.inf], np.linspace(-1, 1, 801), [np.inf]])

    def cells(mean):
        z = (edges - mean) / scale
        cdf = np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
        return np.diff(cdf)

    def query(adjacency):
        """One step: the other record is -1 where the differing one is as if removed, and 1 where added."""
        one = hs.WithoutReplacement(1, 2)
        return hs.privacy_curve(mechanism=hs.Laplace(scale), sampling=one, steps=1, adjacency=adjacency)

    def laws(other):
        return [0.5 * cells(other) + 0.5 * cells(record) for record in (1.0, -1.0)]

    minus, plus = laws(-1.0), laws(1.0)
    epsilons = np.linspace(0.0, 0.6, 13)
    curves = []
    for first, second in ((minus, minus), (plus, plus), (minus, plus)):
        p, q = (np.outer(a, b) for a, b in zip(first, second, strict=True))
        curves.append([np.sum(np.maximum(p - np.exp(e) * q, 0.0)) for e in epsilons])
    assert set(np.argmax(curves, axis=0)) == {0, 1, 2}
    run = {"mechanism": hs.Laplace(scale), "sampling": hs.WithoutReplacement(1, 2), "steps": 2}
    for curve, adjacency in zip(curves, ("remove", "add"), strict=False):
        np.testing.assert_allclose(
            hs.get_delta(epsilon=epsilons, adjacency=adjacency, **run), curve, atol=2e-6
        )
    mixed = query("remove") + query("add")
    lower, upper = mixed.bounds(epsilon=epsilons[::3])
    np.testing.assert_allclose(upper, curves[2][::3], atol=2e-6)
    assert np.all(upper - lower <= 1e-6 * upper)
    joined = hs.get_delta(epsilon=epsilons, adjacency="replace", **run)
    assert np.all(joined >= np.max(curves, axis=0) - 1e-9)


def test_figure_4_theorem_14_lies_far_below_renyi_accounting():
    noise, batch_size, records, steps = 2.0, 1000, 100_000, 1000

    def wang(order):
        """Wang, Balle and Kasiviswanathan 2020, Theorem 9, for a record that moves the sum by two norms."""
        slope = 2.0**2 / (2 * noise**2)
        terms = [0.0, min(math.log(4 * math.expm1(2 * slope)), 2 * slope + math.log(2))]
        terms += [(j - 1) * j * slope + math.log(2) for j in range(3, order + 1)]
        ways = [
            j * math.log(batch_size / records) + math.log(math.comb(order, j))
            for j in (0, *range(2, order + 1))
        ]
        return np.logaddexp.reduce(np.add(terms, ways)) / (order - 1)

    orders = np.arange(2, 65)
    rdp = steps * np.array([wang(int(order)) for order in orders])
    run = {"noise_multiplier": noise, "sampling": hs.WithoutReplacement(batch_size, records), "steps": steps}
    for delta in (1e-5, 1e-8):
        lower = hs.get_epsilon(delta=delta, adjacency="add_remove", **run)
        joined = hs.get_epsilon(delta=delta, adjacency="replace", **run)
        renyi = kernels.rdp_to_epsilon(orders.astype(float), rdp, delta)
        assert lower < joined < renyi / 1.4


def test_figure_4_left_the_joined_curve_is_the_larger_one_of_both_directions_at_every_epsilon():
    """One step; negative epsilons by H(P || Q) at e^eps = 1 - e^eps + e^eps H(Q || P) at e^-eps."""
    noise, rate = 2.0, 0.1
    fixed = {"noise_multiplier": noise, "sampling": hs.WithoutReplacement(10, 100), "steps": 1}
    outputs, width = np.linspace(-40.0, 44.0, 84_001, retstep=True)
    without, member = (
        np.exp(-0.5 * ((outputs - mean) / noise) ** 2) / (noise * np.sqrt(2 * np.pi)) for mean in (0.0, 2.0)
    )
    with_member = (1 - rate) * without + rate * member

    def divergence(p, q, epsilon):
        return np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)) * width

    for epsilon in np.linspace(-1.5, 1.5, 13):
        larger = max(divergence(with_member, without, epsilon), divergence(without, with_member, epsilon))
        found = hs.get_delta(epsilon=abs(epsilon), adjacency="replace", **fixed)
        if epsilon < 0:
            found = 1 - np.exp(epsilon) + np.exp(epsilon) * found
        assert found == pytest.approx(larger, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 5.0, 10.0])
def test_figure_2_the_noise_stops_following_the_rate_slightly_below_one_and_below_two(epsilon):
    """The slope of log sigma over log q passes 1/2 at the transition; fixed batches have twice the noise."""

    def slope(noise):
        near = np.array([0.98, 1.02])
        rates = hs.get_sample_rate(
            epsilon=epsilon, delta=1e-6, steps=10_000, noise_multiplier=noise * near, tolerance=1e-4
        )
        return math.log(near[1] / near[0]) / math.log(rates[1] / rates[0])

    assert slope(0.7) < 0.5 < slope(1.0)
    target = {"epsilon": epsilon, "delta": 1e-6, "steps": 10_000}
    fixed = hs.get_noise_multiplier(sampling=hs.WithoutReplacement(100, 100_000), **target)
    assert fixed == pytest.approx(2 * hs.get_noise_multiplier(sample_rate=1e-3, **target), rel=1e-5)
