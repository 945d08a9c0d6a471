"""Every function, every bad value: an error that names the argument and its range, never a NaN."""

import re
from fractions import Fraction

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import GroupAccountant, IndividualAccountant, RenyiGroupAccountant

NAN, INF = float("nan"), float("inf")

WEIGHTS = {"weights": [0.9, 0.1], "shifts": [0.0, 1.0], "noise_multiplier": 1.0}
STEP = {"orders": [2.0, 3.0], "sample_rate": 0.1, "group_size": 2, "bound": "jensen"}
CALIBRATED = {
    "mechanism": hs.Skellam,
    "sample_rate": 0.1,
    "steps": 10,
    "group_size": 2,
    "bound": "jensen",
    "sensitivity": 2,
}
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
TARGET = {"epsilon": 1.0, "delta": 1e-5}
COMMON = {"group_size": 2, "adjacency": "add", "tolerance": 1e-6}


def group_rdp(**arguments):
    return hs.renyi.group_rdp(hs.Gaussian(2.0), **arguments)


def accumulate_rdp(**arguments):
    kernels.accumulate_rdp(np.zeros((2, 2)), [0.5, 1.0], [2.0, 3.0], **arguments)


def individual(**arguments):
    return IndividualAccountant(50, **arguments)


def individual_step(**arguments):
    individual().step(**arguments)


def individual_norms(norms):
    IndividualAccountant(2).update_norms(norms)


def group_rdp_of_table(**arguments):
    return hs.renyi.group_rdp(**arguments)


GOOD = {
    hs.Gaussian: {"noise_multiplier": 1.0},
    hs.Skellam: {"variance": 4.0, "sensitivity": 2},
    hs.RandomizedResponse: {"p": 0.7},
    group_rdp: STEP,
    group_rdp_of_table: {
        "component": [[0.0, 0.0], [1.0, 1.5]],
        "orders": [2.0, 3.0],
        "sample_rate": 0.1,
    },
    hs.renyi.calibrate: {"order": 2.0, "tau": 1.0, **CALIBRATED},
    hs.renyi.calibrate_dp: {
        "epsilon": 5.0,
        "delta": 1e-5,
        "orders": [2.0, 3.0],
        "conversion": "optimal",
        **CALIBRATED,
    },
    hs.get_epsilon: {"delta": 1e-5, **COMMON, **RUN},
    hs.get_delta: {"epsilon": 1.0, **COMMON, **RUN},
    hs.explain: {"delta": 1e-5, **COMMON, **RUN},
    hs.get_noise_multiplier: {**TARGET, "sample_rate": 0.01, "steps": 10, **COMMON},
    hs.get_sample_rate: {**TARGET, "noise_multiplier": 1.0, "steps": 10, **COMMON},
    hs.get_steps: {**TARGET, "noise_multiplier": 1.0, "sample_rate": 0.01, **COMMON},
    hs.get_group_size: {"epsilon": 3.0, "delta": 1e-5, "adjacency": "add", "tolerance": 1e-6, **RUN},
    hs.black_box.get_epsilon: {"delta": 1e-5, **COMMON, **RUN},
    hs.black_box.get_delta: {"epsilon": 1.0, **COMMON, **RUN},
    hs.privacy_curve: {**COMMON, **RUN},
    hs.privacy_curve(**RUN).epsilon: {"delta": 1e-5},
    hs.privacy_curve(**RUN).delta: {"epsilon": 1.0},
    hs.privacy_curve(**RUN).beta: {"alpha": 0.5},
    hs.privacy_curve(**RUN).renyi: {"order": 2.0},
    hs.WithoutReplacement: {"batch_size": 5, "dataset_size": 50},
    hs.Shuffle: {"batch_size": 5, "dataset_size": 50},
    hs.Laplace: {"scale": 2.0},
    hs.Group: {"size": 2, "rates": [0.1, 0.2], "norms": [1.0, 0.5], "gradients": "orthogonal", "cosine": 0.0},
    GroupAccountant: COMMON,
    GroupAccountant().get_epsilon: {"delta": 1e-5},
    GroupAccountant().get_delta: {"epsilon": 1.0},
    hs.Poisson: {"sample_rate": 0.1},
    kernels.binomial_law: {"group_size": 2, "sample_rate": 0.1},
    kernels.poisson_binomial_law: {"rates": [0.1, 0.2]},
    kernels.hypergeometric_law: {"group_size": 2, "batch_size": 5, "dataset_size": 50},
    kernels.log_likelihood_ratio: {"x": [0.0, 1.0], **WEIGHTS},
    kernels.hockey_stick: {"log_ratio": [0.1, 0.2], "epsilon": 0.0},
    kernels.monte_carlo_delta: {
        "epsilon": 1.0,
        **WEIGHTS,
        "steps": 3,
        "samples": 100,
        "direction": "remove",
        "tilt": 0.5,
        "seed": 0,
        "confidence": 0.9,
    },
    kernels.renyi_mixture: {"orders": [2.0, 3.0], **WEIGHTS, "direction": "remove"},
    kernels.renyi_group_bound: {
        "orders": [2.0, 3.0],
        "component_rdp": [[0.0, 0.0], [1.0, 1.5]],
        "sample_rate": 0.1,
    },
    kernels.rdp_to_epsilon: {"orders": [2.0, 3.0], "rdp": [0.1, 0.2], "delta": 1e-5, "conversion": "optimal"},
    kernels.rdp_to_delta: {"orders": [2.0, 3.0], "rdp": [0.1, 0.2], "epsilon": 1.0, "conversion": "optimal"},
    RenyiGroupAccountant: {
        "group_size": 2,
        "bound": "exact",
        "orders": [2.0, 3.0],
        "adjacency": "add",
        "conversion": "optimal",
    },
    accumulate_rdp: RUN,
    individual: {"orders": [2.0, 3.0], "max_grad_norm": 2.0, "rounding": 0.01},
    individual_step: {"noise_multiplier": 1.0, "sample_rate": 0.1},
    individual_norms: {"norms": [0.5, 1.0]},
    individual().get_epsilon: {"delta": 1e-5},
    individual().get_epsilons: {"delta": 1e-5},
    individual().get_delta: {"epsilon": 1.0},
    RenyiGroupAccountant().get_renyi: {"orders": [2.0, 3.0]},
    RenyiGroupAccountant().get_epsilon: {"delta": 1e-5},
    RenyiGroupAccountant().get_delta: {"epsilon": 1.0},
}

