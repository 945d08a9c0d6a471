"""Enclose delta of records that are dealt into the batches of an epoch (V13 and V14)."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import NamedTuple

from flint import acb, acb_mat, acb_series, arb, arb_mat, ctx, fmpq

from hockeystick_verify.checker import (
    NotProvenError,
    Object,
    RefusedError,
    choice,
    fields,
    gaussian_noise,
    items,
    members_of,
    number,
    powers,
    steps_of,
    whole,
)
from hockeystick_verify.parts import ZERO, above

LARGEST_EPOCH = 10**6
LARGEST_MEMBERS = 6
LARGEST_WORK = 4 * 10**7
"""Most products of a node with an output, or with a point of the line."""
LARGEST_TERMS, LARGEST_NODES, LARGEST_OUTPUTS = 10**5, 10**5, 10**4
LARGEST_ORDER = 8
FACTORIALS = [math.factorial(m) for m in range(LARGEST_ORDER + 1)]
CHUNK = 256

Allocation = tuple[int, arb]
"""Number of batches, and 1/sigma^2; one batch is a Gaussian pair."""


class Epoch(NamedTuple):
    """Public patterns with their probabilities, independent allocations for each; and how many epochs."""

    patterns: list[tuple[arb, list[Allocation]]]
    epochs: int


# ---------------------------------------------------------------- V13: the pair of an epoch


def partitions(total: int, largest: int) -> list[list[int]]:
    """Ways to write a number as a sum, in descending order."""
    if total == 0:
        return [[]]
    return [[a, *rest] for a in range(min(total, largest), 0, -1) for rest in partitions(total - a, a)]


def pattern_probability(parts: list[int], members: int, batches: int) -> arb:
    """Probability that members fall into batches in these numbers."""
    ways = math.factorial(members) * math.perm(batches, len(parts))
    for part in parts:
        ways //= math.factorial(part)
    for part in set(parts):
        ways //= math.factorial(parts.count(part))
    return arb(fmpq(ways, batches**members))


def blocks(batches: int, number_of_blocks: int) -> list[int]:
    """Sizes of as many blocks, as equal as can be."""
    size, more = divmod(batches, number_of_blocks)
    return [size + (j < more) for j in range(number_of_blocks)]


def epoch_of_step(step: Object, count: int) -> Epoch:
    """Return the pair of the epochs of a step (V13)."""
    members, sampling = members_of(step["group"]), step["sampling"]
    variance = 1 / gaussian_noise(step["mechanism"], members) ** 2
    if not members.alike or members.size > LARGEST_MEMBERS:
        raise RefusedError(f"dealt batches are covered for up to {LARGEST_MEMBERS} records of norm 1")
    if choice(sampling.get("name"), "sampling", "random_allocation fixed_bins full_batch") == "full_batch":
        return Epoch([(arb(1), [(1, variance * members.size**2)])], count)
    fields(sampling, "sampling", "name batches", "times")
    batches = whole(sampling["batches"], "batches", 1, LARGEST_EPOCH)
    times = whole(sampling.get("times", 1), "times", 1, batches)
    if count % batches:
        raise RefusedError("dealt batches are covered for whole epochs")
    epochs = count // batches
    if sampling["name"] == "fixed_bins":
        variance, epochs = variance * epochs, 1
    if times > 1:
        if members.size > 1 or sampling["name"] == "fixed_bins":
            raise RefusedError("several batches of an epoch are covered for one record")
        return Epoch([(arb(1), [(size, variance) for size in blocks(batches, times)])], epochs)
    found = []
    for parts in partitions(members.size, members.size):
        if len(parts) <= batches:
            sizes = zip(blocks(batches, len(parts)), parts, strict=True)
            dealt = [(size, variance * part * part) for size, part in sizes]
            found.append((pattern_probability(parts, members.size, batches), dealt))
    return Epoch(found, epochs)


# ---------------------------------------------------------------- V14: E[W^(1/2 + iy)]


class Rule(NamedTuple):
    """Numbers of a witness for one allocation: two trapezoid rules, on a turned ray and over an output."""

    order: int
    angle: arb
    start: arb
    spacing: arb
    nodes: int
    reach: arb
    output_spacing: arb
    decay: int

    @property
    def outputs(self) -> int:
        """Half the number of outputs."""
        return math.ceil(float(self.reach / self.output_spacing))


def rule_of(entry: object) -> Rule:
    """Read a rule."""
    names = "order angle start spacing nodes reach output_spacing decay"
    given = fields(entry, "a rule", names)
    rule = Rule(
        whole(given["order"], "order", 1, LARGEST_ORDER),
        number(given["angle"], "angle", 0.0, 1.57),
        number(given["start"], "start", -1e4, 1e4),
        number(given["spacing"], "spacing", 1e-5, 10.0),
        whole(given["nodes"], "nodes", 2, LARGEST_NODES),
        number(given["reach"], "reach", 1.0, 1e3),
        number(given["output_spacing"], "output_spacing", 1e-3, 10.0),
        whole(given["decay"], "decay", 1, 10**6),
    )
    if rule.outputs > LARGEST_OUTPUTS:
        raise RefusedError("a rule has too many outputs")
    return rule


def ball(error: arb) -> acb:
    """Return the numbers of modulus at most `error`, and some more."""
    both = (-error).union(error)
    return acb(both, both)


def series_of_outputs(rule: Rule, batches: int, variance: arb) -> list[acb_series]:
    """Series in x of L(s (1 - x) / t), one for each node s = e^(u + i angle) of the ray (V14, 1)."""
    root, step, orders = variance.sqrt(), rule.output_spacing, range(rule.order + 1)
    outputs = [i * step for i in range(-rule.outputs, rule.outputs + 1)]
    last, turned, width = outputs[-1], rule.angle / root, arb.pi() / (2 * root)
    normal = step / (2 * arb.pi()).sqrt()
    weights = [normal * (-(acb(g, -turned) ** 2) / 2).exp() for g in outputs]
    values = [(root * g - variance / 2).exp() for g in outputs]
    errors = []
    for m in orders:
        if not last > m * root:
            raise NotProvenError("V14: the outputs do not reach far enough")
        mean = ((m * m - m) * variance / 2).exp()
        alias = 2 * ((turned + width) ** 2 / 2).exp() / ((2 * arb.pi() * width / step).exp() - 1)
        ends = above("gaussian", arb(1), {ZERO: arb(1)}, last - m * root)
        errors.append(ball(mean * (alias + 2 * (turned**2 / 2).exp() * ends)))
    real, imaginary = (
        arb_mat([[getattr(w, part) * v**m for m in orders] for v, w in zip(values, weights, strict=True)])
        for part in ("real", "imag")
    )
    found = []
    for start in range(0, rule.nodes, CHUNK):
        places = range(start, min(start + CHUNK, rule.nodes))
        sizes = [(rule.start + i * rule.spacing).exp() / batches for i in places]
        decays = arb_mat([[(-size * value).exp() for value in values] for size in sizes])
        both = (decays * real, decays * imaginary)
        for row, size in enumerate(sizes):
            sums = [
                (acb(both[0][row, m], both[1][row, m]) + errors[m]) * size**m / FACTORIALS[m] for m in orders
            ]
            found.append(acb_series(sums, prec=rule.order + 1))
    return found


def left_out(rule: Rule, batches: int, variance: arb) -> arb:
    """Bound the terms before the first and after the last node of the ray (V14, 2)."""
    n, k, step, shape = rule.order, rule.decay, rule.spacing, rule.order - arb(1) / 2
    if not k > n:
        raise NotProvenError("V14: decay must be above order")
    last = rule.start + rule.nodes * step
    before = (n * (n - 1) * variance / 2 + shape * (rule.start - step)).exp() / (1 - (-shape * step).exp())
    negative = (k - n) * variance / 2 + (k - n) ** 2 * variance / (2 * batches)
    after = (negative + k * (arb(k).log() - 1 - rule.angle.cos().log()) + (shape - k) * last).exp()
    bound: arb = step * (before + after / (1 - ((shape - k) * step).exp()))
    return bound


def half_moments(allocation: Allocation, rule: Rule, spacing: arb, terms: int) -> list[acb]:
    """Enclose E[W^(1/2 + i j spacing)] for j = 0, ..., terms (V14)."""
    batches, variance = allocation
    shape, period, outer = rule.order - arb(1) / 2, 2 * arb.pi() / rule.spacing, arb.pi() / 4 + rule.angle / 2
    if not period > terms * spacing or not rule.angle < arb.pi() / 2:
        raise NotProvenError("V14: the nodes are too far apart")
    logs = [acb(rule.start + i * rule.spacing, rule.angle) for i in range(rule.nodes)]
    scale = math.factorial(rule.order) * rule.spacing
    series = series_of_outputs(rule, batches, variance)
    here = [(s**batches)[rule.order] * scale * (-u / 2).exp() for s, u in zip(series, logs, strict=True)]
    stride = max(1, math.isqrt(terms + 1))
    fast = acb_mat([powers((acb(0, spacing) * u).exp(), stride) for u in logs])
    jump, slow = [(acb(0, spacing * stride) * u).exp() for u in logs], []
    for _ in range(terms // stride + 1):
        slow.append(here)
        here = [a * b for a, b in zip(here, jump, strict=True)]
    sums, ends = acb_mat(slow) * fast, left_out(rule, batches, variance)
    gamma, up, down, found = shape.gamma() / outer.cos() ** shape, outer - rule.angle, outer + rule.angle, []
    for j in range(terms + 1):
        y = j * spacing
        alias = (-up * (y + period)).exp() / (1 - (-up * period).exp())
        alias += (-down * (period - y)).exp() / (1 - (-down * period).exp())
        error = ball((-rule.angle * y).exp() * (gamma * alias + ends))
        value = (sums[j // stride, j % stride] + error) / acb(shape, y).gamma()
        found.append(value.conjugate())
    return found


# ---------------------------------------------------------------- V15: the run


@lru_cache(maxsize=1)
def transforms(text: str, _precision: int) -> tuple[arb, list[acb], arb]:
    """Spacing, E[e^(z loss)] on the line for a removed record, and a bound beyond it.

    Both directions have the same, so that it is computed once.
    """
    run, witness = json.loads(text)
    epochs = [epoch_of_step(step, count) for step, count in steps_of(run)]
    spacing = number(witness["spacing"], "spacing", 1e-9, 1e3)
    terms = whole(witness["terms"], "terms", 1, LARGEST_TERMS)
    hidden: list[Allocation] = []
    for epoch in epochs:
        for _, dealt in epoch.patterns:
            for size, variance in dealt:
                if size > 1 and not any(size == s and v.contains(variance) for s, v in hidden):
                    hidden.append((size, variance))
    rules = [rule_of(entry) for entry in items(witness["rules"], "rules", len(hidden), len(hidden))]
    work = sum(rule.nodes * (2 * rule.outputs * (rule.order + 1) + terms) for rule in rules)
    if work * ctx.prec > LARGEST_WORK * 256:
        raise RefusedError(
            "the witness asks for more nodes, outputs and points of the line than are computed"
        )
    known = [half_moments(a, rule, spacing, terms) for a, rule in zip(hidden, rules, strict=True)]
    ys = [j * spacing for j in range(terms + 1)]

    def moments(allocation: Allocation) -> list[acb]:
        size, variance = allocation
        if size == 1:
            return [acb(-(y * y + arb(1) / 4) * variance / 2).exp() for y in ys]
        place = next(i for i, (s, v) in enumerate(hidden) if s == size and v.contains(variance))
        return known[place]

    total, end = [acb(1)] * (terms + 1), arb(1)
    for epoch in epochs:
        mixed, decay = [acb(0)] * (terms + 1), arb(0)
        for probability, dealt in epoch.patterns:
            product = [acb(probability)] * (terms + 1)
            for allocation in dealt:
                product = [a * b for a, b in zip(product, moments(allocation), strict=True)]
            mixed = [a + b for a, b in zip(mixed, product, strict=True)]
            rate = sum((variance / size for size, variance in dealt), arb(0))
            decay += probability * (-(ys[-1] ** 2) * rate / 2).exp()
        total = [a * b**epoch.epochs for a, b in zip(total, mixed, strict=True)]
        end *= decay.min(arb(1)) ** epoch.epochs
    return spacing, total, end


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon by the line Re z = -1/2 (V15)."""
    if direction == "replace":
        raise RefusedError("dealt batches are covered for records that are added or removed")
    spacing, total, end = transforms(json.dumps([run, witness]), ctx.prec)
    if direction == "add":
        total = [a.conjugate() for a in total]
    ys, terms = [j * spacing for j in range(len(total))], len(total) - 1
    period, found = 2 * arb.pi() / spacing, []
    for epsilon in epsilons:
        value = arb(0)
        for j, (y, moment) in enumerate(zip(ys, total, strict=True)):
            part = (moment * acb(0, -y * epsilon).exp()).real / (y * y + arb(1) / 4)
            value += part / 2 if j == 0 else part
        level = (epsilon / 2).exp()
        delta = 1 - level * value * spacing / arb.pi()
        tail = level * end / (arb.pi() * (terms + arb(1) / 2) * spacing)
        over = (1 + epsilon.exp()) / ((period / 2).exp() - 1)
        found.append(delta + (arb(0).union(over + tail)).union(-tail))
    return found
