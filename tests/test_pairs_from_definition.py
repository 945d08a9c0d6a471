"""Pairs and bounds of groups against sums and integrals from the definition."""

from functools import partial
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy.stats import norm

import hockeystick as hs
from hockeystick.accountants import GroupAccountant

DIRECTIONS = ("remove", "add")


def density(x, centre, sigma):
    return np.exp(-0.5 * ((x - centre) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))


def delta_of_product(first, second, epsilon, sigma):
    """The integral over two coordinates of (P - e^epsilon Q)+; (P, Q) of each coordinate."""
    x, width = np.linspace(-9 * sigma, 9 * sigma + 4, 6001, retstep=True)
    (p1, q1), (p2, q2) = first(x), second(x)
    rows = (np.maximum(a * p2 - np.exp(epsilon) * b * q2, 0.0).sum() for a, b in zip(p1, q1, strict=True))
    return sum(rows) * width**2


# ---- members with orthogonal gradients -----------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "rates", "norms", "epsilon"),
    [
        (1.0, (0.3, 0.3), (1.0, 1.0), 0.4),
        (1.0, (0.3, 0.3), (1.0, 1.0), 1.5),
        (0.7, (0.1, 0.4), (1.0, 0.5), 0.3),
        (1.3, (0.02, 0.6), (0.6, 1.0), 0.2),
    ],
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_orthogonal_members_are_a_pair_in_two_dimensions(sigma, rates, norms, epsilon, direction):
    def member(x, rate, norm):
        noise = density(x, 0.0, sigma)
        mixture = (1 - rate) * noise + rate * density(x, norm, sigma)
        return (mixture, noise) if direction == "remove" else (noise, mixture)

    sides = [partial(member, rate=rate, norm=norm) for rate, norm in zip(rates, norms, strict=True)]
    exact = delta_of_product(*sides, epsilon, sigma)
    group = hs.Group(rates=rates, norms=norms, gradients="orthogonal")
    run = {"noise_multiplier": sigma, "steps": 1, "group": group, "adjacency": direction}
    lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run)
    assert lower == pytest.approx(exact, rel=1e-5)
    assert upper == pytest.approx(exact, rel=1e-5)
    assert hs.privacy_curve(**run).tight


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_orthogonal_members_compose(direction):
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "adjacency": direction}
    group = hs.Group(16, gradients="orthogonal")
    one = hs.privacy_curve(steps=16_000, **run)
    all_members = hs.privacy_curve(steps=1000, group=group, **run)
    accountant = GroupAccountant(group=group, adjacency=direction)
    accountant.history = [(1.0, 0.01, 1000)]
    for delta in (1e-3, 1e-5, 1e-9):
        epsilon = one.epsilon(delta)
        assert all_members.epsilon(delta) == pytest.approx(epsilon, rel=2e-6)
        assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=2e-6)
        assert all_members.delta(epsilon) == pytest.approx(delta, rel=1e-5)
    assert all_members.renyi(8.0) == pytest.approx(one.renyi(8.0), rel=1e-9)
    assert all_members.beta(0.1) == pytest.approx(one.beta(0.1), rel=1e-4)
    assert all_members.advantage() == pytest.approx(one.advantage(), rel=2e-6)
    tradeoff = hs.TradeoffCurve.from_curve(all_members)
    alone = hs.TradeoffCurve.from_curve(one)
    assert tradeoff.epsilon(1e-5) == pytest.approx(alone.epsilon(1e-5), rel=1e-5)


def test_the_composition_of_orthogonal_members_as_an_independent_inversion_found_it():
    # k 16, q 0.01, sigma 1, T 1,000, delta 1e-5: 16,000 steps of one record; the sum's norms say 44.589.
    group = partial(hs.Group, gradients="orthogonal")
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    assert hs.get_epsilon(delta=1e-5, group=group(16), **run) == pytest.approx(8.1216, abs=1e-4)
    assert hs.get_epsilon(delta=1e-5, group=group(2), **run) == pytest.approx(2.584, abs=1e-3)
    plan = {"sample_rate": 0.01, "group": group(16), "epsilon": 3.0, "delta": 1e-5}
    alone = {"sample_rate": 0.01, "epsilon": 3.0, "delta": 1e-5}
    noise = hs.get_noise_multiplier(steps=1000, **plan)
    assert noise == pytest.approx(hs.get_noise_multiplier(steps=16_000, **alone), rel=1e-5)
    steps = hs.get_steps(noise_multiplier=1.0, **plan)
    assert steps == hs.get_steps(noise_multiplier=1.0, **alone) // 16


