"""Shards of a run as one, and accountants saved and read back: the same bits, or an error and no change."""

import base64
import itertools
import json
import zlib

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant
from hockeystick.accountants._individual import norm_history

RNG = np.random.default_rng(0)
NORMS = RNG.uniform(0.3, 1.1, (3, 30))
NORMS[:, 3], NORMS[:, 7] = 0.0, 1.0
SEGMENTS = [(1.2, 0.02, 60), (1.5, 0.05, 30), (6.0, hs.FullBatch(), 5)]


def step(accountant, segment):
    noise, draw, count = segment
    given = {"sample_rate": draw} if isinstance(draw, float) else {"sampling": draw}
    for _ in range(count):
        accountant.step(noise_multiplier=noise, **given)


def trained(exact=True, part=slice(None), whole=True, **settings):
    """An accountant after the run; of `part` of the examples, as a whole data set or as one of these only."""
    indices = np.arange(30)[part]
    accountant = IndividualAccountant(30 if whole else len(indices), exact=exact, **settings)
    for norms, segment in zip(NORMS, SEGMENTS, strict=True):
        accountant.update_norms(norms[part], indices if whole else None)
        step(accountant, segment)
    return accountant


def answers(accountant):
    group = list(range(2, min(6, accountant.dataset_size)))
    epsilons = [accountant.get_epsilons(delta).tobytes() for delta in (1e-3, 1e-8)]
    rdp = b"" if accountant.exact else accountant.get_rdp().tobytes()
    return [*epsilons, rdp, accountant.get_group_epsilon(group, 1e-5), accountant.is_guarantee]


def saved(accountant):
    return json.loads(json.dumps(accountant.state_dict()))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("cuts", [(15,), (20, 29)])
def test_shards_together_are_the_run(exact, whole, cuts):
    edges = [0, *cuts, 30]
    shards = [trained(exact, slice(a, b), whole) for a, b in itertools.pairwise(edges)]
    others = [saved(shard) for shard in shards[1:]]
    total = shards[0]
    for shard in shards[1:]:
        assert total.merge(shard) is total
    assert answers(total) == answers(trained(exact))
    np.testing.assert_array_equal(total.norms, np.minimum(NORMS[-1], 1.0))
    assert [saved(shard) for shard in shards[1:]] == others
    for accountant in (total, whole_run := trained(exact)):
        accountant.update_norms(NORMS[0])
        step(accountant, SEGMENTS[1])
    assert answers(total) == answers(whole_run)


def test_the_epsilon_of_an_example_does_not_depend_on_the_others():
    whole = trained().get_epsilons(1e-5)
    for part in (slice(0, 1), slice(2, 9), slice(8, 30)):
        assert trained(part=part, whole=False).get_epsilons(1e-5).tobytes() == whole[part].tobytes()


@pytest.mark.parametrize("exact", [pytest.param(True, marks=pytest.mark.slow), False])
def test_shards_of_the_whole_data_set_merge_in_any_order(exact):
    parts = [slice(None, None, 3), slice(1, None, 3), slice(2, None, 3)]
    found = []
    for order in ((0, 1, 2), (2, 0, 1)):
        first, second, third = (trained(exact, parts[i]) for i in order)
        found += [answers(first.merge(second).merge(third))]
        first, second, third = (trained(exact, parts[i]) for i in order)
        found += [answers(first.merge(second.merge(third)))]
    expected = answers(trained(exact))
    assert all(one == expected for one in found)


def test_examples_that_no_shard_knows_have_the_full_norm():
    merged = trained(part=slice(0, 5)).merge(trained(part=slice(5, 9)))
    assert merged.dataset_size == 30
    np.testing.assert_array_equal(merged.norms[9:], 1.0)
    np.testing.assert_array_equal(merged.get_epsilons(1e-5)[9:], merged.get_epsilon(1e-5))


@pytest.mark.parametrize("exact", [pytest.param(True, marks=pytest.mark.slow), False])
def test_the_second_shard_may_be_the_larger_one(exact):
    merged = trained(exact, slice(0, 3), False).merge(trained(exact, slice(3, 30), False))
    assert answers(merged) == answers(trained(exact))


def test_shards_with_a_guarantee_make_one_and_an_estimate_makes_an_estimate():
    shards = [IndividualAccountant(2) for _ in range(3)]
    for _ in range(2):
        for shard in shards:
            shard.update_norms([0.1, 0.2])
            step(shard, (1.0, 0.1, 1))
            assert shard.is_guarantee
    assert shards[0].merge(shards[1]).is_guarantee


