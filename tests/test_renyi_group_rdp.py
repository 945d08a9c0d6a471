"""Rényi bounds of one step for a group: four mechanisms, every bound, against slow independent values."""

import copy
import pickle

import by_definition
import mpmath as mp
import numpy as np
import pytest
import renyi_by_formula as formula

import hockeystick as hs
from hockeystick import kernels

MECHANISMS = {
    "gaussian": hs.Gaussian,
    "laplace": hs.Laplace,
    "skellam": hs.Skellam,
    "randomized_response": hs.RandomizedResponse,
}
ONE_OF_EACH = [hs.Gaussian(5.0), hs.Laplace(6.0), hs.Skellam(40.0), hs.RandomizedResponse(0.8)]
BOUNDS = ("exact", "jensen", "black_box", "lower")


def random_cases(count, largest_group, seed):
    """Families, parameters, orders up to 10^4, group sizes and rates over their whole range."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        family = list(MECHANISMS)[generator.integers(4)]
        group_size = int(np.exp(generator.uniform(0.0, np.log(largest_group))))
        sample_rate = float(np.exp(generator.uniform(np.log(1e-6), np.log(0.9))))
        order = float(1.0 + np.exp(generator.uniform(np.log(1e-2), np.log(9999.0))))
        arguments = [float(np.exp(generator.uniform(-1.0, 8.0)))]
        if family == "skellam":
            order = float(np.ceil(order))
            arguments = [arguments[0] ** 2, int(generator.integers(1, 5))]
        elif family == "randomized_response":
            arguments = [float(generator.uniform(0.51, 0.99))]
        yield family, arguments, order, group_size, sample_rate


def check_sums(cases):
    """Theorem 3.1 within 1e-12 from above; equation 12 from below, its relative error larger near zero."""
    for family, arguments, order, group_size, sample_rate in cases:
        named = f"{family} {arguments} {order} {group_size} {sample_rate}"
        mechanism = MECHANISMS[family](*arguments)
        parameter, *sensitivity = arguments
        components = [
            formula.component(family, parameter, order, k, *sensitivity) for k in range(group_size + 1)
        ]
        run = {"sample_rate": sample_rate, "group_size": group_size}
        expected = formula.theorem_3_1(order, components, sample_rate)
        found = mp.mpf(float(hs.renyi.group_rdp(mechanism, order, bound="jensen", **run)))
        assert expected * (1 - mp.mpf("1e-16")) <= found <= expected * (1 + mp.mpf("1e-12")), named
        if family == "skellam":
            continue  # its components are bounds; equation 12 wants what is attained
        expected = formula.equation_12(order, components, sample_rate)
        found = mp.mpf(float(hs.renyi.group_rdp(mechanism, order, bound="lower", **run)))
        assert expected * (1 - mp.mpf("1e-11")) - mp.mpf("1e-13") <= found, named
        assert found <= expected * (1 + mp.mpf("1e-16")), named


def test_the_sums_of_100_random_cases_are_those_of_40_digits():
    check_sums(random_cases(100, 200, seed=1))


@pytest.mark.slow
def test_the_sums_of_500_random_cases_are_those_of_40_digits():
    check_sums(random_cases(500, 200, seed=1))


@pytest.mark.long
def test_the_sums_of_large_groups_are_those_of_40_digits():
    check_sums(random_cases(30, 1e5, seed=2))


@pytest.mark.parametrize("mechanism", ONE_OF_EACH, ids=str)
def test_groups_of_100_000_and_orders_of_10_000_do_not_overflow(mechanism):
    for order in (2.0, 1e4):
        for bound in ("jensen", "black_box", "lower"):
            run = {"sample_rate": 0.03, "group_size": 100_000, "bound": bound}
            found = hs.renyi.group_rdp(mechanism, order, **run)
            assert 0.0 <= found < np.inf, (order, bound)
    exact = hs.renyi.group_rdp(hs.Gaussian(2000.0), [2.0, 1e4], sample_rate=0.03, group_size=100_000)
    # 3,000 of 100,000 records are in a batch: D is close to that of their mean alone.
    assert exact[0] == pytest.approx(2.0 * 3000.0**2 / (2.0 * 2000.0**2), rel=1e-2)
    assert np.isfinite(exact).all()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.5, 4.0, 37.5])
@pytest.mark.parametrize(("group_size", "sample_rate"), [(1, 0.02), (6, 0.1), (3, 0.7)])
def test_the_exact_divergence_is_that_of_the_definition(order, group_size, sample_rate):
    run = {"sample_rate": sample_rate, "group_size": group_size}

    def check(mechanism, expected):
        found = hs.renyi.group_rdp(mechanism, order, bound="exact", **run)
        assert found == pytest.approx(float(expected), rel=1e-9), mechanism
        assert found >= expected * (1 - mp.mpf("1e-15")), mechanism

    for scale in (0.7, 5.0):
        directions = [
            formula.laplace_divergence(order, scale, group_size, sample_rate, direction)
            for direction in ("add", "remove")
        ]
        check(hs.Laplace(scale), max(directions))
    for p in (0.6, 0.97):
        directions = [
            formula.response_divergence(order, p, group_size, sample_rate, direction)
            for direction in ("add", "remove")
        ]
        check(hs.RandomizedResponse(p), max(directions))
    weights, shifts = by_definition.binomial(group_size, sample_rate)
    directions = [
        by_definition.renyi_by_quadrature(order, 1.5, weights, shifts, direction)
        for direction in ("add", "remove")
    ]
    check(hs.Gaussian(1.5), max(directions))


@pytest.mark.parametrize("order", [1.000001, 1.0001, 1.01])
def test_exact_divergences_are_bounds_at_orders_near_one(order):
    run = {"sample_rate": 0.3, "group_size": 2}
    for p in (0.5001, 0.7, 0.99):
        directions = [formula.response_divergence(order, p, 2, "0.3", way) for way in ("add", "remove")]
        found = mp.mpf(float(hs.renyi.group_rdp(hs.RandomizedResponse(p), order, **run)))
        assert max(directions) * (1 - mp.mpf("1e-14")) <= found <= max(directions) * (1 + mp.mpf("1e-7"))
    shifted, without = formula.skellam_pair(12.0, 1, 2, "0.3", reach=180)
    expected = max(formula.divergence(order, shifted, without), formula.divergence(order, without, shifted))
    found = mp.mpf(float(hs.renyi.group_rdp(hs.Skellam(12.0), order, **run)))
    assert expected <= found <= expected * (1 + mp.mpf("1e-6"))


@pytest.mark.parametrize(("variance", "sensitivity"), [(0.5, 1), (12.0, 1), (12.0, 3), (90.0, 2)])
@pytest.mark.parametrize(("group_size", "sample_rate"), [(1, 0.02), (4, 0.3)])
def test_skellam_noise_is_summed_over_its_masses(variance, sensitivity, group_size, sample_rate):
    for order in (1.5, 2.0, 6.0):
        shifted, without = formula.skellam_pair(
            variance, sensitivity, group_size, sample_rate, reach=int(140 + 12 * variance**0.5)
        )
        expected = max(
            formula.divergence(order, shifted, without), formula.divergence(order, without, shifted)
        )
        found = hs.renyi.group_rdp(
            hs.Skellam(variance, sensitivity), order, sample_rate=sample_rate, group_size=group_size
        )
        assert found == pytest.approx(float(expected), rel=1e-10)
        assert found >= expected * (1 - mp.mpf("1e-15"))


def test_equation_18_is_about_the_variance_and_not_half_of_it():
    # RGP calls Sk(z, mu) a law of variance 2 mu. Its equation 18 meets the divergence of variance mu: at
    # variance 2 mu the truth would be half of the bound.
    for variance in (50.0, 5000.0):
        for order in (2.0, 4.0, 16.0):
            run = {"sample_rate": 1.0, "group_size": 1}
            bound = hs.renyi.group_rdp(hs.Skellam(variance), order, bound="jensen", **run)
            exact = hs.renyi.group_rdp(hs.Skellam(variance), order, bound="exact", **run)
            assert exact <= bound <= 1.05 * exact
            assert hs.renyi.group_rdp(hs.Skellam(2 * variance), order, **run) < 0.51 * bound


@pytest.mark.parametrize("group_size", [2, 5, 16])
def test_the_black_box_is_the_formula_of_zhu_and_wang_at_a_higher_order(group_size):
    doublings = (group_size - 1).bit_length()
    for family, parameter in [("gaussian", 9.0), ("laplace", 12.0), ("skellam", 150.0)]:
        for order in (2, 5):
            expected = 3**doublings * formula.one_record(
                order * 2**doublings,
                lambda power, family=family, parameter=parameter: (
                    formula.component(family, parameter, power, 1) if power > 1 else mp.mpf(0)
                ),
                "0.05",
            )
            found = hs.renyi.group_rdp(
                MECHANISMS[family](parameter),
                order,
                sample_rate=0.05,
                group_size=group_size,
                bound="black_box",
            )
            assert found == pytest.approx(float(expected), rel=1e-10), family


def test_the_black_box_of_randomised_response_is_no_worse_than_no_sampling():
    # Figure 2's baseline: no group learns more than the bit without sampling tells.
    for order in (2.0, 4.0):
        found = hs.renyi.group_rdp(
            hs.RandomizedResponse(0.8), order, sample_rate=0.03, group_size=64, bound="black_box"
        )
        expected = formula.component("randomized_response", 0.8, order, 1)
        assert found == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("mechanism", ONE_OF_EACH, ids=str)
def test_bounds_are_in_order_and_vectorised(mechanism):
    orders = np.array([2.0, 4.0, 30.0])
    sizes = np.array([[[1]], [[6]], [[20]]])
    rates = np.array([[0.01], [0.3]])
    found = {
        bound: hs.renyi.group_rdp(mechanism, orders, sample_rate=rates, group_size=sizes, bound=bound)
        for bound in BOUNDS
    }
    for bound, values in found.items():
        assert values.shape == (3, 2, 3)
        for index in np.ndindex(values.shape):
            alone = hs.renyi.group_rdp(
                mechanism,
                orders[index[2]],
                sample_rate=rates[index[1], 0],
                group_size=int(sizes[index[0], 0, 0]),
                bound=bound,
            )
            assert values[index] == pytest.approx(alone, rel=1e-12, abs=0), (bound, index)
    assert np.all(found["lower"] <= found["exact"])
    assert np.all(found["exact"] <= found["jensen"] * (1 + 1e-10))
    assert np.all(found["exact"] <= found["black_box"] * (1 + 1e-10))


def test_real_orders_are_taken_but_where_a_formula_needs_whole_ones():
    run = {"sample_rate": 0.1, "group_size": 3}
    for mechanism in ONE_OF_EACH:
        for bound in BOUNDS:
            if isinstance(mechanism, hs.Skellam) and bound in ("jensen", "black_box"):
                with pytest.raises(ValueError, match=r"orders must be whole numbers for Skellam .* got 2.5"):
                    hs.renyi.group_rdp(mechanism, [2.0, 2.5], bound=bound, **run)
                with pytest.raises(ValueError, match="whole numbers"):
                    hs.renyi.calibrate(hs.Skellam, order=2.5, tau=1.0, steps=3, bound=bound, **run)
            else:
                low, middle, high = hs.renyi.group_rdp(mechanism, [2.0, 2.5, 3.0], bound=bound, **run)
                assert low <= middle <= high


def test_a_bound_says_what_it_is():
    run = {"orders": [2.0, 4.0], "sample_rate": 0.1, "group_size": 5}
    scopes = [hs.renyi.group_rdp(mechanism, **run).statement.scope for mechanism in ONE_OF_EACH]
    assert scopes == [
        "queries of any dimension",
        "queries of one dimension",
        "queries of one dimension",
        "one bit",
    ]
    exact, jensen, black_box, lower = (
        hs.renyi.group_rdp(hs.Laplace(6.0), bound=bound, **run).statement for bound in BOUNDS
    )
    assert exact.tight
    assert not jensen.tight
    assert jensen.scope == "queries of any dimension"
    assert "Theorems 3.1 and 4.3" in str(jensen)
    assert black_box.rounded_group_size == 8
    assert "group size rounded up to 8" in str(black_box)
    assert (exact.kind, lower.kind) == ("upper bound", "lower bound")
    with pytest.raises(AttributeError):
        exact.tight = False


def test_a_bound_behaves_like_a_number_and_keeps_its_statement_when_copied():
    run = {"sample_rate": 0.1, "group_size": 5}
    one = hs.renyi.group_rdp(hs.Gaussian(5.0), 2.0, **run)
    assert isinstance(one, float)
    assert f"{one:.3f} {one}" == f"{float(one):.3f} {float(one)!r}"
    assert "attained" in repr(one)
    assert type(2 * one) is float
    many = hs.renyi.group_rdp(hs.Gaussian(5.0), [2.0, 3.0], **run)
    assert isinstance(many, np.ndarray)
    assert "attained" in repr(many)
    assert type(500 * many) is np.ndarray
    assert type(many.sum()) is np.float64
    assert many[:1].statement == many.statement
    for bound in (one, many):
        for copied in (pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound)):
            assert np.array_equal(copied, bound)
            assert copied.statement == bound.statement


def test_theorem_3_1_takes_components_of_any_mechanism():
    run = {"sample_rate": 0.1, "orders": [2.0, 7.5]}
    sizes = np.array([[1], [5]])
    expected = hs.renyi.group_rdp(hs.Gaussian(3.0), group_size=sizes, bound="jensen", **run)
    found = hs.renyi.group_rdp(component=lambda k, order: order * k**2 / 18.0, group_size=sizes, **run)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert "Theorem 3.1" in str(found.statement)
    table = np.array(run["orders"]) * np.arange(6.0)[:, None] ** 2 / 18.0
    np.testing.assert_allclose(
        hs.renyi.group_rdp(component=table, bound="jensen", **run), expected[1], rtol=1e-13
    )
    # A scalar order: one column.
    alone = hs.renyi.group_rdp(component=table[:, 0], orders=2.0, sample_rate=0.1, group_size=5)
    assert alone == pytest.approx(expected[1, 0], rel=1e-13)
    # Pure differential privacy for every record: an unbounded component changes nothing.
    assert hs.renyi.group_rdp(component=lambda k, order: np.inf, group_size=2, **run).max() == np.inf


def test_what_does_not_go_with_components_is_refused():
    run = {"sample_rate": 0.1, "orders": 2.0}

    def flat(k, order):
        return 0.1

    with pytest.raises(TypeError, match="exactly one of mechanism and component"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), component=flat, group_size=2, **run)
    with pytest.raises(TypeError, match="exactly one of mechanism and component"):
        hs.renyi.group_rdp(group_size=2, **run)
    with pytest.raises(ValueError, match="bound must be 'jensen' where component is given"):
        hs.renyi.group_rdp(component=flat, group_size=2, bound="exact", **run)
    with pytest.raises(ValueError, match="adjacency must be"):
        hs.renyi.group_rdp(component=flat, group_size=2, adjacency="nonsense", **run)
    with pytest.raises(TypeError, match="group_size is missing"):
        hs.renyi.group_rdp(component=flat, **run)
    with pytest.raises(TypeError, match="group_size is missing"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), **run)
    with pytest.raises(TypeError, match="orders is missing"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), sample_rate=0.1, group_size=2)
    with pytest.raises(ValueError, match=r"component must have one row for each of 0..3 records, got 3"):
        hs.renyi.group_rdp(component=[0.0, 0.1, 0.2], group_size=3, **run)
    for bad in (-0.1, np.nan):
        with pytest.raises(ValueError, match=r"component\(1, 2\) must be in \[0, inf\]"):
            hs.renyi.group_rdp(component=lambda k, order, bad=bad: bad, group_size=2, **run)
    with pytest.raises(TypeError, match=r"component\(1, 2\)"):
        hs.renyi.group_rdp(component=lambda k, order: "0.1", group_size=2, **run)
    for wrong in ("gaussian", 1.0, hs.Gaussian):
        with pytest.raises(TypeError, match=r"mechanism must be Gaussian\(noise_multiplier\)"):
            hs.renyi.group_rdp(wrong, group_size=2, **run)


def test_an_exact_divergence_of_too_many_masses_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"variance 1000000000000.0 .* use the bound \"jensen\""):
        hs.renyi.group_rdp(hs.Skellam(1e12), 2.0, sample_rate=0.1, group_size=2)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "rdp", "delta"), [(4.0, 1.0, 1e-5), (1.5, 0.3, 1e-3), (8.0, 0.01, 0.01)])
def test_the_optimal_conversion_is_that_of_the_worst_two_coins(order, rdp, delta):
    # Asoodeh et al. 2021: for coins of bias p, q with D_order = rdp, epsilon is log((p - delta) / q).
    def epsilon_of(p):
        low, high = mp.mpf("1e-60"), mp.mpf(p)
        for _ in range(200):
            q = mp.sqrt(low * high)
            if formula.divergence(order, [p, 1 - p], [q, 1 - q]) > rdp:
                low = q
            else:
                high = q
        return mp.log((p - delta) / high)

    # Golden section over log p.
    low, high = mp.log(delta * mp.mpf("1.001")), mp.log(1 - mp.mpf("1e-9"))
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if epsilon_of(mp.exp(left)) > epsilon_of(mp.exp(right)):
            high = right
        else:
            low = left
    expected = float(epsilon_of(mp.exp(low)))
    found = kernels.rdp_to_epsilon(order, rdp, delta, conversion="optimal")
    assert found == pytest.approx(expected, rel=1e-9)
    assert found < kernels.rdp_to_epsilon(order, rdp, delta)
    assert kernels.rdp_to_delta(order, rdp, found, conversion="optimal") == pytest.approx(delta, rel=1e-7)


def test_the_optimal_conversion_is_never_larger_and_holds_for_known_pairs():
    generator = np.random.default_rng(3)
    orders = 1.0 + np.exp(generator.uniform(-4.0, 8.0, 400))
    rdp = np.exp(generator.uniform(-9.0, 4.0, 400))
    delta = np.exp(generator.uniform(-40.0, -0.1, 400))
    for order, divergence, level in zip(orders, rdp, delta, strict=True):
        epsilon = kernels.rdp_to_epsilon(order, divergence, level, conversion="optimal")
        assert 0.0 <= epsilon <= kernels.rdp_to_epsilon(order, divergence, level)
        optimal = kernels.rdp_to_delta(order, divergence, 0.5, conversion="optimal")
        assert 0.0 < optimal <= kernels.rdp_to_delta(order, divergence, 0.5)
    # The Gaussian mechanism: what holds for its divergence holds for its curve.
    for mean in (0.3, 2.0):
        for order in (1.2, 3.0, 20.0):
            divergence = order * mean**2 / 2
            for epsilon in (0.1, 1.0, 5.0):
                bound = kernels.rdp_to_delta(order, divergence, epsilon, conversion="optimal")
                assert bound >= by_definition.gaussian_delta(epsilon, mean)
    assert kernels.rdp_to_epsilon(2.0, np.inf, 0.1, conversion="optimal") == np.inf
    assert kernels.rdp_to_delta(2.0, np.inf, 1.0, conversion="optimal") == 1.0
    assert kernels.rdp_to_epsilon(2.0, 0.0, 0.1, conversion="optimal") == 0.0
