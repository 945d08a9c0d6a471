"""Rényi accounts of many examples, against quadrature of the definition in extended precision."""

import hashlib
import os
import subprocess
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from hockeystick import kernels

ORDERS = [1.25, 2.0, 7.5, 64.0]


def by_quadrature(norm, order, sigma, rate, digits=40):
    """D_order of one step from its definition, by the trapezoid rule for y = x/sigma in the law N(0, 1).

    On the line Im y = a the modulus of the integrand is at most e^{a²/2} times that on the real line, and
    there is no singularity for a < pi sigma/norm: the rule errs by less than e^{a²/2 - 2 pi a/h}.
    """
    with mp.workdps(digits):
        t, q, order = mp.mpf(norm) / mp.mpf(sigma), mp.mpf(rate), mp.mpf(order)
        level = digits * mp.log(10)
        height = min(mp.pi / t * mp.mpf("0.9"), mp.sqrt(2 * level))
        h = 2 * mp.pi * height / (level + height**2 / 2)
        margin = mp.sqrt(2 * level)
        count = int((2 * margin + order * t) / h) + 1
        y, total = -margin, mp.mpf(0)
        ratio, factor = mp.exp(t * y - t**2 / 2), mp.exp(t * h)
        for _ in range(count + 1):
            total += mp.exp(order * mp.log1p(q * (ratio - 1)) - y**2 / 2)
            y, ratio = y + h, ratio * factor
        return mp.log(total * h / mp.sqrt(2 * mp.pi)) / (order - 1)


def by_binomial_theorem(norm, order, sigma, rate, digits=60):
    """The same for a whole order, as a finite sum."""
    with mp.workdps(digits):
        v, q = (mp.mpf(norm) / mp.mpf(sigma)) ** 2, mp.mpf(rate)
        terms = (
            mp.binomial(order, j) * (1 - q) ** (order - j) * q**j * mp.exp(j * (j - 1) * v / 2)
            for j in range(order + 1)
        )
        return mp.log(mp.fsum(terms)) / (order - 1)


def cases(count, seed):
    rng = np.random.default_rng(seed)
    for i in range(count):
        norm = float(10 ** rng.uniform(-4, 0))
        sigma = float(10 ** rng.uniform(-0.4, 1.3))
        order = float(1 + 10 ** rng.uniform(-12 if i % 4 == 1 else -3, 1.8))
        rate = float(10 ** rng.uniform(-5, 0))
        if i % 4 == 0:  # near and past the phase transition of the order
            norm, sigma, rate = float(rng.uniform(0.3, 1.0)), float(rng.uniform(0.8, 2.0)), 0.08
            order = float(rng.uniform(5.0, 64.0))
        if i % 60 == 0:
            order = float(rng.uniform(180.0, 220.0))
        yield norm, order, sigma, rate


def added(norm, order, sigma, rate, steps=1):
    rdp = np.zeros((1, 1))
    kernels.accumulate_rdp(rdp, [norm], [order], sigma, rate, steps=steps)
    return float(rdp[0, 0])


def assert_just_above(found, exact):
    with mp.workdps(60):
        assert exact <= mp.mpf(found) <= exact * (1 + mp.mpf("1e-10"))


def test_both_ways_of_this_file_agree():
    for norm, order, sigma, rate in ((0.3, 2, 1.0, 0.1), (1.0, 30, 1.0, 0.08), (1e-3, 5, 2.0, 1e-3)):
        one, other = by_quadrature(norm, order, sigma, rate), by_binomial_theorem(norm, order, sigma, rate)
        assert abs(one / other - 1) < 1e-14


@pytest.mark.parametrize("case", list(cases(40, 0)), ids="{0[0]:.2g}-{0[1]:.3g}-{0[2]:.2g}-{0[3]:.2g}".format)
def test_an_account_is_the_divergence_by_definition(case):
    assert_just_above(added(*case), by_quadrature(*case))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_accounts_are_the_divergences_by_definition(seed):
    for case in cases(60, seed):
        assert_just_above(added(*case), by_quadrature(*case))


