"""SHUFFLE's Algorithm 1 with individual and batch clipping, for many step sizes at once.

Softmax regression is so cheap that most of the time of a step is spent on reading the batch and on drawing
noise. All candidates (clipping norms and step sizes of both ways to clip) see the same shuffled batches and
the same noise, so that both are done once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benches.experiments.models import Floats, Labels, lengths
from benches.experiments.store import Progress

DECREASE = 0.9
"""Factor of a step size after an epoch with a lower accuracy than the one before, as in the paper."""


@dataclass(frozen=True)
class Candidate:
    """A way to clip, with a clipping norm and a step size.

    Attributes
    ----------
    is_batch : bool
        Whether the mean gradient of a batch is clipped, and not the gradient of each example.
    clipping_norm : float
        Clipping norm C.
    path : float
        Step size, as the length of the path of a training whose every update, without its noise, has the
        length C: the number of steps of all epochs times the step size times C.
    """

    is_batch: bool
    clipping_norm: float
    path: float


class Candidates(Protocol):
    """Models that are trained side by side, one for each candidate."""

    weights: NDArray[Any]
    """Shape (candidates, number of weights)."""

    def updates(self, rows: Floats, labels: Labels) -> NDArray[Any]:
        """Clipped means of a batch, divided by the clipping norms, for the weights as they are."""

    def accuracies(self, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Fraction of pictures whose class is found, by each."""

    def keep(self, numbers: list[int]) -> None:
        """Go on with some of the candidates only."""


