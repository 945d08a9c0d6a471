"""Numbers that make the proof about dealt batches short: a line, and two rules for each kind of allocation.

Nothing here is proven, as in `hockeystick._curves.witness`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hockeystick._curves.tilted_witness import tilted_witness
from hockeystick._curves.witness import ANGLES, LARGEST_ANGLE, NODE, Kind, Outputs, smallest
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

ORDER = 3
"""The order n of V14: a larger one lets the ray begin later, and costs one more sum over outputs at every
node."""
TOLERANCES = (1e-9, 1e-6, 1e-4)
"""Relative widths of the interval to be proven, finest first; the first that is cheap enough to check."""
MOST_WORK = 3.0e7
"""Products of nodes with outputs and with points of the line; the checker refuses 4e7. With less, runs that
could have a certificate go without one; with more, the checker refuses what was found."""
MOST_TERMS = 10**5
"""Most points of the line that the checker computes."""
FAR_IN_THE_TAIL = -70.0
"""Logarithm of the delta below which the line near the saddle point is tried first; above, it is the second
way, as the other one serves both directions."""
HALF = -0.5
"""The line Re z = -1/2."""
LOST = 30.0
"""Digits, in natural logarithms, that the turned ray may cost at the end of the line."""


def allocation_witness(
    run: dict[str, Any], direction: str, epsilon: float, log_delta: float, *, for_both: bool = False
) -> dict[str, Any]:
    """Return a witness of a line; that of Re z = -1/2 serves both directions, but of runs with steps in both.

    It is that line, and no other, where it has to serve both.

    Raises
    ------
    UnsupportedError
        If the checker would take too long.
    """
    is_far = log_delta < FAR_IN_THE_TAIL and not for_both
    ways = (tilted_witness, _witness) if is_far else (_witness, tilted_witness)
    for tolerance in TOLERANCES:
        for way in ways[:1] if for_both else ways:
            found = way(run, direction, epsilon, log_delta, tolerance)
            if found is not None:
                return found
    raise UnsupportedError("the checker would need more than a minute or two for this claim")


def _witness(
    run: dict[str, Any], direction: str, epsilon: float, log_delta: float, tolerance: float
) -> dict[str, Any] | None:
    """Witness for an interval of this relative width, or None if the checker would take too long."""
    checker = needed("hockeystick_verify.allocation", "verify")
    needed("flint", "verify").ctx.prec = 128
    added, _ = checker.added_steps(run, direction)
    epochs, (others, _) = checker.divided(run, added)
    digits = -log_delta - math.log(tolerance) + epsilon
    spacing = math.pi / (digits + 3.0)
    outputs = [Outputs(_kind_of(pair, count), HALF) for pair, count in others.kinds]
    end = _End(checker, epochs, outputs, float(others.mu_squared))
    reached = end.first_below(-digits, spacing)
    if reached is None:
        return None
    terms = math.ceil(reached / spacing)
    last = terms * spacing
    hidden: list[Any] = []
    for epoch in epochs:
        for _, dealt in epoch.patterns:
            for each in dealt:
                if not each.is_gaussian and not any(known.contains(each) for known in hidden):
                    hidden.append(each)
    count = sum(epoch.epochs for epoch in epochs) + sum(each.kind.steps for each in outputs)
    accuracy = digits + math.log(count) + 6.0
    rules, work, most = [], 0.0, 0.0
    for each in hidden:
        rule, lost = _rule(each, last, accuracy)
        rules.append(rule)
        sums = (1 + (each.others > 0)) * 2 * rule["reach"] / rule["output_spacing"]
        work += rule["nodes"] * (sums * (ORDER + 1) + terms)
        most = max(most, lost)
    kinds = [_nodes(each, last, accuracy) for each in outputs]
    bits = math.ceil((digits + most) / math.log(2.0)) + 64
    nodes = sum(kind["nodes"] for kind in kinds)
    if work * bits / 256 > MOST_WORK or nodes * (terms + NODE) * bits / 128 > MOST_WORK or bits > 4096:
        return None
    found = {"bits": bits, "method": "allocation", "spacing": spacing, "terms": terms, "rules": rules}
    return found | ({"kinds": kinds} if kinds else {})


def _kind_of(pair: Any, count: int) -> Kind:
    """Return the pair of the checker in doubles."""
    shifts = sorted(pair.p)
    logs = np.array([math.log(float(pair.p[shift])) for shift in shifts])
    return Kind(float(pair.sigma), (logs, np.array([float(shift) for shift in shifts])), None, count)


class _End:
    """The bound on what is beyond the line, in doubles."""

    def __init__(self, checker: Any, epochs: list[Any], outputs: list[Outputs], mu_squared: float) -> None:
        self.checker, self.epochs, self.mu_squared = checker, epochs, mu_squared
        self.others = [(each.kind.steps, each.decays(HALF)) for each in outputs]
        self.arb = needed("flint", "verify").arb

    def log(self, y: float) -> float:
        """Logarithm of the bound at a frequency."""
        total = -(y**2) * self.mu_squared / 2
        for steps, decays in self.others:
            total += steps * min(0.0, smallest(decays, y)[0])
        at = self.arb(y)
        for epoch in self.epochs:
            bound = self.arb(0)
            for probability, dealt in epoch.patterns:
                for each in dealt:
                    probability *= self.checker.decay(each, self.arb(0.5), self.arb(1), at)
                bound += probability
            total += epoch.epochs * min(0.0, float(bound.log()))
        return total

    def first_below(self, level: float, start: float) -> float | None:
        """Return a frequency at which the bound is below a level, or None if the line would be too long."""
        low = high = start
        while self.log(high) > level:
            low, high = high, 2.0 * high
            if high > MOST_TERMS * start:
                return None
        for _ in range(9):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.log(middle) > level else (low, middle)
        return high


def _nodes(outputs: Outputs, last: float, digits: float) -> dict[str, Any]:
    """Nodes for the moments of a step that is not dealt, on the line Re z = -1/2."""
    kind = outputs.kind
    heights = ANGLES / kind.angle / 2
    spacings = 2 * math.pi * heights / (digits + 2 * heights**2 * outputs.rate)
    best = int(spacings.argmax())
    bound, shift = smallest(outputs.decays(HALF), last)
    strip = min(shift, LARGEST_ANGLE / kind.angle - shift)
    accuracy = math.log(0.1 * min(math.exp(max(bound, -digits)), max(-math.expm1(bound), 1e-12)))
    raised = (shift**2 + strip**2) * outputs.rate / 2 + 2.0
    spacing = min(float(spacings[best]), 2 * math.pi * strip / (raised - accuracy))
    spacing = float(f"{spacing:.3g}") * 0.999
    height = float(heights[best])
    deviations = math.sqrt(2 * digits + max(shift, height) ** 2 * outputs.rate) + 0.5
    start = -deviations * kind.sigma
    found = {"start": start, "spacing": spacing}
    found |= {"nodes": math.ceil((kind.end(HALF, deviations) - start) / spacing) + 1, "height": height}
    return found | {"shift": shift, "shift_strip": strip}


def _rule(allocation: Any, last: float, digits: float) -> tuple[dict[str, Any], float]:
    """Rule for one allocation, and the digits that it loses."""
    shape, size = ORDER - 0.5, allocation.total
    variance, mean_variance = float(allocation.variance), float(allocation.mean_variance)
    below = min(1.2, LOST / last)
    angle = float(f"{math.pi / 2 - below:.6f}")
    below = math.pi / 2 - angle
    lost = digits + below * last + 5.0
    outer = math.pi / 4 + angle / 2
    period = max(last + lost / (outer + angle), lost / (outer - angle))
    start = -(lost + ORDER * (ORDER - 1) * variance / 2 + 5.0) / shape
    log_cos = math.log(math.cos(angle))
    ends = []
    for k in range(ORDER + 1, 4000):
        q = k - ORDER
        bound = q * mean_variance / 2 + q * q * mean_variance / (2 * size) + k * (math.log(k) - 1 - log_cos)
        ends.append(((bound + lost) / (k - shape), k))
    end, k = min(ends)
    size_lost = lost + math.log(size) + 10.0
    outputs, most = [], 0.0
    for v in {variance, float(allocation.variance_of_others) or variance}:
        root = math.sqrt(v)
        turned, width = angle / root, math.pi / 2 / root
        mean = (ORDER**2 - ORDER) * v / 2
        between = 2 * math.pi * width / (size_lost + (turned + width) ** 2 / 2 + mean)
        reach = math.sqrt(2 * (size_lost + turned**2 / 2 + mean)) + ORDER * root + 1.0
        outputs.append((between, reach))
        most = max(most, turned**2 / 2)
    spacing = 2 * math.pi / period * 0.999
    rule = {"order": ORDER, "angle": angle, "start": start, "spacing": spacing}
    rule |= {"nodes": math.ceil((end - start) / spacing) + 1, "reach": max(reach for _, reach in outputs)}
    return rule | {"output_spacing": min(between for between, _ in outputs), "decay": k}, lost + most
