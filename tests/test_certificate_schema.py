"""The JSON schema of certificates: what is made follows it, and what the checker cannot read does not."""

import copy
import json
from pathlib import Path

import pytest
from certificate_schema import SCHEMA, VALIDATOR, fault

import hockeystick as hs
from hockeystick_verify.claims import METHODS, OPTIONAL

FOLDER = Path(__file__).parents[1] / "docs" / "certificates"
CERTIFICATES = sorted(path for path in FOLDER.glob("*.json") if path.name != "random_runs.json")


def test_the_schema_is_one():
    VALIDATOR.check_schema(SCHEMA)


@pytest.mark.parametrize("path", CERTIFICATES, ids=lambda path: path.stem)
def test_certificates_of_the_pages_follow_it(path):
    assert fault(json.loads(path.read_text())) is None


POISSON = {"noise_multiplier": 2.0, "sample_rate": 0.05, "steps": 20}
FIXED = {"sampling": hs.WithoutReplacement(10, 200), "adjacency": "replace"}
RUNS = {
    "line": (POISSON | {"group_size": 2}, {"epsilon": 1.0}),
    "few steps": (POISSON | {"sample_rate": 0.001, "steps": 3}, {"delta": 1e-6}),
    "renyi": (POISSON, {"order": 3.0}),
    "trade-off": (POISSON, {"alpha": 0.1}),
    "clipped": (
        {"mechanism": hs.BatchClipping(4.0), "sample_rate": 0.05, "steps": 20, "group_size": 3},
        {"epsilon": 1.0},
    ),
    "response": (
        {"mechanism": hs.RandomizedResponse(0.7), "sample_rate": 0.05, "steps": 9},
        {"epsilon": 0.3},
    ),
    "cosine": (POISSON | {"group": hs.Group(3, cosine=0.3)}, {"epsilon": 0.5}),
    "chain": (FIXED | {"noise_multiplier": 16.0, "steps": 4, "group_size": 3}, {"epsilon": 0.3}),
    "moments": ({"noise_multiplier": 4.0, "sampling": hs.RandomAllocation(4), "steps": 8}, {"order": 2.5}),
    "shuffled": (
        {"noise_multiplier": 1.5, "sampling": hs.Shuffle(5, 20), "steps": 10, "adjacency": "zero_out"},
        {"delta": 1e-4},
    ),
    "correlated": (
        {
            "mechanism": hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0),
            "sampling": hs.FixedBins(2),
            "steps": 2,
        },
        {"epsilon": 0.5},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_certificates_of_all_kinds_follow_it(name):
    run, about = RUNS[name]
    document = json.loads(hs.privacy_curve(**run).certify(**about).to_json())
    assert fault(document) is None
    # An entry that is unknown is refused in every object, and one that is missing.
    for place in ([], ["run"], ["run", "steps", 0], ["run", "steps", 0, "mechanism"], ["claims", 0]):
        changed = copy.deepcopy(document)
        node = changed
        for key in place:
            node = node[key]
        node["other"] = 1
        assert fault(changed) is not None, place
    for way, witness in document["witness"].items():
        for entry in witness:
            if entry not in ("largest_shifts", "near_tilt", "norm_units", "published", "kinds"):
                changed = copy.deepcopy(document)
                del changed["witness"][way][entry]
                assert fault(changed) is not None, entry


def test_methods_have_the_entries_that_the_checker_reads():
    for method, entries in METHODS.items():
        entry = SCHEMA["$defs"][method]
        assert set(entry["required"]) == {"bits", "method", *entries.split()}, method
        optional = set(entry["properties"]) - set(entry["required"]) - {"published"}
        assert optional == set(OPTIONAL.get(method, "").split()) - {"published"}, method
