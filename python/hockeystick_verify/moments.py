"""Enclose a Renyi divergence by the moments of its steps, each of them an integral over the outputs (V26).

What is asked of a step is E_Q[(dP/dQ)^order]. Steps are independent, so that the logarithms of these add up,
whatever their noise and batches are. Nothing is to be chosen for the integrals, so that the witness has
numbers for dealt batches only, whose moments are in `dealt_moments.py`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import acb, arb, ctx

from hockeystick_verify import dealt_moments
from hockeystick_verify.checker import (
    Law,
    NotProvenError,
    Object,
    Ratio,
    RefusedError,
    exact,
    items,
    normal_above,
    steps_of,
    unit_of,
)
from hockeystick_verify.dealt_lattice import is_dealt
from hockeystick_verify.parts import Atom, Part, above, is_counted, mirrored, steps_in_parts
from hockeystick_verify.variants import refuse_alike

LARGEST_WORK = 10**8
"""Most products that the evaluations of all integrands take together, at 128 bits: about a minute."""
FEWEST, MOST_EVALUATIONS = 200, 40_000
"""Evaluations of an integrand: fewer hardly ever suffice, and more are not made."""
GOAL = 80
"""Bits of an integral that are asked for, relative to it; what is reached is what is reported."""
SAMPLES, ROUNDS, MOST_BITS = 24, 5, 400
"""Values of an integrand by which its size is guessed, and bits below which it does not matter."""
REACH = 17
"""How far integrals go beyond the shifts of the integrand, in standard deviations."""


class Mixture:
    """Density r of a mixture of N(s, sigma^2) against that of N(0, sigma^2), by its logarithm.

    log r(x) is a line, of which the slope is the least or the largest shift over sigma^2, and what is left,
    which hardly changes where the term of this shift is the largest.
    """

    def __init__(self, law: Law, sigma: arb) -> None:
        low, high = min(law), max(law)
        self.least, self.largest = exact(low), exact(high)
        self.from_least = Ratio({shift - low: weight for shift, weight in law.items()}, sigma)
        self.from_largest = Ratio({high - shift: weight for shift, weight in law.items()}, sigma)
        self.turn = float("inf")
        if low < high:
            odds = float((law[low] / law[high]).log()) * float(sigma) ** 2 / float(high - low)
            self.turn = float(low + high) / 2 + odds

    def line(self, x: float) -> tuple[arb, Any]:
        """Shift whose term is about the largest at x, and the logarithm of r without its term."""
        if x < self.turn:
            return self.least, lambda y: self.from_least(y - self.least)
        return self.largest, lambda y: self.from_largest(self.largest - y)


def size_of(integrand: Any, low: float, high: float) -> arb:
    """Guess how large an integral is, by values around the largest one: it decides about the work alone."""
    largest = arb(2) ** -MOST_BITS
    for _ in range(ROUNDS):
        width = (high - low) / SAMPLES
        places = [low + i * width for i in range(SAMPLES + 1)]
        values = [integrand(acb(x), False).real.mid() * width for x in places]
        best = max(range(SAMPLES + 1), key=lambda i: values[i])
        largest = largest.max(values[best])
        low, high = places[max(best - 1, 0)], places[min(best + 1, SAMPLES)]
    return largest


class Work:
    """What is left of the work that is done for one claim."""

    def __init__(self, claims: int) -> None:
        self.left = LARGEST_WORK * 128 // (ctx.prec * claims)

    def integral(self, integrand: Any, low: arb, high: arb, cost: int) -> arb:
        """Enclose an integral over real outputs, of which each evaluation costs so much (Johansson 2018)."""
        evaluations = min(MOST_EVALUATIONS, self.left // cost)
        if evaluations < FEWEST:
            raise RefusedError("the integrals of all steps take more products than are computed")
        calls, tolerance = [0], arb(2) ** -GOAL

        def counted(x: acb, analytic: bool) -> Any:
            """Return the integrand, and count that it was asked for."""
            calls[0] += 1
            return integrand(x, analytic)

        tolerable = tolerance * size_of(counted, float(low), float(high))
        found = acb.integral(
            counted, acb(low), acb(high), rel_tol=tolerance, abs_tol=tolerable, eval_limit=evaluations
        ).real
        self.left -= calls[0] * cost
        if not found.is_finite():
            raise NotProvenError("V26: an integral is not enclosed within the work that is done")
        return found.max(arb(0))


def log_integrand(p: Mixture, q: Mixture, sigma: arb, order: arb, x: Any, analytic: bool = False) -> Any:
    """Logarithm of e^(-x^2/2 sigma^2) r_p(x)^order r_q(x)^(1 - order) at an output, real or complex."""
    at = float(x.real if isinstance(x, acb) else x)
    (shift_p, rest_p), (shift_q, rest_q) = p.line(at), q.line(at)
    shift = order * shift_p - (order - 1) * shift_q
    level = (shift**2 - order * shift_p**2 + (order - 1) * shift_q**2) / 2
    more = {"analytic": analytic} if isinstance(x, acb) else {}
    rest = order * rest_p(x).log(**more) - (order - 1) * rest_q(x).log(**more)
    return (level - (x - shift) ** 2 / 2) / sigma**2 + rest


def of_gaussian(part: Part, order: arb, work: Work) -> arb:
    """Enclose the moment of a part with Gaussian noise (V26, 1)."""
    sigma, p, q = part.scale, Mixture(part.p, part.scale), Mixture(part.q, part.scale)
    if len(part.p) == len(part.q) == 1 and part.low is None and part.high is None:
        distance, factors = p.largest - q.largest, [*part.p.values(), *part.q.values()]
        moment: arb = (order * (order - 1) * (distance / sigma) ** 2 / 2).exp()
        return part.weight * factors[0] ** order * factors[1] ** (1 - order) * moment
    shift = order * p.largest - (order - 1) * q.least
    low, high = (None if end is None else exact(end) for end in (part.low, part.high))
    first = low if low is not None else p.least.min(p.least if high is None else high) - REACH * sigma
    last = high if high is not None else shift.max(first) + REACH * sigma
    normal = 1 / (sigma * (2 * arb.pi()).sqrt())

    def integrand(x: acb, analytic: bool) -> acb:
        value: acb = normal * log_integrand(p, q, sigma, order, x, analytic).exp()
        return value

    found, beyond = work.integral(integrand, first, last, work_of(part)), arb(0)
    if low is None:
        below = above("gaussian", sigma, mirrored(part.p), -first)
        loss = log_integrand(p, q, sigma, order, first) - log_integrand(p, q, sigma, arb(1), first)
        beyond += below * loss.exp()
    if high is None:
        value = log_integrand(p, q, sigma, order, last) + (last - shift) ** 2 / (2 * sigma**2)
        beyond += value.exp() * normal_above((last - shift) / sigma)
    return part.weight * (found + arb(0).union(beyond))


def of_laplace(part: Part, order: arb, work: Work) -> arb:
    """Enclose the moment of a part with Laplace noise, smooth between its shifts (V26, 1)."""
    inside = {s for s in (*part.p, *part.q) if _is_inside(s, part)}
    ends = [part.low, *sorted(inside), part.high]
    total = arb(0)
    for low, high in pairwise(ends):
        if low is None and high is None:
            raise NotProvenError("V26: Laplace noise has shifts")
        if low is None or high is None:
            # Outside all centres of Laplace noise both densities fall alike: P/Q is constant there.
            right = high is None
            x = exact(low if right else high)  # type: ignore[arg-type]  # one of the two is a number
            masses = [above("laplace", part.scale, law, x) for law in (part.p, part.q)]
            if not right:
                masses = [above("laplace", part.scale, mirrored(law), -x) for law in (part.p, part.q)]
            total += masses[0] ** order * masses[1] ** (1 - order)
        else:
            total += _of_segment(part, order, (low, high), work)
    return part.weight * total


def _is_inside(shift: Fraction, part: Part) -> bool:
    return (part.low is None or shift > part.low) and (part.high is None or shift < part.high)


def _of_segment(part: Part, order: arb, ends: tuple[Fraction, Fraction], work: Work) -> arb:
    scale = part.scale
    terms = []
    for law in (part.p, part.q):
        each = [(w, exact(s), -1 if s <= ends[0] else 1) for s, w in law.items()]
        terms.append(each)

    def integrand(x: acb, analytic: bool) -> acb:
        p, q = (sum((w * (sign * (x - s) / scale).exp() for w, s, sign in each), acb(0)) for each in terms)
        logs = order * p.log(analytic=analytic) - (order - 1) * q.log(analytic=analytic)
        return logs.exp() / (2 * scale)

    return work.integral(integrand, exact(ends[0]), exact(ends[1]), work_of(part))


def of_atom(atom: Atom, order: arb) -> arb:
    """Moment of an outcome."""
    if atom.p.is_zero():
        return arb(0)
    if not atom.q > 0:
        raise NotProvenError("V26: an outcome has no bounded loss, so that no divergence is finite")
    return atom.p**order * atom.q ** (1 - order)


def work_of(part: Part) -> int:
    """How many products an evaluation of the integrand of a part takes."""
    if part.noise == "gaussian":
        return sum(unit_of({s - min(law): w for s, w in law.items()})[1] + 20 for law in (part.p, part.q))
    return (len(part.p) + len(part.q)) * 20


def is_bound(run: Object) -> bool:
    """Whether the pair of a run is not known to be attained: dealt groups, and replaced records by number."""
    return is_counted(run) or any(
        is_dealt(step) and dealt_moments.is_bound(step) for step, _ in steps_of(run, "adjacency")
    )


def renyi(run: Object, direction: str, witness: Object, order: float, claims: int = 1) -> arb:
    """Enclose the Renyi divergence of a run in one direction; one of so many claims."""
    refuse_alike(run)
    drawn = [step for step, _ in steps_of(run, "adjacency") if not is_dealt(step)]
    pairs = steps_in_parts({**run, "steps": drawn}, direction) if drawn else []
    work = Work(claims)
    at, total = arb(order), arb(0)
    for step, count in pairs:
        moment = arb(0)
        for part in step:
            if isinstance(part, Atom):
                moment += of_atom(part, at)
            else:
                of_part = of_gaussian if part.noise == "gaussian" else of_laplace
                moment += of_part(part, at, work)
        total += count * moment.log()
    dealt = [(step, count) for step, count in steps_of(run, "adjacency") if is_dealt(step)]
    rules = items(witness["rules"], "rules", 0, dealt_moments.LARGEST_RULES)
    total += dealt_moments.log_moment(dealt, direction, rules, Fraction(order), claims)
    divergence: arb = total / (at - 1)
    return divergence
