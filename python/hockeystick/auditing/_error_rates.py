"""Bounds from the error rates of an attack on many independent runs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hockeystick import Group, PrivacyCurve, Run, privacy_curve
from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick._vocabulary.beside import with_terms
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.auditing._proportions import at_least, at_most, check_confidence, check_trials
from hockeystick.tradeoff import TradeoffCurve

NOISE_RANGE = (2.0**-10, 2.0**14)
"""Between which noise multipliers `noise_multiplier_upper_bound` looks."""

ACCURACY = 1e-4
"""Relative distance between the noise multiplier that is returned, which is refuted, and one that is not.
Each halving of it takes one more curve; confidence intervals of rates are wider by far."""

POINTS, ROUNDS = 5, 6
"""Lines under the trade-off function that each round tries: one that passes above the rates refutes it."""


class ErrorRates(NamedTuple):
    """Upper bounds on both error rates of an attack that hold together with the confidence asked for."""

    false_positive: float
    false_negative: float


def epsilon_lower_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon from an attack on many runs.

    Parameters
    ----------
    true_positives : int
        Number of runs with the canaries that the attack took for such, in [0, positives].
    positives : int
        Number of runs with the canaries, in [1, 10**8].
    false_positives : int
        Number of runs without the canaries that the attack took for runs with them, in [0, negatives].
    negatives : int
        Number of runs without the canaries, in [1, 10**8].
    delta : float
        In [0, 1).
    confidence : float, optional
        In (0, 1).

    Returns
    -------
    float
        With the given confidence the training is not (epsilon, delta)-private for any smaller epsilon; for
        k copies of a canary, not for groups of size k. Zero where the attack shows nothing.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a number.

    Notes
    -----
    The rates obey TPR <= e^epsilon FPR + delta and 1 - FPR <= e^epsilon (1 - TPR) + delta (Kairouz, Oh and
    Viswanath 2015, "The composition theorem for differential privacy", Theorem 2.1). TPR and FPR are taken
    at the ends of one-sided Clopper-Pearson bounds, each of which may fail with probability
    (1 - confidence) / 2 (Jagielski, Ullman and Oprea 2020, "Auditing differentially private machine
    learning").

    Runs must be independent, and the rule of the attack, a threshold for instance, must be fixed before the
    runs that are counted: choose it on others.

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015.
    arXiv:1311.0776

    M. Jagielski, J. Ullman and A. Oprea, "Auditing Differentially Private Machine Learning: How Private is
    Private SGD?", NeurIPS 2020. arXiv:2006.07709

    Examples
    --------
    >>> from hockeystick import auditing
    >>> round(auditing.epsilon_lower_bound(600, 1000, 20, 1000, delta=1e-5), 3)
    2.919
    """
    rates = error_rates(true_positives, positives, false_positives, negatives, confidence)
    level = float_scalar(delta, "delta")
    require(0.0 <= level < 1.0, "delta", level, "in [0, 1)")
    return max(
        _log_ratio(1.0 - rates.false_negative - level, rates.false_positive),
        _log_ratio(1.0 - rates.false_positive - level, rates.false_negative),
    )


def refutes(
    curve: TradeoffCurve,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: float = 0.95,
) -> bool:
    """Whether an attack on many runs shows that a trade-off function does not hold.

    Parameters
    ----------
    curve : TradeoffCurve
        The guarantee: an attack with false positive rate alpha misses with probability curve(alpha) at
        least.
    true_positives : int
        Number of runs with the canaries that the attack took for such, in [0, positives].
    positives : int
        Number of runs with the canaries, in [1, 10**8].
    false_positives : int
        Number of runs without the canaries that the attack took for runs with them, in [0, negatives].
    negatives : int
        Number of runs without the canaries, in [1, 10**8].
    confidence : float, optional
        In (0, 1). A guarantee that holds is refuted with probability 1 - confidence at most.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If `curve` is not a TradeoffCurve, or an argument is not a number.

    Notes
    -----
    As `epsilon_lower_bound`, with the whole function in place of two lines (Nasr et al. 2023, "Tight auditing
    of differentially private machine learning", Section 4). It needs neither delta nor rare events.

    References
    ----------
    M. Nasr, J. Hayes, T. Steinke, B. Balle, F. Tramèr, M. Jagielski, N. Carlini and A. Terzis, "Tight
    Auditing of Differentially Private Machine Learning", USENIX Security 2023. arXiv:2302.07956

    J. Dong, A. Roth and W. Su, "Gaussian Differential Privacy", Journal of the Royal Statistical Society B
    84(1), 2022. doi:10.1111/rssb.12454

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.auditing.refutes(hs.TradeoffCurve.gaussian(1.0), 600, 1000, 20, 1000)
    True
    >>> hs.auditing.refutes(hs.TradeoffCurve.gaussian(3.0), 600, 1000, 20, 1000)
    False
    """
    rates = error_rates(true_positives, positives, false_positives, negatives, confidence)
    if not isinstance(curve, TradeoffCurve):
        raise TypeError(f"curve must be a TradeoffCurve, got {type(curve).__name__}")
    # The curve returns a lower bound on itself.
    return rates.false_negative < float(curve(rates.false_positive))


