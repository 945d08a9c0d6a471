"""Runs with correlated noise, of which the checker derives the sensitivity (V25): by all sets of steps."""

import copy
import itertools
import json
import pickle
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from sensitivity_by_sets import both_ends, entry, gram, matrix, random_run

import hockeystick as hs
import hockeystick_verify
from hockeystick._curves.curve import PrivacyCurve
from hockeystick_verify import RefusedError, claims, sensitivity, stored_matrices
from hockeystick_verify.variants import plain

DELTA = 1e-5
BANDED = {"form": "toeplitz", "coefficients": [1.0, 0.5, 0.25, 0.125], "steps": 12}
SIGNED = {"form": "toeplitz", "coefficients": [1.0, -0.5, 0.25], "steps": 10}
ROOT = {"form": "prefix_sum_root", "steps": 12}
FULL = {"name": "full_batch"}
TURNS = {"name": "cyclic_poisson", "sample_rate": 0.1, "cycle": 4}


def derived(mechanism, sampling, size=1):
    """Plain steps of a run, which is affordable."""
    run = sensitivity.read_run(entry(mechanism, sampling, size), False)
    sensitivity.require_affordable([run])
    with ctx.workprec(sensitivity.BITS):
        return sensitivity.parts_of(run)


def square(mechanism, sampling, size=1):
    """Both ends of the squared sensitivity of a run that is one Gaussian, and whether it is attained."""
    (part,) = derived(mechanism, sampling, size)
    lower, upper, places, attained = part.square
    return Fraction(lower, 2**places), Fraction(upper, 2**places), attained


def check_against_sets(run):
    """Compare with all sets of steps; return whether the sensitivity is attained."""
    lower, upper, attained = square(*run)
    found, _ = both_ends(*run)
    assert found <= upper, run
    if attained:
        assert lower <= found, run
        assert (upper - lower) * 2**90 <= upper < 2 * found, run
    else:
        assert lower == upper, run
    return attained


# ---------------------------------------------------------------- squares, by all sets of steps


@pytest.mark.parametrize("seed", range(4))
def test_squares_of_random_runs_are_those_of_all_sets(seed):
    draw = random.Random(seed)
    assert 40 < sum(check_against_sets(random_run(draw)) for _ in range(60)) < 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_squares_of_many_random_runs_are_those_of_all_sets(seed):
    draw = random.Random(seed)
    for _ in range(300):
        check_against_sets(random_run(draw))


@pytest.mark.parametrize("seed", range(2))
def test_bounds_that_save_work_are_above_all_sets(seed, monkeypatch):
    monkeypatch.setattr(stored_matrices, "MOST_SETS", -1)
    monkeypatch.setattr(stored_matrices, "MOST_ENUMERATED", 0)
    monkeypatch.setattr(sensitivity, "LARGEST_ROWS", 0)
    draw = random.Random(seed)
    for _ in range(120):
        check_against_sets(random_run(draw))


SHARP = {
    "signs": (SIGNED, FULL, 1),
    "signs, a fixed order": (
        {**SIGNED, "coefficients": [1.0, 0.3, -0.5]},
        {"name": "fixed_order", "batches": 2},
        1,
    ),
    "a hull": (
        {"form": "toeplitz", "coefficients": [1.0, 0.9, 0.91], "steps": 8},
        {"name": "minimum_separation", "separation": 2},
        1,
    ),
    "a hull of buffers": (
        {"form": "blt", "scales": [0.8, 0.3], "decays": [0.5, 0.9], "steps": 8},
        {"name": "minimum_separation", "separation": 2, "participations": 3},
        1,
    ),
    "rows": (
        {"form": "matrix", "rows": [[1.0], [0.5, 1.0], [0.5, 0.5, 1.0], [0.1, 0.5, 0.5, 1.0]], "steps": 4},
        {"name": "minimum_separation", "separation": 2},
        1,
    ),
    "different batches": (ROOT, {"name": "fixed_order", "batches": 4, "members": "apart"}, 3),
    "different batches, signs": (SIGNED, {"name": "fixed_order", "batches": 5, "members": "apart"}, 2),
}


