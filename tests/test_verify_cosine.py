"""Certificates of groups whose gradients have a bounded cosine: laws by enumeration, integrals, refusals."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import mpmath
import pytest
from certified_runs import made_once
from flint import ctx
from verified_steps import POISSON, as_numbers, proven, step, two_steps

import hockeystick as hs
import hockeystick_verify
from hockeystick_verify import RefusedError, checker, variants

DELTA = 1e-4
GAUSSIAN = {"name": "gaussian", "noise_multiplier": 1.5}
FULL = {"name": "full_batch"}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    with mpmath.workdps(50):
        yield
    ctx.prec = before


def bounded(cosine, **group):
    return {"gradients": "bounded", "cosine": cosine} | group


def by_enumeration(rates, norms, cosine):
    """Law of the largest norms of sums over all subsets, as squares that are exact."""
    found = Counter()
    for inside in itertools.product((0, 1), repeat=len(rates)):
        weight, members = Fraction(1), []
        for bit, rate, norm in zip(inside, rates, norms, strict=True):
            weight *= Fraction(rate) if bit else 1 - Fraction(rate)
            members += [Fraction(norm)] if bit else []
        square = sum(
            (a * b * (1 if i == j else Fraction(cosine)))
            for i, a in enumerate(members)
            for j, b in enumerate(members)
        )
        found[Fraction(square)] += weight
    return {square: weight for square, weight in found.items() if weight}


@pytest.mark.parametrize(
    ("sampling", "group", "rates", "norms", "cosine"),
    [
        (POISSON, {"size": 4}, [0.25] * 4, [1.0] * 4, 0.2),
        (POISSON, {"size": 3, "norms": [0.3] * 3}, [0.25] * 3, [0.3] * 3, 0.7),
        (POISSON, {"size": 3, "norms": [1.0, 0.3, 0.45]}, [0.25] * 3, [1.0, 0.3, 0.45], 0.2),
        (POISSON, {"size": 3, "rates": [0.5, 1.0, 0.1]}, [0.5, 1.0, 0.1], [1.0] * 3, 0.0),
        (FULL, {"size": 2, "norms": [1.0, 0.5]}, [1.0] * 2, [1.0, 0.5], 0.4),
    ],
)
def test_laws_of_bounded_cosines_are_those_of_all_subsets(sampling, group, rates, norms, cosine):
    pair = variants.pair_of_step(step(GAUSSIAN, sampling, **bounded(cosine, **group)), "remove")
    wanted = {
        mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator): float(weight)
        for square, weight in by_enumeration(rates, norms, cosine).items()
    }
    assert len(pair.p) == len(wanted)
    for shift, root in zip(sorted(pair.p), sorted(wanted), strict=True):
        above = mpmath.mpf(shift.numerator) / shift.denominator - root
        assert -(mpmath.mpf(10) ** -45) <= above <= mpmath.mpf(2) ** -96
        assert float(pair.p[shift]) == pytest.approx(wanted[root], rel=1e-14)


def test_roots_are_rounded_up_by_less_than_the_last_bit():
    assert variants.root_above(Fraction(0)) == 0
    assert variants.root_above(Fraction(9, 4)) == Fraction(3, 2)
    for square in (Fraction(2), Fraction(1, 3), Fraction(10**6 + 1), Fraction(1, 10**12), Fraction(0.1)):
        root, last = variants.root_above(square), Fraction(1, 2**96)
        assert root**2 > square > (root - last) ** 2
    # The root is rounded up even if the square is less than a last bit above that of a whole number of them.
    assert variants.root_above(1 + Fraction(1, 2**200)) == 1 + Fraction(1, 2**96)


def test_a_cosine_of_one_is_that_of_aligned_gradients():
    group = {"size": 3, "norms": [1.0, 0.25, 0.5]}
    for way in ("remove", "add", "replace"):
        found = variants.pair_of_step(step(GAUSSIAN, POISSON, **bounded(1.0, **group)), way)
        wanted = checker.pair_of_step(step(GAUSSIAN, POISSON, **group), way)
        for ours, theirs in ((found.p, wanted.p), (found.q, wanted.q)):
            assert (ours is None) == (theirs is None)
            assert as_numbers(ours or {}) == pytest.approx(as_numbers(theirs or {}), rel=1e-14)


CURVES = {
    "alike": hs.privacy_curve(
        noise_multiplier=3.0, sample_rate=0.05, steps=30, group=hs.Group(5, cosine=0.2)
    ),
    "norms": hs.privacy_curve(
        noise_multiplier=2.0, sample_rate=0.05, steps=20, group=hs.Group(norms=[1.0, 0.3, 0.45], cosine=0.6)
    ),
    "rates": hs.privacy_curve(
        noise_multiplier=2.0, steps=20, group=hs.Group(rates=[0.02, 0.1, 0.1], cosine=0.3), adjacency="add"
    ),
    "replaced": hs.privacy_curve(
        noise_multiplier=4.0, sample_rate=0.05, steps=20, group=hs.Group(3, cosine=0.5), adjacency="replace"
    ),
    "full": hs.privacy_curve(
        noise_multiplier=20.0, sampling=hs.FullBatch(), steps=20, group=hs.Group(3, cosine=0.5)
    ),
    "few": hs.privacy_curve(
        noise_multiplier=1.2, sample_rate=0.02, steps=2, group=hs.Group(2, cosine=0.5), adjacency="remove"
    ),
    "beside others": hs.privacy_curve(
        noise_multiplier=6.0, sample_rate=0.1, steps=2, group=hs.Group(2, cosine=0.5), adjacency="remove"
    )
    + hs.privacy_curve(mechanism=hs.RandomizedResponse(0.7), sample_rate=0.1, steps=1, adjacency="remove"),
    "beside dealt": hs.privacy_curve(
        noise_multiplier=4.0, sample_rate=0.05, steps=4, group=hs.Group(3, cosine=0.5), adjacency="remove"
    )
    + hs.privacy_curve(noise_multiplier=3.0, sampling=hs.RandomAllocation(5), steps=10, adjacency="remove"),
}


@pytest.fixture(scope="module")
def certificates():
    """Certificates of epsilon at DELTA, made when they are asked for."""
    return made_once(CURVES, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_certificates_are_proven_and_claim_no_more_than_is_true(name, certificates):
    curve, certificate = CURVES[name], certificates(name)
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = (float(end) for end in curve.bounds(delta=DELTA))
    upper, *lower = certificate.claims
    assert least <= upper["epsilon"] < most * 1.002 + 1e-4
    assert all(claim["epsilon"] <= most for claim in lower)
    for claim in (upper | {"at_most": DELTA * 0.99}, {"epsilon": least * 0.98, "at_most": DELTA}):
        assert not certificate.with_claims([claim]).verify()[0], claim


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("alike", ("group", "cosine"), 0.202),
        ("alike", ("group", "cosine"), 1.0),
        ("alike", ("group", "size"), 6),
        ("norms", ("group", "norms"), [1.0, 0.3, 0.46]),
        ("norms", ("sampling", "sample_rate"), 0.0501),
        ("rates", ("group", "rates"), [0.02, 0.1, 0.101]),
        ("replaced", ("group", "cosine"), 0.51),
        ("full", ("group", "cosine"), 0.5001),
        pytest.param("beside others", ("group", "cosine"), 0.6, marks=pytest.mark.slow),
        ("beside dealt", ("mechanism", "noise_multiplier"), 3.9),
    ],
)
def test_a_run_that_is_another_one_is_not_proven(name, path, value, certificates):
    document = json.loads(certificates(name).to_json())
    place = next(each for each in document["run"]["steps"] if "cosine" in each["group"])
    place[path[0]][path[1]] = value
    assert not hockeystick_verify.verify_text(json.dumps(document))[0]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "epsilon"), [("remove", 1.0), ("mixed", 1.0)])
def test_intervals_of_two_steps_hold_the_integral(way, epsilon):
    rates, norms, cosine = [0.25, 0.4, 0.1], [1.0, 0.5, 0.75], 0.35
    laws = {math.sqrt(s): float(w) for s, w in by_enumeration(rates, norms, cosine).items()}
    true = two_steps(laws, 1.5, epsilon, first="remove" if way == "remove" else "add")
    group = hs.Group(rates=rates, norms=norms, cosine=cosine)
    one = {"noise_multiplier": 1.5, "group": group, "steps": 1}
    first, last = (
        hs.privacy_curve(**one, adjacency=each) for each in ("remove" if way == "remove" else "add", "remove")
    )
    document = json.loads((first + last).certify(epsilon=epsilon).to_json())
    lower, upper = proven(document["run"], document["witness"][way], epsilon, way)
    assert lower * (1 - 1e-8) <= true <= upper * (1 + 1e-8)
    assert upper - lower < 1e-6 * true


@pytest.mark.parametrize(
    ("mechanism", "sampling", "group", "way", "reason"),
    [
        (GAUSSIAN, POISSON, {"size": 2, "cosine": 0.1}, "remove", "only for these"),
        (GAUSSIAN, POISSON, {"size": 2, "gradients": "bounded"}, "remove", "only for these"),
        (GAUSSIAN, POISSON, {"size": 2, "cosine": 0.1, "gradients": "aligned"}, "remove", "only for these"),
        (
            GAUSSIAN,
            POISSON,
            {"size": 2, "cosine": 0.1, "gradients": "orthogonal"},
            "remove",
            "only for these",
        ),
        (GAUSSIAN, POISSON, bounded(1.5, size=2), "remove", "cosine must be a number in"),
        (GAUSSIAN, POISSON, bounded(-0.1, size=2), "remove", "cosine must be a number in"),
        (GAUSSIAN, POISSON, bounded(math.nan, size=2), "remove", "cosine must be a number in"),
        (GAUSSIAN, POISSON, bounded(True, size=2), "remove", "cosine must be a number in"),
        (GAUSSIAN, POISSON | {"microbatches": 2}, bounded(0.1, size=2), "remove", "aligned records"),
        (GAUSSIAN, FULL, bounded(0.1, size=2, rates=[0.1, 0.1]), "remove", "members without rates"),
        (GAUSSIAN, FULL, bounded(0.1, size=2), "replace", "members without rates"),
        (
            GAUSSIAN,
            {"name": "without_replacement", "batch_size": 2, "dataset_size": 9},
            bounded(0.1, size=2),
            "remove",
            "sampling of gradients with a bounded cosine",
        ),
        (
            {"name": "adaptive_clipping", "noise_multiplier": 1.0, "count_noise": 1.0},
            POISSON,
            bounded(0.1, size=2),
            "remove",
            "mechanism of gradients with a bounded cosine",
        ),
        (
            {"name": "batch_clipping", "noise_multiplier": 1.0},
            POISSON,
            bounded(0.1, size=2),
            "remove",
            "mechanism of gradients with a bounded cosine",
        ),
        (
            GAUSSIAN,
            POISSON,
            bounded(0.1, size=40, norms=[1 / (n + 1) for n in range(40)]),
            "remove",
            "more than 2048 values",
        ),
        (
            GAUSSIAN,
            POISSON,
            bounded(0.1, size=200, norms=[1 / (n + 1) for n in range(200)]),
            "remove",
            "more than 128 members that differ",
        ),
    ],
)
def test_bounded_cosines_without_a_known_pair_are_refused(mechanism, sampling, group, way, reason):
    run = {"adjacency": way, "steps": [step(mechanism, sampling, **group)]}
    with pytest.raises(RefusedError, match=reason):
        proven(run, {"bits": 128}, 1.0, way)
    kinds = [{"start": 0.0, "ranges": [], "coarser": [1]}]
    witness = {"bits": 128, "method": "lattice", "spacing": 0.5, "points": 64, "first": -32, "tilt": 1.0}
    with pytest.raises(RefusedError, match=reason):
        proven(run, witness | {"outer_tilt": 4.0, "left_tilt": 4.0, "kinds": kinds}, 1.0, way)


def test_the_file_for_plain_runs_refuses_bounded_cosines(certificates):
    with pytest.raises(RefusedError, match="group has an unknown entry 'cosine'"):
        checker.check(json.loads(certificates("alike").to_json()))
