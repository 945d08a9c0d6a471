"""Certified intervals against data/pairs.csv: deltas in arbitrary precision for every kind of pair."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from by_definition import hypergeometric
from mpmath import mp
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
    """The reference publishes how many members are in a batch even where none is, which is a larger bound."""
    curve, error = curve_of(row), rounding(row)
    low, high = curve.bounds(epsilon=row.epsilon)
    assert low <= high <= row.delta * (1 + error)
    assert curve.epsilon(row.delta * (1 + error)) <= row.epsilon
    route = "one_step" if row.steps == 1 else "inversion"
    lower, upper = (ends[0] for ends in curve._run.composition().delta_by(route, np.array([row.epsilon])))
    assert lower <= upper <= row.delta * (1 + error)
    # Some data sets reveal as much as one of the records does where the others stay.
    (segment,) = row.segments()
    one = hs.get_delta(epsilon=row.epsilon, **segment | {"group_size": 1}, bounds=True)
    assert upper >= one[0]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    ("k", "b", "n", "sigma"), [(2, 100, 1000, 2.0), (4, 256, 60_000, 4.0), (3, 40, 100, 1.0)]
)
def test_one_step_of_replaced_groups_is_the_sum_of_the_theorem(epsilon, k, b, n, sigma):
    """docs/theory/replaced-groups.md, Theorem 1, in arbitrary precision."""
    weights, shifts = hypergeometric(k, b, n)
    absent = weights[0]
    ratio = (mp.exp(epsilon) - absent) / (1 - absent)

    def divergence(shift):
        mu, log_ratio = shift / mp.mpf(sigma), mp.log(ratio)
        return mp.ncdf(mu / 2 - log_ratio / mu) - ratio * mp.ncdf(-mu / 2 - log_ratio / mu)

    exact = float(sum(w * divergence(s) for w, s in zip(weights[1:], shifts[1:], strict=True)))
    run = {
        "noise_multiplier": sigma,
        "sampling": hs.WithoutReplacement(b, n),
        "steps": 1,
        "adjacency": "replace",
    }
    curve = hs.privacy_curve(group_size=k, **run)
    lower, upper = (ends[0] for ends in curve._run.composition().delta_by("one_step", np.array([epsilon])))
    assert lower <= exact * (1 + 1e-12)
    assert upper >= exact * (1 - 1e-12)
    assert upper - lower <= 1e-6 * exact


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
