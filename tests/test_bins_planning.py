"""Planners, curves and accountants of random bins under correlated noise: they work, or refuse by name."""

import json
import math
import pickle

import numpy as np
import pytest
from nightly import some

import hockeystick as hs
from hockeystick._curves.bins_solving import _Search
from hockeystick._curves.chain_of_bins import quotient

CGD = hs.CorrelatedNoise.lambda_cgd(0.5)
TWO_BANDS = hs.CorrelatedNoise.toeplitz([2.0, 1.0])
BUFFER = hs.CorrelatedNoise.blt([0.3], [0.8])
IDENTITY = hs.CorrelatedNoise.toeplitz([1.0])
BINS = hs.FixedBins(4)
RUN = {"sampling": BINS, "steps": 12}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")]


@pytest.fixture(scope="module")
def curve():
    return hs.privacy_curve(mechanism=CGD.with_noise(5.0), **RUN)


@pytest.mark.parametrize("mechanism", some([CGD, TWO_BANDS, BUFFER], 3))
def test_the_noise_for_a_target_meets_it_and_a_little_less_does_not(mechanism):
    target, run = {"epsilon": 1.0, "delta": 1e-4}, {"sampling": hs.FixedBins(2), "steps": 4}
    lower, upper = hs.get_noise_multiplier(mechanism=mechanism, bounds=True, tolerance=1e-4, **target, **run)
    assert 0.0 < lower < upper <= lower * (1.0 + 2e-4)
    assert hs.get_delta(epsilon=1.0, mechanism=mechanism.with_noise(upper), **run) <= 1e-4
    with_less = hs.get_delta(epsilon=1.0, mechanism=mechanism.with_noise(lower), bounds=True, **run)
    assert with_less[0] > 1e-4
    # Amplified: with the bin known, more noise is needed.
    fixed = hs.get_noise_multiplier(mechanism=mechanism, sampling=hs.FixedOrder(2), steps=4, **target)
    assert upper < 0.99 * fixed


def test_numbers_of_a_planner_broadcast():
    plan = {"mechanism": CGD.with_noise(3.0), "sampling": hs.FixedBins(2), "tolerance": 1e-3}
    found = hs.get_noise_multiplier(epsilon=[0.5, 1.0], delta=1e-3, steps=[[0], [4]], **plan)
    assert found.shape == (2, 2)
    assert np.all(found[0] == 0.0)
    assert found[1, 0] > found[1, 1] > 0.0
    advantage = hs.get_noise_multiplier(advantage=0.1, steps=4, **plan)
    assert (
        hs.get_delta(epsilon=0.0, mechanism=CGD.with_noise(advantage), sampling=hs.FixedBins(2), steps=4)
        <= 0.1
    )


@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove"])
def test_the_identity_is_fixed_bins_to_all_digits(adjacency):
    run = {"sampling": hs.FixedBins(10), "steps": 30, "adjacency": adjacency}
    alone, matrix = {"noise_multiplier": 2.0}, {"mechanism": IDENTITY.with_noise(2.0)}
    for ask, at in ((hs.get_epsilon, {"delta": [1e-6, 1e-9]}), (hs.get_delta, {"epsilon": [0.0, 1.0]})):
        plain, found = (ask(bounds=True, **at, **how, **run) for how in (alone, matrix))
        assert np.array_equal(plain, found)
    target = {"epsilon": 1.0, "delta": 1e-6, "bounds": True}
    assert hs.get_noise_multiplier(**target, **run) == hs.get_noise_multiplier(
        mechanism=IDENTITY, **target, **run
    )
    assert hs.privacy_curve(**matrix, **run) == hs.privacy_curve(**alone, **run)
    accountants = [hs.accountants.GroupAccountant(adjacency=adjacency) for _ in range(2)]
    accountants[0].step(sampling=run["sampling"], steps=30, **alone)
    accountants[1].step(sampling=run["sampling"], steps=30, **matrix)
    assert accountants[0].get_epsilon(1e-6) == accountants[1].get_epsilon(1e-6)
    assert "tight" in str(accountants[1])
    # Scaled: the noise of Z over the scale, rounded to the safe side.
    third = hs.CorrelatedNoise.toeplitz([3.0])
    low, high = hs.get_noise_multiplier(mechanism=third, **target, **run)
    plain = hs.get_noise_multiplier(**target, **run)
    assert low <= 3.0 * plain[0] <= 3.0 * plain[1] <= high <= 3.0 * plain[1] * (1.0 + 1e-15)


