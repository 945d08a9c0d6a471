"""DP-SGD with clipped units of any size and with several ways of drawing batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from hockeystick._arguments import choice, count_scalar, float_array, float_scalar, float_vector, require
from hockeystick._progress import reporting
from hockeystick.mechanisms import check_noise_multiplier
from hockeystick.training.batches import (
    check_sizes,
    poisson_batches,
    shuffled_batches,
    subsampled_batches,
)
from hockeystick.training.clipping import check_norm, individual_clipping, mixed_clipping
from hockeystick.training.randomness import generator_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from numpy.typing import ArrayLike

    from hockeystick._arguments import Floats
    from hockeystick._progress import Report
    from hockeystick.training.batches import Indices
    from hockeystick.training.randomness import Seed

    Gradients: TypeAlias = Callable[[Floats, Indices], ArrayLike]
    """(weights, indices) to the gradients of these examples, shape (batch, parameters)."""

SAMPLINGS = ("shuffle", "subsample", "poisson")

_Result = TypeVar("_Result")


class StepAccountant(Protocol):
    """What `train` asks of an accountant; those of `hockeystick.accountants` and Opacus have it."""

    def step(self, *, noise_multiplier: float, sample_rate: float) -> object:
        """Record one step."""


def train(
    gradients: Gradients,
    weights: ArrayLike,
    *,
    dataset_size: int,
    batch_size: int,
    epochs: int,
    max_grad_norm: float,
    noise_multiplier: float,
    learning_rate: float | Callable[[int], float],
    seed: Seed,
    units: int | None = None,
    sampling: str = "shuffle",
    accountant: StepAccountant | None = None,
    callback: Callable[[int, Floats], _Result] | None = None,
    progress: Report | bool | None = None,
) -> tuple[Floats, list[_Result]]:
    """Train a model by DP-SGD.

    Parameters
    ----------
    gradients : callable
        Function (weights, indices) that returns the gradients of the loss of these examples, shape
        (batch, parameters).
    weights : array_like, shape (parameters,)
        Weights to start from; they are not changed.
    dataset_size : int
        Number of records N, in [1, 2**53].
    batch_size : int
        Number of records in a batch, in [1, dataset_size]; for Poisson sampling the expected number.
    epochs : int
        Number of epochs, at least one, of N // batch_size steps each.
    max_grad_norm : float
        Clipping norm C in [1e-150, 1e150], in the units of the gradients.
    noise_multiplier : float
        Standard deviation of the noise in units of C, at least zero, as in Opacus. SHUFFLE writes the
        noise N(0, (2 C sigma)^2 I): its sigma is half of this.
    learning_rate : float or callable
        Step size, finite and at least zero; or a function that returns it for steps 1, 2, ... of the
        run. It is asked right before each update, so that it may follow what `callback` has seen.
    seed : int or numpy.random.Generator
        In [0, 2**64), or the generator to draw from. Equal seeds give equal weights, and with any noise
        multiplier they draw the same batches.
    units : int, optional
        Number m of equal parts of a batch whose mean gradients are clipped; it divides `batch_size`. By
        default every record is a unit, which is individual clipping; 1 is batch clipping. With Poisson
        sampling, whose batches have any size, only these two are possible.
    sampling : {"shuffle", "subsample", "poisson"}, optional
        How the batches are drawn: as by `shuffled_batches`, afresh for each epoch, by
        `subsampled_batches` or by `poisson_batches`.
    accountant : optional
        Its ``step(noise_multiplier=noise_multiplier, sample_rate=batch_size / dataset_size)`` is called
        for every step. See the notes for what it must assume.
    callback : callable, optional
        Function (epoch, weights) that is called at the end of epochs 1, 2, ...; what it returns is
        kept.
    progress : callable or bool, optional
        Function (done, total) that is called after every step; or True for a bar, which needs tqdm.

    Returns
    -------
    weights : ndarray, shape (parameters,)
        Weights at the end.
    history : list
        What `callback` returned, one entry an epoch; empty without it.

    Raises
    ------
    ValueError
        If an argument is out of range, or gradients have the wrong shape or are not finite.
    TypeError
        If an argument has the wrong type.
    ImportError
        If `progress` is True and tqdm is not installed.

    Notes
    -----
    SHUFFLE, Algorithm 1, for mini-batch SGD: a step computes U by `mixed_clipping`, with `units` parts,
    and moves the weights by the learning rate times -(U + N(0, (noise_multiplier C)^2 I)) / m. For
    individual clipping m is `batch_size`, the expected one for Poisson sampling: dividing by the size of
    the batch that was drawn would not be covered by the accounting.

    Where k units of a batch change, U moves by at most 2kC, so that the step, once its batch is known, is
    Gaussian-DP with mu = 2k / noise_multiplier = k / sigma (SHUFFLE, Section 5).

    The accountants of `hockeystick.accountants` take a sample rate for Poisson sampling, and C for what
    one record added or removed moves. Their numbers are guarantees for `train` only with
    ``sampling="poisson"`` and without `units`: one record may move the clipped mean of its unit by 2C,
    and the batches of the other two ways of sampling are not Poisson's.

    Examples
    --------
    The mean of a data set, by the squared distance as loss:

    >>> import numpy as np
    >>> from hockeystick import training
    >>> data = np.random.default_rng(1).normal(3.0, 1.0, size=(1000, 1))
    >>> weights, history = training.train(
    ...     lambda weights, indices: weights - data[indices],
    ...     [0.0],
    ...     dataset_size=1000,
    ...     batch_size=50,
    ...     epochs=3,
    ...     max_grad_norm=4.0,
    ...     noise_multiplier=1.0,
    ...     learning_rate=0.3,
    ...     seed=1,
    ...     callback=lambda epoch, weights: round(float(weights[0])),
    ... )
    >>> history
    [3, 3, 3]
    """
    _check_callable(gradients, "gradients")
    current = float_vector(weights, "weights").copy()
    finite = np.isfinite(current)
    if not finite.all():
        raise ValueError(f"weights must be finite, got {current[~finite][0]}")
    records, size = check_sizes(dataset_size, batch_size)
    total_epochs = count_scalar(epochs, "epochs", 1)
    norm = check_norm(max_grad_norm)
    noise = check_noise_multiplier(noise_multiplier)
    rate_of = _schedule(learning_rate)
    random = generator_from(seed)
    scheme = choice(sampling, "sampling", SAMPLINGS)
    parts = _check_units(units, size, scheme)
    if accountant is not None:
        _check_callable(getattr(accountant, "step", None), "accountant.step")
    if callback is not None:
        _check_callable(callback, "callback")

    rounds = records // size
    step = 0
    history: list[_Result] = []
    with reporting(progress, "training") as report:
        for epoch in range(1, total_epochs + 1):
            for batch in _epoch(scheme, records, size, rounds, random):
                step += 1
                update = _update(gradients, current, batch, norm, parts)
                noisy = update + noise * norm * random.standard_normal(current.size)
                if accountant is not None:
                    accountant.step(noise_multiplier=noise, sample_rate=size / records)
                current = current - rate_of(step) * noisy / (size if parts is None else parts)
                if report is not None:
                    report(step, total_epochs * rounds)
            if callback is not None:
                history.append(callback(epoch, current))
    return current, history


def _epoch(
    sampling: str, records: int, size: int, rounds: int, random: np.random.Generator
) -> Iterator[Indices]:
    if sampling == "shuffle":
        return shuffled_batches(records, size, seed=random)
    if sampling == "subsample":
        return subsampled_batches(records, size, rounds, seed=random)
    return poisson_batches(records, size / records, rounds, seed=random)


def _update(gradients: Gradients, weights: Floats, batch: Indices, norm: float, units: int | None) -> Floats:
    """U of one batch, before the noise."""
    if len(batch) == 0:
        return np.zeros_like(weights)
    rows = float_array(gradients(weights, batch), "gradients")
    shape = (len(batch), len(weights))
    require(rows.shape == shape, "gradients", f"shape {rows.shape}", f"of shape {shape}")
    return individual_clipping(rows, norm) if units is None else mixed_clipping(rows, norm, units)


def _schedule(learning_rate: object) -> Callable[[int], float]:
    """Step size by the number of the step."""

    def checked(value: object) -> float:
        rate = float_scalar(value, "learning_rate")
        require(0.0 <= rate < np.inf, "learning_rate", rate, "in [0, inf)")
        return rate

    if callable(learning_rate):
        function = learning_rate
        return lambda step: checked(function(step))
    constant = checked(learning_rate)
    return lambda step: constant


def _check_units(units: object, batch_size: int, sampling: str) -> int | None:
    if units is None:
        return None
    parts = count_scalar(units, "units", 1, batch_size)
    require(batch_size % parts == 0, "units", parts, f"a divisor of batch_size {batch_size}")
    require(sampling != "poisson" or parts == 1, "units", parts, "None or 1 with Poisson sampling")
    return parts


def _check_callable(value: object, name: str) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {type(value).__name__}")
