"""Train on real digits with DP-SGD, and report what the run guarantees to groups of several sizes."""

import argparse
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import sklearn

import hockeystick
from demo import pictures, table, training
from hockeystick.accountants import GroupAccountant

OUTPUT = Path(__file__).parent / "output"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo."""
    start = time.perf_counter()
    settings, output = parse(arguments)
    digits = training.load(settings)
    accountant = GroupAccountant(group_size=1)

    weights = training.train(digits, settings, accountant)
    accuracy = training.accuracy(weights, digits.test_images, digits.test_labels)

    rows = table.compute(accountant.history)
    subtitle = (
        f"DP-SGD on {len(digits.train_labels):,} digits: noise multiplier {settings.noise_multiplier:g}, "
        f"sample rate {settings.sample_rate:g}, {settings.steps:,} steps"
    )
    output.mkdir(parents=True, exist_ok=True)
    pictures.draw_epsilon(rows, subtitle, output / "epsilon_by_group_size.png")
    with hockeystick.plot.dark():
        pictures.draw_epsilon(rows, subtitle, output / "epsilon_by_group_size-dark.png")
    pictures.draw_delta(accountant.history, subtitle, output / "delta_by_epsilon.png")

    print(f"\n{subtitle}\ntest accuracy {accuracy:.1%} of {len(digits.test_labels)} images\n")
    print(table.render(rows))
    record = {
        "settings": asdict(settings),
        "versions": versions(),
        "test_accuracy": accuracy,
        "accountant": accountant.state_dict(),
        "delta": table.DELTA,
        "table": [asdict(row) | {"simulated_delta": row.simulated_delta._asdict()} for row in rows],
        "seconds": round(time.perf_counter() - start, 1),
    }
    (output / "run.json").write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    print(f"\npictures and run.json are in {output}; {record['seconds']} s")


def parse(arguments: Sequence[str] | None) -> tuple[training.Settings, Path]:
    """Read the few settings that the command line can change."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--steps", type=count, default=training.Settings.steps, help="steps of DP-SGD")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for pictures and run.json")
    options = parser.parse_args(arguments)
    return replace(training.Settings(), steps=options.steps), options.output


def count(text: str) -> int:
    """Read a number of steps, at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    return {
        "python": platform.python_version(),
        "hockeystick": hockeystick.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


if __name__ == "__main__":
    main()