NAMES_ONLY = {"direction", "bound", "adjacency", "gradients", "conversion"}
MAY_BE_NONE = {
    (hs.Group, "cosine"),
    (group_rdp, "bound"),
    (group_rdp_of_table, "component"),
    (hs.renyi.calibrate_dp, "orders"),
    (RenyiGroupAccountant, "orders"),
    (individual, "orders"),
    (individual, "rounding"),
    (kernels.monte_carlo_delta, "tilt"),
    (hs.Group, "size"),
    (hs.Group, "rates"),
    (hs.Group, "norms"),
}
BELOW_ZERO_ALLOWED = {
    (kernels.hockey_stick, "epsilon"),
    (kernels.monte_carlo_delta, "epsilon"),
}

TAKES_SAMPLING = {
    individual_step,
    hs.get_epsilon,
    hs.get_delta,
    hs.explain,
    hs.get_noise_multiplier,
    hs.get_steps,
    hs.get_group_size,
    hs.black_box.get_epsilon,
    hs.black_box.get_delta,
    hs.privacy_curve,
}

BAD_VALUES = {
    "delta": [0.0, 1.0, -1e-9, 1.5, NAN, INF, -INF],
    "epsilon": [-1e-9, NAN, INF, -INF],
    "noise_multiplier": [-1.0, NAN, INF, -INF],
    "sample_rate": [-1e-9, 1.0000001, NAN, INF, -INF],
    "rates": [[0.1, -0.1], [1.1], [NAN], [INF], [], 0.1, [[1.1]]],
    "steps": [-1, 2.5, NAN, INF, -INF, 2**63, 1e300],
    "group_size": [0, -1, 2.5, 100_001, NAN, INF, 2**70],
    "batch_size": [-1, 51, 2.5, NAN, INF],
    "dataset_size": [0, -1, 1, 49.5, NAN, INF],
    "orders": [[1.0], [0.5, 2.0], [-2.0], [NAN], [INF], [-INF]],
    "weights": [[0.9, 0.2], [1.1, -0.1], [NAN, 1.0], [INF, 0.0], [], [1.0], [[0.9, 0.2]], 1.0],
    "shifts": [[0.0, NAN], [0.0, INF], [], [0.0], [0.0, 1.0, 2.0], [[0.0, NAN]], 0.0],
    "x": [NAN, [0.0, INF], -INF],
    "log_ratio": [[], [0.0, NAN]],
    "samples": [0, -1, 2.5, NAN, INF],
    "direction": ["both", "", "Remove"],
    "tilt": [-0.5, NAN, INF],
    "seed": [-1, 2**64, 0.5, NAN],
    "confidence": [0.0, 1.0, -0.1, 1.1, NAN, INF],
    "component_rdp": [
        [[0.1, 0.0], [1.0, 1.5]],
        [[0.0, 0.0], [-1.0, 1.5]],
        [[0.0, 0.0], [NAN, 1.5]],
        [[0.0, 0.0]],
        [0.0, 1.0],
        [[0.0], [1.0]],
        [],
    ],
    "rdp": [[-0.1, 0.2], [NAN, 0.2], [-INF, 0.2], [0.1], [0.1, 0.2, 0.3], 0.1, []],
    "component": [
        [[0.1, 0.0], [1.0, 1.5]],
        [[0.0, 0.0], [-1.0, 1.5]],
        [[0.0, 0.0], [NAN, 1.5]],
        [[0.0, 0.0]],
        [0.0, 1.0],
        [[0.0], [1.0]],
        [],
    ],
    "variance": [0.0, -1.0, NAN, INF, -INF],
    "sensitivity": [0, -1, 1.5, NAN, INF, 2**21],
    "p": [0.5, 1.0, 0.2, 1.5, NAN, INF, -INF],
    "tau": [0.0, -1.0, NAN, INF, -INF],
    "mechanism": [],  # a class: anything else has a wrong type
    "conversion": ["mironov", ""],
    "bound": ["tight", ""],
    "adjacency": ["swap", ""],
    "tolerance": [0.0, 1e-10, 0.11, -1e-6, NAN, INF],
    "alpha": [-1e-9, 1.0000001, NAN, INF, -INF],
    "order": [1.0, 0.5, -2.0, NAN, INF, -INF],
    "scale": [0.0, -1.0, NAN, INF, -INF],
    "size": [0, -1, 2.5, 3, 10_001, NAN, INF, 2**70],
    "norms": [[1.0, -0.1], [1.1, 1.0], [NAN, 1.0], [INF, 1.0], [], 1.0, [[1.0, 0.5]], [1.0]],
    "gradients": ["random", ""],
    "cosine": [-0.1, 1.1, 0.5, NAN, INF],
    "max_grad_norm": [0.0, -1.0, 1e-160, 1e160, NAN, INF, -INF],
    "rounding": [0.0, -0.01, 2.1, NAN, INF, -INF],
}

