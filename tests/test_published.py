"""What PITFALLS prints; test_renyi_calibration.py has the figures of RGP."""

import numpy as np
import pytest
from reference_rows import rows

from hockeystick import kernels

PITFALLS = [r for r in rows("published.csv") if r["source"] == "PITFALLS"]


def case_of(row):
    """The smallest delta, and others in the nightly tests: each takes many seconds."""
    mark = pytest.mark.slow if row["delta"] == "1e-7" else pytest.mark.long
    return pytest.param(row, id=f"{row['quantity']} {row['delta']}", marks=mark)


@pytest.mark.parametrize("row", [case_of(row) for row in PITFALLS])
def test_published_epsilon_is_the_sampled_one_up_to_its_stated_error(row):
    # Upper ends of intervals of half-width 0.01, printed to two decimals.
    published, delta = float(row["value"]), float(row["delta"])
    rounding, error = 0.005, 2 * 0.01 + 0.005
    if row["quantity"] == "epsilon Poisson":
        law = kernels.binomial_law(1, float(row["sample_rate"]))
    else:
        law = kernels.hypergeometric_law(1, 1, round(1 / float(row["sample_rate"])))
    found = kernels.monte_carlo_delta(
        [published - error, published + rounding],
        *law,
        0.8,
        int(row["steps"]),
        samples=50_000,
        direction="remove",
        seed=7,
    )
    assert found.upper[0] >= delta >= found.lower[1]
    assert np.all(found.upper < 2 * found.lower)


def test_every_published_row_is_covered():
    assert len(PITFALLS) == 8
