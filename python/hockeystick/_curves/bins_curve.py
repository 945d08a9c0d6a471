"""Correlated noise with random bins that stay: certified epsilon and delta where the bins form a chain.

Proofs: docs/theory/correlated-bins.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import Floats, broadcast, count_or_counts, float_array, in_shape, require
from hockeystick._curves.solving import solve
from hockeystick._factorization.toeplitz import Toeplitz
from hockeystick._vocabulary.adjacency import check_add_remove
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.configuration import configure
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.intervals import warn_if_wide
from hockeystick.errors import UnsupportedError

LARGEST_EPSILON = 25.0
"""Beyond it, delta is that of a known bin."""

_WHERE = (
    "certified answers for FixedBins with correlated noise need coefficients c (1, a, a r, a r^2, ...) with "
    "a below 1 + r and r below 1: lambda_cgd, blt with one buffer, toeplitz with two coefficients"
)
_INSTEAD = "use estimate_delta, or FixedOrder(batches), which is an upper bound that uses no draw"


class Coefficients(NamedTuple):
    """The first column of a matrix: scale times 1, first, first * decay, first * decay^2, ..."""

    scale: float
    first: float
    decay: float


def coefficients(mechanism: CorrelatedNoise) -> Coefficients:
    """Absolute values of the coefficients, if they form a geometric sequence after the first.

    Raises
    ------
    UnsupportedError
        If they do not.
    """
    matrix = mechanism.factor
    if isinstance(matrix, Toeplitz):
        found = _geometric(matrix)
        if found is not None and found.decay < 1.0 and found.first < 1.0 + found.decay:
            return found
    raise UnsupportedError(f"{_WHERE}; got {mechanism!r}: {_INSTEAD}")


def _geometric(matrix: Toeplitz) -> Coefficients | None:
    values = matrix.parameters
    if matrix.form == "lambda_cgd":
        return Coefficients(1.0, values[0], values[0])
    if matrix.form == "blt":
        half = len(values) // 2
        buffers = [(s, d) for s, d in zip(values[:half], values[half:], strict=True) if s > 0.0]
        if len(buffers) > 1:
            return None
        scale, decay = buffers[0] if buffers else (0.0, 0.0)
        return Coefficients(1.0, scale, decay)
    if matrix.form == "toeplitz":
        sizes = [abs(value) for value in values]
        while sizes[-1] == 0.0:
            sizes.pop()
        if len(sizes) > 2:
            return None
        return Coefficients(sizes[0], sizes[1] / sizes[0] if len(sizes) == 2 else 0.0, 0.0)
    return None


def solve_bins(
    unknown: str,
    mechanism: CorrelatedNoise,
    sampling: FixedBins,
    *,
    noise_multiplier: float,
    steps: ArrayLike,
    group_size: ArrayLike,
    adjacency: str,
    at: ArrayLike,
    known_bin: Any,
    bounds: bool,
    tolerance: float,
) -> Any:
    """Epsilon or delta of runs of whole epochs, in the broadcast shape.

    Parameters
    ----------
    unknown : {"epsilon", "delta"}
        What is asked for.
    at : array_like
        Delta or epsilon, whichever is given.
    known_bin : callable
        Takes a number of steps and values of `at`, and returns upper bounds on the answers: those of a run
        in which the bin of the record is public.
    """
    relation = check_add_remove(adjacency)
    given = "delta" if unknown == "epsilon" else "epsilon"
    counts, values = np.asarray(count_or_counts(steps, "steps", 0)), float_array(at, given)
    members = np.asarray(count_or_counts(group_size, "group_size", 1))
    if np.any(members > 1):
        raise UnsupportedError(
            f"groups with random bins and correlated noise have no certified answer, got group_size "
            f"{int(members.max())}: {_INSTEAD}"
        )
    found = coefficients(mechanism)
    require(noise_multiplier > 0.0, "noise_multiplier", noise_multiplier, "above 0")
    noise = noise_multiplier / found.scale
    if found.first == 0.0:
        # Independent noise: the curve of fixed bins is known exactly.
        step = configure(adjacency=relation, noise_multiplier=noise, sampling=sampling)
        epsilon, delta = (0.0, at) if unknown == "epsilon" else (at, 0.5)
        return solve(
            unknown, step, steps=steps, epsilon=epsilon, delta=delta, bounds=bounds, tolerance=tolerance
        )
    shape = broadcast(steps=counts, group_size=members, **{given: values})
    flat_counts, flat = (np.broadcast_to(array, shape).ravel() for array in (counts, values))
    lower, upper = np.zeros(flat.size), np.zeros(flat.size)
    for count in np.unique(flat_counts).tolist():
        if count == 0:
            continue
        if count % sampling.batches:
            raise UnsupportedError(
                f"steps must be a multiple of the {sampling.batches} batches for a certified answer with "
                f"correlated noise and {sampling!r}, got {count}: {_INSTEAD}"
            )
        alike = flat_counts == count
        ceiling = np.asarray(known_bin(count, flat[alike]), dtype=np.float64)
        run = (sampling.batches, count // sampling.batches)
        lower[alike], upper[alike] = _interval(unknown, run, found, noise, relation, flat[alike], ceiling)
    warn_if_wide(unknown, lower, upper, tolerance)
    if bounds:
        return in_shape(lower, shape), in_shape(upper, shape)
    return in_shape(upper, shape)


def _interval(
    unknown: str,
    run: tuple[int, int],
    found: Coefficients,
    noise: float,
    adjacency: str,
    at: Floats,
    ceiling: Floats,
) -> tuple[Floats, Floats]:
    """Both ends for one run, at most `ceiling`."""
    near = at <= LARGEST_EPSILON if unknown == "delta" else np.full(at.shape, True)
    lower, upper = np.zeros(at.size), ceiling.copy()
    if np.any(near):
        try:
            ends = _core.correlated_bins_interval(
                unknown, run, (found.first, found.decay), noise, adjacency, at[near], ceiling[near]
            )
        except ValueError as error:
            raise UnsupportedError(f"{error}: {_INSTEAD}") from None
        lower[near], upper[near] = ends[0], np.minimum(ends[1], ceiling[near])
    return np.minimum(lower, upper), upper
