"""The interface of prv-accountant: its results, and runs of bug reports on which it fails."""

import importlib
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.compat.prv_accountant import (
    Accountant,
    ApproximateDPMechanism,
    DPSGDAccountant,
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PRVAccountant,
    PureDPMechanism,
    find_noise_multiplier,
)

VARIABLES = {
    "poisson": (
        "PoissonSubsampledGaussianMechanism",
        {"sampling_probability": 0.01, "noise_multiplier": 1.0},
    ),
    "little noise": (
        "PoissonSubsampledGaussianMechanism",
        {"sampling_probability": 0.2, "noise_multiplier": 0.5},
    ),
    "gaussian": ("GaussianMechanism", {"noise_multiplier": 2.0, "l2_sensitivity": 0.7}),
    "laplace": ("LaplaceMechanism", {"mu": 0.7}),
    "pure": ("PureDPMechanism", {"eps": 0.3}),
    "approximate": ("ApproximateDPMechanism", {"epsilon": 0.3, "delta": 1e-7}),
}


def ours(kind):
    name, arguments = VARIABLES[kind]
    return getattr(importlib.import_module("hockeystick.compat.prv_accountant"), name)(**arguments)


def epsilon_of_dpsgd(noise, rate, steps, delta):
    accountant = DPSGDAccountant(noise, rate, steps, eps_error=0.01, delta_error=delta / 1000)
    return accountant.compute_epsilon(delta=delta, num_steps=steps)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sorted(VARIABLES))
def test_intervals_of_the_original_hold_ours(kind):
    import prv_accountant

    name, arguments = VARIABLES[kind]
    theirs = getattr(prv_accountant, name)(**arguments)
    asked = {"eps_error": 0.05, "delta_error": 1e-10, "max_self_compositions": 20}
    wide = prv_accountant.PRVAccountant(theirs, **asked).compute_epsilon(1e-5, [20])
    narrow = PRVAccountant(ours(kind), **asked).compute_epsilon(1e-5, 20)
    # The original looks at removal alone, which is the larger of the two orders here.
    assert wide[0] <= narrow[0] <= narrow[1] == narrow[2] <= wide[2]
    losses = np.array([-3.0, -0.3, -0.1, -0.009, 0.0, 1e-9, 0.2, 0.3, 0.7, 1.0, 4.0, 31.0])
    np.testing.assert_allclose(ours(kind).cdf(losses), np.asarray(theirs.cdf(losses), float), atol=1e-14)
    assert ours(kind).pm_inf == theirs.pm_inf


@pytest.mark.parametrize("kind", sorted(VARIABLES))
def test_distribution_functions_have_the_curve_of_the_accountant(kind):
    # δ(ε) = E (1 - exp(ε - Y))+, of the finite losses, by Riemann sums of their distribution function.
    prv, epsilon = ours(kind), 0.2
    losses = np.linspace(epsilon, 60.0, 200_001)
    masses = np.diff(prv.cdf(losses))
    lower = float(np.sum(masses * -np.expm1(epsilon - losses[:-1])))
    upper = float(np.sum(masses * -np.expm1(epsilon - losses[1:])))
    rest = 1.0 - prv.pm_inf
    low, estimate, high = PRVAccountant(prv, 0.1, 1e-9).compute_delta(epsilon)
    assert rest * lower + prv.pm_inf <= high
    assert low <= rest * upper + prv.pm_inf + (1.0 - prv.cdf(60.0))
    assert low <= estimate == high <= low * (1.0 + 1e-5) + 1e-300


def test_heterogeneous_compositions_are_curves_that_are_added():
    prvs = [ours("poisson"), GaussianMechanism(8.0), LaplaceMechanism(0.125)]
    accountant = PRVAccountant(prvs, 0.1, 1e-10, max_self_compositions=[100, 200, 300])
    curve = (
        hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
        + hs.privacy_curve(noise_multiplier=8.0, sampling=hs.FullBatch(), steps=20)
        + hs.privacy_curve(mechanism=hs.Laplace(8.0), sampling=hs.FullBatch(), steps=3)
    )
    lower, upper = curve.bounds(delta=1e-6)
    found = accountant.compute_epsilon(1e-6, [100, 20, 3])
    assert found[0] <= upper
    assert lower <= found[2] == pytest.approx(upper, rel=1e-6)
    assert accountant.compute_composition([100, 20, 3]).compute_epsilon(1e-6, 1e-9, 0.1) == found
    assert accountant.compute_delta(found[2], [100, 20, 3])[2] <= 1e-6 * (1.0 + 1e-5)


