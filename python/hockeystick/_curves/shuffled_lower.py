"""Numbers that make the proof of the lower end of shuffled batches short: blocks, cells and the window.

Nothing here is proven, as in `hockeystick._curves.witness`. The probabilities are those of the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._curves.lattice_witness import smooth, window_near
from hockeystick._extras import needed

ORDERS = ("first", "second")
TILTS = np.exp2(np.arange(-24, 41) / 4)
"""Orders of the moments by which candidates are compared, 1/64 to 1,024."""
ROUGH_CELLS, FINE_CELLS = 80, 400
"""Cells of a block's law while lengths of blocks are compared, and for the length that is taken. They choose
the cells of the proof and prove nothing: with fewer, the lower end is lower; with more, the search takes
longer."""
MANY_MEMBERS = 8
"""Members of a group from which on fewer lengths and cells are looked at: their laws take longer."""
REACH = 60.0
"""Standard deviations beyond which no output is looked at."""
BISECTIONS = 12
"""Halvings of the range of outputs to its ends: to a part of 4,000, less than a cell."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""The golden section, by which each step of a search for a peak keeps one of its two inner points."""
REFINED = 40
"""Steps of that search, each of which leaves 62 % of the range: it ends at 1e-8 of it, as a peak is flat.
Twice as many find the same place and take twice the time."""
EPSILON_LOST = 2e-5
"""Part of epsilon that the cells may cost."""
CELLS_IN_A_DEVIATION = 4.0
"""Least cells in a standard deviation of the loss of an epoch."""
MOST_POINTS = 1 << 16
"""Points of the window of the sum, a quarter of what the checker takes; with more, spacings may be finer."""
FEW_EDGES, HALVINGS, MOST_OF_EDGES = 4, 12, 0.4
"""Edges of which none is moved; how often a spacing is doubled; part of the checker's work on edges."""
LITTLE = 1e-9
"""Part of the tilted law beyond which cells are not told apart."""


class Output(NamedTuple):
    """The largest sum of blocks of batches in each part of a run, and the order of the two data sets."""

    length: int
    order: str


class Losses(NamedTuple):
    """Cells of a part of a run: middles, probabilities under both data sets; and how many epochs it has."""

    middles: Floats
    p: Floats
    q: Floats
    epochs: int

    @property
    def losses(self) -> Floats:
        """Logarithms of the quotients of the probabilities."""
        found: Floats = np.log(self.p / self.q)
        return found

    def cumulant(self, tilt: float) -> float:
        """Logarithm of the mean of e^(tilt loss)."""
        terms = np.log(self.p) + tilt * self.losses
        top = float(terms.max())
        return self.epochs * (top + math.log(float(np.exp(terms - top).sum())))


