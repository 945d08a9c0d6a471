"""Dealt batches as atoms for the lattice (V23): with Laplace noise too, and beside steps of any kind.

The likelihood ratio Y of one batch is rounded to multiples of a spacing. Their mean W over the batches of an
epoch, the likelihood ratio of the epoch, is then on a lattice too, and powers of discrete Fourier transforms
give its law.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from flint import acb, arb

from hockeystick_verify.cells import Cell, cells_of_part
from hockeystick_verify.checker import (
    LARGEST_COUNT,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    fields,
    members_of,
    number,
    whole,
)
from hockeystick_verify.parts import Part, noise_of
from hockeystick_verify.variants import DEALT, ONE, ZERO, direction_of, refuse_alike

LARGEST_EPOCH = 10**7
LARGEST_POINTS = 1 << 18
"""Most batches of an epoch, and points of the window: it is transformed, which takes some ten seconds."""
LARGEST_PLACE = 10**5
"""Largest place of the likelihood ratio of one batch."""
PUBLISHED_NOISE = "gaussian adaptive_clipping laplace"
CLOSE = 1e-12
"""How far a node may be from its place, relative to the likelihood ratio: nodes are doubles."""


class Block(NamedTuple):
    """Batches that are released equally often: `times` times, each with this pair, or never."""

    batches: int
    times: int
    base: Part | None


class Dealt(NamedTuple):
    """An epoch: W is the mean of the likelihood ratios of its batches, 1 of those that are not released."""

    blocks: list[Block]
    added: bool

    @property
    def batches(self) -> int:
        """Batches of the epoch."""
        return sum(block.batches for block in self.blocks)


def is_dealt(step: Object) -> bool:
    """Whether a step deals records into batches."""
    return step["sampling"].get("name") in DEALT


def epochs_of_step(step: Object, count: int, direction: str) -> list[tuple[Dealt, int]]:
    """Return the pairs of the epochs of a step, whole ones and the last part of one, with their numbers."""
    added = choice(direction_of(step, direction), "direction of dealt batches", "add remove") == "add"
    members = members_of(step["group"])
    sampling = fields(step["sampling"], "sampling", "name batches", "times")
    if members.size != 1 or not members.alike:
        raise RefusedError("dealt batches are covered on a lattice for one record of norm 1")
    batches = whole(sampling["batches"], "batches", 1, LARGEST_EPOCH)
    parts, stay = whole(sampling.get("times", 1), "times", 1, batches), sampling["name"] == "fixed_bins"
    noise, scale = noise_of(step["mechanism"], members)
    choice(noise, "noise of dealt batches", "gaussian laplace")

    def block(size: int, times: int) -> list[Block]:
        """Return the batches with so many releases each, or none."""
        if size == 0 or times == 0:
            return [Block(size, 0, None)] if size else []
        # Several releases with Gaussian noise are one with less noise.
        one = scale / arb(times).sqrt() if noise == "gaussian" else scale
        base = Part(arb(1), noise, one, {ONE: arb(1)}, {ZERO: arb(1)})
        return [Block(size, 1 if noise == "gaussian" else times, base)]

    epochs, left = divmod(count, batches)
    if stay:
        if parts > 1:
            raise RefusedError("bins that stay hold each record once")
        return [(Dealt([*block(left, epochs + 1), *block(batches - left, epochs)], added), 1)]
    if parts > 1:
        size, more = divmod(batches, parts)
        epochs += left > 0  # a part of an epoch is a whole one of which some outputs are dropped
        sizes = ((size + 1, more), (size, parts - more))
        return [(Dealt(block(each, 1), added), many * epochs) for each, many in sizes if many]
    found = [(Dealt(block(batches, 1), added), epochs)] if epochs else []
    return [*found, (Dealt([*block(left, 1), *block(batches - left, 0)], added), 1)] if left else found


def published(run: Object) -> Object:
    """Return a run in which everybody sees the batches of a record: full batches (V23, 4)."""
    refuse_alike(run)
    return {**run, "steps": [in_public(step, run["adjacency"]) for step in run["steps"]]}


def in_public(step: Object, adjacency: object) -> Object:
    """Return a step whose batches are published, or one that is not dealt, as it is."""
    if not is_dealt(step):
        return step
    members = members_of(step["group"])
    sampling = fields(step["sampling"], "sampling", "name batches", "times")
    if sampling["name"] == "fixed_bins" and sampling.get("times", 1) != 1:
        raise RefusedError("bins that stay hold each record once")
    if not members.alike or step.get("adjacency", adjacency) == "replace":
        raise RefusedError("published batches are covered for added or removed records of norm 1")
    batches = whole(sampling.get("batches"), "batches", 1, LARGEST_COUNT)
    times = whole(sampling.get("times", 1), "times", 1, batches)
    noise = choice(step["mechanism"].get("name"), "noise of published batches", PUBLISHED_NOISE)
    epochs, size = -(-step["count"] // batches), members.size
    # All members in the same batches: Gaussian noise adds up squares of shifts, Laplace noise shifts.
    size, count = (size * times, epochs) if noise == "laplace" else (size, epochs * times)
    whole(count, "releases", 1, LARGEST_COUNT)
    return {**step, "sampling": {"name": "full_batch"}, "count": count, "group": {"size": size}}


class Ratio(NamedTuple):
    """Numbers of a witness for an epoch.

    `spacing` is that of likelihood ratios, `points` and `first` the window of sums of places, `left` and
    `right` the tilts that bound what is outside it, and `largest` the first place that is too large. `losses`
    is the spacing of losses of one batch that is released several times, and `reach` the last of them.
    """

    spacing: arb
    points: int
    first: int
    left: arb
    right: arb
    largest: int
    losses: arb
    reach: int


def ratio_of(entry: object) -> Ratio:
    """Read the numbers of an epoch."""
    given = fields(entry, "dealt", "spacing points first left right largest losses reach")
    return Ratio(
        number(given["spacing"], "spacing", 1e-9, 1.0),
        whole(given["points"], "points", 2, LARGEST_POINTS),
        whole(given["first"], "first", 0, LARGEST_COUNT),
        number(given["left"], "left", 0.0, 1e6),
        number(given["right"], "right", 1e-12, 1e6),
        whole(given["largest"], "largest", 1, LARGEST_PLACE),
        number(given["losses"], "losses", 1e-6, 10.0),
        whole(given["reach"], "reach", 1, LARGEST_PLACE),
    )


# ---------------------------------------------------------------- the likelihood ratio of one batch


class Law(NamedTuple):
    """Probability under Q of each place: the likelihood ratio is the place times a unit."""

    masses: dict[int, arb]
    unit: arb
    lost: arb
    """Probability under P of an infinite likelihood ratio."""


def upper_law(cells: list[Cell], ratio: Ratio) -> Law:
    """Round likelihood ratios apart, so that the pair dominates (V23, 1)."""
    unit, masses, lost = ratio.spacing * (1 + arb(CLOSE)), {0: arb(0)}, arb(0)
    for p, q, low, high in cells:
        if high is None or not high.exp() < ratio.largest * ratio.spacing:
            lost += p
            masses[0] += q
            continue
        top, least = place_above(high.exp(), unit), arb(0) if low is None else low.exp()
        bottom = min(max(0, math.floor(float(least / ratio.spacing) * (1 + CLOSE))), max(top - 1, 0))
        under = bottom * ratio.spacing * (1 - arb(CLOSE))
        if not (under <= least and under < top * unit):
            raise NotProvenError("V23: a cell is too wide")
        upper = ((p - under * q) / (top * unit - under)).max(arb(0)).min(q)
        # What stays below keeps its probability under P, with a likelihood ratio that is on the lattice.
        raised = (q - upper) * under / (bottom * unit) if bottom else arb(0)
        for place, mass in ((top, upper), (bottom, raised), (0, q - upper - raised)):
            masses[place] = masses.get(place, arb(0)) + mass
    return Law(masses, unit, lost)


# ---------------------------------------------------------------- the mean over the batches


def power(masses: dict[int, arb], points: int, times: int) -> list[acb]:
    """Transform of a law, folded to so many points, to a power."""
    folded = [acb(0)] * points
    for place, mass in masses.items():
        folded[place % points] += mass
    return [each**times for each in acb.dft(folded)]


def repeated(cells: list[Cell], ratio: Ratio, times: int) -> list[Cell]:
    """Atoms of a batch that is released several times: losses of one release are rounded apart (V23, 2)."""
    points = 2 * ratio.reach * times + 1
    if points > LARGEST_POINTS:
        raise RefusedError("a batch is released more often than the lattice has room for")
    masses: dict[int, arb] = {}
    for p, q, low, high in cells:
        if low is None or high is None:
            raise NotProvenError("V23: losses of batches that are released several times must be bounded")
        top, bottom = place_above(high, ratio.losses), -place_above(-low, ratio.losses)
        bottom = min(bottom, top - 1)
        if max(abs(top), abs(bottom)) > ratio.reach:
            raise NotProvenError("V23: a loss is beyond the reach of the lattice")
        over, under = (top * ratio.losses).exp(), (bottom * ratio.losses).exp()
        upper = ((p - under * q) / (over - under)).max(arb(0)).min(q)
        for place, mass in ((top + ratio.reach, upper), (bottom + ratio.reach, q - upper)):
            masses[place] = masses.get(place, arb(0)) + mass
    found = []
    for place, each in enumerate(acb.dft(power(masses, points, times), inverse=True)):
        mass, loss = at_most(each.real), (place - ratio.reach * times) * ratio.losses
        found.append(Cell(mass * loss.exp(), mass, loss, loss))
    return found


def at_most(mass: arb) -> arb:
    """Upper end of a ball, at least 0: a number without a radius, so that ratios of masses are sharp."""
    return mass.upper().max(arb(0))


def place_above(value: arb, unit: arb) -> int:
    """Return a place that is surely not below a value, and not much above it."""
    place = math.ceil(float(value / unit))
    place += 0 if place * unit >= value else 1
    if not place * unit >= value:
        raise NotProvenError("V23: a ball is too wide")
    return place


class Mean(NamedTuple):
    """Law under Q of W: values, probabilities, and what is outside the window, under P and under Q."""

    values: list[arb]
    masses: list[arb]
    beyond_p: arb
    beyond_q: arb


def mean_of(laws: list[tuple[int, Law]], still: int, ratio: Ratio) -> Mean:
    """Law of the mean over so many batches of each law, and over `still` batches with the ratio 1."""
    total = [acb(1)] * ratio.points
    for count, law in laws:
        total = [a * b for a, b in zip(total, power(law.masses, ratio.points, count), strict=True)]
    folded = [each.real for each in acb.dft(total, inverse=True)]
    unit, end = laws[0][1].unit, ratio.first + ratio.points
    right = left = arb(0)
    if sum(count * max(law.masses) for count, law in laws) >= end:
        if not ratio.right * end >= 1:
            raise NotProvenError("V23: the tilt above the window is too small")
        right = tilted(laws, ratio.right, end)
    if sum(count * min(law.masses) for count, law in laws) < ratio.first:
        left = tilted(laws, -ratio.left, ratio.first)
    batches = still + sum(count for count, _ in laws)
    top = (end * unit + still) / batches
    values = [(place * unit + still) / batches for place in range(ratio.first, end)]
    masses = [folded[place % ratio.points] for place in range(ratio.first, end)]
    return Mean(values, masses, top * (left + right), left + right)


def tilted(laws: list[tuple[int, Law]], tilt: arb, place: int) -> arb:
    """E[e^(tilt (K - place))] of the sum K of all places."""
    found = (-tilt * place).exp()
    for count, law in laws:
        found *= sum((mass * (tilt * at).exp() for at, mass in law.masses.items()), arb(0)) ** count
    return found


def cells_of_epoch(dealt: Dealt, entry: object) -> list[Cell]:
    """Atoms of a pair that dominates an epoch."""
    ratio, laws, still = ratio_of(entry), [], 0
    for count, times, base in dealt.blocks:
        if base is None:
            still += count
            continue
        cells = cells_of_part(base, targets(ratio, times))
        laws.append((count, upper_law(repeated(cells, ratio, times) if times > 1 else cells, ratio)))
    mean, found = mean_of(laws, still, ratio), []
    for value, mass in zip(mean.values, mean.masses, strict=True):
        q = at_most(mass)
        if not value > 0:  # without a record that is added nothing else is seen: its loss is infinite
            found.append(Cell(q, arb(0), None, None) if dealt.added else Cell(arb(0), q, None, arb(0)))
        elif dealt.added:
            found.append(Cell(q, value * q, -value.log(), -value.log()))
        else:
            found.append(Cell(value * q, q, value.log(), value.log()))
    # The record is in one batch, so that its loss is infinite as often as that of a batch with the record.
    lost = sum((law.lost * count for count, law in laws), arb(0)) / dealt.batches
    outside = mean.beyond_q if dealt.added else mean.beyond_p + lost
    return [*found, Cell(outside, arb(0), None, None)]


def targets(ratio: Ratio, times: int) -> list[float]:
    """Losses of the nodes: logarithms of the places; equidistant for several releases."""
    if times > 1:
        return [place * float(ratio.losses) for place in range(-ratio.reach, ratio.reach)]
    return [math.log(place * float(ratio.spacing)) for place in range(1, ratio.largest)]


def work_of(entry: object, dealt: Dealt) -> int:
    """How many cells and points are computed."""
    ratio = ratio_of(entry)
    times = max(block.times for block in dealt.blocks)
    return ratio.points + 4 * ratio.largest + (2 * ratio.reach * times if times > 1 else 0)
