"""Correlated noise: sensitivities and random bins beside JAX Privacy.

    python -m benches.compare.correlated

JAX Privacy computes sensitivities of Toeplitz and of stored matrices, and draws privacy losses of random bins
one at a time. Needs jax-privacy; without it only our times are printed. The first call of the peer, which
compiles, is not counted.
"""

import math
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

import hockeystick as hs
from benches.compare.accounting import duration, measure, print_heading, print_row
from benches.compare.machine import describe_machine

STEPS = 100_000
BATCHES = 1_000
ROWS = 512
SEPARATION, PARTICIPATIONS = 16, 8
NOISE, BINS, RUN, SAMPLES = 3.9, 10, 100, 20_000
PEER_SAMPLES = 200
COEFFICIENTS = [1.0, 0.5, 0.25, 0.125]
CORRELATION = 0.5


class Comparison(NamedTuple):
    """A question, our call and the peer's."""

    text: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    share: float = 1.0
    """Part of the question that the peer is asked, as the whole would take too long."""


def toeplitz_sensitivity() -> Comparison:
    """Root of prefix sums, epochs in a fixed order."""
    matrix = hs.CorrelatedNoise.prefix_sum_root()

    def ours() -> float:
        return matrix.sensitivity(hs.FixedOrder(BATCHES), STEPS).upper

    def theirs() -> float:
        jax = import_module("jax")
        toeplitz = import_module("jax_privacy.matrix_factorization.toeplitz")
        with jax.enable_x64():
            column = toeplitz.optimal_max_error_strategy_coefs(STEPS)
            return math.sqrt(float(toeplitz.minsep_sensitivity_squared(column, BATCHES)))

    return Comparison(f"sensitivity: root of prefix sums, {STEPS:,} steps, {BATCHES:,} a pass", ours, theirs)


def stored_sensitivity() -> Comparison:
    """Take a stored matrix with participations at a distance: bounds by dynamic programming."""
    array = np.tril(np.random.default_rng(1).random((ROWS, ROWS)))
    matrix = hs.CorrelatedNoise.from_matrix(array)
    scheme = hs.MinimumSeparation(SEPARATION, PARTICIPATIONS)

    def ours() -> float:
        return matrix.sensitivity(scheme, ROWS).upper

    def theirs() -> float:
        jax = import_module("jax")
        module = import_module("jax_privacy.matrix_factorization.sensitivity")
        with jax.enable_x64():
            given = jax.numpy.asarray(array)
            return float(module.get_min_sep_sensitivity_upper_bound(given, SEPARATION, PARTICIPATIONS))

    text = f"sensitivity: {ROWS} stored rows, {PARTICIPATIONS} times, distance {SEPARATION}"
    return Comparison(text, ours, theirs)


def random_bins() -> Comparison:
    """Delta in the published setting by samples of the privacy loss."""
    mechanism = hs.CorrelatedNoise.toeplitz(COEFFICIENTS, NOISE)

    def ours() -> float:
        found = hs.estimate_delta(
            epsilon=1.0,
            mechanism=mechanism,
            sampling=hs.FixedBins(BINS),
            steps=RUN,
            adjacency="remove",
            samples=SAMPLES,
            seed=1,
        )
        return float(found.estimate)

    def theirs() -> float:
        return sampled_delta(np.array(COEFFICIENTS))

    text = f"random bins: δ at ε 1, {RUN} steps, {BINS} bins, {SAMPLES:,} samples"
    return Comparison(text, ours, theirs, PEER_SAMPLES / SAMPLES)


def certified_bins() -> Comparison:
    """Delta of DP-lambda-CGD with random bins: certified by ours, sampled by theirs."""
    mechanism = hs.CorrelatedNoise.lambda_cgd(CORRELATION, NOISE)

    def ours() -> float:
        bins = hs.FixedBins(BINS)
        return float(
            hs.get_delta(epsilon=1.0, mechanism=mechanism, sampling=bins, steps=RUN, adjacency="remove")
        )

    def theirs() -> float:
        return sampled_delta(CORRELATION ** np.arange(RUN))

    text = f"random bins, DP-λ-CGD (λ {CORRELATION}): δ at ε 1, {RUN} steps, {BINS} bins; certified by ours"
    return Comparison(text, ours, theirs, PEER_SAMPLES / SAMPLES)


def sampled_delta(column: np.ndarray) -> float:
    """Delta at epsilon 1 as the mean over losses that JAX Privacy draws for the first column of a matrix."""
    module = import_module("jax_privacy.experimental.monte_carlo.sample_generation")
    generator = np.random.default_rng(1)
    drawn = [
        module._generate_balls_in_bins_sample(RUN, BINS, NOISE, column, generator)
        for _ in range(PEER_SAMPLES)
    ]
    losses = [module._compute_balls_in_bins_privacy_loss(BINS, each, NOISE, column) for each in drawn]
    return float(np.maximum(-np.expm1(1.0 - np.array(losses)), 0.0).mean())


def comparisons() -> Iterator[Comparison]:
    """Everything that is asked."""
    yield toeplitz_sensitivity()
    yield stored_sensitivity()
    yield random_bins()
    yield certified_bins()


def main() -> None:
    """Print a row for each question."""
    print(describe_machine())
    print()
    print_heading("question", "ours", "JAX Privacy", "our answer", "theirs", left=1)
    for each in comparisons():
        timing, answer = measure(each.ours)
        cells = [each.text, duration(timing.median), "not installed", f"{answer:.7g}", ""]
        if find_spec("jax_privacy") is not None:
            peer, found = measure(each.theirs)
            cells[2], cells[4] = duration(peer.median / each.share), f"{found:.7g}"
        print_row(*cells)


if __name__ == "__main__":
    main()
