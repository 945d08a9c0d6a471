"""Questions about certificates: to make and check some of every scheme, and to check the documented ones."""

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benches.constants.comparing import Interval, Question

ROOT = Path(__file__).resolve().parents[2]
RUNS = (
    0, 10, 13, 3500, 3504, 3509, 3512, 3518, 3524, 4609, 4613, 4614, 4624, 4627, 5000, 5008, 5016, 5020, 5031,
    5041, 5047, 5049, 5205, 5206, 5213, 5217, 5218, 5219, 5221, 5222, 5233, 5400, 5403, 5406, 5408, 5416,
    5418,
)  # fmt: skip
"""Random runs of the tests that are quick, and read most of the constants that any of them reads."""


def questions() -> Iterator[Question]:
    """Yield them."""
    for path in sorted((ROOT / "docs" / "certificates").glob("*.json")):
        if path.name != "random_runs.json":
            yield Question(f"check {path.stem}", partial(_check, path))
    sys.path.append(str(ROOT / "tests"))
    runs = importlib.import_module("certificate_runs")
    for number in RUNS:
        yield Question(f"certify {number}", partial(_certify, runs, number))


def _check(path: Path) -> list[Interval]:
    """Check a certificate, and return what was proven."""
    checker = importlib.import_module("hockeystick_verify")
    found = checker.check(checker.read(path.read_text(encoding="utf-8")))
    return [interval for each in found for interval in ((each.lower, each.upper), (float(each.holds),) * 2)]


def _certify(runs: Any, number: int) -> list[Interval]:
    """Make a certificate of a random run of the tests, and check it."""
    run = runs.random_run(number)
    certificate = runs.certified(run)
    if certificate is None:
        return []
    proven, _ = certificate.verify()
    return [*_claimed(certificate.claims), (float(proven),) * 2]


def _claimed(claims: list[dict[str, float]]) -> list[Interval]:
    """Return the intervals between the claims on both ends, or all numbers of other claims."""
    if [len(claim) for claim in claims] == [2, 2] and "at_most" in claims[0] and "at_least" in claims[1]:
        return list(zip(claims[1].values(), claims[0].values(), strict=True))
    return [(value, value) for claim in claims for value in claim.values()]
