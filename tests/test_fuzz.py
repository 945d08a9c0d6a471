"""Arguments of every kind to every public function: a sane answer, or an error that says why not."""

import signal
import warnings
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from python_surface import SURFACE, check, largest
from python_surface_extras import SURFACE as EXTRAS

import hockeystick as hs

LONGEST = 60.0
"""Seconds after which a call counts as hanging."""

FEW, MANY = 400, 100_000
FEW_EXTRAS, MANY_EXTRAS = 100, 5_000

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-5, 100),
    st.integers(-(2**80), 2**80),
    st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e-300, 1e300, np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0)]),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0, width=16).map(np.float16),
    st.integers(0, 255).map(np.uint8),
)


class Subclass(np.ndarray):
    """An array that NumPy passes through."""


class Pretends:
    """Not a number, though it can be made one."""

    def __float__(self):
        return 0.5

    def __index__(self):
        return 2


class Raises:
    """An array-like that fails when it is looked at."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError("no array here")


JUNK = st.sampled_from(
    [
        None,
        True,
        False,
        "",
        "0.5",
        "add",
        "replace",
        b"1",
        0.5j,
        Fraction(1, 2),
        Decimal("0.5"),
        object(),
        {},
        {"a": 1},
        set(),
        range(3),
        float,
        np.float64,
        print,
        Pretends(),
        Raises(),
        np.ma.array([0.5, 1.0], mask=[True, False]),
        np.array(["x"]),
        np.array([True, False]),
        np.array("2020-01-01", dtype="M8[D]"),
        np.array([1, "a", None], dtype=object),
        np.zeros(2, dtype=[("a", float), ("b", int)]),
        [[1.0], [1.0, 2.0]],
        [None],
        hs.FullBatch(),
        hs.Poisson(0.1),
        hs.WithoutReplacement(5, 50),
        hs.Laplace(2.0),
        hs.Group(size=2),
        hs.TradeoffCurve.gaussian(1.0),
    ]
)


def arrays_of(numbers):
    """Arrays of some of these numbers in every layout."""
    layouts = [
        np.asarray,
        lambda a: a[::-1],
        lambda a: np.repeat(a, 3)[::3],
        lambda a: np.broadcast_to(a, (2, a.size)),
        lambda a: np.asfortranarray(np.stack([a, a])),
        lambda a: a.reshape(-1, 1),
        lambda a: a[:0],
        lambda a: np.empty((0, 3)),
        lambda a: a.astype(object),
        lambda a: a.astype(">f8"),
        lambda a: a.astype(np.longdouble),
        lambda a: a.view(Subclass),
        lambda a: a.tolist(),
        lambda a: tuple(a.tolist()),
        lambda a: np.lib.stride_tricks.as_strided(a, (3,), (0,)),
    ]
    floats = st.lists(numbers, min_size=1, max_size=4).map(lambda found: np.array(found, dtype=np.float64))
    return st.builds(lambda array, layout: layout(array), floats, st.sampled_from(layouts))


def near(good):
    """Numbers around a good one."""
    factors = st.sampled_from([0, 0.5, 1, 2, 10, -1, 1e-9, 1e9])
    return st.builds(lambda factor: type(good)(good * factor), factors)


def values(function, name, good):
    """What to pass for the argument `name`."""
    is_number = isinstance(good, int | float) and not isinstance(good, bool)
    numbers = st.one_of(near(good), NUMBERS) if is_number else NUMBERS
    limit = largest(function, name)
    if limit is not None:
        numbers = numbers.filter(lambda value: not value > limit)
    return st.one_of(st.just(good), numbers, arrays_of(numbers), JUNK)


@st.composite
def calls(draw, surface=SURFACE):
    name, function, good = draw(st.sampled_from(surface))
    changed = draw(st.sets(st.sampled_from(sorted(good)), max_size=3)) if good else set()
    arguments = {key: draw(values(function, key, good[key])) if key in changed else good[key] for key in good}
    return name, function, arguments


@contextmanager
def limited(seconds):
    """Raise where a call takes this long: calls answer signals."""

    def stop(number, frame):
        raise TimeoutError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def answers_or_refuses(call):
    _, function, arguments = call
    with limited(LONGEST), warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        warnings.simplefilter("ignore", hs.OptimalOrderWarning)
        warnings.filterwarnings("ignore", "some weights are below the smallest normal", RuntimeWarning)
        try:
            answer = function(**arguments)
        except (ValueError, TypeError):  # UnsupportedError and UnreachableError among them
            return
    check(function, answer)


checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(max_examples=FEW, deadline=None, suppress_health_check=checks, derandomize=True)
@given(calls())
def test_every_function_answers_or_refuses(call):
    answers_or_refuses(call)


@pytest.mark.long
@settings(max_examples=MANY, deadline=None, suppress_health_check=checks, database=None)
@given(calls())
def test_every_function_answers_or_refuses_a_hundred_thousand_calls(call):
    answers_or_refuses(call)


@pytest.mark.slow
@settings(max_examples=FEW_EXTRAS, deadline=None, suppress_health_check=checks, derandomize=True)
@given(calls(EXTRAS))
def test_what_needs_extras_answers_or_refuses(call):
    answers_or_refuses(call)


@pytest.mark.long
@settings(max_examples=MANY_EXTRAS, deadline=None, suppress_health_check=checks, database=None)
@given(calls(EXTRAS))
def test_what_needs_extras_answers_or_refuses_thousands_of_calls(call):
    answers_or_refuses(call)
