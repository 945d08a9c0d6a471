"""Terms of the proof for dealt batches on a lattice (V23), each against a law that is known."""

import math

import pytest
from flint import arb, ctx

from hockeystick_verify import NotProvenError, RefusedError, cells, check, dealt_lattice, lattice
from hockeystick_verify.cells import Cell
from hockeystick_verify.dealt_lattice import Block, Dealt, Law

SCALE = 2.0
TOP = math.exp(1 / SCALE)
LAPLACE = {"name": "laplace", "scale": SCALE}
GAUSSIAN = {"name": "gaussian", "noise_multiplier": 2.0}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = before


def numbers(**more):
    usual = {"spacing": 0.05, "points": 64, "first": 0, "left": 0.5, "right": 0.5, "largest": 40}
    return usual | {"losses": 0.01, "reach": 60} | more


def ratio(**more):
    return dealt_lattice.ratio_of(numbers(**more))


def step(batches, count, name="random_allocation", mechanism=LAPLACE, group=None, **more):
    sampling = {"name": name, "batches": batches} | more
    return {"mechanism": mechanism, "sampling": sampling, "group": group or {"size": 1}, "count": count}


def epoch(batches, count, way="remove", **more):
    ((dealt, number),) = dealt_lattice.epochs_of_step(step(batches, count, **more), count, way)
    assert number == 1
    return dealt


def base_cells(given, times=1):
    base = epoch(1, 1).blocks[0].base
    return cells.cells_of_part(base, dealt_lattice.targets(given, times))


def near(ball, value, width=1e-25):
    return abs(ball - arb(value)) < width


# ---- statement 1


@pytest.mark.parametrize("largest", [40, 20])
def test_a_law_on_the_lattice_has_exactly_the_probabilities_of_the_batch(largest):
    given = ratio(largest=largest)
    law = dealt_lattice.upper_law(base_cells(given), given)
    assert near(sum(law.masses.values(), arb(0)), 1.0)
    mean = sum((mass * place for place, mass in law.masses.items()), arb(0)) * law.unit
    # To the last bit: likelihood ratios are raised to the lattice, and the probability under P is kept.
    assert near(mean + law.lost, 1.0)
    assert bool(law.lost > 0.1) == (largest == 20)
    assert max(law.masses) <= largest


def test_cells_are_rounded_to_places_that_surely_enclose_them():
    given = ratio()
    cell = Cell(arb("0.315"), arb("0.3"), arb("1.01").log(), arb("1.09").log())
    law = dealt_lattice.upper_law([cell], given)
    assert sorted(place for place, mass in law.masses.items() if mass > 1e-9) == [20, 22]
    wide = cell._replace(low=arb("1.01").log() + arb(0, 0.1))
    with pytest.raises(NotProvenError, match="a cell is too wide"):
        dealt_lattice.upper_law([wide], given)
    # No lower bound: all that is not at the upper place has the likelihood ratio 0.
    below = dealt_lattice.upper_law([Cell(arb("0.11"), arb("0.3"), None, arb("1.09").log())], given)
    assert sorted(below.masses) == [0, 22]
    assert near(below.masses[22], arb("0.11") / (22 * arb(0.05) * (1 + arb(dealt_lattice.CLOSE))))
    assert near(below.masses[0] + below.masses[22], arb("0.3"))


def test_a_place_is_surely_not_below_a_value():
    assert dealt_lattice.place_above(arb(2), arb("0.5")) == 4
    assert dealt_lattice.place_above(arb(2) + arb(2) ** -90, arb("0.5")) == 5
    assert dealt_lattice.place_above(arb("-1.2"), arb("0.5")) == -2
    with pytest.raises(NotProvenError, match="a ball is too wide"):
        dealt_lattice.place_above(arb(2, 3), arb("0.5"))


def test_an_enlarged_probability_is_the_upper_end_of_its_ball():
    assert float(dealt_lattice.at_most(arb(0.5, 0.125))) >= 0.625
    assert dealt_lattice.at_most(arb(0.5, 0.125)).rad() == 0
    assert dealt_lattice.at_most(arb(-1.0, 0.125)) == 0


# ---- statement 2


