"""The exact group accountant: histories, groups, and the curve it keeps."""

import json

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, RenyiGroupAccountant

HISTORY = [(1.0, 0.01, 200), (2.0, 0.05, 30), (1.5, 0.02, 100)]


def with_history(history, **settings):
    accountant = GroupAccountant(**settings)
    accountant.history = history
    return accountant


@pytest.mark.parametrize("group_size", [1, 4, 32])
@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove"])
def test_stepping_gives_the_answer_of_the_planned_run(group_size, adjacency):
    accountant = GroupAccountant(group_size, adjacency)
    for _ in range(200):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 200}
    run |= {"group_size": group_size, "adjacency": adjacency}
    assert accountant.history == [(1.0, 0.01, 200)]
    assert accountant.get_epsilon(1e-5) == pytest.approx(hs.get_epsilon(delta=1e-5, **run), rel=2e-6)
    assert accountant.get_delta(1.5) == pytest.approx(hs.get_delta(epsilon=1.5, **run), rel=2e-6)
    assert type(accountant.get_epsilon(1e-5)) is float


def test_a_mixed_history_is_the_composition_of_its_segments():
    accountant = with_history(HISTORY, group_size=3)
    curves = [
        hs.privacy_curve(noise_multiplier=s, sample_rate=q, steps=n, group_size=3) for s, q, n in HISTORY
    ]
    assert accountant.privacy_curve() == curves[0] + curves[1] + curves[2]
    assert accountant.get_epsilon(1e-5) == (curves[0] + curves[1] + curves[2]).epsilon(1e-5)


def test_splitting_and_reordering_a_history_changes_nothing():
    whole = with_history(HISTORY, group_size=2)
    split = with_history(
        [(1.5, 0.02, 1), (1.0, 0.01, 150), (2.0, 0.05, 30), (1.0, 0.01, 50), (1.5, 0.02, 99)], group_size=2
    )
    assert len(split) == len(whole)
    for delta in (1e-3, 1e-5, 1e-10):
        assert split.get_epsilon(delta) == whole.get_epsilon(delta)
    assert split.get_delta(2.0) == whole.get_delta(2.0)


def test_epsilon_is_below_that_of_the_renyi_accountant():
    renyi = RenyiGroupAccountant(group_size=4)
    renyi.history = HISTORY
    assert with_history(HISTORY, group_size=4).get_epsilon(1e-5) < renyi.get_epsilon(1e-5)


def test_one_replaced_record_costs_more_than_one_removed():
    replaced = with_history(HISTORY, adjacency="replace").get_epsilon(1e-5)
    assert with_history(HISTORY).get_epsilon(1e-5) < replaced
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 200, "adjacency": "replace"}
    accountant = with_history([(1.0, 0.01, 200)], adjacency="replace")
    assert accountant.get_epsilon(1e-5) == pytest.approx(hs.get_epsilon(delta=1e-5, **run), rel=2e-6)


@pytest.mark.parametrize(
    "group",
    [
        hs.Group(4),
        hs.Group(norms=[1.0, 0.5]),
        hs.Group(3, gradients="orthogonal"),
        hs.Group(rates=[0.01, 0.02], norms=[1.0, 0.5]),
    ],
    ids=repr,
)
def test_a_group_of_different_members_is_followed(group):
    accountant = with_history([(1.0, 0.01, 100), (2.0, 0.01, 50)], group=group)
    curves = [
        hs.privacy_curve(noise_multiplier=s, sample_rate=0.01, steps=n, group=group)
        for s, n in ((1.0, 100), (2.0, 50))
    ]
    assert accountant.group == group
    assert accountant.group_size == group.size
    assert accountant.privacy_curve() == curves[0] + curves[1]
    state = json.loads(json.dumps(accountant.state_dict()))
    twin = GroupAccountant(group=group)
    twin.load_state_dict(state)
    assert twin.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="group of the saved accountant"):
        GroupAccountant(group.size).load_state_dict(state)


def test_rates_of_the_members_count_in_every_step():
    group = hs.Group(rates=[0.01, 0.02])
    first = with_history([(1.0, 0.5, 10), (1.0, 0.7, 20)], group=group)
    second = with_history([(1.0, 0.1, 30)], group=group)
    assert first.privacy_curve() == second.privacy_curve()


