"""Measure constants of the Python package at twice their values, and write the page about them.

Constants are measured that the page does not have yet, or has with another value; with ``--all`` every one.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benches.constants.comparing import Effect
from benches.constants.page import known, row
from benches.python_constants import page
from benches.python_constants.questions import every
from benches.python_constants.source import constants

ROOT = Path(__file__).resolve().parents[2]


def effects_of(numbers: list[int]) -> dict[int, Effect]:
    """Measure in a program that has a copy of the packages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "python"
        # A copy, so that what is measured does not change meanwhile.
        shutil.copytree(ROOT / "python", folder, ignore=shutil.ignore_patterns("__pycache__"))
        environment = os.environ | {
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            "RAYON_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
        }
        command = [sys.executable, "-m", "benches.python_constants.measure", str(folder)]
        done = subprocess.run(
            command, input=json.dumps(numbers), env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return {int(number): Effect(*effect) for number, effect in json.loads(done.stdout).items()}


def main(arguments: Sequence[str]) -> None:
    """Measure what is new, and write."""
    found = constants(ROOT / "python")
    said = {} if "--all" in arguments else known(page.PAGE)
    numbers = [number for number, constant in enumerate(found) if row(constant) not in said]
    page.write(found, effects_of(numbers) if numbers else {}, len(every()))


if __name__ == "__main__":
    main(sys.argv[1:])
