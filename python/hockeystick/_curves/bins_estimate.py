"""Runs whose batches records are dealt into: an estimate of delta with a confidence interval."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Floats, count_scalar, float_scalar, require, shown
from hockeystick._factorization.bins import gram_of_bins
from hockeystick._vocabulary.adjacency import DIRECTIONS, ZERO_OUT, check_add_remove
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.configuration import in_own_terms
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick._vocabulary.run import Run
from hockeystick.errors import UnsupportedError
from hockeystick.kernels._gaussian_mixtures import gram_monte_carlo_delta
from hockeystick.kernels._monte_carlo import MonteCarloEstimate

MOST_COMPONENTS = 20_000
"""Ways in which a group can be in the bins, up to order; each is a component of the mixture."""

LEAST_NOISE = 0.01
"""Smallest noise multiplier of independent noise."""

MOST_ENTRIES = 100_000_000
"""Steps times bins: the table of what a record adds in each bin (800 MB)."""


@in_own_terms()
def estimate_delta(
    run: Run | None = None,
    *,
    epsilon: float,
    mechanism: CorrelatedNoise | None = None,
    noise_multiplier: float | None = None,
    sampling: FixedBins | RandomAllocation | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    group_size: int = 1,
    adjacency: str = "add_remove",
    samples: int = 100_000,
    seed: int,
    confidence: float = 0.99,
) -> MonteCarloEstimate:
    """Delta of a run whose batches records are dealt into, by Monte Carlo with an interval: balls in bins.

    It answers where no certified curve is exact: for groups of several records, for a record that is in
    several batches of an epoch, and for correlated noise with bins that stay (of which `get_delta` has a
    certified answer for one record where the coefficients are geometric after the first). The interval holds
    with its confidence at every number of samples.

    Parameters
    ----------
    run : Run, optional
        A run with ``sampling="random_allocation"`` or "fixed_bins", in place of the arguments that it states.
    epsilon : float
        Finite and at least zero.
    mechanism : CorrelatedNoise, optional
        With a noise multiplier above zero, for `FixedBins`.
    noise_multiplier : float, optional
        Of independent Gaussian noise, in units of the clipping norm, at least 0.01. Give it or `mechanism`.
    sampling : FixedBins or RandomAllocation
        The batches of an epoch, fixed or drawn afresh in every epoch.
    steps : int
        Number of steps of the run, at least 1.
    epochs : float, optional
        Number of epochs, in place of `steps`.
    group_size : int, optional
        Number of records that change together: up to 256 with independent noise, where groups of several
        records must be in one batch of an epoch each (``times=1``). With correlated noise they fill the
        bins in at most 20,000 ways up to order.
    adjacency : {"add_remove", "add", "remove", "zero_out"}, optional
        Neighbouring relation. "zero_out" is for independent noise, where it is the same as "add_remove".
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
        If an argument has the wrong type, if not exactly one of `mechanism` and `noise_multiplier` is given,
        or if the mechanism has no noise multiplier.
    UnsupportedError
        For other schemes, replaced records, and groups or runs that are too large.

    Notes
    -----
    *Independent noise.* Outputs are drawn under a law with more balls in the bins than the group has members
    (removed records), or under one with a small average likelihood ratio (added records), so that rare
    losses become common. The cost is linear in the batches times the group size: some 20 ns for each
    batch of an epoch, and a few more for each member (docs/theory/allocation-estimate.md). The same seed
    gives the same bits for any number of threads.

    For records that are added, intervals are wide where delta is small and the group has about eight records
    or more.

    *Correlated noise.* With m_i the sum of the columns of C that belong to bin i, the pair is
    (1/b) sum_i N(m_i, s^2 I) against N(0, s^2 I) for one record, and the sum over all ways of k members for a
    group. It dominates runs whose gradients depend on earlier outputs, as the theorem on
    docs/theory/correlated-bins.md shows, and is attained if C has no negative entries; else the absolute
    values of C make it a bound.

    `get_delta` computes one record with independent noise exactly, and bounds groups.

    References
    ----------
    - C. A. Choquette-Choo, A. Ganesh, S. Haque, T. Steinke and A. Thakurta, "Near-Exact Privacy
      Amplification for Matrix Mechanisms", ICLR 2025. arXiv:2410.06266
    - V. Feldman and M. Shenfeld 2025, "Privacy Amplification by Random Allocation", arXiv:2502.08202

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(100), "steps": 200}
    >>> run["adjacency"] = "remove"
    >>> found = hs.estimate_delta(epsilon=1.0, group_size=4, samples=20_000, seed=1, **run)
    >>> found.lower < found.estimate < found.upper < 1.5 * found.lower
    True
    >>> found.lower <= hs.get_delta(epsilon=1.0, group_size=4, **run)  # an upper bound
    True
    >>> stated = hs.Run(records_per_person=4, **run)
    >>> hs.estimate_delta(stated, epsilon=1.0, samples=20_000, seed=1) == found
    True

    >>> noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125], noise_multiplier=5.0)
    >>> found = hs.estimate_delta(
    ...     epsilon=1.0, mechanism=noise, sampling=hs.FixedBins(10), steps=100, seed=1
    ... )
    >>> found.lower < found.estimate < found.upper < 1.2 * found.lower
    True
    """
    if (mechanism is None) == (noise_multiplier is None):
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    if sampling is None:
        raise TypeError("sampling is missing: give RandomAllocation(batches), FixedBins(batches) or a Run")
    if mechanism is not None and not isinstance(mechanism, CorrelatedNoise):
        raise TypeError(f"mechanism must be a CorrelatedNoise, got {shown(mechanism)}")
    schemes = FixedBins | RandomAllocation if mechanism is None else FixedBins
    if not isinstance(sampling, schemes):
        raise UnsupportedError(_other_scheme(sampling, mechanism))
    # A record whose gradient is 0 leaves what a removed one leaves.
    given: object = adjacency
    same = mechanism is None and isinstance(given, str) and given == ZERO_OUT
    relation = check_add_remove("add_remove" if same else adjacency)
    count = count_scalar(steps, "steps", 1)
    members = count_scalar(group_size, "group_size", 1)
    certainty = float_scalar(confidence, "confidence")
    require(0.0 < certainty < 1.0, "confidence", certainty, "in (0, 1)")
    directions = DIRECTIONS[relation]
    # Every interval holds with so much less doubt that all of them do together.
    each = 1.0 - (1.0 - certainty) / len(directions)
    if mechanism is None:
        settings = (count_scalar(samples, "samples", 2), count_scalar(seed, "seed", 0, 2**64 - 1), each)
        found = _independent(epsilon, noise_multiplier, sampling, count, members, directions, settings)
    else:
        found = _correlated(
            epsilon, mechanism, sampling.batches, count, members, directions, (samples, seed, each)
        )
    return MonteCarloEstimate(*(max(ends) for ends in zip(*found, strict=True)))


def _other_scheme(sampling: object, mechanism: object) -> str:
    if mechanism is None:
        return (
            f"sampling {shown(sampling)} has no estimate here: use RandomAllocation(batches) or "
            f"FixedBins(batches); or get_delta; or MonteCarloAccountant for Poisson sampling"
        )
    return (
        f"sampling {shown(sampling)} has no estimate with correlated noise: use FixedBins(batches), or "
        f"get_delta for FullBatch(), FixedOrder, MinimumSeparation and CyclicPoisson"
    )


def _independent(
    epsilon: float,
    noise_multiplier: object,
    sampling: FixedBins | RandomAllocation,
    steps: int,
    members: int,
    directions: tuple[str, ...],
    settings: tuple[int, int, float],
) -> list[tuple[Any, Any, Any]]:
    """Estimate every direction where the noise of all batches is independent."""
    noise = check_noise_multiplier(noise_multiplier)
    require(noise >= LEAST_NOISE, "noise_multiplier", noise, f"at least {LEAST_NOISE} for an estimate")
    level = float_scalar(epsilon, "epsilon")
    require(math.isfinite(level) and level >= 0.0, "epsilon", level, "in [0, inf)")
    if members > 1 and isinstance(sampling, RandomAllocation) and sampling.times > 1:
        raise UnsupportedError(
            f"a group of {members} records with sampling {sampling!r} has no estimate: use group_size=1 or "
            f"times=1"
        )
    samples, seed, confidence = settings
    return [
        _core.run_monte_carlo_delta(
            level, [(noise, sampling, members, steps)], samples, direction, seed, confidence, None
        )
        for direction in directions
    ]


def _correlated(
    epsilon: float,
    mechanism: CorrelatedNoise,
    bins: int,
    steps: int,
    members: int,
    directions: tuple[str, ...],
    settings: tuple[int, int, float],
) -> list[tuple[Any, Any, Any]]:
    """Estimate every direction where the noise is correlated and the bins stay."""
    noise = mechanism.noise_multiplier
    if noise is None:
        raise TypeError(f"{mechanism!r} has no noise multiplier: give it one by with_noise")
    require(noise > 0.0, "noise_multiplier", noise, "above 0")
    count = mechanism.check_steps(steps)
    weights, ways = _ways(bins, members)
    if count * bins > MOST_ENTRIES:
        raise UnsupportedError(
            f"steps times batches must be at most {MOST_ENTRIES} for an estimate, got {count} times {bins}"
        )
    gram = gram_of_bins(mechanism.factor, count, bins) / noise / noise
    samples, seed, confidence = settings
    return [
        gram_monte_carlo_delta(
            epsilon,
            weights,
            gram,
            samples=samples,
            direction=direction,
            seed=seed,
            confidence=confidence,
            counts=None if members == 1 else ways,
        )
        for direction in directions
    ]


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
