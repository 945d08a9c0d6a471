"""Epsilon as the steps of a run go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick import RandomAllocation
from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick._guarantees.guarantee import Guarantee, guarantee_of, warnings_left_out
from hockeystick.errors import UnsupportedError
from hockeystick.plot._style import (
    ORANGE,
    POINT,
    Axes,
    canvas,
    entitle,
    epsilon_label,
    grey,
    ink,
    next_line,
    paper,
)


def budget(
    curve_or_accountant: Any = None,
    delta: float = 1e-5,
    *,
    target: float | None = None,
    points: int = 50,
    label: str | None = None,
    title: bool | str = False,
    ax: Axes | None = None,
    **run: Any,
) -> Axes:
    """Draw epsilon at delta against the number of steps made, from an accountant's history.

    Parameters
    ----------
    curve_or_accountant : Accountant or PrivacyCurve, optional
        A run of at least one step. A curve does not know the order of its steps: one of equal steps only.
    delta : float, optional
        In (0, 1).
    target : float, optional
        Epsilon above 0 that the run must not exceed: a line, and the last step that is within it.
    points : int, optional
        Numbers of steps at which epsilon is computed, in [2, 10000]; those where the steps change are added.
        With `RandomAllocation` they are those after whole epochs, if there are several.
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
        If an argument is out of range, there are no steps, or epsilon is not finite.
    TypeError
        If an argument has the wrong type, or not exactly one of a curve and a run is given.
    UnsupportedError
        For a curve of several kinds of steps, or a `TradeoffCurve`.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    >>> axes = hs.plot.budget(delta=1e-5, target=1.5, **run)  # doctest: +SKIP
    """
    level = float_scalar(delta, "delta")
    require(0.0 < level < 1.0, "delta", level, "in (0, 1)")
    limit = None if target is None else float_scalar(target, "target")
    require(limit is None or 0.0 < limit < np.inf, "target", target, "in (0, inf)")
    number = count_scalar(points, "points", 2, 10_000)
    guarantee = guarantee_of(curve_or_accountant, run)
    made = guarantee.known_run("a budget over steps")
    if not guarantee.in_order:
        raise UnsupportedError(
            "a PrivacyCurve of several kinds of steps does not know their order: use an accountant"
        )
    require(made.steps >= 1, "steps", made.steps, "at least 1")
    changes = np.cumsum([count for _, _, count in made.segments])
    grid = numbers_of_steps(made.segments, number)
    with warnings_left_out():
        epsilons = np.array([0.0] + [guarantee.until(count).epsilon(level) for count in grid[1:].tolist()])
        last = None if limit is None else last_within(guarantee, level, limit, made.steps)
        spent = guarantee.until(last).epsilon(level) if last else 0.0
    require(bool(np.all(np.isfinite(epsilons))), "epsilon", "inf", "finite after every step")
    with canvas(ax) as axes:
        axes.plot(grid, epsilons, label=label or "upper bound", **next_line(axes))
        for change in changes[:-1].tolist():
            axes.axvline(change, color=grey(), linewidth=0.6, linestyle=":")
        if limit is not None and last is not None:
            axes.axhline(limit, color=ORANGE, linewidth=1.0, linestyle=(0, (5, 2)), label=f"target {limit:g}")
            if last < made.steps:
                axes.plot([last], [spent], color=ink(), label=f"within it for {last} steps", **POINT)
        axes.set_xlim(0, made.steps)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("steps")
        axes.set_ylabel(epsilon_label(level))
        axes.legend(loc="lower right", frameon=True, facecolor=paper(), edgecolor="none", framealpha=0.9)
        entitle(axes, title, guarantee)
        return axes


def numbers_of_steps(segments: Sequence[tuple[Any, Any, int]], number: int) -> NDArray[np.int64]:
    """Return about so many numbers of steps, closer near 0, with 1 and those where steps change.

    Within an epoch of batches that are dealt anew, epsilon takes ten times as long as after whole epochs:
    there the numbers are those after whole epochs.

    Examples
    --------
    >>> import hockeystick as hs
    >>> numbers_of_steps([(1.0, 0.01, 10)], 3).tolist()
    [0, 1, 2, 10]
    >>> numbers_of_steps([(1.0, hs.RandomAllocation(4), 18)], 5).tolist()
    [0, 1, 4, 8, 18]
    """
    changes = np.cumsum([0, *(count for _, _, count in segments)])
    # Epsilon is steepest at the first steps: squares of even distances are close to each other there.
    grid = np.round(changes[-1] * np.linspace(0.0, 1.0, number) ** 2).astype(np.int64)
    for (_, draw, count), start in zip(segments, changes, strict=False):
        if isinstance(draw, RandomAllocation) and count >= 2 * draw.batches:
            inside = (start < grid) & (grid < start + count)
            epochs = np.maximum(np.round((grid[inside] - start) / draw.batches), 1)
            grid[inside] = start + epochs.astype(np.int64) * draw.batches
            grid[inside] = np.minimum(grid[inside], start + count)
    return np.unique(np.concatenate((grid, [1], changes)))


def last_within(guarantee: Guarantee, delta: float, target: float, steps: int) -> int:
    """Return the largest number of steps, up to `steps`, whose certified epsilon is at most `target`."""
    if guarantee.until(steps).epsilon(delta) <= target:
        return steps
    within, beyond = 0, steps
    while beyond - within > 1:
        middle = (within + beyond) // 2
        if guarantee.until(middle).epsilon(delta) <= target:
            within = middle
        else:
            beyond = middle
    return within
