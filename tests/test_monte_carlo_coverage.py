"""How often the interval of a Monte-Carlo delta holds the value, over many seeds."""

import by_definition
import pytest
from reference_rows import mixture, rows
from scipy.stats import binom

from hockeystick import kernels

CHANCE = 1e-9
"""Probability at most with which a right interval fails such a test."""

FIRST_SEED = 1_000_000
ONE_STEP = {"remove": (1.0, 0.7), "add": (0.6, 0.15)}
"""Noise multiplier and epsilon at which plain samples of a group of four at rate 0.05 show something."""


def many_steps(direction):
    """One record and 1,000 steps, tilted, with the value by integration at high precision."""
    row = next(
        row for row in rows("privacy_curves.csv") if row["name"] == "sgm k1" and row["direction"] == direction
    )
    question = (float(row["epsilon"]), *mixture(row["weights"]), float(row["sigma"]), int(row["steps"]))
    return question, None, float(row["delta"])


def one_step(direction):
    """A group of four, not tilted, with the value from the definition."""
    sigma, epsilon = ONE_STEP[direction]
    weights, shifts = by_definition.binomial(4, 0.05)
    delta = float(by_definition.one_step_delta(epsilon, sigma, weights, shifts, direction))
    return (epsilon, *kernels.binomial_law(4, 0.05), sigma, 1), 0.0, delta


@pytest.mark.parametrize("seeds", [100, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("confidence", [0.8, 0.99])
@pytest.mark.parametrize("case", [one_step, many_steps])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_interval_holds_delta_as_often_as_it_says(direction, case, confidence, seeds):
    question, tilt, delta = case(direction)
    covered = 0
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        found = kernels.monte_carlo_delta(
            *question, samples=300, direction=direction, tilt=tilt, seed=seed, confidence=confidence
        )
        covered += found.lower <= delta <= found.upper
    assert covered >= binom.ppf(CHANCE, seeds, confidence)
