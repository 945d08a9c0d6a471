"""Clipped units kept by coins where several units of a round hold members of a group."""

import json
import math
from itertools import combinations, product

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import ShuffleAccountant
from hockeystick.opacus import BatchClippingOptimizer
from hockeystick.shuffle._filtering import filtered_history
from hockeystick.shuffle._membership import check_plan

SIGMA = 1.3


def density(x, centre, sigma):
    return np.exp(-0.5 * ((x - centre) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))


def patterns(records, batch, units, members):
    """Units with members of every round of an epoch, by every placement of the members."""
    slots = batch // units
    choices = list(combinations(range(records), members))
    for chosen in choices:
        hit = {position // slots for position in chosen}
        rounds = [sum(unit // units == r for unit in hit) for r in range(records // batch)]
        yield rounds, 1.0 / len(choices)


def round_law(x, updates, sigma):
    """Density of a round: every unit with members is there with probability 1/2."""
    sums = [sum(u for u, coin in zip(updates, coins, strict=True) if coin) for coins in
            product((0, 1), repeat=len(updates))]  # fmt: skip
    return sum(density(x, total, sigma) for total in sums) / len(sums)


def divergence(one, other, order, width):
    """Hockey-stick divergence of products of two densities each."""
    outer = np.outer(*one) - order * np.outer(*other)
    return float(np.maximum(outer, 0.0).sum() * width**2)


def exact(records, batch, units, members, epsilon, sigma, first=None, second=None):
    """Delta of an epoch of two rounds, for updates of the units with members in the two data sets."""
    reach = 9.0 * sigma + members
    x, width = np.linspace(-reach, reach, 3001, retstep=True)
    found = {}
    for rounds, probability in patterns(records, batch, units, members):
        found[tuple(sorted(rounds))] = found.get(tuple(sorted(rounds)), 0.0) + probability
    total = 0.0
    for rounds, probability in found.items():
        one, other = [], []
        for k in rounds:
            one.append(round_law(x, (first or [1.0] * members)[:k], sigma))
            other.append(round_law(x, (second or [-1.0] * members)[:k], sigma))
        total += probability * divergence(one, other, math.exp(epsilon), width)
    return total


CASES = [(4, 2, 2, 2), (6, 3, 3, 3), (8, 4, 2, 3), (7, 3, 3, 2)]
"""Records, batch size, units and members: individual and mixed clipping; the last leaves a record over."""


def how(records, batch, units, members):
    return hs.Shuffle(batch, records), {
        "group_size": members, "clipping": "mixed", "units_per_batch": units,
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.6, 1.5])
def test_groups_by_the_definition(case, epsilon):
    sampling, settings = how(*case)
    run = hs.shuffle.filtered(sampling, noise_multiplier=SIGMA, **settings)
    assert run.delta(epsilon) == pytest.approx(exact(*case, epsilon, SIGMA), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:3])
def test_no_updates_exceed_the_bound(case):
    sampling, settings = how(*case)
    run = hs.shuffle.filtered(sampling, noise_multiplier=SIGMA, **settings)
    random = np.random.default_rng(5)
    bounds = {epsilon: run.delta(epsilon) for epsilon in (0.0, 0.8)}
    for _ in range(6):
        first, second = random.choice([-1.0, 1.0, 0.3], size=(2, case[3])).tolist()
        for epsilon, bound in bounds.items():
            assert exact(*case, epsilon, SIGMA, first, second) <= bound * (1.0 + 1e-5)


def test_half_of_the_shift_is_not_enough():
    sampling, settings = how(*CASES[1])
    weak = hs.shuffle.filtered(sampling, noise_multiplier=2.0 * SIGMA, **settings)
    assert weak.delta(0.6) < 0.5 * exact(*CASES[1], 0.6, SIGMA)


def test_one_record_and_batch_clipping_are_special_cases():
    one = hs.shuffle.filtered(hs.Shuffle(5, 50), noise_multiplier=4.0, epochs=7)
    curve = hs.privacy_curve(noise_multiplier=4.0, sample_rate=0.5, steps=7, adjacency="replace")
    assert one.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=3e-6)
    # Members that hardly ever share a round: as in batch clipping, where they then hardly share a batch.
    sparse = hs.Shuffle(2, 20_000)
    single = hs.shuffle.filtered(sparse, noise_multiplier=4.0, epochs=3, group_size=2)
    whole = hs.shuffle.filtered(sparse, noise_multiplier=4.0, epochs=3, group_size=2, clipping="batch")
    assert single.delta(0.5) == pytest.approx(whole.delta(0.5), rel=1e-3)
    assert single.delta(0.5) > whole.delta(0.5)


