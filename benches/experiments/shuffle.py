"""SHUFFLE, Appendix H: individual against batch clipping on all of Fashion-MNIST.

It trains LeNet-5 on MNIST and a small network on CIFAR-10 with shuffled batches of 64 to 1,024 records,
its sigma of 2 (a noise multiplier of 4), 100 epochs and a clipping norm chosen for each setting, and
finds batch clipping on par with individual clipping. Here: softmax regression and LeNet-5, for 100 epochs.
Clipping norm and step size are chosen on 5,000 pictures that are in neither training nor tests, from equally
many candidates for both ways to clip; that choice is not accounted for. For LeNet-5 it is made after ten of
the hundred epochs, as training all candidates to the end would take twice as long.
"""

from __future__ import annotations

import json
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments.clipping import tested_after
from benches.experiments.effort import Effort
from benches.experiments.pictures import BLUE, GREY, ORANGE, key_below, picture
from benches.experiments.results import Results, plain
from benches.experiments.shuffle_training import (
    CHOICES,
    CLIPPINGS,
    HELD_OUT,
    NOISE_MULTIPLIER,
    Training,
    compared,
)
from benches.experiments.store import Store

BATCH_SIZES = (64, 128, 256, 512, 1024)
DELTA = 1e-5
GROUP = 16
EPSILON_EPOCHS = 100

COLOURS = {"individual": (BLUE, "o"), "batch": (ORANGE, "s")}


@dataclass(frozen=True)
class Started:
    """Results, and the trainings that have begun, by model."""

    results: Results
    trainings: dict[str, list[Future[Training]]]


def start(output: Path, effort: Effort, pool: Executor, store: Store) -> Started:
    """Begin the trainings, those that take longest first."""
    results = Results("shuffle", output, effort)
    results.numbers |= {
        "noise_multiplier": NOISE_MULTIPLIER,
        "delta": DELTA,
        "held_out": HELD_OUT,
        "choices": CHOICES,
        "models": {},
    }
    plans = (
        ("LeNet-5", effort.lenet_sizes, effort.lenet_epochs),
        ("softmax", BATCH_SIZES, effort.shuffle_epochs),
    )
    trainings = {
        name: [pool.submit(compared, name, size, epochs, store) for size in sizes]
        for name, sizes, epochs in plans
        if epochs > 0
    }
    return Started(results, trainings)


def finish(started: Started, output: Path) -> None:
    """Wait for the trainings, and write numbers and a picture."""
    results = started.results
    with results.timed("epsilons"):
        results.numbers["epsilons"] = epsilons(60_000, EPSILON_EPOCHS)
    before = stored_models(results)
    for name, trainings in reversed(started.trainings.items()):
        found = [training.result() for training in trainings]
        for training in found:
            results.add_seconds(name, training.processor_seconds)
        model = {
            "epochs": found[0].epochs,
            "examples": found[0].examples,
            "tested_after": tested_after(found[0].epochs),
            "runs": [row for training in found for row in training.rows],
        }
        model["runs"] = with_other_sizes(model, before.get(name, {}))
        results.numbers["models"][name] = model
        results.write()
    draw(output, results.numbers)


def stored_models(results: Results) -> dict[str, Any]:
    """Return the models in the file of the results, if they were trained with the same noise and choices."""
    if not results.path.exists():
        return {}
    stored: dict[str, Any] = json.loads(results.path.read_text("utf-8"))
    settings = plain({key: results.numbers[key] for key in ("noise_multiplier", "held_out", "choices")})
    return stored["models"] if settings.items() <= stored.items() else {}


def with_other_sizes(model: dict[str, Any], before: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a model by batch size, with those of sizes that are stored but were not trained now.

    Those are kept if they have as many epochs and examples.
    """
    runs: list[dict[str, Any]] = model["runs"]
    trained = {run["batch_size"] for run in runs}
    if all(before.get(key) == model[key] for key in ("epochs", "examples", "tested_after")):
        runs = runs + [run for run in before["runs"] if run["batch_size"] not in trained]
    return sorted(runs, key=lambda run: (run["batch_size"], CLIPPINGS.index(run["clipping"])))


def epsilons(dataset_size: int, epochs: int) -> list[dict[str, Any]]:
    """Epsilon of one record and of a group, for who knows every batch, and for the usual adversary."""
    found = []
    for size in BATCH_SIZES:
        row: dict[str, Any] = {"batch_size": size, "epochs": epochs, "group_size": GROUP}
        for clipping in CLIPPINGS:
            row[clipping] = [
                float(
                    hs.shuffle.tradeoff(
                        hs.Shuffle(size, dataset_size),
                        noise_multiplier=NOISE_MULTIPLIER,
                        epochs=epochs,
                        group_size=group,
                        clipping=clipping,
                    ).epsilon(DELTA)
                )
                for group in (1, GROUP)
            ]
        row["usual_adversary"] = float(
            hs.get_epsilon(
                delta=DELTA,
                noise_multiplier=NOISE_MULTIPLIER,
                sampling=hs.WithoutReplacement(size, dataset_size),
                steps=dataset_size // size * epochs,
                adjacency="replace",
            )
        )
        found.append(row)
    return found


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Test accuracy by batch size, and over the epochs for the smallest and the largest batches."""
    models = numbers["models"]
    for axes in picture(output, "shuffle-01-batch-sizes", (len(models), 2), 2.5 * len(models)):
        panels = np.reshape(axes, (-1, 2))
        for (left, right), (name, found) in zip(panels, models.items(), strict=True):
            for clipping, (colour, mark) in COLOURS.items():
                runs = [run for run in found["runs"] if run["clipping"] == clipping]
                sizes = [run["batch_size"] for run in runs]
                label = f"{clipping} clipping"
                left.plot(
                    sizes, [100 * run["test_accuracy"] for run in runs], mark + "-", color=colour, label=label
                )
                for run, line in ((runs[0], "-"), (runs[-1], "--")):
                    right.plot(found["tested_after"], 100 * np.asarray(run["history"]), line, color=colour)
            left.set(xlabel="records in a batch", ylabel="test accuracy (%)", xscale="log")
            left.set_title(f"{name}, {found['epochs']} epochs")
            left.set_xticks(sizes, [f"{size:,}" for size in sizes])
            left.minorticks_off()
            right.set(xlabel="epoch", title=f"{name}, over the epochs")
            right.xaxis.get_major_locator().set_params(integer=True)
        left = panels[0, 0]
        left.plot([], [], "-", color=GREY, label="right: smallest batches")
        left.plot([], [], "--", color=GREY, label="right: largest batches")
        key_below(left, 4)