def test_the_largest_loss_of_several_releases_is_not_folded_to_the_smallest():
    losses = 1 / SCALE / 50 * (1 + 1e-13)
    given = ratio(losses=losses, reach=50)
    found = dealt_lattice.repeated(base_cells(given, 3), given, 3)
    assert len(found) == 301
    # All three releases beyond both shifts: a probability of an atom, to which rounding adds next to nothing.
    first, last = found[0], found[-1]
    assert float(last.q) == pytest.approx((math.exp(-1 / SCALE) / 2) ** 3, rel=0.1)
    assert float(first.q) == pytest.approx(0.5**3, rel=0.1)
    assert near(last.high, 150 * arb(losses))
    assert near(first.low, -150 * arb(losses))
    for cell in found:
        assert near(cell.p, cell.q * cell.low.exp())
    assert near(sum((cell.q for cell in found), arb(0)), 1.0)
    assert near(sum((cell.p for cell in found), arb(0)), 1.0)


def test_losses_that_are_not_bounded_are_not_repeated():
    given = ratio()
    for low, high in ((None, arb("0.1")), (arb("0.1"), None)):
        with pytest.raises(NotProvenError, match="must be bounded"):
            dealt_lattice.repeated([Cell(arb(1), arb(1), low, high)], given, 2)
    for low, high in (("-0.8", "0.1"), ("-0.1", "0.8")):
        with pytest.raises(NotProvenError, match="beyond the reach"):
            dealt_lattice.repeated([Cell(arb(1), arb(1), arb(low), arb(high))], given, 2)
    with pytest.raises(RefusedError, match="released more often"):
        dealt_lattice.repeated([], ratio(reach=1000), 1000)


# ---- statement 3


def law_of(masses):
    return Law({place: arb(mass) for place, mass in masses.items()}, arb("0.1"), arb(0))


def test_the_mean_counts_batches_that_are_not_released():
    # Two batches with K = 4 or 6 and three that are still; the window lacks 8 and 12.
    mean = dealt_lattice.mean_of([(2, law_of({4: 0.75, 6: 0.25}))], 3, ratio(points=3, first=9))
    for place, value, mass in zip((9, 10, 11), mean.values, mean.masses, strict=True):
        assert near(value, (arb(place) / 10 + 3) / 5)
        # The window tells three places apart: 12 is folded to 9, and 8 to 11.
        assert near(mass, {9: 0.0625, 10: 0.375, 11: 0.5625}[place])
    above = (0.75 * math.exp(2.0) + 0.25 * math.exp(3.0)) ** 2 * math.exp(-6.0)
    below = (0.75 * math.exp(-2.0) + 0.25 * math.exp(-3.0)) ** 2 * math.exp(4.5)
    assert float(mean.beyond_q) == pytest.approx(above + below, rel=1e-12)
    assert float(mean.beyond_p) == pytest.approx((above + below) * (1.2 + 3) / 5, rel=1e-12)


def test_laws_of_different_batches_multiply():
    laws = [(1, law_of({1: 0.5, 2: 0.5})), (2, law_of({0: 0.5, 3: 0.5}))]
    mean = dealt_lattice.mean_of(laws, 0, ratio(points=16))
    masses = {1: 0.125, 2: 0.125, 4: 0.25, 5: 0.25, 7: 0.125, 8: 0.125}
    for place, (value, mass) in enumerate(zip(mean.values, mean.masses, strict=True)):
        assert near(value, arb(place) / 30)
        assert near(mass, masses.get(place, 0.0))
    assert (mean.beyond_p, mean.beyond_q) == (0, 0)
    assert dealt_lattice.mean_of(laws, 0, ratio(points=8)).beyond_q > 0  # the largest sum is just beyond
    assert dealt_lattice.mean_of(laws, 0, ratio(points=16, first=2)).beyond_q > 0


@pytest.mark.parametrize(("batches", "count"), [(3, 3), (3, 2)])
def test_infinite_likelihood_ratios_are_as_frequent_as_those_of_the_batch_with_the_record(batches, count):
    given = numbers(largest=20, points=512)
    single = dealt_lattice.upper_law(base_cells(ratio(**given)), ratio(**given))
    removed, added = (
        dealt_lattice.cells_of_epoch(epoch(batches, count, way), given) for way in ("remove", "add")
    )
    assert near(removed[-1].p, single.lost * count / batches)
    assert (removed[-1].q, removed[-1].high) == (0, None)
    assert near(sum((cell.p for cell in removed), arb(0)), 1.0)
    assert near(sum((cell.q for cell in removed), arb(0)), 1.0)
    # Without the record all outputs have their probability; what only it could give is never seen.
    assert added[-1].p == 0
    assert near(sum((cell.p for cell in added), arb(0)), 1.0)
    assert near(sum((cell.q for cell in added), arb(0)), 1 - single.lost * count / batches)
    never = single.masses[0] ** count if count == batches else arb(0)
    assert near(sum((cell.p for cell in added if cell.high is None), arb(0)), never)
    for cell in removed[1:-1]:
        assert near((cell.low.exp() * cell.q - cell.p), 0.0)


