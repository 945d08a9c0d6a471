"""Numbers that make the proof of a certificate short, chosen in double precision: tilts, spacings and ends.

Nothing here is proven. Every bound of docs/theory/certificates.md is evaluated in floating point, and the
cheapest numbers are taken for which the bounds are small enough; the checker proves what it is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Floats

MOST_WORK = 8.0e7
"""Products of nodes and points of the line; the checker refuses 1e8, which take it about a minute."""
MOST_TERMS = 2 * 10**5
"""Most points of the line that the checker computes."""
NODE, SHIFT = 250.0, 50.0
"""What a node costs besides, in the same unit, and each shift there if shifts are no multiples of one."""
MOST_MULTIPLE = 20_000
"""Up to so many times the unit, the checker evaluates a polynomial, if that costs less than all shifts."""
ENOUGH = 4.0e6
"""Products that cost the checker a second: no cheaper proof is looked for."""
LARGEST_TILT = 1e6
"""The largest tilt that the checker takes."""
LARGEST_ANGLE = 2.9
"""Most by which a strip turns the likelihood ratio; it may vanish from pi on, and the checker refuses 3."""
ANGLES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.2, 1.45, 1.8, 2.2, 2.6, LARGEST_ANGLE])
"""Strips that are tried, as angles up to that one."""
MOST_RISE = 12.0
"""How much larger, in natural logarithms, an integrand may be than at the saddle point; it costs bits."""
ENOUGH_BELOW = 6.0
"""How far below the target, in natural logarithms, an integrand is that need not be smaller still."""
MOST_AT_ONCE = 100_000
"""Terms of sums that are kept at once: as many as fit in the cache of a core."""
LEAST_TERM = -80.0
"""Logarithm of the least term of a sum, next to the largest: numbers below 1e-308 make products slow."""
CUT_LEVELS = (0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03)
"""Losses from which a step counts as far, as parts of epsilon."""
CUT_WIDTHS = (0.1, 0.18, 0.3, 0.5)
"""Widths of a cut, in units of the noise. With all of them twice as wide a certificate takes six times as
long to make and check."""


def _products(shifts: Floats) -> float:
    """Return what the checker counts for a law at an output: of a polynomial, where that costs less.

    That needs shifts that are multiples of one number, up to rounding, which Euclid's algorithm finds.
    """
    largest, unit = float(shifts.max()), 0.0
    for shift in shifts.tolist():
        rest = shift
        while rest > 1e-9 * largest:
            unit, rest = rest, abs(unit - rest * round(unit / rest))
    degree = largest / unit if unit > 0.0 else 0.0
    each = SHIFT * len(shifts)
    return degree if degree <= min(MOST_MULTIPLE, each) else each


@dataclass(frozen=True)
class Kind:
    """A kind of step: the logarithms of the weights, and the shifts, of P and of Q; None for no mixture."""

    sigma: float
    p: tuple[Floats, Floats] | None
    q: tuple[Floats, Floats] | None
    steps: int

    @property
    def largest(self) -> float:
        """Largest shift."""
        return max(float(law[1].max()) for law in (self.p, self.q) if law is not None)

    @property
    def angle(self) -> float:
        """Most by which the argument of a likelihood ratio turns when the output is moved by i."""
        return self.largest / self.sigma**2

    @property
    def evaluation(self) -> float:
        """What the checker counts for the likelihood ratios at one output, in products."""
        laws = [law[1] for law in (self.p, self.q) if law is not None]
        return sum(_products(shifts) for shifts in laws)

    def end(self, tilt: float, deviations: float) -> float:
        """Output so many deviations of the noise beyond the place where the integrand is largest."""
        start = 0.0 if self.p is None else (1.0 + tilt) * float(self.p[1].max())
        if self.q is None:
            return start + deviations * self.sigma
        sloped = start + tilt * float(self.q[1].max()) + deviations * self.sigma
        if self.q[1][0] > 0.0:
            return sloped
        extra = -2.0 * tilt * float(self.q[0][0])
        return min(sloped, start + math.sqrt(deviations**2 + extra) * self.sigma)

    def logs(self, x: Floats) -> tuple[Floats, Floats]:
        """Logarithms of both likelihood ratios at outputs."""
        return _log_ratio(self.p, x, self.sigma), _log_ratio(self.q, -x, self.sigma)

    def logs_above(self, x: Floats, heights: Floats) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Logarithms of both likelihood ratios that far above the real line, a row for each height."""
        return _log_ratios(self.p, x, heights, self.sigma), _log_ratios(self.q, -x, heights, self.sigma)

    def outputs(self, tilt: float, deviations: float) -> Floats:
        """Equidistant outputs that hold the tilted law up to so many deviations."""
        wide = min(self.sigma / 5.0, 0.25 * LARGEST_ANGLE / self.angle)
        start, end = -deviations * self.sigma, self.end(tilt, deviations)
        count = min(math.ceil((end - start) / wide) + 2, 200_000)
        return np.linspace(start, end, count)


