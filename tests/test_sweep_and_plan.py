"""Sweeps as tables, and the planner from data and a target to batch, steps, cap and noise."""

import math

import numpy as np
import pytest

import hockeystick as hs

RUN = {"delta": 1e-5, "sample_rate": 0.01, "steps": 1000}


def test_lists_are_combined_and_answers_are_those_of_the_function():
    table = hs.sweep("epsilon", noise_multiplier=[1.0, 2.0], group_size=range(1, 4), **RUN)
    assert table.columns == ("noise_multiplier", "group_size", "epsilon")
    want = hs.get_epsilon(noise_multiplier=[[1.0], [2.0]], group_size=[1, 2, 3], **RUN)
    assert np.array_equal(table["epsilon"], want.ravel())
    assert len(table) == 6
    assert next(iter(table)) == {"noise_multiplier": 1.0, "group_size": 1, "epsilon": want[0, 0]}


def test_schemes_and_relations_are_combined_too():
    schemes = [hs.Poisson(0.01), hs.WithoutReplacement(1, 100)]
    table = hs.sweep("epsilon", delta=1e-5, noise_multiplier=2.0, sampling=schemes, steps=[10, 20],
                     adjacency=["add", "remove"])  # fmt: skip
    assert table["sampling"][0] == repr(schemes[0])
    row = {"sampling": schemes[1], "steps": 20, "adjacency": "remove"}
    assert table["epsilon"][-1] == hs.get_epsilon(delta=1e-5, noise_multiplier=2.0, **row)


def test_facts_of_a_run_are_replaced():
    run = hs.Run(sampling="poisson", batch_size=100, dataset_size=10_000, epochs=10, noise_multiplier=1.0)
    table = hs.sweep("epsilon", run, delta=1e-5, epochs=[1, 10], group_size=[1, 2])
    assert table["epsilon"][3] == hs.get_epsilon(run.replace(records_per_person=2), delta=1e-5)
    found = hs.sweep("noise_multiplier", run, delta=1e-5, epsilon=[1.0, 3.0])
    assert found["noise_multiplier"][1] == hs.get_noise_multiplier(run, epsilon=3.0, delta=1e-5)


def test_columns_vary_together_and_keep_their_index():
    import pandas

    frame = pandas.DataFrame({"sigma": [1.0, 2.0], "rate": [0.1, 0.2]}, index=["a", "b"])
    arguments = {"delta": 1e-5, "noise_multiplier": frame["sigma"], "sample_rate": frame["rate"]}
    found = hs.sweep("epsilon", steps=5, **arguments).to_pandas()
    assert list(found.index) == ["a", "b"]
    assert found.loc["b", "epsilon"] == hs.get_epsilon(
        delta=1e-5, noise_multiplier=2.0, sample_rate=0.2, steps=5
    )
    assert hs.sweep("epsilon", steps=[5, 6], **arguments).index == ["a", "a", "b", "b"]
    with pytest.raises(ValueError, match="one length"):
        hs.sweep(
            "epsilon", delta=1e-5, steps=pandas.Series([1]), noise_multiplier=frame["sigma"], sample_rate=0.1
        )


@pytest.mark.opacus
def test_columns_of_polars_vary_together():
    import polars

    frame = polars.DataFrame({"sigma": [1.0, 2.0], "rate": [0.1, 0.2], "steps": [5, 6]})
    columns = {"noise_multiplier": frame["sigma"], "sample_rate": frame["rate"], "steps": frame["steps"]}
    table = hs.sweep("epsilon", delta=1e-5, **columns)
    want = hs.get_epsilon(delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=[0.1, 0.2], steps=[5, 6])
    assert len(table) == 2
    assert np.array_equal(table["epsilon"], want)
    assert table.index is None
    assert np.array_equal(hs.get_epsilon(delta=1e-5, **columns), want)
    combined = hs.sweep("epsilon", delta=1e-5, **{**columns, "steps": [5, 6]})
    assert combined["epsilon"].tolist()[::3] == want.tolist()
    with pytest.raises((ValueError, TypeError), match="steps"):
        hs.get_epsilon(delta=1e-5, **{**columns, "steps": polars.Series([5, None])})
    with pytest.raises(TypeError, match="noise_multiplier must be a real number"):
        hs.sweep("epsilon", delta=1e-5, **{**columns, "noise_multiplier": polars.Series(["a", "b"])})


