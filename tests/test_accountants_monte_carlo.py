"""The Monte-Carlo accountant: bounds that hold as often as stated, for delta and for epsilon."""

import by_definition
import numpy as np
import pytest
from nightly import some
from reference_rows import rows

from hockeystick.accountants import MonteCarloAccountant, RenyiGroupAccountant

FEW_STEPS = 4.5316772417068194e-06
"""delta(2) of 10 steps, 4 records, sigma 1, rate 0.01, remove: tests/data/privacy_curves.csv."""


def few_steps(**settings):
    accountant = MonteCarloAccountant(group_size=4, **settings)
    accountant.history = [(1.0, 0.01, 10)]
    return accountant


def gaussian(**settings):
    """Two segments without sampling: one Gaussian of mean sqrt(16/16 + 9/9) = sqrt 2."""
    accountant = MonteCarloAccountant(**settings)
    accountant.history = [(4.0, 1.0, 16), (3.0, 1.0, 9)]
    return accountant


DELTA_AT_FOUR = float(by_definition.gaussian_delta(4.0, 2**0.5))

seeds = pytest.mark.parametrize("seeds", [10, pytest.param(100, marks=pytest.mark.long)])


@seeds
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_the_interval_for_delta_covers_it_as_often_as_stated(confidence, seeds):
    covered = 0
    for seed in range(seeds):
        found = gaussian(samples=300, seed=seed, confidence=confidence).get_delta_interval(4.0)
        covered += found.lower <= DELTA_AT_FOUR <= found.upper
    assert covered >= confidence * seeds


@pytest.mark.slow
@seeds
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_epsilon_is_a_bound_as_often_as_stated_and_near_the_truth(confidence, seeds):
    epsilons = [
        gaussian(samples=100_000, seed=seed, confidence=confidence).get_epsilon(DELTA_AT_FOUR)
        for seed in range(seeds)
    ]
    assert sum(epsilon >= 4.0 for epsilon in epsilons) >= confidence * seeds
    assert np.median(epsilons) < 4.05


@pytest.mark.slow
def test_epsilon_is_a_bound_where_one_jump_decides():
    # A rare batch with several members makes almost all of delta: the hard case for tilting.
    epsilons = [few_steps(samples=5_000, seed=seed).get_epsilon(FEW_STEPS) for seed in range(10)]
    assert min(epsilons) >= 2.0


@pytest.mark.slow
def test_delta_is_the_upper_end_of_its_interval_and_near_the_truth():
    accountant = few_steps(samples=4_000_000)
    interval = accountant.get_delta_interval(2.0)
    assert accountant.get_delta(2.0) == interval.upper
    assert interval.lower <= FEW_STEPS <= interval.upper
    assert interval.upper < 1.1 * FEW_STEPS


@pytest.mark.parametrize(
    "history", [[(1.0, 0.01, 200)], [(1.0, 0.01, 50), (2.0, 0.05, 100), (1.0, 0.01, 50)]]
)
@pytest.mark.parametrize("group_size", [1, 8])
def test_epsilon_is_no_larger_than_by_renyi_and_delta_smaller(group_size, history):
    monte_carlo = MonteCarloAccountant(group_size, samples=20_000)
    renyi = RenyiGroupAccountant(group_size)
    monte_carlo.history = renyi.history = history
    epsilon = renyi.get_epsilon(1e-5)
    assert 0.5 * epsilon < monte_carlo.get_epsilon(1e-5) < epsilon
    assert monte_carlo.get_delta(epsilon) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    some(
        r for r in rows("privacy_curves.csv") if r["weights"].startswith("binomial") and r["steps"] == "1000"
    ),
    ids=lambda r: f"{r['weights']} {r['direction']} {r['epsilon']}",
)
def test_reference_curves_are_bounded_from_above(row):
    _, group_size, sample_rate = row["weights"].split()
    accountant = MonteCarloAccountant(
        int(group_size), samples=50_000, confidence=0.999, adjacency=row["direction"]
    )
    accountant.history = [(float(row["sigma"]), float(sample_rate), 1000)]
    assert float(row["delta"]) <= accountant.get_delta(float(row["epsilon"])) < 1.5 * float(row["delta"])
    assert accountant.get_epsilon(float(row["delta"])) >= float(row["epsilon"])


def test_both_directions_are_covered_by_add_remove():
    both, add, remove = (
        few_steps(samples=50_000, adjacency=a).get_delta_interval(1.0)
        for a in ("add_remove", "add", "remove")
    )
    # Removal is the larger one, and sharing the confidence widens its interval a little.
    assert add.upper < remove.lower
    assert both.estimate == remove.estimate
    assert both.lower < remove.lower < remove.upper < both.upper


def test_the_same_seed_repeats_and_another_does_not():
    first, again, other = (few_steps(samples=2_000, seed=seed) for seed in (3, 3, 4))
    assert first.get_delta(2.0) == again.get_delta(2.0) != other.get_delta(2.0)
    assert first.get_epsilon(1e-5) == again.get_epsilon(1e-5) != other.get_epsilon(1e-5)


def test_an_unused_accountant_has_spent_nothing():
    accountant = MonteCarloAccountant()
    assert accountant.get_epsilon(1e-5) == 0.0
    assert accountant.get_delta(0.0) == 0.0
    accountant.history = [(0.0, 0.0, 5), (1.0, 0.0, 5)]
    assert accountant.get_epsilon(1e-5) == 0.0
    assert accountant.get_delta_interval(1.0) == (0.0, 0.0, 0.0)


def test_a_step_without_noise_shows_who_was_in_the_batch():
    accountant = MonteCarloAccountant(group_size=2)
    accountant.history = [(1.0, 0.1, 5), (0.0, 0.1, 3)]
    assert accountant.get_epsilon(1e-5) == np.inf
    assert 1 - 0.9**6 < accountant.get_delta(30.0) < 1 - 0.9**6 + 1e-6


def test_a_delta_that_epsilon_zero_meets_gives_epsilon_zero_or_next_to_it():
    accountant = MonteCarloAccountant(samples=50_000)
    accountant.history = [(1.0, 0.01, 10)]
    # delta(0) is below 0.02 here, Rényi or not.
    assert accountant.get_epsilon(0.05) == 0.0


def test_one_sample_certifies_nothing_and_falls_back_to_renyi():
    accountant, renyi = few_steps(samples=1), RenyiGroupAccountant(4)
    renyi.history = accountant.history
    assert accountant.get_epsilon(1e-6) == renyi.get_epsilon(1e-6)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "1", None, [1.0, 2.0]])
def test_a_bad_epsilon_is_refused_even_before_the_first_step(bad):
    with pytest.raises((ValueError, TypeError), match="epsilon"):
        MonteCarloAccountant().get_delta(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, float("nan"), "1", None, [0.1, 0.2]])
def test_a_bad_delta_is_refused_even_before_the_first_step(bad):
    with pytest.raises((ValueError, TypeError), match="delta"):
        MonteCarloAccountant().get_epsilon(bad)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("samples", 0),
        ("samples", -5),
        ("samples", 2.5),
        ("samples", "many"),
        ("confidence", 0.0),
        ("confidence", 1.0),
        ("confidence", float("nan")),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 0.5),
        ("seed", None),
    ],
)
def test_settings_are_checked(name, bad):
    with pytest.raises((ValueError, TypeError), match=name):
        MonteCarloAccountant(**{name: bad})
