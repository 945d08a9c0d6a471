"""Enclose delta of dealt batches by a line right of the origin, for very small delta (V27).

Along the line Re z = -1/2 of `allocation.py` all digits of delta are what is left of 1. Here the line is near
the saddle point, where hardly any digits cancel, and its points may be further apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from flint import acb, acb_mat, acb_series, arb, arb_poly, ctx, fmpq

from hockeystick_verify.allocation import NAMES, OF_RAYS, Epoch, decay, epochs_of_step
from hockeystick_verify.checker import (
    CHUNK,
    Composition,
    Line,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    fields,
    gaussian_moment,
    items,
    line_of,
    nodes_of,
    number,
    powers,
    require_affordable,
    steps_of,
    whole,
)
from hockeystick_verify.dealt_moments import of_allocation, whole_moments
from hockeystick_verify.half_moments import Allocation, ball, log_of_negative_moment
from hockeystick_verify.parallel import reported, stage
from hockeystick_verify.parts import above
from hockeystick_verify.variants import DEALT, ZERO, composition, direction_of, refuse_alike

LARGEST_NODES, LARGEST_OUTPUTS, LARGEST_STRIDE, LARGEST_ORDER = 10**5, 10**4, 64, 128
LARGEST_TILTED_TERMS = 10**5
"""Most nodes of a ray, outputs on each side of 0, points of the line in a step of theirs, terms of a series,
and points of the line: limits on what is read, before the work is known."""
LARGEST_SERIES = 2 * 10**6
"""Most coefficients of power series that are kept at once: some hundred MB."""
LARGEST_OUTER = 256
"""Largest outer tilt: whole moments up to it are computed."""
LARGEST_WORK = 15 * 10**7
"""Most products of a rule with so many bits as `BITS`: about a minute."""
BITS = 256
"""The unit of `LARGEST_WORK`; the precision itself is the witness's."""
STRIPS = tuple(arb(j) / 16 for j in range(1, 25))
"""Widths of strips, as angles below a right angle, among which the least bound is taken."""