def test_orthogonal_members_of_full_batches_add_their_squares():
    run = {"delta": 1e-5, "sampling": hs.FullBatch(), "steps": 50}
    norms = [1.0, 0.5, 0.25, 1.0]
    group = hs.Group(norms=norms, gradients="orthogonal")
    both = hs.get_epsilon(noise_multiplier=20.0, group=group, **run)
    one = hs.get_epsilon(noise_multiplier=20.0 / np.sqrt(np.sum(np.square(norms))), **run)
    assert both == pytest.approx(one, rel=2e-6)


def test_a_mixture_by_the_norms_of_sums_is_an_upper_bound_that_is_not_attained():
    # Shifts sqrt(j), j members in the batch: what GROUP, section 6, says.
    shifts, weights = zip(
        *[(j**0.5 / 2, comb(4, j) * 0.1**j * 0.9 ** (4 - j)) for j in range(5)], strict=True
    )
    for direction in DIRECTIONS:
        run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 1, "adjacency": direction}
        exact = hs.get_delta(epsilon=0.3, group=hs.Group(4, gradients="orthogonal"), **run)
        x, width = np.linspace(-9, 11, 200_001, retstep=True)
        noise = density(x, 0, 1)
        mixture = sum(w * density(x, 2 * s, 1) for w, s in zip(weights, shifts, strict=True))
        p, q = (mixture, noise) if direction == "remove" else (noise, mixture)
        bound = np.maximum(p - np.exp(0.3) * q, 0).sum() * width
        assert exact < 0.999 * bound


# ---- members whose gradients have a bounded cosine -------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cosine", [0.05, 0.3, 0.9])
def test_two_members_of_a_bounded_cosine_are_below_the_pair_of_their_norms(cosine, direction):
    """The definition in the plane, for gradients with exactly that cosine, and at a right angle."""
    rates, norms, sigma, epsilon = [0.3, 0.2], [1.0, 0.6], 0.8, 0.4
    group = partial(hs.Group, rates=rates, norms=norms)
    run = {"noise_multiplier": sigma, "steps": 1, "adjacency": direction}
    curve = hs.privacy_curve(group=group(cosine=cosine), **run)
    bound = curve.delta(epsilon)
    assert not curve.tight
    x, width = np.linspace(-7, 9, 2501, retstep=True)

    def exact(angle):
        steps = [np.zeros(2), np.array([1.0, 0.0]), 0.6 * np.array([angle, (1 - angle**2) ** 0.5])]
        weights = [0.7 * 0.8, 0.3 * 0.8, 0.7 * 0.2, 0.3 * 0.2]
        centres = [steps[0], steps[1], steps[2], steps[1] + steps[2]]
        parts = zip(weights, centres, strict=True)
        mixture = sum(w * np.outer(density(x, c[0], sigma), density(x, c[1], sigma)) for w, c in parts)
        noise = np.outer(density(x, 0, sigma), density(x, 0, sigma))
        p, q = (mixture, noise) if direction == "remove" else (noise, mixture)
        return np.maximum(p - np.exp(epsilon) * q, 0).sum() * width**2

    assert exact(0.0) < exact(cosine) <= bound * (1 + 1e-5)
    # No more is lost than the norms of sums say, and at a cosine of 0.9 that is little.
    assert bound < hs.get_delta(epsilon=epsilon, group=group(), **run)
    if cosine == 0.9:
        assert bound < 1.1 * exact(cosine)


def test_a_bounded_cosine_is_between_orthogonal_and_aligned():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    found = [hs.get_epsilon(group=hs.Group(16, cosine=cosine), **run) for cosine in (0, 1e-9, 0.1, 0.5, 1)]
    assert found == sorted(found)
    assert found[0] == hs.get_epsilon(group=hs.Group(16, gradients="orthogonal"), **run)
    assert found[-1] == hs.get_epsilon(group_size=16, **run)
    # The mixture of GROUP, section 6, which nothing attains.
    assert found[1] == pytest.approx(44.589, abs=2e-3)
    assert hs.Group(4, cosine=1.0) == hs.Group(4)
    one = hs.get_epsilon(group=hs.Group(1, cosine=0.3), **run)
    assert one == hs.get_epsilon(**run)


