"""Tables of answers as lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from hockeystick._tables import Table
from hockeystick.plot._style import (
    Axes,
    canvas,
    entitle,
    in_letters,
    in_lines,
    next_line,
    plain_logarithms,
    quantity,
)

MOST_LINES = 12
"""Lines that can be told apart."""

MOST_TICKS = 8
"""Numbers that have room at an axis of one column."""


def lines(table: Table, x: str | None, y: str | None, title: bool | str, ax: Axes | None) -> Axes:
    """Draw a table; see `Table.plot`."""
    across = _across(table) if x is None else x
    upright = table.answer if y is None else y
    places, heights = table[across], table[upright]
    if places.dtype.kind not in "iuf":
        raise ValueError(f"x must be a column of numbers, got {across!r}")
    fixed = {across, upright, *(name for name in table.columns if len(set(table[name].tolist())) == 1)}
    others = [name for name in table.columns if name not in fixed and name != table.answer]
    keys = list(zip(*(table[name].tolist() for name in others), strict=True)) or [()] * len(table)
    distinct = list(dict.fromkeys(keys))
    if len(distinct) > MOST_LINES:
        raise ValueError(f"a picture has at most {MOST_LINES} lines, got {len(distinct)}: draw parts of it")
    with canvas(ax) as axes:
        for key in distinct:
            chosen = np.array([place for place, other in enumerate(keys) if other == key])
            order = chosen[np.argsort(places[chosen], kind="stable")]
            words = ", ".join(f"{name} {value}" for name, value in zip(others, key, strict=True))
            axes.plot(
                places[order], heights[order], marker="o", label=in_letters(words) or None, **next_line(axes)
            )
        axes.set_xlabel(quantity(across))
        axes.set_ylabel(quantity(upright))
        if len(distinct) > 1:
            axes.legend(loc="best")
        _entitle(axes, title, table)
        return axes


def _entitle(axes: Axes, title: bool | str, table: Table) -> None:
    """Add a title: text, or for True what all rows of the table have in common."""
    entitle(axes, in_letters(in_lines(table.stated)) if title is True and table.stated else title, None)


def _across(table: Table) -> str:
    """Return the column of numbers that has the most values."""
    found: list[tuple[int, str]] = []
    for name in table.columns:
        values: Any = table[name]
        if name != table.answer and values.dtype.kind in "iuf":
            found.append((len(np.unique(values)), name))
    if not found:
        raise ValueError("no column has numbers to draw against")
    return max(found, key=lambda pair: pair[0])[1]


def choices(table: Table, x: str, y: str, title: bool | str, ax: Axes | None) -> Axes:
    """Draw the choices of a plan; see `Plan.plot`."""
    places, heights, caps = table[x], table[y], table["cap"]
    with canvas(ax) as axes:
        for cap in sorted(set(caps.tolist())):
            chosen = np.flatnonzero(caps == cap)
            order = chosen[np.argsort(places[chosen], kind="stable")]
            words = "1 record per person" if cap == 1 else f"{cap} records per person"
            axes.plot(places[order], heights[order], marker="o", label=words, **next_line(axes))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        shown = np.unique(places)
        shown = shown[:: -(-len(shown) // MOST_TICKS)]
        axes.set_xticks(shown, [f"{place:g}" for place in shown.tolist()])
        axes.minorticks_off()
        plain_logarithms(axes.yaxis)
        axes.set_xlabel(quantity(x))
        axes.set_ylabel("noise per averaged gradient" if y == "noise_per_gradient" else quantity(y))
        axes.legend(loc="best")
        _entitle(axes, title, table)
        return axes
