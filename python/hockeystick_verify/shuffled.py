"""Bound what runs with shuffled batches reveal, from above and from below (V28).

Every epoch draws a random order of all records and cuts it into batches. No pair of such a run is known, so
that the ends are bounds of their own: from above the adversary may know the batches, whose law is derived,
from below two data sets are compared (`shuffled_pair.py`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from flint import arb, arb_poly, ctx

from hockeystick_verify.checker import (
    LARGEST_COUNT,
    LARGEST_GROUP,
    LARGEST_KINDS,
    Object,
    RefusedError,
    choice,
    exact,
    fields,
    fixed_batch,
    gaussian,
    number,
    steps_of,
    whole,
)
from hockeystick_verify.parallel import mapped, packed, stage, unpacked

SHUFFLE = "shuffle"
MOVED = {"zero_out": 1, "replace": 2}
"""Clipping norms by which a record that changes moves the sum of its batch."""
LARGEST_PAIRS, LARGEST_VALUES, LEAST_UNIT, LARGEST_UNIT = 1 << 16, 1 << 17, 1e-9, 1e18
"""Most pairs of members in one batch that are told apart; places of the law; and bounds of its spacing."""
NUMBER, LARGEST_COUNTING, LARGEST_KEPT = 300, 2 * 10**10, 4 * 10**7
"""What a product of numbers costs besides, in words; most words of all products that counting the patterns of
an epoch takes, some twenty seconds; and most words that are kept."""
LARGEST_EVALUATIONS = 1 << 18
"""Most places, times points of the curve, at so many bits as `BITS`: some ten seconds."""
LARGEST_POWER, LARGEST_POWERS = 1 << 22, 1 << 24
"""Most places, times the doublings of a power, at so many bits as `BITS`: some five seconds; and of all the
powers of a run, with `EACH` more for every place: some twenty seconds."""
EACH = 8
"""What a place costs besides the doublings of a power, in the same unit: the transforms of its laws."""
LARGEST_PRODUCTS = 1 << 33
"""Most squared places of all products of laws, at so many bits as `BITS`: some thirty seconds."""
BITS = 128
"""The unit of the limits above: work at twice the bits counts twice. The precision itself is the
witness's."""
CHUNK = 256
"""Places of a law that are a part of the work."""
ENTRIES = "pairs unit values from coarser"
"""Entries of the witness of an upper end."""
OF_LAW = 0.3
"""Part of the work on an upper end that its law is, roughly."""


# ---------------------------------------------------------------- the run


class Part(NamedTuple):
    """Epochs of a run that are alike: batches, least and largest noise of a batch, and how many they are."""

    batches: int
    least: Fraction
    most: Fraction
    epochs: int


class Run(NamedTuple):
    """A run with shuffled batches: sizes, by how much a record moves a sum, and the epochs."""

    batch: int
    records: int
    group: int
    moved: int
    parts: list[Part]

    @property
    def largest(self) -> int:
        """Bound on the sum of the squared numbers of members in the batches of an epoch."""
        return self.group * min(self.group, self.batch)


def is_shuffled(run: object) -> bool:
    """Whether a step of a run has shuffled batches."""
    steps = run.get("steps") if isinstance(run, dict) else None
    listed = steps if isinstance(steps, list) else []
    schemes = [step.get("sampling") for step in listed if isinstance(step, dict)]
    return any(isinstance(each, dict) and each.get("name") == SHUFFLE for each in schemes)


