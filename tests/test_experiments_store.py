"""Stored trainings of the experiments: what was stopped goes on, and what has changed is trained again."""

import json

import numpy as np
import pytest

from benches.experiments import rgp, rgp_training, store
from benches.experiments.clipping import Candidate, Data, SoftmaxCandidates, train
from benches.experiments.data import Split
from benches.experiments.effort import SHORT
from benches.experiments.following import Outcome, Task, followed, plain_accuracy
from benches.experiments.models import Linear
from benches.experiments.store import Store

RANDOM = np.random.default_rng(1)
ROWS = RANDOM.random((60, 5)).astype(np.float32)
LABELS = RANDOM.integers(0, 2, 60)
NAMES = (("one", "two"), LABELS[:40], LABELS[40:])
SPLIT = Split("small", ROWS[:40], LABELS[:40], ROWS[40:], LABELS[40:], 2, {"class": NAMES})
MODULES = ("benches.experiments.store",)


@pytest.fixture
def trained(monkeypatch):
    """Let RGP have three trainings, on little data; return the noise multipliers of those that have begun."""
    begun = []
    original = rgp_training.Training.run

    def run(training, seed):
        begun.append(training.noise_multiplier)
        if len(begun) == trained_before_the_end:
            raise KeyboardInterrupt
        return original(training, seed)

    def experiments(effort, kept):
        return [rgp_training.Experiment("small", lambda: SPLIT, False, (1,), False, kept)]

    trained_before_the_end = 3
    monkeypatch.setattr(rgp_training.Training, "run", run)
    monkeypatch.setattr(rgp, "experiments", experiments)
    monkeypatch.setattr(rgp, "SIZES", (2,))
    monkeypatch.setattr(rgp, "EPSILONS", (4.0,))
    monkeypatch.setattr(rgp, "BOUNDS", ("exact", "curve"))
    monkeypatch.setattr(rgp, "draw", lambda output, numbers: None)
    return begun


