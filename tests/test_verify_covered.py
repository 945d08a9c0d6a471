"""Combinations of docs/certificates.md, "What is covered", that no other test of certificates has."""

import math

import pytest

import hockeystick as hs
from hockeystick._curves.lattice_witness import LatticeWitness

CLIPPING = hs.AdaptiveClipping(noise_multiplier=3.0, count_noise=4.0)
FIXED = {"sampling": hs.WithoutReplacement(10, 200)}
FULL = {"sampling": hs.FullBatch()}
CUT = {"sampling": hs.Poisson(0.2, max_batch_size=3, dataset_size=8)}
LAPLACE, COIN = {"mechanism": hs.Laplace(9.0)}, {"mechanism": hs.RandomizedResponse(0.6)}
REPLACED = {"adjacency": "replace"}

RUNS = {
    "adaptive, full": {"mechanism": CLIPPING, **FULL, "group_size": 2, "adjacency": "remove"},
    "adaptive, full, replaced": {"mechanism": CLIPPING, **FULL, **REPLACED},
    "adaptive, several under one noise": {
        "mechanism": CLIPPING, "sampling": hs.Poisson(0.05, microbatches=2), "adjacency": "add"
    },
    "adaptive, rates": {"mechanism": CLIPPING, "group": hs.Group(rates=[0.1, 0.05]), "adjacency": "remove"},
    "adaptive, fixed": {"mechanism": CLIPPING, **FIXED, "group_size": 2},
    "adaptive, fixed, replaced": {"mechanism": CLIPPING, **FIXED, **REPLACED},
    "adaptive, replaced": {"mechanism": CLIPPING, "sample_rate": 0.05, "group_size": 2, **REPLACED},
    "adaptive, cut": {"mechanism": CLIPPING, **CUT, "steps": 1, "adjacency": "remove"},
    "adaptive, dealt": {"mechanism": CLIPPING, "sampling": hs.RandomAllocation(4), "adjacency": "remove"},
    "full, norms": {"noise_multiplier": 3.0, **FULL, "group": hs.Group(norms=[1.0, 0.5])},
    "full, orthogonal": {
        "noise_multiplier": 3.0, **FULL, "group": hs.Group(norms=[1.0, 0.5], gradients="orthogonal")
    },
    "cut, group": {"noise_multiplier": 4.0, **CUT, "steps": 1, "group_size": 2, "adjacency": "add"},
    "cut, replaced": {"noise_multiplier": 4.0, **CUT, "steps": 1, **REPLACED},
    "fixed, group, replaced": {"noise_multiplier": 9.0, **FIXED, "steps": 1, "group_size": 2, **REPLACED},
    "bins, group": {
        "noise_multiplier": 6.0, "sampling": hs.FixedBins(4), "group_size": 2, "adjacency": "remove"
    },
    "clipped, fixed, replaced": {
        "mechanism": hs.BatchClipping(12.0), **FIXED, "steps": 1, "group_size": 3, **REPLACED
    },
    "clipped, rates, replaced": {
        "mechanism": hs.BatchClipping(9.0), "group": hs.Group(rates=[0.05, 0.1]), **REPLACED
    },
    "laplace, rates": {**LAPLACE, "group": hs.Group(rates=[0.05, 0.1]), "adjacency": "add"},
    "laplace, rates, replaced": {**LAPLACE, "group": hs.Group(rates=[0.05, 0.1]), **REPLACED},
    "laplace, full": {**LAPLACE, **FULL, "group_size": 2},
    "laplace, fixed, replaced": {**LAPLACE, **FIXED, "group_size": 2, **REPLACED},
    "response, full": {**COIN, **FULL, "adjacency": "add"},
    "response, full, replaced": {**COIN, **FULL, "group_size": 2, **REPLACED},
    "response, fixed, replaced": {**COIN, **FIXED, "group_size": 2, **REPLACED},
}  # fmt: skip


SLOW = {
    "fixed, group, replaced", "laplace, fixed, replaced", "adaptive, fixed, replaced", "bins, group",
    "clipped, rates, replaced", "laplace, full", "adaptive, cut", "cut, group", "cut, replaced",
    "clipped, fixed, replaced",
}  # fmt: skip
"""Combinations of which a witness takes from two to thirteen seconds to find."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in RUNS]
)
def test_every_combination_that_is_covered_is_proven(name):
    curve = hs.privacy_curve(**({"steps": 4} | RUNS[name]))
    epsilon = float(curve.epsilon(1e-3))
    certificate = curve.certify(epsilon=epsilon)
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = (float(end) for end in curve.bounds(epsilon=epsilon))
    upper, *lower = certificate.claims
    if "chain" in certificate.to_json():  # the engine finds the best chain but for its last digits
        least *= 0.98
    assert least * (1 - 1e-9) <= upper["at_most"] < most * 1.01
    assert all(claim["at_least"] <= most for claim in lower)
    assert not certificate.with_claims([upper | {"at_most": upper["at_most"] * 0.9}]).verify()[0]


def test_a_window_leaves_room_below_the_tilt_at_which_moments_explode():
    # With the tilt at the saddle point, 2.11, the window had 327,680 points.
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 1.0}, "group": {"size": 1}, "count": 1000}
    step["sampling"] = {"name": "truncated_poisson", "sample_rate": 0.01, "max_batch_size": 128}
    step["sampling"]["dataset_size"] = 10_000
    run = {"adjacency": "remove", "steps": [step]}
    witness = LatticeWitness(run, "remove", 3.995, math.log(1e-5)).find()
    assert witness["points"] <= 1 << 16
    assert witness["tilt"] < witness["outer_tilt"]


def test_probabilities_below_the_range_of_doubles_are_no_error():
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 1.0}, "group": {"size": 256}, "count": 1000}
    step["sampling"] = {"name": "poisson", "sample_rate": 0.01}
    found = LatticeWitness({"adjacency": "remove", "steps": [step]}, "remove", 4712.6, math.log(1e-5)).find()
    assert found["points"] <= 1 << 19
