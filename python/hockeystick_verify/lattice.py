"""Enclose delta by losses on a lattice (V11 and V12): for all pairs that are made of parts.

The loss of each step is rounded to a lattice, up for the upper bound and down for the lower one, such that
the means of e^loss are kept where possible; discrete Fourier transforms compose the steps.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from flint import acb, arb, ctx

from hockeystick_verify.cells import Cell, cells_of_part
from hockeystick_verify.checker import (
    NotProvenError,
    Object,
    RefusedError,
    fields,
    items,
    number,
    steps_of,
    whole,
)
from hockeystick_verify.dealt_lattice import Dealt, cells_of_epoch, epochs_of_step, is_dealt, work_of
from hockeystick_verify.large_groups import LARGEST_SHIFT
from hockeystick_verify.parallel import mapped, stage
from hockeystick_verify.parts import Atom, Part, Step, steps_in_parts, up_to
from hockeystick_verify.variants import refuse_alike

LARGEST_POINTS = 1 << 19
"""Most points of the window, of all steps together: it is transformed, which takes some twenty seconds."""
LARGEST_CELLS = 10**6
"""Most cells of all steps, times the components of their mixtures."""
LARGEST_INDEX = 10**7
"""Largest multiple of the spacing at which a cell may end: a limit on what is read."""
WIDEST = 4
"""Most places of the window of which it may be unknown whether their losses are above epsilon."""
OF_CELLS = 0.6
"""Part of the work that the cells are, roughly."""
EXACT = 4e-15
"""How much a loss may be beyond the bounds of its cell, relative to the largest: nodes are doubles."""


NOTHING = arb(0)
Masses = dict[int, arb]
"""Probability under P by place on the lattice."""


# ---------------------------------------------------------------- V11: cells of a step


class Grid(NamedTuple):
    """Losses start + i * spacing of a step, which of them are nodes, and how much fewer in each part."""

    start: arb
    spacing: arb
    ranges: list[tuple[int, int, int]]
    coarser: list[int]
    dealt: object = None
    """Numbers of the witness for an epoch of dealt batches."""
    lost: arb = NOTHING
    """What P loses by shifts that are left out."""
    is_sharp: bool = True
    """Whether there is a lower law: not of an epoch, nor where Q loses shifts."""

    def at(self, i: int) -> arb:
        """Loss of a place."""
        return self.start + i * self.spacing

    def targets(self, half: bool, coarser: int) -> list[float]:
        """Losses of the nodes: those of the lattice, or half a stride above."""
        start, half_spacing, doubled = float(self.start), float(self.spacing) / 2, set()
        for first, last, stride in self.ranges:
            step = stride * coarser
            doubled |= {2 * i + (step if half else 0) for i in range(first, last, step)}
        return [start + i * half_spacing for i in sorted(doubled)]


def pairs_of(run: Object, direction: str) -> list[tuple[Step | Dealt, int]]:
    """Return the pairs of a run with their numbers: those of dealt batches come last."""
    refuse_alike(run)
    others = [step for step, _ in steps_of(run, "adjacency") if not is_dealt(step)]
    found: list[tuple[Step | Dealt, int]] = []
    if others:
        found += steps_in_parts({**run, "steps": others}, direction)
    for step, count in steps_of(run, "adjacency"):
        if is_dealt(step):
            found += epochs_of_step(step, count, direction)
    return found


def cells_at(step: Step | Dealt, grid: Grid, place: int, half: bool) -> list[Cell]:
    """Return the cells of a part of a step, or of an epoch."""
    if isinstance(step, Dealt):
        return cells_of_epoch(step, grid.dealt)
    each = step[place]
    if isinstance(each, Atom):
        loss = (each.p / each.q).log()
        return [Cell(each.p, each.q, loss, loss)]
    coarser = grid.coarser[sum(isinstance(before, Part) for before in step[:place])]
    return cells_of_part(each, grid.targets(half, coarser))


def cells_of_job(job: tuple[str, int, int, bool]) -> list[Cell]:
    """Return the cells of a part of a kind of step; each process derives the run for itself."""
    text, kind, place, half = job
    (step, _), grid = prepared(text, ctx.prec)[kind]
    return cells_at(step, grid, place, half)


def cells(text: str) -> dict[tuple[int, bool], list[Cell]]:
    """Cells of every kind of step, for the upper law and for the lower one, which not all have."""
    jobs = [
        (text, kind, place, half)
        for kind, ((step, _), grid) in enumerate(prepared(text, ctx.prec))
        for half in ((False, True) if grid.is_sharp else (False,))
        for place in range(1 if isinstance(step, Dealt) else len(step))
    ]
    found: dict[tuple[int, bool], list[Cell]] = {}
    for (_, kind, _, half), answer in zip(jobs, mapped(cells_of_job, jobs), strict=True):
        found.setdefault((kind, half), []).extend(Cell(*each) for each in answer)
    return found


def rounded_up(each: list[Cell], grid: Grid, slack: arb) -> tuple[Masses, arb]:
    """Law on the lattice, whose losses with `slack` more give no smaller curve, and mass of infinite loss."""
    masses: Masses = {}
    lost, powers = arb(0), {}

    def power(i: int, sign: int) -> arb:
        if (i, sign) not in powers:
            powers[i, sign] = (grid.at(i) + sign * slack).exp()
        return powers[i, sign]

    for p, q, low, high in each:
        if high is None:
            lost += p
            continue
        top = math.ceil(float((high - slack - grid.start) / grid.spacing))
        top += 0 if grid.at(top) + slack >= high else 1
        if not grid.at(top) + slack >= high:
            raise NotProvenError("V11: a cell is too wide")
        bottom = top
        if low is not None:
            bottom = math.floor(float((low + slack - grid.start) / grid.spacing))
            bottom -= 0 if grid.at(bottom) - slack <= low else 1
            if not grid.at(bottom) - slack <= low:
                raise NotProvenError("V11: a cell is too wide")
        upper = p
        if bottom < top:
            under, over = power(bottom, -1), power(top, 1)
            upper = (over * (p - under * q) / (over - under)).max(arb(0)).min(p)
            masses[bottom] = masses.get(bottom, arb(0)) + p - upper
        masses[top] = masses.get(top, arb(0)) + upper
    return masses, lost


def rounded_down(each: list[Cell], grid: Grid, tilt: arb) -> tuple[Masses, arb]:
    """Law on the lattice, whose losses less a number that is returned too give no larger curve."""
    means = []
    for p, q, _, _ in each:
        if p > 0 and q > 0:
            means.append((p, (p / q).log()))
    spacing, gaps = float(grid.spacing), []
    for p, loss in means:
        places = float((loss - grid.start) / grid.spacing)
        gaps.append(((round(places) - places) * spacing, float(p * (tilt * loss).exp())))
    # The common number may be chosen at will: it balances its own cost against that of cells that miss it.
    gaps.sort(reverse=True)
    total, missing, best = sum(weight for _, weight in gaps), 0.0, (math.inf, 0.0)
    for gap, weight in [*gaps, (0.0, 0.0)]:
        best = min(best, (max(gap, 0.0) + spacing * missing / total, max(gap, 0.0)))
        missing += weight if gap > 0.0 else 0.0
    sink = arb(best[1] * (1 + 1e-7) + EXACT)
    masses: Masses = {}
    for p, loss in means:
        place = math.floor(float((loss + sink - grid.start) / grid.spacing))
        place -= 0 if grid.at(place) - sink <= loss else 1
        if not grid.at(place) - sink <= loss:
            raise NotProvenError("V11: a mean loss has too wide a ball")
        masses[place] = masses.get(place, arb(0)) + p
    return masses, sink


# ---------------------------------------------------------------- V12: the run


class Kind(NamedTuple):
    """A step on its lattice, with its number."""

    masses: Masses
    grid: Grid
    steps: int

    def moment(self, tilt: arb) -> arb:
        """E[e^(tilt loss)] of the law on the lattice."""
        return sum((m * (tilt * self.grid.at(i)).exp() for i, m in self.masses.items()), arb(0))


class Window(NamedTuple):
    """Which losses of a run are told apart, `points` from the place `first` on, and the tilts."""

    points: int
    first: int
    tilt: arb
    outer: arb
    left: arb


def window_of(witness: Object) -> Window:
    """Read the window."""
    found = Window(
        whole(witness["points"], "points", 2, LARGEST_POINTS),
        whole(witness["first"], "first", -(10**19), 10**19),
        number(witness["tilt"], "tilt", 0.0, 1e6),
        number(witness["outer_tilt"], "outer_tilt", 1e-9, 1e6),
        number(witness["left_tilt"], "left_tilt", 0.0, 1e6),
    )
    if not found.outer > found.tilt:
        raise NotProvenError("V12: outer_tilt must be above tilt")
    return found


def folded(kind: Kind, window: Window) -> list[arb]:
    """Tilted law of a step, folded to the window: by residue of the place."""
    found = [NOTHING] * window.points
    for i, mass in kind.masses.items():
        found[i % window.points] += mass * (window.tilt * kind.grid.at(i)).exp()
    return found


Both = tuple[list[acb], list[acb]]
"""First half of the transforms of two real laws, of which the second half is the first one, conjugate."""


def transformed(upper: list[Kind], lower: list[Kind], window: Window) -> Both:
    """Transform the tilted laws of the run, folded to the window, with losses that are rounded up, and down.

    As both are real, they are transformed as the real and the imaginary part of one law: the transform of
    either is the part of the whole that is its own conjugate at the opposite frequency, or minus that.
    """
    middle, half, i = window.points // 2, arb(1) / 2, acb(0, 1)
    totals = [acb(1)] * (middle + 1), [acb(1)] * (middle + 1)
    for up, down in zip(upper, lower, strict=True):
        pair = zip(folded(up, window), folded(down, window), strict=True)
        turned = acb.dft([acb(*each) for each in pair])
        for place in range(middle + 1):
            this, other = turned[place], turned[-place].conjugate()
            totals[0][place] *= ((this + other) * half) ** up.steps
            totals[1][place] *= ((this - other) * half * -i) ** down.steps
    return totals


def of_transforms(both: Both, window: Window) -> tuple[list[arb], list[arb]]:
    """Return both tilted laws of the run, folded to the window."""
    i = acb(0, 1)
    rest = ([a.conjugate() for a in each[1 : (window.points + 1) // 2][::-1]] for each in both)
    whole_both = (each + more for each, more in zip(both, rest, strict=True))
    found = acb.dft([a + i * b for a, b in zip(*whole_both, strict=True)], inverse=True)
    return [each.real for each in found], [each.imag for each in found]


def composed(kinds: list[Kind], window: Window) -> list[arb]:
    """Tilted law of the run, folded to the window."""
    return of_transforms(transformed(kinds, kinds, window), window)[0]


def sums(
    kinds: list[Kind], window: Window, epsilons: list[arb], folded: list[arb] | None = None
) -> list[arb]:
    """Sum (1 - e^(epsilon - loss))_+ over the window, which counts losses outside it too (V12).

    Above epsilon that is the sum of all masses, less e^epsilon times that of all masses over e^loss: the last
    places are summed first, and every epsilon takes what is summed when its place is reached.
    """
    folded = composed(kinds, window) if folded is None else folded
    spacing = kinds[0].grid.spacing
    offset = sum((kind.steps * kind.grid.start for kind in kinds), arb(0))
    first, end = window.first, window.first + window.points
    places = []
    for epsilon in epsilons:
        if not offset + first * spacing <= epsilon:
            raise NotProvenError("V12: the window must begin below epsilon")
        exact_place = (epsilon - offset) / spacing
        # Up to the first place losses are surely at most epsilon, from the second one on surely above it.
        known, more = (end_of.floor().unique_fmpz() for end_of in (exact_place.lower(), exact_place.upper()))
        if known is None or more is None or more - known > WIDEST:
            raise NotProvenError("V12: the losses have too wide balls")
        places.append((int(known), min(int(more) + 1, end)))
    found, mass, quotient = [arb(0)] * len(epsilons), arb(0), arb(0)
    loss, at = offset + end * spacing, end
    weight, inverse = (-window.tilt * loss).exp(), (-loss).exp()
    up, growth = (window.tilt * spacing).exp(), spacing.exp()
    for i in sorted(range(len(epsilons)), key=lambda i: places[i], reverse=True):
        known_below, surely_above = places[i]
        while at > surely_above and at > first:
            at -= 1
            weight, inverse = weight * up, inverse * growth
            term = folded[at % window.points] * weight
            mass, quotient = mass + term, quotient + term * inverse
        found[i] = mass - epsilons[i].exp() * quotient
        for place in range(max(known_below + 1, first), surely_above):
            loss = offset + place * spacing
            term = folded[place % window.points] * (-window.tilt * loss).exp()
            found[i] += term * (1 - (epsilons[i] - loss).exp()).max(arb(0))
    return found


def moments(kinds: list[Kind], tilt: arb) -> arb:
    """E[e^(tilt S)] of the law on the lattice."""
    found = arb(1)
    for kind in kinds:
        found *= kind.moment(tilt) ** kind.steps
    return found


Prepared = list[tuple[tuple[Step | Dealt, int], Grid]]
"""The pairs of a run with their numbers, and the lattice of each."""


@lru_cache(maxsize=2)
def prepared(text: str, _precision: int) -> Prepared:
    """Read the run and the lattices of a witness, and refuse those that ask for more than is computed."""
    run, direction, witness = json.loads(text)
    steps = pairs_of(fields(run, "run", "adjacency steps"), direction)
    spacing = number(witness["spacing"], "spacing", 1e-12, 1e6)
    given, found, work = items(witness["kinds"], "kinds", len(steps), len(steps)), [], 0
    for entry, (step, count) in zip(given, steps, strict=True):
        optional = "dealt" if isinstance(step, Dealt) else "largest_shift"
        entry = fields(entry, "a kind", "start ranges coarser", optional)
        start, ranges = number(entry["start"], "start", -1e6, 1e6), []
        for each in items(entry["ranges"], "ranges", 0, 128):
            first, last, stride = items(each, "a range", 3, 3)
            whole(first, "first", -LARGEST_INDEX, LARGEST_INDEX)
            whole(last, "last", first, LARGEST_INDEX)
            ranges.append((first, last, whole(stride, "stride", 1, LARGEST_INDEX)))
        sizes: list[int] = []
        lost, is_sharp = NOTHING, not isinstance(step, Dealt)
        if "largest_shift" in entry and not isinstance(step, Dealt):
            number(entry["largest_shift"], "largest_shift", 0.0, LARGEST_SHIFT)
            step, lost, is_sharp = up_to(step, Fraction(entry["largest_shift"]))
        if isinstance(step, Dealt):
            work += work_of(entry.get("dealt"), step)
        else:
            sizes = [len(each.p) + len(each.q) for each in step if isinstance(each, Part)]
        coarser = items(entry["coarser"], "coarser", len(sizes), len(sizes))
        for size, times in zip(sizes, coarser, strict=True):
            whole(times, "coarser", 1, LARGEST_INDEX)
            work += size * sum((last - first) // (stride * times) + 1 for first, last, stride in ranges)
        grid = Grid(start, spacing, ranges, coarser, entry.get("dealt"), lost, is_sharp)
        found.append(((step, count), grid))
    points = len(steps) * whole(witness["points"], "points", 2, LARGEST_POINTS)
    if max(work, points // 2) * ctx.prec > LARGEST_CELLS * 128:
        raise RefusedError("the witness asks for more cells than are computed")
    return found


def laws(run: object, direction: str, witness: Object) -> list[tuple[Kind, arb, Kind]]:
    """Laws of every kind of step: the upper one, with its mass of infinite loss, and the lower one."""
    tilt, found = number(witness["tilt"], "tilt", 0.0, 1e6), []
    text = json.dumps([run, direction, {name: witness[name] for name in ("spacing", "points", "kinds")}])
    each = cells(text)
    for kind, ((_, count), grid) in enumerate(prepared(text, ctx.prec)):
        spacing = grid.spacing
        largest = max([1.0, *(abs(float(grid.at(i))) for r in grid.ranges for i in r[:2])])
        slack = arb(EXACT * largest)
        up, lost = rounded_up(each.pop((kind, False)), grid, slack)
        # Without a lower law the lower end is 0: what the other steps reveal alone is left out too.
        down, sink = rounded_down(each.pop((kind, True)), grid, tilt) if grid.is_sharp else ({}, arb(0))
        raised = Grid(grid.start + slack, spacing, [], [])
        found.append(
            (
                Kind(up, raised, count),
                lost + grid.lost,
                Kind(down, Grid(grid.start - sink, spacing, [], []), count),
            )
        )
    return found


@lru_cache(maxsize=2)
def known_laws(text: str, _precision: int) -> list[tuple[Kind, arb, Kind]]:
    """Laws of a run; those of both directions are kept, as each claim on a divergence asks for them."""
    run, direction, witness = json.loads(text)
    return laws(run, direction, witness)


def renyi(run: object, direction: str, witness: Object, order: arb) -> arb:
    """Enclose the Renyi divergence of a run of bounded losses by moments of both laws (V17)."""
    both, tilt = known_laws(json.dumps([run, direction, witness]), ctx.prec), order - 1
    if not all(mass.is_zero() for _, mass, _ in both):
        raise NotProvenError("V17: a divergence needs losses that are bounded by the nodes")
    upper, lower = [each for each, _, _ in both], [each for _, _, each in both]
    high: arb = moments(upper, tilt).log() / tilt
    return (moments(lower, tilt).log() / tilt).union(high)


class Composed(NamedTuple):
    """The run by its upper law and by its lower one, each folded to the window."""

    upper: list[Kind]
    lower: list[Kind]
    lost: arb
    """Probability of an infinite loss under the upper law."""
    folded: tuple[list[arb], list[arb]]


@lru_cache(maxsize=2)
def composed_run(text: str, _precision: int) -> Composed:
    """Compose a run; the last two are kept, as a certificate is made by asking its proof several times."""
    run, direction, witness = json.loads(text)
    window = window_of(witness)
    with stage(0.0, OF_CELLS):
        both = laws(run, direction, witness)
    upper, lower = [kind for kind, _, _ in both], [kind for _, _, kind in both]
    lost = sum((kind.steps * mass for kind, mass, _ in both), arb(0))
    with stage(OF_CELLS, (1.0 + OF_CELLS) / 2):
        turned = transformed(upper, lower, window)
    return Composed(upper, lower, lost, of_transforms(turned, window))


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon (V11, V12)."""
    window = window_of(witness)
    upper, lower, lost, folded = composed_run(json.dumps([run, direction, witness]), ctx.prec)
    spacing = upper[0].grid.spacing
    top = sum((k.steps * k.grid.start for k in upper), arb(0)) + (window.first + window.points) * spacing
    above_window = (-window.outer * top).exp() * moments(upper, window.outer)
    most = [each + lost + above_window for each in sums(upper, window, epsilons, folded[0])]
    least = lower_ends(lower, window, epsilons, folded[1])
    return [least_here.union(most_here) for most_here, least_here in zip(most, least, strict=True)]


def lower_ends(
    kinds: list[Kind], window: Window, epsilons: list[arb], folded: list[arb] | None = None
) -> list[arb]:
    """Bound delta from below at each epsilon, by laws whose losses were rounded down (V12)."""
    spacing = kinds[0].grid.spacing
    period = spacing * window.points
    end = sum((k.steps * k.grid.start for k in kinds), arb(0)) + (window.first + window.points) * spacing
    under = moments(kinds, -window.left) * (window.left * end).exp()
    under /= ((window.tilt + window.left) * period).exp() - 1
    outer = moments(kinds, window.outer) / (((window.outer - window.tilt) * period).exp() - 1)
    found = []
    for epsilon, least in zip(epsilons, sums(kinds, window, epsilons, folded), strict=True):
        aliases = under + (-window.outer * epsilon).exp() * outer
        found.append(least - aliases)
    return found
