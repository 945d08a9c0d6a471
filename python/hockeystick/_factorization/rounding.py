"""Certified squares of norms: sums of floating-point numbers with bounds on their rounding errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hockeystick._arguments import Floats

UNIT = 2.0**-53
"""Largest relative error of one rounded operation on float64."""

SMALLEST = 1e-290
"""Added to every upper end: covers products that underflow. Sums of 2**40 of them stay below it."""


class Squared(NamedTuple):
    """Both ends of an interval that contains the square of a sensitivity."""

    lower: float
    upper: float
    exact: bool
    """Whether the two differ by rounding errors alone."""
    method: str
    """By which result, in words."""


class Sensitivity(NamedTuple):
    """A certified sensitivity: how far a record, or a group of records, can move the encoded sum.

    In units of the clipping norm. ``upper`` is what guarantees are computed from.
    """

    lower: float
    upper: float
    exact: bool
    """Whether it is attained: the two ends then differ by rounding errors alone. Otherwise `upper` is a
    bound that need not be attained, and `lower` is attained by some gradients."""
    method: str
    """The result that was used, in words."""


def error_of(operations: float) -> float:
    """Relative error of this many rounded operations in sequence, without cancellation.

    (1 + u)^k - 1 <= k u / (1 - k u) for the unit u of rounding; the number itself is rounded up.
    """
    share = operations * UNIT
    return share / (1.0 - share) * (1.0 + 8.0 * UNIT)


def enclosed(value: float, operations: float, method: str) -> Squared:
    """`value` >= 0 with the error of this many operations on both sides."""
    error = error_of(operations + 2.0)
    return Squared(max(value * (1.0 - error) - SMALLEST, 0.0), value * (1.0 + error) + SMALLEST, True, method)


def sum_of_squares(values: Floats, operations: float, method: str) -> Squared:
    """Sum of the squares of numbers that have the error of `operations` each."""
    # The sum of the rounded squares is correct to its last bit.
    return enclosed(math.fsum((values * values).ravel().tolist()), 2.0 * operations + 2.0, method)


def between(lower: float, upper: float, method: str) -> Squared:
    """Return an interval whose ends are two different bounds."""
    return Squared(min(lower, upper), upper, False, method)


def root(squared: Squared, times: int = 1) -> Sensitivity:
    """Return `times` the root, rounded outwards."""
    lower = math.nextafter(math.sqrt(squared.lower), 0.0) * times
    upper = math.nextafter(math.sqrt(squared.upper), math.inf) * times
    return Sensitivity(
        math.nextafter(lower, 0.0), math.nextafter(upper, math.inf), squared.exact, squared.method
    )


def largest(candidates: list[Squared]) -> Squared:
    """Return the maximum of several squares, each in its interval."""
    upper = max(candidate.upper for candidate in candidates)
    lower = max(candidate.lower for candidate in candidates)
    decides = max(candidates, key=lambda candidate: candidate.upper)
    return Squared(lower, upper, all(candidate.exact for candidate in candidates), decides.method)


def squares_of_columns(matrix: Floats) -> tuple[Floats, Floats]:
    """Both ends of the squared norms of all columns of a matrix whose entries are exact."""
    rows = matrix.shape[0]
    sums = np.einsum("ij,ij->j", matrix, matrix)
    error = error_of(rows + 4.0)
    return np.maximum(sums * (1.0 - error) - SMALLEST, 0.0), sums * (1.0 + error) + SMALLEST
