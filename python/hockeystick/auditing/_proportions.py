"""Bounds on a probability from how often an event was seen."""

from __future__ import annotations

import math

from hockeystick import _core
from hockeystick._arguments import count_scalar, float_scalar, require

LARGEST_TRIALS = 10**8
"""So that the sum over a tail has some 10^5 terms at most."""


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact confidence interval of a probability, from independent trials.

    Parameters
    ----------
    successes : int
        Number of trials in which the event was seen, in [0, trials].
    trials : int
        Number of trials, in [1, 10**8].
    confidence : float, optional
        In (0, 1). Each end on its own holds with probability 1 - (1 - confidence) / 2.

    Returns
    -------
    tuple of float
        Lower and upper end, in [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a number.

    Notes
    -----
    Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial". Both ends are rounded outwards.

    References
    ----------
    C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
    Binomial", Biometrika 26(4), 1934. doi:10.1093/biomet/26.4.404

    Examples
    --------
    >>> from hockeystick import auditing
    >>> lower, upper = auditing.clopper_pearson(0, 100)
    >>> lower, round(upper, 4)
    (0.0, 0.0362)
    """
    total = check_trials(trials, "trials")
    seen = count_scalar(successes, "successes", 0, total)
    missed = (1.0 - check_confidence(confidence)) / 2.0
    return at_least(seen, total, missed), at_most(seen, total, missed)


def at_least(successes: int, trials: int, error: float) -> float:
    """Lower bound on the probability, which is wrong with probability `error` at most."""
    return _core.probability_at_least(successes, trials, error)


def at_most(successes: int, trials: int, error: float) -> float:
    """Upper bound on the probability, which is wrong with probability `error` at most."""
    return min(1.0, math.nextafter(1.0 - at_least(trials - successes, trials, error), math.inf))


def check_trials(value: object, name: str) -> int:
    """`value` as a number of trials."""
    return count_scalar(value, name, 1, LARGEST_TRIALS)


def check_confidence(value: object) -> float:
    """`value` as a confidence."""
    confidence = float_scalar(value, "confidence")
    require(0.0 < confidence < 1.0, "confidence", confidence, "in (0, 1)")
    return confidence
