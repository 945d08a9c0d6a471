"""Tiny deltas that a run reaches by one large loss about as often as by many moderate ones.

Two steps are an integral over the output of the first one, in mpmath; more steps lie between convolutions
of losses that are rounded down and up, in which all terms are positive, so that they have their digits at
any delta.
"""

import itertools

import mpmath as mp
import numpy as np
import pytest
from nightly import some
from scipy.stats import norm

import hockeystick as hs
from tests.by_definition import binomial, log_ratio

RUNS = [
    (3.0681, "0.0009529", 1, 0.19672),
    (3.0681, "0.0009529", 1, 0.5),
    (2.8296, "0.00012868", 3, 0.12),
    (8.1408, "0.000071995", 6, 0.006),
]


def tail(z):
    return mp.erfc(z / mp.sqrt(2)) / 2


def delta_of_two_steps(sigma, rate, group_size, epsilon):
    """Return delta of a removed group after two steps, by its definition."""
    weights, shifts = binomial(group_size, rate)
    sigma = mp.mpf(sigma)

    def slope(x):
        terms = [
            w * mp.exp((s * x - mp.mpf(s) ** 2 / 2) / sigma**2) for w, s in zip(weights, shifts, strict=True)
        ]
        return mp.fsum(s * term for s, term in zip(shifts, terms, strict=True)) / mp.fsum(terms) / sigma**2

    def output_at(level):
        # Newton's method from the right: the loss is convex and increasing.
        x = 60 * sigma
        for _ in range(200):
            step = (log_ratio(x, sigma, weights, shifts) - level) / slope(x)
            x -= step
            if abs(step) < mp.mpf(10) ** -25:
                break
        return x

    def of_one_step(level):
        if level <= mp.log(weights[0]) * (1 - mp.mpf(10) ** -20):
            return 1 - mp.exp(level)
        x = output_at(level)
        p = mp.fsum(w * tail((x - s) / sigma) for w, s in zip(weights, shifts, strict=True))
        return p - mp.exp(level) * tail(x / sigma)

    # Gauss-Legendre rules on panels that are short where the first loss alone reaches epsilon: there delta
    # of the second step falls.
    alone = output_at(mp.mpf(epsilon) - mp.log(weights[0])) / sigma
    near = [alone + sign * mp.mpf(2) ** -i for i in range(15) for sign in (-1, 1)]
    ends = sorted([*np.arange(-8.0, 32.0), *near, alone])
    total = mp.mpf(0)
    for low, high in itertools.pairwise(ends):
        for node, weight in zip(*np.polynomial.legendre.leggauss(20), strict=True):
            x = sigma * (low + (high - low) * (1 + mp.mpf(node)) / 2)
            density = mp.fsum(
                w * mp.exp(-(((x - s) / sigma) ** 2) / 2) for w, s in zip(weights, shifts, strict=True)
            ) / mp.sqrt(2 * mp.pi)
            delta = of_one_step(mp.mpf(epsilon) - log_ratio(x, sigma, weights, shifts))
            total += mp.mpf(weight) * (high - low) / 2 * density * delta
    return total


@pytest.mark.slow
@pytest.mark.parametrize("run", some(map(pytest.param, RUNS), 4))
def test_two_steps_are_an_integral(run):
    sigma, rate, group_size, epsilon = run
    with mp.workdps(40):  # whatever other tests have set
        exact = delta_of_two_steps(*run)
    lower, upper = hs.get_delta(
        epsilon=epsilon,
        noise_multiplier=sigma,
        sample_rate=float(rate),
        steps=2,
        group_size=group_size,
        bounds=True,
    )
    # The rule has ten digits.
    assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-9)
    assert upper <= lower * (1 + 1e-6)


def between_convolutions(sigma, rate, doublings, epsilon, spacing):
    """Return bounds on delta of one removed record after 2^doublings steps."""
    least = np.floor(np.log1p(-rate) / spacing)
    places = least + np.arange(round(1.5 * epsilon / spacing) - least)
    # P of the losses between two points. A loss beyond the last point counts as that, or as infinite.
    ratios = np.exp(places * spacing) - (1 - rate)
    outputs = np.where(ratios > 0, sigma**2 * np.log(np.maximum(ratios, 1e-300) / rate) + 0.5, -np.inf)
    above = (1 - rate) * norm.sf(outputs / sigma) + rate * norm.sf((outputs - 1) / sigma)
    cells = above[:-1] - above[1:]
    bounds = []
    for law, beyond in (
        (np.append(cells, above[-1]), 0.0),
        (np.concatenate(([0.0], cells)), above[-1]),
    ):
        start, masses, infinite = least, law, beyond
        for _ in range(doublings):
            masses, start, infinite = np.convolve(masses, masses), 2 * start, 2 * infinite
            kept = round(1.5 * epsilon / spacing - start)
            # A sum beyond the window is left out at the lower end, and counts as infinite at the upper one.
            infinite += masses[kept:].sum() if beyond else 0.0
            masses = masses[:kept]
        losses = (start + np.arange(len(masses))) * spacing
        bounds.append(infinite + np.sum(masses * -np.expm1(np.minimum(epsilon - losses, 0.0))))
    return bounds


@pytest.mark.parametrize(("doublings", "epsilon"), [(1, 0.4), (3, 0.3), (4, 0.19672)])
def test_more_steps_lie_between_convolutions(doublings, epsilon):
    sigma, rate = 3.0681, 0.0009529
    least, most = between_convolutions(sigma, rate, doublings, epsilon, spacing=4e-5)
    lower, upper = hs.get_delta(
        epsilon=epsilon, noise_multiplier=sigma, sample_rate=rate, steps=2**doublings, bounds=True
    )
    assert 0.0 < least <= lower <= upper <= most < 1.5 * least
    assert upper <= lower * (1 + 1e-6)


# Of these random settings little was known: widths of epsilon were between 1e-4 and 1.
HARD = [
    (2.8296, 0.00012868, 3, 3, 9.1485e-56),
    (8.0747, 0.061865, 2, 5, 4.3266e-44),
    (2.1322, 0.0006683, 12015, 1, 1.8194e-57),
    (5.3094, 0.0015118, 21, 84, 1.9212e-96),
    (2.5227, 3.0951e-05, 36209, 294, 2.0864e-81),
    (8.1408, 7.1995e-05, 2, 15, 1.6679e-72),
]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("run", HARD)
def test_an_epsilon_at_a_tiny_delta_is_narrow(run, adjacency):
    sigma, rate, steps, group_size, delta = run
    settings = {"noise_multiplier": sigma, "sample_rate": rate, "steps": steps, "group_size": group_size}
    lower, upper = hs.get_epsilon(delta=delta, **settings, adjacency=adjacency, bounds=True)
    assert upper <= lower * (1 + 1e-6)
    assert hs.get_delta(epsilon=upper, **settings, adjacency=adjacency) <= delta * (1 + 1e-6)
