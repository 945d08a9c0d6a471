"""Several examples of one person: their exact curve together, and users with their ids."""

import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant
from hockeystick.errors import WideIntervalWarning

FIXED = hs.WithoutReplacement(20, 1000)


def run(accountant, noise, draw, count, norms=None):
    if norms is not None:
        accountant.update_norms(norms)
    given = {"sample_rate": draw} if isinstance(draw, float) else {"sampling": draw}
    for _ in range(count):
        accountant.step(noise_multiplier=noise, **given)
    return accountant


def bounds(curve, delta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WideIntervalWarning)  # bounds all the same
        return curve.bounds(delta=delta)


FIRST = np.array([0.1, 0.5, 0.9, 1.0, 0.0, 0.25])
SECOND = np.array([0.4, 0.2, 1.0, 1.0, 0.3, 0.0])


@pytest.mark.parametrize("members", [[0, 1], [2, 0, 5], [1, 2, 3], [3, 2], [4, 0], [5, 4, 3, 2, 1, 0]])
@pytest.mark.parametrize("exact", [True, False])
def test_a_group_has_the_composition_of_its_curves(members, exact):
    accountant = run(IndividualAccountant(6, exact=exact), 1.2, 0.02, 200, FIRST)
    run(accountant, 1.2, 0.02, 100, SECOND)
    run(accountant, 3.0, 0.05, 40)
    total = None
    for noise, draw, count, norms in (
        (1.2, 0.02, 200, FIRST),
        (1.2, 0.02, 100, SECOND),
        (3.0, 0.05, 40, SECOND),
    ):
        seen = [norms[i] for i in members if norms[i] > 0]
        given = {"noise_multiplier": noise, "sample_rate": draw, "steps": count, "tolerance": 1e-9}
        part = hs.privacy_curve(group=hs.Group(norms=seen), **given)
        total = part if total is None else total + part
    for delta in (1e-3, 1e-5, 1e-9):
        lower, upper = bounds(total, delta)
        assert lower <= accountant.get_group_epsilon(members, delta) <= upper * (1 + 2e-6)
        assert accountant.get_group_epsilon(members[::-1], delta) == pytest.approx(
            accountant.get_group_epsilon(members, delta), rel=1e-12
        )


def test_full_batches_of_a_group_add_its_norms():
    accountant = run(IndividualAccountant(6), 20.0, hs.FullBatch(), 300, FIRST)
    exact = hs.privacy_curve(noise_multiplier=20.0 / 1.5, sampling=hs.FullBatch(), steps=300)
    lower, upper = bounds(exact, 1e-5)
    assert lower <= accountant.get_group_epsilon([0, 1, 2], 1e-5) <= upper * (1 + 4e-6)


def test_one_member_is_a_single_example_and_zero_norms_cost_nothing():
    accountant = run(IndividualAccountant(6), 1.2, 0.02, 300, FIRST)
    epsilons = accountant.get_epsilons(1e-5)
    for i in range(6):
        assert accountant.get_group_epsilon([i], 1e-5) == pytest.approx(epsilons[i], rel=1e-9)
    assert accountant.get_group_epsilon([1, 4], 1e-5) == pytest.approx(epsilons[1], rel=2e-6)
    silent = run(IndividualAccountant(3), 1.0, 0.1, 10, [0.0, 0.0, 1.0])
    assert silent.get_group_epsilon([0, 1], 1e-5) == 0.0


def test_a_group_is_at_least_its_members_and_at_most_as_many_full_norms():
    rng = np.random.default_rng(0)
    accountant = run(IndividualAccountant(40), 2.0, 0.02, 200, rng.uniform(0, 1, 40))
    run(accountant, 2.0, 0.02, 100, rng.uniform(0, 1, 40))
    epsilons = accountant.get_epsilons(1e-5)
    for size in (2, 5, 9, 20):
        members = rng.choice(40, size, replace=False)
        found = accountant.get_group_epsilon(members, 1e-5)
        full = hs.get_epsilon(noise_multiplier=2.0, sample_rate=0.02, steps=300, delta=1e-5, group_size=size)
        assert epsilons[members].max() * (1 - 1e-6) <= found <= full * (1 + 2e-6)


def test_large_groups_have_an_upper_bound_near_that_of_nearby_norms():
    norms = np.linspace(0.05, 0.95, 12)
    accountant = run(IndividualAccountant(12), 4.0, 0.01, 300, norms)
    found = accountant.get_group_epsilon(np.arange(12), 1e-5)
    given = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 300}
    # On grids of 1/64: below all norms, and above all.
    low, high = (
        hs.privacy_curve(group=hs.Group(norms=list(shift / 64)), **given)
        for shift in (np.floor(norms * 64), np.ceil(norms * 64))
    )
    assert bounds(low, 1e-5)[0] <= found <= bounds(high, 1e-5)[1] * (1 + 2e-6)


