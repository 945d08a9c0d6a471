"""Cells of a step: outputs between nodes, with enclosures of their probabilities and losses (V11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from flint import arb

from hockeystick_verify.checker import NotProvenError, exact
from hockeystick_verify.parts import Part, one_above

Loss = Callable[[float], tuple[float, float]]
"""The loss of an output in doubles, and its slope there."""
NEWTON_STEPS = 6
"""Steps to a node from the one before: three are enough, unless the loss has a bend between them."""
NEAR = 4e-16
"""How far the loss of a node may be from the target, relative to the latter: about what doubles can do."""


class Cell(NamedTuple):
    """Outputs with losses between two bounds (None: no bound), and their probabilities under P and Q."""

    p: arb
    q: arb
    low: arb | None
    high: arb | None


# ---------------------------------------------------------------- nodes: chosen, not believed


def rough_loss(part: Part) -> Loss:
    """Return the loss of an output in doubles, and its slope there."""
    scale, gaussian = float(part.scale), part.noise == "gaussian"

    def log_density(law: dict[Fraction, arb]) -> Loss:
        """Return the logarithm of the density of a mixture, and its slope, as a function of the output."""
        each = [(float(w.log()), float(s)) for s, w in law.items()]
        lines = [(log, s / scale**2, s / 2) for log, s in each]

        def of_gaussian(x: float) -> tuple[float, float]:
            """Log density and slope of shifted Gaussians, over the one that is not shifted."""
            logs = [log + slope * (x - middle) for log, slope, middle in lines]
            top = max(logs)
            sizes = [math.exp(log - top) for log in logs]
            total = math.fsum(sizes)
            tilted = sum([size * slope for size, (_, slope, _) in zip(sizes, lines, strict=True)])
            return top + math.log(total), tilted / total

        def of_laplace(x: float) -> tuple[float, float]:
            """Log density and slope of shifted Laplace laws, up to a constant."""
            logs = [log - abs(x - s) / scale for log, s in each]
            top = max(logs)
            sizes = [math.exp(log - top) for log in logs]
            total = math.fsum(sizes)
            tilted = sum([size * math.copysign(1.0, s - x) for size, (_, s) in zip(sizes, each, strict=True)])
            return top + math.log(total), tilted / total / scale

        if gaussian and len(lines) == 1:
            ((log, slope, middle),) = lines
            return lambda x: (log + slope * (x - middle), slope)
        return of_gaussian if gaussian else of_laplace

    of_p, of_q = log_density(part.p), log_density(part.q)

    def loss(x: float) -> tuple[float, float]:
        """Log of the density of P over that of Q, and its slope."""
        (above, rise), (below, fall) = of_p(x), of_q(x)
        return above - below, rise - fall

    return loss


def newton(
    loss: Loss, start: tuple[float, float, float], target: float, high: float
) -> tuple[float, float, float] | None:
    """Return an output above `start` with the loss of the target, that loss and the slope; None without one.

    An output is given by itself, its loss and the slope of the loss.
    """
    at, value, slope = start
    for _ in range(NEWTON_STEPS):
        if not slope > 0.0:
            return None
        at += (target - value) / slope
        if not start[0] < at < high:
            return None
        value, slope = loss(at)
        if abs(value - target) <= NEAR * max(1.0, abs(target)):
            return at, value, slope
    return None


def nodes(part: Part, targets: list[float]) -> list[float]:
    """Return outputs at which the loss is about each of the ascending targets, where there are such."""
    shifts = [float(s) for s in (*part.p, *part.q)]
    reach = (50.0 if part.noise == "gaussian" else 0.0) * float(part.scale)
    low, high = min(shifts) - reach, max(shifts) + reach
    low = low if part.low is None else max(low, float(part.low))
    high = high if part.high is None else min(high, float(part.high))
    found: list[float] = []
    loss = rough_loss(part)
    top, step = loss(high)[0], (high - low) / 1000
    here = (low, *loss(low))
    for target in targets:
        if not here[1] < target < top:
            continue
        best = newton(loss, here, target, high)
        if best is None:
            place = bracketed(loss, (here[0], here[1], step), target, high)
            best = (place, *loss(place))
        step = max(best[0] - here[0], 1e-12) * 1.5
        here = best
        found.append(best[0])
    return found


def bracketed(loss: Loss, start: tuple[float, float, float], target: float, high: float) -> float:
    """Return an output at which the loss is that of the target, or where it jumps over it.

    The start is an output with a smaller loss, that loss, and the first step from there.
    """
    at, value, step = start
    after = min(at + step, high)
    ahead = loss(after)[0]
    while ahead < target and after < high:
        at, value, step = after, ahead, 2 * step
        after = min(after + step, high)
        ahead = loss(after)[0]
    below, over, under, upper = at, after, value, ahead
    for turn in range(200):
        share = (target - under) / (upper - under) if turn % 3 < 2 and upper > under else 0.5
        middle = below + min(max(share, 1e-3), 1 - 1e-3) * (over - below)
        if not below < middle < over:
            break
        found = loss(middle)[0]
        if found < target:
            below, under = middle, found
        else:
            over, upper = middle, found
        if abs(found - target) <= NEAR * max(1.0, abs(target)):
            break
    return below if abs(under - target) < abs(upper - target) else over


# ---------------------------------------------------------------- V11: cells


def density(part: Part, law: dict[Fraction, arb], x: arb) -> arb:
    """Density of a mixture at x, up to what P and Q share."""
    return density_of(part, [(exact(shift), weight) for shift, weight in law.items()], x)


def density_of(part: Part, law: list[tuple[arb, arb]], x: arb) -> arb:
    """Density at x of a mixture whose shifts are balls."""
    total = arb(0)
    variance = part.scale**2
    for s, weight in law:
        if s.is_zero() and part.noise == "gaussian":
            total += weight
        elif part.noise == "gaussian":
            total += weight * (s * (x - s / 2) / variance).exp()
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
    laws = [[(exact(shift), weight) for shift, weight in law.items()] for law in (part.p, part.q)]
    losses = [(density_of(part, laws[0], x) / density_of(part, laws[1], x)).log() for x in places]
    bounds: list[arb | None] = [end_of_loss(part, False), *losses, end_of_loss(part, True)]
    shifts = [(exact(shift), part.p.get(shift), part.q.get(shift)) for shift in {**part.p, **part.q}]

    def tails(x: arb | None, right: bool) -> tuple[arb, arb]:
        """Probabilities of outputs above x, or below it, under P and under Q."""
        p, q = arb(0), arb(0)
        if x is None or right != bool(x > 0):
            return p, q  # where there is an output, they are not needed
        for shift, of_p, of_q in shifts:
            beyond = one_above(part.noise, part.scale, x - shift if right else shift - x)
            p = p if of_p is None else p + of_p * beyond
            q = q if of_q is None else q + of_q * beyond
        return p, q

    ends: list[arb | None] = [low, *places, high]
    each = [(tails(x, False), tails(x, True)) for x in ends]
    sides = [[(left[w], right[w]) for left, right in each] for w in (0, 1)]
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
