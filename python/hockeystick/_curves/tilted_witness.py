"""Numbers that make the proof about dealt batches short where delta is very small: a line near the saddle.

Nothing here is proven, as in `hockeystick._curves.witness`. Errors are estimated for the bounds of V27.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hockeystick._curves.described_run import DEALT, laws
from hockeystick._curves.witness import Kind, Outputs, Witness, smallest
from hockeystick._extras import needed

TILTS = (0.5, 1.0, 1.5, 2.5, 3.5, 5.5, 7.5, 10.5, 14.5, 20.5, 28.5, 40.5, 56.5, 78.5, 108.5)
"""Tilts that are tried."""
OUTER = (1.15, 1.35, 1.6, 2.0, 3.0, 4.5)
"""Tilts beyond the line, as multiples of it."""
LOST = (8.0, 16.0, 30.0, 60.0, 120.0, 240.0, 480.0)
"""Digits, in natural logarithms, that the turned ray may cost at the end of the line."""
LARGEST_TURN = 1.2
"""Largest angle between the ray and the imaginary axis."""
MORE_ORDERS = (0, 2, 8, 14)
"""By how much the order may be larger than it has to be: the ray is shorter then."""
STRIPS = tuple(j / 16 for j in range(1, 25))
"""Widths of strips, as angles below a right angle: those among which the checker takes the best."""
LARGEST_MOMENT = 400
"""Largest whole moment that is computed, for estimates too."""
LARGEST_OUTER = 250.0
"""Largest outer tilt: the checker takes 256, and moments are known up to `LARGEST_MOMENT`."""
REACH = 48.0
"""Standard deviations of the outputs that are looked at."""
MOST_WORK = 1.2e8
"""Products that a rule takes, with 256 bits: some 40 seconds."""
MOST_BITS, MOST_TERMS = 4096, 10**5
"""Bits of the balls, and points of the line: limits of the checker."""
NEGLIGIBLE = 25.0
"""How much below the target, in natural logarithms, the integrand is where a larger tilt gains nothing."""


class _Moments:
    """Logarithms of moments E[W^power] of an allocation to several batches, in doubles."""

    def __init__(self, allocation: Any) -> None:
        moments = needed("hockeystick_verify.dealt_moments", "verify")
        epoch = moments.of_allocation(allocation)
        self.allocation = allocation
        self.logs = [float(each.log()) for each in moments.whole_moments(epoch, LARGEST_MOMENT)]
        g = np.linspace(-REACH, REACH, 2401)  # negative moments are decided far below
        normal = -(g**2) / 2 + math.log((g[1] - g[0]) / math.sqrt(2 * math.pi))
        # E[e^(-s W)] for s = e^u
        self.u = np.linspace(-60.0, 240.0, 1101) + math.log(allocation.total)
        total, self.least = np.zeros_like(self.u), np.zeros_like(self.u)
        variances = [(allocation.batches, float(allocation.variance))]
        variances.append((allocation.others, float(allocation.variance_of_others)))
        for number, variance in variances:
            if number:
                values = math.sqrt(variance) * g - variance / 2 - math.log(allocation.total)
                with np.errstate(over="ignore"):
                    each = normal[None, :] - np.exp(self.u[:, None] + values[None, :])
                top = each.max(axis=1)
                one = top + np.log(np.exp(each - top[:, None]).sum(axis=1))
                total += number * one
                self.least = np.minimum(self.least, one)
        self.transform = total

    def log(self, power: float) -> float:
        """Logarithm of E[W^power], about."""
        if power >= 0.0:
            low = math.floor(power)
            part = power - low
            return (1 - part) * self.logs[low] + part * self.logs[min(low + 1, LARGEST_MOMENT)]
        each = self.transform - power * self.u
        top = float(each.max())
        total = top + math.log(float(np.exp(each - top).sum()) * (self.u[1] - self.u[0]))
        return total - math.lgamma(-power)


class RunInDoubles:
    """A run with dealt batches in one direction, in doubles."""

    def __init__(self, run: dict[str, Any], direction: str) -> None:
        self.checker = needed("hockeystick_verify.tilted_allocation", "verify")
        flint = needed("flint", "verify")
        flint.ctx.prec, self.arb = 128, flint.arb
        self.epochs, others, self.hidden = self.checker.run_of(run, direction)
        self.moments = [_Moments(allocation) for allocation, _ in self.hidden]
        rest = [step for step in run["steps"] if step["sampling"]["name"] not in DEALT]
        self.kinds: list[Kind] = []
        self.mu_squared = float(others.mu_squared)
        if rest:
            self.kinds, self.mu_squared = laws({**run, "steps": rest}, direction)
        self.count = sum(epoch.epochs for epoch in self.epochs) + sum(kind.steps for kind in self.kinds)

    def log_moment(self, allocation: Any, added: bool, tilt: float) -> float:
        """Logarithm of E[e^(tilt loss)] of an allocation."""
        if allocation.is_gaussian:
            return tilt * (tilt + 1) * float(allocation.variance) / 2
        place: int = self.checker.place_of(self.hidden, allocation, added)
        return self.moments[place].log(-tilt if added else 1 + tilt)

    def cumulant(self, tilt: float) -> float:
        """Logarithm of E[e^(tilt loss)] of the run."""
        total = self.mu_squared * tilt * (tilt + 1) / 2
        total += sum(kind.steps * Outputs(kind, tilt).moment(tilt) for kind in self.kinds)
        for epoch in self.epochs:
            each = [
                float(probability.log()) + sum(self.log_moment(one, epoch.added, tilt) for one in dealt)
                for probability, dealt in epoch.patterns
            ]
            top = max(each)
            total += epoch.epochs * (top + math.log(sum(math.exp(one - top) for one in each)))
        return total

    def end(self, tilt: float, decays: list[Any], y: float) -> float:
        """Logarithm of a bound on the transform beyond y, relative to that on the real line."""
        total, at = -(y**2) * self.mu_squared / 2, self.arb(y)
        for kind, each in zip(self.kinds, decays, strict=True):
            total += kind.steps * min(0.0, smallest(each, y)[0])
        for epoch in self.epochs:
            power = self.arb(-tilt if epoch.added else 1 + tilt)
            bound, whole = self.arb(0), self.arb(0)
            for probability, dealt in epoch.patterns:
                part = most = probability
                for one in dealt:
                    moment = self.arb(self.log_moment(one, epoch.added, tilt)).exp()
                    part, most = part * self.checker.decay(one, power, moment, at), most * moment
                bound, whole = bound + part, whole + most
            total += epoch.epochs * min(0.0, float((bound / whole).log()))
        return total


class _Line(NamedTuple):
    """A line, what its moments need, and the logarithms of bounds."""

    tilt: float
    outer: float
    spacing: float
    last: float
    digits: float
    """Digits of the moments, in natural logarithms."""
    decays: list[Any]


def tilted_witness(
    run: dict[str, Any], direction: str, epsilon: float, log_delta: float, tolerance: float
) -> dict[str, Any] | None:
    """Return the cheapest witness for an interval of this relative width, or None if all take too long."""
    found = RunInDoubles(run, direction)
    best: tuple[float, dict[str, Any] | None] = (MOST_WORK, None)
    target, before = log_delta + math.log(tolerance) - 2.0, math.inf
    for tilt in TILTS:
        level = found.cumulant(tilt) - tilt * epsilon
        if level > before + 1.0 or before < target - NEGLIGIBLE:
            break
        before = level
        line = _line(found, tilt, epsilon, target)
        if line is not None:
            best = min(best, _witness(found, line), key=lambda each: each[0])
    return best[1]


def _line(run: RunInDoubles, tilt: float, epsilon: float, target: float) -> _Line | None:
    """Return the line with a tilt, or None if it would have too many points."""
    best = (math.inf, 0.0)
    for part in OUTER:
        outer = float(math.ceil(part * tilt)) if part * tilt > 1.0 else 1.0
        if outer > LARGEST_OUTER or outer <= tilt:
            continue
        beyond = run.cumulant(outer) - outer * epsilon
        best = min(best, (max((1.0 - target) / tilt, (beyond + 1.0 - target) / (outer - tilt)), outer))
    period, outer = best
    if not outer:
        return None
    level = run.cumulant(tilt) - tilt * epsilon
    decays = [Outputs(kind, tilt).decays(tilt) for kind in run.kinds]
    spacing = float(f"{2 * math.pi / period:.4g}") * 0.999
    low = high = spacing
    while run.end(tilt, decays, high) + level - math.log(math.pi * high) > target:
        low, high = high, 2.0 * high
        if high > MOST_TERMS * spacing:
            return None
    for _ in range(9):
        middle = math.sqrt(low * high)
        ended = run.end(tilt, decays, middle) + level - math.log(math.pi * middle) <= target
        low, high = (low, middle) if ended else (middle, high)
    digits = max(level - target, 5.0) + math.log(run.count) + math.log1p(1 / tilt) + 5.0
    return _Line(tilt, outer, spacing, high, digits, decays)


def _witness(run: RunInDoubles, line: _Line) -> tuple[float, dict[str, Any] | None]:
    """Return the work of a line with the cheapest rules, and its witness."""
    terms = math.ceil(line.last / line.spacing)
    rules, bits, work = [], 0.0, 0.0
    for (allocation, added), moments in zip(run.hidden, run.moments, strict=True):
        turns = sorted({min(LARGEST_TURN, lost / line.last) for lost in LOST})
        found = (_rule(allocation, added, moments, line, *each) for each in product(turns, MORE_ORDERS))
        tried = [each for each in found if each is not None]
        if not tried:
            return math.inf, None
        cost, needed_bits, rule = min(tried, key=lambda each: each[0] * max(each[1], 128.0))
        rules.append(rule)
        bits, work = max(bits, needed_bits), work + cost
    witness: dict[str, Any] = {"method": "tilted_allocation", "tilt": line.tilt, "outer_tilt": line.outer}
    witness |= {"spacing": line.spacing, "terms": terms, "rules": rules}
    bits = float(math.ceil(max(bits, line.digits / math.log(2.0) + 48)))
    if run.kinds:
        cost, numbers = _Drawn(run, line).numbers()
        witness["kinds"], work = numbers["kinds"], work + cost / 4.0
    if bits > MOST_BITS or terms > MOST_TERMS:
        return math.inf, None
    return work * bits / 256, {"bits": int(bits), **witness}


class _Drawn(Witness):
    """Nodes of the steps that are not dealt."""

    def __init__(self, run: RunInDoubles, line: _Line) -> None:
        self.kinds, self.mu_squared = run.kinds, run.mu_squared
        self.tilt, self.outer, self.spacing = line.tilt, line.outer, line.spacing
        self.steps, self.digits, self.bits = run.count, line.digits, 128
        self.deviations = math.sqrt(2.0 * line.digits) + 0.5
        self.line = line

    def numbers(self) -> tuple[float, dict[str, Any]]:
        """Return the cost, and a witness with the nodes."""
        bounds = [smallest(each, self.line.last) for each in self.line.decays]
        near = [min(max(bound, -300.0), 1.0) for bound, _ in bounds]
        accuracies = [math.log(0.1 * min(math.exp(bound), max(-math.expm1(bound), 1e-12))) for bound in near]
        each = [Outputs(kind, self.tilt) for kind in self.kinds]
        return self._numbers(each, self.line.last, [shift for _, shift in bounds], accuracies, None)


def _log_gamma(shape: float, y: float) -> float:
    """Logarithm of |Gamma(shape + iy)|."""
    return float(needed("flint", "verify").acb(shape, y).lgamma().real)


class _Ray(NamedTuple):
    """What a rule is for: E[W^power] along the line, and how large the errors of its sums may be."""

    allocation: Any
    moments: _Moments
    power: float
    order: int
    outer_shape: float
    """Order above the power beyond the line, where that has a sum over the same nodes; else 0."""
    log_moment: float
    angle: float
    at_zero: float
    at_last: float
    """Logarithms of the largest errors of a sum over the ray, at both ends of the line."""
    last: float

    @property
    def shape(self) -> float:
        """Order above the power."""
        return self.order - self.power

    @property
    def allowed(self) -> float:
        """Logarithm of the largest error at all points."""
        return min(self.at_zero, self.at_last)


def _rule(
    allocation: Any, added: bool, moments: _Moments, line: _Line, turn: float, more: int
) -> tuple[float, float, dict[str, Any]] | None:
    """Return the work and the bits of a rule for one allocation, and the rule."""
    power = -line.tilt if added else 1.0 + line.tilt
    order = more + (int(line.tilt < 1.0) if added else math.floor(power) + 1)
    angle = float(f"{math.pi / 2 - turn:.6f}")
    log_moment = moments.log(power)
    least = log_moment - line.digits - 2.0
    ray = _Ray(
        allocation,
        moments,
        power,
        order,
        order + line.outer if added else 0.0,
        log_moment,
        angle,
        math.lgamma(order - power) + least,
        _log_gamma(order - power, line.last) + least + angle * line.last,
        line.last,
    )
    period, outer_angle = _period(ray)
    if period > 1e4:
        return None
    start = (ray.allowed - moments.logs[order] - 1.0 + math.log(min(1.0, ray.shape))) / ray.shape
    end, decay = _end(ray)
    rule = {"order": order, "angle": angle, "outer_angle": outer_angle, "start": start, "decay": decay}
    terms = math.ceil(line.last / line.spacing)
    return _with_outputs(ray, rule, end, 2 * math.pi / period * 0.999, terms)


def _period(ray: _Ray) -> tuple[float, float]:
    """Return 2 pi over the spacing of the nodes, and the angle of the ray of its bound."""
    best = (math.inf, 0.0)
    for part in range(1, 16):
        outer = ray.angle + (math.pi / 2 - ray.angle) * part / 16
        away, both, turn = outer - ray.angle, outer + ray.angle, -math.log(math.cos(outer))
        most = math.lgamma(ray.shape) + ray.shape * turn + ray.log_moment
        period = max(
            (most - ray.at_zero) / away,
            (most - ray.at_last) / away - ray.last,
            ray.last + (most - ray.at_last) / both,
            (ray.outer_shape * turn + 2.0) / away,
        )
        best = min(best, (period, outer))
    return best


def _end(ray: _Ray) -> tuple[float, int]:
    """Return where the ray may end, and the power of the bound on what is beyond."""
    half, total = float(ray.allocation.mean_variance) / 2, ray.allocation.total
    best, turn = (math.inf, 1), -math.log(math.cos(ray.angle))
    levels = [(ray.shape, ray.allowed)]
    if ray.outer_shape:
        beyond = ray.moments.log(ray.order - ray.outer_shape)
        levels.append((ray.outer_shape, math.lgamma(ray.outer_shape) + beyond - 3.0))
    k = math.floor(max(shape for shape, _ in levels)) + 1
    for _ in range(100):
        if k >= ray.order:
            bound = k * (math.log(k) - 1.0 + turn) + (1 + (k - ray.order) / total) * (k - ray.order) * half
            end = max((bound - level + 2.0) / (k - shape) for shape, level in levels)
            if end > best[0] + 1.0:
                break
            best = min(best, (end, k))
        k += max(1, k // 10)
    return best


def _with_outputs(
    ray: _Ray, rule: dict[str, Any], end: float, spacing: float, terms: int
) -> tuple[float, float, dict[str, Any]] | None:
    """Return a rule with nodes and outputs on one lattice, its work and its bits."""
    allocation, order, angle = ray.allocation, ray.order, ray.angle
    log_total = math.log(allocation.total)
    relative = math.lgamma(ray.shape) + ray.log_moment - ray.shape * math.log(math.cos(angle))
    relative += log_total - ray.allowed + 6.0
    variances = [float(allocation.variance)]
    if allocation.others and float(allocation.variance_of_others) > 0.0:
        variances.append(float(allocation.variance_of_others))
    absolute = _largest_loss(ray) + log_total - ray.allowed + 6.0
    absolute = max(absolute, (6.0 - ray.power * end - ray.allowed) / allocation.total)
    digits = relative
    if ray.power > 0.0:  # both bounds meet at the node whose error counts most
        relative = absolute = max(relative, absolute)
    widths, reaches, turned = [], [], 0.0
    for v in variances:
        turned = max(turned, angle**2 / (2 * v))
        grown = [(strip, (angle + strip) ** 2 / (2 * v)) for strip in STRIPS]
        widths.append(max(2 * math.pi * strip / (relative + more) for strip, more in grown))
        each = ((s, more - order * math.log(math.cos(s))) for s, more in grown)
        widths.append(max(2 * math.pi * strip / (absolute + more) for strip, more in each))
        needs = order * math.sqrt(v) + math.sqrt(2 * (relative + angle**2 / (2 * v))) + 1.0
        reaches.append(
            math.sqrt(v) * max(needs, math.sqrt(2 * (max(absolute, 0.0) + angle**2 / (2 * v))) + 1.0)
        )
    width = min(widths)
    if width >= spacing:
        unit, stride, wide = spacing, 1, min(64, math.floor(width / spacing))
    else:
        unit, stride, wide = width, min(64, math.floor(spacing / width)), 1
    rule |= {"unit": unit, "stride": stride, "output_stride": wide}
    rule |= {"nodes": max(2, math.ceil((end - rule["start"]) / (unit * stride)) + 1)}
    rule |= {"outputs": math.ceil(max(reaches) / (unit * wide))}
    checker = needed("hockeystick_verify.tilted_allocation", "verify")
    try:
        work = checker.rule_of(rule).work(terms, allocation)
    except checker.RefusedError:
        return None
    if rule["nodes"] * (order + 1) > checker.LARGEST_SERIES:
        return None
    return work, (digits + turned + 30.0) / math.log(2.0) + 48, rule


def _largest_loss(ray: _Ray) -> float:
    """Logarithm of how much an error of one batch, whatever the node is, adds to the sum, about."""
    moments, order, total = ray.moments, ray.order, ray.allocation.total
    if ray.power < 0.0:
        each = -ray.power * moments.u + moments.transform - moments.least
        return float(each.max()) + math.lgamma(order + 1)
    variance = float(ray.allocation.variance)
    crossing = math.log(total) - (order - 1) * variance / 2 + math.lgamma(order + 1) / order
    return math.lgamma(order + 1) - ray.power * crossing
