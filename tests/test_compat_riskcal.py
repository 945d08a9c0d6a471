"""The names of riskcal: targets are met, and met by less than a grid needs."""

import math
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

import hockeystick as hs
from hockeystick.compat import riskcal

RUN = {"sample_rate": 0.01, "num_steps": 1000}


@pytest.mark.parametrize("advantage", [0.02, 0.05, 0.1])
def test_an_advantage_is_met_with_the_least_noise(advantage):
    noise = riskcal.find_noise_multiplier_for_advantage(advantage, **RUN)
    found = riskcal.get_advantage_for_dpsgd(noise, **RUN)
    assert advantage * (1.0 - 1e-4) < found <= advantage
    assert riskcal.get_advantage_for_dpsgd(noise * (1.0 - 1e-4), **RUN) > advantage


@pytest.mark.parametrize("beta", [0.8, 0.85])
def test_error_rates_are_met_with_the_least_noise(beta):
    noise = riskcal.find_noise_multiplier_for_err_rates(0.1, beta, **RUN)
    assert beta <= riskcal.get_beta_for_dpsgd(noise, alpha=0.1, **RUN) < beta + 1e-4
    assert riskcal.get_beta_for_dpsgd(noise * (1.0 - 1e-4), alpha=0.1, **RUN) < beta


def test_a_gaussian_query_has_the_closed_forms():
    normal = NormalDist()
    noise = riskcal.find_noise_multiplier_for_err_rates(0.05, 0.8, sample_rate=1.0, num_steps=1)
    exact = 1.0 / (normal.inv_cdf(0.95) - normal.inv_cdf(0.8))
    assert exact * (1.0 - 1e-9) <= noise <= exact * (1.0 + 2e-6)
    advantage = 2.0 * normal.cdf(0.5) - 1.0
    assert advantage <= riskcal.get_advantage_from_gdp(1.0) <= advantage + 1e-12
    assert riskcal.get_beta_from_gdp(1.0, 0.1) == pytest.approx(
        normal.cdf(normal.inv_cdf(0.9) - 1.0), abs=1e-10
    )
    # An attack is wrong as often as the two tails of equal posterior say.
    assert riskcal.get_bayes_risk_from_gdp(1.0, 0.5) == pytest.approx(normal.cdf(-0.5), abs=1e-10)
    shift = math.log(4.0)
    wrong = 0.2 * normal.cdf(0.5 * -1.0 + shift) + 0.8 * (1.0 - normal.cdf(0.5 + shift))
    assert riskcal.get_bayes_risk_from_gdp(1.0, 0.2) == pytest.approx(wrong, abs=1e-10)
    e = math.e
    assert riskcal.get_advantage_from_adp(1.0, 0.1) == pytest.approx((e - 1 + 0.2) / (e + 1), abs=1e-12)
    assert riskcal.get_beta_from_adp(1.0, 0.0, 0.1) == pytest.approx(1.0 - 0.1 * e, abs=1e-12)


def test_the_accountant_follows_a_run():
    accountant = riskcal.CTDAccountant()
    for noise in (1.0, 0.5):
        for _ in range(50):
            accountant.step(noise_multiplier=noise, sample_rate=0.02)
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.02, steps=50) + hs.privacy_curve(
        noise_multiplier=0.5, sample_rate=0.02, steps=50
    )
    assert accountant.get_epsilon(delta=1e-5, grid_step=1e-3) == curve.epsilon(1e-5)
    assert accountant.get_advantage(use_connect_dots=True) == curve.advantage()
    assert accountant.get_beta(alpha=0.1) == pytest.approx(curve.beta(0.1), rel=1e-6)
    again = riskcal.CTDAccountant()
    again.load_state_dict(accountant.state_dict())
    assert again.get_epsilon(delta=1e-5) == accountant.get_epsilon(delta=1e-5)
    with pytest.raises(TypeError, match="grid_step and use_connect_dots are all"):
        accountant.get_advantage(grid=1)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")
