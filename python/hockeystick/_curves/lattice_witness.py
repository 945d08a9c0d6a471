"""Numbers that make the proof of a certificate on a lattice short: the window, tilts, spacing and ranges.

Nothing here is proven, as in `hockeystick._curves.witness`. The pairs are those of the checker, in doubles.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

POINTS = tuple(1 << size for size in range(8, 19))
"""Sizes of the window that are tried, smallest first; the checker takes a second for every 30,000 points."""
FINE, GOOD, ENOUGH = 1e-6, 5e-4, 2e-2
"""Relative widths: aimed at where windows of `CHEAP` points suffice, aimed at otherwise, and accepted."""
CHEAP = 1 << 13
"""From so many points on, `GOOD` is enough. Half a second to check; twice as many take twice the time."""
NEGLIGIBLE = math.log(1e-7)
"""Logarithm of what each of the further errors may be, relative to delta."""
OUTPUTS = 20_001
MOST_CELLS = 4.0e5
BLOCKS = 24
RISE = 0.5
"""How much the logarithms of the moments in the window's bounds may rise because losses are rounded."""
MOST_RANGES = 128
TILTS = np.geomspace(1e-3, 1e5, 321)
MOST_TILT = 1e6
"""Largest tilt that the checker takes."""
EXACT_BITS = 128


class StepLaw:
    """The loss of a step under P, in doubles: losses in ascending order, and logarithms of probabilities."""

    def __init__(self, step: Any, count: int, log_delta: float) -> None:
        self.count = count
        self.components = sum(
            len(part.p) + len(part.q) for part in step if hasattr(part, "p") and part_of(part)
        )
        self.atoms = not any(part_of(part) for part in step)
        found = [_part(part, log_delta) if part_of(part) else _atom(part) for part in step]
        self.parts = [each for part, each in zip(step, found, strict=True) if part_of(part)]
        losses, logs = (np.concatenate([each[i] for each in found]) for i in (0, 1))
        order = np.argsort(losses)
        self.losses, self.logs = losses[order], logs[order]
        ends = [_ends(part) for part in step]
        self.low, self.high = min(low for low, _ in ends), max(high for _, high in ends)

    def cumulant(self, tilt: float) -> float:
        """Logarithm of E[e^(tilt loss)]."""
        return self.count * _log_sum(self.logs + tilt * self.losses)

    def shares(self, tilt: float) -> list[float]:
        """How much each continuous part has of E[e^(tilt loss)], but at least a little."""
        sizes = [_log_sum(logs + tilt * losses) for losses, logs in self.parts]
        whole = _log_sum(self.logs + tilt * self.losses)
        return [math.exp(max(size - whole, -60.0)) for size in sizes]

    def weights(self, tilt: float) -> Floats:
        """Probabilities under the law tilted by e^(tilt loss)."""
        logs = self.logs + tilt * self.losses
        found: Floats = np.exp(logs - _log_sum(logs))
        return found

    def range(self, tilt: float, level: float) -> tuple[float, float]:
        """Losses between which all probabilities, tilted or not, are but for a part e^level."""
        low, high = math.inf, -math.inf
        for each in (0.0, tilt):
            weights = self.weights(each)
            upper = np.cumsum(weights[::-1])[::-1]
            lower = np.cumsum(weights)
            places = np.flatnonzero((upper > math.exp(level)) & (lower > math.exp(level)))
            low, high = min(low, float(self.losses[places[0]])), max(high, float(self.losses[places[-1]]))
        return low, high


def _smooth(least: float) -> int:
    """Smallest 4, 5, 6 or 7 times a power of two that is not below: such transforms are fast."""
    unit = 1 << max(0, math.floor(math.log2(least)) - 2)
    return unit * math.ceil(least / unit)


def part_of(part: Any) -> bool:
    """Whether a part of a step is a continuous one, and not an atom."""
    return len(part) > 2


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum())) if top > -math.inf else -math.inf


def _atom(atom: Any) -> tuple[Floats, Floats]:
    p, q = float(atom.p), float(atom.q)
    return np.array([math.log(p / q)]), np.array([math.log(p)])


def _mixture(part: Any, law: Any, x: Floats) -> Floats:
    """Logarithm of the density of a mixture at outputs."""
    scale, found = float(part.scale), np.full_like(x, -np.inf)
    for shift, weight in law.items():
        away = (x - float(shift)) / scale
        each = -(away**2) / 2 if part.noise == "gaussian" else -np.abs(away)
        found = np.logaddexp(found, math.log(float(weight)) + each)
    return found - math.log(scale * (math.sqrt(2 * math.pi) if part.noise == "gaussian" else 2.0))


