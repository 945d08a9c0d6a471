"""Numbers that make the proof of a certificate on a lattice short: the window, tilts, spacing and ranges.

Nothing here is proven, as in `hockeystick._curves.witness`. The pairs are those of the checker, in doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from hockeystick._curves.dealt_witness import DealtLaw
from hockeystick._curves.step_law import StepLaw, part_of
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

POINTS = (*(1 << size for size in range(8, 19)), 458_000)
"""Sizes of the window that are tried, smallest first; the checker takes a second for every 30,000 points, and
refuses more than 524,288."""
FINE, GOOD, ENOUGH = 1e-6, 5e-4, 0.5
"""Relative widths: aimed at where windows of `CHEAP` points suffice, aimed at otherwise, and accepted."""
COARSE = 0.05
"""Aimed at if a proof to `GOOD` has too many cells: two of 5,000 random runs, with a delta of about 1e-95."""
CHEAP = 1 << 13
"""From so many points on, `GOOD` is enough. Half a second to check; twice as many take twice the time."""
NEGLIGIBLE = math.log(1e-7)
"""Logarithm of what each of the further errors may be, relative to delta."""
WIDE = 0.3
"""Aimed at if that has too many cells too, as for groups of tens in samples that are cut: where epsilon is
large, it is some percent larger then."""
MOST_CELLS = 4.0e5
"""Cells of all steps, times the components of their mixtures: the checker takes a minute for so many, and
refuses 10^6. Twice as many are accepted where the aim is `COARSE` already."""
LEFT_OUT = math.log(1e-4)
"""Logarithm of what shifts that are left out may add, relative to delta."""
MANY_SHIFTS = 256
"""Shifts of all parts of a step from which on large ones are left out (V24): most have fewer."""
BLOCKS = 24
"""Blocks of cells that share what rounding losses may cost: roughly as many as a window has. With more, each
is finer than it has to be; with fewer, the proven interval is wider than was aimed at."""
RISE = 0.5
"""How much the logarithms of the moments in the window's bounds may rise because losses are rounded."""
MOST_RANGES = 128
"""Ranges of cells of one width in a step; most have tens, and a claim that needs more is out of reach."""
TILTS = np.geomspace(1e-3, 1e5, 321)
"""Where the saddle point is looked for, 6 % apart: a bound near its least is flat, so that closer ones gain
nothing. Each takes the moments of all laws."""
TILT_PARTS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2)
"""Tilts of the sum that are tried, over the saddle point. Lower ones take a few bits more, and leave room
below the tilt at which moments of rare and large losses explode: a window can be several times shorter."""
OUTER_TILTS = (0.9, 1.0, 1.03, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 60.0)
"""Tilts of the bound on losses above the window that are tried, over the saddle point."""
LEFT_TILTS = (0.0, *np.geomspace(0.01, 100.0, 17).tolist())
"""Tilts of the bound on losses below the window."""
MOST_TILT = 1e6
"""Largest tilt that the checker takes."""
ABOVE = tuple(0.5 * place for place in range(81))
"""How far above epsilon losses are told apart; 17 is enough for `NEGLIGIBLE` unless other losses are low."""
EXACT_BITS = 128
"""Bits in which the probabilities of laws are computed before they are rounded to doubles."""
DIGITS = 45.0
"""Accuracy of the transforms relative to delta, in natural logarithms."""


def smooth(least: float) -> int:
    """Smallest 4, 5, 6 or 7 times a power of two that is not below: such transforms are fast."""
    unit = 1 << max(0, math.floor(math.log2(least)) - 2)
    return unit * math.ceil(least / unit)


def window_near(
    cumulant: Callable[[float], float], saddle: float, epsilon: float, log_delta: float
) -> tuple[float, float, float, float, float]:
    """Losses below and above epsilon that the window needs, its tilt and those of its bounds.

    The logarithms of the moments of the sum are `cumulant`, of which `saddle` is the tilt at epsilon.
    """
    goal = log_delta + NEGLIGIBLE
    outers = [min(saddle * factor, MOST_TILT) for factor in OUTER_TILTS]
    raised = [cumulant(outer) - outer * epsilon - goal for outer in outers]
    fallen = [cumulant(-left) + left * epsilon - goal for left in LEFT_TILTS]
    best = (math.inf, math.inf, 0.0, 0.0, 0.0)
    for tilt in (float(f"{saddle * part:.3g}") for part in TILT_PARTS):
        for outer, over in zip(outers, raised, strict=True):
            up = max(over / outer, 1e-6)
            for left, under in zip(LEFT_TILTS, fallen, strict=True) if outer > tilt else ():
                down = max(0.0, (under - tilt * up) / (tilt + left), over / (outer - tilt) - up)
                if up + down < 0.95 * (best[0] + best[1]):
                    best = (down, up, tilt, outer, left)
    return best


