"""Numbers of a witness for dealt batches on a lattice (V23); nothing here is proven."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._curves.step_law import StepLaw
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

FINE = 5e-3
"""Spacing of likelihood ratios, in their standard deviations: delta is then about 1e-4 larger at most."""
FEWEST_PLACES, MOST_PLACES = 64, 50_000
"""How many places the likelihood ratio of one batch has."""
MOST_POINTS = 1 << 18
"""Most points of the window that the checker takes; it refuses larger ones."""
OUTSIDE = 30.0
"""How far below delta, in natural logarithms, what is outside the window is."""


class DealtLaw(StepLaw):
    """The loss of an epoch of dealt batches under P, and the numbers that the checker needs for it."""

    def __init__(self, dealt: Any, count: int, log_delta: float) -> None:
        checker = needed("hockeystick_verify.dealt_lattice", "verify")
        self.count, self.components, self.atoms, self.parts = count, [], False, []
        self.entry = _entry(checker, dealt, log_delta - math.log(count))
        atoms = checker.cells_of_epoch(dealt, self.entry)
        known = [each for each in atoms if each.high is not None and each.p > 0]
        found = [(float(each.high), float(each.p.log())) for each in known]
        losses, logs = np.array(found).T
        order = np.argsort(losses)
        self.losses, self.logs = losses[order], logs[order]
        self.lower_losses = self.losses
        noises = {block.base.noise for block in dealt.blocks if block.base is not None}
        bounded = noises == {"laplace"}
        self.low, self.high = -math.inf, float(self.losses[-1]) if bounded else math.inf
        self.floor, self.cap = self.low, self.high


def _entry(checker: Any, dealt: Any, log_delta: float) -> dict[str, Any]:
    """Return the numbers, such that likelihood ratios of probability above e^log_delta are on the lattice."""
    released = [block for block in dealt.blocks if block.base is not None]
    ends = [_largest_loss(block, log_delta) for block in released]
    times = max(block.times for block in dealt.blocks)
    spread = min(_deviation(block) for block in released)
    places = max(FEWEST_PLACES, math.ceil(math.exp(min(max(ends), 60.0)) / (FINE * spread)) + 4)
    if places > MOST_PLACES:
        raise UnsupportedError("the checker would need more than a minute or two for so little noise")
    spacing = math.exp(max(ends)) / (places - 4)
    reach = 1
    losses = 1.0
    if times > 1:
        losses = max(end / block.times for end, block in zip(ends, released, strict=True)) / 300
        reach = 303
    entry = {
        "spacing": spacing, "points": MOST_POINTS, "first": 0, "left": 0.0,
        "right": 1.0, "largest": places, "losses": losses * (1.0 + 1e-13), "reach": reach,
    }  # fmt: skip
    ratio = checker.ratio_of(entry)
    laws = []
    for count, repeats, base in dealt.blocks:
        if base is None:
            continue
        cells = checker.cells_of_part(base, checker.targets(ratio, repeats))
        if repeats > 1:
            cells = checker.repeated(cells, ratio, repeats)
        law = checker.upper_law(cells, ratio).masses
        at = np.array(sorted(law))
        laws.append((count, at, np.array([float(law[place]) for place in at.tolist()])))
    low = sum(count * int(at[0]) for count, at, _ in laws)
    high = sum(count * int(at[-1]) for count, at, _ in laws)
    deviation = math.sqrt(sum(count * float((at - at @ mass) ** 2 @ mass) for count, at, mass in laws))
    left, first = _window(laws, deviation, log_delta - OUTSIDE, -1.0, low)
    right, last = _window(laws, deviation, log_delta - OUTSIDE, 1.0, high)
    points = _even(last - first + 2)
    if points > MOST_POINTS:
        raise UnsupportedError("the checker would need more than a minute or two for this claim")
    right = max(right, 2.0 / (first + points))
    return entry | {"first": first, "points": points, "left": left, "right": right}


def _largest_loss(block: Any, log_delta: float) -> float:
    """Loss of all releases of a batch that a record in it exceeds with about the probability e^log_delta."""
    scale = float(block.base.scale)
    if block.base.noise == "laplace":
        return float(block.times / scale)
    deviations = math.sqrt(2.0 * (OUTSIDE - log_delta))
    return deviations / scale + 0.5 / scale**2


def _deviation(block: Any) -> float:
    """Return the standard deviation of the likelihood ratio of a batch under Q."""
    scale = float(block.base.scale)
    if block.base.noise == "laplace":
        square = (2.0 * math.exp(1.0 / scale) + math.exp(-2.0 / scale)) / 3.0
        return math.sqrt(square**block.times - 1.0)
    return float(math.sqrt(math.exp(scale**-2) - 1.0))


def _window(
    laws: list[tuple[int, Floats, Floats]], deviation: float, level: float, sign: float, end: int
) -> tuple[float, int]:
    """Tilt and place beyond which the sum of all places has at most the probability e^level."""
    best = (math.inf, 0.0, end)
    for tilt in np.geomspace(1e-3, 1e3, 121) / max(deviation, 1.0):
        moment = 0.0
        for count, at, mass in laws:
            exponents = sign * tilt * at
            top = float(exponents.max())
            moment += count * (top + math.log(float(np.exp(exponents - top) @ mass)))
        place = sign * (moment - level) / tilt
        best = min(best, (sign * place, float(tilt), math.ceil(place) if sign > 0 else math.floor(place)))
    _, tilt, place = best
    place = min(place, end + 1) if sign > 0 else max(place, end)
    return float(f"{tilt:.6g}"), max(place, 0)


def _even(least: int) -> int:
    """Smallest 4, 5, 6 or 7 times a power of two that is not below: such transforms are fast."""
    unit = 1 << max(0, math.floor(math.log2(least)) - 2)
    return unit * math.ceil(least / unit)
