"""A small convolutional network in NumPy, with the clipped sum of the gradients of a batch.

It is the network of Papernot et al. (2021) for pictures of 28 by 28 pixels, with averages in place of maxima
where pictures are made smaller: 16 filters of 8 by 8 pixels at every second place, averages of 2 by 2, 32
filters of 4 by 4, averages of 2 by 2, 32 units and the classes, with tanh between them; 13,722 weights for
ten classes.

A convolution is a dense layer that is applied to many pieces of a picture. The gradient of an example by its
weights is the sum over the pieces of the outer product of the piece and of the derivative by what the layer
gives there, one product of two matrices for each example.

References
----------
N. Papernot, A. Thakurta, S. Song, S. Chien and U. Erlingsson, "Tempered Sigmoid Activations for Deep Learning
with Differential Privacy", AAAI 2021. arXiv:2007.14191
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benches.experiments.models import Floats, Labels, chunks, cross_entropies, scales, softmax_residuals

SIDE = 28
PADDING = 3
FIRST, SECOND, HIDDEN = 16, 32, 32
"""Numbers of filters of the two convolutions, and of hidden units."""

CHUNK = 32
"""Examples whose gradients are held at once: 2 MB, which stay in the cache of a core.
256 of them took 1.3 times as long."""


class Convolutional:
    """The network, for rows of 784 pixels with a constant as last column, which is not used."""

    def __init__(self, classes: int) -> None:
        self._shapes = [
            (8 * 8 + 1, FIRST),
            (4 * 4 * FIRST + 1, SECOND),
            (4 * SECOND + 1, HIDDEN),
            (HIDDEN + 1, classes),
        ]
        self._ends = np.cumsum([rows * columns for rows, columns in self._shapes])

    def initial(self, seed: int) -> Floats:
        """Draw normal weights with the variance 1 / inputs, and no biases."""
        random = np.random.default_rng([seed, 1])
        matrices = [
            random.standard_normal(shape, dtype=np.float32) / shape[0] ** 0.5 for shape in self._shapes
        ]
        for matrix in matrices:
            matrix[-1] = 0.0
        return np.concatenate([matrix.ravel() for matrix in matrices]).astype(np.float32)

    def scores(self, weights: Floats, rows: Floats) -> Floats:
        """Scores of the classes, shape (n, classes)."""
        matrices = self._matrices(weights)
        return np.concatenate([self._forward(matrices, rows[part])[2] for part in chunks(len(rows), CHUNK)])

    def losses(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Cross-entropy of each example."""
        return cross_entropies(self.scores(weights, rows), labels)

    def norms(self, weights: Floats, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Norm of the gradient of each example."""
        found = [self._gradients(weights, rows[part], labels[part])[1] for part in chunks(len(rows), CHUNK)]
        return np.concatenate(found).astype(np.float64)

    def clipped_sum(self, weights: Floats, rows: Floats, labels: Labels, bounds: Any) -> tuple[Floats, int]:
        """Sum of the gradients, each scaled down to its bound, and the number of those that were not."""
        total = np.zeros_like(weights)
        unclipped = 0
        limits = np.broadcast_to(bounds, len(rows))
        for part in chunks(len(rows), CHUNK):
            gradients, norms = self._gradients(weights, rows[part], labels[part])
            total += scales(norms, limits[part]) @ gradients
            unclipped += int(np.count_nonzero(norms <= limits[part]))
        return total, unclipped

    def _matrices(self, weights: Floats) -> list[Floats]:
        """Cut the vector of weights into the matrices of the layers, whose last rows are the biases."""
        parts = np.split(weights, self._ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    @staticmethod
    def _forward(matrices: list[Floats], rows: Floats) -> tuple[list[Floats], list[Floats], Floats]:
        """Return what each layer takes, with a constant at the end, what both convolutions give, scores."""
        pictures = rows[:, : SIDE * SIDE].reshape(-1, SIDE, SIDE)
        padded = np.pad(pictures, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
        windows = sliding_window_view(padded, (8, 8), axis=(1, 2))[:, ::2, ::2]
        first = with_one(windows.reshape(len(rows), 14 * 14, 64))
        given = [np.tanh(first @ matrices[0])]
        small = averaged(given[0].reshape(-1, 14, 14, FIRST))
        windows = sliding_window_view(small, (4, 4), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
        second = with_one(windows.reshape(len(rows), 4 * 4, 16 * FIRST))
        given.append(np.tanh(second @ matrices[1]))
        smaller = averaged(given[1].reshape(-1, 4, 4, SECOND))
        third = with_one(smaller.reshape(len(rows), 4 * SECOND))
        last = with_one(np.tanh(third @ matrices[2]))
        return [first, second, third, last], given, last @ matrices[3]

    def _gradients(self, weights: Floats, rows: Floats, labels: Labels) -> tuple[Floats, Floats]:
        """Gradient of each example, shape (n, weights), and its norm."""
        matrices = self._matrices(weights)
        (first, second, third, last), given, scores = self._forward(matrices, rows)
        gradients = np.empty((len(rows), weights.size), dtype=np.float32)
        parts = np.split(gradients, self._ends[:-1], axis=1)

        derivative = softmax_residuals(scores, labels)
        parts[3][:] = outer(last, derivative)
        derivative = (derivative @ matrices[3][:-1].T) * (1.0 - last[:, :-1] ** 2)
        parts[2][:] = outer(third, derivative)
        derivative = spread((derivative @ matrices[2][:-1].T).reshape(-1, 2, 2, SECOND))
        derivative = derivative.reshape(given[1].shape) * (1.0 - given[1] ** 2)
        parts[1][:] = summed_outer(second, derivative)
        pieces = (derivative @ matrices[1][:-1].T).reshape(-1, 4, 4, 4, 4, FIRST)
        derivative = spread(folded(pieces))
        derivative = derivative.reshape(given[0].shape) * (1.0 - given[0] ** 2)
        parts[0][:] = summed_outer(first, derivative)
        return gradients, np.sqrt(np.einsum("ij,ij->i", gradients, gradients))


def with_one(values: Floats) -> Floats:
    """`values` with a one at the end of the last axis."""
    result = np.ones((*values.shape[:-1], values.shape[-1] + 1), dtype=np.float32)
    result[..., :-1] = values
    return result


def averaged(pictures: Floats) -> Floats:
    """Averages of squares of 2 by 2, shape (n, height / 2, width / 2, channels)."""
    return 0.25 * (
        pictures[:, ::2, ::2] + pictures[:, 1::2, ::2] + pictures[:, ::2, 1::2] + pictures[:, 1::2, 1::2]
    )


def spread(derivative: Floats) -> Floats:
    """Return the derivative by the pixels from that by the averages of `averaged`."""
    return np.float32(0.25) * derivative.repeat(2, axis=1).repeat(2, axis=2)


def folded(pieces: Floats) -> Floats:
    """Add up pieces, shape (n, rows, columns, height, width, channels), where they are in the picture."""
    number, rows, columns, height, width, channels = pieces.shape
    result = np.zeros((number, rows + height - 1, columns + width - 1, channels), dtype=np.float32)
    for i in range(height):
        for j in range(width):
            result[:, i : i + rows, j : j + columns] += pieces[:, :, :, i, j]
    return result


def outer(taken: Floats, derivative: Floats) -> Floats:
    """Outer product of each two rows, as one row."""
    return (taken[:, :, None] * derivative[:, None, :]).reshape(len(taken), -1)


def summed_outer(taken: Floats, derivative: Floats) -> Floats:
    """Sum over the pieces of the outer products, as one row for each example."""
    return (taken.transpose(0, 2, 1) @ derivative).reshape(len(taken), -1)
