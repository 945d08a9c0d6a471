"""What all pictures share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hockeystick._extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "#000000"
"""Colours that everyone can tell apart (Okabe and Ito)."""


def check_axes(ax: Axes | None) -> Axes:
    """`ax`, or new axes in a new figure."""
    pyplot = needed("matplotlib.pyplot", "plot")
    if ax is None:
        created: Axes = pyplot.subplots(layout="constrained")[1]
        return created
    drawable: bool = isinstance(ax, needed("matplotlib.axes", "plot").Axes)
    if not drawable:
        raise TypeError(f"ax must be a matplotlib Axes, got {type(ax).__name__}")
    return ax
