"""Runs for the tests of the certificate checker, what it proves of them, and integrals of few steps."""

import math

import numpy as np
from scipy.special import ndtr

from hockeystick_verify import check

POISSON = {"name": "poisson", "sample_rate": 0.25}


def step(mechanism, sampling, count=1, **group):
    return {"mechanism": mechanism, "sampling": sampling, "group": group, "count": count}


def as_numbers(law):
    """Return a law of the checker in doubles."""
    return {float(shift): float(weight) for shift, weight in law.items()}


def proven(run, witness, epsilon, way="remove"):
    """Ends of the interval that the checker proves of delta."""
    claims = [{"epsilon": epsilon, "at_most": 1.0}]
    (found,) = check({"run": run, "claims": claims, "witness": {way: witness}})
    return found.lower, found.upper


def log_ratio(laws, sigma, x):
    """Logarithm of the likelihood ratio of a mixture, given by its law, to the noise."""
    return np.log(np.sum([w * np.exp((s * x - s * s / 2) / sigma**2) for s, w in laws.items()], axis=0))


def after(losses, laws, sigma, epsilon):
    """Delta of one more step, of a removed group, in doubles, where those before have these losses."""

    def above(x, shift):
        return ndtr((shift - x) / sigma)

    rest = epsilon - losses
    low, high = np.full_like(rest, -99.0), np.full_like(rest, 99.0)
    for _ in range(64):
        middle = (low + high) / 2
        short = log_ratio(laws, sigma, middle) < rest
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.sum([w * above(low, s) for s, w in laws.items()], axis=0) - np.exp(rest) * above(low, 0.0)


def two_steps(laws, sigma, epsilon, first="remove"):
    """Delta of two steps in doubles, the second of a removed group, by the trapezoid rule over the first."""
    outputs = np.linspace(-10.0 * sigma, 10.0 * sigma + 10.0, 200_001)
    noise = np.exp(-(outputs**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    if first == "remove":
        losses = log_ratio(laws, sigma, outputs)
        density = np.exp(losses) * noise
    else:
        losses, density = -log_ratio(laws, sigma, outputs), noise
    return float(np.sum(density * after(losses, laws, sigma, epsilon)) * (outputs[1] - outputs[0]))
