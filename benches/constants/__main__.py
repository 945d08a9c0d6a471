"""Measure constants of the core at twice their values, and write the page about them.

Constants are measured that the page does not have yet, or has with another value; with ``--all`` every one,
which takes half an hour.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from benches.constants import page
from benches.constants.comparing import SEED, Effect
from benches.constants.measure import EACH_KIND
from benches.constants.questions import drawn
from benches.constants.source import Constant, constants
from benches.constants.variant import FOLDER, ROOT, build, kept


def effects_of(numbers: list[int], found: list[Constant]) -> dict[int, Effect]:
    """Compile the variant, and measure in a program that has it in place of the library."""
    build()
    environment = os.environ | {
        "PYTHONPATH": f"{FOLDER / 'python'}{os.pathsep}{ROOT}",
        "RAYON_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    asked = json.dumps({"numbers": numbers, "count": len(found)})
    command = [sys.executable, "-m", "benches.constants.measure"]
    with (FOLDER / "effects.json").open("w+") as file:
        subprocess.run(command, input=asked, env=environment, stdout=file, text=True, check=True)
        file.seek(0)
        return {int(number): Effect(*effect) for number, effect in json.load(file).items()}


def main(arguments: Sequence[str]) -> None:
    """Measure what is new, and write."""
    found = constants(ROOT / "src")
    said = {} if "--all" in arguments else page.known()
    numbers = [number for number, constant in enumerate(found) if page.row(constant) not in said]
    effects = effects_of(numbers, found) if numbers else {}
    page.write(found, kept(), effects, len({question.kind for question in drawn(EACH_KIND, SEED)}))


if __name__ == "__main__":
    main(sys.argv[1:])
