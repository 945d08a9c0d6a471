"""What trade-off functions say, that their algebra keeps the order, and how they are kept and refused."""

import copy
import pickle

import numpy as np
import pytest
from scipy.special import ndtri

import hockeystick as hs
from hockeystick import TradeoffCurve

gaussian, laplace = TradeoffCurve.gaussian, TradeoffCurve.laplace
from_epsilon_delta, from_points = TradeoffCurve.from_epsilon_delta, TradeoffCurve.from_points

CORNERS = ([0.0, 0.1, 0.4, 1.0], [0.9, 0.5, 0.1, 0.0])
GRID = np.concatenate([np.geomspace(1e-9, 0.01, 2001), np.linspace(0.01, 1 - 1e-9, 20_001)])
CURVES = {
    "gaussian": gaussian(1.0),
    "laplace": laplace(0.8),
    "bounded": from_epsilon_delta(1.0, 0.01),
    "points": from_points(*CORNERS),
    "subsampled": gaussian(2.0).subsample(0.1),
    "composed": gaussian(0.9).subsample(0.02) * 1000,
    "group": laplace(0.8).subsample(0.3).group(3),
    "least": gaussian(1.0).minimum(laplace(1.2)),
    "most": gaussian(1.0).maximum(laplace(1.2)),
}
RUNS = {
    "records": hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000),
    "groups": hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=500, group_size=4),
    "replaced": hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=500, adjacency="replace"),
}


# Read-outs.


@pytest.mark.parametrize("name", CURVES)
def test_epsilon_and_delta_are_inverse_to_each_other(name):
    curve = CURVES[name]
    delta = np.array([0.012, 0.03, 0.06])
    if name == "points":
        delta += 0.1
    epsilon = curve.epsilon(delta)
    good = epsilon > 0
    assert np.all(curve.delta(epsilon) <= delta * (1 + 1e-9))
    np.testing.assert_allclose(curve.delta(epsilon[good]), delta[good], rtol=1e-5)


@pytest.mark.parametrize("name", CURVES)
def test_advantage_and_attack_success_are_suprema_over_false_positive_rates(name):
    curve = CURVES[name]
    alpha = np.linspace(0, 1, 301)
    beta = curve.symmetrize()(alpha)
    assert curve.advantage() == curve.delta(0.0) >= (1 - beta - alpha).max() - 1e-9
    assert curve.advantage() <= (1 - beta - alpha).max() + 1e-3
    prior = np.array([0.0, 0.01, 0.3, 0.5, 0.8, 1.0])
    found = curve.attack_success(prior)
    expected = ((1 - prior[:, None]) * (1 - alpha) + prior[:, None] * (1 - beta)).max(axis=1)
    assert np.all(found >= np.maximum(prior, 1 - prior) * (1 - 1e-15))
    assert np.all(found >= expected - 1e-9)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert curve.attack_success() == curve.attack_success(0.5)


@pytest.mark.parametrize("name", CURVES)
def test_the_worst_case_probability_is_one_less_the_symmetrized_curve(name):
    curve = CURVES[name]
    p = np.array([0.0, 1e-9, 0.01, 0.5, 1.0])
    np.testing.assert_allclose(curve.worst_case_probability(p), 1 - curve.symmetrize()(p), atol=1e-14)


