"""Pictures of the experiments, in the style of `hockeystick.plot`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba_array
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from hockeystick.plot import _style

DOTS_PER_INCH = 160
WIDTH = _style.PAGE_WIDTH

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = _style.PALETTE
BLACK, GREY = _style.ink(), _style.grey()
DASHED: dict[str, Any] = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
"""Line of a constant that other numbers are compared with."""

WORST_CASE: dict[str, Any] = {"label": "worst case", **DASHED}
"""Line of the guarantee for every example."""


ON_DARK = {BLUE: SKY, BLACK: _style.FOREGROUND, GREY: _style.LIGHT_GREY}
"""Colours that have little contrast on a dark page, and those in their place."""


def picture(
    output: Path,
    name: str,
    panels: int | tuple[int, int] = 1,
    height: float = 2.6,
    width: float = WIDTH,
    **more: Any,
) -> Iterator[Any]:
    """Axes of a new picture, one or an array of them, which is drawn twice: for light and for dark pages.

    What the body of the loop draws is written to `name`.png, and the second time to `name`-dark.png.
    """
    rows, columns = (1, panels) if isinstance(panels, int) else panels
    output.mkdir(parents=True, exist_ok=True)
    for ending, colours in (("", nullcontext()), ("-dark", _style.dark())):
        with colours, _style.one_column():
            figure, axes = plt.subplots(
                rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **more
            )
            for each in axes.flat:
                _style.styled(each)
            yield axes[0, 0] if axes.size == 1 else axes[0] if rows == 1 else axes
            if ending:
                recolour(figure)
            path = output / f"{name}{ending}.png"
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
            plt.close(figure)


def recolour(figure: Any) -> None:
    """Give everything in a picture the colours of `ON_DARK`, and densities the other end of their scale."""
    for artist in figure.findobj(lambda each: isinstance(each, Line2D | Patch | Collection | Text)):
        if isinstance(artist, Collection) and artist.get_array() is not None:
            artist.set_cmap(artist.get_cmap().reversed())
            continue
        # Collections and patches have the two others in place of a colour.
        has_face = hasattr(artist, "get_facecolor")
        for part in (
            ("facecolor", "edgecolor") if has_face else ("color", "markerfacecolor", "markeredgecolor")
        ):
            if not hasattr(artist, f"get_{part}"):
                continue
            colours = to_rgba_array(getattr(artist, f"get_{part}")())
            found = [_on_dark(colour) for colour in colours]
            if not np.array_equal(colours, np.reshape(found, colours.shape)):
                getattr(artist, f"set_{part}")(found if isinstance(artist, Collection) else found[0])


def _on_dark(colour: Any) -> Any:
    """Return the colour in place of one, which is as transparent."""
    for light, dark in ON_DARK.items():
        if np.allclose(colour[:3], to_rgba_array(light)[0, :3]):
            return np.append(to_rgba_array(dark)[0, :3], colour[3])
    return colour


def bars(
    axes: Any, names: list[str], means: Any, *, label: str | None = None, place: float = 0.0, **more: Any
) -> None:
    """Bars of one number for each group."""
    axes.bar(np.arange(len(names)) + place, means, label=label, **more)
    axes.set_xticks(np.arange(len(names)), names, rotation=90 if max(map(len, names)) > 3 else 0)
    axes.grid(visible=False, axis="x")


def key_below(axes: Any, columns: int = 4) -> None:
    """Key of all panels below them."""
    figure = axes.figure
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
