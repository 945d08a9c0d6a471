"""Numbers as text stay on the safe side, and close."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick._rounding import percent_up, rounded_down, rounded_up

VALUES = st.floats(min_value=1e-300, max_value=1e300)


@given(VALUES, st.integers(2, 12))
def test_rounding_up_is_never_below_and_by_two_units_at_most(value, digits):
    shown = float(rounded_up(value, digits))
    assert value <= shown <= value * (1 + 2.0 * 10.0 ** (1 - digits))


@given(VALUES, st.integers(2, 12))
def test_rounding_down_is_never_above_and_by_two_units_at_most(value, digits):
    shown = float(rounded_down(value, digits))
    assert value * (1 - 2.0 * 10.0 ** (1 - digits)) <= shown <= value


@given(st.floats(0.0, 1.0))
def test_percentages_are_never_below_and_at_most_100(share):
    shown = float(percent_up(share).removesuffix(" %"))
    assert 100.0 * share <= shown <= 100.0


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (math.inf, "inf"), (1.5, "1.5"), (1.82823, "1.829")]
)
def test_short_numbers_stay_short(value, shown):
    assert rounded_up(value, 4) == shown
