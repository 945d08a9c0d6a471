"""Several Poisson batches under one noise: a record is in a binomial number of them."""

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from nightly import some

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    IndividualFilter,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

DELTA = 1e-5
THREE = hs.Poisson(0.1, microbatches=3)
RUN = {"noise_multiplier": 1.0, "steps": 3}


def one_step_delta(epsilon, noise, members, direction):
    """Delta of one step by integration: `members` are (rate, norm) of every record of every batch.

    The sum moves by the norms of those that are drawn, each on its own; all of them point the same way.
    """
    law = {0.0: mpmath.mpf(1)}
    for rate, norm in members:
        new = {}
        for shift, weight in law.items():
            for moved, part in ((shift, 1 - mpmath.mpf(rate)), (shift + norm, mpmath.mpf(rate))):
                new[moved] = new.get(moved, 0) + weight * part
        law = new

    def mixture(x):
        return sum(weight * mpmath.npdf(x, shift, noise) for shift, weight in law.items())

    def plain(x):
        return mpmath.npdf(x, 0, noise)

    upper, lower = (mixture, plain) if direction == "remove" else (plain, mixture)
    factor = mpmath.exp(epsilon)
    ends = [-12 * noise + i * noise / 2 for i in range(49 + int(2 * sum(n for _, n in members) / noise))]
    # The ratio is monotone: the difference changes its sign once.
    for left, right in itertools.pairwise(ends):
        a, b = (upper(x) - factor * lower(x) for x in (left, right))
        if a * b < 0:
            ends.append(
                mpmath.findroot(
                    lambda x: mixture(x) / plain(x) - (factor if direction == "remove" else 1 / factor),
                    (left, right),
                    solver="anderson",
                )
            )
    total = mpmath.quad(lambda x: max(upper(x) - factor * lower(x), 0), sorted(ends))
    return float(total)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    ("members", "whose"),
    some(
        [
            ([(0.1, 1.0)] * 6, {"group_size": 2}),
            ([(0.1, 1.0)] * 3, {}),
            ([(0.1, 1.0), (0.1, 0.5)] * 3, {"group": hs.Group(norms=[1.0, 0.5])}),
            ([(0.2, 1.0), (0.05, 1.0)] * 3, {"group": hs.Group(rates=[0.2, 0.05])}),
        ]
    ),
)
def test_the_law_is_that_of_every_member_in_every_batch(members, whose, direction):
    found = hs.get_delta(
        epsilon=0.5, noise_multiplier=0.9, sampling=THREE, steps=1, adjacency=direction, bounds=True, **whose
    )
    truth = one_step_delta(0.5, 0.9, members, direction)
    assert found[0] * (1 - 1e-9) <= truth <= found[1] * (1 + 1e-9)
    assert found[1] <= found[0] * (1 + 1e-4)


def test_a_rate_that_is_three_times_as_high_understates():
    exact = hs.get_epsilon(delta=DELTA, sampling=THREE, **RUN)
    assert exact == hs.get_epsilon(delta=DELTA, sample_rate=0.1, group_size=3, **RUN)
    assert exact == pytest.approx(7.003, abs=1e-3)
    assert hs.get_epsilon(delta=DELTA, sample_rate=0.3, **RUN) == pytest.approx(4.278, abs=1e-3)


def test_the_scheme_checks_and_shows_its_arguments():
    assert repr(hs.Poisson(0.1)) == "Poisson(sample_rate=0.1)"
    assert repr(THREE) == "Poisson(sample_rate=0.1, microbatches=3)"
    assert hs.Poisson(0.1, microbatches=1) == hs.Poisson(0.1)
    for wrong in (0, -1, 1.5, 10_001):
        with pytest.raises(ValueError, match="microbatches must be a whole number in"):
            hs.Poisson(0.1, microbatches=wrong)
    with pytest.raises(TypeError, match="microbatches"):
        hs.Poisson(0.1, microbatches="3")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"adjacency": "replace"}, "adjacency='add_remove', 'add' or 'remove', or microbatches=1"),
        ({"group": hs.Group(2, gradients="orthogonal")}, "gradients='aligned', an upper bound"),
        ({"group": hs.Group(2, cosine=0.5)}, "gradients='aligned', an upper bound"),
    ],
)
def test_what_has_no_proven_pair_is_refused_with_advice(arguments, words):
    with pytest.raises(hs.UnsupportedError, match=words):
        hs.get_epsilon(delta=DELTA, sampling=THREE, **RUN, **arguments)
    accountant = GroupAccountant(**arguments)
    with pytest.raises(hs.UnsupportedError, match=words):
        accountant.step(noise_multiplier=1.0, sampling=THREE)
    assert accountant.history == []


