"""Pictures of INDIVIDUAL: its Figures 1 to 14."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benches.experiments.following import DELTA, Outcome, Task, Values
from benches.experiments.pictures import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    WORST_CASE,
    bars,
    key_below,
    picture,
)
from hockeystick.plot import individual_histogram

TITLES = {
    "softmax": "Fashion-MNIST, softmax",
    "cnn": "Fashion-MNIST, convolutional",
    "hinge": "Fashion-MNIST, hinge loss",
    "adult": "Adult, logistic",
}
EPSILON = r"$\varepsilon$ at $\delta = 10^{-5}$"

Found = dict[str, Outcome]
Tasks = dict[str, Task]


def draw(
    output: Path, tasks: Tasks, found: Found, clipped: Found, norms: Found, numbers: dict[str, Any]
) -> None:
    """Draw all of them."""
    histograms(output, tasks, found)
    gradient_norms(output, tasks, found)
    estimates(output, tasks, found)
    losses(
        output,
        "individual-05-loss",
        {name: (tasks[name], found[name]) for name in ("softmax", "cnn", "adult")},
    )
    groups(output, numbers)
    losses(
        output,
        "individual-07-loss-own-thresholds",
        {name: (tasks[name], clipped[name]) for name in ("softmax", "adult")},
    )
    own_thresholds(output, tasks, found, clipped)
    clipping_norms(output, tasks["softmax"], found["softmax"], norms)
    losses(
        output,
        "individual-12-loss-clipping-norms",
        {f"C = {name}": (tasks["softmax"], norms[name]) for name in ("5", "10")},
    )
    attacks(output, numbers["membership"])
    other_settings(output, tasks, found)


def histograms(output: Path, tasks: Tasks, found: Found) -> None:
    """Figure 1: the epsilons of all examples."""
    names = ("softmax", "cnn", "adult")
    for panels in picture(output, "individual-01-histograms", 3, 2.5):
        for axes, name in zip(panels, names, strict=True):
            values = found[name].epsilons
            individual_histogram(values, DELTA, worst_case=tasks[name].epsilon, ax=axes)
            axes.set_title(TITLES[name])
            axes.set_xlabel(EPSILON)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.get_legend().remove()


def gradient_norms(output: Path, tasks: Tasks, found: Found) -> None:
    """Figure 3: the median norm of each class over the training."""
    for panels in picture(output, "individual-03-norms", 2, 3.4):
        for axes, name in zip(panels, ("softmax", "cnn"), strict=True):
            names = tasks[name].split.groups["class"][0]
            medians = found[name].medians
            order = np.argsort(-medians[-1])
            shown = (*order[:2], order[4], *order[-2:])
            for number, colour in zip(shown, (ORANGE, PURPLE, GREY, GREEN, BLUE), strict=True):
                axes.plot(
                    np.arange(len(medians)), medians[:, number], ".-", color=colour, label=names[number]
                )
            axes.axhline(found[name].clipping_norm, label="clipping norm C", **DASHED)
            axes.set(
                title=TITLES[name], xlabel="epoch", ylabel="median norm of the gradients", ylim=(0, None)
            )
            axes.locator_params(axis="x", integer=True)
            # Below the axes: within them there is a line everywhere.
            axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def estimates(output: Path, tasks: Tasks, found: Found) -> None:
    """Figure 4: estimates against the truth, for some examples."""
    names = ("softmax", "cnn", "adult")
    for panels in picture(output, "individual-04-estimates", (3, 3), 6.4, sharex=True, sharey=True):
        for row, name in zip(panels, names, strict=True):
            outcome = found[name]
            for axes, (rate, values) in zip(row, outcome.estimates.items(), strict=True):
                estimate(axes, outcome.truth, values, tasks[name].epsilon)
                axes.set_title(rf"{TITLES[name]}, $\gamma$ = {rate:g}")
            row[0].set_ylabel(r"$\varepsilon$, estimated")
        for axes in panels[-1]:
            axes.set_xlabel(r"$\varepsilon$, norms of every step")
        key_below(panels[0, 0])


def estimate(axes: Any, truth: Values, values: Values, worst: float) -> None:
    """Draw one panel of Figure 4."""
    r = np.corrcoef(truth, values)[0, 1]
    axes.plot(truth, values, ".", color=BLUE, markersize=2.5)
    axes.axline((0, 0), slope=1, color=GREY, linewidth=0.7, label="equal")
    axes.axhline(worst, **WORST_CASE)
    axes.annotate(f"r = {r:.4f}", (0.95, 0.07), xycoords="axes fraction", ha="right")


def losses(output: Path, name: str, shown: dict[str, tuple[Task, Outcome]]) -> None:
    """Figures 5, 7 and 12: epsilon against the loss at the end."""
    for panels in picture(output, name, len(shown), 2.9, sharey=True):
        for axes, (title, (task, outcome)) in zip(panels, shown.items(), strict=True):
            values = task.model.losses(outcome.weights, task.split.rows, task.split.labels)
            logs = np.log10(values)
            r = np.corrcoef(logs, outcome.epsilons)[0, 1]
            axes.hexbin(
                logs, outcome.epsilons, gridsize=(60, 36), bins="log", mincnt=1, cmap="Blues", linewidths=0.1
            )
            slope, start = np.polyfit(logs, outcome.epsilons, 1)
            # From the smallest epsilon to the largest, as far as there are losses.
            ends = np.clip(
                [logs.min(), logs.max()], *((each - start) / slope for each in (0.0, task.epsilon))
            )
            axes.plot(ends, start + slope * ends, color=ORANGE, linewidth=1.2, label="least squares")
            axes.axhline(task.epsilon, **WORST_CASE)
            axes.annotate(f"r = {r:.2f}", (0.97, 0.04), xycoords="axes fraction", ha="right")
            axes.set(
                title=TITLES.get(title, title),
                xlabel="$\\log_{10}$ of the loss at the end",
                ylim=(0, 1.15 * task.epsilon),
            )
        panels[0].set_ylabel(EPSILON)
        key_below(panels[0])


def groups(output: Path, numbers: dict[str, Any]) -> None:
    """Figures 2 and 6: accuracy and mean epsilon of groups."""
    runs = numbers["runs"]
    shown = (("softmax", "class"), ("cnn", "class"), ("adult", "race"), ("adult", "sex"))
    widths = {"width_ratios": [10, 10, 5, 3.6]}
    for panels in picture(output, "individual-02-06-groups", (2, 4), 4.4, sharex="col", gridspec_kw=widths):
        for column, (name, way) in zip(panels.T, shown, strict=True):
            found = runs[name]["groups"][way]
            pair(column, found["names"], found["mean_epsilon"], found["test_accuracy"], BLUE)
            column[0].set_title(f"{TITLES[name].split(', ')[-1] if way == 'class' else 'Adult'}, {way}")
            column[1].axhline(runs[name]["worst_epsilon"], **WORST_CASE)
        panels[0, 0].set_ylabel("test accuracy")
        panels[1, 0].set_ylabel(f"mean {EPSILON}")
        key_below(panels[1, 0])


def pair(column: Any, names: Any, means: Any, accuracies: Any, colour: str) -> None:
    """Accuracy above and mean epsilon below, sorted by the latter."""
    order = np.argsort(means)
    column[0].plot(np.arange(len(order)), np.asarray(accuracies)[order], "o", color=ORANGE)
    column[0].set_ylim(max(0.0, float(np.min(accuracies)) - 0.06), 1.0)
    bars(column[1], [names[i] for i in order], np.asarray(means)[order], color=colour)


def own_thresholds(output: Path, tasks: Tasks, found: Found, clipped: Found) -> None:
    """Figure 8: groups with one clipping norm and with one for each example."""
    shown = (("softmax", "class"), ("adult", "race"), ("adult", "sex"))
    widths = {"width_ratios": [10, 5, 3.2]}
    for panels in picture(
        output, "individual-08-own-thresholds", (2, 3), 4.4, sharex="col", gridspec_kw=widths
    ):
        for column, (name, way) in zip(panels.T, shown, strict=True):
            task = tasks[name]
            names = task.split.groups[way][0]
            order = np.argsort(task.group_means(found[name].epsilons, way))
            runs = ((found, BLUE, -0.2, "one threshold"), (clipped, GREEN, 0.2, "own thresholds"))
            for number, (which, colour, place, label) in enumerate(runs):
                accuracies = task.group_accuracies(which[name].weights, way)[order]
                column[0].plot(
                    np.arange(len(order)),
                    accuracies,
                    "ox"[number],
                    color=colour,
                    markersize=4 + number,
                    label=label,
                )
                means = task.group_means(which[name].epsilons, way)[order]
                bars(
                    column[1],
                    [names[i] for i in order],
                    means,
                    place=place,
                    width=0.4,
                    color=colour,
                    label=label,
                )
            column[0].set_title(f"{task.split.name}, {way}")
            column[1].axhline(task.epsilon, **WORST_CASE)
        panels[0, 0].set_ylabel("test accuracy")
        panels[1, 0].set_ylabel(f"mean {EPSILON}")
        panels[0, 0].legend(loc="lower left")
        key_below(panels[1, 0])


def clipping_norms(output: Path, task: Task, usual: Outcome, norms: Found) -> None:
    """Figures 9 and 10: other clipping norms."""
    shown = {name: norms[name] for name in norms if name.endswith("M")} | {"1 M": usual}
    order = sorted(shown, key=lambda name: shown[name].clipping_norm)
    for panels in picture(output, "individual-09-clipping-norms", len(order), 2.3, sharex=True, sharey=True):
        for axes, name in zip(panels, order, strict=True):
            values = shown[name].epsilons
            axes.hist(values, bins=40, range=(0, 1.02 * task.epsilon), color=BLUE, alpha=0.6)
            axes.axvline(values.mean(), color=ORANGE, linestyle="--", label="mean")
            axes.set(title=f"C = {name}", xlabel=r"$\varepsilon$", yscale="log")
        panels[0].set_ylabel("examples")
        key_below(panels[0])
    for panels in picture(
        output, "individual-10-clipping-norms-groups", (2, len(order)), 4.2, sharex="col", sharey="row"
    ):
        for column, name in zip(panels.T, order, strict=True):
            outcome = shown[name]
            means = task.group_means(outcome.epsilons, "class")
            pair(
                column,
                task.split.groups["class"][0],
                means,
                task.group_accuracies(outcome.weights, "class"),
                BLUE,
            )
            column[0].set(title=f"C = {name}", ylim=(0, 1))
            column[1].axhline(task.epsilon, **WORST_CASE)
        panels[0, 0].set_ylabel("test accuracy")
        panels[1, 0].set_ylabel(f"mean {EPSILON}")
        key_below(panels[1, 0])


def attacks(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 11: success of membership inference beside the mean epsilon."""
    order = np.argsort(numbers["mean_epsilon"])
    names = [numbers["names"][i] for i in order]
    for panels in picture(output, "individual-11-membership", 2, 2.9):
        bars(panels[0], names, np.asarray(numbers["mean_epsilon"])[order], color=BLUE)
        panels[0].set(ylabel=f"mean {EPSILON}", title="training with privacy")
        marks = (("not_private", ORANGE, "o", "without privacy"), ("private", GREEN, "s", "with privacy"))
        for key, colour, mark, label in marks:
            values = 100 * np.asarray(numbers["success"][key])[order]
            error = 100 * numbers["standard_error"][key]
            panels[1].errorbar(
                np.arange(10),
                values,
                error,
                color=colour,
                marker=mark,
                linestyle="none",
                capsize=2,
                label=label,
            )
        panels[1].axhline(50, label="guessing", **DASHED)
        panels[1].set_xticks(np.arange(10), names, rotation=90)
        panels[1].set(ylabel="success of the attack (%)", title="membership inference by the loss")
        panels[1].legend()


def other_settings(output: Path, tasks: Tasks, found: Found) -> None:
    """Figures 13 and 14: hinge loss and convolutional network."""
    for number, name in ((13, "hinge"), (14, "cnn")):
        task, outcome = tasks[name], found[name]
        for panels in picture(output, f"individual-{number}-{name}", 3, 3.0):
            estimate(panels[0], outcome.truth, outcome.estimates[1], task.epsilon)
            panels[0].set(
                xlabel=r"$\varepsilon$, norms of every step",
                ylabel=r"$\varepsilon$, norms once an epoch",
                title=TITLES[name],
            )
            means = task.group_means(outcome.epsilons, "class")
            names = task.split.groups["class"][0]
            order = np.argsort(means)
            panels[1].plot(
                np.arange(10), task.group_accuracies(outcome.weights, "class")[order], "o", color=ORANGE
            )
            panels[1].set_xticks(np.arange(10), [names[i] for i in order], rotation=90)
            panels[1].set(ylabel="test accuracy")
            bars(panels[2], [names[i] for i in order], means[order], color=BLUE)
            panels[2].axhline(task.epsilon, **WORST_CASE)
            panels[2].set(ylabel=f"mean {EPSILON}")
            key_below(panels[0])
