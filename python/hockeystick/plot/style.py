"""What all pictures share: colours, style, and where to draw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from hockeystick._extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    try:
        from matplotlib.axes import Axes
    except ImportError:
        # Annotations name it at run time too; pictures say themselves that they need matplotlib.
        Axes = Any

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
BLACK, GREY = "#000000", "#595959"
"""Colours that everyone can distinguish (Okabe and Ito); the grey has the contrast that small text needs."""

PALETTE = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
"""Colours of lines, in the order in which they are used."""

DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
"""Dashes of the same lines, which differ without any colour."""

LOWER_BOUND: dict[str, Any] = {"color": BLACK, "linewidth": 0.7, "linestyle": (0, (4, 3))}
"""Line of a lower bound, thin enough for the upper bound to be seen on both sides of it."""

POINT: dict[str, Any] = {"marker": "o", "linestyle": "none"}
"""One marked point of a line."""

ONE_COLUMN = (3.3, 2.5)
"""Width and height in inches: one column of a paper with two."""

SQUARE = (3.3, 3.4)
"""Width and height in inches of a picture of error rates, with room for its key."""

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
"""False positive rates at which attacks are usually reported."""

STYLE = {
    "font.family": ["DejaVu Sans"],  # comes with Matplotlib
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
    "axes.linewidth": 0.6,
}
"""Sizes in points that are readable at `ONE_COLUMN`."""

DOTS_PER_INCH = 200.0

_styled: WeakSet[Any] = WeakSet()
"""Axes with this style, for further lines to have it too."""


@contextmanager
def canvas(ax: Axes | None, size: tuple[float, float] = ONE_COLUMN) -> Iterator[Axes]:
    """`ax`, or new axes of `size` inches in a new figure, with a style for what is drawn meanwhile.

    Raises
    ------
    TypeError
        If `ax` is not axes of Matplotlib.
    ImportError
        If Matplotlib is not installed.
    """
    if ax is None:
        pyplot = needed("matplotlib.pyplot", "plot")
        with one_column():
            yield styled(pyplot.subplots(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")[1])
        return
    if not isinstance(ax, needed("matplotlib.axes", "plot").Axes):
        raise TypeError(f"ax must be a matplotlib Axes, got {type(ax).__name__}")
    if ax not in _styled:
        yield ax
        return
    with one_column():
        yield ax


@contextmanager
def one_column() -> Iterator[None]:
    """Text and lines of the sizes of `STYLE`."""
    with needed("matplotlib", "plot").rc_context(STYLE):
        yield


def styled(axes: Any) -> Any:
    """`axes` with a light grid and without a frame; to be called within `one_column`."""
    # Ticks are made when they are drawn, with the sizes of that moment, unless they are set now.
    axes.tick_params(labelsize=STYLE["xtick.labelsize"], width=0.6, length=2.5)
    axes.tick_params(which="minor", width=0.4, length=1.5)
    axes.grid(color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _styled.add(axes)
    return axes


def next_line(axes: Axes) -> dict[str, Any]:
    """Colour and dashes of the next line: the first pair that no line of `axes` has."""
    used = {line.get_color() for line in axes.lines}
    number = next((i for i, colour in enumerate(PALETTE) if colour not in used), 0)
    return {"color": PALETTE[number], "linestyle": DASHES[number]}


def plain_logarithms(axis: Any) -> None:
    """Write numbers such as 0.5 at a logarithmic axis, powers of ten only where they are large."""
    ticker = needed("matplotlib.ticker", "plot")
    low, high = axis.get_view_interval()
    if high >= 2e4:
        return
    narrow = high <= 300.0 * low
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def plain(value: float) -> str:
    """`value` in six digits, without an exponent unless it is very large or small."""
    return f"{value:,.0f}" if 1e4 <= value < 1e9 else f"{value:g}"


def epsilon_label(delta: float | None) -> str:
    """Label of an axis of epsilon."""
    return "epsilon (nats)" if delta is None else f"epsilon (nats) at delta = {delta:g}"
