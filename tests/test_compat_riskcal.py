"""The names of riskcal: targets are met, and met by less than a grid needs."""

import math
from statistics import NormalDist

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
