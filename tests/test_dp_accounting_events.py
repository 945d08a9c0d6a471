"""Events of this library for `hs.dp_accounting.ExactAccountant`: accumulated batches, random allocation."""

import pytest
from dp_accounting_events import event, exact, gaussian, peer, poisson

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

DELTA = 1e-5


def accumulated(rate, microbatches, inner):
    return hs.dp_accounting.AccumulatedPoissonDpEvent(rate, microbatches, inner)


def epoch(batches, inner, **more):
    return hs.dp_accounting.RandomAllocationDpEvent(batches, inner, **more)


@pytest.fixture
def dpa():
    import dp_accounting

    return dp_accounting


@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"])
def test_accumulated_batches_are_a_group_in_one_batch(dpa, relation, group_size):
    found = exact(relation, group_size=group_size).compose(accumulated(0.05, 3, gaussian(1.5)), 40)
    expected = exact(group_size=3 * group_size).compose(poisson(0.05, gaussian(1.5)), 40)
    assert found.get_epsilon(DELTA) == expected.get_epsilon(DELTA)
    assert found.curve == hs.privacy_curve(
        noise_multiplier=1.5, sampling=hs.Poisson(0.05, microbatches=3), steps=40, group_size=group_size
    )
    # One record three times, by the mixture that dp-accounting knows: it takes half a minute, and `expected`
    # is that of the other relation too.
    if group_size == 1 and relation == "ADD_OR_REMOVE_ONE":
        weights = [0.95**3, 3 * 0.05 * 0.95**2, 3 * 0.05**2 * 0.95, 0.05**3]
        theirs = peer().compose(event("MixtureOfGaussians", 1.5, [0.0, 1.0, 2.0, 3.0], weights), 40)
        assert found.get_epsilon(DELTA) == pytest.approx(theirs.get_epsilon(DELTA), rel=1e-3)
        assert found.get_epsilon(DELTA) > exact().compose(poisson(0.15, gaussian(1.5)), 40).get_epsilon(DELTA)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"])
def test_every_composition_is_an_epoch_of_its_own(dpa, relation):
    expected = {"delta": DELTA, "noise_multiplier": 2.0, "sampling": hs.RandomAllocation(100), "steps": 300}
    once = epoch(100, gaussian(2.0))
    ways = [
        exact(relation).compose(once, 3),
        exact(relation).compose(once).compose(event("SelfComposed", once, 2)),
        exact(relation).compose(event("Composed", [once, once, once])),
    ]
    for accountant in ways:
        assert accountant.get_epsilon(DELTA) == hs.get_epsilon(**expected)
    # Published: 0.6031 for ten epochs, where Poisson sampling at the same rate has 0.6220.
    assert exact(relation).compose(once, 10).get_epsilon(DELTA) == pytest.approx(0.6031, abs=1e-4)


def test_epochs_mix_with_the_events_of_dp_accounting(dpa):
    found = exact().compose(epoch(50, gaussian(2.0), times=2)).compose(poisson(0.01, gaussian(1.0)), 100)
    one = hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(50, times=2), steps=50)
    other = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=100)
    assert found.curve == one + other
    two_sums = exact().compose(epoch(50, event("Composed", [gaussian(2.0), gaussian(2.0)])))
    one_sum = exact().compose(epoch(50, gaussian(2.0 / 2.0**0.5)))
    assert two_sums.get_epsilon(DELTA) == pytest.approx(one_sum.get_epsilon(DELTA), rel=1e-9)


def test_their_accountants_refuse_them_and_ours_what_has_no_pair(dpa):
    for unknown in (epoch(10, gaussian(1.0)), accumulated(0.1, 2, gaussian(1.0))):
        assert not peer().supports(unknown)
        accountant = exact("REPLACE_ONE")
        with pytest.raises(dpa.UnsupportedEventError, match="replaced"):
            accountant.compose(unknown)
        assert accountant.ledger is not None
        assert accountant.get_epsilon(DELTA) == 0.0
    with pytest.raises(dpa.UnsupportedEventError, match="noisy sums"):
        exact().compose(poisson(0.5, epoch(10, gaussian(1.0))))


def test_groups_of_dealt_records_have_a_bound_with_laplace_noise():
    found = exact(group_size=2).compose(epoch(10, event("Laplace", 3.0)))
    run = {"mechanism": hs.Laplace(3.0), "sampling": hs.RandomAllocation(10), "steps": 10, "group_size": 2}
    assert found.get_epsilon(DELTA) == hs.get_epsilon(delta=DELTA, **run)


def test_edges(dpa):
    assert exact().compose(accumulated(0.0, 4, gaussian(1.0)), 10).get_epsilon(DELTA) == 0.0
    assert exact().compose(epoch(10, event("NonPrivate"))).get_epsilon(DELTA) == float("inf")
    for wrong, words in (
        (epoch(0, gaussian(1.0)), "batches"),
        (epoch(10, gaussian(1.0), times=11), "times"),
        (accumulated(1.5, 2, gaussian(1.0)), "sampling_probability"),
        (accumulated(0.5, 0, gaussian(1.0)), "microbatches"),
        (epoch(10, gaussian(-1.0)), "noise_multiplier"),
    ):
        accountant = exact()
        with pytest.raises(ValueError, match=words):
            accountant.compose(wrong)
        assert accountant.get_epsilon(DELTA) == 0.0


def test_events_can_be_compared_and_written_down(dpa):
    first = epoch(10, gaussian(1.0), times=2)
    assert first == epoch(10, gaussian(1.0), times=2) != epoch(10, gaussian(1.0))
    again = dpa.DpEvent.from_named_tuple(first.to_named_tuple())
    assert again == first
    assert "times=2" in repr(first)
