"""Runs whose parameters change at every update: no accountant refuses them, and bounds hold."""

import math
import time

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves.coarsening import MOST_EXACT, coarsened, rounded_segments
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

MANY = 12_000
DELTA = 1e-5

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")


def schedule(first, last, length=MANY):
    return np.geomspace(first, last, length).tolist()


@pytest.fixture
def low_limits(monkeypatch):
    """Limits at which a few hundred kinds of steps are many: rounding is the same."""
    monkeypatch.setattr("hockeystick._curves.coarsening.MOST_EXACT", 100)
    monkeypatch.setattr("hockeystick._curves.coarsening.MOST_ROUNDED", 80)


def curve_of(kinds, adjacency="add_remove"):
    """A curve of one step of each kind."""
    steps = {}
    for kind in kinds:
        found = hs.privacy_curve(steps=1, adjacency=adjacency, **kind)
        steps.update(dict(found.segments))
    return hs.PrivacyCurve(steps, adjacency, 1e-6)


def gaussian_delta(mu, epsilon):
    """The closed form of Balle and Wang 2018, of full batches."""

    def tail(x):
        return 0.5 * math.erfc(x / math.sqrt(2.0))

    return tail(epsilon / mu - mu / 2) - math.exp(epsilon) * tail(epsilon / mu + mu / 2)


def test_full_batches_with_noise_of_their_own_enclose_the_closed_form():
    sigmas = schedule(400.0, 90.0)
    mu = math.sqrt(math.fsum(sigma**-2 for sigma in sigmas))
    curve = curve_of([{"noise_multiplier": sigma, "sampling": hs.FullBatch()} for sigma in sigmas])
    assert len(curve.segments) == MANY > MOST_EXACT
    for epsilon in (0.5, 2.0, 5.0):
        lower, upper = curve.bounds(epsilon=epsilon)
        assert lower <= gaussian_delta(mu, epsilon) <= upper
        assert upper <= lower * 1.02
    with pytest.warns(hs.WideIntervalWarning):
        assert curve.epsilon(DELTA) > 0.0


