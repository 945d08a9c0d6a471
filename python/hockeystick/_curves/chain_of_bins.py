"""Correlated noise with random bins that stay, where the bins form a chain: certified epsilon and delta.

Proofs: docs/theory/correlated-bins.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Floats, require
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.equivalent_steps import equivalent
from hockeystick._factorization.toeplitz import Toeplitz
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.participation import FixedOrder
from hockeystick.errors import UnsupportedError

LARGEST_EPSILON = 25.0
"""Beyond it, delta is that of a known bin."""

_WHERE = (
    "certified answers for FixedBins with correlated noise need coefficients c (1, a, a r, a r^2, ...) with "
    "a below 1 + r and r below 1: lambda_cgd, blt with one buffer, toeplitz with two coefficients"
)
INSTEAD = "use estimate_delta, or FixedOrder(batches), which is an upper bound that uses no draw"
"""What answers where the bins are no chain."""


class Coefficients(NamedTuple):
    """The first column of a matrix: scale times 1, first, first * decay, first * decay^2, ..."""

    scale: float
    second: float
    """scale * first."""
    decay: float

    @property
    def is_identity(self) -> bool:
        """Whether noise is independent."""
        return self.second == 0.0


class Chain(NamedTuple):
    """Noise and coefficients in units of `Coefficients.scale`: 1, first, first decay, first decay^2, ..."""

    noise: float
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
        if found is not None and found.decay < 1.0 and found.second < found.scale * (1.0 + found.decay):
            return found
    raise UnsupportedError(f"{_WHERE}; got {mechanism!r}: {INSTEAD}")


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
        return Coefficients(sizes[0], sizes[1] if len(sizes) == 2 else 0.0, 0.0)
    return None


def quotient(numerator: float, denominator: float, towards: float) -> float:
    """`numerator` / `denominator` > 0, rounded towards 0 or infinity; itself where it is a float."""
    found = numerator / denominator
    if not math.isfinite(found) or found == 0.0:
        return found
    error = Fraction(found) * Fraction(denominator) - Fraction(numerator)
    wrong = error > 0 if towards == 0.0 else error < 0
    return math.nextafter(found, towards) if wrong else found


def of_independent_noise(mechanism: CorrelatedNoise, noise_multiplier: float) -> float | None:
    """Noise multiplier of a step where the matrix is a multiple of the identity; otherwise none.

    Raises
    ------
    UnsupportedError
        If the bins are no chain.
    """
    found = coefficients(mechanism)
    return quotient(noise_multiplier, found.scale, 0.0) if found.is_identity else None


def _chains(mechanism: CorrelatedNoise, noise_multiplier: float) -> tuple[Chain, Chain]:
    """Chains that reveal at least and at most as much, by the rounding of two quotients.

    All inner products of what a record adds grow with the second coefficient and fall with the noise.
    """
    found = coefficients(mechanism)

    def rounded(noise: float, first: float) -> Chain:
        """Return the chain with its noise rounded towards `noise` and its coefficient towards `first`."""
        return Chain(
            quotient(noise_multiplier, found.scale, noise),
            quotient(found.second, found.scale, first),
            found.decay,
        )

    return rounded(0.0, math.inf), rounded(math.inf, 0.0)


def described_chain(
    mechanism: CorrelatedNoise, noise_multiplier: float, sampling: FixedBins, steps: int, adjacency: str
) -> dict[str, Any]:
    """Return the run of one record as a certificate describes it.

    The first coefficient is 1. If the quotients by it are not doubles, they are rounded to reveal more.
    """
    worse, _ = _chains(mechanism, noise_multiplier)
    noise = {"name": "correlated_gaussian", "noise_multiplier": worse.noise}
    described = {"mechanism": noise | {"first": worse.first, "decay": worse.decay}}
    described |= {"sampling": {"name": "fixed_bins", "batches": sampling.batches}, "group": {"size": 1}}
    return {"adjacency": adjacency, "steps": [described | {"count": steps}]}


def known_bin(
    unknown: str,
    mechanism: CorrelatedNoise,
    noise_multiplier: float,
    sampling: FixedBins,
    steps: int,
    adjacency: str,
    at: Floats,
) -> Floats:
    """Upper bounds on what is asked for: those of a run in which the bin of the record is public."""
    steps_for = equivalent(mechanism, FixedOrder(sampling.batches), steps, 1)
    curve = PrivacyCurve(steps_for.kinds(noise_multiplier, adjacency), adjacency, 1e-6)
    found = curve.epsilon(at) if unknown == "epsilon" else curve.delta(at)
    return np.asarray(found, dtype=np.float64)


def enclosed(
    unknown: str,
    mechanism: CorrelatedNoise,
    noise_multiplier: float,
    sampling: FixedBins,
    steps: int,
    adjacency: str,
    at: Floats,
) -> tuple[Floats, Floats]:
    """Both ends of epsilon at `at` = delta, or of delta at `at` = epsilon, for one record.

    A run that ends within an epoch reveals no more than one that completes it, and no less than its
    whole epochs.

    Raises
    ------
    ValueError
        If a number is out of range.
    UnsupportedError
        If the bins are no chain, or its operators are too large.
    """
    require(noise_multiplier > 0.0, "noise_multiplier", noise_multiplier, "above 0")
    worse, better = _chains(mechanism, noise_multiplier)
    if steps == 0:
        return np.zeros(at.shape), np.zeros(at.shape)
    ceiling = known_bin(unknown, mechanism, noise_multiplier, sampling, steps, adjacency, at)
    complete, rest = divmod(steps, sampling.batches)
    lower, upper = _interval(unknown, sampling, complete + (rest > 0), worse, adjacency, at, ceiling)
    if rest and complete == 0:
        lower = np.zeros(at.shape)
    elif rest or worse != better:
        lower = _interval(unknown, sampling, complete, better, adjacency, at, ceiling)[0]
    return _core.meet_bounds(lower, upper)


def _interval(
    unknown: str,
    sampling: FixedBins,
    epochs: int,
    chain: Chain,
    adjacency: str,
    at: Floats,
    ceiling: Floats,
) -> tuple[Floats, Floats]:
    """Both ends for a run of whole epochs, at most `ceiling`."""
    near = at <= LARGEST_EPSILON if unknown == "delta" else np.full(at.shape, True)
    lower, upper = np.zeros(at.size), ceiling.copy()
    if np.any(near):
        try:
            ends = _core.correlated_bins_interval(
                unknown,
                (sampling.batches, epochs),
                (chain.first, chain.decay),
                chain.noise,
                adjacency,
                at[near],
                ceiling[near],
            )
        except ValueError as error:
            raise UnsupportedError(f"{error}: {INSTEAD}") from None
        lower[near], upper[near] = ends[0], np.minimum(ends[1], ceiling[near])
    return lower, upper