class LowerWitness:
    """Looks for the output that reveals most near an epsilon or a delta, and cells that show it."""

    def __init__(self, run: Any, log_delta: float, epsilon: float | None) -> None:
        self.checker, self.run = needed("hockeystick_verify.shuffled_pair", "verify"), run
        self.ball = needed("flint", "verify").arb
        self.log_delta, self.epsilon, self.bits = log_delta, epsilon, needed("flint", "verify").ctx.prec
        self.members = min(run.group, self.checker.LARGEST_MEMBERS)
        self.epochs = sum(part.epochs for part in run.parts)
        self.longest = max(part.batches for part in run.parts)

    def find(self) -> dict[str, Any]:
        """Return the witness, which says nothing of the last epoch where sums of whole ones tell most."""
        if self.epochs == 1:
            return self._of_one_epoch()
        scored = [
            (self._score(losses), length, order)
            for length in self._lengths()
            for order, losses in zip(ORDERS, self._both_orders(length, self._rough), strict=True)
        ]
        _, length, order = max(scored)
        if length == self.longest and self._is_whole():
            return {"output": "sum"}
        return self._composed(Output(length, order))

    def _is_whole(self) -> bool:
        """Whether every record is in a batch of every epoch, so that sums of epochs are Gaussian."""
        return all(part.batches * self.run.batch == self.run.records for part in self.run.parts)

    @property
    def _rough(self) -> int:
        return ROUGH_CELLS if self.members <= MANY_MEMBERS else ROUGH_CELLS // 2

    def _lengths(self) -> list[int]:
        """Numbers of batches in a block: powers of two, or of four for many members, and all of an epoch."""
        base = 2 if self.members <= MANY_MEMBERS else 4
        powers = [base**i for i in range(64) if base**i < self.longest]
        return [*powers, self.longest]

    # ---- laws

    def _law(self, part: Any, length: int) -> Any:
        block = min(length, part.batches)
        sizes = part.batches // block, block * self.run.batch, self.run.records, self.members
        return self.checker.Blocks(*sizes, block * part.most**2)

    def _moved(self) -> tuple[int, int]:
        return 2, 2 - self.run.moved

    def _tails(self, law: Any, at: float) -> list[tuple[float, float]]:
        """Probabilities of outputs up to `at`, and above it, for both data sets."""
        found = []
        for moved in self._moved():
            below = law.not_above(self.ball(at), moved)
            found.append((max(float(below), 0.0), max(float(1 - below), 0.0)))
        return found

    def _range(self, law: Any, level: float) -> tuple[float, float]:
        """Return outputs beyond which both data sets have less than a probability."""
        deviation = math.sqrt(law.variance)
        low, high = -REACH * deviation, 2.0 * self.members + REACH * deviation

        def bisected(outer: float, inner: float, side: int) -> float:
            """Return an output, close to `inner`, beyond which both data sets have less than `level`."""
            for _ in range(BISECTIONS):
                middle = 0.5 * (outer + inner)
                if max(tails[side] for tails in self._tails(law, middle)) < level:
                    outer = middle
                else:
                    inner = middle
            return outer

        start = bisected(low, high, 0)
        return start, bisected(high, start, 1)

    def _cells(self, law: Any, count: int, cells: int) -> Losses:
        """Cells of one width of a part, in the first order, without those that are next to impossible."""
        level = math.exp(max(min(self.log_delta, -18.0) - 9.0 - math.log(self.epochs), -650.0))
        edges = np.linspace(*self._range(law, level), cells + 1)
        found = [[law.not_above(self.ball(float(edge)), moved) for edge in edges] for moved in self._moved()]
        p, q = (np.array([float(b - a) for a, b in pairwise(each)]) for each in found)
        is_known = (p > 1e-300) & (q > 1e-300)
        middles = 0.5 * (edges[1:] + edges[:-1])
        return Losses(middles[is_known], p[is_known], q[is_known], count)

    def _both_orders(self, length: int, cells: int) -> list[list[Losses]]:
        first = [self._cells(self._law(part, length), part.epochs, cells) for part in self.run.parts]
        return [first, [Losses(each.middles, each.q, each.p, each.epochs) for each in first]]

    def _score(self, parts: list[Losses]) -> float:
        """Return a number that is larger for the output that reveals more, by Chernoff's bound."""
        moments = np.array([sum(part.cumulant(float(tilt)) for part in parts) for tilt in TILTS])
        if self.epsilon is not None:
            return float(np.min(moments - TILTS * self.epsilon))
        return float(np.min((moments - self.log_delta) / TILTS))

    # ---- one epoch: one cut

    def _of_one_epoch(self) -> dict[str, Any]:
        """Return the best length, order and cut of a single epoch: nothing is lost by two cells."""
        ((part),) = self.run.parts
        best: tuple[float, int, str, float, float] | None = None
        for length in self._lengths():
            law = self._law(part, length)
            level = math.exp(max(self.log_delta - 5.0, -690.0))
            start, end = self._range(law, level)
            places = np.linspace(start, end, 3 * self._rough)
            tails = [self._tails(law, float(at)) for at in places]
            for order in ORDERS:
                values = [self._gain(each, order) for each in tails]
                top = int(np.argmax(values))
                if best is None or values[top] > best[0]:
                    best = values[top], length, order, float(places[top]), float(places[1] - places[0])
        assert best is not None
        _, length, order, at, width = best
        if length == self.longest and self._is_whole():
            return {"output": "sum"}
        law = self._law(part, length)
        at = _largest_at(lambda x: self._gain(self._tails(law, x), order), at - width, at + width)
        unit = _rounded(1e-9 * math.sqrt(law.variance))
        cut = {"block": length, "unit": unit, "edges": [round(at / unit)]}
        return self._found(Output(length, order), [cut], None)

    def _gain(self, tails: list[tuple[float, float]], order: str) -> float:
        """Epsilon at delta, or the logarithm of delta at epsilon, of the better one of two half lines."""
        (first_below, first_above), (second_below, second_above) = tails
        pairs = (
            [(first_above, second_above), (first_below, second_below)]
            if order == "first"
            else [(second_below, first_below), (second_above, first_above)]
        )
        best = -math.inf
        for p, q in pairs:
            if self.epsilon is not None:
                gain = p - math.exp(min(self.epsilon, 700.0)) * q
            else:
                gain = p - math.exp(self.log_delta)
            if gain <= 0.0 or q <= 0.0:
                continue
            best = max(best, math.log(gain) - (0.0 if self.epsilon is not None else math.log(q)))
        return best

    def _found(self, output: Output, parts: list[Any], window: dict[str, Any] | None) -> dict[str, Any]:
        found = {"output": "maximum", "order": output.order, "members": self.members}
        return found | {"parts": parts, "window": window}

    # ---- several epochs

    def _composed(self, output: Output) -> dict[str, Any]:
        """Cells whose losses are next to multiples of a spacing, and a window of the sum of all losses."""
        orders = self._both_orders(
            output.length, FINE_CELLS if self.members <= MANY_MEMBERS else FINE_CELLS // 2
        )
        parts = orders[ORDERS.index(output.order)]

        def cumulant(tilt: float) -> float:
            return sum(part.cumulant(tilt) for part in parts)

        epsilon = self._score(parts) if self.epsilon is None else self.epsilon
        epsilon, tilt = self._saddle(cumulant, max(epsilon, 0.0))
        down, up, tilt_of_window, outer, left = window_near(cumulant, tilt, epsilon, self.log_delta)
        spacing = math.sqrt(24.0 * EPSILON_LOST * max(epsilon, 0.01) / (self.epochs * (tilt + 1.0)))
        spacing = min(spacing, max(map(_deviation, parts)) / CELLS_IN_A_DEVIATION)
        down = max(down, 0.1 * epsilon)
        spacing = max(spacing, (down + up) / (0.9 * MOST_POINTS))
        laws = [self._law(part, output.length) for part in self.run.parts]
        edges = [np.zeros(0)]
        for _ in range(HALVINGS):
            spacing = float(f"{spacing:.3g}")
            edges = [_edges_of(losses, spacing, tilt) for losses in parts]
            each = zip(laws, edges, strict=True)
            work = sum(self.checker.Cut(law, 1.0, list(places)).work() for law, places in each)
            if work * self.bits < MOST_OF_EDGES * self.checker.LARGEST_OF_EDGES * self.checker.BITS:
                break
            spacing *= 2.0
        cuts = []
        for part, law, places in zip(self.run.parts, laws, edges, strict=True):
            unit = _rounded(1e-6 * math.sqrt(law.variance))
            closer = self._aligned(law, places, spacing, output.order)
            whole = sorted({round(float(at) / unit) for at in closer})
            block = min(output.length, part.batches)
            cuts.append({"block": block, "unit": unit, "edges": whole} if whole else None)
        points = smooth((1.02 * (down + up)) / spacing + 16)
        window = {
            "spacing": spacing,
            "points": points,
            "first": math.floor((epsilon - down) / spacing) - 8,
            "tilt": tilt_of_window,
            "outer_tilt": outer,
            "left_tilt": left,
        }
        return self._found(output, cuts, window)

    def _aligned(self, law: Any, edges: Floats, spacing: float, order: str) -> Floats:
        """Move edges so that losses of cells are next to multiples of the spacing, by a step of Newton."""
        if len(edges) < FEW_EDGES:
            return edges
        found = [[law.not_above(self.ball(float(at)), moved) for at in edges] for moved in self._moved()]
        p, q = (np.array([float(b - a) for a, b in pairwise(each)]) for each in found)
        if order == "second":
            p, q = q, p
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.log(p / q)
            middles = 0.5 * (edges[1:] + edges[:-1])
            slopes = np.diff(losses) / np.diff(middles)
            away = losses - spacing * np.round(losses / spacing)
            step = -0.5 * (away[1:] + away[:-1]) / slopes
        room = 0.4 * np.minimum(np.diff(edges)[1:], np.diff(edges)[:-1])
        moved: Floats = edges.copy()
        moved[1:-1] += np.where(np.isfinite(step), np.clip(step, -room, room), 0.0)
        return moved

    def _saddle(self, cumulant: Callable[[float], float], epsilon: float) -> tuple[float, float]:
        """Epsilon of the delta, about, and the tilt at which the integrand of delta is smallest there."""

        def heights(at: float) -> Floats:
            return moments - TILTS * at - np.log(TILTS) - np.log1p(TILTS)

        moments = np.array([cumulant(float(tilt)) for tilt in TILTS])
        if self.epsilon is None:
            # The saddle point estimate of delta at a few epsilons up to Chernoff's bound.
            places = np.linspace(epsilon, 0.0, 201)
            for at in places:
                if float(heights(at).min()) - 1.0 > self.log_delta:
                    epsilon = float(at)
                    break
        return epsilon, float(TILTS[int(np.argmin(heights(epsilon)))])


