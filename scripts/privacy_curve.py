"""Draw docs/images/privacy-curve.png: privacy curves of groups, exactly and by the black box."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")  # files only

import matplotlib.pyplot as plt
import numpy as np

import hockeystick as hs

RUN = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 1000}
GROUP_SIZES = {1: "#0072B2", 4: "#D55E00", 16: "#009E73"}
"""Colours that stay apart under the common forms of colour blindness (Okabe and Ito 2008)."""

EPSILONS = np.geomspace(0.01, 100.0, 400)
DELTAS = np.concatenate([np.geomspace(1e-12, 0.1, 60), np.linspace(0.1, 0.99, 60)[1:]])
LEAST_DELTA = DELTAS[0]
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "privacy-curve.png"


def exact_deltas(group_size: int) -> np.ndarray:
    """Delta at each epsilon, up to the first below the least."""
    curve = hs.privacy_curve(group_size=group_size, **RUN)
    beyond = np.searchsorted(EPSILONS, curve.epsilon(LEAST_DELTA))
    deltas = np.full(EPSILONS.shape, np.nan)
    deltas[: beyond + 1] = curve.delta(EPSILONS[: beyond + 1])
    return deltas


def draw() -> None:
    """Write the picture."""
    figure, axes = plt.subplots(figsize=(7.0, 4.6), layout="constrained")
    for group_size, colour in GROUP_SIZES.items():
        label = f"group of {group_size}" if group_size > 1 else "one record"
        axes.plot(EPSILONS, exact_deltas(group_size), color=colour, label=label)
        if group_size > 1:
            black_box = hs.black_box.get_epsilon(delta=DELTAS, group_size=group_size, **RUN)
            axes.plot(black_box, DELTAS, color=colour, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(EPSILONS[0], EPSILONS[-1])
    axes.set_ylim(LEAST_DELTA, 1.5)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("ε (log scale)")
    axes.set_ylabel("δ (log scale)")
    axes.grid(which="major", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    key = "lines: exact\ndashes: black box, from one record's curve"
    axes.legend(frameon=False, title=key, alignment="left", fontsize="small", title_fontsize="small")
    settings = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in RUN.items())
    axes.set_title(f"Privacy curves of groups\n{settings}", fontsize="medium", loc="left")
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    draw()
