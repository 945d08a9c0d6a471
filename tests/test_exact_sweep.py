"""A random sweep of the whole range of arguments: no exception, ordered bounds, no NaN."""

import numpy as np
import pytest

import hockeystick as hs

POINTS = 2_000
CHUNK = 40
"""Points of one vectorised call: enough for all cores, few enough that a failure is easy to find."""


def log_uniform(generator, low, high, size):
    return np.exp(generator.uniform(np.log(low), np.log(high), size))


def replaced(generator, values, share, value):
    """`values` with a share of them set to `value`."""
    return np.where(generator.random(values.size) < share, value, values)


def points(count):
    """Runs, deltas and epsilons over all of the range, its ends included."""
    generator = np.random.default_rng(20_240)
    rates = log_uniform(generator, 1e-12, 1.0, count)
    rates = replaced(generator, replaced(generator, rates, 0.05, 0.0), 0.05, 1.0)
    return {
        "noise_multiplier": log_uniform(generator, 0.05, 1e4, count),
        "sample_rate": rates,
        "steps": np.rint(log_uniform(generator, 1, 1e9, count)).astype(np.int64),
        "group_size": np.rint(log_uniform(generator, 1, 1e4, count)).astype(np.int64),
        "delta": np.minimum(log_uniform(generator, 1e-300, 1.0, count), 1 - 2**-53),
        "epsilon": replaced(generator, log_uniform(generator, 1e-6, 1e5, count), 0.05, 0.0),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    "first",
    # The first part in CI, all of them where there are hours.
    [pytest.param(first, marks=pytest.mark.long if first else []) for first in range(0, POINTS, CHUNK)],
)
def test_the_whole_range_gives_ordered_bounds(first):
    run = {name: values[first : first + CHUNK] for name, values in points(POINTS).items()}
    delta, epsilon = run.pop("delta"), run.pop("epsilon")
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    # Comparisons with NaN are false.
    assert np.all((lower >= 0.0) & (lower <= upper))
    lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run)
    assert np.all((lower >= 0.0) & (lower <= upper) & (upper <= 1.0))
