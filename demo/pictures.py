"""The demo's two pictures."""

import math
from pathlib import Path

import matplotlib

matplotlib.use("agg")  # files only, so that the demo needs no display

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

from demo.table import (
    CONFIDENCE,
    DELTA,
    History,
    Row,
    exact_accountant,
    renyi_accountant,
    simulated_delta,
)
from hockeystick.plot._style import PAGE, PAGE_WIDTH, is_dark, palette

# Colours are those of hockeystick's own pictures: blue, orange, green and purple that stay apart under the
# common forms of colour blindness (Okabe and Ito 2008); markers differ as well, for print.
CURVE_GROUP_SIZES = {1: "o", 2: "s", 4: "^", 8: "D"}
CURVE_POINTS = 60
SIMULATED_POINTS = 6
LARGEST_DELTA, SMALLEST_DELTA = 1.0, 1e-12
ROOM_ABOVE = 1.5
"""Height of the first picture over the largest Rényi bound; the black box leaves it at the top."""
DELTA_TEXT = f"$10^{{{math.log10(DELTA):.0f}}}$"


def draw_epsilon(rows: list[Row], subtitle: str, path: Path) -> None:
    """Draw epsilon against group size: the exact value, and three upper bounds on it."""
    sizes = [row.group_size for row in rows]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 4.6), layout="constrained")
    blue, orange, green, purple, *_ = palette()
    lines = [
        ("black box: all that the curve of one record implies", "black_box", green, "^", "--"),
        ("Jensen: Rényi bound of RGP, Theorem 3.1", "jensen", orange, "s", "-."),
        ("Rényi: divergences of the dominating pair", "renyi", purple, "D", ":"),
        ("exact: GroupAccountant", "exact", blue, "o", "-"),
    ]
    for label, name, colour, marker, dashes in lines:
        style = f"{marker}{dashes}"
        axes.plot(sizes, [getattr(row, name) for row in rows], style, color=colour, markersize=5, label=label)
    for row in rows:
        axes.annotate(
            f"{row.exact:.3g}",
            (row.group_size, row.exact),
            xytext=(0, -14),
            textcoords="offset points",
            ha="center",
            color=blue,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel("group size (records)")
    axes.set_ylabel(rf"$\varepsilon$ at $\delta$ = {DELTA_TEXT} (log scale)")
    axes.set_ylim(0.6 * rows[0].exact, ROOM_ABOVE * max(max(row.jensen, row.renyi) for row in rows))
    finish(figure, axes, "What one training run guarantees to a group", subtitle, path)


def draw_delta(history: History, subtitle: str, path: Path) -> None:
    """Draw delta against epsilon for several group sizes: exactly, by Rényi divergences, and simulated."""
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 4.6), layout="constrained")
    styles = list(zip(CURVE_GROUP_SIZES.items(), palette(), strict=False))
    for (group_size, marker), colour in tqdm(styles, desc="curves", unit="curve"):
        exact, renyi = exact_accountant(history, group_size), renyi_accountant(history, group_size)
        largest = exact.get_epsilon(SMALLEST_DELTA)
        grid = np.geomspace(0.02 * largest, largest, CURVE_POINTS)
        axes.plot(grid, exact.privacy_curve().delta(grid), color=colour)
        axes.plot(
            grid, [renyi.get_delta(epsilon) for epsilon in grid], color=colour, linestyle=":", linewidth=1
        )

        points = np.linspace(0.1 * largest, 0.9 * largest, SIMULATED_POINTS)
        simulated = [simulated_delta(history, group_size, epsilon) for epsilon in points]
        estimates = np.array([delta.estimate for delta in simulated])
        bars = [
            estimates - [delta.lower for delta in simulated],
            [delta.upper for delta in simulated] - estimates,
        ]
        label = f"group of {group_size}" if group_size > 1 else "one record"
        style = {"color": colour, "marker": marker, "markersize": 4, "linestyle": "none", "capsize": 4}
        axes.errorbar(points, estimates, yerr=bars, label=label, **style)
    axes.axhline(DELTA, color="0.5", linestyle=":", linewidth=1, label=rf"$\delta$ = {DELTA_TEXT}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(SMALLEST_DELTA, LARGEST_DELTA)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(r"$\varepsilon$ (log scale)")
    axes.set_ylabel(r"$\delta$ (log scale)")
    key = (
        "lines: exact; dotted: Rényi bounds\n"
        f"points: Monte Carlo with {CONFIDENCE:.0%} intervals,\n"
        "most of them narrower than the mark"
    )
    finish(figure, axes, "Privacy curves of groups", subtitle, path, legend_title=key)


def finish(
    figure: Figure, axes: Axes, title: str, subtitle: str, path: Path, legend_title: str | None = None
) -> None:
    """Add what both pictures have, and write the file."""
    axes.grid(which="major", color="0.3" if is_dark() else "0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title=legend_title, alignment="left", fontsize="small", title_fontsize="small")
    axes.set_title(f"{title}\n{subtitle}", fontsize="medium", loc="left")
    figure.savefig(path, dpi=PAGE["savefig.dpi"])
    plt.close(figure)
