"""SHUFFLE, Appendix H: individual against batch clipping on all of Fashion-MNIST.

It trains LeNet-5 on MNIST and a small network on CIFAR-10 with shuffled batches of 64 to 1,024 records,
its sigma of 2 (a noise multiplier of 4), 100 epochs and a clipping norm chosen for each setting, and
finds batch clipping on par with individual clipping. Here: softmax regression and LeNet-5, for 100 epochs.
Clipping norm and step size are chosen on 5,000 pictures that are in neither training nor tests, from equally
many candidates for both ways to clip; that choice is not accounted for. For LeNet-5 it is made after ten of
the hundred epochs, as training all candidates to the end would take twice as long.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hockeystick as hs
from benches.experiments import data
from benches.experiments.clipping import (
    Candidate,
    Candidates,
    Data,
    SoftmaxCandidates,
    best_of_each,
    tested_after,
    train,
)
from benches.experiments.effort import Effort
from benches.experiments.models import Floats
from benches.experiments.pictures import BLUE, GREY, ORANGE, key_below, picture
from benches.experiments.results import Results

BATCH_SIZES = (64, 128, 256, 512, 1024)
SHORT_BATCH_SIZES = (64, 1024)
LONG_EPOCHS = 30
"""From this many epochs on LeNet-5 has all batch sizes, and the paths of long trainings."""
CHOOSE_AFTER = 10
"""Epochs of a long training of LeNet-5 after which the best candidate of each way to clip is trained on."""
NOISE_MULTIPLIER = 4.0
DELTA = 1e-5
HELD_OUT = 5000
GROUP = 16
EPSILON_EPOCHS = 100

CENTRE, SPREAD = np.float32(0.3), np.float32(0.35)
"""Pixels are shifted and scaled by these. They are close to the mean and the deviation published with
the data (0.286 and 0.353), so that nothing is taken from the pictures here."""

CLIPPINGS = ("individual", "batch")
CHOICES: dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "softmax": {
        "individual": ((1.0,), (300.0, 1000.0, 3000.0)),
        "batch": ((0.1,), (1.0, 3.0, 10.0)),
    },
    "LeNet-5": {
        "individual": ((1.0,), (30.0, 100.0, 300.0)),
        "batch": ((0.1,), (0.3, 1.0, 3.0)),
    },
    "LeNet-5, long": {
        "individual": ((1.0,), (300.0, 1000.0)),
        "batch": ((0.1,), (1.0, 3.0)),
    },
}
"""Clipping norms and lengths of paths that are tried, for both ways to clip. In long trainings noise averages
out, so that longer paths suit them."""

COLOURS = {"individual": (BLUE, "o"), "batch": (ORANGE, "s")}


@dataclass(frozen=True)
class Started:
    """Results, and the trainings that have begun, by model."""

    results: Results
    trainings: dict[str, list[Future[Training]]]


def start(output: Path, effort: Effort, pool: Executor) -> Started:
    """Begin the trainings, those that take longest first."""
    results = Results("shuffle", output, effort)
    results.numbers |= {
        "noise_multiplier": NOISE_MULTIPLIER,
        "delta": DELTA,
        "held_out": HELD_OUT,
        "choices": CHOICES,
        "models": {},
    }
    is_long = effort.lenet_epochs >= LONG_EPOCHS
    plans = (
        ("LeNet-5", BATCH_SIZES if is_long else SHORT_BATCH_SIZES, effort.lenet_epochs),
        ("softmax", BATCH_SIZES, effort.shuffle_epochs),
    )
    trainings = {
        name: [pool.submit(compared, name, size, epochs) for size in sizes]
        for name, sizes, epochs in plans
        if epochs > 0
    }
    return Started(results, trainings)


def finish(started: Started, output: Path) -> None:
    """Wait for the trainings, and write numbers and a picture."""
    results = started.results
    with results.timed("epsilons"):
        results.numbers["epsilons"] = epsilons(60_000, EPSILON_EPOCHS)
    for name, trainings in reversed(started.trainings.items()):
        found = [training.result() for training in trainings]
        for training in found:
            results.add_seconds(name, training.processor_seconds)
        results.numbers["models"][name] = {
            "epochs": found[0].epochs,
            "examples": found[0].examples,
            "tested_after": tested_after(found[0].epochs),
            "runs": [row for training in found for row in training.rows],
        }
        results.write()
    draw(output, results.numbers)


@cache
def fashion() -> Data:
    """Return Fashion-MNIST as it is trained on, read once for each process."""
    return prepared(data.fashion_mnist())


def prepared(split: data.Split) -> Data:
    """Pixels shifted and scaled, and `HELD_OUT` pictures set aside."""

    def scaled(rows: Floats) -> Floats:
        result = (rows - CENTRE) / SPREAD
        result[:, -1] = 1.0
        return np.asarray(result)

    order = np.random.default_rng(0).permutation(len(split))
    kept, aside = order[HELD_OUT:], order[:HELD_OUT]
    rows = scaled(split.rows)
    return Data(
        rows[kept],
        split.labels[kept],
        (rows[aside], split.labels[aside]),
        (scaled(split.test_rows), split.test_labels),
    )


def candidates_of(name: str, epochs: int) -> list[Candidate]:
    """Return what is tried for a model."""
    choices = CHOICES["LeNet-5, long" if name == "LeNet-5" and epochs >= LONG_EPOCHS else name]
    return [
        Candidate(clipping == "batch", norm, path)
        for clipping in CLIPPINGS
        for norm in choices[clipping][0]
        for path in choices[clipping][1]
    ]


@dataclass(frozen=True)
class Training:
    """What is written of both ways to clip with batches of one size.

    Attributes
    ----------
    rows : list of dict
        One for each way to clip.
    epochs, examples : int
        Length of the training, and the number of its pictures.
    processor_seconds : float
        How long it took.
    """

    rows: list[dict[str, Any]]
    epochs: int
    examples: int
    processor_seconds: float


def compared(name: str, batch_size: int, epochs: int) -> Training:
    """Train with both ways to clip; keep of each the candidate that does best on the pictures set aside."""
    begin, parts, candidates = time.process_time(), fashion(), candidates_of(name, epochs)
    models = models_of(name, parts, candidates)
    choose_after = CHOOSE_AFTER if name == "LeNet-5" and epochs >= LONG_EPOCHS else None
    found = train(models, candidates, parts, batch_size, epochs, NOISE_MULTIPLIER, choose_after=choose_after)
    rows = []
    for best in best_of_each(candidates, found["held_out"][-1]):
        chosen = candidates[best]
        own = [i for i, each in enumerate(candidates) if each.is_batch == chosen.is_batch]
        rows.append(
            {
                "clipping": "batch" if chosen.is_batch else "individual",
                "batch_size": batch_size,
                "clipping_norm": chosen.clipping_norm,
                "path": chosen.path,
                "held_out_accuracy": found["held_out"][-1, best],
                "test_accuracy": found["tests"][-1, best],
                "history": found["tests"][:, best],
                "tried": [tried(candidates[i], found["held_out"][:, i]) for i in own],
            }
        )
        print(
            f"{name}, batches of {batch_size}, {rows[-1]['clipping']}: {rows[-1]['test_accuracy']:.4f}",
            flush=True,
        )
    return Training(rows, epochs, len(parts.rows), time.process_time() - begin)


def tried(candidate: Candidate, held_out: NDArray[np.float64]) -> dict[str, float]:
    """Return what is written of a candidate: its accuracy after the last epoch that it was trained for."""
    known = held_out[np.isfinite(held_out)]
    return {
        "clipping_norm": candidate.clipping_norm,
        "path": candidate.path,
        "epochs": len(known),
        "held_out_accuracy": known[-1],
    }


def models_of(name: str, parts: Data, candidates: list[Candidate]) -> Candidates:
    """Return the models to train."""
    if name == "softmax":
        return SoftmaxCandidates(parts.rows.shape[1], 10, candidates)
    # PyTorch is imported where it is used: the other experiments need none of it.
    from benches.experiments.lenet import LeNetCandidates

    return LeNetCandidates(10, candidates)


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