@pytest.mark.parametrize("order", [2, 3, 8, 16, 17, 24, 32, 48, 64, 199])
def test_accounts_pass_the_phase_transition_without_a_kink(order):
    norms = np.linspace(0.02, 1.0, 50)
    rdp = np.zeros((50, 1))
    kernels.accumulate_rdp(rdp, norms, [order], 1.0, 0.08)
    for norm, found in zip(norms, rdp[:, 0], strict=True):
        assert_just_above(found, by_binomial_theorem(norm, order, 1.0, 0.08))
    assert np.all(np.diff(rdp[:, 0]) > 0.0)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 30.0, 1e4])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 0.999, 1 - 1e-12])
def test_extreme_noise_and_rates_keep_the_accuracy(sigma, rate):
    for norm in (1e-6, 0.01, 0.7, 1.0, 40.0):
        for order in (2, 5, 33):
            with mp.workdps(60):
                exact = by_binomial_theorem(norm, order, sigma, rate)
            assert_just_above(added(norm, order, sigma, rate), exact)


@pytest.mark.parametrize("order", [1.0 + 1e-9, 1.0001, 1e4])
def test_the_ends_of_the_orders_keep_the_accuracy(order):
    for norm, sigma, rate in ((0.02, 2.0, 0.01), (0.3, 5.0, 0.2)):
        exact = by_quadrature(norm, order, sigma, rate, digits=50)
        assert_just_above(added(norm, order, sigma, rate), exact)


def test_a_norm_so_small_that_its_divergence_underflows_adds_next_to_nothing_but_something():
    for norm in (1e-120, 1e-155, 1e-161, 1e-200, 5e-324):
        assert 0.0 < added(norm, 2.0, 1.0, 0.1) <= 1e-61


def test_float32_norms_and_lists_are_their_values_in_float64():
    norms = np.random.default_rng(0).uniform(0, 1, 50).astype(np.float32)
    found = []
    for kind in (norms, norms.astype(np.float64), norms.tolist(), norms[::-1][::-1]):
        rdp = np.zeros((50, 4))
        kernels.accumulate_rdp(rdp, kind, ORDERS, 1.0, 0.08)
        found.append(rdp)
    for rdp in found[1:]:
        np.testing.assert_array_equal(rdp, found[0])
    assert_just_above(found[0][3, 1], by_quadrature(norms[3].item(), 2.0, 1.0, 0.08))


NORMS = np.random.default_rng(1).uniform(0, 1, (3, 5))


def rdp_of_stride(name):
    rng = np.random.default_rng(2)
    start = rng.uniform(0, 1, (3, 5, 4))
    if name == "contiguous":
        return start
    if name == "fortran":
        return np.asfortranarray(start)
    if name == "every second":
        wide = np.full((6, 10, 8), -7.0)
        wide[::2, ::2, ::2] = start
        return wide[::2, ::2, ::2]
    if name == "backwards":
        return start[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]
    if name == "orders first":
        return np.moveaxis(np.moveaxis(start, 2, 0).copy(), 0, 2)
    wide = np.full((3, 5, 9), -7.0)
    wide[..., 2:6] = start
    return wide[..., 2:6]


STRIDES = ["contiguous", "fortran", "every second", "backwards", "orders first", "columns of a wider one"]


@pytest.mark.parametrize("name", STRIDES)
def test_arrays_of_any_stride_are_changed_in_place_to_the_same_bits(name):
    rdp, expected = rdp_of_stride(name), rdp_of_stride("contiguous")
    kernels.accumulate_rdp(expected, NORMS, ORDERS, 1.0, 0.08, steps=7)
    whole = rdp if rdp.base is None else rdp.base
    outside = np.count_nonzero(whole == -7.0)
    kernels.accumulate_rdp(rdp, np.asfortranarray(NORMS), ORDERS, 1.0, 0.08, steps=7)
    np.testing.assert_array_equal(rdp, expected)
    assert np.count_nonzero(whole == -7.0) == outside


def test_accounts_in_the_fields_of_records_are_changed_and_their_neighbours_left():
    # Room behind the records, for what a wrong stride may write.
    records = np.zeros(50, dtype=[("name", "i1"), ("rdp", "f8", (2,))])
    rdp = records["rdp"][:3]
    try:
        kernels.accumulate_rdp(rdp, [0.1, 0.5, 1.0], [2.0, 8.0], 2.0, 0.01)
    except ValueError:
        np.testing.assert_array_equal(rdp, 0.0)
    else:
        expected = np.zeros((3, 2))
        kernels.accumulate_rdp(expected, [0.1, 0.5, 1.0], [2.0, 8.0], 2.0, 0.01)
        np.testing.assert_array_equal(rdp, expected)
    assert not np.any(records["name"])


