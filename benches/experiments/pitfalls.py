"""Figures of PITFALLS, which need no data: two ways to draw a batch, and added, removed and replaced records.

All numbers are upper bounds of `hockeystick`, but for those that are said to be something else.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, key_below, picture
from hockeystick import kernels

LAPLACE: dict[str, Any] = {"mechanism": hs.Laplace(1.0), "sample_rate": 0.5}
COMPOSED = (1, 2, 3, 5)
EPSILONS = np.linspace(0.0, 1.5, 61)

DATASET_SIZE = 1_000_000
BATCHES = np.geomspace(100, DATASET_SIZE, 25).round().astype(int)
TARGETS = (1.0, 2.0, 5.0, 10.0)
LONG: dict[str, Any] = {"delta": 1e-6, "steps": 10_000}
NEAR_TRANSITION = np.linspace(0.7, 1.05, 8)
"""Noise multipliers on both sides of the transition of Poisson samples."""

TABLE_DELTAS = (1e-7, 1e-6, 1e-5, 1e-4)
TABLE: dict[str, Any] = {"delta": TABLE_DELTAS, "noise_multiplier": 0.8, "steps": 10_000}
TABLE_RATE = 0.001

QUERY: dict[str, Any] = {"mechanism": hs.Laplace(3.0), "sampling": hs.WithoutReplacement(1, 2), "steps": 1}
PAIR_EPSILONS = np.linspace(0.0, 0.7, 71)
PAIRS = {"other record −1 and −1": BLUE, "other record 1 and 1": ORANGE, "other record −1 and 1": GREEN}

ONE_STEP: dict[str, Any] = {
    "noise_multiplier": 2.0,
    "sampling": hs.WithoutReplacement(10_000, 100_000),
    "steps": 1,
}
BOTH_SIDES = np.linspace(-0.5, 0.5, 81)
FIXED: dict[str, Any] = {
    "noise_multiplier": 2.0,
    "sampling": hs.WithoutReplacement(1000, 100_000),
    "steps": 1000,
}
LARGE_EPSILONS = np.linspace(0.2, 6.0, 59)
ORDERS = np.arange(2.0, 65.0)

COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


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
    """Noise multiplier against the sample rate, of both ways to draw, and the table beside Figure 2."""
    rates = BATCHES / DATASET_SIZE
    fixed = [hs.WithoutReplacement(int(size), DATASET_SIZE) for size in BATCHES]
    return {
        "rates": rates,
        "epsilons": TARGETS,
        "poisson": [hs.get_noise_multiplier(epsilon=each, sample_rate=rates, **LONG) for each in TARGETS],
        "fixed": [
            [float(hs.get_noise_multiplier(epsilon=each, sampling=drawn, **LONG)) for drawn in fixed]
            for each in TARGETS
        ],
        "transitions": [transition(each) for each in TARGETS],
        "table": {
            "deltas": TABLE_DELTAS,
            "poisson": hs.get_epsilon(sample_rate=TABLE_RATE, **TABLE),
            "fixed": hs.get_epsilon(
                sampling=hs.WithoutReplacement(round(TABLE_RATE * DATASET_SIZE), DATASET_SIZE), **TABLE
            ),
        },
    }


def transition(epsilon: float) -> tuple[float, float]:
    """Rate and noise multiplier of Poisson samples where the slope of their logarithms is one half."""
    rates = hs.get_sample_rate(epsilon=epsilon, noise_multiplier=NEAR_TRANSITION, tolerance=1e-5, **LONG)
    slopes = np.diff(np.log(NEAR_TRANSITION)) / np.diff(np.log(rates))
    between = np.sqrt(NEAR_TRANSITION[1:] * NEAR_TRANSITION[:-1]), np.sqrt(rates[1:] * rates[:-1])
    at = float(np.interp(0.5, slopes, between[0]))
    return float(np.exp(np.interp(at, between[0], np.log(between[1])))), at


def pairs() -> dict[str, Any]:
    """Delta of three pairs of data sets whose other record changes sides between two steps, or does not."""
    one = {way: hs.privacy_curve(adjacency=way, **QUERY) for way in ("remove", "add")}
    runs = (one["remove"] * 2, one["add"] * 2, one["remove"] + one["add"])
    found = {name: run.delta(PAIR_EPSILONS) for name, run in zip(PAIRS, runs, strict=True)}
    return {"epsilons": PAIR_EPSILONS, "delta": found}


def joined() -> dict[str, Any]:
    """Delta of one replaced record of fixed batches: one step on both sides of 0, and a thousand steps."""
    found = {way: hs.privacy_curve(adjacency=way, **FIXED) for way in ("replace", "add_remove")}
    rdp = {
        "wang": FIXED["steps"] * np.array([wang_rdp(int(order)) for order in ORDERS]),
        "renyi": FIXED["steps"]
        * hs.renyi.group_rdp(
            hs.Gaussian(FIXED["noise_multiplier"]),
            orders=ORDERS,
            group_size=1,
            adjacency="replace",
            sampling=FIXED["sampling"],
        ),
    }
    return {
        "one_step": {
            "epsilons": BOTH_SIDES,
            "joined": of_direction("replace", "replace"),
            "remove": of_direction("remove", "add"),
            "add": of_direction("add", "remove"),
        },
        "epsilons": LARGE_EPSILONS,
        **{name: [kernels.rdp_to_delta(ORDERS, row, e) for e in LARGE_EPSILONS] for name, row in rdp.items()},
        "joined": found["replace"].delta(LARGE_EPSILONS),
        "one_direction": found["add_remove"].delta(LARGE_EPSILONS),
        "epsilon_at_1e-5": {
            "joined": found["replace"].epsilon(1e-5),
            "one_direction": found["add_remove"].epsilon(1e-5),
            **{name: kernels.rdp_to_epsilon(ORDERS, row, 1e-5) for name, row in rdp.items()},
        },
    }


def of_direction(way: str, opposite: str) -> Any:
    """Divergence of one step; below 0 it is 1 - e^eps + e^eps times that of the opposite order at -eps."""
    positive = {
        name: hs.get_delta(epsilon=abs(BOTH_SIDES), adjacency=name, **ONE_STEP) for name in (way, opposite)
    }
    turned = 1 - np.exp(BOTH_SIDES) + np.exp(BOTH_SIDES) * positive[opposite]
    return np.where(BOTH_SIDES >= 0, positive[way], turned)


def wang_rdp(order: int) -> float:
    """Rényi divergence of a step by Wang, Balle and Kasiviswanathan 2020, Theorem 9, of whole orders.

    Their Gaussian mechanism has noise over what one record moves, here two clipping norms.
    """
    rate = FIXED["sampling"].batch_size / FIXED["sampling"].dataset_size
    slope = 2.0**2 / (2 * FIXED["noise_multiplier"] ** 2)
    terms = [0.0, min(math.log(4 * math.expm1(2 * slope)), 2 * slope + math.log(2))]
    terms += [(j - 1) * j * slope + math.log(2) for j in range(3, order + 1)]
    ways = [j * math.log(rate) + math.log(math.comb(order, j)) for j in (0, *range(2, order + 1))]
    return float(np.logaddexp.reduce(np.add(terms, ways)) / (order - 1))


def draw(output: Path, numbers: dict[str, Any]) -> None:
    """Draw all of them."""
    draw_crossing(output, numbers["crossing"])
    draw_noise(output, numbers["noise"])
    draw_pairs(output, numbers["pairs"])
    draw_joined(output, numbers["joined"])


def draw_crossing(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 1."""
    for panels in picture(output, "pitfalls-01-crossing", 4, 2.4, sharey=True):
        for place, (axes, count) in enumerate(zip(panels, numbers["steps"], strict=True)):
            for way, colour, line in (("remove", BLUE, "-"), ("add", ORANGE, "--")):
                axes.plot(numbers["epsilons"], numbers[way][place], line, color=colour, label=way)
            axes.set(xlabel=r"$\varepsilon$", title=f"{count} step{'s' if count > 1 else ''}")
        panels[0].set(ylabel=r"$\delta$", ylim=(0, None))
        key_below(panels[0])