class Rule(NamedTuple):
    """Numbers of a witness for one allocation: nodes of a ray, and outputs of a batch, on one lattice."""

    order: int
    angle: arb
    outer_angle: arb
    start: arb
    unit: arb
    stride: int
    nodes: int
    output_stride: int
    outputs: int
    decay: int

    @property
    def spacing(self) -> arb:
        """Distance of the nodes of the ray."""
        return self.stride * self.unit

    def work(self, terms: int, allocation: Allocation) -> int:
        """Products that the rule takes, about: those of powers of series grow with the number of batches."""
        length = self.nodes * self.stride + 4 * self.outputs * self.output_stride
        released = [allocation.batches]
        if allocation.others and not allocation.variance_of_others.is_zero():
            released.append(allocation.others)
        squares = sum(max(3, number.bit_length() // 2) for number in released)
        of_nodes = self.nodes * (terms + squares * (self.order + 4) ** 2)
        return 25 * len(released) * length * (self.order + 4) + of_nodes


def rule_of(entry: object) -> Rule:
    """Read a rule."""
    names = "order angle outer_angle start unit stride nodes output_stride outputs decay"
    given = fields(entry, "a rule", names)
    return Rule(
        whole(given["order"], "order", 0, LARGEST_ORDER),
        number(given["angle"], "angle", 0.0, 1.57),
        number(given["outer_angle"], "outer_angle", 0.0, 1.58),
        number(given["start"], "start", -1e4, 1e4),
        number(given["unit"], "unit", 1e-5, 10.0),
        whole(given["stride"], "stride", 1, LARGEST_STRIDE),
        whole(given["nodes"], "nodes", 2, LARGEST_NODES),
        whole(given["output_stride"], "output_stride", 1, LARGEST_STRIDE),
        whole(given["outputs"], "outputs", 1, LARGEST_OUTPUTS),
        whole(given["decay"], "decay", 1, 10**6),
    )


# ---------------------------------------------------------------- one batch


def errors_of_outputs(rule: Rule, variance: arb) -> list[tuple[arb, arb]]:
    """Bound the errors of the rule over outputs for each order: times r^m, and whatever r is (V27, 2)."""
    root = variance.sqrt()
    step = rule.output_stride * rule.unit  # of the logarithm of Y
    last, turned = rule.outputs * step / root, (rule.angle**2 / (2 * variance)).exp()
    aliases = []
    for strip in STRIPS:
        grown = ((rule.angle + strip) ** 2 / (2 * variance)).exp()
        aliases.append(2 * grown / ((2 * arb.pi() * strip / step).exp() - 1))
    nearest, found = min(aliases, key=float), []
    ends = above("gaussian", arb(1), {ZERO: arb(1)}, last)
    for m in range(rule.order + 1):
        factorial = arb(m + 1).gamma()
        mean = (arb(m * (m - 1)) * variance / 2).exp() / factorial
        largest = (m * (arb(m).log() - 1)).exp() / factorial if m else arb(1)
        each = zip(aliases, STRIPS, strict=True)
        any_size = min((alias / strip.cos() ** m for alias, strip in each), key=float)
        beyond = arb(2)
        if last > m * root:
            beyond = 2 * above("gaussian", arb(1), {ZERO: arb(1)}, last - m * root)
        found.append((mean * (nearest + turned * beyond), largest * (any_size + 2 * turned * ends)))
    return found


def series_of_batch(rule: Rule, total: int, variance: arb) -> list[acb_series]:
    """Series in x of E[e^(-s (1 - x) Y / t)], one for each node s of the ray (V27, 2).

    Outputs and nodes have logarithms on one lattice, so that all sums over outputs are one product of
    polynomials for each order.
    """
    root, unit, wide = variance.sqrt(), rule.unit, rule.output_stride
    step, reach = wide * unit / root, wide * rule.outputs
    base = rule.start - arb(total).log() - variance / 2
    scale = step / (2 * arb.pi()).sqrt() * (rule.angle**2 / (2 * variance)).exp()
    real, imaginary = [arb(0)] * (2 * reach + 1), [arb(0)] * (2 * reach + 1)
    for j in range(-rule.outputs, rule.outputs + 1):
        g = j * step
        weight, phase = scale * (-g * g / 2).exp(), g * rule.angle / root
        real[reach - wide * j], imaginary[reach - wide * j] = weight * phase.cos(), weight * phase.sin()
    weights = arb_poly(real), arb_poly(imaginary)
    tiny = arb(2) ** (-2 * ctx.prec)
    sizes = [
        (base + place * unit).exp() for place in range(-reach, rule.stride * (rule.nodes - 1) + reach + 1)
    ]
    values = [(-size).exp() for size in sizes]
    values = [value if value > tiny else arb(0).union(tiny).union(value) for value in values]
    rows: list[list[acb]] = [[] for _ in range(rule.nodes)]
    radii = [(rule.start + i * rule.spacing - arb(total).log()).exp() for i in range(rule.nodes)]
    around, sizes_here = arb(0, 1), [arb(1)] * rule.nodes
    for m, (relative, absolute) in enumerate(errors_of_outputs(rule, variance)):
        if m:
            values = [value * size / m for value, size in zip(values, sizes, strict=True)]
            sizes_here = [a * b for a, b in zip(sizes_here, radii, strict=True)]
        first, second = (arb_poly(values) * each for each in weights)
        for i, size in enumerate(sizes_here):
            place = rule.stride * i + 2 * reach
            error = around * (relative * size).min(absolute)
            rows[i].append(acb(first[place] + error, second[place] + error))
    return [acb_series(row, prec=rule.order + 1) for row in rows]


@contextmanager
def terms_kept(terms: int) -> Iterator[None]:
    """Let power series have so many terms within a block: the library has a limit of its own."""
    before = ctx.cap
    ctx.cap = max(before, terms)
    try:
        yield
    finally:
        ctx.cap = before


def series_of_epoch(rule: Rule, allocation: Allocation) -> list[acb]:
    """Return s^n E[W^n e^(-s W)], n the order, for each node s of the ray (V27, 2)."""
    with terms_kept(rule.order + 1):
        found = _series_of_epoch(rule, allocation)
    if any(each.prec <= rule.order for each in found):
        raise NotProvenError("V27: coefficients of a power series are missing")
    factorial = arb(rule.order + 1).gamma()
    return [series[rule.order] * factorial for series in found]


def _series_of_epoch(rule: Rule, allocation: Allocation) -> list[acb_series]:
    total, others, terms = allocation.total, allocation.others, rule.order + 1
    found = [each**allocation.batches for each in series_of_batch(rule, total, allocation.variance)]
    if others and allocation.variance_of_others.is_zero():
        share = arb(fmpq(others, total))
        nodes = (acb(rule.start + i * rule.spacing, rule.angle).exp() * share for i in range(rule.nodes))
        rest = [acb_series([-size, size], prec=terms).exp() for size in nodes]
        found = [a * b for a, b in zip(found, rest, strict=True)]
    elif others:
        rest = series_of_batch(rule, total, allocation.variance_of_others)
        found = [a * b**others for a, b in zip(found, rest, strict=True)]
    return found


# ---------------------------------------------------------------- moments of an epoch


def left_out(rule: Rule, allocation: Allocation, shape: arb) -> arb:
    """Bound the terms before the first and after the last node of the ray (V27, 1)."""
    n, k, step = rule.order, rule.decay, rule.spacing
    if not (k > shape and k >= n):
        raise NotProvenError("V27: decay must be above the shape, and not below the order")
    last = rule.start + rule.nodes * step
    moment = whole_moments(of_allocation(allocation), n)[n] if n else arb(1)
    before = moment * (shape * (rule.start - step)).exp() / (1 - (-shape * step).exp())
    after = k * (arb(k).log() - 1 - rule.angle.cos().log()) + (shape - k) * last
    after = (after + log_of_negative_moment(allocation, k - n)).exp()
    bound: arb = step * (before + after / (1 - ((shape - k) * step).exp()))
    return bound


class Moments(NamedTuple):
    """E[W^(power - i y)] for y = 0, spacing, 2 spacing, ..., and E[W^outer], at most."""

    line: list[acb]
    outer: arb


def sums_of_ray(terms_of_ray: list[acb], rule: Rule, power: arb, line: Line) -> list[acb]:
    """Sum s^(-power + iy) times what was computed for each node s, at all points y of the line."""
    rows = line.terms // line.stride + 1
    total: acb_mat | None = None
    for start in reported(range(0, rule.nodes, CHUNK), -(-rule.nodes // CHUNK)):
        places = range(start, min(start + CHUNK, rule.nodes))
        logs = [acb(rule.start + i * rule.spacing, rule.angle) for i in places]
        here = [
            terms_of_ray[i] * rule.spacing * (-power * u).exp() for i, u in zip(places, logs, strict=True)
        ]
        fast = acb_mat([powers((acb(0, line.spacing) * u).exp(), line.stride) for u in logs])
        jumps = [powers((acb(0, line.spacing * line.stride) * u).exp(), rows) for u in logs]
        slow = acb_mat([[a * jump[row] for a, jump in zip(here, jumps, strict=True)] for row in range(rows)])
        part = slow * fast
        total = part if total is None else total + part
    assert total is not None
    return [total[j // line.stride, j % line.stride] for j in range(line.terms + 1)]


def enclosed(sums: list[acb], rule: Rule, allocation: Allocation, power: arb, spacing: arb) -> list[acb]:
    """Enclose E[W^(power - iy)] at all points y by the sums over the nodes of the ray (V27, 1)."""
    shape, period = rule.order - power, 2 * arb.pi() / rule.spacing
    outer = rule.outer_angle
    if not rule.angle < outer < arb.pi() / 2:
        raise NotProvenError("V27: outer_angle must be between the angle and a right angle")
    if not (shape > 0 and period > (len(sums) - 1) * spacing):
        raise NotProvenError("V27: the nodes are too far apart, or the order is not above the power")
    ends, gamma = left_out(rule, allocation, shape), shape.gamma()
    up, down = outer - rule.angle, outer + rule.angle
    most, found = arb(0), []
    for j, total in enumerate(sums):
        y = j * spacing
        alias = (-up * (y + period)).exp() / (1 - (-up * period).exp())
        alias += (-down * (period - y)).exp() / (1 - (-down * period).exp())
        alias *= gamma / outer.cos() ** shape
        if j == 0:
            if not alias < gamma / 2:
                raise NotProvenError("V27: the nodes are too far apart")
            most = (abs(total).upper() + ends) / (gamma - alias)
        error = ball((-rule.angle * y).exp() * (alias * most + ends))
        found.append((total + error) / acb(shape, y).gamma())
    return found


def moments_of(allocation: Allocation, rule: Rule, line: Line, added: bool) -> Moments:
    """Enclose the moments of an epoch whose record is added, or removed, on the line and beyond it."""
    with stage(0.0, 0.5):
        terms = series_of_epoch(rule, allocation)
    power = -line.tilt if added else 1 + line.tilt
    with stage(0.5, 1.0):
        found = enclosed(sums_of_ray(terms, rule, power, line), rule, allocation, power, line.spacing)
    if added:
        point = Line(line.outer, line.outer, line.spacing, 0, 1)
        outer = enclosed(sums_of_ray(terms, rule, -line.outer, point), rule, allocation, -line.outer, arb(1))
        return Moments(found, abs(outer[0]))
    ceiling = (1 + line.outer).upper().ceil().unique_fmpz()  # as a double 1 + outer may be rounded down
    assert ceiling is not None
    beyond = int(ceiling)
    return Moments(
        [each.conjugate() for each in found], whole_moments(of_allocation(allocation), beyond)[beyond]
    )


# ---------------------------------------------------------------- the run


class Run(NamedTuple):
    """Epochs of a run, and its other steps; allocations to more than one batch, each once, with a rule."""

    epochs: list[Epoch]
    others: Composition
    hidden: list[tuple[Allocation, bool]]


def run_of(run: Object, direction: str) -> Run:
    """Return the pairs of a run: dealt batches, whose records are added or removed, and others."""
    refuse_alike(run)
    epochs: list[Epoch] = []
    rest: list[Object] = []
    for step, count in steps_of(run, "adjacency"):
        if choice(step["sampling"].get("name"), "sampling", NAMES) in DEALT:
            way = choice(direction_of(step, direction), "direction of dealt batches", "add remove")
            epochs += [each._replace(added=way == "add") for each in epochs_of_step(step, count)]
        else:
            rest.append(step)
    others = composition({**run, "steps": rest}, direction) if rest else Composition([], arb(0))
    hidden: list[tuple[Allocation, bool]] = []
    for epoch in epochs:
        for allocation in (each for _, dealt in epoch.patterns for each in dealt):
            if not allocation.is_gaussian and place_of(hidden, allocation, epoch.added) is None:
                hidden.append((allocation, epoch.added))
    return Run(epochs, others, hidden)


def place_of(hidden: list[tuple[Allocation, bool]], allocation: Allocation, added: bool) -> int | None:
    """Return where an allocation is among some."""
    each = enumerate(hidden)
    return next((i for i, (known, way) in each if way == added and known.contains(allocation)), None)


class Transforms(NamedTuple):
    """E[e^(z loss)] of a run on a line, a bound after its last point, and one at the outer tilt."""

    line: list[acb]
    beyond: arb
    outer: arb


def of_others(others: Composition, witness: Object, line: Line) -> Transforms:
    """Moments of the steps without dealt batches (V3 to V7)."""
    last, mu_squared = line.terms * line.spacing, others.mu_squared
    total = [gaussian_moment(mu_squared, z) for z in line.points()]
    beyond = gaussian_moment(mu_squared, line.tilt) * (-(last**2) * mu_squared / 2).exp()
    outer = gaussian_moment(mu_squared, line.outer)
    if not others.kinds:
        return Transforms(total, beyond, outer)
    require_affordable(others.kinds, witness)
    for rule, (_, count) in zip(nodes_of(others.kinds, witness), others.kinds, strict=True):
        rule.at_real_outputs()
        starts = range(0, rule.count, CHUNK)
        parts = reported((rule.sums(start, line) for start in starts), len(starts))
        sums = rule.enclosed(sum(parts, next(parts)), line)
        total = [a * b**count for a, b in zip(total, sums, strict=True)]
        beyond *= rule.decay(line.tilt, last).min(rule.moment(line.tilt)) ** count
        outer *= rule.moment(line.outer) ** count
    return Transforms(total, beyond, outer)


def of_epoch(
    epoch: Epoch, known: list[Moments], hidden: list[tuple[Allocation, bool]], line: Line
) -> Transforms:
    """Moments of one epoch: the mean over its public patterns of products."""
    power, last = (-line.tilt if epoch.added else 1 + line.tilt), line.terms * line.spacing
    mixed, beyond, outer = [acb(0)] * (line.terms + 1), arb(0), arb(0)
    for probability, dealt in epoch.patterns:
        product, end, out = [acb(probability)] * (line.terms + 1), probability, probability
        for allocation in dealt:
            if allocation.is_gaussian:
                values = [gaussian_moment(allocation.variance, z) for z in line.points()]
                at_outer = gaussian_moment(allocation.variance, line.outer)
            else:
                place = place_of(hidden, allocation, epoch.added)
                assert place is not None
                values, at_outer = known[place]
            product = [a * b for a, b in zip(product, values, strict=True)]
            end *= decay(allocation, power, abs(values[0]).upper(), last)
            out *= at_outer
        mixed = [a + b for a, b in zip(mixed, product, strict=True)]
        beyond, outer = beyond + end, outer + out
    return Transforms(mixed, beyond, outer)


@lru_cache(maxsize=2)
def transforms(text: str, _precision: int) -> Transforms:
    """Return the transforms of a run in one direction; the last ones are kept for further claims."""
    run, direction, witness = json.loads(text)
    line, found = line_of(witness), run_of(run, direction)
    if line.terms > LARGEST_TILTED_TERMS or not line.outer <= LARGEST_OUTER:
        raise RefusedError(f"terms must be at most {LARGEST_TILTED_TERMS}, outer_tilt {LARGEST_OUTER}")
    entries = items(witness["rules"], "rules", len(found.hidden), len(found.hidden))
    rules = [rule_of(entry) for entry in entries]
    factors = sum(len(dealt) for epoch in found.epochs for _, dealt in epoch.patterns)
    each = zip(rules, found.hidden, strict=True)
    work = sum(rule.work(line.terms, a) for rule, (a, _) in each) + 4 * line.terms * factors
    series = max((rule.nodes * (rule.order + 1) for rule in rules), default=0)
    if work * max(ctx.prec, BITS // 2) > LARGEST_WORK * BITS or series > LARGEST_SERIES:
        raise RefusedError(
            "the witness asks for more nodes, outputs and points of the line than are computed"
        )
    known = []
    for place, ((allocation, added), rule) in enumerate(zip(found.hidden, rules, strict=True)):
        with stage(OF_RAYS * place / len(rules), OF_RAYS * (place + 1) / len(rules)):
            known.append(moments_of(allocation, rule, line, added))
    with stage(OF_RAYS, 1.0):
        total, beyond, outer = of_others(found.others, witness, line)
    for epoch in found.epochs:
        values, end, out = of_epoch(epoch, known, found.hidden, line)
        total = [a * b**epoch.epochs for a, b in zip(total, values, strict=True)]
        beyond *= end**epoch.epochs
        outer *= out**epoch.epochs
    return Transforms(total, beyond, outer)


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon by a line right of the origin (V3, V4, V27)."""
    line = line_of(witness)
    total, beyond, outer = transforms(json.dumps([run, direction, witness]), ctx.prec)
    return line.integral(total, outer, beyond, epsilons)
