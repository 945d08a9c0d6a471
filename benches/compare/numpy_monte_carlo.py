"""The Monte-Carlo estimators of delta as one would write them in NumPy: the yardstick of the benchmark.

Straightforward and vectorised: broadcast over samples, steps and mixture components, take exp, sum over the
components, take log, sum over the steps. How many samples are taken at a time (``chunk``) matters for the
speed: a few thousand keep the arrays within the processor's caches, more do not.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_ratios(x: Array, log_weights: Array, shifts: Array, noise_multiplier: float) -> Array:
    """Log of mixture over N(0, s^2), summed over the last axis of ``x`` (the steps)."""
    exponents = log_weights + shifts * (x[..., None] - shifts / 2) / noise_multiplier**2
    return np.asarray(np.log(np.exp(exponents).sum(axis=-1)).sum(axis=-1))


def draw_mixture(
    random: np.random.Generator,
    shape: tuple[int, int],
    weights: Array,
    shifts: Array,
    noise_multiplier: float,
) -> Array:
    """Draw from the mixture: a component by its weight, then normal noise around its shift."""
    components = np.searchsorted(np.cumsum(weights)[:-1], random.random(shape), side="right")
    return np.asarray(shifts[components] + random.normal(scale=noise_multiplier, size=shape))


def monte_carlo_delta(
    epsilon: float,
    weights: Array,
    shifts: Array,
    noise_multiplier: float,
    steps: int,
    *,
    samples: int,
    direction: str,
    seed: int,
    chunk: int,
) -> tuple[float, float]:
    """Estimate delta at epsilon without tilting: the mean over the samples, and its standard error.

    For "add", x is drawn from N(0, s^2) and the privacy loss is minus the log ratio; for "remove", x is
    drawn from the mixture and the loss is the log ratio. Either way delta is the mean of
    (1 - exp(epsilon - loss))_+.
    """
    random = np.random.default_rng(seed)
    log_weights = np.log(weights)
    total = total_of_squares = 0.0
    for start in range(0, samples, chunk):
        shape = (min(chunk, samples - start), steps)
        if direction == "add":
            x = random.normal(scale=noise_multiplier, size=shape)
            loss = -log_ratios(x, log_weights, shifts, noise_multiplier)
        else:
            x = draw_mixture(random, shape, weights, shifts, noise_multiplier)
            loss = log_ratios(x, log_weights, shifts, noise_multiplier)
        values = np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)
        total += float(values.sum())
        total_of_squares += float((values * values).sum())
    mean = total / samples
    variance = max(total_of_squares / samples - mean * mean, 0.0)
    return mean, float(np.sqrt(variance / samples))
