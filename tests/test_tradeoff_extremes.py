"""What trade-off functions refuse, and what they say at the ends of their domain and after long chains."""

import copy
import pickle

import numpy as np
import pytest

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


# Bad and extreme input.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda c: gaussian(-1), r"mu must be in \[0, 1e6\], got -1"),
        (lambda c: gaussian(np.inf), r"mu must be in \[0, 1e6\], got inf"),
        (lambda c: gaussian(np.nan), r"mu must be in \[0, 1e6\], got NaN"),
        (lambda c: gaussian([1.0]), "mu must be a single number"),
        (lambda c: laplace(-1e-300), r"mu must be in \[0, 600\]"),
        (lambda c: laplace(np.nan), r"mu must be in \[0, 600\]"),
        (lambda c: from_epsilon_delta(-1, 0.1), "epsilon must be"),
        (lambda c: from_epsilon_delta(np.inf, 0.1), "epsilon must be"),
        (lambda c: from_epsilon_delta(1, 1.1), r"delta must be in \[0, 1\]"),
        (lambda c: from_epsilon_delta(1, np.nan), r"delta must be in \[0, 1\]"),
        (lambda c: from_points([0, 1], [1, 0.5, 0]), "alpha and beta must have one length"),
        (lambda c: from_points([], []), "alpha and beta must have one length"),
        (lambda c: from_points([[0, 1]], [[1, 0]]), "alpha must be one-dimensional"),
        (lambda c: from_points([0.1, 1], [0.5, 0]), "alpha must be 0 at the first point"),
        (lambda c: from_points([0, 0.5], [0.5, 0]), "alpha must be 1 at the last point"),
        (lambda c: from_points([0, 0.6, 0.5, 1], [0.4, 0.3, 0.2, 0]), "alpha must be ascending"),
        (lambda c: from_points([0, 0.5, 1], [0.2, 0.3, 0]), "beta must be descending"),
        (lambda c: from_points([0, 0.5, 1], [0.9, 0.6, 0]), "beta must be at most 1 - alpha"),
        (lambda c: from_points([0, np.nan, 1], [0.9, 0.6, 0]), r"alpha must be in \[0, 1\]"),
        (lambda c: c(-0.1), r"alpha must be in \[0, 1\]"),
        (lambda c: c([0.5, np.nan]), r"alpha must be in \[0, 1\]"),
        (lambda c: c.delta(-1), "epsilon must be"),
        (lambda c: c.delta(np.inf), "epsilon must be"),
        (lambda c: c.epsilon(0.0), r"delta must be in \(0, 1\)"),
        (lambda c: c.epsilon(1.0), r"delta must be in \(0, 1\)"),
        (lambda c: c.attack_success(1.5), r"prior must be in \[0, 1\]"),
        (lambda c: c.worst_case_probability(-1), r"p must be in \[0, 1\]"),
        (lambda c: c.mu(regret=1.0), r"regret must be in \[0, 1\)"),
        (lambda c: c.mu(regret=-0.1), r"regret must be in \[0, 1\)"),
        (lambda c: c.subsample(1.1), r"p must be in \[0, 1\]"),
        (lambda c: c.subsample(np.nan), r"p must be in \[0, 1\]"),
        (lambda c: c.group(0), "k must be a whole number >= 1"),
        (lambda c: c.group(1.5), "k must be a whole number >= 1"),
        (lambda c: c.group(10_001), "k must be at most 10000"),
        (lambda c: c.group(200).group(200), "k must be at most 10000"),
        (lambda c: c.group(2**63), "k must be a whole number"),
        (lambda c: c * -1, "times must be a whole number >= 0"),
    ],
)
def test_values_out_of_range_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(from_points(*CORNERS))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: TradeoffCurve(),
        lambda c: gaussian("1"),
        lambda c: gaussian(None),
        lambda c: gaussian(True),
        lambda c: laplace(1j),
        lambda c: from_epsilon_delta(1.0, "0"),
        lambda c: from_points(["0", "1"], [1, 0]),
        lambda c: TradeoffCurve.from_curve(c),
        lambda c: TradeoffCurve.from_curve(1.0),
        lambda c: c("0.1"),
        lambda c: c.delta(None),
        lambda c: c.epsilon([True]),
        lambda c: c.attack_success(1j),
        lambda c: c.worst_case_probability("p"),
        lambda c: c.mu(regret="0"),
        lambda c: c.subsample("0.1"),
        lambda c: c.group("2"),
        lambda c: c.group(True),
        lambda c: c * 2.0,
        lambda c: c * True,
        lambda c: c * c,
        lambda c: c + c,
        lambda c: c.compose(1),
        lambda c: c.minimum(None),
        lambda c: c.maximum("f"),
        lambda c: c.bounds(),
        lambda c: c.bounds(alpha=0.1, delta=0.1),
    ],
)
def test_wrong_types_are_refused(wrong):
    with pytest.raises(TypeError):
        wrong(gaussian(1))


