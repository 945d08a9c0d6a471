"""Prove claims on the privacy curve of Gaussian steps in ball arithmetic: what an audit of such a run needs.

A certificate is a JSON document with a run, claims on its privacy curve, and a witness: numbers that make the
proof short. Nothing in it is believed. The pair of every step is derived from the run (V1), and the curve is
enclosed by sums over a line of the complex plane, of which every error is bounded (V2 to V7). All numbers are
balls of Arb (python-flint), which contain the true values. docs/theory/certificates.md has the statements and
proofs. Nothing is imported of the accountant, nor of the other files of this checker: ``python checker.py
certificate.json`` checks Gaussian steps on Poisson, full or fixed batches, for groups.
"""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from flint import acb, acb_mat, arb, arb_mat, arb_poly, ctx, fmpq

FORMAT, VERSION = "hockeystick-certificate", 1
LARGEST_FILE, LARGEST_STEPS, LARGEST_KINDS, LARGEST_CLAIMS, LARGEST_COUNT = 1 << 20, 1000, 64, 16, 10**12
"""Most bytes of a certificate, entries of steps, kinds of mixtures, claims; steps of a kind, or records."""
LARGEST_GROUP, LARGEST_UNEQUAL_GROUP, LARGEST_LAW, LARGEST_LAWS = 4096, 128, 20000, 25000
"""Most members of a group; of one with rates or norms of their own; shifts of a law; and of all laws."""
LARGEST_NODES, LARGEST_TERMS, LARGEST_WORK, USUAL_BITS = 4 * 10**5, 2 * 10**5, 10**8, 128
"""Most nodes, points of the line, and products of both, of so many bits: about a minute."""
NODE, SHIFT, CHUNK, LARGEST_DRAWN_GROUP, LONG = 250, 50, 256, 1000, 1024
"""What a node costs besides, in products; a shift off a lattice; nodes summed together; drawn members; terms
of a polynomial from which on its rows are summed first, in down to a third of the time."""

Object = dict[str, Any]
Law = dict[Fraction, arb]  # probabilities by shift, in units of the clipping norm


class RefusedError(ValueError):
    """The certificate cannot be read: it is malformed, out of range, or about something not covered."""


class NotProvenError(Exception):
    """An inequality that the proof needs does not hold for the numbers of the witness."""


# ---------------------------------------------------------------- certificates: data that nobody vouches for


