"""An attack on models of real digits: below what is reported, and above it where the report is wrong."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hockeystick import auditing

TOP = Path(__file__).parents[1]
EXAMPLE = SimpleNamespace(**runpy.run_path(str(TOP / "examples" / "audit_digits.py")))


def bound(audit):
    return auditing.epsilon_lower_bound(*audit.counts, EXAMPLE.DELTA)


@pytest.mark.parametrize(
    ("runs", "at_least"),
    [
        pytest.param(60, 0.0, marks=pytest.mark.slow),
        pytest.param(3000, 1.0, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_copies_of_a_canary_among_digits_are_found_no_better_than_reported(runs, at_least):
    audit = EXAMPLE.many_runs(runs, 30 if runs < 1000 else 600, seed=1)
    assert audit.true_positives > audit.false_positives
    assert at_least <= bound(audit) <= audit.reported


@pytest.mark.slow
def test_an_accountant_that_is_told_of_more_noise_than_there_is_is_caught():
    audit = EXAMPLE.many_runs(60, 20, seed=2, noise_multiplier=0.7, claimed=8.0)
    assert bound(audit) > 1.1 * audit.reported


def test_a_hundred_canaries_in_one_run_are_found_no_better_than_reported():
    correct, reported = EXAMPLE.one_run(seed=1)
    found = auditing.one_run_epsilon_lower_bound(correct, EXAMPLE.GUESSES, EXAMPLE.CANARIES, EXAMPLE.DELTA)
    assert 0 < found <= reported


@pytest.mark.slow
def test_the_example_prints_both_audits(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["audit_digits.py", "--runs", "20"])
    EXAMPLE.main()
    printed = capsys.readouterr().out
    assert "20 runs with 8 copies of a canary" in printed
    numbers = [float(line.split(":")[1].split()[0]) for line in printed.splitlines() if ":" in line]
    assert len(numbers) == 5
    assert np.all(np.array(numbers) >= 0)
    assert numbers[1] <= numbers[0]
    assert numbers[4] <= numbers[3]