def test_the_curve_answers_as_the_functions(curve):
    run = {"mechanism": CGD.with_noise(5.0), **RUN}
    assert isinstance(curve, hs.BinsCurve)
    assert curve.epsilon(1e-5) == hs.get_epsilon(delta=1e-5, **run)
    assert curve.get_delta(1.0) == hs.get_delta(epsilon=1.0, **run)
    assert curve.advantage() == hs.get_delta(epsilon=0.0, **run)
    lower, upper = curve.bounds(epsilon=[[0.5], [1.0]])
    assert lower.shape == (2, 1)
    assert np.all(lower <= upper)
    assert curve.tight
    assert curve.steps == 12
    assert curve.group_size == 1
    assert curve.mechanism == CGD.with_noise(5.0)
    assert pickle.loads(pickle.dumps(curve)) == curve
    assert hash(pickle.loads(pickle.dumps(curve))) == hash(curve)
    assert curve != hs.privacy_curve(mechanism=CGD.with_noise(5.1), **RUN)
    assert "FixedBins" in repr(curve)
    assert "FixedBins" in curve._repr_html_()


def test_error_rates_are_below_the_trade_off_function(curve):
    """Error rates of the likelihood-ratio test, by samples of the pair in both orders."""
    generator = np.random.default_rng(4)
    matrix = CGD.matrix(12)
    means = np.stack([matrix[:, place::4].sum(axis=1) for place in range(4)]) / 5.0
    norms = (means**2).sum(axis=1)

    def ratios(points):
        return np.exp(points @ means.T - 0.5 * norms).mean(axis=1)

    count = 200_000
    noise = generator.normal(size=(count, 12))
    without = ratios(noise)
    present = ratios(noise[:, ::-1] + means[generator.integers(4, size=count)])
    alphas = np.array([0.001, 0.01, 0.1, 0.3, 0.6])
    found = curve.beta(alphas)
    for alpha, beta in zip(alphas, found, strict=True):
        removed = np.mean(present <= np.quantile(without, 1.0 - alpha))
        added = np.mean(without >= np.quantile(present, alpha))
        error = 5.0 * math.sqrt(0.25 / count) + 2e-3 * removed
        assert beta <= min(removed, added) + error
        assert beta >= min(removed, added) - error - 2e-3
    assert curve.beta(1.0) == 0.0
    assert 1.0 - 1e-6 < curve.beta(0.0) <= 1.0
    with pytest.raises(ValueError, match="alpha"):
        curve.beta([0.1, 1.1])


def test_an_epoch_that_is_not_complete_lies_between_whole_ones():
    run = {"mechanism": CGD.with_noise(4.0), "sampling": BINS, "epsilon": 0.5}
    one, two = (hs.get_delta(steps=steps, bounds=True, **run) for steps in (4, 8))
    between = hs.get_delta(steps=6, bounds=True, **run)
    assert between == (one[0], two[1])
    assert hs.get_delta(steps=3, bounds=True, **run) == (0.0, one[1])
    assert not hs.privacy_curve(mechanism=CGD.with_noise(4.0), sampling=BINS, steps=6).tight
    estimate = hs.estimate_delta(seed=1, samples=20_000, steps=6, confidence=0.999, **run)
    assert between[0] <= estimate.upper
    assert estimate.lower <= between[1]


def test_an_accountant_records_such_a_run_alone():
    accountant = hs.accountants.GroupAccountant()
    noise = CGD.with_noise(5.0)
    for _ in range(12):
        accountant.step(mechanism=noise, sampling=BINS)
    assert accountant.history == [(noise, BINS, 12)]
    assert accountant.get_epsilon(1e-5) == hs.get_epsilon(delta=1e-5, mechanism=noise, **RUN)
    assert accountant.privacy_curve() == hs.privacy_curve(mechanism=noise, **RUN)
    assert accountant.privacy_curve() is accountant.privacy_curve()
    assert "random bins" in str(accountant)
    again = hs.accountants.GroupAccountant()
    again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert again.history == accountant.history
    for other in (
        {"noise_multiplier": 1.0, "sample_rate": 0.1},
        {"mechanism": CGD.with_noise(6.0), "sampling": BINS},
        {"mechanism": noise, "sampling": hs.FixedOrder(4)},
    ):
        with pytest.raises(hs.UnsupportedError, match="run of their own"):
            accountant.step(**other)
    assert len(accountant) == 12
    mixed = hs.accountants.GroupAccountant()
    mixed.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(hs.UnsupportedError, match="run of their own"):
        mixed.step(mechanism=noise, sampling=BINS)
    with pytest.raises(hs.UnsupportedError, match="group_size 2"):
        hs.accountants.GroupAccountant(group_size=2).step(mechanism=noise, sampling=BINS)
    with pytest.raises(hs.UnsupportedError, match="two coefficients"):
        hs.accountants.GroupAccountant().step(
            mechanism=hs.CorrelatedNoise.prefix_sum_root(4.0), sampling=BINS
        )


