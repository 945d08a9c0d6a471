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


@pytest.mark.slow
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


@pytest.mark.slow
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


def laws_one_by_one(law, *arguments):
    """One call for each element of the broadcast arguments: its index and its law."""
    arrays = np.broadcast_arrays(*map(np.asarray, arguments))
    return [
        (index, law(*(array[index].item() for array in arrays), log=True))
        for index in np.ndindex(arrays[0].shape)
    ]


@pytest.mark.parametrize(
    ("law", "arguments"),
    [
        (kernels.binomial_law, ([[1], [3], [40]], [0.0, 0.01, 0.5, 1.0])),
        (kernels.binomial_law, (5, np.linspace(0.1, 0.9, 9)[::-2])),
        (kernels.hypergeometric_law, ([1, 4, 7], [[2], [9]], 10)),
    ],
)
def test_arguments_broadcast_and_shorter_laws_end_with_weights_of_zero(law, arguments):
    log_weights, shifts = law(*arguments, log=True)
    expected = laws_one_by_one(law, *arguments)
    longest = max(len(one) for _, (one, _) in expected)
    assert log_weights.shape == shifts.shape == (*np.broadcast_shapes(*map(np.shape, arguments)), longest)
    for index, (one, counts) in expected:
        assert log_weights[index][: len(one)].tolist() == one.tolist()
        assert shifts[index][: len(one)].tolist() == counts.tolist()
        assert np.all(log_weights[index][len(one) :] == -np.inf)
        assert np.all(shifts[index][len(one) :] == 0.0)


def test_rates_of_several_groups_lie_along_the_last_axis():
    rates = np.arange(1.0, 25.0).reshape(2, 3, 4) / 30
    rates[0, 0, 1:] = 0.0
    weights, shifts = kernels.poisson_binomial_law(rates)
    assert weights.shape == (2, 3, 5)
    for index in np.ndindex(2, 3):
        one, counts = kernels.poisson_binomial_law(rates[index])
        assert weights[index][: len(one)].tolist() == one.tolist()
        assert shifts[index][: len(one)].tolist() == counts.tolist()
    assert weights[0, 0].tolist() == [1 - rates[0, 0, 0], rates[0, 0, 0], 0.0, 0.0, 0.0]
    # Any strides will do.
    np.testing.assert_array_equal(kernels.poisson_binomial_law(rates.T.copy().T)[0], weights)


def test_a_law_that_ends_with_weights_of_zero_is_the_law_itself():
    weights, shifts = kernels.binomial_law([1, 9], 0.2)
    orders = [2.0, 7.5]
    for direction in ("add", "remove"):
        padded = kernels.renyi_mixture(orders, weights[0], shifts[0], 1.1, direction)
        alone = kernels.renyi_mixture(orders, *kernels.binomial_law(1, 0.2), 1.1, direction)
        assert padded.tolist() == alone.tolist()


def test_ends_of_shorter_laws_are_no_underflow(recwarn):
    kernels.binomial_law([1, 30], 0.3)
    assert not recwarn


def test_no_law_at_all_and_shapes_that_do_not_broadcast():
    weights, shifts = kernels.binomial_law([], 0.1)
    assert weights.shape == shifts.shape == (0, 0)
    with pytest.raises(ValueError, match=r"group_size \(2,\), sample_rate \(3,\)"):
        kernels.binomial_law([1, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"rates must be an array with one rate for each member, got 0.1"):
        kernels.poisson_binomial_law(0.1)
    with pytest.raises(ValueError, match=r"group_size must be a whole number in \[1, 10000\], got 10001"):
        kernels.binomial_law([3, 10_001], 0.1)


def test_kernels_take_laws_of_several_groups_at_once():
    laws = kernels.binomial_law([[1], [4]], [0.1, 0.3, 0.5])
    sigmas = np.array([1.0, 2.0])[:, None, None]
    divergences = kernels.renyi_mixture(3.0, *laws, sigmas, "remove")
    ratios = kernels.log_likelihood_ratio(np.array([0.2, 0.9])[:, None, None], *laws, sigmas)
    assert divergences.shape == ratios.shape == (2, 2, 3)
    for place in np.ndindex(2, 2, 3):
        sigma, size, rate = (1.0, 2.0)[place[0]], (1, 4)[place[1]], (0.1, 0.3, 0.5)[place[2]]
        one = kernels.binomial_law(size, rate)
        assert divergences[place] == kernels.renyi_mixture(3.0, *one, sigma, "remove")
        assert ratios[place] == kernels.log_likelihood_ratio((0.2, 0.9)[place[0]], *one, sigma)


def test_monte_carlo_takes_laws_of_several_groups_at_once():
    run = {"samples": 2_000, "direction": "remove", "seed": 7}
    laws = kernels.binomial_law([1, 3], 0.2)
    both = kernels.monte_carlo_delta(0.5, *laws, 1.0, 5, **run)
    for place, size in enumerate((1, 3)):
        one = kernels.monte_carlo_delta(0.5, *kernels.binomial_law(size, 0.2), 1.0, 5, **run)
        assert (one.estimate, one.lower, one.upper) == tuple(part[place] for part in both)


def test_laws_of_different_lengths_and_single_numbers_are_refused():
    with pytest.raises(ValueError, match="weights and shifts must have one length, got 2 and 3"):
        kernels.renyi_mixture(2.0, [0.5, 0.5], [0.0, 1.0, 2.0], 1.0, "add")
    with pytest.raises(ValueError, match="weights must have at least one dimension"):
        kernels.log_likelihood_ratio(0.0, 1.0, [1.0], 1.0)
    with pytest.raises(ValueError, match="do not broadcast"):
        kernels.renyi_mixture([2.0, 3.0, 4.0], *kernels.binomial_law([1, 2], 0.1), 1.0, "add")