RANGES = {
    "delta": r"in \(0, 1\)",
    "noise_multiplier": r"in [\[(]0, inf\)",  # a likelihood ratio needs some noise
    "sample_rate": r"in \[0, 1\]",
    "steps": "whole number >= 0",
    "samples": "whole number >= 1",
    "confidence": r"in \(0, 1\)",
    "direction": "remove",
    "bound": "black_box",
    "adjacency": "add_remove",
    "tolerance": r"in \[1e-9, 0.1\]",
    "scale": r"in \(0, inf\)",
    "variance": r"in \(0, inf\)",
    "sensitivity": r"a whole number in \[1, 1048576\]",
    "p": r"in \(0.5, 1\)",
    "tau": r"in \(0, inf\)",
    "conversion": "canonne.*optimal",
    "alpha": r"in \[0, 1\]",
}
"""What the text of a ValueError says besides the name of the argument."""

WRONG_TYPES = [
    "0.5",
    b"1",
    None,
    True,
    0.5 + 0j,
    object(),
    {"a": 1},
    [None],
    ["x"],
    [[1.0], [1.0, 2.0]],
    Fraction(1, 2),
    np.array([1, 2], dtype=object),
    np.array([True]),
    np.array("2020-01-01", dtype="M8[D]"),
    np.ma.array([0.5, 0.5], mask=[False, True]),
]


