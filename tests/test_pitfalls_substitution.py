"""PITFALLS, section 8: replaced records whose data sets change sides between the steps of a run."""

import numpy as np
import pytest

import hockeystick as hs
from benches.compare import mixed_pairs


def step(noise=2.0, batch=20, adjacency="add"):
    fixed = hs.WithoutReplacement(batch, 100)
    return hs.privacy_curve(noise_multiplier=noise, sampling=fixed, steps=1, adjacency=adjacency)


def test_a_mixed_pair_is_the_product_of_its_steps():
    """Both outputs of two steps on a grid: added in the first, removed in the second."""
    outputs, width = np.linspace(-16.0, 18.0, 1701, retstep=True)
    without, member = (np.exp(-0.5 * ((outputs - mean) / 2.0) ** 2) for mean in (0.0, 2.0))
    scale = 2.0 * np.sqrt(2 * np.pi)
    without, seen = without / scale, (0.8 * without + 0.2 * member) / scale
    p, q = np.outer(without, seen), np.outer(seen, without)
    mixed = step() + step(adjacency="remove")
    for epsilon in (0.0, 0.2, 0.6):
        exact = np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)) * width**2
        lower, upper = mixed.bounds(epsilon=epsilon)
        assert lower <= exact * (1 + 1e-4)
        assert upper == pytest.approx(exact, rel=1e-3)
        assert upper > 0.5 * exact


def test_parts_add_up_like_curves_and_keep_their_sides():
    added, removed = step(), step(adjacency="remove")
    mixed = added * 3 + removed * 2
    assert mixed == removed + (added + added * 2) + removed
    assert hash(mixed) == hash(removed * 2 + added * 3)
    assert mixed == (added + removed) * 2 + added
    assert mixed.steps == 5
    assert repr(mixed) == "<MixedCurve of 3 steps 'add', 2 steps 'remove'>"
    assert set(mixed.segments) == {"add", "remove"}
    assert mixed.epsilon(1e-5) == pytest.approx(mixed.bounds(delta=1e-5)[1])
    assert mixed.advantage() == mixed.delta(0.0)
    assert 0.0 < mixed.beta(0.1) < 0.9
    alone = (added * 3).renyi(2.0) + (removed * 2).renyi(2.0)
    assert mixed.renyi(2.0) == pytest.approx(alone, rel=1e-9)
    assert "remove: 2, Gaussian(2), WithoutReplacement(20, 100)" in str(mixed)
    with pytest.raises(TypeError):
        added + 1
    with pytest.raises(TypeError, match="exactly one"):
        mixed.bounds()


def test_a_part_with_both_directions_is_the_worse_one_of_them():
    added, both = step() * 2, step(adjacency="add_remove") * 2
    ways = [added + step(adjacency=way) * 2 for way in ("add", "remove")]
    worst = max(float(way.delta(0.3)) for way in ways)
    assert (added + both).delta(0.3) == pytest.approx(worst, rel=1e-6)


def test_mixed_curves_are_pickled_and_composed_with_replaced_parts():
    import pickle

    mixed = step() + step(adjacency="replace")
    assert pickle.loads(pickle.dumps(mixed)) == mixed
    assert mixed.delta(0.2) >= (step() * 2).delta(0.2)


def test_no_random_gaussian_run_has_a_mixed_pair_above_both_pure_ones():
    found = mixed_pairs.search("gaussian", 12, seed=4)
    assert found["above"] == 0
    assert found["below"] >= 0.7 * sum(found.values())


def test_the_search_finds_the_mixed_pair_of_figure_3():
    """Laplace noise of scale 3, batches of one of two records, two steps: the worst at some delta."""
    fixed = {"mechanism": hs.Laplace(3.0), "sampling": hs.WithoutReplacement(1, 2)}
    assert mixed_pairs.verdict(fixed, 2, 1, (0.05, 0.08, 0.12)) == ["below", "above", "below"]
