"""Correlated noise with random bins that stay: an estimate of delta with a confidence interval."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hockeystick._arguments import Floats, count_scalar, float_scalar, require, shown
from hockeystick._factorization.bins import gram_of_bins
from hockeystick._vocabulary.adjacency import DIRECTIONS, check_add_remove
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick.errors import UnsupportedError
from hockeystick.kernels.gaussian_mixtures import gram_monte_carlo_delta
from hockeystick.kernels.monte_carlo import MonteCarloEstimate

MOST_COMPONENTS = 20_000
"""Ways in which a group can be in the bins, up to order; each is a component of the mixture."""

MOST_ENTRIES = 100_000_000
"""Steps times bins: the table of what a record adds in each bin (800 MB)."""


def estimate_delta(
    *,
    epsilon: float,
    mechanism: CorrelatedNoise,
    sampling: FixedBins,
    steps: int,
    group_size: int = 1,
    adjacency: str = "add_remove",
    samples: int = 100_000,
    seed: int,
    confidence: float = 0.99,
) -> MonteCarloEstimate:
    """Delta of a run with correlated noise and random bins, by Monte Carlo: balls in bins.

    Each record draws one of the batches of an epoch, which is its batch in every epoch. No certified curve
    is known where the noise is correlated; this is an estimate with a confidence interval that holds at
    every number of samples, for any matrix and for groups.

    Parameters
    ----------
    epsilon : float
        Finite and at least zero.
    mechanism : CorrelatedNoise
        With a noise multiplier above zero.
    sampling : FixedBins
        The batches of an epoch.
    steps : int
        Number of steps of the run, at least 1.
    group_size : int, optional
        Number of records that change together. They fill the bins in at most 20,000 ways up to order.
    adjacency : {"add_remove", "add", "remove"}, optional
        Neighbouring relation.
    samples : int, optional
        Number of samples for each direction, at least 2.
    seed : int
        In [0, 2**64).
    confidence : float, optional
        Probability in (0, 1) that the interval contains delta.

    Returns
    -------
    MonteCarloEstimate
        ``(estimate, lower, upper)``. A guarantee takes upper.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, or the mechanism has no noise multiplier.
    UnsupportedError
        For other schemes, replaced records, and groups or runs that are too large.

    Notes
    -----
    With m_i the sum of the columns of C that belong to bin i, the pair is (1/b) sum_i N(m_i, s^2 I) against
    N(0, s^2 I) for one record, and the sum over all ways of k members for a group. It dominates runs whose
    gradients depend on earlier outputs, as the theorem on docs/theory/correlated-bins.md shows, and is
    attained if C has no negative entries; else the absolute values of C make it a bound.

    The identity is the pair that `FixedBins` has for independent noise, which `get_delta` computes exactly.

    References
    ----------
    C. A. Choquette-Choo, A. Ganesh, S. Haque, T. Steinke and A. Thakurta, "Near-Exact Privacy Amplification
    for Matrix Mechanisms", ICLR 2025. arXiv:2410.06266

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125], noise_multiplier=5.0)
    >>> found = hs.estimate_delta(
    ...     epsilon=1.0, mechanism=noise, sampling=hs.FixedBins(10), steps=100, seed=1
    ... )
    >>> found.lower < found.estimate < found.upper < 1.2 * found.lower
    True
    """
    if not isinstance(mechanism, CorrelatedNoise):
        raise TypeError(f"mechanism must be a CorrelatedNoise, got {shown(mechanism)}")
    if not isinstance(sampling, FixedBins):
        raise UnsupportedError(
            f"sampling {shown(sampling)} has no estimate with correlated noise: use FixedBins(batches), or "
            f"get_delta for FullBatch(), FixedOrder, MinimumSeparation and CyclicPoisson"
        )
    noise = mechanism.noise_multiplier
    if noise is None:
        raise TypeError(f"{mechanism!r} has no noise multiplier: give it one by with_noise")
    require(noise > 0.0, "noise_multiplier", noise, "above 0")
    relation = check_add_remove(adjacency)
    count = mechanism.check_steps(count_scalar(steps, "steps", 1))
    members = count_scalar(group_size, "group_size", 1)
    certainty = float_scalar(confidence, "confidence")
    require(0.0 < certainty < 1.0, "confidence", certainty, "in (0, 1)")
    weights, ways = _ways(sampling.batches, members)
    if count * sampling.batches > MOST_ENTRIES:
        raise UnsupportedError(
            f"steps times batches must be at most {MOST_ENTRIES} for an estimate, got {count} times "
            f"{sampling.batches}"
        )
    gram = gram_of_bins(mechanism.factor, count, sampling.batches) / noise / noise
    directions = DIRECTIONS[relation]
    found = [
        gram_monte_carlo_delta(
            epsilon,
            weights,
            gram,
            samples=samples,
            direction=direction,
            seed=seed,
            # Every interval holds with so much less doubt that all of them do together.
            confidence=1.0 - (1.0 - certainty) / len(directions),
            counts=None if members == 1 else ways,
        )
        for direction in directions
    ]
    return MonteCarloEstimate(*(max(ends) for ends in zip(*found, strict=True)))


def _ways(bins: int, members: int) -> tuple[Floats, Floats]:
    """Return the probabilities of all ways to fill the bins, and how many members each puts into each bin."""
    number = math.comb(bins + members - 1, members)
    if number > MOST_COMPONENTS:
        raise UnsupportedError(
            f"a group of {members} fills {bins} bins in {number} ways, and at most {MOST_COMPONENTS} are "
            f"estimated: use a smaller group_size, or FixedOrder, which needs no draw"
        )
    rows = np.array(list(itertools.combinations_with_replacement(range(bins), members)), dtype=np.int64)
    counts = np.zeros((number, bins))
    for column in range(members):
        np.add.at(counts, (np.arange(number), rows[:, column]), 1.0)
    factorials = np.array([math.lgamma(value + 1.0) for value in range(members + 1)])
    logs = factorials[members] - factorials[counts.astype(np.int64)].sum(axis=1) - members * math.log(bins)
    weights = np.exp(logs)
    return weights / weights.sum(), counts
