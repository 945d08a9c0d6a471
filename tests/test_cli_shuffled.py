"""The command line where no tight bound is known, and reports about every way to draw batches."""

import json
import re

import pytest
from click.testing import CliRunner

import hockeystick as hs
from hockeystick.cli._commands import hockeystick

NOISE = ["--noise-multiplier", "1"]
SIZES = ["--batch-size", "100", "--dataset-size", "6000"]
SHUFFLED = ["--sampling", "shuffle", *SIZES, "--adjacency", "zero_out"]


def call(*arguments):
    return CliRunner().invoke(hockeystick, arguments, prog_name="hockeystick")


@pytest.mark.parametrize(
    ("command", "options", "unknown"),
    [
        ("noise", ["--steps", "10"], "noise_multiplier"),
        ("steps", NOISE, "steps"),
        ("group-size", ["--noise-multiplier", "3", "--steps", "10"], "group_size"),
    ],
)
def test_what_meets_a_target_with_shuffled_batches_has_both_ends(command, options, unknown):
    first, last = call(command, *options, "--epsilon", "5", "--delta", "1e-3", *SHUFFLED).stdout.splitlines()
    answered, wide = (
        rf"{unknown} \S+ \(certified interval \S+ to \S+\)",
        rf"{unknown} at least \d+ \(no larger.*",
    )
    assert re.fullmatch(wide if unknown == "group_size" else answered, first)
    assert last == "sampling: shuffled batches (100 of 6000 records, a fresh random order in each epoch)"


def test_both_ends_are_shown_where_no_tight_bound_is_known():
    options = ["epsilon", "--delta", "1e-5", "--steps", "60", *NOISE, *SHUFFLED]
    run = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(100, 6000), "adjacency": "zero_out"}
    lower, upper = hs.get_epsilon(delta=1e-5, steps=60, bounds=True, **run)
    first, _ = call(*options).stdout.splitlines()
    shown, ends = re.fullmatch(r"epsilon (\S+) \(certified interval (.*)\)", first).groups()
    least, most = map(float, ends.split(" to "))
    assert lower * (1 - 1e-3) <= least <= lower
    assert upper <= most == float(shown) <= upper * (1 + 1e-3)
    found = call(*options[:-1], "add_remove")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "adjacency='zero_out'" in found.stderr


@pytest.mark.parametrize("options", [["--sampling", "random_allocation", "--batches", "50"], SHUFFLED])
def test_explain_and_report_take_every_scheme(options, tmp_path):
    run = ["--delta", "1e-5", "--steps", "100", *NOISE, *options]
    document = json.loads(call("explain", *run, "--json").stdout)
    assert document["delta"] == 1e-5
    written = call("report", *run, "--group-sizes", "1,2", "--path", str(tmp_path / "run.md"))
    assert (written.exit_code, written.stderr) == (0, "")
    epsilon, unit = re.fullmatch(
        r"\((.*), 1e-05\)-differential privacy (for .*)", document["statement"]
    ).groups()
    report = (tmp_path / "run.md").read_text("utf-8")
    assert f"epsilon = {epsilon} and delta = 1 in 100,000 {unit}" in report