def test_sampled_batches_lie_between_runs_of_less_and_more_noise():
    # A few kinds of steps that the exact curve knows, moved apart so that each step is a kind of its own.
    few, apart = schedule(3.0, 1.0, 12), 1e-9
    sigmas = [sigma * (1.0 + apart * i) for sigma in few for i in range(1, MANY // len(few) + 1)]
    parts = {"sample_rate": 0.01, "steps": MANY // len(few)}
    exact = sum(
        (hs.privacy_curve(noise_multiplier=sigma, **parts) for sigma in few[1:]),
        hs.privacy_curve(noise_multiplier=few[0], **parts),
    )
    truth_above = exact.epsilon(DELTA)
    less = [sigma * (1.0 + apart * MANY) for sigma in few]
    truth_below = sum(
        (hs.privacy_curve(noise_multiplier=sigma, **parts) for sigma in less[1:]),
        hs.privacy_curve(noise_multiplier=less[0], **parts),
    ).bounds(delta=DELTA)[0]
    accountant = GroupAccountant()
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=0.01)
    lower, upper = accountant.privacy_curve().bounds(delta=DELTA)
    assert lower <= truth_above
    assert truth_below <= upper
    # Steps that are nearly equal are hardly moved.
    assert upper - lower <= 1e-5 * upper
    assert accountant.get_epsilon(DELTA) == upper


@pytest.mark.slow
@pytest.mark.filterwarnings("error::hockeystick.WideIntervalWarning")
def test_a_schedule_of_different_steps_is_certified_as_narrowly_as_a_short_run():
    # 100,000 different steps, in any order.
    sigmas = np.linspace(1.0, 2.0, 100_000)
    found = []
    for order in (sigmas, np.random.default_rng(1).permutation(sigmas)):
        accountant = GroupAccountant()
        for sigma in order.tolist():
            accountant.step(noise_multiplier=sigma, sample_rate=0.01)
        lower, upper = accountant.privacy_curve().bounds(delta=DELTA)
        assert 0.0 < lower <= upper <= lower * (1.0 + 1e-6)
        assert accountant.get_epsilon(DELTA) == upper
        found.append((lower, upper))
    assert found[0] == found[1]
    # Runs of a few kinds enclose it: each step with the noise at one end of its part of the schedule.
    lower, upper = found[0]
    parts, length = 250, 100_000 // 250

    def enclosing(place):
        kinds = {}
        for sigma in sigmas[place::length].tolist():
            run = hs.privacy_curve(noise_multiplier=sigma, sample_rate=0.01, steps=length)
            kinds.update(dict(run.segments))
        assert len(kinds) == parts
        return hs.PrivacyCurve(kinds, "add_remove", 1e-6).bounds(delta=DELTA)

    less, more = enclosing(0), enclosing(length - 1)
    assert upper < less[0] < 1.01 * lower
    assert 0.99 * upper < more[1] < lower


@pytest.mark.filterwarnings("error::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize(("group_size", "rates"), [(1, 1.0), (8, 1.0), (1, 1.3)])
def test_merged_schedules_agree_with_the_composition_of_all_steps(monkeypatch, adjacency, group_size, rates):
    sigmas = np.linspace(2.0, 2.5, 400 if rates == 1.0 else 900).tolist()
    kinds = [
        {
            "noise_multiplier": sigma,
            "sample_rate": 0.01 * rates ** ((0.618 * i) % 1.0),
            "group_size": group_size,
        }
        for i, sigma in enumerate(sigmas)
    ]
    exact = curve_of(kinds, adjacency) * 25
    monkeypatch.setattr("hockeystick._curves.composed_run.MERGED_FROM", 100)
    merged = curve_of(kinds, adjacency) * 25
    monkeypatch.setattr("hockeystick._curves.composed_run.ComposedRun._both_ends_of_all", None)
    for question in ({"delta": 1e-6}, {"delta": 1e-3}, {"epsilon": 0.3}):
        found = merged.bounds(**question)
        assert 0.0 < found[0] <= found[1] <= found[0] * (1.0 + 1e-6)
        monkeypatch.undo()
        truth = exact.bounds(**question)
        assert found[0] <= truth[1]
        assert truth[0] <= found[1]
        monkeypatch.setattr("hockeystick._curves.composed_run.MERGED_FROM", 100)
        monkeypatch.setattr("hockeystick._curves.composed_run.ComposedRun._both_ends_of_all", None)


def test_what_cannot_be_merged_is_rounded(monkeypatch):
    # Next to no noise: no cell is certified. Full batches belong to no schedule.
    monkeypatch.setattr("hockeystick._curves.composed_run.MERGED_FROM", 100)
    few = [{"noise_multiplier": sigma, "sample_rate": 0.3} for sigma in np.linspace(0.06, 0.12, 150).tolist()]
    full = [{"noise_multiplier": sigma, "sample_rate": 1.0} for sigma in schedule(40.0, 20.0, 150)]
    for kinds, width in ((few, 2e-7), (full, 1e-13)):
        found = curve_of(kinds).bounds(delta=DELTA)
        with monkeypatch.context() as never:
            never.setattr("hockeystick._curves.composed_run.MERGED_FROM", 10**9)
            truth = curve_of(kinds).bounds(delta=DELTA)
        assert found[0] <= truth[1]
        assert truth[0] <= found[1]
        assert found[1] - found[0] <= width * found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "ends"),
    [
        pytest.param(
            lambda b: {"mechanism": hs.Laplace(b), "sample_rate": 0.01},
            (30.0, 10.0),
            id="laplace",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda x: {"mechanism": hs.RandomizedResponse(0.5 + x), "sample_rate": 0.01},
            (0.05, 0.2),
            id="randomised response",
            marks=pytest.mark.long,
        ),
        pytest.param(lambda q: {"noise_multiplier": 2.0, "sample_rate": q}, (0.001, 0.02), id="rates"),
    ],
)
def test_other_parameters_enclose_the_exact_run(low_limits, monkeypatch, of, ends):
    kinds = [of(x) for x in schedule(*ends, 200)]
    lower, upper = curve_of(kinds).bounds(delta=1e-3)
    monkeypatch.setattr("hockeystick._curves.coarsening.MOST_EXACT", 1_000)
    exact = curve_of(kinds).bounds(delta=1e-3)
    assert 0.0 < lower < exact[0] <= exact[1] < upper < 1.1 * lower


def parameter(step, name):
    """Return a number of a step, whether it stands for a noun or belongs to one."""
    noun = step.noise if name == "noise" else step.draw
    if isinstance(noun, float):
        return noun
    attributes = {hs.Laplace: "scale", hs.RandomizedResponse: "p"}
    return getattr(noun, attributes.get(type(noun), name))


@pytest.mark.parametrize(
    ("kind", "more_leaks"),
    [
        ({"noise_multiplier": 1.2345, "sample_rate": 0.1234}, {"noise": -1, "sample_rate": 1}),
        ({"mechanism": hs.Laplace(1.2345), "sample_rate": 0.1234}, {"noise": -1, "sample_rate": 1}),
        ({"mechanism": hs.RandomizedResponse(0.6789), "sample_rate": 0.1234}, {"noise": 1, "sample_rate": 1}),
        (
            {"noise_multiplier": 1.2345, "sampling": hs.WithoutReplacement(12_345, 654_321)},
            {"noise": -1, "batch_size": 1, "dataset_size": -1},
        ),
    ],
    ids=["gaussian", "laplace", "randomised response", "fixed batches"],
)
def test_each_parameter_is_rounded_to_the_side_that_is_said(monkeypatch, kind, more_leaks):
    monkeypatch.setattr("hockeystick._curves.coarsening.MOST_EXACT", 0)
    curve = hs.privacy_curve(steps=3, **kind)
    ((plain, _),) = curve.segments
    # One kind of step keeps all its bits; with as few as allowed both sides differ from it.
    assert coarsened(dict(curve.segments)) == ({plain: 3}, {plain: 3})
    monkeypatch.setattr("hockeystick._curves.coarsening._most_bits", lambda count, most: 4)
    leaking, sparing = coarsened(dict(curve.segments))
    ((more, count),), ((less, _),) = leaking.items(), sparing.items()
    assert count == 3
    for name, sign in more_leaks.items():
        fewer, given, most = (parameter(step, name) for step in (less, plain, more))
        assert sign * fewer < sign * given < sign * most
        assert abs(most / given - 1.0) <= 1 / 16
    epsilons = [hs.PrivacyCurve({step: 3}, "add_remove", 1e-6).epsilon(DELTA) for step in (less, plain, more)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < epsilons[2]


def test_the_answer_does_not_depend_on_the_order_of_the_steps():
    sigmas = schedule(4.0, 1.5)
    answers = []
    for order in (sigmas, sigmas[::-1]):
        accountant = GroupAccountant()
        for sigma in order:
            accountant.step(noise_multiplier=sigma, sample_rate=1.0)
        answers.append(accountant.get_delta(1000.0))
    assert answers[0] == answers[1]


def test_sums_of_curves_may_have_many_kinds_too(low_limits):
    first = curve_of([{"noise_multiplier": s, "sample_rate": 0.01} for s in schedule(4.0, 3.0, 60)])
    second = curve_of([{"noise_multiplier": s, "sample_rate": 0.01} for s in schedule(2.9, 2.0, 60)])
    both = first + second
    assert len(both.segments) == 120
    lower, upper = both.bounds(delta=DELTA)
    assert max(first.epsilon(DELTA), second.epsilon(DELTA)) < upper < 1.1 * lower


def test_renyi_bounds_of_full_batches_are_those_of_the_sum():
    sigmas = schedule(400.0, 90.0)
    accountant = RenyiGroupAccountant()
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=1.0)
    for order in (1.5, 8.0):
        exact = order / 2 * math.fsum(sigma**-2 for sigma in sigmas)
        assert exact <= accountant.get_renyi(order) <= exact * 1.005


@pytest.mark.slow
def test_a_monte_carlo_interval_holds_the_truth():
    sigmas = schedule(120.0, 40.0, 1_200)
    mu = math.sqrt(math.fsum(sigma**-2 for sigma in sigmas))
    accountant = MonteCarloAccountant(samples=20_000, adjacency="remove")
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=1.0)
    found = accountant.get_delta_interval(1.0)
    assert found.lower <= gaussian_delta(mu, 1.0) <= found.upper
    assert found.upper <= 1.3 * found.lower


