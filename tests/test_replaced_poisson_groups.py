"""Several replaced records of a Poisson sample: the pair of docs/theory/dominating-pairs.md, Theorem 7."""

import itertools

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import kernels

RATES, NORMS = (0.3, 0.1, 0.2), (1.0, 0.5, 0.75)


def mixture(outputs, rates, shifts, sigma):
    """Density of the noisy sum of a sample in which each member is with its rate."""
    density = np.zeros_like(outputs)
    for chosen in itertools.product((False, True), repeat=len(rates)):
        weight = np.prod([rate if is_in else 1 - rate for rate, is_in in zip(rates, chosen, strict=True)])
        mean = sum(shift for shift, is_in in zip(shifts, chosen, strict=True) if is_in)
        density += weight * np.exp(-0.5 * ((outputs - mean) / sigma) ** 2)
    return density / (sigma * np.sqrt(2 * np.pi))


def hockey_stick(p, q, epsilon, width):
    return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)) * width)


@pytest.mark.parametrize("known", ["size", "rates", "norms", "both"])
def test_replaced_groups_attain_the_mirrored_pair(known):
    """Members who contribute 1 each, or their norms, are replaced by members who contribute the opposite."""
    rates = RATES if known in ("rates", "both") else (0.2,) * 3
    norms = NORMS if known in ("norms", "both") else (1.0,) * 3
    group = hs.Group(
        size=3,
        rates=rates if known in ("rates", "both") else None,
        norms=norms if known in ("norms", "both") else None,
    )
    outputs, width = np.linspace(-30.0, 30.0, 120_001, retstep=True)
    for sigma in (0.8, 2.0):
        p, q = (mixture(outputs, rates, sign * np.array(norms), sigma) for sign in (1, -1))
        for epsilon in (0.0, 0.4, 2.0):
            exact = hockey_stick(p, q, epsilon, width)
            lower, upper = hs.get_delta(
                epsilon=epsilon,
                noise_multiplier=sigma,
                sample_rate=0.2,
                steps=1,
                group=group,
                adjacency="replace",
                bounds=True,
            )
            assert lower <= exact * (1 + 1e-6) + 1e-12
            assert upper >= exact * (1 - 1e-6) - 1e-12
            assert upper - lower < 1e-5 * upper


def test_two_steps_are_the_integral_over_two_outputs():
    outputs, width = np.linspace(-16.0, 16.0, 1601, retstep=True)
    p, q = (mixture(outputs, (0.25, 0.25), (sign, sign), 1.5) for sign in (1.0, -1.0))
    both = [np.outer(law, law) for law in (p, q)]
    run = {"noise_multiplier": 1.5, "sample_rate": 0.25, "steps": 2, "group_size": 2, "adjacency": "replace"}
    for epsilon in (0.1, 1.0):
        exact = hockey_stick(*both, epsilon, width**2)
        assert hs.get_delta(epsilon=epsilon, **run) == pytest.approx(exact, rel=1e-3)


def test_no_replaced_group_exceeds_the_mirrored_pair():
    """Random records in the plane before and after, and half of the bound would be exceeded by the worst."""
    generator = np.random.default_rng(7)
    axis, width = np.linspace(-8.0, 8.0, 161, retstep=True)
    plane = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    sigma, rates = 1.2, (0.4, 0.2)

    def density(records):
        total = np.zeros(plane.shape[:2])
        for chosen in itertools.product((0, 1), repeat=2):
            weight = np.prod([q if c else 1 - q for q, c in zip(rates, chosen, strict=True)])
            mean = np.array(chosen) @ records
            total += weight * np.exp(-0.5 * np.sum((plane - mean) ** 2, axis=-1) / sigma**2)
        return total / (2 * np.pi * sigma**2)

    def disc():
        angles, radii = generator.uniform(0, 2 * np.pi, 2), np.sqrt(generator.uniform(0, 1, 2))
        return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)

    opposite = np.array([[1.0, 0.0], [1.0, 0.0]])
    pairs = [(opposite, -opposite), *((disc(), disc()) for _ in range(60))]
    group = hs.Group(rates=rates)
    run = {"noise_multiplier": sigma, "steps": 1, "group": group, "adjacency": "replace"}
    for epsilon in (0.1, 0.8):
        most = hs.get_delta(epsilon=epsilon, **run)
        found = [hockey_stick(density(a), density(b), epsilon, width**2) for a, b in pairs]
        assert max(found) <= most * (1 + 1e-3)
        assert max(found) == pytest.approx(most, rel=1e-3)


def test_replacing_a_group_is_worse_than_removing_it_and_better_than_publishing_who_is_in():
    run = {"noise_multiplier": 6.0, "sample_rate": 0.05, "steps": 200}
    for size in (2, 8):
        removed = hs.get_epsilon(delta=1e-6, group_size=size, **run)
        replaced = hs.get_epsilon(delta=1e-6, group_size=size, adjacency="replace", **run)
        # Group privacy of twice as many added and removed records: a chain through the smaller data set.
        twice = hs.get_epsilon(delta=1e-6, group_size=2 * size, **run)
        weights, shifts = kernels.binomial_law(size, 0.05)
        published = 200 * np.log(np.sum(weights * np.exp(2 * 1 * (2 * shifts) ** 2 / (2 * 6.0**2))))
        assert removed < replaced
        assert replaced < 1.2 * twice
        two = hs.privacy_curve(group_size=size, adjacency="replace", **run).renyi(2.0)
        assert two < published


def test_bounded_cosines_lie_between_one_direction_and_none():
    run = {"noise_multiplier": 3.0, "sample_rate": 0.1, "steps": 50, "delta": 1e-5, "adjacency": "replace"}
    aligned = hs.get_epsilon(group_size=4, **run)
    bounded = [hs.get_epsilon(group=hs.Group(4, cosine=cosine), **run) for cosine in (0.2, 0.7)]
    assert hs.get_epsilon(**run) < bounded[0] < bounded[1] < aligned


def test_planners_answer_for_replaced_groups():
    run = {"sample_rate": 0.01, "steps": 500, "adjacency": "replace"}
    noise = hs.get_noise_multiplier(epsilon=2.0, delta=1e-6, group_size=3, **run)
    assert hs.get_epsilon(delta=1e-6, noise_multiplier=noise, group_size=3, **run) <= 2.0
    assert hs.get_epsilon(delta=1e-6, noise_multiplier=0.999 * noise, group_size=3, **run) > 2.0
    assert hs.get_group_size(epsilon=2.0, delta=1e-6, noise_multiplier=noise, **run) == 3


def test_a_group_of_full_batches_moves_by_twice_its_size():
    run = {"delta": 1e-5, "noise_multiplier": 20.0, "steps": 3, "group_size": 5, "adjacency": "replace"}
    full = hs.get_epsilon(sampling=hs.FullBatch(), **run)
    assert hs.get_epsilon(sample_rate=1.0, **run) == pytest.approx(full, rel=1e-9)