def test_questions_change_neither_what_merges_nor_any_answer():
    asked, silent, other = (IndividualAccountant(2) for _ in range(3))
    for accountant in (asked, silent, other):
        accountant.update_norms([0.1, 0.2])
        for _ in range(3):
            step(accountant, (1.0, 0.1, 1))
            if accountant is asked:
                accountant.get_epsilons(1e-5)
    assert saved(asked.merge(other)) == saved(silent.merge(other))


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (lambda: trained(part=slice(10, 20)), ValueError, "example 10"),
        (lambda: trained(part=slice(15, 30), exact=False), ValueError, "exact"),
        (lambda: trained(part=slice(15, 30), max_grad_norm=2.0), ValueError, "max_grad_norm"),
        (lambda: trained(part=slice(15, 30), rounding=0.01), ValueError, "rounding"),
        (lambda: trained(part=slice(15, 30), orders=[2.0]), ValueError, "orders"),
        (lambda: trained(part=slice(15, 30), individual_clipping=True), ValueError, "individual_clipping"),
        (lambda: IndividualAccountant(30), ValueError, "history"),
        (lambda: "shard", TypeError, "other"),
        (lambda: trained(part=slice(15, 30)).state_dict(), TypeError, "other"),
    ],
)
def test_shards_that_do_not_fit_are_refused_and_stay_as_they_were(other, error, message):
    one, other = trained(part=slice(0, 15)), other()
    before = saved(one), None if error is TypeError else saved(other)
    with pytest.raises(error, match=message):
        one.merge(other)
    assert (saved(one), None if error is TypeError else saved(other)) == before


def test_shards_with_norms_of_other_steps_keep_their_epsilons():
    one, other = IndividualAccountant(2), IndividualAccountant(2)
    for shard, late in ((one, False), (other, True)):
        shard.update_norms([0.1, 0.2])
        step(shard, (1.0, 0.1, 200 + 200 * late))
        shard.update_norms([0.3, 0.2])
        step(shard, (1.0, 0.1, 400 - 200 * late))
    expected = [*one.get_epsilons(1e-5), *other.get_epsilons(1e-5)]
    merged = one.merge(other)
    np.testing.assert_allclose(merged.get_epsilons(1e-5), expected, rtol=1e-9)
    # A group's bound is that of the largest norms.
    assert merged.get_group_epsilon([0, 2], 1e-5) >= one.get_group_epsilon([0, 1], 1e-5)


def test_a_shard_of_the_whole_data_set_may_know_no_example():
    one, other = trained(part=slice(0, 30)), trained(part=slice(0, 0))
    assert one.merge(other).dataset_size == 30


def test_shards_of_different_sizes_merge_after_many_refreshes(monkeypatch):
    monkeypatch.setattr(norm_history, "MAX_BYTES", 8 * 20)
    shards = IndividualAccountant(5), IndividualAccountant(15)
    for i in range(3):
        for shard in shards:
            shard.update_norms(np.full(shard.dataset_size, 0.1 * i))
            step(shard, SEGMENTS[0])
    assert shards[0].merge(shards[1]).dataset_size == 20


@pytest.mark.slow
def test_after_very_many_refreshes_groups_have_an_upper_bound(monkeypatch):
    monkeypatch.setattr(norm_history, "MAX_BYTES", 8 * 30 * 4)
    accountant, reference = IndividualAccountant(30), IndividualAccountant(30)
    largest = NORMS[:2].max(axis=0)
    for i in range(12):
        accountant.update_norms(NORMS[i % 2])
        step(accountant, (1.2, 0.02, 5))
        reference.update_norms(largest)
        step(reference, (1.2, 0.02, 5))
    monkeypatch.undo()
    least = IndividualAccountant(30)
    for i in range(12):
        least.update_norms(NORMS[i % 2])
        step(least, (1.2, 0.02, 5))
    group = [0, 1, 2]
    found = accountant.get_group_epsilon(group, 1e-5)
    assert least.get_group_epsilon(group, 1e-5) * (1 - 2e-6) <= found
    assert found <= reference.get_group_epsilon(group, 1e-5) * (1 + 2e-6)
    assert np.all(accountant.get_epsilons(1e-5) >= least.get_epsilons(1e-5) * (1 - 1e-9))
    again = IndividualAccountant(30)
    again.load_state_dict(saved(accountant))
    assert again.get_group_epsilon(group, 1e-5) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"exact": False}, {"rounding": 0.01}, {"individual_clipping": True}]
)
def test_a_saved_accountant_comes_back_with_every_bit(settings):
    accountant = trained(**settings)
    step(accountant, (3.0, hs.WithoutReplacement(5, 30), 2))
    text = json.dumps(accountant.state_dict())
    again = IndividualAccountant(30, **settings)
    again.load_state_dict(json.loads(text))
    assert json.dumps(again.state_dict()) == text
    for one in (accountant, again):
        step(one, SEGMENTS[0])
        one.update_norms(NORMS[1])
        step(one, SEGMENTS[1])
    assert answers(again) == answers(accountant)
    assert again.history == accountant.history