def test_what_is_outside_the_window_is_an_infinite_loss():
    for way, wanted in (("remove", "beyond_p"), ("add", "beyond_q")):
        dealt = epoch(2, 2, way)
        given = numbers(points=30, first=20, right=0.3, left=0.2)
        law = dealt_lattice.upper_law(base_cells(ratio(**given)), ratio(**given))
        mean = dealt_lattice.mean_of([(2, law)], 0, ratio(**given))
        assert near(dealt_lattice.cells_of_epoch(dealt, given)[-1].p, getattr(mean, wanted))
        assert mean.beyond_q > 1e-3


# ---- runs and their cost


def test_bins_that_stay_are_released_by_blocks():
    dealt = epoch(3, 5, name="fixed_bins")
    assert [(block.batches, block.times) for block in dealt.blocks] == [(2, 2), (1, 1)]
    assert dealt.batches == 3
    found = dealt_lattice.cells_of_epoch(dealt, numbers(points=256, largest=70, reach=60))
    assert near(sum((cell.q for cell in found), arb(0)), 1.0)
    assert near(sum((cell.p for cell in found), arb(0)), 1.0, 1e-20)


def test_the_work_of_an_epoch_counts_points_cells_and_releases():
    part = epoch(1, 1).blocks[0].base
    once, thrice = (Dealt([Block(2, times, part)], False) for times in (1, 3))
    assert dealt_lattice.work_of(numbers(), once) == 64 + 4 * 40
    assert dealt_lattice.work_of(numbers(), thrice) == 64 + 4 * 40 + 2 * 60 * 3


def document(steps, entry, kinds=1):
    witness = {"bits": 128, "method": "lattice", "spacing": 0.05, "points": 64, "first": -32, "tilt": 1.0}
    kind = {"start": 0.0, "ranges": [], "coarser": [], "dealt": entry}
    witness |= {"outer_tilt": 2.0, "left_tilt": 1.0, "kinds": [kind] * kinds}
    claims = [{"epsilon": 0.1, "at_most": 1.0}]
    return {"run": {"adjacency": "remove", "steps": steps}, "claims": claims, "witness": {"remove": witness}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([step(2, 2, group={"size": 1, "norms": [0.5]})], "one record of norm 1"),
        ([step(2, 2, mechanism=GAUSSIAN, group={"size": 1, "norms": [0.5]})], "one record of norm 1"),
        ([step(2, 2, group={"size": 1, "rates": [0.5]})], "one record of norm 1"),
        ([step(2, 2, times=3)], "times must be a whole number"),
        ([step(2, 2), step(2, 4)], "dealt batches that are alike"),
        ([step(2, 2), step(2, 2, times=1)], "dealt batches that are alike"),
        ([step(10**7 + 1, 2)], "batches must be"),
    ],
)  # fmt: skip
def test_entries_that_have_no_proof_are_refused(given, reason):
    with pytest.raises(RefusedError, match=reason):
        check(document(given, numbers(), len(given)))


@pytest.mark.parametrize(
    "change",
    [
        {"spacing": 0.0}, {"spacing": 2.0}, {"points": 1}, {"points": (1 << 18) + 1}, {"points": 2.0},
        {"first": -1}, {"first": True}, {"left": -0.1}, {"left": math.nan}, {"right": 0.0}, {"more": 1},
        {"right": math.inf}, {"largest": 0}, {"largest": 10**5 + 1}, {"losses": 0.0}, {"reach": 10**5 + 1},
    ],
)  # fmt: skip
def test_numbers_of_an_epoch_that_are_out_of_range_are_refused(change):
    with pytest.raises(RefusedError):
        check(document([step(2, 2)], numbers(**change)))


def test_epochs_and_other_steps_are_the_kinds_of_a_run():
    drawn = {
        "mechanism": LAPLACE,
        "sampling": {"name": "poisson", "sample_rate": 0.5},
        "group": {"size": 1},
        "count": 7,
    }
    run = {"adjacency": "remove", "steps": [step(3, 8), drawn]}
    found = [(isinstance(each, Dealt), number) for each, number in lattice.pairs_of(run, "remove")]
    assert found == [(False, 7), (True, 2), (True, 1)]
    with pytest.raises(RefusedError, match="must be an object"):
        check(document([step(2, 2)], None))


def test_of_an_epoch_there_is_no_lower_end():
    (found,) = check(document([step(2, 2)], numbers(points=128)))
    assert found.upper > 0.05
    assert found.lower <= 0.0
