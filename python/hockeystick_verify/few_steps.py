"""Runs of few steps: single ones (V2), steps that are far or near (V8), losses that have an end (V9)."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

from flint import acb, arb, ctx

from hockeystick_verify import checker
from hockeystick_verify.checker import (
    USUAL_BITS,
    Composition,
    Law,
    Nodes,
    NotProvenError,
    Object,
    Pair,
    Ratio,
    RefusedError,
    exact,
    fields,
    gaussian,
    gaussian_moment,
    inversion,
    line_of,
    nodes_of,
    normal_above,
    number,
    require_affordable,
    unit_of,
    whole,
)
from hockeystick_verify.large_groups import composition_of, shortened

BISECTIONS = 512
"""Halvings of the range of outputs at most. They end where the sign of the loss is no longer known, as balls
have too few bits: with fewer, the interval that is proven may be wider, and is right."""
MOST_PRODUCTS_OF_ONE_STEP = 2 * 10**5
"""Most products of the usual bits at an output, of all claims: a bisection takes 512 outputs."""


# ---------------------------------------------------------------- V2: one step


def above(law: Law | None, sigma: arb, x: arb) -> arb:
    """Probability that a mixture of N(s, sigma^2), or N(0, sigma^2), gives to outputs above x."""
    each = (law or {Fraction(0): arb(1)}).items()
    return sum((w * normal_above((x - exact(s)) / sigma) for s, w in each), arb(0))


def one_step(pair: Pair, epsilon: arb) -> arb:
    """Enclose delta of one step (V2): the loss grows with the output, so a half line is the best test."""
    p, q, sigma = Ratio(pair.p, pair.sigma), Ratio(pair.q, pair.sigma), pair.sigma
    mirrored = {-s: w for s, w in (pair.q or {Fraction(0): arb(1)}).items()}

    def excess(x: arb) -> arb:
        """How much larger than epsilon the loss is at x."""
        loss: arb = p(x).log() - q(-x).log()
        return loss - epsilon

    high = ((1 + sigma**2) * (1 + abs(epsilon)) * 10**8).mid()
    low, middle = -high, arb(0)
    for _ in range(BISECTIONS):
        side = excess(middle)
        if not (side < 0 or side > 0):
            break
        low, high = (middle, high) if side < 0 else (low, middle)
        middle = ((low + high) / 2).mid()
    within = above(pair.p, sigma, low) if excess(low) <= 0 else arb(1)
    surely = above(mirrored, sigma, high) if excess(high) >= 0 else arb(0)
    least: arb = above(pair.p, sigma, low) - epsilon.exp() * above(mirrored, sigma, low)
    return least.union(within - epsilon.exp() * surely)


# ---------------------------------------------------------------- V8: steps that are far, and near


class Part(Nodes):
    """The rule for one part of a step: outputs are far from about a cut on, and near otherwise, by a coin."""

    def __init__(self, pair: Pair, witness: object, name: str, near: bool) -> None:
        names = "start spacing nodes height shift shift_strip cut"
        given = dict(fields(witness, name, names))
        cut = fields(given.pop("cut"), "cut", "at width")
        super().__init__(pair, given, name)
        self.at, self.width = number(cut["at"], "at", -1e12, 1e12), number(cut["width"], "width", 1e-6, 1e9)
        self.near = near
        self.rate += 1 / self.width**2

    def factor(self, x: Any) -> Any:
        """Probability of an output to be in this part, and its continuation."""
        away = (x - self.at) / self.width
        return normal_above(away if self.near else -away)

    def falling(self, last: arb, start: arb, slope: arb) -> tuple[arb, arb]:
        """Logarithm and slope of the terms beyond the last node, where the near part falls faster (V7)."""
        if not self.near:
            return start, slope
        if not last > self.at:
            raise NotProvenError("V7: the nodes do not reach beyond the cut")
        start += normal_above((last - self.at) / self.width).log()
        return start, slope - (last - self.at) / self.width**2


def rules_of(kinds: list[tuple[Pair, int]], witness: Object) -> list[Nodes]:
    """Rules of all kinds of steps; of the far and of the near part of each, if there is a cut."""
    if "near_tilt" not in witness:
        return nodes_of(kinds, witness)
    each = enumerate(zip(kinds, witness["kinds"], strict=True))
    cut = [(pair, entry, f"kind {place}") for place, ((pair, _), entry) in each]
    return [Part(*given, near) for given in cut for near in (False, True)]


def split(
    pairs: Composition, witness: Object, epsilons: list[arb], sums: Any, known: list[Any] | None = None
) -> list[arb]:
    """Enclose delta by the runs with a far step, on the line, and those without, which are rare (V8).

    What does not depend on epsilon is taken from `known`, if it is there, and kept there.
    """
    known, line = [] if known is None else known, line_of(witness)
    near_tilt = number(witness["near_tilt"], "near_tilt", 1e-9, 1e6)
    if not known:
        known.append(both_parts(pairs, witness, near_tilt, sums))  # as one, for threads that check the same
    remainder, with_far, at_outer, beyond = known[0]
    deltas = line.integral(with_far, at_outer, beyond, epsilons)
    left = [(-near_tilt * epsilon).exp() * remainder for epsilon in epsilons]
    return [delta + arb(0).union(most) for delta, most in zip(deltas, left, strict=True)]


def both_parts(
    pairs: Composition, witness: Object, near_tilt: arb, sums: Any
) -> tuple[arb, list[acb], arb, arb]:
    """Return the moment of the runs without a far step, and the transform of those with one, with bounds."""
    line = line_of(witness)
    require_affordable(pairs.kinds, witness)
    rules = [rule.at_real_outputs() for rule in rules_of(pairs.kinds, witness)]
    found = zip(rules, sums(witness, rules), strict=True)
    values = [rule.enclosed(total, line) for rule, total in found]
    mu_squared, last, some_far = pairs.mu_squared, line.terms * line.spacing, arb(0)
    at_tilt, at_outer, remainder = (
        gaussian_moment(mu_squared, c) for c in (line.tilt, line.outer, near_tilt)
    )
    whole_run = [gaussian_moment(mu_squared, z) for z in line.points()]
    near_run = list(whole_run)
    for place, (_, count) in enumerate(pairs.kinds):
        (far, near), (fars, nears) = rules[2 * place : 2 * place + 2], values[2 * place : 2 * place + 2]
        whole_run = [w * (f + n) ** count for w, f, n in zip(whole_run, fars, nears, strict=True)]
        near_run = [w * n**count for w, n in zip(near_run, nears, strict=True)]
        moment = far.moment(line.tilt) + near.moment(line.tilt)
        at_tilt *= moment**count
        at_outer *= (far.moment(line.outer) + near.moment(line.outer)) ** count
        remainder *= near.moment(near_tilt) ** count
        some_far += count * far.decay(line.tilt, last) / moment
    beyond = at_tilt * some_far * (-(last**2) * mu_squared / 2).exp()
    return remainder, [w - n for w, n in zip(whole_run, near_run, strict=True)], at_outer, beyond


@lru_cache(maxsize=2)
def kept(_text: str, _precision: int, _is_shared: bool) -> list[Any]:
    """Return where the terms of a run and a witness are kept: they serve all claims, in any certificate.

    What several processes summed is not taken for what one does.
    """
    return []


# ---------------------------------------------------------------- V9


def largest_loss(run: Composition) -> arb | None:
    """Return a loss that the run never exceeds, or None (V9): if added members may be in no batch at all."""
    total = arb(0)
    for pair, count in run.kinds:
        if pair.p is not None or pair.q is None or Fraction(0) not in pair.q:
            return None
        total -= count * pair.q[Fraction(0)].log()
    return total if run.mu_squared.is_zero() else None


OPTIONAL = "near_tilt largest_shifts norm_units"
"""Entries of a witness that not all have."""


def enclose(
    run: Object, direction: str, witness: object, epsilons: list[arb], sums: Any = checker.serial_sums
) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon, of few steps or many."""
    name, entries = f"witness of {direction!r}", "tilt outer_tilt spacing terms kinds"
    found = fields(witness, name, "bits", f"{entries} {OPTIONAL}")
    ctx.prec = whole(found["bits"], "bits", 64, 1024)
    upper = with_norms(run, direction, found, epsilons, sums)
    if "norm_units" not in found:
        return upper
    lower = with_norms(run, direction, {**found, "downwards": True}, epsilons, sums)
    return [below.union(above) for below, above in zip(lower, upper, strict=True)]


