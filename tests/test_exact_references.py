"""Certified intervals against data/pairs.csv: deltas in arbitrary precision for every kind of pair."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from pairs_reference import pair_rows

import hockeystick as hs

WIDER_THAN_ASKED = {
    "two steps: poisson sigma=0.5 q=0.01 k=4 T=2 add 0.01": 4e-6,
    "two steps: poisson sigma=0.5 q=0.01 k=4 T=2 remove 0.01": 5e-6,
}
"""Largest relative width of delta's interval where the asked one cannot be certified in bounded work."""

REPLACED_GROUPS = tuple(row for row in pair_rows("fixed-replace-group") if "b=3 n=3" not in row.parameters)
"""Pairs that are upper bounds only, beside which the library knows another bound."""

ROWS = pytest.mark.parametrize("row", [row for row in pair_rows() if row not in REPLACED_GROUPS], ids=str)


def curve_of(row):
    return reduce(add, (hs.privacy_curve(**segment) for segment in row.segments()))


def delta_bounds(row):
    """By the function where the run is one segment, by the composed curve where it is several."""
    segments = row.segments()
    if len(segments) > 1:
        return curve_of(row).bounds(epsilon=row.epsilon)
    return hs.get_delta(epsilon=row.epsilon, bounds=True, **segments[0])


def rounding(row):
    """Relative error of the reference: one unit of its last certain digit."""
    return 10.0 ** (1 - row.digits)


def asked_width(delta):
    return 1e-6 if delta >= 1e-12 else 1e-3


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@ROWS
def test_the_interval_of_delta_encloses_the_reference_and_is_narrow(row):
    lower, upper = delta_bounds(row)
    assert lower <= row.delta * (1 + rounding(row))
    assert upper >= row.delta * (1 - rounding(row))
    assert upper - lower <= WIDER_THAN_ASKED.get(str(row), asked_width(row.delta)) * upper


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@ROWS
def test_the_interval_of_epsilon_encloses_the_reference(row):
    # Delta falls with epsilon: an epsilon for a larger delta is smaller.
    curve, error = curve_of(row), rounding(row)
    lower, upper = curve.bounds(delta=[row.delta * (1 + error), row.delta * (1 - error)])
    assert lower[0] <= row.epsilon
    assert upper[1] >= row.epsilon


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize("row", REPLACED_GROUPS, ids=str)
def test_replaced_groups_have_the_pair_of_the_reference_or_less(row):
    curve, error = curve_of(row), rounding(row)
    route = "one_step" if row.steps == 1 else "inversion"
    lower, upper = curve._composed().delta_by(route, np.array([row.epsilon]))
    assert lower[0] <= row.delta * (1 + error)
    assert upper[0] >= row.delta * (1 - error)
    low, high = curve.bounds(epsilon=row.epsilon)
    assert low <= high <= row.delta * (1 + 1e-3)
    assert curve.epsilon(row.delta * (1 + 1e-3)) <= row.epsilon
    if curve.bound_used(epsilon=row.epsilon) == "pair":
        assert high >= row.delta * (1 - error)


def test_every_wider_limit_belongs_to_a_row_and_is_wider():
    rows = {str(row): row for row in pair_rows()}
    for name, limit in WIDER_THAN_ASKED.items():
        assert limit > asked_width(rows[name].delta)


def test_the_rows_are_of_every_pair_and_all_different():
    assert {row.pair for row in pair_rows()} == {
        "aligned",
        "fixed-replace-group",
        "fixed-replace-one",
        "laplace",
        "orthogonal",
        "poisson",
        "poisson-orthogonal",
        "poisson-replace",
        "segments",
    }
    assert len({str(row) for row in pair_rows()}) == len(pair_rows())
