"""Enclose delta of records that are dealt into the batches of an epoch (V13 to V15, V19)."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import NamedTuple

from flint import acb, arb, ctx, fmpq

from hockeystick_verify.checker import (
    CHUNK,
    Composition,
    Line,
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
    require_affordable,
    steps_of,
    whole,
)
from hockeystick_verify.half_moments import Allocation, Rule, half_moments, rule_of, some_of_ray, starts
from hockeystick_verify.parallel import mapped, reported, stage
from hockeystick_verify.parts import above
from hockeystick_verify.variants import DEALT, ZERO, composition, direction_of, refuse_alike

LARGEST_EPOCH = 10**7
LARGEST_MEMBERS = 6
"""Most batches of an epoch, which only logarithms and means depend on; and most records of a group, whose
patterns in an epoch are listed: of six there are eleven."""
LARGEST_WORK = 4 * 10**7
"""Most products of a node with an output, or with a point of the line."""
LARGEST_TERMS = 10**5
"""Most points of the line. All limits of this file refuse what would take minutes; no proof depends on
them."""
OF_RAYS = 0.8
"""Part of the work that the sums over rays are, roughly."""
ANGLES, LEVELS = 16, 40
"""Turns, and levels of W, among which the bound on the decay of a part of an epoch is chosen."""

NAMES = "random_allocation fixed_bins full_batch poisson without_replacement"


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


# ---------------------------------------------------------------- V15: the run


def rarely_below(allocation: Allocation, part: arb) -> arb:
    """Bound the probability under Q that the mean of the released Y is below `part` (V15)."""
    variance = allocation.variance
    away = -(part.log() + variance / 2) / (variance / allocation.batches).sqrt()
    return above("gaussian", arb(1), {ZERO: arb(1)}, away)


def decay(allocation: Allocation, power: arb, moment: arb, y: arb) -> arb:
    """Bound |E[W^(power + iy')]| for all y' >= y, from E[W^power] (V15, V27)."""
    stiffness = allocation.batches / allocation.variance
    if not allocation.others or not allocation.variance_of_others.is_zero():
        if allocation.others:
            stiffness += allocation.others / allocation.variance_of_others
        return moment * (-(y**2) / (2 * stiffness)).exp()
    still, best = arb(fmpq(allocation.others, allocation.total)), moment
    parts = [(-arb(level) / 8).exp() for level in range(LEVELS)]
    levels = [((1 - still) * part, rarely_below(allocation, part)) for part in parts]
    for angle in (arb(3) / 2 * arb(fmpq(3, 4)) ** i for i in range(ANGLES)):
        cost = (stiffness * angle**2 / 2).exp()
        if power < 0:
            cost *= (angle / 2).cos() ** power
        for moved, rare in levels if cost < (y * angle).exp() else ():
            phase = (still + moved * acb(0, angle).exp()).arg()
            largest = (still if power < 0 else still + moved) ** power
            best = best.min(cost * ((-y * phase).exp() * moment + largest * rare))
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
        first = range(0, rule.count, CHUNK)
        with stage(place / len(others.kinds), (place + 1) / len(others.kinds)):
            parts = reported((rule.sums(start, line) for start in first), len(first))
            sums = rule.enclosed(sum(parts, next(parts)), line)
        if place >= found.removed:
            sums = [a.conjugate() for a in sums]
        total = [a * b**count for a, b in zip(total, sums, strict=True)]
        end *= rule.decay(line.tilt, last).min(arb(1)) ** count
    return total, end


@lru_cache(maxsize=2)
def transforms(text: str, _precision: int) -> tuple[arb, list[acb], arb]:
    """Spacing, E[e^(z loss)] on the line for a removed record, and a bound beyond it.

    Both directions have the same, so that it is computed once, unless the run has steps in both.
    """
    run, added, witness = json.loads(text)
    epochs, others = divided(run, added)
    hidden, _, spacing, terms = rays(text, ctx.prec)
    with stage(0.0, OF_RAYS):
        known = hidden_moments(text)
    line = Line(-arb(1) / 2, arb(0), spacing, terms, math.isqrt(terms + 1))
    last = terms * spacing
    with stage(OF_RAYS, 1.0):
        total, end = moments_of_others(others, witness, line)

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
                most *= decay(allocation, arb(1) / 2, arb(1), last)
            mixed = [a + b for a, b in zip(mixed, product, strict=True)]
            beyond += most
        if epoch.added:
            mixed = [a.conjugate() for a in mixed]
        total = [a * b**epoch.epochs for a, b in zip(total, mixed, strict=True)]
        end *= beyond.min(arb(1)) ** epoch.epochs
    return spacing, total, end


class Rays(NamedTuple):
    """Allocations to more than one batch, each once, with their rules, and the points of the line."""

    hidden: list[Allocation]
    rules: list[Rule]
    spacing: arb
    terms: int


@lru_cache(maxsize=2)
def rays(text: str, _precision: int) -> Rays:
    """Read the rules of a witness, and refuse those that ask for more than is computed."""
    run, added, witness = json.loads(text)
    hidden: list[Allocation] = []
    epochs, _ = divided(run, added)
    dealt = [allocation for epoch in epochs for _, each in epoch.patterns for allocation in each]
    for allocation in dealt:
        if not allocation.is_gaussian and not any(each.contains(allocation) for each in hidden):
            hidden.append(allocation)
    spacing = number(witness["spacing"], "spacing", 1e-9, 1e3)
    terms = whole(witness["terms"], "terms", 1, LARGEST_TERMS)
    rules = [rule_of(entry) for entry in items(witness["rules"], "rules", len(hidden), len(hidden))]
    each = zip(rules, hidden, strict=True)
    work = 4 * terms * len(dealt)
    work += sum(r.nodes * (2 * r.outputs * (r.order + 1) * (1 + (a.others > 0)) + terms) for r, a in each)
    if work * ctx.prec > LARGEST_WORK * 256:
        raise RefusedError(
            "the witness asks for more nodes, outputs and points of the line than are computed"
        )
    return Rays(hidden, rules, spacing, terms)


def some_of_job(job: tuple[str, int, int]) -> list[acb]:
    """Sum some nodes of one of the rays of a witness; each process derives the run for itself."""
    text, place, start = job
    found = rays(text, ctx.prec)
    return some_of_ray(found.hidden[place], found.rules[place], found.spacing, found.terms, start)


def hidden_moments(text: str) -> list[list[acb]]:
    """Return the half moments of all rays of a run on the line."""
    found = rays(text, ctx.prec)
    moments, total = [], max(1, sum(rule.nodes for rule in found.rules))
    done = 0
    for place, (allocation, rule) in enumerate(zip(found.hidden, found.rules, strict=True)):
        jobs = [(text, place, start) for start in starts(rule)]
        with stage(done / total, (done + rule.nodes) / total):
            sums = mapped(some_of_job, jobs)
            moments.append(half_moments(allocation, rule, found.spacing, found.terms, sums))
        done += rule.nodes
    return moments


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
