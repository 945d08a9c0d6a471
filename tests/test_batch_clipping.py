"""Batches clipped as a whole, against the ordinary adversary: pairs by enumerating small data sets."""

import json
import math
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick._vocabulary.batch_clipping import probability_of_any, units_with_members
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
)

# Where nothing is left of delta but rounding, its interval is wide.
pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")

SIGMA = 1.2
ORDERS = (0.2, 0.7, 1.0, 1.6, 4.0)
"""Orders e^epsilon of the hockey-stick divergence."""


def density(law, x, sigma):
    """Of a mixture of N(s, sigma^2): a mapping from s to its probability."""
    parts = (w * np.exp(-0.5 * ((x - s) / sigma) ** 2) for s, w in law.items())
    return sum(parts) / (sigma * math.sqrt(2.0 * math.pi))


def divergences(p, q, orders, sigma=SIGMA, points=20_001):
    """H_order(P || Q) of two such mixtures, for several orders."""
    x, width = np.linspace(-9.0 * sigma - 4.0, 9.0 * sigma + 14.0, points, retstep=True)
    first, second = density(p, x, sigma), density(q, x, sigma)
    return [float(np.maximum(first - order * second, 0.0).sum() * width) for order in orders]


def divergence(p, q, order, sigma=SIGMA):
    return divergences(p, q, [order], sigma, 80_001)[0]


def poisson_subsets(records, rate):
    """All subsets of the records, with their probabilities."""
    for size in range(len(records) + 1):
        for chosen in combinations(records, size):
            yield frozenset(chosen), rate**size * (1 - rate) ** (len(records) - size)


def fixed_subsets(records, batch_size):
    chosen = list(combinations(records, min(batch_size, len(records))))
    for batch in chosen:
        yield frozenset(batch), 1.0 / len(chosen)


def law_of_updates(batches, update):
    """Law of the update over batches with probabilities."""
    found = {}
    for batch, probability in batches:
        shift = update(batch)
        found[shift] = found.get(shift, 0.0) + probability
    return found


def delta(order, adjacency, **run):
    """Of the library, of any order above 0: of negative epsilon by the exchanged pair."""
    if order >= 1.0:
        return hs.get_delta(epsilon=math.log(order), adjacency=adjacency, steps=1, bounds=True, **run)
    other = {"add": "remove", "remove": "add", "replace": "replace"}[adjacency]
    ends = hs.get_delta(epsilon=-math.log(order), adjacency=other, steps=1, bounds=True, **run)
    return tuple(1.0 - order + order * end for end in ends)


def random_algorithm(seed):
    """Give every batch an update in [-1, 1] of its own; the empty one has the update 0."""
    random = np.random.default_rng(seed)
    table = {}

    def update(batch):
        if not batch:
            return 0.0
        if batch not in table:
            table[batch] = round(float(random.choice([-1.0, 1.0, random.uniform(-1.0, 1.0)])), 3)
        return table[batch]

    return update


SCHEMES = {
    "poisson": (hs.Poisson(0.3), lambda records: poisson_subsets(records, 0.3)),
    "fixed": (hs.WithoutReplacement(2, 5), lambda records: fixed_subsets(records, 2)),
    "fixed, all of the smaller": (hs.WithoutReplacement(4, 5), lambda records: fixed_subsets(records, 4)),
    "full": (hs.FullBatch(), lambda records: fixed_subsets(records, len(records))),
}
"""Of five records, with the group in the larger data set."""


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("name", SCHEMES)
def test_no_algorithm_exceeds_the_curve_of_small_data_sets(name, members):
    sampling, batches = SCHEMES[name]
    run = {"mechanism": hs.BatchClipping(SIGMA), "sampling": sampling, "group_size": members}
    bounds = {(order, way): delta(order, way, **run)[1] for order in ORDERS for way in ("add", "remove")}
    for seed in range(12):
        update = random_algorithm(seed)
        larger = law_of_updates(batches(range(5)), update)
        smaller = law_of_updates(batches(range(members, 5)), update)
        for way, pair in (("remove", (larger, smaller)), ("add", (smaller, larger))):
            for order, exact in zip(ORDERS, divergences(*pair, ORDERS), strict=True):
                assert exact <= bounds[order, way] + 1e-6


