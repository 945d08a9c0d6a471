"""Figures that need no data: Figure 3 and Appendix B of GROUP, and both figures of PITFALLS.

All numbers are upper bounds of `hockeystick`, in less than a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments.effort import FULL, Effort
from benches.experiments.pictures import BLUE, GREEN, ORANGE, PURPLE, key_below, picture
from benches.experiments.results import Results
from benches.experiments.store import Store

DELTA = 1e-5
RATES = (0.001, 0.01, 0.1, 1.0)
SIZES = (1, 2, 4, 8, 16)
FIXED_EPSILON = 4.0

PANELS = ((10.0, 0.01), (10.0, 0.1), (10.0, 0.2))
STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
GROUPS = (1, 4, 16)

LAPLACE: dict[str, Any] = {"mechanism": hs.Laplace(1.0), "sample_rate": 0.5}
COMPOSED = (1, 2, 3, 5)
EPSILONS = np.linspace(0.0, 1.5, 61)

DATASET_SIZE = 1_000_000
BATCHES = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
DELTAS = (1e-5, 1e-6, 1e-7)
LONG = 10_000

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def main(output: Path, effort: Effort = FULL, _store: Store | None = None) -> None:
    """Compute all of it, and write numbers and pictures; no training is stored."""
    results = Results("figures", output, effort)
    for part, compute in (
        ("GROUP, Figure 3", sampling),
        ("GROUP, Appendix B", steps),
        ("PITFALLS, Figure 1", crossing),
        ("PITFALLS, Figure 2", noise),
    ):
        with results.timed(part):
            results.numbers[compute.__name__] = compute()
    results.write()
    draw(output, results.numbers)


def sampling() -> dict[str, Any]:
    """Compute groups at four sample rates, with the noise that gives one record (1, 1e-5) in 100 steps."""
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": DELTA, "steps": 100}
    noises = [float(hs.get_noise_multiplier(sample_rate=rate, **asked)) for rate in RATES]
    runs: list[dict[str, Any]] = [
        {"noise_multiplier": found, "sample_rate": rate, "steps": 100, "group_size": SIZES}
        for found, rate in zip(noises, RATES, strict=True)
    ]
    return {
        "rates": RATES,
        "noise_multipliers": noises,
        "sizes": SIZES,
        "epsilon": [hs.get_epsilon(delta=DELTA, **run) for run in runs],
        "at_epsilon": FIXED_EPSILON,
        "delta": [hs.get_delta(epsilon=FIXED_EPSILON, **run) for run in runs],
        "black_box": [hs.black_box.get_epsilon(delta=DELTA, **run) for run in runs],
    }


def steps() -> dict[str, Any]:
    """Epsilon of groups against the number of steps."""
    panels = []
    for sigma, rate in PANELS:
        run: dict[str, Any] = {"noise_multiplier": sigma, "sample_rate": rate, "steps": STEPS}
        panels.append([hs.get_epsilon(delta=DELTA, group_size=size, **run) for size in GROUPS])
    return {"panels": PANELS, "steps": STEPS, "groups": GROUPS, "epsilon": panels}


def crossing() -> dict[str, Any]:
    """Delta of added and of removed records, Laplace noise on Poisson samples: the curves cross."""
    return {
        "steps": COMPOSED,
        "epsilons": EPSILONS,
        **{
            way: [hs.get_delta(epsilon=EPSILONS, steps=count, adjacency=way, **LAPLACE) for count in COMPOSED]
            for way in ("add", "remove")
        },
    }


def noise() -> dict[str, Any]:
    """Noise multiplier for epsilon 1 in 10,000 steps, against the sample rate, of both ways to draw."""
    rates = [size / DATASET_SIZE for size in BATCHES]
    drawn: dict[str, list[hs.Poisson | hs.WithoutReplacement]] = {
        "poisson": [hs.Poisson(rate) for rate in rates],
        "fixed": [hs.WithoutReplacement(size, DATASET_SIZE) for size in BATCHES],
    }
    found: dict[str, Any] = {"rates": rates, "deltas": DELTAS}
    for name, schemes in drawn.items():
        found[name] = [
            [
                float(hs.get_noise_multiplier(epsilon=1.0, delta=delta, sampling=scheme, steps=LONG))
                for scheme in schemes
            ]
            for delta in DELTAS
        ]
    return found


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Draw all of them."""
    draw_sampling(output, numbers["sampling"])
    draw_steps(output, numbers["steps"])
    draw_crossing(output, numbers["crossing"])
    draw_noise(output, numbers["noise"])


def draw_sampling(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 3 of GROUP."""
    sizes = numbers["sizes"]
    for left, right in picture(output, "group-03-sampling", 2, 3.0):
        for axes, key in ((left, "epsilon"), (right, "delta")):
            for rate, values, colour in zip(numbers["rates"], numbers[key], COLOURS, strict=True):
                axes.plot(sizes, values, "o-", color=colour, label=f"rate {rate:g}")
            axes.set(xlabel="group size (records)", xscale="log", yscale="log")
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
        left.set_ylabel(r"$\varepsilon$ at $\delta = 10^{-5}$")
        right.set_ylabel(rf"$\delta$ at $\varepsilon = {numbers['at_epsilon']:g}$")
        key_below(left)


def draw_steps(output: Path, numbers: dict[str, Any]) -> None:
    """Appendix B of GROUP."""
    for panels in picture(output, "group-b-steps", 3, 2.8, sharey=True):
        for axes, (sigma, rate), rows in zip(panels, numbers["panels"], numbers["epsilon"], strict=True):
            for size, values, colour in zip(numbers["groups"], rows, COLOURS, strict=False):
                label = f"{size} records" if size > 1 else "one record"
                axes.plot(numbers["steps"], values, "o-", color=colour, label=label)
            axes.set(xscale="log", yscale="log", xlabel="steps", title=f"noise {sigma:g}, rate {rate:g}")
        panels[0].set_ylabel(r"$\varepsilon$ at $\delta = 10^{-5}$")
        key_below(panels[0])


def draw_crossing(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 1 of PITFALLS."""
    for panels in picture(output, "pitfalls-01-crossing", 4, 2.4):
        for place, (axes, count) in enumerate(zip(panels, numbers["steps"], strict=True)):
            for way, colour, line in (("remove", BLUE, "-"), ("add", ORANGE, "--")):
                axes.plot(numbers["epsilons"], numbers[way][place], line, color=colour, label=way)
            axes.set(xlabel=r"$\varepsilon$", title=f"{count} step{'s' if count > 1 else ''}", ylim=(0, None))
        panels[0].set_ylabel(r"$\delta$")
        key_below(panels[0])


def draw_noise(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 2 of PITFALLS."""
    for axes in picture(output, "pitfalls-02-noise", 1, 3.0, width=4.6):
        for delta, poisson, fixed, colour in zip(
            numbers["deltas"], numbers["poisson"], numbers["fixed"], COLOURS, strict=False
        ):
            power = f"$10^{{{np.log10(delta):.0f}}}$"
            axes.plot(numbers["rates"], poisson, "o-", color=colour, label=rf"Poisson, $\delta$ = {power}")
            axes.plot(numbers["rates"], fixed, "s--", color=colour, label=rf"fixed, $\delta$ = {power}")
        axes.set(xlabel="sample rate", ylabel="noise multiplier", xscale="log", yscale="log")
        axes.legend(loc="upper left")
