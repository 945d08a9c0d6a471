"""Trainings of RGP's Section 5.2: a data set and a model with any noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches.experiments import data
from benches.experiments.convolutional import Convolutional
from benches.experiments.dpsgd import Training
from benches.experiments.models import Floats, Linear, Model, accuracy, lengths
from benches.experiments.store import Store

SAMPLE_RATE, STEPS = 0.05, 100
CLIP = 1.0
LINEAR_RATE, NETWORK_RATE = 8.0, 1.0
"""Step sizes of the linear models and of the network, in units of the clipping norm."""

SCATTERING_BATCH = 1000
SCATTERING_SCALE = 2
"""Scale J of the scattering transform, as Tramèr and Boneh (2021) choose it."""

TRAINED_BY = tuple(
    f"benches.experiments.{name}" for name in ("convolutional", "data", "dpsgd", "models", "rgp_training")
)
"""Modules with the code of the trainings."""


@dataclass
class Experiment:
    """A data set and a model, trained with any noise.

    Attributes
    ----------
    name : str
        Name of the data and of the model, by which trainings are stored.
    load : callable
        Returns the data; called when a training has not been done yet.
    is_network : bool
        Whether the model is the convolutional network, and not softmax regression.
    seeds : tuple of int
        Seeds of the trainings, whose accuracies are averaged.
    has_epsilons : bool
        Whether it is trained with the noise for several epsilons too, and not only for several group sizes.
    store : Store
        Trainings that are done.
    """

    name: str
    load: Callable[[], data.Split]
    is_network: bool
    seeds: tuple[int, ...]
    has_epsilons: bool
    store: Store

    @cached_property
    def split(self) -> data.Split:
        """Return the data, read when they are needed."""
        return self.load()

    @property
    def learning_rate(self) -> float:
        """Step size in units of the clipping norm."""
        return NETWORK_RATE if self.is_network else LINEAR_RATE

    def accuracies(self, noise_multiplier: float) -> list[float]:
        """Test accuracy for each seed."""
        noise = float(f"{noise_multiplier:.6g}")
        return [self._found(noise, seed)["test_accuracy"] for seed in self.seeds]

    def examples(self) -> int:
        """Return the number of examples that are trained on."""
        return int(self._found(0.0, self.seeds[0])["examples"])

    def _found(self, noise: float, seed: int) -> dict[str, Any]:
        """Train with one seed, unless that is done and stored."""
        settings = {
            "paper": "rgp",
            "data and model": self.name,
            "sample_rate": SAMPLE_RATE,
            "steps": STEPS,
            "clipping_norm": CLIP,
            "learning_rate": self.learning_rate,
            "noise_multiplier": noise,
            "seed": seed,
        }
        found: dict[str, Any] = self.store.get(settings, TRAINED_BY, lambda: self._trained(noise, seed))
        return found

    def _trained(self, noise: float, seed: int) -> dict[str, Any]:
        split = self.split
        model: Model = (
            Convolutional(split.classes) if self.is_network else Linear(split.rows.shape[1], split.classes)
        )
        training = Training(
            model,
            split.rows,
            split.labels,
            SAMPLE_RATE,
            STEPS,
            noise,
            CLIP,
            self.learning_rate / CLIP,
        )
        return {
            "test_accuracy": accuracy(model, training.run(seed), split.test_rows, split.test_labels),
            "examples": len(split),
        }


def of_norm_one(split: data.Split) -> data.Split:
    """Scale each example to norm 1, without looking at the others."""
    rows, tests = (part / lengths(part)[:, None] for part in (split.rows, split.test_rows))
    return replace(split, rows=rows, test_rows=tests)


def scattered(split: data.Split) -> data.Split:
    """Scattering features of pictures, which have no parameters that are learnt."""
    # The front page of kymatio imports functions that SciPy has no more; this part of it needs none of them.
    from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D

    transform = ScatteringNumPy2D(J=SCATTERING_SCALE, shape=(28, 28))
    return replace(
        split, rows=features(transform, split.rows), test_rows=features(transform, split.test_rows)
    )


def features(transform: Callable[[Any], NDArray[Any]], rows: Floats) -> Floats:
    """Scattering features of rows of pixels with a constant."""
    pictures = rows[:, :-1].reshape(-1, 28, 28)
    parts = range(0, len(pictures), SCATTERING_BATCH)
    found = [transform(pictures[start : start + SCATTERING_BATCH]).astype(np.float32) for start in parts]
    return data.with_constant(np.concatenate(found))
