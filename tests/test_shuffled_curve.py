"""`ShuffledCurve` and `GroupAccountant` for shuffled batches: the interval as an object, step by step."""

import json
import math
import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure

import hockeystick as hs
from hockeystick.accountants import GroupAccountant

SHUFFLE = hs.Shuffle(100, 2000)
RUN = {"noise_multiplier": 2.0, "sampling": SHUFFLE, "adjacency": "zero_out"}
DELTA = 1e-5


def axes_of_a_figure():
    """Axes that pyplot does not keep."""
    return Figure().subplots()


def ends(steps, **run):
    return hs.get_epsilon(delta=DELTA, steps=steps, bounds=True, **{**RUN, **run})


@pytest.mark.parametrize(
    "run", [{}, {"adjacency": "replace"}, {"group_size": 3}, {"sampling": hs.Shuffle(100, 2050)}]
)
@pytest.mark.parametrize("steps", [20, 27])
def test_a_curve_answers_as_the_functions_do(steps, run):
    curve = hs.privacy_curve(steps=steps, **{**RUN, **run})
    lower, upper = curve.bounds(delta=DELTA)
    expected = ends(steps, **run)
    assert lower == expected[0]
    assert upper == pytest.approx(expected[1], rel=2e-6)
    assert curve.epsilon(DELTA) == upper
    assert curve.delta(upper) == pytest.approx(DELTA, rel=1e-4)
    most = hs.get_delta(epsilon=1.0, steps=steps, bounds=True, **{**RUN, **run})
    assert curve.bounds(epsilon=1.0) == pytest.approx(most, rel=1e-5)
    assert (curve.steps, curve.tight, curve.group_size) == (steps, False, run.get("group_size", 1))


def test_one_record_is_one_gaussian_step_an_epoch():
    curve = hs.privacy_curve(steps=60, **RUN)
    gaussian = hs.privacy_curve(noise_multiplier=2.0, sampling=hs.FullBatch(), steps=3)
    deltas = [1e-3, 1e-5, 1e-8]
    np.testing.assert_allclose(curve.epsilon(deltas), gaussian.epsilon(deltas), rtol=2e-6)
    np.testing.assert_allclose(curve.beta([0.01, 0.2]), gaussian.beta([0.01, 0.2]), rtol=1e-4)
    assert curve.advantage() == pytest.approx(gaussian.advantage(), rel=1e-5)


def test_curves_compose_where_epochs_are_whole():
    epoch = hs.privacy_curve(steps=20, **RUN)
    assert epoch * 3 == 3 * epoch == epoch + epoch + epoch == hs.privacy_curve(steps=60, **RUN)
    assert hash(epoch * 3) == hash(hs.privacy_curve(steps=60, **RUN))
    assert (epoch * 0).epsilon(DELTA) == 0.0
    assert pickle.loads(pickle.dumps(epoch * 2)) == epoch * 2
    part = hs.privacy_curve(steps=27, **RUN)
    assert part * 1 == part
    with pytest.raises(hs.UnsupportedError, match="27 steps are not a multiple of 20"):
        part * 2
    with pytest.raises(hs.UnsupportedError, match="not a multiple"):
        epoch + part
    with pytest.raises(ValueError, match="group_size must be the same"):
        epoch + hs.privacy_curve(steps=20, group_size=2, **RUN)
    with pytest.raises(TypeError):
        epoch + hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=1)


def test_other_noise_in_other_epochs():
    first = hs.privacy_curve(steps=40, **RUN)
    second = hs.privacy_curve(steps=60, **{**RUN, "noise_multiplier": 4.0})
    lower, upper = (first + second).bounds(delta=DELTA)
    # Two Gaussian steps at 2 and three at 4.
    exact = hs.privacy_curve(noise_multiplier=2.0, sampling=hs.FullBatch(), steps=2) + hs.privacy_curve(
        noise_multiplier=4.0, sampling=hs.FullBatch(), steps=3
    )
    assert upper == pytest.approx(exact.epsilon(DELTA), rel=2e-6)
    # It reveals what either part does, what five epochs with the larger noise do, and less than five with 2.
    assert lower == max(ends(40)[0], ends(100, noise_multiplier=4.0)[0])
    assert lower <= ends(100)[0]
    # An epoch counts as its noisiest below, and as its least noisy above.
    mixed = hs.ShuffledCurve(SHUFFLE, ((2.0, 10), (4.0, 10)))
    assert mixed.bounds(delta=DELTA) == pytest.approx(
        (ends(20, noise_multiplier=4.0)[0], ends(20)[1]), rel=2e-6
    )


