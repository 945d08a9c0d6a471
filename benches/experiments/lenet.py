"""LeNet-5 in PyTorch, with gradients of single examples written out layer by layer.

A convolution is a product of matrices with the windows of its input, and those of the pictures are the same
for all candidates. One pass backwards gives the derivatives by what each layer gives. The norm of the
gradient of an example by a dense layer is then a product of two norms, and that by a convolution is the
norm of one small product of matrices. So sums of clipped gradients need no gradient of a single example by
a dense layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benches.experiments.clipping import Candidate
from benches.experiments.models import Floats, Labels, chunks

SIDE, HALF = 28, 14
KERNEL, PADDING = 5, 2
AT_ONCE = 32
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
        sums = np.zeros_like(self.weights)
        every = [self._parts(weights) for weights in self.weights]
        with torch.no_grad():
            for some in chunks(len(rows), AT_ONCE):
                pieces, classes = self._pieces(rows[some]), torch.from_numpy(labels[some])
                for total, parts, candidate in zip(sums, every, self._candidates, strict=True):
                    norm = None if candidate.is_batch else candidate.clipping_norm
                    gradients = summed(*derivatives(parts, pieces, classes), norm)
                    total += torch.cat([each.reshape(-1) for each in gradients]).numpy()
        means = sums / np.float32(len(rows))
        for mean, candidate in zip(means, self._candidates, strict=True):
            length = float(np.linalg.norm(mean)) if candidate.is_batch else 0.0
            mean /= np.float32(max(length, candidate.clipping_norm))
        return np.asarray(means)

    def accuracies(self, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Fraction of pictures whose class is found, by each."""
        hits = np.zeros(len(self.weights))
        every = [self._parts(weights) for weights in self.weights]
        with torch.no_grad():
            for some in chunks(len(rows), AT_ONCE):
                pieces = self._pieces(rows[some])
                for number, parts in enumerate(every):
                    scores = forward(parts, pieces)[1][-1]
                    hits[number] += np.count_nonzero(scores.argmax(dim=1).numpy() == labels[some])
        return hits / len(rows)

    @staticmethod
    def _pieces(rows: Floats) -> torch.Tensor:
        pictures = torch.from_numpy(np.ascontiguousarray(rows[:, : SIDE * SIDE])).reshape(-1, 1, SIDE, SIDE)
        return by_corner(windows(functional.pad(pictures, (PADDING,) * 4)))

    def _parts(self, weights: Floats) -> list[torch.Tensor]:
        parts = torch.split(torch.from_numpy(weights), self._sizes)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]


def windows(pictures: torch.Tensor) -> torch.Tensor:
    """Return every window of `KERNEL` by `KERNEL`, shape (examples, channels, 5, 5, side, side)."""
    side = pictures.shape[-1] - KERNEL + 1
    return pictures.unfold(2, side, 1).unfold(3, side, 1)


def as_matrix(pieces: torch.Tensor) -> torch.Tensor:
    """Return windows as matrices, shape (examples, channels * KERNEL**2, windows)."""
    side = pieces.shape[-1]
    return pieces.reshape(len(pieces), -1, side * side)


def by_corner(pieces: torch.Tensor) -> torch.Tensor:
    """Return windows as matrices, those at the upper left of squares of 2 by 2 first, and so on.

    What is pooled then lies in four blocks, and adding these takes much less time than adding neighbours.
    """
    half = pieces.shape[-1] // 2
    squares = pieces.view(*pieces.shape[:4], half, 2, half, 2).permute(0, 1, 2, 3, 5, 7, 4, 6)
    return squares.reshape(len(pieces), -1, 4 * half * half)


def squashed(given: torch.Tensor) -> torch.Tensor:
    """Replace x by its tanh, as 2/(1 + exp(-2x)) - 1: PyTorch's own takes six times as long."""
    return given.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


def pooled(corners: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return means of squares of 2 by 2, of which the four corners are given."""
    return (corners[0] + corners[1]).add_(corners[2]).add_(corners[3]).mul_(0.25)


def slope(given: torch.Tensor) -> torch.Tensor:
    """Return a quarter of the derivative of tanh where it is `given`: a part of their mean's."""
    return torch.addcmul(given.new_full((1,), 0.25), given, given, value=-0.25)


def forward(parts: list[torch.Tensor], pieces: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return what each layer takes, and what it gives after its tanh, the scores last."""
    first = squashed((parts[0] @ pieces).add_(parts[1][:, None]))
    corners = first.view(-1, 6, 4, HALF, HALF).unbind(2)
    small = as_matrix(windows(pooled(corners)))
    second = squashed((parts[2] @ small).add_(parts[3][:, None]))
    places = second.view(-1, 16, 10, 10)
    flat = pooled(tuple(places[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1))).flatten(1)
    third = squashed(functional.linear(flat, parts[4], parts[5]))
    fourth = squashed(functional.linear(third, parts[6], parts[7]))
    scores = functional.linear(fourth, parts[8], parts[9])
    return [pieces, small, flat, third, fourth], [first, second, third, fourth, scores]


def derivatives(
    parts: list[torch.Tensor], pieces: torch.Tensor, classes: torch.Tensor
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return what each layer takes, and the derivatives of the loss by what it gives before its tanh."""
    taken, (first, second, third, fourth, scores) = forward(parts, pieces)
    by_scores = torch.softmax(scores, dim=1)
    by_scores[torch.arange(len(classes)), classes] -= 1.0
    by_fourth = (by_scores @ parts[8]) * (1.0 - fourth * fourth)
    by_third = (by_fourth @ parts[6]) * (1.0 - third * third)
    by_second = slope(second)
    by_second.view(-1, 16, 5, 2, 5, 2).mul_((by_third @ parts[4]).view(-1, 16, 5, 1, 5, 1))
    kernels = parts[2].reshape(16, 6, KERNEL, KERNEL)
    by_small = functional.conv_transpose2d(by_second.view(-1, 16, 10, 10), kernels)
    by_first = slope(first)
    by_first.view(-1, 6, 4, HALF, HALF).mul_(by_small[:, :, None])
    return taken, [by_first, by_second, by_third, by_fourth, by_scores]


def summed(
    taken: list[torch.Tensor], by_given: list[torch.Tensor], norm: float | None
) -> tuple[torch.Tensor, ...]:
    """Sum over the examples their gradients by weights and biases of the five layers.

    Each is clipped to `norm` if there is one.
    """
    convolutions = [
        (derivative @ pieces.transpose(1, 2), derivative.sum(dim=2))
        for pieces, derivative in zip(taken[:2], by_given[:2], strict=True)
    ]
    scales = torch.ones(len(taken[0]))
    if norm is not None:
        squares = torch.zeros(len(taken[0]))
        for matrix, bias in convolutions:
            squares += matrix.square().sum(dim=(1, 2)) + bias.square().sum(dim=1)
        for given, derivative in zip(taken[2:], by_given[2:], strict=True):
            squares += (given.square().sum(dim=1) + 1.0) * derivative.square().sum(dim=1)
        scales = torch.clamp(norm / squares.sqrt().clamp(min=1e-20), max=1.0)
    sums: list[torch.Tensor] = []
    for matrix, bias in convolutions:
        sums += [(scales @ matrix.flatten(1)).view(matrix.shape[1:]), scales @ bias]
    for given, derivative in zip(taken[2:], by_given[2:], strict=True):
        scaled = derivative * scales[:, None]
        sums += [scaled.T @ given, scaled.sum(dim=0)]
    return tuple(sums)