def test_a_group_with_more_copies_than_a_group_may_have_is_refused():
    many = hs.Poisson(0.1, microbatches=5_000)
    with pytest.raises(
        ValueError, match="group_size times microbatches must be at most 10000, got 3 times 5000"
    ):
        hs.get_epsilon(delta=DELTA, sampling=many, group_size=3, **RUN)
    accountant = MonteCarloAccountant(group_size=3)
    with pytest.raises(ValueError, match="group_size times microbatches"):
        accountant.step(noise_multiplier=1.0, sampling=many)
    assert accountant.history == []


def test_the_other_unknowns():
    noise = hs.get_noise_multiplier(epsilon=3.0, delta=DELTA, sampling=THREE, steps=3)
    assert noise == hs.get_noise_multiplier(epsilon=3.0, delta=DELTA, sample_rate=0.1, group_size=3, steps=3)
    steps = hs.get_steps(epsilon=30.0, delta=DELTA, noise_multiplier=1.0, sampling=THREE)
    assert steps == hs.get_steps(
        epsilon=30.0, delta=DELTA, noise_multiplier=1.0, sample_rate=0.1, group_size=3
    )
    size = hs.get_group_size(epsilon=30.0, delta=DELTA, sampling=THREE, **RUN)
    assert size >= 2
    epsilons = hs.get_epsilon(delta=DELTA, sampling=THREE, group_size=[size, size + 1], **RUN)
    assert (epsilons <= 30.0).tolist() == [True, False]
    assert hs.get_group_size(epsilon=30.0, delta=DELTA, sampling=THREE, bounds=True, **RUN) == (
        size,
        size + 1,
    )
    with pytest.raises(hs.UnreachableError, match="one record in 3 accumulated batches misses it"):
        hs.get_group_size(epsilon=5.0, delta=DELTA, sampling=THREE, **RUN)
    box = hs.black_box.get_epsilon(delta=DELTA, sampling=THREE, group_size=2, **RUN)
    assert box == hs.black_box.get_epsilon(delta=DELTA, sample_rate=0.1, group_size=6, **RUN)


@pytest.mark.long
def test_a_curve_knows_its_records_from_its_batches(tmp_path):
    curve = hs.privacy_curve(sampling=THREE, group_size=2, **RUN)
    assert "Poisson(0.1) of 3 batches" in str(curve)
    assert "2 records" in str(curve)
    table = hs.explain(delta=DELTA, sampling=THREE, group_size=2, **RUN)
    assert "a group of 2 records" in table["statement"]
    assert table["sampling"] == repr(THREE)
    assert table["other_schemes"][0]["epsilon"] == pytest.approx(table["epsilon"], rel=1e-3)
    json.dumps(table)
    from hockeystick._guarantees.recorded_run import RecordedRun

    run = RecordedRun.of_curve(curve)
    assert (run.group_size, run.segments) == (2, ((1.0, THREE, 3),))
    for group in (hs.Group(rates=[0.2, 0.05]), hs.Group(norms=[1.0, 0.5])):
        found = RecordedRun.of_curve(hs.privacy_curve(sampling=THREE, group=group, **RUN))
        assert found.group == group
        assert found.curve() == hs.privacy_curve(sampling=THREE, group=group, **RUN)
    assert run.for_group(4).curve().epsilon(DELTA) == hs.get_epsilon(
        delta=DELTA, sample_rate=0.1, group_size=12, **RUN
    )
    rates = hs.privacy_curve(sampling=THREE, group=hs.Group(rates=[0.2, 0.05]), **RUN)
    for number, whose in enumerate((curve, rates)):
        page = hs.report(whose, tmp_path / f"{number}.html", delta=DELTA, pictures=False).read_text()
        # In the code that makes the same number.
        assert "sampling=hs.Poisson(sample_rate=" in page
        assert "microbatches=3)" in page