def bad_values(function, name):
    for value in BAD_VALUES[name]:
        below_zero = isinstance(value, float) and -INF < value < 0
        if below_zero and (function, name) in BELOW_ZERO_ALLOWED:
            continue
        if (name, value) == ("norms", [1.1, 1.0]) and function is individual_norms:
            continue  # clipped
        yield value


def wrong_types(function, name):
    for value in WRONG_TYPES:
        if value is None and (function, name) in MAY_BE_NONE:
            continue
        if name == "sample_rate" and value is None and function in TAKES_SAMPLING:
            continue  # asks for sampling instead: tested below
        if name in NAMES_ONLY and isinstance(value, str):
            continue  # a wrong name, not a wrong type
        yield value


def label(function):
    return getattr(function, "__qualname__", str(function))


ARGUMENTS = [
    pytest.param(function, name, id=f"{label(function)} {name}")
    for function in GOOD
    for name in GOOD[function]
]
"""All values of an argument are one test: a test of its own takes longer than the call of one value."""


def not_refused(function, name, value, error, *words):
    """Return what is wrong with the answer to one bad value among good ones; None where all is right."""
    try:
        found = function(**{**GOOD[function], name: value})
    except error as caught:
        missing = [word for word in words if not re.search(word, str(caught))]
        return f"{value!r}: {caught!r} does not say {missing}" if missing else None
    except Exception as caught:
        return f"{value!r}: {caught!r} is no {error.__name__}"
    return f"{value!r} is taken, with the answer {found!r}"


def test_the_good_values_are_good():
    for function, good in GOOD.items():
        function(**good)


@pytest.mark.parametrize(("function", "name"), ARGUMENTS)
def test_a_bad_value_is_refused_by_name_and_range(function, name):
    words = [rf"\b{name}\b", RANGES.get(name, "")]
    found = [not_refused(function, name, value, ValueError, *words) for value in bad_values(function, name)]
    assert not any(found), [fault for fault in found if fault]


@pytest.mark.parametrize("function", [f for f, good in GOOD.items() if "group_size" in good], ids=label)
def test_only_renyi_bounds_take_groups_above_10_000(function):
    arguments = {**GOOD[function], "group_size": 10_001}
    if function in (group_rdp, hs.renyi.calibrate, hs.renyi.calibrate_dp, RenyiGroupAccountant):
        function(**arguments)
    else:
        with pytest.raises(ValueError, match=r"group_size must be .*10000"):
            function(**arguments)


@pytest.mark.parametrize(("function", "name"), ARGUMENTS)
def test_a_wrong_type_is_refused_by_name(function, name):
    found = [
        not_refused(function, name, value, TypeError, rf"\b{name}\b") for value in wrong_types(function, name)
    ]
    assert not any(found), [fault for fault in found if fault]


@pytest.mark.parametrize("function", GOOD, ids=label)
def test_one_bad_element_among_good_ones_is_refused(function):
    for name, good in GOOD[function].items():
        if name in (*NAMES_ONLY, "mechanism") or np.ndim(good) > 1:
            continue  # a string, a class or a matrix
        bad = [good, NAN] if np.ndim(good) == 0 else [*good[:-1], NAN]
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            function(**{**GOOD[function], name: bad})


@pytest.mark.parametrize("function", sorted(TAKES_SAMPLING, key=label), ids=label)
def test_exactly_one_of_sample_rate_and_sampling_is_needed(function):
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        function(**{**GOOD[function], "sample_rate": None})
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        function(**GOOD[function], sampling=hs.Poisson(0.1))


