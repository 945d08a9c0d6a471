"""Enclose delta of records that are dealt into the batches of an epoch (V13 to V15, V19)."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import NamedTuple

from flint import acb, acb_mat, acb_series, arb, arb_mat, ctx, fmpq

from hockeystick_verify.checker import (
    Composition,
    Line,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    fields,
    gaussian_moment,
    gaussian_noise,
    items,
    members_of,
    nodes_of,
    number,
    powers,
    require_affordable,
    steps_of,
    whole,
)
from hockeystick_verify.parts import above
from hockeystick_verify.variants import DEALT, ZERO, composition, direction_of, refuse_alike

LARGEST_EPOCH = 10**7
LARGEST_MEMBERS = 6
LARGEST_WORK = 4 * 10**7
"""Most products of a node with an output, or with a point of the line."""
LARGEST_TERMS, LARGEST_NODES, LARGEST_OUTPUTS = 10**5, 10**5, 10**4
LARGEST_ORDER = 8
ZERO_BALL = arb(0)
FACTORIALS = [math.factorial(m) for m in range(LARGEST_ORDER + 1)]
CHUNK = 256
ANGLES, LEVELS = 16, 40
"""Turns, and levels of W, among which the bound on the decay of a part of an epoch is chosen."""

NAMES = "random_allocation fixed_bins full_batch poisson without_replacement"


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


class Epoch(NamedTuple):
    """Public patterns with their probabilities, independent allocations for each; and how many epochs."""

    patterns: list[tuple[arb, list[Allocation]]]
    epochs: int
    added: bool = False
    """Whether records are added, in a run in which others are removed."""


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


def epochs_of_step(step: Object, count: int) -> list[Epoch]:
    """Return the pairs of the epochs of a step, whole ones and the last part of one (V13)."""
    members, sampling = members_of(step["group"]), step["sampling"]
    variance = 1 / gaussian_noise(step["mechanism"], members) ** 2
    if not members.alike or members.size > LARGEST_MEMBERS:
        raise RefusedError(f"dealt batches are covered for up to {LARGEST_MEMBERS} records of norm 1")
    fields(sampling, "sampling", "name batches", "times")
    batches = whole(sampling["batches"], "batches", 1, LARGEST_EPOCH)
    times, stay = whole(sampling.get("times", 1), "times", 1, batches), sampling["name"] == "fixed_bins"
    epochs, left = divmod(count, batches)
    if times > 1 and (members.size > 1 or stay):
        raise RefusedError("several batches of an epoch are covered for one record")
    if members.size == 1 and times == 1:
        one, last = arb(1), Allocation(left, variance, batches - left)
        if stay:
            last = Allocation(left, (epochs + 1) * variance, batches - left, epochs * variance)
            return [Epoch([(one, [last if left else Allocation(batches, epochs * variance)])], 1)]
        found = [Epoch([(one, [Allocation(batches, variance)])], epochs)] if epochs else []
        return [*found, Epoch([(one, [last])], 1)] if left else found
    epochs += left > 0  # a part of an epoch is a whole one of which some outputs are dropped
    if stay:
        variance, epochs = variance * epochs, 1
    if times > 1:
        return [Epoch([(arb(1), [Allocation(size, variance) for size in blocks(batches, times)])], epochs)]
    patterns = []
    for parts in partitions(members.size, members.size):
        if len(parts) <= batches:
            sizes = zip(blocks(batches, len(parts)), parts, strict=True)
            dealt = [Allocation(size, variance * part * part) for size, part in sizes]
            patterns.append((pattern_probability(parts, members.size, batches), dealt))
    return [Epoch(patterns, epochs)]


class Others(NamedTuple):
    """Steps without dealt batches, as if the group were removed: in the last kinds it is added."""

    steps: Composition
    removed: int
    """Kinds of steps before those of the added group."""


def divided(run: Object, added: list[bool]) -> tuple[list[Epoch], Others]:
    """Return the epochs of dealt batches of a run, and its other steps; some are of `added` records."""
    epochs: list[Epoch] = []
    refuse_alike(run)
    others: dict[bool, list[Object]] = {False: [], True: []}
    for (step, count), mirrored in zip(steps_of(run, "adjacency"), added, strict=True):
        if choice(step["sampling"].get("name"), "sampling", NAMES) in DEALT:
            epochs += [each._replace(added=mirrored) for each in epochs_of_step(step, count)]
        else:
            others[mirrored].append({**step, "adjacency": "remove"})
    first, last = (
        composition({**run, "steps": others[way]}, "remove") if others[way] else Composition([], arb(0))
        for way in (False, True)
    )
    both = Composition(first.kinds + last.kinds, first.mu_squared + last.mu_squared)
    return epochs, Others(both, len(first.kinds))


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


def powers_of_series(rule: Rule, allocation: Allocation) -> list[acb_series]:
    """Series in x of E[e^(-s (1 - x) W)], one for each node of the ray (V14, 1)."""
    total, others, terms = allocation.total, allocation.others, rule.order + 1
    found = [each**allocation.batches for each in series_of_outputs(rule, total, allocation.variance)]
    if others and allocation.variance_of_others.is_zero():
        share = arb(fmpq(others, total))
        sizes = (acb(rule.start + i * rule.spacing, rule.angle).exp() * share for i in range(rule.nodes))
        constant = (acb_series([-size, size], prec=terms).exp() for size in sizes)
    elif others:
        rest = series_of_outputs(rule, total, allocation.variance_of_others)
        constant = (each**others for each in rest)
    else:
        constant = (acb_series([1], prec=terms) for _ in found)
    found = [a * b for a, b in zip(found, constant, strict=True)]
    if any(each.prec <= rule.order for each in found):
        raise NotProvenError("V14: flint.ctx.cap is below the order, so that coefficients would be missing")
    return found


def half_moments(allocation: Allocation, rule: Rule, spacing: arb, terms: int) -> list[acb]:
    """Enclose E[W^(1/2 + i j spacing)] for j = 0, ..., terms (V14)."""
    shape, period, outer = rule.order - arb(1) / 2, 2 * arb.pi() / rule.spacing, arb.pi() / 4 + rule.angle / 2
    if not period > terms * spacing or not rule.angle < arb.pi() / 2:
        raise NotProvenError("V14: the nodes are too far apart")
    logs = [acb(rule.start + i * rule.spacing, rule.angle) for i in range(rule.nodes)]
    scale = math.factorial(rule.order) * rule.spacing
    series = powers_of_series(rule, allocation)
    here = [s[rule.order] * scale * (-u / 2).exp() for s, u in zip(series, logs, strict=True)]
    stride = max(1, math.isqrt(terms + 1))
    fast = acb_mat([powers((acb(0, spacing) * u).exp(), stride) for u in logs])
    jump, slow = [(acb(0, spacing * stride) * u).exp() for u in logs], []
    for _ in range(terms // stride + 1):
        slow.append(here)
        here = [a * b for a, b in zip(here, jump, strict=True)]
    sums, ends = acb_mat(slow) * fast, left_out(rule, allocation)
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


def rarely_below(allocation: Allocation, part: arb) -> arb:
    """Bound the probability under Q that the mean of the released Y is below `part` (V15)."""
    variance = allocation.variance
    away = -(part.log() + variance / 2) / (variance / allocation.batches).sqrt()
    return above("gaussian", arb(1), {ZERO: arb(1)}, away)


def decay(allocation: Allocation, y: arb) -> arb:
    """Bound |E[W^(1/2 + iy')]| for all y' >= y (V15)."""
    stiffness = allocation.batches / allocation.variance
    if not allocation.others or not allocation.variance_of_others.is_zero():
        if allocation.others:
            stiffness += allocation.others / allocation.variance_of_others
        return (-(y**2) / (2 * stiffness)).exp()
    still, best = arb(fmpq(allocation.others, allocation.total)), arb(1)
    parts = [(-arb(level) / 8).exp() for level in range(LEVELS)]
    levels = [((1 - still) * part, rarely_below(allocation, part)) for part in parts]
    for angle in (arb(3) / 2 * arb(fmpq(3, 4)) ** i for i in range(ANGLES)):
        cost = (stiffness * angle**2 / 2).exp()
        for moved, rare in levels if cost < (y * angle).exp() else ():
            phase = (still + moved * acb(0, angle).exp()).arg()
            best = best.min(cost * ((-y * phase).exp() + (still + moved).sqrt() * rare))
    return best


def moments_of_others(found: Others, witness: Object, line: Line) -> tuple[list[acb], arb]:
    """E[r^(1/2 + iy)] of the steps without dealt batches, and a bound beyond the line (V19)."""
    last, others = line.terms * line.spacing, found.steps
    total = [gaussian_moment(others.mu_squared, z) for z in line.points()]
    end: arb = (-(last**2 + arb(1) / 4) * others.mu_squared / 2).exp()
    if not others.kinds:
        return total, end
    require_affordable(others.kinds, witness)
    for place, rule in enumerate(nodes_of(others.kinds, witness)):
        count, rule = others.kinds[place][1], rule.at_real_outputs()
        parts = (rule.sums(start, line) for start in range(0, rule.count, CHUNK))
        sums = rule.enclosed(sum(parts, next(parts)), line)
        if place >= found.removed:
            sums = [a.conjugate() for a in sums]
        total = [a * b**count for a, b in zip(total, sums, strict=True)]
        end *= rule.decay(line.tilt, last).min(arb(1)) ** count
    return total, end


@lru_cache(maxsize=1)
def transforms(text: str, _precision: int) -> tuple[arb, list[acb], arb]:
    """Spacing, E[e^(z loss)] on the line for a removed record, and a bound beyond it.

    Both directions have the same, so that it is computed once, unless the run has steps in both.
    """
    run, added, witness = json.loads(text)
    epochs, others = divided(run, added)
    spacing = number(witness["spacing"], "spacing", 1e-9, 1e3)
    terms = whole(witness["terms"], "terms", 1, LARGEST_TERMS)
    hidden, known = hidden_moments(epochs, witness, spacing, terms)
    line = Line(-arb(1) / 2, arb(0), spacing, terms, math.isqrt(terms + 1))
    last, (total, end) = terms * spacing, moments_of_others(others, witness, line)

    def moments(allocation: Allocation) -> list[acb]:
        if allocation.is_gaussian:
            return [gaussian_moment(allocation.variance, z) for z in line.points()]
        return known[next(i for i, each in enumerate(hidden) if each.contains(allocation))]

    for epoch in epochs:
        mixed, beyond = [acb(0)] * (terms + 1), arb(0)
        for probability, dealt in epoch.patterns:
            product, most = [acb(probability)] * (terms + 1), probability
            for allocation in dealt:
                product = [a * b for a, b in zip(product, moments(allocation), strict=True)]
                most *= decay(allocation, last)
            mixed = [a + b for a, b in zip(mixed, product, strict=True)]
            beyond += most
        if epoch.added:
            mixed = [a.conjugate() for a in mixed]
        total = [a * b**epoch.epochs for a, b in zip(total, mixed, strict=True)]
        end *= beyond.min(arb(1)) ** epoch.epochs
    return spacing, total, end


def hidden_moments(
    epochs: list[Epoch], witness: Object, spacing: arb, terms: int
) -> tuple[list[Allocation], list[list[acb]]]:
    """Return the allocations to more than one batch, each once, and their moments on the line."""
    hidden: list[Allocation] = []
    dealt = [allocation for epoch in epochs for _, each in epoch.patterns for allocation in each]
    for allocation in dealt:
        if not allocation.is_gaussian and not any(each.contains(allocation) for each in hidden):
            hidden.append(allocation)
    rules = [rule_of(entry) for entry in items(witness["rules"], "rules", len(hidden), len(hidden))]
    each = zip(rules, hidden, strict=True)
    work = 4 * terms * len(dealt)
    work += sum(r.nodes * (2 * r.outputs * (r.order + 1) * (1 + (a.others > 0)) + terms) for r, a in each)
    if work * ctx.prec > LARGEST_WORK * 256:
        raise RefusedError(
            "the witness asks for more nodes, outputs and points of the line than are computed"
        )
    return hidden, [half_moments(a, rule, spacing, terms) for a, rule in zip(hidden, rules, strict=True)]


def added_steps(run: object, direction: str) -> tuple[list[bool], bool]:
    """In which steps records are added, if they are removed in others; and whether they are in all steps."""
    ways = [direction_of(step, direction) for step, _ in steps_of(run, "adjacency")]
    if "replace" in ways:
        raise RefusedError("dealt batches are covered for records that are added or removed")
    one_way = len(set(ways)) == 1
    return [not one_way and way == "add" for way in ways], one_way and ways[0] == "add"


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon by the line Re z = -1/2 (V15)."""
    added, all_added = added_steps(run, direction)
    spacing, total, end = transforms(json.dumps([run, added, witness]), ctx.prec)
    if all_added:
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
