"""The example prints what its page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

TOP = Path(__file__).parents[1]


def test_the_example_trains_and_prints_epsilon_for_groups_and_digits():
    command = [sys.executable, "-W", "error::UserWarning:__main__", "examples/opacus_mnist.py"]
    options = ["--epochs", "1", "--train-size", "500", "--batch-size", "100"]
    done = subprocess.run(
        command + options, cwd=TOP, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "for ε = 16 of 4 records" in done.stdout
    assert "epoch 1: test accuracy" in done.stdout
    groups = {int(k): float(epsilon) for k, epsilon in re.findall(r"^ +(\d+)  (\S+)$", done.stdout, re.M)}
    assert list(groups) == [1, 2, 4, 8, 16, 32]
    assert all(groups[k] < groups[2 * k] for k in (1, 2, 4, 8, 16))
    assert groups[4] == 16.0
    assert "every digit on its own (a guarantee)" in done.stdout
    quantiles = [float(epsilon) for epsilon in re.findall(r"% +of digits at most (\S+)$", done.stdout, re.M)]
    assert len(quantiles) == 5
    assert 0.0 < quantiles[0] <= quantiles[-1] <= groups[1]
    assert quantiles == sorted(quantiles)
