"""Histories of other accountants, taken over; Opacus itself is not needed."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant
from hockeystick.opacus import from_opacus

HISTORY = [(1.0, 0.01, 300), (2.0, 0.02, 50)]


def expected(**settings):
    accountant = GroupAccountant(**settings)
    accountant.history = HISTORY
    return accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    "settings", [{}, {"group_size": 8}, {"adjacency": "add"}, {"group": hs.Group(norms=[1.0, 0.5])}]
)
def test_the_steps_are_those_of_the_other_and_the_question_is_ones_own(settings):
    other = SimpleNamespace(history=list(HISTORY))
    taken = from_opacus(other, **settings)
    assert isinstance(taken, GroupAccountant)
    assert taken.history == HISTORY
    assert taken.get_epsilon(1e-5) == expected(**settings)
    taken.step(noise_multiplier=1.0, sample_rate=0.1)
    assert other.history == HISTORY


def test_saved_states_are_taken_too():
    state = {"mechanism": "prv", "history": [list(entry) for entry in HISTORY]}
    assert from_opacus(state, 8).get_epsilon(1e-5) == expected(group_size=8)
    ours = GroupAccountant()
    ours.history = HISTORY
    ours.step(noise_multiplier=1.0, sampling=hs.WithoutReplacement(10, 100))
    saved = json.loads(json.dumps(ours.state_dict()))
    assert from_opacus(saved, tolerance=1e-4).history == ours.history == from_opacus(ours).history


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        (1.0, TypeError, "accountant must be an accountant or a saved state with a history, got float"),
        ({}, TypeError, "with a history, got dict"),
        ({"history": "long"}, TypeError, "with a history, got dict"),
        ({"history": [(1.0, 0.1)]}, ValueError, r"history\[0\] must be"),
        ({"history": [(1.0, 1.5, 3)]}, ValueError, r"history\[0\] sample_rate must be in \[0, 1\], got 1.5"),
        ({"history": [(1.0, 0.5, 0)]}, ValueError, r"history\[0\] num_steps must be a whole number >= 1"),
    ],
)
def test_what_is_no_history_is_refused(other, error, words):
    with pytest.raises(error, match=words):
        from_opacus(other)


def test_steps_without_a_pair_for_the_group_are_refused():
    with pytest.raises(hs.UnsupportedError):
        from_opacus({"history": HISTORY}, adjacency="replace", group=hs.Group(2, gradients="orthogonal"))


def test_older_releases_of_opacus_are_told_what_works_there(monkeypatch):
    """Their accountants have no register; an AttributeError of Opacus said nothing."""
    for name in ("opacus", "opacus.accountants"):
        module = ModuleType(name)
        module.__version__ = "1.5.4"
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(ImportError, match=r"Opacus 1\.6 or newer, and this is 1\.5\.4.*PrivacyEngine"):
        hs.opacus.register()
