"""LeNet-5 in PyTorch, with gradients of single examples written out layer by layer.

A convolution is a product of matrices with the windows of its input. Those of the pictures are the same for
all candidates, whose first layers are therefore multiplied at once. One pass backwards gives the derivatives
by what each layer gives. The norm of the gradient of an example by a dense layer is then a product of two
norms, and that by a convolution is the norm of one small product of matrices. So sums of clipped gradients
need no gradient of a single example by a dense layer.

Each tanh(x) is kept as s = 1/(1 + exp(-2x)): tanh(x) = 2s - 1, and a quarter of its derivative is s(1 - s).
PyTorch's sigmoid takes a sixth of the time of its tanh.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benches.experiments.clipping import Candidate
from benches.experiments.models import Floats, Labels, chunks

SIDE, HALF, SMALL = 28, 14, 10
"""Side of the pictures, of the first layer's pooled output, and of the second layer's output."""
KERNEL, PADDING = 5, 2
ROW = HALF + PADDING
"""Length of a row of a quarter picture with its padding: every second pixel of every second row."""
RUN = SMALL * HALF - (HALF - SMALL)
"""Pixels from the first to the last upper left corner of the windows of the second layer."""
AT_ONCE = 64
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

    def keep(self, numbers: list[int]) -> None:
        """Go on with some of the candidates only."""
        self.weights, self._candidates = self.weights[numbers], [self._candidates[i] for i in numbers]

    def updates(self, rows: Floats, labels: Labels) -> NDArray[Any]:
        """Clipped means of a batch, divided by the clipping norms, shape (candidates, weights)."""
        sums = np.zeros_like(self.weights)
        with torch.no_grad():
            every, norms = self._parts(), self._norms()
            for some in chunks(len(rows), AT_ONCE):
                found = clipped_sums(every, norms, rows[some], labels[some])
                for total, gradients in zip(sums, found, strict=True):
                    total += torch.cat([each.reshape(-1) for each in gradients]).numpy()
        means = sums / np.float32(len(rows))
        for mean, candidate in zip(means, self._candidates, strict=True):
            length = float(np.linalg.norm(mean)) if candidate.is_batch else 0.0
            mean /= np.float32(max(length, candidate.clipping_norm))
        return np.asarray(means)

    def accuracies(self, rows: Floats, labels: Labels) -> NDArray[np.float64]:
        """Fraction of pictures whose class is found, by each."""
        hits = np.zeros(len(self.weights))
        with torch.no_grad():
            every = self._parts()
            for some in chunks(len(rows), AT_ONCE):
                firsts = first_layers(every, windows_of_pictures(rows[some]))
                for number, parts in enumerate(every):
                    scores = forward(parts, firsts[:, 6 * number : 6 * number + 6])[1][-1]
                    hits[number] += np.count_nonzero(scores.argmax(dim=1).numpy() == labels[some])
        return hits / len(rows)

    def _parts(self) -> list[list[torch.Tensor]]:
        """Weights and biases of the layers of each candidate."""
        every = [torch.split(torch.from_numpy(weights), self._sizes) for weights in self.weights]
        return [
            [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)] for parts in every
        ]

    def _norms(self) -> list[float | None]:
        """Norm to which gradients of single examples are clipped, or None."""
        return [None if each.is_batch else each.clipping_norm for each in self._candidates]


def windows_of_pictures(rows: Floats) -> torch.Tensor:
    """Return every window of the padded pictures, shape (examples, 25, 4 * HALF * ROW).

    Windows whose corner is at the upper left of a square of 2 by 2 pixels come first, and so on for the other
    three corners: what is pooled then lies in four blocks, and adding these takes much less time than adding
    neighbours. Each block has `ROW` places for a row of `HALF` windows, because long runs of memory are
    copied faster than short ones. What belongs to the other places is never used: its derivatives are zero.
    """
    number = len(rows)
    pictures = torch.from_numpy(np.ascontiguousarray(rows[:, : SIDE * SIDE])).reshape(number, SIDE, SIDE)
    # Two rows more below than are needed, for the last places of the last block.
    padded = functional.pad(pictures, (PADDING, PADDING, PADDING, PADDING + 2))
    quarters = padded.view(number, ROW + 1, 2, ROW, 2).permute(0, 2, 4, 1, 3).contiguous()
    size, run = (ROW + 1) * ROW, HALF * ROW
    # Row and column of a window's pixel, from the corner of its square, are 2 * (0 to 2) + (0 or 1).
    shifted = quarters.as_strided(
        (number, 3, 2, 3, 2, run), (4 * size, ROW, 2 * size, 1, size, 1)
    ).contiguous()
    strides = (36 * run, 6 * run, run, 6 * run, run, 1)
    return shifted.as_strided((number, KERNEL, KERNEL, 2, 2, run), strides).reshape(
        number, KERNEL**2, 4 * run
    )


def first_layers(every: list[list[torch.Tensor]], windows: torch.Tensor) -> torch.Tensor:
    """Return s of what the first layers give, shape (examples, 6 * candidates, 4 * HALF * ROW)."""
    kernels = 2.0 * torch.cat([parts[0] for parts in every])
    biases = 2.0 * torch.cat([parts[1] for parts in every])
    return torch.baddbmm(biases[:, None], kernels.expand(len(windows), -1, -1), windows).sigmoid_()


def pooled(corners: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return means of tanh over squares of 2 by 2, of whose four corners s is given."""
    return (corners[0] + corners[1]).add_(corners[2]).add_(corners[3]).mul_(0.5).sub_(1.0)