def test_what_was_stopped_goes_on_and_gives_the_same_numbers(trained, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        rgp.main(tmp_path / "stopped", SHORT, Store(tmp_path / "kept"))
    assert len(list((tmp_path / "kept").iterdir())) == 2
    rgp.main(tmp_path / "stopped", SHORT, Store(tmp_path / "kept"))
    # The third is begun twice, and nothing else is.
    assert len(trained) == 4
    assert trained[2] == trained[3]
    assert len(set(trained)) == 3
    rgp.main(tmp_path / "at once", SHORT, Store(tmp_path / "kept at once"))
    assert len(trained) == 7
    stopped, at_once = (
        json.loads((tmp_path / folder / "rgp.json").read_text("utf-8")) for folder in ("stopped", "at once")
    )
    accuracies = at_once["accuracies"]["small"]["by_size"]
    assert [len(row) for row in accuracies.values()] == [1, 1]
    for content in (stopped, at_once):
        assert content.pop("processor_seconds")["small"] > 0.0
    assert stopped == at_once


def test_the_time_of_what_is_found_counts(tmp_path):
    def make():
        return float(np.linalg.norm(np.ones((400, 400)) @ np.ones((400, 400))))

    first, second = Store(tmp_path), Store(tmp_path)
    values = [each.get({"seed": 1}, MODULES, make) for each in (first, second)]
    assert values[0] == values[1] == make()
    assert first.found_seconds == 0.0
    (file,) = tmp_path.iterdir()
    assert second.found_seconds == json.loads(file.read_text("utf-8"))["processor_seconds"] > 0.0


def test_other_settings_and_other_code_are_trained_again(tmp_path, monkeypatch):
    kept, calls = Store(tmp_path), []

    def value(settings):
        return kept.get(settings, MODULES, lambda: calls.append(settings) or len(calls))

    assert [value({"seed": seed, "rate": 0.5}) for seed in (1, 2, 1)] == [1, 2, 1]
    assert value({"rate": 0.5, "seed": 1}) == 1  # in any order
    assert value({"seed": 1, "rate": 0.25}) == 3
    monkeypatch.setattr(store, "digest", lambda modules: "other code")
    assert value({"seed": 1, "rate": 0.5}) == 4


def test_the_digest_of_code_is_that_of_what_it_does():
    source = 'SIZE = 3\n"""How many."""\n\ndef doubled(x):\n    """Return it twice."""\n    return 2 * x\n'
    same = "# How many.\nSIZE = 3\ndef doubled(x):\n    return 2*x  # twice\n"
    assert store.without_docstrings(source) == store.without_docstrings(same)
    for one, other in (("3", "4"), ("2 * x", "3 * x")):
        assert store.without_docstrings(source) != store.without_docstrings(source.replace(one, other))
    every = [
        store.digest(modules)
        for modules in (MODULES, ("benches.experiments.models",), ("hockeystick._core",))
    ]
    assert len(set(every)) == 3


@pytest.mark.parametrize("folder", [True, False], ids=["kept", "not kept"])
def test_values_are_as_they_were_made(tmp_path, folder):
    kept = Store(tmp_path) if folder else Store()
    value = {
        "single": np.array([[0.1, 1 / 3], [1e-30, np.inf]], dtype=np.float32),
        "double": np.array([0.1, np.nan]),
        "whole": np.arange(3),
        "none": np.empty((0, 2)),
        "rows": [{"text": "é", "number": np.float64(1 / 3)}, (1, None)],
    }
    for _ in range(2):
        found = kept.get({}, MODULES, lambda: value)
        for name in ("single", "double", "whole", "none"):
            assert found[name].dtype == value[name].dtype
            assert found[name].shape == value[name].shape
            assert np.array_equal(found[name], value[name], equal_nan=name == "double")
        assert found["rows"] == [{"text": "é", "number": 1 / 3}, [1, None]]
    with pytest.raises(TypeError, match=r"keys of value must be texts, got \['1'\]"):
        kept.get({"other": 1}, MODULES, lambda: {1: 2})


def test_trainings_that_are_followed_are_kept_with_everything_that_decides_them(tmp_path, monkeypatch):
    def task(**more):
        values = {"epochs": 2, "batch_size": 10, "learning_rate": 1.0, "epsilon": 2.0} | more
        return Task("small", SPLIT, Linear(5, 2), store=Store(tmp_path), **values)

    outcome, again = (followed(task(), 0.5, sample=4) for _ in range(2))
    assert len(list(tmp_path.iterdir())) == 1
    assert set(outcome.estimates) == {0.5, 1, 3}
    for name, value in vars(outcome).items():
        if name != "estimates":
            assert np.array_equal(vars(again)[name], value), name
    for rate, values in outcome.estimates.items():
        assert np.array_equal(again.estimates[rate], values)
    assert isinstance(again, Outcome)
    assert again.weights.dtype == np.float32
    others = [
        followed(task(), 0.25, sample=4),
        followed(task(), 0.5, sample=4, seed=2),
        followed(task(), 0.5, sample=4, own_bounds=True),
        *(
            followed(task(**{name: value}), 0.5, sample=4)
            for name, value in (("epochs", 3), ("batch_size", 8), ("learning_rate", 2.0), ("epsilon", 1.0))
        ),
    ]
    assert all(not np.array_equal(other.weights, outcome.weights) for other in others)
    assert len(list(tmp_path.iterdir())) == 1 + len(others)
    accuracy = plain_accuracy(task(), 0.5, task().noise(), 1)
    monkeypatch.setattr(Task, "training", None)
    assert plain_accuracy(task(), 0.5, task().noise(), 1) == accuracy


def test_a_long_training_goes_on_from_its_last_epoch(tmp_path, monkeypatch):
    candidates = [Candidate(way, 0.5, path) for way in (False, True) for path in (1.0, 30.0)]
    parts = Data(ROWS[:40], LABELS[:40], (ROWS[40:50], LABELS[40:50]), (ROWS[50:], LABELS[50:]))
    calls, stops_at = [], [None]

    class Stopping(SoftmaxCandidates):
        def updates(self, rows, labels):
            calls.append(len(rows))
            if len(calls) == stops_at[0]:
                raise KeyboardInterrupt
            return super().updates(rows, labels)

    def run(folder):
        def make(progress):
            models = Stopping(5, 2, candidates)
            found = train(models, candidates, parts, 10, 6, 0.5, choose_after=3, progress=progress)
            return found | {"weights": models.weights, "seconds": progress.processor_seconds}

        return Store(folder).get_in_parts({"seed": 1}, MODULES, make)

    monkeypatch.setattr(store, "SAVED_EVERY", 0.0)
    whole = run(tmp_path / "whole")
    assert len(calls) == 24  # four rounds in each of six epochs
    # In the second, the third and the fifth epoch: before the choice, at it, and after it.
    for stop, left in ((6, 20), (12, 16), (18, 8)):
        folder = tmp_path / str(stop)
        calls.clear()
        stops_at[0] = stop
        with pytest.raises(KeyboardInterrupt):
            run(folder)
        (state,) = folder.iterdir()
        before = json.loads(state.read_text("utf-8"))["processor_seconds"]
        stops_at[0] = None
        calls.clear()
        found = run(folder)
        assert len(calls) == left
        assert found.pop("seconds") > before > 0.0
        for name, values in found.items():
            assert np.array_equal(values, whole[name], equal_nan=True), name
        assert [path.suffix for path in folder.iterdir()] == [".json"]
