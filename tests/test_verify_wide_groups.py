"""Groups of tens on a lattice: shifts that are left out (V24), published numbers (V10), other proofs."""

import json
import math

import pytest
from flint import arb, ctx
from scipy.special import ndtr

import hockeystick as hs
from hockeystick_verify import NotProvenError, RefusedError, check, lattice, parts

WINDOW = {"bits": 128, "method": "lattice", "spacing": 0.25, "points": 64, "first": -30, "tilt": 1.0}
WINDOW |= {"outer_tilt": 2.0, "left_tilt": 1.0}
RATE, SIGMA, EPSILON = 1e-3, 0.05, 1.0


@pytest.fixture(autouse=True)
def precision():
    before, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = before


def run_of(way, count=1, rate=RATE):
    sampling = {"name": "poisson", "sample_rate": rate}
    step = {
        "mechanism": {"name": "gaussian", "noise_multiplier": SIGMA},
        "sampling": sampling,
        "count": count,
    }
    return {"adjacency": way, "steps": [step | {"group": {"size": 2}}]}


def proven(way, largest, *, ranges=(), count=1, rate=RATE, epsilon=EPSILON):
    kind = {"start": 0.0, "ranges": list(ranges), "coarser": [1], "largest_shift": largest}
    claims, witness = [{"epsilon": epsilon, "at_most": 1.0}], {way: WINDOW | {"kinds": [kind]}}
    (found,) = check({"run": run_of(way, count, rate), "claims": claims, "witness": witness})
    return found


def test_what_p_loses_on_a_lattice_is_attained():
    # A member that is in the batch is seen: delta is nearly the probability of that in all steps.
    for count in (1, 2):
        seen = 1 - (1 - RATE) ** (2 * count)
        found = proven("remove", 0.0, count=count)
        assert seen * (1 - 1e-6) < found.upper < seen * (1 + 3e-3)
        assert found.lower <= 0.0
    with pytest.raises(RefusedError, match="largest_shift"):
        proven("remove", -1.0)


def test_masses_of_what_is_left_add_up_to_what_is_left():
    """A mass of 1 in place of that of the law would give Q too much, and prove what is false."""
    step = parts.parts_of_step(run_of("add")["steps"][0], "add")
    short, lost, of_p_only = parts.up_to(step, 1)
    assert (len(step[0].q), len(short[0].q), of_p_only, lost.is_zero()) == (3, 2, False, True)
    grid = lattice.Grid(arb(0), arb(1) / 8, [(-32, 33, 1)], [1])
    each = lattice.cells_at(short, grid, 0, half=False)
    assert float(sum((cell.q for cell in each), arb(0))) == pytest.approx(1 - RATE**2, rel=1e-12)
    assert float(sum((cell.p for cell in each), arb(0))) == pytest.approx(1.0, rel=1e-12)
    removed, lost, of_p_only = parts.up_to(parts.parts_of_step(run_of("remove")["steps"][0], "remove"), 1)
    assert of_p_only
    assert float(lost) == pytest.approx(RATE**2, rel=1e-12)
    assert len(removed[0].p) == 2
    with pytest.raises(NotProvenError, match="V24"):
        parts.up_to([short[0]._replace(p={2: arb(1)})], 1)