def forward(parts: list[torch.Tensor], first: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return what the layers after the first take, and what they give.

    What they give is s of the second layer, tanh of the third and fourth, and the scores.
    """
    blocks = first.view(len(first), 6, 4, HALF, ROW)[..., :HALF]
    small = pooled(blocks.unbind(2))
    second = functional.conv2d(small, kernels_of(parts).mul(2.0), 2.0 * parts[3]).sigmoid_()
    flat = pooled(tuple(second[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1))).flatten(1)
    third = functional.linear(flat, parts[4], parts[5]).tanh_()
    fourth = functional.linear(third, parts[6], parts[7]).tanh_()
    scores = functional.linear(fourth, parts[8], parts[9])
    return [small, flat, third, fourth], [second, third, fourth, scores]


def kernels_of(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the kernels of the second layer."""
    return parts[2].view(16, 6, KERNEL, KERNEL)


def derivatives(
    parts: list[torch.Tensor], first: torch.Tensor, classes: torch.Tensor
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return what the layers after the first take, and the derivatives of the loss.

    They are by what each of these layers gives before its tanh, and the first by what the second layer takes.
    """
    taken, (second, third, fourth, scores) = forward(parts, first)
    by_scores = torch.softmax(scores, dim=1)
    by_scores[torch.arange(len(classes)), classes] -= 1.0
    by_fourth = (by_scores @ parts[8]) * (1.0 - fourth * fourth)
    by_third = (by_fourth @ parts[6]) * (1.0 - third * third)
    by_second = torch.addcmul(second, second, second, value=-1.0)
    by_flat = (by_third @ parts[4]).view(-1, 16, SMALL // 2, SMALL // 2)
    by_second *= functional.interpolate(by_flat, scale_factor=2.0)
    by_small = functional.conv_transpose2d(by_second, kernels_of(parts))
    return taken, [by_small, by_second, by_third, by_fourth, by_scores]


def by_first_layers(firsts: torch.Tensor, by_small: list[torch.Tensor]) -> torch.Tensor:
    """Return derivatives by what the first layers give before their tanh, of the shape of `firsts`."""
    spread = firsts.new_zeros(len(firsts), firsts.shape[1], 1, HALF, ROW)
    spread[:, :, 0, :, :HALF] = torch.cat(by_small, dim=1)
    result = torch.addcmul(firsts, firsts, firsts, value=-1.0)
    result.view(len(result), -1, 4, HALF, ROW).mul_(spread)
    return result


def by_kernels(small: torch.Tensor, by_second: torch.Tensor) -> torch.Tensor:
    """Return the derivatives by the kernels of the second layer for each example, shape (examples, 16, 150).

    Rows of windows are copied with what lies between them: from the first corner to the last in one run. What
    lies between has derivatives of zero.
    """
    strides = (6 * HALF**2, HALF**2, HALF, 1, 1)
    windows = small.as_strided((len(small), 6, KERNEL, KERNEL, RUN), strides).reshape(len(small), 150, RUN)
    spread = functional.pad(by_second, (0, HALF - SMALL)).flatten(2)[..., :RUN]
    return (windows @ spread.transpose(1, 2)).transpose(1, 2)


def summed(
    convolutions: list[tuple[torch.Tensor, torch.Tensor]],
    dense: list[tuple[torch.Tensor, torch.Tensor]],
    norm: float | None,
) -> list[torch.Tensor]:
    """Sum over the examples their gradients by weights and biases of the five layers.

    `convolutions` are the derivatives by weights and biases of the first two, `dense` what the other layers
    take and the derivatives by what they give. Each gradient is clipped to `norm` if there is one.
    """
    scales = torch.ones(len(dense[0][0]))
    if norm is not None:
        squares = torch.zeros(len(scales))
        for matrix, bias in convolutions:
            squares += matrix.square().sum(dim=(1, 2)) + bias.square().sum(dim=1)
        for given, derivative in dense:
            squares += (given.square().sum(dim=1) + 1.0) * derivative.square().sum(dim=1)
        scales = torch.clamp(norm / squares.sqrt().clamp(min=1e-20), max=1.0)
    sums: list[torch.Tensor] = []
    for matrix, bias in convolutions:
        sums += [(scales @ matrix.flatten(1)).view(matrix.shape[1:]), scales @ bias]
    for given, derivative in dense:
        scaled = derivative * scales[:, None]
        sums += [scaled.T @ given, scaled.sum(dim=0)]
    return sums


def clipped_sums(
    every: list[list[torch.Tensor]], norms: list[float | None], rows: Floats, labels: Labels
) -> list[list[torch.Tensor]]:
    """Sum for each candidate the gradients of some examples by its weights and biases."""
    windows, classes = windows_of_pictures(rows), torch.from_numpy(labels)
    firsts = first_layers(every, windows)
    passes = [derivatives(parts, firsts[:, 6 * i : 6 * i + 6], classes) for i, parts in enumerate(every)]
    by_first = by_first_layers(firsts, [found[1][0] for found in passes])
    matrices, biases = by_first @ windows.transpose(1, 2), by_first.sum(dim=2)
    result = []
    for i, ((taken, (_, by_second, *by_dense)), norm) in enumerate(zip(passes, norms, strict=True)):
        own = slice(6 * i, 6 * i + 6)
        second = by_kernels(taken[0], by_second), by_second.sum(dim=(2, 3))
        first = matrices[:, own], biases[:, own]
        result.append(summed([first, second], list(zip(taken[1:], by_dense, strict=True)), norm))
    return result
