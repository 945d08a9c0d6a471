"""Exact Rényi divergences against the reference table and against slow independent values."""

import by_definition
import numpy as np
import pytest
from reference_rows import mixture, rows

from hockeystick import kernels

TOLERANCE = 1e-10  # what renyi_mixture promises


@pytest.mark.parametrize(
    "row", rows("renyi.csv"), ids=lambda r: f"{r['weights']} {r['direction']} {r['order']}"
)
def test_renyi_mixture_meets_every_reference_row(row):
    weights, shifts = mixture(row["weights"])
    value = kernels.renyi_mixture(float(row["order"]), weights, shifts, float(row["sigma"]), row["direction"])
    assert value == pytest.approx(float(row["divergence"]), rel=TOLERANCE, abs=0)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("order", [1.0000000000000002, 1.000000001, 1.0001, 1.25, 2.0, 3.7, 20.5, 300.0])
@pytest.mark.parametrize(
    ("group_size", "sigma", "sample_rate"),
    [
        (1, "0.5", "0.001"),
        (4, "2.0", "0.05"),
        pytest.param(24, "0.5", "0.1", marks=pytest.mark.long),
        (8, "0.5", "0.1"),
        (32, "10", "0.00001"),
        (3, "100", "0.5"),
        (2, "0.7", "0.999"),
    ],
)
def test_renyi_mixture_meets_extended_precision_quadrature(group_size, sigma, sample_rate, order, direction):
    weights, shifts = by_definition.binomial(group_size, sample_rate)
    expected = by_definition.renyi_by_quadrature(order, sigma, weights, shifts, direction)
    law = kernels.binomial_law(group_size, float(sample_rate), log=True)
    value = kernels.renyi_mixture(order, *law, float(sigma), direction, log_weights=True)
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


@pytest.mark.parametrize("order", [2, 3])
def test_a_group_of_64_with_little_noise_meets_the_expanded_power(order):
    weights, shifts = by_definition.binomial(64, "0.1")
    if order == 3:  # keep the triple sum short: 24 members
        weights, shifts = by_definition.binomial(24, "0.1")
    expected = float(by_definition.renyi_of_whole_order(order, "0.3", weights, shifts))
    law = kernels.binomial_law(len(shifts) - 1, 0.1, log=True)
    value = kernels.renyi_mixture(float(order), *law, 0.3, "remove", log_weights=True)
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "sample_rate"), [("1.0", "0.01"), ("20", "0.3"), ("0.5", "0.5")])
@pytest.mark.parametrize("order", [2, 17, 1000, 10_000])
def test_one_record_meets_the_binomial_theorem_up_to_the_largest_order(order, sigma, sample_rate):
    expected = float(by_definition.renyi_of_one_record(order, sigma, sample_rate))
    law = kernels.binomial_law(1, float(sample_rate))
    value = kernels.renyi_mixture(float(order), *law, float(sigma), "remove")
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("order", [1.25, 7.5])
def test_a_group_of_64_with_little_noise_meets_extended_precision_quadrature(order, direction):
    weights, shifts = by_definition.binomial(64, "0.1")
    expected = by_definition.renyi_by_quadrature(order, "0.3", weights, shifts, direction)
    law = kernels.binomial_law(64, 0.1, log=True)
    value = kernels.renyi_mixture(order, *law, 0.3, direction, log_weights=True)
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


SEPARATED = [
    # (group size, sample rate, sigma): neighbouring components 50 standard deviations apart or more
    (1, 0.5, 1e-2),
    (1, 0.5, 1e-3),
    (1, 0.5, 1e-5),
    (1, 0.5, 1e-8),
    (1, 0.5, 1e-20),
    (1, 0.5, 1e-90),
    (1000, 0.001, 0.02),
    (10_000, 1e-5, 0.02),
]


@pytest.mark.parametrize("order", [1.5, 2.0, 30.0])
@pytest.mark.parametrize(("group_size", "sample_rate", "sigma"), SEPARATED)
def test_with_separated_components_adding_is_seen_by_the_weight_of_an_empty_batch(
    group_size, sample_rate, sigma, order
):
    # Under N(0) the loss is -log w_0 but for an event of probability below Phi(-25).
    law = kernels.binomial_law(group_size, sample_rate, log=True)
    value = kernels.renyi_mixture(order, *law, sigma, "add", log_weights=True)
    assert value == pytest.approx(-group_size * np.log1p(-sample_rate), rel=TOLERANCE, abs=0)


@pytest.mark.parametrize(("group_size", "sample_rate", "sigma"), [c for c in SEPARATED if c[0] <= 1000])
def test_with_separated_components_removing_meets_the_double_sum(group_size, sample_rate, sigma):
    law = log_weights, shifts = kernels.binomial_law(group_size, sample_rate, log=True)
    exponents = log_weights[:, None] + log_weights + np.outer(shifts, shifts) / sigma / sigma
    expected = exponents.max() + np.log(np.exp(exponents - exponents.max()).sum())
    value = kernels.renyi_mixture(2.0, *law, sigma, "remove", log_weights=True)
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


def test_ten_thousand_members_at_order_two_meet_the_double_sum():
    # D_2 = log(1 + sum w_i w_j expm1(s_i s_j / sigma^2)): every term is at least zero.
    sigma, (log_weights, shifts) = 2000.0, kernels.binomial_law(10_000, 0.01, log=True)
    weights = np.exp(log_weights)
    near = weights > 1e-40
    terms = np.expm1(np.outer(shifts[near], shifts[near]) / sigma**2)
    expected = np.log1p(weights[near] @ terms @ weights[near])
    value = kernels.renyi_mixture(2.0, log_weights, shifts, sigma, "remove", log_weights=True)
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


def test_components_at_negative_and_uneven_shifts_meet_quadrature():
    weights, shifts = [0.2, 0.5, 0.3], [-1.3, 0.0, 0.45]
    for direction in ("remove", "add"):
        expected = by_definition.renyi_by_quadrature(2.5, "0.8", weights, shifts, direction)
        value = kernels.renyi_mixture(2.5, weights, shifts, 0.8, direction)
        assert value == pytest.approx(expected, rel=TOLERANCE, abs=0)


def test_equal_pairs_have_divergence_zero_and_no_noise_an_infinite_one():
    assert kernels.renyi_mixture(2.0, [1.0], [0.0], 1.0, "remove") == 0.0
    assert kernels.renyi_mixture(2.0, [0.5, 0.5], [0.0, 1.0], 0.0, "remove") == np.inf
