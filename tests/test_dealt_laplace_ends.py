"""Laplace noise on dealt batches next to the largest loss, which is 1/b where all batches are released.

An added record: all likelihood ratios of n batches are e^(-1/b) with probability 2^-n under the law without
the record, so that delta(epsilon) is at least 2^-n (1 - e^(epsilon - 1/b)). From 1/b on it is 0 in both
directions.
"""

import math

import pytest

import hockeystick as hs

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")


def _delta(scale, batches, steps, adjacency, epsilon):
    found = hs.get_delta(
        epsilon=epsilon,
        mechanism=hs.Laplace(scale),
        sampling=hs.RandomAllocation(batches),
        steps=steps,
        adjacency=adjacency,
        bounds=True,
    )
    return tuple(found)


@pytest.mark.parametrize("batches", [2, 3])
@pytest.mark.parametrize("scale", [0.3, 0.1, 1 / 30, 0.02])
def test_delta_is_positive_up_to_the_largest_loss_and_zero_beyond(scale, batches):
    largest = 1 / scale
    for k in range(1, 13, 2):
        below = largest - 10.0**-k
        _, upper = _delta(scale, batches, batches, "add", below)
        # The last bit of 1/b is 1e-3 of the smallest distance.
        assert upper >= -math.expm1(below - largest) / 2**batches * (1 - 1e-2), (k, upper)
        for adjacency in ("add", "remove"):
            beyond = largest + 10.0**-k
            assert _delta(scale, batches, batches, adjacency, beyond) == (0.0, 0.0), (adjacency, k)
    for adjacency in ("add", "remove"):
        assert _delta(scale, batches, batches, adjacency, 720.0) == (0.0, 0.0), adjacency


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_delta_is_zero_where_an_exponential_overflows(adjacency):
    assert _delta(1.0, 3, 3000, adjacency, 1001.0) == (0.0, 0.0)
    lower, upper = _delta(1.0, 3, 3000, adjacency, 720.0)
    assert lower < 0.5
    assert upper < 1.0


def test_epsilon_reaches_to_the_largest_loss():
    _, upper = hs.get_epsilon(
        delta=1e-5,
        mechanism=hs.Laplace(0.02),
        sampling=hs.RandomAllocation(2),
        steps=2,
        adjacency="add",
        bounds=True,
    )
    # 1/4 (1 - e^(epsilon - 50)) = 1e-5.
    assert upper >= 50 + math.log1p(-4e-5)


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_noise_below_what_is_computed_has_the_largest_loss(adjacency):
    for epsilon in (112.0, 1e4):
        assert _delta(0.009, 2, 2, adjacency, epsilon) == (0.0, 0.0)
