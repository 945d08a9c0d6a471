"""Enclose delta by losses on a lattice (V11 and V12): for all pairs that are made of parts.

The loss of each step is rounded to a lattice, up for the upper bound and down for the lower one, such that
the means of e^loss are kept where possible; discrete Fourier transforms compose the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from flint import acb, arb, ctx

from hockeystick_verify.checker import (
    NotProvenError,
    Object,
    RefusedError,
    exact,
    fields,
    items,
    number,
    whole,
)
from hockeystick_verify.parts import Atom, Part, Step, above, mirrored, steps_in_parts

LARGEST_POINTS = 1 << 19
LARGEST_CELLS = 10**6
"""Most cells of all steps, times the components of their mixtures."""
LARGEST_INDEX = 10**7
LARGEST_SUMS = 10**7
"""Most points of the window, times the epsilons that are asked for."""
EXACT = 4e-15
"""How much a loss may be beyond the bounds of its cell, relative to the largest: nodes are doubles."""


class Cell(NamedTuple):
    """Outputs with losses between two bounds (None: no bound), and their probabilities under P and Q."""

    p: arb
    q: arb
    low: arb | None
    high: arb | None


Masses = dict[int, arb]
"""Probability under P by place on the lattice."""


# ---------------------------------------------------------------- nodes: chosen, not believed


def rough_loss(part: Part) -> Callable[[float], float]:
    """Return the loss of an output in doubles."""
    scale, gaussian = float(part.scale), part.noise == "gaussian"
    laws = [[(math.log(float(w)), float(s)) for s, w in law.items()] for law in (part.p, part.q)]

    def log_density(law: list[tuple[float, float]], x: float) -> float:
        if gaussian:
            each = [log + s * (x - s / 2) / scale**2 for log, s in law]
        else:
            each = [log - abs(x - s) / scale for log, s in law]
        top = max(each)
        return top + math.log1p(math.fsum([math.exp(e - top) for e in each]) - 1)

    return lambda x: log_density(laws[0], x) - log_density(laws[1], x)


def nodes(part: Part, targets: list[float]) -> list[float]:
    """Return outputs at which the loss is about each of the ascending targets, where there are such."""
    shifts = [float(s) for s in (*part.p, *part.q)]
    reach = (50.0 if part.noise == "gaussian" else 0.0) * float(part.scale)
    low, high = min(shifts) - reach, max(shifts) + reach
    low = low if part.low is None else max(low, float(part.low))
    high = high if part.high is None else min(high, float(part.high))
    found: list[float] = []
    loss = rough_loss(part)
    top, at, value, step = loss(high), low, loss(low), (high - low) / 1000
    for target in targets:
        if not value < target < top:
            continue
        after = min(at + step, high)
        ahead = loss(after)
        while ahead < target and after < high:
            at, value, step = after, ahead, 2 * step
            after = min(after + step, high)
            ahead = loss(after)
        below, over, under, upper = at, after, value, ahead
        for turn in range(200):
            share = (target - under) / (upper - under) if turn % 3 < 2 and upper > under else 0.5
            middle = below + min(max(share, 1e-3), 1 - 1e-3) * (over - below)
            if not below < middle < over:
                break
            here = loss(middle)
            if here < target:
                below, under = middle, here
            else:
                over, upper = middle, here
            if abs(here - target) <= 2e-16 * max(1.0, abs(target)):
                break
        best = below if abs(under - target) < abs(upper - target) else over
        step = max((best - at), 1e-12) * 1.5
        at, value = best, loss(best)
        found.append(best)
    return found


# ---------------------------------------------------------------- V11: cells of a step


class Grid(NamedTuple):
    """Losses start + i * spacing of a step, which of them are nodes, and how much fewer in each part."""

    start: arb
    spacing: arb
    ranges: list[tuple[int, int, int]]
    coarser: list[int]

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


def density(part: Part, law: dict[Fraction, arb], x: arb) -> arb:
    """Density of a mixture at x, up to what P and Q share."""
    total = arb(0)
    for shift, weight in law.items():
        s = exact(shift)
        if part.noise == "gaussian":
            total += weight * (s * (x - s / 2) / part.scale**2).exp()
        else:
            total += weight * (-abs(x - s) / part.scale).exp()
    return total


def end_of_loss(part: Part, upper: bool) -> arb | None:
    """Bound on the loss beyond all nodes, or None if there is none: its limit, as it does not decrease."""
    bound = part.high if upper else part.low
    if bound is not None:
        x = exact(bound)
        return (density(part, part.p, x) / density(part, part.q, x)).log()
    if part.noise == "laplace":
        outermost = (max if upper else min)((*part.p, *part.q))
        x = exact(outermost)
        return (density(part, part.p, x) / density(part, part.q, x)).log()
    ends = [(max if upper else min)(law) for law in (part.p, part.q)]
    return (part.p[ends[0]] / part.q[ends[1]]).log() if ends[0] == ends[1] else None


def cells_of_part(part: Part, targets: list[float]) -> list[Cell]:
    """Cut the outputs of a part at nodes, and enclose probabilities and losses of the cells."""
    places = [arb(x) for x in nodes(part, targets)]
    low, high = (None if end is None else exact(end) for end in part[5:])
    places = [x for x in places if (low is None or x > low) and (high is None or x < high)]
    if part.noise == "laplace":  # outputs beyond all shifts have one loss
        for end in (min((*part.p, *part.q)), max((*part.p, *part.q))):
            x = exact(end)
            if (low is None or x > low) and (high is None or x < high):
                places.append(x)
        places.sort(key=float)
        places = [x for i, x in enumerate(places) if i == 0 or x > places[i - 1]]
    if any(not a < b for a, b in pairwise(places)):
        raise NotProvenError("V11: the nodes are not in order")
    losses = [(density(part, part.p, x) / density(part, part.q, x)).log() for x in places]
    bounds: list[arb | None] = [end_of_loss(part, False), *losses, end_of_loss(part, True)]
    laws = [(part.p, mirrored(part.p)), (part.q, mirrored(part.q))]

    def tail(which: int, x: arb | None, right: bool) -> arb:
        """Probability of outputs above x, or below it."""
        if x is None:
            return arb(0)
        if right != bool(x > 0):
            return arb(0)  # not needed
        return above(part.noise, part.scale, laws[which][0 if right else 1], x if right else -x)

    ends: list[arb | None] = [low, *places, high]
    sides = [[(tail(w, x, False), tail(w, x, True)) for x in ends] for w in (0, 1)]
    found = []
    for i, (first, last) in enumerate(pairwise(ends)):
        masses = []
        for side in sides:
            if last is not None and not last > 0:
                mass = side[i + 1][0] - side[i][0]
            elif first is not None and first > 0:
                mass = side[i][1] - side[i + 1][1]
            else:
                mass = 1 - side[i][0] - side[i + 1][1]
            masses.append(part.weight * mass.max(arb(0)))
        found.append(Cell(masses[0], masses[1], bounds[i], bounds[i + 1]))
    return found


def cells(step: Step, grid: Grid, half: bool) -> list[Cell]:
    """Return the cells of a step."""
    found, coarser = [], iter(grid.coarser)
    for each in step:
        if isinstance(each, Atom):
            loss = (each.p / each.q).log()
            found.append(Cell(each.p, each.q, loss, loss))
        else:
            found += cells_of_part(each, grid.targets(half, next(coarser)))
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


def composed(kinds: list[Kind], window: Window) -> list[arb]:
    """Tilted law of the run, folded to the window: by residue of the place."""
    total: list[acb] | None = None
    for kind in kinds:
        folded = [acb(0)] * window.points
        for i, mass in kind.masses.items():
            folded[i % window.points] += mass * (window.tilt * kind.grid.at(i)).exp()
        turned = [each**kind.steps for each in acb.dft(folded)]
        total = turned if total is None else [a * b for a, b in zip(total, turned, strict=True)]
    return [each.real for each in acb.dft(total or [acb(1)] * window.points, inverse=True)]


def sums(kinds: list[Kind], window: Window, epsilons: list[arb]) -> list[arb]:
    """Sum (1 - e^(epsilon - loss))_+ over the window, which counts losses outside it too (V12)."""
    folded = composed(kinds, window)
    spacing = kinds[0].grid.spacing
    offset = sum((kind.steps * kind.grid.start for kind in kinds), arb(0))
    found = []
    for epsilon in epsilons:
        if not offset + window.first * spacing <= epsilon:
            raise NotProvenError("V12: the window must begin below epsilon")
        # The last place that is surely at most epsilon; places may be too large for doubles.
        known = ((epsilon - offset) / spacing).lower().floor().unique_fmpz()
        start = 0 if known is None else max(0, int(known) - window.first)
        loss = offset + (window.first + start) * spacing
        weight, total = (-window.tilt * loss).exp(), arb(0)
        factor, excess, ratio = (-window.tilt * spacing).exp(), (epsilon - loss).exp(), (-spacing).exp()
        for place in range(window.first + start, window.first + window.points):
            total += folded[place % window.points] * weight * (1 - excess).max(arb(0))
            weight, excess = weight * factor, excess * ratio
        found.append(total)
    return found


def moments(kinds: list[Kind], tilt: arb) -> arb:
    """E[e^(tilt S)] of the law on the lattice."""
    found = arb(1)
    for kind in kinds:
        found *= kind.moment(tilt) ** kind.steps
    return found


def laws(run: object, direction: str, witness: Object) -> list[tuple[Kind, arb, Kind]]:
    """Laws of every kind of step: the upper one, with its mass of infinite loss, and the lower one."""
    steps = steps_in_parts(run, direction)
    spacing = number(witness["spacing"], "spacing", 1e-12, 1e6)
    tilt = number(witness["tilt"], "tilt", 0.0, 1e6)
    given, found, work = items(witness["kinds"], "kinds", len(steps), len(steps)), [], 0
    grids = []
    for entry, (step, _) in zip(given, steps, strict=True):
        entry = fields(entry, "a kind", "start ranges coarser")
        start, ranges = number(entry["start"], "start", -1e6, 1e6), []
        for each in items(entry["ranges"], "ranges", 0, 128):
            first, last, stride = items(each, "a range", 3, 3)
            whole(first, "first", -LARGEST_INDEX, LARGEST_INDEX)
            whole(last, "last", first, LARGEST_INDEX)
            ranges.append((first, last, whole(stride, "stride", 1, LARGEST_INDEX)))
        sizes = [len(part.p) + len(part.q) for part in step if isinstance(part, Part)]
        coarser = items(entry["coarser"], "coarser", len(sizes), len(sizes))
        for size, times in zip(sizes, coarser, strict=True):
            whole(times, "coarser", 1, LARGEST_INDEX)
            work += size * sum((last - first) // (stride * times) + 1 for first, last, stride in ranges)
        grids.append(Grid(start, spacing, ranges, coarser))
    points = len(steps) * whole(witness["points"], "points", 2, LARGEST_POINTS)
    if max(work, points // 2) * ctx.prec > LARGEST_CELLS * 128:
        raise RefusedError("the witness asks for more cells than are computed")
    for grid, (step, count) in zip(grids, steps, strict=True):
        largest = max([1.0, *(abs(float(grid.at(i))) for r in grid.ranges for i in r[:2])])
        slack = arb(EXACT * largest)
        up, lost = rounded_up(cells(step, grid, False), grid, slack)
        down, sink = rounded_down(cells(step, grid, True), grid, tilt)
        raised = Grid(grid.start + slack, spacing, [], [])
        found.append(
            (Kind(up, raised, count), lost, Kind(down, Grid(grid.start - sink, spacing, [], []), count))
        )
    return found


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon (V11, V12)."""
    window = window_of(witness)
    if window.points * len(epsilons) * ctx.prec > LARGEST_SUMS * 128:
        raise RefusedError("the witness asks for more sums over the window than are computed")
    both = laws(run, direction, witness)
    upper, lower = [kind for kind, _, _ in both], [kind for _, _, kind in both]
    lost = sum((kind.steps * mass for kind, mass, _ in both), arb(0))
    spacing, period = upper[0].grid.spacing, upper[0].grid.spacing * window.points
    top = sum((k.steps * k.grid.start for k in upper), arb(0)) + (window.first + window.points) * spacing
    above_window = (-window.outer * top).exp() * moments(upper, window.outer)
    most = [each + lost + above_window for each in sums(upper, window, epsilons)]
    end = sum((k.steps * k.grid.start for k in lower), arb(0)) + (window.first + window.points) * spacing
    under = moments(lower, -window.left) * (window.left * end).exp()
    under /= ((window.tilt + window.left) * period).exp() - 1
    outer = moments(lower, window.outer) / (((window.outer - window.tilt) * period).exp() - 1)
    found = []
    for epsilon, most_here, least in zip(epsilons, most, sums(lower, window, epsilons), strict=True):
        aliases = under + (-window.outer * epsilon).exp() * outer
        found.append((least - aliases).union(most_here))
    return found