def test_a_file_mapped_into_memory_is_changed(tmp_path):
    mapped = np.memmap(tmp_path / "rdp", dtype=np.float64, mode="w+", shape=(15, 4))
    expected = np.zeros((15, 4))
    for _ in range(3):
        kernels.accumulate_rdp(mapped, NORMS.ravel(), ORDERS, 1.0, 0.08)
        kernels.accumulate_rdp(expected, NORMS.ravel(), ORDERS, 1.0, 0.08)
    mapped.flush()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "rdp").reshape(15, 4), expected)


def test_one_norm_without_axes_has_one_row():
    rdp, expected = np.zeros(4), np.zeros((1, 4))
    kernels.accumulate_rdp(rdp, 0.4, ORDERS, 1.0, 0.08)
    kernels.accumulate_rdp(expected, [0.4], ORDERS, 1.0, 0.08)
    np.testing.assert_array_equal(rdp, expected[0])


@pytest.mark.parametrize("steps", [0, 1, 2, 10, 1000])
def test_many_steps_are_as_many_calls(steps):
    one, many = np.zeros((15, 4)), np.zeros((15, 4))
    kernels.accumulate_rdp(one, NORMS.ravel(), ORDERS, 1.3, 0.03, steps=steps)
    for _ in range(steps):
        kernels.accumulate_rdp(many, NORMS.ravel(), ORDERS, 1.3, 0.03)
    np.testing.assert_allclose(one, many, rtol=1e-14 * max(1, steps**0.5 / 4), atol=0.0)


def test_nothing_is_spent_by_a_zero_norm_or_without_sampling():
    rdp = np.full((3, 4), 0.25)
    kernels.accumulate_rdp(rdp, [0.0, 0.0, 0.0], ORDERS, 1.0, 0.5, steps=100)
    kernels.accumulate_rdp(rdp, [0.0, 0.5, 1.0], ORDERS, 1.0, 0.0, steps=100)
    kernels.accumulate_rdp(rdp, [0.0, 0.5, 1.0], ORDERS, 0.0, 0.0, steps=100)
    kernels.accumulate_rdp(rdp, [0.0, 0.0, 0.0], ORDERS, 0.0, 1.0, steps=100)
    np.testing.assert_array_equal(rdp, 0.25)


def test_no_noise_costs_everything_and_leaves_zero_norms_alone():
    rdp = np.full((3, 4), 0.25)
    kernels.accumulate_rdp(rdp, [0.0, 1e-3, 1.0], ORDERS, 0.0, 0.01)
    np.testing.assert_array_equal(rdp, [[0.25] * 4, [np.inf] * 4, [np.inf] * 4])
    kernels.accumulate_rdp(rdp, [1.0, 1.0, 0.0], ORDERS, 1.0, 0.01)
    assert np.all(np.isfinite(rdp[0]))
    np.testing.assert_array_equal(rdp[1:], np.inf)


def test_every_example_in_every_batch_is_a_gaussian_step():
    norms, orders = np.geomspace(1e-5, 1.0, 40), np.array(ORDERS)
    rdp = np.zeros((40, 4))
    kernels.accumulate_rdp(rdp, norms, orders, 0.8, 1.0, steps=3)
    exact = 3 * orders * norms[:, None] ** 2 / (2 * 0.8**2)
    assert np.all(rdp >= exact * (1 - 1e-15))
    np.testing.assert_allclose(rdp, exact, rtol=1e-10)


@pytest.mark.parametrize("columns", [slice(None), slice(None, None, -1)])
def test_sums_of_gaussian_steps_are_never_below_the_exact_sum(columns):
    rdp = np.zeros((1, 2))[:, columns]
    for count in range(1, 1001):
        kernels.accumulate_rdp(rdp, [1.0], [2.0, 3.0], 11.0, 1.0)
        # D is alpha / (2 * 11²).
        for found, order in zip(rdp[0].tolist(), (2, 3), strict=True):
            assert Fraction(found) >= Fraction(count * order, 242)
    np.testing.assert_allclose(rdp[0], [1000 / 121, 1500 / 121], rtol=1e-12)
    assert 0.0 < added(1e-170, 2.0, 1.0, 1.0) <= 1e-280


