"""Certificates of shuffled batches: both ends of their interval, each with a proof of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hockeystick._arguments import float_scalar, require
from hockeystick._curves.certifying import (
    MOST_ABOVE,
    MOST_DIGITS,
    MOST_MORE,
    certificate_of,
    point_of_tradeoff,
)
from hockeystick._curves.shared_work import stage
from hockeystick._curves.shuffled_lower import LowerWitness
from hockeystick._curves.shuffled_witness import UpperWitness, bits_for, described_shuffled
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._curves.certificate import Certificate
    from hockeystick._curves.shuffled_curve import ShuffledCurve

CLOSE = 1e-10
"""Relative distance of a claimed epsilon from the answer of the engine below it, if that is proven."""
TURNS = 60
"""Steps of the search for an epsilon that is proven, at most."""
FIRST = (0.6, 0.9, 0.97, 0.99, 0.997, 0.9995, 1.0005, 1.003, 1.02, 1.1, 1.4, 3.0)
"""Epsilons, over the answer of the engine, at which the lower end is tried first."""
FURTHER = (1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0)
"""Epsilons that are tried next, over the largest one that is proven."""
TURNS_BELOW, CLOSE_BELOW = 8, 1e-8
"""Steps of the search for the largest epsilon whose lower end is proven, and its relative accuracy."""
OF_UPPER = 0.3
"""Rough part of the work that the upper end takes, which the progress bar shows."""
MOST_MOMENT = 2000.0
"""Logarithm of the largest factor of a moment for which members in one batch are told apart exactly."""

TINY = 1e-300
"""Stands for a delta of 0 where a proven delta is compared with it."""

Claim = dict[str, float]


class _Ends:
    """What the checker proves of a run, with witnesses near one point of the curve."""

    def __init__(self, curve: ShuffledCurve) -> None:
        run = (curve.sampling, curve.segments, curve.group_size, curve.adjacency)
        self.described = described_shuffled(*run)
        self.checker = needed("hockeystick_verify.claims", "verify")
        self.context = needed("flint", "verify").ctx
        try:
            self.run = needed("hockeystick_verify.shuffled", "verify").read_run(self.described)
        except self.checker.RefusedError as error:
            raise UnsupportedError(f"the checker does not cover this run: {error}") from None
        self.witness: dict[str, Any] = {"method": "shuffled", "upper": None, "lower": None}

    def look_above(self, log_delta: float) -> None:
        """Look for the witness of the upper end."""
        self.context.prec = self.witness["bits"] = bits_for(log_delta)
        self.witness["upper"] = UpperWitness(self.run, log_delta).find()

    def look_below(self, log_delta: float, epsilon: float | None) -> None:
        """Look for the witness of the lower end, at delta or at an epsilon."""
        self.context.prec = self.witness["bits"]
        self.witness["lower"] = LowerWitness(self.run, log_delta, epsilon).find()

    def certificate(self, claims: list[Claim]) -> Certificate:
        """Return the certificate with these claims."""
        return certificate_of(self.described, claims, {self.described["adjacency"]: self.witness})

    def proven(self, claims: list[Claim]) -> list[Any]:
        """Ask the checker."""
        witnesses = {self.described["adjacency"]: self.witness}
        found: list[Any] = self.checker.check({"run": self.described, "claims": claims, "witness": witnesses})
        return found

    def most(self, about: Claim) -> float:
        """Upper end of delta, or of a divergence."""
        try:
            (found,) = self.proven([{**about, "at_most": 1.0}])
        except (self.checker.NotProvenError, self.checker.RefusedError) as error:
            raise UnsupportedError(f"no proof was found that the checker accepts: {error}") from None
        return float(found.upper)

    def least(self, epsilons: list[float]) -> list[float]:
        """Lower ends of delta; 0 where nothing is proven, as below the window of the witness."""
        window = self.witness["lower"].get("window")
        start = -math.inf if window is None else (window["first"] + 1) * window["spacing"]
        asked = [each for each in epsilons if each >= start]
        try:
            found = self.proven([{"epsilon": each, "at_least": 0.0} for each in asked]) if asked else []
        except (self.checker.NotProvenError, self.checker.RefusedError):
            return [0.0] * len(epsilons)
        known = {each.epsilon: float(each.lower) for each in found}
        return [known.get(each, 0.0) for each in epsilons]


def certificate_of_shuffled(
    curve: ShuffledCurve,
    epsilon: float | None,
    delta: float | None,
    order: float | None,
    alpha: float | None,
) -> Certificate:
    """Certificate of what is not None: of both ends, or of the upper one alone for `order` and `alpha`."""
    if order is not None:
        return _of_divergence(curve, order)
    if alpha is not None:
        ends = _Ends(curve)
        point, line = point_of_tradeoff(curve, alpha)
        level = float(curve.delta(point))
        ends.look_above(math.log(max(level, 1e-300)))
        return ends.certificate([line(ends.most({"epsilon": point}))])
    if epsilon is not None:
        return _of_delta(curve, float_scalar(epsilon, "epsilon"))
    return _of_epsilon(curve, float_scalar(delta, "delta"))


def _of_divergence(curve: ShuffledCurve, order: float) -> Certificate:
    at = float_scalar(order, "order")
    require(1.001 <= at <= 1e4, "order", at, "in [1.001, 1e4]")
    ends = _Ends(curve)
    factor = at * (at - 1.0) * ends.run.moved**2 * ends.run.largest
    factor /= 2.0 * float(min(part.least for part in ends.run.parts)) ** 2
    ends.look_above(-min(factor, MOST_MOMENT))
    return ends.certificate([{"order": at, "at_most": ends.most({"order": at})}])


def _of_delta(curve: ShuffledCurve, epsilon: float) -> Certificate:
    """Certificate of both ends of delta at an epsilon."""
    ends = _Ends(curve)
    least, most = (float(end) for end in curve.bounds(epsilon=epsilon))
    with stage(0.0, OF_UPPER):
        ends.look_above(math.log(max(min(least, most) or most, 1e-300)))
        found = ends.most({"epsilon": epsilon})
    if found > max(MOST_ABOVE, most**-MOST_DIGITS if most else 0.0) * max(most, TINY) or found >= 1.0 > most:
        raise UnsupportedError(f"the checker proves delta <= {found:.3g} only, where {most:.3g} is true")
    claims = [{"epsilon": epsilon, "at_most": found}]
    with stage(OF_UPPER, 1.0):
        ends.look_below(math.log(max(least or most, 1e-300)), epsilon)
        (found,) = ends.least([epsilon])
    if found > 0.0:
        claims.append({"epsilon": epsilon, "at_least": found})
    return ends.certificate(claims)


def _of_epsilon(curve: ShuffledCurve, delta: float) -> Certificate:
    """Certificate of both ends of epsilon at a delta."""
    ends = _Ends(curve)
    low, high = (float(end) for end in curve.bounds(delta=delta))
    require(math.isfinite(high), "delta", delta, "a delta for which epsilon is finite")
    log_delta = math.log(delta)
    with stage(0.0, OF_UPPER):
        ends.look_above(log_delta)
        found = _least_proven(ends, high, delta)
    if found > high * (1.0 + MOST_MORE) + MOST_MORE:
        raise UnsupportedError(f"the checker proves epsilon <= {found:.4g} only, where {high:.4g} is true")
    claims = [{"epsilon": found, "at_most": delta}]
    if low > 0.0:
        with stage(OF_UPPER, 1.0):
            ends.look_below(log_delta, None)
            found = _largest_proven(ends, low, delta)
        claims += [{"epsilon": found, "at_least": delta}] if found > 0.0 else []
    return ends.certificate(claims)


def _least_proven(ends: _Ends, high: float, delta: float) -> float:
    """Epsilon next to the least one at which the upper end of delta is as small as that."""
    high = high * (1.0 + CLOSE) + 1e-13
    if ends.most({"epsilon": high}) <= delta:
        return high
    low, step = high, 1e-9 * high + 1e-12
    while ends.most({"epsilon": high}) > delta:
        low, high, step = high, high + step, 10.0 * step
        require(high < 1e12, "delta", delta, "a delta for which the checker proves a finite epsilon")
    for _ in range(TURNS):
        if high - low <= CLOSE * high:
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if ends.most({"epsilon": middle}) <= delta else (middle, high)
    return high


def _largest_proven(ends: _Ends, low: float, delta: float) -> float:
    """Epsilon next to the largest one at which the lower end of delta is that large; 0 if none is found."""
    points = [low * factor for factor in FIRST]
    known: dict[float, float] = {}
    found, above = 0.0, math.inf
    for turn in range(TURNS_BELOW):
        with stage(turn / TURNS_BELOW, (turn + 1) / TURNS_BELOW):
            known |= zip(points, ends.least(points), strict=True)
        found = max((at for at, value in known.items() if value >= delta), default=0.0)
        above = min((at for at, value in known.items() if at > found), default=math.inf)
        width = above - found
        if not found or width <= CLOSE_BELOW * found:
            break
        if width == math.inf:  # the checker proves more than the engine, as of groups of more than 64
            points = [found * factor for factor in FURTHER]
            continue
        points = [found + width * i / 6.0 for i in range(1, 6)]
        if known[above] > 0.0:  # delta is about exponential in epsilon between two points
            over, under = math.log(known[found] / delta), math.log(known[above] / delta)
            guess = found + width * over / max(over - under, 1e-300)
            away = (width * 10.0**-place for place in (1, 2, 4))
            near = (guess + side for size in away for side in (-size, size))
            points = sorted({*points, *(at for at in near if found < at < above)})
    return found
