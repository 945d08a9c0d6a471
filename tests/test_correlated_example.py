"""The example of training with correlated noise prints what its page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.opacus, pytest.mark.filterwarnings("ignore")]

TOP = Path(__file__).parents[1]


@pytest.mark.parametrize("members", [1, 2])
def test_the_example_trains_at_equal_epsilon(members):
    command = [sys.executable, "examples/correlated_noise_digits.py"]
    options = ["--steps", "33", "--bands", "1", "4", "--runs", "1", "--group-size", str(members)]
    done = subprocess.run(
        command + options, cwd=TOP, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
    assert [int(row[0]) for row in rows] == [1, 4]
    for _, noise, error, epsilon, accuracy in rows:
        assert float(epsilon) == pytest.approx(8.0, abs=1e-4)
        assert float(noise) > 0.0
        assert float(error) > 0.0
        assert float(accuracy) > 0.5
    # Banded noise of equal epsilon has less noise in the prefix sums.
    if members == 1:
        assert float(rows[1][2]) < float(rows[0][2])