@pytest.mark.parametrize("seed", range(3))
def test_steep_divergences_of_large_orders_are_not_rounded_down(seed):
    # At the phase transition D changes by up to order * log(1/q) times as much as (norm / sigma)².
    rng = np.random.default_rng(seed)
    for rate, order in ((1e-6, 300), (1e-5, 1000)):
        v = -2 * order * np.log(rate) / (order * (order - 1)) * (1 - rng.uniform(0.0, 3e-3))
        norm = float(rng.uniform(0.1, 1.0))
        sigma = norm / float(v) ** 0.5
        exact = by_binomial_theorem(norm, order, sigma, rate)
        with mp.workdps(60):
            limit = exact * (1 + mp.mpf("1e-10") - mp.mpf("1e-14") * order * mp.log(rate))
            assert exact <= mp.mpf(added(norm, order, sigma, rate)) <= limit


def test_empty_arrays_stay_empty():
    for shape in ((0,), (0, 3), (2, 0)):
        rdp = np.zeros((*shape, 4))
        kernels.accumulate_rdp(rdp, np.zeros(shape), ORDERS, 1.0, 0.1)
        assert rdp.shape == (*shape, 4)


def test_an_example_has_the_same_bits_at_any_place_and_with_any_neighbours():
    rng = np.random.default_rng(3)
    norms = np.concatenate((rng.uniform(0, 1, 3000), 10 ** rng.uniform(-6, 0, 3000), [0.0, 1.0]))
    rdp = np.zeros((len(norms), 4))
    kernels.accumulate_rdp(rdp, norms, ORDERS, 0.7, 0.08, steps=11)
    order = rng.permutation(len(norms))
    mixed = np.zeros_like(rdp)
    kernels.accumulate_rdp(mixed, norms[order], ORDERS, 0.7, 0.08, steps=11)
    np.testing.assert_array_equal(mixed, rdp[order])
    for i in (0, 1, 2999, 3500, 6001):
        alone = np.zeros((1, 4))
        kernels.accumulate_rdp(alone, norms[i : i + 1], ORDERS, 0.7, 0.08, steps=11)
        np.testing.assert_array_equal(alone[0], rdp[i])


def test_larger_norms_never_cost_less():
    norms = np.linspace(0.0, 1.2, 20_001)
    rdp = np.zeros((len(norms), 4))
    kernels.accumulate_rdp(rdp, norms, ORDERS, 0.9, 0.05)
    # To the accuracy of the values.
    assert np.all(np.diff(rdp, axis=0) >= -1e-10 * rdp[1:])


