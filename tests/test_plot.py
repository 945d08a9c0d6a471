"""Pictures: what is drawn is what was computed."""

import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import hockeystick as hs

EPSILONS = np.random.default_rng(1).gamma(2.0, 0.5, size=1000)


class Accountant:
    def get_epsilons(self, delta):
        return EPSILONS * -np.log10(delta)

    def get_epsilon(self, delta):
        return 8.0 * -np.log10(delta)


@pytest.fixture
def axes():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def lines(axes):
    return [(line.get_xdata()[0], line.get_linestyle()) for line in axes.lines]


def test_the_histogram_counts_and_marks(axes):
    assert hs.plot.individual_histogram(EPSILONS, worst_case=7.8, bins=20, ax=axes) is axes
    assert sum(bar.get_height() for bar in axes.patches) == 1000
    assert len(axes.patches) == 20
    expected = [(place, "--") for place in np.percentile(EPSILONS, [30, 50, 70])]
    assert lines(axes) == [*expected, (7.8, "-")]
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\varepsilon$ (nats)", "examples")
    assert [text.get_text() for text in axes.texts] == ["30 %", "50 %", "70 %"]
    key = [text.get_text() for text in axes.get_legend().get_texts()]
    assert key == ["1,000 examples", "worst case: 7.8"]


def test_an_accountant_is_asked_at_delta(axes):
    hs.plot.individual_histogram(Accountant(), 1e-5, percentiles=[50], ax=axes)
    assert lines(axes) == [(np.percentile(5.0 * EPSILONS, 50), "--"), (40.0, "-")]
    assert axes.get_xlabel() == r"$\varepsilon$ (nats) at $\delta = 10^{-5}$"


def test_labels_of_percentiles_stay_within_the_axes(axes):
    hs.plot.individual_histogram(np.linspace(0.0, 1.0, 101), percentiles=[10, 99], ax=axes)
    assert [text.get_horizontalalignment() for text in axes.texts] == ["left", "right"]


def test_numbers_alone_have_their_largest_marked(axes):
    hs.plot.individual_histogram(EPSILONS, percentiles=[], ax=axes)
    assert lines(axes) == [(EPSILONS.max(), "-")]


def test_without_axes_there_is_a_new_figure():
    from matplotlib import pyplot

    axes = hs.plot.individual_histogram([1.0])
    assert axes.figure is not None
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ([], {}, ValueError, "epsilons must be at least one number"),
        ([1.0, np.inf], {}, ValueError, "epsilons must be finite, got inf"),
        (Accountant(), {}, ValueError, "delta must be given with an accountant"),
        ([1.0], {"worst_case": np.inf}, ValueError, "worst_case must be finite"),
        ([1.0], {"percentiles": [101]}, ValueError, r"percentiles must be in \[0, 100\]"),
        ([1.0], {"bins": 0}, ValueError, "bins"),
        ([1.0], {"bins": 10**15}, ValueError, r"bins must be a whole number in \[1, 100000\]"),
        ([1.0], {"ax": 1}, TypeError, "ax must be a matplotlib Axes, got int"),
        ("x", {}, TypeError, "epsilons"),
    ],
)
def test_bad_arguments_are_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        hs.plot.individual_histogram(source, **options)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[plot\]"'):
        hs.plot.individual_histogram([1.0])


def test_docstrings_say_first_that_the_picture_is_private():
    first = hs.plot.individual_histogram.__doc__.partition("\n\n")[0]
    assert "private data: do not publish" in first