@pytest.mark.parametrize("name", SHARP)
def test_half_of_a_bound_would_be_too_small(name, monkeypatch):
    """Cases in which bounds that need not be attained nearly are."""
    monkeypatch.setattr(stored_matrices, "MOST_SETS", -1)
    monkeypatch.setattr(stored_matrices, "MOST_ENUMERATED", 0)
    monkeypatch.setattr(sensitivity, "LARGEST_ROWS", 0)
    _, upper, attained = square(*SHARP[name])
    found, _ = both_ends(*SHARP[name])
    assert not attained
    assert upper / 2 < found <= upper


def test_signs_are_needed():
    """With signs offset 0 attains the sum of magnitudes; without magnitudes the sum would be too small."""
    found, magnitudes = both_ends(SIGNED, FULL)
    products = gram(matrix(SIGNED))
    assert square(SIGNED, FULL)[1] == magnitudes
    assert sum(map(sum, products)) < found / 2


def test_a_hull_is_needed():
    """With 1, 0, 1 two steps next to each other add up to less than two at a distance."""
    for steps in (6, 80):
        mechanism = {"form": "toeplitz", "coefficients": [1.0, 0.0, 1.0], "steps": steps}
        separated = {"name": "minimum_separation", "separation": 1, "participations": 2}
        _, upper, attained = square(mechanism, separated)
        assert upper == (6 if attained else 10)
        assert attained == (steps <= 64)


@pytest.mark.parametrize("form", ["prefix_sum_root", "lambda_cgd", "blt"])
def test_long_runs_agree_with_the_engine(form):
    numbers = {"lambda_cgd": {"correlation": 0.99}, "blt": {"scales": [0.1, 0.2], "decays": [0.999, 0.9]}}
    noise = getattr(hs.CorrelatedNoise, form)(*numbers.get(form, {}).values())
    for sampling, described in (
        (hs.FixedOrder(50), {"name": "fixed_order", "batches": 50}),
        (hs.MinimumSeparation(7, 3), {"name": "minimum_separation", "separation": 7, "participations": 3}),
    ):
        engine = noise.sensitivity(sampling, 20_000)
        mechanism = {"form": form, "steps": 20_000, **numbers.get(form, {})}
        lower, upper, attained = square(mechanism, described)
        assert attained
        assert Fraction(engine.lower) ** 2 <= lower <= upper <= Fraction(engine.upper) ** 2


def test_scales_that_sum_to_more_than_one_by_less_than_a_digit_are_no_falling_coefficients():
    """Rounded, they sum to 1; the sensitivity is then that of a hull, and not known to be attained."""
    mechanism = {"form": "blt", "scales": [1.0, 1e-20], "decays": [0.5, 0.5], "steps": 6}
    separated = {"name": "minimum_separation", "separation": 1, "participations": 2}
    assert not square(mechanism, separated)[2]
    assert square({**mechanism, "scales": [0.5, 0.5]}, separated)[2]


def test_squares_are_rounded_outwards():
    third = arb(1) / 3
    assert [stored_matrices.whole_above(sign * third, 4) for sign in (1, -1)] == [6, -5]
    assert [stored_matrices.whole_below(sign * third, 4) for sign in (1, -1)] == [5, -6]
    noise = sensitivity.scaled_noise({"noise_multiplier": 6.0, "square": [4, 9, 0, True]})
    assert noise.contains(2)
    assert noise.contains(3)
    assert not noise.overlaps(arb(3.1))


# ---------------------------------------------------------------- turns


