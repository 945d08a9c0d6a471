"""Shuffled batches in the certificate checker (V28)."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

import hockeystick as hs
from hockeystick_verify import check, shuffled, shuffled_pair
from hockeystick_verify.checker import gaussian

BITS = 192
EPOCH = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(600, 60_000), "adjacency": "zero_out", "steps": 100}
PUBLISHED = {"pairs": None, "unit": 1.0, "values": 0, "from": "least", "coarser": 1}
ALL = {"pairs": 30, "unit": 1.0, "values": 200, "from": "least", "coarser": 1}
SUM = {"output": "sum"}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, BITS
    yield
    ctx.prec = before


def step(noise, count, batch=2, records=5, size=1):
    sampling = {"name": "shuffle", "batch_size": batch, "dataset_size": records}
    mechanism = {"name": "gaussian", "noise_multiplier": noise}
    return {"mechanism": mechanism, "sampling": sampling, "group": {"size": size}, "count": count}


def run_of(*steps, adjacency="zero_out"):
    return {"adjacency": adjacency, "steps": list(steps)}


def read(*steps, adjacency="zero_out"):
    return shuffled.read_run(run_of(*steps, adjacency=adjacency))


def proven(run, claims, **ends):
    witness = {"bits": BITS, "method": "shuffled", "upper": PUBLISHED, "lower": SUM} | ends
    return check({"run": run, "claims": claims, "witness": {run["adjacency"]: witness}})


def largest_output(parts, order="first", members=1, window=None):
    found = {"output": "maximum", "order": order, "members": members}
    return found | {"parts": parts, "window": window}


def placements(batch, batches, records, members):
    """Members in each batch, for every set of positions of the members in an epoch."""
    for positions in combinations(range(records), members):
        held = Counter(position // batch for position in positions)
        yield [held.get(t, 0) for t in range(batches)]


def squares(batch, batches, records, members):
    """Law of the sum of the squared numbers of members, by enumeration."""
    found = Counter(sum(n * n for n in each) for each in placements(batch, batches, records, members))
    return {square: Fraction(number, found.total()) for square, number in found.items()}


def curve(distance, epsilon):
    """Delta of N(distance, 1) against N(0, 1)."""
    if distance == 0:
        return mpmath.mpf(0)
    middle = mpmath.mpf(epsilon) / distance
    below = mpmath.ncdf(-middle - distance / 2)
    return mpmath.ncdf(-middle + distance / 2) - mpmath.exp(epsilon) * below


# ---- statement 1: the law of the members, and the upper end

SIZES = [(2, 2, 4), (2, 2, 5), (1, 3, 3), (3, 2, 8), (2, 4, 8), (3, 1, 8), (4, 2, 8), (1, 5, 7)]


@pytest.mark.parametrize(("batch", "batches", "records"), SIZES)
def test_laws_of_members_are_those_of_all_placements(batch, batches, records):
    for members in range(1, records + 1):
        run = shuffled.Run(batch, records, members, 1, [])
        wanted = squares(batch, batches, records, members)
        found = shuffled.law_of_part(run, batches, 30)
        assert set(found) == set(wanted)
        assert max(wanted) <= run.largest
        for square, probability in wanted.items():
            assert found[square].contains(arb(probability.numerator) / probability.denominator)
            assert float(found[square].rad()) < 1e-50
        # Fewer pairs are told apart: the rest is missing, and nothing else changes.
        few = shuffled.law_of_part(run, batches, 1)
        assert all(few[square].overlaps(found[square]) for square in few)
        assert all(square - n <= 2 for square in few for n in [square % 2] if square < 2)


def test_epochs_are_cut_from_steps_in_their_order():
    run = read(step(1.0, 3), step(2.0, 4), step(3.0, 2))  # epochs of two batches: 11 12 22 23 3
    parts = [(part.batches, float(part.least), float(part.most), part.epochs) for part in run.parts]
    assert sorted(parts) == [
        (1, 3.0, 3.0, 1),
        (2, 1.0, 1.0, 1),
        (2, 1.0, 2.0, 1),
        (2, 2.0, 2.0, 1),
        (2, 2.0, 3.0, 1),
    ]
    run = read(step(1.0, 10), step(2.0, 1))
    assert [tuple(part)[-1] for part in run.parts] == [5, 1]


@pytest.mark.parametrize("adjacency", ["zero_out", "replace"])
@pytest.mark.parametrize("entry", [ALL, ALL | {"from": "most"}])
def test_the_upper_end_is_the_mean_over_all_placements(adjacency, entry):
    batch, records, members, noise, epsilon = 2, 7, 3, 2.5, 0.75
    run = read(step(noise, 8, batch, records, members), adjacency=adjacency)  # two epochs and two batches
    whole, part = squares(batch, 3, records, members), squares(batch, 2, records, members)
    moved = 1 if adjacency == "zero_out" else 2
    wanted = sum(
        mpmath.mpf((p * q * r).numerator) / (p * q * r).denominator
        * curve(moved * mpmath.sqrt(x + y + z) / noise, epsilon)
        for (x, p), (y, q), (z, r) in product(whole.items(), whole.items(), part.items())
    )  # fmt: skip
    (found,) = shuffled.upper_ends(run, entry, [epsilon])
    assert abs(float(found.mid()) / float(wanted) - 1) < 1e-12
    assert float(found.rad()) < 1e-40


def test_what_is_not_listed_is_attained():
    """Two of four records in two batches: 2 or 4, the largest value."""
    run = read(step(1.5, 2, 2, 4, 2))
    law = squares(2, 2, 4, 2)
    assert set(law) == {2, 4}
    (found,) = shuffled.upper_ends(run, ALL | {"values": 0}, [0.5])
    (exact,) = shuffled.upper_ends(run, ALL, [0.5])
    assert abs(float(found / exact) - 1) < 1e-15
    (few,) = shuffled.upper_ends(run, ALL | {"pairs": 0}, [0.5])
    assert abs(float(few / exact) - 1) < 1e-15
    (published,) = shuffled.upper_ends(run, PUBLISHED, [0.5])
    assert abs(float(published) - float(curve(2 / mpmath.mpf(1.5), 0.5))) < 1e-12
    assert published > exact


@pytest.mark.parametrize(
    "entry", [{"coarser": 3}, {"coarser": 3, "from": "most"}, {"unit": 7.0}, {"from": "most", "unit": 7.0}]
)
def test_rounded_squares_are_larger(entry):
    run = read(step(2.0, 6, 2, 8, 4), step(2.5, 4, 2, 8, 4))
    (exact,) = shuffled.upper_ends(run, ALL | {"unit": 1e-3, "values": 12_000}, [1.0])
    (found,) = shuffled.upper_ends(run, ALL | entry, [1.0])
    assert exact * 1.001 < found < exact * 1.6


def test_noise_that_differs_between_epochs_is_rounded_once():
    noises = 2.0, 3.0
    run = read(*(step(noise, 4, 2, 8, 2) for noise in noises))
    law, epsilon = squares(2, 4, 8, 2), 0.5
    wanted = sum(
        mpmath.mpf((p * q).numerator) / (p * q).denominator
        * curve(mpmath.sqrt(x / noises[0] ** 2 + y / noises[1] ** 2), epsilon)
        for (x, p), (y, q) in product(law.items(), law.items())
    )  # fmt: skip
    (found,) = shuffled.upper_ends(run, ALL | {"unit": 1e-3, "values": 4_000}, [epsilon])
    assert 1.0 <= float(found) / float(wanted) < 1 + 1e-3
    # A quarter of an epoch with less noise counts for all of it.
    both, least = read(step(1.0, 1, 1, 4), step(2.0, 3, 1, 4)), read(step(1.0, 4, 1, 4))
    ends = [shuffled.upper_ends(each, ALL, [epsilon])[0] for each in (both, least)]
    assert ends[0].overlaps(ends[1])


def test_divergences_are_the_means_over_all_placements():
    batch, records, members, noise = 2, 7, 3, 2.5
    run = run_of(step(noise, 8, batch, records, members), adjacency="replace")
    laws = [squares(batch, 3, records, members)] * 2 + [squares(batch, 2, records, members)]
    for order in (1.5, 4.0):
        exponent = order * (order - 1) * (2 / noise) ** 2 / 2
        moments = [sum(float(p) * math.exp(exponent * x) for x, p in law.items()) for law in laws]
        wanted = sum(map(math.log, moments)) / (order - 1)
        (found,) = proven(run, [{"order": order, "at_most": 1e3}], upper=ALL)
        assert found.upper == pytest.approx(wanted, rel=1e-12)
        (few,) = proven(run, [{"order": order, "at_most": 1e3}], upper=ALL | {"pairs": 0})
        assert few.upper > found.upper
        (published,) = proven(run, [{"order": order, "at_most": 1e3}])
        assert published.upper == pytest.approx(3 * 6 * exponent / (order - 1), rel=1e-12)


# ---- statement 3: the largest sum of a block


@pytest.mark.parametrize(("batch", "batches", "records"), SIZES)
def test_laws_of_the_largest_sum_are_those_of_all_placements(batch, batches, records):
    noise = Fraction(3, 4)
    for members, block in product((1, 2, 3), (1, 2)):
        if block > batches or members > records:
            continue
        blocks = batches // block
        law = shuffled_pair.Blocks(blocks, block * batch, records, members, block * noise**2)
        held = list(placements(block * batch, blocks, records, members))
        deviation = math.sqrt(float(law.variance))
        for moved, edge in product((2, 1, 0), (-1.0, 0.5, 2.5)):
            each = (
                math.prod(float(mpmath.ncdf((edge - moved * n) / deviation)) for n in numbers)
                for numbers in held
            )
            found = law.not_above(arb(edge), moved)
            assert float(found) == pytest.approx(sum(each) / len(held), rel=1e-12)
            assert float(found.rad()) < 1e-40


def exact_delta(noise, epsilon, shifts, weights=(0.5, 0.5, 0.0)):
    """Delta of two batches, of which one holds the member, or none, by a rule in two dimensions."""
    width = 0.01 * noise
    x = np.arange(-8 * noise, 2 + 8 * noise, width)

    def law(shift):
        still, moved = (np.exp(-0.5 * ((x - u) / noise) ** 2) for u in (0.0, shift))
        first, second, nothing = weights
        found = (
            first * np.outer(moved, still)
            + second * np.outer(still, moved)
            + nothing * np.outer(still, still)
        )
        return found * width**2 / (2 * np.pi * noise**2)

    return np.maximum(law(shifts[0]) - math.exp(epsilon) * law(shifts[1]), 0.0).sum()


@pytest.mark.parametrize("adjacency", ["zero_out", "replace"])
@pytest.mark.parametrize(
    ("noise", "epsilon", "records"), [(1.0, 1.0, 4), (0.5, 3.0, 4), (2.0, 0.2, 4), (1.0, 0.7, 5)]
)
def test_the_integral_over_two_batches_is_between_the_ends(noise, epsilon, records, adjacency):
    shifts = (2.0, 1.0 if adjacency == "zero_out" else 0.0)
    weights = (2 / records, 2 / records, 1 - 4 / records)
    exact = max(exact_delta(noise, epsilon, each, weights) for each in (shifts, shifts[::-1]))
    arguments = {
        "noise_multiplier": noise,
        "sampling": hs.Shuffle(2, records),
        "steps": 2,
        "adjacency": adjacency,
    }
    certificate = hs.privacy_curve(**arguments).certify(epsilon=epsilon)
    assert certificate.verify()[0]
    above, below = certificate.claims
    assert below["at_least"] <= exact * (1 + 1e-4)
    assert exact <= above["at_most"] * (1 + 1e-4)
    assert below["at_least"] > 0.6 * exact


def test_one_batch_of_all_records_attains_both_ends():
    """An epoch is one full batch: both bounds are the curve of a Gaussian pair."""
    for adjacency, moved in (("zero_out", 1), ("replace", 2)):
        run = run_of(step(3.0, 5, 4, 4, 2), adjacency=adjacency)
        wanted = float(curve(moved * 2 * mpmath.sqrt(5) / 3, 1.0))
        claims = [{"epsilon": 1.0, "at_most": 1.0}, {"epsilon": 1.0, "at_least": 0.0}]
        found = proven(run, claims)[0]
        assert found.lower == pytest.approx(wanted, rel=1e-12)
        assert found.upper == pytest.approx(wanted, rel=1e-12)
        edges = [place * 400 for place in range(-200, 200)]
        part = {"block": 1, "unit": 1e-3, "edges": edges}
        one = run_of(step(3.0, 1, 4, 4, 2), adjacency=adjacency)
        lower = proven(one, claims[1:], lower=largest_output([part], members=2))[0].lower
        assert lower == pytest.approx(float(curve(mpmath.mpf(moved * 2) / 3, 1.0)), rel=1e-2)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace"])
def test_sums_of_epochs_are_blocks_of_all_batches(adjacency):
    run = run_of(step(1.5, 3, 2, 6, 2), adjacency=adjacency)
    part = {"block": 3, "unit": 0.002, "edges": list(range(-8000, 12000, 40))}
    claims = [{"epsilon": 0.5, "at_least": 0.0}]
    (sums,) = proven(run, claims)
    (cells,) = proven(run, claims, lower=largest_output([part], members=2))
    assert cells.lower == pytest.approx(sums.lower, rel=1e-3)
    assert cells.lower <= sums.lower * (1 + 1e-12)
    # Records that may be in no batch, and parts of epochs, have no such sum.
    for other in (step(1.5, 3, 2, 7, 2), step(1.5, 2, 2, 6, 2)):
        assert proven(run_of(other, adjacency=adjacency), claims)[0].lower == 0.0


@pytest.mark.parametrize("order", ["first", "second"])
def test_epochs_are_composed_of_their_cells(order):
    run = read(step(1.0, 5, 2, 5))  # two epochs, and one batch
    edges = [-200, 0, 60, 130, 170, 240, 300, 350, 420]
    parts = [{"block": 1, "unit": 0.01, "edges": edges}] * 2
    cuts = [shuffled_pair.cut_of(run, part, 1, entry) for part, entry in zip(run.parts, parts, strict=True)]
    moved = (2, 1) if order == "first" else (1, 2)
    whole, rest = (
        [(float(p), float(q)) for p, q, _, _ in shuffled_pair.cells_of(cut, moved)] for cut in cuts
    )
    for cells in (whole, rest):
        assert sum(p for p, _ in cells) == pytest.approx(1.0, rel=1e-12)
        assert sum(q for _, q in cells) == pytest.approx(1.0, rel=1e-12)
    epsilon = 1.2
    wanted = sum(
        max(0.0, a[0] * b[0] * c[0] - math.exp(epsilon) * a[1] * b[1] * c[1])
        for a, b, c in product(whole, whole, rest)
    )
    window = {
        "spacing": 1e-3,
        "points": 1 << 15,
        "first": -1 << 14,
        "tilt": 0.0,
        "outer_tilt": 3.0,
        "left_tilt": 3.0,
    }
    lower = largest_output(parts, order, window=window)
    (found,) = shuffled_pair.lower_ends_of_run(run, lower, [epsilon])
    assert 0.995 * wanted < float(found) <= wanted * (1 + 1e-12)
    # An epoch may be left out, which reveals less.
    left_out = largest_output([parts[0], None], order, window=window)
    assert 0.0 < float(shuffled_pair.lower_ends_of_run(run, left_out, [epsilon])[0]) < float(found)


def test_the_largest_noise_of_an_epoch_counts_below():
    mixed, most = read(step(1.0, 1, 2, 4), step(2.0, 1, 2, 4)), read(step(2.0, 2, 2, 4))
    lower = largest_output([{"block": 1, "unit": 0.01, "edges": [150]}])
    ends = [shuffled_pair.lower_ends_of_run(each, lower, [0.05])[0] for each in (mixed, most)]
    assert ends[0].overlaps(ends[1])
    assert all(float(each) > 0.0 for each in ends)
    sums = [shuffled_pair.lower_ends_of_run(each, SUM, [0.5])[0] for each in (mixed, most)]
    assert sums[0].overlaps(sums[1])
    assert float(sums[0]) == pytest.approx(float(gaussian(1 / arb(8).sqrt(), arb("0.5"))), rel=1e-12)
