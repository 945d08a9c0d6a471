"""Monte-Carlo estimate of delta for Gaussian mixtures in many dimensions, from their inner products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    Counts,
    Floats,
    choice,
    count_scalar,
    float_array,
    float_scalar,
    float_vector,
    in_shape,
    require,
)
from hockeystick.kernels._monte_carlo import MonteCarloEstimate

_NUMBERS_AT_ONCE = 2_000_000
"""Log-likelihood ratios that are held at a time (16 MB): memory does not depend on the samples."""

_PILOT = 2_000
"""Samples that choose among the tilts, drawn apart from those of the estimate."""

_ASYMMETRY = 1e-9
"""Relative asymmetry of a Gram matrix that passes as rounding."""

_LARGEST_LOG = 700.0
"""Logarithms of ratios above this are cut: the values stay on the safe side of their bound."""


class Mixture(NamedTuple):
    """A mixture of Gaussians with the means `counts` @ m, in units of the noise."""

    log_weights: Floats
    counts: Floats | None
    """Shape (components, means): how often each mean is added up in a component; None for one each."""
    gram: Floats
    """Inner products of the means over the noise variance, shape (means, means)."""
    products: Floats
    """Inner products of every component's mean with the means, shape (components, means)."""
    squares: Floats
    """Squared norm of the mean of every component."""

    def of_components(self, products: Floats) -> Floats:
        """Return inner products with the means of all components, from those with the means."""
        return products if self.counts is None else products @ self.counts.T

    def average(self, probabilities: Floats) -> Floats:
        """Return how often each mean occurs, on average."""
        return probabilities if self.counts is None else probabilities @ self.counts


def gram_monte_carlo_delta(
    epsilon: ArrayLike,
    weights: ArrayLike,
    gram: ArrayLike,
    *,
    samples: int,
    direction: str,
    seed: int,
    confidence: float = 0.99,
    counts: ArrayLike | None = None,
) -> MonteCarloEstimate:
    """Estimate delta of a Gaussian mixture in any number of dimensions, with a confidence interval.

    The pair is sum_a weights[a] N(m_a, s^2 I) against N(0, s^2 I). Inner products of the means decide it.

    Parameters
    ----------
    epsilon : array_like, any shape
        Finite and at least zero. All elements have the same samples, and each the interval that it has alone,
        which holds with its confidence on its own.
    weights : array_like, shape (n,)
        Probabilities of the components, of sum 1.
    gram : array_like, shape (d, d)
        Inner products of the means over s^2: symmetric and positive semidefinite.
    samples : int
        Number of samples, at least 2. Memory does not depend on it.
    direction : {"remove", "add"}
        "remove" is the ordered pair (mixture, noise), "add" is (noise, mixture).
    seed : int
        In [0, 2**64). The same seed gives the same interval up to the rounding of matrix products.
    confidence : float, optional
        Probability in (0, 1) that the interval contains delta.
    counts : array_like, shape (n, d), optional
        Whole numbers: component a has the mean counts[a] @ m. By default n = d and each has its own.

    Returns
    -------
    MonteCarloEstimate
        ``(estimate, lower, upper)``: floats, or arrays of the shape of `epsilon`.

    Raises
    ------
    ValueError
        If an argument is out of range, or shapes do not agree.
    TypeError
        If an argument is not real.

    Notes
    -----
    Samples are drawn where the losses near `epsilon` are: from the mixture with its means stretched
    ("remove"), or from the noise moved against their average ("add"). The estimated variable is bounded by
    a number that is known beforehand, so that the interval holds at every number of samples: the smaller of
    the bounds of Hoeffding and of Maurer and Pontil (docs/theory/correlated-bins.md). It counts no rounding
    errors, which are 12 digits below.

    References
    ----------
    A. Maurer and M. Pontil, "Empirical Bernstein Bounds and Sample Variance Penalization", COLT 2009.
    arXiv:0907.3740

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import kernels
    >>> found = kernels.gram_monte_carlo_delta(
    ...     1.0, np.full(10, 0.1), np.eye(10), samples=100_000, direction="remove", seed=1
    ... )
    >>> found.lower < 2.7828486829e-3 < found.upper
    True
    """
    levels = float_array(epsilon, "epsilon")
    for level in levels.ravel().tolist():
        require(math.isfinite(level) and level >= 0.0, "epsilon", level, "in [0, inf)")
    mixture = _checked(weights, gram, counts)
    total = count_scalar(samples, "samples", 2)
    way = choice(direction, "direction", ("remove", "add"))
    certainty = float_scalar(confidence, "confidence")
    require(0.0 < certainty < 1.0, "confidence", certainty, "in (0, 1)")
    streams = np.random.SeedSequence(count_scalar(seed, "seed", 0, 2**64 - 1)).spawn(3)
    found = np.zeros((3, levels.size))
    if np.any(mixture.squares > 0.0) and levels.size:
        root = _root(mixture.gram)
        samplers = [
            # Every epsilon chooses by the same samples, as if it were alone.
            _best_of_tilts(mixture, root, level, way, _generator(streams[1]))
            for level in levels.ravel().tolist()
        ]
        sums = np.zeros((2, levels.size))
        for drawn in _batches(mixture, root, way, total, _generator(streams[0])):
            for place, sampler in enumerate(samplers):
                values = sampler.value(drawn)
                sums[:, place] += float(values.sum()), float((values * values).sum())
        for place, sampler in enumerate(samplers):
            first, second = sums[:, place].tolist()
            found[:, place] = _interval(sampler.bound, first, second, total, 1.0 - certainty)
    estimate, lower, upper = (in_shape(row, levels.shape) for row in found)
    return MonteCarloEstimate(estimate, lower, upper)


