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


def test_too_many_different_steps_are_refused():
    accountant = with_history([(20.0 + i / 1000, 0.01, 1) for i in range(10_001)])
    with pytest.raises(ValueError, match="at most 10000 different kinds of steps"):
        accountant.get_epsilon(1e-5)
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
        ({"group_size": 2, "adjacency": "replace"}, hs.UnsupportedError, "group_size=1"),
    ):
        with pytest.raises(error, match=word):
            GroupAccountant(**settings)