def test_every_member_in_one_round_is_a_replaced_group_at_one_half():
    run = hs.shuffle.filtered(hs.Shuffle(20, 20), noise_multiplier=8.0, epochs=5, group_size=4)
    curve = hs.privacy_curve(
        noise_multiplier=8.0, sample_rate=0.5, steps=5, group_size=4, adjacency="replace"
    )
    assert run.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=3e-6)


@pytest.mark.parametrize("sampling", [hs.Shuffle(10, 100), hs.WithoutReplacement(10, 100)])
def test_who_does_not_see_the_coins_learns_less(sampling):
    run = hs.shuffle.filtered(sampling, noise_multiplier=20.0, epochs=2, group_size=4)
    whole = hs.shuffle.tradeoff(sampling, noise_multiplier=20.0, epochs=2, group_size=4)
    assert run.delta(0.1) < whole.delta(0.1)
    # With much noise, keeping half of the units is worth half of the noise.
    half = hs.shuffle.tradeoff(sampling, noise_multiplier=40.0, epochs=2, group_size=4)
    assert run.epsilon(1e-3) == pytest.approx(half.epsilon(1e-3), rel=0.1)


def test_patterns_that_are_put_together_cost_little(monkeypatch):
    sampling = hs.Shuffle(100, 5000)
    how_many = {"noise_multiplier": 20.0, "epochs": 10, "group_size": 4}
    found = hs.shuffle.filtered(sampling, **how_many)
    monkeypatch.setattr("hockeystick.shuffle._patterns.MOST_PATTERNS", 2000)
    exact_run = hs.shuffle.filtered(sampling, **how_many)
    assert found.rounds.probabilities.size <= 192 < exact_run.rounds.probabilities.size
    assert exact_run.delta(0.5) <= found.delta(0.5) <= 1.05 * exact_run.delta(0.5)


def test_groups_have_at_most_16_records():
    with pytest.raises(ValueError, match="group_size must be at most 16"):
        hs.shuffle.filtered(hs.Shuffle(50, 100), noise_multiplier=4.0, group_size=17)


# The accountant


def test_the_accountant_answers_as_the_run():
    accountant = ShuffleAccountant(10, 100, group_size=3, filtered=True)
    accountant.step(noise_multiplier=20.0, sample_rate=0.1, steps=20)
    run = hs.shuffle.filtered(hs.Shuffle(10, 100), noise_multiplier=20.0, epochs=2, group_size=3)
    assert accountant.get_epsilon(1e-5) == run.epsilon(1e-5)
    assert accountant.get_delta(0.3) == run.delta(0.3)
    assert "without the coins that keep units" in str(accountant)
    plain = ShuffleAccountant(10, 100, group_size=3)
    plain.step(noise_multiplier=20.0, sample_rate=0.1, steps=20)
    assert accountant.get_epsilon(1e-5) < 0.6 * plain.get_epsilon(1e-5)


@pytest.mark.parametrize("group_size", [1, 3])
def test_a_part_of_an_epoch_counts_by_its_rounds(group_size):
    accountant = ShuffleAccountant(10, 100, group_size=group_size, filtered=True)
    assert accountant.get_epsilon(1e-5) == 0.0
    found = []
    for steps in (3, 7, 2, 8):
        accountant.step(noise_multiplier=10.0, sample_rate=0.1, steps=steps)
        found.append(accountant.get_delta(0.2))
    assert 0.0 < found[0] < found[1] < found[2] < found[3]
    plan = check_plan(hs.Shuffle(10, 100), 1, group_size, "individual", None)
    assert found[0] == filtered_history(plan, 10.0, 3).delta(0.2)
    # The smallest noise multiplier counts.
    accountant.step(noise_multiplier=5.0, sample_rate=0.1)
    least = accountant.get_delta(0.2)
    assert least == filtered_history(plan, 5.0, 21).delta(0.2)
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf
    assert accountant.get_delta(0.2) == 1.0