class SoftmaxCandidates:
    """Softmax regression on rows with a constant, for each of some candidates.

    Parameters
    ----------
    features, classes : int
        Shape of the model.
    candidates : list of Candidate
        How each is clipped.
    """

    def __init__(self, features: int, classes: int, candidates: list[Candidate]) -> None:
        self._shape = (features, len(candidates), classes)
        self.weights = np.zeros((len(candidates), features * classes), dtype=np.float32)
        self._batch = np.array([each.is_batch for each in candidates])
        self._clip = np.array([each.clipping_norm for each in candidates], dtype=np.float32)

    def updates(self, rows: Floats, labels: Labels) -> NDArray[Any]:
        """Clipped means of a batch, divided by the clipping norms, shape (candidates, weights)."""
        features, number, classes = self._shape
        residuals = self._scores(rows)
        residuals -= residuals.max(axis=2, keepdims=True)
        np.exp(residuals, out=residuals)
        residuals /= residuals.sum(axis=2, keepdims=True)
        residuals[np.arange(len(rows)), :, labels] -= np.float32(1)
        # The norm of an outer product is the product of the norms.
        norms = np.sqrt(np.einsum("ijk,ijk->ij", residuals, residuals)) * lengths(rows)[:, None]
        scale = np.where(
            self._batch, np.float32(1), np.minimum(np.float32(1), self._clip / np.maximum(norms, 1e-20))
        )
        residuals *= scale[:, :, None] / np.float32(len(rows))
        products = (rows.T @ residuals.reshape(len(rows), -1)).reshape(self._shape)
        means = products.transpose(1, 0, 2).reshape(number, features * classes)
        whole = np.where(self._batch, np.maximum(lengths(means), self._clip), self._clip)
        return np.asarray(means / whole[:, None])

    def accuracies(self, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Fraction of pictures whose class is found, by each."""
        return np.asarray(np.mean(self._scores(rows).argmax(axis=2) == labels[:, None], axis=0))

    def keep(self, numbers: list[int]) -> None:
        """Go on with some of the candidates only."""
        features, _, classes = self._shape
        self._shape = (features, len(numbers), classes)
        self.weights, self._batch, self._clip = (
            values[numbers] for values in (self.weights, self._batch, self._clip)
        )

    def _scores(self, rows: Floats) -> Floats:
        """Scores of the classes, shape (examples, candidates, classes)."""
        features, number, classes = self._shape
        side_by_side = self.weights.reshape(number, features, classes).transpose(1, 0, 2)
        scores = rows @ np.ascontiguousarray(side_by_side).reshape(features, -1)
        return np.asarray(scores.reshape(-1, number, classes))


@dataclass(frozen=True)
class Data:
    """Rows and labels for training, for the choice of a step size, and for tests."""

    rows: Floats
    labels: Labels
    held_out: tuple[Floats, Labels]
    tests: tuple[Floats, Labels]


def tested_after(epochs: int) -> list[int]:
    """Numbers of epochs after which the test pictures are looked at: about twenty, the last among them."""
    return list(range(epochs, 0, -max(1, epochs // 20)))[::-1]


def best_of_each(candidates: list[Candidate], accuracies: NDArray[np.float64]) -> list[int]:
    """Return the numbers of the candidates that do best, one of each way to clip.

    The accuracy of a candidate that was given up is not a number.
    """
    ways = sorted({each.is_batch for each in candidates})
    own = [[i for i, each in enumerate(candidates) if each.is_batch == way] for way in ways]
    return [numbers[int(np.nanargmax(accuracies[numbers]))] for numbers in own]


def train(
    models: Candidates,
    candidates: list[Candidate],
    data: Data,
    batch_size: int,
    epochs: int,
    noise_multiplier: float,
    seed: int = 1,
    choose_after: int | None = None,
    progress: Progress | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Train all candidates on the same shuffled batches, and return accuracies after each epoch.

    Examples that do not fill a batch at the end of an epoch are left out of it. The noise is the same for
    all, in units of what is added to a sum of clipped gradients or to one clipped mean. After `choose_after`
    epochs only the best candidate of each way to clip is trained on. A stopped run goes on from `progress`.

    Returns
    -------
    dict
        ``held_out``, shape (epochs, candidates), and ``tests``, with a row for each of `tested_after`. They
        are not numbers for candidates that were given up.
    """
    random = np.random.default_rng(seed)
    rounds = len(data.rows) // batch_size
    steps = np.array([each.path for each in candidates]) / (rounds * epochs)
    units = np.array([1 if each.is_batch else batch_size for each in candidates])
    kept = list(range(len(candidates)))
    held_out = np.full((epochs, len(candidates)), np.nan)
    tests = np.full((len(tested_after(epochs)), len(candidates)), np.nan)
    progress = progress or Progress()
    before = progress.load() or {"epoch": 0}
    if before["epoch"]:
        kept, steps, held_out, tests = (before[name] for name in ("kept", "steps", "held_out", "tests"))
        models.keep(kept)
        models.weights[:] = before["weights"]
        random.bit_generator.state = before["random"]

    def state() -> dict[str, Any]:
        found = {"kept": kept, "steps": steps, "held_out": held_out, "tests": tests}
        return found | {"epoch": epoch + 1, "weights": models.weights, "random": random.bit_generator.state}

    for epoch in range(before["epoch"], epochs):
        order = random.permutation(len(data.rows))[: rounds * batch_size]
        own = steps[kept].astype(np.float32)[:, None]
        spread = (steps * noise_multiplier / units)[kept].astype(np.float32)[:, None]
        for batch in order.reshape(rounds, batch_size):
            updates = models.updates(data.rows[batch], data.labels[batch])
            noise = random.standard_normal(models.weights.shape[1], dtype=np.float32)
            models.weights -= own * updates + spread * noise
        held_out[epoch, kept] = models.accuracies(*data.held_out)
        if epoch + 1 in tested_after(epochs):
            tests[tested_after(epochs).index(epoch + 1), kept] = models.accuracies(*data.tests)
        if epoch:
            steps = np.where(held_out[epoch] < held_out[epoch - 1], DECREASE * steps, steps)
        if epoch + 1 == choose_after:
            kept = best_of_each(candidates, held_out[epoch])
            models.keep(kept)
        progress.save(state)
    return {"held_out": held_out, "tests": tests}
