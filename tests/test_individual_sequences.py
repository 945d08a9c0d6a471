"""Random sequences of norms, steps, merges and checkpoints: shards beside one accountant of all examples."""

import json

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant

SIZES = (2, 1, 4)
KINDS = (
    {"noise_multiplier": 1.0, "sample_rate": 0.05},
    {"noise_multiplier": 2.0, "sample_rate": 0.05},
    {"noise_multiplier": 3.0, "sampling": hs.WithoutReplacement(5, 100)},
    {"noise_multiplier": 1.5, "sampling": hs.Poisson(0.02, microbatches=2)},
)


def saved_and_loaded(accountant):
    state = json.loads(json.dumps(accountant.state_dict()))
    loaded = IndividualAccountant(**state["settings"])
    loaded.load_state_dict(state)
    return loaded


def sequence(seed, exact, together=False):
    """One accountant of all examples, and one that shards were merged into, after the same operations.

    With `together`, all shards get their norms before the same steps, but for the last ones.
    """
    random = np.random.default_rng(seed)
    settings = {"exact": exact, "orders": [1.5, 4.0, 16.0]}
    whole = IndividualAccountant(sum(SIZES), **settings)
    shards = [IndividualAccountant(size, **settings) for size in SIZES]
    for _ in range(14):
        operation = random.integers(6)
        if operation <= 1:
            for chosen in range(len(shards)) if together else [int(random.integers(len(shards)))]:
                start = sum(shard.dataset_size for shard in shards[:chosen])
                places = np.flatnonzero(random.random(shards[chosen].dataset_size) < 0.7)
                norms = random.uniform(0.0, 1.3, len(places))
                shards[chosen].update_norms(norms, places)
                whole.update_norms(norms, start + places)
        elif operation <= 3:
            kind, count = KINDS[random.integers(len(KINDS))], int(random.integers(1, 30))
            for accountant in (whole, *shards):
                for _ in range(count):
                    accountant.step(**kind)
        elif operation == 4 and len(shards) > 1:
            shards[0].merge(shards.pop(1))
        else:
            chosen = int(random.integers(len(shards)))
            shards[chosen] = saved_and_loaded(shards[chosen])
            shards[chosen].get_epsilons(1e-5)  # a question changes nothing
    # The last shard has new norms that no step has used.
    size = shards[-1].dataset_size
    shards[-1].update_norms(np.full(size, 1.0))
    whole.update_norms(np.full(size, 1.0), np.arange(whole.dataset_size - size, whole.dataset_size))
    for other in shards[1:]:
        shards[0].merge(other)
    for accountant in (whole, shards[0]):
        for _ in range(20):
            accountant.step(**KINDS[0])
    return whole, shards[0]


def seeds(count, slow):
    return [pytest.param(seed, marks=pytest.mark.slow) if seed in slow else seed for seed in range(count)]


@pytest.mark.parametrize("seed", range(25))
def test_renyi_accounts_of_shards_are_those_of_one_accountant(seed):
    whole, merged = sequence(seed, exact=False)
    # Steps are added up in other portions where norms were refreshed at other steps.
    np.testing.assert_allclose(merged.get_rdp(), whole.get_rdp(), rtol=1e-13)
    np.testing.assert_array_equal(merged.norms, whole.norms)
    np.testing.assert_allclose(merged.get_epsilons(1e-5), whole.get_epsilons(1e-5), rtol=1e-12)
    assert merged.history == whole.history
    assert merged.is_guarantee == whole.is_guarantee


@pytest.mark.parametrize("seed", seeds(10, slow={5}))
def test_exact_epsilons_of_shards_are_never_below_those_of_one_accountant(seed):
    whole, merged = sequence(seed, exact=True)
    ours, expected = merged.get_epsilons(1e-5), whole.get_epsilons(1e-5)
    # Shards whose norms were refreshed at different steps keep the largest norms for groups.
    assert np.all(ours >= expected * (1.0 - 1e-9))
    assert np.all(ours <= whole.get_epsilon(1e-5))
    group = [0, 2, 5]
    assert merged.get_group_epsilon(group, 1e-5) >= whole.get_group_epsilon(group, 1e-5) * (1.0 - 1e-5)


@pytest.mark.parametrize("seed", seeds(10, slow={1, 5, 8, 9}))
def test_groups_of_shards_with_norms_from_the_same_steps_are_those_of_one_accountant(seed):
    whole, merged = sequence(seed, exact=True, together=True)
    for group in ([0, 2, 5], [3, 6], [1, 2]):
        expected = whole.get_group_epsilon(group, 1e-5)
        assert merged.get_group_epsilon(group, 1e-5) == pytest.approx(expected, rel=1e-5)
    assert merged.get_epsilons(1e-5) == pytest.approx(whole.get_epsilons(1e-5), rel=1e-8)
