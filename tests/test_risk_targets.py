"""Targets for attacks in place of epsilon and delta."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import hockeystick as hs

RUN = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000, "group_size": 4}
FUNCTIONS = {
    "noise_multiplier": hs.get_noise_multiplier,
    "sample_rate": hs.get_sample_rate,
    "steps": hs.get_steps,
    "group_size": hs.get_group_size,
}
TARGETS = {
    "advantage": {"advantage": 0.1},
    "rates": {"tpr": 0.05, "fpr": 0.01},
    "success": {"bayes_success": 0.6},
    "prior": {"bayes_success": 0.75, "prior": 0.3},
}


def curve_with(unknown, value):
    return hs.TradeoffCurve.from_curve(hs.privacy_curve(**{**RUN, unknown: value}))


def risk(target, curve):
    """What an attack achieves, and what it may, by other readings of the trade-off function."""
    match target:
        case {"advantage": allowed}:
            return curve.advantage(), allowed
        case {"tpr": allowed, "fpr": fpr}:
            return 1.0 - curve.beta(fpr), allowed
        case {"bayes_success": allowed}:
            return curve.attack_success(target.get("prior", 0.5)), allowed
    raise AssertionError(target)


@pytest.mark.parametrize("unknown", sorted(FUNCTIONS))
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_last_run_that_meets_a_target_is_found(name, unknown):
    rest = {key: value for key, value in RUN.items() if key != unknown}
    target = TARGETS[name]
    found = FUNCTIONS[unknown](**target, **rest)
    reached, allowed = risk(target, curve_with(unknown, found))
    assert reached <= allowed * (1.0 + 1e-9)
    beyond = {
        "noise_multiplier": lambda: found * (1.0 - 1e-4),
        "sample_rate": lambda: found * (1.0 + 1e-4),
        "steps": lambda: found + 1,
        "group_size": lambda: found + 1,
    }[unknown]()
    assert risk(target, curve_with(unknown, beyond))[0] > allowed
    lower, upper = FUNCTIONS[unknown](**target, **rest, bounds=True)
    assert found == (upper if unknown == "noise_multiplier" else lower)
    missing = lower if unknown == "noise_multiplier" else upper
    if unknown in ("steps", "group_size"):
        assert missing == found + 1
    else:
        assert missing == pytest.approx(found, rel=1e-5)
    assert risk(target, curve_with(unknown, type(found)(missing)))[0] > allowed * (1.0 - 1e-9)


def test_a_gaussian_query_has_the_closed_forms():
    inverse = NormalDist().inv_cdf
    query = {"sampling": hs.FullBatch(), "steps": 9}
    mu = inverse(0.99) - inverse(0.95)
    exact = 3.0 / mu
    noise = hs.get_noise_multiplier(tpr=0.05, fpr=0.01, **query)
    assert exact * (1.0 - 1e-9) <= noise <= exact * (1.0 + 2e-6)
    assert hs.get_noise_multiplier(mu=1.5, **query) == pytest.approx(2.0, rel=2e-6)
    assert hs.get_steps(mu=1.5, noise_multiplier=2.0, sampling=hs.FullBatch()) in (8, 9)  # mu is rounded up
    assert hs.get_steps(mu=1.6, noise_multiplier=2.0, sampling=hs.FullBatch()) == 10
    success = NormalDist().cdf(0.5)
    assert hs.get_noise_multiplier(bayes_success=success, **query) == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("unknown", sorted(FUNCTIONS))
def test_a_strict_mu_is_a_bound_on_the_whole_function(unknown):
    rest = {key: value for key, value in RUN.items() if key != unknown}
    target = 0.5 * math.sqrt(1000.0) if unknown == "sample_rate" else 20.0
    found = FUNCTIONS[unknown](mu=target, **rest)
    if unknown == "sample_rate":
        assert found == 0.0  # however small the rate, an attack may see all members in every batch
        return
    assert curve_with(unknown, found).mu() <= target
    worse = found * (1.0 - 1e-4) if unknown == "noise_multiplier" else found + 1
    assert curve_with(unknown, worse).mu() > target


def test_arguments_broadcast():
    sizes = np.array([[1], [8]])
    run = {"sample_rate": 0.01, "steps": 1000}
    found = hs.get_noise_multiplier(tpr=[0.05, 0.1], fpr=0.01, group_size=sizes, **run)
    assert found.shape == (2, 2)
    single = hs.get_noise_multiplier(tpr=0.1, fpr=0.01, group_size=8, **run)
    assert found[1, 1] == single
    assert isinstance(single, float)
    counts = hs.get_steps(tpr=[0.05, 0.1], fpr=0.01, noise_multiplier=4.0, sample_rate=0.01)
    assert counts.dtype == np.int64
    advantages = hs.get_noise_multiplier(advantage=[0.05, 0.1], **run)
    assert advantages[1] == hs.get_noise_multiplier(epsilon=0.0, delta=0.1, **run)


def test_tests_in_either_order_do_not_depend_on_which_data_set_is_the_larger():
    run = {"sample_rate": 0.01, "steps": 1000}
    noise = {
        adjacency: hs.get_noise_multiplier(tpr=0.05, fpr=0.01, adjacency=adjacency, **run)
        for adjacency in ("add_remove", "add", "remove")
    }
    assert len(set(noise.values())) == 1
    replaced = hs.get_noise_multiplier(tpr=0.05, fpr=0.01, adjacency="replace", **run)
    assert replaced > noise["add"]


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ({}, TypeError, "give exactly one target"),
        ({"epsilon": 1.0}, TypeError, "delta is missing"),
        ({"fpr": 0.1}, TypeError, "tpr is missing"),
        ({"prior": 0.5}, TypeError, "give exactly one target"),
        ({"mu": 1.0, "prior": 0.5}, TypeError, "prior belongs to bayes_success"),
        ({"epsilon": 1.0, "delta": 1e-5, "mu": 1.0}, TypeError, "got epsilon and delta and mu"),
        ({"advantage": 1.0}, ValueError, r"advantage must be in \(0, 1\), got 1.0"),
        ({"mu": math.inf}, ValueError, "mu must be in"),
        ({"mu": 1.0, "bounds": True}, TypeError, "bounds must be left out with mu"),
        ({"tpr": 0.01, "fpr": 0.05}, hs.UnreachableError, "tpr must be above fpr"),
        ({"bayes_success": 0.6, "prior": 0.7}, hs.UnreachableError, "bayes_success must be above 0.7"),
        ({"tpr": math.nan, "fpr": 0.05}, ValueError, "tpr must be in"),
    ],
)
def test_a_wrong_target_is_named(target, error, words):
    with pytest.raises(error, match=words):
        hs.get_noise_multiplier(**target, sample_rate=0.01, steps=1000)


def test_what_no_run_meets_is_said():
    with pytest.warns(hs.UnusualValueWarning, match="0 steps: not even one meets the target"):
        found = hs.get_steps(tpr=0.0101, fpr=0.01, noise_multiplier=0.1, sample_rate=1.0, bounds=True)
    assert found == (0, 1.0)
    with pytest.warns(hs.UnusualValueWarning, match="mu bounds all error rates at once"):
        assert hs.get_steps(mu=1.0, noise_multiplier=0.5, sample_rate=0.01) == 0
    with pytest.raises(hs.UnreachableError, match="one record misses it"):
        hs.get_group_size(tpr=0.0101, fpr=0.01, noise_multiplier=0.1, sample_rate=1.0, steps=1)
    with pytest.raises(hs.UnsupportedError, match="whole epochs"):
        hs.get_steps(tpr=0.2, fpr=0.01, noise_multiplier=2.0, sampling=hs.RandomAllocation(10))


def test_what_cannot_be_reached_is_said_of_the_target():
    run = {"noise_multiplier": 0.5, "sample_rate": 0.01, "steps": 1000}
    for name, allowed in (("advantage", 0.1), ("bayes_success", 0.55)):
        with pytest.raises(hs.UnreachableError, match=f"the target {name} = {allowed} is this delta"):
            hs.get_group_size(**{name: allowed}, **run)
    facts = hs.Run(sampling="poisson", **run)
    with pytest.raises(hs.UnreachableError, match="the target advantage"):
        hs.get_group_size(facts, advantage=0.1)
    with pytest.raises(hs.UnreachableError) as refusal:
        hs.get_group_size(epsilon=0.1, delta=1e-5, **run)
    assert "target" not in str(refusal.value)


NORMAL = NormalDist()
EPOCH = {"sampling": hs.Shuffle(100, 10_000), "adjacency": "zero_out"}
"""Against who knows every batch, E epochs of one record are G_mu with mu = sqrt(E) / sigma."""


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize(
    ("target", "mu"),
    [
        ({"mu": 0.5}, 0.5),
        ({"tpr": 0.1, "fpr": 0.01}, NORMAL.inv_cdf(0.99) - NORMAL.inv_cdf(0.9)),
        ({"bayes_success": 0.6}, 2.0 * NORMAL.inv_cdf(0.6)),
        ({"advantage": 0.2}, 2.0 * NORMAL.inv_cdf(0.6)),
    ],
)
def test_shuffled_batches_meet_targets_of_attacks(target, mu, epochs):
    sigma = hs.get_noise_multiplier(**target, steps=100 * epochs, **EPOCH)
    assert math.sqrt(epochs) / mu <= sigma * (1 + 1e-9) <= math.sqrt(epochs) / mu * (1 + 1e-5)
    assert hs.get_steps(**target, noise_multiplier=sigma, **EPOCH) == 100 * epochs
    assert hs.get_steps(**target, noise_multiplier=sigma * 0.999, **EPOCH) < 100 * epochs
    assert hs.get_group_size(**target, noise_multiplier=sigma, steps=100 * epochs, **EPOCH) == 1


def test_shuffled_batches_know_the_safe_end_of_error_rates_alone():
    with pytest.raises(TypeError, match="only the safe end is known"):
        hs.get_noise_multiplier(tpr=0.1, fpr=0.01, steps=100, bounds=True, **EPOCH)
    lower, upper = hs.get_noise_multiplier(bayes_success=0.6, steps=100, bounds=True, **EPOCH)
    assert 0.0 < lower < upper


def test_correlated_noise_says_which_targets_it_takes():
    noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5])
    with pytest.raises(hs.UnsupportedError, match="takes epsilon and delta, or advantage, as the target"):
        hs.get_noise_multiplier(mu=1.0, mechanism=noise, sampling=hs.FixedOrder(10), steps=20)
