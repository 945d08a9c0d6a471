"""Figures that need no data: Figure 3 and Appendix B of GROUP, and those of PITFALLS.

All numbers are upper bounds of `hockeystick`, in about a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hockeystick as hs
from benches.experiments import pitfalls
from benches.experiments.effort import FULL, Effort
from benches.experiments.pictures import GREY, key_below, picture
from benches.experiments.results import Results
from benches.experiments.store import Store

DELTA = 1e-5
RATES = (0.001, 0.01, 0.1, 1.0)
SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)
TARGET: dict[str, Any] = {"epsilon": 1.0, "delta": DELTA}
"""What the noise guarantees to one record at every sample rate."""

EPSILON = r"$\varepsilon$ at $\delta = 10^{-5}$"

PANELS = ((10.0, 0.01), (10.0, 0.1), (10.0, 0.2))
STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
GROUPS = (1, 4, 16)

COLOURS = pitfalls.COLOURS


def main(output: Path, effort: Effort = FULL, _store: Store | None = None) -> None:
    """Compute all of it, and write numbers and pictures; no training is stored."""
    results = Results("figures", output, effort)
    for part, compute in (
        ("GROUP, Figure 3", sampling),
        ("GROUP, Appendix B", steps),
        ("PITFALLS, Figure 1", pitfalls.crossing),
        ("PITFALLS, Figure 2 and the table", pitfalls.noise),
        ("PITFALLS, Figure 3", pitfalls.pairs),
        ("PITFALLS, Figure 4", pitfalls.joined),
    ):
        with results.timed(part):
            results.numbers[compute.__name__] = compute()
    results.write()
    draw(output, results.numbers)


def sampling() -> dict[str, Any]:
    """Compute groups at four sample rates, with the noise that gives one record (1, 1e-5) in 100 steps."""
    noises = [float(hs.get_noise_multiplier(sample_rate=rate, steps=100, **TARGET)) for rate in RATES]
    runs: list[dict[str, Any]] = [
        {"noise_multiplier": found, "sample_rate": rate, "steps": 100, "group_size": SIZES}
        for found, rate in zip(noises, RATES, strict=True)
    ]
    return {
        "rates": RATES,
        "noise_multipliers": noises,
        "sizes": SIZES,
        "epsilon": [hs.get_epsilon(delta=DELTA, **run) for run in runs],
        "at_epsilon": TARGET["epsilon"],
        "delta": [hs.get_delta(epsilon=TARGET["epsilon"], **run) for run in runs],
        "black_box": [hs.black_box.get_epsilon(delta=DELTA, **run) for run in runs],
    }


def steps() -> dict[str, Any]:
    """Epsilon of groups against the number of steps."""
    panels = []
    for sigma, rate in PANELS:
        run: dict[str, Any] = {"noise_multiplier": sigma, "sample_rate": rate, "steps": STEPS}
        panels.append([hs.get_epsilon(delta=DELTA, group_size=size, **run) for size in GROUPS])
    return {"panels": PANELS, "steps": STEPS, "groups": GROUPS, "epsilon": panels}


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Draw all of them."""
    draw_sampling(output, numbers["sampling"])
    draw_steps(output, numbers["steps"])
    pitfalls.draw(output, numbers)


def draw_sampling(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 3 of GROUP."""
    sizes = numbers["sizes"]
    for left, right in picture(output, "group-03-sampling", 2, 3.0):
        for axes, key in ((left, "delta"), (right, "epsilon")):
            for rate, values, colour in zip(numbers["rates"], numbers[key], COLOURS, strict=True):
                # The lines of the rates 0.1 and 1 nearly cover each other.
                style: dict[str, Any] = (
                    {"linestyle": (0, (3, 3)), "marker": "x", "zorder": 3} if rate == 1.0 else {"marker": "o"}
                )
                axes.plot(sizes, values, color=colour, label=f"rate {rate:g}", **style)
            axes.set(xlabel="group size (records)", xticks=(1, 4, 8, 12, 16))
        for values, colour in zip(numbers["black_box"], COLOURS, strict=True):
            right.plot(sizes, values, "--", color=colour, linewidth=0.8)
        left.plot([], [], "--", color=GREY, linewidth=0.8, label="right: black box")
        left.set_ylabel(rf"$\delta$ at $\varepsilon = {numbers['at_epsilon']:g}$")
        left.set_yscale("log")
        right.set_ylabel(EPSILON)
        right.set_ylim(0, 1.1 * max(numbers["epsilon"][-1]))
        key_below(left, 5)


def draw_steps(output: Path, numbers: dict[str, Any]) -> None:
    """Appendix B of GROUP."""
    for panels in picture(output, "group-b-steps", 3, 2.8, sharey=True):
        for axes, (sigma, rate), rows in zip(panels, numbers["panels"], numbers["epsilon"], strict=True):
            for size, values, colour in zip(numbers["groups"], rows, COLOURS, strict=False):
                label = f"{size} records" if size > 1 else "one record"
                axes.plot(numbers["steps"], values, "o-", color=colour, label=label)
            axes.set(xscale="log", yscale="log", xlabel="steps", title=f"noise {sigma:g}, rate {rate:g}")
        panels[0].set_ylabel(EPSILON)
        key_below(panels[0])