def pushes(members):
    """Plus one for a batch with a member, minus one for any other, be it empty."""
    return lambda batch: 1.0 if any(record < members for record in batch) else -1.0


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("name", ["poisson", "fixed", "full"])
def test_an_algorithm_attains_the_curve(name, members):
    sampling, batches = SCHEMES[name]
    run = {"mechanism": hs.BatchClipping(SIGMA), "sampling": sampling, "group_size": members}
    larger = law_of_updates(batches(range(5)), pushes(members))
    smaller = law_of_updates(batches(range(members, 5)), pushes(members))
    for order in ORDERS:
        for way, pair in (("remove", (larger, smaller)), ("add", (smaller, larger))):
            exact = divergence(*pair, order)
            lower, upper = delta(order, way, **run)
            assert lower == pytest.approx(exact, rel=1e-6, abs=1e-9)
            assert upper == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert hs.privacy_curve(**run, steps=3).tight


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", ["poisson", "fixed", "full"])
def test_with_half_of_the_shift_the_curve_would_be_exceeded(name, members):
    """The pair of a shift of one clipping norm is not a bound: the algorithm above exceeds it."""
    _, batches = SCHEMES[name]
    larger = law_of_updates(batches(range(5)), pushes(members))
    smaller = law_of_updates(batches(range(members, 5)), pushes(members))
    share = larger[1.0]
    for order in (1.0, 1.6):
        halved = divergence({0.0: 1.0 - share, 1.0: share}, {0.0: 1.0}, order)
        assert divergence(larger, smaller, order) > 1.2 * halved


def test_empty_batches_matter_little_in_large_data_sets():
    """With the update 0 of an empty batch the curve is not attained, but approached."""
    rate, members = 0.3, 2
    bound = delta(1.6, "remove", mechanism=hs.BatchClipping(SIGMA), sample_rate=rate, group_size=members)[1]
    found = []
    for others in (1, 3, 10, 40):
        none = (1.0 - rate) ** others
        with_members = 1.0 - (1.0 - rate) ** members
        smaller = {0.0: none, -1.0: 1.0 - none}
        larger = {1.0: with_members, **{s: w * (1.0 - with_members) for s, w in smaller.items()}}
        found.append(divergence(larger, smaller, 1.6))
    assert found == sorted(found)
    assert found[0] < 0.9 * bound
    assert bound * (1.0 - 1e-5) < found[-1] <= bound * (1.0 + 1e-9)


# Records that are replaced


def replaced(members, records=5):
    """Two data sets: of the first `members` positions each has records of its own."""
    others = [("same", i) for i in range(members, records)]
    return ([(one, i) for i in range(members)] + others for one in ("one", "other"))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", SCHEMES)
def test_no_replaced_group_exceeds_the_joined_curve(name, members):
    sampling, batches = SCHEMES[name]
    run = {"mechanism": hs.BatchClipping(SIGMA), "sampling": sampling, "group_size": members}
    bounds = {order: delta(order, "replace", **run)[1] for order in ORDERS}
    for seed in range(12):
        update = random_algorithm(seed)
        p, q = (law_of_updates(batches(data), update) for data in replaced(members))
        for pair in ((p, q), (q, p)):
            for order, exact in zip(ORDERS, divergences(*pair, ORDERS), strict=True):
                assert exact <= bounds[order] + 1e-6


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", ["poisson", "fixed", "full"])
def test_the_joined_curve_is_attained_by_one_step(name, members):
    """One data set pushes where it differs, the other does not; which is which depends on the order."""
    sampling, batches = SCHEMES[name]
    run = {"mechanism": hs.BatchClipping(SIGMA), "sampling": sampling, "group_size": members}

    def update(batch):
        return 1.0 if any(kind == "one" for kind, _ in batch) else -1.0

    p, q = (law_of_updates(batches(data), update) for data in replaced(members))
    for order in ORDERS:
        exact = max(divergence(p, q, order), divergence(q, p, order))
        assert delta(order, "replace", **run)[1] == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_one_record_of_a_fixed_batch_pays_nothing():
    run = {"delta": 1e-5, "sampling": hs.WithoutReplacement(50, 1000), "steps": 100}
    for adjacency in ("add_remove", "replace"):
        batch = hs.get_epsilon(mechanism=hs.BatchClipping(3.0), adjacency=adjacency, **run)
        single = hs.get_epsilon(noise_multiplier=3.0, adjacency=adjacency, **run)
        assert batch == pytest.approx(single, rel=2e-6)
        assert batch >= single * (1.0 - 2e-6)


