"""Prove the claims of a privacy certificate in ball arithmetic.

A certificate is a JSON document with a run, claims on its privacy curve, and a witness: numbers that make the
proof short. Nothing in it is believed. The pair of distributions of every step is derived from the run
(V1, in `pairs.py`), and the curve is enclosed by sums over a line of the complex plane, of which every error
is bounded (V2 to V8). All numbers are balls of Arb (python-flint), which contain the true values. The
numbered statements, with their proofs, are in docs/theory/certificates.md. Nothing is imported of the
accountant whose certificates are checked.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from flint import acb, acb_mat, arb, arb_poly, ctx, fmpq

from hockeystick_verify.pairs import LARGEST_LAW, Composition, Law, Pair, composition
from hockeystick_verify.reading import NotProvenError, Object, RefusedError, fields, items, number, whole

LARGEST_WORK = 10**8
"""Most products of a node and a point of the line: about a minute."""
LARGEST_NODES, LARGEST_TERMS = 4 * 10**5, 2 * 10**5
USUAL_BITS = 128
NODE = 250
"""What a node costs besides, in products."""
CHUNK = 2048
"""Nodes that are in memory together."""
BISECTIONS = 512


# ---------------------------------------------------------------- V2: one step


def between(low: arb, high: arb) -> arb:
    """Return the smallest ball of both."""
    return low.union(high)


def normal_above(x: Any) -> Any:
    """Probability that a standard normal variable is above x, and its continuation to complex x."""
    return (x / arb(2).sqrt()).erfc() / 2


class Ratio:
    """Likelihood ratio r(x) of a mixture of N(s, sigma^2) against N(0, sigma^2), real or complex x."""

    def __init__(self, law: Law | None, sigma: arb) -> None:
        law = law or {Fraction(0): arb(1)}
        shifts = sorted(law)
        self.balls = [arb(fmpq(s.numerator, s.denominator)) for s in shifts]
        self.weights = [law[s] for s in shifts]
        self.largest = self.balls[-1]
        """Largest shift."""
        self.scale = 1 / sigma**2
        scaled = [w * (-s * s * self.scale / 2).exp() for w, s in zip(self.weights, self.balls, strict=True)]
        common = math.lcm(*(s.denominator for s in shifts))
        unit = Fraction(math.gcd(*(int(s * common) for s in shifts)) or 1, common)
        self.terms = scaled
        self.polynomial: arb_poly | None = None
        if shifts[-1] / unit <= LARGEST_LAW:
            coefficients = [arb(0)] * (int(shifts[-1] / unit) + 1)
            for shift, term in zip(shifts, scaled, strict=True):
                coefficients[int(shift / unit)] = term
            self.polynomial = arb_poly(coefficients)
            self.unit = arb(fmpq(unit.numerator, unit.denominator)) * self.scale

    def __call__(self, x: Any) -> Any:
        """Evaluate the ratio at a ball."""
        if self.polynomial is not None:
            return self.polynomial((self.unit * x).exp())
        start = x * 0
        return sum(
            (t * (s * self.scale * x).exp() for t, s in zip(self.terms, self.balls, strict=True)), start
        )

    def above(self, x: arb, sigma: arb) -> arb:
        """Probability that the mixture gives to outputs above x."""
        each = zip(self.weights, self.balls, strict=True)
        return sum((w * normal_above((x - s) / sigma) for w, s in each), arb(0))

    def below(self, x: arb, sigma: arb) -> arb:
        """Probability that the mixture gives to outputs below x."""
        each = zip(self.weights, self.balls, strict=True)
        return sum((w * normal_above((s - x) / sigma) for w, s in each), arb(0))


def one_step(pair: Pair, epsilon: arb) -> arb:
    """Enclose delta of one step (V2): the loss grows with the output, so a half line is the best test."""
    p, q, sigma = Ratio(pair.p, pair.sigma), Ratio(pair.q, pair.sigma), pair.sigma
    reach = ((1 + sigma**2) * (1 + abs(epsilon)) * 10**8).mid()

    def exceeds(x: arb) -> bool | None:
        """Whether the loss at x is certainly above or below epsilon; None where the balls overlap."""
        loss = p(x).log() - q(-x).log()
        return True if loss > epsilon else False if loss < epsilon else None

    def most(low: arb | None, high: arb | None) -> arb:
        """Bound delta if the loss is at most epsilon up to `low` and at least epsilon from `high` on."""
        within = arb(1) if low is None else p.above(low, sigma)
        return within - (arb(0) if high is None else epsilon.exp() * q.below(-high, sigma))

    low, high = -reach, reach
    ends = exceeds(low), exceeds(high)
    if ends != (False, True):
        upper = most(high if ends[1] is False else None, low if ends[0] else None)
        return between((1 - epsilon.exp()).max(arb(0)), upper.min(arb(1)))
    for _ in range(BISECTIONS):
        middle = ((low + high) / 2).mid()
        side = exceeds(middle)
        if side is None:
            break
        low, high = (low, middle) if side else (middle, high)
    return between(p.above(low, sigma) - epsilon.exp() * q.below(-low, sigma), most(low, high))


# ---------------------------------------------------------------- V5 to V7: moments of one step


class Nodes:
    """The trapezoid rule over the outputs of one step, and bounds on its errors."""

    def __init__(self, pair: Pair, witness: object, name: str) -> None:
        needed = "start spacing nodes height shift shift_strip"
        found = fields(witness, name, needed, "cut")
        self.p, self.q, self.sigma = Ratio(pair.p, pair.sigma), Ratio(pair.q, pair.sigma), pair.sigma
        self.start = number(found["start"], "start", -1e12, 0.0)
        self.spacing = number(found["spacing"], "spacing", 1e-9, 1e9)
        self.count = whole(found["nodes"], "nodes", 2, LARGEST_NODES)
        self.height = number(found["height"], "height", 1e-9, 1e9)
        self.shift = number(found["shift"], "shift", 1e-9, 1e9)
        self.shift_strip = number(found["shift_strip"], "shift_strip", 1e-9, 1e9)
        self.cut: tuple[arb, arb] | None = None
        if found.get("cut") is not None:
            cut = fields(found["cut"], "cut", "at width")
            self.cut = number(cut["at"], "at", -1e12, 1e12), number(cut["width"], "width", 1e-6, 1e9)
        largest = max(self.p.largest, self.q.largest, key=float) / self.sigma**2
        self.has_q = pair.q is not None
        self.angle = largest
        """Most that the argument of a likelihood ratio grows by when its argument is moved by i."""
        if not (2 * self.height * self.angle < 3 and (self.shift + self.shift_strip) * self.angle < 3):
            raise NotProvenError("V6: a strip reaches where the likelihood ratio may vanish")
        if not self.shift_strip <= self.shift:
            raise NotProvenError("V6: shift_strip must be at most shift")
        self.outputs = [self.start + i * self.spacing for i in range(self.count)]
        self.logs_p = [self.p(x).log() for x in self.outputs]
        self.logs_q = [self.q(-x).log() for x in self.outputs]
        self.losses = [p - q for p, q in zip(self.logs_p, self.logs_q, strict=True)]
        normal = self.spacing / (self.sigma * (2 * arb.pi()).sqrt())
        self.far, self.near = [arb(1)] * self.count, [arb(0)] * self.count
        """Probabilities of each output to be called far, and near (V8); 1 and 0 without a cut."""
        if self.cut is not None:
            away = [(x - self.cut[0]) / self.cut[1] for x in self.outputs]
            self.far, self.near = [normal_above(-x) for x in away], [normal_above(x) for x in away]
        self.noise = [normal * (-x * x / (2 * self.sigma**2)).exp() for x in self.outputs]

    def masses(self, tilt: arb) -> list[arb]:
        """Terms of the rule for E[e^(tilt loss)] under P."""
        each = zip(self.noise, self.logs_p, self.losses, strict=True)
        return [noise * (log_p + tilt * loss).exp() for noise, log_p, loss in each]

    def beyond(self, tilt: arb, near: bool = False) -> arb:
        """Bound the terms before the first and after the last node (V7), or those of the near part."""
        first, last, variance = self.outputs[0], self.outputs[-1], self.sigma**2
        slope_p = (1 + tilt) * self.p.largest / variance
        log_p, log_q = (1 + tilt) * self.logs_p[-1], tilt * self.logs_q[-1]
        ways = [(log_p - log_q, slope_p + tilt * self.q.largest / variance)]
        if self.q.balls[0].is_zero():
            ways.append((log_p - tilt * self.q.weights[0].log(), slope_p))
        after = None
        for start, slope in ways:
            if near and self.cut is not None:
                at, width = self.cut
                if not last > at:
                    raise NotProvenError("V7: the nodes do not reach beyond the cut")
                slope -= (last - at) / width**2
                start += normal_above((last - at) / width).log()
            if first <= 0 and last >= slope * variance:
                growth = (start + slope * (slope * variance / 2 - last)).exp()
                way = growth * normal_above(last / self.sigma - slope * self.sigma)
                after = way if after is None else after.min(way)
        if after is None:
            raise NotProvenError("V7: the nodes do not reach to where the terms fall")
        before = (self.logs_p[0] + tilt * self.losses[0]).exp() * normal_above(-first / self.sigma)
        bound: arb = before + after
        return bound

    def smoothness(self, tilt: arb, height: arb, turned: arb | None = None) -> arb:
        """Bound how much larger the integrand is on lines up to a height than on the real line (V5)."""
        angle = (height if turned is None else turned) * self.angle
        rate = 1 / self.sigma**2 + (0 if self.cut is None else 1 / self.cut[1] ** 2)
        ratio: arb = (angle / 2).cos() ** (-tilt) if self.has_q else arb(1)
        grown: arb = (height**2 * rate / 2).exp() * ratio
        return grown

    def aliasing(self, strip: arb) -> arb:
        """Part of the bound of V6 that the spacing decides."""
        bound: arb = 2 / ((2 * arb.pi() * strip / self.spacing).exp() - 1)
        return bound

    def moment(self, tilt: arb, near: bool = False) -> arb:
        """Enclose E[e^(tilt loss)] of all outputs, or of the near part, by the rule on the real line (V6)."""
        found = sum(self.masses(tilt), arb(0))
        if near:
            found = sum((m * part for m, part in zip(self.masses(tilt), self.near, strict=True)), arb(0))
        error = self.aliasing(2 * self.height) * self.smoothness(tilt, 2 * self.height)
        beyond = self.beyond(tilt, near)
        if not error < 0.5:
            raise NotProvenError("V6: the nodes are too far apart")
        most = (found + beyond) / (1 - error)
        return found + between(-error * most, error * most + beyond)

    def transforms(self, tilt: arb, spacing: arb, terms: int) -> tuple[list[acb], list[acb]]:
        """Enclose E[e^((tilt + i j spacing) loss)], far and near part, for j = 0, ..., terms.

        The rule is on the line Im x = height, where the loss has a positive imaginary part, so that its error
        does not grow with j (V6).
        """
        stride = max(1, math.isqrt(terms + 1))
        rows = terms // stride + 1
        parts = 1 if self.cut is None else 2
        total = acb_mat(parts * rows, stride)
        normal = self.spacing / (self.sigma * (2 * arb.pi()).sqrt())
        for start in range(0, self.count, CHUNK):
            fast: list[list[acb]] = []
            left: list[list[acb]] = [[] for _ in range(parts * rows)]
            for x in self.outputs[start : start + CHUNK]:
                output = acb(x, self.height)
                log_p, log_q = self.p(output).log(), self.q(-output).log()
                mass = normal * (log_p + tilt * (log_p - log_q) - output**2 / (2 * self.sigma**2)).exp()
                masses = [mass]
                if self.cut is not None:
                    away = (output - self.cut[0]) / self.cut[1]
                    masses = [mass * normal_above(-away), mass * normal_above(away)]
                fast.append(powers((acb(0, spacing) * (log_p - log_q)).exp(), stride + 1))
                slow = powers(fast[-1].pop(), rows)
                for part, each in enumerate(masses):
                    for row, power in enumerate(slow):
                        left[part * rows + row].append(each * power)
            total += acb_mat(left) * acb_mat(fast)
        both = self.smoothness(tilt, 2 * self.height) + 1
        error = self.aliasing(self.height) * both / 2 * self.moment(tilt)
        error += self.smoothness(tilt, self.height) * self.beyond(tilt)
        ball = acb(between(-error, error), between(-error, error))
        found = [total[j // stride, j % stride] + ball for j in range(terms + 1)]
        if self.cut is None:
            return found, [acb(0)] * (terms + 1)
        return found, [total[rows + j // stride, j % stride] + ball for j in range(terms + 1)]

    def decay(self, tilt: arb, frequency: arb) -> arb:
        """Bound the far part of |E[e^(z loss)]| for all z = tilt + iy with |y| >= frequency (V5)."""
        rate = 1 / self.sigma**2 + (0 if self.cut is None else 1 / self.cut[1] ** 2)
        total = arb(0)
        for x, noise, part in zip(self.outputs, self.noise, self.far, strict=True):
            above, below = self.p(acb(x, self.shift)), self.q(acb(-x, self.shift))
            size = (1 + tilt) * abs(above).log() - tilt * abs(below).log()
            total += noise * part * (size - frequency * (above.arg() + below.arg())).exp()
        raised = (self.shift**2 * rate / 2).exp()
        both = self.shift + self.shift_strip
        error = self.aliasing(self.shift_strip) * self.smoothness(tilt, self.shift_strip, both)
        return raised * (total + error * self.moment(tilt)) + self.smoothness(tilt, self.shift) * self.beyond(
            tilt
        )


def powers(base: acb, count: int) -> list[acb]:
    """Return the first powers of a number, from 0 on."""
    found = [acb(1)]
    while len(found) < count:
        found.append(found[-1] * base)
    return found


# ---------------------------------------------------------------- V3, V4, V8, V9: the run


def gaussian_moment(mu_squared: arb, z: Any) -> Any:
    """E[e^(z loss)] of a Gaussian pair with distance mu."""
    return (z * (z + 1) * mu_squared / 2).exp()


def inversion(run: Composition, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta at each epsilon by a sum over the line Re z = tilt."""
    tilt = number(witness["tilt"], "tilt", 1e-9, 1e6)
    outer = number(witness["outer_tilt"], "outer_tilt", 1e-9, 1e6)
    spacing = number(witness["spacing"], "spacing", 1e-9, 1e9)
    terms = whole(witness["terms"], "terms", 1, LARGEST_TERMS)
    given = items(witness["kinds"], "kinds", len(run.kinds), len(run.kinds))
    work = 0
    for entry, (pair, _) in zip(given, run.kinds, strict=True):
        if not isinstance(entry, dict):
            raise RefusedError("an entry of kinds must be an object")
        count = whole(entry.get("nodes"), "nodes", 2, LARGEST_NODES)
        work += count * (terms + NODE + len(pair.p or ()) + len(pair.q or ()))
    if work * ctx.prec > LARGEST_WORK * USUAL_BITS:
        raise RefusedError("the witness asks for more nodes and points of the line than are computed")
    if not outer > tilt:
        raise NotProvenError("V3: outer_tilt must be above tilt")
    last = (terms + arb(1) / 2) * spacing
    split = any(kind.get("cut") is not None for kind in given)
    whole_run = [gaussian_moment(run.mu_squared, acb(tilt, j * spacing)) for j in range(terms + 1)]
    near_run, decays = list(whole_run), []
    at_tilt, at_outer = (gaussian_moment(run.mu_squared, each) for each in (tilt, outer))
    near_tilt = number(witness["near_tilt"], "near_tilt", 1e-9, 1e6) if split else arb(1)
    remainder = gaussian_moment(run.mu_squared, near_tilt)
    for place, ((pair, count), entry) in enumerate(zip(run.kinds, given, strict=True)):
        nodes = Nodes(pair, entry, f"kind {place}")
        far, near = nodes.transforms(tilt, spacing, terms)
        whole_run = [w * (f + n) ** count for w, f, n in zip(whole_run, far, near, strict=True)]
        near_run = [w * n**count for w, n in zip(near_run, near, strict=True)] if split else near_run
        moment = nodes.moment(tilt)
        at_tilt, at_outer = at_tilt * moment**count, at_outer * nodes.moment(outer) ** count
        decays.append((nodes.decay(tilt, terms * spacing) / moment, count))
        if split:
            remainder *= nodes.moment(near_tilt, near=True) ** count
    gaussian_decay = (-((terms * spacing) ** 2) * run.mu_squared / 2).exp()
    if split:
        decay = sum((d * count for d, count in decays), arb(0)) * gaussian_decay
        whole_run = [w - n for w, n in zip(whole_run, near_run, strict=True)]
    else:
        decay = gaussian_decay
        for each, count in decays:
            decay *= each.min(arb(1)) ** count
    found, period = [], 2 * arb.pi() / spacing
    for epsilon in epsilons:
        total = arb(0)
        for j, value in enumerate(whole_run):
            z = acb(tilt, j * spacing)
            term = (value * (-z * epsilon).exp() / (z * (z + 1))).real
            total += term / 2 if j == 0 else term
        level = (-tilt * epsilon).exp()
        end = abs(at_tilt) * level * decay / (arb.pi() * last)
        over = (-outer * epsilon).exp() * at_outer / (((outer - tilt) * period).exp() - 1)
        over += 1 / ((tilt * period).exp() - 1)
        left = (-near_tilt * epsilon).exp() * remainder if split else arb(0)
        total *= spacing / arb.pi()
        found.append(total + between(-end - over, end + left))
    return found