def _log_ratio(law: tuple[Floats, Floats] | None, x: Floats, sigma: float) -> Floats:
    if law is None:
        return np.zeros_like(x)
    weights, shifts = law
    found = np.empty_like(x)
    rows = max(1, MOST_AT_ONCE // len(weights))
    for start in range(0, len(x), rows):
        each = np.multiply.outer(shifts / sigma**2, x[start : start + rows])
        each += (weights - shifts**2 / (2 * sigma**2))[:, None]
        top = each.max(axis=0)
        each -= top
        found[start : start + rows] = top + np.log(np.exp(each, out=each).sum(axis=0))
    return found


def _log_ratios(
    law: tuple[Floats, Floats] | None, x: Floats, heights: Floats, sigma: float
) -> NDArray[np.complex128]:
    """Logarithms of a likelihood ratio at outputs x + i height, a row for each height.

    A height turns every term by an angle of its own, whatever x is: all heights share the exponentials.
    """
    found = np.zeros((len(heights), len(x)), dtype=np.complex128)
    if law is None:
        return found
    weights, shifts = law
    angles = np.multiply.outer(heights, shifts / sigma**2)
    turned = np.concatenate([np.cos(angles), np.sin(angles)])
    rows = max(1, MOST_AT_ONCE // len(weights))
    for start in range(0, len(x), rows):
        each = np.multiply.outer(shifts / sigma**2, x[start : start + rows])
        each += (weights - shifts**2 / (2 * sigma**2))[:, None]
        top = each.max(axis=0)
        terms = np.exp(np.maximum(each - top, LEAST_TERM))
        real, imaginary = np.split(turned @ terms, 2)
        found[:, start : start + rows] = top + np.log(real + 1j * imaginary)
    return found


class Outputs:
    """Outputs of a kind with their losses, for many questions about one tilt."""

    def __init__(self, kind: Kind, tilt: float, deviations: float = 9.0) -> None:
        self.kind, self.x = kind, kind.outputs(tilt, deviations)
        self.log_p, log_q = kind.logs(self.x)
        self.loss = self.log_p - log_q
        step = (self.x[1] - self.x[0]) / (kind.sigma * math.sqrt(2 * math.pi))
        self.noise = math.log(step) - self.x**2 / (2 * kind.sigma**2)
        self.far = np.zeros_like(self.x)
        """Logarithms of the probabilities to be far."""
        self.near = np.full_like(self.x, -np.inf)
        self.rate = 1 / kind.sigma**2

    def cut(self, at: float, width: float) -> None:
        """Call outputs far from about `at` on."""
        self.far, self.near = _log_normal((self.x - at) / width), _log_normal((at - self.x) / width)
        self.rate = 1 / self.kind.sigma**2 + 1 / width**2

    def moment(self, tilt: float) -> float:
        """Logarithm of E[e^(tilt loss)]."""
        return _log_sum(self.noise + self.log_p + tilt * self.loss)

    def near_moment(self, tilt: float) -> float:
        """Logarithm of the near part of it."""
        return _log_sum(self.noise + self.log_p + tilt * self.loss + self.near)

    def decays(self, tilt: float) -> list[tuple[float, Floats, Floats]]:
        """For each shift: the shift, logarithms of the integrand that bounds the decay, and angles."""
        found = []
        moment = self.moment(tilt)
        shifts = ANGLES[ANGLES <= LARGEST_ANGLE / 1.25] / self.kind.angle
        for shift, above, below in zip(shifts.tolist(), *self.kind.logs_above(self.x, shifts), strict=True):
            size = (1 + tilt) * above.real - tilt * below.real + self.noise + self.far - moment
            found.append((shift, size + shift**2 * self.rate / 2, above.imag + below.imag))
        return found


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum())) if top > -math.inf else -math.inf


