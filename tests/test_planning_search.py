"""The search for an unknown: certified misses only, one unit more misses, and what stays open is said."""

import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves import solving
from hockeystick._distinct import answered_once


def test_few_steps_that_cannot_be_judged_do_not_hide_thousands_that_meet_the_target():
    plan = {"noise_multiplier": 2.0, "sample_rate": 0.001, "group_size": 12}
    lower, upper = hs.get_steps(epsilon=2.4, delta=1e-6, bounds=True, **plan)
    assert upper == lower + 1
    epsilons = hs.get_epsilon(delta=1e-6, steps=[lower, lower + 1], **plan)
    assert epsilons[0] <= 2.4 < epsilons[1]
    assert lower > 6_000


def ordinary_plans(count, seed):
    """Plans as people make them: noise, rate, group size, delta, epsilon and steps."""
    draw = np.random.default_rng(seed)

    def between(low, high):
        return np.exp(draw.uniform(np.log(low), np.log(high), count))

    return {
        "noise_multiplier": between(0.8, 4.0),
        "sample_rate": between(0.0005, 0.03),
        "group_size": np.rint(between(1, 32)).astype(int),
        "delta": between(1e-8, 1e-5),
        "epsilon": between(0.3, 10.0),
        "steps": between(100, 20_000).astype(int),
    }


UNKNOWNS = {
    "steps": (hs.get_steps, "lower"),
    "sample_rate": (hs.get_sample_rate, "lower"),
    "noise_multiplier": (hs.get_noise_multiplier, "upper"),
}


@pytest.mark.parametrize("name", UNKNOWNS)
def test_answers_meet_their_targets_and_the_other_ends_miss_them_nearby_or_a_warning_is_given(name):
    function, side = UNKNOWNS[name]
    plans = ordinary_plans(12, 11)
    target = {"epsilon": plans["epsilon"], "delta": plans["delta"]}
    run = {key: values for key, values in plans.items() if key not in (*target, name)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower, upper = function(bounds=True, **target, **run)
    answer, beyond = (lower, upper) if side == "lower" else (upper, lower)
    assert np.all(hs.get_epsilon(delta=target["delta"], **{name: answer}, **run) <= target["epsilon"])
    # The search asks for delta only where that of epsilon left no room for what is known less of it.
    assert np.all(hs.get_delta(epsilon=target["epsilon"], **{name: answer}, **run) <= target["delta"])
    # The other end misses the target, as far as epsilon itself can say: it has a tolerance of its own.
    _, above = hs.get_epsilon(delta=target["delta"], bounds=True, **{name: beyond}, **run)
    assert np.all(above > target["epsilon"])
    apart = 1 + 1e-6 * upper if name == "steps" else 1e-6 * lower
    narrow = upper - lower <= apart * (1 + 1e-9)
    assert np.all(narrow) or any(w.category is hs.WideIntervalWarning for w in caught)
    assert np.mean(narrow) > 0.95


def test_one_record_more_misses_the_target():
    plans = ordinary_plans(30, 12)
    run = {name: plans[name] for name in ("noise_multiplier", "sample_rate", "steps")}
    delta = plans["delta"]
    # A target that some groups meet and larger ones do not.
    sizes = plans["group_size"]
    target = hs.get_epsilon(delta=delta, group_size=sizes, **run) * (1 + 1e-4)
    lower, upper = hs.get_group_size(epsilon=target, delta=delta, bounds=True, **run)
    assert np.array_equal(lower, sizes)
    assert np.array_equal(upper, sizes + 1)


@pytest.mark.long
def test_what_cannot_be_judged_is_said():
    run = {"noise_multiplier": 0.34818867528993533, "steps": 32}
    target = {"epsilon": 0.07652005110758, "delta": 8.99956212762797e-14}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower, upper = hs.get_sample_rate(bounds=True, **target, **run)
    assert 0.0 < lower < upper
    said = [str(w.message) for w in caught if w.category is hs.WideIntervalWarning]
    assert upper <= lower * (1 + 1e-5) or any("sample_rate" in message for message in said)
    # The answer itself is a guarantee.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert hs.get_epsilon(delta=target["delta"], sample_rate=lower, **run) <= target["epsilon"]


def test_equal_elements_are_asked_about_once(monkeypatch):
    asked = []
    original = solving._solved

    def counted(about, numbers):
        asked.append(max(map(np.size, numbers)))
        return original(about, numbers)

    monkeypatch.setattr(solving, "_solved", counted)
    counts = np.random.default_rng(1).integers(1, 41, 9_000)
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "sample_rate": 0.01}
    values = hs.get_epsilon(steps=counts, **run)
    assert asked == [40]
    alone = hs.get_epsilon(steps=np.arange(1, 41), **run)
    assert np.array_equal(values, alone[counts - 1])
    grid = hs.get_epsilon(steps=[[5], [7]], group_size=[1, 1, 2], **run)
    assert asked[-1] == 4
    assert np.array_equal(grid[:, 0], grid[:, 1])


def test_equal_questions_to_other_functions_get_equal_answers():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    for ask, points in [
        (curve.epsilon, [1e-5, 1e-6]),
        (curve.delta, [1.0, 0.5]),
        (curve.beta, [0.1, 0.3]),
        (curve.renyi, [2.0, 8.0]),
        (hs.TradeoffCurve.gaussian(1.0).beta, [0.1, 0.3]),
        (lambda x: hs.renyi.group_rdp(hs.Laplace(2.0), x, sample_rate=0.1, group_size=2), [2.0, 8.0]),
        (lambda x: hs.kernels.renyi_mixture(x, *mixture(), "remove"), [2.0, 8.0]),
        (lambda x: hs.black_box.get_epsilon(delta=x, **black_box()), [1e-5, 1e-6]),
        (lambda x: hs.renyi.calibrate(hs.Gaussian, order=4, tau=x, **calibration()), [1.0, 2.0]),
        (lambda x: hs.renyi.calibrate_dp(hs.Gaussian, delta=1e-5, epsilon=x, **calibration()), [1.0, 2.0]),
    ]:
        first, second = ask(np.array(points))
        again = ask(np.array([points, points[::-1], points]))
        assert np.array_equal(again, [[first, second], [second, first], [first, second]])


def mixture():
    return [0.9, 0.1], [0.0, 1.0], 1.5


def black_box():
    return {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 100, "group_size": 3}


def calibration():
    return {"sample_rate": 0.03, "steps": 50, "group_size": 4}


@pytest.mark.parametrize("length", [0, 1, 2, 1000])
def test_rows_that_differ_are_answered_as_they_stand(length):
    draw = np.random.default_rng(length)
    columns = [draw.normal(size=length), draw.integers(0, 5, length), np.zeros(length)]
    seen = []

    def answer(first, second, third):
        seen.append(len(first))
        return first + second, third

    total, zeros = answered_once(columns, answer)
    assert np.array_equal(total, columns[0] + columns[1])
    assert np.array_equal(zeros, columns[2])
    assert seen == [length]


def test_rows_are_told_apart_by_every_column_and_keep_their_first_order():
    first = np.array([2.0, 1.0, 2.0, 2.0, -0.0, 0.0, np.nan, np.nan])
    second = np.array([7, 7, 7, 8, 1, 1, 3, 3])
    seen = []

    def answer(x, y):
        seen.append((x.tolist()[:5], y.tolist()))
        return (np.arange(len(x)),)

    (places,) = answered_once([first, second], answer)
    assert places.tolist() == [0, 1, 0, 2, 3, 4, 5, 5]
    assert seen == [([2.0, 1.0, 2.0, -0.0, 0.0], [7, 7, 8, 1, 1, 3])]
