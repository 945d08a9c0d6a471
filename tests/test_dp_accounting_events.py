"""Events with batches or sums of their own: accumulated batches, random allocation, nested samples, trees."""

import itertools
import math

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
    # One record three times, by the mixture that dp-accounting knows; `expected` is that of both relations.
    if group_size == 1 and relation == "ADD_OR_REMOVE_ONE":
        weights = [0.95**3, 3 * 0.05 * 0.95**2, 3 * 0.05**2 * 0.95, 0.05**3]
        theirs = peer(value_discretization_interval=1e-3)
        theirs.compose(event("MixtureOfGaussians", 1.5, [0.0, 1.0, 2.0, 3.0], weights), 40)
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


def gaussian_delta(epsilon, mu):
    """Delta of N(mu, 1) against N(0, 1), from its formula."""

    def tail(x):
        return 0.5 * math.erfc(x / math.sqrt(2.0))

    return tail(epsilon / mu - mu / 2.0) - math.exp(epsilon) * tail(epsilon / mu + mu / 2.0)


def nodes_of(steps):
    """All complete nodes of a binary tree over steps, as sets of leaves."""
    return [
        set(range(start, start + width))
        for width in (2**power for power in range(steps.bit_length()))
        for start in range(0, steps - width + 1, width)
    ]


@pytest.mark.parametrize("trees", [1, 2, 3, 4, 7, 8, 100, [3, 20, 5]])
@pytest.mark.parametrize(("relation", "each"), [("REPLACE_SPECIAL", 1.0), ("REPLACE_ONE", 2.0)])
@pytest.mark.parametrize("group", [1, 2])
def test_a_tree_is_a_gaussian_with_the_sensitivity_of_its_nodes(trees, relation, each, group):
    largest = max(trees) if isinstance(trees, list) else trees
    leaves = itertools.combinations_with_replacement(range(largest), group)
    nodes = nodes_of(largest)
    distance = each * math.sqrt(
        max(sum(sum(leaf in node for leaf in chosen) ** 2 for node in nodes) for chosen in leaves)
    )
    run = exact(relation, group_size=group).compose(event("SingleEpochTreeAggregation", 6.0, trees))
    for epsilon in (0.1, 1.0):
        assert run.get_delta(epsilon) == pytest.approx(gaussian_delta(epsilon, distance / 6.0), rel=1e-6)
    if relation == "REPLACE_SPECIAL" and group == 1:
        theirs = peer(relation, "rdp").compose(event("SingleEpochTreeAggregation", 6.0, trees))
        assert run.get_epsilon(1e-6) <= theirs.get_epsilon(1e-6)


def test_trees_without_steps_or_noise():
    nothing = exact("REPLACE_SPECIAL").compose(event("SingleEpochTreeAggregation", 1.0, 0))
    assert nothing.get_epsilon(1e-6) == 0.0
    everything = exact("REPLACE_SPECIAL").compose(event("SingleEpochTreeAggregation", 0.0, 4))
    assert everything.get_epsilon(1e-6) == math.inf


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL", "REPLACE_ONE"])
def test_a_sample_of_a_sample_is_one_at_the_product_of_the_rates(relation):
    nested = exact(relation).compose(poisson(0.25, poisson(0.5, poisson(0.125, gaussian(1.0)))), 30)
    plain = exact(relation).compose(poisson(1 / 64, gaussian(1.0)), 30)
    assert nested.get_epsilon(1e-5) == plain.get_epsilon(1e-5)
    rounded = exact(relation).compose(poisson(0.1, poisson(0.3, gaussian(1.0))), 30).get_epsilon(1e-5)
    assert rounded == pytest.approx(
        exact(relation).compose(poisson(0.03, gaussian(1.0)), 30).get_epsilon(1e-5)
    )
    assert exact(relation).compose(poisson(0.1, poisson(0.0, gaussian(1.0)))).get_epsilon(1e-5) == 0.0


def test_the_batch_of_a_sample_of_a_sample_has_the_law_of_one_sample():
    # Two records, all four pairs of coins each: the joint law is that of independent coins at the product.
    outer, inner = 0.3, 0.4
    law = dict.fromkeys(itertools.product((False, True), repeat=2), 0.0)
    for coins in itertools.product((False, True), repeat=4):
        probability = math.prod(
            rate if coin else 1.0 - rate for coin, rate in zip(coins, (outer, inner) * 2, strict=True)
        )
        law[coins[0] and coins[1], coins[2] and coins[3]] += probability
    for batch, probability in law.items():
        each = (outer * inner if member else 1.0 - outer * inner for member in batch)
        assert probability == pytest.approx(math.prod(each))
