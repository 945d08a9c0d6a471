"""A run in the user's own terms: what it is checked for, what files hold, and who takes it."""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import hockeystick as hs

FACTS = {"batch_size": 256, "dataset_size": 60_000, "epochs": 10, "noise_multiplier": 1.0}
RUN = hs.Run(**FACTS, records_per_person=8, sampling="poisson")
OWN = {"noise_multiplier": 1.0, "sample_rate": 256 / 60_000, "steps": 2344, "group_size": 8}
"""The same in the arguments of the functions: 10 * 60,000 / 256 is 2343.75."""


def test_a_run_says_what_its_facts_say():
    assert RUN.arguments == {**OWN, "adjacency": "add_remove"}
    assert RUN.number_of_steps == math.ceil(10 * 60_000 / 256)
    assert RUN.scheme == hs.Poisson(256 / 60_000)


@pytest.mark.parametrize(
    ("scheme", "steps"),
    [
        (hs.WithoutReplacement(256, 60_000), 704),  # 703.125
        (hs.Shuffle(256, 60_000), 702),  # 234 whole batches an epoch
        (hs.RandomAllocation(100, times=2), 300),
        (hs.FixedBins(100), 300),
        (hs.FullBatch(), 3),
        (hs.Poisson(0.01, microbatches=4), 75),
        (hs.Poisson(0.01, max_batch_size=128, dataset_size=10_000), 300),
    ],
)
def test_schemes_come_back_and_count_epochs(scheme, steps):
    run = hs.Run(sampling=scheme, epochs=3, noise_multiplier=1.0)
    assert run.scheme == scheme
    assert run.number_of_steps == steps
    assert hs.Run.from_facts(json.loads(json.dumps(run.facts))) == run


def test_every_function_takes_it():
    exact = hs.get_epsilon(delta=1e-5, **OWN)
    assert hs.get_epsilon(RUN, delta=1e-5) == exact == hs.get_epsilon(run=RUN, delta=1e-5)
    assert hs.get_delta(RUN, epsilon=3.0) == hs.get_delta(epsilon=3.0, **OWN)
    assert hs.privacy_curve(RUN) == hs.privacy_curve(**OWN)
    without = {name: value for name, value in OWN.items() if name != "noise_multiplier"}
    target = {"epsilon": 3.0, "delta": 1e-5}
    assert hs.get_noise_multiplier(RUN, **target) == hs.get_noise_multiplier(**target, **without)
    without = {name: value for name, value in OWN.items() if name != "steps"}
    assert hs.get_steps(RUN, epsilon=20.0, delta=1e-5) == hs.get_steps(epsilon=20.0, delta=1e-5, **without)
    without = {name: value for name, value in OWN.items() if name != "group_size"}
    assert hs.get_group_size(RUN, **target) == hs.get_group_size(**target, **without)
    without = {name: value for name, value in OWN.items() if name != "sample_rate"}
    assert hs.get_sample_rate(RUN, **target) == hs.get_sample_rate(**target, **without)
    assert hs.explain(RUN, delta=1e-5)["epsilon"] == exact
    accountant = hs.accountants.GroupAccountant(group_size=8)
    accountant.step(RUN)
    assert accountant.get_epsilon(1e-5) == exact
    assert accountant.history == [(1.0, 256 / 60_000, 2344)]


def test_explain_compares_with_the_data_set_of_the_run():
    told = hs.explain(RUN.replace(records_per_person=1), delta=1e-5)
    samplings = [other["sampling"] for other in told["other_schemes"]]
    assert any(sampling and "60000" in sampling for sampling in samplings)


def test_a_report_quotes_the_hash(tmp_path):
    hs.report(RUN, tmp_path / "privacy.md", delta=1e-5, pictures=False)
    assert RUN.sha256 in (tmp_path / "privacy.md").read_text("utf-8")


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize(
    "run",
    [
        RUN,
        hs.Run(sampling="full", steps=3, mechanism=hs.Laplace(2.0)),
        hs.Run(sampling="full", steps=3, mechanism=hs.RandomizedResponse(0.75)),
        hs.Run(sampling="poisson", sample_rate=1e-07, epochs=0.5, noise_multiplier=0.1 + 0.2),
        hs.Run(sampling="poisson", sample_rate=0.1, steps=3, group=hs.Group(norms=[1.0, 0.5])),
        hs.Run(sampling="random_allocation", batches=100, times=2, epochs=2, noise_multiplier=1e22),
    ],
    ids=["plain", "laplace", "response", "floats", "group", "allocation"],
)
def test_files_hold_all_of_it(run, suffix, tmp_path):
    path = run.save(tmp_path / f"run.{suffix}")
    again = hs.Run.load(path)
    assert again == run
    assert again.sha256 == run.sha256
    assert run.sha256 in path.read_text("utf-8")


