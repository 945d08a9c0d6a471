"""Clipped units kept with probability 1/2: SHUFFLE, Appendix D."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import hockeystick as hs
from hockeystick import _core


def density(x, centre, sigma):
    return np.exp(-0.5 * ((x - centre) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))


def test_filtered_rounds_by_the_definition():
    """Two rounds of batches of two out of four records, a group of two: coins and batches enumerated."""
    sigma, epsilon = 1.3, 0.6
    x, width = np.linspace(-9.0 * sigma, 9.0 * sigma, 3001, retstep=True)
    # Opposite updates of norm 1 where the unit holds a member; a common one of 0 elsewhere.
    half = [0.5 * density(x, 0.0, sigma) + 0.5 * density(x, shift, sigma) for shift in (-1.0, 1.0)]
    none = density(x, 0.0, sigma)

    def delta(rounds):
        p = [half[0] if counts else none for counts in rounds]
        q = [half[1] if counts else none for counts in rounds]
        outer = np.outer(p[0], p[1]) - math.exp(epsilon) * np.outer(q[0], q[1])
        return float(np.maximum(outer, 0.0).sum() * width**2)

    # The two members share a batch in 2 of 6 placements: then one round counts, else both do.
    exact = delta((True, False)) / 3.0 + delta((True, True)) * 2.0 / 3.0
    run = hs.shuffle.filtered(hs.Shuffle(2, 4), noise_multiplier=sigma, group_size=2, clipping="batch")
    assert run.delta(epsilon) == pytest.approx(exact, rel=1e-5)
    # Half of the shift would not be enough.
    weak = hs.shuffle.filtered(hs.Shuffle(2, 4), noise_multiplier=2 * sigma, group_size=2, clipping="batch")
    assert weak.delta(epsilon) < 0.5 * exact


def test_one_record_is_poisson_sampling_at_one_half():
    curve = hs.privacy_curve(noise_multiplier=4.0, sample_rate=0.5, steps=7, adjacency="replace")
    run = hs.shuffle.filtered(hs.Shuffle(5, 50), noise_multiplier=4.0, epochs=7)
    epsilons = np.array([0.0, 0.5, 2.0])
    np.testing.assert_allclose(run.delta(epsilons), curve.delta(epsilons), rtol=1e-9)
    assert run.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=3e-6)
    assert run.advantage() == pytest.approx(curve.advantage(), rel=1e-9)
    assert "without the coins" in run.adversary


def test_thinning_is_binomial():
    law = hs.shuffle.membership_law(hs.WithoutReplacement(4, 12), epochs=3, group_size=2, clipping="batch")
    found = hs.shuffle.thinned_law(law)
    exact = sum(
        p * binom.pmf(np.arange(10), n, 0.5) for n, p in zip(law.squares, law.probabilities, strict=True)
    )
    np.testing.assert_allclose(found.probabilities, exact, rtol=1e-12, atol=1e-16)
    assert found.squares.tolist() == list(range(10))


@pytest.mark.parametrize("epochs", [1, 5])
def test_who_does_not_see_the_coins_learns_less(epochs):
    sampling, noise = hs.Shuffle(5, 50), 6.0
    how = {"epochs": epochs, "group_size": 3, "clipping": "batch"}
    run = hs.shuffle.filtered(sampling, noise_multiplier=noise, **how)
    law = hs.shuffle.thinned_law(hs.shuffle.membership_law(sampling, **how))
    seen = _core.TradeoffCurve.mixture(
        2.0 * np.sqrt(law.squares) / noise, law.probabilities, law.left_out, law.rounding, 2.0 * law.largest
    )
    whole = hs.shuffle.tradeoff(sampling, noise_multiplier=noise, **how)
    for epsilon in (0.1, 1.0):
        lower, _ = seen.delta(np.array([epsilon]))
        assert run.delta(epsilon) < lower[0] < whole.delta(epsilon)


def test_many_numbers_of_rounds_are_put_together_upwards():
    sampling = hs.WithoutReplacement(1, 10)
    run = hs.shuffle.filtered(sampling, noise_multiplier=20.0, epochs=30)
    assert run.rounds.squares.size > 60
    exact = sum(
        p
        * hs.get_delta(epsilon=0.5, noise_multiplier=20.0, sample_rate=0.5, steps=int(n), adjacency="replace")
        for n, p in zip(run.rounds.squares, run.rounds.probabilities, strict=True)
        if p > 1e-9
    )
    assert exact <= run.delta(0.5) <= 1.3 * exact


def test_numbers_out_of_range_are_refused():
    run = hs.shuffle.filtered(hs.Shuffle(5, 50), noise_multiplier=4.0)
    for delta, epsilon in product((0.0, 1.0, math.nan), (-1.0, math.nan)):
        with pytest.raises(ValueError, match="delta must be"):
            run.epsilon(delta)
        with pytest.raises(ValueError, match="epsilon"):
            run.delta(epsilon)
