"""Cells of a step: outputs between nodes, with enclosures of their probabilities and losses (V11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from flint import arb

from hockeystick_verify.checker import NotProvenError, exact
from hockeystick_verify.parts import Part, above, mirrored


class Cell(NamedTuple):
    """Outputs with losses between two bounds (None: no bound), and their probabilities under P and Q."""

    p: arb
    q: arb
    low: arb | None
    high: arb | None


# ---------------------------------------------------------------- nodes: chosen, not believed


def rough_loss(part: Part) -> Callable[[float], float]:
    """Return the loss of an output in doubles."""
    scale, gaussian = float(part.scale), part.noise == "gaussian"
    laws = [[(float(w.log()), float(s)) for s, w in law.items()] for law in (part.p, part.q)]

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


# ---------------------------------------------------------------- V11: cells


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
    totals = [sum(law.values(), arb(0)) for law in (part.p, part.q)]  # below 1 where shifts are left out
    found = []
    for i, (first, last) in enumerate(pairwise(ends)):
        masses = []
        for side, total in zip(sides, totals, strict=True):
            if last is not None and not last > 0:
                mass = side[i + 1][0] - side[i][0]
            elif first is not None and first > 0:
                mass = side[i][1] - side[i + 1][1]
            else:
                mass = total - side[i][0] - side[i + 1][1]
            masses.append(part.weight * mass.max(arb(0)))
        found.append(Cell(masses[0], masses[1], bounds[i], bounds[i + 1]))
    return found