def _generator(stream: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(stream))


def _interval(
    bound: float, total: float, squares: float, samples: int, risk: float
) -> tuple[float, float, float]:
    """Estimate and both ends, from the sum and the sum of squares of values in [0, 1]."""
    mean = total / samples
    variance = max(squares / samples - mean * mean, 0.0) * samples / (samples - 1)
    lower, upper = mean_bounds(mean, variance, samples, risk)
    return bound * mean, bound * lower, min(bound * upper, 1.0)


def mean_bounds(mean: float, variance: float, samples: int, risk: float) -> tuple[float, float]:
    """Interval for the expectation of a variable in [0, 1], of which this many samples were drawn.

    Parameters
    ----------
    mean, variance : float
        Of the samples; the variance with the divisor samples - 1.
    samples : int
        At least 2.
    risk : float
        Probability in (0, 1) that the interval misses the expectation: a quarter for each of four bounds.

    Returns
    -------
    lower, upper : float
    """
    each = risk / 4.0
    # Maurer and Pontil 2009, Theorem 4, on either side.
    spread = math.sqrt(2.0 * variance * math.log(2.0 / each) / samples)
    spread += 7.0 * math.log(2.0 / each) / (3.0 * (samples - 1))
    # Hoeffding 1963, Theorem 1: kl(mean, p) >= log(1 / each) / samples has probability `each` at most.
    limit = math.log(1.0 / each) / samples
    lower = _divergence_root(mean, limit, 0.0)
    upper = _divergence_root(mean, limit, 1.0)
    return max(lower, mean - spread, 0.0), min(upper, mean + spread, 1.0)


def _divergence_root(mean: float, limit: float, end: float) -> float:
    """Return the point from `mean` to `end` where the binary relative entropy reaches `limit`, outer side."""
    inner, outer = mean, end
    for _ in range(200):
        middle = 0.5 * (inner + outer)
        if middle in (inner, outer):
            break
        if _binary_divergence(mean, middle) <= limit:
            inner = middle
        else:
            outer = middle
    return outer


def _binary_divergence(mean: float, other: float) -> float:
    """Relative entropy of two coins."""
    first = mean * math.log(mean / other) if mean > 0.0 else 0.0
    second = (1.0 - mean) * math.log((1.0 - mean) / (1.0 - other)) if mean < 1.0 else 0.0
    return first + second