def draw_noise(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 2, with the transitions."""
    for axes in picture(output, "pitfalls-02-noise", 1, 3.6, width=5.6):
        rows = zip(numbers["poisson"], numbers["fixed"], numbers["transitions"], strict=True)
        for epsilon, (poisson, fixed, (rate, sigma)), colour in zip(
            numbers["epsilons"], rows, COLOURS, strict=True
        ):
            axes.plot(numbers["rates"], poisson, color=colour, label=rf"$\varepsilon = {epsilon:g}$")
            axes.plot(numbers["rates"], fixed, "--", color=colour)
            axes.plot([rate, rate], [sigma, 2 * sigma], "o", color=colour)
        for line, label in (("-", "Poisson"), ("--", "fixed batches"), ("o", "slope 1/2")):
            axes.plot([], [], line, color=GREY, label=label)
        axes.set(xlabel="sample rate", ylabel="noise multiplier", xscale="log", yscale="log")
        axes.legend(loc="upper left")


def draw_pairs(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 3, and beside it what each pair is above the smallest."""
    least = np.min(list(numbers["delta"].values()), axis=0)
    for left, right in picture(output, "pitfalls-03-pairs", 2, 2.9):
        for name, colour in PAIRS.items():
            values = np.asarray(numbers["delta"][name])
            left.plot(numbers["epsilons"], values, color=colour, label=name)
            right.plot(numbers["epsilons"], values - least, color=colour)
        left.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$", ylim=(0, None))
        right.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$ above the smallest of the three", ylim=(0, None))
        key_below(left)


def draw_joined(output: Path, numbers: dict[str, Any]) -> None:
    """Figure 4."""
    one = numbers["one_step"]
    # What every pair has, 1 - e^eps below 0, would hide the rest.
    trivial = np.maximum(1 - np.exp(one["epsilons"]), 0)
    for left, right in picture(output, "pitfalls-04-joined", 2, 3.0):
        for key, style, colour in (("joined", "-", ORANGE), ("remove", "--", BLUE), ("add", ":", GREEN)):
            left.plot(one["epsilons"], np.asarray(one[key]) - trivial, style, color=colour, label=key)
        left.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta - \max(0, 1 - e^\varepsilon)$, one step")
        left.legend()
        for key, style, colour, label in (
            ("wang", "-", PURPLE, "Rényi (Wang et al. 2020)"),
            ("renyi", "-.", GREEN, "Rényi, of the joined pair"),
            ("joined", "-", ORANGE, "joined pair: upper bound"),
            ("one_direction", "--", BLUE, "worse direction: lower bound"),
        ):
            right.plot(numbers["epsilons"], numbers[key], style, color=colour, label=label)
        right.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta$, 1,000 steps", yscale="log", ylim=(1e-12, 1e3))
        right.set_yticks([1e-12, 1e-9, 1e-6, 1e-3, 1])
        right.minorticks_off()
        right.legend(loc="upper right")
