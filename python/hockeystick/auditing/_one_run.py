"""A bound from guesses about many canaries in one run."""

from __future__ import annotations

from hockeystick import _core
from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick.auditing._proportions import check_confidence

LARGEST_CANARIES = 10**6
"""For the sake of memory: the masses of all numbers of right guesses are kept."""


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
    return _core.one_run_epsilon_lower_bound(right, guessed, total, level, 1.0 - check_confidence(confidence))