def test_no_noise_has_no_guarantee():
    curve = hs.privacy_curve(steps=20, **{**RUN, "noise_multiplier": 0.0})
    assert curve.epsilon(DELTA) == np.inf
    assert curve.delta(5.0) == 1.0


def test_an_accountant_counts_batches():
    accountant = GroupAccountant(group_size=2, adjacency="zero_out")
    assert accountant.get_epsilon(DELTA) == 0.0
    for _ in range(27):
        accountant.step(noise_multiplier=2.0, sampling=SHUFFLE)
    assert accountant.history == [(2.0, SHUFFLE, 27)]
    curve = accountant.privacy_curve()
    assert curve == hs.privacy_curve(steps=27, group_size=2, **RUN)
    assert curve is accountant.privacy_curve()
    assert accountant.get_epsilon(DELTA) == curve.epsilon(DELTA)
    assert accountant.get_delta(1.0) == curve.delta(1.0)
    loaded = GroupAccountant(group_size=2, adjacency="zero_out")
    loaded.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert loaded.get_epsilon(DELTA) == accountant.get_epsilon(DELTA)
    # The next epoch has less noise, and the order is that of the run.
    for _ in range(13):
        accountant.step(noise_multiplier=1.0, sampling=SHUFFLE)
    assert accountant.privacy_curve().segments == ((2.0, 27), (1.0, 13))
    assert accountant.get_epsilon(DELTA) > loaded.get_epsilon(DELTA)
    assert "interval" in accountant.description["status"]