@pytest.mark.parametrize(
    "make",
    [
        lambda k: GroupAccountant(k),
        lambda k: RenyiGroupAccountant(k),
        lambda k: RenyiGroupAccountant(k, bound="jensen", orders=[1.1, 1.5, 2.0, 4.0, 64.0]),
        lambda k: MonteCarloAccountant(k, samples=5_000),
    ],
    ids=["exact", "renyi", "jensen", "monte carlo"],
)
def test_accountants_take_and_keep_such_steps(make):
    accountant = make(2)
    for _ in range(3):
        accountant.step(noise_multiplier=1.0, sampling=THREE)
    assert accountant.history == [(1.0, THREE, 3)]
    six = make(6)
    six.history = [(1.0, 0.1, 3)]
    assert accountant.get_epsilon(DELTA) == pytest.approx(six.get_epsilon(DELTA), rel=1e-12)
    restored = make(2)
    restored.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert restored.history == accountant.history
    # Steps of both kinds in one run lose more than those of one, and no less than the exact answer.
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    both = hs.privacy_curve(sampling=THREE, group_size=2, **RUN) + hs.privacy_curve(
        noise_multiplier=1.0, sample_rate=0.1, steps=1, group_size=2
    )
    assert accountant.get_epsilon(DELTA) >= both.bounds(delta=DELTA)[0]
    assert accountant.get_epsilon(DELTA) > six.get_epsilon(DELTA)
    if not isinstance(accountant, GroupAccountant):
        with pytest.raises(hs.UnsupportedError, match="GroupAccountant"):
            accountant.step(noise_multiplier=1.0, sampling=hs.Poisson(0.1, max_batch_size=9, dataset_size=30))


def test_renyi_of_both_kinds_of_steps_is_the_sum():
    accountant = RenyiGroupAccountant(2)
    accountant.history = [(1.0, THREE, 3), (1.5, 0.2, 5)]
    parts = RenyiGroupAccountant(6), RenyiGroupAccountant(2)
    parts[0].history, parts[1].history = [(1.0, 0.1, 3)], [(1.5, 0.2, 5)]
    orders = [1.5, 4.0, 30.0]
    np.testing.assert_allclose(
        accountant.get_renyi(orders), sum(part.get_renyi(orders) for part in parts), rtol=1e-12
    )
    best = accountant.get_epsilon(DELTA)
    fine = RenyiGroupAccountant(2, orders=1.0 + np.geomspace(1e-2, 100.0, 2_000))
    fine.history = accountant.history
    assert fine.get_epsilon(DELTA) <= best * (1 + 1e-12)
    assert best <= fine.get_epsilon(DELTA) * (1 + 1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_individual_accounts_bound_examples_in_several_batches(exact):
    accountant = IndividualAccountant(3, exact=exact)
    accountant.update_norms([1.0, 0.5, 0.0])
    for _ in range(3):
        accountant.update_norms([1.0, 0.5, 0.0])
        accountant.step(noise_multiplier=1.0, sampling=THREE)
    assert (len(accountant), accountant.is_guarantee) == (3, True)
    epsilons = accountant.get_epsilons(DELTA)
    worst = hs.get_epsilon(delta=DELTA, sampling=THREE, **RUN)
    assert accountant.get_epsilon(DELTA) == epsilons[0] == worst
    half = hs.get_epsilon(delta=DELTA, noise_multiplier=2.0, sampling=THREE, steps=3, bounds=True)
    assert half[0] <= epsilons[1] < worst
    assert epsilons[2] < 1e-6
    restored = IndividualAccountant(3, exact=exact)
    restored.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    np.testing.assert_array_equal(restored.get_epsilons(DELTA), epsilons)


def test_accounts_that_do_not_cover_such_steps_refuse_them_by_name():
    some = IndividualFilter(epsilon=3.0, delta=DELTA)
    with pytest.raises(hs.UnsupportedError, match=r"microbatches=3.* is|microbatches=3.*microbatches=1"):
        some.step([0.5], noise_multiplier=1.0, sampling=THREE)
    shuffled = ShuffleAccountant(10, 100)
    with pytest.raises(hs.UnsupportedError, match=r"does not cover a step after 2 of them.*Shuffle\(20"):
        shuffled._accumulated(1.0, 0.1, 2)
    assert len(shuffled) == 0


def test_composed_parts_of_the_noise_are_a_looser_bound():
    exact = hs.get_epsilon(
        delta=DELTA, sampling=hs.Poisson(0.01, microbatches=4), noise_multiplier=1.0, steps=1000
    )
    parts = hs.get_epsilon(delta=DELTA, sample_rate=0.01, noise_multiplier=1 / math.sqrt(4), steps=4000)
    assert exact == pytest.approx(8.899, abs=1e-3)
    assert parts == pytest.approx(25.64, abs=1e-2)