def test_equal_norms_of_a_large_group_are_not_rounded():
    accountant = run(IndividualAccountant(30), 4.0, 0.01, 300, np.full(30, 0.3))
    exact = hs.privacy_curve(noise_multiplier=4.0 / 0.3, sample_rate=0.01, steps=300, group_size=30)
    lower, upper = bounds(exact, 1e-5)
    assert lower <= accountant.get_group_epsilon(np.arange(30), 1e-5) <= upper * (1 + 4e-6)


@pytest.mark.parametrize("norms", [[0.1, 0.9, 0.4], [1.0, 1.0, 1.0], [0.5, 0.5, 0.5]])
def test_batches_of_a_fixed_size_count_every_member_with_the_full_norm(norms):
    accountant = run(IndividualAccountant(3), 4.0, FIXED, 100, norms)
    for size in (2, 3):
        full = hs.privacy_curve(noise_multiplier=4.0, sampling=FIXED, steps=100, group_size=size)
        lower, upper = bounds(full, 1e-5)
        assert lower <= accountant.get_group_epsilon(range(size), 1e-5) <= upper * (1 + 2e-6)


def test_members_with_zero_norm_count_in_batches_of_a_fixed_size():
    accountant = run(IndividualAccountant(40), 4.0, FIXED, 100, np.zeros(40))
    # Each of them in the batch pushes another example out: a mean moves by 1 for each, of 2 in the bound.
    least = hs.privacy_curve(noise_multiplier=8.0, sampling=FIXED, steps=100, group_size=40)
    assert accountant.get_group_epsilon(range(40), 1e-5) >= bounds(least, 1e-5)[0]


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ([], ValueError, "members"),
        ([0, 6], ValueError, "members.*6"),
        ([0, -1], ValueError, "members"),
        ([2, 2], ValueError, "members.*once"),
        ([0.5, 1], ValueError, "members"),
        (["a"], TypeError, "members"),
        ([[0, 1]], ValueError, "members"),
        (3, ValueError, "members"),
    ],
)
def test_bad_members_are_refused(members, error, message):
    with pytest.raises(error, match=message):
        run(IndividualAccountant(6), 1.0, 0.1, 2, FIRST).get_group_epsilon(members, 1e-5)


@pytest.mark.parametrize("kind", [str, int, float])
def test_users_have_the_epsilons_of_their_examples(kind):
    accountant = run(IndividualAccountant(6), 1.2, 0.02, 300, FIRST)
    ids = np.array([7, 30, 7, 100, 30, 7]).astype(kind)
    users, epsilons = accountant.get_user_epsilons(ids, 1e-5)
    assert users.tolist() == sorted(set(ids.tolist()))
    for user, epsilon in zip(users, epsilons, strict=True):
        members = np.flatnonzero(ids == user)
        assert epsilon == pytest.approx(accountant.get_group_epsilon(members, 1e-5), rel=1e-9)


def test_users_with_one_example_each_have_theirs():
    accountant = run(IndividualAccountant(6), 1.2, 0.02, 300, FIRST)
    users, epsilons = accountant.get_user_epsilons(list("fbdace"), 1e-5)
    assert users.tolist() == list("abcdef")
    order = [3, 1, 4, 2, 5, 0]
    np.testing.assert_array_equal(epsilons, accountant.get_epsilons(1e-5)[order])


def test_progress_is_told_of_every_user_with_several_examples():
    accountant, seen = run(IndividualAccountant(6), 1.2, 0.02, 5, FIRST), []
    accountant.get_user_epsilons(list("aabbcd"), 1e-5, progress=lambda *done: seen.append(done))
    assert seen[-1] == (2, 2)


@pytest.mark.parametrize("ids", [["a"] * 5, [["a"] * 6], "abcdef", 3])
def test_every_example_needs_one_id(ids):
    with pytest.raises(ValueError, match="user_ids"):
        IndividualAccountant(6).get_user_epsilons(ids, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, float("nan")])
def test_delta_is_checked_by_every_question(delta):
    accountant = run(IndividualAccountant(6), 1.2, 0.02, 5, FIRST)
    for ask in (
        accountant.get_epsilon,
        accountant.get_epsilons,
        lambda delta: accountant.get_group_epsilon([0, 1], delta),
        lambda delta: accountant.get_group_epsilon([0], delta),
        lambda delta: accountant.get_user_epsilons(list("aabbcd"), delta),
        lambda delta: accountant.get_user_epsilons(list("abcdef"), delta),
    ):
        with pytest.raises(ValueError, match="delta"):
            ask(delta)


@pytest.mark.parametrize("exact", [True, False])
def test_users_with_one_example_each_get_the_epsilon_of_their_own(exact):
    accountant = IndividualAccountant(3, exact=exact)
    accountant.update_norms([0.1, 0.9, 0.5])
    for _ in range(100):
        accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    accountant.update_norms([0.2, 0.2, 0.2])  # the accounts have all steps now
    epsilons = accountant.get_epsilons(1e-5)
    users, found = accountant.get_user_epsilons(["c", "a", "b"], 1e-5)
    assert users.tolist() == ["a", "b", "c"]
    assert found.tolist() == epsilons[[1, 2, 0]].tolist()
    assert len(set(found.tolist())) == 3