def with_norms(run: Object, direction: str, found: Object, epsilons: list[arb], sums: Any) -> list[arb]:
    """Enclose delta with the norms as they are, or rounded as the witness says (V24)."""
    pairs = composition_of(run, direction, found)
    most = largest_loss(pairs)
    if most is not None and all(most <= epsilon for epsilon in epsilons):
        return [arb(0)] * len(epsilons)
    if pairs.mu_squared.is_zero() and sum(count for _, count in pairs.kinds) == 1:
        pair = pairs.kinds[0][0]
        products = sum(unit_of(law)[1] for law in pair[1:] if law) * len(epsilons)
        if products * ctx.prec > MOST_PRODUCTS_OF_ONE_STEP * USUAL_BITS:
            raise RefusedError("single steps of groups with so many sums are not computed")
        return [one_step(pair, epsilon) for epsilon in epsilons]
    if not pairs.kinds:
        return [gaussian(pairs.mu_squared.sqrt(), epsilon) for epsilon in epsilons]
    name, entries = f"witness of {direction!r}", "bits tilt outer_tilt spacing terms kinds"
    fields(found, name, entries, f"{OPTIONAL} downwards")
    short, prove = shortened(pairs, found), split if "near_tilt" in found else inversion
    line_of(found)
    require_affordable(short.run.kinds, found, 2 if "norm_units" in found else 1)
    known = kept(json.dumps([run, direction, found]), ctx.prec, getattr(sums, "is_shared", False))
    deltas = prove(short.run, found, epsilons, sums, known)
    return [short.enclosed(delta) for delta in deltas]