def test_other_sampling_schemes_are_refused():
    class Shuffle:
        pass

    arguments = {k: v for k, v in GOOD[hs.get_epsilon].items() if k != "sample_rate"}
    with pytest.raises(hs.UnsupportedError, match=r"use Poisson\(sample_rate\).*WithoutReplacement"):
        hs.get_epsilon(**arguments, sampling=Shuffle())
    for wrong in (0.1, "poisson", hs.Poisson, [hs.Poisson(0.1)]):
        with pytest.raises(TypeError, match="sampling"):
            hs.get_epsilon(**arguments, sampling=wrong)


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ValueError, match=r"delta \(2,\).*steps \(3,\)"):
        hs.get_epsilon(delta=[1e-5, 1e-6], noise_multiplier=1.0, sample_rate=0.1, steps=[1, 2, 3])
    with pytest.raises(ValueError, match="delta must broadcast against the leading axes of rdp"):
        kernels.rdp_to_epsilon([2.0], np.ones((3, 1)), [1e-5, 1e-6])


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_an_empty_array_of_orders_is_refused(shape):
    orders = np.empty(shape)
    for function, arguments in [
        (kernels.renyi_mixture, (orders, [1.0], [1.0], 1.0, "add")),
        (kernels.renyi_group_bound, (orders, np.empty((3, 0)), 0.1)),
        (kernels.rdp_to_epsilon, (orders, [], 1e-5)),
        (kernels.rdp_to_delta, (orders, [], 1.0)),
        (RenyiGroupAccountant().get_renyi, (orders,)),
        (RenyiGroupAccountant, (1, "exact", orders)),
    ]:
        with pytest.raises(ValueError, match="orders"):
            function(*arguments)


def test_an_empty_array_of_epsilons_asks_for_nothing():
    found = kernels.monte_carlo_delta([], [1.0], [1.0], 1.0, 1, samples=10, direction="add", seed=0)
    assert [part.shape for part in found] == [(0,)] * 3


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, np.longdouble]
)
def test_arrays_of_every_real_dtype_give_the_answer_of_float64(kind):
    weights = np.array([0, 1], dtype=kind)
    shifts = np.array([0, 2], dtype=kind)
    orders = np.array([2, 5], dtype=kind)
    expected = kernels.renyi_mixture([2.0, 5.0], [0.0, 1.0], [0.0, 2.0], 3.0, "remove")
    assert np.array_equal(kernels.renyi_mixture(orders, weights, shifts, kind(3), "remove"), expected)
    assert np.array_equal(
        kernels.rdp_to_epsilon(orders, orders, 0.01), kernels.rdp_to_epsilon([2.0, 5.0], [2.0, 5.0], 0.01)
    )


def test_arrays_of_any_stride_give_the_answer_of_contiguous_ones():
    weights, shifts = kernels.binomial_law(6, 0.3)
    orders = np.array([2.0, 3.0, 10.0])

    def spread(array):
        wide = np.full((array.size, 3), NAN)
        wide[:, 1] = array
        return wide[:, 1]

    expected = kernels.renyi_mixture(orders, weights, shifts, 1.0, "add")
    for change in (spread, lambda a: a[::-1].copy()[::-1], np.asfortranarray, list, tuple):
        got = kernels.renyi_mixture(change(orders), change(weights), change(shifts), 1.0, "add")
        assert np.array_equal(got, expected)
    x = np.linspace(-3, 3, 20).reshape(4, 5)
    values = kernels.log_likelihood_ratio(x, weights, shifts, 1.0)
    assert np.array_equal(kernels.log_likelihood_ratio(x.T, weights, shifts, 1.0), values.T)
    rdp = np.random.default_rng(0).uniform(0, 1, (3, 4))
    expected = kernels.rdp_to_epsilon(orders, np.ascontiguousarray(rdp.T), 1e-5)
    assert np.array_equal(kernels.rdp_to_epsilon(orders, rdp.T, 1e-5), expected)
    components = np.outer([0.0, 1.0, 4.0], orders)
    expected = kernels.renyi_group_bound(orders, components, 0.2)
    assert np.array_equal(kernels.renyi_group_bound(orders, np.asfortranarray(components), 0.2), expected)


def test_other_byte_orders_and_read_only_arrays_are_taken():
    swapped = np.array([2.0, 3.0]).astype(">f8")
    frozen = np.array([0.9, 0.1])
    frozen.setflags(write=False)
    expected = kernels.renyi_mixture([2.0, 3.0], [0.9, 0.1], [0.0, 1.0], 1.0, "add")
    assert np.array_equal(kernels.renyi_mixture(swapped, frozen, [0.0, 1.0], 1.0, "add"), expected)


def test_arguments_are_left_as_they_were():
    arrays = {"weights": np.array([0.1, 0.9]), "shifts": np.array([1.0, 0.0]), "orders": np.array([3.0, 2.0])}
    before = {name: array.copy() for name, array in arrays.items()}
    kernels.renyi_mixture(**arrays, noise_multiplier=1.0, direction="add")
    assert all(np.array_equal(arrays[name], before[name]) for name in arrays)
