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
from hockeystick.plot._style import BLUE, PALETTE

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def line(axes, label):
    """The line with a label; that of both ends is the upper one, too."""
    names = (
        ("upper bound", "exact (certified)", "upper bound (certified)")
        if label == "upper bound"
        else (label,)
    )
    (found,) = [line for line in axes.lines if line.get_label() in names]
    return np.asarray(found.get_xdata(), dtype=float), np.asarray(found.get_ydata(), dtype=float)


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def followed(accountant, history=((1.0, 0.01, 60), (2.0, 0.01, 40))):
    accountant.history = list(history)
    return accountant


def test_privacy_curve_draws_both_bounds_and_the_quoted_point():
    axes = hs.plot.privacy_curve(delta=1e-5, **RUN)
    epsilons, deltas = line(axes, "exact (certified)")
    curve = hs.privacy_curve(**RUN)
    np.testing.assert_allclose(deltas, curve.delta(epsilons), rtol=1e-5)
    lower, upper = curve.bounds(epsilon=epsilons)
    assert np.all(lower <= deltas * (1 + 1e-5))
    assert np.all(upper <= lower * (1 + 1e-2))
    assert deltas[-1] == pytest.approx(1e-10, rel=1e-2)
    assert axes.get_yscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\varepsilon$ (nats)", r"$\delta$ (probability)")
    quoted = float(labels(axes)[-1].strip("()").split(",")[0])
    assert labels(axes)[-1].endswith(", $10^{-5}$)")
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
    assert hs.plot.tradeoff_curve(accountant).get_xlabel() == r"false positive rate $\alpha$ (probability)"
    axes = hs.plot.budget(accountant, points=3)
    steps, epsilons = line(axes, "upper bound")
    assert steps.tolist() == [0, 1, 25, 60, 100]
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
    (found,) = [text for text in labels(axes) if text.startswith(r"$\alpha")]
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
    assert "lower bound" not in labels(axes)
    assert axes.get_ylabel() == r"$\varepsilon$ (nats) at $\delta = 10^{-6}$"
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
    axes = hs.plot.schemes(group=hs.Group(2, gradients="orthogonal"), **RUN)
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


@pytest.mark.parametrize("name", [name for name in hs.plot.__all__ if name not in ("dark", "use_style")])
def test_a_missing_extra_is_named(name, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    argument = hs.privacy_curve(**RUN) if name != "individual_histogram" else [1.0]
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[plot\]"'):
        getattr(hs.plot, name)(argument)


def test_the_style_is_left_as_it_was():
    before = dict(mpl.rcParams)
    hs.plot.privacy_curve(**RUN)
    assert dict(mpl.rcParams) == before


def test_own_pictures_have_the_style_once_it_is_asked_for():
    with mpl.rc_context():
        hs.plot.use_style()
        figure, axes = pyplot.subplots()
        (line,) = axes.plot([0, 1])
        assert figure.dpi == mpl.rcParams["savefig.dpi"] == 160
        assert figure.get_size_inches()[0] == 7.2
        assert not axes.spines["top"].get_visible()
        assert not axes.spines["right"].get_visible()
        assert line.get_color() == BLUE
        pyplot.close(figure)


def test_own_axes_keep_their_size_and_style():
    figure, axes = pyplot.subplots(figsize=(7, 5))
    assert hs.plot.budget(ax=axes, **RUN) is axes
    assert figure.get_size_inches().tolist() == [7, 5]
    assert axes.xaxis.label.get_fontsize() == mpl.rcParams["font.size"]


def test_both_bounds_are_one_line_where_they_cannot_be_told_apart():
    axes = hs.plot.privacy_curve(**RUN)
    assert labels(axes) == ["exact (certified)"]
    assert len(axes.lines) == 1
    rough = hs.plot.privacy_curve(tolerance=0.1, noise_multiplier=0.3, sample_rate=0.001, steps=3)
    shuffled = {
        "sampling": hs.Shuffle(10, 100),
        "steps": 10,
        "adjacency": "zero_out",
        "noise_multiplier": 1.0,
    }
    wide = hs.plot.privacy_curve(epsilons=[0.5, 1.0, 2.0], **shuffled)
    assert labels(wide) == ["upper bound", "lower bound"]
    upper, lower = line(wide, "upper bound")[1], line(wide, "lower bound")[1]
    assert np.all(lower < 0.99 * upper)
    for axes in (rough, wide):
        shown = {found.get_label() for found in axes.lines}
        assert set(labels(axes)) <= shown


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (hs.plot.privacy_curve, {"epsilons": [0.5, 1.0]}),
        (hs.plot.tradeoff_curve, {}),
        (hs.plot.budget, {"points": 3}),
        (hs.plot.epsilon_by_group_size, {"group_sizes": [1, 2]}),
        (hs.plot.schemes, {}),
    ],
)
def test_a_title_states_the_run_above_everything(function, options):
    run = {**RUN, "steps": 20_000}
    curve = hs.privacy_curve(group_size=2, **{**run, "steps": 200})
    axes = function(curve, title=True, **options)
    texts = [axes.get_title(loc="left"), axes.get_legend().get_title().get_text()]
    (stated,) = [text for text in texts if text]
    assert stated == "200 steps, noise multiplier 1, sample\nrate 0.01; 2 records added or removed"
    axes.figure.canvas.draw()
    title = axes.get_legend().get_title() if texts[1] else axes._left_title
    top = max(box.y1 for box in (text.get_window_extent() for text in axes.get_legend().get_texts()))
    assert title.get_window_extent().y0 > min(top, axes.get_window_extent().y1)
    named = function(curve, title="My run", **options)
    assert "My run" in (named.get_title(loc="left"), named.get_legend().get_title().get_text())
    plain = function(curve, **options)
    assert (plain.get_title(loc="left"), plain.get_legend().get_title().get_text()) == ("", "")
    with pytest.raises(TypeError, match="title must be True, False or a string"):
        function(curve, title=3, **options)


