"""Large groups (V24): shifts that are left out, norms that are rounded, and certificates of such groups."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from certified_runs import claims_are_sharp
from flint import acb, arb, ctx
from verified_steps import as_numbers, log_ratio, two_steps

import hockeystick as hs
from hockeystick._curves import certifying, checked_bounds, described_run, norm_units
from hockeystick._curves import large_groups as search
from hockeystick._curves.witness import Kind, Witness
from hockeystick_verify import (
    NotProvenError,
    RefusedError,
    check,
    checker,
    few_steps,
    large_groups,
    variants,
)
from hockeystick_verify.large_groups import shortened

SIGMA, EPSILON = 1.5, 0.7
LAW = {Fraction(j): math.comb(4, j) * arb(0.25) ** j * arb(0.75) ** (4 - j) for j in range(5)}
FAR = {Fraction(0): arb(0.9), Fraction(1): arb(0.099), Fraction(12): arb(0.001)}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = before


def run_of(p, q, sigma=SIGMA):
    """Two steps: one whose Q is a mixture, or two whose P is one."""
    first = checker.Pair(arb(sigma), p if q is None else None, q)
    return checker.Composition([(first, 1), (checker.Pair(arb(sigma), p, None), 1)], arb(0))


def kind_of(pair, sigma):
    def law(given):
        numbers = as_numbers(given)
        return np.log(list(numbers.values())), np.array(list(numbers))

    return Kind(sigma, pair.p and law(pair.p), pair.q and law(pair.q), 1)


def proven(run, largest, sigma=SIGMA, epsilon=EPSILON):
    """Ball of delta when shifts above these are left out, by the checker and a witness for what is left."""
    short = shortened(run, {"largest_shifts": largest})
    kinds = [kind_of(pair, sigma) for pair, _ in short.run.kinds]
    _, witness = Witness(kinds, 0.0, epsilon, math.log(1e-3), 1e-10).find()
    prove = few_steps.split if "near_tilt" in witness else checker.inversion
    (delta,) = prove(short.run, witness, [arb(epsilon)], checker.serial_sums)
    return short, delta


def ends(ball):
    return float(ball.lower()), float(ball.upper())


def up_to(law, largest):
    return {shift: weight for shift, weight in as_numbers(law).items() if shift <= largest}


# ---- statements


def test_a_shortened_run_is_the_integral_of_its_measures():
    _, removed = proven(run_of(LAW, None), [2.5, 2.5])
    assert float(removed) == pytest.approx(two_steps(up_to(LAW, 2.5), SIGMA, EPSILON), rel=1e-8)
    _, mixed = proven(run_of(LAW, LAW), [2.5, 2.5])
    assert float(mixed) == pytest.approx(two_steps(up_to(LAW, 2.5), SIGMA, EPSILON, "add"), rel=1e-8)


def test_what_p_loses_is_attained():
    # A member that is seen alone decides the run: what is lost counts in full.
    short, delta = proven(run_of(FAR, None, 1.0), [2.0, 2.0], 1.0)
    truth = two_steps(as_numbers(FAR), 1.0, EPSILON)
    lower, upper = ends(short.enclosed(delta))
    assert float(short.lost) == pytest.approx(0.002, rel=1e-12)
    assert upper - 0.03 * 0.002 < truth < upper
    assert lower == pytest.approx(upper - 0.002, abs=1e-9)


def test_less_of_p_is_a_lower_end():
    short, delta = proven(run_of(LAW, None), [3.5, 3.5])
    truth = two_steps(as_numbers(LAW), SIGMA, EPSILON)
    lower, upper = ends(short.enclosed(delta))
    assert lower < truth < upper
    assert lower > 0.9 * truth


def test_shifts_left_out_of_q_are_bounded_from_above():
    # The removed step keeps its law: what is left out of Q makes losses larger, and has no lower end.
    run = run_of(LAW, LAW)
    _, all_of_it = proven(run, [4.0, 4.0])
    short, delta = proven(run, [1.5, 4.0])
    truth = two_steps(as_numbers(LAW), SIGMA, EPSILON, "add")
    lower, upper = ends(short.enclosed(delta))
    assert float(all_of_it) == pytest.approx(truth, rel=1e-8)
    assert lower == pytest.approx(0.0, abs=1e-9)
    assert short.lost.is_zero()
    assert truth * 1.001 < upper < truth * 1.2


def test_both_laws_of_a_replaced_record_lose_shifts():
    pair = checker.Pair(arb(1), FAR, FAR)
    short = shortened(checker.Composition([(pair, 3)], arb(0)), {"largest_shifts": [5]})
    assert float(short.lost) == pytest.approx(0.003, rel=1e-12)
    assert not short.of_p_only
    assert [len(law) for law in short.run.kinds[0][0][1:]] == [2, 2]


# ---- certificates


def group_of(size, adjacency="add_remove", **more):
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000} | more
    return hs.privacy_curve(**run, group_size=size, adjacency=adjacency)


def document_of(certificate):
    return json.loads(certificate.to_json())


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 256])
def test_large_groups_are_certified(size):
    curve = group_of(size)
    certificate = curve.certify(delta=1e-5)
    claims_are_sharp(curve, certificate, 1e-5)
    witness = document_of(certificate)["witness"]
    assert size / 16 < witness["remove"]["largest_shifts"][0] < size / 3


@pytest.mark.slow
def test_several_processes_prove_the_same():
    certificate = group_of(64).certify(epsilon=400.0)
    assert certificate.verify() == certificate.verify(processes=2)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add", "replace"])
def test_where_q_loses_shifts_the_guarantee_alone_is_claimed(adjacency, monkeypatch):
    curve = group_of(48, adjacency)
    both = curve.certify(delta=1e-5)
    assert [len(claim) for claim in both.claims] == [2, 2]
    monkeypatch.setattr(search, "MANY", 0)
    monkeypatch.setattr(
        checked_bounds,
        "witness_on_a_line",
        lambda *given, guarantee: search.witness_on_a_line(*given, guarantee=True),
    )
    certificate = curve.certify(delta=1e-5)
    (claim,) = certificate.claims
    assert certificate.verify()[0]
    assert "at_most" in claim
    assert claim["epsilon"] == pytest.approx(both.claims[0]["epsilon"], rel=1e-6)


@pytest.mark.slow
def test_other_schemes_lose_shifts_too():
    fixed = {"sampling": hs.WithoutReplacement(100, 10_000), "sample_rate": None}
    several = {"sampling": hs.Poisson(0.005, microbatches=2), "sample_rate": None}
    for curve in (group_of(80, **fixed), group_of(40, **several)):
        certificate = curve.certify(delta=1e-6)
        assert "largest_shifts" in document_of(certificate)["witness"]["remove"]
        assert certificate.verify()[0]
    cosine = hs.privacy_curve(
        noise_multiplier=1.0, sample_rate=0.01, steps=1000, group=hs.Group(size=70, cosine=0.3)
    )
    assert cosine.certify(delta=1e-6).verify()[0]


@pytest.mark.slow
def test_shifts_that_matter_are_missed():
    # Fewer shifts than the witness needs prove less, and nothing that is not true.
    document = document_of(group_of(64).certify(epsilon=430.0))
    truth = float(group_of(64).delta(epsilon=430.0))
    for largest in (9.5, 5.5, 1.5):
        for way in ("remove", "add"):
            document["witness"][way]["largest_shifts"] = [largest]
        (found, *_) = check(document)
        assert not found.holds
        assert found.lower <= truth <= found.upper


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([], RefusedError),
        ([9.5, 9.5], RefusedError),
        (9.5, RefusedError),
        (["9.5"], RefusedError),
        ([True], RefusedError),
        ([-1.0], RefusedError),
        ([math.nan], RefusedError),
        ([0.5], NotProvenError),
        ([0.0], NotProvenError),
    ],
)
def test_hostile_shifts_are_refused(given, error):
    document = document_of(group_of(64).certify(epsilon=430.0))
    document["witness"]["remove"]["largest_shifts"] = given
    with pytest.raises(error, match=r"largest|V24"):
        check(document)


def test_what_is_left_out_of_q_changes_nothing_where_outputs_are():
    # In all steps together it changes Q, at outputs that matter, by less than the tolerance.
    kinds, _ = described_run.laws(certifying._described(group_of(256)), "add")
    short = search.cut(kinds, math.log(1e-5), 1e-10)
    weights, shifts = kinds[0].q
    few = len(short.kinds[0].q[1])
    outputs = np.linspace(-7.0, 7.0, 57)

    def change(count):
        whole, part = (
            log_ratio(dict(zip(shifts[:n], np.exp(weights[:n]), strict=True)), 1.0, outputs)
            for n in (len(shifts), count)
        )
        return 1000.0 * float(np.max(whole - part))

    assert few < 30
    assert change(few) < 1e-11 < change(few // 2)


# ---- norms that are multiples of one number

NORMS = [0.35, 0.9, 0.07, 0.64, 0.28, 0.11, 0.53]
STEPS = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def test_rounded_norms_are_above_or_below():
    unit = norm_units.units_of({"steps": [norms_step(NORMS)]})
    assert not unit.is_rough
    assert 0.01 * (1 - 1e-12) < unit.down < 0.01 < unit.up < 0.01 * (1 + 1e-12)
    up, down = (
        large_groups.rounded(norm, Fraction(each), upwards)
        for norm in [0.35]
        for each, upwards in ((unit.up, True), (unit.down, False))
    )
    assert (Fraction(up) / Fraction(unit.up), Fraction(down) / Fraction(unit.down)) == (35, 35)
    assert down < 0.35 < up


def norms_step(norms):
    sampling = {"name": "poisson", "sample_rate": 0.01}
    group = {"size": len(norms), "norms": norms, "gradients": "aligned"}
    return {"mechanism": {"name": "gaussian", "noise_multiplier": 1.0}, "sampling": sampling, "group": group}


@pytest.mark.parametrize("way", ["remove", "add", "replace"])
def test_rounded_norms_enclose_the_curve(way):
    # Coarse units, for down and for up: the proven ends are the curves of the rounded norms.
    curve = hs.privacy_curve(**STEPS, group=hs.Group(norms=NORMS[:3]), adjacency=way)
    document = document_of(curve.certify(epsilon=1.5))
    (exact_claim, *_) = check(document)
    document["witness"][way]["norm_units"] = [2.0**-7, 2.0**-7]
    (found, *_) = check(document)
    assert found.lower < exact_claim.lower < exact_claim.upper < found.upper
    for end, rounding in (("upper", math.ceil), ("lower", math.floor)):
        moved = hs.Group(norms=[rounding(norm * 128) / 128 for norm in NORMS[:3]])
        truth = float(hs.get_delta(epsilon=1.5, **STEPS, group=moved, adjacency=way))
        assert getattr(found, end) == pytest.approx(truth, rel=1e-4)


@pytest.mark.slow
def test_forty_members_with_norms_are_certified():
    norms = np.random.default_rng(4).uniform(0.05, 1.0, 40).round(2).tolist()
    curve = hs.privacy_curve(**STEPS, group=hs.Group(norms=norms), adjacency="remove")
    certificate = curve.certify(delta=1e-5)
    claims_are_sharp(curve, certificate, 1e-5)
    assert "norm_units" in document_of(certificate)["witness"]["remove"]


@pytest.mark.slow
def test_norms_without_a_unit_are_rounded_to_a_fine_one():
    norms = np.random.default_rng(4).uniform(0.2, 1.0, 12).tolist()
    curve = hs.privacy_curve(**STEPS, group=hs.Group(norms=norms), adjacency="remove")
    for about in ({"delta": 1e-5}, {"epsilon": 10.0}):
        certificate = curve.certify(**about)
        assert certificate.verify()[0]
        upper, lower = certificate.claims
        key = "at_most" if "epsilon" in about else "epsilon"
        assert upper[key] == pytest.approx(lower["at_least" if "epsilon" in about else key], rel=1e-2)


def test_norms_of_few_members_are_not_rounded():
    assert norm_units.units_of({"steps": [norms_step(NORMS[:4])]}) is None
    assert norm_units.units_of({"steps": [norms_step([0.5, 0.25] * 20)]}) is None
    assert norm_units.units_of({"steps": [norms_step([0.37] * 20)]}) is None
    generic = np.random.default_rng(4).uniform(0.2, 1.0, 12).tolist()
    assert norm_units.units_of({"steps": [norms_step(generic[:11])]}) is None
    assert norm_units.units_of({"steps": [norms_step(generic)]}).is_rough


@pytest.mark.parametrize(
    ("units", "error"),
    [
        ([0.01], RefusedError),
        ([0.01, 0.01, 0.01], RefusedError),
        ([0.0, 0.01], RefusedError),
        (["0.01", 0.01], RefusedError),
        ([0.25, 2.0], RefusedError),
        ([0.01, 0.01], NotProvenError),  # multiples of the double 0.01 are no doubles
        (0.25, RefusedError),
    ],
)
def test_hostile_units_are_refused(units, error):
    curve = hs.privacy_curve(**STEPS, group=hs.Group(norms=NORMS[:3]), adjacency="remove")
    document = document_of(curve.certify(epsilon=1.5))
    document["witness"]["remove"]["norm_units"] = units
    with pytest.raises(error, match=r"unit|V24"):
        check(document)


def test_powers_of_a_number_that_turns_keep_their_digits():
    # One product after the other widens a box by up to the root of two, each time.
    found = checker.powers(acb(arb(0), arb(1)).exp(), 600)
    assert len(found) == 600
    assert max(float(each.real.rad()) for each in found) < 1e-44
    assert abs(found[599] - acb(arb(0), arb(599)).exp()).contains(0)


def test_renyi_divergences_of_rounded_norms_are_enclosed():
    norms = [0.35, 0.9, 0.07, 0.64, 0.28, 0.11, 0.53, 0.47]
    group = hs.Group(norms=norms)
    curve = hs.privacy_curve(**STEPS, group=group)
    certificate = curve.certify(order=4.0)
    upper, lower = certificate.claims
    assert "norm_units" in document_of(certificate)["witness"]["remove"]
    assert certificate.verify()[0]
    assert lower["at_least"] < upper["at_most"] < lower["at_least"] * (1 + 1e-9)
    assert float(curve.renyi(4.0)) == pytest.approx(upper["at_most"], rel=1e-9)


@pytest.mark.slow
def test_divergences_that_take_too_many_nodes_are_proven_by_moments():
    curve = group_of(256)
    certificate = curve.certify(order=4.0)
    assert {each["method"] for each in document_of(certificate)["witness"].values()} == {"moments"}
    assert certificate.verify()[0]
    upper, lower = (next(iter(claim.items() - {("order", 4.0)}))[1] for claim in certificate.claims)
    assert lower <= upper <= float(curve.renyi(4.0)) * (1 + 1e-9) <= lower * (1 + 1e-8)


@pytest.mark.parametrize("norms", [[0.0] * 6, [0.0, 0.0, 0.5], [0.5] * 3, [0.0]])
def test_laws_have_all_of_the_probability(norms):
    # Members of norm 0 have one shift, 0, however many of them are in the batch.
    rate = arb(0.125)
    for law in (
        checker._law([(rate, Fraction(norm)) for norm in norms]),
        variants.norms_of_sums([(rate, Fraction(norm)) for norm in norms], Fraction(1, 2)),
    ):
        assert abs(sum(law.values(), arb(0)) - 1) < 1e-30
    if not any(norms):
        assert set(law) == {Fraction(0)}


def test_members_of_norm_0_change_nothing_on_a_lattice():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.3, steps=1, adjacency="remove")
    document = document_of(curve.certify(epsilon=0.5))
    nobody = document["run"]["steps"][0] | {"group": {"size": 6, "norms": [0.0] * 6}}
    document["run"]["steps"].append(nobody)
    (found, *_) = check(document)
    assert found.lower <= float(curve.delta(0.5)) * (1 + 1e-9)
    assert found.upper >= float(curve.delta(0.5)) * (1 - 1e-9)


def test_divergences_of_coarsely_rounded_norms_have_both_ends():
    group = hs.Group(norms=NORMS[:3])
    curve = hs.privacy_curve(**STEPS, group=group, adjacency="remove")
    document = document_of(curve.certify(order=3.0))
    document["witness"]["remove"]["norm_units"] = [2.0**-7, 2.0**-7]
    document["witness"]["remove"]["kinds"][0]["nodes"] += 20
    (found, *_) = check(document)
    truth = float(curve.renyi(3.0))
    assert found.lower < truth * (1 - 1e-3)
    assert truth * (1 + 1e-3) < found.upper


@pytest.mark.parametrize("about", [{"epsilon": 1.5}, {"order": 3.0}])
def test_a_witness_does_not_say_where_norms_are_rounded_to(about):
    curve = hs.privacy_curve(**STEPS, group=hs.Group(norms=NORMS[:3]), adjacency="remove")
    document = document_of(curve.certify(**about))
    document["witness"]["remove"] |= {"norm_units": [2.0**-7, 2.0**-7], "downwards": True}
    with pytest.raises(RefusedError, match="downwards"):
        check(document)


def test_single_steps_of_very_many_sums_are_refused():
    norms = [1.0 / (n + 2) ** 0.5 for n in range(14)]
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=1, adjacency="remove")
    document = document_of(curve.certify(epsilon=0.5))
    document["run"]["steps"][0]["group"] = {"size": 14, "norms": norms}
    with pytest.raises(RefusedError, match="single steps"):
        check(document)


def test_drawn_groups_are_small_enough_to_count():
    with pytest.raises(RefusedError, match="more than 1000"):
        checker.hypergeometric(1001, 10**9, 10**12)
