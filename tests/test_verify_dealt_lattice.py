"""Dealt batches on a lattice (V23): laws of one batch and of their mean, and whole runs."""

import json
import math

import numpy as np
import pytest
from flint import arb, ctx

import hockeystick as hs
from hockeystick_verify import NotProvenError, RefusedError, cells, check, dealt_lattice, lattice

SCALE = 2.0
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")]
NOTHING = {"right": 1.0, "left": 0.0, "losses": 0.01, "reach": 100}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = before


def step(batches, count, name="random_allocation", size=1, mechanism=None, **more):
    noise = mechanism or {"name": "laplace", "scale": SCALE}
    sampling = {"name": name, "batches": batches} | more
    return {"mechanism": noise, "sampling": sampling, "group": {"size": size}, "count": count}


def numbers(spacing, points, first, **more):
    largest = math.ceil(math.exp(1.0 / SCALE) / spacing) + 3
    return {"spacing": spacing, "points": points, "first": first, "largest": largest} | NOTHING | more


def ratio_and_mass(nodes=400):
    """Likelihood ratios of Laplace noise that is moved by 1, and their probabilities without the record."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    x, weights = (x + 1) / 2, weights / 2
    ratios = np.concatenate([[math.exp(-1 / SCALE)], np.exp((2 * x - 1) / SCALE), [math.exp(1 / SCALE)]])
    inner = weights * np.exp(-x / SCALE) / (2 * SCALE)
    return ratios, np.concatenate([[0.5], inner, [math.exp(-1 / SCALE) / 2]])


def by_definition(ratio, mass, epsilon, added):
    loss = np.exp(epsilon)
    gains = np.maximum(1 - loss * ratio, 0) if added else np.maximum(ratio - loss, 0)
    return float((gains * mass).sum())


def delta(atoms, epsilon):
    return sum(float(p) - math.exp(epsilon) * float(q) for p, q, *_ in atoms if p > math.exp(epsilon) * q)


@pytest.mark.parametrize("way", ["remove", "add"])
def test_an_epoch_of_two_batches_is_the_mean_of_the_definition(way):
    ratio, mass = ratio_and_mass()
    mean, both = (ratio[:, None] + ratio) / 2, mass[:, None] * mass
    ((dealt, epochs),) = dealt_lattice.epochs_of_step(step(2, 2), 2, way)
    assert epochs == 1
    for epsilon in (0.05, 0.2, 0.35):
        exact = by_definition(mean, both, epsilon, way == "add")
        widths = []
        for spacing in (0.02, 0.01):
            upper = delta(dealt_lattice.cells_of_epoch(dealt, numbers(spacing, 512, 0)), epsilon)
            assert exact - 1e-6 <= upper
            widths.append(upper - exact)
        assert widths[0] < 2e-3 * exact
        assert widths[1] < 0.5 * widths[0] + 1e-6


def test_a_law_that_is_rounded_apart_keeps_both_probabilities_and_one_that_is_not_does_not_dominate():
    ((dealt, _),) = dealt_lattice.epochs_of_step(step(1, 1), 1, "remove")
    ratio = dealt_lattice.ratio_of(numbers(0.05, 64, 0))
    base = cells.cells_of_part(dealt.blocks[0].base, dealt_lattice.targets(ratio, 1))
    law = dealt_lattice.upper_law(base, ratio)
    assert float(sum(law.masses.values())) == pytest.approx(1.0, abs=1e-15)
    mean = sum(mass * place * law.unit for place, mass in law.masses.items())
    assert float(mean + law.lost) == pytest.approx(1.0, abs=1e-11)
    # Rounding to the next place keeps neither, and gives less than the truth at some epsilon.
    ratios, masses = ratio_and_mass()
    for epsilon in (0.1, 0.3):
        exact = by_definition(ratios, masses, epsilon, False)
        places = [(place * float(law.unit), float(mass)) for place, mass in law.masses.items()]
        assert exact <= sum(max(y - math.exp(epsilon), 0.0) * mass for y, mass in places) + 1e-7
        nearest = np.round(ratios / 0.05) * 0.05
        assert by_definition(nearest, masses, epsilon, False) != pytest.approx(exact, rel=1e-4)


def test_a_likelihood_ratio_beyond_the_last_place_counts_as_infinite():
    ((dealt, _),) = dealt_lattice.epochs_of_step(step(1, 1), 1, "remove")
    ratio = dealt_lattice.ratio_of(numbers(0.05, 64, 0, largest=20))
    base = cells.cells_of_part(dealt.blocks[0].base, dealt_lattice.targets(ratio, 1))
    ratios, masses = ratio_and_mass(1000)
    beyond = float((masses * ratios)[ratios >= 0.95].sum())
    assert float(dealt_lattice.upper_law(base, ratio).lost) == pytest.approx(beyond, rel=0.05)


def test_what_is_outside_the_window_is_attained_by_a_law_of_one_place():
    ratio = dealt_lattice.ratio_of(numbers(0.1, 8, 10, right=0.5, left=0.5))
    for place, expected in ((18, 1.0), (9, math.exp(0.5)), (10, 0.0), (17, 0.0)):
        law = dealt_lattice.Law({place: arb(1)}, ratio.spacing, arb(0))
        mean = dealt_lattice.mean_of([(1, law)], 0, ratio)
        assert float(mean.beyond_q) == pytest.approx(expected)
        assert float(mean.beyond_p) == pytest.approx(1.8 * expected)
        if expected >= 1.0:
            assert float(mean.beyond_q.upper()) >= 1.0


def test_the_tilt_above_the_window_bounds_what_grows_with_the_likelihood_ratio():
    law = dealt_lattice.Law({100: arb(1)}, arb("0.1"), arb(0))
    for tilt in (1e-3, 0.0555):  # of 18 places
        with pytest.raises(NotProvenError, match="tilt above the window"):
            dealt_lattice.mean_of([(1, law)], 0, dealt_lattice.ratio_of(numbers(0.1, 8, 10, right=tilt)))
    ratio = dealt_lattice.ratio_of(numbers(0.1, 8, 10, right=0.0556))
    # The bound is nearly attained: the likelihood ratio is 10 where the one just above the window is 1.8.
    law = dealt_lattice.Law({19: arb(1)}, arb("0.1"), arb(0))
    assert 1.9 <= float(dealt_lattice.mean_of([(1, law)], 0, ratio).beyond_p) < 1.91


def test_several_releases_of_a_batch_are_the_product_of_their_likelihood_ratios():
    ((dealt, _),) = dealt_lattice.epochs_of_step(step(1, 3, "fixed_bins"), 3, "remove")
    assert [block.times for block in dealt.blocks] == [3]
    ratios, masses = ratio_and_mass(60)
    product = np.multiply.outer(np.multiply.outer(ratios, ratios), ratios)
    mass = np.multiply.outer(np.multiply.outer(masses, masses), masses)
    exact = by_definition(product, mass, 0.4, False)
    for spacing, most in ((0.02, 2e-3), (0.01, 5e-4)):
        ratio = dealt_lattice.ratio_of(numbers(0.05, 64, 0, losses=spacing, reach=60))
        base = cells.cells_of_part(dealt.blocks[0].base, dealt_lattice.targets(ratio, 3))
        found = dealt_lattice.repeated(base, ratio, 3)
        assert exact * (1 - 1e-5) <= delta(found, 0.4) <= exact * (1 + most)
    short = dealt_lattice.ratio_of(numbers(0.05, 64, 0, losses=0.01, reach=49))
    with pytest.raises(NotProvenError, match="beyond the reach"):
        dealt_lattice.repeated(cells.cells_of_part(dealt.blocks[0].base, []), short, 3)


def test_epochs_have_the_batches_that_are_released():
    def blocks(*given):
        return [
            ([(b.batches, b.times) for b in dealt.blocks], number)
            for dealt, number in dealt_lattice.epochs_of_step(*given, "remove")
        ]

    assert blocks(step(5, 12), 12) == [([(5, 1)], 2), ([(2, 1), (3, 0)], 1)]
    assert blocks(step(5, 12, "fixed_bins"), 12) == [([(2, 3), (3, 2)], 1)]
    assert blocks(step(5, 3, "fixed_bins"), 3) == [([(3, 1), (2, 0)], 1)]
    assert blocks(step(5, 12, times=2), 12) == [([(3, 1)], 3), ([(2, 1)], 3)]
    gaussian = {"name": "gaussian", "noise_multiplier": 3.0}
    ((dealt, _),) = dealt_lattice.epochs_of_step(step(2, 8, "fixed_bins", mechanism=gaussian), 8, "remove")
    assert float(dealt.blocks[0].base.scale) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("given", "way", "reason"),
    [
        (step(2, 2, size=2), "remove", "one record"),
        (step(2, 2), "replace", "direction of dealt batches"),
        (step(2, 2, "fixed_bins", times=2), "remove", "hold each record once"),
        (step(2, 2, mechanism={"name": "randomized_response", "p": 0.7}), "remove", "noise of dealt batches"),
    ],
)
def test_dealt_batches_without_a_known_pair_are_refused(given, way, reason):
    with pytest.raises(RefusedError, match=reason):
        dealt_lattice.epochs_of_step(given, given["count"], way)


RUNS = {
    "an epoch": {"sampling": hs.RandomAllocation(4), "steps": 4},
    "epochs": {"sampling": hs.RandomAllocation(4), "steps": 12},
    "bins that stay": {"sampling": hs.FixedBins(4), "steps": 8},
    "two batches": {"sampling": hs.RandomAllocation(6, times=2), "steps": 12},
}


@pytest.mark.parametrize("name", RUNS)
def test_dealt_batches_with_laplace_noise_are_certified(name):
    curve = hs.privacy_curve(mechanism=hs.Laplace(3.0), **RUNS[name])
    certificate = curve.certify(delta=1e-3)
    assert certificate.verify()[0]
    low, high = curve.bounds(delta=1e-3)
    (claim,) = certificate.claims
    assert low <= claim["epsilon"] <= high * (1 + 1e-3)
    if name != "bins that stay":  # of which the engine has a bound that is larger
        assert not certificate.with_claims([claim | {"at_most": 0.95e-3}]).verify()[0]


def test_a_part_of_an_epoch_reveals_less_than_a_whole_one():
    # The largest loss of the part: the record is in one of the two batches that are released, of four.
    most = 2 / 3 + math.log((2 * math.exp(1 / 3) + 2) / 4)
    certificate = hs.privacy_curve(
        mechanism=hs.Laplace(3.0), sampling=hs.RandomAllocation(4), steps=10
    ).certify(epsilon=0.99 * most)
    verified, lines = certificate.with_claims([{"epsilon": 1.001 * most, "at_most": 1e-9}]).verify()
    assert verified, lines


def test_dealt_batches_compose_with_steps_of_any_kind():
    dealt = hs.privacy_curve(noise_multiplier=4.0, sampling=hs.RandomAllocation(4), steps=8)
    curve = dealt + hs.privacy_curve(mechanism=hs.Laplace(5.0), sample_rate=0.1, steps=3)
    certificate = curve.certify(delta=1e-4)
    assert certificate.verify()[0]
    assert float(curve.epsilon(1e-4)) == pytest.approx(certificate.claims[0]["epsilon"], rel=1e-3)


def test_groups_that_are_dealt_are_certified_by_a_chain():
    curve = hs.privacy_curve(noise_multiplier=4.0, sampling=hs.RandomAllocation(5), steps=5, group_size=8)
    assert curve.bound_used(delta=1e-5) == "chain"
    certificate = curve.certify(delta=1e-5)
    assert certificate.verify()[0]
    (claim,) = certificate.claims
    assert claim["epsilon"] == pytest.approx(float(curve.epsilon(1e-5)), rel=1e-3)
    assert not certificate.with_claims([claim | {"epsilon": claim["epsilon"] * 0.99}]).verify()[0]


def test_a_witness_that_asks_for_too_much_is_refused():
    run = {"adjacency": "remove", "steps": [step(4, 4)]}
    given = numbers(0.001, 1 << 18, 0, largest=10**5)
    witness = {
        "bits": 1024, "method": "lattice", "spacing": 0.1, "points": 64, "first": -20, "tilt": 1.0,
        "outer_tilt": 2.0, "left_tilt": 1.0,
        "kinds": [{"start": 0.0, "ranges": [], "coarser": [], "dealt": given}],
    }  # fmt: skip
    document = {"run": run, "claims": [{"epsilon": 1.0, "at_most": 0.5}], "witness": {"remove": witness}}
    with pytest.raises(RefusedError, match="more cells than are computed"):
        check(document)
    assert lattice.LARGEST_CELLS == 10**6


GAUSSIAN = {"name": "gaussian", "noise_multiplier": 2.0}


GAUSSIAN = {"name": "gaussian", "noise_multiplier": 2.0}


@pytest.mark.parametrize(
    ("given", "releases", "size"),
    [
        (step(4, 12), 3, 1),
        (step(4, 13), 4, 1),
        (step(4, 3, name="fixed_bins"), 1, 1),
        (step(4, 8, times=2), 2, 2),  # Laplace noise adds up shifts
        (step(4, 9, times=2, size=3), 3, 6),
        (step(4, 9, times=2, size=3, mechanism=GAUSSIAN), 6, 3),  # Gaussian noise adds up their squares
    ],
)
def test_published_batches_are_full_batches(given, releases, size):
    run = {"adjacency": "remove", "steps": [given]}
    (found,) = dealt_lattice.published(run)["steps"]
    assert (found["sampling"], found["count"]) == ({"name": "full_batch"}, releases)
    assert (found["mechanism"], found["group"]) == (given["mechanism"], {"size": size})


def test_published_groups_have_the_curve_of_full_batches():
    # Three members in two of four batches, for five steps: two epochs, squares of shifts add up.
    given = step(4, 5, times=2, size=3, mechanism=GAUSSIAN)
    claims = [{"epsilon": 8.0, "at_most": 1.0}]
    document = {"run": {"adjacency": "remove", "steps": [given]}, "claims": claims}
    (found,) = check(document | {"witness": {"remove": {"bits": 128, "published": True}}})
    mu = 3 * math.sqrt(2 * 2) / 2.0
    above = [0.5 * math.erfc((8.0 / mu + sign * mu / 2) / math.sqrt(2)) for sign in (-1, 1)]
    assert found.upper == pytest.approx(above[0] - math.exp(8.0) * above[1], rel=1e-7)
    assert found.lower == pytest.approx(0.0, abs=1e-9)


def test_published_batches_beside_drawn_ones_do_not_depend_on_processes():
    given = step(4, 4, size=2, mechanism=GAUSSIAN)
    drawn = given | {"sampling": {"name": "poisson", "sample_rate": 0.1}, "count": 20}
    run = {"noise_multiplier": 2.0, "group_size": 2, "adjacency": "remove"}
    curve = hs.privacy_curve(sample_rate=0.1, steps=20, **run)
    curve = curve + hs.privacy_curve(sampling=hs.FullBatch(), steps=1, **run)
    document = json.loads(curve.certify(epsilon=3.0).to_json())
    document["run"]["steps"] = [drawn, given]
    document["claims"] = document["claims"][:1]
    document["witness"]["remove"]["published"] = True
    one, two = check(document), check(document, processes=2)
    assert one == two
    assert one[0].holds


def test_next_to_the_largest_loss_published_batches_prove_more():
    curve = hs.privacy_curve(mechanism=hs.Laplace(2.98), sampling=hs.FixedBins(3), steps=6, adjacency="add")
    document = json.loads(curve.certify(delta=1e-6).to_json())
    (found,) = check(document)
    assert document["witness"]["add"]["published"] is True
    assert found.holds
    assert found.epsilon == pytest.approx(float(curve.epsilon(1e-6)), rel=1e-3)
    assert found.lower == pytest.approx(0.0, abs=1e-9)
    document["run"]["steps"][0]["count"] += 1  # a third epoch
    with pytest.raises(NotProvenError):
        check(document)


@pytest.mark.parametrize(
    ("given", "adjacency", "reason"),
    [
        (step(4, 4), "replace", "added or removed records"),
        (step(4, 4) | {"group": {"size": 1, "norms": [0.5]}}, "remove", "of norm 1"),
        (step(4, 4, times=9), "remove", "times"),
        (step(4, 4, foo=1), "remove", "unknown entry"),
        (step(4, 4, name="fixed_bins", times=2), "remove", "hold each record once"),
        (step(0, 4), "remove", "batches"),
        (step(4, 4, mechanism={"name": "randomized_response", "p": 0.7}), "remove", "noise of published"),
        (step(1, 10**12, mechanism=GAUSSIAN) | {"count": 10**13}, "remove", "count"),
    ],
)
def test_published_batches_without_a_known_pair_are_refused(given, adjacency, reason):
    with pytest.raises(RefusedError, match=reason):
        dealt_lattice.published({"adjacency": adjacency, "steps": [given]})


def test_batches_are_published_or_not():
    curve = hs.privacy_curve(mechanism=hs.Laplace(2.98), sampling=hs.FixedBins(3), steps=6, adjacency="add")
    document = json.loads(curve.certify(delta=1e-6).to_json())
    document["witness"]["add"]["published"] = 1
    with pytest.raises(RefusedError, match="published must be true"):
        check(document)


def test_alike_entries_of_published_batches_are_refused():
    with pytest.raises(RefusedError, match="alike"):
        dealt_lattice.published({"adjacency": "remove", "steps": [step(4, 4), step(4, 4)]})
