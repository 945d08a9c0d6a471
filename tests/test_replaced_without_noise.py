"""Replaced records in steps without noise, beside others: docs/theory/little-noise.md.

Such a step tells which record its batch has with probability q, and nothing otherwise: with the curve d of
the other steps, that of the whole run is q + (1 - q) d.
"""

import math

import pytest

import hockeystick as hs

# Of N(1, 1) and of N(1/2, 1) against N(0, 1), by mpmath in 30 digits.
GAUSSIAN = {(1.0, 0.0): 0.3829249225480262, (1.0, 0.5): 0.23842170813487663, (0.5, 0.25): 0.11029839374852847}


def full_batch(distance):
    return hs.privacy_curve(noise_multiplier=2 / distance, sample_rate=1.0, steps=1, adjacency="replace")


def seen_without_noise(**sampling):
    return hs.privacy_curve(noise_multiplier=0.0, steps=1, adjacency="replace", **sampling)


@pytest.mark.parametrize(("distance", "epsilon"), GAUSSIAN)
@pytest.mark.parametrize("sampling", [{"sample_rate": 0.5}, {"sampling": hs.WithoutReplacement(5, 10)}])
def test_batches_that_do_not_have_the_record_have_no_loss(distance, epsilon, sampling):
    exact = 0.5 + 0.5 * GAUSSIAN[distance, epsilon]
    lower, upper = (seen_without_noise(**sampling) + full_batch(distance)).bounds(epsilon=epsilon)
    assert lower <= exact * (1 + 1e-12)
    assert upper >= exact * (1 - 1e-12)
    assert upper <= exact * (1 + 3e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_added_records_beside_replaced_ones_have_the_loss_of_their_own_steps(epsilon):
    added = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.5, steps=1, adjacency="add")
    lower, upper = (seen_without_noise(sample_rate=0.25) + added).bounds(epsilon=epsilon)
    exact = 0.25 + 0.75 * -math.expm1(epsilon - math.log(2))
    assert lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= upper <= exact * (1 + 3e-6)
