"""Certificates of every scheme and kind of claim: proven, and not proven if they claim a little more."""

import json
import math

import numpy as np
import pytest
from certified_runs import made_once
from nightly import some

import hockeystick as hs
import hockeystick_verify
from hockeystick._curves import certifying
from hockeystick_verify import RefusedError, check, read

pytestmark = pytest.mark.slow

CURVES = {
    "laplace": hs.privacy_curve(mechanism=hs.Laplace(5.0), sample_rate=0.1, steps=10),
    "laplace-group": hs.privacy_curve(mechanism=hs.Laplace(9.0), sample_rate=0.1, steps=5, group_size=3),
    "laplace-full": hs.privacy_curve(
        mechanism=hs.Laplace(20.0), sampling=hs.FullBatch(), steps=10, adjacency="replace"
    ),
    "laplace-fixed": hs.privacy_curve(
        mechanism=hs.Laplace(8.0), sampling=hs.WithoutReplacement(10, 100), steps=10
    ),
    "laplace-replaced": hs.privacy_curve(
        mechanism=hs.Laplace(8.0), sampling=hs.WithoutReplacement(10, 100), steps=10, adjacency="replace"
    ),
    "laplace-poisson-replaced": hs.privacy_curve(
        mechanism=hs.Laplace(9.0), sample_rate=0.1, steps=4, group_size=2, adjacency="replace"
    ),
    "response-poisson-replaced": hs.privacy_curve(
        mechanism=hs.RandomizedResponse(0.6),
        steps=20,
        group=hs.Group(rates=[0.05, 0.1]),
        adjacency="replace",
    ),
    "response": hs.privacy_curve(mechanism=hs.RandomizedResponse(0.75), sample_rate=0.05, steps=300),
    "response-group": hs.privacy_curve(
        mechanism=hs.RandomizedResponse(0.6), sampling=hs.WithoutReplacement(10, 100), steps=40, group_size=2
    ),
    "response-replaced": hs.privacy_curve(
        mechanism=hs.RandomizedResponse(0.6),
        sampling=hs.WithoutReplacement(10, 100),
        steps=40,
        adjacency="replace",
    ),
    "truncated": hs.privacy_curve(
        noise_multiplier=3.0, sampling=hs.Poisson(0.1, max_batch_size=14, dataset_size=100), steps=4
    ),
    "poisson-replaced-group": hs.privacy_curve(
        noise_multiplier=3.0, sample_rate=0.05, steps=20, group_size=3, adjacency="replace"
    ),
    "poisson-replaced-norms": hs.privacy_curve(
        noise_multiplier=3.0,
        steps=20,
        group=hs.Group(rates=[0.05, 0.1], norms=[1.0, 0.5]),
        adjacency="replace",
    ),
    "fixed-replaced": hs.privacy_curve(
        noise_multiplier=6.0, sampling=hs.WithoutReplacement(10, 100), steps=5, adjacency="replace"
    ),
    "allocation": hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=30),
    "allocation-blocks": hs.privacy_curve(
        noise_multiplier=2.0, sampling=hs.RandomAllocation(10, times=2), steps=30
    ),
    "allocation-pair": hs.privacy_curve(
        noise_multiplier=3.0, sampling=hs.RandomAllocation(10), steps=30, group_size=2
    ),
    "allocation-part": hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=35),
    "allocation-pair-part": hs.privacy_curve(
        noise_multiplier=3.0, sampling=hs.RandomAllocation(10), steps=35, group_size=2
    ),
    "bins-part": hs.privacy_curve(noise_multiplier=4.0, sampling=hs.FixedBins(10), steps=35),
    "allocation-and-poisson": hs.privacy_curve(
        noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=25
    )
    + hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.05, steps=10, group=hs.Group(norms=[0.5]))
    + hs.privacy_curve(noise_multiplier=4.0, sampling=hs.WithoutReplacement(10, 300), steps=10),
    "bins": hs.privacy_curve(noise_multiplier=4.0, sampling=hs.FixedBins(10), steps=30),
    "mixed": hs.privacy_curve(mechanism=hs.Laplace(9.0), sample_rate=0.1, steps=5)
    + hs.privacy_curve(noise_multiplier=8.0, sampling=hs.FullBatch(), steps=2),
    "mixed-allocation": hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=30)
    + hs.privacy_curve(noise_multiplier=8.0, sampling=hs.FullBatch(), steps=2),
}
DELTA = 1e-4


