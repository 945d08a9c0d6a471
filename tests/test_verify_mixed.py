"""Certificates of runs whose steps are seen under adjacencies of their own: integrals, and refusals."""

import json
import math

import numpy as np
import pytest
from certified_runs import claims_are_sharp, made_once
from flint import ctx
from verified_steps import POISSON, after, proven, step, two_steps

import hockeystick as hs
import hockeystick_verify
from hockeystick_verify import RefusedError, check, checker

DELTA = 1e-4


@pytest.fixture(autouse=True)
def precision():
    """The usual precision after a check, which sets its own."""
    before = ctx.prec
    yield
    ctx.prec = before


def poisson(way, noise=2.0, rate=0.25, steps=1, **more):
    return hs.privacy_curve(noise_multiplier=noise, sample_rate=rate, steps=steps, adjacency=way, **more)


def dealt(way, noise=1.5):
    return hs.privacy_curve(noise_multiplier=noise, sampling=hs.RandomAllocation(2), steps=2, adjacency=way)


MIXED = {
    "two": poisson("add") + poisson("remove"),
    "many": poisson("add", steps=20, rate=0.1) + poisson("remove", steps=30, noise=3.0, rate=0.1),
    "both": poisson("add", steps=5, rate=0.1) + poisson("add_remove", steps=9, rate=0.1),
    "replaced": poisson("replace", steps=5, rate=0.1) + poisson("remove", steps=9, rate=0.1, group_size=2),
    "orthogonal": hs.privacy_curve(
        noise_multiplier=2.0,
        sample_rate=0.1,
        steps=4,
        adjacency="add",
        group=hs.Group(size=2, gradients="orthogonal"),
    )
    + hs.privacy_curve(
        noise_multiplier=2.0, sampling=hs.Poisson(0.1, microbatches=2), steps=3, adjacency="remove"
    ),
    "laplace": hs.privacy_curve(mechanism=hs.Laplace(3.0), sample_rate=0.5, steps=2, adjacency="add")
    + hs.privacy_curve(mechanism=hs.Laplace(3.0), sample_rate=0.5, steps=1, adjacency="remove"),
    "joined": hs.privacy_curve(
        noise_multiplier=8.0, sampling=hs.WithoutReplacement(10, 100), steps=3, adjacency="replace"
    )
    + hs.privacy_curve(mechanism=hs.BatchClipping(8.0), sample_rate=0.1, steps=3, adjacency="add"),
    "dealt": dealt("add") + poisson("remove"),
    "dealt both": dealt("add", 3.0) + dealt("remove") + poisson("add"),
}


@pytest.fixture(scope="module")
def certificates():
    """Certificates of epsilon at DELTA, made when they are asked for."""
    return made_once(MIXED, DELTA)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "joined" else name for name in MIXED]
)
def test_mixed_curves_are_certified_and_claim_no_more_than_is_true(name, certificates):
    claims_are_sharp(MIXED[name], certificates(name), DELTA)


@pytest.mark.parametrize(
    ("name", "place", "way"),
    [
        ("many", 0, "remove"),
        ("many", 0, "replace"),
        ("both", 0, "add_remove"),
        ("replaced", 0, "add"),
        ("orthogonal", 1, "add"),
        ("laplace", 0, "remove"),
        pytest.param("joined", 0, "remove", marks=pytest.mark.slow),
        pytest.param("joined", 1, "add", marks=pytest.mark.slow),
        ("dealt", 0, "remove"),
        ("dealt", 1, "add"),
        ("dealt both", 2, "add"),
    ],
)
def test_a_step_that_is_seen_the_other_way_is_another_run(name, place, way, certificates):
    document = json.loads(certificates(name).to_json())
    assert document["run"]["steps"][place]["adjacency"] != way
    document["run"]["steps"][place]["adjacency"] = way
    assert not hockeystick_verify.verify_text(json.dumps(document))[0]


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.2])
def test_steps_in_both_directions_are_the_integral_of_their_product(epsilon):
    true = two_steps({0.0: 0.75, 1.0: 0.25}, 2.0, epsilon, first="add")
    document = json.loads(MIXED["two"].certify(epsilon=epsilon).to_json())
    lower, upper = proven(document["run"], document["witness"]["mixed"], epsilon, "mixed")
    assert lower * (1 - 1e-8) <= true <= upper * (1 + 1e-8)
    assert upper - lower < 1e-6 * true
    alone = [two_steps({0.0: 0.75, 1.0: 0.25}, 2.0, epsilon), float((poisson("add") * 2).delta(epsilon))]
    assert all(abs(each - true) > 1e-3 * true for each in alone)


