"""The noise that reaches a Rényi target or (epsilon, delta), and the published figures of RGP."""

import numpy as np
import pytest
from reference_rows import rows

import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import RenyiGroupAccountant

RGP = [r for r in rows("published.csv") if r["source"] == "RGP" and r["group_size"]]
CONVERSION = [r for r in rows("published.csv") if r["table"] == "conversion"]
BISECTION = {"gaussian": 0.1, "laplace": 0.1, "skellam": 0.1, "randomized response": 1e-4}
"""Where RGP's bisections stop: their values lie up to this on the side of more noise."""

FAMILIES = {
    "gaussian": hs.Gaussian,
    "laplace": hs.Laplace,
    "skellam": hs.Skellam,
    "randomized_response": hs.RandomizedResponse,
}


def bound_of(row):
    word = row["quantity"].split(maxsplit=1)[1]
    if "lower bound" in word:
        return "exact"
    return "black_box" if "baseline" in word else "jensen"


@pytest.mark.parametrize("row", RGP, ids=lambda r: f"{r['mechanism']} {r['group_size']} {r['quantity']}")
def test_published_noise_is_the_root_up_to_the_bisection(row):
    family, published = row["mechanism"], float(row["value"])
    root = hs.renyi.calibrate(
        FAMILIES[family.replace(" ", "_")],
        order=float(row["order"]),
        tau=float(row["tau"]),
        sample_rate=float(row["sample_rate"]),
        steps=int(row["steps"]),
        group_size=int(row["group_size"]),
        bound=bound_of(row),
    )
    if family == "skellam":
        root /= 2  # their parameter is the rate of either Poisson variable
    width = BISECTION[family]
    if family == "laplace" and bound_of(row) == "exact":
        # Their integral is cut off, and their noise up to 1.5 % too small (theory, section 2).
        assert 0.985 * root <= published < root
    elif family == "randomized response":
        assert root - width - 1e-12 <= published <= root + 1e-12
    else:
        assert root - 1e-9 <= published <= root + width


def test_every_published_row_is_covered():
    assert len(RGP) == 27
    assert {row["mechanism"] for row in RGP} == set(BISECTION)
    assert {bound_of(row) for row in RGP} == {"exact", "jensen", "black_box"}


@pytest.mark.parametrize("row", CONVERSION, ids=["RGP Lemma 2.2"])
def test_published_conversion_is_met(row):
    epsilon = kernels.rdp_to_epsilon(float(row["order"]), float(row["tau"]), float(row["delta"]))
    assert epsilon == pytest.approx(float(row["value"]), rel=1e-14)


def test_the_exact_pair_closes_the_gap_of_the_paper():
    # m = 16, q = 0.03, alpha = 4, tau = 1: published bound, exact divergence.
    run = {"order": 4, "tau": 1, "sample_rate": 0.03, "group_size": 16}
    for family, steps, scale, published, exact, digits in [
        ("gaussian", 500, 1.0, 26.59, 15.240, 0.05),
        ("laplace", 500, 1.0, 26.16, 14.885, 0.05),
        ("skellam", 500, 0.5, 353.3, 116.13, 0.1),
        ("randomized_response", 1, 1.0, 0.7992, 0.8870, 1e-4),
    ]:
        found = [
            scale * hs.renyi.calibrate(FAMILIES[family], steps=steps, bound=bound, **run)
            for bound in ("jensen", "exact")
        ]
        assert found[0] == pytest.approx(published, abs=digits)
        assert found[1] == pytest.approx(exact, rel=1e-4)


def test_one_epsilon_of_the_paper_s_setting():
    # What takes their code minutes: q 0.03, sigma 60, m 64, T 500, orders 2..100, delta 1e-5.
    accountant = RenyiGroupAccountant(64, "jensen", orders=range(2, 101))
    accountant.history = [(60.0, 0.03, 500)]
    assert accountant.get_epsilon(1e-5) == pytest.approx(4.1179, abs=5e-5)
    orders = np.arange(2.0, 101.0)
    rdp = hs.renyi.group_rdp(hs.Gaussian(60.0), orders, sample_rate=0.03, group_size=64, bound="jensen")
    assert kernels.rdp_to_epsilon(orders, 500 * rdp, 1e-5) == pytest.approx(4.1179, abs=5e-5)


@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box", "lower"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_noise_meets_its_target_and_less_does_not(family, bound):
    steps = 1 if family == "randomized_response" else 300
    run = {"sample_rate": 0.05, "group_size": 9, "bound": bound}
    for order, tau in [(2.0, 0.3), (8.0, 2.0)]:
        found = hs.renyi.calibrate(FAMILIES[family], order=order, tau=tau, steps=steps, **run)

        def reached(parameter, order=order):
            return steps * hs.renyi.group_rdp(FAMILIES[family](parameter), order, **run)

        less = 1 + 1e-9 if family == "randomized_response" else 1 - 1e-9
        assert reached(found) <= tau < reached(found * less)