def test_a_given_mapping_is_filled():
    mapping = {"mine": 1}
    assert trained().state_dict(mapping) is mapping
    assert mapping["mine"] == 1


def test_a_state_takes_a_few_hundred_bytes_an_example():
    examples = 2000
    accountant = IndividualAccountant(examples)
    for _ in range(5):
        accountant.update_norms(RNG.uniform(0.5, 1.0, examples))
        step(accountant, (1.0, 0.01, 20))
    assert len(json.dumps(accountant.state_dict())) < 800 * examples
    renyi = IndividualAccountant(examples, exact=False, orders=[2.0, 4.0])
    renyi.update_norms(RNG.uniform(0, 1, examples))
    step(renyi, (1.0, 0.01, 20))
    assert len(json.dumps(renyi.state_dict())) < 100 * examples


def packed(array):
    array = np.asarray(array)
    data = base64.b64encode(zlib.compress(array.tobytes())).decode()
    return {"type": array.dtype.str, "shape": list(array.shape), "data": data}


def unpack(part):
    data = zlib.decompress(base64.b64decode(part["data"]))
    return np.frombuffer(data, part["type"]).reshape(part["shape"]).copy()


def poisoned(keys, value):
    def damage(state):
        part = state
        for key in keys[:-1]:
            part = part[key]
        array = unpack(part[keys[-1]])
        array.flat[min(5, array.size - 1)] = value
        part[keys[-1]] = packed(array)

    return damage


def replaced(*path):
    *keys, last, value = path

    def damage(state):
        part = state
        for key in keys:
            part = part[key]
        if value is KeyError:
            del part[last]
        else:
            part[last] = value(part[last]) if callable(value) else value

    return damage


