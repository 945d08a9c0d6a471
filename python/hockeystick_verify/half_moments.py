"""The moment of order one half of the likelihood ratio of an epoch of dealt batches, along a line (V14)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from flint import acb, acb_mat, acb_series, arb, arb_mat, fmpq

from hockeystick_verify.checker import NotProvenError, RefusedError, fields, number, powers, whole
from hockeystick_verify.parts import above
from hockeystick_verify.variants import ZERO

LARGEST_NODES, LARGEST_OUTPUTS = 10**5, 10**4
LARGEST_ORDER = 8
"""Most nodes of a ray and outputs on each side of 0, and the largest power in the series: limits on what is
read."""
ZERO_BALL = arb(0)
FACTORIALS = [math.factorial(m) for m in range(LARGEST_ORDER + 1)]
"""Of all orders of series: a table of mathematics."""
CHUNK, CHUNKS = 64, 16
"""Fewest nodes that are summed together, and most parts of a ray: each part has a sum for all points."""


class Allocation(NamedTuple):
    """W is the mean of independent Y with log Y ~ N(-v/2, v): how many have which v, the larger one first.

    `variance` is positive; where the other one is 0, the batches are not released. One is a Gaussian pair.
    """

    batches: int
    variance: arb
    others: int = 0
    variance_of_others: arb = ZERO_BALL

    @property
    def total(self) -> int:
        """Batches of an epoch."""
        return self.batches + self.others

    @property
    def is_gaussian(self) -> bool:
        """Whether there is one batch only."""
        return self.total == 1

    @property
    def mean_variance(self) -> arb:
        """Mean of v over the batches."""
        return (self.batches * self.variance + self.others * self.variance_of_others) / self.total

    def contains(self, other: Allocation) -> bool:
        """Whether the balls hold those of another allocation with the same numbers of batches."""
        same = (self.batches, self.others) == (other.batches, other.others)
        within = self.variance.contains(other.variance)
        return same and within and self.variance_of_others.contains(other.variance_of_others)


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


def series_of_outputs(rule: Rule, batches: int, variance: arb, places: range) -> list[acb_series]:
    """Series in x of L(s (1 - x) / t), one for each of some nodes s = e^(u + i angle) of the ray (V14, 1)."""
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
    sizes = [(rule.start + i * rule.spacing).exp() / batches for i in places]
    decays = arb_mat([[(-size * value).exp() for value in values] for size in sizes])
    both = (decays * real, decays * imaginary)
    for row, size in enumerate(sizes):
        sums = [(acb(both[0][row, m], both[1][row, m]) + errors[m]) * size**m / FACTORIALS[m] for m in orders]
        found.append(acb_series(sums, prec=rule.order + 1))
    return found


def log_of_negative_moment(allocation: Allocation, q: int) -> arb:
    """Bound log E[W^-q], which one batch attains (V14, 2)."""
    bound: arb = (q + arb(q * q) / allocation.total) * allocation.mean_variance / 2
    return bound


def left_out(rule: Rule, allocation: Allocation) -> arb:
    """Bound the terms before the first and after the last node of the ray (V14, 2)."""
    n, k, step, shape = rule.order, rule.decay, rule.spacing, rule.order - arb(1) / 2
    if not k > n:
        raise NotProvenError("V14: decay must be above order")
    last = rule.start + rule.nodes * step
    most = n * (n - 1) * allocation.variance / 2
    before = (most + shape * (rule.start - step)).exp() / (1 - (-shape * step).exp())
    after = k * (arb(k).log() - 1 - rule.angle.cos().log()) + (shape - k) * last
    after = (after + log_of_negative_moment(allocation, k - n)).exp()
    bound: arb = step * (before + after / (1 - ((shape - k) * step).exp()))
    return bound


def powers_of_series(rule: Rule, allocation: Allocation, places: range) -> list[acb_series]:
    """Series in x of E[e^(-s (1 - x) W)], one for each of some nodes of the ray (V14, 1)."""
    total, others, terms = allocation.total, allocation.others, rule.order + 1
    variance = allocation.variance
    found = [each**allocation.batches for each in series_of_outputs(rule, total, variance, places)]
    if others and allocation.variance_of_others.is_zero():
        share = arb(fmpq(others, total))
        sizes = (acb(rule.start + i * rule.spacing, rule.angle).exp() * share for i in places)
        constant = (acb_series([-size, size], prec=terms).exp() for size in sizes)
    elif others:
        rest = series_of_outputs(rule, total, allocation.variance_of_others, places)
        constant = (each**others for each in rest)
    else:
        constant = (acb_series([1], prec=terms) for _ in found)
    found = [a * b for a, b in zip(found, constant, strict=True)]
    if any(each.prec <= rule.order for each in found):
        raise NotProvenError("V14: flint.ctx.cap is below the order, so that coefficients would be missing")
    return found


def starts(rule: Rule) -> range:
    """First nodes of the parts that are summed together."""
    return range(0, rule.nodes, max(CHUNK, -(-rule.nodes // CHUNKS)))


def some_of_ray(allocation: Allocation, rule: Rule, spacing: arb, terms: int, start: int) -> list[acb]:
    """Sum some nodes of the ray for the half moments at all points of the line (V14, 2)."""
    places = range(start, min(start + starts(rule).step, rule.nodes))
    logs = [acb(rule.start + i * rule.spacing, rule.angle) for i in places]
    scale = math.factorial(rule.order) * rule.spacing
    series = powers_of_series(rule, allocation, places)
    here = [s[rule.order] * scale * (-u / 2).exp() for s, u in zip(series, logs, strict=True)]
    stride = max(1, math.isqrt(terms + 1))
    fast = acb_mat([powers((acb(0, spacing) * u).exp(), stride) for u in logs])
    jump, slow = [(acb(0, spacing * stride) * u).exp() for u in logs], []
    for _ in range(terms // stride + 1):
        slow.append(here)
        here = [a * b for a, b in zip(here, jump, strict=True)]
    sums = acb_mat(slow) * fast
    return [sums[j // stride, j % stride] for j in range(terms + 1)]


def half_moments(
    allocation: Allocation, rule: Rule, spacing: arb, terms: int, sums: Iterable[list[acb]] | None = None
) -> list[acb]:
    """Enclose E[W^(1/2 + i j spacing)] for j = 0, ..., terms by the sums over the nodes of the ray (V14)."""
    shape, period, outer = rule.order - arb(1) / 2, 2 * arb.pi() / rule.spacing, arb.pi() / 4 + rule.angle / 2
    if not period > terms * spacing or not rule.angle < arb.pi() / 2:
        raise NotProvenError("V14: the nodes are too far apart")
    if sums is None:
        sums = (some_of_ray(allocation, rule, spacing, terms, start) for start in starts(rule))
    whole_ray = [acb(0)] * (terms + 1)
    for some in sums:
        whole_ray = [a + b for a, b in zip(whole_ray, some, strict=True)]
    ends = left_out(rule, allocation)
    gamma, up, down, found = shape.gamma() / outer.cos() ** shape, outer - rule.angle, outer + rule.angle, []
    for j, total in enumerate(whole_ray):
        y = j * spacing
        alias = (-up * (y + period)).exp() / (1 - (-up * period).exp())
        alias += (-down * (period - y)).exp() / (1 - (-down * period).exp())
        error = ball((-rule.angle * y).exp() * (gamma * alias + ends))
        found.append(((total + error) / acb(shape, y).gamma()).conjugate())
    return found