def test_every_part_loses_its_own_shifts():
    """A part that counts for another one, or a law that is emptied, would prove what is false."""
    laws = {0: arb(0.5), 2: arb(0.5)}, {0: arb(0.75), -3: arb(0.25)}, {0: arb(1)}
    first = parts.Part(arb(0.25), "gaussian", arb(1), laws[0], laws[1])
    second = parts.Part(arb(0.5), "gaussian", arb(1), laws[2], laws[1])
    third = parts.Part(arb(0.125), "gaussian", arb(1), laws[0], laws[2])
    found, lost, of_p_only = parts.up_to([first, second, parts.Atom(arb(0.125), arb(0.125)), third], 1)
    assert [tuple(map(len, (each.p, each.q))) for each in (*found[:2], found[3])] == [(1, 1)] * 3
    assert found[2] == parts.Atom(arb(0.125), arb(0.125))
    assert lost == 0.25 * 0.5 + 0.125 * 0.5
    assert not of_p_only
    assert parts.up_to([first, third], 3)[1:] == (0, True)
    with pytest.raises(NotProvenError, match="V24"):
        parts.up_to([second._replace(q={-3: arb(1)})], 1)


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
@pytest.mark.parametrize("largest", [0.0, 0.5, 1.0, 2.0])
def test_no_largest_shift_proves_what_is_false(direction, largest):
    """One step of two members, against the largest difference over half lines."""
    rate, epsilon, law = 0.3, 0.5, (0.49, 0.42, 0.09)
    given = {"ranges": [[-60, 60, 1]], "rate": rate, "epsilon": epsilon, "count": 1}
    try:
        found = proven(direction, largest, **given)
    except NotProvenError:
        return
    places = [each / 100 for each in range(-6000, 6001)]

    def above(x, way):
        each = [w * (1 - ndtr(x - way * s / SIGMA)) for s, w in enumerate(law)] if way else [1 - ndtr(x)]
        return sum(each)

    ways = {"remove": (1, 0), "add": (0, -1), "replace": (1, -1)}[direction]
    truth = max(above(x, ways[0]) - math.exp(epsilon) * above(x, ways[1]) for x in places)
    assert found.lower - 1e-4 * truth <= truth <= found.upper
    if largest < 2.0 and direction != "remove":
        assert found.lower <= 0.0


def test_less_of_q_has_an_upper_end_alone():
    given = {"ranges": [[-40, 40, 1]], "rate": 0.3, "epsilon": 0.5}
    everything, less = proven("add", 2.0, **given), proven("add", 1.0, **given)
    law = (0.49, 0.42, 0.09)
    truth = max(
        1 - ndtr(x) - math.exp(0.5) * sum(w * (1 - ndtr(x + s / SIGMA)) for s, w in enumerate(law))
        for x in (each / 100 - 30 for each in range(3000))
    )
    assert 0.5 * truth < everything.lower <= truth <= everything.upper
    assert truth <= less.upper < 1.2 * truth
    assert less.lower <= 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")
def test_groups_of_tens_in_samples_that_are_cut_are_certified():
    sampling = hs.Poisson(0.002, max_batch_size=16, dataset_size=1000)
    curve = hs.privacy_curve(
        noise_multiplier=3.0, sampling=sampling, steps=5, group_size=24, adjacency="remove"
    )
    certificate = curve.certify(delta=1e-5)
    claim, low = certificate.claims[0], curve.bounds(delta=1e-5)[0]
    assert "largest_shift" in certificate.to_json()
    assert certificate.verify()[0]
    assert low <= claim["epsilon"] <= 1.05 * low + 0.05
    # The engine's lower end: a smaller epsilon would be false.
    assert not certificate.with_claims([claim | {"epsilon": float(low) * (1 - 1e-6)}]).verify()[0]


