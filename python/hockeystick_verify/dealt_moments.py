"""Moments of the likelihood ratio W of an epoch of dealt batches, for its Renyi divergence (V26).

W is the mean of independent likelihood ratios Y of batches (V13). Whole powers of it have a closed form, a
coefficient of a power of a series. Others are an integral of transforms over a ray, as in V14, of which every
error is bounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb, arb_mat, arb_poly, ctx

from hockeystick_verify import allocation, dealt_lattice
from hockeystick_verify.checker import (
    CHUNK,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    exact,
    fields,
    members_of,
    normal_above,
    number,
    whole,
)
from hockeystick_verify.half_moments import Allocation
from hockeystick_verify.variants import direction_of

LARGEST_ORDER = 4096
"""Largest whole order whose moment is computed as a coefficient, and the next one."""
LARGEST_SERIES, LARGEST_RULES = 64, 256
"""Most terms of a series on the ray, and most rules of a witness."""
LARGEST_NODES, LARGEST_OUTPUTS = 10**5, 10**5
"""Most nodes of a rule, and outputs at each: limits on what is read, before the work is known."""
LARGEST_WORK = 2 * 10**7
"""Most products of a node with an output of all rules, and with terms of series, at 128 bits."""
ANGLES = tuple(arb(j) / 16 for j in range(1, 25))
"""Widths of strips, as angles below a right angle, among which the least bound is taken."""


class Batches(NamedTuple):
    """So many batches alike, each released `times` times with Laplace noise, or once with Gaussian noise.

    Exactly one of the variance of log Y and of the scale is given; batches without both are not released.
    """

    number: int
    variance: arb | None = None
    scale: arb | None = None
    times: int = 1


Epoch = list[Batches]
"""W is the mean of the likelihood ratios of all batches."""


# ---------------------------------------------------------------- V13: the epochs of a run


def epochs_of_step(
    step: Object, count: int, direction: str
) -> list[tuple[list[tuple[arb, list[Epoch]]], int]]:
    """Return mixtures over public patterns, each with independent epochs, and how often each occurs."""
    if step["mechanism"].get("name") != "laplace":
        found = []
        for epoch in allocation.epochs_of_step(step, count):
            patterns = [(weight, [of_allocation(a) for a in each]) for weight, each in epoch.patterns]
            found.append((patterns, epoch.epochs))
        return found
    dealt = dealt_lattice.epochs_of_step(step, count, direction)
    return [([(arb(1), [_of_blocks(each)])], many) for each, many in dealt]


def of_allocation(dealt: Allocation) -> Epoch:
    """Return the batches of an allocation with Gaussian noise."""
    found = [Batches(dealt.batches, dealt.variance)]
    if dealt.others:
        still = dealt.variance_of_others.is_zero()
        found.append(Batches(dealt.others, None if still else dealt.variance_of_others))
    return found


def _of_blocks(dealt: dealt_lattice.Dealt) -> Epoch:
    return [
        Batches(block.batches, None, None if block.base is None else block.base.scale, block.times)
        for block in dealt.blocks
    ]


def is_bound(step: Object) -> bool:
    """Whether the pair of a step is a bound: that of groups, and of several batches of an epoch."""
    return members_of(step["group"]).size > 1 or step["sampling"].get("times", 1) != 1


# ---------------------------------------------------------------- V26, 2: whole powers


def power_moment(batches: Batches, power: Any) -> arb:
    """E[Y^power] for a number that is not 1/2."""
    if batches.variance is not None:
        found: arb = (power * (power - 1) * batches.variance / 2).exp()
        return found
    if batches.scale is None:
        return arb(1)
    rate = 1 / batches.scale
    outer = (-power * rate).exp() + ((power - 1) * rate).exp()
    inner = (((power - 1) * rate).exp() - (-power * rate).exp()) / (2 * power - 1)
    one: arb = ((outer + inner) / 2) ** batches.times
    return one


def truncated_power(series: arb_poly, exponent: int, terms: int) -> arb_poly:
    """Power of a series with so many terms, by squaring."""
    found, square = arb_poly([1]), series
    while exponent:
        if exponent & 1:
            found = (found * square).truncate(terms)
        exponent >>= 1
        if exponent:
            square = (square * square).truncate(terms)
    return found


def whole_moments(epoch: Epoch, largest: int) -> list[arb]:
    """E[W^k] for k = 0, ..., largest (V26, 2)."""
    total, product = sum(each.number for each in epoch), arb_poly([1])
    factorials = [arb(1)]
    for k in range(1, largest + 1):
        factorials.append(factorials[-1] * k)
    for batches in epoch:
        series = arb_poly([power_moment(batches, k) / factorials[k] for k in range(largest + 1)])
        product = (product * truncated_power(series, batches.number, largest + 1)).truncate(largest + 1)
    each = zip(product.coeffs(), factorials, strict=True)
    return [c * f / arb(total) ** k for k, (c, f) in enumerate(each)]


def without_a_rule(epoch: Epoch, power: Fraction) -> arb:
    """Enclose log E[W^power] by convexity (V26, 3)."""
    if power < 0:
        return arb(0).union(log_of_negative_moment(epoch, -power))
    total = sum(each.number for each in epoch)
    mean = sum((each.number * power_moment(each, exact(power)) for each in epoch), arb(0)) / total
    known = mean.log()
    if power > LARGEST_ORDER:
        return arb(0).union(known)
    between = between_whole_ones(epoch, power)
    return between.min(known) if power > math.floor(power) else between


def between_whole_ones(epoch: Epoch, power: Fraction) -> arb:
    """Enclose log E[W^power] between those of the whole powers next to it (V26, 3)."""
    low = math.floor(power)
    logs = [moment.log() for moment in whole_moments(epoch, low + (power > low) * 2)]
    if power == low:
        return logs[low]
    part = exact(power - low)
    upper = logs[low] + part * (logs[low + 1] - logs[low])
    before = logs[low] + part * (logs[low] - logs[low - 1])
    after = logs[low + 1] - (1 - part) * (logs[low + 2] - logs[low + 1])
    return before.max(after).union(upper)


# ---------------------------------------------------------------- V26, 4: other powers


class Rule(NamedTuple):
    """Numbers of a witness for one epoch: a rule over a ray, and one over the output of a batch."""

    series: int
    start: arb
    spacing: arb
    nodes: int
    decay: int
    reach: arb
    output_spacing: arb

    @property
    def outputs(self) -> int:
        """Half the number of outputs."""
        return math.ceil(float(self.reach / self.output_spacing))


def rule_of(entry: object) -> Rule:
    """Read a rule."""
    given = fields(entry, "a rule", "series start spacing nodes decay reach output_spacing")
    rule = Rule(
        whole(given["series"], "series", 0, LARGEST_SERIES),
        number(given["start"], "start", -1e6, 1e6),
        number(given["spacing"], "spacing", 1e-6, 10.0),
        whole(given["nodes"], "nodes", 2, LARGEST_NODES),
        whole(given["decay"], "decay", 1, 10**7),
        number(given["reach"], "reach", 1.0, 1e4),
        number(given["output_spacing"], "output_spacing", 1e-4, 10.0),
    )
    if rule.outputs > LARGEST_OUTPUTS:
        raise RefusedError("a rule has too many outputs")
    return rule


def log_of_negative_moment(epoch: Epoch, q: Fraction | int) -> arb:
    """Bound log E[W^-q] by the geometric mean of the batches (V26, 3)."""
    total = sum(each.number for each in epoch)
    share = exact(-Fraction(q) / total)
    return sum((each.number * power_moment(each, share).log() for each in epoch), arb(0))


def coefficients(batches: Batches, sizes: list[arb], rule: Rule) -> list[list[arb]]:
    """Coefficients of x^m in E[e^(-r (1 - x) Y)], m = 0, ..., series, for each r (V26, 4)."""
    orders = range(rule.series + 1)
    factorials = [arb(math.factorial(m)) for m in orders]
    if batches.variance is not None:
        return _of_gaussian(batches.variance, sizes, rule, factorials)
    if batches.scale is None:
        return [[size**m * (-size).exp() / factorials[m] for m in orders] for size in sizes]
    if batches.times != 1:
        raise NotProvenError("V26: batches that are released several times with Laplace noise have no rule")
    return [[_of_laplace(batches.scale, size, m) / factorials[m] for m in orders] for size in sizes]


def _of_laplace(scale: arb, size: arb, m: int) -> arb:
    """E[(r Y)^m e^(-r Y)] of one batch with Laplace noise."""
    low, high, shape = size * (-1 / scale).exp(), size * (1 / scale).exp(), m - arb(1) / 2
    atoms = low**m * (-low).exp() + (-1 / scale).exp() * high**m * (-high).exp()
    if size < m + 1:
        inner = high.gamma_lower(shape) - low.gamma_lower(shape)
    else:
        inner = low.gamma_upper(shape) - high.gamma_upper(shape)
    found: arb = atoms / 2 + size.sqrt() * (-1 / (2 * scale)).exp() * inner / 4
    return found


def _of_gaussian(variance: arb, sizes: list[arb], rule: Rule, factorials: list[arb]) -> list[list[arb]]:
    """Coefficients of batches with Gaussian noise, by the trapezoid rule over the output."""
    root, step, orders = variance.sqrt(), rule.output_spacing, range(rule.series + 1)
    outputs = [i * step for i in range(-rule.outputs, rule.outputs + 1)]
    normal = step / (2 * arb.pi()).sqrt()
    weights = [normal * (-g * g / 2).exp() for g in outputs]
    values = [(root * g - variance / 2).exp() for g in outputs]
    rows = []
    for weight, value in zip(weights, values, strict=True):
        row = [weight]
        for _ in range(rule.series):
            row.append(row[-1] * value)
        rows.append(row)
    table, found = arb_mat(rows), []
    bounds = [errors(root, rule, m) for m in orders]
    for start in range(0, len(sizes), CHUNK):
        chunk = sizes[start : start + CHUNK]
        sums = arb_mat([[(-size * value).exp() for value in values] for size in chunk]) * table
        for place, size in enumerate(chunk):
            row = []
            for m in orders:
                mean = size**m * (arb(m * (m - 1)) * variance / 2).exp()
                error = min(mean * bounds[m].alias, bounds[m].most_alias, key=float)
                over = min(mean * bounds[m].beyond, bounds[m].most_beyond, key=float)
                value = sums[place, m] * size**m + (-error).union(error) + arb(0).union(over)
                row.append(value.max(arb(0)) / factorials[m])
            found.append(row)
    return found


class Errors(NamedTuple):
    """Bounds on the errors of the rule over outputs, relative to E[(r Y)^m] and absolute."""

    alias: arb
    most_alias: arb
    beyond: arb
    most_beyond: arb


def errors(root: arb, rule: Rule, m: int) -> Errors:
    """Bound the errors of E[(r Y)^m e^(-r Y)]: of the spacing, and of what is beyond the outputs (V26, 4)."""
    largest = (m * (arb(m).log() - 1)).exp() if m else arb(1)
    relative, absolute = [], []
    for angle in ANGLES:
        width = angle / root
        alias = 2 * (width**2 / 2).exp() / ((2 * arb.pi() * width / rule.output_spacing).exp() - 1)
        relative.append(alias)
        absolute.append(alias * largest / angle.cos() ** m)
    last, away = rule.outputs * rule.output_spacing, m * root
    # Where the outputs end before those that E[Y^m] is about, it is the bound: the value is at most that.
    beyond = normal_above(last - away) + normal_above(last + away) if last > away else arb(1)
    most_beyond = 2 * largest * normal_above(last)
    return Errors(min(relative, key=float), min(absolute, key=float), beyond, most_beyond)


def left_out(epoch: Epoch, rule: Rule, shape: arb) -> arb:
    """Bound the terms before the first and after the last node of the ray (V26, 4)."""
    n, k, step = rule.series, rule.decay, rule.spacing
    last = rule.start + rule.nodes * step
    before = whole_moments(epoch, n)[n] * (shape * (rule.start - step)).exp() / (1 - (-shape * step).exp())
    log_after = k * (arb(k).log() - 1) + log_of_negative_moment(epoch, k - n) + (shape - k) * last
    bound: arb = step * (before + log_after.exp() / (1 - ((shape - k) * step).exp()))
    return bound


def alias_on_the_ray(shape: arb, spacing: arb) -> arb:
    """Bound the error of the spacing of the ray, relative to the moment (V26, 4)."""
    period = 2 * arb.pi() / spacing
    angle = (period / shape).atan()
    bound: arb = 2 * (-angle * period).exp() / (angle.cos() ** shape * (1 - (-angle * period).exp()))
    return bound


def on_the_ray(epoch: Epoch, power: Fraction, rule: Rule) -> arb:
    """Enclose E[W^power] by an integral over a ray (V26, 4)."""
    n, k, step, total = rule.series, rule.decay, rule.spacing, sum(each.number for each in epoch)
    shape = n - exact(power)
    if not (shape > 0 and k > shape and k >= n):
        raise NotProvenError("V26: series must be above the power, and decay above both")
    logs = [rule.start + i * step for i in range(rule.nodes)]
    sizes = [u.exp() / total for u in logs]
    products = [arb_poly([1]) for _ in logs]
    for batches in epoch:
        rows = coefficients(batches, sizes, rule)
        products = [
            (a * truncated_power(arb_poly(row), batches.number, n + 1)).truncate(n + 1)
            for a, row in zip(products, rows, strict=True)
        ]
    scale = step * arb(n + 1).gamma()
    terms = [p[n] * ((shape - n) * u).exp() for p, u in zip(products, logs, strict=True)]
    found = scale * sum(terms, arb(0))
    alias = alias_on_the_ray(shape, step)
    if not alias < 0.5:
        raise NotProvenError("V26: the nodes are too far apart")
    found += arb(0).union(left_out(epoch, rule, shape))
    value: arb = found / (shape.gamma() * (1 + (-alias).union(alias)))
    return value


# ---------------------------------------------------------------- the run


def log_of_epoch(epoch: Epoch, power: Fraction, entry: object) -> arb:
    """Enclose log E[W^power] by the rule of a witness, or without one where that is null."""
    if entry is not None:
        return on_the_ray(epoch, power, rule_of(entry)).log()
    return without_a_rule(epoch, power)


def work_of(epoch: Epoch, power: Fraction, entry: object) -> int:
    """How many products the moment of an epoch takes, about."""
    if is_gaussian(epoch) or (entry is None and not 0 < power <= LARGEST_ORDER):
        return 1
    if entry is None:
        return sum(math.ceil(power + 2) ** 2 * each.number.bit_length() // 8 for each in epoch)
    rule = rule_of(entry)
    return rule.nodes * (2 * rule.outputs + 40 * rule.series + 40)


def is_gaussian(epoch: Epoch) -> bool:
    """Whether an epoch is one batch with Gaussian noise."""
    return len(epoch) == 1 and epoch[0].number == 1 and epoch[0].variance is not None


def log_moment(
    dealt: list[tuple[Object, int]], direction: str, rules: list[object], order: Fraction, claims: int = 1
) -> arb:
    """Enclose the logarithm of the moment of all dealt batches of a run; one of so many claims."""
    given, total, asked = iter(rules), arb(0), []
    for step, count in dealt:
        way = choice(direction_of(step, direction), "direction of dealt batches", "add remove")
        power = order if way == "remove" else 1 - order
        for patterns, epochs in epochs_of_step(step, count, direction):
            asked.append((patterns, power, epochs))
    entries = [None if is_gaussian(e) else next(given, None) for p, _, _ in asked for _, es in p for e in es]
    if next(given, given) is not given:
        raise RefusedError("the witness has more rules than there are epochs")
    epochs_in_order = [(epoch, power) for p, power, _ in asked for _, es in p for epoch in es]
    work = sum(work_of(e, power, entry) for (e, power), entry in zip(epochs_in_order, entries, strict=True))
    if work * claims * ctx.prec > LARGEST_WORK * 128:
        raise RefusedError("the moments of dealt batches take more products than are computed")
    place = iter(entries)
    for patterns, power, epochs in asked:
        logs = []
        for _, each in patterns:
            log = arb(0)
            for epoch in each:
                entry = next(place)
                if is_gaussian(epoch):
                    log += power_moment(epoch[0], exact(power)).log()
                else:
                    log += log_of_epoch(epoch, power, entry)
            logs.append(log)
        if len(logs) == 1:
            total += epochs * logs[0]
        else:  # groups, of which no lower end is claimed
            moments = (w * log.upper().exp() for (w, _), log in zip(patterns, logs, strict=True))
            total += epochs * sum(moments, arb(0)).log()
    return total
