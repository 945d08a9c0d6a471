"""What all pictures share: colours, style, title, and where to draw."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from hockeystick._arguments import shown
from hockeystick._extras import needed
from hockeystick._guarantees.guarantee import Guarantee
from hockeystick._guarantees.wording import CHANGED

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    try:
        from matplotlib.axes import Axes
    except ImportError:
        # Annotations name it at run time too; pictures say themselves that they need matplotlib.
        Axes = Any

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
GREY, LIGHT_GREY = "#595959", "#B8B8B8"
"""Colours that everyone can distinguish (Okabe and Ito); the greys have the contrast that small text needs,
on white and on a dark background."""

PALETTE = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
"""Colours of lines, in the order in which they are used."""

PALETTE_ON_DARK = (SKY, ORANGE, GREEN, PURPLE, YELLOW, BLUE)
"""Colours of lines on a dark background. Blue comes last there, as it has the least contrast."""

BACKGROUND, FOREGROUND = "#1E2129", "#E6E6E6"
"""Of pictures for dark pages: the background of the dark scheme of Material for MkDocs, and text."""

DARK = {
    "figure.facecolor": BACKGROUND,
    "axes.facecolor": BACKGROUND,
    "savefig.facecolor": BACKGROUND,
    "axes.edgecolor": FOREGROUND,
    "axes.labelcolor": FOREGROUND,
    "text.color": FOREGROUND,
    "xtick.color": FOREGROUND,
    "ytick.color": FOREGROUND,
}
"""Colours of `dark`."""

DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
"""Dashes of the same lines, which differ without any colour."""

POINT: dict[str, Any] = {"marker": "o", "linestyle": "none"}
"""One marked point of a line."""

TITLE_WIDTH = 46
"""Characters of a line of a title."""

STATED_SEGMENTS = 2
"""Most kinds of steps that a title names."""

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
"""Resolution of pictures of the papers' sizes: 660 pixels for a column. A file grows with its square."""

PAGE_WIDTH = 7.2
"""Inches: at it a page of documentation, 750 pixels wide, shows text of `PAGE` in 13 pixels and more."""

PAGE = {
    "figure.figsize": (PAGE_WIDTH, 3.2),
    "figure.dpi": 160.0,
    "savefig.dpi": 160.0,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.wspace": 0.04,
    "font.family": STYLE["font.family"],
    "font.size": 9.0,
    "axes.titlesize": "medium",
    "lines.markersize": 4.0,
    "mathtext.fontset": "dejavusans",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": "small",
}
"""Settings of `use_style`."""

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
def dark() -> Iterator[None]:
    """Draw for a dark background: light text and lines on dark grey.

    Everything that is drawn within the ``with`` block is in these colours, `Table.plot` and `Plan.plot` too,
    and stays so when it is saved later. Where Matplotlib has a dark style already, pictures follow that.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import hockeystick as hs
    >>> with hs.plot.dark():  # doctest: +SKIP
    ...     axes = hs.plot.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> axes.figure.savefig("curve-dark.png")  # doctest: +SKIP
    """
    with needed("matplotlib", "plot").rc_context(DARK):
        yield


def use_style() -> None:
    """Draw from here on in the style of this library: open axes, a light grid, its palette, 160 dpi.

    New figures are 7.2 inches wide, for two panels beside each other in a page of documentation. Matplotlib's
    settings are changed for the running process, once, at the beginning of a notebook or a script;
    ``matplotlib.rcdefaults()`` takes it back. The pictures of this package have that style anyway.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.

    References
    ----------
    M. Okabe and K. Ito, "Color Universal Design" (2008), for a palette that everyone can distinguish.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.plot.use_style()  # doctest: +SKIP
    >>> import matplotlib.pyplot as plt  # doctest: +SKIP
    >>> axes = plt.figure().add_subplot()  # doctest: +SKIP
    """
    colours = needed("cycler", "plot").cycler(color=PALETTE)
    needed("matplotlib", "plot").rcParams.update({**PAGE, "axes.prop_cycle": colours})


def paper() -> Any:
    """Colour of the background of new axes."""
    return needed("matplotlib", "plot").rcParams["axes.facecolor"]


def ink() -> Any:
    """Colour of text, and of lines that are to stand out."""
    return needed("matplotlib", "plot").rcParams["text.color"]


def is_dark() -> bool:
    """Whether the background of new axes is closer to black than to white."""
    red, green, blue = needed("matplotlib.colors", "plot").to_rgb(paper())
    return bool(0.3 * red + 0.6 * green + 0.1 * blue < 0.5)


def grey() -> str:
    """Colour of what is less important than lines."""
    return LIGHT_GREY if is_dark() else GREY