NOISE = CGD.with_noise(5.0)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda curve: curve.renyi(2.0), "moments of the likelihood ratio"),
        (lambda curve: curve.best_of(hs.PoissonRuns(3)), "Rényi divergences"),
        (lambda curve: curve + curve, "one run"),
        (lambda curve: curve * 2, "one run"),
        (lambda curve: 2 * curve, "one run"),
        (lambda curve: hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=1) + curve, "one run"),
        (hs.report, "no account of a step"),
        (lambda _: hs.explain(delta=1e-5, mechanism=NOISE, **RUN), "correlates the noise of all steps"),
        (
            lambda _: hs.get_steps(epsilon=1.0, delta=1e-5, mechanism=NOISE, sampling=BINS),
            "correlates the noise of all steps",
        ),
        (
            lambda _: hs.get_group_size(epsilon=1.0, delta=1e-5, mechanism=NOISE, sampling=BINS, steps=12),
            "correlates the noise of all steps",
        ),
        (lambda _: hs.privacy_curve(mechanism=NOISE, group_size=2, **RUN), "group_size 2"),
        (lambda _: hs.privacy_curve(mechanism=NOISE, adjacency="replace", **RUN), "replace"),
        (lambda _: hs.get_noise_multiplier(mu=1.0, mechanism=CGD, **RUN), "epsilon and delta, or advantage"),
        (
            lambda _: hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, mechanism=CGD, group_size=2, **RUN),
            "group_size 2",
        ),
        (
            lambda _: hs.get_noise_multiplier(
                epsilon=1.0, delta=1e-5, mechanism=hs.CorrelatedNoise.prefix_sum_root(), **RUN
            ),
            "two coefficients",
        ),
    ],
)
def test_what_is_not_derived_is_refused_with_the_reason(curve, ask, words):
    with pytest.raises(hs.UnsupportedError, match=words):
        ask(curve)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: hs.BinsCurve(5.0, BINS, 12), TypeError, "mechanism"),
        (lambda: hs.BinsCurve(NOISE, hs.FullBatch(), 12), TypeError, "sampling"),
        (lambda: hs.BinsCurve(CGD, BINS, 12), TypeError, "with_noise"),
        (lambda: hs.BinsCurve(CGD.with_noise(0.0), BINS, 12), ValueError, "noise_multiplier"),
        (lambda: hs.BinsCurve(NOISE, BINS, -1), ValueError, "steps"),
        (lambda: hs.BinsCurve(NOISE, BINS, 12, tolerance=1.0), ValueError, "tolerance"),
        (lambda: hs.privacy_curve(mechanism=CGD, **RUN), TypeError, "with_noise"),
        (lambda: hs.get_delta(epsilon=-1.0, mechanism=NOISE, **RUN), ValueError, "epsilon"),
        (lambda: hs.get_epsilon(delta=1.0, mechanism=NOISE, **RUN), ValueError, "delta"),
        (
            lambda: hs.get_noise_multiplier(epsilon=math.inf, delta=0.1, mechanism=CGD, **RUN),
            ValueError,
            "epsilon",
        ),
    ],
)
def test_arguments_are_checked(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_search_ends_where_there_is_too_little_noise_for_an_answer():
    """What is known is returned: the smallest noise that was seen to meet the target, and nothing below."""
    tried = []

    def ends(noise):
        tried.append(noise)
        if noise < 0.5:
            raise hs.UnsupportedError("too much work")
        return 0.01, 0.02

    lower, upper = _Search(ends, 0.1, 1e-4).between(2.0)
    assert lower == 0.0
    assert upper == min(noise for noise in tried if noise >= 0.5)
    assert len(tried) < 10


@pytest.mark.parametrize("width", [0.0, 1e-7, 0.1])
def test_a_search_brackets_the_noise_by_both_ends_of_delta(width):
    def ends(noise):
        return (1.0 - width) * math.exp(-(noise**2)), (1.0 + width) * math.exp(-(noise**2))

    lower, upper = _Search(ends, 0.1, 1e-6).between(9.0)
    first, last = (math.sqrt(math.log(factor / 0.1)) for factor in (1.0 - width, 1.0 + width))
    assert lower <= first * (1.0 + 1e-12)
    assert last * (1.0 - 1e-12) <= upper <= last * (1.0 + 1e-6)
    assert lower >= first * (1.0 - (1e-6 + 4.0 * width))
    assert ends(upper)[1] <= 0.1 < ends(lower)[0]


def test_quotients_are_rounded_as_asked():
    for a, b in ((1.0, 3.0), (2.0, 3.0), (4.0, 2.0), (5.0, 7.0), (0.0, 3.0)):
        low, high = quotient(a, b, 0.0), quotient(a, b, math.inf)
        assert low * b <= a * (1.0 + 1e-15)
        assert high >= low
        assert (high == low) == (a % b == 0.0)