def test_infinite_losses_add_up():
    releases = PRVAccountant(ApproximateDPMechanism(0.0, 1e-7), 0.1, 1e-9, 10_000)
    lower, _, upper = releases.compute_delta(0.0, 10_000)
    exact = -math.expm1(10_000 * math.log1p(-1e-7))
    assert lower <= exact <= upper <= exact * (1.0 + 1e-12)
    assert releases.compute_epsilon(exact / 2, 10_000) == (math.inf,) * 3
    assert releases.compute_epsilon(exact * 2, 10_000) == (0.0,) * 3
    mixed = PRVAccountant([ApproximateDPMechanism(0.1, 1e-6), ours("poisson")], 0.1, 1e-9, [5, 1000])
    alone = PRVAccountant([PureDPMechanism(0.1), ours("poisson")], 0.1, 1e-9, [5, 1000])
    share = -math.expm1(5 * math.log1p(-1e-6))
    finite = (1e-5 - share) / (1.0 - share)
    assert mixed.compute_epsilon(1e-5, [5, 1000])[2] == pytest.approx(
        alone.compute_epsilon(finite, [5, 1000])[2], rel=1e-6
    )
    assert PRVAccountant(ApproximateDPMechanism(0.1, 1.0), 0.1, 1e-9).compute_delta(0.05)[2] == 1.0


def test_a_pure_step_dominates_laplace_noise_of_its_epsilon():
    laplace = PRVAccountant(LaplaceMechanism(0.1), 0.1, 1e-9, 1000).compute_epsilon(1e-6, 1000)
    pure = PRVAccountant(PureDPMechanism(0.1), 0.1, 1e-9, 1000).compute_epsilon(1e-6, 1000)
    assert laplace[2] < pure[0]


# The runs of bug reports. Where a report gives parameters, these are they.


@pytest.mark.parametrize("delta", [1.1e-18, 1.11e-18, 1.13e-18])
@pytest.mark.parametrize("rate", [0.00033, 0.00038])
def test_deltas_below_a_rounding_have_an_epsilon(delta, rate):
    # microsoft/prv_accountant 17: 0.056 and 3.8 for deltas next to each other; 0.669 by Rényi divergences.
    lower, _, upper = epsilon_of_dpsgd(4.0, rate, 10_000, delta)
    orders = np.arange(1.1, 300.0, 0.1)
    run = hs.privacy_curve(noise_multiplier=4.0, sample_rate=rate, steps=10_000)
    assert 0.05 < lower <= upper < hs.kernels.rdp_to_epsilon(orders, run.renyi(orders), delta)


def test_means_of_losses_are_not_asked_for():
    # microsoft/prv_accountant 36 and 38, Opacus 601 and 604: "Discrete mean differs significantly from
    # continuous mean", for the parameters of the original's test of the mend.
    lower, _, upper = epsilon_of_dpsgd(0.2, 0.00011878424327013022, 5000, 1e-5)
    assert 40.0 < lower <= upper < 43.0


def test_a_rate_of_an_eighth_is_answered():
    # microsoft/prv_accountant 36, the run that opens it.
    accountant = DPSGDAccountant(
        noise_multiplier=0.8, sampling_probability=0.125, eps_error=0.1, delta_error=1e-10, max_steps=1000
    )
    lower, estimate, upper = accountant.compute_epsilon(delta=1e-6, num_steps=1000)
    run = {"noise_multiplier": 0.8, "sample_rate": 0.125, "steps": 1000}
    orders = np.arange(1.01, 10.0, 0.01)
    by_orders = hs.kernels.rdp_to_epsilon(orders, hs.privacy_curve(**run).renyi(orders), 1e-6)
    assert 30.0 < lower <= estimate <= upper < by_orders
    assert upper - lower < 1e-6 * upper
    assert lower <= hs.get_epsilon(delta=1e-6, **run) <= upper * (1.0 + 1e-12)


def test_runs_with_a_large_epsilon_are_answered():
    # microsoft/prv_accountant 42.
    step = PoissonSubsampledGaussianMechanism(sampling_probability=0.2, noise_multiplier=1.0)
    accountant = PRVAccountant([step], max_self_compositions=[500], eps_error=0.01, delta_error=1e-10)
    epsilons = [accountant.compute_epsilon(delta=1e-5, num_self_compositions=[count]) for count in (10, 500)]
    assert [round(upper, 2) for _, _, upper in epsilons] == [4.98, 38.17]
    assert all(upper - lower < 1e-5 for lower, _, upper in epsilons)


