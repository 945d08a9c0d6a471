"""Shuffled batches against the usual adversary: both ends of the certified interval."""

import concurrent.futures
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import hockeystick as hs
from hockeystick._rounding import rounded_down, rounded_up

EPOCH = {"sampling": hs.Shuffle(600, 60_000), "steps": 100, "adjacency": "zero_out"}
"""One epoch of 100 batches."""


def ends(**run):
    return hs.get_epsilon(**{"delta": 1e-5, "noise_multiplier": 1.0, "bounds": True, **EPOCH, **run})


@pytest.mark.parametrize(
    ("sigma", "batches", "delta", "lower", "upper", "poisson"),
    [
        (1.0, 100, 1e-5, 4.063, 4.377, 0.718),
        (0.5, 1000, 1e-6, 10.997, 10.997, 4.235),
        (2.0, 100, 1e-5, 0.484, 1.993, 0.190),
    ],
)
def test_one_epoch_has_the_published_ends(sigma, batches, delta, lower, upper, poisson):
    run = {"delta": delta, "noise_multiplier": sigma, "steps": batches}
    found = ends(sampling=hs.Shuffle(60_000 // batches, 60_000), **run)
    assert found == pytest.approx((lower, upper), abs=1e-3)
    assert found[0] <= found[1]
    assert hs.get_epsilon(sample_rate=1 / batches, **run) == pytest.approx(poisson, abs=1e-3)


def largest_output_epsilon(sigma, batches, delta):
    """Epsilon of the events that the largest output exceeds some number, by SciPy (Chua et al. 2024)."""
    places = np.linspace(-2.0 * sigma, 2.0 + 9.0 * sigma, 40_001)

    def tail(mean):
        others = (batches - 1) * stats.norm.logcdf(places / sigma)
        return -np.expm1(others) + np.exp(others) * stats.norm.sf((places - mean) / sigma)

    p, q = tail(2.0), tail(1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nanmax(np.log((p - delta) / q))


@pytest.mark.parametrize(("sigma", "batches"), [(0.4, 10), (0.7, 60), (1.0, 10), (1.3, 200), (1.0, 3000)])
def test_the_lower_end_of_one_epoch_is_at_least_that_of_the_largest_output(sigma, batches):
    lower, upper = ends(noise_multiplier=sigma, sampling=hs.Shuffle(20, 20 * batches), steps=batches)
    expected = largest_output_epsilon(sigma, batches, 1e-5)
    assert lower >= expected - 2e-4
    assert lower <= upper
    if lower > 1.5:  # little noise: the largest output is what tells most
        assert lower == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(("sigma", "batches", "epsilon"), [(1.0, 4, 1.5), (1.5, 6, 0.5), (0.8, 3, 2.5)])
def test_the_true_delta_of_the_two_data_sets_lies_between_the_ends(sigma, batches, epsilon):
    # P: noise around 2 in one of the batches, Q: around 1. The ratio of the densities is known.
    random = np.random.default_rng(5)
    outputs = sigma * random.standard_normal((400_000, batches))
    outputs[:, 0] += 2.0
    logs = [np.log(np.exp((mean * outputs - mean**2 / 2) / sigma**2).mean(axis=1)) for mean in (2.0, 1.0)]
    gains = np.maximum(0.0, -np.expm1(epsilon - (logs[0] - logs[1])))
    exact, error = gains.mean(), gains.std() / math.sqrt(len(gains))
    run = {"noise_multiplier": sigma, "sampling": hs.Shuffle(7, 7 * batches), "steps": batches}
    lower, upper = hs.get_delta(epsilon=epsilon, adjacency="zero_out", bounds=True, **run)
    assert lower <= exact + 5 * error
    assert exact - 5 * error <= upper
    # Half of either end would not hold.
    assert lower > 0.5 * exact
    assert upper < 8 * exact


def test_the_upper_end_is_one_gaussian_step_an_epoch():
    for steps, epochs in ((100, 1), (250, 3), (1000, 10)):
        full = hs.get_epsilon(
            delta=1e-5, noise_multiplier=1.0, sampling=hs.FullBatch(), steps=epochs, adjacency="add_remove"
        )
        upper = ends(steps=steps)[1]
        if steps % 100:
            # Half of the records are in no batch of the last epoch.
            assert ends(steps=200)[1] < upper < full
        else:
            assert upper == pytest.approx(full, rel=1e-6)
    full = hs.get_epsilon(
        delta=1e-5, noise_multiplier=1.0, sampling=hs.FullBatch(), steps=1, adjacency="replace"
    )
    assert ends(adjacency="replace")[1] == pytest.approx(full, rel=1e-6)


def test_records_that_are_left_over_are_in_no_batch():
    delta, _ = hs.get_delta(
        epsilon=1.0,
        noise_multiplier=0.0,
        sampling=hs.Shuffle(3, 8),
        steps=2,
        adjacency="zero_out",
        bounds=True,
    )
    assert delta == pytest.approx(0.75)
    fewer = hs.get_delta(
        epsilon=1.0,
        noise_multiplier=1.0,
        sampling=hs.Shuffle(3, 8),
        steps=2,
        adjacency="zero_out",
        bounds=True,
    )
    all_of_them = hs.get_delta(
        epsilon=1.0,
        noise_multiplier=1.0,
        sampling=hs.Shuffle(4, 8),
        steps=2,
        adjacency="zero_out",
        bounds=True,
    )
    assert fewer[1] == pytest.approx(0.75 * all_of_them[1], rel=1e-6)
    assert fewer[0] < all_of_them[0]


def test_the_strong_adversary_of_replaced_records_has_the_same_upper_end():
    for group_size in (1, 3):
        curve = hs.shuffle.tradeoff(
            hs.Shuffle(20, 410), noise_multiplier=4.0, epochs=3, group_size=group_size
        )
        upper = ends(
            noise_multiplier=4.0,
            sampling=hs.Shuffle(20, 410),
            steps=60,
            group_size=group_size,
            adjacency="replace",
        )[1]
        assert upper == pytest.approx(curve.epsilon(1e-5), rel=1e-5)


@pytest.mark.slow
def test_the_ends_are_ordered_and_monotone_over_random_runs():
    random = np.random.default_rng(11)
    for _ in range(6):
        batches, batch = int(random.integers(1, 200)), int(random.integers(1, 50))
        run = {
            "noise_multiplier": float(random.uniform(0.3, 4.0)),
            "sampling": hs.Shuffle(batch, batches * batch + int(random.integers(0, batch))),
            "steps": int(random.integers(1, 4 * batches + 1)),
            "adjacency": str(random.choice(["zero_out", "replace"])),
            "group_size": int(random.integers(1, min(4, batches * batch) + 1)),
            "delta": float(10.0 ** random.uniform(-9, -2)),
            "tolerance": 1e-3,
        }
        lower, upper = ends(**run)
        assert 0.0 <= lower <= upper, run
        # The interval of a run that reveals more: its upper end is not below this lower end.
        for more in (
            {"steps": run["steps"] + batches},
            {"noise_multiplier": 0.8 * run["noise_multiplier"]},
            {"delta": 0.1 * run["delta"]},
        ):
            other = ends(**{**run, **more})
            assert other[1] >= upper * (1 - 1e-3), (run, more)
            assert other[0] >= lower * (1 - 0.01), (run, more)
        below, above = hs.get_delta(
            epsilon=lower, bounds=True, **{name: value for name, value in run.items() if name != "delta"}
        )
        assert below <= above
        assert above >= run["delta"] * (1 - 1e-3) or lower == 0.0, run


def test_several_epochs_compose():
    lower, upper = ends(steps=1000)
    assert lower == pytest.approx(9.36, abs=0.03)
    assert upper == pytest.approx(17.857, abs=1e-3)
    # Ten epochs reveal no less than one, and their lower end no more than ten times that of one.
    assert ends()[0] < ends(steps=200)[0] < lower < 10 * ends(delta=1e-6)[0]
    # With much noise the sums of long blocks of batches tell most: nearly one Gaussian of all 100 epochs.
    lower, _ = ends(noise_multiplier=20.0, steps=10_000)
    of_sums = hs.TradeoffCurve.gaussian(1 / 20).epsilon(1e-5)
    assert 0.9 * of_sums < lower


def test_without_both_ends_the_upper_one_comes_with_a_warning():
    with pytest.warns(hs.WideIntervalWarning, match=r"\[4\.063.*, 4\.377.*\].*bounds=True") as caught:
        found = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, **EPOCH)
    assert caught[0].filename == __file__
    assert found == ends()[1]
    with pytest.warns(hs.WideIntervalWarning, match="delta of shuffled"):
        delta = hs.get_delta(epsilon=found, noise_multiplier=1.0, **EPOCH)
    assert delta == pytest.approx(1e-5, rel=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, **{**EPOCH, "steps": 0}) == 0.0


def test_arguments_broadcast_and_an_executor_gives_the_same():
    run = {"delta": [1e-5, 1e-6], "noise_multiplier": [[1.0], [2.0]], "group_size": 2}
    lower, upper = ends(**run)
    assert lower.shape == upper.shape == (2, 2)
    assert ends(delta=1e-6, noise_multiplier=2.0, group_size=2) == (lower[1, 1], upper[1, 1])
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        again = ends(executor=executor, **run)
    np.testing.assert_array_equal(again, (lower, upper))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"adjacency": "add_remove"},
            hs.UnsupportedError,
            "adjacency='zero_out'.*'replace'.*ShuffleAccountant",
        ),
        ({"adjacency": "swap"}, ValueError, "adjacency must be one of"),
        ({"sample_rate": 0.1}, TypeError, "exactly one of sample_rate and sampling"),
        ({"mechanism": hs.Laplace(1.0), "noise_multiplier": None}, hs.UnsupportedError, "noise_multiplier"),
        ({"noise_multiplier": None}, TypeError, "exactly one of noise_multiplier and mechanism"),
        ({"noise_multiplier": -1.0}, ValueError, "noise_multiplier must be"),
        ({"group": hs.Group(norms=[1.0, 0.5])}, hs.UnsupportedError, "group_size"),
        ({"group_size": 60_001}, ValueError, "group_size must be"),
        ({"delta": 0.0}, ValueError, "delta must be"),
        ({"bounds": 1}, TypeError, "bounds must be"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(arguments, error, words):
    with pytest.raises(error, match=words):
        ends(**arguments)


def test_zeroed_out_records_are_those_of_each_scheme():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 1}
    for sampling in ({"sample_rate": 0.1}, {"sampling": hs.FullBatch()}):
        assert hs.get_epsilon(adjacency="zero_out", **run, **sampling) == hs.get_epsilon(**run, **sampling)
    with pytest.raises(hs.UnsupportedError, match="'replace', which covers it"):
        hs.get_epsilon(adjacency="zero_out", sampling=hs.WithoutReplacement(10, 100), **run)
    with pytest.raises(hs.UnsupportedError, match="'add_remove', which is the same"):
        hs.renyi.group_rdp(hs.Gaussian(1.0), [2.0], sample_rate=0.1, group_size=1, adjacency="zero_out")
    with pytest.raises(hs.UnsupportedError, match="adjacency='zero_out'"):
        hs.privacy_curve(noise_multiplier=1.0, sampling=EPOCH["sampling"], steps=1)