def test_a_shuffled_run_of_many_noises_is_no_worse_than_all_of_it_at_the_least():
    accountant = ShuffleAccountant(batch_size=10, dataset_size=1_000)
    for sigma in schedule(400.0, 200.0):
        accountant.step(noise_multiplier=sigma, sample_rate=0.01)
    # Each of the 120 epochs shows a record once, with the noise of its batch.
    least, most = (hs.TradeoffCurve.gaussian(2.0 * math.sqrt(MANY / 100) / s) for s in (400.0, 200.0))
    assert least.epsilon(DELTA) < accountant.get_epsilon(DELTA) < most.epsilon(DELTA)


@pytest.mark.slow
def test_individual_accounts_take_rates_of_their_own():
    accountant = IndividualAccountant(2)
    for rate in schedule(0.001, 0.002, 10_100):
        accountant.step(noise_multiplier=4.0, sample_rate=rate)
    (most, least) = (
        hs.get_epsilon(delta=DELTA, noise_multiplier=4.0, sample_rate=rate, steps=10_100)
        for rate in (0.002, 0.001)
    )
    assert least < accountant.get_epsilon(DELTA) < most


def test_recording_and_asking_take_time_in_proportion():
    def seconds(length):
        sigmas = schedule(4.0, 2.0, length)
        accountant = GroupAccountant()
        start = time.process_time()
        for sigma in sigmas:
            accountant.step(noise_multiplier=sigma, sample_rate=0.001)
        return time.process_time() - start

    short = min(seconds(5_000) for _ in range(3))
    assert seconds(40_000) <= 8 * short * 3


def test_few_segments_are_left_as_they_are():
    segments = [(1.1, 0.1, 3), (hs.Laplace(2.0), 0.2, 4), (1.3, hs.FullBatch(), 5)]
    assert rounded_segments(segments) == segments
    assert rounded_segments(segments, most_exact=0, most=1)[1:] == [
        (hs.Laplace(2.0), 0.203125, 4),
        (1.25, hs.FullBatch(), 5),
    ]
