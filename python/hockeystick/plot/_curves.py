"""Privacy curves and trade-off functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, float_scalar, float_vector, require
from hockeystick._guarantees.guarantee import Guarantee, guarantee_of, warnings_left_out
from hockeystick._rounding import percent_up, rounded_up
from hockeystick.plot._style import (
    FALSE_POSITIVE_RATES,
    ORANGE,
    POINT,
    SKY,
    SQUARE,
    Axes,
    canvas,
    certified,
    entitle,
    epsilon_label,
    formula,
    grey,
    lower_bound,
    next_line,
    palette,
    paper,
)

POINTS = 121
"""Points of a curve."""

SMALLEST_DELTA = 1e-10
"""The delta at which a privacy curve ends by default."""

LINE_WIDTH = 0.01
"""Width of a line, as a part of the height of a picture of one column."""

MARKERS = "osD^vP"


def privacy_curve(
    curve_or_accountant: Any = None,
    *,
    epsilons: ArrayLike | None = None,
    delta: float | None = None,
    label: str | None = None,
    title: bool | str = False,
    ax: Axes | None = None,
    **run: Any,
) -> Axes:
    """Draw delta against epsilon: the upper bound, and the lower bound where one is certified.

    Parameters
    ----------
    curve_or_accountant : PrivacyCurve, TradeoffCurve or Accountant, optional
        Whose curve. Of an `IndividualAccountant` it is what holds for every example, whatever its norms.
    epsilons : array_like, shape (n,), optional
        Where to compute delta, ascending, at least two; by default from 0 to the epsilon at delta 1e-10.
    delta : float, optional
        In (0, 1). Marks the point of the curve that is quoted.
    label : str, optional
        Name of the line, to distinguish several in one picture.
    title : bool or str, optional
        True for a title that states the run, or its text.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure of the width of one column.
    **run
        In place of `curve_or_accountant`: the arguments of `hockeystick.privacy_curve`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, to change and to save from.

    Raises
    ------
    ValueError
        If an argument is out of range, or no finite epsilon has a delta of 1e-10 and `epsilons` is not given.
    TypeError
        If an argument has the wrong type, or not exactly one of a curve and a run is given.
    ImportError
        If Matplotlib is not installed.

    Notes
    -----
    The interval between the bounds is known to contain the curve of the dominating pair. Where it is narrower
    than the line, there is one line for both.

    Examples
    --------
    >>> import hockeystick as hs
    >>> axes = hs.plot.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)  # doctest: +SKIP
    >>> axes.figure.savefig("curve.pdf")  # doctest: +SKIP
    """
    guarantee = guarantee_of(curve_or_accountant, run)
    level = None if delta is None else _share(delta, "delta")
    with warnings_left_out():
        grid = _grid(guarantee) if epsilons is None else _ascending(epsilons)
        lower, upper = guarantee.deltas(grid)
        quoted = None if level is None else guarantee.epsilon(level)
    with canvas(ax) as axes:
        style = next_line(axes)
        narrow = lower is not None and _within_the_line(lower, upper)
        words = certified([guarantee]) if narrow else "upper bound"
        axes.plot(grid, _visible(upper), label=label or words, **style)
        if lower is not None and not narrow:
            axes.fill_between(grid, _visible(lower), _visible(upper), color=style["color"], alpha=0.25, lw=0)
            if label is None:
                axes.plot(grid, _visible(lower), label="lower bound", **lower_bound())
        if level is not None and quoted is not None and np.isfinite(quoted):
            words = f"({rounded_up(quoted)}, ${formula(level)}$)"
            axes.plot([quoted], [level], color=style["color"], label=words, **POINT)
        axes.set_yscale("log")
        axes.set_xlabel(epsilon_label(None))
        axes.set_ylabel(r"$\delta$ (probability)")
        axes.legend(loc="best")
        entitle(axes, title, guarantee)
        return axes


def tradeoff_curve(
    curve_or_accountant: Any = None,
    *,
    false_alarms: ArrayLike = FALSE_POSITIVE_RATES,
    label: str | None = None,
    title: bool | str = False,
    ax: Axes | None = None,
    **run: Any,
) -> Axes:
    """Draw the error rates that attacks can have: the trade-off function, and below it what none reaches.

    Parameters
    ----------
    curve_or_accountant : PrivacyCurve, TradeoffCurve or Accountant, optional
        Whose curve. Of an accountant by Rényi divergences or simulation, the exact one of the same steps.
    false_alarms : array_like, shape (n,), optional
        False positive rates in [0, 1] at which to mark how many members an attack finds at most; at most six.
    label : str, optional
        Name of the line, to distinguish several in one picture; only the line is drawn then.
    title : bool or str, optional
        True for a title that states the run, or its text.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure of the width of one column.
    **run
        In place of `curve_or_accountant`: the arguments of `hockeystick.privacy_curve`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, to change and to save from.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, or not exactly one of a curve and a run is given.
    UnsupportedError
        If the steps of an accountant have no exact curve.
    ImportError
        If Matplotlib is not installed.

    Notes
    -----
    An attack decides whether the group took part. α is how often it says so of data without the group, β
    how often it misses the group; guessing has α + β = 1. The advantage is the largest 1 - α - β. The curve
    of a run is drawn by a hundred of its tangents: a lower bound, closer to it than the width of the line.

    References
    ----------
    J. Dong, A. Roth and W. Su, "Gaussian Differential Privacy", Journal of the Royal Statistical Society B
    84(1), 2022. doi:10.1111/rssb.12454

    Examples
    --------
    >>> import hockeystick as hs
    >>> axes = hs.plot.tradeoff_curve(hs.TradeoffCurve.gaussian(1.0))  # doctest: +SKIP
    """
    rates = float_vector(false_alarms, "false_alarms")
    allowed = f"at most {len(MARKERS)} rates"
    require(rates.size <= len(MARKERS), "false_alarms", f"{rates.size} rates", allowed)
    for rate in rates.tolist():
        require(0.0 <= rate <= 1.0, "false_alarms", rate, "in [0, 1]")
    guarantee = guarantee_of(curve_or_accountant, run)
    grid = _rates()
    with warnings_left_out():
        attacks = guarantee.attacks()
        misses, marked = attacks.false_negative_rates(grid), attacks.false_negative_rates(rates)
    with canvas(ax, SQUARE) as axes:
        style = next_line(axes)
        if not any(line.get_label() == "guessing" for line in axes.lines):
            axes.plot([0.0, 1.0], [1.0, 0.0], color=grey(), linewidth=0.8, linestyle=":", label="guessing")
        axes.plot(grid, misses, label=label or "best attack", **style)
        if label is None:
            axes.fill_between(grid, 0.0, misses, color=SKY, alpha=0.25, lw=0, label="out of reach")
            _mark_advantage(axes, grid, misses, attacks.advantage)
            _mark_rates(axes, rates, marked)
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.0)
        axes.set_xlabel(r"false positive rate $\alpha$ (probability)")
        axes.set_ylabel(r"false negative rate $\beta$ (probability)")
        if label is None:
            _add_wide_legend(axes)
        else:
            axes.legend(loc="upper right")
        entitle(axes, title, guarantee, above=label is None)
        return axes


def _mark_advantage(axes: Axes, grid: Floats, misses: Floats, advantage: float) -> None:
    """Draw the largest distance between the curve and guessing."""
    best = int(np.argmax(1.0 - grid - misses))
    axes.plot(
        [grid[best]] * 2,
        [misses[best], 1.0 - grid[best]],
        label=f"advantage ≤ {percent_up(advantage)}",
        color=ORANGE,
        linewidth=1.2,
        marker="_",
        markersize=6,
    )


def _mark_rates(axes: Axes, rates: Floats, misses: Floats) -> None:
    """Mark the points of the curve at chosen false positive rates."""
    for rate, miss, marker in zip(rates, misses, MARKERS, strict=False):
        axes.plot(
            [rate],
            [miss],
            marker=marker,
            color=palette()[0],
            markerfacecolor=paper(),
            clip_on=False,
            linestyle="none",
            label=rf"$\alpha$ = {100 * rate:g} %: finds at most {percent_up(1.0 - miss)}",
        )


def _add_wide_legend(axes: Axes) -> None:
    """Place the legend above the axes: the curve may be anywhere below the diagonal."""
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.42, 1.0),
        borderaxespad=0.2,
        ncols=2,
        columnspacing=1.0,
        handlelength=1.6,
    )


def _grid(guarantee: Guarantee) -> Floats:
    """Epsilons from 0 to where delta is small."""
    largest = guarantee.epsilon(SMALLEST_DELTA)
    require(
        np.isfinite(largest),
        "epsilons",
        f"None, but epsilon is infinite at delta = {SMALLEST_DELTA:g}",
        "given where no finite epsilon protects",
    )
    return np.linspace(0.0, largest if largest > 0.0 else 1.0, POINTS)


def _rates() -> Floats:
    """Return false positive rates, close to each other near 0 and 1, where curves bend."""
    half = np.geomspace(1e-5, 0.5, POINTS // 2)
    return np.concatenate(([0.0], half, 1.0 - half[-2::-1], [1.0]))


def _ascending(epsilons: ArrayLike) -> Floats:
    values = float_vector(epsilons, "epsilons")
    require(values.size >= 2, "epsilons", f"{values.size} numbers", "at least two numbers")
    require(bool(np.all(np.diff(values) > 0.0)), "epsilons", values.tolist(), "ascending")
    return values


def _within_the_line(lower: Floats, upper: Floats) -> bool:
    """Whether both bounds are one line: apart by less than 1 % of the height of the picture."""
    seen = upper > 0.0
    if not np.any(seen) or np.any(lower[seen] <= 0.0):
        return False
    apart = float(np.max(np.log(upper[seen] / lower[seen])))
    return apart <= LINE_WIDTH * max(float(np.log(upper[seen].max() / upper[seen].min())), 1.0)


def _visible(deltas: Floats) -> Floats:
    """`deltas` without zeros, which a logarithmic axis does not have."""
    return np.where(deltas > 0.0, deltas, np.nan)


def _share(value: float, name: str) -> float:
    share = float_scalar(value, name)
    require(0.0 < share < 1.0, name, share, "in (0, 1)")
    return share
