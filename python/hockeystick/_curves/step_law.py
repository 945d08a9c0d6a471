"""The loss of a step under P in doubles, for the search of a witness on a lattice; nothing here is proven."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._extras import needed

OUTPUTS = 20_001
"""Outputs at which the loss of a step is known to the search. The proof does not depend on them: with fewer,
tilts and windows are chosen less well; with more, the search takes longer."""


class StepLaw:
    """The loss of a step under P, in doubles: losses in ascending order, and logarithms of probabilities."""

    largest_shift: float | None = None
    """The largest shift that is kept, if others are left out (V24)."""

    def __init__(self, step: Any, count: int, log_delta: float) -> None:
        self.count = count
        self.components = [len(part.p) + len(part.q) for part in step if part_of(part)]
        """Components of the mixtures of each continuous part: what a cell of it costs."""
        self.atoms = not any(part_of(part) for part in step)
        found = [_part(part, log_delta) if part_of(part) else _atom(part) for part in step]
        self.parts = [each for part, each in zip(step, found, strict=True) if part_of(part)]
        losses, logs = (np.concatenate([each[i] for each in found]) for i in (0, 1))
        order = np.argsort(losses)
        self.losses, self.logs = losses[order], logs[order]
        self.lower_losses = self.losses
        ends = [_ends(part) for part in step]
        self.low, self.high = min(low for low, _ in ends), max(high for _, high in ends)
        self.floor, self.cap = self.low, self.high
        """Losses beyond which nothing is told apart."""

    def within(self, floor: float, cap: float) -> None:
        """Do not tell apart losses below one bound, nor those above the other.

        The checker then has one cell below `floor`, which counts as `floor` in the upper law and as its mean
        in the lower one, and an infinite loss above `cap` if losses have no end.
        """
        self.floor, self.cap = min(max(floor, self.low), self.high), min(cap, self.high)
        below = self.losses < self.floor
        mean = self.floor
        if below.any():
            mean = log_sum(self.logs[below]) - log_sum((self.logs - self.losses)[below])
        self.losses = np.clip(self.losses, self.floor, self.cap)
        self.lower_losses = np.where(below, mean, self.losses)

    def above(self, loss: float) -> float:
        """Logarithm of the probability that a step of this kind has a loss above a number."""
        return math.log(self.count) + log_sum(self.logs[self.losses > loss])

    def cumulant(self, tilt: float) -> float:
        """Logarithm of E[e^(tilt loss)]."""
        return self.count * log_sum(self.logs + tilt * (self.losses if tilt >= 0 else self.lower_losses))

    def shares(self, tilt: float) -> list[float]:
        """How much each continuous part has of E[e^(tilt loss)], but at least a little."""
        sizes = [log_sum(logs + tilt * losses) for losses, logs in self.parts]
        whole = log_sum(self.logs + tilt * self.losses)
        return [math.exp(min(max(size - whole, -60.0), 0.0)) for size in sizes]

    def weights(self, tilt: float) -> Floats:
        """Probabilities under the law tilted by e^(tilt loss)."""
        logs = self.logs + tilt * self.losses
        found: Floats = np.exp(logs - log_sum(logs))
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


def part_of(part: Any) -> bool:
    """Whether a part of a step is a continuous one, and not an atom."""
    return len(part) > 2


def log_sum(values: Floats) -> float:
    top = float(values.max(initial=-math.inf))
    return top + math.log(float(np.exp(values - top).sum())) if top > -math.inf else -math.inf


def _atom(atom: Any) -> tuple[Floats, Floats]:
    return np.array([float((atom.p / atom.q).log())]), np.array([float(atom.p.log())])


def _mixture(part: Any, law: Any, x: Floats) -> Floats:
    """Logarithm of the density of a mixture at outputs."""
    scale, found = float(part.scale), np.full_like(x, -np.inf)
    for shift, weight in law.items():
        away = (x - float(shift)) / scale
        each = -(away**2) / 2 if part.noise == "gaussian" else -np.abs(away)
        found = np.logaddexp(found, float(weight.log()) + each)
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
    return log_p - log_q, log_p + np.log(np.diff(edges)) + _log_weight(part)


def _log_weight(part: Any) -> float:
    """Logarithm of the weight of a part, whose ball may contain 0 where it is next to nothing."""
    return math.log(max(float(part.weight.upper()), 1e-300))


def _between(low: float, high: float, inner: list[float]) -> list[tuple[float, float]]:
    ends = [low, *inner, high]
    return list(pairwise(ends))


def _ends(part: Any) -> tuple[float, float]:
    """Least and largest loss of a part; infinite ones if it has no bound."""
    if not part_of(part):
        loss = float((part.p / part.q).log())
        return loss, loss
    cells = needed("hockeystick_verify.cells", "verify")
    low, high = cells.end_of_loss(part, False), cells.end_of_loss(part, True)
    return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
