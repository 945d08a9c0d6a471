"""Run files, epochs, sweeps and plans on the command line."""

import json

import pytest
from click.testing import CliRunner

import hockeystick as hs
from hockeystick.cli._commands import hockeystick

FACTS = {"batch_size": 100, "dataset_size": 10_000, "epochs": 10, "noise_multiplier": 1.0}
RUN = hs.Run(**FACTS, records_per_person=2, sampling="poisson")


def call(*arguments, status=0):
    result = CliRunner().invoke(hockeystick, [str(argument) for argument in arguments])
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def config(tmp_path):
    return RUN.save(tmp_path / "run.toml")


def answer(*arguments):
    return json.loads(call(*arguments, "--json"))


def test_a_file_says_what_the_run_is(config):
    found = answer("epsilon", "--config", config, "--delta", 1e-5)
    assert found["results"][0]["epsilon"] == hs.get_epsilon(RUN, delta=1e-5)
    assert found["run_sha256"] == RUN.sha256
    sigma = answer("noise-multiplier", "--config", config, "--epsilon", 3, "--delta", 1e-5)
    assert sigma["results"][0]["noise_multiplier"] == hs.get_noise_multiplier(RUN, epsilon=3.0, delta=1e-5)
    told = json.loads(call("explain", "--config", config, "--delta", 1e-5, "--json"))
    assert told["epsilon"] == hs.get_epsilon(RUN, delta=1e-5)


def test_what_is_typed_takes_the_place_of_the_file(config):
    found = answer("epsilon", "--config", config, "--delta", 1e-5, "--group-size", 1, "--noise-multiplier", 2)
    other = RUN.replace(records_per_person=1, noise_multiplier=2.0)
    assert found["results"][0]["epsilon"] == hs.get_epsilon(other, delta=1e-5)
    found = answer("epsilon", "--config", config, "--delta", 1e-5, "--epochs", 5)
    assert found["results"][0]["epsilon"] == hs.get_epsilon(RUN.replace(epochs=5), delta=1e-5)


@pytest.mark.parametrize(
    "run",
    [
        hs.Run(sampling="fixed", batch_size=10, dataset_size=1000, epochs=1, noise_multiplier=2.0),
        hs.Run(sampling="random_allocation", batches=10, epochs=1, noise_multiplier=2.0),
        hs.Run(sampling="full", steps=3, mechanism=hs.Laplace(2.0)),
        hs.Run(sampling="poisson", sample_rate=0.1, steps=3, mechanism=hs.BatchClipping(9.0)),
        hs.Run(sampling="poisson", sample_rate=0.1, steps=3, mechanism=hs.AdaptiveClipping(2.0, 5.0)),
        hs.Run(sampling=hs.FixedOrder(10), epochs=3, mechanism=hs.CorrelatedNoise.toeplitz([1, 0.5], 2.0)),
        hs.Run(sampling="poisson", sample_rate=0.1, steps=3, noise_multiplier=1.0, microbatches=2),
        hs.Run(
            sampling="poisson", sample_rate=0.1, steps=3, noise_multiplier=1.0, group=hs.Group(norms=[1, 0.5])
        ),
        hs.Run(sampling="poisson", batch_size=2.5, dataset_size=100, steps=3, noise_multiplier=1.0),
    ],
    ids=lambda run: f"{run.sampling}, {type(run.mechanism).__name__}",
)
def test_every_kind_of_run(run, tmp_path):
    found = answer("epsilon", "--config", run.save(tmp_path / "run.json"), "--delta", 1e-5)
    assert found["results"][0]["epsilon"] == hs.get_epsilon(run, delta=1e-5)


def test_other_options_may_stand_in_the_file(config):
    config.write_text("delta = 1e-5\n" + config.read_text("utf-8"), "utf-8")
    assert answer("epsilon", "--config", config)["results"][0]["epsilon"] == hs.get_epsilon(RUN, delta=1e-5)
    config.write_text("nonsense = 1\n" + config.read_text("utf-8"), "utf-8")
    assert "nonsense" in call("epsilon", "--config", config, status=2)