THREADS = """
import hashlib
import numpy as np
from hockeystick import kernels
norms = np.random.default_rng(4).uniform(0, 1, 20_000)
rdp = np.zeros((20_000, 3))
kernels.accumulate_rdp(rdp, norms, [1.5, 8.0, 40.0], 1.1, 0.04, steps=3)
kernels.accumulate_rdp(rdp, norms[::-1], [1.5, 8.0, 40.0], 1.1, 0.07)
print(hashlib.sha256(rdp.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit():
    found = set()
    for threads in ("1", "2", "7"):
        run = subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == hashlib.sha256().digest_size * 2


def frozen():
    array = np.full((4, 2), 0.5)
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"norms": [0.1, -0.2, 0.3, 0.4]}, ValueError, r"norms.*-0\.2.*1"),
        ({"norms": [0.1, 0.2, np.nan, -1.0]}, ValueError, r"(?i)norms.*nan.*2.*-1.*3"),
        ({"norms": [0.1, 0.2, 0.3, np.inf]}, ValueError, r"norms.*inf.*3"),
        ({"norms": [0.1, 0.2, 0.3]}, ValueError, "rdp"),
        ({"norms": [[0.1, 0.2, 0.3, 0.4]]}, ValueError, "rdp"),
        ({"norms": ["a"] * 4}, TypeError, "norms"),
        ({"norms": [None] * 4}, TypeError, "norms"),
        ({"norms": [True] * 4}, TypeError, "norms"),
        ({"orders": [2.0]}, ValueError, "rdp"),
        ({"orders": [2.0, 1.0]}, ValueError, "orders"),
        ({"orders": [2.0, np.nan]}, ValueError, "orders"),
        ({"orders": [2.0, 1e4 + 1]}, ValueError, "orders"),
        ({"noise_multiplier": -1.0}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": np.nan}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": [1.0, 2.0]}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": [[1.0], [2.0]]}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": [1.0, 1.0, 1.0, -1.0]}, ValueError, "noise_multiplier"),
        ({"sample_rate": [0.1, 0.1, 0.1, 1.1]}, ValueError, "sample_rate"),
        ({"steps": [1, 1, 1, -1]}, ValueError, "steps"),
        ({"sample_rate": 1.1}, ValueError, "sample_rate"),
        ({"sample_rate": np.nan}, ValueError, "sample_rate"),
        ({"steps": -1}, ValueError, "steps"),
        ({"steps": 1.5}, ValueError, "steps"),
        ({"rdp": frozen()}, ValueError, "rdp.*read-only"),
        ({"rdp": np.full((4, 2), 0.5, np.float32)}, TypeError, "rdp.*float64.*float32"),
        ({"rdp": np.full((4, 2), 1)}, TypeError, "rdp.*float64.*int64"),
        ({"rdp": np.full((4, 2), 0.5).astype(">f8")}, TypeError, "rdp.*float64"),
        ({"rdp": [[0.5, 0.5]] * 4}, TypeError, "rdp.*list"),
        ({"rdp": np.full((2, 4), 0.5)}, ValueError, r"rdp.*\(4, 2\)"),
        ({"rdp": np.full(8, 0.5)}, ValueError, r"rdp.*\(4, 2\)"),
    ],
)
def test_bad_input_is_named_and_leaves_the_accounts_untouched(changes, error, message):
    usual = {"rdp": np.full((4, 2), 0.5), "norms": [0.1, 0.2, 0.3, 0.4], "orders": [2.0, 3.0]}
    arguments = usual | {"noise_multiplier": 1.0, "sample_rate": 0.1} | changes
    before = np.array(arguments["rdp"])
    with pytest.raises(error, match=message):
        kernels.accumulate_rdp(**arguments)
    np.testing.assert_array_equal(np.array(arguments["rdp"]), before)


def test_noise_rates_and_steps_of_examples_broadcast():
    norms, orders = np.array([[0.1, 0.5, 1.0], [0.2, 0.0, 0.7]]), [2.0, 8.0]
    noise, rates, steps = np.array([1.0, 2.0, 1.0]), np.array([[0.1], [0.02]]), [[3, 3, 0], [1, 2, 3]]
    rdp = np.full((2, 3, 2), 0.25)
    kernels.accumulate_rdp(rdp, norms, orders, noise, rates, steps=steps)
    for i, j in np.ndindex(2, 3):
        alone = np.full((1, 2), 0.25)
        kernels.accumulate_rdp(alone, norms[i, j, None], orders, noise[j], rates[i, 0], steps=steps[i][j])
        np.testing.assert_array_equal(rdp[i, j], alone[0])


def test_bad_norms_in_several_axes_are_named_by_their_indices():
    norms = np.full((20, 3), 0.5)
    norms[7, 1] = -3.0
    rdp = np.zeros((20, 3, 1))
    with pytest.raises(ValueError, match=r"norms.*-3.*(\(7, 1\)|\[7, 1\]|22)"):
        kernels.accumulate_rdp(rdp, norms, [2.0], 1.0, 0.1)
    assert not np.any(rdp)


def test_large_orders_of_small_norms_are_numbers():
    norms, orders = np.geomspace(1e-3, 1.0, 300), np.array([300.0, 501.0, 900.0])
    rdp = np.zeros((300, 3))
    kernels.accumulate_rdp(rdp, norms, orders, 1.0, 0.02)
    assert np.all(np.isfinite(rdp))
    assert np.all(np.diff(rdp, axis=0) > 0.0)


@pytest.mark.parametrize("rate", [1e-140, 1e-160, 1e-300])
@pytest.mark.parametrize("sigma", [0.3, 30.0])
def test_rates_whose_squares_underflow_still_have_upper_bounds(rate, sigma):
    orders = [2, 20, 60, 200]
    rdp = np.zeros((1, len(orders)))
    kernels.accumulate_rdp(rdp, [0.9], orders, sigma, rate)
    for order, found in zip(orders, rdp[0], strict=True):
        exact = by_binomial_theorem(0.9, order, sigma, rate, digits=650)
        assert 0 < exact <= mp.mpf(found) <= exact * (1 + mp.mpf("1e-10")) + mp.mpf("1e-280")
