"""The page about Opacus and the example print what they say."""

import contextlib
import io
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
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_print_what_stands_below_them(monkeypatch):
    from opacus.accountants import registry

    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    names, printed = {}, ""
    blocks = BLOCK.findall((TOP / "docs" / "opacus.md").read_text("utf-8"))
    assert [kind for kind, _ in blocks].count("text") >= 8
    for kind, content in blocks:
        if kind == "text":
            assert printed == content
            printed = ""
            continue
        assert not printed, "what a block prints stands below it"
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(content, "docs/opacus.md", "exec"), names)
        printed = output.getvalue()


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
