"""Batches by shuffling, subsampling and Poisson sampling: what they hold, and that they are random."""

from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
from scipy.stats import chisquare

from hockeystick import training

SIGNIFICANCE = 0.01
"""Of tests on fixed seeds: a wrong distribution gives p-values many orders of magnitude smaller."""


def test_shuffled_batches_hold_every_record_once_but_for_the_left_over_ones():
    random = np.random.default_rng(1)
    for dataset_size, batch_size in [(12, 4), (14, 4), (5, 5), (7, 1), (9, 5)]:
        batches = list(training.shuffled_batches(dataset_size, batch_size, seed=random))
        assert [len(batch) for batch in batches] == [batch_size] * (dataset_size // batch_size)
        records = np.concatenate(batches)
        assert len(set(records.tolist())) == dataset_size // batch_size * batch_size
        assert set(records.tolist()) <= set(range(dataset_size))


def test_shuffled_batches_are_a_uniformly_random_permutation():
    random = np.random.default_rng(2)
    draws = (list(training.shuffled_batches(5, 2, seed=random)) for _ in range(12_000))
    counts = Counter(tuple(np.concatenate(batches).tolist()) for batches in draws)
    assert is_uniform(counts, list(permutations(range(5), 4)))


def test_subsampled_batches_are_uniform_subsets_in_random_order():
    batches = training.subsampled_batches(6, 3, 12_000, seed=3)
    counts = Counter(tuple(batch.tolist()) for batch in batches)
    assert is_uniform(counts, list(permutations(range(6), 3)))


def test_subsampled_batches_are_independent_of_each_other():
    batches = [tuple(sorted(batch.tolist())) for batch in training.subsampled_batches(4, 2, 7_200, seed=4)]
    counts = Counter(zip(batches[::2], batches[1::2], strict=True))
    assert is_uniform(counts, list(product(combinations(range(4), 2), repeat=2)))


def test_poisson_batches_take_every_record_on_its_own_at_the_rate():
    counts = Counter(tuple(batch.tolist()) for batch in training.poisson_batches(3, 0.3, 20_000, seed=5))
    subsets = [subset for size in range(4) for subset in combinations(range(3), size)]
    assert set(counts) == set(subsets)
    expected = [20_000 * 0.3 ** len(subset) * 0.7 ** (3 - len(subset)) for subset in subsets]
    assert chisquare([counts[subset] for subset in subsets], expected).pvalue > SIGNIFICANCE


def test_poisson_batches_at_the_ends_of_the_rate():
    assert all(batch.tolist() == [0, 1, 2] for batch in training.poisson_batches(3, 1.0, 5, seed=1))
    assert all(batch.tolist() == [] for batch in training.poisson_batches(3, 0.0, 5, seed=1))


def test_equal_seeds_draw_equal_batches_and_a_generator_goes_on():
    def drawn(seed):
        return [
            np.concatenate(list(batches)).tolist()
            for batches in (
                training.shuffled_batches(50, 10, seed=seed),
                training.subsampled_batches(50, 10, 5, seed=seed),
                training.poisson_batches(50, 0.5, 5, seed=seed),
            )
        ]

    assert drawn(7) == drawn(7)
    assert all(one != other for one, other in zip(drawn(7), drawn(8), strict=True))
    random = np.random.default_rng(7)
    assert all(one != other for one, other in zip(drawn(random), drawn(random), strict=True))


def is_uniform(counts, outcomes):
    assert set(counts) <= set(outcomes)
    return chisquare([counts[outcome] for outcome in outcomes]).pvalue > SIGNIFICANCE
