"""The command line: the answers of the Python functions, exit statuses, and what a script reads."""

import doctest
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import hockeystick as hs
from hockeystick.cli._commands import hockeystick

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"

RUN = ["--noise-multiplier", "1", "--sample-rate", "0.01"]
TARGET = ["--epsilon", "3", "--delta", "1e-5"]
NOISE = ["--noise-multiplier", "1"]
FULL = ["--sampling", "full"]
SIZES = ["--batch-size", "100", "--dataset-size", "6000"]
LITTLE_NOISE = ["--noise-multiplier", "0.5", "--sample-rate", "0.01"]
REPLACED_PAIR = ["--group-size", "2", "--adjacency", "replace"]
SHUFFLED = ["--sampling", "shuffle", *SIZES, "--adjacency", "zero_out"]
FIXED = ["--sampling", "fixed", "--batch-size", "1", "--dataset-size", "9"]


def call(*arguments):
    return CliRunner().invoke(hockeystick, arguments, prog_name="hockeystick")


def answer(*arguments):
    """The one result in the JSON that a command prints."""
    found = call(*arguments, "--json")
    assert (found.exit_code, found.stderr) == (0, "")
    (result,) = json.loads(found.stdout)["results"]
    return result


def test_every_command_gives_the_answer_of_its_function():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01}
    target = {"epsilon": 3.0, "delta": 1e-5}
    steps = ["--steps", "1000"]
    rate = ["--sample-rate", "0.01"]
    noise = ["--noise-multiplier", "1"]
    for command, options, unknown, expected in [
        (
            "epsilon",
            [*RUN, *steps, "--delta", "1e-5"],
            "epsilon",
            hs.get_epsilon(delta=1e-5, steps=1000, **run),
        ),
        ("delta", [*RUN, *steps, "--epsilon", "3"], "delta", hs.get_delta(epsilon=3.0, steps=1000, **run)),
        (
            "noise",
            [*rate, *steps, *TARGET],
            "noise_multiplier",
            hs.get_noise_multiplier(sample_rate=0.01, steps=1000, **target),
        ),
        (
            "sample-rate",
            [*noise, *steps, *TARGET],
            "sample_rate",
            hs.get_sample_rate(noise_multiplier=1.0, steps=1000, **target),
        ),
        ("steps", [*RUN, *TARGET], "steps", hs.get_steps(**run, **target)),
        (
            "group-size",
            ["--noise-multiplier", "4", *rate, *steps, *TARGET],
            "group_size",
            hs.get_group_size(noise_multiplier=4.0, sample_rate=0.01, steps=1000, **target),
        ),
    ]:
        result = answer(command, *options)
        assert result[unknown] == expected, command
        low, high = result["bounds"]
        assert low <= result[unknown] <= high


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (
            ["--noise-multiplier", "2", "--sampling", "fixed", *SIZES],
            {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(100, 6000)},
        ),
        (
            ["--noise-multiplier", "2", "--sampling", "poisson", *SIZES],
            {"noise_multiplier": 2.0, "sample_rate": 100 / 6000},
        ),
        (
            ["--sampling", "poisson", *RUN],
            {"noise_multiplier": 1.0, "sample_rate": 0.01},
        ),
        (
            ["--noise-multiplier", "50", "--sampling", "full"],
            {"noise_multiplier": 50.0, "sampling": hs.FullBatch()},
        ),
        (
            ["--noise-multiplier", "50", "--sampling", "full", "--adjacency", "replace"],
            {"noise_multiplier": 50.0, "sampling": hs.FullBatch(), "adjacency": "replace"},
        ),
        (
            ["--mechanism", "laplace", "--scale", "5", "--sample-rate", "0.1"],
            {"mechanism": hs.Laplace(5.0), "sample_rate": 0.1},
        ),
        (
            ["--mechanism", "randomized_response", "--p", "0.75", "--sample-rate", "0.1"],
            {"mechanism": hs.RandomizedResponse(0.75), "sample_rate": 0.1},
        ),
        (
            ["--noise-multiplier", "2", "--rates", "0.01,0.02", "--norms", "1,0.5"],
            {"noise_multiplier": 2.0, "group": hs.Group(rates=[0.01, 0.02], norms=[1.0, 0.5])},
        ),
        (
            [*RUN, "--group-size", "4", "--gradients", "orthogonal"],
            {"noise_multiplier": 1.0, "sample_rate": 0.01, "group": hs.Group(4, gradients="orthogonal")},
        ),
        (
            ["--noise-multiplier", "2", "--sampling", "random_allocation", "--batches", "50"],
            {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(50)},
        ),
        (
            ["--noise-multiplier", "2", "--sampling", "random_allocation", "--batches", "50", "--times", "2"],
            {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(50, times=2)},
        ),
        (
            ["--noise-multiplier", "2", "--sampling", "fixed_bins", "--batches", "50"],
            {"noise_multiplier": 2.0, "sampling": hs.FixedBins(50)},
        ),
        (
            [*RUN, "--max-batch-size", "80", "--dataset-size", "6000"],
            {
                "noise_multiplier": 1.0,
                "sampling": hs.Poisson(0.01, max_batch_size=80, dataset_size=6000),
            },
        ),
        (
            [*NOISE, "--sampling", "poisson", *SIZES, "--max-batch-size", "150"],
            {
                "noise_multiplier": 1.0,
                "sampling": hs.Poisson(100 / 6000, max_batch_size=150, dataset_size=6000),
            },
        ),
        (
            [*RUN, "--microbatches", "3"],
            {"noise_multiplier": 1.0, "sampling": hs.Poisson(0.01, microbatches=3)},
        ),
        (
            [*NOISE, "--rates", "0.01,0.02", "--microbatches", "3"],
            {
                "noise_multiplier": 1.0,
                "sampling": hs.Poisson(1.0, microbatches=3),
                "group": hs.Group(rates=[0.01, 0.02]),
            },
        ),
        (
            [*NOISE, *SHUFFLED],
            {"noise_multiplier": 1.0, "sampling": hs.Shuffle(100, 6000), "adjacency": "zero_out"},
        ),
        (
            [*NOISE, *SHUFFLED[:-1], "replace", "--group-size", "2"],
            {
                "noise_multiplier": 1.0,
                "sampling": hs.Shuffle(100, 6000),
                "adjacency": "replace",
                "group_size": 2,
            },
        ),
        ([*RUN, "--tolerance", "1e-4"], {"noise_multiplier": 1.0, "sample_rate": 0.01, "tolerance": 1e-4}),
    ],
)
def test_runs_are_described_as_in_python(options, arguments):
    found = answer("epsilon", "--delta", "1e-5", "--steps", "100", *options)
    ends = hs.get_epsilon(delta=1e-5, steps=100, bounds=True, **arguments)
    assert found["bounds"] == list(ends)
    assert found["epsilon"] == ends[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["epsilon", "delta", "noise", "steps", "group-size"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--sampling", "poisson", *SIZES],
            "Poisson (each record joins each batch with probability 0.0166667)",
        ),
        (["--sampling", "fixed", *SIZES], "fixed batches (100 of 6000 records, a fresh random subset"),
        (["--sampling", "full"], "full batches (every record in every batch)"),
        (["--sample-rate", "0.5"], "Poisson (each record joins each batch with probability 0.5)"),
        (
            ["--sampling", "random_allocation", "--batches", "10"],
            "random allocation (each record is in 1 of the 10 batches of an epoch, drawn afresh",
        ),
        (
            ["--sampling", "fixed_bins", "--batches", "10"],
            "fixed bins (each record is in 1 of 10 batches, the same in each epoch)",
        ),
        (
            ["--sample-rate", "0.5", "--microbatches", "4"],
            "Poisson (each record joins each batch with probability 0.5; 4 batches are added up in a step)",
        ),
        (
            ["--sampling", "poisson", *SIZES, "--max-batch-size", "200"],
            "Poisson (each record joins each batch with probability 0.0166667; at most 200 of 6000 records)",
        ),
    ],
)
def test_every_answer_names_the_sampling(command, options, words):
    # Large groups of dealt and of cut batches take long.
    noise = "3" if {"--batches", "--max-batch-size"} & set(options) else "50"
    wanted = {
        "epsilon": ["--delta", "1e-5", "--noise-multiplier", "50", "--steps", "10"],
        "delta": ["--epsilon", "0.2", "--noise-multiplier", "50", "--steps", "10"],
        "noise": [*TARGET, "--steps", "10"],
        "steps": [*TARGET, "--noise-multiplier", "50"],
        "group-size": [*TARGET, "--noise-multiplier", noise, "--steps", "10"],
    }[command]
    *_, last = call(command, *wanted, *options).stdout.splitlines()
    assert last.startswith(f"sampling: {words}")
    assert json.loads(call(command, *wanted, *options, "--json").stdout)["sampling"].startswith(words)