EXTREME = {
    **{f"gaussian({m})": gaussian(m) for m in (0.0, 5e-324, 1e-12, 50.0, 1e5)},
    **{f"laplace({m})": laplace(m) for m in (0.0, 5e-324, 1e-12, 600.0)},
    **{f"bounded({e}, {d})": from_epsilon_delta(e, d) for e in (0, 1e-12, 600) for d in (0, 1e-300, 1)},
    "a huge group": gaussian(1e-3).group(10**6),
    "a huge group of Laplace": laplace(1e-3).group(10**5),
    "hardly sampled": gaussian(1.0).subsample(1e-12),
    "points hardly sampled": from_points(*CORNERS).subsample(1e-12),
    "nearly always sampled": gaussian(1.0).subsample(1 - 1e-15),
    "a sampled group": from_epsilon_delta(1.0, 0.0).group(3).subsample(0.1),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_curves_answer_extreme_questions(name):
    curve = EXTREME[name]
    for question in (
        {"alpha": [0.0, 5e-324, 1e-300, 0.5, 1 - 2**-53, 1.0]},
        {"epsilon": [0.0, 5e-324, 1.0, 700.0, 709.0, 710.0, 1e6, 1e300]},
        {"delta": [5e-324, 1e-300, 1e-12, 0.5, 1 - 2**-53]},
    ):
        lower, upper = curve.bounds(**question)
        assert np.all(lower <= upper), question
        assert not np.any(np.isnan(lower) | np.isnan(upper))
    for prior in (0.0, 5e-324, 1.0):
        assert max(prior, 1 - prior) <= curve.attack_success(prior) <= 1.0
    assert 0 <= curve.worst_case_probability(0.0) <= curve.worst_case_probability(1.0) == 1.0


@pytest.mark.parametrize("mu", [50.0, 70.0, 80.0, 1e5])
def test_a_sampled_record_without_noise_is_seen_whenever_it_is_sampled(mu):
    # f = 0 up to rounding: C_p(f) is told with probability p.
    curve = gaussian(mu).subsample(0.5)
    alpha = np.array([0.1, 0.3, 0.6])
    assert np.all(curve(alpha) <= 0.5 * np.maximum(0.0, 1 - 2 * alpha) + alpha * (alpha < 0.5) + 1e-9)
    assert np.all(curve(alpha) <= np.maximum(0.0, 0.5 - alpha) + 1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: laplace(1000.0), r"mu must be in \[0, 600\], got 1000"),
        (lambda: laplace(1.0).group(1000), r"mu must be in \[0, 600\], got 1000"),
        (lambda: from_epsilon_delta(1000.0, 0.0), r"epsilon must be in \[0, 600\], got 1000"),
        (lambda: gaussian(1e7), r"mu must be in \[0, 1e6\], got 10000000"),
        (lambda: gaussian(1.0).group(10**7), r"mu must be in \[0, 1e6\], got 10000000"),
    ],
)
def test_curves_beyond_the_range_of_numbers_are_refused_and_not_cut(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "curve", [from_epsilon_delta(1.0, 0.0).group(2), from_epsilon_delta(1.0, 0.0).maximum(gaussian(1.0))]
)
def test_nothing_is_lost_at_huge_epsilon(curve):
    assert curve.delta([3.0, 709.0, 710.0, 1e6]).max() <= 1e-12


@pytest.mark.parametrize("curve", [laplace(600.0), from_epsilon_delta(1.0, 0.0) * 500])
def test_pure_privacy_has_a_finite_fit(curve):
    assert np.isfinite(curve.mu())


def test_points_at_tiny_false_positive_rates_compose():
    curve = from_points([0, 1e-310, 1], [1, 0.5, 0])
    # Twice: told with probability 3/4.
    assert (curve * 2).delta(1.0) == pytest.approx(0.75)
    assert curve.delta(1.0) == pytest.approx(0.5)


def test_losses_beyond_the_range_of_the_search_are_not_understated():
    curve = from_epsilon_delta(600.0, 0.0).group(2)
    # 1 - f is e^1200 times as steep as α at 0.
    assert curve.epsilon(1e-5) >= 1190.0
    assert curve.mu() >= from_epsilon_delta(600.0, 0.0).mu()
    many = from_epsilon_delta(1.0, 0.0) * 800
    assert many.mu() >= (from_epsilon_delta(1.0, 0.0) * 100).mu()


# Long chains.


@pytest.mark.parametrize(
    ("name", "times"),
    [("compose", 2000), ("minimum", 2000), ("maximum", 2000), ("subsample", 2000), ("group", 2000)],
)
def test_long_chains_are_written_copied_compared_and_dropped(name, times):
    def chain():
        curve = from_points(*CORNERS)
        for _ in range(times):
            argument = {"subsample": 0.9999, "group": 1}.get(name, gaussian(0.01))
            curve = getattr(curve, name)(argument)
        return curve

    curve = chain()
    assert repr(curve).count(name) == times
    assert pickle.loads(pickle.dumps(curve)) == curve == chain()
    assert hash(copy.deepcopy(curve)) == hash(curve)
    assert curve.adversary == gaussian(1).adversary
    assert 0 <= curve(0.3) <= 0.7


@pytest.mark.slow
def test_a_very_long_chain_is_dropped():
    curve = laplace(1.0)
    for _ in range(200_000):
        curve = curve.maximum(gaussian(1.0))
    del curve
