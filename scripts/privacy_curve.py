"""Draw docs/images/privacy-curve.png and its dark twin: curves of groups, exactly and by the black box."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")  # files only

import matplotlib.pyplot as plt
import numpy as np

import hockeystick as hs
from hockeystick.plot._style import PAGE, PAGE_WIDTH, is_dark, palette

RUN = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 1000}
GROUP_SIZES = (1, 4, 16)

EPSILONS = np.geomspace(0.01, 100.0, 400)
DELTAS = np.concatenate([np.geomspace(1e-12, 0.1, 60), np.linspace(0.1, 0.99, 60)[1:]])
LEAST_DELTA = DELTAS[0]
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def exact_deltas(group_size: int) -> np.ndarray:
    """Delta at each epsilon, up to the first below the least."""
    curve = hs.privacy_curve(group_size=group_size, **RUN)
    beyond = np.searchsorted(EPSILONS, curve.epsilon(LEAST_DELTA))
    deltas = np.full(EPSILONS.shape, np.nan)
    deltas[: beyond + 1] = curve.delta(EPSILONS[: beyond + 1])
    return deltas


def computed() -> dict[int, tuple[np.ndarray, np.ndarray | None]]:
    """Exact deltas by group size, and the epsilons of the black box for several records."""
    return {
        size: (
            exact_deltas(size),
            hs.black_box.get_epsilon(delta=DELTAS, group_size=size, **RUN) if size > 1 else None,
        )
        for size in GROUP_SIZES
    }


def draw(curves: dict[int, tuple[np.ndarray, np.ndarray | None]], path: Path) -> None:
    """Write the picture, in the colours that are set."""
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 4.6), layout="constrained")
    for (group_size, (exact, black_box)), colour in zip(curves.items(), palette(), strict=False):
        label = f"group of {group_size}" if group_size > 1 else "one record"
        axes.plot(EPSILONS, exact, color=colour, label=label)
        if black_box is not None:
            axes.plot(black_box, DELTAS, color=colour, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(EPSILONS[0], EPSILONS[-1])
    axes.set_ylim(LEAST_DELTA, 1.5)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(r"$\varepsilon$ (log scale)")
    axes.set_ylabel(r"$\delta$ (log scale)")
    axes.grid(which="major", color="0.3" if is_dark() else "0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    key = "lines: exact\ndashes: black box, from one record's curve"
    axes.legend(frameon=False, title=key, alignment="left", fontsize="small", title_fontsize="small")
    settings = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in RUN.items())
    axes.set_title(f"Privacy curves of groups\n{settings}", fontsize="medium", loc="left")
    figure.savefig(path, dpi=PAGE["savefig.dpi"])
    plt.close(figure)


if __name__ == "__main__":
    found = computed()
    draw(found, IMAGES / "privacy-curve.png")
    with hs.plot.dark():
        draw(found, IMAGES / "privacy-curve-dark.png")
