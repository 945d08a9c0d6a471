"""Rényi divergences, zCDP and tCDP of trade-off functions, against integrals of their hockey-stick curves."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import hockeystick as hs

Curve = hs.TradeoffCurve


def from_hockey_sticks(curve, order, reach=40.0):
    """log(a (a - 1) int e^((a - 1) e) delta(e) de) / (a - 1), over all real e; for symmetric curves.

    Below zero delta(e) = 1 - e^e + e^e delta(-e), so that both halves are integrals over e >= 0.
    """
    points = np.linspace(0.0, reach, 8001)
    delta = np.asarray(curve.delta(points))
    above = np.exp((order - 1.0) * points) * delta
    # int over e < 0 of e^((a - 1) e) (1 - e^e) is 1 / (a (a - 1)).
    below = np.exp(-order * points) * delta
    total = 1.0 + order * (order - 1.0) * float(np.trapezoid(above + below, points))
    return math.log(total) / (order - 1.0)


LEAVES = {
    "gaussian": Curve.gaussian(0.8),
    "laplace": Curve.laplace(0.9),
    "pure": Curve.from_epsilon_delta(0.7, 0.0),
    "points": Curve.from_points([0.0, 0.05, 0.3, 1.0], [1.0, 0.8, 0.3, 0.0]),
    "shuffle": hs.shuffle.tradeoff(
        hs.Shuffle(10, 50), noise_multiplier=6.0, epochs=2, group_size=3, clipping="batch"
    ),
}


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", ["gaussian", "laplace", "pure", "shuffle"])
def test_divergences_are_integrals_of_the_hockey_stick_curve(name, order):
    curve = LEAVES[name]
    exact = from_hockey_sticks(curve, order)
    assert curve.renyi(order) == pytest.approx(exact, rel=2e-5)


@pytest.mark.parametrize("order", [1.01, 1.5, 4.0, 30.0])
def test_leaves_have_the_divergences_of_their_pairs(order):
    def log_moment(density, other):
        found, _ = quad(
            lambda x: math.exp(order * density(x) + (1 - order) * other(x)),
            -60,
            60,
            limit=2000,
            points=[0.0, 0.9],
        )
        return math.log(found) / (order - 1)

    if order < 10:
        gaussian = log_moment(lambda x: norm.logpdf(x, 0.8), lambda x: norm.logpdf(x))
        assert LEAVES["gaussian"].renyi(order) == pytest.approx(gaussian, rel=1e-7)
    laplace = log_moment(lambda x: -abs(x - 0.9) - math.log(2), lambda x: -abs(x) - math.log(2))
    assert LEAVES["laplace"].renyi(order) == pytest.approx(laplace, rel=1e-6)
    p = math.exp(0.7) / (1 + math.exp(0.7))
    two = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
    assert LEAVES["pure"].renyi(order) == pytest.approx(math.log(two) / (order - 1), rel=1e-9)
    widths, falls = np.array([0.05, 0.25, 0.7]), np.array([0.2, 0.5, 0.3])
    moments = [np.sum(a**order * b ** (1 - order)) for a, b in ((widths, falls), (falls, widths))]
    assert LEAVES["points"].renyi(order) == pytest.approx(math.log(max(moments)) / (order - 1), rel=1e-9)
    for curve in LEAVES.values():
        # Not less, but for the rounding of these numbers: half of it would be refused.
        assert curve.renyi(order) > 0.0
    run = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 10}
    both = hs.privacy_curve(**run).renyi(order)
    for adjacency in ("add_remove", "add", "remove"):  # always in both orders
        assert Curve.from_curve(hs.privacy_curve(**run, adjacency=adjacency)).renyi(order) == both
    assert hs.privacy_curve(**run, adjacency="add").renyi(order) < both


def test_a_mixture_over_known_distances_by_its_definition():
    law = hs.shuffle.membership_law(hs.Shuffle(10, 50), epochs=2, group_size=3, clipping="batch")
    squares = 4.0 * law.squares / 36.0
    for order in (1.1, 3.0, 20.0):
        exact = math.log(np.sum(law.probabilities * np.exp(order * (order - 1) * squares / 2))) / (order - 1)
        assert LEAVES["shuffle"].renyi(order) == pytest.approx(exact, rel=1e-9)
    assert LEAVES["shuffle"].zcdp() == pytest.approx(squares.max() / 2, rel=1e-9)
    closed = hs.shuffle.closed_form(
        hs.Shuffle(10, 50), noise_multiplier=6.0, epochs=2, group_size=3, clipping="batch"
    )
    # SHUFFLE, Section 2: g E / (2 sigma^2) with sigma half of the noise multiplier.
    assert closed.zcdp() == pytest.approx(3 * 2 / (2 * 3.0**2), rel=1e-9)
    assert closed.renyi(8.0) >= LEAVES["shuffle"].renyi(8.0)


@pytest.mark.parametrize("order", [1.5, 3.0])
def test_operations_bound_the_integral_of_their_curve(order):
    gaussian, laplace, pure = (LEAVES[name] for name in ("gaussian", "laplace", "pure"))
    for curve, tight in (
        (gaussian.compose(laplace), True),
        (laplace * 3, True),
        (gaussian.minimum(laplace), False),
        (gaussian.maximum(pure), False),
        (gaussian.minimum(laplace).inverse(), False),
    ):
        exact = from_hockey_sticks(curve, order)
        found = curve.renyi(order)
        assert found >= exact * (1.0 - 2e-5)
        if tight:
            assert found == pytest.approx(exact, rel=5e-5)
    assert (gaussian * 0).renyi(order) == 0.0


def test_truncated_concentration_is_above_all_orders():
    run = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.05, steps=100)
    for curve in (*LEAVES.values(), Curve.from_curve(run)):
        for omega in (1.5, 8.0, 40.0):
            orders = np.linspace(1.0 + 1e-6, omega, 200)
            largest = float(np.max(np.asarray(curve.renyi(orders)) / orders))
            assert largest <= curve.tcdp(omega) <= 1.021 * largest + 1e-12


def test_concentration_at_all_orders():
    assert LEAVES["gaussian"].zcdp() == pytest.approx(0.32, rel=1e-11)
    assert (LEAVES["gaussian"] * 5).compose(LEAVES["pure"]).zcdp() == pytest.approx(1.6 + 0.245, rel=1e-11)
    orders = np.geomspace(1.001, 1e3, 200)
    for name in ("laplace", "pure", "shuffle"):
        curve = LEAVES[name]
        assert np.max(np.asarray(curve.renyi(orders)) / orders) <= curve.zcdp()
    points = Curve.from_points([0.0, 0.3, 1.0], [1.0, 0.3, 0.0])
    assert points.zcdp() == pytest.approx(0.5 * math.log(7 / 3) ** 2, rel=1e-11)
    assert np.max(np.asarray(points.renyi(orders)) / orders) <= points.zcdp()


def test_an_output_that_gives_a_data_set_away_has_no_bound():
    for curve in (
        Curve.from_epsilon_delta(1.0, 1e-9),
        Curve.from_points([0.0, 1.0], [0.9, 0.0]),
        Curve.from_points([0.0, 0.9, 1.0], [1.0, 0.0, 0.0]),
    ):
        assert curve.renyi(2.0) == math.inf
        assert curve.zcdp() == math.inf
        assert (curve * 2).tcdp(4.0) == math.inf


@pytest.mark.parametrize(
    "curve",
    [
        Curve.gaussian(1.0).subsample(0.1),
        Curve.gaussian(1.0).group(3),
        hs.shuffle.lower_bound(hs.Shuffle(10, 50), noise_multiplier=6.0, group_size=2),
        hs.shuffle.upper_bound(hs.Shuffle(10, 50), noise_multiplier=6.0, group_size=2),
    ],
)
def test_what_is_not_derived_is_refused(curve):
    with pytest.raises(hs.UnsupportedError, match="ask"):
        curve.renyi(2.0)
    with pytest.raises(hs.UnsupportedError, match="ask"):
        curve.zcdp()


def test_runs_and_minima_have_no_bound_at_all_orders():
    run = Curve.from_curve(hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.05, steps=100))
    for curve in (run, Curve.gaussian(1.0).minimum(Curve.laplace(1.0))):
        with pytest.raises(hs.UnsupportedError, match=r"use tcdp\(omega\)"):
            curve.zcdp()
        assert curve.tcdp(4.0) > 0.0


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, 1e7])
def test_orders_out_of_range_are_refused(order):
    with pytest.raises(ValueError, match=r"order must be in \(1, 1e\+06\]"):
        Curve.gaussian(1.0).renyi(order)
    with pytest.raises(ValueError, match=r"omega must be in \(1, 1e\+06\]"):
        Curve.gaussian(1.0).tcdp(order)