def test_the_sampling_is_named_where_each_member_has_its_own_rate_or_the_rate_is_asked_for():
    options = ["epsilon", "--delta", "1e-5", "--steps", "10", *NOISE, "--rates", "0.1,0.2"]
    assert "each member joins each batch with a probability of its own" in call(*options).stdout
    options = ["sample-rate", "--noise-multiplier", "1", "--steps", "10", *TARGET]
    assert call(*options).stdout.endswith("sampling: Poisson\n")


@pytest.mark.parametrize(
    ("options", "shown", "at_least"),
    [
        (
            ["steps", "--noise-multiplier", "100000", "--sample-rate", "0.001"],
            "steps at least 1000000000 (larger numbers are not searched)",
            True,
        ),
        (["steps", *RUN], "steps 2666", False),
        (
            ["group-size", "--noise-multiplier", "1000000", "--sample-rate", "0.001", "--steps", "10"],
            "group_size at least 10000 (larger numbers are not searched)",
            True,
        ),
        # All records of the data set: there is no larger group.
        (
            ["group-size", "--noise-multiplier", "100000", *FIXED, "--steps", "10"],
            "group_size 9",
            False,
        ),
    ],
)
def test_an_answer_at_the_end_of_the_range_that_is_searched_says_so(options, shown, at_least):
    first, *_ = call(*options, *TARGET).stdout.splitlines()
    assert first == shown
    assert answer(*options, *TARGET)["at_least"] is at_least


