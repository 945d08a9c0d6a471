"""Privacy curves: composition, what they answer, and how they are kept."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import hockeystick as hs
from hockeystick import kernels

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 300, "group_size": 4}
OTHER = {"noise_multiplier": 2.0, "sample_rate": 0.02, "steps": 500, "group_size": 4}
TOLERANCE = 2e-6
"""Two certified answers of relative width 1e-6 differ by no more."""


@pytest.fixture
def curve():
    return hs.privacy_curve(**RUN)


@pytest.fixture
def other():
    return hs.privacy_curve(**OTHER)


@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove"])
def test_a_curve_gives_the_answers_of_the_functions(adjacency):
    curve = hs.privacy_curve(adjacency=adjacency, **RUN)
    deltas, epsilons = np.array([1e-8, 1e-5, 1e-2]), np.array([0.5, 3.0, 8.0])
    expected = hs.get_epsilon(delta=deltas, adjacency=adjacency, **RUN)
    np.testing.assert_allclose(curve.epsilon(deltas), expected, rtol=TOLERANCE)
    expected = hs.get_delta(epsilon=epsilons, adjacency=adjacency, **RUN)
    np.testing.assert_allclose(curve.delta(epsilons), expected, rtol=TOLERANCE)


def test_bounds_enclose_the_answers_of_the_functions(curve):
    deltas = np.array([1e-8, 1e-5, 1e-2])
    lower, upper = curve.bounds(delta=deltas)
    assert np.array_equal(upper, curve.epsilon(deltas))
    low, high = hs.get_epsilon(delta=deltas, bounds=True, **RUN)
    # Both intervals hold the truth, so they meet.
    assert np.all(np.maximum(lower, low) <= np.minimum(upper, high))
    lower, upper = curve.bounds(epsilon=3.0)
    assert lower <= upper == curve.delta(3.0)
    for wrong in ({}, {"delta": 1e-5, "epsilon": 1.0}):
        with pytest.raises(TypeError, match="exactly one of delta and epsilon"):
            curve.bounds(**wrong)


@pytest.mark.parametrize("times", [1, 2, 10, np.int64(7), 10**6])
def test_a_repeated_run_is_the_run_of_all_its_steps(curve, times):
    planned = hs.privacy_curve(**{**RUN, "steps": 300 * int(times)})
    for repeated in (curve * times, times * curve):
        assert repeated == planned
        assert hash(repeated) == hash(planned)
        assert repeated.steps == 300 * times
        assert repeated.epsilon(1e-5) == planned.epsilon(1e-5)


def test_a_run_can_be_split_anywhere(curve):
    parts = [hs.privacy_curve(**{**RUN, "steps": n}) for n in (1, 99, 200)]
    joined = parts[0] + parts[1] + parts[2]
    assert joined == curve
    assert joined.epsilon([1e-5, 1e-9]).tolist() == curve.epsilon([1e-5, 1e-9]).tolist()
    assert sum(parts[1:], parts[0]) == curve


def test_the_order_of_runs_does_not_matter(curve, other):
    first, second = curve + other, other + curve
    assert first == second
    assert hash(first) == hash(second)
    assert first.epsilon(1e-5) == second.epsilon(1e-5)
    assert first.segments == second.segments
    assert first.steps == 800


def test_different_runs_compose(curve, other):
    together = (curve + other).epsilon(1e-5)
    assert together > max(curve.epsilon(1e-5), other.epsilon(1e-5))
    # (epsilon, delta) add up in the simplest composition theorem, which is not tight.
    assert together < curve.epsilon(0.5e-5) + other.epsilon(0.5e-5)


def test_gaussian_runs_of_different_noise_compose_like_one():
    # Without sampling, runs compose to a Gaussian mechanism: T1 / s1^2 + T2 / s2^2.
    first = hs.privacy_curve(noise_multiplier=30.0, sampling=hs.FullBatch(), steps=20)
    second = hs.privacy_curve(noise_multiplier=50.0, sampling=hs.FullBatch(), steps=70)
    mu = np.sqrt(20 / 30**2 + 70 / 50**2)
    epsilon = 1.5
    exact = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    lower, upper = (first + second).bounds(epsilon=epsilon)
    assert lower <= exact * (1 + 1e-9)
    assert upper >= exact * (1 - 1e-9)
    assert upper - lower <= 1e-6 * upper


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_different_mechanisms_sampling_schemes_and_groups_compose():
    parts = [
        hs.privacy_curve(noise_multiplier=5.0, sampling=hs.WithoutReplacement(10, 1000), steps=20),
        hs.privacy_curve(mechanism=hs.Laplace(9.0), sample_rate=0.01, steps=20),
        hs.privacy_curve(noise_multiplier=9.0, sampling=hs.FullBatch(), steps=2),
        hs.privacy_curve(noise_multiplier=2.0, steps=20, group=hs.Group(rates=[0.01, 0.02], norms=[1, 0.5])),
    ]
    total = sum(parts[1:], parts[0])
    assert total.steps == 62
    assert len(total.segments) == 4
    assert max(part.delta(0.5) for part in parts) < total.delta(0.5) < 1.0


@pytest.mark.parametrize("empty", [hs.privacy_curve(**{**RUN, "steps": 0}), 0 * hs.privacy_curve(**RUN)])
def test_nothing_released_costs_nothing(empty, curve):
    assert empty.steps == 0
    assert empty.segments == ()
    assert empty.epsilon([1e-300, 0.5]).tolist() == [0.0, 0.0]
    assert empty.delta([0.0, 3.0]).tolist() == [0.0, 0.0]
    assert empty.bounds(delta=1e-5) == (0.0, 0.0)
    assert empty.advantage() == 0.0
    assert empty.renyi(2.0) == 0.0
    np.testing.assert_allclose(empty.beta([0.0, 0.25, 1.0]), [1.0, 0.75, 0.0], atol=1e-12)
    assert curve + empty == curve
    assert "0 steps" in str(empty)


def test_no_noise_costs_everything_unless_nobody_is_sampled():
    bare = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.5, steps=3)
    assert bare.epsilon(1e-5) == np.inf
    assert 0.875 <= bare.delta(5.0) <= 1.0
    unsampled = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.0, steps=3)
    assert unsampled.epsilon(1e-5) == 0.0
    assert unsampled.delta(0.0) == 0.0


def test_curves_of_different_adjacency_compose_to_one_that_names_both(curve):
    added = hs.privacy_curve(adjacency="add", **RUN)
    mixed = curve + added
    assert isinstance(mixed, hs.MixedCurve)
    assert list(mixed.segments) == ["add", "add_remove"]
    assert mixed.steps == 2 * curve.steps
    # The part of both directions may be seen as the other one is, and no less is lost then.
    assert mixed.epsilon(1e-5) >= (added * 2).epsilon(1e-5) * (1.0 - 1e-6)


def test_only_curves_add_and_only_whole_numbers_multiply(curve):
    for wrong in (1, 0.5, None, "curve"):
        with pytest.raises(TypeError, match="unsupported operand"):
            curve + wrong
    for wrong in (2.0, True, np.True_, None, curve):
        with pytest.raises(TypeError):
            curve * wrong
        with pytest.raises(TypeError):
            wrong * curve
    with pytest.raises(ValueError, match="times must be a whole number >= 0, got -1"):
        curve * -1
    with pytest.raises(ValueError, match=r"steps must be a whole number in \[0, \d+\] of each kind, got \d+"):
        curve * 2**60


def test_the_finer_tolerance_of_two_curves_counts():
    coarse = hs.privacy_curve(tolerance=1e-3, **RUN)
    fine = hs.privacy_curve(tolerance=1e-7, **OTHER)
    assert (coarse + fine).tolerance == (fine + coarse).tolerance == 1e-7


def test_ten_thousand_different_steps_compose_and_so_do_more():
    kind, count = hs.privacy_curve(noise_multiplier=20.0, sample_rate=0.01, steps=2).segments[0]
    steps = {kind._replace(noise=20.0 + i / 1000): count for i in range(10_000)}
    curve = hs.PrivacyCurve(steps, "add_remove", 1e-6)
    assert len(curve.segments) == 10_000
    assert len((curve + curve).segments) == 10_000
    assert len((curve + hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1)).segments) == 10_001


def test_many_segments_answer_like_the_run_between_them():
    rates = np.linspace(0.009, 0.011, 40)
    curves = [hs.privacy_curve(noise_multiplier=1.0, sample_rate=q, steps=10) for q in rates]
    total = sum(curves[1:], curves[0]).epsilon(1e-5)
    low, high = (
        hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=q, steps=400) for q in (0.009, 0.011)
    )
    assert low < total < high


@pytest.mark.slow
def test_ten_thousand_kinds_of_steps_have_a_narrow_interval():
    noise = np.linspace(2.0, 1.0, 10_000)
    accountant = hs.accountants.GroupAccountant(group_size=2)
    for sigma in noise.tolist():
        accountant.step(noise_multiplier=sigma, sample_rate=0.01)
    epsilon = accountant.get_epsilon(1e-5)  # a warning would be an error
    few = sum(
        (
            hs.privacy_curve(noise_multiplier=sigma, sample_rate=0.01, steps=100, group_size=2)
            for sigma in noise.reshape(100, 100).max(axis=1).tolist()
        ),
        hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=0, group_size=2),
    )
    # The least noise of each hundred is 1 % below the most: that is between the two.
    less_noise = hs.get_epsilon(
        delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=10_000, group_size=2
    )
    assert few.epsilon(1e-5) <= epsilon <= min(1.05 * few.epsilon(1e-5), less_noise)


def test_arrays_in_arrays_out(curve):
    grid = np.array([[0.1, 0.5, 0.9], [0.2, 0.4, 0.6]])
    for question in (curve.epsilon, curve.delta, curve.beta):
        values = question(grid)
        assert values.shape == (2, 3)
        assert values[1, 2] == question(0.6)
        assert type(question(0.6)) is float
        assert question([]).shape == (0,)
        assert question(grid.T[::-1]).shape == (3, 2)
    assert curve.renyi(grid + 2).shape == (2, 3)
    assert type(curve.renyi(2)) is float


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_beta_without_sampling_is_the_trade_off_of_two_gaussians(mu):
    curve = hs.privacy_curve(noise_multiplier=1 / mu, sampling=hs.FullBatch(), steps=1)
    alpha = np.array([1e-6, 0.01, 0.1, 0.5, 0.9, 0.999])
    exact = ndtr(ndtri(1 - alpha) - mu)
    beta = curve.beta(alpha)
    assert np.all(beta <= exact * (1 + 1e-9))
    np.testing.assert_allclose(beta, exact, rtol=1e-3, atol=1e-9)


def test_beta_lies_above_every_line_of_the_curve_and_ends_at_zero(curve):
    alpha = np.linspace(0.0, 1.0, 101)
    beta = curve.beta(alpha)
    for epsilon in (0.0, 0.5, 2.0, 5.0):
        line = 1 - curve.delta(epsilon) - np.exp(epsilon) * alpha
        assert np.all(beta >= line - 1e-3)
    assert np.all(np.diff(beta) <= 1e-12)
    assert beta[-1] == pytest.approx(0.0, abs=1e-9)
    assert 0.999 < beta[0] <= 1.0
    # The advantage is the largest distance to the diagonal.
    assert np.max(1 - alpha - beta) <= curve.advantage() + 1e-3


@pytest.mark.parametrize("order", [2500.0, 5000.0, 6000.0, 8000.0, 10_000.0])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_divergences_of_large_orders_are_those_of_the_farthest_outputs(adjacency, order):
    """In fixed batches q^a exp(a (a - 1) mu^2 / 2) is nearly all of the moment, and below it."""
    drawn = hs.WithoutReplacement(64, 1000)
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=drawn, steps=100, adjacency=adjacency)
    least = 100 * (order / 2 + order / (order - 1) * np.log(0.064))
    assert least <= curve.renyi(order) <= least * (1 + 1e-6)


@pytest.mark.parametrize("group_size", [1, 4])
def test_divergences_of_large_orders_are_close_in_capped_samples(group_size):
    """The whole group joins a full sample, and pushes as many others out: twice its size, over the noise.

    What the divergence lacks of that is the logarithm of one probability, whatever the order is.
    """
    capped = hs.Poisson(0.01, max_batch_size=20, dataset_size=1000)
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=capped, steps=100, group_size=group_size)
    orders = np.array([1234.5, 4000.0, 10_000.0])
    rare = (orders * group_size**2 / 2 - curve.renyi(orders) / 100) * (orders - 1) / orders
    assert np.all(rare > 0.0)
    assert np.ptp(rare) < 1e-2


def test_renyi_is_the_divergence_of_the_pair(curve, other):
    orders = np.array([1.5, 4.0, 16.0])

    def exact(direction):
        return sum(
            run["steps"]
            * kernels.renyi_mixture(
                orders,
                *kernels.binomial_law(4, run["sample_rate"]),
                run["noise_multiplier"],
                direction,
            )
            for run in (RUN, OTHER)
        )

    expected = np.maximum(exact("add"), exact("remove"))
    values = (curve + other).renyi(orders)
    assert np.all(values >= expected * (1 - 1e-9))
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_the_advantage_is_delta_at_zero(curve):
    assert curve.advantage() == curve.delta(0.0)
    full = hs.privacy_curve(noise_multiplier=0.5, sampling=hs.FullBatch(), steps=1)
    assert full.advantage() == pytest.approx(2 * ndtr(1.0) - 1, rel=1e-6)


def test_curves_survive_copying_and_pickling(curve, other):
    total = curve + other
    answer = total.epsilon(1e-5)  # fills the cache, which is not saved
    for twin in (copy.deepcopy(total), copy.copy(total), pickle.loads(pickle.dumps(total))):
        assert twin == total
        assert twin.tight == total.tight
        assert twin.epsilon(1e-5) == answer


def test_curves_do_not_change(curve):
    for name in ("segments", "adjacency", "tolerance", "steps", "tight", "cache"):
        with pytest.raises(AttributeError):
            setattr(curve, name, None)
    before = curve.segments
    _ = curve + curve, curve * 3
    assert curve.segments == before


def test_curves_differ_by_anything_that_matters(curve):
    for change in (
        {"noise_multiplier": 1.1},
        {"sample_rate": 0.02},
        {"steps": 301},
        {"group_size": 5},
        {"adjacency": "add"},
        {"tolerance": 1e-5},
    ):
        assert hs.privacy_curve(**{**RUN, **change}) != curve
    assert curve != "curve"


def test_equal_runs_said_in_different_words_are_equal_curves():
    by_rate = hs.privacy_curve(noise_multiplier=1.0, sample_rate=1.0, steps=3)
    assert hs.privacy_curve(noise_multiplier=1, sampling=hs.FullBatch(), steps=3) == by_rate
    group = hs.Group(rates=[0.1, 0.2])
    first = hs.privacy_curve(noise_multiplier=1.0, group=group, steps=3)
    assert hs.privacy_curve(noise_multiplier=1.0, group=group, sample_rate=0.7, steps=3) == first


def test_a_curve_prints_as_a_short_table(curve, other):
    kind = "300 x Gaussian(1), Poisson(0.01), 4 records"
    assert repr(curve) == f"<PrivacyCurve of {kind}; adjacency 'add_remove'>"
    text = str(curve + other)
    assert "800 steps of 2 kinds" in text
    assert "Gaussian(2)" in text
    assert "Poisson(0.02)" in text
    assert "4 records" in text
    for adjacency in ("add_remove", "replace"):
        full = hs.privacy_curve(noise_multiplier=9.0, sampling=hs.FullBatch(), steps=2, adjacency=adjacency)
        assert "FullBatch()" in str(full)
    many = [hs.privacy_curve(noise_multiplier=1.0 + i, sample_rate=0.1, steps=1) for i in range(20)]
    lines = str(sum(many[1:], many[0])).splitlines()
    assert len(lines) == 12
    assert "tight (GROUP, Theorem 18)" in lines[2]
    assert lines[-1] == "against an adversary who sees the output of every step"
    assert lines[-2].strip() == "and 12 further kinds"


def test_threads_get_the_same_answers(curve, other):
    total = curve + other
    deltas = np.logspace(-9, -3, 8)
    expected = [copy.copy(total).epsilon(delta) for delta in deltas]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(total.epsilon, deltas)) == expected


def test_arguments_are_checked_when_the_curve_is_made():
    for name, value in {
        "noise_multiplier": -1.0,
        "sample_rate": 1.5,
        "steps": 2.5,
        "group_size": 10_001,
        "tolerance": 0.5,
        "adjacency": "swap",
    }.items():
        with pytest.raises(ValueError, match=name):
            hs.privacy_curve(**{**RUN, name: value})
        with pytest.raises(ValueError, match=name):
            hs.privacy_curve(**{**RUN, name: [value]} if name != "adjacency" else {**RUN, name: value})


@pytest.mark.parametrize(
    ("method", "name", "values"),
    [
        ("epsilon", "delta", [0.0, 1.0, -1.0, float("nan"), float("inf")]),
        ("delta", "epsilon", [-1e-9, float("nan"), float("inf")]),
        ("beta", "alpha", [-0.1, 1.1, float("nan")]),
        ("renyi", "order", [1.0, 0.5, -2.0, float("nan"), float("inf")]),
    ],
)
def test_a_bad_question_is_refused_by_name(curve, method, name, values):
    for value in values:
        for question in (value, [0.5 if name != "order" else 2.0, value]):
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                getattr(curve, method)(question)
    for wrong in ("0.5", None, True, 1j):
        with pytest.raises(TypeError):
            getattr(curve, method)(wrong)


def test_a_wide_interval_is_announced_at_the_line_of_the_question(curve, monkeypatch):
    class Wide:
        def __init__(self, *_):
            pass

        def epsilon(self, delta):
            return np.full(delta.shape, 1.0), np.full(delta.shape, 1.5)

        delta = epsilon

    monkeypatch.setattr(hs._core, "Composition", Wide)
    for question in (lambda: curve.epsilon(1e-5), lambda: curve.bounds(epsilon=1.0), curve.advantage):
        with pytest.warns(hs.WideIntervalWarning, match=r"\[1, 1\.5\]") as caught:
            question()
        assert [warning.filename for warning in caught] == [__file__]