def test_members_of_a_bounded_cosine_that_are_always_there_are_one_gaussian():
    norms, cosine = np.array([1.0, 0.5, 0.25]), 0.2
    squared = (1 - cosine) * np.sum(norms**2) + cosine * np.sum(norms) ** 2
    run = {"delta": 1e-5, "sampling": hs.FullBatch(), "steps": 50}
    curve = {"group": hs.Group(norms=norms, cosine=cosine), "noise_multiplier": 20.0}
    one = hs.get_epsilon(noise_multiplier=20.0 / np.sqrt(squared), **run)
    assert hs.get_epsilon(**curve, **run) == pytest.approx(one, rel=2e-6)
    assert hs.privacy_curve(**curve, sampling=hs.FullBatch(), steps=50).tight


def test_an_accountant_of_a_bounded_cosine_comes_back_from_its_state():
    accountant = GroupAccountant(group=hs.Group(3, cosine=0.25))
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    other = GroupAccountant(group=hs.Group(3, cosine=0.25))
    other.load_state_dict(accountant.state_dict())
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    with pytest.raises(ValueError, match="group"):
        GroupAccountant(group=hs.Group(3, cosine=0.5)).load_state_dict(accountant.state_dict())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cosine": 1.5}, r"cosine must be in \[0, 1\], got 1.5"),
        ({"gradients": "bounded"}, "gradients='bounded' needs cosine"),
        ({"gradients": "orthogonal", "cosine": 0.5}, "gradients='orthogonal' means cosine=0, got cosine=0.5"),
    ],
)
def test_contradictions_about_cosines_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        hs.Group(3, **arguments)


# ---- fixed batches, several records added or removed ------------------------------------------------


def batch_sums(members, others, batch_size):
    """Sums of all batches: members push by +1, all others by -1. Values and probabilities."""
    contributions = [1.0] * members + [-1.0] * others
    sums = [sum(batch) for batch in combinations(contributions, batch_size)]
    values, counts = np.unique(sums, return_counts=True)
    return values, counts / counts.sum()


def law_of(x, sums, sigma):
    return sum(p * density(x, v, sigma) for v, p in zip(*sums, strict=True))


CASES = [
    (k, b, n) for k, b, n in product((1, 2, 3, 5), (1, 3, 4), (6, 8, 11)) if k + b <= n and comb(n, b) < 400
]


