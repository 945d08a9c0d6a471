"""Lower-triangular Toeplitz matrices: their coefficients, and sensitivities in time linear in the steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._factorization.dense import Dense
from hockeystick._factorization.patterns import most_participations
from hockeystick._factorization.rounding import (
    Squared,
    between,
    enclosed,
    error_of,
    sum_of_squares,
)

LARGEST_DENSE = 4096
"""Up to so many steps matrices are stored; the products of two take seconds at twice the number."""

_POWER = 8.0
"""Rounded operations that a power counts for: libraries promise 4 units in the last place or fewer."""


class Coefficients:
    """The first column of a Toeplitz matrix, with bounds on its rounding errors."""

    __slots__ = ("decreasing", "operations", "values")

    def __init__(self, values: Floats, operations: float, decreasing: bool) -> None:
        self.values = values
        self.operations = operations
        """Relative error of each value, as a number of rounded operations."""
        self.decreasing = decreasing
        """Whether the true values are non-negative and never increase."""

    @property
    def bands(self) -> int:
        """Number of coefficients up to the last that is not zero."""
        nonzero = np.flatnonzero(self.values)
        return int(nonzero[-1]) + 1 if nonzero.size else 1


def _given(parameters: tuple[float, ...], steps: int) -> Coefficients:
    values = np.zeros(steps)
    known = parameters[:steps]
    values[: len(known)] = known
    decreasing = bool(values[-1] >= 0.0 and np.all(np.diff(values) <= 0.0))
    return Coefficients(values, 0.0, decreasing)


def _buffered(parameters: tuple[float, ...], steps: int) -> Coefficients:
    """1, and then sums of powers: sum_i scale_i decay_i^(t - 1)."""
    count = len(parameters) // 2
    values = np.zeros(steps)
    values[0] = 1.0
    exponents = np.arange(steps - 1, dtype=np.float64)
    for scale, decay in zip(parameters[:count], parameters[count:], strict=True):
        values[1:] += scale * np.power(decay, exponents)
    return Coefficients(values, _POWER + 1.0 + count, math.fsum(parameters[:count]) <= 1.0)


def _powers(parameters: tuple[float, ...], steps: int) -> Coefficients:
    (base,) = parameters
    return Coefficients(np.power(base, np.arange(steps, dtype=np.float64)), _POWER, True)


def _root_of_prefix_sums(parameters: tuple[float, ...], steps: int) -> Coefficients:
    """binomial(2 t, t) / 4^t, by the ratios 1 - 1 / (2 t) in the widest format of the machine."""
    wide = np.longdouble
    ratios = 1 - 1 / (2 * np.arange(1, steps, dtype=wide))
    values = np.concatenate([np.ones(1, dtype=wide), np.cumprod(ratios)]).astype(np.float64)
    per_factor = 4.0 * float(np.finfo(wide).eps) / (2.0**-53)
    return Coefficients(values, 2.0 + per_factor * steps, True)


_FORMS: dict[str, Callable[[tuple[float, ...], int], Coefficients]] = {
    "toeplitz": _given,
    "blt": _buffered,
    "lambda_cgd": _powers,
    "prefix_sum_root": _root_of_prefix_sums,
}

FORMS = tuple(_FORMS)
"""Toeplitz matrices by their names."""


class Toeplitz:
    """A lower-triangular Toeplitz matrix of any size."""

    __slots__ = ("form", "parameters")

    def __init__(self, form: str, parameters: tuple[float, ...]) -> None:
        self.form = form
        self.parameters = parameters

    def coefficients(self, steps: int) -> Coefficients:
        """Return the first column for so many steps."""
        return _FORMS[self.form](self.parameters, steps)

    def leading(self, steps: int) -> Floats:
        """Return the matrix itself, shape (steps, steps)."""
        values = self.coefficients(steps).values
        offsets = np.subtract.outer(np.arange(steps), np.arange(steps))
        return np.where(offsets >= 0, values[np.maximum(offsets, 0)], 0.0)

    def bands(self, steps: int) -> int:
        """Return number of diagonals that are not zero."""
        return self.coefficients(steps).bands

    def every(self, steps: int, period: int) -> Squared:
        """Largest squared norm of a sum of columns that are `period` apart, over gradients and offsets."""
        return self.separated(steps, period, most_participations(steps, period, None), only_regular=True)

    def separated(
        self, steps: int, separation: int, participations: int, only_regular: bool = False
    ) -> Squared:
        """Largest squared norm of a sum of that many columns, any two `separation` apart or more.

        With `only_regular` they are exactly so far apart.
        """
        found = self.coefficients(steps)
        values, operations = found.values, found.operations
        if participations == 1:
            return sum_of_squares(values, operations, "norm of the first column")
        if found.bands <= separation:
            return _of_orthogonal_columns(found, steps, separation, participations)
        additions = 2.0 * math.log2(participations) + 2.0
        regular = _windows(values, separation, participations)
        if found.decreasing or (only_regular and bool(np.all(values >= 0.0))):
            reason = "the earliest participations are the worst"
            return sum_of_squares(regular, operations + additions, reason)
        lower = _attained(values, operations, separation, participations, regular)
        absolute = np.abs(values)
        bound = absolute if only_regular else np.maximum.accumulate(absolute[::-1])[::-1]
        upper = sum_of_squares(_windows(bound, separation, participations), operations + additions, "").upper
        coarse = between(lower, upper, "coefficients replaced by larger ones that decrease")
        if steps > LARGEST_DENSE or operations > 0.0:
            return coarse
        # All the coefficients are as given, so that the stored matrix is the matrix.
        dense = Dense(self.leading(steps))
        finer = (
            dense.every(steps, separation)
            if only_regular
            else dense.separated(steps, separation, participations)
        )
        if finer.upper >= coarse.upper:
            return coarse._replace(lower=max(coarse.lower, min(finer.lower, coarse.upper)))
        return finer if finer.exact else finer._replace(lower=min(max(finer.lower, lower), finer.upper))

    def squared_columns(self, steps: int) -> tuple[Floats, Floats]:
        """Both ends of the squared norm of every column."""
        found = self.coefficients(steps)
        sums = np.cumsum(found.values**2)[::-1]
        error = error_of(2.0 * found.operations + steps + 4.0)
        # Columns that reach their last band before the last step all have one norm: said to the last bit.
        whole = sum_of_squares(found.values, found.operations, "")
        lower, upper = sums * (1.0 - error), np.minimum(sums * (1.0 + error), whole.upper)
        full = steps - found.bands + 1
        lower[:full], upper[:full] = whole.lower, whole.upper
        return lower, upper

    def pattern_sums(self, steps: int, period: int) -> Floats:
        """Return sums of the absolute columns that are `period` apart, one column for each offset."""
        values = np.abs(self.coefficients(steps).values)
        first = _windows(values, period, most_participations(steps, period, None))
        sums = np.zeros((steps, period))
        for offset in range(min(period, steps)):
            sums[offset:, offset] = first[: steps - offset]
        return sums

    def pattern_error(self, steps: int, period: int) -> float:
        """Return rounded operations in `pattern_sums`, as a bound on its relative error."""
        often = most_participations(steps, period, None)
        return self.coefficients(steps).operations + 2.0 * math.log2(often) + 4.0

    def is_nonnegative(self, steps: int) -> bool:
        """Whether no entry is negative."""
        return bool(np.all(self.coefficients(steps).values >= 0.0))

    def overlap(self, steps: int, cycle: int, others: int) -> float:
        """Largest squared norm of a column plus its inner products with the columns of `others` parts.

        Parts are the columns of one remainder modulo `cycle`; rounded up. Needs bands <= cycle.
        """
        found = self.coefficients(steps)
        magnitudes = np.abs(found.values[: found.bands])
        bands = magnitudes.size
        correlation = np.correlate(magnitudes, magnitudes, mode="full")[bands - 1 :]
        lags = np.zeros(cycle + 1)
        lags[:bands] = correlation
        beside = np.sort(lags[1:cycle] + lags[cycle - 1 : 0 : -1])[::-1][:others]
        total = float(correlation[0] + beside.sum())
        return enclosed(total, 2.0 * found.operations + bands + others + 4.0, "").upper


def _of_orthogonal_columns(found: Coefficients, steps: int, separation: int, participations: int) -> Squared:
    """Sum of the squared norms of the earliest columns: none overlap, and later ones are cut shorter."""
    starts = np.arange(participations) * separation
    whole = int(np.count_nonzero(starts + found.bands <= steps))
    squares = (found.values**2).tolist()
    total = whole * math.fsum(squares) + math.fsum(
        math.fsum(squares[: steps - start]) for start in starts[whole:].tolist()
    )
    return enclosed(total, 2.0 * found.operations + 6.0, "columns do not overlap")


def _windows(values: Floats, separation: int, participations: int) -> Floats:
    """Sum over j < participations of `values` moved j * separation places, by doubling.

    All terms are added, none subtracted, each in at most 2 log2(participations) + 1 operations in sequence.
    """
    total = np.zeros_like(values)
    done, power, block = 0, 1, values
    while power <= participations:
        if participations & power:
            _add_moved(total, block, done * separation)
            done += power
        if 2 * power <= participations:
            doubled = block.copy()
            _add_moved(doubled, block, power * separation)
            block = doubled
        power *= 2
    return total


def _add_moved(total: Floats, values: Floats, places: int) -> None:
    if places < total.size:
        total[places:] += values[: total.size - places]


def _attained(
    values: Floats, operations: float, separation: int, participations: int, regular: Floats
) -> float:
    """Lower end of what some gradients attain: all alike, or of alternating signs, at the earliest steps."""
    magnitude = _windows(np.abs(values), separation, participations)
    error = error_of(operations + 2.0 * math.log2(participations) + 6.0)
    best = 0.0
    signed = [regular]
    if participations % 2 == 0:
        odd = values.copy()
        _add_moved(odd, -values, separation)
        signed.append(_windows(odd, 2 * separation, participations // 2))
    for sums in signed:
        # Where signs cancel the error is relative to the sum of magnitudes.
        certain = np.maximum(np.abs(sums) - error * magnitude, 0.0)
        best = max(best, sum_of_squares(certain, 0.0, "").lower)
    return best