def norms_of_parts(mechanism, cycle):
    """Squared norms of the columns of each part, largest first."""
    products = gram(matrix(mechanism))
    steps, turns = len(products), -(-len(products) // cycle)
    parts = [sorted((products[s][s] for s in range(r, steps, cycle)), reverse=True) for r in range(cycle)]
    return [part + [Fraction(0)] * (turns - len(part)) for part in parts]


@pytest.mark.parametrize("steps", range(1, 14))
@pytest.mark.parametrize("is_stored", [False, True])
def test_turns_have_the_norms_of_the_worst_part(steps, is_stored):
    mechanism = {**BANDED, "steps": steps}
    if is_stored:
        rows = [[float(each) for each in row[: s + 1]] for s, row in enumerate(matrix(mechanism))]
        rows[0][0] = 0.75
        mechanism = {"form": "matrix", "rows": rows, "steps": steps}
    parts = derived(mechanism, {**TURNS, "members": "together"}, 3)
    found = [Fraction(p.square.upper, 2**p.square.places) for p in parts for _ in range(p.times)]
    every = norms_of_parts(mechanism, 4)
    worst = [max(each) for each in zip(*every, strict=True)]
    assert all(abs(a - b) * 2**100 <= b for a, b in zip(found, worst, strict=True))
    assert all(part.square.attained == (worst in every) and part.members == 3 for part in parts)


def largest_of_rows(products, cycle, others):
    """Largest sum over a row of the square of a column and the largest sums over so many other parts."""
    found = []
    for s, row in enumerate(products):
        parts = [sum(map(abs, row[r::cycle])) for r in range(cycle)]
        own = parts.pop(s % cycle)
        found.append(own + max(map(sum, itertools.combinations(parts, others))))
    return max(found)


def test_overlaps_of_stored_matrices_are_those_of_the_worst_parts():
    draw = random.Random(3)
    for _ in range(20):
        rows = [
            [draw.uniform(-1, 1) if s - t < 4 else 0.0 for t in range(s)] + [draw.uniform(0.1, 1)]
            for s in range(11)
        ]
        mechanism, members = {"form": "matrix", "rows": rows, "steps": 11}, draw.randint(2, 5)
        (part,) = derived(mechanism, {**TURNS, "cycle": 5}, members)
        bound = Fraction(part.square.upper, 2**part.square.places)
        assert bound == largest_of_rows(gram(matrix(mechanism)), 5, members - 1)


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("coefficients", [[1.0, 0.5, 0.25, 0.125], [1.0, -0.9], [0.5, 0.1, -2.0]])
def test_members_in_several_parts_have_the_largest_sum_of_a_row(coefficients, is_stored):
    mechanism = {"form": "toeplitz", "coefficients": coefficients, "steps": 17}
    signs = [[abs(each) for each in row] for row in matrix(mechanism)]
    products, cycle = gram(matrix(mechanism) if is_stored else signs), 5
    if is_stored:
        rows = [[float(each) for each in row[: s + 1]] for s, row in enumerate(matrix(mechanism))]
        mechanism = {"form": "matrix", "rows": rows, "steps": 17}
    for members in (2, 3, 7):
        largest = largest_of_rows(products, cycle, min(members, cycle) - 1)
        (part,) = derived(mechanism, {**TURNS, "cycle": cycle}, members)
        bound = Fraction(part.square.upper, 2**part.square.places)
        assert largest <= bound < largest * (1 + Fraction(1, 2**100))
        assert (part.times, part.members, part.square.attained) == (4, members, False)
    (part,) = derived(mechanism, {**TURNS, "cycle": cycle, "members": "apart"}, 3)
    assert (part.times, part.members) == (12, 1)


# ---------------------------------------------------------------- refusals

REFUSED = {
    "another name": (entry({**ROOT, "name": "scaled_gaussian"}, FULL), "it is derived"),
    "another form": (entry({**ROOT, "form": "hadamard"}, FULL), "form of a matrix"),
    "another scheme": (entry(ROOT, {"name": "poisson", "sample_rate": 0.1}), "sampling under correlated"),
    "a square": (entry({**ROOT, "square": [1, 1, 0, True]}, FULL), "unknown entry 'square'"),
    "coefficients of a root": (entry({**ROOT, "coefficients": [0.1]}, FULL), "unknown entry 'coefficients'"),
    "no steps": (entry({"form": "prefix_sum_root"}, FULL), "steps of a run with correlated noise"),
    "less than a step": (entry({**ROOT, "steps": 0}, FULL), "steps of a run with correlated noise"),
    "a first coefficient of 0": (entry({**BANDED, "coefficients": [0.0, 1.0]}, FULL), "is not 0"),
    "coefficients that are no numbers": (entry({**BANDED, "coefficients": ["1"]}, FULL), "a coefficient"),
    "too many coefficients": (entry({**BANDED, "coefficients": [1.0] * 4097}, FULL), "list of 1 to 4096"),
    "a correlation above 1": (entry({"form": "lambda_cgd", "correlation": 2.0, "steps": 9}, FULL), "correla"),
    "a negative scale": (
        entry({"form": "blt", "scales": [-0.1], "decays": [0.5], "steps": 9}, FULL), "a scale"
    ),
    "a decay above 1": (entry({"form": "blt", "scales": [0.1], "decays": [2], "steps": 9}, FULL), "a decay"),
    "a decay too few": (entry({"form": "blt", "scales": [0.1], "decays": [], "steps": 9}, FULL), "decays"),
    "more steps than rows": (entry({"form": "matrix", "rows": [[1.0]], "steps": 2}, FULL), "more steps"),
    "a row of another length": (entry({"form": "matrix", "rows": [[1.0, 0.0]], "steps": 1}, FULL), "row 0"),
    "0 on the diagonal": (entry({"form": "matrix", "rows": [[0.0]], "steps": 1}, FULL), "no 0 on its"),
    "too many rows": (
        entry({"form": "matrix", "rows": [[1.0] * (s + 1) for s in range(65)], "steps": 2}, FULL), "1 to 64"
    ),
    "norms": (
        {**entry(ROOT, FULL), "group": {"size": 2, "norms": [1.0, 0.5]}}, "neither rates nor norms"
    ),
    "orthogonal gradients": (
        {**entry(ROOT, FULL), "group": {"size": 2, "gradients": "orthogonal"}}, "gradients of this proof"
    ),
    "more bands than turns": (entry({**BANDED}, {**TURNS, "cycle": 3}), "as many bands as the cycle"),
    "a root in turns": (entry({**ROOT}, TURNS), "as many bands as the cycle"),
    "more members than batches": (
        entry(ROOT, {"name": "fixed_order", "batches": 2, "members": "apart"}, 3), "at most as many"
    ),
    "members together in a fixed order": (
        entry(ROOT, {"name": "fixed_order", "batches": 2, "members": "together"}), "members must be"
    ),
    "no participations": (
        entry(ROOT, {"name": "minimum_separation", "separation": 2, "participations": 0}), "participations"
    ),
    "noise of 0": (entry(ROOT, FULL, noise=0.0), "noise_multiplier"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_runs_that_are_not_covered_are_refused_by_name(name):
    step, message = REFUSED[name]
    with pytest.raises(RefusedError, match=message):
        plain({"adjacency": "add_remove", "steps": [step]})


def test_replaced_members_in_any_parts_are_refused_and_those_of_one_part_are_not():
    for members in ("together", "apart", "any"):
        run = {"adjacency": "replace", "steps": [entry(BANDED, {**TURNS, "members": members}, 2)]}
        if members == "any":
            with pytest.raises(RefusedError, match="replaced records of a group in any parts"):
                plain(run)
        else:
            plain(run)


BIG = 10**12
HOSTILE = {
    "steps": entry({**ROOT, "steps": BIG}, FULL),
    "buffers": entry({"form": "blt", "scales": [0.1] * 64, "decays": [0.5] * 64, "steps": 10**5}, FULL),
    "a long window": entry({**BANDED, "steps": BIG}, FULL),
    "batches that are apart": entry(
        {**ROOT, "steps": 10**4}, {"name": "fixed_order", "batches": 10**4, "members": "apart"}, 5
    ),
    "pairs of batches": entry(
        {**ROOT, "steps": 1400}, {"name": "fixed_order", "batches": 1400, "members": "apart"}, 3
    ),
    "magnitudes": entry({"form": "toeplitz", "coefficients": [1.0, -0.5] * 2048, "steps": 4096}, FULL),
    "overlaps": entry(
        {"form": "toeplitz", "coefficients": [1.0] * 4096, "steps": BIG}, {**TURNS, "cycle": 4096}, 2
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded_before_it_is_done(name):
    started = time.perf_counter()
    with pytest.raises(RefusedError, match="products together"):
        plain({"adjacency": "add_remove", "steps": [HOSTILE[name]]})
    assert time.perf_counter() - started < 1.0


def test_work_is_bounded_over_all_entries():
    steps = [entry({**ROOT, "steps": 60_000 + each}, FULL) for each in range(64)]
    with pytest.raises(RefusedError, match="products together"):
        plain({"adjacency": "add_remove", "steps": steps})


def test_what_is_affordable_takes_some_seconds_at_most():
    draw = random.Random(1)
    rows = [[draw.uniform(-1, 1) for _ in range(s + 1)] for s in range(64)]
    steps = [
        entry(
            {"form": "matrix", "rows": rows, "steps": 64 - each},
            {"name": "minimum_separation", "separation": 9},
        )
        for each in range(6)
    ]
    started = time.perf_counter()
    plain({"adjacency": "add_remove", "steps": steps})
    plain({"adjacency": "add_remove", "steps": [entry({**ROOT, "steps": 10**6}, FULL)]})
    assert time.perf_counter() - started < 60.0


def test_banded_matrices_whose_columns_do_not_overlap_may_have_a_million_million_steps():
    mechanism = {**BANDED, "steps": BIG}
    parts = derived(mechanism, TURNS)
    assert sum(part.times for part in parts) == BIG // 4
    _, upper, attained = square(mechanism, {"name": "fixed_order", "batches": 5})
    assert attained
    assert upper == pytest.approx(Fraction(BIG, 5) * Fraction(85, 64))


# ---------------------------------------------------------------- certificates

MATRICES = {
    "toeplitz": hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125], 5.0),
    "signed": hs.CorrelatedNoise.toeplitz([1.0, -0.5, 0.3], 5.0),
    "blt": hs.CorrelatedNoise.blt([0.3, 0.2], [0.9, 0.5], 8.0),
    "lambda_cgd": hs.CorrelatedNoise.lambda_cgd(0.7, 8.0),
    "prefix_sum_root": hs.CorrelatedNoise.prefix_sum_root(10.0),
    "matrix": hs.CorrelatedNoise.from_matrix(np.tril(np.ones((48, 48)) - 0.4) + 0.4 * np.eye(48), 60.0),
}
SCHEMES = {
    "full": (hs.FullBatch(), 1),
    "order": (hs.FixedOrder(6), 2),
    "apart": (hs.FixedOrder(6, members="apart"), 3),
    "separated": (hs.MinimumSeparation(5, participations=4), 1),
    "turns": (hs.CyclicPoisson(0.05, cycle=4), 1),
    "turns together": (hs.CyclicPoisson(0.05, cycle=5, members="together"), 2),
    "turns apart": (hs.CyclicPoisson(0.05, cycle=4, members="apart"), 2),
}
COVERED = [
    (form, scheme)
    for form, scheme in itertools.product(MATRICES, SCHEMES)
    if form in ("toeplitz", "signed") or not scheme.startswith("turns")
]


@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove", "replace"])
@pytest.mark.parametrize(("form", "scheme"), COVERED)
def test_certificates_of_every_matrix_and_scheme_are_verified(form, scheme, adjacency):
    sampling, size = SCHEMES[scheme]
    steps = 47 if scheme.startswith("turns") else 48
    curve = hs.privacy_curve(
        mechanism=MATRICES[form], sampling=sampling, steps=steps, group_size=size, adjacency=adjacency
    )
    certificate = curve.certify(delta=DELTA)
    verified, lines = certificate.verify()
    assert verified, lines
    low, high = curve.bounds(delta=DELTA)
    ends = {name: claim["epsilon"] for claim in certificate.claims for name in claim if name != "epsilon"}
    assert high <= ends["at_most"] <= high * (1 + 1e-5)
    assert ("at_least" in ends) == curve.tight
    assert low * (1 - 1e-5) <= ends.get("at_least", low) <= low
    (step,) = certificate.run["steps"]
    assert step["mechanism"]["name"] == "correlated_noise"
    assert step["mechanism"]["steps"] == steps
    assert step["group"] == {"size": size}


@pytest.mark.parametrize("adjacency", ["add", "remove", "replace"])
@pytest.mark.parametrize("sampling", [hs.FullBatch(), hs.Poisson(0.1)])
def test_independent_noise_has_the_interval_of_plain_steps(sampling, adjacency):
    """Half of the unit matrix: noise 1 counts as noise 2."""
    curve = hs.privacy_curve(
        noise_multiplier=2.0, sampling=sampling, steps=4, group_size=2, adjacency=adjacency
    )
    certificate = curve.certify(epsilon=0.5)
    document = json.loads(certificate.to_json())
    expected = claims.check(document)
    turns = {**TURNS, "cycle": 2, "members": "together"}
    scheme, steps = (FULL, 4) if isinstance(sampling, hs.FullBatch) else (turns, 8)
    half = {"form": "toeplitz", "coefficients": [0.5], "steps": steps}
    document["run"]["steps"] = [entry(half, scheme, 2)]
    for each, other in zip(claims.check(document), expected, strict=True):
        assert each.holds
        assert (each.lower, each.upper) == pytest.approx((other.lower, other.upper), rel=1e-12)


def test_members_in_any_parts_are_certified_as_a_bound():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 48}
    certificate = hs.privacy_curve(group_size=2, **run).certify(delta=DELTA)
    assert certificate.verify()[0]
    assert [set(claim) for claim in certificate.claims] == [{"epsilon", "at_most"}]
    with pytest.raises(hs.UnsupportedError, match="replaced records of a group in any parts"):
        hs.privacy_curve(group_size=2, adjacency="replace", **run).certify(delta=DELTA)


def test_other_claims_and_other_steps_beside():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 47}
    curve = hs.privacy_curve(**run)
    for about in ({"epsilon": 0.3}, {"order": 3.0}, {"alpha": 0.2}):
        assert curve.certify(**about).verify()[0]
    beside = [
        hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=10),
        hs.privacy_curve(mechanism=MATRICES["blt"], sampling=hs.FullBatch(), steps=9),
        hs.privacy_curve(noise_multiplier=3.0, sampling=hs.RandomAllocation(5), steps=5),
    ]
    for other in beside:
        certificate = (curve + other).certify(delta=DELTA)
        assert certificate.verify()[0]
        assert len(certificate.run["steps"]) == 2
        assert certificate.claims[0]["epsilon"] == pytest.approx((curve + other).epsilon(DELTA), rel=1e-5)


