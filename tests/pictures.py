"""The pictures that are compared with stored ones: `python tests/pictures.py` draws them anew."""

import contextlib
import shutil
from pathlib import Path

import matplotlib as mpl
import numpy as np

import hockeystick as hs
from hockeystick.accountants import GroupAccountant

GOLDEN = Path(__file__).parent / "data" / "pictures"
SHOWN = Path(__file__).parents[1] / "docs" / "images" / "pictures"
"""Copies of some of them, for the documentation."""

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def two_phases():
    accountant = GroupAccountant(group_size=8)
    accountant.history = [(1.0, 0.01, 600), (2.0, 0.02, 400)]
    return accountant


def several_runs():
    axes = None
    for noise in (1.0, 2.0, 4.0):
        run = {**RUN, "noise_multiplier": noise}
        axes = hs.plot.privacy_curve(ax=axes, label=f"noise multiplier {noise:g}", **run)
    return axes


PICTURES = {
    "privacy_curve": lambda: hs.plot.privacy_curve(delta=1e-5, title=True, **RUN),
    "privacy_curves": several_runs,
    "epsilon_by_group_size": lambda: hs.plot.epsilon_by_group_size(
        black_box=True, **{**RUN, "noise_multiplier": 2.0}
    ),
    "tradeoff_curve": lambda: hs.plot.tradeoff_curve(title=True, **RUN),
    "schemes": lambda: hs.plot.schemes(dataset_size=60_000, **RUN),
    "schemes_of_group": lambda: hs.plot.schemes(dataset_size=60_000, group_size=8, **RUN),
    "budget": lambda: hs.plot.budget(two_phases(), target=15.0, title=True),
    "individual_histogram": lambda: hs.plot.individual_histogram(
        np.random.default_rng(1).gamma(2.0, 0.5, size=1000), 1e-5, worst_case=7.8
    ),
}


ON_DARK = (
    "privacy_curves",
    "epsilon_by_group_size",
    "tradeoff_curve",
    "schemes",
    "budget",
    "individual_histogram",
)
"""Those that are drawn for a dark background, too."""

STORED = (*PICTURES, *(f"{name}-dark" for name in ON_DARK))
"""Names of the stored files."""


def draw(stored, path):
    """Draw one picture with Matplotlib's own defaults, whatever the user's are."""
    from matplotlib import pyplot

    with mpl.rc_context(mpl.rcParamsDefault):
        with hs.plot.dark() if stored.endswith("-dark") else contextlib.nullcontext():
            axes = PICTURES[stored.removesuffix("-dark")]()
        axes.figure.savefig(path, metadata={"Software": None})
        pyplot.close(axes.figure)


if __name__ == "__main__":
    mpl.use("Agg")
    GOLDEN.mkdir(exist_ok=True)
    for name in STORED:
        draw(name, GOLDEN / f"{name}.png")
        if (SHOWN / f"{name.removesuffix('-dark')}.png").exists():
            shutil.copyfile(GOLDEN / f"{name}.png", SHOWN / f"{name}.png")