@pytest.mark.opacus
def test_scalars_and_arrays_of_jax_and_torch_in_sweeps():
    import torch
    from jax import numpy

    want = hs.sweep("epsilon", noise_multiplier=[1.5, 2.0], **RUN)["epsilon"]
    for kind in (numpy.float32, numpy.bfloat16, numpy.float16):
        scalars = [numpy.asarray(sigma, dtype=kind) for sigma in (1.5, 2.0)]
        assert np.array_equal(hs.sweep("epsilon", noise_multiplier=scalars, **RUN)["epsilon"], want)
        assert hs.get_epsilon(noise_multiplier=scalars[0], **RUN) == want[0]
    arrays = (
        numpy.asarray([1.5, 2.0]),
        torch.tensor([1.5, 2.0]),
        torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
    )
    for array in arrays:
        table = hs.sweep("epsilon", noise_multiplier=array, **RUN)
        assert np.array_equal(table["epsilon"], want)
        assert table["noise_multiplier"].tolist() == [1.5, 2.0]
    steps = hs.sweep("epsilon", delta=torch.tensor(1e-5, dtype=torch.float64), noise_multiplier=2.0,
                     sample_rate=0.01, steps=numpy.asarray([10, 1000]))  # fmt: skip
    assert steps["epsilon"][1] == want[1]
    assert steps["steps"].tolist() == [10, 1000]


def test_csv_has_all_digits(tmp_path):
    table = hs.sweep("epsilon", noise_multiplier=[1.0, 2.0], **RUN)
    written = table.to_csv(tmp_path / "sweep.csv")
    assert (tmp_path / "sweep.csv").read_bytes().decode() == written
    lines = written.splitlines()
    assert lines[0] == "noise_multiplier,epsilon"
    assert [float(line.split(",")[1]) for line in lines[1:]] == table["epsilon"].tolist()


def test_progress_and_html():
    seen = []
    table = hs.sweep(
        "epsilon", noise_multiplier=np.linspace(1.0, 2.0, 70), progress=lambda *done: seen.append(done), **RUN
    )
    assert seen == [(64, 70), (70, 70)]
    assert "<td>1.8282</td>" in table._repr_html_()
    assert "and 10 further rows" in str(table)


@pytest.mark.parametrize(
    ("unknown", "arguments", "error", "message"),
    [
        ("sigma", {}, ValueError, "unknown must be one of"),
        ("epsilon", {"nosie_multiplier": [1.0]}, TypeError, "did you mean noise_multiplier"),
        ("epsilon", {"noise_multiplier": [-1.0, 1.0]}, ValueError, "noise_multiplier"),
    ],
)
def test_what_a_sweep_refuses(unknown, arguments, error, message):
    with pytest.raises(error, match=message):
        hs.sweep(unknown, **arguments, **RUN)


PLAN = {"dataset_size": 10_000, "epochs": 5, "epsilon": 3.0, "delta": 1e-6}


def test_a_plan_meets_its_target_with_the_least_noise_first():
    found = hs.plan(records_per_person=4, batch_sizes=[64, 128], **PLAN)
    assert sorted(zip(found["batch_size"].tolist(), found["cap"].tolist(), strict=True)) == [
        (64, 1), (64, 2), (64, 4), (128, 1), (128, 2), (128, 4)]  # fmt: skip
    assert np.all(np.diff(found["noise_per_gradient"]) >= 0.0)
    for row, line in enumerate(found):
        run = found.run(row)
        assert 2.99 < hs.get_epsilon(run, delta=1e-6) <= 3.0
        assert run.records_per_person == line["cap"]
        assert line["records"] == 10_000 * line["cap"] // 4 == run.dataset_size
        assert line["steps"] == math.ceil(5 * line["records"] / line["batch_size"]) == run.number_of_steps
        assert line["noise_per_gradient"] == run.noise_multiplier / line["batch_size"]


