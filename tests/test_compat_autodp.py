"""The names of autodp, answered by exact curves."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.compat import autodp


def gaussian_delta(mu, epsilon):
    cdf = NormalDist().cdf
    return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("make", [autodp.GaussianMechanism, autodp.ExactGaussianMechanism])
def test_gaussian_noise_has_its_closed_form(make, sigma):
    mechanism = make(sigma, name="noise")
    for epsilon in (0.1, 1.0):
        exact = gaussian_delta(1.0 / sigma, epsilon)
        assert mechanism.get_approx_delta(epsilon) == pytest.approx(exact, rel=1e-9)
        assert mechanism.get_approxDP(exact) == pytest.approx(epsilon, rel=1e-6)
        assert mechanism.get_eps(exact) == mechanism.get_approxDP(exact)
    assert mechanism.get_RDP(4.0) == pytest.approx(2.0 / sigma**2, rel=1e-9)
    cdf, inverse = NormalDist().cdf, NormalDist().inv_cdf
    assert mechanism.get_fDP(0.1) == pytest.approx(cdf(inverse(0.9) - 1.0 / sigma), abs=1e-9)
    assert (mechanism.get_pureDP(), mechanism.get_approxDP(0.0), mechanism.get_approxDP(1.0)) == (
        math.inf,
        math.inf,
        0.0,
    )
    assert (mechanism.name, mechanism.params) == ("noise", {"sigma": sigma})


@pytest.mark.parametrize(
    ("order", "rate", "sigma", "steps", "rdp"),
    [
        # From autodp's table of values of TF Privacy.
        (1.25, 0.01, 0.25, 1, 0.1103603174246269),
        (10.0, 0.01, 0.1, 10, 4948.831442377909),
        (25.0, 0.2, 10.0, 100, 0.5219181973251608),
        (4.0, 0.2, 2.0, 1000, 24.971565322320348),
        (8.5, 1.0, 1.0, 1000, 4250.0),
    ],
)
def test_renyi_divergences_of_subsampled_noise(order, rate, sigma, steps, rdp):
    step = autodp.AmplificationBySampling(PoissonSampling=True)(autodp.ExactGaussianMechanism(sigma), rate)
    assert autodp.Composition()([step], [steps]).get_RDP(order) == pytest.approx(rdp, rel=1e-7)
    run = autodp.SubsampleGaussianMechanism({"prob": rate, "sigma": sigma, "coeff": steps}, phi_off=False)
    assert run.get_RDP(order) == pytest.approx(rdp, rel=1e-7)


def test_all_ways_to_a_run_are_one_curve():
    noise = autodp.ExactGaussianMechanism(1.0)
    step = autodp.AmplificationBySampling_pld(neighboring="remove_only")(noise, 0.01)
    params = {"prob": 0.01, "sigma": 1.0, "coeff": 1000}
    runs = [
        autodp.Composition()([step], [1000]),
        autodp.ComposeAFA().compose([step], [1000]),
        autodp.SubsampleGaussianMechanism(params),
        autodp.NoisySGD_Mechanism(prob=0.01, sigma=1.0, niter=1000),
    ]
    exact = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    assert [run.get_approxDP(1e-5) for run in runs] == [exact] * 4
    composed = [
        autodp.ComposedGaussianMechanism({"sigma": 5.0, "coeff": 25}),
        autodp.NoisyGD_Mechanism(np.full(25, 5.0)),
        autodp.ComposeGaussian()([autodp.GaussianMechanism(5.0)], [25]),
    ]
    one = autodp.GaussianMechanism(1.0).get_approxDP(1e-6)
    assert [run.get_approxDP(1e-6) for run in composed] == pytest.approx([one] * 3, rel=1e-6)
    sampled = autodp.AmplificationBySampling()(composed[0], 0.1)
    of_one = autodp.AmplificationBySampling()(autodp.GaussianMechanism(1.0), 0.1)
    assert sampled.get_approxDP(1e-6) == pytest.approx(of_one.get_approxDP(1e-6), rel=1e-6)


def test_bounded_losses_add_up_at_delta_zero():
    laplace, response, pure = (
        autodp.LaplaceMechanism(b=2.0),
        autodp.RandresponseMechanism(p=0.75),
        autodp.PureDP_Mechanism(eps=0.3),
    )
    run = autodp.Composition()([laplace, response, pure], [2, 1, 1])
    assert run.get_pureDP() == pytest.approx(2 * 0.5 + math.log(3.0) + 0.3, rel=1e-12)
    assert run.get_approxDP(1e-6) <= run.get_approxDP(0.0)
    assert run.get_RDP(math.inf) == run.get_pureDP()
    sampled = autodp.AmplificationBySampling()(laplace, 0.1)
    assert sampled.get_pureDP() == pytest.approx(math.log1p(0.1 * math.expm1(0.5)), rel=1e-12)
    assert sampled.get_approxDP(1e-9) <= sampled.get_pureDP()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_calibrators_meet_their_target_from_below(epsilon):
    known = {"prob": 0.01, "sigma": None, "coeff": 1000}
    found = [
        autodp.eps_delta_calibrator()(autodp.LaplaceMechanism, epsilon, 1e-6, [0.01, 100.0], name="L"),
        autodp.ana_gaussian_calibrator()(autodp.ExactGaussianMechanism, epsilon, 1e-6),
        autodp.generalized_eps_delta_calibrator()(
            autodp.SubsampleGaussianMechanism, epsilon, 1e-6, [0, 1000], params=known, para_name="sigma"
        ),
        autodp.eps_delta_calibrator()(autodp.RandresponseMechanism, epsilon, 1e-6, [0.5001, 0.9999]),
    ]
    for mechanism in found:
        assert epsilon * (1.0 - 1e-5) < mechanism.get_approxDP(1e-6) <= epsilon
    assert (found[0].name, known["sigma"]) == ("L", None)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: autodp.AmplificationBySampling(PoissonSampling=False),
            ValueError,
            "PoissonSampling must be True",
        ),
        (
            lambda: autodp.AmplificationBySampling()(autodp.PureDP_Mechanism(1.0), 0.1),
            hs.UnsupportedError,
            "PureDP on a Poisson sample has no known dominating pair",
        ),
        (
            lambda: autodp.AmplificationBySampling()(
                autodp.AmplificationBySampling()(autodp.GaussianMechanism(1.0), 0.1), 0.1
            ),
            hs.UnsupportedError,
            "subsample one query",
        ),
        (
            lambda: autodp.Composition()([autodp.GaussianMechanism(1.0)], [1, 2]),
            ValueError,
            "coeff_list must be",
        ),
        (lambda: autodp.PureDP_Mechanism(40.0), ValueError, "eps must be in"),
        (lambda: autodp.GaussianMechanism(-1.0), ValueError, "sigma must be in"),
        (lambda: autodp.GaussianMechanism(1.0).get_approxDP(1.5), ValueError, "delta must be in"),
        (
            lambda: autodp.eps_delta_calibrator()(autodp.LaplaceMechanism, 1.0, 1e-6, [1e-3, 0.01]),
            RuntimeError,
            "no parameter in",
        ),
        (
            lambda: autodp.generalized_eps_delta_calibrator()(
                autodp.LaplaceMechanism, 1.0, 1e-6, [0.1, 10.0], params={}
            ),
            ValueError,
            "para_name must be given",
        ),
    ],
)
def test_what_has_no_answer_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