def test_full_batches_of_a_replaced_group_are_one_gaussian_step():
    run = {"delta": 1e-5, "sampling": hs.FullBatch(), "steps": 50, "adjacency": "replace"}
    for group_size in (1, 7):
        found = hs.get_epsilon(mechanism=hs.BatchClipping(20.0), group_size=group_size, **run)
        assert found == hs.get_epsilon(noise_multiplier=20.0, group_size=1, **run)


# Several clipped units in one step


@pytest.mark.parametrize("members", [1, 2])
def test_several_poisson_units_are_enumerated(members):
    """Two units of a data set of members and one other record, each a Poisson sample of its own."""
    rate = 0.3

    def law(records):
        update = pushes(members)
        found = {}
        for (one, p), (other, q) in product(poisson_subsets(records, rate), repeat=2):
            shift = update(one) + update(other)
            found[shift] = found.get(shift, 0.0) + p * q
        return found

    larger, smaller = law(range(members + 1)), law(range(members, members + 1))
    run = {
        "mechanism": hs.BatchClipping(SIGMA),
        "sampling": hs.Poisson(rate, microbatches=2),
        "group_size": members,
    }
    for order in ORDERS:
        for way, pair in (("remove", (larger, smaller)), ("add", (smaller, larger))):
            assert delta(order, way, **run)[1] == pytest.approx(divergence(*pair, order), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("records", "members", "units", "size"), [(6, 2, 2, 2), (7, 3, 2, 2), (5, 3, 4, 1)])
def test_the_law_of_units_is_that_of_all_placements(records, members, units, size):
    batch = units * size
    counts = {}
    for order in permutations(range(records), batch):
        held = sum(any(record < members for record in order[h * size : (h + 1) * size]) for h in range(units))
        counts[held] = counts.get(held, 0) + 1
    total = sum(counts.values())
    law = units_with_members(hs.WithoutReplacement(batch, records), members, units)
    found = dict(zip(law.shifts, law.weights, strict=True))
    for held in range(units + 1):
        assert found.get(float(held), 0.0) == pytest.approx(counts.get(held, 0) / total, rel=1e-11, abs=1e-15)
        at_least = sum(count for other, count in counts.items() if other >= held) / total
        assert sum(w for shift, w in found.items() if shift >= held) >= at_least * (1.0 - 1e-15)


def test_mixed_clipping_is_between_batch_and_individual_clipping():
    sampling = hs.WithoutReplacement(40, 400)
    run = {"delta": 1e-5, "sampling": sampling, "steps": 20, "group_size": 6}
    found = [
        hs.get_epsilon(mechanism=hs.BatchClipping(8.0, units_per_batch=units), **run)
        for units in (1, 2, 5, 40)
    ]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(hs.get_epsilon(noise_multiplier=8.0, **run), rel=2e-6)
    assert found[0] < 0.8 * found[-1]
    # One step by the definition, with the shift of two norms for every unit.
    law = units_with_members(sampling, 6, 5)
    exact = divergence(
        {2.0 * shift: w for shift, w in zip(law.shifts, law.weights, strict=True)}, {0.0: 1.0}, 1.6, 2.0
    )
    step = {"mechanism": hs.BatchClipping(2.0, units_per_batch=5), "sampling": sampling, "group_size": 6}
    assert delta(1.6, "remove", **step)[1] == pytest.approx(exact, rel=1e-6)


