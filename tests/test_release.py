"""Released statistics: their guarantee by OpenDP's map, their error by repetition."""

import math

import numpy as np
import pytest
from nightly import some

import hockeystick as hs
from hockeystick import release

VALUES = np.random.default_rng(3).lognormal(0.0, 0.5, size=20_000)
UPPER = 4.0
CLIPPED = np.clip(VALUES, 0.0, UPPER)
REPETITIONS = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "delta"),
    some(
        [
            ("add_remove", 1e-5),
            ("add_remove", 0.0),
            ("add_remove", 0.3),
            ("replace", 0.0),
            ("replace", 1e-5),
            ("replace", 0.3),
        ],
        3,
    ),
)
def test_means_are_unbiased_and_as_exact_as_they_say(adjacency, delta):
    settings = {"epsilon": 0.5, "delta": delta, "upper": UPPER, "adjacency": adjacency}
    runs = [release.mean(VALUES, **settings) for _ in range(REPETITIONS)]
    errors = np.array([run.value for run in runs]) - CLIPPED.mean()
    error = runs[0].standard_error
    assert abs(errors.mean()) < 5.0 * error / math.sqrt(REPETITIONS)
    # Laplace noise has kurtosis 6: the standard error of its sample deviation is 18 %.
    assert 0.3 * error < errors.std() < 2.0 * error
    assert error < 0.002
    assert all(run.epsilon <= 0.5 and run.delta <= delta for run in runs)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_the_noise_of_means_is_no_more_than_the_guarantee_needs(adjacency):
    run = release.mean(VALUES, epsilon=0.5, upper=UPPER, adjacency=adjacency)
    assert 0.498 < run.epsilon <= 0.5
    n = len(VALUES)
    if adjacency == "replace":
        # Laplace noise of scale (upper - lower) / epsilon on the sum.
        assert run.standard_error == pytest.approx(math.sqrt(2.0) * UPPER / 0.5 / n, rel=2e-3)
    else:
        # Half of the privacy for the sum about the middle, half for the number.
        centred = CLIPPED.mean() - UPPER / 2
        expected = math.sqrt(2.0) / 0.25 * math.hypot(UPPER / 2, centred) / n
        assert run.standard_error == pytest.approx(expected, rel=0.01)


def test_gaussian_noise_is_taken_where_it_needs_less():
    laplace = release.mean(VALUES, epsilon=0.1, delta=1e-5, upper=UPPER)
    assert "Laplace" in laplace.mechanism
    assert laplace.delta == 0.0
    gaussian = release.mean(VALUES, epsilon=0.1, delta=0.3, upper=UPPER)
    assert "Gaussian" in gaussian.mechanism
    assert gaussian.delta == 0.3
    assert gaussian.standard_error < laplace.standard_error


def test_a_mean_sees_values_clipped_to_the_range():
    values = [-math.inf, -5.0, 1.5, math.inf]
    run = release.mean(values, epsilon=1e6, lower=1.0, upper=2.0, adjacency="replace")
    assert run.value == pytest.approx((1.0 + 1.0 + 1.5 + 2.0) / 4, abs=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_budget_beyond_all_arithmetic_is_spent_as_far_as_it_goes(delta):
    run = release.mean([0.2, 0.4], epsilon=1e300, delta=delta, upper=1.0, adjacency="replace")
    assert run.value == pytest.approx(0.3)
    assert release.quantiles([0.2, 0.4], 0.5, epsilon=1e17, delta=delta, upper=1e-140).epsilon <= 1e17


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_one_example_changes_the_sum_by_no_more_than_the_map_takes_it_to(adjacency):
    # With next to no noise, released sums are sums.
    settings = {"epsilon": 1e6, "upper": UPPER, "adjacency": adjacency}
    values = VALUES[:50].tolist()
    start = release.mean(values, **settings).value * 50
    for other in (0.0, UPPER, math.inf):
        if adjacency == "replace":
            moved = release.mean([*values[:-1], other], **settings).value * 50 - start
            assert abs(moved) <= UPPER + 1e-3
        else:
            # About the middle of the range.
            moved = (release.mean([*values, other], **settings).value - 2.0) * 51 - (start - 2.0 * 50)
            assert abs(moved) <= UPPER / 2 + 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "delta"),
    some([("add_remove", 1e-5), ("add_remove", 0.0), ("replace", 0.0), ("replace", 1e-5)]),
)
def test_quantiles_have_nearly_the_rank_they_should(adjacency, delta):
    chances = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    for _ in range(8):
        run = release.quantiles(
            VALUES, chances, epsilon=0.5, delta=delta, upper=UPPER, adjacency=adjacency, candidates=2000
        )
        ranks = np.searchsorted(np.sort(CLIPPED), run.value) / len(CLIPPED)
        # Scale of the noise is 10 or 20 ranks per quantile, times log(2000) = 7.6; a step is 0.2 % at most.
        assert np.all(np.abs(ranks - chances) < 0.02)
        assert np.all(np.diff(run.value) >= 0.0)
        assert 0.49 < run.epsilon <= 0.5
        assert run.delta <= delta


