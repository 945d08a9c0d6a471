"""RGP, Section 5.2: what group privacy costs in accuracy, by four ways to find the noise.

The paper trains logistic regression and convolutional networks on scattering features of MNIST, Fashion-MNIST
and CIFAR-10. Here: softmax regression on the pixels and on scattering features of all of Fashion-MNIST, a
small convolutional network on its pixels, and logistic regression on Adult.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hockeystick as hs
from benches.experiments import data
from benches.experiments.convolutional import Convolutional
from benches.experiments.dpsgd import Training
from benches.experiments.effort import FULL, Effort
from benches.experiments.models import Floats, Linear, Model, accuracy, lengths
from benches.experiments.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, key_below, picture
from benches.experiments.results import Results

DELTA = 1e-5
SAMPLE_RATE, STEPS = 0.05, 100
EPSILON = 4.0
SIZES = (8, 16, 32, 64)
SIZE = 32
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
BOUNDS = ("black_box", "jensen", "exact", "curve")
SHORT_SIZES, SHORT_BOUNDS = (8, 32, 64), BOUNDS[:3]
DIGIT_SEEDS = (1, 2, 3)
"""Seeds of the trainings on 4,000 digits, which take seconds each."""

SCATTERING_BATCH = 1000
SCATTERING_SCALE = 2
"""Scale J of the scattering transform, as Tramèr and Boneh (2021) choose it."""

LINES: dict[str, dict[str, Any]] = {
    "black_box": {"label": "black box (Lemma 2.3)", "color": GREEN, "marker": "^"},
    "jensen": {"label": "the paper's bound (Theorem 3.1)", "color": ORANGE, "marker": "s"},
    "exact": {"label": "exact divergences", "color": BLUE, "marker": "o"},
    "curve": {"label": "exact curve", "color": PURPLE, "marker": "D"},
}


class Experiment:
    """A data set and a model, trained with any noise.

    Parameters
    ----------
    split, model : Split, Model
        Data and model.
    learning_rate : float
        Step size in units of the clipping norm.
    clip : float
        Clipping norm.
    seeds : tuple of int
        Seeds of the trainings, whose accuracies are averaged.
    is_short : bool
        Whether only `SHORT_SIZES` are trained for, by `SHORT_BOUNDS`, as a training takes a minute.
    """

    def __init__(
        self,
        split: data.Split,
        model: Model,
        learning_rate: float,
        clip: float = 1.0,
        seeds: tuple[int, ...] = (1,),
        is_short: bool = False,
    ) -> None:
        self.split, self.model, self.seeds = split, model, seeds
        self.is_short = is_short
        self._rate, self._clip = learning_rate, clip
        self._known: dict[float, list[float]] = {}

    def accuracies(self, noise_multiplier: float) -> list[float]:
        """Test accuracy for each seed."""
        noise = float(f"{noise_multiplier:.6g}")
        if noise not in self._known:
            self._known[noise] = [self._accuracy(noise, seed) for seed in self.seeds]
        return self._known[noise]

    def _accuracy(self, noise: float, seed: int) -> float:
        split = self.split
        training = Training(
            self.model,
            split.rows,
            split.labels,
            SAMPLE_RATE,
            STEPS,
            noise,
            self._clip,
            self._rate / self._clip,
        )
        return accuracy(self.model, training.run(seed), split.test_rows, split.test_labels)


def main(output: Path, effort: Effort = FULL) -> None:
    """Run all of it, and write numbers and pictures."""
    results = Results("rgp", output, effort)
    results.numbers |= {"sample_rate": SAMPLE_RATE, "steps": STEPS, "delta": DELTA}
    sigmas = {
        "by_size": {bound: [noise_for(bound, EPSILON, size) for size in SIZES] for bound in BOUNDS},
        "by_epsilon": {bound: [noise_for(bound, epsilon, SIZE) for epsilon in EPSILONS] for bound in BOUNDS},
    }
    results.numbers |= {"sizes": SIZES, "epsilons": EPSILONS, "noise_multipliers": sigmas}
    found: dict[str, Any] = {}
    for name, make in experiments(effort).items():
        with results.timed(name):
            found[name] = trained(make(), sigmas)
            results.numbers["accuracies"] = found
        results.write()
    draw(output, results.numbers)


def trained(experiment: Experiment, sigmas: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Accuracies with the noise multipliers of `sigmas`, and without noise."""
    sizes = SHORT_SIZES if experiment.is_short else SIZES
    bounds = SHORT_BOUNDS if experiment.is_short else BOUNDS
    by_size = {
        bound: [experiment.accuracies(sigmas["by_size"][bound][SIZES.index(size)]) for size in sizes]
        for bound in bounds
    }
    found = {
        "examples": len(experiment.split),
        "seeds": len(experiment.seeds),
        "no_noise": experiment.accuracies(0.0),
        "sizes": sizes,
        "by_size": by_size,
    }
    if not experiment.is_short:
        found["by_epsilon"] = {
            bound: [experiment.accuracies(noise) for noise in sigmas["by_epsilon"][bound]] for bound in bounds
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


def experiments(effort: Effort) -> dict[str, Callable[[], Experiment]]:
    """Return the data sets and models, each made when its turn comes."""
    seeds = tuple(range(1, effort.seeds + 1))
    found: dict[str, Callable[[], Experiment]] = {
        "Fashion-MNIST, pixels": lambda: linear(of_norm_one(data.fashion_mnist()), seeds),
        "Adult": lambda: linear(of_norm_one(data.adult()), seeds),
        "MNIST digits, scattering": lambda: linear(
            of_norm_one(scattered(data.digits())), DIGIT_SEEDS, is_short=True
        ),
        "MNIST digits, convolutional": lambda: Experiment(
            data.digits(), Convolutional(10), 1.0, seeds=DIGIT_SEEDS, is_short=True
        ),
    }
    if effort.has_long_trainings:
        found["Fashion-MNIST, scattering"] = lambda: linear(
            of_norm_one(scattered(data.fashion_mnist())), (1,), is_short=True
        )
        found["Fashion-MNIST, convolutional"] = lambda: Experiment(
            data.fashion_mnist(), Convolutional(10), 1.0, seeds=(1,), is_short=True
        )
    return found


def linear(split: data.Split, seeds: tuple[int, ...], *, is_short: bool = False) -> Experiment:
    """Softmax regression."""
    model = Linear(split.rows.shape[1], split.classes)
    return Experiment(split, model, 8.0, seeds=seeds, is_short=is_short)


def of_norm_one(split: data.Split) -> data.Split:
    """Scale each example to norm 1, without looking at the others."""
    rows, tests = (part / lengths(part)[:, None] for part in (split.rows, split.test_rows))
    return replace(split, rows=rows, test_rows=tests)


def scattered(split: data.Split) -> data.Split:
    """Scattering features of pictures, which have no parameters that are learnt."""
    # The front page of kymatio imports functions that SciPy has no more; this part of it needs none of them.
    from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D

    transform = ScatteringNumPy2D(J=SCATTERING_SCALE, shape=(28, 28))
    return replace(
        split, rows=features(transform, split.rows), test_rows=features(transform, split.test_rows)
    )


def features(transform: Callable[[Any], NDArray[Any]], rows: Floats) -> Floats:
    """Scattering features of rows of pixels with a constant."""
    pictures = rows[:, :-1].reshape(-1, 28, 28)
    parts = range(0, len(pictures), SCATTERING_BATCH)
    found = [transform(pictures[start : start + SCATTERING_BATCH]).astype(np.float32) for start in parts]
    return data.with_constant(np.concatenate(found))


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