class _Drawn(NamedTuple):
    """Samples of what does not depend on epsilon."""

    chosen: Counts | None
    """Component of each sample, of the mixture; None for the noise."""
    products: Floats
    """Inner products of each sample's standard normal vector with the means; not to be changed."""


class _Sampler(NamedTuple):
    """A variable in [0, 1] whose expectation times `bound` is delta, as a function of what was drawn."""

    bound: float
    value: Callable[[_Drawn], Floats]


def _best_of_tilts(
    mixture: Mixture, root: Floats, epsilon: float, direction: str, generator: np.random.Generator
) -> _Sampler:
    """Return the sampler with the smallest spread on a few samples, which are not used again."""
    make = _stretched if direction == "remove" else _moved_away
    samplers = [make(mixture, epsilon, share) for share in (0.0, 0.35, 0.7, 1.0)]
    widths = []
    for sampler in samplers:
        batches = _batches(mixture, root, direction, _PILOT, generator)
        values = np.concatenate([sampler.value(drawn) for drawn in batches])
        lower, upper = mean_bounds(float(values.mean()), float(values.var(ddof=1)), 100 * _PILOT, 0.1)
        widths.append(sampler.bound * (upper - lower))
    return samplers[int(np.argmin(widths))]


def _batches(
    mixture: Mixture, root: Floats, direction: str, samples: int, generator: np.random.Generator
) -> Iterator[_Drawn]:
    size = max(1, _NUMBERS_AT_ONCE // len(mixture.log_weights))
    probabilities = np.exp(mixture.log_weights)
    probabilities /= probabilities.sum()
    for start in range(0, samples, size):
        count = min(size, samples - start)
        chosen = None
        if direction == "remove":
            chosen = generator.choice(len(probabilities), size=count, p=probabilities)
        yield _Drawn(chosen, generator.standard_normal((count, root.shape[1])) @ root.T)


def _stretched(mixture: Mixture, epsilon: float, share: float) -> _Sampler:
    """E[(W - e^epsilon)_+] with means times t >= 1: the variable (W - e^epsilon)_+ / W_t under W_t.

    As W_t >= W^t exp(-t (t - 1) G / 2) for the largest squared norm G of a mean, it is at most
    exp(t (t - 1) G / 2) times the maximum of (w - e^epsilon) / w^t.
    """
    largest = float(mixture.squares.max())

    def log_bound(t: float) -> float:
        """Return the logarithm of the bound on the variable."""
        if t == 1.0:
            return 0.0
        log_maximum = (1.0 - t) * epsilon - t * math.log(t) + (t - 1.0) * math.log(t - 1.0)
        return 0.5 * t * (t - 1.0) * largest + log_maximum

    grid = 1.0 + np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 600)])
    best = float(grid[int(np.argmin([log_bound(t) for t in grid.tolist()]))])
    t = 1.0 + share * (best - 1.0)
    # A little more than the bound, for the rounding of ratios.
    bound = math.exp(min(log_bound(t), _LARGEST_LOG)) * (1.0 + 1e-9)
    squares = mixture.squares

    def value(drawn: _Drawn) -> Floats:
        """Return the variable over its bound at some samples."""
        assert drawn.chosen is not None
        products = drawn.products + t * mixture.products[drawn.chosen]
        exponents = mixture.of_components(products)
        log_ratio = _log_sum(mixture.log_weights + exponents - 0.5 * squares)
        log_stretched = _log_sum(mixture.log_weights + t * exponents - 0.5 * t * t * squares)
        gain = -np.expm1(np.minimum(epsilon - log_ratio, 0.0))
        logs = np.minimum(log_ratio - log_stretched, _LARGEST_LOG)
        return np.minimum(gain * np.exp(logs) / bound, 1.0)

    return _Sampler(bound, value)