def test_sensitivity_scales_the_variance_that_is_needed():
    # Large variance: noise of variance C^2 V hides C as V hides 1, but for the grid of whole numbers.
    run = {"order": 4, "tau": 1, "sample_rate": 0.03, "steps": 500, "group_size": 16}
    one, five = (hs.renyi.calibrate(hs.Skellam, sensitivity=c, **run) for c in (1, 5))
    assert five == pytest.approx(25 * one, rel=5e-3)


def test_calibration_broadcasts():
    run = {"order": 4.0, "sample_rate": 0.03, "steps": 500, "bound": "jensen"}
    found = hs.renyi.calibrate(hs.Gaussian, tau=[0.5, 1.0], group_size=[[16], [32], [64]], **run)
    assert found.shape == (3, 2)
    assert found[1, 0] == hs.renyi.calibrate(hs.Gaussian, tau=0.5, group_size=32, **run)
    assert np.all(np.diff(found, axis=0) > 0)
    assert np.all(np.diff(found, axis=1) < 0)


def test_a_target_out_of_reach_says_so_with_the_nearest_one():
    run = {"order": 4.0, "sample_rate": 0.03, "steps": 500, "group_size": 16}
    for family, name in [
        ("gaussian", "noise_multiplier"),
        ("laplace", "scale"),
        ("skellam", "variance"),
        ("randomized_response", "p"),
    ]:
        message = (
            rf"tau = 1e-30 is not reached .* by any {name} of the range; the nearest that is reached is \d"
        )
        with pytest.raises(ValueError, match=message):
            hs.renyi.calibrate(FAMILIES[family], tau=1e-30, bound="jensen", **run)
    with pytest.raises(ValueError, match=r"epsilon = 0.001 is not reached .* nearest that is reached is \d"):
        hs.renyi.calibrate_dp(
            hs.Gaussian,
            epsilon=1e-3,
            delta=1e-5,
            sample_rate=0.03,
            steps=500,
            group_size=16,
            orders=[2.0, 4.0],
        )


def test_the_least_noise_of_the_range_is_the_answer_where_it_will_do():
    run = {"order": 2.0, "tau": 1e9, "sample_rate": 0.03, "steps": 1, "group_size": 2}
    assert hs.renyi.calibrate(hs.Gaussian, **run) == pytest.approx(1e-3)
    assert hs.renyi.calibrate(hs.RandomizedResponse, **run) == pytest.approx(1.0, abs=1e-12)
    nobody = {**run, "tau": 1e-3, "sample_rate": 0.0}
    assert hs.renyi.calibrate(hs.Laplace, **nobody) == pytest.approx(1e-3)


@pytest.mark.parametrize("conversion", ["canonne", "optimal"])
@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_noise_for_epsilon_meets_it_in_the_accountant(family, bound, conversion):
    steps = 3 if family == "randomized_response" else 200
    found = hs.renyi.calibrate_dp(
        FAMILIES[family],
        epsilon=4.0,
        delta=1e-5,
        sample_rate=0.02,
        steps=steps,
        group_size=8,
        bound=bound,
        conversion=conversion,
    )

    def epsilon(parameter):
        accountant = RenyiGroupAccountant(8, bound, conversion=conversion)
        accountant.history = [(FAMILIES[family](parameter), 0.02, steps)]
        return accountant.get_epsilon(1e-5)

    less = 1 + 1e-6 if family == "randomized_response" else 1 - 1e-6
    assert epsilon(found) <= 4.0
    assert epsilon(found * less) > 4.0 * (1 - 1e-9)


def test_real_orders_need_no_more_noise_than_listed_ones():
    run = {"epsilon": 4.0, "delta": 1e-5, "sample_rate": 0.03, "steps": 500, "group_size": 32}
    for bound in ("exact", "jensen"):
        real = hs.renyi.calibrate_dp(hs.Gaussian, bound=bound, **run)
        listed = hs.renyi.calibrate_dp(hs.Gaussian, bound=bound, orders=np.arange(2.0, 101.0), **run)
        assert real <= listed * (1 + 1e-6)
        assert listed < 1.02 * real
    # The whole curve needs less than any of its divergences.
    curve = hs.get_noise_multiplier(epsilon=4.0, delta=1e-5, sample_rate=0.03, steps=500, group_size=32)
    assert curve < hs.renyi.calibrate_dp(hs.Gaussian, conversion="optimal", **run)


def test_a_lower_bound_calibrates_no_guarantee():
    with pytest.raises(ValueError, match="bound must be an upper bound"):
        hs.renyi.calibrate_dp(
            hs.Gaussian, epsilon=1.0, delta=1e-5, sample_rate=0.1, steps=3, group_size=2, bound="lower"
        )
