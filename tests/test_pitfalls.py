"""What PITFALLS proves, conjectures and prints; its randomised response is in test_randomised_response.py."""

import numpy as np
import pytest
from scipy.integrate import simpson

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
    epsilons = np.linspace(0.0, 1.5, 16)

    def difference(steps):
        add, remove = (
            hs.get_delta(epsilon=epsilons, steps=steps, adjacency=way, **run) for way in ("add", "remove")
        )
        return add - remove

    assert np.all(difference(1) <= 1e-12)
    two = difference(2)
    assert two.max() > 0.015
    assert two.min() < -0.05


@pytest.mark.long  # notebooks/pitfalls.ipynb, which runs in CI, makes the same comparison
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
    add_lower, add_upper = hs.get_epsilon(adjacency="add", **runs)
    remove_lower, remove_upper = hs.get_epsilon(adjacency="remove", **runs)
    assert np.all(add_lower <= remove_upper)
    # Intervals of a few runs overlap: epsilons that agree to 1e-4, or an epsilon next to 0.
    assert np.count_nonzero(add_upper > remove_lower) <= 5


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


class JoinedLaplace:
    """Theorem 14 for Laplace noise from its definition: answers 0 and 2, a record there with chance g."""

    def __init__(self, g, b):
        self.g, self.b = g, b
        self.most = np.log1p(g * np.expm1(2 / b))
        x = np.linspace(1.0, 2.0, 4001)
        x, weights = 0.5 * (x[1:] + x[:-1]), 1 / 4000
        loss = np.log((1 - g) + g * np.exp((2 * x - 2) / b))
        below = np.exp(-x / b) / (2 * b) * weights
        rest = 1 - (1 - g) * np.exp(-1 / b) / 2 - g * (1 - np.exp(-1 / b) / 2) - np.exp(-1 / b) / 2
        tail = np.exp(-2 / b) / 2
        self.losses = np.concatenate([loss, -loss, [self.most, 0.0, -self.most]])
        self.masses = np.concatenate([below * np.exp(loss), below, [tail * np.exp(self.most), rest, tail]])

    def one_step(self, epsilons):
        """Both hockey-stick divergences as integrals over the outputs, by Simpson's rule."""
        g, b = self.g, self.b
        x = np.linspace(-60 * b, 2 + 60 * b, 200_001)
        p, q = (np.exp(-abs(x - mean) / b) / (2 * b) for mean in (0.0, 2.0))
        mixture = (1 - g) * p + g * q
        return np.array(
            [
                simpson(np.maximum(mixture - np.exp(e) * p if e >= 0 else p - np.exp(e) * mixture, 0.0), x=x)
                for e in epsilons
            ]
        )

    def two_steps(self, epsilon):
        # For each loss of the first step, the sum over those of the second that are large enough.
        order = np.argsort(self.losses)
        losses, masses = self.losses[order], self.masses[order]
        above, tilted = (
            np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in (masses, masses * np.exp(-losses))
        )
        first = np.searchsorted(losses, epsilon - losses, side="right")
        return masses @ (above[first] - np.exp(epsilon - losses) * tilted[first])


@pytest.mark.parametrize(("batch_size", "scale"), [(5, 1.0), (30, 0.6), (60, 3.0)])
def test_theorem_14_for_laplace_noise(batch_size, scale):
    joined = JoinedLaplace(batch_size / 100, scale)
    assert joined.masses.sum() == pytest.approx(1.0, abs=1e-7)
    run = {
        "mechanism": hs.Laplace(scale),
        "sampling": hs.WithoutReplacement(batch_size, 100),
        "adjacency": "replace",
    }
    epsilons = np.linspace(0.0, 0.9 * joined.most, 4)
    for steps, expected in (
        (1, joined.one_step(epsilons)),
        (2, [joined.two_steps(epsilon) for epsilon in epsilons]),
    ):
        lower, upper = hs.privacy_curve(steps=steps, **run).bounds(epsilon=epsilons)
        np.testing.assert_allclose(lower, expected, rtol=2e-6)
        np.testing.assert_allclose(upper, expected, rtol=2e-6)


def test_theorem_14_for_laplace_noise_after_many_steps():
    """A simulation of the joined law, 20,000 runs of 200 steps."""
    joined = JoinedLaplace(0.05, 2.0)
    generator = np.random.default_rng(14)
    levels = np.cumsum(joined.masses / joined.masses.sum())
    drawn = np.searchsorted(levels, generator.random((20_000, 200)) * levels[-1])
    losses = joined.losses[drawn].sum(axis=1)
    run = {"mechanism": hs.Laplace(2.0), "sampling": hs.WithoutReplacement(5, 100), "steps": 200}
    for epsilon in (0.0, 0.5, 1.5):
        sample = np.maximum(-np.expm1(epsilon - losses), 0.0)
        delta = hs.get_delta(epsilon=epsilon, adjacency="replace", **run)
        assert abs(delta - sample.mean()) < 5 * sample.std() / np.sqrt(sample.size)


def test_theorem_14_lies_above_both_directions_and_holds_after_one_step():
    for steps in (1, 50):
        run = {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(20, 100), "steps": steps}
        epsilons = np.linspace(0.0, 3.0, 20)
        joined = hs.get_delta(epsilon=epsilons, adjacency="replace", **run)
        ways = [hs.get_delta(epsilon=epsilons, adjacency=way, **run) for way in ("add", "remove")]
        assert np.all(joined >= np.max(ways, axis=0) * (1 - 1e-6))
        if steps == 1:
            np.testing.assert_allclose(joined, np.max(ways, axis=0), rtol=1e-6)