def read_run(run: object) -> Run:
    """Read a run of which all steps have shuffled batches of one data set, for one group."""
    run = fields(run, "run", "adjacency steps")
    adjacency = choice(run["adjacency"], "adjacency of shuffled batches", " ".join(MOVED))
    found: list[tuple[Fraction, int]] = []
    about = set()
    for step, count in steps_of(run):
        choice(step["sampling"].get("name"), "sampling beside shuffled batches", SHUFFLE)
        mechanism = fields(step["mechanism"], "mechanism", "name noise_multiplier")
        choice(mechanism["name"], "mechanism of shuffled batches", "gaussian")
        number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
        found.append((Fraction(mechanism["noise_multiplier"]), count))
        size = fields(step["group"], "group of shuffled batches", "size")["size"]
        about.add((*fixed_batch(step["sampling"]), whole(size, "group size", 1, LARGEST_COUNT)))
    if len(about) > 1:
        raise RefusedError("the steps of a run with shuffled batches have one data set, batch size and group")
    batch, records, group = about.pop()
    if group > records or batch > records:
        raise RefusedError("a group or a batch has more records than the data set")
    return Run(batch, records, group, MOVED[adjacency], parts_of(found, records // batch))


def parts_of(steps: list[tuple[Fraction, int]], rounds: int) -> list[Part]:
    """Cut the batches of a run into epochs of so many; the last one may have fewer."""
    whole_ones: dict[tuple[Fraction, Fraction], int] = {}
    open_one: list[Fraction] = []
    done = 0
    for noise, count in steps:
        left = count
        if done:
            taken = min(left, rounds - done)
            done, left = done + taken, left - taken
            open_one.append(noise)
            if done == rounds:
                ends = min(open_one), max(open_one)
                whole_ones[ends] = whole_ones.get(ends, 0) + 1
                done, open_one = 0, []
        if left >= rounds:
            whole_ones[noise, noise] = whole_ones.get((noise, noise), 0) + left // rounds
            left %= rounds
        if left:
            done, open_one = left, [noise]
    found = [Part(rounds, *ends, count) for ends, count in whole_ones.items()]
    found += [Part(done, min(open_one), max(open_one), 1)] if done else []
    if len(found) > LARGEST_KINDS:
        raise RefusedError(f"more than {LARGEST_KINDS} kinds of epochs")
    return found


# ---------------------------------------------------------------- V28, 1: the law of the members in batches


def require_countable(run: Run, pairs: int) -> None:
    """Refuse patterns that would take long to count, or much memory."""
    if run.group > LARGEST_GROUP:
        raise RefusedError(
            f"the patterns of groups of up to {LARGEST_GROUP} records are counted, got {run.group}"
        )
    terms = min(math.isqrt(2 * pairs) + 2, run.batch, run.group)
    words = 1 + run.group * run.records.bit_length() // 64
    kept = run.group * (pairs + 1)
    if kept * terms * (NUMBER + words) > LARGEST_COUNTING or kept * words > LARGEST_KEPT:
        raise RefusedError("the patterns of this group would take too long to count")


@lru_cache(maxsize=4)
def patterns(batch: int, batches: int, group: int, pairs: int) -> list[list[int]]:
    """Ways to choose n positions of some batches, for each n up to `group`, by pairs in one batch (V28, 1).

    The entry of d, for d up to `pairs`, is the number of ways in which d pairs of them share a batch.
    """
    terms = [j for j in range(1, min(group, batch) + 1) if j * (j - 1) // 2 <= pairs]
    choices, found = {j: math.comb(batch, j) for j in terms}, [[1]]
    for n in range(1, group + 1):
        total = [0] * (min(pairs, n * (n - 1) // 2) + 1)
        for j in terms[:n]:
            factor, shift = (j * (batches + 1) - n) * choices[j], j * (j - 1) // 2
            for d, ways in enumerate(found[n - j][: len(total) - shift], shift):
                total[d] += factor * ways
        found.append([each // n for each in total])
    return found


def law_of_part(run: Run, batches: int, pairs: int) -> dict[int, arb]:
    """Probabilities of the sums of squares of an epoch with up to so many pairs of members in one batch."""
    return known_law(run.batch, batches, run.records, run.group, pairs, ctx.prec)


@lru_cache(maxsize=4)
def known_law(
    batch: int, batches: int, records: int, group: int, pairs: int, _precision: int
) -> dict[int, arb]:
    """Return the law, and keep it: epochs that differ in their noise alone have one."""
    outside, ways, others = records - batches * batch, arb(math.comb(records, group)), 1
    counted, found = patterns(batch, batches, group, pairs), dict[int, int]()
    for more in range(min(outside, group) + 1):  # so many members are in no batch, in `others` ways
        for d, chosen in enumerate(counted[group - more]):
            if chosen:
                square = group - more + 2 * d
                found[square] = found.get(square, 0) + chosen * others
        others = others * (outside - more) // (more + 1)
    return {square: arb(number_of) / ways for square, number_of in sorted(found.items())}


class Law(NamedTuple):
    """Squared distances of the outputs with their probabilities, and that of all others: the largest one."""

    values: list[tuple[arb, arb]]
    rest: arb
    most: arb


def beginning(polynomial: arb_poly, length: int) -> arb_poly:
    """First coefficients of a polynomial."""
    return arb_poly(polynomial.coeffs()[:length])


def short_power(base: arb_poly, exponent: int, length: int) -> arb_poly:
    """First coefficients of a power."""
    found, square, rest = arb_poly([1]), base, exponent
    while True:
        if rest & 1:
            found = beginning(found * square, length)
        rest >>= 1
        if not rest:
            return found
        square = beginning(square * square, length)


class Lattice(NamedTuple):
    """Where squared distances are rounded up to: places from the least one up, or the largest one down."""

    unit: Fraction
    values: int
    from_least: bool
    coarser: int

    def place(self, away: Fraction) -> int:
        """Place of a distance from the value where places begin, such that what it stands for is no less."""
        return math.ceil(away) if self.from_least else math.floor(away)


def lattice_of(entry: Object) -> Lattice:
    """Read the lattice of a law."""
    number(entry["unit"], "unit", LEAST_UNIT, LARGEST_UNIT)
    return Lattice(
        Fraction(entry["unit"]),
        whole(entry["values"], "values", 0, LARGEST_VALUES),
        choice(entry["from"], "from", "least most") == "least",
        whole(entry["coarser"], "coarser", 1, LARGEST_COUNT),
    )


class Power(NamedTuple):
    """Epochs of a part, with the law of one by its own places, which are so far apart in units of the run."""

    places: dict[int, arb]
    apart: Fraction
    epochs: int
    length: int

    def work(self, more: int = 0) -> int:
        """Products of places that the power takes, about, and so many more for each place."""
        return self.length * (2 * self.epochs.bit_length() + more)


def power_of(law: dict[int, arb], start: int, part: Part, lattice: Lattice, weight: Fraction) -> Power:
    """Round the law of an epoch, and say how long its power for all epochs of a part is."""
    away = {square: abs(square - start) for square in law}
    own, places = lattice.coarser * (math.gcd(*away.values()) or 1), dict[int, arb]()
    for square, probability in law.items():
        place = lattice.place(Fraction(away[square], own))
        places[place] = places.get(place, arb(0)) + probability
    apart = own * weight / lattice.unit
    last = math.floor((lattice.values + 1) / apart)
    return Power(
        places, apart, part.epochs, min(last, part.epochs * max(places, default=0), LARGEST_VALUES) + 1
    )


def require_affordable(powers: list[Power], lattice: Lattice) -> None:
    """Refuse laws whose powers and products would take long."""
    total, products = sum(each.work(EACH) for each in powers), (len(powers) - 1) * (lattice.values + 1) ** 2
    if (
        max(each.work() for each in powers) * ctx.prec > LARGEST_POWER * BITS
        or total * ctx.prec > LARGEST_POWERS * BITS
        or products * ctx.prec > LARGEST_PRODUCTS * BITS
    ):
        raise RefusedError("the law of this run has more values than are computed")


def law_of_power(power: Power, lattice: Lattice) -> arb_poly:
    """Law of the sum of squares of all epochs of a part, by places of the run; others are left out."""
    coefficients = [power.places.get(v, arb(0)) for v in range(power.length)]
    found = [arb(0)] * (lattice.values + 1)
    for v, probability in enumerate(short_power(arb_poly(coefficients), power.epochs, power.length).coeffs()):
        place = lattice.place(v * power.apart)
        if place <= lattice.values:
            found[place] += probability
    return arb_poly(found)


def law_of_run(run: Run, witness: Object) -> Law:
    """Law of the squared distance, rounded up (V28, 1)."""
    entry = fields(witness, "upper", ENTRIES)
    lattice, first = lattice_of(entry), run.parts[0].least
    scale = Fraction(run.moved) ** 2 / first**2
    each_part = [((first / part.least) ** 2, part) for part in run.parts]
    most = exact(scale * sum(weight * part.epochs * run.largest for weight, part in each_part))
    if entry["pairs"] is None:
        return Law([], arb(1), most)
    pairs = whole(entry["pairs"], "pairs", 0, LARGEST_PAIRS)
    require_countable(run, pairs)
    base, powers = Fraction(0), []
    for weight, part in each_part:
        law = law_of_part(run, part.batches, pairs)
        start = min(law, default=run.largest) if lattice.from_least else run.largest
        base += part.epochs * start * weight
        powers.append(power_of(law, start, part, lattice, weight))
    require_affordable(powers, lattice)
    total = law_of_power(powers[0], lattice)
    for power in powers[1:]:
        total = beginning(total * law_of_power(power, lattice), lattice.values + 1)
    step = lattice.unit if lattice.from_least else -lattice.unit
    found = [
        (exact(scale * max(Fraction(0), base + v * step)), probability)
        for v, probability in enumerate(total.coeffs())
        if not probability.is_zero()
    ]
    rest = 1 - sum((each for _, each in found), arb(0))
    return Law(found, rest.max(arb(0)), most)


# ---------------------------------------------------------------- V28: the upper end


def mean_of_gaussians(job: tuple[list[float], list[Any]]) -> list[arb]:
    """Sum delta over some places of a law, each with its probability, at each epsilon."""
    epsilons, places = job
    found = [arb(0)] * len(epsilons)
    for place in places:
        square, weight = unpacked(place)
        for i, epsilon in enumerate(epsilons):
            found[i] += weight * gaussian(square.sqrt(), arb(epsilon))
    return found


def upper_ends(run: Run, witness: Object, epsilons: list[float]) -> list[arb]:
    """Bound delta from above: the adversary may know how many members are in every batch (V28, 1)."""
    with stage(0.0, OF_LAW):
        law = law_of_run(run, witness)
    if len(law.values) * len(epsilons) * ctx.prec > LARGEST_EVALUATIONS * BITS:
        raise RefusedError("the law of this run has more values than are computed")
    places = [packed(place) for place in law.values]
    jobs = [(epsilons, places[start : start + CHUNK]) for start in range(0, len(places), CHUNK)]
    found = [arb(0)] * len(epsilons)
    if not law.rest.is_zero():
        found = [law.rest * gaussian(law.most.sqrt(), arb(epsilon)) for epsilon in epsilons]
    with stage(OF_LAW, 1.0):
        for answer in mapped(mean_of_gaussians, jobs):
            found = [a + b for a, b in zip(found, answer, strict=True)]
    return found


def divergence(run: Run, witness: Object, order: float) -> arb:
    """Bound the Renyi divergence of an order from above, by the same law (V28, 2)."""
    pairs, alpha, found = fields(witness, "upper", ENTRIES)["pairs"], arb(order), arb(0)
    if pairs is not None:
        require_countable(run, whole(pairs, "pairs", 0, LARGEST_PAIRS))
    for part in run.parts:
        exponent = alpha * (alpha - 1) * exact(Fraction(run.moved) ** 2 / part.least**2) / 2
        law = {} if pairs is None else law_of_part(run, part.batches, pairs)
        rest = (1 - sum(law.values(), arb(0))).max(arb(0))
        moment = rest * (exponent * run.largest).exp()
        moment += sum((each * (exponent * square).exp() for square, each in law.items()), arb(0))
        found += part.epochs * moment.log() / (alpha - 1)
    return found
