"""Group laws against mpmath, to a relative error of 1e-13 in the weight."""

import by_definition
import mpmath as mp
import numpy as np
import pytest

from hockeystick import kernels

TOLERANCE = 1e-13


def largest_log_error(log_weights, weights):
    """Largest error of a logarithm that is not explained by the rounding of the logarithm itself."""
    errors = [
        abs(mp.mpf(float(got)) - mp.log(w)) - 2 * abs(float(got)) * 2.3e-16
        for got, w in zip(log_weights, weights, strict=True)
    ]
    return float(max(errors))


@pytest.mark.parametrize(
    ("group_size", "sample_rate"),
    [(1, 0.25), (16, 0.03), (10_000, 0.01), (10_000, 0.5), (10_000, 1e-9), (777, 0.999)],
)
def test_binomial_law_is_exact(group_size, sample_rate):
    weights, shifts = by_definition.binomial(group_size, sample_rate)
    log_weights, got_shifts = kernels.binomial_law(group_size, sample_rate, log=True)
    assert got_shifts.tolist() == shifts
    assert largest_log_error(log_weights, weights) <= TOLERANCE


def test_poisson_binomial_law_is_exact():
    rates = (np.arange(300) * 37 % 101) / 103
    weights, shifts = by_definition.poisson_binomial(rates.tolist())
    positive = [(w, s) for w, s in zip(weights, shifts, strict=True) if w > 0]
    log_weights, got_shifts = kernels.poisson_binomial_law(rates, log=True)
    assert got_shifts.tolist() == [s for _, s in positive]
    assert largest_log_error(log_weights, [w for w, _ in positive]) <= TOLERANCE


def test_ten_thousand_different_rates_keep_the_mean_the_variance_and_both_ends():
    rates = np.linspace(1e-4, 0.9, 10_000)
    log_weights, shifts = kernels.poisson_binomial_law(rates, log=True)
    weights = np.exp(log_weights)
    assert weights @ shifts == pytest.approx(rates.sum(), rel=1e-12)
    assert weights @ (shifts - rates.sum()) ** 2 == pytest.approx((rates * (1 - rates)).sum(), rel=1e-10)
    assert log_weights[0] == pytest.approx(np.log1p(-rates).sum(), rel=1e-13)
    assert log_weights[-1] == pytest.approx(np.log(rates).sum(), rel=1e-13)


@pytest.mark.parametrize("sample_rate", [0.01, 0.5])
def test_equal_rates_make_the_binomial_law(sample_rate):
    binomial = kernels.binomial_law(10_000, sample_rate, log=True)
    poisson_binomial = kernels.poisson_binomial_law(np.full(10_000, sample_rate), log=True)
    np.testing.assert_allclose(poisson_binomial[0], binomial[0], rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize(
    ("group_size", "batch_size", "dataset_size"),
    [(1, 256, 60_000), (16, 1024, 50_000), (10_000, 5_000, 12_000), (10_000, 64, 10**9), (5, 5, 5)],
)
def test_hypergeometric_law_is_exact(group_size, batch_size, dataset_size):
    weights, shifts = by_definition.hypergeometric(group_size, batch_size, dataset_size)
    log_weights, got_shifts = kernels.hypergeometric_law(group_size, batch_size, dataset_size, log=True)
    assert got_shifts.tolist() == shifts
    assert largest_log_error(log_weights, weights) <= TOLERANCE


def test_linear_weights_are_exact_and_sum_to_one():
    weights, _ = kernels.binomial_law(100, 0.3)
    expected, _ = by_definition.binomial(100, 0.3)
    np.testing.assert_allclose(weights, [float(w) for w in expected], rtol=TOLERANCE)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)


def test_rates_of_zero_and_one_leave_a_single_count():
    assert [part.tolist() for part in kernels.binomial_law(3, 0.0)] == [[1.0], [0.0]]
    assert [part.tolist() for part in kernels.binomial_law(3, 1.0)] == [[1.0], [3.0]]
    assert [part.tolist() for part in kernels.poisson_binomial_law([1.0, 0.0])] == [[1.0], [1.0]]


def test_weights_that_underflow_are_announced():
    with pytest.warns(RuntimeWarning, match="log=True"):
        kernels.binomial_law(10_000, 0.01)