def test_processes_share_the_sums_with_the_same_result():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 47}
    certificate = hs.privacy_curve(**run).certify(delta=DELTA)
    assert certificate.verify(processes=2) == certificate.verify()


def test_nothing_is_claimed_at_least_of_a_bound():
    curve = hs.privacy_curve(mechanism=MATRICES["signed"], sampling=hs.FullBatch(), steps=20)
    certificate = curve.certify(epsilon=1.0)
    at_least = certificate.with_claims([{"epsilon": 1.0, "at_least": 1e-9}])
    assert not at_least.verify()[0]
    certificate = curve.certify(order=3.0)
    assert [set(claim) for claim in certificate.claims] == [{"order", "at_most"}]
    assert not certificate.with_claims([{"order": 3.0, "at_least": 1e-9}]).verify()[0]


def test_nothing_is_claimed_at_least_of_a_bound_beside_dealt_batches():
    curve = hs.privacy_curve(mechanism=MATRICES["signed"], sampling=hs.FullBatch(), steps=20)
    curve += hs.privacy_curve(noise_multiplier=3.0, sampling=hs.RandomAllocation(5), steps=5)
    certificate = curve.certify(epsilon=1.0)
    assert certificate.verify()[0]
    assert [set(claim) for claim in certificate.claims] == [{"epsilon", "at_most"}]
    assert not certificate.with_claims([{"epsilon": 1.0, "at_least": 1e-9}]).verify()[0]


