"""Numbers that make the proof about dealt batches short: a line, and two rules for each kind of allocation.

Nothing here is proven, as in `hockeystick._curves.witness`.
"""

from __future__ import annotations

import math
from typing import Any

from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

ORDER = 3
TOLERANCE = 1e-9
"""Relative width of the interval to be proven."""
MOST_WORK = 3.0e7
LOST = 30.0
"""Digits, in natural logarithms, that the turned ray may cost at the end of the line."""


def allocation_witness(run: dict[str, Any], epsilon: float, log_delta: float) -> dict[str, Any]:
    """Return a witness, which serves both directions.

    Raises
    ------
    UnsupportedError
        If the checker would take too long.
    """
    checker = needed("hockeystick_verify.allocation", "verify")
    needed("flint", "verify").ctx.prec = 128
    epochs = [checker.epoch_of_step(step, step["count"]) for step in run["steps"]]
    digits = -log_delta - math.log(TOLERANCE) + epsilon
    spacing = math.pi / (digits + 3.0)
    rate = sum(e.epochs * min(sum(float(v) / t for t, v in dealt) for _, dealt in e.patterns) for e in epochs)
    last = math.sqrt(2 * digits / rate)
    terms = math.ceil(last / spacing)
    hidden: list[tuple[int, float]] = []
    for epoch in epochs:
        for _, dealt in epoch.patterns:
            for size, variance in dealt:
                if size > 1 and (size, float(variance)) not in hidden:
                    hidden.append((size, float(variance)))
    count = sum(epoch.epochs for epoch in epochs)
    rules, work, most = [], 0.0, 0.0
    for size, variance in hidden:
        rule, lost = _rule(size, variance, terms * spacing, digits + math.log(count) + 6.0)
        rules.append(rule)
        outputs = 2 * rule["reach"] / rule["output_spacing"]
        work += rule["nodes"] * (outputs * (ORDER + 1) + terms)
        most = max(most, lost)
    bits = math.ceil((digits + most) / math.log(2.0)) + 64
    if work * bits / 256 > MOST_WORK or bits > 4096:
        raise UnsupportedError("the checker would need more than a minute or two for this claim")
    return {"bits": bits, "method": "allocation", "spacing": spacing, "terms": terms, "rules": rules}


def _rule(size: int, variance: float, last: float, digits: float) -> tuple[dict[str, Any], float]:
    """Rule for one allocation, and the digits that it loses."""
    shape, root = ORDER - 0.5, math.sqrt(variance)
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
        bound = q * variance / 2 + q * q * variance / (2 * size) + k * (math.log(k) - 1 - log_cos) + lost
        ends.append((bound / (k - shape), k))
    end, k = min(ends)
    turned, width = angle / root, math.pi / 2 / root
    grown = (turned + width) ** 2 / 2
    mean = (ORDER**2 - ORDER) * variance / 2
    size_lost = lost + math.log(size) + 10.0
    output_spacing = 2 * math.pi * width / (size_lost + grown + mean)
    reach = math.sqrt(2 * (size_lost + turned**2 / 2 + mean)) + ORDER * root + 1.0
    spacing = 2 * math.pi / period * 0.999
    rule = {"order": ORDER, "angle": angle, "start": start, "spacing": spacing}
    rule |= {"nodes": math.ceil((end - start) / spacing) + 1, "reach": reach}
    return rule | {"output_spacing": output_spacing, "decay": k}, lost + turned**2 / 2
