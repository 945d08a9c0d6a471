"""The public functions on arrays: shapes, types, strides, and elements that do not know their neighbours."""

import numpy as np
import pytest

import hockeystick as hs

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
TARGET = {"epsilon": 3.0, "delta": 1e-5}
CALLS = {
    hs.get_epsilon: {"delta": 1e-5, "group_size": 2, **RUN},
    hs.get_delta: {"epsilon": 3.0, "group_size": 2, **RUN},
    hs.get_noise_multiplier: {**TARGET, "sample_rate": 0.01, "steps": 1000, "group_size": 2},
    hs.get_sample_rate: {**TARGET, "noise_multiplier": 1.0, "steps": 1000, "group_size": 2},
    hs.get_steps: {**TARGET, "noise_multiplier": 1.0, "sample_rate": 0.01, "group_size": 2},
    hs.get_group_size: {**TARGET, "noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000},
    hs.black_box.get_epsilon: {"delta": 1e-5, "group_size": 2, **RUN},
    hs.black_box.get_delta: {"epsilon": 3.0, "group_size": 2, **RUN},
}
BLACK_BOX = (hs.black_box.get_epsilon, hs.black_box.get_delta)
COUNTS = (hs.get_steps, hs.get_group_size)
SMALLER = {
    "delta": 1e-3,
    "epsilon": 0.5,
    "noise_multiplier": 0.5,
    "sample_rate": 0.5,
    "steps": 0.5,
    "group_size": 0.5,
}
"""Factors that leave every call of `CALLS` answerable, and change every answer."""


def label(function):
    return f"black_box.{function.__name__}" if function in BLACK_BOX else function.__name__


def each_numeric_argument():
    return [
        pytest.param(function, name, id=f"{label(function)} {name}")
        for function, call in CALLS.items()
        for name in call
    ]


@pytest.mark.parametrize(("function", "name"), each_numeric_argument())
def test_every_numeric_argument_takes_an_array(function, name):
    call = CALLS[function]
    whole = name in ("steps", "group_size")
    other = int(call[name] * SMALLER[name]) if whole else call[name] * SMALLER[name]
    one_by_one = [function(**{**call, name: value}) for value in (call[name], other, call[name])]
    together = function(**{**call, name: [call[name], other, call[name]]})
    assert together.dtype == (np.int64 if function in COUNTS else np.float64)
    assert together.tolist() == one_by_one
    assert one_by_one[0] != one_by_one[1]


@pytest.mark.parametrize("function", CALLS, ids=label)
def test_scalars_give_python_numbers(function):
    call = CALLS[function]
    expected = int if function in COUNTS else float
    assert type(function(**call)) is expected
    assert type(function(**{name: np.asarray(value) for name, value in call.items()})) is expected
    name = next(iter(call))
    assert type(function(**{**call, name: [call[name]]})) is np.ndarray


@pytest.mark.parametrize("function", [f for f in CALLS if f not in BLACK_BOX], ids=label)
def test_bounds_are_two_answers_of_the_shape_of_one(function):
    call = CALLS[function]
    lower, upper = function(bounds=True, **call)
    answer = function(**call)
    assert answer == (lower if function in (*COUNTS, hs.get_sample_rate) else upper)
    assert type(lower) is type(answer)
    assert type(upper) is float
    assert lower <= upper
    name = next(iter(call))
    lower, upper = function(bounds=True, **{**call, name: np.full((2, 1), call[name])})
    assert lower.shape == upper.shape == (2, 1)
    assert np.all(lower <= upper)


def test_numeric_arguments_broadcast_like_a_ufunc():
    delta = np.array([1e-6, 1e-5, 1e-4])
    group_size = np.array([[1], [4]])
    values = hs.get_epsilon(delta=delta, group_size=group_size, **RUN)
    assert values.shape == (2, 3)
    assert values[1, 0] == hs.get_epsilon(delta=1e-6, group_size=4, **RUN)
    sigma = hs.get_noise_multiplier(
        epsilon=[2.0, 4.0], delta=delta[:, None], sample_rate=0.01, steps=np.array([[[100]], [[1000]]])
    )
    assert sigma.shape == (2, 3, 2)
    deltas = hs.get_delta(epsilon=[[1.0], [2.0]], steps=[10, 20, 30], noise_multiplier=1.0, sample_rate=0.1)
    assert deltas.shape == (2, 3)
    assert hs.get_steps(epsilon=np.ones((2, 1)), delta=[1e-6, 1e-5], **noise_and_rate()).shape == (2, 2)


def noise_and_rate():
    return {"noise_multiplier": 1.0, "sample_rate": 0.01}


def test_groups_and_schemes_go_with_arrays_of_the_rest():
    group = hs.Group(rates=[0.01, 0.02], norms=[1.0, 0.5])
    values = hs.get_epsilon(delta=[1e-6, 1e-5], noise_multiplier=[[1.0], [2.0]], steps=100, group=group)
    assert values.shape == (2, 2)
    assert values[1, 0] == hs.get_epsilon(delta=1e-6, noise_multiplier=2.0, steps=100, group=group)
    scheme = hs.WithoutReplacement(10, 1000)
    values = hs.get_epsilon(
        delta=1e-5, noise_multiplier=4.0, sampling=scheme, steps=100, group_size=[1, 2, 3]
    )
    assert np.all(np.diff(values) > 0)


def test_empty_arrays_give_empty_arrays_of_the_broadcast_shape():
    values = hs.get_epsilon(delta=np.empty((0, 1)), group_size=[1, 2, 3], **RUN)
    assert values.shape == (0, 3)
    assert hs.get_delta(epsilon=[], **RUN).shape == (0,)
    steps = hs.get_steps(epsilon=[], delta=1e-5, **noise_and_rate())
    assert (steps.shape, steps.dtype) == ((0,), np.int64)


def test_every_dtype_and_stride_gives_the_same_answer():
    expected = hs.get_epsilon(delta=1e-5, noise_multiplier=2.0, sample_rate=0.25, steps=100, group_size=4)
    for steps in (100.0, np.int8(100), np.uint64(100), np.float32(100), np.array(100), 100):
        got = hs.get_epsilon(
            delta=1e-5,
            noise_multiplier=np.float32(2),
            sample_rate=np.float16(0.25),
            steps=steps,
            group_size=4.0,
        )
        assert got == expected
    strided = np.array([9, 100, 9, 100, 9])[1::2]
    assert not strided.flags.c_contiguous
    values = hs.get_epsilon(delta=1e-5, noise_multiplier=2, sample_rate=0.25, steps=strided, group_size=4)
    assert values.tolist() == [expected, expected]


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ValueError, match=r"delta \(2,\).*group_size \(4,\)|group_size \(4,\).*delta \(2,\)"):
        hs.get_epsilon(delta=[1e-5, 1e-6], group_size=[1, 2, 3, 4], **RUN)