@pytest.mark.parametrize("noise", [0.3, 0.1, 0.03])
def test_little_noise_does_not_stop_the_accountant(noise):
    # NeMo Safe-Synthesizer 204, 351 and 391: overflow, or no end, where the noise multiplier is small.
    lower, _, upper = epsilon_of_dpsgd(noise, 0.01, 1000, 1e-5)
    assert 0.0 < upper - lower <= 1e-6 * upper
    # No less than one step on the whole batch would reveal, no more than all of them.
    assert (
        hs.get_epsilon(delta=1e-5, noise_multiplier=noise, sample_rate=1.0, steps=1000) > upper > 1.0 / noise
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.8, 100.0, 1000.0])
def test_noise_is_found_for_any_target(epsilon):
    # Issues in which a PRV accountant found no noise: Opacus 585 and 591 ("Cannot compute epsilon") and 602
    # (out of memory), google/dpsynth 71 (75 GB at epsilon 0.01, delta 1e-5).
    run = {"sampling_probability": 0.01, "num_steps": 1000}
    noise = find_noise_multiplier(**run, target_epsilon=epsilon, target_delta=1e-5, mu_max=1e4)
    lower, _, upper = epsilon_of_dpsgd(noise, 0.01, 1000, 1e-5)
    assert epsilon * (1.0 - 1e-3) < lower <= upper <= epsilon


def test_the_engine_of_the_tests_of_the_original_is_met():
    # What its test_robustness_2 asks for without a number: no overflow on the way.
    target = {"target_delta": 0.00011448277499759097, "target_epsilon": 4.0}
    noise = find_noise_multiplier(0.26058631921824105, 18_800, **target)
    run = {"noise_multiplier": noise, "sample_rate": 0.26058631921824105, "steps": 18_800}
    assert 3.999 < hs.get_epsilon(delta=target["target_delta"], **run) <= 4.0


# Errors.


def test_more_compositions_than_announced_are_refused():
    accountant = PRVAccountant(ours("poisson"), 0.1, 1e-9, 1000)
    with pytest.raises(ValueError, match=r"at most max_self_compositions=1000, got 1001"):
        accountant.compute_epsilon(1e-5, 1001)
    assert accountant.compute_epsilon(1e-5, 1000)[2] > 0.0


def test_laws_of_ones_own_are_refused_by_name():
    class OfOnesOwn(PrivacyRandomVariable):
        def cdf(self, t):
            return np.where(np.asarray(t) >= 0.0, 1.0, 0.0)

    with pytest.raises(hs.UnsupportedError, match="OfOnesOwn has no known dominating pair"):
        PRVAccountant(OfOnesOwn(), 0.1, 1e-9)
    assert OfOnesOwn().probability(-1.0, 1.0) == 1.0
    for ask in (OfOnesOwn().mean, lambda: OfOnesOwn().pdf(0.0), lambda: OfOnesOwn().rdp(2.0)):
        with pytest.raises(NotImplementedError):
            ask()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: GaussianMechanism(0.0), ValueError, "noise_multiplier must be in"),
        (lambda: GaussianMechanism(1.0, -1.0), ValueError, "l2_sensitivity must be in"),
        (lambda: LaplaceMechanism(math.nan), ValueError, "mu must be in"),
        (lambda: PureDPMechanism(31.0), ValueError, "eps must be in"),
        (lambda: ApproximateDPMechanism(0.1, 1.5), ValueError, "delta must be in"),
        (lambda: PoissonSubsampledGaussianMechanism(1.1, 1.0), ValueError, "sampling_probability must be in"),
        (lambda: PRVAccountant([], 0.1, 1e-9), ValueError, "prvs must be at least one"),
        (lambda: PRVAccountant(["x"], 0.1, 1e-9), TypeError, "prvs must be privacy random variables"),
        (lambda: PRVAccountant(ours("pure"), 0.0, 1e-9), ValueError, "eps_error must be positive"),
        (
            lambda: PRVAccountant([ours("pure")], 0.1, 1e-9, [1, 2]),
            ValueError,
            "max_self_compositions must be",
        ),
        (lambda: find_noise_multiplier(0.5, 10_000, 0.01, 1e-9), RuntimeError, "mu_max must be at least"),
        (lambda: find_noise_multiplier(0.5, 10, -1.0, 1e-9), ValueError, "epsilon must be"),
    ],
)
def test_what_is_out_of_range_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_old_accountant_warns():
    with pytest.deprecated_call():
        accountant = Accountant(
            noise_multiplier=0.8, sampling_probability=5e-3, delta=1e-6, eps_error=0.1, max_compositions=1000
        )
    assert accountant.compute_epsilon(num_compositions=1000) == epsilon_of_dpsgd(0.8, 5e-3, 1000, 1e-6)
