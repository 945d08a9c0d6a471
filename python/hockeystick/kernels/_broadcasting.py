"""Kernels that take one number of a kind at a time, asked about arrays of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hockeystick._arguments import FloatOrFloats, Floats, broadcast, in_shape


def for_each_number(
    answer: Callable[[Floats, float], Floats],
    points: Floats,
    points_name: str,
    numbers: FloatOrFloats,
    numbers_name: str,
) -> FloatOrFloats:
    """Answers for points and numbers that broadcast; ``answer(flat points, number)`` for each number."""
    if isinstance(numbers, float):
        return in_shape(answer(points.ravel(), numbers), points.shape)
    shape = broadcast(**{points_name: points, numbers_name: numbers})
    all_points = np.broadcast_to(points, shape)
    # By their bits, so that not-a-number is found too, which the core refuses.
    bits = numbers.view(np.int64)
    all_bits = np.broadcast_to(bits, shape)
    values = np.empty(shape)
    for code in np.unique(bits):
        here = all_bits == code
        values[here] = answer(all_points[here], float(code.view(np.float64)))
    return values