def largest_loss(run: Composition) -> arb | None:
    """Return a loss that the run never exceeds, or None (V9): if added members may be in no batch at all."""
    total = arb(0)
    for pair, count in run.kinds:
        if pair.p is not None or pair.q is None or Fraction(0) not in pair.q:
            return None
        total -= count * pair.q[Fraction(0)].log()
    return total if run.mu_squared.is_zero() else None


def enclose(run: object, direction: str, witness: object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon."""
    name, entries = f"witness of {direction!r}", "tilt outer_tilt spacing terms kinds"
    found = fields(witness, name, "bits", f"{entries} near_tilt")
    ctx.prec = whole(found["bits"], "bits", 64, 1024)
    pairs = composition(run, direction)
    most = largest_loss(pairs)
    if not pairs.kinds:
        mu = pairs.mu_squared.sqrt()
        deltas = [gaussian(mu, epsilon) for epsilon in epsilons]
    elif most is not None and all(most <= epsilon for epsilon in epsilons):
        deltas = [arb(0)] * len(epsilons)
    elif pairs.mu_squared.is_zero() and sum(count for _, count in pairs.kinds) == 1:
        deltas = [one_step(pairs.kinds[0][0], epsilon) for epsilon in epsilons]
    else:
        deltas = inversion(pairs, fields(found, name, f"bits {entries}", "near_tilt"), epsilons)
    return deltas


def gaussian(mu: arb, epsilon: arb) -> arb:
    """Delta of N(mu, 1) against N(0, 1) (V2)."""
    if mu.is_zero():
        return (1 - epsilon.exp()).max(arb(0))
    middle = epsilon / mu
    delta: arb = normal_above(middle - mu / 2) - epsilon.exp() * normal_above(middle + mu / 2)
    return delta
