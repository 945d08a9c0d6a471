"""Gradients of single examples, as functions that users pass: their types and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Counts, Floats, float_array, float_vector, require

Indices: TypeAlias = Counts
"""Records of a batch, as indices in [0, dataset_size)."""

Gradients: TypeAlias = Callable[[Floats, Indices], ArrayLike]
"""(weights, indices) to the gradients of these examples, shape (batch, parameters)."""


def gradient_rows(gradients: Gradients, weights: Floats, indices: Indices) -> Floats:
    """Gradients of some examples, one a row."""
    rows = float_array(gradients(weights, indices), "gradients")
    shape = (len(indices), len(weights))
    require(rows.shape == shape, "gradients", f"shape {rows.shape}", f"of shape {shape}")
    return rows


def check_weights(value: object) -> Floats:
    """`value` as a vector of finite weights."""
    weights = float_vector(value, "weights")
    finite = np.isfinite(weights)
    if not finite.all():
        raise ValueError(f"weights must be finite, got {weights[~finite][0]}")
    return weights


def check_callable(value: object, name: str) -> None:
    """Raise ``TypeError`` unless `value` can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {type(value).__name__}")
