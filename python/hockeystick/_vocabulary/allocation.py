"""Batches into which the records of an epoch are allocated: each record is in exactly one of them."""

from __future__ import annotations

from dataclasses import dataclass

from hockeystick._arguments import count_scalar
from hockeystick._vocabulary.spelling import spelled_class

LARGEST_EPOCH = 2**40
"""Largest number of batches in an epoch."""


@spelled_class
@dataclass(frozen=True)
class RandomAllocation:
    """Random allocation: in every epoch each record goes into one of the batches, drawn afresh.

    Every record draws its batch on its own, each with the same probability, so that batches differ in size
    ("balls in bins"). Steps count batches: ``steps=1000`` with ``batches=100`` is ten epochs. Where `steps`
    is not a multiple of `batches`, only the remaining batches of the last epoch are released.

    Parameters
    ----------
    batches : int
        Number of batches in an epoch, in [1, 2**40].
    times : int, optional
        Number of batches of an epoch that each record is in, in [1, batches].

    Raises
    ------
    ValueError
        If `batches` or `times` is out of range.
    TypeError
        If `batches` or `times` is not a whole number.

    Notes
    -----
    It is supported for Gaussian noise and records that are added or removed. For one record in one batch of
    an epoch the pair is tight (Feldman and Shenfeld 2025; Chua et al. 2024). For up to 6 records, and for
    one record in several batches, it is an upper bound: how many members share a batch, or which part of
    the batches each choice is made from, is taken as published; and a last part of an epoch counts as a
    whole one. Larger groups, and groups of records in several batches, are bounded by a chain of data sets
    that lose one record each (GROUP, Theorem 5). `estimate_delta` estimates their true values. With Laplace
    noise the pair of one record in one batch of an epoch is tight too, and groups are bounded by a chain.
    Shuffled batches (`Shuffle`) are something else: their sizes are fixed, so that records push each other
    out.

    References
    ----------
    - V. Feldman and M. Shenfeld 2025, "Privacy Amplification by Random Allocation", arXiv:2502.08202
    - L. Chua, B. Ghazi, C. Harrison, E. Leeman, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha and C. Zhang
      2024, "Balls-and-Bins Sampling for DP-SGD", arXiv:2412.16802

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"delta": 1e-6, "noise_multiplier": 1.0, "steps": 10}
    >>> print(f"{hs.get_epsilon(sampling=hs.RandomAllocation(10), **run):.4f}")
    2.6524
    >>> print(f"{hs.get_epsilon(sampling=hs.Poisson(0.1), **run):.4f}")
    3.4660
    """

    batches: int
    times: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", count_scalar(self.batches, "batches", 1, LARGEST_EPOCH))
        object.__setattr__(self, "times", count_scalar(self.times, "times", 1, self.batches))

    def __repr__(self) -> str:
        several = "" if self.times == 1 else f", times={self.times}"
        return f"{type(self).__name__}({self.batches}{several})"


@spelled_class
@dataclass(frozen=True)
class FixedBins:
    """Bins that stay: each record goes into one of the batches once, and these come back in every epoch.

    What some samplers that are said to do "balls in bins" draw. All steps are one release: after E epochs
    the record has been in one batch, E times. That is the loss of one epoch of `RandomAllocation` with the
    noise multiplier divided by the square root of E, far more than that of E epochs with fresh bins.

    Parameters
    ----------
    batches : int
        Number of batches in an epoch, in [1, 2**40].

    Raises
    ------
    ValueError
        If `batches` is out of range.
    TypeError
        If `batches` is not a whole number.

    Notes
    -----
    It is supported for Gaussian noise and records that are added or removed: one record with a tight pair,
    groups with an upper bound, as for `RandomAllocation`. With Laplace noise the bound takes all batches as
    published, which gives away what hiding the batch would gain.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"delta": 1e-5, "noise_multiplier": 2.0, "steps": 1000}
    >>> print(f"{hs.get_epsilon(sampling=hs.FixedBins(100), **run):.3f}")
    2.959
    >>> print(f"{hs.get_epsilon(sampling=hs.RandomAllocation(100), **run):.3f}")
    0.603
    """

    batches: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", count_scalar(self.batches, "batches", 1, LARGEST_EPOCH))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.batches})"
