"""Stored lower-triangular matrices: sensitivities from the Gram matrix of their columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Floats
from hockeystick._factorization.patterns import (
    MOST_PATTERNS,
    all_patterns,
    count_of_patterns,
    largest_sum,
    largest_sums,
)
from hockeystick._factorization.rounding import (
    SMALLEST,
    Squared,
    between,
    enclosed,
    error_of,
    largest,
    squares_of_columns,
    sum_of_squares,
)


class Gram:
    """Inner products of columns: magnitudes rounded up, and values that are certainly not exceeded."""

    __slots__ = ("centre", "error", "nonnegative", "upper")

    def __init__(self, columns: Floats) -> None:
        self.centre = columns.T @ columns
        magnitudes = self.centre if np.all(columns >= 0.0) else np.abs(columns).T @ np.abs(columns)
        # Sums of products in any order: the error is relative to the sum of their magnitudes.
        self.error = magnitudes * (2.0 * error_of(columns.shape[0] + 2.0)) + SMALLEST
        if magnitudes is self.centre:
            self.nonnegative = True
        else:
            touching = magnitudes > 0.0
            self.nonnegative = bool(np.all((self.centre - self.error)[touching] >= 0.0))
        self.upper = np.abs(self.centre) + self.error


class Dense:
    """A lower-triangular matrix that is stored; its leading parts are the matrices of shorter runs."""

    __slots__ = ("array",)

    def __init__(self, array: Floats) -> None:
        self.array = array

    def leading(self, steps: int) -> Floats:
        """Return the matrix of the first steps, shape (steps, steps)."""
        return self.array[:steps, :steps]

    def bands(self, steps: int) -> int:
        """Return number of diagonals up to the last one with an entry that is not zero."""
        rows, columns = np.nonzero(self.leading(steps))
        return int((rows - columns).max()) + 1 if rows.size else 1

    def is_nonnegative(self, steps: int) -> bool:
        """Whether no entry is negative."""
        return bool(np.all(self.leading(steps) >= 0.0))

    def squared_columns(self, steps: int) -> tuple[Floats, Floats]:
        """Both ends of the squared norm of every column."""
        return squares_of_columns(self.leading(steps))

    def every(self, steps: int, period: int) -> Squared:
        """Largest squared norm of a sum of columns that are `period` apart, over gradients and offsets."""
        matrix = self.leading(steps)
        offsets = range(min(period, steps))
        method = "maximum over the offsets"
        if self.is_nonnegative(steps):
            return largest([self._aligned(matrix, offset, period, method) for offset in offsets])
        if self.bands(steps) <= period:
            lower, upper = self.squared_columns(steps)
            found = [(float(lower[i::period].sum()), float(upper[i::period].sum())) for i in offsets]
            error = error_of(steps + 1.0)
            return Squared(
                max(low for low, _ in found) * (1.0 - error),
                max(high for _, high in found) * (1.0 + error),
                True,
                "columns do not overlap",
            )
        by_column = np.asfortranarray(matrix)
        return largest([self._any_signs(by_column[:, offset::period]) for offset in offsets])

    @staticmethod
    def _aligned(matrix: Floats, offset: int, period: int, method: str) -> Squared:
        sums = matrix[:, offset::period].sum(axis=1)
        return sum_of_squares(sums, float(matrix.shape[0] // period + 1), method)

    @staticmethod
    def _any_signs(columns: Floats) -> Squared:
        """Largest squared norm of a combination of columns with factors that are vectors of norm 1."""
        gram = Gram(columns)
        count = columns.shape[1]
        error = error_of(count**2 + 2.0)
        upper = float(gram.upper.sum()) * (1.0 + error)
        if gram.nonnegative:
            lower = float((gram.centre - gram.error).sum()) * (1.0 - error)
            return Squared(max(lower, 0.0), upper, True, "inner products are not negative")
        signs = _good_signs(gram.centre)
        attained = float(signs @ gram.centre @ signs) - float(gram.error.sum()) * (1.0 + error)
        lower = max(attained - upper * error, 0.0)
        return between(lower, upper, "sum of the magnitudes of inner products")

    def separated(self, steps: int, separation: int, participations: int) -> Squared:
        """Largest squared norm of a sum of that many columns, any two `separation` apart or more."""
        lower, upper = self.squared_columns(steps)
        if participations == 1:
            return Squared(float(lower.max()), float(upper.max()), True, "largest norm of a column")
        if self.bands(steps) <= separation:
            low, _ = largest_sum(lower, separation, participations)
            _, high = largest_sum(upper, separation, participations)
            return Squared(low, high, True, "columns do not overlap")
        if separation == 1 and participations >= steps:
            return self.every(steps, 1)
        gram = Gram(self.leading(steps))
        # A set of fewer steps need not be a part of one of that many: in the middle there may be no room.
        sizes = range(1, participations + 1)
        if sum(count_of_patterns(steps, separation, size) for size in sizes) <= MOST_PATTERNS:
            return largest([_enumerated(gram, all_patterns(steps, separation, size)) for size in sizes])
        return _bounded(gram, separation, participations)

    def pattern_sums(self, steps: int, period: int) -> Floats:
        """Return sums of the absolute columns that are `period` apart, one column for each offset."""
        matrix = np.abs(self.leading(steps))
        sums = np.zeros((steps, period))
        for offset in range(min(period, steps)):
            sums[:, offset] = matrix[:, offset::period].sum(axis=1)
        return sums

    def pattern_error(self, steps: int, period: int) -> float:
        """Return rounded operations in `pattern_sums`, as a bound on its relative error."""
        return float(steps // period + 2)

    def overlap(self, steps: int, cycle: int, others: int) -> float:
        """Largest squared norm of a column plus its inner products with the columns of `others` parts.

        Parts are the columns of one remainder modulo `cycle`; rounded up. Needs bands <= cycle.
        """
        magnitudes = Gram(self.leading(steps)).upper
        by_part = np.zeros((steps, cycle))
        for part in range(min(cycle, steps)):
            by_part[:, part] = magnitudes[:, part::cycle].sum(axis=1)
        own = np.arange(steps) % cycle
        norms = by_part[np.arange(steps), own]
        by_part[np.arange(steps), own] = 0.0
        beside = np.sort(by_part, axis=1)[:, ::-1][:, :others].sum(axis=1)
        return enclosed(float((norms + beside).max()), steps + others + 4.0, "").upper


def _good_signs(gram: Floats) -> Floats:
    """Signs with a large quadratic form: those of the leading eigenvector, then one flip at a time."""
    vector = np.ones(gram.shape[0])
    for _ in range(50):
        following = gram @ vector
        if not np.any(following):
            break
        vector = following / np.abs(following).max()
    signs = np.where(vector >= 0.0, 1.0, -1.0)
    sums, own = gram @ signs, np.diag(gram)
    for _ in range(3 * gram.shape[0]):
        gains = own - signs * sums
        best = int(np.argmax(gains))
        if gains[best] <= 0.0:
            break
        signs[best] = -signs[best]
        sums += 2.0 * signs[best] * gram[best]
    return signs


def _enumerated(gram: Gram, patterns: NDArray[np.int64]) -> Squared:
    """Maximum over all patterns, which are few."""
    size = patterns.shape[1]
    rows, columns = patterns[:, :, None], patterns[:, None, :]
    sums = gram.upper[rows, columns].sum(axis=(1, 2))
    upper = float(sums.max()) * (1.0 + error_of(size**2 + 2.0))
    if gram.nonnegative:
        lower = float((gram.centre - gram.error)[rows, columns].sum(axis=(1, 2)).max())
        lower *= 1.0 - error_of(size**2 + 2.0)
        return Squared(max(lower, 0.0), upper, True, "maximum over all patterns")
    return between(_attained(gram, patterns[int(sums.argmax())]), upper, "magnitudes, over all patterns")


def _bounded(gram: Gram, separation: int, participations: int) -> Squared:
    """Two rounds of dynamic programming: the best of each row, and the best rows (arXiv:2306.08153)."""
    steps = gram.upper.shape[0]
    weights = gram.upper.copy()
    for distance in range(1, min(separation, steps)):
        near = np.arange(steps - distance)
        weights[near, near + distance] = weights[near + distance, near] = 0.0
    rows = largest_sums(weights, separation, participations)
    _, upper = largest_sum(rows, separation, participations)
    last = steps - (participations - 1) * separation
    starts = range(0, max(last, 1), max(1, last // 64))
    lower = 0.0
    for start in starts:
        pattern = start + np.arange(participations) * separation
        lower = max(lower, _attained(gram, pattern[pattern < steps]))
    return between(lower, upper, "bound by dynamic programming")


def _attained(gram: Gram, pattern: NDArray[np.int64]) -> float:
    """Lower end of the squared norm that some signs attain on a pattern."""
    part = gram.centre[np.ix_(pattern, pattern)]
    signs = np.ones(pattern.size) if gram.nonnegative else _good_signs(part)
    error = gram.error[np.ix_(pattern, pattern)].sum() + np.abs(part).sum() * error_of(pattern.size**2 + 2.0)
    return max(float(signs @ part @ signs - error), 0.0)