@pytest.mark.parametrize(
    "target",
    [{"advantage": 0.1}, {"tpr": 0.05, "fpr": 0.01}, {"bayes_success": 0.75, "prior": 0.3}, {"mu": 2.0}],
)
def test_a_plan_meets_a_target_for_attacks(target):
    choices = hs.plan(
        dataset_size=10_000, epochs=2, batch_sizes=[500], caps=[2], records_per_person=2, **target
    )
    (row,) = choices
    run = {"sample_rate": 0.05, "steps": 40, "group_size": 2}
    assert row["noise_multiplier"] == hs.get_noise_multiplier(**target, **run)
    curve = hs.TradeoffCurve.from_curve(hs.privacy_curve(choices.run()))
    reached = {
        "advantage": lambda: curve.advantage(),
        "tpr": lambda: 1.0 - curve.beta(0.01),
        "bayes_success": lambda: curve.attack_success(0.3),
        "mu": lambda: curve.mu(),
    }
    name, allowed = next(iter(target.items()))
    assert reached[name]() <= allowed * (1.0 + 1e-9)
    assert str(choices).startswith(", ".join(f"{key} {value:g}" for key, value in target.items()))
    with pytest.raises(TypeError, match="exactly one target"):
        hs.plan(dataset_size=100, epochs=1, epsilon=1.0, delta=1e-3, **target)


def test_compute_is_the_number_of_gradients():
    arguments = {name: value for name, value in PLAN.items() if name != "epochs"}
    found = hs.plan(compute=50_000, batch_sizes=[100], records_per_person=2, **arguments)
    assert found["steps"].tolist() == [500, 500]
    whole = hs.plan(batch_sizes=[100], **PLAN)
    assert found["noise_multiplier"][found["cap"] == 2][0] > whole["noise_multiplier"][0]


def test_records_of_all_persons_say_what_a_cap_leaves():
    counts = [1, 1, 3, 5]
    found = hs.plan(dataset_size=10, epochs=3, epsilon=50.0, delta=1e-2, records_per_person=counts,
                    batch_sizes=[2], caps=[1, 3])  # fmt: skip
    kept = dict(zip(found["cap"].tolist(), found["records"].tolist(), strict=True))
    assert kept == {1: 4, 3: 8}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"compute": 10}, TypeError, "exactly one of epochs and compute"),
        ({"epochs": 0}, ValueError, "epochs must be above 0"),
        ({"records_per_person": [1, 2]}, ValueError, "whose sum is 3"),
        ({"records_per_person": 20_000}, ValueError, "records_per_person"),
        ({"batch_sizes": [20_000]}, ValueError, "batch_sizes"),
        ({"caps": [2]}, ValueError, "caps must be at most 1"),
    ],
)
def test_what_a_plan_refuses(changes, error, message):
    with pytest.raises(error, match=message):
        hs.plan(**{**PLAN, **changes})


def test_pictures_of_both():
    import matplotlib

    matplotlib.use("Agg")
    axes = hs.sweep("epsilon", noise_multiplier=[1.0, 2.0, 3.0], group_size=[1, 2], **RUN).plot()
    assert axes.get_xlabel() == "noise multiplier"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["group_size 1", "group_size 2"]
    choices = hs.plan(records_per_person=2, batch_sizes=[64, 128], **PLAN)
    axes = choices.plot()
    assert len(axes.lines) == 2
    assert axes.get_ylabel() == "noise per averaged gradient"
    with pytest.raises(KeyError, match="nothing"):
        choices.plot(y="nothing")


def test_titles_state_what_all_rows_have_in_common():
    import matplotlib

    matplotlib.use("Agg")
    table = hs.sweep("epsilon", noise_multiplier=[1.0, 2.0], **RUN)
    assert table.plot().get_title(loc="left") == ""
    stated = " ".join(table.plot(title=True).get_title(loc="left").split())
    written = {"delta": r"$\delta = 10^{-5}$"}
    in_words = (f"{name.replace('_', ' ')} {value:g}" for name, value in RUN.items())
    assert stated == "; ".join(written.get(words.partition(" ")[0], words) for words in in_words)
    assert table.plot().get_ylabel() == r"$\varepsilon$ (nats)"
    assert table.plot(title="Two").get_title(loc="left") == "Two"
    choices = hs.plan(batch_sizes=[64, 128], **PLAN)
    axes = choices.plot(title=True)
    assert rf"$\varepsilon = {PLAN['epsilon']:g}$" in axes.get_title(loc="left")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["64", "128"]
    with pytest.raises(ValueError, match="title must be a string"):
        hs.Table({"x": [1], "y": [2]}, answer="y").plot(title=True)
    with pytest.raises(TypeError, match="title"):
        table.plot(title=3)
