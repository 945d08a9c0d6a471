"""Certificates of Renyi divergences of bounded losses, by moments (V26) or on a lattice (V17)."""

import json
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves.renyi_witness import renyi_on_a_lattice
from hockeystick_verify import NotProvenError, RefusedError, check
from hockeystick_verify.variants import plain

RUNS = {
    "laplace": {"mechanism": hs.Laplace(2.0), "sample_rate": 0.05, "steps": 50},
    "laplace, group": {"mechanism": hs.Laplace(2.0), "sample_rate": 0.05, "steps": 50, "group_size": 3},
    "laplace, replaced": {
        "mechanism": hs.Laplace(2.0), "sample_rate": 0.05, "steps": 50, "adjacency": "replace"
    },
    "laplace, fixed": {"mechanism": hs.Laplace(4.0), "sampling": hs.WithoutReplacement(9, 90), "steps": 20},
    "coins": {"mechanism": hs.RandomizedResponse(0.7), "sample_rate": 0.05, "steps": 50, "group_size": 2},
    "coins, fixed, replaced": {
        "mechanism": hs.RandomizedResponse(0.7), "sampling": hs.WithoutReplacement(9, 90),
        "adjacency": "replace", "steps": 20,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_divergences_of_bounded_losses_are_certified(name):
    curve = hs.privacy_curve(**RUNS[name])
    certificate = curve.certify(order=4.0)
    upper, lower = certificate.claims
    assert certificate.verify()[0]
    # The engine's divergence is a bound with some digits less.
    assert lower["at_least"] <= upper["at_most"] <= float(curve.renyi(4.0))
    assert lower["at_least"] > float(curve.renyi(4.0)) * (1 - 1e-11)
    smaller = certificate.with_claims([upper | {"at_most": (1 - 1e-12) * lower["at_least"]}])
    assert not smaller.verify()[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_both_proofs_agree(name):
    curve = hs.privacy_curve(**RUNS[name])
    document = json.loads(curve.certify(order=4.0).to_json())
    (least, *_) = [claim["at_least"] for claim in document["claims"] if "at_least" in claim]
    run = plain(document["run"])
    document["witness"] = {way: renyi_on_a_lattice(run, way, 4.0) for way in document["witness"]}
    (found, *_) = check(document)
    assert found.lower <= least <= found.upper
    assert 0.99 * found.upper < found.lower < found.upper < least * (1 + 1e-6)


def test_divergences_on_a_lattice_enclose_the_integral():
    # One step of Laplace noise on a Poisson sample, by the trapezoid rule of the definition between kinks.
    scale, rate, order = 1.5, 0.3, 3.0
    ratio = {"low": math.exp(-1 / scale), "high": math.exp(1 / scale)}
    inner = np.linspace(0.0, 1.0, 200_001)
    density = np.exp(-inner / scale) / (2 * scale)
    values = density * (1 - rate + rate * np.exp((2 * inner - 1) / scale)) ** order
    moment = 0.5 * (1 - rate + rate * ratio["low"]) ** order + float(np.trapezoid(values, inner))
    moment += math.exp(-1 / scale) / 2 * (1 - rate + rate * ratio["high"]) ** order
    curve = hs.privacy_curve(mechanism=hs.Laplace(scale), sample_rate=rate, steps=1, adjacency="remove")
    document = json.loads(curve.certify(order=order).to_json())
    document["witness"] = {"remove": renyi_on_a_lattice(plain(document["run"]), "remove", order)}
    (found, *_) = check(document)
    truth = math.log(moment) / (order - 1)
    assert found.lower <= truth <= found.upper
    assert found.upper - truth < 1e-6 * truth


@pytest.mark.slow
def test_losses_without_a_bound_have_no_divergence():
    # On the lattice of a curve, losses of Gaussian noise above the last node count as infinite.
    curve = hs.privacy_curve(
        noise_multiplier=4.0, sampling=hs.WithoutReplacement(9, 90), steps=2, adjacency="replace"
    )
    document = json.loads(curve.certify(delta=1e-4).to_json())
    assert document["witness"]["replace"]["method"] == "lattice"
    document["claims"] = [{"order": 4.0, "at_most": 1e6}]
    with pytest.raises(NotProvenError, match="V17"):
        check(document)


def test_other_proofs_of_divergences_are_refused():
    curve = hs.privacy_curve(**RUNS["laplace"], adjacency="remove")
    document = json.loads(curve.certify(order=4.0).to_json())
    document["witness"]["remove"]["method"] = "chain"
    with pytest.raises(RefusedError, match="'renyi', 'moments' or on a 'lattice'"):
        check(document)
    document = json.loads(curve.certify(order=4.0).to_json())
    document["claims"] = [{"epsilon": 1.0, "at_most": 1.0}]
    with pytest.raises(RefusedError, match="a proof of Renyi divergences, and of no others"):
        check(document)