@pytest.mark.slow
def test_of_many_replaced_records_the_number_in_the_batch_is_published():
    group, batch, records, noise, epsilon = 20, 3, 30, 5.0, 0.8
    curve = hs.privacy_curve(
        noise_multiplier=noise,
        sampling=hs.WithoutReplacement(batch, records),
        steps=1,
        group_size=group,
        adjacency="replace",
    )
    truth = 0.0
    for j in range(1, batch + 1):
        weight = math.comb(batch, j) * math.comb(records - batch, group - j) / math.comb(records, group)
        distance = 2 * j / noise
        middle = epsilon / distance
        truth += weight * ndtr(distance / 2 - middle)
        truth -= weight * math.exp(epsilon) * ndtr(-distance / 2 - middle)
    certificate = curve.certify(epsilon=epsilon)
    (upper,) = certificate.claims
    assert truth <= upper["at_most"] < truth * (1 + 1e-3)
    assert certificate.verify()[0]
    assert not certificate.with_claims([{"epsilon": epsilon, "at_most": truth * (1 - 1e-6)}]).verify()[0]
    # The number need not be published: the curve is below, and nothing of this pair is a lower end of it.
    assert curve.bounds(epsilon=epsilon)[1] < 0.98 * truth
    for claim in ({"epsilon": epsilon, "at_least": 0.9 * truth}, {"order": 4.0, "at_least": 1.0}):
        assert not certificate.with_claims([claim]).verify()[0]
    divergence = curve.certify(order=4.0)
    assert divergence.verify()[0]
    ((about, above),) = (tuple(claim.items()) for claim in divergence.claims)
    assert (about[1], above[0]) == (4.0, "at_most")
    assert curve.renyi(4.0) <= above[1]


def test_a_step_without_a_replaced_record_is_an_outcome_too():
    """Else two steps would lack the runs in which only one of them has a replaced record in its batch."""
    sampling = {"name": "without_replacement", "batch_size": 3, "dataset_size": 30}
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 5.0}, "sampling": sampling, "count": 1}
    made = parts.parts_of_step(step | {"group": {"size": 20}}, "replace")
    weights = [math.comb(3, j) * math.comb(27, 20 - j) / math.comb(30, 20) for j in range(4)]
    found = {max(each.p): each for each in made if isinstance(each, parts.Part)}
    assert sorted(found) == [2, 4, 6]
    for shift, each in found.items():
        assert each.q == {0: arb(1)}
        assert float(each.weight) == pytest.approx(weights[int(shift / 2)], rel=1e-12)
    (atom,) = [each for each in made if isinstance(each, parts.Atom)]
    assert [float(atom.p), float(atom.q)] == pytest.approx([weights[0]] * 2, rel=1e-12)


@pytest.mark.slow
def test_next_to_the_largest_loss_dealt_groups_are_proven_by_published_batches():
    curve = hs.privacy_curve(
        mechanism=hs.Laplace(1.0), sampling=hs.RandomAllocation(10), steps=10, group_size=8
    )
    certificate = curve.certify(delta=1e-5)
    assert certificate.verify()[0]
    (claim,) = certificate.claims
    assert curve.bounds(delta=1e-5)[0] <= claim["epsilon"] <= 8.0
    assert not certificate.with_claims([claim | {"epsilon": 7.999}]).verify()[0]


@pytest.mark.slow
def test_parts_of_epochs_of_a_dealt_group_are_a_chain_on_a_lattice():
    run = {"noise_multiplier": 4.0, "sampling": hs.RandomAllocation(10), "group_size": 20}
    curve = hs.privacy_curve(**run, steps=3, adjacency="remove")
    certificate = curve.certify(delta=1e-5)
    assert json.loads(certificate.to_json())["witness"]["remove"]["one"]["method"] == "lattice"
    assert certificate.verify()[0]
    (claim,) = certificate.claims
    assert claim["epsilon"] == pytest.approx(curve.epsilon(1e-5), rel=1e-3)
    assert not certificate.with_claims([claim | {"epsilon": claim["epsilon"] * 0.99}]).verify()[0]


@pytest.mark.slow
def test_both_orders_of_a_chain_of_dealt_records_have_one_witness():
    sampling = hs.RandomAllocation(5)
    curve = hs.privacy_curve(noise_multiplier=4.0, sampling=sampling, steps=5, group_size=10)
    certificate = curve.certify(delta=1e-5)
    witness = json.loads(certificate.to_json())["witness"]
    assert witness["remove"]["method"] == "chain"
    assert witness["remove"]["one"] == witness["add"]["one"]
    assert certificate.verify()[0]
