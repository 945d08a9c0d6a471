"""Several clipped units in a step, and records that are replaced: bounds against all placements."""

import math
from itertools import permutations, product

import numpy as np
import pytest

import hockeystick as hs
import hockeystick_verify
from hockeystick._vocabulary.batch_clipping import units_with_members

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")

SIGMA = 1.5
ORDERS = (0.3, 1.0, 1.7, 4.0)
"""Orders e^epsilon of the hockey-stick divergence."""


def divergences(p, q):
    """H_order(P || Q) of mixtures of N(s, SIGMA^2), mappings from s to probabilities, for all orders."""
    x, width = np.linspace(-12.0 * SIGMA, 12.0 * SIGMA, 40_001, retstep=True)

    def density(law):
        parts = (w * np.exp(-0.5 * ((x - s) / SIGMA) ** 2) for s, w in law.items())
        return sum(parts) / (SIGMA * math.sqrt(2.0 * math.pi))

    first, second = density(p), density(q)
    return [float(np.maximum(first - order * second, 0.0).sum() * width) for order in ORDERS]


def bound(order, **run):
    """Of the library, of orders below 1 by the exchanged pair."""
    if order >= 1.0:
        return hs.get_delta(epsilon=math.log(order), adjacency="replace", steps=1, **run)
    return 1.0 - order + order * hs.get_delta(epsilon=-math.log(order), adjacency="replace", steps=1, **run)


def fixed_places(records, batch, units):
    """All ways to put records into the units of a batch, as lists of sets."""
    size = batch // units
    ways = {}
    for order in permutations(range(records), batch):
        way = tuple(frozenset(order[h * size : (h + 1) * size]) for h in range(units))
        ways[way] = ways.get(way, 0) + 1
    total = sum(ways.values())
    return [(way, count / total) for way, count in ways.items()]


def poisson_places(records, rate, units):
    samples = []
    for coins in product((0, 1), repeat=records):
        chosen = frozenset(record for record, coin in enumerate(coins) if coin)
        samples.append((chosen, rate ** len(chosen) * (1 - rate) ** (records - len(chosen))))
    for way in product(samples, repeat=units):
        yield tuple(unit for unit, _ in way), math.prod(p for _, p in way)


def law(places, members, which, update):
    """Law of the sum of updates, for a data set whose first records are its own."""
    found = {}
    for way, probability in places:
        total = 0.0
        for unit in way:
            total += update(frozenset((record, which if record < members else "") for record in unit))
        total = round(total, 9)
        found[total] = found.get(total, 0.0) + probability
    return found


def random_algorithm(seed):
    random = np.random.default_rng(seed)
    table = {}

    def update(unit):
        if not unit:
            return 0.0
        if unit not in table:
            table[unit] = float(random.choice([-1.0, 1.0, 0.25]))
        return table[unit]

    return update


def pushes(unit):
    """Plus one where a record of the first data set is in the unit, minus one elsewhere."""
    return 1.0 if any(which == "one" for _, which in unit) else -1.0