def test_explain_shows_the_interval_beside_what_poisson_accounting_says():
    found = hs.explain(delta=1e-5, noise_multiplier=1.0, **EPOCH)
    assert (found["lower"], found["epsilon"]) == ends()
    assert found["statement"] == "(4.3772, 1e-05)-differential privacy for one record that is zeroed out"
    text = str(found)
    note = f"at least {rounded_down(ends()[0])}; Poisson accounting says 0.71804"
    assert note in text
    assert "epsilon of the run lies in [4.06" in text
    other = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=100, dataset_size=60_000)
    assert other["other_schemes"][-1]["epsilon"] == pytest.approx(ends()[1], rel=1e-3)
    assert other["other_schemes"][-1]["note"] == note


def test_reports_and_pictures_show_both_ends(tmp_path):
    run = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    page = tmp_path / "privacy.md"
    hs.report(run, page, delta=1e-5, dataset_size=60_000, pictures=False)
    both = f"{rounded_down(ends()[0])} to {rounded_up(ends()[1])}"
    assert f"| shuffling, zero out | {both} |" in page.read_text("utf-8")
    axes = hs.plot.schemes(run, 1e-5, dataset_size=60_000)
    assert both in [text.get_text() for text in axes.texts]
    drawn = [
        line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == "|"
    ]
    np.testing.assert_allclose(drawn[-1], ends(), rtol=1e-3)
