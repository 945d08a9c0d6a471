"""The exact engine on two answers, and Laplace noise in fixed batches, against sums over counts."""

import math
from itertools import product

import by_definition
import mpmath as mp
import numpy as np
import pytest

import hockeystick as hs

SAFE = mp.mpf("1e-15")


def coin(p, seen, direction):
    """Loss and probability under the first law of both answers."""
    set_with = 1 - p + seen * (2 * p - 1)
    first, second = [set_with, 1 - set_with], [1 - p, p]
    if direction == "add":
        first, second = second, first
    return [(mp.log(a / b), a) for a, b in zip(first, second, strict=True)]


def composed(atoms, steps):
    """Law of the sum of `steps` independent losses: {counts of each atom: (loss, probability)}."""
    law = []
    for counts in product(range(steps + 1), repeat=len(atoms) - 1):
        last = steps - sum(counts)
        if last < 0:
            continue
        counts = (*counts, last)
        ways = mp.factorial(steps)
        for count in counts:
            ways /= mp.factorial(count)
        probability = ways
        for count, (_, mass) in zip(counts, atoms, strict=True):
            probability *= mass**count
        loss = mp.fsum(count * loss for count, (loss, _) in zip(counts, atoms, strict=True))
        law.append((loss, probability))
    return law


def delta_of(law, epsilon):
    return mp.fsum(mass * (1 - mp.exp(epsilon - loss)) for loss, mass in law if loss > epsilon)


def check(expected, run, epsilon, width):
    lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run)
    assert lower <= expected * (1 + SAFE) + mp.mpf("1e-19")
    assert upper >= expected * (1 - SAFE)
    assert upper - lower <= width * upper


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    ("p", "sample_rate", "group_size", "steps"),
    [(0.75, 0.5, 1, 2), (0.6, 0.1, 3, 40), (0.99, 0.01, 1, 25), (0.5001, 0.3, 2, 60), (0.8, 1.0, 1, 30)],
)
def test_equal_steps_are_a_sum_over_counts(p, sample_rate, group_size, steps, direction):
    seen = 1 - (1 - mp.mpf(sample_rate)) ** group_size
    law = composed(coin(mp.mpf(p), seen, direction), steps)
    run = {
        "mechanism": hs.RandomizedResponse(p),
        "sample_rate": sample_rate,
        "group_size": group_size,
        "steps": steps,
        "adjacency": direction,
    }
    for epsilon in (0.0, 1e-3, 0.4, 2.0):
        check(delta_of(law, epsilon), run, epsilon, 1e-9)
    delta = 1e-6
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    assert delta_of(law, upper) <= delta * (1 + 1e-12)
    assert lower == 0 or delta_of(law, lower * (1 - 1e-9)) >= delta


def test_members_with_rates_of_their_own_are_seen_as_often_as_any_of_them():
    rates = [0.1, 0.2, 0.0, 0.5]
    seen = 1 - np.prod(1 - np.array(rates))
    run = {"delta": 1e-4, "mechanism": hs.RandomizedResponse(0.7), "steps": 30}
    own = hs.get_epsilon(group=hs.Group(rates=rates), **run)
    assert own == pytest.approx(hs.get_epsilon(sample_rate=seen, **run), rel=1e-9)


@pytest.mark.parametrize("steps", [10**4, 10**6])
def test_long_runs_are_differences_of_binomial_tails(steps):
    p, sample_rate = 0.6, 0.02
    seen = mp.mpf(sample_rate)
    (high, mass), (low, _) = coin(mp.mpf(p), seen, "remove")
    run = {
        "mechanism": hs.RandomizedResponse(p),
        "sample_rate": sample_rate,
        "steps": steps,
        "adjacency": "remove",
    }
    for delta in (1e-3, 1e-9):
        epsilon = hs.get_epsilon(delta=delta, **run)
        first = int(mp.floor((epsilon - steps * low) / (high - low))) + 1

        def tail(chance, first=first):
            # P(X >= first), from the first mass by the ratio of neighbours.
            log_mass = (
                mp.loggamma(steps + 1)
                - mp.loggamma(first + 1)
                - mp.loggamma(steps - first + 1)
                + first * mp.log(chance)
                + (steps - first) * mp.log1p(-chance)
            )
            term, total, i = mp.exp(log_mass), mp.mpf(0), first
            while term > total * mp.mpf("1e-30"):
                total += term
                term *= mp.mpf(steps - i) / (i + 1) * chance / (1 - chance)
                i += 1
            return total

        expected = tail(mass) - mp.exp(epsilon) * tail(1 - mp.mpf(p))
        check(expected, run, epsilon, 1e-6)
        assert expected == pytest.approx(delta, rel=1e-5)


