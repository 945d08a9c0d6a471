"""How other libraries' tests are run with our names: what is not as listed is an error.

The suites themselves need a network, and are run by `make test-originals`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent / "originals"
ROOT = Path(__file__).parents[1]

ORIGINAL = """
def compute_noise(*arguments, **more): return "the original's"
def other(): return "the original's"
"""

TESTS = """
import made_up, pytest

def test_calls_ours(): assert made_up.compute_noise(1000, 10, 1.0, 1, 1e-5, 0.5) > 0.0
def test_other(): assert made_up.other() == "the original's"
def test_fails(): assert made_up.compute_noise(1000, 10, 1.0, 1, 1e-5, 0.5) < 0.0
def test_skips(): pytest.skip("always")
"""

GOOD = """count=4, failing={"*::test_fails": "why"},
skipped={"*::test_skips": "why"}, untouched={"*::test_other": "why"}"""


def run(folder: Path, listed: str) -> tuple[int, str]:
    """Run a made-up suite of four tests, of which this is said."""
    (folder / "made_up.py").write_text(ORIGINAL, "utf-8")
    (folder / "test_made_up.py").write_text(TESTS, "utf-8")
    known = (HARNESS / "suites.py").read_text("utf-8")
    suite = (
        'Suite(library="made_up", version="1", source="", code=".", tests=("test_made_up.py",),'
        f' shim="hockeystick.compat.tf_privacy", replaced=("made_up",), {listed})'
    )
    (folder / "suites.py").write_text(f"{known}\nSUITES = {{'made_up': {suite}}}\n", "utf-8")
    path = os.pathsep.join([str(folder), str(HARNESS), os.environ.get("PYTHONPATH", "")])
    options = ["-p", "plugin", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_made_up.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "ORIGINALS_SUITE": "made_up"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_what_is_as_listed_passes(tmp_path):
    status, text = run(tmp_path, GOOD)
    assert status == 0, text
    assert "4 tests: 1 failing as listed, 1 left out, 1 passed, 1 skipped" in text
    assert "FAULT" not in text


def test_whatever_is_not_as_listed_is_an_error(tmp_path):
    status, text = run(tmp_path, 'failing={"*::test_calls_ours": "why", "*::test_gone": "why"}, count=5')
    assert status == 1
    faults = [line.removeprefix("FAULT ") for line in text.splitlines() if line.startswith("FAULT")]
    assert sorted(faults) == sorted(
        [
            "test_made_up.py::test_calls_ours: failed, which is not as listed",
            "test_made_up.py::test_fails: failed, which is not as listed",
            "test_made_up.py::test_other: passed without a call of our code, which is not as listed",
            "test_made_up.py::test_skips: skipped, which is not as listed",
            "*::test_gone: listed, and no test has this name",
            "4 tests, of which 5 are listed",
        ]
    )


def test_the_page_has_the_counts_of_the_list():
    sys.path.insert(0, str(HARNESS))
    try:
        from suites import SUITES
    finally:
        sys.path.remove(str(HARNESS))
    page = (ROOT / "docs" / "compat.md").read_text("utf-8")
    rows = re.findall(r"^\| .*?(?:\d|`|noise) \| ([\d,]+) \| (\d[\d, |]*) \|$", page, re.MULTILINE)
    numbers = [[int(each.replace(",", "")) for row in found for each in row.split("|")] for found in rows]
    assert [total for total, *_ in numbers] == [suite.count for suite in SUITES.values()]
    assert all(total == sum(rest) for total, *rest in numbers)
