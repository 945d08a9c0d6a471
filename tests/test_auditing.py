"""Audits: exact intervals, bounds that hold as often as they say, and attacks that come close."""

import math

import numpy as np
import pytest
from scipy import stats

import hockeystick as hs
from hockeystick import auditing, kernels, training
from hockeystick.accountants import GroupAccountant

DELTA = 1e-2
"""Large, so that what happens with this probability is seen in 200,000 runs."""


@pytest.mark.parametrize(
    ("successes", "trials", "confidence"),
    [
        (0, 1, 0.95),
        (1, 1, 0.95),
        (0, 100, 0.9),
        (3, 100, 0.99),
        (100, 100, 0.95),
        (50, 101, 0.5),
        (4_321, 100_000, 0.999),
        (1_000_000, 3_000_000, 0.95),
        (7, 10**8, 1 - 1e-9),
    ],
)
def test_clopper_pearson_meets_the_quantiles_of_beta_from_outside(successes, trials, confidence):
    lower, upper = auditing.clopper_pearson(successes, trials, confidence)
    error = (1 - confidence) / 2
    low = stats.beta.ppf(error, successes, trials - successes + 1) if successes else 0.0
    high = stats.beta.isf(error, successes + 1, trials - successes) if successes < trials else 1.0
    assert lower <= low * (1 + 1e-12)
    assert upper >= high * (1 - 1e-12)
    assert lower == pytest.approx(low, rel=2e-5)
    assert upper == pytest.approx(high, rel=2e-5)


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_the_bound_from_error_rates_exceeds_epsilon_no_oftener_than_it_says(epsilon):
    # Randomised response of one bit, looked at: its error rates are those of its epsilon. Exact sum.
    runs, confidence = 40, 0.8
    rate = 1 / (1 + math.exp(epsilon))
    counts = np.arange(runs + 1)
    found = stats.binom.pmf(counts, runs, 1 - rate)
    alarms = stats.binom.pmf(counts, runs, rate)
    wrong = sum(
        found[hits] * alarms[misses]
        for hits in counts
        for misses in counts
        if auditing.epsilon_lower_bound(hits, runs, misses, runs, 0.0, confidence) > epsilon
    )
    assert 0 < wrong <= 1 - confidence


def test_the_bound_from_error_rates_is_the_logarithm_of_their_ratio():
    found, missed = 700, 12
    low = stats.beta.ppf(0.025, found, 1000 - found + 1)
    high = stats.beta.isf(0.025, missed + 1, 900 - missed)
    bound = auditing.epsilon_lower_bound(found, 1000, missed, 900, delta=0.01)
    assert bound == pytest.approx(math.log((low - 0.01) / high), rel=1e-4)
    # The same attack with its answers exchanged shows as much.
    assert auditing.epsilon_lower_bound(900 - missed, 900, 1000 - found, 1000, delta=0.01) == bound


@pytest.mark.parametrize("attack", [(0, 100, 0, 100), (50, 100, 50, 100), (3, 100, 90, 100), (1, 1, 0, 1)])
def test_an_attack_that_shows_nothing_gives_zero(attack):
    assert auditing.epsilon_lower_bound(*attack, delta=1e-5) == 0.0
    assert auditing.noise_multiplier_upper_bound(*attack, sample_rate=0.1, steps=10) == math.inf
    assert not auditing.refutes(hs.TradeoffCurve.gaussian(0.0), *attack)


def test_the_noise_of_one_gaussian_step_is_bounded_by_its_closed_form():
    found, missed, runs = 6_000, 2_000, 10_000
    alpha = stats.beta.isf(0.025, missed + 1, runs - missed)
    beta = stats.beta.isf(0.025, runs - found + 1, found)
    expected = 1 / (stats.norm.isf(alpha) - stats.norm.ppf(beta))
    noise = auditing.noise_multiplier_upper_bound(found, runs, missed, runs, sample_rate=1.0, steps=1)
    assert expected <= noise == pytest.approx(expected, rel=1e-3)
    assert auditing.refutes(hs.TradeoffCurve.gaussian(1 / noise), found, runs, missed, runs)
    assert not auditing.refutes(hs.TradeoffCurve.gaussian(1.001 / expected), found, runs, missed, runs)


def one_run_probability(correct, guesses, canaries, delta, epsilon):
    """Steinke, Nasr and Jagielski 2023, Theorem 5.2, term by term."""
    law = stats.binom(guesses, 1 / (1 + math.exp(-epsilon)))
    at_least = law.sf(correct - 1)
    steps = [(law.sf(correct - i - 1) - at_least) / i for i in range(1, canaries + 1)]
    return at_least + 2 * canaries * delta * max(steps)


