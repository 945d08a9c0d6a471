"""Inputs at the edges of the domain, where a sum or a key once said less than the truth."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

import hockeystick as hs
from hockeystick import kernels


def gaussian_delta(mu, epsilon):
    return ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("scheme", [hs.Poisson(0.5), hs.Poisson(0.1), hs.WithoutReplacement(5, 10)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_a_replaced_record_is_seen_without_noise_as_often_as_it_is_drawn(scheme, epsilon):
    """Both data sets have one law where the record is not drawn, so that epsilon is the same there."""
    noiseless = hs.privacy_curve(
        hs.Run(mechanism=hs.Gaussian(0.0), sampling=scheme, steps=1, adjacency="replace")
    )
    full = hs.privacy_curve(
        hs.Run(mechanism=hs.Gaussian(2.0), sampling=hs.FullBatch(), steps=1, adjacency="replace")
    )
    rate = scheme.sample_rate if isinstance(scheme, hs.Poisson) else 0.5
    lower, upper = (noiseless + full).bounds(epsilon=epsilon)
    expected = rate + (1 - rate) * gaussian_delta(1.0, epsilon)
    assert lower <= expected * (1 + 1e-12)
    assert expected * (1 - 1e-12) <= upper
    assert upper - lower < 1e-9


def test_small_norms_have_noise_in_proportion():
    """Noise of 5e-9 on a shift of 1e-9 is that of mu = 0.2."""
    run = hs.Run(
        mechanism=hs.Gaussian(5e-9),
        sampling=hs.Poisson(1.0),
        steps=1,
        group=hs.Group(norms=[1e-9]),
        adjacency="remove",
    )
    lower, upper = hs.privacy_curve(run).bounds(epsilon=1.0)
    assert lower <= gaussian_delta(0.2, 1.0) * (1 + 1e-9)
    assert upper < 1.8e-8


@pytest.mark.parametrize(
    ("noise", "rate", "size", "steps", "epsilon"),
    [(0.6, 0.01, 800, 2, 0.01), (0.6, 0.001, 8000, 2, 0.0003), (0.8, 0.001, 8000, 3, 0.003)],
)
def test_capped_samples_of_replaced_records_have_close_intervals_next_to_zero(
    noise, rate, size, steps, epsilon
):
    run = hs.Run(
        mechanism=hs.Gaussian(noise),
        sampling=hs.Poisson(rate, max_batch_size=9, dataset_size=size),
        steps=steps,
        adjacency="replace",
    )
    lower, upper = hs.privacy_curve(run).bounds(epsilon=epsilon)
    assert 0.0 < lower <= upper < lower * (1 + 1e-6)


@pytest.mark.parametrize(("keep", "steps"), [(1 - 1e-10, 100), (1 - 2**-30, 80), (1 - 10**-7.85, 85)])
def test_answers_that_are_nearly_always_true_reveal_the_record(keep, steps):
    for epsilon in (0.0, 1.0, 5.0):
        lower, upper = hs.get_delta(
            epsilon=epsilon,
            mechanism=hs.RandomizedResponse(keep),
            sampling=hs.Poisson(1.0),
            steps=steps,
            bounds=True,
        )
        assert 1 - 1e-9 < lower <= upper <= 1.0


def test_matrices_that_print_alike_have_their_own_rows():
    mechanisms = [hs.CorrelatedNoise.from_matrix(matrix, 1.0) for matrix in (np.eye(4), np.tri(4))]
    assert repr(mechanisms[0]) == repr(mechanisms[1])
    arguments = {"delta": 1e-5, "sampling": hs.FixedOrder(2), "steps": 4}
    found = hs.sweep("epsilon", mechanism=mechanisms, **arguments)["epsilon"]
    expected = [hs.get_epsilon(mechanism=mechanism, **arguments) for mechanism in mechanisms]
    assert found.tolist() == expected
    assert expected[1] > 2 * expected[0]


def test_counts_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="counts must be finite and at least zero"):
        kernels.gram_monte_carlo_delta(
            1.0,
            [0.5, 0.5],
            np.eye(2),
            counts=[[np.inf, 0], [0, np.inf]],
            samples=100,
            direction="remove",
            seed=1,
        )


def divergence_of_response(epsilon, order):
    """Rényi divergence of randomised response with p = e^epsilon/(1 + e^epsilon), in 60 digits."""
    with mpmath.workdps(60):
        epsilon, order = mpmath.mpf(epsilon), mpmath.mpf(order)
        p = 1 / (1 + mpmath.exp(-epsilon))
        moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        return mpmath.log(moment) / (order - 1)


def test_divergences_of_responses_are_bounds_at_every_order():
    random = np.random.default_rng(1)
    cases = [(1.4459293799290822e-9, 3520.016224597915), (1e-6, 1e5), (1.0, 2.0), (30.0, 500.0)]
    cases += [(10 ** random.uniform(-10, 2), 1 + 10 ** random.uniform(-6, 5.9)) for _ in range(60)]
    for epsilon, order in cases:
        found = hs.TradeoffCurve.from_epsilon_delta(epsilon, 0.0).renyi(order)
        exact = divergence_of_response(epsilon, order)
        assert exact <= found <= exact * (1 + 2e-12)


def test_lines_that_hardly_bend_have_a_divergence():
    bend = 0.6462027097147115
    curve = hs.TradeoffCurve.from_points([0, bend, 1], [1, (1 - bend) * (1 - 9.534308351966629e-12), 0])
    assert curve.renyi(6611.493986896814) > 0.0
    slight = hs.TradeoffCurve.from_points([0, 0.3, 1], [1, 0.7 - 1e-8, 0])
    with mpmath.workdps(40):
        fall = 1 - mpmath.mpf(0.7 - 1e-8)
        exact = mpmath.log(fall / mpmath.mpf(0.3)) ** 2 / 2
    assert exact <= slight.zcdp() <= exact * (1 + 1e-6)


def test_epochs_of_very_many_poisson_steps_are_rounded_up():
    run = hs.Run(mechanism=hs.Gaussian(1.0), sampling="poisson", sample_rate=1.0, epochs=4000000000.3)
    assert run.number_of_steps == 4000000001


def test_a_failed_accumulation_changes_nothing():
    from hockeystick import distributed

    accounts = np.zeros((2, 2))
    steps = [(1.0, 0.01, 10), (1.0, hs.Poisson(0.01, max_batch_size=2, dataset_size=10), 5)]
    with pytest.raises(hs.errors.UnsupportedError):
        distributed.accumulate(np.full((2, 2), 0.5), steps, orders=[2.0, 8.0], rdp=accounts)
    assert not accounts.any()


def test_tradeoff_points_are_certified_where_losses_are_beyond_exponents():
    curve = hs.privacy_curve(noise_multiplier=0.02, sample_rate=1.0, steps=1)
    (claim,) = curve.certify(alpha=0.01).claims
    assert claim["at_least"] == 0.0
    assert claim["epsilon"] <= 700.0
