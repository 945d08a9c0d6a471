"""Certificates of batches that are clipped as a whole: laws by enumeration, integrals, and refusals."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import mpmath
import pytest
from certified_runs import claims_are_sharp, made_once
from flint import ctx
from nightly import some
from verified_steps import POISSON, as_numbers, proven, step, two_steps

import hockeystick as hs
import hockeystick_verify
from hockeystick_verify import RefusedError, checker, variants

pytestmark = pytest.mark.slow

DELTA = 1e-4


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    with mpmath.workdps(30):
        yield
    ctx.prec = before


CLIPPED = {"name": "batch_clipping", "noise_multiplier": 1.5}
FIXED = {"name": "without_replacement", "batch_size": 4, "dataset_size": 6}
FULL = {"name": "full_batch"}


def units_of_samples(rates, units):
    """Law of the number of Poisson samples with a member, over all outcomes."""
    found = Counter()
    for inside in itertools.product((0, 1), repeat=len(rates) * units):
        weight = Fraction(1)
        for bit, rate in zip(inside, rates * units, strict=True):
            weight *= Fraction(rate) if bit else 1 - Fraction(rate)
        held = sum(any(inside[u * len(rates) : (u + 1) * len(rates)]) for u in range(units))
        found[2.0 * held] += weight
    return found


def units_of_fixed_batches(records, batch, size, units):
    """Law of the number of equal parts of a batch with a member, over all orders of its records."""
    found, each = Counter(), batch // units
    orders = list(itertools.permutations(range(records), batch))
    for order in orders:
        held = sum(any(i < size for i in order[u * each : (u + 1) * each]) for u in range(units))
        found[2.0 * held] += Fraction(1, len(orders))
    return found


@pytest.mark.parametrize(
    ("mechanism", "sampling", "group", "wanted"),
    [
        (CLIPPED, POISSON, {"size": 3}, units_of_samples([0.25] * 3, 1)),
        (CLIPPED, POISSON, {"size": 2, "rates": [0.5, 0.125]}, units_of_samples([0.5, 0.125], 1)),
        (CLIPPED, POISSON | {"microbatches": 3}, {"size": 2}, units_of_samples([0.25] * 2, 3)),
        (CLIPPED, FIXED, {"size": 1}, units_of_fixed_batches(6, 4, 1, 1)),
        (CLIPPED, FIXED, {"size": 3}, units_of_fixed_batches(6, 4, 3, 1)),
        (CLIPPED | {"units_per_batch": 2}, FIXED, {"size": 2}, units_of_fixed_batches(6, 4, 2, 2)),
        (CLIPPED | {"units_per_batch": 2}, FIXED, {"size": 5}, units_of_fixed_batches(6, 4, 5, 2)),
        (CLIPPED | {"units_per_batch": 4}, FIXED, {"size": 3}, units_of_fixed_batches(6, 4, 3, 4)),
        (CLIPPED, FULL, {"size": 3}, {2.0: 1}),
    ],
)
def test_laws_of_clipped_batches_are_those_of_enumeration(mechanism, sampling, group, wanted):
    (plain,) = variants.plain({"adjacency": "remove", "steps": [step(mechanism, sampling, **group)]})["steps"]
    removed, added = (variants.pair_of_step(plain, way) for way in ("remove", "add"))
    assert (removed.q, added.p) == (None, None)
    assert float(removed.sigma) == 1.5
    for law in (removed.p, added.q):
        assert as_numbers(law) == pytest.approx({s: float(w) for s, w in wanted.items() if w}, rel=1e-14)


def test_rates_that_are_hardly_seen_or_missed_keep_their_digits():
    tiny, sure = (
        variants.clipped_batches(step(CLIPPED, POISSON | {"sample_rate": rate}, size=40))[1]
        for rate in (1e-12, 0.9)
    )
    assert float(tiny[Fraction(2)]) == pytest.approx(-math.expm1(40 * math.log1p(-1e-12)), rel=1e-13)
    assert float(sure[Fraction(0)]) == pytest.approx((1 - 0.9) ** 40, rel=1e-13)


@pytest.mark.parametrize(
    ("sampling", "size", "rate"), [(POISSON, 2, 1 - 0.75**2), (FIXED, 2, 1 - 1 / 15), (FIXED, 5, 1.0)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_replaced_records_of_clipped_batches_have_the_joined_curve(sampling, size, rate, epsilon):
    # The ratio 1 - rate + rate e^((2x - 2)/sigma^2) of the mixture to the noise is e^epsilon at x.
    t = mpmath.exp(epsilon)
    x = 1 + mpmath.log((t - 1 + rate) / rate) * 1.5**2 / 2
    true = float(rate * mpmath.ncdf((2 - x) / 1.5) + (1 - rate - t) * mpmath.ncdf(-x / 1.5))
    run = {"adjacency": "replace", "steps": [step(CLIPPED, sampling, size=size)]}
    ranges = [[-2000, 2000, 1]]
    kinds = [{"start": 0.0, "ranges": ranges, "coarser": [1, 1]}]
    witness = {
        "bits": 128,
        "method": "lattice",
        "spacing": 0.005,
        "points": 4096,
        "first": -2048,
        "tilt": 1.0,
    }
    witness |= {"outer_tilt": 4.0, "left_tilt": 4.0, "kinds": kinds}
    lower, upper = proven(run, witness, epsilon, "replace")
    assert lower <= true <= upper
    assert upper - lower < 1e-3 * true


UNITS = [
    (POISSON | {"microbatches": 3}, {}, 2, units_of_samples([0.25] * 2, 3)),
    (FIXED, {"units_per_batch": 2}, 2, units_of_fixed_batches(6, 4, 2, 2)),
    (FIXED, {"units_per_batch": 4}, 3, units_of_fixed_batches(6, 4, 3, 4)),  # no batch is without one
]


@pytest.mark.parametrize(("sampling", "units", "size", "law"), some(UNITS))
def test_replaced_records_of_several_units_are_a_mixture_of_joined_pairs(sampling, units, size, law):
    sigma, unseen = mpmath.mpf(3), mpmath.mpf(law[0.0].numerator) / law[0.0].denominator if law[0.0] else 0
    run = {
        "adjacency": "replace",
        "steps": [step(CLIPPED | units | {"noise_multiplier": 3.0}, sampling, size=size)],
    }
    distances = sum(1 for shift in law if shift)
    kinds = [{"start": 0.0, "ranges": [[-2000, 2000, 1]], "coarser": [1, 1] * distances}]
    witness = {
        "bits": 128,
        "method": "lattice",
        "spacing": 0.004,
        "points": 4096,
        "first": -2048,
        "tilt": 1.0,
    }
    witness |= {"outer_tilt": 4.0, "left_tilt": 4.0, "kinds": kinds}
    for epsilon in (0.0, 0.4, 1.0):
        order = (mpmath.exp(epsilon) - unseen) / (1 - unseen)
        true = 0
        for shift, weight in law.items():
            if shift:
                x = shift / 2 + sigma**2 * mpmath.log(order) / shift
                each = mpmath.ncdf((shift - x) / sigma) - order * mpmath.ncdf(-x / sigma)
                true += mpmath.mpf(weight.numerator) / weight.denominator * each
        lower, upper = proven(run, witness, epsilon, "replace")
        assert lower <= true <= upper
        assert upper - lower < 2e-3 * true


CURVES = {
    "clipped": hs.privacy_curve(mechanism=hs.BatchClipping(6.0), sample_rate=0.02, steps=60, group_size=5),
    "clipped-units": hs.privacy_curve(
        mechanism=hs.BatchClipping(6.0), sampling=hs.Poisson(0.02, microbatches=3), steps=20, group_size=2
    ),
    "clipped-parts": hs.privacy_curve(
        mechanism=hs.BatchClipping(9.0, units_per_batch=4),
        sampling=hs.WithoutReplacement(20, 400),
        steps=20,
        group_size=6,
    ),
    "clipped-full": hs.privacy_curve(
        mechanism=hs.BatchClipping(30.0), sampling=hs.FullBatch(), steps=9, group_size=3, adjacency="replace"
    ),
    "clipped-replaced": hs.privacy_curve(
        mechanism=hs.BatchClipping(9.0), sample_rate=0.05, steps=10, group_size=3, adjacency="replace"
    ),
    "clipped-units-replaced": hs.privacy_curve(
        mechanism=hs.BatchClipping(6.0),
        sampling=hs.Poisson(0.02, microbatches=3),
        steps=20,
        group_size=2,
        adjacency="replace",
    ),
    "clipped-parts-replaced": hs.privacy_curve(
        mechanism=hs.BatchClipping(9.0, units_per_batch=4),
        sampling=hs.WithoutReplacement(20, 400),
        steps=20,
        group_size=6,
        adjacency="replace",
    ),
    "clipped-and-dealt": hs.privacy_curve(mechanism=hs.BatchClipping(6.0), sample_rate=0.05, steps=10)
    + hs.privacy_curve(noise_multiplier=3.0, sampling=hs.RandomAllocation(10), steps=20),
}


@pytest.fixture(scope="module")
def certificates():
    """Certificates of epsilon at DELTA, made when they are asked for."""
    return made_once(CURVES, DELTA)


@pytest.mark.parametrize("name", some(CURVES))
def test_certificates_are_proven_and_claim_no_more_than_is_true(name, certificates):
    claims_are_sharp(CURVES[name], certificates(name), DELTA)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("clipped", ("mechanism", "noise_multiplier"), 5.99),
        ("clipped", ("mechanism", "name"), "gaussian"),  # records move the sum by 1 each, up to five
        ("clipped", ("sampling", "sample_rate"), 0.0201),
        ("clipped", ("group", "size"), 6),
        ("clipped", ("group", "rates"), [0.02, 0.02, 0.02, 0.02, 0.03]),
        ("clipped", ("count",), 61),
        ("clipped", ("sampling", "microbatches"), 2),
        ("clipped-units", ("sampling", "microbatches"), 4),
        ("clipped-parts", ("mechanism", "units_per_batch"), 5),
        ("clipped-parts", ("sampling", "dataset_size"), 398),
        ("clipped-full", ("count",), 10),
        ("clipped-replaced", ("sampling", "sample_rate"), 0.0502),
        ("clipped-replaced", ("mechanism", "noise_multiplier"), 8.95),
        ("clipped-units-replaced", ("sampling", "microbatches"), 4),
        ("clipped-units-replaced", ("sampling", "sample_rate"), 0.0202),
        ("clipped-units-replaced", ("group", "size"), 3),
        ("clipped-parts-replaced", ("mechanism", "units_per_batch"), 5),
        ("clipped-parts-replaced", ("mechanism", "noise_multiplier"), 8.95),
        ("clipped-and-dealt", ("sampling", "sample_rate"), 0.051),
    ],
)
def test_a_run_that_is_another_one_is_not_proven(name, path, value, certificates):
    document = json.loads(certificates(name).to_json())
    place = next(each for each in document["run"]["steps"] if each["mechanism"]["name"] == "batch_clipping")
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert not hockeystick_verify.verify_text(json.dumps(document))[0]


@pytest.mark.parametrize(
    ("mechanism", "sampling", "group", "way", "reason"),
    [
        (CLIPPED, POISSON, {"size": 2, "norms": [0.1, 0.1]}, "remove", "have no norms"),
        (CLIPPED, FIXED, {"size": 2, "rates": [0.1, 0.1]}, "remove", "rates in Poisson samples only"),
        (CLIPPED, FULL, {"size": 1, "rates": [0.1]}, "remove", "rates in Poisson samples only"),
        (CLIPPED, POISSON, {"size": 2, "gradients": "orthogonal"}, "remove", "mechanism of orthogonal"),
        (CLIPPED | {"units_per_batch": 3}, FIXED, {"size": 1}, "remove", "must divide batch_size"),
        (CLIPPED | {"units_per_batch": 2}, POISSON, {"size": 1}, "remove", "parts of batches of a fixed"),
        (CLIPPED | {"units_per_batch": 2}, FULL, {"size": 1}, "remove", "parts of batches of a fixed"),
        (CLIPPED, POISSON | {"microbatches": 2}, {"size": 1}, "replace", "for full batches only"),
        (CLIPPED, POISSON, {"size": 1}, "replace", "for full batches only"),
        (CLIPPED, FIXED, {"size": 7}, "remove", "more records than the data set"),
        (
            CLIPPED,
            {"name": "fixed_bins", "batches": 3},
            {"size": 1},
            "remove",
            "sampling of batches that are",
        ),
        (CLIPPED | {"noise_multiplier": 0.0}, POISSON, {"size": 1}, "remove", "noise_multiplier must be"),
        (CLIPPED | {"count_noise": 1.0}, POISSON, {"size": 1}, "remove", "unknown entry 'count_noise'"),
    ],
)
def test_clipped_batches_without_a_known_pair_are_refused(mechanism, sampling, group, way, reason):
    run = {"adjacency": way, "steps": [step(mechanism, sampling, **group)]}
    with pytest.raises(RefusedError, match=reason):
        proven(run, {"bits": 128}, 1.0, way)


def test_dealt_batches_that_are_clipped_as_a_whole_are_refused():
    bins = {"name": "random_allocation", "batches": 3}
    run = {"adjacency": "remove", "steps": [step(CLIPPED, bins, count=3, size=1)]}
    witness = {"bits": 128, "method": "allocation", "spacing": 0.1, "terms": 9, "rules": []}
    with pytest.raises(RefusedError, match="mechanism must be one of gaussian"):
        proven(run, witness, 1.0)


def test_the_file_for_plain_runs_refuses_what_it_does_not_know(certificates):
    with pytest.raises(RefusedError, match="mechanism must be one of"):
        checker.check(json.loads(certificates("clipped").to_json()))


def test_clipped_batches_are_certified_like_the_record_that_they_amount_to():
    run = {"steps": 50, "adjacency": "remove"}
    clipped = hs.privacy_curve(mechanism=hs.BatchClipping(4.0), sample_rate=0.1, group_size=2, **run)
    single = hs.privacy_curve(noise_multiplier=2.0, sample_rate=1 - 0.9**2, **run)
    for about in ({"epsilon": 1.5}, {"order": 3.0}):
        ends = [[claim.get("at_most", claim.get("at_least")) for claim in curve.certify(**about).claims]
                for curve in (clipped, single)]  # fmt: skip
        assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_intervals_of_two_steps_hold_the_integral():
    pair = variants.pair_of_step(step(CLIPPED, POISSON | {"microbatches": 2}, size=2), "remove")
    laws = as_numbers(pair.p)
    assert laws == {0.0: 0.31640625, 2.0: 0.4921875, 4.0: 0.19140625}
    true = two_steps(laws, 1.5, 2.5)
    sampling = hs.Poisson(0.25, microbatches=2)
    run = {"sampling": sampling, "steps": 2, "group_size": 2, "adjacency": "remove"}
    document = json.loads(
        hs.privacy_curve(mechanism=hs.BatchClipping(1.5), **run).certify(epsilon=2.5).to_json()
    )
    lower, upper = proven(document["run"], document["witness"]["remove"], 2.5)
    assert lower * (1 - 1e-12) <= true <= upper * (1 + 1e-12)
    assert upper - lower < 1e-6 * true
