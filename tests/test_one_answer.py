"""One question, one answer: epsilon and delta agree, and bounds that contradict each other are an error."""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

import hockeystick as hs
from hockeystick import _core
from hockeystick._vocabulary import intervals

SMALL_NOISE = {
    "noise_multiplier": 0.026,
    "sample_rate": 1e-12,
    "steps": 10**5,
    "group_size": 10**4,
    "adjacency": "remove",
}

NORMLESS = hs.Group(norms=(0.0, 0.0))


def _plans(seed: int, count: int) -> list[tuple[float, dict[str, object]]]:
    """Delta and run, from ordinary ones to those with hardly any noise or hardly any sampling."""
    draw = random.Random(seed)
    found: list[tuple[float, dict[str, object]]] = []
    for _ in range(count):
        run: dict[str, object] = {
            "noise_multiplier": 10 ** draw.uniform(-0.6, 1.3),
            "sample_rate": 10 ** draw.uniform(-5, -0.3),
            "steps": int(10 ** draw.uniform(0, 4)),
            "group_size": int(10 ** draw.uniform(0, 1.3)),
            "adjacency": draw.choice(["add_remove", "add", "remove"]),
        }
        found.append((10 ** draw.uniform(-draw.choice([3, 8, 40]), -0.5), run))
    return found


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    ("delta", "run"),
    [
        *(pytest.param(*p, marks=pytest.mark.slow) if i == 31 else p for i, p in enumerate(_plans(20, 40))),
        (1e-5, SMALL_NOISE),
        pytest.param(
            4.08e-86,
            {"noise_multiplier": 3.4333, "sample_rate": 2.23e-8, "steps": 5, "adjacency": "remove"},
            marks=pytest.mark.slow,
        ),
        (3.88e-90, {"noise_multiplier": 11.1114, "sample_rate": 1.117e-4, "steps": 281}),
        (1.86e-5, {"noise_multiplier": 3.553, "sampling": hs.WithoutReplacement(6, 845), "steps": 5}),
    ],
)
def test_delta_at_the_returned_epsilon_is_at_most_delta(delta: float, run: dict[str, object]) -> None:
    epsilon = hs.get_epsilon(delta=delta, **run)
    assert np.isfinite(epsilon)
    assert hs.get_delta(epsilon=epsilon, **run) <= delta


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_where_far_outputs_are_many_delta_is_as_narrow_as_epsilon() -> None:
    lower, upper = hs.get_epsilon(delta=1e-5, bounds=True, **SMALL_NOISE)
    assert upper - lower < 1e-3 * upper
    low, high = hs.get_delta(epsilon=upper, bounds=True, **SMALL_NOISE)
    assert 0.0 < low <= high <= 1e-5
    assert high < 1.1 * low


@pytest.mark.parametrize(
    ("delta", "run"),
    [
        (0.0147, {"noise_multiplier": 0.0279, "sample_rate": 1.5e-6, "steps": 3}),
        (0.00357, {"noise_multiplier": 0.0905, "sample_rate": 3.5e-7, "steps": 1, "group_size": 443}),
        (0.00467, {"noise_multiplier": 0.0885, "sample_rate": 1.02e-4, "steps": 8, "group_size": 2}),
        (1e-9, {"noise_multiplier": 1.0, "sample_rate": 0.0, "steps": 100}),
        (1e-9, {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 0}),
        (
            1e-9,
            {"noise_multiplier": 0.0, "group": NORMLESS, "sample_rate": 0.5, "steps": 9},
        ),
        (0.5, {"noise_multiplier": 100.0, "sample_rate": 0.1, "steps": 10}),
    ],
)
def test_an_epsilon_of_zero_is_exactly_zero(delta: float, run: dict[str, object]) -> None:
    assert hs.get_epsilon(delta=delta, bounds=True, **run) == (0.0, 0.0)


def test_the_total_variation_needs_no_epsilon() -> None:
    for _, run in _plans(21, 8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hs.WideIntervalWarning)
            advantage = hs.get_delta(epsilon=0.0, **run)
            if advantage < 1.0:
                assert hs.get_epsilon(delta=advantage, **run) == 0.0


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_planned_runs_meet_their_target_when_asked_again() -> None:
    run = {"sample_rate": 0.013, "steps": 700, "group_size": 3}
    sigma = hs.get_noise_multiplier(epsilon=1.7, delta=3e-7, **run)
    assert hs.get_epsilon(delta=3e-7, noise_multiplier=sigma, **run) <= 1.7
    assert hs.get_delta(epsilon=1.7, noise_multiplier=sigma, **run) <= 3e-7


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    ("batches", "steps", "noise"), [(3000, 1000, 0.9), (1000, 900, 1.5)], ids=["little noise", "noise"]
)
def test_no_answer_about_a_part_of_an_epoch_depends_on_what_was_asked_before(batches, steps, noise) -> None:
    # Work on shared tables counted again later: delta at 0 was then [1.6e-24, 0.0155] in place of 0.0090.
    run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(batches), "steps": steps}
    alone = hs.privacy_curve(**run).bounds(epsilon=0.0)
    curve = hs.privacy_curve(**run)
    for delta in (1e-10, 1e-12, 1e-9):
        curve.bounds(delta=delta)
    assert curve.bounds(epsilon=0.0) == alone
    assert alone[1] < alone[0] * 1.001