def _largest_at(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one peak is largest, by golden sections."""
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [function(each) for each in inner]
    for _ in range(REFINED):
        if values[0] > values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - GOLDEN * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + GOLDEN * (high - low)
            values[1] = function(inner[1])
    return 0.5 * (low + high)


def _rounded(x: float) -> float:
    return float(f"{x:.3g}")


def _deviation(part: Losses) -> float:
    """Return the standard deviation of the loss of an epoch."""
    mean = float(part.p @ part.losses) / float(part.p.sum())
    return math.sqrt(max(float(part.p @ (part.losses - mean) ** 2) / float(part.p.sum()), 1e-30))


def _edges_of(part: Losses, spacing: float, tilt: float) -> Floats:
    """Return outputs with losses half a spacing above a multiple of it, where that matters."""
    losses = part.losses
    weights = np.log(part.p) + tilt * losses
    share = np.exp(weights - weights.max())
    matters = np.flatnonzero(np.cumsum(share) > LITTLE * share.sum())[0]
    until = np.flatnonzero(np.cumsum(share[::-1]) > LITTLE * share.sum())[0]
    first, last = max(int(matters) - 1, 0), min(len(losses) - int(until), len(losses) - 1)
    found: list[float] = []
    for i in range(first, last):
        low, high = losses[i] / spacing - 0.5, losses[i + 1] / spacing - 0.5
        if low == high:
            continue
        places = np.arange(math.ceil(min(low, high)), math.floor(max(low, high)) + 1)
        shares = (places - low) / (high - low)
        found += (part.middles[i] + shares * (part.middles[i + 1] - part.middles[i])).tolist()
    return np.sort(np.array(found))