def test_a_billion_steps_and_a_million_take_one_formula():
    # By the central limit theorem: Gaussian differential privacy with mu^2 = T Var(loss).
    p, seen = 0.5 + 1e-4, 1.0
    for steps in (10**6, 10**9):
        (high, mass), (low, _) = coin(mp.mpf(p), mp.mpf(seen), "remove")
        variance = mass * (1 - mass) * (high - low) ** 2
        epsilon = 0.5
        expected = by_definition.gaussian_delta(epsilon, mp.sqrt(steps * variance))
        found = hs.get_delta(
            epsilon=epsilon, mechanism=hs.RandomizedResponse(p), sample_rate=seen, steps=steps
        )
        assert found == pytest.approx(float(expected), rel=1e-3)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # Chernoff's bound is what is left
@pytest.mark.parametrize("steps", [10**12, 10**16, 2**62])
def test_runs_too_long_for_a_sum_end_with_a_bound(steps):
    p = 0.5 + 1e-9
    lower, upper = hs.get_epsilon(
        delta=1e-6, bounds=True, mechanism=hs.RandomizedResponse(p), sample_rate=1.0, steps=steps
    )
    # Gaussian differential privacy with mu = 4 (p - 1/2) sqrt(T), by the central limit theorem.
    mu = 4 * (p - 0.5) * steps**0.5
    delta = by_definition.gaussian_delta(upper, mp.mpf(mu))
    assert delta <= 1.01e-6
    assert 0.0 <= lower <= upper < np.inf


@pytest.mark.parametrize("steps", [1, 2, 25])
def test_a_replaced_record_of_a_fixed_batch_has_the_joined_curve(steps):
    # PITFALLS Theorem 14: the curve of (mixture || coin) for epsilon >= 0, of (coin || mixture) below.
    p, batch_size, dataset_size = mp.mpf("0.7"), 3, 20
    rate = mp.mpf(batch_size) / dataset_size
    set_with = 1 - p + rate * (2 * p - 1)
    gain = mp.log(set_with / (1 - p))
    atoms = [(gain, set_with), (mp.mpf(0), (2 * p - 1) * (1 - rate)), (-gain, 1 - p)]
    assert mp.fsum(mass for _, mass in atoms) == pytest.approx(1.0)
    law = composed(atoms, steps)
    run = {
        "mechanism": hs.RandomizedResponse(0.7),
        "sampling": hs.WithoutReplacement(batch_size, dataset_size),
        "steps": steps,
        "adjacency": "replace",
    }
    for epsilon in (0.0, 0.2, 1.0):
        check(delta_of(law, epsilon), run, epsilon, 1e-5)


def test_one_record_of_a_fixed_batch_is_seen_as_under_poisson_sampling():
    # A bit moves as far whether a record joins or takes another's place (PITFALLS, appendix B.1).
    run = {"delta": 1e-5, "mechanism": hs.RandomizedResponse(0.7), "steps": 30}
    fixed = hs.get_epsilon(sampling=hs.WithoutReplacement(3, 20), **run)
    assert fixed == pytest.approx(hs.get_epsilon(sample_rate=3 / 20, **run), rel=1e-12)


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_fixed_batches_need_twice_the_laplace_noise_of_poisson_sampling(steps):
    # PITFALLS Proposition 9, for Laplace noise.
    run = {"delta": 1e-5, "steps": steps}
    fixed = hs.get_epsilon(mechanism=hs.Laplace(6.0), sampling=hs.WithoutReplacement(5, 50), **run)
    poisson = hs.get_epsilon(mechanism=hs.Laplace(3.0), sample_rate=0.1, **run)
    assert fixed == pytest.approx(poisson, rel=2e-6)
    # Every record replaced in every batch: the shift of two of each.
    replaced = hs.get_epsilon(
        mechanism=hs.Laplace(6.0), sampling=hs.FullBatch(), adjacency="replace", group_size=2, **run
    )
    added = hs.get_epsilon(mechanism=hs.Laplace(6.0), sampling=hs.FullBatch(), group_size=4, **run)
    assert replaced == pytest.approx(added, rel=2e-6)


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_answers_compose_with_gaussian_noise(direction):
    # Nobody is left out: the Gaussian part is one Gaussian, mixed over the counts of the answers.
    p, steps, sigma = 0.65, 12, 5.0
    law = composed(coin(mp.mpf(p), mp.mpf(1) / 4, direction), steps)
    curve = hs.privacy_curve(
        mechanism=hs.RandomizedResponse(p), sample_rate=0.25, steps=steps, adjacency=direction
    ) + hs.privacy_curve(noise_multiplier=sigma, sampling=hs.FullBatch(), steps=9, adjacency=direction)
    for epsilon in (0.1, 1.0, 3.0):
        expected = mp.fsum(
            mass * by_definition.gaussian_delta(epsilon - loss, mp.mpf(3) / sigma) for loss, mass in law
        )
        lower, upper = curve.bounds(epsilon=epsilon)
        assert lower <= expected <= upper
        assert upper <= lower * (1 + 1e-5)


