"""Certificates of Renyi divergences of bounded losses, on a lattice (V17)."""

import json
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick_verify import NotProvenError, RefusedError, check

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
    assert lower["at_least"] <= float(curve.renyi(4.0)) <= upper["at_most"]
    assert upper["at_most"] < float(curve.renyi(4.0)) * (1 + 1e-6)
    assert lower["at_least"] > 0.99 * upper["at_most"]
    smaller = certificate.with_claims([upper | {"at_most": 0.98 * lower["at_least"]}])
    assert not smaller.verify()[0]


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
    upper, lower = curve.certify(order=order).claims
    truth = math.log(moment) / (order - 1)
    assert lower["at_least"] <= truth <= upper["at_most"]
    assert upper["at_most"] - truth < 1e-6 * truth


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
    with pytest.raises(RefusedError, match="'renyi' or on a 'lattice'"):
        check(document)
    dealt = hs.privacy_curve(mechanism=hs.Laplace(2.0), sampling=hs.RandomAllocation(5), steps=5)
    cut = hs.privacy_curve(
        noise_multiplier=2.0, sampling=hs.Poisson(0.1, max_batch_size=14, dataset_size=100), steps=5
    )
    for other in (dealt, cut):
        with pytest.raises(hs.UnsupportedError, match="certificates of Rényi divergences cover"):
            other.certify(order=4.0)