@pytest.mark.parametrize("mu", [0.0, 1e-6, 0.3, 1.0, 17.0])
def test_the_best_fit_of_a_gaussian_is_itself(mu):
    assert gaussian(mu).mu() == mu
    assert gaussian(mu).mu(regret=1e-6) <= mu * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("regret", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("curve", [laplace(0.3), laplace(2.0), from_epsilon_delta(1.0, 0.0)])
def test_the_best_fit_is_the_supremum_over_false_positive_rates_from_above(curve, regret):
    alpha = GRID
    beta = curve(alpha)
    with np.errstate(invalid="ignore", divide="ignore"):
        hits, alarms = ndtri(1 - beta - regret), ndtri(np.minimum(alpha + regret, 1.0))
        expected = np.nanmax(np.where(np.isfinite(hits) & np.isfinite(alarms), hits - alarms, 0.0))
    found = curve.mu(regret)
    assert found >= expected - 1e-9
    assert found == pytest.approx(expected, abs=2e-4)


def test_a_regret_makes_the_fit_of_a_curve_with_lost_events():
    curve = from_points(*CORNERS)
    for unfit in (curve, from_epsilon_delta(1.0, 1e-5)):
        with pytest.raises(ValueError, match=r"f\(0\) < 1; give a regret"):
            unfit.mu()
    with pytest.raises(ValueError, match=r"regret must be above 1 - f\(0\)"):
        curve.mu(regret=0.05)
    regret = 0.2
    alpha = np.concatenate([GRID, CORNERS[0]])
    points = np.concatenate([[alpha, curve(alpha)], [curve(alpha), alpha]], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        fits = ndtri(1 - points[1] - regret) - ndtri(np.minimum(points[0] + regret, 1.0))
    assert curve.mu(regret) == pytest.approx(np.nanmax(fits[np.isfinite(fits)]), abs=1e-3)


def test_epsilon_is_infinite_where_events_are_lost_with_a_larger_probability():
    assert from_points(*CORNERS).epsilon([0.05, 0.0999]).tolist() == [np.inf, np.inf]
    assert from_points([0, 1], [0, 0]).epsilon(0.999) == np.inf
    assert from_points([0, 1], [0, 0]).delta(1e6) == 1.0
    # The inverse loses as much the other way round.
    assert from_points(*CORNERS).inverse().epsilon(0.05) == np.inf


@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_epsilon_at_the_very_delta_is_finite(delta):
    assert from_epsilon_delta(1.0, delta).epsilon(delta) == pytest.approx(1.0)


@pytest.mark.parametrize("name", [name for name in CURVES if name not in ("composed",)])
def test_bounds_of_one_step_are_narrow(name):
    alpha = np.array([0.0, 1e-9, 0.01, 0.1, 0.5, 0.9, 1.0])
    lower, upper = CURVES[name].bounds(alpha=alpha)
    assert np.all(lower <= upper)
    assert (upper - lower).max() <= 1e-9


@pytest.mark.parametrize("name", CURVES)
def test_the_bounds_of_delta_are_narrow_too(name):
    lower, upper = CURVES[name].bounds(epsilon=[0.0, 0.1, 0.5, 1.0, 2.0, 30.0])
    assert np.all(lower <= upper)
    assert (upper - lower).max() <= 1e-9


@pytest.mark.parametrize("name", RUNS)
def test_bounds_of_runs_are_narrow(name):
    run = TradeoffCurve.from_curve(RUNS[name])
    for question in ({"alpha": [1e-6, 0.01, 0.1, 0.5, 0.9]}, {"epsilon": [0.0, 0.5, 2.0]}):
        lower, upper = run.bounds(**question)
        assert np.all(lower <= upper)
        assert (upper - lower).max() <= 1e-9


@pytest.mark.parametrize(
    "curve",
    [
        from_points([0, 0.1, 1], [0.9, 0.5, 0]).symmetrize(),
        from_epsilon_delta(1.0, 0.09).minimum(gaussian(0.9)),
    ],
)
def test_bounds_are_narrow_where_curves_are_straight(curve):
    lower, upper = curve.bounds(alpha=np.linspace(0, 1, 41))
    assert (upper - lower).max() <= 1e-9


# Random expressions.


def random_leaf(generator):
    kind = generator.integers(4)
    if kind == 0:
        return gaussian(np.exp(generator.uniform(-3, 1)))
    if kind == 1:
        return laplace(np.exp(generator.uniform(-3, 1)))
    if kind == 2:
        lost = generator.choice([0.0, generator.uniform(0, 0.3)])
        return from_epsilon_delta(np.exp(generator.uniform(-3, 1)), lost)
    size = generator.integers(1, 4)
    alpha = np.sort(generator.uniform(0, 1, size))
    beta = np.sort(generator.uniform(0, 1, size))[::-1] * (1 - alpha)
    beta = np.minimum.accumulate(beta)
    return from_points([0.0, *alpha, 1.0], [generator.uniform(beta[0], 1.0), *beta, 0.0])


def random_operation(generator):
    """A name and an operation that keeps the order of curves."""
    kind = generator.integers(5)
    if kind == 0:
        p = generator.uniform(0, 1)
        return f"subsample({p})", lambda curve: curve.subsample(p)
    if kind == 1:
        size = int(generator.integers(1, 5))
        return f"group({size})", lambda curve: curve.group(size)
    if kind == 2:
        return "symmetrize", lambda curve: curve.symmetrize()
    third = random_leaf(generator)
    if kind == 3:
        return f"minimum({third!r})", lambda curve: curve.minimum(third)
    return f"maximum({third!r})", lambda curve: curve.maximum(third)


ASKED = np.array([0.0, 1e-6, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0])


def check_laws(curve):
    lower, upper = curve.bounds(alpha=ASKED)
    assert np.all(lower <= upper), curve
    assert np.all(lower >= 0.0)
    assert np.all(upper <= 1 - ASKED)
    assert np.all(np.diff(lower) <= 1e-9), curve
    slopes = np.diff(lower) / np.diff(ASKED)
    slack = 1e-8 / np.minimum(np.diff(ASKED)[1:], np.diff(ASKED)[:-1])
    assert np.all(np.diff(slopes) >= -slack), curve
    inverse = curve.inverse()
    assert inverse.inverse() == curve or curve.is_symmetric
    # f(f^-1(a)) <= a wherever f^-1 jumps or not.
    back = curve.bounds(alpha=np.minimum(inverse.bounds(alpha=ASKED)[1], 1.0))[0]
    assert np.all(back <= ASKED + 1e-9), curve


def check_expressions(generator, count):
    for _ in range(count):
        curve = random_leaf(generator)
        if generator.random() < 0.15:
            curve = curve.compose(random_leaf(generator))
        for _ in range(generator.integers(1, 3)):
            _, operation = random_operation(generator)
            curve = operation(curve)
        if generator.random() < 0.3:
            curve = curve.inverse()
        check_laws(curve)


def check_order(generator, count):
    for _ in range(count):
        first, other = random_leaf(generator), random_leaf(generator)
        pair = (first, first.maximum(other)) if generator.random() < 0.5 else (first.minimum(other), first)
        name, operation = random_operation(generator)
        below, above = (operation(curve) for curve in pair)
        low, high = below.bounds(alpha=ASKED)[0], above.bounds(alpha=ASKED)[1]
        assert np.all(low <= high + 1e-12), (name, pair)


def test_60_random_expressions_are_trade_off_functions():
    check_expressions(np.random.default_rng(7), 60)


def test_operations_keep_the_order_of_60_random_pairs():
    check_order(np.random.default_rng(9), 60)


SEEDS = [pytest.param(seed, marks=pytest.mark.long if seed else ()) for seed in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_2000_random_expressions_are_trade_off_functions(seed):
    check_expressions(np.random.default_rng(100 + seed), 500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_operations_keep_the_order_of_2000_random_pairs(seed):
    check_order(np.random.default_rng(200 + seed), 500)


def test_composition_keeps_the_order():
    generator = np.random.default_rng(11)
    for _ in range(40):
        first, second = np.sort(np.exp(generator.uniform(-3, 1, 2)))
        lost, more = np.sort(generator.uniform(0, 0.3, 2))
        third = random_leaf(generator)
        pairs = [
            (gaussian(second), gaussian(first)),
            (from_epsilon_delta(second, more), from_epsilon_delta(first, lost)),
        ]
        for below, above in pairs:
            low = below.compose(third).bounds(epsilon=[0.0, 0.3, 1.0])[1]
            high = above.compose(third).bounds(epsilon=[0.0, 0.3, 1.0])[0]
            assert np.all(low >= high - 1e-12)


# Values.

EXPRESSIONS = {
    "gaussian(0.5)": gaussian(0.5),
    "laplace(1)": laplace(1),
    "from_epsilon_delta(1, 0.01)": from_epsilon_delta(1, 0.01),
    "from_points of 4 points": from_points(*CORNERS),
    "gaussian(0.5).subsample(0.01) * 1000": gaussian(0.5).subsample(0.01) * 1000,
    "(from_epsilon_delta(1, 0.01) * 2).group(3)": (from_epsilon_delta(1, 0.01) * 2).group(3),
    "from_points of 4 points.inverse()": from_points(*CORNERS).inverse(),
    "from_points of 4 points.symmetrize()": from_points(*CORNERS).symmetrize(),
    "gaussian(1).compose(laplace(1))": gaussian(1).compose(laplace(1)),
    "gaussian(1).minimum(laplace(1))": gaussian(1).minimum(laplace(1)),
    "gaussian(1).maximum(laplace(1))": gaussian(1).maximum(laplace(1)),
    f"from_curve({RUNS['records']!r})": TradeoffCurve.from_curve(RUNS["records"]),
}


@pytest.mark.parametrize("words", EXPRESSIONS)
def test_the_representation_is_the_expression(words):
    assert repr(EXPRESSIONS[words]) == f"<TradeoffCurve: {words}>"


@pytest.mark.parametrize("words", EXPRESSIONS)
def test_copies_are_equal_and_answer_the_same(words):
    curve = EXPRESSIONS[words]
    for copied in (pickle.loads(pickle.dumps(curve)), copy.copy(curve), copy.deepcopy(curve)):
        assert copied == curve
        assert hash(copied) == hash(curve)
        assert copied.delta(0.3) == curve.delta(0.3)


def test_curves_are_equal_if_they_are_built_alike():
    assert gaussian(1) == gaussian(1.0) == gaussian(np.float32(1))
    assert gaussian(1) != laplace(1)
    assert gaussian(1) != "gaussian(1)"
    assert from_points(*CORNERS) == from_points(*map(np.array, CORNERS))
    assert len({gaussian(1), gaussian(1), gaussian(1).subsample(0.1), gaussian(1).subsample(0.1)}) == 2
    assert np.int64(3) * gaussian(1) == gaussian(1) * 3 == 3 * gaussian(1)


@pytest.mark.parametrize("words", EXPRESSIONS)
def test_curves_do_not_change(words):
    for name in ("_compiled", "_recipe", "anything", "adversary"):
        with pytest.raises(AttributeError):
            setattr(EXPRESSIONS[words], name, 1)


@pytest.mark.parametrize(
    "question", ["beta", "__call__", "delta", "epsilon", "attack_success", "worst_case_probability"]
)
def test_answers_have_the_shape_of_the_question(question):
    ask = getattr(gaussian(1), question)
    for scalar in (0.25, np.float64(0.25), np.array(0.25), np.float32(0.25)):
        assert type(ask(scalar)) is float
    for shape in ((0,), (1,), (3,), (2, 3), (2, 0, 3)):
        answers = ask(np.full(shape, 0.25))
        assert answers.shape == shape
        assert answers.dtype == np.float64
        assert np.all(answers == ask(0.25))
    assert ask([[0.25, 0.5]]).shape == (1, 2)
    transposed = np.linspace(0.1, 0.6, 6).reshape(2, 3).T
    np.testing.assert_array_equal(ask(transposed), ask(transposed.copy()))