# Numbers


def test_probabilities_are_rounded_up():
    for rate, members in product((1e-9, 0.01, 0.3, 0.999), (1, 2, 7, 1000)):
        exact = 1 - (1 - Fraction(rate)) ** members
        found = Fraction(probability_of_any(rate, members))
        assert exact <= found <= min(1, exact * (1 + Fraction(1, 10**13)))
    for batch, records, members in ((1, 10, 3), (100, 1000, 2), (5, 1000, 300), (999, 1000, 2), (7, 7, 1)):
        scheme = hs.WithoutReplacement(batch, records)
        exact = 1 - Fraction(math.comb(records - members, batch), math.comb(records, batch))
        found = Fraction(probability_of_any(scheme, members))
        assert exact <= found <= min(1, exact * (1 + Fraction(1, 10**13)))
    rates = [0.5, 0.25, 1.0]
    assert probability_of_any(1.0, 3, hs.Group(rates=rates)) == 1.0
    assert probability_of_any(1.0, 2, hs.Group(rates=rates[:2])) == pytest.approx(1 - 0.5 * 0.75, rel=1e-13)
    assert probability_of_any(0.0, 5) == 0.0


def test_group_sizes_and_rates_broadcast():
    run = {"delta": 1e-5, "steps": 100, "mechanism": hs.BatchClipping(4.0)}
    found = hs.get_epsilon(sample_rate=[[0.01], [0.02]], group_size=[1, 2, 8], **run)
    assert found.shape == (2, 3)
    for row, rate in zip(found, (0.01, 0.02), strict=True):
        for epsilon, members in zip(row, (1, 2, 8), strict=True):
            assert epsilon == hs.get_epsilon(sample_rate=rate, group_size=members, **run)
            share = -math.expm1(members * math.log1p(-rate))
            one = hs.get_epsilon(delta=1e-5, steps=100, noise_multiplier=2.0, sample_rate=share)
            assert epsilon == pytest.approx(one, rel=2e-6)
    group = hs.Group(rates=[0.01, 0.02])
    share = 1 - 0.99 * 0.98
    one = hs.get_epsilon(delta=1e-5, steps=100, noise_multiplier=2.0, sample_rate=share)
    assert hs.get_epsilon(group=group, **run) == pytest.approx(one, rel=2e-6)


def test_an_accountant_records_steps_of_any_clipping():
    accountant = GroupAccountant(group_size=4)
    accountant.step(mechanism=hs.BatchClipping(4.0), sample_rate=0.01, steps=100)
    accountant.step(mechanism=hs.BatchClipping(5.0), sample_rate=0.02, steps=100)
    accountant.step(mechanism=hs.BatchClipping(4.0), sampling=hs.WithoutReplacement(10, 1000), steps=10)
    accountant.step(noise_multiplier=4.0, sample_rate=0.01, steps=100)
    run = {"group_size": 4}
    curve = (
        hs.privacy_curve(mechanism=hs.BatchClipping(4.0), sample_rate=0.01, steps=100, **run)
        + hs.privacy_curve(mechanism=hs.BatchClipping(5.0), sample_rate=0.02, steps=100, **run)
        + hs.privacy_curve(
            mechanism=hs.BatchClipping(4.0), sampling=hs.WithoutReplacement(10, 1000), steps=10, **run
        )
        + hs.privacy_curve(noise_multiplier=4.0, sample_rate=0.01, steps=100, **run)
    )
    assert accountant.get_epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=2e-6)
    other = GroupAccountant(group_size=4)
    other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert other.history == accountant.history
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    assert "batch clipping" in str(accountant)


def test_an_explanation_is_about_the_group():
    told = hs.explain(delta=1e-5, mechanism=hs.BatchClipping(4.0), sample_rate=0.01, steps=100, group_size=4)
    assert told["group"] == "a group of 4 records"
    assert "BatchClipping" in told["mechanism"]


