"""`MonteCarloAccountant` for dealt batches, alone and beside Poisson samples."""

import json
from types import SimpleNamespace

import pytest

import hockeystick as hs

DEALT = [
    (2.0, hs.RandomAllocation(10), 20),
    (1.5, hs.RandomAllocation(10), 10),
    (2.0, hs.Poisson(0.05, microbatches=2), 10),
    (2.0, 0.1, 10),
    (2.0, hs.FixedBins(8), 10),
]
"""Whole epochs under two noises, Poisson samples and bins that stay."""


def accountant(history, group_size=1, **settings):
    found = hs.MonteCarloAccountant(group_size, **{"samples": 20_000, **settings})
    found.history = history
    return found


def certified(history, group_size=1, adjacency="add_remove"):
    found = hs.GroupAccountant(group_size, adjacency)
    found.history = history
    return found


@pytest.mark.parametrize("side", ["add", "remove"])
def test_the_interval_of_a_mixed_run_holds_the_exact_delta_of_one_record(side):
    exact = certified(DEALT, adjacency=side).get_delta(1.0)
    found = accountant(DEALT, adjacency=side, confidence=0.999).get_delta_interval(1.0)
    assert found.lower <= exact <= found.upper < 1.6 * found.lower
    assert accountant(DEALT, adjacency=side).get_delta(1.0) < 1.5 * exact


def test_it_is_what_estimate_delta_says_of_one_kind_of_steps():
    history = [(2.0, hs.RandomAllocation(20), 60)]
    seed = accountant(history)._seed_for(0)  # each purpose of the accountant has samples of its own
    run = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(20), "steps": 60, "group_size": 3}
    expected = hs.estimate_delta(epsilon=1.0, samples=20_000, seed=seed, **run)
    assert accountant(history, 3).get_delta_interval(1.0) == expected


def test_epsilon_is_at_most_the_certified_bound_and_below_it_for_groups():
    # The pattern bound of four records; the true value is what 60,000 other samples say.
    history = [(2.0, hs.RandomAllocation(20), 40)]
    bound = certified(history, 4).get_epsilon(1e-3)
    found = accountant(history, 4, samples=20_000, adjacency="remove").get_epsilon(1e-3)
    assert 0.8 * bound < found < bound
    truth = accountant(history, 4, samples=60_000, seed=5, adjacency="remove").get_delta_interval(found)
    assert truth.lower <= 1e-3
    # One record is exact: samples confirm it and say no less.
    exact = certified(history).get_epsilon(1e-5)
    one = accountant(history).get_epsilon(1e-5)
    assert exact * (1.0 - 1e-6) <= one <= exact * 1.002


def test_a_record_in_several_batches_is_below_its_bound_by_blocks():
    history = [(2.0, hs.RandomAllocation(20, times=3), 40), (2.0, 0.05, 10)]
    bound = certified(history, adjacency="remove").get_delta(1.5)
    found = accountant(history, adjacency="remove").get_delta_interval(1.5)
    assert 0.5 * bound < found.lower <= bound
    assert found.upper < 1.2 * bound