def test_the_original_finds_more_noise_on_a_coarse_grid():
    from riskcal.calibration import dpsgd

    grid = {"grid_step": 1e-2}  # a finer one takes minutes; this one is what its own tests use
    theirs = dpsgd.find_noise_multiplier_for_advantage(0.1, **RUN, **grid)
    ours = riskcal.find_noise_multiplier_for_advantage(0.1, **RUN, **grid)
    assert ours < theirs < 1.2 * ours
    theirs = dpsgd.find_noise_multiplier_for_err_rates(0.1, 0.8, **RUN, **grid)
    ours = riskcal.find_noise_multiplier_for_err_rates(0.1, 0.8, **RUN, **grid)
    assert ours < theirs < 1.2 * ours


def test_the_range_of_noise_is_kept():
    assert riskcal.find_noise_multiplier_for_advantage(0.1, **RUN, noise_min=5.0) == 5.0
    with pytest.raises(ValueError, match="noise_max must be at least"):
        riskcal.find_noise_multiplier_for_advantage(0.1, **RUN, noise_max=0.2)
    with pytest.raises(ValueError, match="noise_min must be in"):
        riskcal.find_noise_multiplier_for_advantage(0.1, **RUN, noise_min=2.0, noise_max=1.0)
    with pytest.raises(ValueError, match="beta must be in"):
        riskcal.find_noise_multiplier_for_err_rates(0.1, 1.0, **RUN)
    with pytest.raises(ValueError, match="grid_step must be positive"):
        riskcal.get_advantage_for_dpsgd(1.0, **RUN, grid_step=0.0)


def divergences_of_answers(order, alpha, beta):
    """Rényi divergences of the answers of a test with these error rates, both ways, in 40 digits."""
    with mpmath.workdps(40):
        a, b, r = mpmath.mpf(alpha), mpmath.mpf(beta), mpmath.mpf(order)
        laws = ((1 - b, b), (a, 1 - a))
        if r == 1:
            return [
                sum(p * mpmath.log(p / q) for p, q in zip(*pair, strict=True)) for pair in (laws, laws[::-1])
            ]
        sums = [sum(p**r * q ** (1 - r) for p, q in zip(*pair, strict=True)) for pair in (laws, laws[::-1])]
        return [mpmath.log(total) / (r - 1) for total in sums]


@pytest.mark.parametrize(
    ("epsilon", "order"), [(1.0, 2.0), (0.5, 1.0), (1.0, 0.7), (3.0, 20.0), (0.01, 1.001)]
)
def test_error_rates_under_a_renyi_divergence_are_the_least_that_it_allows(epsilon, order):
    alphas = np.array([1e-6, 0.1, 0.5, 0.9])
    for alpha, beta in zip(alphas, riskcal.get_beta_from_rdp(epsilon, alphas, order), strict=True):
        both = divergences_of_answers(order, alpha, beta)
        # Rates with a divergence above epsilon are excluded, and these are the last of them.
        assert max(both) < epsilon * (1.0 + 1e-6)
        assert max(both) > epsilon or beta == 0.0
    assert list(riskcal.get_beta_from_rdp(1.0, [0.0, 1.0], 2.0)) == pytest.approx([1.0, 0.0], abs=1e-15)
    assert riskcal.get_beta_from_rdp(0.0, 0.3, 2.0) == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize("rho", [0.005, 0.125, 0.5, 3.0])