def test_a_hash_that_is_not_that_of_the_facts_is_refused(tmp_path):
    path = RUN.save(tmp_path / "run.json")
    path.write_text(path.read_text("utf-8").replace('"epochs": 10', '"epochs": 9'), "utf-8")
    with pytest.raises(ValueError, match="sha256"):
        hs.Run.load(path)


@pytest.mark.parametrize("text", ["sampling = ", "[[[", "\x00"])
def test_a_broken_file_is_an_error_with_its_name(text, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"run\.toml"):
        hs.Run.load(path)


def test_equal_facts_have_one_hash_and_others_another():
    same = hs.Run(
        sampling="poisson", dataset_size=60_000.0, batch_size=np.int64(256), epochs=10.0, noise_multiplier=1,
        records_per_person=8,
    )  # fmt: skip
    assert same == RUN
    assert same.sha256 == RUN.sha256
    assert hash(same) == hash(RUN)
    assert RUN.replace(epochs=11).sha256 != RUN.sha256
    assert eval(repr(RUN), {"Run": hs.Run}) == RUN
    assert pickle.loads(pickle.dumps(RUN)) == RUN


def test_a_run_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RUN.epochs = 3


def test_replacing_a_fact_takes_its_rival_back():
    assert RUN.replace(steps=100).number_of_steps == 100
    assert RUN.replace(sample_rate=0.5).arguments["sample_rate"] == 0.5
    assert RUN.replace(mechanism=hs.Laplace(1.0), records_per_person=1).noise_multiplier is None
    assert RUN.replace(sampling=hs.Shuffle(10, 100)).adjacency == "add_remove"
    shuffled = hs.Run(sampling="shuffle", batch_size=10, dataset_size=100, epochs=1, noise_multiplier=1.0)
    assert shuffled.adjacency == "zero_out"
    assert shuffled.replace(sampling="fixed").adjacency == "add_remove"
    with pytest.raises(TypeError, match="did you mean noise_multiplier"):
        RUN.replace(sigma=2.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 10, "dataset_size": 100}, TypeError, "sampling is missing"),
        ({"sampling": "uniform"}, ValueError, "got 'uniform'"),
        ({"sampling": "shuffled"}, ValueError, "did you mean 'shuffle'"),
        ({"sampling": 3}, TypeError, "sampling"),
        ({"sampling": "poisson"}, TypeError, "needs batch_size and dataset_size, or sample_rate"),
        ({"sampling": "poisson", "batch_size": 10}, TypeError, "needs dataset_size"),
        ({"sampling": "poisson", "batch_size": 9, "dataset_size": 8}, ValueError, "at most dataset_size 8"),
        ({"sampling": "poisson", "sample_rate": 0.2, "batch_size": 1, "dataset_size": 9}, ValueError, "con"),
        ({"sampling": hs.Poisson(0.2), "sample_rate": 0.3}, ValueError, "contradicts"),
        ({"sampling": "poisson", "sample_rate": 0.1, "steps": 9, "epochs": 2}, ValueError, "are 20 steps"),
        ({"sampling": "fixed", "sample_rate": 0.1}, TypeError, "belongs to sampling='poisson'"),
        ({"sampling": "fixed", "batch_size": 2.5, "dataset_size": 100}, ValueError, "batch_size"),
        ({"sampling": "full", "batches": 3}, TypeError, "belongs to"),
        ({"sampling": "full", "epochs": -1}, ValueError, "epochs"),
        ({"sampling": "full", "epochs": math.inf}, ValueError, "epochs"),
        ({"sampling": "full", "noise_multiplier": -1.0}, ValueError, "noise_multiplier"),
        ({"sampling": "full", "adjacency": "replace_one"}, ValueError, "did you mean 'replace'"),
        ({"sampling": "full", "mechanism": "laplace"}, TypeError, "mechanism must be"),
        ({"sampling": "full", "dataset_size": 3, "records_per_person": 4}, ValueError, "records_per_person"),
        ({"sampling": "full", "records_per_person": 2, "group": hs.Group(3)}, TypeError, "at most one"),
    ],
)  # fmt: skip
def test_what_a_run_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        hs.Run(**arguments)


