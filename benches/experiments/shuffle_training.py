"""Trainings of SHUFFLE's Appendix H: both ways to clip, with batches of one size, on Fashion-MNIST."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches.experiments import data
from benches.experiments.clipping import (
    Candidate,
    Candidates,
    Data,
    SoftmaxCandidates,
    best_of_each,
    train,
)
from benches.experiments.models import Floats
from benches.experiments.store import Progress, Store

TRAINED_BY = tuple(
    f"benches.experiments.{name}" for name in ("clipping", "data", "lenet", "models", "shuffle_training")
)
"""Modules with the code of the trainings."""

LONG_EPOCHS = 30
"""From this many epochs on LeNet-5 has the paths of long trainings."""
CHOOSE_AFTER = 10
"""Epochs of a long training of LeNet-5 after which the best candidate of each way to clip is trained on."""
NOISE_MULTIPLIER = 4.0
HELD_OUT = 5000
SEED = 1
"""Seed of batches and noise."""

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


def compared(name: str, batch_size: int, epochs: int, store: Store) -> Training:
    """Train with both ways to clip, unless that is done and stored."""
    choose_after = CHOOSE_AFTER if name == "LeNet-5" and epochs >= LONG_EPOCHS else None
    settings = {
        "paper": "shuffle",
        "data": "Fashion-MNIST",
        "pixels": [float(CENTRE), float(SPREAD)],
        "held_out": HELD_OUT,
        "model": name,
        "batch_size": batch_size,
        "epochs": epochs,
        "noise_multiplier": NOISE_MULTIPLIER,
        "candidates": [asdict(each) for each in candidates_of(name, epochs)],
        "choose_after": choose_after,
        "seed": SEED,
    }
    make = partial(trained, name, batch_size, epochs, choose_after)
    return Training(**store.get_in_parts(settings, TRAINED_BY, make))


def trained(
    name: str, batch_size: int, epochs: int, choose_after: int | None, progress: Progress
) -> dict[str, Any]:
    """Train with both ways to clip; keep of each the candidate that does best on the pictures set aside."""
    parts, candidates = fashion(), candidates_of(name, epochs)
    models = models_of(name, parts, candidates)
    found = train(
        models,
        candidates,
        parts,
        batch_size,
        epochs,
        NOISE_MULTIPLIER,
        SEED,
        choose_after=choose_after,
        progress=progress,
    )
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
    return {
        "rows": rows,
        "epochs": epochs,
        "examples": len(parts.rows),
        "processor_seconds": progress.processor_seconds,
    }


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
