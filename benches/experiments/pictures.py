"""Pictures of the experiments, in the style of `hockeystick.plot`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from hockeystick.plot import _style

DOTS_PER_INCH = 160
WIDTH = _style.PAGE_WIDTH

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = _style.PALETTE
BLACK, GREY = _style.ink(), _style.grey()
DASHED: dict[str, Any] = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
"""Line of a constant that other numbers are compared with."""

WORST_CASE: dict[str, Any] = {"label": "worst case", **DASHED}
"""Line of the guarantee for every example."""


@contextmanager
def picture(
    output: Path,
    name: str,
    panels: int | tuple[int, int] = 1,
    height: float = 2.6,
    width: float = WIDTH,
    **more: Any,
) -> Iterator[Any]:
    """Axes of a new picture, one or an array of them, which is written to `name`.png afterwards."""
    rows, columns = (1, panels) if isinstance(panels, int) else panels
    with _style.one_column():
        figure, axes = plt.subplots(
            rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **more
        )
        for each in axes.flat:
            _style.styled(each)
        yield axes[0, 0] if axes.size == 1 else axes[0] if rows == 1 else axes
        output.mkdir(parents=True, exist_ok=True)
        figure.savefig(output / f"{name}.png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        plt.close(figure)


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
