"""What all accountants share: steps, the optimiser hook, saving and loading."""

import copy
import json
import pickle
from collections import OrderedDict
from itertools import permutations
from types import SimpleNamespace

import pytest

import hockeystick as hs
from hockeystick.accountants import (
    Accountant,
    GroupAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
)

MAKERS = {
    "renyi": lambda: RenyiGroupAccountant(group_size=3, bound="jensen", orders=[2.0, 8.5, 64]),
    "monte carlo": lambda: MonteCarloAccountant(group_size=3, samples=1000, confidence=0.95, seed=2**64 - 1),
    "exact": lambda: GroupAccountant(group_size=3, tolerance=1e-5),
    "unequal group": lambda: GroupAccountant(group=hs.Group(rates=[0.1, 1 / 3, 0.0], gradients="orthogonal")),
}
KINDS = (RenyiGroupAccountant, MonteCarloAccountant, GroupAccountant)
HISTORY = [(1.1, 0.01, 7), (0.1 + 0.2, 1 / 3, 1), (5e-324, 1.0, 2**40)]


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.fixture
def accountant(make):
    made = make()
    made.history = HISTORY
    return made


def test_every_accountant_has_the_methods_of_opacus(accountant):
    assert isinstance(accountant, Accountant)
    for name in (
        "step",
        "get_epsilon",
        "mechanism",
        "get_optimizer_hook_fn",
        "state_dict",
        "load_state_dict",
        "__len__",
    ):
        assert callable(getattr(accountant, name))
    assert isinstance(accountant.history, list)


def test_mechanisms_have_names_of_their_own():
    assert len({kind.mechanism() for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("bad", [0, -1, 2.5, 100_001, "2", None])
def test_the_group_size_is_checked(bad):
    for kind in KINDS:
        with pytest.raises((ValueError, TypeError), match="group_size"):
            kind(group_size=bad)


def test_only_renyi_bounds_take_very_large_groups():
    assert RenyiGroupAccountant(100_000).group_size == 100_000
    for kind in (MonteCarloAccountant, GroupAccountant):
        with pytest.raises(ValueError, match=r"group_size must be a whole number in \[1, 10000\]"):
            kind(group_size=10_001)


def test_printed_accountants_say_what_they_assume(accountant):
    text = str(accountant)
    assert text.splitlines()[0] == repr(accountant)[1:-1]
    for part in ("Poisson", "add_remove", "3 records", "sees the output of every step", "status: upper"):
        assert part in text


def test_step_takes_keywords_only(accountant):
    with pytest.raises(TypeError):
        accountant.step(1.0, 0.01)


@pytest.mark.parametrize(
    ("noise_multiplier", "sample_rate", "name"),
    [
        (float("nan"), 0.1, "noise_multiplier"),
        (float("inf"), 0.1, "noise_multiplier"),
        (-1.0, 0.1, "noise_multiplier"),
        ("1", 0.1, "noise_multiplier"),
        (None, 0.1, "noise_multiplier"),
        ([1.0, 2.0], 0.1, "noise_multiplier"),
        (1.0, 1.0000001, "sample_rate"),
        (1.0, -1e-9, "sample_rate"),
        (1.0, float("nan"), "sample_rate"),
        (1.0, True, "sample_rate"),
    ],
)
def test_a_failed_step_leaves_the_accountant_as_it_was(accountant, noise_multiplier, sample_rate, name):
    before = copy.deepcopy(accountant.history)
    with pytest.raises((ValueError, TypeError), match=name):
        accountant.step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)
    assert accountant.history == before


def test_the_hook_reads_the_optimiser(accountant):
    accountant.history = []
    hook = accountant.get_optimizer_hook_fn(sample_rate=0.01)
    optimizer = SimpleNamespace(noise_multiplier=1.5, accumulated_iterations=4)
    hook(optimizer)
    optimizer.noise_multiplier = 2.0
    hook(optimizer)
    # Four batches, each drawn at 0.01: a record may be in several of them.
    if getattr(accountant, "group", None) is None:
        four = hs.Poisson(0.01, microbatches=4)
        assert accountant.history == [(1.5, four, 1), (2.0, four, 1)]
        return
    # Orthogonal members have no proven pair in several batches: four steps with half the noise tell more.
    [(noise, rate, steps), (second, _, _)] = accountant.history
    assert (rate, steps) == (0.01, 4)
    assert 0.0 < 0.75 - noise < 1e-14
    assert 0.0 < 1.0 - second < 1e-14


def test_the_hook_refuses_a_rate_above_one_and_makes_none(accountant):
    with pytest.raises(ValueError, match=r"sample_rate must be in \[0, 1\]"):
        accountant.get_optimizer_hook_fn(1.5)
    accountant.history = []
    hook = accountant.get_optimizer_hook_fn(0.5)
    hook(SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=3))
    for _, draw, _ in accountant.history:
        assert (draw if isinstance(draw, float) else draw.sample_rate) == 0.5


def test_a_saved_state_comes_back_exactly_through_json(make, accountant):
    text = json.dumps(accountant.state_dict(), allow_nan=False)
    restored = make()
    restored.load_state_dict(json.loads(text))
    assert restored.history == accountant.history
    assert len(restored) == len(accountant)
    assert json.dumps(restored.state_dict()) == text