def test_a_step_of_one_record_is_not_taken_for_that_of_the_group():
    curve = hs.privacy_curve(mechanism=hs.BatchClipping(4.0), sample_rate=0.01, steps=100, group_size=4)
    (described,) = curve.certify(delta=1e-5).run["steps"]
    assert described["mechanism"] == {"name": "batch_clipping", "noise_multiplier": 4.0}
    assert (described["sampling"]["sample_rate"], described["group"]) == (0.01, {"size": 4})
    recorded = RecordedRun.of_curve(curve)
    assert (recorded.segments, recorded.group_size) == (((hs.BatchClipping(4.0), 0.01, 100),), 4)
    assert recorded.for_group(8).curve() == hs.privacy_curve(
        mechanism=hs.BatchClipping(4.0), sample_rate=0.01, steps=100, group_size=8
    )
    assert "BatchClipping(4)  Poisson(0.01)  4 records" in str(curve)


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampling": hs.RandomAllocation(10)}, "have no proven pair together: use Poisson"),
        ({"sampling": hs.Poisson(0.1, max_batch_size=5, dataset_size=50)}, "have no proven pair together"),
        ({"group": hs.Group(norms=[1.0, 0.5]), "sample_rate": 0.1}, "norms and angles say nothing"),
        ({"group": hs.Group(2, gradients="orthogonal"), "sample_rate": 0.1}, "norms and angles say nothing"),
        ({"group": hs.Group(rates=[0.1]), "sampling": hs.FullBatch()}, "rates of members are for Poisson"),
        ({"sampling": hs.Shuffle(10, 100), "adjacency": "zero_out"}, "not supported together"),
    ],
)
def test_what_has_no_pair_is_refused(changes, words):
    run = {"delta": 1e-5, "mechanism": hs.BatchClipping(2.0), "steps": 10, **changes}
    with pytest.raises(hs.UnsupportedError, match=words):
        hs.get_epsilon(**run)


def test_units_are_parts_of_a_fixed_batch():
    mixed = hs.BatchClipping(2.0, units_per_batch=4)
    for sampling in (hs.Poisson(0.1), hs.FullBatch()):
        with pytest.raises(hs.UnsupportedError, match="units are parts of batches of a fixed size"):
            hs.get_epsilon(delta=1e-5, mechanism=mixed, sampling=sampling, steps=10)
    with pytest.raises(ValueError, match="units_per_batch must be a divisor of batch_size 10"):
        hs.get_epsilon(delta=1e-5, mechanism=mixed, sampling=hs.WithoutReplacement(10, 100), steps=10)


def test_accountants_without_such_a_pair_refuse_the_step():
    clipping = hs.BatchClipping(2.0)
    with pytest.raises(hs.UnsupportedError, match="GroupAccountant accounts for batches"):
        RenyiGroupAccountant().step(mechanism=clipping, sample_rate=0.1)
    for accountant, error in (
        (MonteCarloAccountant(), hs.UnsupportedError),
        (IndividualAccountant(10), TypeError),
    ):
        with pytest.raises(error):
            accountant.step(mechanism=clipping, sample_rate=0.1)
        with pytest.raises((TypeError, ValueError)):
            accountant.history = [(clipping, 0.1, 1)]
    with pytest.raises(hs.UnsupportedError, match="no black-box bound"):
        hs.black_box.get_epsilon(delta=1e-5, mechanism=clipping, sample_rate=0.1, steps=1, group_size=2)


@pytest.mark.parametrize("arguments", [(-1.0,), (math.nan,), (1.0, 0), (1.0, 1.5)])
def test_numbers_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=r"noise_multiplier|units_per_batch"):
        hs.BatchClipping(*arguments)


def test_arrays_of_replaced_groups_are_asked_one_by_one():
    with pytest.raises(TypeError, match="group_size must be one number"):
        hs.get_epsilon(
            delta=1e-5,
            mechanism=hs.BatchClipping(2.0),
            sample_rate=0.1,
            steps=1,
            group_size=[1, 2],
            adjacency="replace",
        )