def test_what_is_missing_is_asked_for(config):
    assert "Missing option '--delta'" in call("epsilon", "--config", config, status=2)
    assert "Missing option '--steps'" in call("epsilon", "--delta", 1e-5, "--sample-rate", 0.1, status=2)


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("noise-multiplier", {"advantage": 0.1}),
        ("steps", {"tpr": 0.2, "fpr": 0.01}),
        ("group-size", {"bayes_success": 0.7, "prior": 0.6}),
        ("sample-rate", {"mu": 0.5}),
        ("noise-multiplier", {"mu": 0.5}),
        ("steps", {"mu": 0.5}),
    ],
)
def test_risks_are_targets(command, target):
    run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 100}
    unknown = command.replace("-", "_")
    run.pop(unknown, None)
    function = getattr(hs, f"get_{unknown}")
    options = [
        part for name, value in {**target, **run}.items() for part in (f"--{name.replace('_', '-')}", value)
    ]
    found = answer(command, *options)["results"][0]
    assert found[unknown] == function(**target, **run)
    lower, upper = found["bounds"]
    assert lower <= found[unknown] <= (float("inf") if upper is None else upper)


def test_a_risk_takes_the_place_of_the_target_of_a_file(config):
    config.write_text("delta = 1e-5\nepsilon = 3.0\n" + config.read_text("utf-8"), "utf-8")
    sigma = answer("noise", "--config", config)["results"][0]["noise_multiplier"]
    assert sigma == hs.get_noise_multiplier(RUN, epsilon=3.0, delta=1e-5)
    sigma = answer("noise", "--config", config, "--advantage", 0.2)["results"][0]["noise_multiplier"]
    assert sigma == hs.get_noise_multiplier(RUN, advantage=0.2)


def test_a_plan_takes_a_risk():
    options = ["--dataset-size", 10_000, "--epochs", 2, "--batch-sizes", 500]
    (row,) = json.loads(call("plan", *options, "--advantage", 0.1, "--json"))["rows"]
    assert row["noise_multiplier"] == hs.get_noise_multiplier(advantage=0.1, sample_rate=0.05, steps=40)
    assert "exactly one target" in call("plan", *options, status=2)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("epsilon", "--sigma", 1), "--noise-multiplier"),
        (("epsilon", "--num-steps", 1), "--steps"),
        (("noise", "--target-epsilon", 1), "--epsilon"),
        (("report", "--output", "a.html"), "--path"),
        (("plan", "--n", 1), "--dataset-size"),
        (("sweep", "epsilon", "--delta", 1), "--vary delta="),
    ],
)
def test_other_names_of_options_are_answered_with_ours(arguments, meant):
    assert meant in call(*arguments, status=2)


def test_other_names_in_files_are_answered_with_ours(config):
    config.write_text("sigma = 1.0\n", "utf-8")
    assert "did you mean noise_multiplier" in call("epsilon", "--config", config, "--delta", 1e-5, status=2)


def test_reports_have_a_form_to_sign(config, tmp_path):
    path = tmp_path / "report.md"
    signed = (
        "--model",
        "a network",
        "--dataset",
        "ten scans",
        "--responsible",
        "A. Person",
        "--date",
        "1 May",
    )
    call("report", "--config", config, "--delta", 1e-5, "--path", path, "--target", 3, *signed)
    text = path.read_text("utf-8")
    for words in signed[1::2]:
        assert words in text


def test_epochs_are_steps():
    sizes = ["--sampling", "poisson", "--batch-size", 100, "--dataset-size", 10_000, "--noise-multiplier", 1]
    found = answer("epsilon", "--delta", 1e-5, *sizes, "--epochs", 10)
    assert found["results"][0]["epsilon"] == hs.get_epsilon(RUN.replace(records_per_person=1), delta=1e-5)
    assert "contradicts" in call("epsilon", "--delta", 1e-5, *sizes, "--epochs", 10, "--steps", 3, status=2)
    assert "--epochs needs" in call("delta", "--epsilon", 1, "--noise-multiplier", 1, "--epochs", 1, status=2)


def test_a_file_is_checked(config, tmp_path):
    assert f"sha256: {RUN.sha256}" in call("check", config)
    assert json.loads(call("check", config, "--json"))["steps"] == 1000
    broken = tmp_path / "broken.toml"
    broken.write_text('sampling = "poisson"\nsigma = 1.0\n', "utf-8")
    assert "did you mean noise_multiplier" in call("check", broken, status=2)
    call("check", tmp_path / "none.toml", status=2)