def test_no_answer_depends_on_what_was_asked_before() -> None:
    def curve() -> hs.PrivacyCurve:
        return hs.privacy_curve(noise_multiplier=0.8, sample_rate=0.1, steps=60, group_size=3)

    asked = curve()
    for delta in (1e-9, 1e-3, 1e-40):
        asked.epsilon(delta)
    for epsilon in (0.0, 3.0, 0.7):
        asked.delta(epsilon)
    asked.beta(0.3)
    asked.renyi(5.0)
    core = asked._run.composition()
    core.delta_by("inversion", np.array([2.0]))
    for epsilon in (2.0, 2.001, 5.0):
        assert asked.bounds(epsilon=epsilon) == curve().bounds(epsilon=epsilon)
        there = np.array([epsilon])
        assert core.delta_by("inversion", there) == curve()._run.composition().delta_by("inversion", there)
    for delta in (1e-5, 2e-9):
        assert asked.bounds(delta=delta) == curve().bounds(delta=delta)
    assert asked.beta(0.1) == curve().beta(0.1)
    assert asked.renyi(3.0) == curve().renyi(3.0)


def test_one_step_of_a_large_group_takes_no_time() -> None:
    size, rate, sigma, delta = 10_000, 0.9, 0.3, 1e-5
    start = time.process_time()
    lower, upper = hs.get_epsilon(
        delta=delta, noise_multiplier=sigma, sample_rate=rate, steps=1, group_size=size, bounds=True
    )
    assert time.process_time() - start < 10.0  # 0.1 s; it was minutes
    assert upper - lower <= 1e-6 * upper
    # "Remove": where log(p/q) is epsilon, delta is P's tail less p times Mills' ratio of Q.
    counts = np.arange(size + 1)
    weights = binom.logpmf(counts, size, rate)

    def log_parts(x: float) -> float:
        return float(logsumexp(weights - 0.5 * ((x - counts) / sigma) ** 2))

    def excess(x: float) -> float:
        tail = np.exp(logsumexp(weights + log_ndtr((counts - x) / sigma)))
        mills = sigma / x * (1.0 - (sigma / x) ** 2)
        return float(tail - np.exp(log_parts(x)) / np.sqrt(2.0 * np.pi) * mills - delta)

    x = brentq(excess, 8900.0, 9300.0, xtol=1e-12, rtol=1e-15)
    epsilon = log_parts(x) + 0.5 * (x / sigma) ** 2
    assert lower * (1 - 1e-9) <= epsilon <= upper * (1 + 1e-9)


def test_bounds_that_contradict_each_other_are_an_error() -> None:
    low, high = _core.meet_bounds(np.array([0.25, 0.5, np.inf]), np.array([0.5, 0.5 - 1e-14, np.inf]))
    assert low.tolist() == [0.25, 0.5 - 1e-14, np.inf]
    assert high.tolist() == [0.5, 0.5, np.inf]
    for lower, upper in [(0.5, 0.4999), (np.inf, 9.0), (np.nan, 1.0)]:
        with pytest.raises(hs.ContradictionError, match="please report it with the arguments"):
            _core.meet_bounds(np.array([0.0, lower]), np.array([1.0, upper]))
    assert issubclass(hs.ContradictionError, RuntimeError)


@pytest.mark.parametrize(
    ("name", "lower", "upper"),
    [("delta", 0.0, 1e-200), ("delta", 1e-300, 3e-300), ("epsilon", 0.0, 1e-13), ("epsilon", 1e-20, 2e-20)],
)
def test_wide_intervals_of_tiny_numbers_warn(name: str, lower: float, upper: float) -> None:
    with pytest.warns(hs.WideIntervalWarning):
        intervals.warn_if_wide(name, np.array([lower]), np.array([upper]), 1e-6)


def test_where_doubles_have_no_digits_no_width_is_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        intervals.warn_if_wide("delta", np.array([0.0]), np.array([5e-324]), 1e-6)
        delta = hs.get_delta(epsilon=1e4, noise_multiplier=1.0, sample_rate=0.1, steps=10)
    assert delta < 2.3e-308