def test_many_quantiles_are_composed_as_concentrated_and_few_as_pure():
    few = release.quantiles(VALUES, 0.5, epsilon=0.1, delta=1e-5, upper=UPPER)
    many = release.quantiles(VALUES, np.linspace(0.05, 0.95, 19), epsilon=0.1, delta=1e-5, upper=UPPER)
    assert isinstance(few.value, float)
    assert (few.delta, many.delta) == (0.0, 1e-5)
    assert "zero-concentrated" in many.mechanism
    assert many.value.shape == (19,)


def test_quantiles_follow_the_order_of_their_probabilities():
    run = release.quantiles(VALUES, [0.9, 0.1, 0.5, 0.5], epsilon=1.0, upper=UPPER)
    assert run.value[1] < run.value[2] <= run.value[3] < run.value[0]


@pytest.mark.slow
@pytest.mark.parametrize("draws", [500, pytest.param(2000, marks=pytest.mark.long)])
def test_the_guarantee_covers_neighbours_by_counting_outcomes(draws):
    # 4 candidates and 3 values: probabilities of outcomes by repetition, within four standard errors.
    settings = {"epsilon": 1.0, "upper": 3.0, "candidates": 3}
    here, there = (
        np.array([release.quantiles(values, 0.5, **settings).value for _ in range(draws)])
        for values in ([0.0, 1.0, 3.0], [0.0, 1.0])
    )
    for outcome in range(4):
        p, q = np.mean(here == outcome), np.mean(there == outcome)
        slack = 4.0 * math.sqrt(0.25 / draws)
        assert p - slack <= math.e * (q + slack)
        assert q - slack <= math.e * (p + slack)


def test_a_release_says_what_it_is():
    run = release.mean(VALUES, epsilon=0.1, upper=UPPER)
    assert str(run).splitlines()[1:] == [
        f"  guarantee: ({run.epsilon:.6g}, 0)-DP, given the trained weights",
        "  adjacency: add_remove, of one value",
        "  values clipped to [0, 4]",
        "  mechanism: discrete Laplace noise on the sum and number of the values (OpenDP)",
    ]
    assert "(one standard error)" in str(run).splitlines()[0]
    assert "standard error" not in str(release.quantiles(VALUES, 0.5, epsilon=0.1, upper=UPPER))


def test_opendp_is_left_as_it_was():
    from opendp.mod import GLOBAL_FEATURES

    before = set(GLOBAL_FEATURES)
    release.mean(VALUES, epsilon=0.1, upper=UPPER)
    assert set(GLOBAL_FEATURES) == before


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"values": []}, ValueError, "values must be at least one number"),
        ({"values": [1.0, math.nan]}, ValueError, "values must not be NaN"),
        ({"values": [[1.0]]}, ValueError, "values must be one-dimensional"),
        ({"values": ["a"]}, TypeError, "values"),
        ({"epsilon": 0.0}, ValueError, r"epsilon must be in \(0, inf\), got 0.0"),
        ({"epsilon": math.inf}, ValueError, "epsilon"),
        ({"epsilon": 1e-13}, ValueError, "epsilon must be larger"),
        ({"delta": 1.0}, ValueError, r"delta must be in \[0, 1\)"),
        ({"delta": -0.1}, ValueError, "delta"),
        ({"upper": 0.0}, ValueError, "upper must be finite and above lower, 0.0, got 0.0"),
        ({"upper": math.inf}, ValueError, "upper must be finite"),
        ({"lower": -math.inf}, ValueError, "lower must be finite"),
        ({"adjacency": "add"}, ValueError, "adjacency must be one of 'add_remove', 'replace'"),
    ],
)
def test_bad_arguments_are_refused(changes, error, message):
    usual = {"values": VALUES, "epsilon": 0.1, "upper": UPPER} | changes
    values = usual.pop("values")
    with pytest.raises(error, match=message):
        release.mean(values, **usual)
    with pytest.raises(error, match=message):
        release.quantiles(values, 0.5, **usual)


@pytest.mark.parametrize(
    ("probabilities", "candidates", "message"),
    [
        ([], 10, "probabilities must be at least one number"),
        (1.5, 10, r"probabilities must be in \[0, 1\], got 1.5"),
        ([0.5, math.nan], 10, "probabilities must be in"),
        (0.5, 0, "candidates"),
    ],
)
def test_bad_quantiles_are_refused(probabilities, candidates, message):
    with pytest.raises(ValueError, match=message):
        release.quantiles(VALUES, probabilities, epsilon=0.1, upper=UPPER, candidates=candidates)


def test_a_missing_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[release\]"'):
        hs.release.mean(VALUES, epsilon=0.1, upper=UPPER)