def test_zero_concentrated_privacy_allows_at_least_the_attacks_on_gaussian_noise(rho):
    alphas = np.array([1e-4, 0.05, 0.2, 0.5, 0.8])
    betas = riskcal.get_beta_from_zcdp(rho, alphas)
    gaussian = riskcal.get_beta_from_gdp(math.sqrt(2.0 * rho), alphas)
    assert np.all(betas < gaussian)
    assert np.all(betas > riskcal.get_beta_from_gdp(1.7 * math.sqrt(2.0 * rho), alphas))
    for order in (1.01, 2.0, 3.0, 10.0, 64.0):
        assert np.all(betas >= riskcal.get_beta_from_rdp(rho * order, alphas, order) - 1e-5)
    advantage = riskcal.get_advantage_from_zcdp(rho)
    rates = np.linspace(0.0, 1.0, 41)
    assert np.max(1.0 - rates - riskcal.get_beta_from_zcdp(rho, rates)) <= advantage + 1e-9
    # Where both errors are as frequent.
    both = 0.5 * (1.0 - advantage)
    assert riskcal.get_beta_from_zcdp(rho, both) == pytest.approx(both, rel=1e-6)
    assert advantage > riskcal.get_advantage_from_gdp(math.sqrt(2.0 * rho))


@pytest.mark.parametrize("rates", [(0.001, 0.001, 0.8), (0.0, 0.3, 0.3), (1e-5, 0.01, 0.2), (0.1, 0.2, 0.05)])
def test_epsilon_of_error_rates_is_where_the_guarantee_stops_to_exclude_them(rates):
    delta, alpha, beta = rates
    epsilon = riskcal.get_epsilon_from_err_rates(delta, alpha, beta)
    assert riskcal.get_beta_from_adp(epsilon, delta, alpha) >= beta * (1.0 - 1e-12)
    assert riskcal.get_beta_from_adp(epsilon * (1.0 + 1e-9), delta, alpha) < beta
    with mpmath.workdps(40):
        slack, miss, alarm = map(mpmath.mpf, rates)
        exact = max(mpmath.log((1 - slack - x) / y) for x, y in ((miss, alarm), (alarm, miss)))
        assert exact * (1 - mpmath.mpf(10) ** -13) < epsilon <= exact


def test_rates_that_no_or_every_epsilon_excludes():
    found = riskcal.get_epsilon_from_err_rates(0.2, [0.5, 0.0, 0.5], [0.5, 0.3, 0.0])
    assert list(found) == [0.0, math.inf, math.inf]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_beta_from_pld", "starts from a grid of privacy losses"),
        ("calibrate_parameter", "searches with a function that the caller gives"),
        ("find_noise_multiplier_for_epsilon_delta", "searches with the accountant that it is given"),
        ("get_mu_from_zcdp_approx", "is a fit without a bound"),
    ],
)
def test_what_is_not_certified_is_refused_with_the_reason(name, words):
    with pytest.raises(hs.UnsupportedError, match=f"{name} of riskcal is not available: it {words}"):
        getattr(riskcal, name)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")
def test_every_public_name_of_the_original_is_answered_or_refused():
    import riskcal.analysis
    import riskcal.calibration

    from hockeystick.compat import riskcal as ours
    from hockeystick.compat.riskcal._refused import REFUSED

    names = {"CTDAccountant", *riskcal.analysis.__all__, *riskcal.calibration.__all__}
    assert len(names) > 40
    assert set(REFUSED) < names
    assert all(callable(getattr(ours, name)) for name in names - set(REFUSED))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        ours.nonsense  # noqa: B018 -- the access is the test


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: riskcal.get_beta_from_rdp(-1.0, 0.1, 2.0), "epsilon must be finite and at least zero"),
        (lambda: riskcal.get_beta_from_rdp(1.0, 1.5, 2.0), r"alpha must be in \[0, 1\]"),
        (lambda: riskcal.get_beta_from_rdp(1.0, 0.1, 0.0), "order must be positive and finite"),
        (lambda: riskcal.get_beta_from_zcdp(math.inf, 0.1), "rho must be finite"),
        (lambda: riskcal.get_advantage_from_zcdp(1.0, tol=0.0), "tol must be positive"),
        (lambda: riskcal.get_epsilon_from_err_rates(0.1, 0.2, -0.1), r"beta must be in \[0, 1\]"),
    ],
)
def test_what_is_out_of_range_is_named(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()