class LatticeWitness:
    """Looks for a window and spacings about one ordered pair, near one epsilon and down to `least`."""

    def __init__(
        self,
        run: dict[str, Any],
        direction: str,
        epsilon: float,
        log_delta: float,
        least: float | None = None,
    ) -> None:
        checker = needed("hockeystick_verify.lattice", "verify")
        self.context = needed("flint", "verify").ctx
        self.context.prec = EXACT_BITS
        self.epsilon, self.log_delta, self.allowed, self.aimed = epsilon, log_delta, 1.0, GOOD
        self.least = epsilon if least is None else least
        self.checker, level = checker, log_delta + LEFT_OUT
        self.laws = [self._law(step, count, level) for step, count in checker.pairs_of(run, direction)]
        self.steps = sum(law.count for law in self.laws)
        self._cut()
        self.tilt = self._saddle()
        if not math.isfinite(self._cumulant(self.tilt)):
            raise UnsupportedError("no witness on a lattice was found for losses that are this far apart")

    def _law(self, step: Any, count: int, level: float) -> StepLaw:
        """Law of a kind of step; of many shifts without the large ones that together add next to nothing."""
        if not isinstance(step, list):
            return DealtLaw(step, count, self.log_delta)
        shifts = [abs(shift) for part in step if part_of(part) for law in (part.p, part.q) for shift in law]
        found = None
        if len(shifts) > MANY_SHIFTS:
            losses: dict[Any, float] = {}
            for part in step:
                for law in (part.p, part.q) if part_of(part) else ():
                    for shift, weight in law.items():
                        losses[abs(shift)] = losses.get(abs(shift), 0.0) + float(part.weight * weight)
            total, most = 0.0, math.exp(max(level, -690.0)) / count
            for shift in sorted(losses, reverse=True):
                total += losses[shift]
                if total > most:
                    found = shift
                    break
        if found is None or found == max(shifts):
            return StepLaw(step, count, self.log_delta)
        law = StepLaw(self.checker.up_to(step, found)[0], count, self.log_delta)
        law.largest_shift = float(found)
        return law

    def _cut(self) -> None:
        """Leave out what one step decides: losses that no others make up for, and very large ones.

        If losses have a largest value, a step whose loss is so low that all others at their largest do not
        reach epsilon contributes nothing. A step whose loss is L alone contributes (1 - e^(epsilon - S))_+
        with S = L + S', and E[e^(-S')] <= 1 for the other steps: to count it as 1 adds at most
        e^(epsilon - L) of its probability. Without this, far losses make the window very long.
        """
        most = sum(law.count * law.high for law in self.laws)
        goal = self.log_delta + NEGLIGIBLE - math.log(len(self.laws))
        for law in self.laws:
            if law.atoms:
                continue
            floor = self.least - (most - law.high) if math.isfinite(most) else -math.inf
            above = [self.epsilon + more for more in ABOVE]
            enough = [loss for loss in above if law.above(loss) + self.epsilon - loss <= goal]
            law.within(floor, enough[0] if enough else math.inf)

    def _cumulant(self, tilt: float) -> float:
        return sum(law.cumulant(tilt) for law in self.laws)

    def _saddle(self) -> float:
        heights = [
            self._cumulant(float(tilt)) - tilt * self.epsilon - math.log(tilt) - math.log1p(tilt)
            for tilt in TILTS
        ]
        best, goal = int(np.argmin(heights)), self.log_delta + NEGLIGIBLE
        if heights[best] < goal:
            # The whole curve is negligible here, and that is cheaper to see at a smaller tilt.
            best = int(np.flatnonzero(np.array(heights[: best + 1]) < goal)[0])
        self.allowed = math.exp(min(max(0.0, self.log_delta - heights[best] - 3.0), math.log(0.05 / GOOD)))
        return float(f"{TILTS[best]:.3g}")

    def find(self) -> dict[str, Any]:
        """Return the witness.

        Raises
        ------
        UnsupportedError
            If the interval would be wide, or the checker would take long.
        """
        for aimed in (GOOD, COARSE):
            with suppress(UnsupportedError):
                return self._found(aimed)
        return self._found(WIDE)

    def _found(self, aimed: float) -> dict[str, Any]:
        """Witness for an interval of about this relative width; less where that is cheap."""
        down, up, tilt, outer, left = window_near(self._cumulant, self.tilt, self.epsilon, self.log_delta)
        down = max(down, self.epsilon - self.least)
        period = 1.02 * (down + up) + 1e-9
        curvature = self.tilt * (self.tilt + 1.0)
        exact = len(self.laws) == 1 and self.laws[0].atoms
        first = self.laws[0]
        bounded = len(self.laws) == 1 and not exact and math.isfinite(first.low) and math.isfinite(first.high)
        bounded = bounded and first.floor == first.low and first.cap == first.high
        for points in POINTS:
            spacing = period / points
            if exact:
                distances = np.diff(first.losses)
                spacing = float(distances.min()) if len(distances) else period
                if period / spacing > points:
                    continue
                break
            if bounded:
                size = first.high - first.low
                cells = math.ceil(size / spacing)
                if cells < 4:
                    continue
                spacing = size / cells * (1.0 + 1e-15)
            widths = [self._error(law, spacing, curvature) for law in self.laws]
            width = sum(widths) / self.allowed
            good = FINE if points < CHEAP and aimed < WIDE else aimed
            if width < good or (points == POINTS[-1] and width < ENOUGH):
                self.aimed = max(width, FINE)
                break
        else:
            raise UnsupportedError(
                "the checker would need more than a minute or two for this claim, or could prove only a wide "
                "interval"
            )
        kinds = [self._kind(law, spacing, curvature, (outer, -left)) for law in self.laws]
        if not exact:
            points = smooth(period / spacing + 8)
        offset = sum(law.count * kind["start"] for law, kind in zip(self.laws, kinds, strict=True))
        place = math.floor((self.epsilon - down - offset) / spacing) - 4
        # Errors of the transforms are relative to the whole tilted law, which is e^height.
        height = self._cumulant(tilt) - tilt * self.epsilon
        lost = max(height - self.log_delta, 0.0) + math.log(self.steps) + DIGITS
        bits = max(96, math.ceil(lost / math.log(2.0)) + 32)
        found: dict[str, Any] = {
            "bits": min(bits, 1024),
            "method": "lattice",
            "spacing": spacing,
            "points": points,
        }
        found |= {"first": place, "tilt": tilt, "outer_tilt": outer, "left_tilt": left, "kinds": kinds}
        return found

    def _error(self, law: StepLaw, spacing: float, curvature: float) -> float:
        """Relative error that rounding the losses of a kind to the lattice makes."""
        return 0.0 if law.atoms and len(self.laws) == 1 else law.count * curvature * spacing**2 / 6

    def _kind(
        self, law: StepLaw, spacing: float, curvature: float, ends: tuple[float, float]
    ) -> dict[str, Any]:
        """Start and ranges of the lattice of a kind of step; `ends` are the tilts of the window's bounds."""
        start = law.high if math.isfinite(law.high) else 0.0
        if law.atoms:
            return {"start": float(law.losses[-1]), "ranges": [], "coarser": []}
        if isinstance(law, DealtLaw):
            return {"start": start, "ranges": [], "coarser": [], "dealt": law.entry}
        level = max(self.log_delta + NEGLIGIBLE - math.log(self.steps) - 5.0, -690.0)
        low, high = law.range(self.tilt, level)
        low, high = max(low, law.floor), min(high, law.cap)
        first, last = math.floor((low - start) / spacing) - 2, math.ceil((high - start) / spacing) + 2
        weights, *at_ends = (law.weights(tilt) for tilt in (self.tilt, *ends))
        places = (law.losses - start) / spacing
        middle = round(float(places[int(np.searchsorted(np.cumsum(weights), 0.5))]))
        coarser = [
            1 << max(0, min(10, math.floor(math.log2(0.05 / share) / 2))) for share in law.shares(self.tilt)
        ]
        ranges: list[list[int]] = []
        at = first
        while at < last:
            size = max(64, round(0.35 * abs(at - middle)))
            end = min(at + size if at >= middle else min(at + size, max(middle, at + 64)), last)
            here = (places >= at - 1) & (places < end + 1)
            allowed = 0.3 * self.aimed * self.allowed / BLOCKS
            allowed /= law.count * curvature * spacing**2 * max(float(weights[here].sum()), 1e-300)
            doublings = max(
                0, min(10, math.floor(math.log2(max(allowed, 1.0)) / 2), (end - at).bit_length() - 3)
            )
            for tilt, each in zip(ends, at_ends, strict=True):
                heavy = law.count * float(each[here].sum()) * BLOCKS / RISE
                doublings = _narrow_enough(doublings, abs(tilt) * spacing * max(coarser), heavy)
            stride = 1 << doublings
            ranges.append([at, end, stride])
            at += math.ceil((end - at) / stride) * stride
        cells = sum(
            size * ((b - a) // (stride * times) + 1)
            for size, times in zip(law.components, coarser, strict=True)
            for a, b, stride in ranges
        )
        if cells > MOST_CELLS * (2.0 if self.aimed >= COARSE else 1.0) or len(ranges) > MOST_RANGES:
            raise UnsupportedError("the checker would need more than a minute or two for this claim")
        found = {"start": start, "ranges": ranges, "coarser": coarser}
        return found if law.largest_shift is None else found | {"largest_shift": law.largest_shift}


def _narrow_enough(doublings: int, width: float, heavy: float) -> int:
    """Fewer doublings of a stride, until what a cell adds to a moment is below the part it may add.

    A cell that is `w` tilts wide adds at most w^2/8 e^w of what it has of the moment; `heavy` is that, over
    what may be added. Cells are up to a thousand places wide, and one that is ten tilts wide adds e^10.
    """
    while doublings > 0:
        w = width * (1 << doublings)
        if math.log(max(heavy, 1e-300)) + 2 * math.log(w + 1e-300) + w < math.log(8.0):
            break
        doublings -= 1
    return doublings