def palette() -> tuple[str, ...]:
    """Colours of lines, in the order in which they are used."""
    return PALETTE_ON_DARK if is_dark() else PALETTE


def lower_bound() -> dict[str, Any]:
    """Line of a lower bound, thin enough for the upper bound to be seen on both sides of it."""
    return {"color": ink(), "linewidth": 0.7, "linestyle": (0, (4, 3))}


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
    axes.grid(color="0.3" if is_dark() else "0.9", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _styled.add(axes)
    return axes


def next_line(axes: Axes) -> dict[str, Any]:
    """Colour and dashes of the next line: the first pair that no line of `axes` has."""
    used = {line.get_color() for line in axes.lines}
    colours = palette()
    number = next((i for i, colour in enumerate(colours) if colour not in used), 0)
    return {"color": colours[number], "linestyle": DASHES[number]}


def entitle(axes: Axes, title: bool | str, guarantee: Guarantee | None, *, above: bool = False) -> None:
    """Add a title: text, or for True a statement of the run.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to write, with the legend that it will have.
    title : bool or str
        The text; True for a statement of the run, False for no title.
    guarantee : Guarantee or None
        What the picture is about, if that is known.
    above : bool, optional
        Whether the legend stands above the axes: the title stands above the legend then.

    Raises
    ------
    TypeError
        If `title` is neither.
    ValueError
        If the run is to be stated and is not known.
    """
    if not isinstance(title, bool | str):
        raise TypeError(f"title must be True, False or a string, got {shown(title)}")
    if not title:
        return
    text = title if isinstance(title, str) else stated(guarantee)
    legend = axes.get_legend() if above else None
    if legend is None:
        axes.set_title(text, loc="left")
    else:
        legend.set_title(text)
        legend.set_alignment("left")


def stated(guarantee: Guarantee | None) -> str:
    """Return the run in words, in lines that fit one column."""
    run = None if guarantee is None else guarantee.run
    if run is None:
        raise ValueError("title must be a string here, got True: the steps of the run are not known")
    kinds = []
    for noise, draw, count in run.segments[:STATED_SEGMENTS]:
        with_noise = f"noise multiplier {noise:g}" if isinstance(noise, float) else repr(noise)
        drawn = f"sample rate {draw:g}" if isinstance(draw, float) else repr(draw)
        kinds.append(f"{plain(count)} step{'s' * (count != 1)}, {with_noise}, {drawn}")
    more = len(run.segments) - len(kinds)
    whose = f"{run.group_size} record{'s' * (run.group_size > 1)} {CHANGED[run.adjacency]}"
    return in_lines("; ".join([*kinds, *([f"{more} more kinds of steps"] if more else []), whose]))


def in_lines(text: str) -> str:
    """Return a title in lines that fit one column; numbers stay with their nouns."""
    joined = re.sub(r"(?<=\w) (?=\d)|(?<=\d) (?=\w)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(joined, TITLE_WIDTH)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def certified(guarantees: Iterable[Guarantee]) -> str:
    """Label of a line on which both ends of certified intervals lie: of exact values, or of proven bounds."""
    tight = all(getattr(getattr(one, "curve", None), "tight", False) for one in guarantees)
    return "exact (certified)" if tight else "upper bound (certified)"


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


def quantity(name: str) -> str:
    """Label of an axis for a column of a table: epsilon and delta by their letters."""
    return {"epsilon": epsilon_label(None), "delta": r"$\delta$"}.get(name, name.replace("_", " "))


def in_letters(words: str) -> str:
    """Return words in which "delta 1e-05" and "epsilon 3" stand as formulas."""

    def written(found: re.Match[str]) -> str:
        letter = {"delta": r"\delta", "epsilon": r"\varepsilon"}[found[1]]
        return f"${letter} = {formula(float(found[2]))}$"

    return re.sub(r"\b(delta|epsilon) (\d[\d.e+-]*\d|\d)", written, words)


def epsilon_label(delta: float | None) -> str:
    r"""Label of an axis of ε.

    Examples
    --------
    >>> print(epsilon_label(1e-5))
    $\varepsilon$ (nats) at $\delta = 10^{-5}$
    """
    words = r"$\varepsilon$ (nats)"
    return words if delta is None else rf"{words} at $\delta = {formula(delta)}$"


def formula(value: float) -> str:
    r"""Return a number in six digits as a formula, very small and large ones by a power of ten.

    Examples
    --------
    >>> print(formula(0.5), formula(1e-6), formula(2.5e-7), sep=", ")
    0.5, 10^{-6}, 2.5 \cdot 10^{-7}
    """
    factor, _, exponent = f"{value:g}".partition("e")
    if not exponent:
        return factor
    power = f"10^{{{int(exponent)}}}"
    return power if factor == "1" else rf"{factor} \cdot {power}"
