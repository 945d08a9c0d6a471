"""Bound what runs with shuffled batches reveal from below, by the outputs of two data sets (V28, 3 and 4).

The largest sum of a block of batches is an output of an epoch. Its law has a closed form for both data sets.
It is cut into cells, and epochs are composed on a lattice of losses, which are rounded down (V11 and V12).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from flint import arb, arb_poly, ctx

from hockeystick_verify.cells import Cell
from hockeystick_verify.checker import (
    LARGEST_KINDS,
    RefusedError,
    choice,
    exact,
    fields,
    gaussian,
    items,
    normal_above,
    number,
    whole,
)
from hockeystick_verify.lattice import Grid, Kind, lower_ends, rounded_down, window_of
from hockeystick_verify.parallel import mapped, stage
from hockeystick_verify.shuffled import BITS, Part, Run, short_power

LARGEST_MEMBERS, LARGEST_EDGES, LARGEST_PLACE = 64, 1 << 15, 10**12
"""Most members of a group that differ; edges of cells of a part; and their places."""
LARGEST_OF_EDGES = 2 * 10**8
"""Most products for all edges, at so many bits as `BITS`: some twenty seconds."""
NORMAL = 150
"""What a probability of a normal variable costs, in products of coefficients."""
LARGEST_TRANSFORM, LARGEST_TRANSFORMS = 1 << 18, 1 << 22
"""Most points of the window, and of the transforms of all parts, at so many bits as `BITS`."""
SLOW = 4
"""How much longer all of a transform takes whose length is not 1, 3, 5 or 7 times a power of two, at most."""
EDGES_OF_A_JOB = 32
"""Edges that one process takes at a time: a job is then longer than its message, and all processes end
together."""
OF_MASSES = 0.6
"""Part of the work on a lower end that the masses of cells are, roughly."""
SUM, MAXIMUM = "sum", "maximum"


# ---------------------------------------------------------------- V28, 3: the largest sum of a block


class Blocks(NamedTuple):
    """Blocks, records in one and in all, members, and the variance of the noise of a block."""

    blocks: int
    size: int
    records: int
    members: int
    variance: Fraction

    def not_above(self, edge: arb, moved: int) -> arb:
        """Probability that no block has a sum above `edge`, where a member adds so many clipping norms."""
        chosen, others, all_ways, deviation = numbers_of(self, ctx.prec)
        below = [normal_above((moved * j - edge) / deviation) for j in range(len(chosen))]
        factor = arb_poly([a * b for a, b in zip(chosen, below, strict=True)])
        found = short_power(factor, self.blocks, self.members + 1) * others
        return arb(found[self.members]) / all_ways


@lru_cache(maxsize=8)
def numbers_of(law: Blocks, _precision: int) -> tuple[list[arb], arb_poly, arb, arb]:
    """Ways to choose members of a block, of what is in no block, and of all records; the noise of a block.

    Powers of z are scaled by the share of the members, which changes no quotient: coefficients are near 1.
    """
    share = Fraction(law.members, law.records)
    outside = law.records - law.blocks * law.size
    chosen, others, ways = (
        [exact(math.comb(size, j) * share**j) for j in range(min(law.members, size) + 1)]
        for size in (law.size, outside, law.records)
    )
    return chosen, arb_poly(others), ways[law.members], exact(law.variance).sqrt()


def probabilities(job: tuple[tuple[int, ...], int, float, tuple[int, ...]]) -> list[arb]:
    """Probabilities that the largest sum is not above some edges, which are multiples of a unit."""
    (blocks, size, records, members, *variance), moved, unit, places = job
    law = Blocks(blocks, size, records, members, Fraction(*variance))
    return [law.not_above(place * arb(unit), moved) for place in places]


class Cut(NamedTuple):
    """Blocks of the batches of a part, and the edges between cells of the largest of their sums."""

    law: Blocks
    unit: float
    places: list[int]

    def work(self) -> int:
        """Products that the masses of the cells take, about."""
        length = self.law.members + 1
        products = 2 * self.law.blocks.bit_length() * (length * length // 4 + 50)
        return 2 * len(self.places) * (products + NORMAL * length)


def cut_of(run: Run, part: Part, members: int, entry: object) -> Cut:
    """Read the cells of a part of a run."""
    given = fields(entry, "a part", "block unit edges")
    block = whole(given["block"], "block", 1, part.batches)
    number(given["unit"], "unit", 1e-12, 1e9)
    places = items(given["edges"], "edges", 1, LARGEST_EDGES)
    for place in places:
        whole(place, "an edge", -LARGEST_PLACE, LARGEST_PLACE)
    if any(not a < b for a, b in pairwise(places)):
        raise RefusedError("the edges of cells must ascend")
    law = Blocks(part.batches // block, block * run.batch, run.records, members, block * part.most**2)
    return Cut(law, given["unit"], places)


def cells_of(cut: Cut, moved: tuple[int, int]) -> list[Cell]:
    """Probabilities of the cells for both data sets; they need no bounds on losses to be rounded down."""
    return known_cells(cut.law, cut.unit, tuple(cut.places), moved, ctx.prec)


@lru_cache(maxsize=LARGEST_KINDS)
def known_cells(
    law: Blocks, unit: float, places: tuple[int, ...], moved: tuple[int, int], _precision: int
) -> list[Cell]:
    """Return cells, and keep them, as a certificate is made by asking its proof several times."""
    *whole_numbers, variance = law
    about = (*whole_numbers, variance.numerator, variance.denominator)
    parts = [places[start : start + EDGES_OF_A_JOB] for start in range(0, len(places), EDGES_OF_A_JOB)]
    jobs = [(about, each, unit, part) for each in moved for part in parts]
    found = [value for answer in mapped(probabilities, jobs) for value in answer]
    laws = found[: len(places)], found[len(places) :]
    masses = [[b - a for a, b in pairwise([arb(0), *each, arb(1)])] for each in laws]
    return [Cell(p, q, None, None) for p, q in zip(*masses, strict=True)]


# ---------------------------------------------------------------- V28, 4: the run


def sums_of_epochs(run: Run) -> arb:
    """Squared distance of the sums of all whole epochs that hold every record: they are Gaussian."""
    # One data set has the members at 2, the other one at 2 - moved.
    total = Fraction(0)
    for part in run.parts:
        if part.batches * run.batch == run.records:
            total += part.epochs * Fraction(run.group * run.moved) ** 2 / (part.batches * part.most**2)
    return exact(total)


def lower_ends_of_run(run: Run, witness: object, epsilons: list[float]) -> list[arb]:
    """Bound delta from below, by the largest sums of blocks or by the sums of whole epochs (V28, 3 and 4)."""
    name = choice(witness.get("output") if isinstance(witness, dict) else None, "output", f"{SUM} {MAXIMUM}")
    if name == SUM:
        fields(witness, "lower", "output")
        distance = sums_of_epochs(run).sqrt()
        return [gaussian(distance, arb(epsilon)) for epsilon in epsilons]
    entry = fields(witness, "lower", "output order members parts window")
    members = whole(entry["members"], "members", 1, min(run.group, LARGEST_MEMBERS))
    given = items(entry["parts"], "parts", len(run.parts), len(run.parts))
    each = zip(run.parts, given, strict=True)
    cuts = [(part, cut_of(run, part, members, cut)) for part, cut in each if cut is not None]
    if not cuts:
        raise RefusedError("no epoch of the run is looked at")
    if sum(cut.work() for _, cut in cuts) * ctx.prec > LARGEST_OF_EDGES * BITS:
        raise RefusedError("the witness asks for more cells than are computed")
    is_first = choice(entry["order"], "order", "first second") == "first"
    moved = (2, 2 - run.moved) if is_first else (2 - run.moved, 2)
    if entry["window"] is not None:
        return composed_ends(cuts, moved, entry["window"], epsilons)
    if sum(part.epochs for part, _ in cuts) != 1:
        raise RefusedError("several epochs need a window")
    cells = cells_of(cuts[0][1], moved)
    return [of_one_epoch(cells, arb(epsilon)) for epsilon in epsilons]


def of_one_epoch(cells: list[Cell], epsilon: arb) -> arb:
    """Delta of a partition: the cells whose loss is above epsilon."""
    factor = epsilon.exp()
    return sum(((p - factor * q).max(arb(0)) for p, q, _, _ in cells), arb(0))


def odd_part(points: int) -> int:
    """Largest odd divisor."""
    return points // (points & -points)


def composed_ends(
    cuts: list[tuple[Part, Cut]], moved: tuple[int, int], given: object, epsilons: list[float]
) -> list[arb]:
    """Compose the epochs by losses on a lattice, of which the start of every kind of epoch is 0."""
    window = fields(given, "window", "spacing points first tilt outer_tilt left_tilt")
    points = whole(window["points"], "points", 2, LARGEST_TRANSFORM) * ctx.prec
    slow = SLOW if odd_part(window["points"]) > 7 else 1
    if points > LARGEST_TRANSFORM * BITS or slow * points * (len(cuts) + 1) > LARGEST_TRANSFORMS * BITS:
        raise RefusedError("the witness asks for a longer window than is computed")
    spacing, kinds, seen = number(window["spacing"], "spacing", 1e-12, 1e6), [], window_of(window)
    grid = Grid(arb(0), spacing, [], [])
    for place, (part, cut) in enumerate(cuts):
        with stage(OF_MASSES * place / len(cuts), OF_MASSES * (place + 1) / len(cuts)):
            cells = cells_of(cut, moved)
        masses, sink = rounded_down(cells, grid, seen.tilt)
        kinds.append(Kind(masses, Grid(-sink, spacing, [], []), part.epochs))
    with stage(OF_MASSES, 1.0):
        return lower_ends(kinds, seen, [arb(epsilon) for epsilon in epsilons])
