"""Certificates of runs with correlated noise: of all matrices and schemes, and forged ones."""

import copy
import itertools
import json
import pickle
import random

import numpy as np
import pytest
from sensitivity_by_sets import FULL, TURNS, both_ends, entry, random_run

import hockeystick as hs
import hockeystick_verify
from hockeystick._curves.curve import PrivacyCurve
from hockeystick_verify import RefusedError, claims
from hockeystick_verify.variants import plain

DELTA = 1e-5
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
    with pytest.raises(hs.UnsupportedError, match="any parts of CyclicPoisson"):
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


@pytest.mark.slow
def test_runs_beside_laplace_noise_are_certified_on_a_lattice():
    run = {"mechanism": MATRICES["toeplitz"], "sampling": hs.CyclicPoisson(0.05, cycle=4), "steps": 47}
    curve = hs.privacy_curve(**run) + hs.privacy_curve(mechanism=hs.Laplace(8.0), sample_rate=0.1, steps=3)
    certificate = curve.certify(epsilon=0.5)
    assert certificate.verify()[0]
    assert json.loads(certificate.to_json())["witness"]["remove"]["method"] == "lattice"
    assert certificate.claims[0]["at_most"] == pytest.approx(curve.delta(0.5), rel=1e-4)


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
