"""A bound from guesses about many canaries in one run."""

from __future__ import annotations

import math

import numpy as np

from hockeystick._arguments import Floats, count_scalar, float_scalar, require
from hockeystick.auditing.proportions import ERROR_OF_TAIL, check_confidence

LARGEST_CANARIES = 10**6
"""For the sake of memory; log-gamma of it is right to 1e-8."""

LARGEST_EPSILON = 100.0
"""Where the search ends: an accuracy of 1 - 4e-44."""

HALVINGS = 50


def one_run_epsilon_lower_bound(
    correct: int,
    guesses: int,
    canaries: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon from one run with many canaries.

    Parameters
    ----------
    correct : int
        Number of right guesses, in [0, guesses].
    guesses : int
        Number of canaries for which the attack said "in" or "out", in [1, canaries]; for the others it
        abstained.
    canaries : int
        Number of canaries, in [1, 10**6], each of which was inserted or left out by a fair coin of its own.
    delta : float
        In [0, 1 / (2 canaries)).
    confidence : float, optional
        In (0, 1).

    Returns
    -------
    float
        With the given confidence the training is not (epsilon, delta)-private for any smaller epsilon; for
        canaries of k copies each, not for groups of size k. Zero where the attack shows nothing; 100 at
        most.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a number.

    Notes
    -----
    Steinke, Nasr and Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2: with
    W ~ Binomial(guesses, e^epsilon / (1 + e^epsilon)) and f(v) = P(W >= v), the attack is right v times or
    more with probability f(v) + 2 m delta max_i (f(v - i) - f(v)) / i at most, for m canaries. The bound
    is where that reaches 1 - confidence. It grows with epsilon as long as 2 m delta <= 1.

    The theorem changes one canary at a time and does not care what a canary is: with one that stands for k
    copies of a record it is about groups of size k (GROUP, Section 6).

    References
    ----------
    T. Steinke, M. Nasr and M. Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023.
    arXiv:2305.08846

    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    Examples
    --------
    >>> from hockeystick import auditing
    >>> round(auditing.one_run_epsilon_lower_bound(90, 100, 1000, delta=1e-5), 3)
    1.626
    """
    total = count_scalar(canaries, "canaries", 1, LARGEST_CANARIES)
    guessed = count_scalar(guesses, "guesses", 1, total)
    right = count_scalar(correct, "correct", 0, guessed)
    level = float_scalar(delta, "delta")
    require(0.0 <= level < 0.5 / total, "delta", level, f"in [0, {0.5 / total})")
    allowed = (1.0 - check_confidence(confidence)) * (1.0 - ERROR_OF_TAIL)

    log_coefficients = _log_coefficients(guessed)
    lower, upper = 0.0, LARGEST_EPSILON
    if _largest_probability(right, log_coefficients, 2.0 * total * level, lower) > allowed:
        return 0.0
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2.0
        if _largest_probability(right, log_coefficients, 2.0 * total * level, middle) <= allowed:
            lower = middle
        else:
            upper = middle
    return lower


def _log_coefficients(trials: int) -> Floats:
    """Logarithms of the binomial coefficients of `trials` over 0, 1, ..., `trials`."""
    log_factorials = np.array([math.lgamma(j + 1) for j in range(trials + 1)])
    coefficients: Floats = log_factorials[-1] - log_factorials - log_factorials[::-1]
    return coefficients


def _largest_probability(
    right: int,
    log_coefficients: Floats,
    weight: float,
    epsilon: float,
) -> float:
    """Most probable that an attack is right so often or more, with `weight` 2 m delta."""
    trials = len(log_coefficients) - 1
    j = np.arange(trials + 1.0)
    # Accuracy 1 / (1 + e^-epsilon), and the logarithm of its complement without cancellation.
    log_accuracy = -math.log1p(math.exp(-epsilon))
    masses = np.exp(log_coefficients + j * log_accuracy + (trials - j) * (log_accuracy - epsilon))
    below = np.cumsum(masses[:right][::-1]) / np.arange(1, right + 1)  # (f(v - i) - f(v)) / i
    return float(masses[right:].sum() + weight * below.max(initial=0.0))