def test_an_unused_accountant_has_spent_nothing():
    accountant = GroupAccountant(4)
    assert len(accountant) == 0
    assert accountant.get_epsilon(1e-5) == 0.0
    assert accountant.get_delta(0.0) == 0.0
    assert bool(accountant)


def test_a_step_without_noise_spends_everything_unless_nobody_is_sampled():
    accountant = with_history([(1.0, 0.01, 5), (0.0, 0.5, 1)], group_size=2)
    assert accountant.get_epsilon(1e-5) == np.inf
    # A visible member shows with probability 3/4.
    assert 0.75 <= accountant.get_delta(3.0) <= 1.0
    assert with_history([(0.0, 0.0, 3)], group_size=2).get_epsilon(1e-5) == 0.0


def test_a_failed_question_changes_nothing():
    accountant = with_history(HISTORY, group_size=2)
    epsilon, state = accountant.get_epsilon(1e-5), accountant.state_dict()
    for question, bad in (
        (accountant.get_epsilon, 0.0),
        (accountant.get_epsilon, [1e-5, 2.0]),
        (accountant.get_epsilon, "1e-5"),
        (accountant.get_delta, -1.0),
        (accountant.get_delta, float("nan")),
    ):
        with pytest.raises((ValueError, TypeError), match=r"delta|epsilon"):
            question(bad)
    with pytest.raises(ValueError, match="sample_rate"):
        accountant.step(noise_multiplier=1.0, sample_rate=2.0)
    assert accountant.state_dict() == state
    assert accountant.get_epsilon(1e-5) == epsilon


def test_the_curve_is_kept_until_the_history_changes():
    accountant = with_history(HISTORY)
    curve = accountant.privacy_curve()
    epsilon = accountant.get_epsilon(1e-5)
    assert accountant.privacy_curve() is curve
    accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    assert accountant.privacy_curve() != curve
    assert accountant.get_epsilon(1e-5) > epsilon
    accountant.history.pop()
    assert accountant.privacy_curve() == curve
    assert accountant.get_epsilon(1e-5) == epsilon


def test_more_than_ten_thousand_different_steps_are_answered():
    accountant = with_history([(20.0 + i / 1000, 0.01, 1) for i in range(10_001)])
    least, most = (
        hs.get_epsilon(delta=1e-5, noise_multiplier=sigma, sample_rate=0.01, steps=10_001)
        for sigma in (30.001, 19.9)
    )
    epsilon = accountant.get_epsilon(1e-5)
    assert least < epsilon < most
    lower, upper = accountant.privacy_curve().bounds(delta=1e-5)
    assert lower <= epsilon <= upper <= lower * (1 + 1e-6)
    assert len(accountant) == 10_001


def test_settings_are_read_only_and_shown():
    accountant = with_history([(1.0, 0.1, 2)], group_size=8, tolerance=1e-4)
    assert repr(accountant) == (
        "<GroupAccountant(group_size=8, adjacency='add_remove', group=None, tolerance=0.0001) after 2 steps>"
    )
    for name in ("group_size", "adjacency", "group", "tolerance"):
        with pytest.raises(AttributeError):
            setattr(accountant, name, 1)


def test_settings_are_checked():
    for settings, error, word in (
        ({"tolerance": 0.5}, ValueError, "tolerance"),
        ({"tolerance": None}, TypeError, "tolerance"),
        ({"group": 3}, TypeError, "group"),
        ({"group_size": 2, "group": hs.Group(3)}, TypeError, "at most one of group_size and group"),
        ({"adjacency": "swap"}, ValueError, "adjacency"),
    ):
        with pytest.raises(error, match=word):
            GroupAccountant(**settings)


FIXED = hs.WithoutReplacement(20, 1000)


def test_steps_of_any_scheme_and_mechanism_are_those_of_the_curves():
    accountant = GroupAccountant()
    expected = None
    for arguments in (
        {"noise_multiplier": 2.0, "sample_rate": 0.02},
        {"noise_multiplier": 2.0, "sampling": FIXED},
        {"noise_multiplier": 9.0, "sampling": hs.FullBatch()},
        {"mechanism": hs.Laplace(8.0), "sampling": hs.Poisson(0.1)},
        {"mechanism": hs.RandomizedResponse(0.6), "sample_rate": 0.02},
    ):
        for _ in range(3):
            accountant.step(**arguments)
        curve = hs.privacy_curve(steps=3, **arguments)
        expected = curve if expected is None else expected + curve
    assert accountant.privacy_curve() == expected
    assert accountant.history[:2] == [(2.0, 0.02, 3), (2.0, FIXED, 3)]
    text = str(accountant)
    for part in (
        "Poisson, WithoutReplacement(batch_size=20, dataset_size=1000), FullBatch()",
        "Proposition 9",
    ):
        assert part in text, part
    saved = json.loads(json.dumps(accountant.state_dict()))
    resumed = GroupAccountant()
    resumed.load_state_dict(saved)
    assert resumed.history == accountant.history
    assert resumed.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)