def _without_repeats(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError("an object has two entries of one name")
    return found


def read(text: str | bytes) -> Object:
    """Return the certificate of a JSON text, a dict whose format and version are those of this checker."""
    if len(text) > LARGEST_FILE:
        raise RefusedError(f"a certificate has at most {LARGEST_FILE} bytes")
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not JSON: {str(error)[:100]}") from None
    certificate = fields(found, "certificate", "format version run claims witness", "made_by note")
    if certificate["format"] != FORMAT or certificate["version"] != VERSION:
        raise RefusedError(f"format must be {FORMAT!r} of version {VERSION}")
    return certificate


def fields(value: object, name: str, needed: str, optional: str = "") -> Object:
    """Return `value` if it is an object with these entries and no others."""
    if not isinstance(value, dict):
        raise RefusedError(f"{name} must be an object")
    for key in (key for key in needed.split() if key not in value):
        raise RefusedError(f"{name} lacks {key!r}")
    for key in (key for key in value if key not in needed.split() + optional.split()):
        raise RefusedError(f"{name} has an unknown entry {str(key)[:40]!r}")
    return value


def number(value: object, name: str, low: float, high: float) -> arb:
    """Return the ball of a number in [low, high]: the double that it is written as, exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RefusedError(f"{name} must be a number in [{low}, {high}], got {str(value)[:40]}")
    return arb(value)


def whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RefusedError(f"{name} must be a whole number in [{low}, {high}], got {str(value)[:40]}")
    return value


def items(value: object, name: str, low: int, high: int) -> list[Any]:
    """Return a list with between `low` and `high` entries."""
    if not isinstance(value, list) or not low <= len(value) <= high:
        raise RefusedError(f"{name} must be a list of {low} to {high} entries")
    return value


def choice(value: object, name: str, allowed: str) -> str:
    """Return a text that is one of the allowed ones."""
    if not isinstance(value, str) or value not in allowed.split():
        raise RefusedError(f"{name} must be one of {allowed}, got {str(value)[:40]!r}")
    return value


# ---------------------------------------------------------------- V1: the run, turned into dominating pairs


class Pair(NamedTuple):
    """P has the density N(x) p(x), Q N(x) q(-x), N that of N(0, sigma^2); p and q are 1 without a law."""

    sigma: arb
    p: Law | None
    q: Law | None


def exact(x: Fraction) -> arb:
    """Ball of a fraction."""
    return arb(fmpq(x.numerator, x.denominator))


def _law(members: list[tuple[arb, Fraction]]) -> Law:
    """Law of a sum to which each member adds its shift with its probability, independently."""
    (rate, shift), n = members[0], len(members)
    if shift and all(member == members[0] for member in members):
        weights = (math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1))
        return {j * shift: weight for j, weight in enumerate(weights) if not weight.is_zero()}
    if len(members) > LARGEST_UNEQUAL_GROUP:
        raise RefusedError(f"more than {LARGEST_UNEQUAL_GROUP} members that differ are not covered")
    common = math.lcm(*(shift.denominator for _, shift in members))
    law = {0: arb(1)}  # by multiples of 1 / common, as whole numbers are added faster than fractions
    for rate, shift in members:
        missed, step = 1 - rate, int(shift * common)
        found = {place: weight * missed for place, weight in law.items()}
        for place, weight in law.items():
            found[place + step] = found.get(place + step, arb(0)) + weight * rate
        law = {place: weight for place, weight in found.items() if not weight.is_zero()}
        if len(law) > LARGEST_LAW:
            raise RefusedError(f"a group whose sums have more than {LARGEST_LAW} values is not covered")
    return {Fraction(place, common): weight for place, weight in law.items()}


def hypergeometric(group: int, batch: int, records: int) -> Law:
    """Members of a group in a fixed batch; each moves the sum by 2, as it pushes another record out."""
    if group > records or batch > records or group > LARGEST_DRAWN_GROUP:
        raise RefusedError("a group or a batch has more records than the data set, or a group more than 1000")
    ways = math.comb(records, group)
    return {
        Fraction(2 * j): arb(fmpq(math.comb(batch, j) * math.comb(records - batch, group - j), ways))
        for j in range(max(0, group + batch - records), min(group, batch) + 1)
    }


class Members(NamedTuple):
    """The group of a step."""

    size: int
    norms: list[float]
    rates: list[float] | None

    @property
    def alike(self) -> bool:
        """Whether all members have norm 1 and the rate of the sampling."""
        return set(self.norms) == {1.0} and self.rates is None


def members_of(group: object) -> Members:
    """Read the group of a step."""
    group = fields(group, "group", "size", "rates norms gradients")
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    choice(group.get("gradients", "aligned"), "gradients of this proof", "aligned")
    norms = [1.0] * size if group.get("norms") is None else items(group["norms"], "norms", size, size)
    rates = None if group.get("rates") is None else items(group["rates"], "rates", size, size)
    for norm, rate in zip(norms, rates or [0.0] * size, strict=True):
        number(norm, "a norm", 0.0, 2.0)
        number(rate, "a rate", 0.0, 1.0)
    return Members(size, norms, rates)


def gaussian_noise(mechanism: Object, members: Members) -> arb:
    """Read the standard deviation of the noise of a step with Gaussian noise, in clipping norms."""
    name = choice(mechanism.get("name"), "mechanism", "gaussian adaptive_clipping")
    entries = "name noise_multiplier" + (" count_noise" if name == "adaptive_clipping" else "")
    sigma = number(fields(mechanism, "mechanism", entries)["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
    if name == "gaussian":
        return sigma
    if set(members.norms) != {1.0}:
        raise RefusedError("adaptive clipping is covered for members of norm 1: each moves the count by 1/2")
    count_noise = number(mechanism["count_noise"], "count_noise", 1e-3, 1e9)
    return 1 / (1 / sigma**2 + 1 / (2 * count_noise) ** 2).sqrt()


def fixed_batch(sampling: Object) -> tuple[int, int]:
    """Return the sizes of a fixed batch and of the larger data set."""
    fields(sampling, "sampling", "name batch_size dataset_size")
    batch = whole(sampling["batch_size"], "batch_size", 1, LARGEST_COUNT)
    return batch, whole(sampling["dataset_size"], "dataset_size", 1, LARGEST_COUNT)


def law_of_step(sampling: Object, members: Members, direction: str) -> Law:
    """Law of the shift of a step (V1); there is none for replaced records of fixed batches."""
    name, shifts = sampling.get("name"), [Fraction(norm) for norm in members.norms]
    if name == "without_replacement":
        if direction == "replace" or not members.alike:
            raise RefusedError("this proof covers fixed batches with added or removed records of norm 1 only")
        return hypergeometric(members.size, *fixed_batch(sampling))
    if name == "full_batch":
        fields(sampling, "sampling", "name")
        if members.rates is not None:
            raise RefusedError("members of full batches have no rates")
        return _law([(arb(1), (2 if direction == "replace" else 1) * shift) for shift in shifts])
    choice(name, "sampling", "poisson")
    rate = number(fields(sampling, "sampling", "name sample_rate")["sample_rate"], "sample_rate", 0.0, 1.0)
    own = [rate] * members.size if members.rates is None else [arb(each) for each in members.rates]
    return _law(list(zip(own, shifts, strict=True)))


def pair_of_step(step: Object, direction: str) -> Pair:
    """Return the dominating pair of a step with Gaussian noise (V1)."""
    sampling, members = step["sampling"], members_of(step["group"])
    sigma, law = gaussian_noise(step["mechanism"], members), law_of_step(sampling, members, direction)
    if direction == "replace" and step["sampling"]["name"] == "poisson":
        return Pair(sigma, law, law)
    return Pair(sigma, None, law) if direction == "add" else Pair(sigma, law, None)


class Composition(NamedTuple):
    """A run in one direction: pairs with their numbers of steps, and Gaussian pairs as one of distance mu."""

    kinds: list[tuple[Pair, int]]
    mu_squared: arb


def steps_of(run: object, more: str = "") -> list[tuple[Object, int]]:
    """Return the kinds of steps of a run, each with its number; they may have these further entries."""
    run, found = fields(run, "run", "adjacency steps"), []
    for step in items(run["steps"], "steps", 1, LARGEST_STEPS):
        fields(step, "a step", "mechanism sampling group count", more)
        if not isinstance(step["mechanism"], dict) or not isinstance(step["sampling"], dict):
            raise RefusedError("mechanism and sampling must be objects")
        found.append((step, whole(step["count"], "count", 1, LARGEST_COUNT)))
    return found


def composition(run: object, direction: str, pairs: Any = pair_of_step, more: str = "") -> Composition:
    """Return the pairs of a run; those that are Gaussian are one Gaussian pair together (V1)."""
    kinds: list[tuple[Pair, int]] = []
    mu_squared, shifts = arb(0), 0
    for step, count in steps_of(run, more):
        pair = pairs(step, direction)
        laws = [law for law in (pair.p, pair.q) if law is not None]
        if all(len(law) == 1 for law in laws):
            mu_squared += count * (sum((exact(*law) for law in laws), arb(0)) / pair.sigma) ** 2
        else:
            kinds.append((pair, count))
        shifts += sum(map(len, laws)) + step["group"]["size"]
        if len(kinds) > LARGEST_KINDS or shifts > LARGEST_LAWS:
            raise RefusedError(f"more than {LARGEST_KINDS} kinds of steps, or {LARGEST_LAWS} shifts")
    return Composition(kinds, mu_squared)


def directions(run: object) -> list[str]:
    """Return the ordered pairs of an adjacency: its curve is the largest of theirs."""
    given = fields(run, "run", "adjacency steps")["adjacency"]
    adjacency = choice(given, "adjacency", "add_remove add remove replace")
    return ["remove", "add"] if adjacency == "add_remove" else [adjacency]


def normal_above(x: Any) -> Any:
    """Probability that a standard normal variable is above x, and its continuation to complex x."""
    return (x / arb(2).sqrt()).erfc() / 2


def gaussian(mu: arb, epsilon: arb) -> Any:
    """Delta of N(mu, 1) against N(0, 1) (V2)."""
    if mu.is_zero():
        return (1 - epsilon.exp()).max(arb(0))
    middle = epsilon / mu
    return normal_above(middle - mu / 2) - epsilon.exp() * normal_above(middle + mu / 2)


def unit_of(law: Law) -> tuple[Fraction | None, int]:
    """Return a number of which all shifts are multiples, if that is cheaper, and the products of a node."""
    common = math.lcm(*(s.denominator for s in law))
    unit = Fraction(math.gcd(*(int(s * common) for s in law)) or 1, common)
    degree = int(max(law) / unit)
    return (unit, degree) if degree <= min(LARGEST_LAW, SHIFT * len(law)) else (None, SHIFT * len(law))


class Ratio:
    """Likelihood ratio r(x) of a mixture of N(s, sigma^2) against N(0, sigma^2), real or complex x."""

    def __init__(self, law: Law | None, sigma: arb) -> None:
        law = law or {Fraction(0): arb(1)}
        shifts, self.sigma, self.scale = sorted(law), sigma, 1 / sigma**2
        self.balls, self.weights = [exact(s) for s in shifts], [law[s] for s in shifts]
        self.largest = self.balls[-1]
        each = zip(self.weights, self.balls, strict=True)
        self.terms = [w * (-s * s * self.scale / 2).exp() for w, s in each]
        self.polynomial: arb_poly | None = None
        self.rows: arb_mat | None = None
        if (unit := unit_of(law)[0]) is not None:
            size, self.unit = int(shifts[-1] / unit) + 1, exact(unit) * self.scale
            coefficients = [arb(0)] * (width := math.isqrt(size) + 1) ** 2
            for shift, term in zip(shifts, self.terms, strict=True):
                coefficients[int(shift / unit)] = term
            self.polynomial = arb_poly(coefficients) if size < LONG else None
            self.rows = arb_mat(width, width, coefficients) if size >= LONG else None

    def __call__(self, x: Any) -> Any:
        """Evaluate the ratio at a ball."""
        if self.polynomial is not None:
            return self.polynomial((self.unit * x).exp())
        if self.rows is not None:
            *fast, far = powers((self.unit * x).exp(), self.rows.ncols() + 1)
            parts = self.rows * arb_mat([[z] if isinstance(z, arb) else [z.real, z.imag] for z in fast])
            sums = [row[0] if len(row) == 1 else acb(*row) for row in parts.table()]
            return sum((a * b for a, b in zip(sums, powers(far, len(sums)), strict=True)), x * 0)
        each = zip(self.terms, self.balls, strict=True)
        return sum((t * (s * self.scale * x).exp() for t, s in each), x * 0)


class Nodes:
    """The trapezoid rule over the outputs of one step, and bounds on its errors (V5 to V7)."""

    def __init__(self, pair: Pair, witness: object, name: str) -> None:
        found = fields(witness, name, "start spacing nodes height shift shift_strip")
        self.p, self.q, self.sigma = Ratio(pair.p, pair.sigma), Ratio(pair.q, pair.sigma), pair.sigma
        self.start = number(found["start"], "start", -1e12, 0.0)
        self.count = whole(found["nodes"], "nodes", 2, LARGEST_NODES)
        self.spacing, self.height, self.shift, self.shift_strip = (
            number(found[each], each, 1e-9, 1e9) for each in ("spacing", "height", "shift", "shift_strip")
        )
        self.rate = 1 / self.sigma**2  # how fast the density grows off the real line (V5)
        # Most that the argument of a likelihood ratio grows by when its argument is moved by i.
        self.angle = max(self.p.largest, self.q.largest, key=float) / self.sigma**2
        if not (2 * self.height * self.angle < 3 and (self.shift + self.shift_strip) * self.angle < 3):
            raise NotProvenError("V6: a strip reaches where the likelihood ratio may vanish")
        if not self.shift_strip <= self.shift:
            raise NotProvenError("V6: shift_strip must be at most shift")
        self.normal = self.spacing / (self.sigma * (2 * arb.pi()).sqrt())

    def at_real_outputs(self) -> Nodes:
        """Compute densities and losses at the nodes, which moments and bounds need."""
        self.outputs = [self.start + i * self.spacing for i in range(self.count)]
        self.logs_p = [self.p(x).log() for x in self.outputs]
        self.logs_q = [self.q(-x).log() for x in self.outputs]
        self.losses = [p - q for p, q in zip(self.logs_p, self.logs_q, strict=True)]
        self.noise = [self.normal * (-x * x * self.p.scale / 2).exp() * self.factor(x) for x in self.outputs]
        return self

    def factor(self, _x: Any) -> Any:
        """Factor C of V5 at an output, real or complex."""
        return arb(1)

    def beyond(self, tilt: arb) -> Any:
        """Bound the terms before the first and after the last node (V7)."""
        first, last, variance = self.outputs[0], self.outputs[-1], self.sigma**2
        slope_p = (1 + tilt) * self.p.largest / variance
        log_p, log_q = (1 + tilt) * self.logs_p[-1], tilt * self.logs_q[-1]
        ways = [(log_p - log_q, slope_p + tilt * self.q.largest / variance)]
        if self.q.balls[0].is_zero():
            ways.append((log_p - tilt * self.q.weights[0].log(), slope_p))
        after = []
        for start, slope in ways:
            start, slope = self.falling(last, start, slope)
            if last >= slope * variance:  # and first <= 0, as it was read
                growth = (start + slope * (slope * variance / 2 - last)).exp()
                after.append(growth * normal_above(last / self.sigma - slope * self.sigma))
        if not after:
            raise NotProvenError("V7: the nodes do not reach to where the terms fall")
        before = (self.logs_p[0] + tilt * self.losses[0]).exp() * normal_above(-first / self.sigma)
        return before + min(after, key=float)

    def falling(self, _last: arb, start: arb, slope: arb) -> tuple[arb, arb]:
        """Logarithm and slope of the terms beyond the last node, without the noise."""
        return start, slope

    def smoothness(self, tilt: arb, height: arb, turned: arb | None = None) -> arb:
        """Bound how much larger the integrand is on lines up to a height than on the real line (V5)."""
        angle = (height if turned is None else turned) * self.angle
        turn: arb = (angle / 2).cos() ** (-tilt) if self.q.largest > 0 else arb(1)
        return turn * (height**2 * self.rate / 2).exp()

    def aliasing(self, strip: arb) -> Any:
        """Part of the bound of V6 that the spacing decides."""
        return 2 / ((2 * arb.pi() * strip / self.spacing).exp() - 1)

    def moment(self, tilt: arb) -> Any:
        """Enclose E[e^(tilt loss)] by the rule on the real line (V6)."""
        each = zip(self.noise, self.logs_p, self.losses, strict=True)
        found = sum((noise * (log_p + tilt * loss).exp() for noise, log_p, loss in each), arb(0))
        error = self.aliasing(2 * self.height) * self.smoothness(tilt, 2 * self.height)
        beyond = self.beyond(tilt)
        if not error < 0.5:
            raise NotProvenError("V6: the nodes are too far apart")
        most = (found + beyond) / (1 - error)
        return found + (-error * most).union(error * most + beyond)

    def sums(self, start: int, line: Line) -> acb_mat:
        """Sum terms of some nodes for E[e^(z loss)] at all points of the line, in rows of `stride` (V6)."""
        fast: list[list[acb]] = []
        left: list[list[acb]] = [[] for _ in range(line.terms // line.stride + 1)]
        for i in range(start, min(start + CHUNK, self.count)):
            output = acb(self.start + i * self.spacing, self.height)  # here no error grows with j
            log_p, log_q = self.p(output).log(), self.q(-output).log()
            mass = self.normal * (log_p + line.tilt * (log_p - log_q) - output**2 / (2 * self.sigma**2)).exp()
            mass *= self.factor(output)
            fast.append(powers((acb(0, line.spacing) * (log_p - log_q)).exp(), line.stride + 1))
            for row, power in enumerate(powers(fast[-1].pop(), len(left))):
                left[row].append(mass * power)
        return acb_mat(left) * acb_mat(fast)

    def enclosed(self, total: acb_mat, line: Line) -> list[acb]:
        """Enclose E[e^(z loss)] at all points of the line by the sums of all nodes (V6)."""
        both = self.smoothness(line.tilt, 2 * self.height) + 1
        error = self.aliasing(self.height) * both / 2 * self.moment(line.tilt)
        error += self.smoothness(line.tilt, self.height) * self.beyond(line.tilt)
        ball = acb((-error).union(error), (-error).union(error))
        return [total[j // line.stride, j % line.stride] + ball for j in range(line.terms + 1)]

    def decay(self, tilt: arb, frequency: arb) -> Any:
        """Bound |E[e^(z loss)]| for all z = tilt + iy with |y| >= frequency (V5)."""
        total = arb(0)
        for x, noise in zip(self.outputs, self.noise, strict=True):
            above, below = self.p(acb(x, self.shift)), self.q(acb(-x, self.shift))
            size = (1 + tilt) * abs(above).log() - tilt * abs(below).log()
            total += noise * (size - frequency * (above.arg() + below.arg())).exp()
        strip, both = self.shift_strip, self.shift + self.shift_strip
        error = self.aliasing(strip) * self.smoothness(tilt, strip, both) * self.moment(tilt)
        raised = (self.shift**2 * self.rate / 2).exp() * (total + error)
        return raised + self.smoothness(tilt, self.shift) * self.beyond(tilt)


def powers(base: Any, count: int) -> list[Any]:
    """Return the first powers of a number, from 0 on, each of two halves: factors that turn widen boxes."""
    found = [base**0, base][:count]
    for degree in range(2, count):
        found.append(found[degree // 2] * found[(degree + 1) // 2])
    return found


class Line(NamedTuple):
    """Points tilt + i j spacing of the complex plane, and a tilt beyond."""

    tilt: arb
    outer: arb
    spacing: arb
    terms: int
    stride: int  # points in a row

    def points(self) -> list[acb]:
        """Return all points."""
        return [acb(self.tilt, j * self.spacing) for j in range(self.terms + 1)]

    def integral(self, transform: list[acb], at_outer: arb, beyond: arb, epsilons: list[arb]) -> list[arb]:
        """Enclose the integral of V3 of a transform, at most `beyond` after the last point (V4)."""
        period, last, found = 2 * arb.pi() / self.spacing, (self.terms + arb(1) / 2) * self.spacing, []
        for epsilon in epsilons:
            each = zip(transform, self.points(), strict=True)
            values = [(value * (-z * epsilon).exp() / (z * (z + 1))).real for value, z in each]
            inner = (sum(values, arb(0)) - values[0] / 2) * self.spacing / arb.pi()
            end = abs(beyond) * (-self.tilt * epsilon).exp() / (arb.pi() * last)
            over = (-self.outer * epsilon).exp() * at_outer / (((self.outer - self.tilt) * period).exp() - 1)
            over += 1 / ((self.tilt * period).exp() - 1)
            found.append(inner + (-end - over).union(end))
        return found


def line_of(witness: Object) -> Line:
    """Read the line."""
    terms = whole(witness["terms"], "terms", 1, LARGEST_TERMS)
    tilt, outer = (number(witness[name], name, 1e-9, 1e6) for name in ("tilt", "outer_tilt"))
    if not outer > tilt:
        raise NotProvenError("V3: outer_tilt must be above tilt")
    return Line(tilt, outer, number(witness["spacing"], "spacing", 1e-9, 1e9), terms, math.isqrt(terms + 1))


def require_affordable(kinds: list[tuple[Pair, int]], witness: Object, times: int = 1) -> None:
    """Refuse a witness that asks for more work than is done, so many times."""
    given, work = items(witness.get("kinds"), "kinds", len(kinds), len(kinds)), 0
    for entry, (pair, _) in zip(given, kinds, strict=True):
        count = whole(entry.get("nodes") if isinstance(entry, dict) else None, "nodes", 2, LARGEST_NODES)
        work += count * (witness["terms"] + NODE + sum(unit_of(law)[1] for law in pair[1:] if law))
    if work * ctx.prec * times > LARGEST_WORK * USUAL_BITS:
        raise RefusedError("the witness asks for more nodes and points of the line than are computed")


def nodes_of(kinds: list[tuple[Pair, int]], witness: Object) -> list[Nodes]:
    """Rules of all kinds of steps."""
    each = enumerate(zip(kinds, witness["kinds"], strict=True))
    return [Nodes(pair, entry, f"kind {place}") for place, ((pair, _), entry) in each]


def serial_sums(witness: Object, rules: list[Nodes]) -> list[acb_mat]:
    """Sum the rules over all of their nodes; `parallel.py` does it in several processes."""
    line = line_of(witness)
    each = ([rule.sums(start, line) for start in range(0, rule.count, CHUNK)] for rule in rules)
    return [sum(parts[1:], parts[0]) for parts in each]


def gaussian_moment(mu_squared: arb, z: Any) -> Any:
    """E[e^(z loss)] of a Gaussian pair with distance mu."""
    return (z * (z + 1) * mu_squared / 2).exp()


def inversion(run: Composition, witness: Object, at: list[arb], sums: Any, known: Any = None) -> list[arb]:
    """Enclose delta at each epsilon by a sum over the line Re z = tilt (V3, V4); `known` keeps its terms."""
    line, known = line_of(witness), [] if known is None else known
    require_affordable(run.kinds, witness)
    if known:
        return line.integral(known[0][0], known[0][1], known[0][2], at)
    rules, mu_squared = [rule.at_real_outputs() for rule in nodes_of(run.kinds, witness)], run.mu_squared
    last, total = line.terms * line.spacing, [gaussian_moment(mu_squared, z) for z in line.points()]
    beyond = gaussian_moment(mu_squared, line.tilt) * (-(last**2) * mu_squared / 2).exp()
    at_outer = gaussian_moment(mu_squared, line.outer)
    found = sums(witness, rules)
    for rule, each, (_, count) in zip(rules, found, run.kinds, strict=True):
        total = [a * b**count for a, b in zip(total, rule.enclosed(each, line), strict=True)]
        beyond *= rule.decay(line.tilt, last).min(rule.moment(line.tilt)) ** count
        at_outer *= rule.moment(line.outer) ** count
    known.append((total, at_outer, beyond))  # as one, for threads that check the same
    return line.integral(known[0][0], known[0][1], known[0][2], at)


def enclose(
    run: object, direction: str, witness: object, epsilons: list[arb], sums: Any = serial_sums
) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon."""
    name, entries = f"witness of {direction!r}", "tilt outer_tilt spacing terms kinds"
    ctx.prec = whole(fields(witness, name, "bits", entries)["bits"], "bits", 64, 1024)
    pairs = composition(run, direction)
    if not pairs.kinds:
        return [gaussian(pairs.mu_squared.sqrt(), epsilon) for epsilon in epsilons]
    return inversion(pairs, fields(witness, name, f"bits {entries}"), epsilons, sums)


class Proven(NamedTuple):
    """What was proven of one claim: the quantity is in [lower, upper]."""

    epsilon: float
    lower: float
    upper: float
    claim: str
    holds: bool
    quantity: str = ""


def down(x: arb) -> float:
    """Largest double that is certainly at most `x`, or one next to it."""
    value = float(x)
    while not arb(value) <= x:
        value = math.nextafter(value, -math.inf)
    return value


def compared(value: arb, claim: Object, epsilon: float, name: str) -> Proven:
    """Compare an enclosed number with a claim on it."""
    upper = "at_most" in claim
    holds = value <= arb(claim["at_most"]) if upper else value >= arb(claim["at_least"])
    words = f"{name} <= {claim['at_most']!r}" if upper else f"{name} >= {claim['at_least']!r}"
    return Proven(epsilon, down(value.lower()), -down((-value).lower()), words, bool(holds), name)


def largest(deltas: tuple[arb, ...]) -> arb:
    """Return the largest of the curves of the ordered pairs at a point, within [0, 1]."""
    found = arb(0)
    for delta in deltas:
        if not delta.is_finite():
            raise NotProvenError("an enclosure is not finite: the witness asks for too few bits")
        found = found.max(delta.min(arb(1)))
    return found


def check(certificate: Object) -> list[Proven]:
    """Enclose delta at the epsilon of every claim, and compare."""
    run, claims = certificate["run"], items(certificate["claims"], "claims", 1, LARGEST_CLAIMS)
    for claim in claims:
        fields(claim, "a claim", "epsilon", "at_most at_least")
        if len(claim) != 2:
            raise RefusedError("a claim has either 'at_most' or 'at_least'")
        for key in claim:
            number(claim[key], key, 0.0, 1e12 if key == "epsilon" else 1.0)
    ways, epsilons = directions(run), [claim["epsilon"] for claim in claims]
    witness = fields(certificate["witness"], "witness", " ".join(ways))
    curves = [enclose(run, way, witness[way], [arb(e) for e in epsilons]) for way in ways]
    each = zip(claims, epsilons, zip(*curves, strict=True), strict=True)
    return [compared(largest(found), claim, e, f"delta({e!r})") for claim, e, found in each]


if __name__ == "__main__":
    try:
        with Path(sys.argv[1]).open("rb") as file:
            proven = check(read(file.read(LARGEST_FILE + 1)))
    except (IndexError, OSError, RefusedError, NotProvenError) as error:
        sys.exit(f"not verified: {error!r}")
    print("verified" if all(each.holds for each in proven) else "not verified", *proven, sep="\n")
    sys.exit(0 if all(each.holds for each in proven) else 1)
