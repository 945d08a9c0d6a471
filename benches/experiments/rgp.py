"""RGP, Section 5.2: what group privacy costs in accuracy, by four ways to find the noise.

The paper trains logistic regression and convolutional networks on scattering features of MNIST, Fashion-MNIST
and CIFAR-10. Here: softmax regression on the pixels and on scattering features of all of Fashion-MNIST, a
small convolutional network on its pixels, and logistic regression on Adult.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments import data
from benches.experiments.effort import FULL, Effort
from benches.experiments.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, key_below, picture
from benches.experiments.results import Results
from benches.experiments.rgp_training import SAMPLE_RATE, STEPS, Experiment, of_norm_one, scattered
from benches.experiments.store import Store

DELTA = 1e-5
EPSILON = 4.0
SIZES = (8, 16, 32, 64)
SIZE = 32
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
BOUNDS = ("black_box", "jensen", "exact", "curve")
DIGIT_SEEDS = (1, 2, 3)
"""Seeds of the trainings on 4,000 digits, which take seconds each."""

NOISE_TICKS = (5, 10, 20, 50, 100, 200)
"""Where the logarithmic axes of noise multipliers have numbers."""

LINES: dict[str, dict[str, Any]] = {
    "black_box": {"label": "black box (Lemma 2.3)", "color": GREEN, "marker": "^"},
    "jensen": {"label": "the paper's bound (Theorem 3.1)", "color": ORANGE, "marker": "s"},
    "exact": {"label": "exact divergences", "color": BLUE, "marker": "o"},
    "curve": {"label": "exact curve", "color": PURPLE, "marker": "D"},
}


def main(output: Path, effort: Effort = FULL, store: Store | None = None) -> None:
    """Run all of it, and write numbers and pictures."""
    store = store or Store()
    results = Results("rgp", output, effort, store)
    results.numbers |= {"sample_rate": SAMPLE_RATE, "steps": STEPS, "delta": DELTA}
    sigmas = {
        "by_size": {bound: [noise_for(bound, EPSILON, size) for size in SIZES] for bound in BOUNDS},
        "by_epsilon": {bound: [noise_for(bound, epsilon, SIZE) for epsilon in EPSILONS] for bound in BOUNDS},
    }
    results.numbers |= {"sizes": SIZES, "epsilons": EPSILONS, "noise_multipliers": sigmas}
    found: dict[str, Any] = {}
    for experiment in experiments(effort, store):
        with results.timed(experiment.name):
            found[experiment.name] = trained(experiment, sigmas)
            results.numbers["accuracies"] = found
        results.write()
    draw(output, results.numbers)


def trained(experiment: Experiment, sigmas: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Accuracies with the noise multipliers of `sigmas`, and without noise."""
    found = {
        "examples": experiment.examples(),
        "seeds": len(experiment.seeds),
        "no_noise": experiment.accuracies(0.0),
        "sizes": SIZES,
    }
    for axis in ("by_size", "by_epsilon") if experiment.has_epsilons else ("by_size",):
        found[axis] = {
            bound: [experiment.accuracies(noise) for noise in sigmas[axis][bound]] for bound in BOUNDS
        }
    return found


def noise_for(bound: str, epsilon: float, group_size: int) -> float:
    """Noise multiplier for an epsilon and a group by one of `BOUNDS`."""
    target: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "group_size": group_size,
        "sample_rate": SAMPLE_RATE,
        "steps": STEPS,
    }
    if bound == "curve":
        return float(hs.get_noise_multiplier(**target))
    return float(hs.renyi.calibrate_dp(hs.Gaussian, bound=bound, **target))


def experiments(effort: Effort, store: Store) -> list[Experiment]:
    """Return the data sets and models."""
    seeds = tuple(range(1, effort.seeds + 1))
    found: list[tuple[str, Callable[[], data.Split], bool, tuple[int, ...], bool]] = [
        ("Fashion-MNIST, pixels", lambda: of_norm_one(data.fashion_mnist()), False, seeds, True),
        ("Adult", lambda: of_norm_one(data.adult()), False, seeds, True),
        (
            "MNIST digits, scattering",
            lambda: of_norm_one(scattered(data.digits())),
            False,
            DIGIT_SEEDS,
            False,
        ),
        ("MNIST digits, convolutional", data.digits, True, DIGIT_SEEDS, False),
    ]
    if effort.network_seeds:
        few = tuple(range(1, effort.network_seeds + 1))
        found += [
            (
                "Fashion-MNIST, scattering",
                lambda: of_norm_one(scattered(data.fashion_mnist())),
                False,
                few,
                False,
            ),
            ("Fashion-MNIST, convolutional", data.fashion_mnist, True, few, False),
        ]
    return [Experiment(*each, store) for each in found]


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Figures 4 and 5: accuracy by group size and by epsilon; and the noise."""
    every = numbers["accuracies"]
    for quantity, name, label in (
        ("by_size", "rgp-04-group-size", "group size (records)"),
        ("by_epsilon", "rgp-05-epsilon", rf"$\varepsilon$ at $\delta = 10^{{-5}}$, group of {SIZE}"),
    ):
        shown = {title: found for title, found in every.items() if quantity in found}
        columns = 2 if len(shown) > 3 else len(shown)
        grid = (-(-len(shown) // columns), columns)
        for every_panel in picture(output, name, grid, 2.6 * grid[0]):
            panels = np.ravel(every_panel)
            for axes, (title, found) in zip(panels, shown.items(), strict=False):
                x = found["sizes"] if quantity == "by_size" else numbers["epsilons"]
                accuracies(axes, x, found[quantity], found["no_noise"])
                axes.set(title=title, xlabel=label)
                axes.set_ylabel("test accuracy (%)")
            for axes in panels[len(shown) :]:
                axes.set_axis_off()
            key_below(panels[0], 5)
    for panels in picture(output, "rgp-noise", 2, 2.8):
        for axes, axis, x, label in zip(
            panels,
            ("by_size", "by_epsilon"),
            (numbers["sizes"], numbers["epsilons"]),
            (r"group size (records), $\varepsilon = 4$", rf"$\varepsilon$, group of {SIZE}"),
            strict=True,
        ):
            for bound, row in numbers["noise_multipliers"][axis].items():
                axes.plot(x, row, **LINES[bound])
            axes.set(xlabel=label, xscale="log", yscale="log")
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.minorticks_off()
            axes.set_yticks(NOISE_TICKS, [f"{value:g}" for value in NOISE_TICKS])
            axes.set_ylim(0.8 * NOISE_TICKS[0], 1.2 * NOISE_TICKS[-1])
        panels[0].set_ylabel("noise multiplier")
        panels[0].legend()


def accuracies(axes: Any, x: Any, found: dict[str, Any], no_noise: list[float]) -> None:
    """Draw one panel: means over the seeds, with one standard error."""
    for bound, rows in found.items():
        values = 100 * np.asarray(rows)
        count = values.shape[1]
        error = values.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else None
        axes.errorbar(x, values.mean(axis=1), error, capsize=2, **LINES[bound])
    axes.axhline(100 * np.mean(no_noise), color=GREY, linestyle=":", label="no noise")
    axes.set(xscale="log")
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.locator_params(axis="y", integer=True)