def test_schemes_that_do_not_compose_under_one_adjacency_are_refused_and_nothing_is_lost():
    accountant = GroupAccountant(group_size=2, adjacency="replace")
    accountant.step(noise_multiplier=9.0, sampling=FIXED)
    state = accountant.state_dict()
    dealt = hs.RandomAllocation(10)
    for refused in (
        {"noise_multiplier": 9.0, "sampling": dealt},
        {"mechanism": hs.Laplace(8.0), "sampling": dealt},
    ):
        with pytest.raises(hs.UnsupportedError, match="not supported together: use "):
            accountant.step(**refused)
    with pytest.raises(hs.UnsupportedError, match="random allocation, records replaced"):
        accountant.history = [(9.0, FIXED, 1), (hs.Laplace(8.0), dealt, 1)]
    foreign = GroupAccountant(group_size=2)
    foreign.history = [(hs.Laplace(8.0), dealt, 1)]
    with pytest.raises(ValueError, match="adjacency of the saved accountant"):
        accountant.load_state_dict(foreign.state_dict())
    with pytest.raises(hs.UnsupportedError, match="random allocation, records replaced"):
        accountant.load_state_dict({**state, "history": foreign.state_dict()["history"]})
    assert accountant.state_dict() == state


def test_a_group_that_does_not_fit_into_the_data_set_is_refused():
    accountant = GroupAccountant(group_size=5)
    with pytest.raises(ValueError, match="group_size must be at most dataset_size 4, got 5"):
        accountant.step(noise_multiplier=9.0, sampling=hs.WithoutReplacement(2, 4))
    assert len(accountant) == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sample_rate": 0.1}, TypeError, "exactly one of noise_multiplier and mechanism"),
        ({"noise_multiplier": 1.0}, TypeError, "exactly one of sample_rate and sampling"),
        (
            {"noise_multiplier": 1.0, "sample_rate": 0.1, "sampling": FIXED},
            TypeError,
            "exactly one of sample_rate and sampling",
        ),
        (
            {"noise_multiplier": 1.0, "sample_rate": 0.1, "mechanism": hs.Laplace(1.0)},
            TypeError,
            "exactly one of noise_multiplier and mechanism",
        ),
        ({"noise_multiplier": hs.Laplace(1.0), "sample_rate": 0.1}, TypeError, "noise_multiplier must be"),
        ({"noise_multiplier": 1.0, "sample_rate": FIXED}, TypeError, "sample_rate must be"),
        ({"noise_multiplier": 1.0, "sampling": 0.1}, TypeError, "sampling must be a sampling scheme"),
        ({"mechanism": hs.Skellam(9.0), "sample_rate": 0.1}, hs.UnsupportedError, "RenyiGroupAccountant"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(arguments, error, message):
    accountant = GroupAccountant()
    with pytest.raises(error, match=message):
        accountant.step(**arguments)
    assert accountant.history == []


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        ({"scheme": "weighted"}, "must have a scheme of"),
        ({"scheme": "shuffle"}, "missing \\['batch_size', 'dataset_size'\\]"),
        ({"scheme": "shuffle", "batch_size": 2, "dataset_size": 4}, "no bounds for adjacency 'add_remove'"),
        ({"scheme": "without_replacement", "batch_size": 9}, "missing \\['dataset_size'\\]"),
        ({"scheme": "without_replacement", "batch_size": 9, "dataset_size": 4}, "batch_size must be at most"),
        (
            {"scheme": "without_replacement", "batch_size": 2.5, "dataset_size": 4},
            "batch_size must be a whole",
        ),
    ],
)
def test_a_saved_scheme_is_checked(draw, message):
    accountant = GroupAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    state = accountant.state_dict()
    with pytest.raises(ValueError, match=message):
        accountant.load_state_dict({**state, "history": [[1.0, draw, 1]]})
    assert accountant.state_dict() == state
