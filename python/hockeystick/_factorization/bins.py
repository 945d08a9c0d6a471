"""Sensitivity of the encoded sum to records that stay in one batch of every epoch."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._factorization.patterns import MOST_PATTERNS, all_patterns
from hockeystick._factorization.rounding import Squared, between, enclosed, error_of


class Matrix(Protocol):
    """The methods that stored and Toeplitz matrices have in common."""

    def bands(self, steps: int) -> int: ...
    def every(self, steps: int, period: int) -> Squared: ...
    def is_nonnegative(self, steps: int) -> bool: ...
    def leading(self, steps: int) -> Floats: ...
    def overlap(self, steps: int, cycle: int, others: int) -> float: ...
    def pattern_error(self, steps: int, period: int) -> float: ...
    def pattern_sums(self, steps: int, period: int) -> Floats: ...
    def separated(self, steps: int, separation: int, participations: int) -> Squared: ...
    def squared_columns(self, steps: int) -> tuple[Floats, Floats]: ...


LARGEST_TABLE = 50_000_000
"""Entries of the table of sums, one column a batch (400 MB); a larger one is not made."""


def gram_of_bins(matrix: Matrix, steps: int, bins: int) -> Floats:
    """Return inner products of what a record adds in each bin, by the absolute matrix; shape (bins, bins)."""
    sums = matrix.pattern_sums(steps, bins)
    return sums.T @ sums


def apart(matrix: Matrix, steps: int, bins: int, members: int) -> Squared:
    """Largest squared norm of what records add that are in different bins.

    The largest sum of the entries of the Gram matrix over sets of `members` bins.
    """
    if members == 1:
        return matrix.every(steps, bins)
    if steps * bins > LARGEST_TABLE:
        return _together(matrix, steps, bins, members)
    gram = gram_of_bins(matrix, steps, bins)
    operations = 2.0 * matrix.pattern_error(steps, bins) + steps + members**2 + 4.0
    exact = matrix.is_nonnegative(steps)
    if math.comb(bins, members) <= MOST_PATTERNS:
        sets = all_patterns(bins, 1, members)
        value = float(gram[sets[:, :, None], sets[:, None, :]].sum(axis=(1, 2)).max())
        found = enclosed(value, operations, "maximum over all sets of batches")
        return found if exact else between(matrix.every(steps, bins).lower, found.upper, found.method)
    # Each member with the others that overlap most with it.
    others = gram - np.diag(np.diag(gram))
    rows = np.diag(gram) + np.sort(others, axis=1)[:, ::-1][:, : members - 1].sum(axis=1)
    upper = float(np.sort(rows)[::-1][:members].sum()) * (1.0 + error_of(operations + members))
    lower = matrix.every(steps, bins).lower
    if exact:
        lower = max(lower, _attained(gram, members) * (1.0 - error_of(operations)))
    return between(lower, upper, "each member with the batches that overlap most")


def _attained(gram: Floats, members: int) -> float:
    """Sum over a good set of bins: one more at a time, that which adds most."""
    chosen = [int(np.argmax(np.diag(gram)))]
    while len(chosen) < members:
        gains = np.diag(gram) + 2.0 * gram[chosen].sum(axis=0)
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
    return float(gram[np.ix_(chosen, chosen)].sum())


def _together(matrix: Matrix, steps: int, bins: int, members: int) -> Squared:
    """Return the bound of members that are all in the worst bin."""
    one = matrix.every(steps, bins)
    return between(one.lower, one.upper * members**2 * (1.0 + error_of(4.0)), "as if in one batch")
