"""Batches of record indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from hockeystick import Poisson
from hockeystick._arguments import LARGEST_DATASET, count_scalar, require
from hockeystick._gradients import Indices
from hockeystick.training._seeds import Seed, generator_from

KEPT = 0.5
"""Probability that a clipped unit is kept (SHUFFLE, Appendix D)."""

Units: TypeAlias = Indices | list[Indices]
"""A batch, or its clipped units where they are drawn on their own."""


def shuffled_batches(dataset_size: int, batch_size: int, *, seed: Seed) -> Iterator[Indices]:
    """Batches of one epoch with shuffling: a random permutation, cut into pieces.

    Parameters
    ----------
    dataset_size : int
        Number of records N, in [1, 2**53].
    batch_size : int
        Number of records in a batch, in [1, dataset_size].
    seed : int or numpy.random.Generator
        In [0, 2**64), or the generator to draw from: pass the same one for every epoch of a run.

    Returns
    -------
    iterator of ndarray of int64, shape (batch_size,)
        N // batch_size batches without a common record, in random order. The records that are left
        over are in no batch of this epoch.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    "Shuffling (SH)" of SHUFFLE, Section 3. Batches depend on each other, so that accounting for Poisson
    sampling or for fresh batches does not cover them.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick import training
    >>> first, second = training.shuffled_batches(6, 3, seed=1)
    >>> sorted([*first.tolist(), *second.tolist()])
    [0, 1, 2, 3, 4, 5]
    """
    records, size = check_sizes(dataset_size, batch_size)
    random = generator_from(seed)

    def draw() -> Iterator[Indices]:
        order = random.permutation(records)
        for start in range(0, records - size + 1, size):
            yield order[start : start + size]

    return draw()


def subsampled_batches(dataset_size: int, batch_size: int, rounds: int, *, seed: Seed) -> Iterator[Indices]:
    """Batches that are each a fresh uniformly random subset.

    Parameters
    ----------
    dataset_size : int
        Number of records N, in [1, 2**53].
    batch_size : int
        Number of records in a batch, in [1, dataset_size].
    rounds : int
        Number of batches, at least zero; an epoch of SHUFFLE has N // batch_size.
    seed : int or numpy.random.Generator
        In [0, 2**64), or the generator to draw from.

    Returns
    -------
    iterator of ndarray of int64, shape (batch_size,)
        Distinct records in random order; batches are independent of each other.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    "Subsampling (SS)" of SHUFFLE, Section 3: what `hockeystick.WithoutReplacement` stands for.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick import training
    >>> [batch.size for batch in training.subsampled_batches(7, 3, 5, seed=1)]
    [3, 3, 3, 3, 3]
    """
    records, size = check_sizes(dataset_size, batch_size)
    number = count_scalar(rounds, "rounds", 0)
    random = generator_from(seed)
    return (random.choice(records, size, replace=False) for _ in range(number))


def poisson_batches(dataset_size: int, sample_rate: float, steps: int, *, seed: Seed) -> Iterator[Indices]:
    """Batches that every record joins on its own, with the same probability.

    Parameters
    ----------
    dataset_size : int
        Number of records N, in [1, 2**53].
    sample_rate : float
        Probability in [0, 1] that a record is in a batch.
    steps : int
        Number of batches, at least zero.
    seed : int or numpy.random.Generator
        In [0, 2**64), or the generator to draw from.

    Returns
    -------
    iterator of ndarray of int64, shape (size of the batch,)
        Records in increasing order. Sizes vary, and a batch may be empty.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    What `hockeystick.Poisson` stands for. Uniform numbers of 53 bits decide, so that the probability is
    the sample rate to within 2^-53.

    Examples
    --------
    >>> from statistics import fmean
    >>> from hockeystick import training
    >>> batches = training.poisson_batches(1000, 0.3, 100, seed=1)
    >>> round(fmean(batch.size for batch in batches), -1)
    300.0
    """
    records = count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    rate = Poisson(sample_rate).sample_rate
    number = count_scalar(steps, "steps", 0)
    random = generator_from(seed)
    return (np.flatnonzero(random.random(records) < rate) for _ in range(number))


def drawn_units(
    sampling: str, records: int, size: int, rounds: int, units: int | None, random: np.random.Generator
) -> Iterator[Units]:
    """Batches of one epoch; of Poisson sampling with several units these units, drawn one after the other."""
    if sampling == "shuffle":
        return shuffled_batches(records, size, seed=random)
    if sampling == "subsample":
        return subsampled_batches(records, size, rounds, seed=random)
    if units is None:
        return poisson_batches(records, size / records, rounds, seed=random)
    samples = poisson_batches(records, size / units / records, rounds * units, seed=random)
    return ([next(samples) for _ in range(units)] for _ in range(rounds))


def kept_units(batch: Units, units: int | None, random: np.random.Generator) -> Units:
    """Those clipped units of a batch of a fixed size that coins keep; without `units` a unit is a record.

    Units that are left out are empty, and so count as 0.
    """
    assert isinstance(batch, np.ndarray)
    if units is None:
        return batch[random.random(batch.size) < KEPT]
    coins = random.random(units) < KEPT
    parts = np.split(batch, units)
    return [part if coin else part[:0] for part, coin in zip(parts, coins, strict=True)]


def check_sizes(dataset_size: object, batch_size: object) -> tuple[int, int]:
    """Sizes of a data set and of a batch of it."""
    records = count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    size = count_scalar(batch_size, "batch_size", 1, LARGEST_DATASET)
    require(size <= records, "batch_size", size, f"at most dataset_size {records}")
    return records, size