def test_chains_are_refused():
    curve = hs.privacy_curve(
        mechanism=MATRICES["blt"], sampling=hs.FullBatch(), steps=20, group_size=2, adjacency="remove"
    )
    document = json.loads(curve.certify(epsilon=1.0).to_json())
    chain = {
        "splits": [[{"epsilon": 0.0, "links": 2}]] * len(document["claims"]),
        "one": {"method": "lattice"},
    }
    document["witness"]["remove"] |= {"method": "chain", **chain}
    with pytest.raises(RefusedError, match="chains are not covered for runs with correlated noise"):
        claims.check(document)


def test_a_bound_that_is_above_that_of_the_curve_is_not_claimed():
    noise = hs.CorrelatedNoise.toeplitz([0.1, 1.0, -1.0], 9.0)
    curve = hs.privacy_curve(mechanism=noise, sampling=hs.MinimumSeparation(1, 2), steps=100)
    with pytest.raises(hs.UnsupportedError, match="larger than that of its curve"):
        curve.certify(epsilon=1.0)


# ---------------------------------------------------------------- forgeries

WORSE = {
    "more steps": ("mechanism", "steps", 2000),
    "larger decays": ("mechanism", "decays", [0.95, 0.5]),
    "larger scales": ("mechanism", "scales", [0.35, 0.2]),
    "less noise": ("mechanism", "noise_multiplier", 7.9),
    "fewer batches": ("sampling", "batches", 99),
    "more members": ("group", "size", 2),
}