def test_the_state_says_that_units_are_kept_by_coins():
    accountant = ShuffleAccountant(10, 100, group_size=3, filtered=True)
    accountant.step(noise_multiplier=20.0, sample_rate=0.1)
    state = json.loads(json.dumps(accountant.state_dict()))
    other = ShuffleAccountant(10, 100, group_size=3, filtered=True)
    other.load_state_dict(state)
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    plain = ShuffleAccountant(10, 100, group_size=3)
    with pytest.raises(ValueError, match="filtered"):
        plain.load_state_dict(state)
    assert "filtered" not in plain.state_dict()["settings"]


def test_what_keeps_all_units_refuses_the_accountant():
    accountant = ShuffleAccountant(10, 100, clipping="batch", filtered=True)
    with pytest.raises(hs.UnsupportedError, match="get_epsilon and get_delta"):
        accountant.tradeoff_curve()
    with pytest.raises(hs.UnsupportedError, match="kept with probability 1/2"):
        accountant.require_all_units("this loop keeps")
    ShuffleAccountant(10, 100).require_all_units("this loop keeps")
    with pytest.raises(TypeError, match="filtered"):
        ShuffleAccountant(10, 100, filtered=1)
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    with pytest.raises(hs.UnsupportedError, match="BatchClippingOptimizer keeps all of them"):
        BatchClippingOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0,
            accountant=accountant, sampling=hs.Shuffle(10, 100),
        )  # fmt: skip


# Training


def trained(accountant=None, **changes):
    data = np.random.default_rng(1).normal(30.0, 1.0, size=(40, 1))
    settings = {
        "dataset_size": 40, "batch_size": 8, "epochs": 3, "max_grad_norm": 1.0, "noise_multiplier": 0.0,
        "learning_rate": 1.0, "seed": 3, "sampling": "shuffle", "filtered": True, "accountant": accountant,
    }  # fmt: skip
    return training.train(lambda weights, indices: weights - data[indices], [0.0], **settings | changes)[0]


@pytest.mark.parametrize("units", [None, 4, 1])
def test_training_keeps_half_of_the_units(units):
    """Far from the optimum every unit moves by 1: the steps count the units that were kept."""
    seen = []

    def keep(step, weights):
        seen.append(float(weights[0]))
        return np.zeros(1)

    trained(units=units, epochs=400, postprocess=keep)
    number = 8 if units is None else units
    kept = np.array(seen) * 0.5 * number
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-9)
    counts = np.bincount(np.round(kept).astype(int), minlength=number + 1) / kept.size
    expected = np.array([math.comb(number, k) for k in range(number + 1)]) / 2.0**number
    np.testing.assert_allclose(counts, expected, atol=4.0 * 0.5 / math.sqrt(kept.size))


def test_training_accounts_for_the_coins():
    accountant = ShuffleAccountant(8, 40, group_size=2, filtered=True)
    trained(accountant, noise_multiplier=10.0)
    run = hs.shuffle.filtered(hs.Shuffle(8, 40), noise_multiplier=10.0, epochs=3, group_size=2)
    assert accountant.get_epsilon(1e-5) == run.epsilon(1e-5)
    with pytest.raises(ValueError, match=r"accountant\.filtered must be True"):
        trained(ShuffleAccountant(8, 40))
    with pytest.raises(ValueError, match=r"accountant\.filtered must be False"):
        trained(ShuffleAccountant(8, 40, filtered=True), filtered=False)
    for sampling in ("poisson", "subsample"):
        with pytest.raises(ValueError, match="filtered must be False"):
            trained(sampling=sampling)
    with pytest.raises(TypeError, match="filtered"):
        trained(filtered=1)