def test_several_group_sizes_are_several_results():
    options = ["epsilon", "--delta", "1e-5", "--steps", "1000", *RUN]
    expected = hs.get_epsilon(
        delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000, group_size=[1, 2, 8]
    )
    for sizes in (["--group-size", "1,2,8"], ["--group-size", "1", "--group-size", "2,8"]):
        document = json.loads(call(*options, *sizes, "--json").stdout)
        assert [each["group_size"] for each in document["results"]] == [1, 2, 8]
        assert [each["epsilon"] for each in document["results"]] == expected.tolist()
    table = call(*options, "--group-size", "1,2,8").stdout.splitlines()
    assert table[0].split() == ["group_size", "epsilon"]
    assert table[-1].startswith("sampling: Poisson")
    for line, size, epsilon in zip(table[1:-1], (1, 2, 8), expected, strict=True):
        shown_size, shown = line.split()
        assert int(shown_size) == size
        assert epsilon <= float(shown) <= epsilon * (1 + 1e-4)


def test_numbers_for_people_are_rounded_to_the_safe_side():
    options = ["--noise-multiplier", "1", "--steps", "1000", *TARGET]
    shown = call("sample-rate", *options).stdout.splitlines()[0].split()
    exact = hs.get_sample_rate(noise_multiplier=1.0, steps=1000, epsilon=3.0, delta=1e-5)
    assert shown[0] == "sample_rate"
    assert exact * (1 - 1e-4) <= float(shown[1]) <= exact


def test_json_says_what_was_asked_and_has_no_infinite_number():
    found = call(
        "epsilon",
        *["--delta", "1e-5", "--noise-multiplier", "0", "--batch-size", "1", "--dataset-size", "2"],
        *["--sampling", "fixed", "--steps", "1", "--group-size", "2", "--json"],
    )
    document = json.loads(found.stdout, parse_constant=pytest.fail)
    assert document["version"] == hs.__version__
    assert document["arguments"]["sampling"] == "WithoutReplacement(batch_size=1, dataset_size=2)"
    assert document["results"] == [{"group_size": 2, "epsilon": None, "bounds": [None, None]}]