def test_the_curves_of_proposition_11_cross():
    # PITFALLS appendix B.1: p = 3/4, q = 1/2, two steps. Of the four outcomes each has a probability of 1/4
    # under P, and of 9, 3, 3 and 1 sixteenths under Q.
    run = {"mechanism": hs.RandomizedResponse(0.75), "sample_rate": 0.5, "steps": 2}

    def exact(epsilon, direction):
        p, q = [0.25] * 4, [9 / 16, 3 / 16, 3 / 16, 1 / 16]
        if direction == "add":
            p, q = q, p
        return sum(max(0.0, a - np.exp(epsilon) * b) for a, b in zip(p, q, strict=True))

    one = {
        direction: hs.get_delta(epsilon=0.0, adjacency=direction, **{**run, "steps": 1})
        for direction in ("add", "remove")
    }
    assert one["add"] == pytest.approx(one["remove"])
    larger = set()
    for epsilon in (0.1, 0.3, 0.5, 1.0, 1.3):
        found = {}
        for direction in ("add", "remove"):
            found[direction] = hs.get_delta(epsilon=epsilon, adjacency=direction, **run)
            assert found[direction] == pytest.approx(exact(epsilon, direction), rel=1e-10, abs=1e-12)
        assert hs.get_delta(epsilon=epsilon, **run) == pytest.approx(max(found.values()), rel=1e-12)
        larger.add(max(found, key=found.get))
    assert larger == {"add", "remove"}


def test_a_group_in_fixed_batches_is_seen_as_often_as_a_batch_holds_one_of_it():
    """Two of 20 records in batches of 3, five steps: all answers enumerated."""
    seen = 1 - math.comb(18, 3) / math.comb(20, 3)
    with_group, without = seen * 0.7 + (1 - seen) * 0.3, 0.3

    def delta(epsilon):
        def probability(p, ones):
            return p**ones * (1 - p) ** (5 - ones)

        gains = (
            math.comb(5, i) * (probability(with_group, i) - math.exp(epsilon) * probability(without, i))
            for i in range(6)
        )
        return math.fsum(max(gain, 0.0) for gain in gains)

    run = {"mechanism": hs.RandomizedResponse(0.7), "steps": 5, "group_size": 2, "adjacency": "remove"}
    for epsilon in (0.0, 0.5, 1.6, 3.0):
        low, high = hs.get_delta(epsilon=epsilon, sampling=hs.WithoutReplacement(3, 20), bounds=True, **run)
        assert low * (1 - 1e-12) <= delta(epsilon) <= high * (1 + 1e-12)
        assert high <= low * (1 + 1e-9)


def test_what_theory_does_not_cover_is_refused():
    run = {"delta": 1e-5, "steps": 5}
    for mechanism in (hs.RandomizedResponse(0.7), hs.Laplace(2.0)):
        with pytest.raises(hs.UnsupportedError, match="norms"):
            hs.get_epsilon(mechanism=mechanism, sample_rate=0.1, group=hs.Group(norms=[1.0, 0.5]), **run)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2, 0.6, 1.0])
def test_no_two_answers_of_replaced_records_exceed_the_joined_curve(epsilon):
    """Theorem 8 of docs/theory/dominating-pairs.md, which is attained at a corner."""
    keep, rates = 0.8, (0.2, 0.3)
    seen = 1 - 0.8 * 0.7
    run = {"mechanism": hs.RandomizedResponse(keep), "sample_rate": 0.3, "group": hs.Group(rates=rates)}
    bound = hs.get_delta(epsilon=epsilon, steps=1, adjacency="replace", **run)

    def exact(before, after):
        set_before, set_after = (1 - keep + part * (2 * keep - 1) for part in (before, after))
        gaps = (set_before - np.exp(epsilon) * set_after, 1 - set_before - np.exp(epsilon) * (1 - set_after))
        return sum(max(gap, 0.0) for gap in gaps)

    shares = np.linspace(0.0, seen, 9)
    largest = max(exact(before, after) for before in shares for after in shares)
    assert largest == pytest.approx(bound, rel=1e-9)
