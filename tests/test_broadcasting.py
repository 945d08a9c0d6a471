"""The public functions on arrays: shapes, types, strides, and elements that do not know their neighbours."""

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import kernels

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


RENYI = {"sample_rate": 0.05, "group_size": 3, "orders": 4.0}
RENYI_RUN = {"order": 4.0, "tau": 1.0, "sample_rate": 0.05, "steps": 100, "group_size": 3}
RENYI_TARGET = {"epsilon": 2.0, "delta": 1e-5, "sample_rate": 0.05, "steps": 100, "group_size": 3}
LAW = {"weights": [0.9, 0.1], "shifts": [0.0, 1.0]}
ESTIMATE = {
    "epsilon": 1.0,
    **LAW,
    "noise_multiplier": 1.0,
    "steps": 4,
    "samples": 2000,
    "tilt": 0.5,
    "confidence": 0.9,
    "direction": "remove",
    "seed": 3,
}
FAMILY_CALLS = {
    "group_rdp": (lambda **call: hs.renyi.group_rdp(hs.Gaussian(5.0), **call), RENYI, RENYI),
    "group_rdp, replaced": (
        lambda **call: hs.renyi.group_rdp(hs.Gaussian(5.0), adjacency="replace", **call),
        RENYI,
        RENYI,
    ),
    "calibrate": (lambda **call: hs.renyi.calibrate(hs.Gaussian, **call), RENYI_RUN, RENYI_RUN),
    "calibrate_dp": (
        lambda **call: hs.renyi.calibrate_dp(hs.Gaussian, bound="jensen", orders=[2, 4, 8, 16, 64], **call),
        RENYI_TARGET,
        RENYI_TARGET,
    ),
    "renyi_mixture": (
        lambda **call: kernels.renyi_mixture(direction="remove", **LAW, **call),
        {"orders": 3.0, "noise_multiplier": 2.0},
        ("orders", "noise_multiplier"),
    ),
    "renyi_group_bound": (
        lambda **call: kernels.renyi_group_bound(3.0, [0.0, 0.4], **call),
        {"sample_rate": 0.2},
        ("sample_rate",),
    ),
    "rdp_to_epsilon": (
        lambda **call: kernels.rdp_to_epsilon([2.0, 4.0], [0.1, 0.3], **call),
        {"delta": 1e-5},
        ("delta",),
    ),
    "monte_carlo_delta": (
        lambda **call: kernels.monte_carlo_delta(**call).upper,
        ESTIMATE,
        ("epsilon", "noise_multiplier", "steps", "samples", "tilt", "confidence"),
    ),
}
"""Functions of the Rényi and simulation rooms, a call of each and the numeric arguments that broadcast."""


def each_number_of_the_families():
    return [
        pytest.param(name, argument) for name, (_, _, numbers) in FAMILY_CALLS.items() for argument in numbers
    ]


@pytest.mark.parametrize(("name", "argument"), each_number_of_the_families())
def test_renyi_and_simulation_functions_broadcast_over_every_number(name, argument):
    function, call, _ = FAMILY_CALLS[name]
    value = call[argument]
    other = 2 * value if isinstance(value, int) or argument in ("orders", "order") else 0.5 * value
    one_by_one = [float(function(**{**call, argument: each})) for each in (value, other)]
    together = function(**{**call, argument: [[value], [other]]})
    assert np.shape(together) == (2, 1)
    np.testing.assert_allclose(np.ravel(together), one_by_one, rtol=1e-12)
    assert one_by_one[0] != one_by_one[1]


@pytest.mark.parametrize("argument", ["noise_multiplier", "sample_rate", "steps"])
def test_individual_accounts_broadcast_over_every_number(argument):
    call = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 3}
    norms, orders = np.array([0.5, 1.0]), np.array([2.0, 8.0])
    other = 6 if argument == "steps" else 0.5 * call[argument]

    def added(**numbers):
        rdp = np.zeros((2, 2))
        kernels.accumulate_rdp(rdp, norms, orders, **numbers)
        return rdp

    together = added(**{**call, argument: [call[argument], other]})
    np.testing.assert_allclose(together[0], added(**call)[0], rtol=1e-12)
    np.testing.assert_allclose(together[1], added(**{**call, argument: other})[1], rtol=1e-12)
    assert not np.array_equal(together[1], added(**call)[1])
