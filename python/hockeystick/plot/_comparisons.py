"""One run, with other groups and other ways of drawing batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import Poisson
from hockeystick._arguments import (
    LARGEST_DATASET,
    LARGEST_RENYI_GROUP,
    Counts,
    Floats,
    count_array,
    count_scalar,
    float_scalar,
    require,
)
from hockeystick._guarantees.comparison import (
    RELATIONS,
    RELATIONS_OF_ALL,
    SHUFFLED,
    Entry,
    compared,
    enclosed,
    shuffled,
)
from hockeystick._guarantees.guarantee import guarantee_of, warnings_left_out
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick._guarantees.wording import ZERO_OUT
from hockeystick._rounding import rounded_up
from hockeystick.black_box import get_epsilon as get_black_box_epsilon
from hockeystick.errors import UnsupportedError
from hockeystick.plot._style import (
    ORANGE,
    Axes,
    canvas,
    certified,
    entitle,
    epsilon_label,
    grey,
    lower_bound,
    next_line,
    palette,
    plain,
    plain_logarithms,
)

GROUP_SIZES = (1, 2, 4, 8, 16, 32)
"""Group sizes of a picture by default: powers of two, evenly spaced on its axis."""

BLACK_BOX: dict[str, Any] = {"color": ORANGE, "marker": "^", "linestyle": (0, (4, 2)), "linewidth": 1.0}

NARROW = 0.01
"""Relative width of an interval that is drawn as one line: the axis is logarithmic, over a factor of ten."""

MARKS = {"add_remove": (0, "o"), "replace": (1, "s"), SHUFFLED: (3, "D"), ZERO_OUT: (2, "|")}
"""Place in the palette and marker of a relation, of the guarantee against another adversary, and of an
interval."""


def epsilon_by_group_size(
    curve_or_accountant: Any = None,
    delta: float = 1e-5,
    *,
    group_sizes: ArrayLike = GROUP_SIZES,
    black_box: bool = False,
    label: str | None = None,
    title: bool | str = False,
    ax: Axes | None = None,
    **run: Any,
) -> Axes:
    """Draw epsilon at delta against the number of records that change together.

    Parameters
    ----------
    curve_or_accountant : PrivacyCurve, TradeoffCurve or Accountant, optional
        A run, whose own group size does not matter. A `TradeoffCurve` knows no steps: drawn is what it
        implies for as many times more records.
    delta : float, optional
        In (0, 1).
    group_sizes : array_like of int, shape (n,), optional
        Ascending, at least two.
    black_box : bool, optional
        Whether to draw also what the curve of one record implies by GROUP, Theorem 4, as if nothing else
        were known of the run, which must be of equal steps. Takes seconds.
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
        If an argument is out of range, or an epsilon is not finite.
    TypeError
        If an argument has the wrong type, or not exactly one of a curve and a run is given.
    UnsupportedError
        If the members of the run's group differ, or the run has no proven pair for larger groups.
    ImportError
        If Matplotlib is not installed.

    References
    ----------
    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 1000}
    >>> axes = hs.plot.epsilon_by_group_size(delta=1e-5, black_box=True, **run)  # doctest: +SKIP
    """
    level = _delta(delta)
    sizes = count_array(group_sizes, "group_sizes", 1)
    require(sizes.ndim == 1 and sizes.size >= 2, "group_sizes", sizes.tolist(), "at least two sizes")
    require(bool(np.all(np.diff(sizes) > 0)), "group_sizes", sizes.tolist(), "ascending")
    largest = int(sizes[-1])
    require(largest <= LARGEST_RENYI_GROUP, "group_sizes", largest, f"at most {LARGEST_RENYI_GROUP}")
    guarantee = guarantee_of(curve_or_accountant, run)
    with warnings_left_out():
        ends = [guarantee.for_group(size).epsilons(np.array([level])) for size in sizes.tolist()]
        upper = np.array([end[0] for _, end in ends])
        lower = None if ends[0][0] is None else np.array([end[0] for end, _ in ends if end is not None])
        boxed = None
        if black_box:
            boxed = _black_box(guarantee.known_run("the black box"), level, sizes)
    require(bool(np.all(np.isfinite(upper))), "epsilon", "inf", "finite for all group sizes")
    with canvas(ax) as axes:
        style = next_line(axes)
        if boxed is not None:
            boxed = np.where(np.isfinite(boxed), boxed, np.nan)
            axes.plot(sizes, boxed, label="from one record alone", **BLACK_BOX)
        known = lower is not None and lower.shape == upper.shape
        narrow = known and bool(np.all(upper - lower <= NARROW * upper))
        words = certified(map(guarantee.for_group, sizes.tolist())) if narrow else "upper bound"
        axes.plot(sizes, upper, marker="o", label=label or words, **style)
        if lower is not None and known and not narrow:
            axes.fill_between(sizes, lower, upper, color=style["color"], alpha=0.25, lw=0)
            if label is None:
                axes.plot(sizes, lower, label="lower bound", **lower_bound())
        axes.set_xscale("log", base=2)
        if np.all(upper > 0.0):
            axes.set_yscale("log")
            plain_logarithms(axes.yaxis)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("group size (records)")
        axes.set_ylabel(epsilon_label(level))
        axes.legend(loc="best")
        entitle(axes, title, guarantee)
        return axes


def schemes(
    curve_or_accountant: Any = None,
    delta: float = 1e-5,
    *,
    dataset_size: int | None = None,
    title: bool | str = False,
    ax: Axes | None = None,
    **run: Any,
) -> Axes:
    """Draw epsilon at delta of the same noise and steps under every sampling scheme and relation.

    Parameters
    ----------
    curve_or_accountant : PrivacyCurve or Accountant, optional
        A run.
    delta : float, optional
        In (0, 1).
    dataset_size : int, optional
        Number of records, of which fixed and shuffled batches are drawn. By default that of the run's own
        fixed batches, or a large one; shuffled batches are left out then.
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
        For a `TradeoffCurve`, which knows no steps.
    ImportError
        If Matplotlib is not installed.

    Notes
    -----
    Schemes without a proven bound for this run say so. Of shuffled batches both ends of a certified interval
    are drawn, as no tight bound is known, and the guarantee against an adversary who knows every batch
    (SHUFFLE), which is another one and has a mark of its own.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    >>> axes = hs.plot.schemes(delta=1e-5, dataset_size=60_000, **run)  # doctest: +SKIP
    """
    level = _delta(delta)
    records = None if dataset_size is None else count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    guarantee = guarantee_of(curve_or_accountant, run)
    steps = guarantee.known_run("a comparison of schemes")
    require(steps.steps > 0, "steps", steps.steps, "at least 1: a run without steps reveals nothing")
    with warnings_left_out():
        asked = (steps, level, records, guarantee.proven(level))
        entries = [(entry.relation, entry) for entry in compared(*asked)]
        others = {ZERO_OUT: enclosed(*asked), SHUFFLED: shuffled(steps, level, records)}
    entries += [(kind, other) for kind, other in others.items() if other is not None]
    rows = list(dict.fromkeys(entry.name for _, entry in entries))
    words = {**RELATIONS, SHUFFLED: "replace, batches known", ZERO_OUT: "zero out, both ends"}
    with canvas(ax) as axes:
        for kind, (place_of_colour, marker) in MARKS.items():
            colour = palette()[place_of_colour]
            found = [entry for key, entry in entries if key == kind and _has_place(entry.epsilon)]
            if not found:
                continue
            values = [float(entry.epsilon or 0.0) for entry in found]
            places = [rows.index(entry.name) + _offset(kind) for entry in found]
            axes.plot(values, places, marker=marker, color=colour, linestyle="none", label=words[kind])
            for entry, place in zip(found, places, strict=True):
                if entry.lower is not None:
                    _interval(axes, entry, place, colour)
        for kind, entry in entries:
            place = rows.index(entry.name) + _offset(kind)
            if entry.epsilon is not None and _has_place(entry.epsilon):
                text = plain(float(rounded_up(entry.epsilon))) if entry.lower is None else entry.shown
                _beside(axes, entry.epsilon, place, text)
            else:
                _at_edge(axes, place, f"{RELATIONS_OF_ALL[entry.relation]}: {_missing(entry.epsilon)}")
        axes.set_xscale("log")
        axes.margins(x=0.25)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [row.replace(" ", "\n") for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        plain_logarithms(axes.xaxis)
        axes.set_xlabel(epsilon_label(level))
        axes.set_ylabel("sampling")
        if axes.get_legend_handles_labels()[0]:
            key: dict[str, Any] = {
                "bbox_to_anchor": (0.4, 1.0),
                "ncols": 2 if len(axes.get_legend_handles_labels()[0]) > 3 else 3,
            }
            axes.legend(loc="lower center", columnspacing=1.0, handletextpad=0.2, **key)
        entitle(axes, title, guarantee, above=True)
        return axes


def _black_box(run: RecordedRun, delta: float, sizes: Counts) -> Floats:
    if len(run.segments) != 1:
        raise UnsupportedError("the black box is known for steps of one kind: leave out black_box")
    ((noise, draw, steps),) = run.segments
    found = get_black_box_epsilon(
        delta=delta,
        noise_multiplier=noise if isinstance(noise, float) else None,
        mechanism=None if isinstance(noise, float) else noise,
        sampling=Poisson(draw) if isinstance(draw, float) else draw,
        steps=steps,
        group_size=sizes,
        adjacency=run.adjacency,
        tolerance=1e-2,
    )
    return np.asarray(found)


def _offset(kind: str) -> float:
    return {"add_remove": -0.17, "replace": 0.17, ZERO_OUT: -0.17, SHUFFLED: 0.17}[kind]


def _interval(axes: Axes, entry: Entry, place: float, colour: str) -> None:
    """Draw a line from the lower end, if the axis has it, to the upper one."""
    if entry.lower is not None and entry.epsilon is not None and _has_place(entry.lower):
        axes.plot([entry.lower, entry.epsilon], [place, place], marker="|", color=colour, linewidth=1.2)


def _beside(axes: Axes, epsilon: float, place: float, text: str) -> None:
    offset: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points"}
    axes.annotate(text, (epsilon, place), color=grey(), va="center", fontsize=7, **offset)


def _at_edge(axes: Axes, place: float, text: str) -> None:
    transform = axes.get_yaxis_transform()
    axes.text(0.02, place, text, transform=transform, va="center", fontsize=7, color=grey(), style="italic")


def _missing(epsilon: float | None) -> str:
    if epsilon is None:
        return "not covered"
    return "no privacy" if epsilon else "0"


def _has_place(epsilon: float | None) -> bool:
    """Whether the value has a place on a logarithmic axis."""
    return epsilon is not None and 0.0 < epsilon < np.inf


def _delta(value: float) -> float:
    level = float_scalar(value, "delta")
    require(0.0 < level < 1.0, "delta", level, "in (0, 1)")
    return level
