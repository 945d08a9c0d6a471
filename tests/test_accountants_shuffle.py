"""The accountant of shuffled batches."""

import json
import math

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, ShuffleAccountant

RATE = 100 / 5000


def with_history(*steps, **settings):
    accountant = ShuffleAccountant(batch_size=100, dataset_size=5000, **settings)
    accountant.history = [(noise, RATE, count) for noise, count in steps]
    return accountant


@pytest.mark.parametrize(("clipping", "units"), [("individual", None), ("batch", None), ("mixed", 10)])
@pytest.mark.parametrize("group_size", [1, 7])
def test_whole_epochs_are_the_function_of_the_paper(clipping, units, group_size):
    group = {"group_size": group_size, "clipping": clipping, "units_per_batch": units}
    accountant = ShuffleAccountant(100, 5000, **group)
    for _ in range(3 * 50):
        accountant.step(noise_multiplier=10.0, sample_rate=RATE)
    curve = hs.shuffle.tradeoff(hs.Shuffle(100, 5000), noise_multiplier=10.0, epochs=3, **group)
    assert accountant.get_epsilon(1e-5) == curve.epsilon(1e-5)
    assert accountant.get_delta(0.5) == curve.delta(0.5)
    assert accountant.history == [(10.0, RATE, 150)]


def test_a_started_epoch_counts_its_rounds():
    sigma = 5.0
    accountant = with_history((2 * sigma, 50 + 10))
    # With probability 1/5 the record is in the ten rounds of the second epoch too.
    epsilon = 0.3

    def gaussian(mu):
        return hs.TradeoffCurve.gaussian(mu).delta(epsilon)

    expected = 0.8 * gaussian(1 / sigma) + 0.2 * gaussian(math.sqrt(2) / sigma)
    assert accountant.get_delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert with_history().get_epsilon(1e-5) == 0.0


def test_an_epoch_has_its_least_noise_and_epochs_compose():
    mixed = with_history((10.0, 50), (20.0, 100), (10.0, 20), (8.0, 5), (20.0, 25))
    # Epochs with noise 10, 20, 20 and, for its least step, 8.
    mu = 2 * math.sqrt(1 / 10.0**2 + 2 / 20.0**2 + 1 / 8.0**2)
    expected = hs.TradeoffCurve.gaussian(mu).epsilon(1e-5)
    assert mixed.get_epsilon(1e-5) == pytest.approx(expected, rel=1e-7)


def test_groups_with_several_noises_are_composed_by_the_engine():
    accountant = with_history((10.0, 50), (20.0, 100), group_size=4)
    parts = [
        hs.shuffle.tradeoff(hs.Shuffle(100, 5000), noise_multiplier=noise, epochs=epochs, group_size=4)
        for noise, epochs in ((10.0, 1), (20.0, 2))
    ]
    laws = [hs.shuffle.membership_law(hs.Shuffle(100, 5000), epochs=e, group_size=4) for e in (1, 2)]
    # Both laws are independent: all pairs of c².
    mu = 2 * np.sqrt(np.add.outer(laws[0].squares / 10.0**2, laws[1].squares / 20.0**2)).ravel()
    weights = np.multiply.outer(laws[0].probabilities, laws[1].probabilities).ravel()
    deltas = np.array([float(hs.TradeoffCurve.gaussian(m).delta(0.5)) for m in mu])
    assert accountant.get_delta(0.5) == pytest.approx(weights @ deltas, rel=1e-7)
    assert accountant.get_epsilon(1e-5) == pytest.approx(parts[0].compose(parts[1]).epsilon(1e-5), rel=1e-7)


def test_steps_without_noise_tell_everything():
    accountant = with_history((10.0, 50), (0.0, 1))
    assert accountant.get_epsilon(1e-5) == math.inf
    assert accountant.get_delta(3.0) == 1.0


def test_a_foreign_sample_rate_is_refused_and_nothing_is_lost():
    accountant = with_history((10.0, 5))
    with pytest.raises(ValueError, match=r"sample_rate must be batch_size / dataset_size = 0\.02.*got 0\.03"):
        accountant.step(noise_multiplier=10.0, sample_rate=0.03)
    with pytest.raises(ValueError, match=r"history\[1\] sample_rate"):
        accountant.history = [(10.0, RATE, 1), (10.0, 0.5, 1)]
    with pytest.raises(ValueError, match="noise_multiplier"):
        accountant.step(noise_multiplier=-1.0, sample_rate=RATE)
    assert accountant.history == [(10.0, RATE, 5)]
    uneven = ShuffleAccountant(64, 1000)
    for rate in (64 / 1000, 1 / 15, 1 / 16):  # Opacus's rate is one over the number of batches
        uneven.step(noise_multiplier=1.0, sample_rate=rate)
    assert len(uneven) == 3


def test_states_are_json_and_keep_their_settings():
    accountant = with_history((10.0, 75), group_size=3, clipping="mixed", units_per_batch=20)
    saved = json.loads(json.dumps(accountant.state_dict()))
    resumed = ShuffleAccountant(100, 5000, 3, "mixed", 20)
    resumed.load_state_dict(saved)
    assert resumed.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    for other in (ShuffleAccountant(100, 5000), ShuffleAccountant(100, 5000, 3, "mixed", 25)):
        with pytest.raises(ValueError, match="of the saved accountant"):
            other.load_state_dict(saved)
    with pytest.raises(ValueError, match="mechanism must be 'exact_group'"):
        GroupAccountant().load_state_dict(saved)


def test_it_says_whom_it_is_about():
    accountant = with_history((10.0, 75), group_size=3)
    for text in (repr(accountant), str(accountant), repr(accountant.tradeoff_curve())):
        assert "strong adversary (knows batch membership)" in text
    assert "shuffled, 50 batches of 100 of 5000 records in an epoch" in str(accountant)
    assert accountant.adjacency == "replace"
    assert (accountant.sampling, accountant.clipping, accountant.units_per_batch) == (
        hs.Shuffle(100, 5000),
        "individual",
        100,
    )


def test_the_strong_adversary_learns_more_than_the_usual_one():
    """SHUFFLE, appendix G: the guarantee is weaker than that of subsampling against the usual adversary."""
    accountant = with_history((10.0, 500))
    usual = hs.get_epsilon(
        delta=1e-5,
        noise_multiplier=10.0,
        sampling=hs.WithoutReplacement(100, 5000),
        steps=500,
        adjacency="replace",
    )
    assert accountant.get_epsilon(1e-5) > 2 * usual


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"batch_size": 6000}, ValueError, "batch_size must be at most dataset_size"),
        ({"group_size": 5001}, ValueError, "group_size must be at most dataset_size"),
        ({"clipping": "none"}, ValueError, "clipping must be one of"),
        ({"clipping": "mixed"}, TypeError, "units_per_batch must be given"),
        ({"clipping": "mixed", "units_per_batch": 3}, ValueError, "units_per_batch must be a divisor"),
        ({"dataset_size": "many"}, TypeError, "dataset_size"),
    ],
)
def test_settings_are_checked(settings, error, message):
    with pytest.raises(error, match=message):
        ShuffleAccountant(**{"batch_size": 100, "dataset_size": 5000, **settings})