@pytest.mark.parametrize("epsilon", [pytest.param(0.2, marks=pytest.mark.slow), 0.9])
def test_dealt_batches_of_added_records_beside_a_step_of_removed_ones_are_an_integral(epsilon):
    # Without the record both outputs are noise; with it, one of them is moved: W is the mean of both ratios.
    outputs = np.linspace(-14.0, 14.0, 561)
    ratios = np.exp((outputs - 0.5) / 1.5**2)
    noise = np.exp(-(outputs**2) / (2 * 1.5**2)) / (1.5 * math.sqrt(2 * math.pi))
    losses = -np.log((ratios[:, None] + ratios[None, :]) / 2)
    seen = after(losses, {0.0: 0.75, 1.0: 0.25}, 2.0, epsilon)
    true = float(noise @ seen @ noise) * (outputs[1] - outputs[0]) ** 2
    document = json.loads(MIXED["dealt"].certify(epsilon=epsilon).to_json())
    lower, upper = proven(document["run"], document["witness"]["mixed"], epsilon, "mixed")
    assert lower * (1 - 1e-6) <= true <= upper * (1 + 1e-6)
    assert upper - lower < 1e-6 * true
    for changed in (0, 1):
        other = json.loads(json.dumps(document["run"]))
        other["steps"][changed]["adjacency"] = ("remove", "add")[changed]
        low, high = proven(other, document["witness"]["mixed"], epsilon, "mixed")
        assert not low * (1 - 1e-3) <= true <= high * (1 + 1e-3)


def test_renyi_divergences_of_both_directions_add_up():
    orders = [MIXED["many"].certify(order=3.0), *(
        poisson(way, steps=steps, noise=noise, rate=0.1).certify(order=3.0)
        for way, steps, noise in (("add", 20, 2.0), ("remove", 30, 3.0))
    )]  # fmt: skip
    assert all(each.verify()[0] for each in orders)
    most = [each.claims[0]["at_most"] for each in orders]
    assert most[0] == pytest.approx(most[1] + most[2], rel=1e-9)
    with pytest.raises(hs.UnsupportedError, match="trade-off function"):
        MIXED["many"].certify(alpha=0.1)


def test_the_largest_loss_of_added_records_does_not_bound_mixed_runs():
    # -log .75 is the most that the added record reveals; the removed one reveals more.
    added = {
        "adjacency": "add",
        "steps": [step({"name": "gaussian", "noise_multiplier": 2.0}, POISSON, size=1)],
    }
    assert proven(added, {"bits": 128}, 0.3, "add") == (0.0, 0.0)
    document = json.loads(MIXED["two"].certify(epsilon=0.6).to_json())
    assert proven(document["run"], document["witness"]["mixed"], 0.6, "mixed")[0] > 1e-4


def of_ways(run_way, *ways, **more):
    plain = step({"name": "gaussian", "noise_multiplier": 2.0}, POISSON, size=1) | more
    return {"adjacency": run_way, "steps": [plain | ({"adjacency": way} if way else {}) for way in ways]}


@pytest.mark.parametrize(
    ("run", "way", "witness", "reason"),
    [
        (of_ways("remove", "add"), "remove", {"bits": 128}, "if that of the run is 'mixed'"),
        (of_ways("mixed", "add", None), "mixed", {"bits": 128}, "if that of the run is 'mixed'"),
        (of_ways("mixed", "add", "mixed"), "mixed", {"bits": 128}, "adjacency must be one of"),
        (of_ways("mixed", "add", 1), "mixed", {"bits": 128}, "adjacency must be one of"),
        (of_ways("mixed", "add", "add_remove"), "mixed", {"bits": 128}, "witness lacks 'remove'"),
        (of_ways("mixed", "add", "remove"), "remove", {"bits": 128}, "witness lacks 'mixed'"),
        (
            of_ways("mixed", "replace", "add", sampling={"name": "random_allocation", "batches": 2}),
            "mixed",
            {"bits": 128, "method": "allocation", "spacing": 0.1, "terms": 9, "rules": []},
            "added or removed",
        ),
        (
            of_ways("mixed", "add", "remove", sampling={"name": "random_allocation", "batches": 2}),
            "mixed",
            {"bits": 128, "method": "allocation", "spacing": 0.1, "terms": 9, "rules": []},
            "alike are one entry",
        ),
        (
            of_ways("mixed", "replace", "replace"),
            "mixed",
            {"bits": 128, "method": "chain", "one": {}, "splits": []},
            "chains are about records",
        ),
        (
            of_ways("replace", "add", "remove", sampling=POISSON | {"microbatches": 2}),
            "replace",
            {"bits": 128},
            "if that of the run is 'mixed'",
        ),
    ],
)  # fmt: skip
def test_mixed_runs_that_say_too_little_or_too_much_are_refused(run, way, witness, reason):
    with pytest.raises(RefusedError, match=reason):
        proven(run, witness, 1.0, way)


def test_the_file_for_plain_runs_refuses_steps_in_both_directions(certificates):
    document = json.loads(certificates("many").to_json())
    with pytest.raises(RefusedError, match="adjacency must be one of"):
        checker.check(document)
    document["run"]["adjacency"] = "remove"
    document["witness"] = {"remove": document["witness"]["mixed"]}
    with pytest.raises(RefusedError, match="unknown entry 'adjacency'"):
        checker.check(document)


def test_claims_on_the_tradeoff_function_of_mixed_runs_are_refused(certificates):
    document = json.loads(certificates("many").to_json())
    document["claims"] = [{"alpha": 0.1, "epsilon": 1.0, "at_least": 0.1}]
    with pytest.raises(RefusedError, match="both orders of two data sets"):
        check(document)


def test_sums_of_mixed_runs_in_processes_are_the_same_balls(certificates):
    document = json.loads(certificates("many").to_json())
    assert check(document, processes=2) == check(document)