def _moved_away(mixture: Mixture, epsilon: float, share: float) -> _Sampler:
    """E[(1 - e^epsilon W)_+] under the noise moved by -t times the average mean.

    Where W < e^-epsilon, the average inner product with the means is below -epsilon + g / 2 with the average
    squared norm g (Jensen), so that the ratio of the two densities of the noise is at most
    exp(-t (epsilon - g / 2) + t^2 h / 2) there, with the squared norm h of the average mean.
    """
    probabilities = np.exp(mixture.log_weights)
    probabilities /= probabilities.sum()
    average = mixture.average(probabilities)
    squares = mixture.squares
    products_of_average = mixture.gram @ average
    length = max(float(average @ products_of_average), 0.0)
    room = epsilon - 0.5 * float(probabilities @ squares)
    t = share * max(room, 0.0) / length if length > 0.0 else 0.0
    bound = math.exp(min(-t * room + 0.5 * t * t * length, 0.0)) * (1.0 + 1e-9)

    def value(drawn: _Drawn) -> Floats:
        """Return the variable over its bound at some samples."""
        products = drawn.products - t * products_of_average
        log_ratio = _log_sum(mixture.log_weights + mixture.of_components(products) - 0.5 * squares)
        gain = -np.expm1(np.minimum(epsilon + log_ratio, 0.0))
        logs = np.minimum(t * (products @ average) + 0.5 * t * t * length, _LARGEST_LOG)
        return np.minimum(gain * np.exp(logs) / bound, 1.0)

    return _Sampler(bound, value)


def _log_sum(logs: Floats) -> Floats:
    """Logarithm of the sum of exponentials of each row, in place."""
    peak = logs.max(axis=1)
    np.subtract(logs, peak[:, None], out=logs)
    np.exp(logs, out=logs)
    found: Floats = peak + np.log(logs.sum(axis=1))
    return found


def _root(gram: Floats) -> Floats:
    """Return a matrix whose product with its transpose is the Gram matrix."""
    values, vectors = np.linalg.eigh(gram)
    least = -_ASYMMETRY * max(float(values[-1]), 0.0)
    require(bool(values[0] >= least), "gram", f"the eigenvalue {values[0]:g}", "positive semidefinite")
    kept = values > 0.0
    found: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return found


def _checked(weights: ArrayLike, gram: ArrayLike, counts: ArrayLike | None) -> Mixture:
    probabilities = float_vector(weights, "weights")
    products = float_array(gram, "gram")
    square = products.ndim == 2 and products.shape[0] == products.shape[1] and products.size > 0
    require(square, "gram", f"an array of shape {products.shape}", "of shape (d, d)")
    require(bool(np.all(np.isfinite(products))), "gram", "entries that are not finite", "finite")
    asymmetry = float(np.abs(products - products.T).max())
    scale = float(np.abs(products).max())
    require(asymmetry <= _ASYMMETRY * scale, "gram", f"asymmetry {asymmetry:g}", "symmetric")
    repeated = None if counts is None else float_array(counts, "counts")
    shape = (probabilities.size, len(products))
    found = (len(products),) * 2 if repeated is None else repeated.shape
    require(
        found == shape, "weights" if repeated is None else "counts", f"shape {found}", f"of shape {shape}"
    )
    if repeated is not None:
        possible = bool(np.all(np.isfinite(repeated) & (repeated >= 0.0)))
        require(possible, "counts", "entries that are negative or not finite", "finite and at least zero")
    require(bool(np.all(probabilities > 0.0)), "weights", "entries that are not positive", "positive")
    total = math.fsum(probabilities.tolist())
    require(abs(total - 1.0) <= 1e-9, "weights", f"a sum of {total}", "of sum 1")
    even = 0.5 * (products + products.T)
    inner = even if repeated is None else repeated @ even
    squares = np.diag(even) if repeated is None else np.einsum("ij,ij->i", inner, repeated)
    return Mixture(np.log(probabilities), repeated, even, inner, np.maximum(squares, 0.0))