@pytest.mark.parametrize(
    ("correct", "guesses", "canaries", "delta"),
    [(90, 100, 100, 0.0), (90, 100, 1000, 1e-5), (20, 20, 60, 1e-3), (700, 1000, 1000, 1e-4)],
)
def test_the_bound_of_one_run_is_where_its_theorem_reaches_the_error(correct, guesses, canaries, delta):
    epsilon = auditing.one_run_epsilon_lower_bound(correct, guesses, canaries, delta, confidence=0.9)
    assert epsilon > 0
    assert one_run_probability(correct, guesses, canaries, delta, epsilon) == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 0.0), (0.7, 2e-3), (2.0, 2e-3)])
def test_the_bound_of_one_run_exceeds_epsilon_no_oftener_than_it_says(epsilon, delta):
    # Randomised response of every canary, and with probability delta all of them in the clear. Exact sum.
    canaries, confidence = 100, 0.8
    right = stats.binom.pmf(np.arange(canaries + 1), canaries, 1 / (1 + math.exp(-epsilon)))
    right *= 1 - delta
    right[-1] += delta
    wrong = sum(
        probability
        for correct, probability in enumerate(right)
        if auditing.one_run_epsilon_lower_bound(correct, canaries, canaries, delta, confidence) > epsilon
    )
    assert 0 < wrong <= 1 - confidence


def test_guesses_no_better_than_a_coin_show_nothing():
    assert auditing.one_run_epsilon_lower_bound(0, 50, 50, 1e-5) == 0.0
    assert auditing.one_run_epsilon_lower_bound(27, 50, 50, 1e-5) == 0.0
    # All right is not proof of an infinite epsilon.
    assert 2 < auditing.one_run_epsilon_lower_bound(50, 50, 50, 1e-5) < 4


WORST_CASE = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 10, "group_size": 4}


def worst_case_scores(random, runs, inserted, *, noise_multiplier, sample_rate, steps, group_size):
    """Log-likelihood ratios of runs in which every copy pushes by C along one line, and nothing else does."""
    seen = random.normal(scale=noise_multiplier, size=(runs, steps))
    if inserted:
        seen += random.binomial(group_size, sample_rate, size=seen.shape)
    law = kernels.binomial_law(group_size, sample_rate)
    return kernels.log_likelihood_ratio(seen, *law, noise_multiplier).sum(axis=1)


def test_the_attack_of_the_proof_reaches_nine_tenths_of_the_reported_epsilon():
    # GROUP, Theorem 18, has equality there: copies aligned, other gradients zero, all iterates seen. The best
    # attack says that the copies are in where their loss exceeds epsilon.
    random, runs = np.random.default_rng(18), 200_000
    inside, outside = (worst_case_scores(random, runs, inserted, **WORST_CASE) for inserted in (True, False))

    def counts(threshold):
        return int(np.sum(inside > threshold)), runs, int(np.sum(outside > threshold)), runs

    reported = hs.get_epsilon(delta=DELTA, **WORST_CASE)
    assert 0.9 * reported <= auditing.epsilon_lower_bound(*counts(reported), DELTA) <= reported

    # By the trade-off function a frequent event serves for any delta.
    run = {name: value for name, value in WORST_CASE.items() if name != "noise_multiplier"}
    noise = auditing.noise_multiplier_upper_bound(*counts(1.0), **run)
    assert noise >= WORST_CASE["noise_multiplier"]
    for delta in (1e-5, 1e-9):
        bound = hs.get_epsilon(delta=delta, noise_multiplier=noise, **run)
        assert 0.9 * hs.get_epsilon(delta=delta, **WORST_CASE) <= bound


@pytest.mark.slow
def test_training_has_the_law_of_the_proof_where_canaries_push_alike():
    # One record without a gradient and four copies, each in a batch with probability 3/5: a step an epoch.
    random, runs, steps = np.random.default_rng(19), 1500, 4
    gradients, size = auditing.insert_canaries(
        lambda weights, indices: np.zeros((len(indices), 1)),
        lambda weights, indices: np.full((len(indices), 1), 7.0),
        dataset_size=1,
        inserted=True,
        copies=4,
    )
    law = kernels.binomial_law(4, 0.6)
    scores = np.empty(runs)
    for run in range(runs):
        _, points = training.train(
            gradients,
            [0.0],
            dataset_size=size,
            batch_size=3,
            epochs=steps,
            max_grad_norm=2.0,
            noise_multiplier=2.0,
            learning_rate=0.5,
            sampling="poisson",
            callback=lambda epoch, weights: float(weights[0]),
            seed=random,
        )
        moved = -np.diff(points, prepend=0.0) * 3 / 0.5 / 2.0
        scores[run] = kernels.log_likelihood_ratio(moved, *law, 2.0).sum()
    setting = {"noise_multiplier": 2.0, "sample_rate": 0.6, "steps": steps, "group_size": 4}
    expected = worst_case_scores(random, 20_000, True, **setting)
    absent = worst_case_scores(random, 20_000, False, **setting)
    assert stats.ks_2samp(scores, expected).pvalue > 1e-4
    assert stats.ks_2samp(scores, absent).pvalue < 1e-12


