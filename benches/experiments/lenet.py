"""LeNet-5 in PyTorch, whose clipped sums need no gradient of a single example of the dense layers.

The norm of the gradient of an example by a dense layer is a product of two norms, and that by a convolution
is the norm of one small product of matrices. One pass backwards gives the derivatives by what each layer
gives, from which norms and the sum of scaled gradients follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benches.experiments.clipping import Candidate
from benches.experiments.models import Floats, Labels, chunks

SIDE = 28
KERNEL, PADDING = 5, 2
AT_ONCE = 256
"""Examples of a pass through the network: what it keeps of them fits into the cache of a processor."""


class LeNetCandidates:
    """LeNet-5 (61,706 weights for ten classes) on rows of 784 pixels with a constant, which is not used.

    Parameters
    ----------
    classes : int
        Number of classes.
    candidates : list of Candidate
        How each is clipped. All start from the same weights.
    """

    def __init__(self, classes: int, candidates: list[Candidate]) -> None:
        torch.set_num_threads(1)
        self._shapes = [
            (6, 25),
            (6,),
            (16, 150),
            (16,),
            (120, 400),
            (120,),
            (84, 120),
            (84,),
            (classes, 84),
            (classes,),
        ]
        self._sizes = [int(np.prod(shape)) for shape in self._shapes]
        random = np.random.default_rng(1)
        # As PyTorch starts its own layers: even between plus and minus one over the root of the inputs.
        inputs = [shape[1] for shape in self._shapes if len(shape) == 2 for _ in range(2)]
        start = [
            random.uniform(-1, 1, size) / many**0.5 for size, many in zip(self._sizes, inputs, strict=True)
        ]
        self.weights = np.tile(np.concatenate(start).astype(np.float32), (len(candidates), 1))
        self._candidates = candidates

    def updates(self, rows: Floats, labels: Labels) -> NDArray[Any]:
        """Clipped means of a batch, divided by the clipping norms, shape (candidates, weights)."""
        pictures, classes = self._pictures(rows), torch.from_numpy(labels)
        found = []
        for weights, candidate in zip(self.weights, self._candidates, strict=True):
            gradients = self._mean(
                weights, pictures, classes, None if candidate.is_batch else candidate.clipping_norm
            )
            length = float(np.linalg.norm(gradients)) if candidate.is_batch else 0.0
            found.append(gradients / np.float32(max(length, candidate.clipping_norm)))
        return np.array(found)

    def accuracies(self, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Fraction of pictures whose class is found, by each."""
        hits = np.zeros(len(self.weights))
        with torch.no_grad():
            for part in chunks(len(rows), 1000):
                pictures = self._pictures(rows[part])
                for number, weights in enumerate(self.weights):
                    scores = self._forward(self._parts(weights), pictures)[0][-1]
                    hits[number] += np.count_nonzero(scores.argmax(dim=1).numpy() == labels[part])
        return hits / len(rows)

    @staticmethod
    def _pictures(rows: Floats) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows[:, : SIDE * SIDE])).reshape(-1, 1, SIDE, SIDE)

    def _parts(self, weights: Floats) -> list[torch.Tensor]:
        parts = torch.split(torch.from_numpy(weights), self._sizes)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    @staticmethod
    def _forward(
        parts: list[torch.Tensor], pictures: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return what each layer gives before its tanh, the scores last, and what each layer takes."""
        first = functional.conv2d(pictures, parts[0].reshape(6, 1, KERNEL, KERNEL), parts[1], padding=PADDING)
        small = functional.avg_pool2d(torch.tanh(first), 2)
        second = functional.conv2d(small, parts[2].reshape(16, 6, KERNEL, KERNEL), parts[3])
        flat = functional.avg_pool2d(torch.tanh(second), 2).flatten(1)
        third = functional.linear(flat, parts[4], parts[5])
        hidden = torch.tanh(third)
        fourth = functional.linear(hidden, parts[6], parts[7])
        last = torch.tanh(fourth)
        scores = functional.linear(last, parts[8], parts[9])
        return [first, second, third, fourth, scores], [pictures, small, flat, hidden, last]

    def _mean(
        self, weights: Floats, pictures: torch.Tensor, classes: torch.Tensor, norm: float | None
    ) -> Floats:
        """Sum of the gradients, each clipped to `norm` if there is one, divided by the number of examples."""
        parts = [part.requires_grad_() for part in self._parts(weights)]
        total = torch.zeros(len(weights))
        for some in chunks(len(pictures), AT_ONCE):
            given, taken = self._forward(parts, pictures[some])
            loss = functional.cross_entropy(given[-1], classes[some], reduction="sum")
            if norm is None:
                gradients = torch.autograd.grad(loss, parts)
            else:
                derivatives = list(torch.autograd.grad(loss, given))
                gradients = clipped([each.detach() for each in taken], derivatives, norm)
            total += torch.cat([each.reshape(-1) for each in gradients])
        return np.asarray(total.numpy() / np.float32(len(pictures)))


def clipped(
    taken: list[torch.Tensor], derivatives: list[torch.Tensor], norm: float
) -> tuple[torch.Tensor, ...]:
    """Sum over the examples their gradients by weights and biases of the five layers, each clipped."""
    squares = torch.zeros(len(taken[0]))
    convolutions = []
    for given, derivative, padding in zip(taken[:2], derivatives[:2], (PADDING, 0), strict=True):
        pieces = functional.unfold(given, KERNEL, padding=padding)
        by_place = derivative.flatten(2)
        matrix, bias = by_place @ pieces.transpose(1, 2), by_place.sum(dim=2)
        convolutions.append((matrix, bias))
        squares += matrix.square().sum(dim=(1, 2)) + bias.square().sum(dim=1)
    for given, derivative in zip(taken[2:], derivatives[2:], strict=True):
        squares += (given.square().sum(dim=1) + 1.0) * derivative.square().sum(dim=1)
    scales = torch.clamp(norm / squares.sqrt().clamp(min=1e-20), max=1.0)
    sums: list[torch.Tensor] = []
    for matrix, bias in convolutions:
        sums += [torch.einsum("n,nij->ij", scales, matrix), scales @ bias]
    for given, derivative in zip(taken[2:], derivatives[2:], strict=True):
        scaled = derivative * scales[:, None]
        sums += [scaled.T @ given, scaled.sum(dim=0)]
    return tuple(sums)