@pytest.fixture(scope="module")
def certificates():
    """Certificates of epsilon at DELTA, made when they are asked for."""
    return made_once(CURVES, DELTA)


def verdict(document):
    return hockeystick_verify.verify_text(json.dumps(document))


@pytest.mark.parametrize("name", some(CURVES))
def test_every_scheme_is_proven_and_no_more_than_is_true(name, certificates):
    curve, certificate = CURVES[name], certificates(name)
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = (float(end) for end in curve.bounds(delta=DELTA))
    upper, *lower = certificate.claims
    assert least <= upper["epsilon"] < most * 1.002 + 1e-4
    assert all(claim["epsilon"] <= most for claim in lower)
    document = json.loads(certificate.to_json())
    document["claims"] = [{"epsilon": upper["epsilon"], "at_most": DELTA * 0.99}]
    beyond = least * 0.99 - 1e-4
    if beyond > 0.0 and curve.tight:
        document["claims"].append({"epsilon": beyond, "at_most": DELTA})
    tampered, lines = verdict(document)
    assert not tampered
    assert all("NOT PROVEN" in line for line in lines[1:]), lines


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": hs.Poisson(0.05, microbatches=2)},
        {"sample_rate": 0.05, "group": hs.Group(size=2, gradients="orthogonal")},
    ],
)
def test_steps_that_are_several_plain_ones_are_proven_on_a_lattice_too(more, monkeypatch):
    # Run 2131 was one: where the line is too expensive, the lattice is tried.
    monkeypatch.setattr(certifying, "TOLERANCES", ())
    curve = hs.privacy_curve(noise_multiplier=2.0, steps=5, adjacency="remove", **more)
    certificate = curve.certify(epsilon=0.5)
    assert json.loads(certificate.to_json())["witness"]["remove"]["method"] == "lattice"
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = curve.bounds(epsilon=0.5)
    upper, lower = certificate.claims
    assert lower["at_least"] <= most
    assert least <= upper["at_most"] < 1.001 * most


def test_delta_is_certified_at_an_epsilon():
    curve = CURVES["laplace"]
    certificate = curve.certify(epsilon=0.15)
    least, most = (float(end) for end in curve.bounds(epsilon=0.15))
    upper, lower = certificate.claims
    assert lower["at_least"] <= most
    assert least <= upper["at_most"] < most * 1.001
    assert certificate.verify()[0]