@pytest.mark.parametrize("name", WORSE)
def test_a_certificate_of_a_run_that_reveals_more_is_not_verified(name):
    noise = MATRICES["blt"]
    curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedOrder(100), steps=1000)
    document = json.loads(curve.certify(delta=DELTA).to_json())
    part, key, value = WORSE[name]
    document["run"]["steps"][0][part][key] = value
    verified, found, _ = hockeystick_verify.examine(json.dumps(document))
    assert not verified
    assert not found[0].holds


def test_random_changes_of_a_run_prove_nothing_that_is_false():
    """What is proven of a changed run holds the delta of the engine for that run."""
    draw = random.Random(5)
    for _ in range(40):
        mechanism, sampling, size = random_run(draw)
        found, _ = both_ends(mechanism, sampling, size)
        document = {
            "run": {"adjacency": "remove", "steps": [entry(mechanism, sampling, size, noise=3.0)]},
            "claims": [{"epsilon": 0.5, "at_most": 1.0}],
            "witness": {"remove": {"bits": 128}},
        }
        (proven,) = claims.check(document)
        apart = sampling.get("members") == "apart" and size > 1
        distance = float(found) ** 0.5 * (1 if apart else size) / 3.0
        truth = hs.get_delta(epsilon=0.5, noise_multiplier=1.0 / distance, sampling=hs.FullBatch(), steps=1)
        assert truth <= proven.upper * (1 + 1e-9)
        assert proven.lower <= truth * (1 + 1e-9)


