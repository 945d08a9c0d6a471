"""Pictures of runs: the numbers in them are those of the functions, on the safe side."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot
from matplotlib.colors import to_hex

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)
from hockeystick.plot.style import PALETTE

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def line(axes, label):
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return np.asarray(found.get_xdata(), dtype=float), np.asarray(found.get_ydata(), dtype=float)


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def followed(accountant, history=((1.0, 0.01, 60), (2.0, 0.01, 40))):
    accountant.history = list(history)
    return accountant


def test_privacy_curve_draws_both_bounds_and_the_quoted_point():
    axes = hs.plot.privacy_curve(delta=1e-5, **RUN)
    epsilons, deltas = line(axes, "upper bound")
    curve = hs.privacy_curve(**RUN)
    np.testing.assert_allclose(deltas, curve.delta(epsilons), rtol=1e-5)
    _, lower = line(axes, "lower bound")
    assert np.all(lower <= deltas)
    assert np.all(lower >= deltas * (1 - 1e-2))
    assert deltas[-1] == pytest.approx(1e-10, rel=1e-2)
    assert axes.get_yscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epsilon (nats)", "delta (probability)")
    quoted = float(labels(axes)[-1].strip("()").split(",")[0])
    assert curve.epsilon(1e-5) <= quoted <= curve.epsilon(1e-5) * 1.001


def test_epsilons_may_be_chosen():
    axes = hs.plot.privacy_curve(hs.privacy_curve(**RUN), epsilons=[0.5, 1.0])
    assert line(axes, "upper bound")[0].tolist() == [0.5, 1.0]


def test_curves_in_one_picture_differ_in_colour_and_dashes():
    axes = None
    for noise in (1.0, 2.0, 3.0):
        drawn = hs.plot.privacy_curve(
            ax=axes, label=f"{noise}", **{**RUN, "noise_multiplier": noise}, epsilons=[0.0, 1.0]
        )
        assert axes in (None, drawn)
        axes = drawn
    assert [to_hex(line.get_color()).upper() for line in axes.lines] == list(PALETTE[:3])
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in axes.lines}) == 3
    assert labels(axes) == ["1.0", "2.0", "3.0"]


@pytest.mark.parametrize(
    "accountant",
    [
        GroupAccountant(2),
        RenyiGroupAccountant(2),
        MonteCarloAccountant(2, samples=2000),
        ShuffleAccountant(10, 1000, 2),
    ],
    ids=lambda accountant: type(accountant).__name__,
)
def test_every_accountant_can_be_drawn(accountant):
    followed(accountant)
    axes = hs.plot.privacy_curve(accountant, epsilons=[1.0, 2.0])
    expected = [accountant.get_delta(1.0), accountant.get_delta(2.0)]
    np.testing.assert_allclose(line(axes, "upper bound")[1], expected, rtol=1e-5)
    assert hs.plot.tradeoff_curve(accountant).get_xlabel() == "false positive rate α (probability)"
    axes = hs.plot.budget(accountant, points=3)
    steps, epsilons = line(axes, "upper bound")
    assert steps.tolist() == [0, 1, 50, 60, 100]
    if not isinstance(accountant, MonteCarloAccountant):  # drawn by the exact curve
        assert epsilons[-1] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-5)
    assert epsilons[0] == 0.0
    assert np.all(np.diff(epsilons) >= 0.0)
    axes = hs.plot.epsilon_by_group_size(accountant, group_sizes=[1, 2])
    assert line(axes, "upper bound")[1][-1] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-5)


def test_an_individual_accountant_is_drawn_by_its_worst_case_alone():
    accountant = IndividualAccountant(3)
    accountant.update_norms([0.01, 0.02, 0.03])
    for _ in range(100):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    axes = hs.plot.privacy_curve(accountant, epsilons=[0.5, 1.0])
    np.testing.assert_allclose(
        line(axes, "upper bound")[1], hs.privacy_curve(**RUN).delta([0.5, 1.0]), rtol=1e-5
    )


def test_tradeoff_curve_shows_what_attacks_reach():
    curve = hs.TradeoffCurve.from_curve(hs.privacy_curve(**RUN))
    axes = hs.plot.tradeoff_curve(curve, false_alarms=[0.01])
    alphas, betas = line(axes, "best attack")
    exact = curve(alphas)
    assert np.all(betas <= exact + 1e-12)
    np.testing.assert_allclose(betas, exact, atol=2e-3)
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
    (advantage,) = [text for text in labels(axes) if text.startswith("advantage")]
    shown = float(advantage.split()[2]) / 100
    assert curve.advantage() <= shown <= curve.advantage() * 1.01
    (found,) = [text for text in labels(axes) if text.startswith("α")]
    share = float(found.split()[-2]) / 100
    assert 1.0 - curve(0.01) <= share <= (1.0 - curve(0.01)) * 1.01
    gap_x, gap_y = line(axes, advantage)
    assert gap_y[1] - gap_y[0] == pytest.approx(curve.advantage(), rel=1e-2)
    assert gap_x[0] == gap_x[1]


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_error_rates_hold_in_both_orders_whatever_is_asked(adjacency):
    run = {**RUN, "group_size": 4}
    one_way = line(hs.plot.tradeoff_curve(adjacency=adjacency, **run), "best attack")[1]
    both_ways = line(hs.plot.tradeoff_curve(**run), "best attack")[1]
    np.testing.assert_array_equal(one_way, both_ways)


def test_an_unsymmetric_tradeoff_curve_is_drawn_as_it_is():
    curve = hs.TradeoffCurve.from_points([0.0, 0.1, 1.0], [0.9, 0.2, 0.0])
    assert not curve.is_symmetric
    alphas, betas = line(hs.plot.tradeoff_curve(curve), "best attack")
    np.testing.assert_array_equal(betas, curve(alphas))


def test_groups_have_their_own_epsilons():
    axes = hs.plot.epsilon_by_group_size(delta=1e-6, group_sizes=[1, 2, 4], black_box=True, **RUN)
    sizes, epsilons = line(axes, "upper bound")
    assert sizes.tolist() == [1, 2, 4]
    expected = hs.get_epsilon(delta=1e-6, group_size=[1, 2, 4], **RUN)
    np.testing.assert_allclose(epsilons, expected, rtol=1e-5)
    assert np.all(line(axes, "from one record alone")[1] >= epsilons * (1 - 1e-2))
    assert np.all(line(axes, "lower bound")[1] <= epsilons)
    assert axes.get_ylabel() == "epsilon (nats) at delta = 1e-06"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4"]


def test_a_tradeoff_curve_implies_something_for_groups():
    axes = hs.plot.epsilon_by_group_size(hs.TradeoffCurve.gaussian(0.5), group_sizes=[1, 2])
    expected = [hs.TradeoffCurve.gaussian(mu).epsilon(1e-5) for mu in (0.5, 1.0)]
    np.testing.assert_allclose(line(axes, "upper bound")[1], expected, rtol=1e-6)


def test_schemes_are_those_of_explain_and_the_shuffled_one():
    axes = hs.plot.schemes(delta=1e-5, dataset_size=1000, **RUN)
    found = hs.explain(delta=1e-5, dataset_size=1000, **RUN)
    for relation, label in (("add_remove", "add or remove"), ("replace", "replace")):
        expected = [other["epsilon"] for other in found["other_schemes"] if other["adjacency"] == relation]
        np.testing.assert_allclose(line(axes, label)[0], expected, rtol=1e-6)
    accountant = ShuffleAccountant(10, 1000)
    accountant.history = [(1.0, 0.01, 100)]
    assert line(axes, "replace, batches known")[0] == pytest.approx(accountant.get_epsilon(1e-5))
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows == ["Poisson\nsampling", "fixed\nbatches", "no\nsampling", "shuffling"]


def test_schemes_that_are_not_covered_say_so():
    axes = hs.plot.schemes(group_size=4, **RUN)
    assert "replace: not covered" in [text.get_text() for text in axes.texts]
    assert len(axes.get_yticklabels()) == 3  # the size of the data set is not known: no shuffling


def test_no_noise_is_no_privacy():
    axes = hs.plot.schemes(noise_multiplier=0.0, sampling=hs.FullBatch(), steps=1)
    assert "add or remove: no privacy" in [text.get_text() for text in axes.texts]


def test_runs_that_tell_nothing_have_epsilon_zero():
    nothing = {**RUN, "sample_rate": 0.0}
    axes = hs.plot.schemes(**nothing)
    assert "add or remove: 0" in [text.get_text() for text in axes.texts]
    axes = hs.plot.epsilon_by_group_size(**nothing)
    assert line(axes, "upper bound")[1].tolist() == [0.0] * 6
    axes = hs.plot.privacy_curve(**nothing)
    assert line(axes, "upper bound")[0][-1] == 1.0
    axes = hs.plot.budget(**nothing)
    assert line(axes, "upper bound")[1].max() == 0.0
    axes = hs.plot.tradeoff_curve(**nothing)
    assert "advantage ≤ 0 %" in labels(axes)


def test_budget_finds_the_last_step_within_the_target():
    accountant = followed(GroupAccountant())
    axes = hs.plot.budget(accountant, target=0.6, points=5)
    (within,) = [text for text in labels(axes) if text.startswith("within")]
    last = int(within.split()[-2])
    epsilon = [GroupAccountant(), GroupAccountant()]
    for steps, follower in zip((last, last + 1), epsilon, strict=True):
        followed(follower, [(1.0, 0.01, steps)])
    assert epsilon[0].get_epsilon(1e-5) <= 0.6 < epsilon[1].get_epsilon(1e-5)
    assert line(axes, "target 0.6")[1].tolist() == [0.6, 0.6]
    assert any(line.get_xdata()[0] == 60 for line in axes.lines if line.get_linestyle() == ":")


def test_budget_within_the_target_has_no_mark():
    axes = hs.plot.budget(target=100.0, **RUN)
    assert labels(axes) == ["upper bound", "target 100"]


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: hs.plot.privacy_curve(), TypeError, "give a curve or an accountant"),
        (lambda: hs.plot.privacy_curve(3), TypeError, "curve_or_accountant must be .* got int"),
        (lambda: hs.plot.privacy_curve(hs.privacy_curve(**RUN), steps=3), TypeError, "or steps"),
        (lambda: hs.plot.privacy_curve(epsilons=[1.0], **RUN), ValueError, "epsilons must be at least two"),
        (lambda: hs.plot.privacy_curve(epsilons=[2.0, 1.0], **RUN), ValueError, "epsilons must be ascending"),
        (lambda: hs.plot.privacy_curve(delta=1.0, **RUN), ValueError, r"delta must be in \(0, 1\), got 1.0"),
        (
            lambda: hs.plot.privacy_curve(**{**RUN, "noise_multiplier": 0.0}),
            ValueError,
            "epsilons must be given where no finite epsilon protects",
        ),
        (lambda: hs.plot.privacy_curve(ax=1, **RUN), TypeError, "ax must be a matplotlib Axes, got int"),
        (lambda: hs.plot.tradeoff_curve(false_alarms=[2.0], **RUN), ValueError, "false_alarms must be in"),
        (lambda: hs.plot.tradeoff_curve(false_alarms=[0.1] * 7, **RUN), ValueError, "at most 6 rates, got 7"),
        (lambda: hs.plot.epsilon_by_group_size(group_sizes=[1], **RUN), ValueError, "at least two sizes"),
        (lambda: hs.plot.epsilon_by_group_size(group_sizes=[2, 1], **RUN), ValueError, "ascending"),
        (lambda: hs.plot.epsilon_by_group_size(group_sizes=[1, 10**6], **RUN), ValueError, "at most 100000"),
        (
            lambda: hs.plot.epsilon_by_group_size(**{**RUN, "noise_multiplier": 0.0}),
            ValueError,
            "epsilon must be finite",
        ),
        (
            lambda: hs.plot.epsilon_by_group_size(group=hs.Group(norms=[0.1, 0.2]), **RUN),
            hs.UnsupportedError,
            "members of this group differ",
        ),
        (
            lambda: hs.plot.epsilon_by_group_size(followed(GroupAccountant()), black_box=True),
            hs.UnsupportedError,
            "steps of one kind",
        ),
        (lambda: hs.plot.schemes(hs.TradeoffCurve.gaussian(1)), hs.UnsupportedError, "needs the steps"),
        (lambda: hs.plot.schemes(dataset_size=0, **RUN), ValueError, "dataset_size"),
        (lambda: hs.plot.schemes(GroupAccountant()), ValueError, "steps must be at least 1"),
        (lambda: hs.plot.budget(GroupAccountant()), ValueError, "steps must be at least 1"),
        (lambda: hs.plot.budget(target=0.0, **RUN), ValueError, r"target must be in \(0, inf\)"),
        (lambda: hs.plot.budget(points=1, **RUN), ValueError, "points"),
        (
            lambda: hs.plot.budget(hs.privacy_curve(**RUN) + hs.privacy_curve(**{**RUN, "sample_rate": 0.1})),
            hs.UnsupportedError,
            "does not know their order",
        ),
        (
            lambda: hs.plot.budget(followed(GroupAccountant(), [(0.0, 0.1, 1)])),
            ValueError,
            "epsilon must be finite",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_drawn(draw, error, message):
    with pytest.raises(error, match=message):
        draw()
    assert not pyplot.get_fignums()


@pytest.mark.parametrize("name", hs.plot.__all__)
def test_a_missing_extra_is_named(name, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    argument = hs.privacy_curve(**RUN) if name != "individual_histogram" else [1.0]
    with pytest.raises(ImportError, match=r'pip install "\.\[plot\]"'):
        getattr(hs.plot, name)(argument)


def test_the_style_is_left_as_it_was():
    before = dict(mpl.rcParams)
    hs.plot.privacy_curve(**RUN)
    assert dict(mpl.rcParams) == before


def test_own_axes_keep_their_size_and_style():
    figure, axes = pyplot.subplots(figsize=(7, 5))
    assert hs.plot.budget(ax=axes, **RUN) is axes
    assert figure.get_size_inches().tolist() == [7, 5]
    assert axes.xaxis.label.get_fontsize() == mpl.rcParams["font.size"]