def test_steps_are_recorded_saved_and_loaded():
    first = hs.MonteCarloAccountant(group_size=2, samples=2_000, seed=3)
    for _ in range(20):
        first.step(noise_multiplier=2.0, sampling=hs.RandomAllocation(10))
    first.step(hs.Run(sampling="fixed_bins", batches=5, steps=10, noise_multiplier=3.0, records_per_person=2))
    first.get_optimizer_hook_fn(0.1)(SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1))
    assert first.history == [
        (2.0, hs.RandomAllocation(10), 20),
        (3.0, hs.FixedBins(5), 10),
        (1.0, 0.1, 1),
    ]
    second = hs.MonteCarloAccountant(group_size=2, samples=2_000, seed=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.history == first.history
    assert second.get_delta(2.0) == first.get_delta(2.0)
    assert "allocation-estimate" in str(first)


def recorded(found, history):
    for noise, draw, count in history:
        sampling = hs.Poisson(draw) if isinstance(draw, float) else draw
        found.step(noise_multiplier=noise, sampling=sampling, steps=count)


@pytest.mark.parametrize(
    ("history", "group_size", "error", "words"),
    [
        ([(1.0, hs.RandomAllocation(10, times=2), 10)], 2, hs.UnsupportedError, "times=1"),
        ([(1.0, hs.RandomAllocation(10), 10)], 257, ValueError, "group_size must be at most 256"),
        (
            [(1.0, hs.Poisson(0.1, microbatches=9), 1), (1.0, hs.FixedBins(10), 10)],
            32,
            ValueError,
            "times microbatches must be at most 256",
        ),
        ([(0.001, 0.1, 1), (1.0, hs.FixedBins(10), 10)], 1, ValueError, "noise_multiplier must be at least"),
        ([(1.0, 1e-12, 1), (1.0, hs.FixedBins(10), 10)], 1, ValueError, "sample_rate must be 0 or at least"),
        ([(1.0, hs.WithoutReplacement(10, 100), 1)], 1, hs.UnsupportedError, "Poisson"),
    ],
)
def test_what_is_not_simulated_is_refused_with_its_name(history, group_size, error, words):
    with pytest.raises(error, match=words):
        accountant(history, group_size)
    # Step by step, in either order: nothing is recorded that has no answer.
    for order in (history, history[::-1]):
        found = hs.MonteCarloAccountant(group_size, samples=100)
        with pytest.raises(error, match=words):
            recorded(found, order)
        assert len(found.history) < len(history)


def test_adaptive_clipping_is_one_gaussian_and_other_noise_is_refused_by_name():
    clipping = hs.AdaptiveClipping(2.0, 5.0)
    one, other = (hs.MonteCarloAccountant(2, samples=2_000) for _ in range(2))
    one.step(mechanism=clipping, sampling=hs.RandomAllocation(10), steps=10)
    one.step(mechanism=clipping, sample_rate=0.1, steps=5)
    multiplier = clipping.joint_noise_multiplier
    other.history = [(multiplier, hs.RandomAllocation(10), 10), (multiplier, 0.1, 5)]
    assert one.history[0] == (clipping, hs.RandomAllocation(10), 10)
    assert one.get_delta_interval(1.0) == other.get_delta_interval(1.0)
    third = hs.MonteCarloAccountant(2, samples=2_000)
    third.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert third.history == one.history
    with pytest.raises(hs.UnsupportedError, match="must be Gaussian noise"):
        one.step(mechanism=hs.Laplace(2.0), sample_rate=0.1)
    with pytest.raises(TypeError, match="exactly one of noise_multiplier and mechanism"):
        one.step(noise_multiplier=1.0, mechanism=clipping, sample_rate=0.1)


def test_noise_that_changes_within_an_epoch_is_refused():
    history = [(1.0, hs.RandomAllocation(10), 5), (2.0, hs.RandomAllocation(10), 5)]
    with pytest.raises(hs.errors.SamplingMismatchError, match="within an epoch"):
        accountant(history).get_delta(1.0)


def test_many_kinds_of_poisson_samples_are_rounded_beside_dealt_batches(monkeypatch):
    from hockeystick.accountants import _monte_carlo

    history = [(1.0 + 0.01 * i, 0.05, 1) for i in range(40)] + [(2.0, hs.RandomAllocation(10), 20)]
    exact = accountant(history, samples=40_000, adjacency="remove").get_delta_interval(1.5)
    monkeypatch.setattr(_monte_carlo, "MAX_EXACT", 20)
    monkeypatch.setattr(_monte_carlo, "MAX_ROUNDED", 10)
    rounded = accountant(history, samples=40_000, adjacency="remove").get_delta_interval(1.5)
    assert rounded.lower <= exact.upper
    assert exact.lower <= rounded.upper < 2.0 * exact.upper
    monkeypatch.setattr(_monte_carlo, "MAX_EXACT", 1)
    dealt = [(2.0, hs.RandomAllocation(10), 10), (3.0, hs.RandomAllocation(10), 10)]
    with pytest.raises(hs.UnsupportedError, match="kinds of steps with dealt batches"):
        accountant(dealt).get_delta(1.0)