@pytest.mark.parametrize(
    ("name", "path", "value", "reason"),
    [
        ("laplace", ("run", "steps", 0, "mechanism", "scale"), 4.9, "not verified: the proven interval"),
        ("laplace", ("run", "steps", 0, "count"), 11, "not verified: the proven interval"),
        ("laplace", ("witness", "remove", "points"), 64, "not verified: the proven interval"),
        ("laplace", ("witness", "remove", "tilt"), 1e5, "V12: outer_tilt must be above tilt"),
        ("laplace", ("witness", "remove", "first"), 10**6, "V12: the window must begin below epsilon"),
        ("laplace", ("witness", "remove", "kinds", 0, "ranges"), [], "not verified: the proven interval"),
        ("laplace", ("witness", "remove", "kinds", 0, "start"), 0.5, "V12: the window must begin below"),
        ("laplace", ("witness", "remove", "points"), 10**9, "refused: points must be a whole number"),
        ("laplace", ("witness", "remove", "kinds", 0, "ranges"), [[0, 10**7, 1]], "more cells than"),
        ("laplace", ("witness", "remove", "kinds", 0, "coarser"), [0], "refused: coarser must be"),
        ("laplace", ("witness", "remove", "kinds"), [], "refused: kinds must be a list"),
        ("laplace", ("witness", "remove", "method"), "trust", "refused: method must be one of"),
        ("laplace", ("run", "adjacency"), "replace", "refused: witness lacks 'replace'"),
        ("response", ("run", "steps", 0, "mechanism", "p"), 0.76, "not verified: the proven interval"),
        ("response", ("run", "steps", 0, "mechanism", "p"), 0.5, "p must be in (0.5, 1)"),
        ("truncated", ("run", "steps", 0, "sampling", "max_batch_size"), 13, "the proven interval"),
        ("fixed-replaced", ("run", "steps", 0, "sampling", "dataset_size"), 99, "the proven interval"),
        ("allocation", ("run", "steps", 0, "mechanism", "noise_multiplier"), 1.99, "the proven interval"),
        ("allocation", ("run", "steps", 0, "count"), 40, "not verified: the proven interval"),
        ("allocation", ("run", "steps", 0, "count"), 35, "refused: rules must be a list of 2"),
        ("allocation-part", ("run", "steps", 0, "count"), 36, "not verified: the proven interval"),
        ("bins-part", ("run", "steps", 0, "count"), 36, "not verified: the proven interval"),
        ("allocation-and-poisson", ("run", "steps", 1, "group", "norms"), [0.51], "the proven interval"),
        ("allocation-and-poisson", ("run", "steps", 2, "count"), 11, "not verified: the proven interval"),
        ("allocation-and-poisson", ("witness", "remove", "kinds"), [], "refused: kinds must be a list"),
        ("allocation", ("run", "steps", 0, "sampling", "name"), "fixed_bins", "the proven interval"),
        ("allocation", ("witness", "remove", "terms"), 4, "not verified: the proven interval"),
        ("allocation", ("witness", "remove", "rules", 0, "nodes"), 20, "not verified"),
        ("allocation", ("witness", "remove", "rules", 0, "reach"), 2.0, "not verified"),
        ("allocation", ("witness", "remove", "rules", 0, "spacing"), 2.0, "V14: the nodes are too far apart"),
        ("allocation", ("witness", "remove", "rules", 0, "decay"), 2, "V14: decay must be above order"),
        ("allocation", ("witness", "remove", "rules", 0, "nodes"), 10**5, "more nodes, outputs and points"),
        ("allocation", ("witness", "remove", "rules"), [], "refused: rules must be a list"),
    ],
)
def test_tampered_certificates_fail_for_the_right_reason(name, path, value, reason, certificates):
    document = json.loads(certificates(name).to_json())
    *places, last = path
    place = document
    for key in places:
        place = place[key]
    place[last] = value
    verified, lines = verdict(document)
    assert not verified
    assert reason in lines[0]


def test_the_result_does_not_depend_on_the_number_of_processes(certificates):
    document = read(certificates("response").to_json())
    done = []
    alone = check(document, progress=lambda *numbers: done.append(numbers))
    assert check(document, processes=2) == alone
    assert done == sorted(set(done))
    assert {(0, 200), (100, 200), (200, 200)} <= set(done)
    assert certificates("response").verify(processes=2, progress=lambda *_: None)[0]
    with pytest.raises(ValueError, match="processes"):
        certificates("response").verify(processes=0)


def test_renyi_divergences_are_certified():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000, group_size=2)
    certificate = curve.certify(order=4.0)
    assert certificate.verify()[0]
    upper, lower = certificate.claims
    assert lower["at_least"] <= float(curve.renyi(4.0)) * (1 + 1e-9)
    assert upper["at_most"] == pytest.approx(float(curve.renyi(4.0)), rel=1e-9)
    wrong = certificate.with_claims([{"order": 4.0, "at_most": lower["at_least"] * (1 - 1e-9)}])
    assert not wrong.verify()[0]
    # The divergence bounds delta, by V17.
    document = json.loads(certificate.to_json())
    epsilon = upper["at_most"] + math.log(3 / 4) - math.log(4e-5) / 3
    document["claims"] = [{"epsilon": epsilon - 1e-6, "at_most": 1e-5}]
    assert not verdict(document)[0]
    document["claims"] = [{"epsilon": epsilon + 1e-6, "at_most": 1e-5}]
    verified, lines = verdict(document)
    assert verified, lines