def test_canaries_follow_the_records_and_are_zero_when_out():
    gradients, size = auditing.insert_canaries(
        lambda weights, indices: np.outer(indices + 1.0, weights),
        lambda weights, indices: -np.outer(indices + 1.0, weights),
        dataset_size=2,
        inserted=[True, False, True],
        copies=2,
    )
    assert size == 8
    rows = gradients(np.array([1.0, 10.0]), np.arange(8))
    assert rows[:, 0].tolist() == [1, 2, -1, -1, 0, 0, -3, -3]
    assert rows[:, 1].tolist() == [10, 20, -10, -10, 0, 0, -30, -30]
    assert gradients(np.array([1.0, 10.0]), np.array([5, 0]))[:, 0].tolist() == [0, 1]
    accountant = GroupAccountant(group_size=2)
    training.train(
        gradients,
        [0.0, 0.0],
        dataset_size=size,
        batch_size=2,
        epochs=1,
        max_grad_norm=1.0,
        noise_multiplier=1.0,
        learning_rate=0.1,
        sampling="poisson",
        accountant=accountant,
        seed=1,
    )
    assert accountant.history == [(1.0, 0.25, 4)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: auditing.clopper_pearson(3, 2), ValueError, r"successes.*\[0, 2\], got 3"),
        (lambda: auditing.clopper_pearson(0, 0), ValueError, "trials.*got 0"),
        (lambda: auditing.clopper_pearson(0, 1, 1.0), ValueError, r"confidence.*\(0, 1\), got 1.0"),
        (lambda: auditing.clopper_pearson(True, 1), TypeError, "successes"),
        (lambda: auditing.epsilon_lower_bound(2, 1, 0, 1, 0.0), ValueError, "true_positives"),
        (lambda: auditing.epsilon_lower_bound(1, 1, 2, 1, 0.0), ValueError, "false_positives"),
        (lambda: auditing.epsilon_lower_bound(1, 0, 0, 1, 0.0), ValueError, "positives"),
        (lambda: auditing.epsilon_lower_bound(1, 1, 0, 10**9, 0.0), ValueError, "negatives"),
        (lambda: auditing.epsilon_lower_bound(1, 1, 0, 1, 1.0), ValueError, "delta.*got 1.0"),
        (lambda: auditing.epsilon_lower_bound(1, 1, 0, 1, math.nan), ValueError, "delta.*got nan"),
        (lambda: auditing.refutes(2.0, 1, 1, 0, 1), TypeError, "curve.*float"),
        (lambda: auditing.one_run_epsilon_lower_bound(3, 2, 5, 0.0), ValueError, "correct"),
        (lambda: auditing.one_run_epsilon_lower_bound(1, 6, 5, 0.0), ValueError, "guesses"),
        (lambda: auditing.one_run_epsilon_lower_bound(1, 1, 10**7, 0.0), ValueError, "canaries"),
        (lambda: auditing.one_run_epsilon_lower_bound(1, 1, 5, 0.1), ValueError, r"delta.*\[0, 0.1\)"),
        (
            lambda: auditing.noise_multiplier_upper_bound(1, 1, 0, 1, sample_rate=0.1, steps=0),
            ValueError,
            "steps.*got 0",
        ),
        (
            lambda: auditing.noise_multiplier_upper_bound(9, 9, 0, 9, sample_rate=2.0, steps=1),
            ValueError,
            "sample_rate.*got 2",
        ),
        (
            lambda: auditing.insert_canaries(1, print, dataset_size=1, inserted=True),
            TypeError,
            "gradients must be a function",
        ),
        (
            lambda: auditing.insert_canaries(print, print, dataset_size=1, inserted=[1, 0]),
            TypeError,
            "inserted.*int64",
        ),
        (
            lambda: auditing.insert_canaries(print, print, dataset_size=1, inserted=[[True]]),
            ValueError,
            r"inserted.*\(1, 1\)",
        ),
        (
            lambda: auditing.insert_canaries(print, print, dataset_size=1, inserted=True, copies=0),
            ValueError,
            "copies.*got 0",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