@with_terms("noise_multiplier", assumes="add_remove")
def noise_multiplier_upper_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    *,
    run: Run | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    batch_size: float | None = None,
    dataset_size: int | None = None,
    group_size: int = 1,
    group: Group | None = None,
    confidence: float = 0.95,
) -> float:
    """Most noise that a DP-SGD run can have had, from an attack on many runs.

    Parameters
    ----------
    true_positives : int
        Number of runs with the canaries that the attack took for such, in [0, positives].
    positives : int
        Number of runs with the canaries, in [1, 10**8].
    false_positives : int
        Number of runs without the canaries that the attack took for runs with them, in [0, negatives].
    negatives : int
        Number of runs without the canaries, in [1, 10**8].
    run : Run, optional
        The run but for its noise, in place of the arguments that it states.
    sample_rate : float, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, WithoutReplacement or FullBatch, optional
        How batches are drawn. Give either this or `sample_rate`.
    steps : int
        Number of steps, at least one.
    epochs, batch_size, dataset_size : optional
        In place of `steps` and `sample_rate`, as in `hockeystick.get_epsilon`.
    group_size : int, optional
        Number k of copies of the canary, in [1, 10000].
    group : Group, optional
        The canaries in more detail, in place of `group_size`.
    confidence : float, optional
        In (0, 1).

    Returns
    -------
    float
        A noise multiplier of at least 1/1024: more noise is refuted with the given confidence. inf where
        16,384 is not refuted either.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If there is no proven dominating pair.

    Notes
    -----
    `refutes` for the trade-off function of the run at every noise multiplier, which grows with the noise.
    `hockeystick.get_epsilon` at the result is a lower bound on the epsilon of a DP-SGD run with this sampling
    and these steps whose noise is not known: the way of Nasr et al. 2023 for the Gaussian mechanism. It is
    no bound on the epsilon of any other mechanism.

    References
    ----------
    M. Nasr, J. Hayes, T. Steinke, B. Balle, F. Tramèr, M. Jagielski, N. Carlini and A. Terzis, "Tight
    Auditing of Differentially Private Machine Learning", USENIX Security 2023. arXiv:2302.07956

    Examples
    --------
    >>> from hockeystick import auditing
    >>> auditing.noise_multiplier_upper_bound(600, 1000, 20, 1000, sample_rate=1.0, steps=1) < 0.5
    True
    """
    rates = error_rates(true_positives, positives, false_positives, negatives, confidence)
    number = count_scalar(steps, "steps", 1)

    def refuted(noise_multiplier: float) -> bool:
        """Whether the error rates are impossible for a run with this noise."""
        curve = privacy_curve(
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            sampling=sampling,
            steps=number,
            group_size=group_size,
            group=group,
        )
        return any(_lie_below_a_line(curve, *point) for point in (rates, rates[::-1]))

    smallest, largest = NOISE_RANGE
    noise = 1.0
    if refuted(noise):
        while noise > smallest and refuted(noise / 2.0):
            noise /= 2.0
        if noise <= smallest:
            return smallest
    else:
        while not refuted(noise):
            if noise >= largest:
                return math.inf
            noise *= 2.0
    too_small = noise / 2.0
    while noise > too_small * (1.0 + ACCURACY):
        middle = math.sqrt(too_small * noise)
        if refuted(middle):
            noise = middle
        else:
            too_small = middle
    return noise


def error_rates(
    true_positives: object, positives: object, false_positives: object, negatives: object, confidence: object
) -> ErrorRates:
    """Bounds from counts, by Clopper and Pearson; each may fail with probability (1 - confidence) / 2."""
    with_canaries = check_trials(positives, "positives")
    without = check_trials(negatives, "negatives")
    found = count_scalar(true_positives, "true_positives", 0, with_canaries)
    wrong = count_scalar(false_positives, "false_positives", 0, without)
    error = (1.0 - check_confidence(confidence)) / 2.0
    return ErrorRates(at_most(wrong, without, error), 1.0 - at_least(found, with_canaries, error))


def _lie_below_a_line(run: PrivacyCurve, alpha: float, beta: float) -> bool:
    """Whether beta < 1 - delta(epsilon) - e^epsilon alpha for some epsilon: then f(alpha) > beta.

    The right-hand side is positive only for e^epsilon < (1 - beta) / alpha, and has one maximum there: it is
    concave in e^epsilon, as delta is convex. The points close in on it.
    """
    if alpha + beta >= 1.0:
        return False
    low, high = 0.0, math.log((1.0 - beta) / alpha)
    for _ in range(ROUNDS):
        epsilons = np.linspace(low, high, POINTS)
        bounds = 1.0 - run.delta(epsilons) - np.exp(epsilons) * alpha
        highest = int(np.argmax(bounds))
        if bounds[highest] > beta:
            return True
        low, high = epsilons[max(highest - 1, 0)], epsilons[min(highest + 1, POINTS - 1)]
    return False


def _log_ratio(excess: float, rate: float) -> float:
    """log(excess / rate), at least zero and rounded down; the rate is positive as an upper end."""
    if excess <= rate:
        return 0.0
    return max(0.0, math.log(excess / rate) * (1.0 - 1e-12))
