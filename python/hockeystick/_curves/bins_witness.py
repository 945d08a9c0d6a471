"""Numbers that make the proof about random bins under correlated noise short: a contour and a lattice.

Nothing here is proven, as in `hockeystick._curves.witness`. The chain is that of the checker, in doubles.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

TOLERANCES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Relative widths of the interval to be proven, finest first; the first that is cheap enough to check."""
MOST_WORK = 5.5e7
"""Entries of operators; the checker refuses 6e7, which take it about a minute."""
MOST_REACH, MOST_NODES = 500, 2000
"""Points of the lattice on each side of 0, and nodes of the contour: limits of the checker, whatever the
work."""
ANGLES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
"""Angles of hyperbolas that are tried. The outer one is turned twice as far, and from a right angle on is
none."""
STARTS = (1.5, 2.2, 3.0, 4.3, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0, 25.0, 32.0, 40.0)
"""Where hyperbolas begin, in units of 1 / K."""
INSIDE = 0.85
"""Part of the way to 0 at which the outer hyperbola crosses the axis: beyond 1 it would pass a pole, and no
witness is found."""
TURNS = np.linspace(0.0, 1.0, 9)
"""Parts of the way from the least turn of a lattice to the largest that are tried; the smallest lattice is
taken, and one between two of these has hardly fewer points."""
SHIFTS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.98)
"""Parts of the largest shift of a lattice that are tried; with shifts beyond that one the checker refuses."""


class Numbers(NamedTuple):
    """The chain of the checker in doubles."""

    exact: Any
    cost: float
    weight: float
    pull: float
    reach: float
    deviation: float
    coordinates: int
    halves: list[float]
    turns: list[float]


def bins_witness(
    run: dict[str, Any], direction: str, epsilon: float, log_delta: float, *, pairs: int = 1
) -> dict[str, Any]:
    """Return the witness of one of so many ordered pairs, each of which has its part of the work.

    Raises
    ------
    UnsupportedError
        If the checker would take too long.
    """
    checker = needed("hockeystick_verify.correlated", "verify")
    needed("flint", "verify").ctx.prec = 256
    chain, _ = checker.chain_of_run(run)
    rows = chain.coordinates
    numbers = Numbers(
        chain,
        float(chain.cost),
        max(float(weight) for weight, _ in rows),
        max(float(pull) for _, pull in rows),
        (1.0 + abs(float(chain.excess))) / float(chain.sigma),
        math.sqrt(float(chain.variance)),
        len(rows),
        # What is left to the last one is small, and needs digits beyond doubles.
        [float(abs(chain.halves[-1] - half)) for half in chain.halves],
        [float(abs(chain.turns[-1] - turn)) for turn in chain.turns],
    )
    strike = math.exp(-epsilon if direction == "add" else epsilon)
    for tolerance in TOLERANCES:
        digits = -log_delta - math.log(tolerance / 6.0) + (epsilon if direction == "add" else 0.0)
        work, witness = min(
            (_witness(numbers, strike, digits, angle, start) for angle in ANGLES for start in STARTS),
            key=lambda found: found[0],
        )
        if work <= MOST_WORK / pairs:
            return witness
    raise UnsupportedError("the checker would need more than a minute or two for this claim")


def _witness(
    chain: Numbers, strike: float, digits: float, angle: float, start: float
) -> tuple[float, dict[str, Any]]:
    """Work of the checker, and the cheapest witness with a hyperbola."""
    begin = start / strike
    scale = INSIDE * begin / math.sin(2 * angle)
    u = np.linspace(0.0, 10.0, 2001)
    outer = _hyperbola(begin, scale, 2 * angle, u)
    length = 2 * scale * np.hypot(math.cos(2 * angle) * np.cosh(u), math.sin(2 * angle) * np.sinh(u))
    outside = math.log(float((length / abs(outer) ** 2).sum()) * 0.005)
    sizes = (start + math.log(math.pi / begin), 2 * angle**2 * chain.cost + strike * outer[0].real + outside)
    spacing = 2 * math.pi * angle / (digits + max(sizes) + 0.5)
    inner = _hyperbola(begin, scale, angle, u)
    ends = strike * inner.real[1:] + angle**2 * chain.cost / 2 - np.log(inner.imag[1:])
    short = np.flatnonzero(ends < -digits)
    if not len(short):
        return math.inf, {}
    nodes = math.ceil(float(u[short[0] + 1]) / spacing)
    places = np.arange(nodes + 1) * spacing
    points = _hyperbola(begin, scale, angle, places)
    speed = np.hypot(math.cos(angle) * np.cosh(places), math.sin(angle) * np.sinh(places))
    terms = strike * points.real + np.log(speed) - 2 * np.log(abs(points))
    total = float(np.logaddexp.reduce(terms)) + math.log(scale * spacing)
    size, lattice = _lattice(chain, digits + total, math.pi / 2 + angle)
    if size > 2 * MOST_REACH or nodes > MOST_NODES:
        return math.inf, {}
    bits = max(96, math.ceil((digits + total + start) / math.log(2.0)) + 90)
    entries = needed("hockeystick_verify.correlated", "verify").entries_of
    work = float(entries(chain.exact, int(size), lattice["alike"]))
    contour = {"start": begin, "scale": scale, "angle": angle, "spacing": spacing, "nodes": nodes}
    witness = {"bits": bits, "method": "bins", "lattice": lattice, "contour": contour}
    return work * (nodes + 1) * bits / 128, witness


def _hyperbola(start: float, scale: float, angle: float, u: Any) -> Any:
    return start - scale * (math.sin(angle) * np.cosh(u) - 1j * math.cos(angle) * np.sinh(u))


def _lattice(chain: Numbers, digits: float, largest: float) -> tuple[float, dict[str, Any]]:
    """Points of the smallest lattice whose errors are small enough, and its numbers."""
    best: tuple[float, dict[str, Any]] = (math.inf, {})
    for part in TURNS:
        turn = largest - math.pi / 2 + part * (math.pi - largest)
        room = (math.pi / 2 - max(turn, largest - turn)) / chain.reach
        needs = digits + turn**2 * chain.cost / 2 + math.log(8.0 * chain.coordinates)
        for shift in (room * each for each in SHIFTS) if room > 0.0 else ():
            grown = shift**2 * chain.weight / 2 + shift * turn * chain.pull
            spacing = 2 * math.pi * shift / (needs + grown)
            reach = math.ceil(chain.deviation * math.sqrt(2 * needs) / spacing)
            if 2 * reach + 1 < best[0]:
                best = (2.0 * reach + 1, {"spacing": spacing, "reach": reach, "shift": shift, "turn": turn})
    if best[1]:
        level = math.exp(-digits - 5.0)
        far = (i for i, half in enumerate(chain.halves) if half + chain.turns[i] < level)
        best[1]["alike"] = max(1, next(far, len(chain.halves)))
    return best