# ---------------------------------------------------------------- what curves remember


def test_curves_remember_the_run():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 47}
    curve = hs.privacy_curve(**run)
    again = pickle.loads(pickle.dumps(curve))
    assert again == curve == copy.deepcopy(curve) == hs.privacy_curve(**run)
    assert curve + again == curve * 2
    thrice = (curve * 3).certify(delta=DELTA)
    assert [step["count"] for step in thrice.run["steps"]] == [3]
    assert thrice.claims[0]["epsilon"] == pytest.approx((curve * 3).epsilon(DELTA), rel=1e-5)
    assert sum(step["count"] for step in plain(thrice.run)["steps"]) == 3 * 12
    other = hs.privacy_curve(**{**run, "steps": 48})
    assert [step["mechanism"]["steps"] for step in (curve + other).certify(delta=DELTA).run["steps"]] in (
        [47, 48],
        [48, 47],
    )
    accountant = hs.accountants.GroupAccountant()
    for _ in range(47):
        accountant.step(mechanism=run["mechanism"], sampling=run["sampling"])
    assert accountant.privacy_curve().certify(delta=DELTA).run == curve.certify(delta=DELTA).run


def test_members_of_one_record_mean_nothing():
    for one, other in (
        (hs.FixedOrder(6), hs.FixedOrder(6, members="apart")),
        (hs.CyclicPoisson(0.05, 4), hs.CyclicPoisson(0.05, 4, members="together")),
    ):
        run = {"mechanism": MATRICES["toeplitz"], "steps": 20}
        assert hs.privacy_curve(sampling=one, **run) == hs.privacy_curve(sampling=other, **run)


def test_parts_of_a_run_and_large_matrices_are_not_described():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 47}
    (kind, count), (other, _) = hs.privacy_curve(**run).segments
    for steps in ({kind: count}, {kind: count, other: 2}, {kind: count - 1, other: 1}):
        with pytest.raises(hs.UnsupportedError, match="whole runs with correlated noise"):
            PrivacyCurve(steps, "add_remove", 1e-6).certify(delta=DELTA)
    for noise in (
        hs.CorrelatedNoise.from_matrix(np.eye(65), 4.0),
        hs.CorrelatedNoise.toeplitz(np.ones(4097), 400.0),
    ):
        curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedOrder(2), steps=4)
        with pytest.raises(hs.UnsupportedError, match="up to 64 rows"):
            curve.certify(delta=DELTA)


def test_noise_of_a_plain_step_below_a_thousandth_is_refused():
    noise = hs.CorrelatedNoise.prefix_sum_root(0.002)
    curve = hs.privacy_curve(mechanism=noise, sampling=hs.FullBatch(), steps=100)
    with pytest.raises(hs.UnsupportedError, match=r"noise of 0\.001 or more"):
        curve.certify(delta=DELTA)
