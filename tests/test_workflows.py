"""The workflows on GitHub, as far as they can be checked without it: what they name is there."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).parents[1]
FILES = sorted((TOP / ".github" / "workflows").glob("*.yml"))
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel", "windows-2025"}
"""Labels of machines of GitHub that exist when this was written."""

TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (TOP / "Makefile").read_text("utf-8"), re.MULTILINE))


@cache
def workflow(path):
    found = yaml.safe_load(path.read_text("utf-8"))
    # YAML 1.1 reads the key "on" as True.
    found["on"] = found.pop(True)
    return found


def jobs():
    return [
        pytest.param(workflow(path), name, job, id=f"{path.stem}-{name}")
        for path in FILES
        for name, job in workflow(path)["jobs"].items()
    ]


def commands(job):
    """Lines of the scripts of a job."""
    return [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines()]


def variants(matrix):
    """Values of one key of a matrix, where each is a value or an object."""
    for name, values in matrix.items():
        for value in values:
            yield name, value


def test_there_are_workflows_for_changes_wheels_and_documentation():
    assert {path.stem for path in FILES} == {"ci", "docs", "wheels"}
    for path in FILES:
        assert set(workflow(path)["on"]) >= {"push"}
        assert workflow(path)["permissions"] == {"contents": "read"}, "jobs ask for more by themselves"


@pytest.mark.parametrize(("whole", "name", "job"), jobs())
def test_what_a_job_names_is_there(whole, name, job):
    needs = job.get("needs", [])
    assert set([needs] if isinstance(needs, str) else needs) <= set(whole["jobs"]) - {name}
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), step["uses"]
    for line in commands(job):
        for targets in re.findall(r"\bmake ((?:[a-z][\w.-]*\s*)+)", line):
            assert set(targets.split()) <= TARGETS, line
        for script in re.findall(r"\bscripts/[\w.]+|\.ci/run", line):
            assert (TOP / script).is_file(), line


@pytest.mark.parametrize(("whole", "name", "job"), jobs())
def test_what_a_job_fills_in_is_in_its_matrix(whole, name, job):
    matrix = job.get("strategy", {}).get("matrix", {})
    keys = set(matrix)
    for key, value in variants(matrix):
        if isinstance(value, dict):
            keys |= {f"{key}.{inner}" for inner in value}
    text = yaml.safe_dump({key: part for key, part in job.items() if key != "strategy"})
    assert set(re.findall(r"\bmatrix\.([\w.]+)", text)) <= keys
    machines = [value["runner"] for _, value in variants(matrix) if isinstance(value, dict)]
    machines = machines if "matrix" in job["runs-on"] else [job["runs-on"]]
    assert set(machines) <= RUNNERS


def platforms(name):
    return workflow(TOP / ".github/workflows/wheels.yml")["jobs"][name]["strategy"]["matrix"]["platform"]


def test_wheels_are_built_for_every_platform_and_each_is_tested():
    built = {each["name"]: each for each in platforms("build")}
    for system in ("linux", "musllinux", "macos"):
        assert {f"{system}-x86_64", f"{system}-aarch64"} <= set(built)
    assert "windows-x86_64" in built
    for name, each in built.items():
        assert each["libc"].startswith("musllinux") == name.startswith("musllinux")
        assert ("arm" in each["runner"]) == (name.endswith("aarch64") and "linux" in name)
    tested = [*platforms("test"), *platforms("test-musl")]
    assert {each["name"] for each in tested} == set(built)
    assert all(each["runner"] == built[each["name"]]["runner"] for each in tested)
    whole = workflow(TOP / ".github/workflows/wheels.yml")["jobs"]
    assert set(whole["publish"]["needs"]) == {"test", "test-musl", "source"}


def test_the_core_is_checked_for_the_targets_of_the_wheels():
    targets = workflow(TOP / ".github/workflows/ci.yml")["jobs"]["targets"]["strategy"]["matrix"]["target"]
    assert {"x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl"} <= set(
        targets
    )


def test_tests_that_the_wheels_run_are_there():
    for name in (TOP / "scripts" / "quick_tests.txt").read_text("utf-8").split():
        assert (TOP / name).exists(), name
