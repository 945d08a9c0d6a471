"""Nodes for the proof of a Rényi divergence; nothing here is proven, as in `hockeystick._curves.witness`."""

from __future__ import annotations

import math
from typing import Any

from hockeystick._curves.witness import ANGLES, Kind

DIGITS = 30.0
"""Digits of each moment that are proven, in natural logarithms."""
BITS = 160


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