def _log_normal(x: Floats) -> Floats:
    """Logarithm of the normal distribution function, to a percent (Pollak 1956)."""
    size = np.abs(x)
    tail = -(size**2) / 2 - np.log(size + np.sqrt(size**2 + 8 / math.pi)) + math.log(math.sqrt(2 / math.pi))
    found: Floats = np.where(x <= 0, tail, np.log1p(-np.minimum(np.exp(tail), 0.5)))
    return found


class Witness:
    """Looks for the cheapest proof about one ordered pair at one epsilon."""

    def __init__(
        self, kinds: list[Kind], mu_squared: float, epsilon: float, log_delta: float, tolerance: float
    ) -> None:
        self.kinds, self.mu_squared, self.epsilon = kinds, mu_squared, epsilon
        self.target = math.log(tolerance / 8.0) + log_delta
        """Logarithm of what each of the errors may be."""
        self.steps = sum(kind.steps for kind in kinds)
        self.tilt = self._saddle()
        self.tilt, self.outer, self.spacing = self._line()
        self.level = self._cumulant(self.tilt) - self.tilt * epsilon
        """Logarithm of the size of the integrand."""
        digits = max(self.level - self.target, 10.0) + math.log(self.steps) + math.log1p(1 / self.tilt) + 6.0
        self.digits = digits
        """Natural logarithm of the accuracy that a moment needs."""
        self.deviations = math.sqrt(2.0 * digits) + 0.5
        self.bits = min(1024, max(96, math.ceil((digits + 25.0) / math.log(2.0)) + 32))

    def _cumulant(self, tilt: float) -> float:
        total = self.mu_squared * tilt * (tilt + 1) / 2
        return total + sum(k.steps * Outputs(k, tilt).moment(tilt) for k in self.kinds)

    def _saddle(self) -> float:
        """Tilt at which the integrand is smallest on the real line."""

        def height(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return self._cumulant(tilt) - tilt * self.epsilon - log_tilt - math.log1p(tilt)

        golden = (math.sqrt(5.0) - 1) / 2
        low, high = math.log(1e-3), math.log(1e5)
        inner = [high - golden * (high - low), low + golden * (high - low)]
        heights = [height(each) for each in inner]
        while high - low > 0.02:
            if heights[0] < heights[1]:
                high, inner[1], heights[1] = inner[1], inner[0], heights[0]
                inner[0] = high - golden * (high - low)
                heights[0] = height(inner[0])
            else:
                low, inner[0], heights[0] = inner[0], inner[1], heights[1]
                inner[1] = low + golden * (high - low)
                heights[1] = height(inner[1])
        best = (low + high) / 2
        if height(best) < self.target - ENOUGH_BELOW:
            # The whole curve is negligible here, and that is cheaper to see at a smaller tilt.
            low, high = math.log(1e-3), best
            while high - low > 0.02:
                middle = (low + high) / 2
                low, high = (low, middle) if height(middle) < self.target - ENOUGH_BELOW else (middle, high)
            best = high
        return float(f"{math.exp(best):.4g}")

    def _line(self) -> tuple[float, float, float]:
        """Tilt, tilt beyond the line, and the spacing for which both series of V3 are small.

        Large groups have moments that explode just beyond the saddle point: the line steps back from there.
        """
        parts = self.tilt * np.array([0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0])
        heights = [self._cumulant(float(outer)) - float(outer) * self.epsilon for outer in parts]
        best = (math.inf, 0.0, 0.0)
        for place, tilt in enumerate(parts[:5]):
            if heights[place] > heights[4] + MOST_RISE:
                continue
            for outer, height in zip(parts[place + 1 :], heights[place + 1 :], strict=True):
                least = max((1.0 - self.target) / tilt, (height + 1.0 - self.target) / (outer - tilt))
                best = min(best, (float(least), float(tilt), float(outer)))
        period, tilt, outer = best
        return float(f"{tilt:.6g}"), float(f"{outer:.6g}"), float(f"{2 * math.pi / period:.4g}")

    def find(self) -> tuple[float, dict[str, Any]]:
        """Return the cost of the cheapest witness, and the witness, whether or not the checker accepts it."""
        plain = self._plain()
        if plain[0] <= ENOUGH:
            return plain
        found = [plain]
        for level in CUT_LEVELS:
            for width in CUT_WIDTHS:
                split = self._split(level, width)
                if split is not None:
                    found.append(split)
            if min(cost for cost, _ in found) <= ENOUGH:
                break
        return min(found, key=lambda each: each[0])

    def _plain(self) -> tuple[float, dict[str, Any]]:
        each = [Outputs(kind, self.tilt) for kind in self.kinds]
        decays = [outputs.decays(self.tilt) for outputs in each]

        def bounds(frequency: float) -> list[tuple[float, float]]:
            return [smallest(decay, frequency) for decay in decays]

        def end(frequency: float) -> float:
            """Return the logarithm of a bound on what the integral has beyond a frequency."""
            total = -(frequency**2) * self.mu_squared / 2 + self.level - math.log(math.pi * frequency)
            found = bounds(frequency)
            return total + sum(k.steps * min(b, 0.0) for k, (b, _) in zip(self.kinds, found, strict=True))

        last = self._last(end)
        # Of steps with tiny shifts the bounds may be far above 0, where they say nothing.
        found = [min(max(bound, -300.0), 1.0) for bound, _ in bounds(last)]
        accuracies = [math.log(0.1 * min(math.exp(bound), max(-math.expm1(bound), 1e-12))) for bound in found]
        return self._numbers(each, last, [s for _, s in bounds(last)], accuracies, None)

    def _split(self, level: float, width: float) -> tuple[float, dict[str, Any]] | None:
        """Witness with a cut, or None if the steps that are not far can reach epsilon."""
        each = [Outputs(kind, self.tilt) for kind in self.kinds]
        cuts = []
        for outputs in each:
            place = int(np.searchsorted(outputs.loss, level * self.epsilon))
            if not 0 < place < len(outputs.x) or self.epsilon <= 0.0:
                return None
            cuts.append((float(f"{outputs.x[place]:.6g}"), float(f"{width * outputs.kind.sigma:.4g}")))
        near_tilt, remainder = self.tilt, math.inf
        tilts = self.tilt * 1.3 ** np.arange(1, 40)
        for tilt in tilts[tilts <= LARGEST_TILT]:
            total = self.mu_squared * tilt * (tilt + 1) / 2 - tilt * self.epsilon
            for kind, (at, wide) in zip(self.kinds, cuts, strict=True):
                outputs = Outputs(kind, float(tilt))
                outputs.cut(at, wide)
                total += kind.steps * outputs.near_moment(float(tilt))
            if total < remainder:
                near_tilt, remainder = float(tilt), total
            if remainder < self.target or total > remainder + 5.0:
                break
        if remainder > self.target:
            return None
        for outputs, (at, wide) in zip(each, cuts, strict=True):
            outputs.cut(at, wide)
        decays = [outputs.decays(self.tilt) for outputs in each]

        def end(frequency: float) -> float:
            """Return the logarithm of a bound on what the integral has beyond a frequency."""
            found = [smallest(decay, frequency)[0] for decay in decays]
            total = _log_sum(
                np.array([b + math.log(k.steps) for b, k in zip(found, self.kinds, strict=True)])
            )
            return total + self.level - math.log(math.pi * frequency) - frequency**2 * self.mu_squared / 2

        last = self._last(end)
        found = [smallest(decay, last) for decay in decays]
        accuracies = [bound - math.log(10.0) for bound, _ in found]
        cost, witness = self._numbers(each, last, [s for _, s in found], accuracies, cuts, near_tilt)
        witness["near_tilt"] = float(f"{near_tilt:.6g}")
        return cost, witness

    def _last(self, end: Any) -> float:
        """Frequency at which the line may end."""
        low = high = self.spacing
        while end(high) > self.target and high < 1e9 * self.spacing:
            low, high = high, 2 * high
        for _ in range(12):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if end(middle) > self.target else (low, middle)
        return high

    def _numbers(
        self,
        each: list[Outputs],
        last: float,
        shifts: list[float],
        accuracies: list[float],
        cuts: list[tuple[float, float]] | None,
        near_tilt: float = 0.0,
    ) -> tuple[float, dict[str, Any]]:
        """Witness with nodes that are close enough, and its cost."""
        terms = math.ceil(last / self.spacing)
        kinds, nodes, evaluations = [], 0, 0.0
        for place, outputs in enumerate(each):
            kind, shift = outputs.kind, shifts[place]
            heights = ANGLES / kind.angle / 2
            turns = np.log(np.cos(ANGLES / 2)) if kind.q is not None else np.zeros(len(ANGLES))
            growth = 2 * heights**2 * outputs.rate
            spacings = 2 * math.pi * heights / (self.digits + growth - self.tilt * turns)
            for tilt in (self.outer, near_tilt):
                rough = 5.0 + math.log(self.steps) + growth - tilt * turns
                spacings = np.minimum(spacings, 4 * math.pi * heights / rough)
            best = int(spacings.argmax())
            shift_strip = min(shift, LARGEST_ANGLE / kind.angle - shift)
            raised = (shift**2 + shift_strip**2) * outputs.rate / 2 + 2.0
            if kind.q is not None:
                raised -= self.tilt * math.log(math.cos((shift + shift_strip) * kind.angle / 2))
            spacing = min(float(spacings[best]), 2 * math.pi * shift_strip / (raised - accuracies[place]))
            spacing = float(f"{spacing:.3g}") * 0.999
            extra = max(shift, float(heights[best])) ** 2 * outputs.rate / 2
            if kind.q is not None:
                extra -= self.tilt * math.log(math.cos(max(shift, heights[best]) * kind.angle / 2))
            deviations = math.sqrt(self.deviations**2 + 2 * extra)
            start = -deviations * kind.sigma
            end = kind.end(self.outer, deviations)
            if cuts is not None:
                # The near part falls beyond its cut only.
                end = max(end, cuts[place][0] + 3.0 * cuts[place][1])
            count = math.ceil((end - start) / spacing) + 1
            nodes += count
            evaluations += count * kind.evaluation
            found: dict[str, Any] = {
                "start": start,
                "spacing": spacing,
                "nodes": count,
                "height": float(heights[best]),
                "shift": shift,
                "shift_strip": shift_strip,
            }
            if cuts is not None:
                found["cut"] = {"at": cuts[place][0], "width": cuts[place][1]}
            kinds.append(found)
        witness: dict[str, Any] = {"bits": self.bits, "tilt": self.tilt, "outer_tilt": self.outer}
        witness |= {"spacing": self.spacing, "terms": terms, "kinds": kinds}
        cost = (nodes * (terms + NODE) + evaluations) * max(1.0, self.bits / 128)
        return (cost if terms < MOST_TERMS else math.inf), witness


def smallest(decays: list[tuple[float, Floats, Floats]], frequency: float) -> tuple[float, float]:
    """Smallest bound on the decay at a frequency, and its shift."""
    return min((_log_sum(size - frequency * angles), shift) for shift, size, angles in decays)
