"""Witness for a chain of replaced records: how epsilon is divided; nothing here is proven."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._curves.lattice_witness import LatticeWitness
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._arguments import Floats
    from hockeystick._curves.curve import PrivacyCurve

LARGEST_CHAIN = 64
"""Most links: each has a part of epsilon of its own."""


def chain_witness(curve: PrivacyCurve, run: dict[str, Any], epsilons: list[float]) -> dict[str, Any]:
    """Return the witness: the curve of one record on a lattice, and the parts of every epsilon."""
    sizes = {kind.records for kind, _ in curve.segments}
    if len(sizes) > 1 or max(sizes) > LARGEST_CHAIN:
        raise UnsupportedError(f"certificates cover chains of one group of up to {LARGEST_CHAIN} records")
    links = sizes.pop()
    one = type(curve)(
        {kind._replace(group=1): n for kind, n in curve.segments}, curve.adjacency, curve.tolerance
    )
    splits = [_split(one, links, epsilon) for epsilon in epsilons]
    middle = float(np.median(splits[0]))
    described = {**run, "steps": [{**step, "group": {"size": 1}} for step in run["steps"]]}
    low = min(max(abs(float(each)), 0.0) for split in splits for each in split)
    level = float(np.asarray(one.delta(max(middle, 0.0))))
    witness = LatticeWitness(described, "replace", low, math.log(max(level, 1e-300))).find()
    parts = [[{"epsilon": float(each), "links": 1} for each in split] for split in splits]
    return {**witness, "method": "chain", "splits": parts}


def _split(one: PrivacyCurve, links: int, epsilon: float) -> Floats:
    """Evenly falling parts with the smallest bound."""
    places = (links - 1) / 2 - np.arange(links)
    even = epsilon * (1 - 1e-13) / links

    def bound(fall: float) -> float:
        parts = even + fall * places
        deltas = np.asarray(one.delta(np.abs(parts)))
        deltas = np.where(parts < 0, 1 - np.exp(parts) * (1 - deltas), deltas)
        after = parts.sum() - np.cumsum(parts)
        return float((np.exp(after) * deltas).sum())

    falls = np.linspace(0.0, 2.0 * even / max(links - 1, 1), 41)
    best = float(falls[int(np.argmin([bound(float(fall)) for fall in falls]))])
    return np.array(even + best * places, dtype=np.float64)