def test_explain_prints_the_explanation():
    options = ["explain", "--delta", "1e-5", "--steps", "1000", "--dataset-size", "60000", *RUN]
    expected = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000, dataset_size=60_000)
    assert call(*options).stdout == f"{expected}\n"
    assert json.loads(call(*options, "--json").stdout) == expected


def test_report_writes_the_report_of_the_curve(tmp_path):
    options = ["report", "--delta", "1e-5", "--steps", "1000", "--dataset-size", "60000", *RUN]
    shown = ["--group-sizes", "1,4", "--title", "My run", "--details", "clipping norm=1.5"]
    found = call(*options, *shown, "--path", str(tmp_path / "report.md"))
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == f"{tmp_path / 'report.md'}\n"
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    (tmp_path / "python").mkdir()
    expected = hs.report(
        curve,
        tmp_path / "python" / "report.md",
        dataset_size=60_000,
        group_sizes=[1, 4],
        title="My run",
        details={"clipping norm": "1.5"},
    )
    assert (tmp_path / "report.md").read_text("utf-8") == expected.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--path", "report.pdf"], "path"),
        (["--group-size", "1,2"], "one --group-size"),
        (["--details", "clipping norm"], "NAME=TEXT"),
        (["--group-sizes", "x"], "whole numbers"),
        (["--target", "-1"], "target"),
    ],
)
def test_reports_that_cannot_be_written_are_exit_status_2(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = call("report", "--delta", "1e-5", "--steps", "9", *RUN, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert words in found.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["group-size", "--steps", "1000", *TARGET, *LITTLE_NOISE], "one record has epsilon"),
        (["noise", "--steps", "1000000", "--epsilon", "0", "--delta", "1e-300", *FULL], "nearest"),
        (
            ["epsilon", "--steps", "9", "--delta", "1e-5", *RUN, *REPLACED_PAIR, "--gradients", "orthogonal"],
            "not supported together",
        ),
        (["noise", "--steps", "9", *TARGET, "--rates", "0.1", *FIXED], "not supported together"),
    ],
)
def test_no_answer_is_exit_status_1(arguments, words):
    found = call(*arguments)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("Error: ")
    assert words in found.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--delta", "2", *RUN], "delta must be in (0, 1), got 2"),
        (["--delta", "nan", *RUN], "delta must be"),
        (["--delta", "x", *RUN], "--delta"),
        ([*RUN], "--delta"),
        (["--delta", "1e-5", "--sample-rate", "0.01"], "exactly one of noise_multiplier and mechanism"),
        (["--delta", "1e-5", "--noise-multiplier", "1"], "exactly one of sample_rate and sampling"),
        (
            ["--delta", "1e-5", *RUN, *FULL],
            "--sample-rate is that of --sampling poisson, got --sampling full",
        ),
        (["--delta", "1e-5", *RUN, "--batch-size", "8"], "give either --sample-rate, or --batch-size"),
        (["--delta", "1e-5", *NOISE, "--sampling", "fixed", "--batch-size", "8"], "--batch-size needs"),
        (["--delta", "1e-5", *NOISE, *SIZES], "--sampling poisson if each record joins each batch"),
        (["--delta", "1e-5", *NOISE, *FULL, *SIZES], "--sampling full takes no --batch-size"),
        (["--delta", "1e-5", *NOISE, "--sampling", "fixed"], "--sampling fixed needs --batch-size"),
        (["--delta", "1e-5", *NOISE, "--sampling", "poisson"], "--sampling poisson needs --sample-rate"),
        (
            [
                "--delta",
                "1e-5",
                *NOISE,
                *["--sampling", "poisson", "--batch-size", "9", "--dataset-size", "8"],
            ],
            "batch_size must be at most dataset_size",
        ),
        (["--delta", "1e-5", *RUN, "--dataset-size", "8"], "--dataset-size needs"),
        (["--delta", "1e-5", *RUN, "--batches", "8"], "--batches belongs to --sampling random_allocation or"),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "fixed_bins", "--batches", "8", "--times", "2"],
            "--times belongs to --sampling random_allocation",
        ),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "random_allocation"],
            "--sampling random_allocation needs --batches",
        ),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "random_allocation", "--batches", "8", *SIZES],
            "--sampling random_allocation takes no --batch-size",
        ),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "random_allocation", "--batches", "8", "--times", "9"],
            "times must be",
        ),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "shuffle"],
            "--sampling shuffle needs --batch-size and --dataset-size",
        ),
        (
            ["--delta", "1e-5", *NOISE, "--sampling", "fixed", *SIZES, "--microbatches", "2"],
            "--microbatches belongs to --sampling poisson",
        ),
        (["--delta", "1e-5", *RUN, "--max-batch-size", "9"], "--max-batch-size needs --dataset-size"),
        (
            ["--delta", "1e-5", *NOISE, *SIZES, "--max-batch-size", "9"],
            "--max-batch-size belongs to --sampling poisson",
        ),
        (["--delta", "1e-5", *RUN, "--scale", "2"], "--scale belongs to --mechanism laplace"),
        (["--delta", "1e-5", "--mechanism", "laplace", "--sample-rate", "0.01"], "needs --scale"),
        (["--delta", "1e-5", *RUN, "--mechanism", "laplace", "--scale", "2"], "exactly one of"),
        (["--delta", "1e-5", *RUN, "--group-size", "1,x"], "whole numbers separated by commas"),
        (["--delta", "1e-5", *RUN, "--group-size", "0"], "group_size"),
        (["--delta", "1e-5", *RUN, "--group-size", "1,2", "--norms", "1,1"], "one --group-size"),
        (["--delta", "1e-5", *RUN, "--group-size", "3", "--norms", "1,1"], "number of members"),
        (["--delta", "1e-5", *RUN, "--norms", "1,y"], "expected numbers"),
        (["--delta", "1e-5", *RUN, "--adjacency", "both"], "--adjacency"),
        (["--delta", "1e-5", *RUN, "--unknown"], "--unknown"),
    ],
)
def test_bad_arguments_are_exit_status_2(options, words):
    found = call("epsilon", "--steps", "9", *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert words in found.stderr


def test_explain_is_about_one_group():
    found = call("explain", "--delta", "1e-5", "--steps", "9", *RUN, "--group-size", "1,2")
    assert found.exit_code == 2
    assert "one --group-size" in found.stderr


def test_a_wide_interval_is_a_warning_beside_the_answer():
    # With so little noise the losses of one step differ by factors of thousands: no route is narrow enough.
    options = ["--mechanism", "laplace", "--scale", "0.05", "--sample-rate", "0.001", "--steps", "9"]
    found = call("delta", "--epsilon", "42.3", "--group-size", "4", *options)
    assert found.exit_code == 0
    assert found.stdout.startswith("delta ")
    assert "wider than the tolerance" in found.stderr


def test_an_unreachable_target_is_an_error_of_its_own():
    with pytest.raises(hs.UnreachableError, match="cannot be reached"):
        hs.get_group_size(epsilon=3.0, delta=1e-5, noise_multiplier=0.5, sample_rate=0.01, steps=1000)
    assert issubclass(hs.UnreachableError, ValueError)


def test_the_module_runs_as_a_process():
    command = [sys.executable, "-m", "hockeystick"]
    options = ["epsilon", "--delta", "1e-5", "--steps", "1000", *RUN, "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    (result,) = json.loads(done.stdout)["results"]
    assert math.isclose(
        result["epsilon"],
        hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000),
        rel_tol=1e-12,
    )
    failed = subprocess.run([*command, "epsilon"], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "--delta" in failed.stderr


def test_without_its_extra_it_says_what_to_install():
    code = 'import sys; sys.modules["click"] = None\nfrom hockeystick.cli import main\nmain()'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'hockeystick: this needs click: pip install "hockeystick[cli]", or pip install click\n'
    )


def test_the_commands_of_the_page_print_what_it_says():
    examples = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    runs = [
        run.partition("\n")
        for block in examples
        for run in re.split(r"^\$ ", block, flags=re.MULTILINE)
        if run
    ]
    assert len(runs) >= 8
    checker = doctest.OutputChecker()
    for command, _, expected in runs:
        program, *arguments = shlex.split(command)
        assert program == "hockeystick"
        found = call(*arguments)
        assert checker.check_output(expected, found.stdout + found.stderr, doctest.ELLIPSIS), found.output