def test_a_saved_state_shares_nothing_with_the_accountant(make, accountant):
    state = accountant.state_dict()
    accountant.step(noise_multiplier=1.0, sample_rate=0.5)
    assert len(state["history"]) == len(HISTORY)
    restored = make()
    restored.load_state_dict(state)
    state["history"][0][0] = -1.0
    assert restored.history == HISTORY


def test_a_destination_is_filled_and_returned(accountant):
    destination = OrderedDict()
    assert accountant.state_dict(destination) is destination
    assert destination == accountant.state_dict()
    assert destination["version"] == 1
    assert destination["mechanism"] == accountant.mechanism()


def test_accountants_survive_copying_and_pickling(accountant):
    for twin in (copy.deepcopy(accountant), pickle.loads(pickle.dumps(accountant))):
        twin.step(noise_multiplier=1.0, sample_rate=0.5)
        assert accountant.history == HISTORY
        assert len(twin) == len(accountant) + 1


def damaged(state):
    """Pairs of a damaged state and a word the error must hold."""

    def changed(**entries):
        return {**copy.deepcopy(state), **entries}

    def with_settings(**entries):
        return changed(settings={**state["settings"], **entries})

    for key in state:
        yield {k: v for k, v in state.items() if k != key}, key
    yield {}, "version"
    yield None, "state"
    yield [1, 2], "state"
    yield changed(extra=1), "extra"
    yield changed(version=2), "version"
    yield changed(version=0), "version"
    yield changed(version=1.5), "version"
    yield changed(version="1"), "version"
    yield changed(version=None), "version"
    yield changed(mechanism="prv"), "mechanism"
    yield changed(mechanism=None), "mechanism"
    yield changed(settings=None), "settings"
    yield changed(settings={}), "settings"
    yield with_settings(group_size=4), "group_size"
    yield with_settings(group_size=float("nan")), "group_size"
    yield with_settings(adjacency="remove"), "adjacency"
    yield with_settings(extra=1), "extra"
    yield changed(history=None), "history"
    yield changed(history="abc"), "history"
    yield changed(history={"0": [1.0, 0.1, 1]}), "history"
    for entry in (
        [1.0, 0.1],
        [1.0, 0.1, 1, 1],
        "abc",
        None,
        [float("nan"), 0.1, 1],
        [float("inf"), 0.1, 1],
        [-1.0, 0.1, 1],
        ["1.0", 0.1, 1],
        [1.0, 1.5, 1],
        [1.0, float("nan"), 1],
        [1.0, None, 1],
        [1.0, 0.1, -1],
        [1.0, 0.1, 0],
        [1.0, 0.1, 2.5],
        [1.0, 0.1, float("nan")],
        [1.0, 0.1, "3"],
        [1.0, 0.1, True],
        [1.0, 0.1, 2**63],
        [1.0, 0.1, [1]],
    ):
        yield changed(history=[*state["history"], entry]), r"history\[3\]"


def test_a_damaged_or_foreign_state_is_refused_and_changes_nothing(make, accountant):
    saved = accountant.state_dict()
    checked = 0
    for state, word in damaged(saved):
        fresh = make()
        fresh.step(noise_multiplier=9.0, sample_rate=0.25)
        with pytest.raises((ValueError, TypeError), match=word):
            fresh.load_state_dict(state)
        assert fresh.history == [(9.0, 0.25, 1)]
        checked += 1
    assert checked > 35


def test_a_state_of_the_other_accountant_is_refused():
    for saved, loaded in permutations(("renyi", "monte carlo", "exact"), 2):
        with pytest.raises(ValueError, match="mechanism"):
            MAKERS[loaded]().load_state_dict(MAKERS[saved]().state_dict())


def test_a_state_of_another_bound_is_refused_by_name():
    state = RenyiGroupAccountant(3, "exact").state_dict()
    with pytest.raises(ValueError, match=r"bound .*'exact'.*'jensen'"):
        RenyiGroupAccountant(3, "jensen").load_state_dict(state)


def test_a_history_set_by_hand_is_checked(accountant):
    before = list(accountant.history)
    for bad in ([(1.0, 2.0, 1)], [(1.0, 0.1)], "abc", [(1.0, 0.1, 0)]):
        with pytest.raises((ValueError, TypeError), match="history"):
            accountant.history = bad
        assert accountant.history == before


def test_a_history_damaged_in_place_is_noticed_before_an_answer(accountant):
    accountant.history.append((1.0, float("nan"), 1))
    with pytest.raises(ValueError, match=r"history\[3\] sample_rate"):
        accountant.get_epsilon(1e-5)


def test_replace_is_refused_with_what_is_supported():
    with pytest.raises(hs.UnsupportedError, match=r"add_remove.*GroupAccountant"):
        MonteCarloAccountant(adjacency="replace")
    for kind in KINDS:
        with pytest.raises(ValueError, match="adjacency must be one of"):
            kind(adjacency="swap")
        with pytest.raises(TypeError, match="adjacency"):
            kind(adjacency=None)
