"""GROUP: bounds on the privacy of groups, audits of them, and poisoning, at the size of Fashion-MNIST.

The paper has pictures of its bound beside the black box (Theorem 4). Here the bound by trade-off functions is
drawn too, which the paper calls infeasible (Proposition 20), Monte Carlo estimates have the 1 % that the
paper asks for, attacks with copies of a record show how tight the bound is, and MovieLens shows who has how
many records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments import attacks, data
from benches.experiments.effort import FULL, Effort
from benches.experiments.pictures import BLUE, DASHED, GREEN, GREY, ORANGE, PURPLE, key_below, picture
from benches.experiments.results import Results
from benches.experiments.store import Store
from hockeystick import datasets, kernels

RUN: dict[str, Any] = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
DELTA = 1e-3
EPSILON = r"$\varepsilon$ at $\delta = 10^{-3}$"
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
FIRST_SAMPLES, MOST_SAMPLES = 1 << 16, 1 << 26

LONGER: dict[str, Any] = RUN | {"steps": 20}
LONGER_SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)

RATINGS: dict[str, Any] = {"noise_multiplier": 20.0, "sample_rate": 0.01, "steps": 1000}
RATINGS_DELTA = 1e-5


def main(output: Path, effort: Effort = FULL, store: Store | None = None) -> None:
    """Run all of it, and write numbers and pictures."""
    store = store or Store()
    results = Results("group", output, effort, store)
    results.numbers["run"] = RUN | {"delta": DELTA}
    with results.timed("bounds (Figure 1)"):
        results.numbers["bounds"] = bounds(SIZES, effort.half_width)
    with results.timed("delta (Figure 2)"):
        results.numbers["deltas"] = deltas()
    with results.timed("people of MovieLens"):
        results.numbers["movielens"] = people()
    results.write()
    fashion = data.fashion_mnist()
    with results.timed("audit"):
        results.numbers["audit"] = attacks.audit(
            fashion, RUN, DELTA, effort.audit_runs, effort.pilot_runs, store
        )
    with results.timed("audit of the two laws themselves"):
        results.numbers["ideal_audit"] = attacks.ideal_audit(RUN, DELTA, effort.audit_runs, effort.pilot_runs)
    results.write()
    with results.timed("poisoning"):
        results.numbers["poisoning"] = attacks.poisoning(fashion, effort.poison_runs, store)
    results.write()
    draw(output, results.numbers)


def bounds(sizes: tuple[int, ...], bar: float) -> dict[str, Any]:
    """Epsilon of groups by four ways (Figure 1 with Proposition 20)."""
    exact = hs.get_epsilon(delta=DELTA, group_size=np.array(sizes), **RUN)
    one = hs.TradeoffCurve.from_curve(hs.privacy_curve(**RUN))
    return {
        "sizes": sizes,
        "exact": exact,
        "tradeoff": [one.group(size).epsilon(DELTA) for size in sizes],
        "black_box": hs.black_box.get_epsilon(delta=DELTA, group_size=sizes, **RUN),
        "monte_carlo": [
            simulated(float(epsilon), size, bar) for epsilon, size in zip(exact, sizes, strict=True)
        ],
    }


def simulated(epsilon: float, size: int, bar: float) -> dict[str, Any]:
    """Estimate delta at the exact epsilon, with as many samples as the relative half width `bar` takes."""
    weights, shifts = kernels.binomial_law(size, RUN["sample_rate"])
    samples = FIRST_SAMPLES
    while True:
        both = [
            kernels.monte_carlo_delta(
                epsilon,
                weights,
                shifts,
                RUN["noise_multiplier"],
                int(RUN["steps"]),
                samples=samples,
                direction=direction,
                seed=1,
                confidence=0.99,
            )
            for direction in ("add", "remove")
        ]
        largest = max(both, key=lambda found: float(found.estimate))
        half = 0.5 * (float(largest.upper) - float(largest.lower)) / float(largest.estimate)
        if half <= bar or samples >= MOST_SAMPLES:
            return {
                "delta": float(largest.estimate),
                "lower": float(largest.lower),
                "upper": float(largest.upper),
                "samples": samples,
                "half_width": half,
            }
        samples *= 4


def deltas() -> dict[str, Any]:
    """Delta of groups at a fixed epsilon and at one in proportion to the group (Figure 2)."""
    sizes = np.array(LONGER_SIZES)
    found: dict[str, Any] = {"sizes": sizes}
    for name, epsilons in (("fixed", np.full(len(sizes), 2.0)), ("in_proportion", 0.5 * sizes)):
        found[name] = {
            "epsilons": epsilons,
            "exact": hs.get_delta(epsilon=epsilons, group_size=sizes, **LONGER),
            "black_box": hs.black_box.get_delta(epsilon=epsilons, group_size=sizes, **LONGER),
        }
    return found


def people() -> dict[str, Any]:
    """Epsilon of the persons of MovieLens, who have 20 to 737 records each."""
    records = np.unique(datasets.movielens()["user_id"], return_counts=True)[1]
    sizes = np.unique(np.quantile(records, [0.0, 0.25, 0.5, 0.75, 0.9, 1.0]).round().astype(int))
    asked: dict[str, Any] = {"delta": RATINGS_DELTA, "group_size": sizes, **RATINGS}
    return {
        "run": RATINGS | {"delta": RATINGS_DELTA},
        "persons": len(records),
        "records": int(records.sum()),
        "quantiles": [0.0, 0.25, 0.5, 0.75, 0.9, 1.0],
        "sizes": sizes,
        "exact": hs.get_epsilon(**asked),
        "black_box": hs.black_box.get_epsilon(**asked),
    }


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Draw Figures 1 and 2, the audit and the poisoning."""
    draw_bounds(output, numbers["bounds"], numbers)
    draw_deltas(output, numbers["deltas"])
    draw_poisoning(output, numbers["poisoning"])