@pytest.mark.parametrize(("k", "b", "n"), CASES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_fixed_batches_attain_the_curve_of_several_records_in_one_step(k, b, n, direction):
    sigma = 2.0
    x, width = np.linspace(-30, 30, 120_001, retstep=True)
    larger, smaller = (law_of(x, batch_sums(m, n - k, b), sigma) for m in (k, 0))
    p, q = (larger, smaller) if direction == "remove" else (smaller, larger)
    run = {"noise_multiplier": sigma, "sampling": hs.WithoutReplacement(b, n), "steps": 1, "group_size": k}
    curve = hs.privacy_curve(adjacency=direction, **run)
    assert curve.tight
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        attained = np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * width
        lower, upper = curve.bounds(epsilon=epsilon)
        assert attained == pytest.approx(upper, rel=1e-6, abs=1e-12)
        assert lower <= attained * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize(("k", "b", "n"), [(2, 3, 8), (3, 2, 7), (5, 3, 8)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_fixed_batches_attain_the_curve_of_several_records_in_two_steps(k, b, n, direction):
    sigma, epsilon = 3.0, 0.7
    x, width = np.linspace(-30, 28, 5801, retstep=True)
    larger, smaller = (law_of(x, batch_sums(m, n - k, b), sigma) for m in (k, 0))
    p, q = (larger, smaller) if direction == "remove" else (smaller, larger)
    rows = (np.maximum(a * p - np.exp(epsilon) * c * q, 0.0).sum() for a, c in zip(p, q, strict=True))
    attained = sum(rows) * width**2
    run = {"noise_multiplier": sigma, "sampling": hs.WithoutReplacement(b, n), "steps": 2, "group_size": k}
    lower, upper = hs.get_delta(epsilon=epsilon, adjacency=direction, bounds=True, **run)
    assert attained == pytest.approx(upper, rel=1e-5)
    assert attained == pytest.approx(lower, rel=1e-5)


def test_no_data_set_exceeds_the_curve_of_several_records_of_fixed_batches():
    generator = np.random.default_rng(5)
    sigma, k, b, n = 1.5, 2, 3, 7
    x, width = np.linspace(-20, 20, 20_001, retstep=True)
    bounds = {
        way: hs.privacy_curve(
            noise_multiplier=sigma, sampling=hs.WithoutReplacement(b, n), steps=1, group_size=k, adjacency=way
        )
        for way in DIRECTIONS
    }
    for _ in range(40):
        values = generator.uniform(-1, 1, n) if generator.random() < 0.5 else generator.choice([-1.0, 1.0], n)
        whole = np.mean([density(x, sum(batch), sigma) for batch in combinations(values, b)], axis=0)
        rest = np.mean([density(x, sum(batch), sigma) for batch in combinations(values[k:], b)], axis=0)
        for way, (p, q) in zip(DIRECTIONS, [(whole, rest), (rest, whole)], strict=True):
            for epsilon in (0.0, 0.4, 1.5):
                found = np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * width
                assert found <= bounds[way].delta(epsilon) * (1 + 1e-6) + 1e-9


def test_where_a_batch_is_all_of_the_smaller_data_set_the_pair_is_an_upper_bound():
    run = {"noise_multiplier": 3.0, "steps": 5}
    for b, n, k, tight in [(4, 8, 4, True), (4, 8, 5, False), (8, 8, 1, False), (7, 8, 1, True)]:
        curve = hs.privacy_curve(sampling=hs.WithoutReplacement(b, n), group_size=k, **run)
        assert curve.tight is tight, (b, n, k)
    assert "smaller data set" in str(curve + hs.privacy_curve(sampling=hs.WithoutReplacement(8, 8), **run))


@pytest.mark.parametrize("k", [2, 3])
def test_laplace_noise_and_randomised_response_in_fixed_batches(k):
    b, n, scale, keep = 3, 9, 4.0, 0.7
    x, width = np.linspace(-80, 80, 400_001, retstep=True)

    def law(members):
        values, weights = batch_sums(members, n - k, b)
        terms = (
            w * np.exp(-np.abs(x - v) / scale) / (2 * scale) for v, w in zip(values, weights, strict=True)
        )
        return sum(terms)

    seen = 1 - comb(n - k, b) / comb(n, b)
    bit = np.array([1 - keep, keep])
    with_group = np.array([1 - keep, keep]) + seen * (2 * keep - 1) * np.array([1, -1])
    sampling = hs.WithoutReplacement(b, n)
    for way in DIRECTIONS:
        p, q = (law(k), law(0)) if way == "remove" else (law(0), law(k))
        r, s = (with_group, bit) if way == "remove" else (bit, with_group)
        run = {"sampling": sampling, "steps": 1, "group_size": k, "adjacency": way}
        for epsilon in (0.05, 0.3):
            attained = np.maximum(p - np.exp(epsilon) * q, 0).sum() * width
            assert hs.get_delta(epsilon=epsilon, mechanism=hs.Laplace(scale), **run) == pytest.approx(
                attained, rel=1e-5
            )
            response = np.maximum(r - np.exp(epsilon) * s, 0).sum()
            found = hs.get_delta(epsilon=epsilon, mechanism=hs.RandomizedResponse(keep), **run)
            assert found == pytest.approx(response, rel=1e-9)


# ---- replaced records: the smallest of the proven bounds ---------------------------------------------

REPLACED = {"noise_multiplier": 8.0, "sampling": hs.WithoutReplacement(256, 60_000), "adjacency": "replace"}


@pytest.mark.parametrize("k", [2, 4, 16, 64])
def test_no_answer_is_above_the_black_box(k):
    run = {**REPLACED, "steps": 2000, "group_size": k}
    box = hs.black_box.get_epsilon(delta=1e-5, **run)
    lower, upper = hs.get_epsilon(delta=1e-5, bounds=True, **run)
    assert 0.0 < lower <= upper <= box * (1 + 1e-6)
    curve = hs.privacy_curve(**run)
    accountant = GroupAccountant(group_size=k, adjacency="replace")
    accountant.history = [(8.0, REPLACED["sampling"], 2000)]
    for found in (curve.epsilon(1e-5), accountant.get_epsilon(1e-5), (curve * 1).epsilon(1e-5)):
        assert found == pytest.approx(upper, rel=1e-9)
    assert curve.bound_used(delta=1e-5) == "chain"
    assert curve.delta(upper) <= 1e-5
    assert hs.get_delta(epsilon=upper, **run) <= 1e-5
    # Removing k records of as many is a run on two such data sets, whose curve nothing proven can be below.
    removed = {**run, "adjacency": "remove"}
    assert hs.get_epsilon(delta=1e-5, **removed) < upper


def test_the_best_chain_is_below_equal_parts():
    run = {**REPLACED, "steps": 2000, "group_size": 16}
    assert hs.get_epsilon(delta=1e-5, **run) < 0.99 * hs.black_box.get_epsilon(delta=1e-5, **run)


def test_the_pair_is_used_where_it_is_the_smaller_one():
    few = hs.privacy_curve(**{**REPLACED, "noise_multiplier": 0.5}, steps=1, group_size=3)
    assert few.bound_used(delta=1e-3) == "pair"
    assert few.bound_used(epsilon=[0.1, 60.0]).tolist()[1] == "pair"
    assert hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=9).bound_used(delta=0.1) == "pair"
    with pytest.raises(TypeError, match="exactly one of delta and epsilon"):
        few.bound_used()
    with pytest.raises(ValueError, match="delta must be"):
        few.bound_used(delta=2.0)


def test_the_planners_use_the_smallest_bound():
    target = {"epsilon": 1.0, "delta": 1e-5}
    run = {"sampling": REPLACED["sampling"], "adjacency": "replace"}
    noise = hs.get_noise_multiplier(steps=2000, group_size=4, **target, **run)
    assert noise < 8.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=noise, steps=2000, group_size=4, **run) <= 1.0
    steps = hs.get_steps(noise_multiplier=8.0, group_size=4, **target, **run)
    assert steps > 2000
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=8.0, steps=steps, group_size=4, **run) <= 1.0
    size = hs.get_group_size(noise_multiplier=8.0, steps=2000, **target, **run)
    assert size >= 5
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=8.0, steps=2000, group_size=size, **run) <= 1.0


