"""What PITFALLS proves, conjectures and prints; its randomised response is in test_randomised_response.py."""

import numpy as np
import pytest

import hockeystick as hs


@pytest.mark.parametrize("batch_size", [6, 60, 600, 5999])
@pytest.mark.parametrize("steps", [1, 100, 10_000])
def test_proposition_9_a_fixed_batch_needs_exactly_twice_the_noise(batch_size, steps):
    run = {"epsilon": 2.0, "delta": 1e-6, "steps": steps}
    fixed = hs.get_noise_multiplier(sampling=hs.WithoutReplacement(batch_size, 6000), **run)
    poisson = hs.get_noise_multiplier(sample_rate=batch_size / 6000, **run)
    assert fixed == pytest.approx(2 * poisson, rel=1e-5)


def test_proposition_11_the_curves_of_laplace_noise_cross():
    run = {"mechanism": hs.Laplace(1.0), "sample_rate": 0.5}
    epsilons = np.linspace(0.0, 1.5, 30)

    def difference(steps):
        add, remove = (
            hs.get_delta(epsilon=epsilons, steps=steps, adjacency=way, **run) for way in ("add", "remove")
        )
        return add - remove

    assert np.all(difference(1) <= 1e-12)
    assert difference(2).max() > 0.015
    assert difference(2).min() < -0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # certifies less, and no error
def test_conjecture_12_holds_in_10_000_random_runs():
    generator = np.random.default_rng(12)

    def spread(low, high):
        return np.exp(generator.uniform(np.log(low), np.log(high), 10_000))

    runs = {
        "noise_multiplier": spread(0.3, 20.0),
        "sample_rate": spread(1e-3, 0.9),
        "steps": spread(5.0, 1e5).astype(int),
        "delta": spread(1e-12, 0.1),
        "tolerance": 1e-4,
        "bounds": True,
    }
    _, add_upper = hs.get_epsilon(adjacency="add", **runs)
    remove_lower, _ = hs.get_epsilon(adjacency="remove", **runs)
    assert np.all(add_upper <= remove_lower)


def test_the_table_beside_figure_2_in_exact_numbers():
    run = {"delta": [1e-7, 1e-6, 1e-5, 1e-4], "noise_multiplier": 0.8, "steps": 10_000}
    poisson = hs.get_epsilon(sample_rate=0.001, **run)
    np.testing.assert_allclose(poisson, [1.1708, 0.9472, 0.7824, 0.6286], atol=5.1e-5)
    fixed = hs.get_epsilon(sampling=hs.WithoutReplacement(1000, 10**6), **run)
    np.testing.assert_allclose(fixed, [17.4629, 15.2515, 12.9759, 10.6170], atol=5.1e-5)


def test_proposition_13_the_replaced_pair_dominates_any_two_records():
    sigma, rate = 1.3, 0.2
    outputs, width = np.linspace(-14, 14, 8001, retstep=True)

    def density(record):
        unseen, seen = (np.exp(-((outputs - mean) ** 2) / (2 * sigma**2)) for mean in (0.0, record))
        return ((1 - rate) * unseen + rate * seen) / (sigma * np.sqrt(2 * np.pi))

    run = {"noise_multiplier": sigma, "sample_rate": rate, "steps": 1, "adjacency": "replace"}
    generator = np.random.default_rng(13)
    for epsilon in (0.05, 0.3):
        most = hs.get_delta(epsilon=epsilon, **run)
        found = [
            np.sum(np.maximum(density(a) - np.exp(epsilon) * density(b), 0.0)) * width
            for a, b in [(1.0, -1.0), *generator.uniform(-1, 1, (200, 2))]
        ]
        assert found[0] == pytest.approx(most, rel=1e-4)
        assert max(found) <= most * (1 + 1e-4)


def test_theorem_14_lies_above_both_directions_and_holds_after_one_step():
    for steps in (1, 50):
        run = {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(20, 100), "steps": steps}
        epsilons = np.linspace(0.0, 3.0, 20)
        joined = hs.get_delta(epsilon=epsilons, adjacency="replace", **run)
        ways = [hs.get_delta(epsilon=epsilons, adjacency=way, **run) for way in ("add", "remove")]
        assert np.all(joined >= np.max(ways, axis=0) * (1 - 1e-6))
        if steps == 1:
            np.testing.assert_allclose(joined, np.max(ways, axis=0), rtol=1e-6)
