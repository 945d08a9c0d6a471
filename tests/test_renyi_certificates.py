"""Certificates of what `RenyiGroupAccountant` says."""

import math

import pytest

import hockeystick as hs
from hockeystick.accountants import RenyiGroupAccountant


def recorded(bound="exact", steps=20, group_size=3, **settings):
    accountant = RenyiGroupAccountant(group_size=group_size, bound=bound, **settings)
    accountant.step(noise_multiplier=2.0, sample_rate=0.05, steps=steps)
    return accountant


@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box"])
def test_the_divergence_of_every_bound_is_certified(bound):
    accountant = recorded(bound)
    certificate = accountant.certify(order=4.0)
    (claim,) = certificate.claims
    assert claim["order"] == 4.0
    assert accountant.get_renyi(4.0) <= claim["at_most"] <= accountant.get_renyi(4.0) * (1 + 1e-9)
    assert bound == "exact" or claim["at_most"] == accountant.get_renyi(4.0)
    assert certificate.verify()[0]
    exact = recorded().get_renyi(4.0)
    less = exact * (1 - 1e-6)  # the exact divergence is attained: nothing below it is proven
    assert not certificate.with_claims([{"order": 4.0, "at_most": less}]).verify()[0]
    assert certificate.run["steps"][0]["group"]["size"] == 3


@pytest.mark.parametrize("bound", ["exact", "jensen"])
def test_epsilon_and_delta_are_certified(bound):
    accountant = recorded(bound)
    epsilon = accountant.get_epsilon(1e-5)
    for certificate in (accountant.certify(delta=1e-5), accountant.certify(epsilon=epsilon)):
        (claim,) = certificate.claims
        assert claim["epsilon"] == epsilon
        assert claim["at_most"] == pytest.approx(1e-5, rel=1e-6)
        assert certificate.verify()[0]


def test_runs_of_several_mechanisms_and_schemes_are_certified():
    accountant = recorded(group_size=2, adjacency="remove")
    accountant.step(mechanism=hs.Laplace(10.0), sample_rate=0.5, steps=2)
    accountant.step(noise_multiplier=4.0, sampling=hs.WithoutReplacement(10, 1000), steps=3)
    accountant.step(noise_multiplier=9.0, sampling=hs.FullBatch())
    certificate = accountant.certify(order=2.5)
    assert certificate.verify()[0]
    assert sorted(step["count"] for step in certificate.run["steps"]) == [1, 2, 3, 20]


def test_members_have_their_own_rates():
    accountant = RenyiGroupAccountant(group=hs.Group(rates=[0.1, 0.2]))
    accountant.step(noise_multiplier=2.0, sample_rate=0.5, steps=2)
    certificate = accountant.certify(order=3.0)
    assert certificate.verify()[0]
    assert certificate.run["steps"][0]["group"]["rates"] == [0.1, 0.2]


def test_what_has_no_certificate_is_refused_by_name():
    with pytest.raises(TypeError, match="exactly one of order, delta and epsilon"):
        recorded().certify()
    with pytest.raises(TypeError, match="exactly one of order, delta and epsilon"):
        recorded().certify(order=2.0, delta=1e-5)
    with pytest.raises(ValueError, match="at least 1: a run without steps"):
        RenyiGroupAccountant().certify(order=2.0)
    skellam = RenyiGroupAccountant()
    skellam.step(mechanism=hs.Skellam(100.0), sample_rate=0.1)
    with pytest.raises(hs.UnsupportedError, match=r"do not cover Skellam.*docs/theory/renyi.md"):
        skellam.certify(order=2)
    with pytest.raises(ValueError, match="order must be in"):
        recorded().certify(order=1.0)
    exposed = RenyiGroupAccountant()
    exposed.step(noise_multiplier=0.0, sample_rate=1.0)
    assert math.isinf(exposed.get_epsilon(1e-5))
    with pytest.raises((ValueError, hs.UnsupportedError)):
        exposed.certify(delta=1e-5)