def test_the_tradeoff_function_is_certified():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    certificate = curve.certify(alpha=0.1)
    assert certificate.verify()[0]
    (claim,) = certificate.claims
    assert claim["at_least"] == pytest.approx(float(curve.beta(0.1)), abs=1e-5)
    assert not certificate.with_claims([claim | {"at_least": claim["at_least"] + 1e-6}]).verify()[0]
    assert not certificate.with_claims([claim | {"alpha": 0.100001}]).verify()[0]
    one_way = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000, adjacency="remove")
    with pytest.raises(hs.UnsupportedError, match="add_remove"):
        one_way.certify(alpha=0.1)


def test_a_chain_of_replaced_records_is_certified():
    curve = hs.privacy_curve(
        noise_multiplier=30.0,
        sampling=hs.WithoutReplacement(10, 100),
        steps=4,
        adjacency="replace",
        group_size=2,
    )
    assert curve.bound_used(epsilon=0.1) == "chain"
    certificate = curve.certify(epsilon=0.1)
    (claim,) = certificate.claims
    assert certificate.verify()[0]
    assert claim["at_most"] == pytest.approx(float(curve.delta(0.1)), rel=2e-2)
    assert not certificate.with_claims([claim | {"at_most": claim["at_most"] * 0.95}]).verify()[0]


def test_the_history_of_one_example_is_a_composition():
    norms = [0.25, 0.5, 0.25]
    history = [
        hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.05, steps=50, group=hs.Group(norms=[norm]))
        for norm in norms
    ]
    curve = history[0] + history[1] + history[2]
    accountant = hs.accountants.IndividualAccountant(1)
    for norm in norms:
        accountant.update_norms([norm])
        for _ in range(50):
            accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    certificate = curve.certify(delta=1e-5)
    assert certificate.verify()[0]
    (individual,) = accountant.get_epsilons(1e-5)
    assert certificate.claims[0]["epsilon"] == pytest.approx(float(individual), rel=1e-6)


@pytest.mark.parametrize(("name", "changes"), [("response", 60), ("allocation", 12)])
def test_random_changes_never_raise_anything_but_the_two_errors(name, changes, certificates):
    generator = np.random.default_rng(11)
    values = (None, True, "x", -1, 0, 1e-300, 1e300, 2**70, [], {}, [1.0], 0.5)
    for _ in range(changes):
        document = place = json.loads(certificates(name).to_json())
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(generator.integers(len(keys)))]
            if isinstance(place[key], dict | list) and place[key] and generator.random() < 0.8:
                place = place[key]
                continue
            place[key] = values[int(generator.integers(len(values)))]
            break
        verdict(document)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ([{"alpha": 0.1, "epsilon": 1.0, "at_most": 0.5}], "has 'at_least'"),
        ([{"alpha": 0.1, "at_least": 0.5}], "lacks 'epsilon'"),
        ([{"order": 1.0, "at_most": 0.5}], "order must be a number in"),
        ([{"order": 2.0, "epsilon": 1.0, "at_most": 0.5}], "unknown entry 'epsilon'"),
        ([7], "a claim must be an object"),
        ([{"epsilon": 1.0, "at_most": math.pi}], "at_most must be a number in"),
    ],
)
def test_malformed_claims_are_refused(claims, reason, certificates):
    document = json.loads(certificates("response").to_json())
    document["claims"] = claims
    with pytest.raises(RefusedError, match=reason):
        check(document)


def test_numbers_that_no_double_holds_are_not_proven(certificates):
    document = json.loads(certificates("laplace").to_json())
    document["witness"]["remove"]["bits"] = 64
    document["run"]["steps"][0]["mechanism"]["scale"] = 0.001
    verified, lines = verdict(document)
    assert not verified
    assert lines[0].startswith("not verified")