A = "accounts"
DAMAGES = {
    "no version": replaced("version", KeyError),
    "newer version": replaced("version", 99),
    "version 0": replaced("version", 0),
    "version of text": replaced("version", "1"),
    "no accounts": replaced(A, KeyError),
    "no history": replaced("history", KeyError),
    "foreign key": lambda state: state.update(extra=1),
    "other mechanism": replaced("mechanism", "group"),
    "other size": replaced("settings", "dataset_size", 31),
    "other norm": replaced("settings", "max_grad_norm", 2.0),
    "other exact": replaced("settings", "exact", lambda exact: not exact),
    "other rounding": replaced("settings", "rounding", 0.5),
    "settings a list": replaced("settings", []),
    "fewer steps": replaced("history", lambda history: history[:-1]),
    "history a text": replaced("history", "abc"),
    "negative steps": replaced("history", 0, 2, -5),
    "NaN noise": replaced("history", 0, 0, float("nan")),
    "accounts a list": replaced(A, []),
    "accounts None": replaced(A, None),
    "no norms": replaced(A, "norms", KeyError),
    "foreign account": lambda state: state[A].update(extra=1),
    "guarantee 1": replaced(A, "is_guarantee", 1),
    "norms a list": replaced(A, "norms", [0.1] * 30),
    "norms None": replaced(A, "norms", None),
    "NaN norms": poisoned((A, "norms"), np.nan),
    "norms below 0": poisoned((A, "norms"), -0.1),
    "norms above C": poisoned((A, "norms"), 1.1),
    "cut text": replaced(A, "norms", "data", lambda data: data[: len(data) // 2]),
    "cut in a byte": replaced(A, "norms", "data", lambda data: data[:-3]),
    "empty text": replaced(A, "norms", "data", ""),
    "no base64": replaced(A, "norms", "data", "%%%%"),
    "no ASCII": replaced(A, "norms", "data", "éééé"),
    "data a number": replaced(A, "norms", "data", 5),
    "data None": replaced(A, "norms", "data", None),
    "one wrong letter": replaced(
        A, "norms", "data", lambda d: d[:40] + ("A" if d[40] != "A" else "B") + d[41:]
    ),
    "other type": replaced(A, "norms", "type", "<f4"),
    "other shape": replaced(A, "norms", "shape", [29]),
    "negative shape": replaced(A, "norms", "shape", [-30]),
    "shape of text": replaced(A, "norms", "shape", ["30"]),
    "shape a bool": replaced(A, "norms", "shape", [True]),
    "two axes": replaced(A, "norms", "shape", [30, 1]),
    "no shape": replaced(A, "norms", "shape", KeyError),
    "bomb": replaced(A, "norms", "data", base64.b64encode(zlib.compress(bytes(10**7))).decode()),
    "nothing in history of norms": replaced(A, "norm_history", "spans", []),
    "history of norms a list": replaced(A, "norm_history", []),
    "span a number": replaced(A, "norm_history", "spans", 0, 3),
    "span without steps": replaced(A, "norm_history", "spans", 0, 1, KeyError),
    "span of other steps": replaced(A, "norm_history", "spans", 0, 1, 0, 2, 61),
    "NaN in a span": poisoned((A, "norm_history", "spans", 1, 0), np.nan),
    "no inner accounts": replaced(A, A, KeyError),
    "inner accounts None": replaced(A, A, None),
    "inner accounts foreign": lambda state: state[A][A].update(extra=1),
}
EXACT_DAMAGES = {
    "NaN sums": poisoned((A, A, "gaussian"), np.nan),
    "negative sums": poisoned((A, A, "gaussian"), -1.0),
    "NaN moments": poisoned((A, A, "moments"), np.nan),
    "huge moments": poisoned((A, A, "moments"), 1e9),
    "infinite moments": poisoned((A, A, "moments"), np.inf),
    "example out of range": lambda state: poisoned((A, A, "places"), 99)(state),
    "octave out of range": lambda state: poisoned((A, A, "places"), -(2**40))(state),
    "rates a text": replaced(A, A, "rates", "ab"),
    "rates of text": replaced(A, A, "rates", ["0.02", "0.05"]),
    "rates out of range": replaced(A, A, "rates", [0.02, 1.5]),
    "NaN rates": replaced(A, A, "rates", [0.02, float("nan")]),
    "fewer rates": replaced(A, A, "rates", [0.02]),
    "fewer moments": replaced(A, A, "moments", packed(np.zeros((1, 20)))),
    "moments of other width": replaced(A, A, "moments", packed(np.zeros((1, 3)))),
    "telling of numbers": replaced(A, A, "telling", packed(np.zeros(30))),
}
KNOWN = {
    "enormous shape": replaced(A, A, "places", "shape", [2**70, 4]),
    "large shape": replaced(A, A, "places", "shape", [2**59, 4]),
    "text behind the data": replaced(
        A, "norms", "data", lambda d: base64.b64encode(base64.b64decode(d) + b"junk").decode()
    ),
    "norms of other kinds of steps": replaced(A, "norm_history", "spans", 0, 1, 0, 0, 100.0),
    "accounts without steps": replaced(A, A, saved(IndividualAccountant(30))[A][A]),
}
RENYI_DAMAGES = {
    "NaN divergences": poisoned((A, A, "rdp"), np.nan),
    "negative divergences": poisoned((A, A, "rdp"), -1e-9),
    "fewer divergences": replaced(A, A, "rdp", packed(np.zeros((30, 2)))),
}


def all_damages():
    for name, damage in DAMAGES.items():
        yield pytest.param(True, damage, id=name)
        yield pytest.param(False, damage, id=f"renyi {name}")
    for name, damage in EXACT_DAMAGES.items():
        yield pytest.param(True, damage, id=name)
    for name, damage in RENYI_DAMAGES.items():
        yield pytest.param(False, damage, id=name)
    for name, damage in KNOWN.items():
        yield pytest.param(True, damage, id=name)


@pytest.mark.parametrize(("exact", "damage"), list(all_damages()))
def test_a_damaged_state_is_refused_and_changes_nothing(exact, damage):
    state = saved(trained(exact))
    damage(state)
    accountant = IndividualAccountant(30, exact=exact)
    step(accountant, (2.0, 0.1, 3))
    before = saved(accountant)
    with pytest.raises((ValueError, TypeError)):
        accountant.load_state_dict(state)
    assert saved(accountant) == before


@pytest.mark.parametrize("state", [None, [], "state", 3, {}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises((ValueError, TypeError), match="state"):
        IndividualAccountant(3).load_state_dict(state)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("refreshed", ["first", "second"])
def test_norms_that_one_shard_got_before_a_merge_count_in_the_steps_after_it(exact, refreshed):
    def take(accountant, count=100):
        for _ in range(count):
            accountant.step(noise_multiplier=1.0, sample_rate=0.05)

    shards = [IndividualAccountant(2, exact=exact) for _ in range(2)]
    whole = IndividualAccountant(4, exact=exact)
    for accountant in (*shards, whole):
        accountant.update_norms([0.1] * accountant.dataset_size)
        take(accountant)
    larger = [0.9, 0.8]
    if refreshed == "first":
        shards[0].update_norms(larger)
        whole.update_norms([*larger, 0.1, 0.1])
    else:
        shards[1].update_norms(larger)
        whole.update_norms([0.1, 0.1, *larger])
    merged = shards[0].merge(shards[1])
    take(merged)
    take(whole)
    assert merged.get_epsilons(1e-5).tolist() == whole.get_epsilons(1e-5).tolist()
    assert merged.get_group_epsilon([0, 2], 1e-5) == whole.get_group_epsilon([0, 2], 1e-5)
    assert merged.get_group_epsilon([0, 1, 2, 3], 1e-5) == whole.get_group_epsilon([0, 1, 2, 3], 1e-5)