def _part(part: Any, log_delta: float) -> tuple[Floats, Floats]:
    scale = float(part.scale)
    shifts = sorted(float(shift) for shift in (*part.p, *part.q))
    gaussian = part.noise == "gaussian"
    reach = scale * (math.sqrt(2 * (60 - log_delta)) if gaussian else 80 - log_delta)
    low = shifts[0] - reach if part.low is None else float(part.low)
    high = shifts[-1] + reach if part.high is None else float(part.high)
    edges = np.linspace(low, high, OUTPUTS)
    if not gaussian:
        inner = [shift for shift in (shifts[0], shifts[-1]) if low < shift < high]
        edges = np.unique(
            np.concatenate([np.linspace(a, b, OUTPUTS // 3) for a, b in _between(low, high, inner)])
        )
    x = (edges[1:] + edges[:-1]) / 2
    log_p, log_q = _mixture(part, part.p, x), _mixture(part, part.q, x)
    return log_p - log_q, log_p + np.log(np.diff(edges)) + math.log(float(part.weight))


def _between(low: float, high: float, inner: list[float]) -> list[tuple[float, float]]:
    ends = [low, *inner, high]
    return list(pairwise(ends))


def _ends(part: Any) -> tuple[float, float]:
    """Least and largest loss of a part; infinite ones if it has no bound."""
    if not part_of(part):
        loss = math.log(float(part.p) / float(part.q))
        return loss, loss
    lattice = needed("hockeystick_verify.lattice", "verify")
    low, high = lattice.end_of_loss(part, False), lattice.end_of_loss(part, True)
    return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))


class LatticeWitness:
    """Looks for a window and spacings about one ordered pair, near one epsilon."""

    def __init__(self, run: dict[str, Any], direction: str, epsilon: float, log_delta: float) -> None:
        parts = needed("hockeystick_verify.parts", "verify")
        self.context = needed("flint", "verify").ctx
        self.context.prec = EXACT_BITS
        self.epsilon, self.log_delta, self.allowed, self.aimed = epsilon, log_delta, 1.0, GOOD
        steps = parts.steps_in_parts(run, direction)
        self.laws = [StepLaw(step, count, log_delta) for step, count in steps]
        self.steps = sum(law.count for law in self.laws)
        self.tilt = self._saddle()

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

    def _window(self) -> tuple[float, float, float, float]:
        """Losses below and above epsilon that the window needs, and the tilts of its bounds."""
        goal = self.log_delta + NEGLIGIBLE
        best = (math.inf, math.inf, 0.0, 0.0)
        for factor in (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 60.0):
            outer = min(self.tilt * factor, MOST_TILT)
            raised = self._cumulant(outer) - outer * self.epsilon - goal
            up = max(raised / outer, 1e-6)
            for left in (0.0, *np.geomspace(0.01, 100.0, 17)):
                fallen = self._cumulant(-float(left)) + left * self.epsilon - goal - self.tilt * up
                down = max(0.0, fallen / (self.tilt + left), raised / (outer - self.tilt) - up)
                if up + down < best[0] + best[1]:
                    best = (down, up, outer, float(left))
        return best

    def find(self) -> dict[str, Any]:
        """Return the witness.

        Raises
        ------
        UnsupportedError
            If the interval would be wide, or the checker would take long.
        """
        down, up, outer, left = self._window()
        period = 1.02 * (down + up) + 1e-9
        curvature = self.tilt * (self.tilt + 1.0)
        exact = len(self.laws) == 1 and self.laws[0].atoms
        first = self.laws[0]
        bounded = len(self.laws) == 1 and not exact and math.isfinite(first.low) and math.isfinite(first.high)
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
            good = FINE if points < CHEAP else GOOD
            if width < good or (points == POINTS[-1] and width < ENOUGH):
                self.aimed = max(min(width, GOOD), FINE)
                break
        else:
            raise UnsupportedError(
                "the checker would need more than a minute or two for this claim, or could prove only a wide "
                "interval"
            )
        kinds = [self._kind(law, spacing, curvature, (outer, -left)) for law in self.laws]
        if not exact:
            points = _smooth(period / spacing + 8)
        offset = sum(law.count * kind["start"] for law, kind in zip(self.laws, kinds, strict=True))
        place = math.floor((self.epsilon - down - offset) / spacing) - 4
        lost = -self.log_delta + 40 + math.log(self.steps)
        bits = max(96, math.ceil((lost + max(0.0, self.tilt * down)) / math.log(2.0)) + 64)
        found: dict[str, Any] = {
            "bits": min(bits, 1024),
            "method": "lattice",
            "spacing": spacing,
            "points": points,
        }
        found |= {"first": place, "tilt": self.tilt, "outer_tilt": outer, "left_tilt": left, "kinds": kinds}
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
        level = max(self.log_delta + NEGLIGIBLE - math.log(self.steps) - 5.0, -690.0)
        low, high = law.range(self.tilt, level)
        low, high = max(low, law.low), min(high, law.high)
        first, last = math.floor((low - start) / spacing) - 2, math.ceil((high - start) / spacing) + 2
        weights, *at_ends = (law.weights(tilt) for tilt in (self.tilt, *ends))
        places = (law.losses - start) / spacing
        middle = round(float(places[int(np.searchsorted(np.cumsum(weights), 0.5))]))
        coarser = [
            1 << max(0, min(10, math.floor(math.log2(0.05 / share) / 2))) for share in law.shares(self.tilt)
        ]
        ranges: list[list[int]] = []
        cells, at = 0, first
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
            cells += (end - at) // stride + 1
            at += math.ceil((end - at) / stride) * stride
        if cells * law.components > MOST_CELLS or len(ranges) > MOST_RANGES:
            raise UnsupportedError("the checker would need more than a minute or two for this claim")
        return {"start": start, "ranges": ranges, "coarser": coarser}


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