def test_sweeps_and_plans_print_write_and_give_json(config, tmp_path):
    varied = [
        "sweep",
        "epsilon",
        "--config",
        config,
        "--vary",
        "delta=1e-5",
        "--vary",
        "noise_multiplier=1,2",
    ]
    table = hs.sweep("epsilon", RUN, delta=1e-5, noise_multiplier=[1, 2])
    assert call(*varied) == f"{table}\n"
    assert json.loads(call(*varied, "--json"))["rows"] == list(table)
    call(*varied, "--csv", tmp_path / "sweep.csv")
    assert (tmp_path / "sweep.csv").read_bytes().decode() == table.to_csv()
    assert "NAME=VALUE" in call("sweep", "epsilon", "--vary", "delta", status=2)
    target = ["--dataset-size", 10_000, "--epsilon", 3, "--delta", 1e-6, "--epochs", 5]
    rows = json.loads(call("plan", *target, "--batch-sizes", "64,128", "--records-per-person", 2, "--json"))[
        "rows"
    ]
    want = hs.plan(
        dataset_size=10_000, epsilon=3, delta=1e-6, epochs=5, batch_sizes=[64, 128], records_per_person=2
    )
    assert rows == list(want)
    assert "whole numbers" in call("plan", *target, "--caps", "a", status=2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    script = call("completion", shell)
    assert "_HOCKEYSTICK_COMPLETE" in script
    found = json.loads(call("completion", shell, "--json"))
    assert found == {"shell": shell, "script": script.removesuffix("\n")}


def test_every_command_has_json():
    from hockeystick.cli._commands import hockeystick

    for name, command in hockeystick.commands.items():
        assert "--json" in {option for each in command.params for option in each.opts}, name


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        (["batch_clipping", "--noise-multiplier", 9], hs.BatchClipping(9.0)),
        (
            ["batch_clipping", "--noise-multiplier", 9, "--units-per-batch", 2, "--sampling", "fixed"],
            hs.BatchClipping(9.0, 2),
        ),
        (["adaptive_clipping", "--noise-multiplier", 2, "--count-noise", 5], hs.AdaptiveClipping(2.0, 5.0)),
    ],
)
def test_mechanisms_can_be_stated(options, mechanism):
    is_fixed = "fixed" in options
    sizes = ["--batch-size", 10, "--dataset-size", 100] if is_fixed else ["--sample-rate", 0.1]
    found = answer("epsilon", "--delta", 1e-5, "--steps", 3, *sizes, "--mechanism", *options)
    scheme = hs.WithoutReplacement(10, 100) if is_fixed else hs.Poisson(0.1)
    exact = hs.get_epsilon(delta=1e-5, steps=3, sampling=scheme, mechanism=mechanism)
    assert found["results"][0]["epsilon"] == exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mechanism", "skellam"], "--mechanism skellam needs --variance"),
        (["--mechanism", "skellam", "--variance", 9], "RenyiGroupAccountant"),
        (["--mechanism", "batch_clipping"], "--mechanism batch_clipping needs --noise-multiplier"),
        (["--mechanism", "laplace", "--scale", 1, "--noise-multiplier", 1], "give exactly one of"),
        (["--noise-multiplier", 1, "--count-noise", 1], "--count-noise belongs to --mechanism adaptive"),
    ],
)
def test_options_of_mechanisms_belong_together(options, message):
    status = 1 if "RenyiGroup" in message else 2
    asked = ["epsilon", "--delta", 1e-5, "--steps", 3, "--sample-rate", 0.1]
    assert message in " ".join(call(*asked, *options, status=status).split())


def test_plan_takes_the_file_of_a_run(config):
    target = ["--epsilon", 3, "--delta", 1e-5]
    found = answer("plan", "--config", config, *target)
    exact = hs.plan(hs.Run.load(config), epsilon=3.0, delta=1e-5)
    assert [row["noise_multiplier"] for row in found["rows"]] == [row["noise_multiplier"] for row in exact]


def test_a_command_about_gaussian_noise_refuses_a_file_with_other_noise(tmp_path):
    run = hs.Run(sampling="full", steps=3, mechanism=hs.Laplace(2.0))
    path = run.save(tmp_path / "run.toml")
    text = call("noise", "--config", path, "--epsilon", 3, "--delta", 1e-5, status=2)
    assert (
        "covers Gaussian noise and BatchClipping alone, and the file states Laplace(scale=2.0)"
        in " ".join(text.split())
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sampling", "Poisson"], "; did you mean 'poisson'?"),
        (["--sampling", "shuffled"], "; did you mean 'shuffle'?"),
        (["--adjacency", "replace_one"], "; did you mean 'replace'?"),
        (["--eps", "3"], ": epsilon finds it; noise --epsilon finds the noise for a target"),
        (["--epsilon", "3"], ": epsilon finds it; noise --epsilon finds the noise for a target"),
        (["--max-grad-norm", "1"], "the clipping norm needs no argument"),
        (["--k", "1"], "; did you mean --group-size"),
    ],
)
def test_other_names_are_answered_with_ours(options, message):
    asked = ["epsilon", "--delta", 1e-5, "--steps", 3, "--noise-multiplier", 1]
    assert message in " ".join(call(*asked, *options, status=2).split())
