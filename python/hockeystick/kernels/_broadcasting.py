"""Kernels that take one number or one law at a time, asked about arrays of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import FloatOrFloats, Floats, broadcast, float_array, in_shape


@dataclass(frozen=True, slots=True)
class Laws:
    """Weights and shifts of one mixture, or of one for each element of the leading axes."""

    weights: Floats
    shifts: Floats

    @classmethod
    def of(cls, weights: ArrayLike, shifts: ArrayLike) -> Laws:
        """Return the laws along the last axes, which must have one length."""
        laws = cls(float_array(weights, "weights"), float_array(shifts, "shifts"))
        shapes = laws.weights.shape, laws.shifts.shape
        for name, shape in zip(("weights", "shifts"), shapes, strict=True):
            if not shape:
                raise ValueError(f"{name} must have at least one dimension, got a single number")
        if shapes[0][-1] != shapes[1][-1]:
            lengths = " and ".join(str(shape[-1]) for shape in shapes)
            raise ValueError(f"weights and shifts must have one length, got {lengths}")
        return laws

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the leading axes: none for a single law."""
        weights, shifts = (np.broadcast_to(0.0, part.shape[:-1]) for part in (self.weights, self.shifts))
        return broadcast(weights=weights, shifts=shifts)

    def numbered(self) -> tuple[list[tuple[Floats, Floats]], Floats]:
        """Return the laws in a list, and their numbers in the shape of the leading axes."""
        shape = (*self.shape, self.weights.shape[-1])
        rows = [np.broadcast_to(part, shape).reshape(-1, shape[-1]) for part in (self.weights, self.shifts)]
        numbers = np.arange(float(len(rows[0]))).reshape(shape[:-1])
        return list(zip(*(np.ascontiguousarray(part) for part in rows), strict=True)), numbers


def for_each_law(
    answer: Callable[[Floats, Floats, Floats, float], Floats],
    laws: Laws,
    points: Floats,
    points_name: str,
    numbers: FloatOrFloats,
    numbers_name: str,
) -> FloatOrFloats:
    """Answers for laws, points and numbers that broadcast; ``answer(weights, shifts, points, number)``."""
    listed, places = laws.numbered()
    if laws.shape == ():
        law = listed[0]
        return for_each_number(
            lambda *asked: answer(*law, *asked), points, points_name, numbers, numbers_name
        )
    shape = broadcast(**{points_name: points, numbers_name: np.asarray(numbers), "weights": places})
    all_points, all_numbers, all_places = (
        np.broadcast_to(each, shape) for each in (points, np.asarray(numbers), places)
    )
    values = np.empty(shape)
    for place, law in enumerate(listed):
        here = all_places == place
        found = for_each_number(
            lambda *asked, law=law: answer(*law, *asked),
            all_points[here],
            points_name,
            all_numbers[here],
            numbers_name,
        )
        values[here] = found
    return values


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