CASES = {
    "pairs": (hs.WithoutReplacement(4, 6), 2, 2, fixed_places(6, 4, 2)),
    "pairs of all": (hs.WithoutReplacement(4, 5), 2, 2, fixed_places(5, 4, 2)),
    "three members": (hs.WithoutReplacement(4, 7), 2, 3, fixed_places(7, 4, 2)),
    "one member": (hs.WithoutReplacement(4, 6), 2, 1, fixed_places(6, 4, 2)),
    "single records": (hs.WithoutReplacement(2, 5), 2, 2, fixed_places(5, 2, 2)),
    "poisson": (hs.Poisson(0.3, microbatches=2), 1, 2, list(poisson_places(4, 0.3, 2))),
    "poisson, three": (hs.Poisson(0.4, microbatches=3), 1, 1, list(poisson_places(2, 0.4, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_no_replaced_group_exceeds_the_bound_of_several_units(name):
    sampling, units, members, places = CASES[name]
    run = {"mechanism": hs.BatchClipping(SIGMA, units), "sampling": sampling, "group_size": members}
    bounds = [bound(order, **run) for order in ORDERS]
    for seed in range(13):
        update = pushes if seed == 12 else random_algorithm(seed)
        p, q = (law(places, members, which, update) for which in ("one", "other"))
        for pair in ((p, q), (q, p)):
            for exact, most in zip(divergences(*pair), bounds, strict=True):
                assert exact <= most + 1e-6


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("pairs of all", "one member")])
def test_half_of_the_shift_of_several_units_would_be_exceeded(name):
    """Twice the noise is half of the shift: two data sets, one of which pushes, exceed that."""
    sampling, units, members, places = CASES[name]
    weak = {"mechanism": hs.BatchClipping(2.0 * SIGMA, units), "sampling": sampling, "group_size": members}
    p, q = (law(places, members, which, pushes) for which in ("one", "other"))
    exact = divergences(p, q)
    assert exact[1] > 1.2 * bound(1.0, **weak)
    assert exact[2] > 1.2 * bound(1.7, **weak)


@pytest.mark.parametrize("order", [1.0, 1.7, 4.0])
def test_the_bound_of_several_units_is_the_sum_of_the_theorem(order):
    sampling = hs.WithoutReplacement(8, 40)
    counts = units_with_members(sampling, 5, 4)
    weights = dict(zip(counts.shifts, counts.weights, strict=True))
    absent = weights.pop(0.0)
    tilted = (order - absent) / (1.0 - absent)

    def gaussian(distance):
        """H_tilted of two normal laws."""
        point = math.log(tilted) / distance
        upper = 0.5 * math.erfc((point - 0.5 * distance) / math.sqrt(2.0))
        return upper - tilted * 0.5 * math.erfc((point + 0.5 * distance) / math.sqrt(2.0))

    exact = sum(weight * gaussian(2.0 * units / SIGMA) for units, weight in weights.items())
    run = {"mechanism": hs.BatchClipping(SIGMA, 4), "sampling": sampling, "group_size": 5}
    assert bound(order, **run) == pytest.approx(exact, rel=1e-6)


def test_samples_of_their_own_have_a_binomial_number_of_units():
    share = 1.0 - 0.7**2
    weights = [math.comb(3, k) * share**k * (1.0 - share) ** (3 - k) for k in range(4)]
    tilted = (1.7 - weights[0]) / (1.0 - weights[0])
    exact = 0.0
    for units in (1, 2, 3):
        distance = 2.0 * units / SIGMA
        point = math.log(tilted) / distance
        upper = 0.5 * math.erfc((point - 0.5 * distance) / math.sqrt(2.0))
        lower = 0.5 * math.erfc((point + 0.5 * distance) / math.sqrt(2.0))
        exact += weights[units] * (upper - tilted * lower)
    run = {"mechanism": hs.BatchClipping(SIGMA), "sampling": hs.Poisson(0.3, microbatches=3), "group_size": 2}
    assert bound(1.7, **run) == pytest.approx(exact, rel=1e-6)


def test_special_cases_are_those_of_other_theorems():
    run = {
        "delta": 1e-5, "sampling": hs.WithoutReplacement(40, 4000), "steps": 100, "adjacency": "replace",
    }  # fmt: skip
    one = hs.get_epsilon(mechanism=hs.BatchClipping(3.0, 8), **run)
    assert one == hs.get_epsilon(noise_multiplier=3.0, **run)
    single = hs.get_epsilon(noise_multiplier=8.0, group_size=6, **run)
    assert single == hs.get_epsilon(mechanism=hs.BatchClipping(8.0, 40), group_size=6, **run)
    # Units of one record have the bound by a chain of records too, which may be the smaller one.
    units = (1, 2, 8, 20)
    found = [hs.get_epsilon(mechanism=hs.BatchClipping(8.0, m), group_size=6, **run) for m in units]
    assert found == sorted(found)
    assert not hs.privacy_curve(
        mechanism=hs.BatchClipping(8.0, 8), group_size=6, **{k: v for k, v in run.items() if k != "delta"}
    ).tight


def test_an_accountant_records_replaced_records_of_several_units():
    accountant = hs.GroupAccountant(group_size=3, adjacency="replace")
    for sampling, units in ((hs.WithoutReplacement(40, 400), 4), (hs.Poisson(0.05, microbatches=2), 1)):
        accountant.step(mechanism=hs.BatchClipping(6.0, units), sampling=sampling, steps=10)
    parts = [
        hs.privacy_curve(
            mechanism=hs.BatchClipping(6.0, units), sampling=sampling, steps=10, group_size=3,
            adjacency="replace",
        )
        for sampling, units in ((hs.WithoutReplacement(40, 400), 4), (hs.Poisson(0.05, microbatches=2), 1))
    ]  # fmt: skip
    assert accountant.get_epsilon(1e-5) == pytest.approx((parts[0] + parts[1]).epsilon(1e-5), rel=2e-6)


@pytest.mark.slow
def test_certificates_of_them_are_verified():
    for sampling, units in ((hs.WithoutReplacement(40, 400), 4), (hs.Poisson(0.05, microbatches=2), 1)):
        curve = hs.privacy_curve(
            mechanism=hs.BatchClipping(6.0, units), sampling=sampling, steps=10, group_size=3,
            adjacency="replace",
        )  # fmt: skip
        is_verified, _ = hockeystick_verify.verify_text(curve.certify(delta=1e-5).to_json())
        assert is_verified