def test_error_rates_use_the_smallest_bound():
    curve = hs.privacy_curve(steps=2000, group_size=4, **REPLACED)
    mu = -2 * norm.ppf((1 - curve.advantage()) / 2)
    assert mu < 0.22
    assert curve.beta(0.1) == pytest.approx(norm.cdf(norm.ppf(0.9) - mu), abs=2e-3)
    assert curve.beta(0.1) <= norm.cdf(norm.ppf(0.9) - 0.9 * mu)


@pytest.mark.parametrize(
    "mechanism",
    [hs.Laplace(20.0), pytest.param(hs.RandomizedResponse(0.6), marks=pytest.mark.slow)],
    ids=repr,
)
def test_several_replaced_records_with_other_noise(mechanism):
    run = {"mechanism": mechanism, "sampling": hs.WithoutReplacement(10, 1000), "adjacency": "replace"}
    for k in (2, 5):
        box = hs.black_box.get_epsilon(delta=1e-6, steps=50, group_size=k, **run)
        found = hs.get_epsilon(delta=1e-6, steps=50, group_size=k, **run)
        assert 0.0 < found <= box * (1 + 1e-6)
        removed = {**run, "adjacency": "remove"}
        assert hs.get_epsilon(delta=1e-6, steps=50, group_size=k, **removed) <= found * (1 + 1e-6)


FEW_STEPS = {
    "noise_multiplier": 8.0,
    "sampling": hs.WithoutReplacement(256, 60_000),
    "steps": 3,
    "adjacency": "replace",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # far in the tail
def test_a_chain_after_few_steps_is_no_larger_than_equal_parts():
    """GROUP Theorem 4 by bisection on the curve of one record."""
    one = hs.privacy_curve(**FEW_STEPS)
    size, delta = 4, 1e-5
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        growth = np.exp(middle * np.arange(size)).sum()
        low, high = (low, middle) if one.delta(middle) * growth <= delta else (middle, high)
    found = hs.get_epsilon(delta=delta, group_size=size, **FEW_STEPS)
    assert found <= size * high
    assert found >= size * one.epsilon(delta)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # far in the tail
def test_a_chain_does_not_depend_on_what_was_asked_before():
    fresh, used = (hs.privacy_curve(group_size=4, **FEW_STEPS) for _ in range(2))
    for epsilon in (0.0, 0.05, 0.4):
        used.delta(epsilon)
    used.epsilon(1e-3)
    assert used.delta(0.3) == fresh.delta(0.3)
    assert used.epsilon(1e-5) == fresh.epsilon(1e-5)
