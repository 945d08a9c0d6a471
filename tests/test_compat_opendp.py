"""Privacy curves as privacy profiles and maps of OpenDP, which the development tools install."""

import opendp.prelude as dp
import pytest

import hockeystick as hs
from hockeystick.compat.opendp import privacy_map, privacy_profile

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


def test_a_profile_has_the_deltas_of_the_curve():
    curve = hs.privacy_curve(**RUN, group_size=4)
    profile = privacy_profile(curve)
    for epsilon in (0.0, 0.5, 3.0, 20.0):
        assert profile.delta(epsilon) == curve.delta(epsilon)
    assert profile.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-6)
    assert curve.delta(profile.epsilon(1e-5)) <= 1e-5
    with pytest.raises(dp.OpenDPException, match="epsilon must be in"):
        profile.delta(-1.0)


def test_a_map_makes_a_measurement_for_users():
    measurement = dp.m.make_user_measurement(
        dp.vector_domain(dp.atom_domain(T=float)),
        dp.symmetric_distance(),
        dp.approximate(dp.max_divergence()),
        sum,
        privacy_map=privacy_map(delta=1e-5, **RUN, group_size=8),
        TO=float,
    )
    assert measurement.map(1) == (hs.get_epsilon(delta=1e-5, **RUN, group_size=8), 1e-5)
    assert measurement.map(0) == (0.0, 0.0)
    with pytest.raises(dp.OpenDPException, match="d_in must be a whole number in"):
        measurement.map(2)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="curve must be a PrivacyCurve"):
        privacy_profile(1.0)
    with pytest.raises(ValueError, match="delta must be in"):
        privacy_map(delta=2.0, **RUN)
