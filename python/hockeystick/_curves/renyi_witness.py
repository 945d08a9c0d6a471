"""Nodes for the proof of a Rényi divergence; nothing here is proven, as in `hockeystick._curves.witness`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hockeystick._curves.step_law import StepLaw
from hockeystick._curves.witness import ANGLES, Kind
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

DIGITS = 30.0
"""Logarithm of the relative accuracy to which each moment is proven, with the opposite sign."""
BITS = 160
"""Bits of the checker's numbers: 44 for `DIGITS`, the others for large moments and sums of many terms."""


def renyi_witness(kinds: list[Kind], _: float, order: float) -> dict[str, Any]:
    """Return the witness of one ordered pair."""
    tilt, found = order - 1.0, []
    for kind in kinds:
        digits = DIGITS + math.log(kind.steps + 1.0)
        best = (0.0, 0.0)
        for angle in ANGLES:
            height = float(angle) / kind.angle / 2
            grown = 2 * height**2 / kind.sigma**2
            if kind.q is not None:
                grown -= tilt * math.log(math.cos(float(angle) / 2))
            best = max(best, (4 * math.pi * height / (digits + grown + 1.0), height))
        spacing, height = best
        deviations = math.sqrt(2 * (digits + 5.0))
        start, end = -deviations * kind.sigma, kind.end(tilt, deviations)
        found.append(
            {
                "start": start,
                "spacing": spacing,
                "nodes": math.ceil((end - start) / spacing) + 1,
                "height": height,
                "shift": height,
                "shift_strip": height,
            }
        )
    return {"bits": BITS, "method": "renyi", "order": order, "kinds": found}


CELLS = 10_000
"""Largest number of cells of one step on a lattice. So many take the checker a second for each part of the
step's mixture."""
WIDTH = 1e-7
"""Relative width of a moment that is aimed at."""


def renyi_on_a_lattice(run: dict[str, Any], direction: str, order: float) -> dict[str, Any]:
    """Return the witness of one ordered pair whose losses are bounded, on a lattice.

    Raises
    ------
    UnsupportedError
        If a loss has no bound.
    """
    pairs = needed("hockeystick_verify.lattice", "verify").pairs_of(run, direction)
    laws = [StepLaw(step, count, math.log(WIDTH)) for step, count in pairs]
    if not all(math.isfinite(law.high) and math.isfinite(law.low) for law in laws):
        raise UnsupportedError("certificates of Rényi divergences on a lattice cover bounded losses")
    steps, curvature = sum(law.count for law in laws), order * (order - 1.0)
    spacing = math.sqrt(6.0 * WIDTH / (steps * curvature))
    spacing = max(spacing, *((law.high - law.low) / CELLS for law in laws), 1e-9)
    if len(laws) == 1:
        # The ends of the losses, or all of them if there are two or three, on the lattice.
        law = laws[0]
        gaps = np.diff(law.losses) if law.atoms else np.array([law.high - law.low])
        spacing = float(gaps.min()) / max(1, math.ceil(float(gaps.min()) / spacing)) * (1.0 + 1e-15)
    kinds = []
    for law in laws:
        last = math.ceil((law.high - law.low) / spacing) + 2
        ranges = [] if law.atoms else [[-last, 3, 1]]
        kinds.append({"start": law.high, "ranges": ranges, "coarser": [1] * len(law.components)})
    witness = {"bits": BITS, "method": "lattice", "spacing": spacing, "points": 2, "first": 0}
    return witness | {"tilt": order - 1.0, "outer_tilt": order, "left_tilt": 0.0, "kinds": kinds}