def test_what_has_no_pair_together_is_refused_and_nothing_changes():
    accountant = GroupAccountant(adjacency="zero_out")
    for wrong in (hs.WithoutReplacement(10, 100), hs.Poisson(0.1, max_batch_size=15, dataset_size=100)):
        with pytest.raises(hs.UnsupportedError, match="zero_out"):
            accountant.step(noise_multiplier=1.0, sampling=wrong)
    with pytest.raises(hs.UnsupportedError, match="adjacency='zero_out'"):
        GroupAccountant().step(noise_multiplier=1.0, sampling=SHUFFLE)
    with pytest.raises(hs.UnsupportedError, match="Laplace"):
        accountant.step(mechanism=hs.Laplace(1.0), sampling=SHUFFLE)
    assert accountant.history == []
    accountant.step(noise_multiplier=1.0, sampling=SHUFFLE)
    with pytest.raises(hs.UnsupportedError, match="run of their own"):
        accountant.step(noise_multiplier=1.0, sampling=hs.Shuffle(50, 2000))
    replaced = GroupAccountant(adjacency="replace")
    replaced.step(noise_multiplier=1.0, sampling=hs.WithoutReplacement(100, 2000))
    with pytest.raises(hs.UnsupportedError, match="run of their own"):
        replaced.step(noise_multiplier=1.0, sampling=SHUFFLE)
    with pytest.raises(hs.UnsupportedError, match="run of their own"):
        replaced.history = [(1.0, SHUFFLE, 5), (1.0, 0.1, 5)]
    assert len(accountant) == len(replaced) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0.1, ((1.0, 5),)), TypeError, "Shuffle"),
        ((SHUFFLE, ((-1.0, 5),)), ValueError, "noise_multiplier"),
        ((SHUFFLE, ((1.0, -5),)), ValueError, "steps"),
        ((SHUFFLE, ((1.0, 5),), 0), ValueError, "group_size"),
        ((SHUFFLE, ((1.0, 5),), 3000), ValueError, "group_size"),
        ((SHUFFLE, ((1.0, 5),), 1, "add"), hs.UnsupportedError, "zero_out"),
        ((SHUFFLE, ((1.0, 5),), 1, "zero_out", 1.0), ValueError, "tolerance"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        hs.ShuffledCurve(*arguments)


@pytest.mark.slow
def test_reports_and_pictures_are_about_the_interval(tmp_path):
    curve = hs.privacy_curve(steps=40, **RUN)
    page = hs.report(curve, tmp_path / "run.md", group_sizes=[1, 2]).read_text("utf-8")
    assert "for one record that is zeroed out" in page
    assert "two data sets reveal the lower end at least" in page
    assert "zeros for the gradients of one record" in page
    assert "certified interval for shuffled batches" in page
    code = page.split("```python")[1].split("```")[0] if "```python" in page else page.split("```")[1]
    made = {}
    exec(code.partition("print")[0], made)
    assert made["curve"] == curve
    accountant = GroupAccountant(adjacency="zero_out")
    accountant.history = [(2.0, SHUFFLE, 40)]
    other = hs.report(accountant, tmp_path / "other.md", group_sizes=[1]).read_text("utf-8")
    assert "for one record that is zeroed out" in other
    axes = hs.plot.budget(accountant, DELTA, points=5, ax=axes_of_a_figure())
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(curve.epsilon(DELTA))
    shown = [text.get_text() for text in hs.plot.schemes(curve, DELTA, ax=axes_of_a_figure()).texts]
    assert any(" to " in text for text in shown)
    assert hs.plot.privacy_curve(curve, ax=axes_of_a_figure()).lines
    assert hs.plot.tradeoff_curve(curve, ax=axes_of_a_figure()).lines
    axes = hs.plot.epsilon_by_group_size(curve, DELTA, group_sizes=[1, 2], ax=axes_of_a_figure())
    lines = axes.lines
    np.testing.assert_allclose(lines[0].get_ydata(), [ends(40)[1], ends(40, group_size=2)[1]], rtol=1e-5)


def test_it_shows_itself():
    curve = hs.privacy_curve(steps=40, **RUN)
    shown = "Gaussian(2), Shuffle(100, 2000), 1 record"
    assert repr(curve) == f"<ShuffledCurve of 40 x {shown}; adjacency 'zero_out'>"
    noises = [
        hs.privacy_curve(steps=20, **{**RUN, "noise_multiplier": noise}) for noise in (1.0, 2.0, 3.0, 4.0)
    ]
    assert repr(sum(noises[1:], noises[0])).endswith("1 record; 1 further kinds; adjacency 'zero_out'>")
    assert "noise 1, 2, 3, ..., for 1 record" in str(sum(noises[1:], noises[0]))
    assert "no steps" in repr(curve * 0)
    assert curve.get_epsilon(DELTA) == curve.epsilon(DELTA)
    assert curve.get_delta(1.0) == curve.delta(1.0)
    assert "shuffled batches" in str(curve)
    assert "an adversary who sees the output" in str(curve)
    assert "at most" in curve._repr_html_()


def test_renyi_divergences_are_those_of_known_batches():
    """Two of four records in two batches: in one batch with probability 1/3, with a squared sum of 4."""
    run = {"noise_multiplier": 2.0, "sampling": hs.Shuffle(2, 4), "steps": 2}
    for adjacency, moved in (("zero_out", 1.0), ("replace", 2.0)):
        curve = hs.privacy_curve(adjacency=adjacency, group_size=2, **run)
        for order in (1.5, 3.0):
            exponent = order * (order - 1.0) * (moved / 2.0) ** 2 / 2.0
            moment = math.exp(4.0 * exponent) / 3.0 + 2.0 * math.exp(2.0 * exponent) / 3.0
            found = curve.renyi(order)
            exact = math.log(moment) / (order - 1.0)
            assert exact <= found < exact * (1.0 + 1e-9)
            assert hs.TradeoffCurve.from_curve(curve).renyi(order) == found
        assert abs((curve * 3).renyi(2.0) / (3.0 * curve.renyi(2.0)) - 1.0) < 1e-9
    with pytest.raises(ValueError, match="order must be in"):
        curve.renyi(1.0)
    silent = hs.ShuffledCurve(hs.Shuffle(2, 4), ((0.0, 2),))
    assert silent.renyi(2.0) == math.inf
    one = hs.privacy_curve(adjacency="zero_out", **run)
    assert one.best_of(hs.GeometricRuns(5.0)).epsilon(1e-5) > one.epsilon(1e-5)