def draw_bounds(output: Path, numbers: dict[str, Any], every: dict[str, Any]) -> None:
    """Figure 1, with the bound by trade-off functions, simulation and audits."""
    sizes = np.asarray(numbers["sizes"])
    for axes, close in picture(output, "group-01-bounds", 2, 3.0):
        for each in (axes, close):
            each.plot(sizes, numbers["black_box"], "^--", color=GREEN, label="black box (Theorem 4)")
            each.plot(sizes, numbers["tradeoff"], "s-.", color=ORANGE, label="by f-DP (Theorem 5)")
            each.plot(sizes, numbers["exact"], "o-", color=BLUE, label="exact (Theorem 18)")
            each.set(xlabel="group size (records)", xticks=sizes[1::2])
        for name, mark, label in (("crafted", "*", "audit, crafted"), ("picture", "x", "audit, a picture")):
            rows = every["audit"][name]
            close.plot(
                [row["copies"] for row in rows],
                [row["epsilon_at_least"] for row in rows],
                mark,
                color=PURPLE,
                markersize=7,
                clip_on=False,
                zorder=3,
                label=f"{label}: at least",
            )
        ideal = every["ideal_audit"]
        middle = [row["epsilon_at_least"][1] for row in ideal]
        close.plot(
            [row["copies"] for row in ideal],
            middle,
            "D",
            color=GREY,
            markerfacecolor="none",
            clip_on=False,
            zorder=3,
            label="audit of the two laws: at least",
        )
        axes.set(ylabel=EPSILON, yscale="log", title="full range")
        close.set(ylim=(0, 3.5), title=r"up to $\varepsilon = 3.5$, with audits")
        close.legend(loc="upper left")


def draw_deltas(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 2."""
    titles = {"fixed": r"$\varepsilon = 2$", "in_proportion": r"$\varepsilon$ = group size / 2"}
    for panels in picture(output, "group-02-deltas", 2, 2.8, sharey=True):
        for axes, (name, title) in zip(panels, titles.items(), strict=True):
            axes.plot(numbers["sizes"], numbers[name]["black_box"], "^--", color=GREEN, label="black box")
            axes.plot(numbers["sizes"], numbers[name]["exact"], "o-", color=BLUE, label="exact")
            axes.set(title=title, xlabel="group size (records)", yscale="log", ylim=(None, 1))
        panels[0].set_ylabel(r"$\delta$")
        panels[0].legend(loc="lower right")


def draw_poisoning(output: Path, numbers: dict[str, Any]) -> None:
    """Draw success against the number of copies, and what the guarantees allow."""
    copies = numbers["copies"]
    titles = {"any": "any picture", "undecided": "a picture with a small margin"}
    for panels in picture(output, "group-poisoning", 2, 3.0, sharey=True):
        for axes, (name, title) in zip(panels, titles.items(), strict=True):
            found = numbers["targets"][name]
            rows = found["rows"]
            success = np.array([row["success"] for row in rows])
            ends = np.array([row["interval"] for row in rows]).T
            for key, style, colour, label in (
                ("at_most_black_box", "^--", GREEN, "at most, by Theorem 4"),
                ("at_most", "o-", BLUE, "at most, exact"),
            ):
                axes.plot(copies, [row[key] for row in rows], style, color=colour, label=label)
            axes.errorbar(
                copies,
                success,
                [success - ends[0], ends[1] - success],
                color=ORANGE,
                marker="s",
                linestyle="none",
                capsize=2,
                label="seen (95 %)",
            )
            axes.axhline(found["without_copies_at_most"], label="without copies, at most", **DASHED)
            axes.set(xlabel="copies", title=title, xscale="log", ylim=(0, 1.05))
            axes.set_xticks(copies, [str(number) for number in copies])
            axes.minorticks_off()
        panels[0].set_ylabel("probability of the wrong label")
        key_below(panels[0], 4)
