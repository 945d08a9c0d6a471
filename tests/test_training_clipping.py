"""Clipping rules against their definitions, and how far changed records move an update."""

import math

import numpy as np
import pytest

from hockeystick import training

EPSILON = np.finfo(np.float64).eps


def clipped(vector, norm):
    return vector / max(1.0, math.hypot(*vector) / norm)


def some_gradients(batch, parameters, seed=1):
    """Of norms from about 1/20 to 20."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((batch, parameters)) / math.sqrt(parameters)
    return directions * np.geomspace(0.05, 20.0, batch)[random.permutation(batch), None]


def test_clip_scales_long_rows_to_the_norm_and_keeps_short_ones():
    vectors = some_gradients(40, 7)
    result = training.clip(vectors, 1.5)
    norms = np.array([math.hypot(*row) for row in vectors])
    assert 5 < np.sum(norms > 1.5) < 35
    np.testing.assert_array_equal(result[norms <= 1.5], vectors[norms <= 1.5])
    np.testing.assert_allclose(result, [clipped(row, 1.5) for row in vectors], rtol=4 * EPSILON)
    assert max(math.hypot(*row) for row in result) <= 1.5 * (1.0 + 4 * EPSILON)


@pytest.mark.parametrize("norm", [1e-150, 1e-3, 1e150])
def test_clip_bounds_norms_of_any_size(norm):
    directions = training.clip(some_gradients(20, 5), 1.0)
    for scale in (1e-3 * norm, norm, 1e3 * norm):
        result = training.clip(directions * scale, norm)
        assert max(math.hypot(*row) for row in result) <= norm * (1.0 + 4 * EPSILON)


def test_clip_keeps_zeros_and_no_rows():
    np.testing.assert_array_equal(training.clip(np.zeros((2, 3)), 1.0), np.zeros((2, 3)))
    assert training.clip(np.empty((0, 3)), 1.0).shape == (0, 3)
    np.testing.assert_array_equal(training.individual_clipping(np.empty((0, 3)), 1.0), np.zeros(3))


def test_the_three_rules_are_their_definitions():
    gradients = some_gradients(24, 5)
    individual = sum(clipped(row, 0.7) for row in gradients)
    batch = clipped(sum(gradients) / 24, 0.7)
    mixed = sum(clipped(sum(gradients[start : start + 4]) / 4, 0.7) for start in range(0, 24, 4))
    close = {"rtol": 1e-13, "atol": 1e-14}
    np.testing.assert_allclose(training.individual_clipping(gradients, 0.7), individual, **close)
    np.testing.assert_allclose(training.batch_clipping(gradients, 0.7), batch, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 6), mixed, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 24), individual, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 1), batch, **close)


def test_gradients_of_other_types_give_float64():
    gradients = np.array([[3, 4], [6, 8]])
    for kind in (np.float32, np.int64, list):
        values = gradients.tolist() if kind is list else gradients.astype(kind)
        result = training.individual_clipping(values, 5.0)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, [6.0, 8.0])


@pytest.mark.parametrize("units", [1, 2, 6, 12])
def test_changing_k_units_moves_the_update_by_at_most_2kc(units):
    norm, size = 0.8, 12 // units
    random = np.random.default_rng(units)
    for k in range(units + 1):
        for trial in range(20):
            gradients = some_gradients(12, 3, seed=trial)
            changed = gradients.copy()
            chosen = random.choice(units, k, replace=False)
            rows = (chosen[:, None] * size + np.arange(size)).ravel()
            changed[rows] = 10.0 * random.standard_normal((len(rows), 3))
            difference = training.mixed_clipping(gradients, norm, units) - training.mixed_clipping(
                changed, norm, units
            )
            assert math.hypot(*difference) <= 2 * k * norm + 1e-13


@pytest.mark.parametrize("units", [1, 2, 6, 12])
def test_opposite_gradients_attain_the_sensitivity(units):
    norm, size = 0.8, 12 // units
    direction = np.array([3.0, -4.0, 12.0])
    for k in range(1, units + 1):
        gradients = np.tile(direction, (12, 1))
        opposite = gradients.copy()
        opposite[: k * size] *= -1.0
        difference = training.mixed_clipping(gradients, norm, units) - training.mixed_clipping(
            opposite, norm, units
        )
        assert math.hypot(*difference) == pytest.approx(2 * k * norm, rel=1e-14)


def test_one_record_alone_can_move_a_clipped_mean_by_2c():
    # Where a record is removed, individual clipping moves by C at most; a unit of several does not.
    gradients = np.array([[1.0], [1.0], [-100.0]])
    moved = training.batch_clipping(gradients, 0.5) - training.batch_clipping(gradients[:2], 0.5)
    np.testing.assert_array_equal(moved, [-1.0])
