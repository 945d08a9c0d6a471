"""Linear classifiers whose clipped gradients are summed without forming the gradient of any example.

The gradient of an example is the outer product of its features and of the derivative of the loss by its
scores (its residual). Its norm is the product of two norms, and a weighted sum of gradients is one product of
matrices. `hockeystick.training` has the same softmax regression with all gradients formed, as a reference.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

CHUNK = 8192
"""Examples whose scores are held at once."""


class Model(Protocol):
    """What training and accounting ask of a model. Weights are one flat vector."""

    def initial(self, seed: int) -> Floats:
        """Weights to start from."""

    def scores(self, weights: Floats, rows: Floats) -> Floats:
        """Scores of the classes, shape (n, classes)."""

    def losses(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Loss of each example."""

    def norms(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Norm of the gradient of each example."""

    def clipped_sum(self, weights: Floats, rows: Floats, labels: Labels, bounds: Any) -> tuple[Floats, int]:
        """Sum of the gradients, each scaled down to its bound, and the number of those that were not."""


class Linear:
    """Scores that are linear in the features, with the cross-entropy or the multi-class hinge loss.

    Parameters
    ----------
    features, classes : int
        Numbers of columns of the data, one of which is a constant, and of classes.
    loss : {"cross_entropy", "hinge"}
        The hinge loss is max(0, 1 + the largest score of another class - the score of the label).
    """

    def __init__(self, features: int, classes: int, loss: str = "cross_entropy") -> None:
        self.shape = (features, classes)
        self._hinge = {"cross_entropy": False, "hinge": True}[loss]

    def initial(self, seed: int) -> Floats:
        """Zeros, as the loss is convex."""
        del seed
        return np.zeros(self.shape[0] * self.shape[1], dtype=np.float32)

    def scores(self, weights: Floats, rows: Floats) -> Floats:
        """Scores of the classes, shape (n, classes)."""
        return np.asarray(rows @ weights.reshape(self.shape))

    def losses(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Loss of each example."""
        found = [self._loss(self.scores(weights, rows[part]), labels[part]) for part in chunks(len(rows))]
        return np.concatenate(found)

    def norms(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Norm of the gradient of each example."""
        found = [self._factors(weights, rows[part], labels[part])[1] for part in chunks(len(rows))]
        return np.concatenate(found).astype(np.float64)

    def clipped_sum(self, weights: Floats, rows: Floats, labels: Labels, bounds: Any) -> tuple[Floats, int]:
        """Sum of the gradients, each scaled down to its bound, and the number of those that were not."""
        residuals, norms = self._factors(weights, rows, labels)
        residuals *= scales(norms, bounds)[:, None]
        return (rows.T @ residuals).ravel(), int(np.count_nonzero(norms <= bounds))

    def _factors(self, weights: Floats, rows: Floats, labels: Labels) -> tuple[Floats, Floats]:
        """Residual of each example, and the norm of its gradient."""
        residuals = self._residuals(self.scores(weights, rows), labels)
        return residuals, lengths(rows) * lengths(residuals)

    def _residuals(self, scores: Floats, labels: Labels) -> Floats:
        every = np.arange(len(labels))
        if self._hinge:
            others = scores.copy()
            others[every, labels] = -np.inf
            rival = others.argmax(axis=1)
            active = (1.0 + others[every, rival] > scores[every, labels]).astype(np.float32)
            result = np.zeros_like(scores)
            result[every, rival] = active
            result[every, labels] = -active
            return result
        return softmax_residuals(scores, labels)

    def _loss(self, scores: Floats, labels: Labels) -> NDArray[np.float64]:
        every = np.arange(len(labels))
        own = scores[every, labels].astype(np.float64)
        if self._hinge:
            others = scores.astype(np.float64)
            others[every, labels] = -np.inf
            return np.asarray(np.maximum(0.0, 1.0 + others.max(axis=1) - own))
        return cross_entropies(scores, labels)


def softmax_residuals(scores: Floats, labels: Labels) -> Floats:
    """Return the derivative of the cross-entropy by the scores: probabilities, less one at the label."""
    residuals = np.exp(scores - scores.max(axis=1, keepdims=True))
    residuals /= residuals.sum(axis=1, keepdims=True)
    residuals[np.arange(len(labels)), labels] -= 1.0
    return np.asarray(residuals)


def cross_entropies(scores: Floats, labels: Labels) -> NDArray[np.float64]:
    """Negative logarithm of the probability of the label, in nats."""
    shifted = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
    own = shifted[np.arange(len(labels)), labels]
    return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - own)


def lengths(rows: Floats) -> Floats:
    """Euclidean norm of each row."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def scales(norms: Floats, bounds: Any) -> Floats:
    """Factor that scales a gradient down to its bound, at most one."""
    tiny = np.float32(1e-20)  # a gradient as short as this is not scaled
    return np.asarray(np.minimum(1.0, bounds / np.maximum(norms, tiny)), dtype=np.float32)


def accuracy(model: Model, weights: Floats, rows: Floats, labels: Labels) -> float:
    """Fraction of the examples whose highest score is that of the label."""
    return float(np.mean(predictions(model, weights, rows) == labels))


def predictions(model: Model, weights: Floats, rows: Floats) -> Labels:
    """Class with the highest score of each example."""
    return np.concatenate([model.scores(weights, rows[part]).argmax(axis=1) for part in chunks(len(rows))])


def chunks(length: int, size: int = CHUNK) -> list[slice]:
    """Slices of at most `size` that cover `length` rows; one that is empty if there are none."""
    return [slice(start, start + size) for start in range(0, max(length, 1), size)]
