"""Rules for moments of dealt batches (V26), as the checker takes them; nothing here is proven."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hockeystick._extras import needed

BITS = 160
"""The 67 bits of `DIGITS`, and room for sums and for the cancellation of series. Fewer leave the intervals of
moments wide; more make each product slower."""
DIGITS = 46.0
"""Digits of each moment that are asked for, in natural logarithms: more than a claim has. Twice as many take
two to three times the time, and no claim moves."""
LARGEST_SERIES = 40
"""Powers above are enclosed by their convexity: a rule takes too long, and adds little."""
LARGEST_WORK = 10**7
"""Most products of a node with an output that all rules take."""
MOST_PRODUCTS = 4 * 10**6
"""And that one of them takes."""
WIDTHS = tuple(j / 16 for j in range(1, 25))
"""Widths of strips that are tried, as angles below a right angle: those among which the checker takes the
best."""


def moments_witness(run: dict[str, Any], direction: str, order: float) -> dict[str, Any]:
    """Return the witness of one ordered pair."""
    checker = needed("hockeystick_verify.dealt_moments", "verify")
    asked = []
    for step in run["steps"]:
        if not needed("hockeystick_verify.dealt_lattice", "verify").is_dealt(step):
            continue
        way = needed("hockeystick_verify.variants", "verify").direction_of(step, direction)
        power = Fraction(order) if way == "remove" else 1 - Fraction(order)
        for patterns, _ in checker.epochs_of_step(step, step["count"], way):
            for _, epochs in patterns:
                asked += [(each, power) for each in epochs if not checker.is_gaussian(each)]
    affordable = LARGEST_WORK / max(len(asked), 1)
    rules = [_rule(checker, epoch, power, affordable) for epoch, power in asked]
    return {"bits": BITS, "method": "moments", "rules": rules}


def _rule(checker: Any, epoch: Any, power: Fraction, affordable: float) -> dict[str, Any] | None:
    """Return a rule for E[W^power], or None where it has a closed form, or convexity serves."""
    if power > 0 and (power.denominator == 1 or power > LARGEST_SERIES - 2):
        return None
    if any(each.times > 1 for each in epoch):
        return None
    above, beta = math.ceil(power), float(power)
    series = above + 1 if power > 0 else int(beta > -1.0)
    shape = series - beta
    log_moment = float(checker.between_whole_ones(epoch, power).upper()) if power > 0 else 0.0
    level = DIGITS - math.lgamma(shape) - log_moment
    spacing = 2 * math.pi / _period(shape)
    largest = float(checker.whole_moments(epoch, series)[series].log()) if series else 0.0
    start = -(level + largest + 2.0) / shape + spacing
    end, decay = math.inf, 1
    candidate = max(series, math.floor(shape) + 1)
    for _ in range(200):
        negative = float(checker.log_of_negative_moment(epoch, candidate - series))
        here = (candidate * (math.log(candidate) - 1.0) + negative + level + 3.0) / (candidate - shape)
        if here < end:
            end, decay = here, candidate
        candidate += max(1, candidate // 10)
    nodes = max(2, math.ceil((end - start) / spacing))
    rule = {"series": series, "start": start, "spacing": spacing, "nodes": nodes, "decay": decay}
    rule |= _outputs(epoch, rule, beta, level, end)
    work = nodes * 2 * rule["reach"] / rule["output_spacing"]
    is_read = rule["output_spacing"] >= 1e-4 and rule["reach"] <= 1e4
    return rule if is_read and work <= min(affordable, MOST_PRODUCTS) else None


def _period(shape: float) -> float:
    """Return 2 pi over the spacing of nodes, at which aliases have the digits."""
    period = 1.0
    while period * math.atan(period / shape) + shape * math.log(math.cos(math.atan(period / shape))) < DIGITS:
        period *= 1.05
    return period


def _outputs(epoch: Any, rule: dict[str, Any], beta: float, level: float, end: float) -> dict[str, Any]:
    """Return the rule over the outputs of a batch with Gaussian noise; one that is not used without it."""
    variances = [float(each.variance) for each in epoch if each.variance is not None]
    if not variances:
        return {"reach": 1.0, "output_spacing": 1.0}
    total, n = sum(each.number for each in epoch), rule["series"]
    variance, shape = max(variances), n - beta
    log_factorial = math.lgamma(n + 1)
    digits = DIGITS + math.log(total)
    if n:
        crossing = math.log(total) - (n - 1) * variance / 2 + log_factorial / n
        digits = max(digits, level + log_factorial + math.log(total) - beta * crossing)
    digits += max(0.0, (DIGITS + shape * end) / total) + math.log(rule["nodes"])
    root = math.sqrt(variance)
    spacing = 0.0
    for angle in WIDTHS:
        width = angle / root
        grown = width**2 / 2 - n * math.log(math.cos(angle))
        spacing = max(spacing, 2 * math.pi * width / (digits + grown + 1.0))
    return {"reach": n * root + math.sqrt(2 * digits) + 1.0, "output_spacing": spacing}