def test_a_title_of_what_has_no_steps_must_be_text():
    with pytest.raises(ValueError, match="title must be a string here"):
        hs.plot.tradeoff_curve(hs.TradeoffCurve.gaussian(1.0), title=True)
    with pytest.raises(ValueError, match="title must be a string here"):
        hs.plot.individual_histogram([0.1, 0.2], title=True)
    accountant = IndividualAccountant(3)
    accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    axes = hs.plot.individual_histogram(accountant, 1e-5, title=True)
    assert axes.get_legend().get_title().get_text().startswith("1 step, noise multiplier 1")


def test_titles_of_runs_of_several_kinds_and_of_shuffled_batches():
    accountant = followed(GroupAccountant(), ((1.0, 0.01, 60), (2.0, 0.01, 40), (3.0, 0.01, 1)))
    text = hs.plot.budget(accountant, points=3, title=True).get_title(loc="left")
    assert "60 steps" in text
    assert "1 more kinds of steps" in text.replace("\n", " ")
    shuffled = {
        "sampling": hs.Shuffle(10, 100),
        "steps": 10,
        "adjacency": "zero_out",
        "noise_multiplier": 2.0,
    }
    text = hs.plot.privacy_curve(epsilons=[0.5, 1.0], title=True, **shuffled).get_title(loc="left")
    assert "Shuffle(batch_size=10, dataset_size=100); 1 record zeroed out" in text.replace("\n", " ")


def luminance(colour):
    from matplotlib.colors import to_rgb

    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("is_dark", [False, True])
def test_everything_in_a_picture_can_be_seen_on_its_background(is_dark):
    import contextlib

    run = {**RUN, "steps": 50}
    with hs.plot.dark() if is_dark else contextlib.nullcontext():
        drawn = [
            hs.plot.privacy_curve(delta=1e-5, title=True, **run),
            hs.plot.tradeoff_curve(title=True, **run),
            hs.plot.budget(target=1.0, points=3, **run),
            hs.plot.schemes(dataset_size=1000, **run),
            hs.plot.epsilon_by_group_size(group_sizes=[1, 2], **run),
            hs.plot.individual_histogram([0.1, 0.2, 0.5], 1e-5, worst_case=1.0),
            hs.sweep(
                "epsilon", delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=[5, 9]
            ).plot(),
        ]
    for axes in drawn:
        paper = axes.get_facecolor()
        assert (luminance(paper) < 0.1) == is_dark
        assert axes.figure.get_facecolor() == paper
        legend = axes.get_legend()
        texts = [
            axes.xaxis.label,
            axes.yaxis.label,
            *axes.get_xticklabels(),
            *axes.texts,
            *legend.get_texts(),
        ]
        for text in (*texts, axes._left_title, legend.get_title()):
            assert contrast(text.get_color(), paper) >= 4.0, text.get_text()
        for found in axes.lines:
            assert contrast(found.get_color(), paper) >= 2.2, found.get_label()
    pyplot.close("all")


def test_the_legend_of_a_histogram_stands_clear_of_its_lines():
    axes = hs.plot.individual_histogram(np.random.default_rng(3).gamma(2.0, 0.5, size=500), worst_case=2.0)
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    for found in axes.lines:
        path = found.get_path().transformed(found.get_transform()).get_extents()
        assert path.y1 <= legend.y0 + 1.0
    assert legend.y1 <= axes.figure.bbox.y1 + 1.0