def test_arguments_beside_a_run_must_not_contradict_it():
    same = hs.get_epsilon(RUN, delta=1e-5, noise_multiplier=1.0, batch_size=256)
    assert same == hs.get_epsilon(RUN, delta=1e-5)
    others = {"noise_multiplier": 2.0, "steps": 3, "epochs": 3, "sample_rate": 0.5, "group_size": 2}
    for name, value in {**others, "mechanism": hs.Laplace(1.0), "batch_size": 3}.items():
        other = {name: value}
        with pytest.raises(ValueError, match="contradicts the run"):
            hs.get_epsilon(RUN, delta=1e-5, **other)
    one = RUN.replace(records_per_person=1)
    assert hs.get_epsilon(one, delta=1e-5, group_size=8) == hs.get_epsilon(RUN, delta=1e-5)
    with pytest.raises(TypeError, match="run must be a Run"):
        hs.get_epsilon({"epochs": 3}, delta=1e-5)
    with pytest.raises(TypeError, match="steps is missing"):
        hs.get_epsilon(RUN.replace(epochs=None), delta=1e-5)


def test_an_accountant_refuses_a_run_about_others():
    accountant = hs.accountants.GroupAccountant()
    with pytest.raises(ValueError, match="use group_size=8"):
        accountant.step(RUN)
    with pytest.raises(ValueError, match="adjacency must be 'add_remove'"):
        accountant.step(hs.Run(sampling="full", steps=3, noise_multiplier=1.0, adjacency="replace"))
    with pytest.raises(TypeError, match="states all of its steps"):
        hs.accountants.GroupAccountant(group_size=8).step(RUN, steps=3)
    with pytest.raises(TypeError, match="neither steps nor epochs"):
        hs.accountants.GroupAccountant(group_size=8).step(RUN.replace(epochs=None))
    assert len(accountant) == 0


ACCOUNTANTS = [
    hs.accountants.GroupAccountant(),
    hs.accountants.RenyiGroupAccountant(),
    hs.accountants.MonteCarloAccountant(),
    hs.accountants.IndividualAccountant(10),
    hs.accountants.ShuffleAccountant(10, 100),
]


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda made: type(made).__name__)
def test_equal_steps_in_one_call_are_as_many_calls(accountant):
    one_by_one = type(accountant)(**accountant.state_dict()["settings"])
    at_once = type(accountant)(**accountant.state_dict()["settings"])
    step = {"noise_multiplier": 2.0, "sample_rate": 0.1}
    for _ in range(12):
        one_by_one.step(**step)
    at_once.step(**step, steps=5)
    at_once.step(**step, steps=0)
    at_once.step(**step, steps=np.int64(7))
    assert at_once.state_dict() == one_by_one.state_dict()
    assert at_once.get_epsilon(1e-3) == one_by_one.get_epsilon(1e-3)
    for wrong in (-1, 1.5, "3"):
        with pytest.raises((ValueError, TypeError), match="steps"):
            at_once.step(**step, steps=wrong)
    with pytest.raises(TypeError, match="did you mean noise_multiplier"):
        at_once.step(sigma=1.0, sample_rate=0.1)
    assert at_once.state_dict() == one_by_one.state_dict()


def test_the_accountant_of_shuffled_batches_takes_a_shuffled_run():
    run = hs.Run(sampling="shuffle", batch_size=10, dataset_size=100, epochs=1, noise_multiplier=2.0)
    accountant = hs.accountants.ShuffleAccountant(10, 100)
    accountant.step(run)
    assert accountant.history == [(2.0, 0.1, 10)]
    with pytest.raises(ValueError, match="sampling"):
        accountant.step(RUN)


def test_an_accountant_says_where_a_run_goes():
    run = hs.Run(sampling="full", steps=2, noise_multiplier=3.0, records_per_person=4)
    with pytest.raises(TypeError, match=r"with group_size=4 and pass the run to its step"):
        hs.GroupAccountant(run)
