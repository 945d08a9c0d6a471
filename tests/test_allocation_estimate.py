"""`hs.estimate_delta` with independent noise: dealt batches, groups, records in several batches."""

import itertools

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.kernels import gram_monte_carlo_delta

RUN = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(100), "steps": 1000}


@pytest.mark.parametrize("side", ["remove", "add"])
@pytest.mark.parametrize(
    ("sampling", "noise", "steps", "epsilon"),
    [
        (hs.RandomAllocation(10), 1.0, 10, 1.0),
        (hs.RandomAllocation(100), 2.0, 1000, 0.6),
        (hs.RandomAllocation(100), 2.0, 1050, 0.6),
        (hs.FixedBins(20), 2.0, 130, 1.5),
        (hs.RandomAllocation(1), 3.0, 4, 1.0),
    ],
)
def test_exact_values_of_one_record_lie_inside(sampling, noise, steps, epsilon, side):
    run = {"sampling": sampling, "steps": steps, "adjacency": side, "noise_multiplier": noise}
    exact = hs.get_delta(epsilon=epsilon, **run)
    found = hs.estimate_delta(epsilon=epsilon, samples=20_000, seed=4, confidence=0.999, **run)
    assert found.lower <= exact <= found.upper
    assert found.lower <= found.estimate <= found.upper < 2.0 * found.lower


@pytest.mark.parametrize("side", ["remove", "add"])
@pytest.mark.parametrize("members", [2, 3])
def test_groups_agree_with_the_mixture_of_all_their_ways(members, side):
    bins, noise = 6, 1.5
    rows = list(itertools.product(range(bins), repeat=members))
    counts = np.zeros((len(rows), bins))
    for i, row in enumerate(rows):
        np.add.at(counts[i], list(row), 1.0)
    mixture = gram_monte_carlo_delta(
        1.5,
        np.full(len(rows), 1.0 / len(rows)),
        np.eye(bins) / noise**2,
        counts=counts,
        samples=100_000,
        direction=side,
        seed=1,
        confidence=0.999,
    )
    found = hs.estimate_delta(
        epsilon=1.5,
        noise_multiplier=noise,
        sampling=hs.FixedBins(bins),
        steps=bins,
        group_size=members,
        adjacency=side,
        samples=100_000,
        seed=2,
        confidence=0.999,
    )
    assert found.lower <= mixture.upper
    assert mixture.lower <= found.upper
    assert found.upper < 1.2 * found.lower


@pytest.mark.slow
def test_it_is_below_the_certified_bounds_and_grows_with_the_group():
    estimates = [
        hs.estimate_delta(epsilon=1.3, group_size=m, samples=8_000, seed=3, **RUN) for m in (1, 2, 4)
    ]
    for group, found in zip((1, 2, 4), estimates, strict=True):
        assert found.lower <= hs.get_delta(epsilon=1.3, group_size=group, **RUN)
    assert all(first.upper < second.lower for first, second in itertools.pairwise(estimates))
    # The bound with public patterns is close for two records.
    assert estimates[1].upper > 0.3 * hs.get_delta(epsilon=1.3, group_size=2, **RUN)


def test_records_in_several_batches():
    run = {"noise_multiplier": 3.0, "steps": 40, "epsilon": 0.7, "samples": 20_000, "seed": 5}
    found = [hs.estimate_delta(sampling=hs.RandomAllocation(20, times=k), **run) for k in (1, 2, 4)]
    assert found[0].upper < found[1].lower < found[1].upper < found[2].lower
    blocks = hs.get_delta(
        epsilon=0.7, noise_multiplier=3.0, steps=40, sampling=hs.RandomAllocation(20, times=4)
    )
    assert found[2].lower <= blocks
    # In all batches: a full batch.
    full = hs.get_delta(epsilon=0.7, noise_multiplier=3.0, steps=8, sampling=hs.FullBatch())
    always = hs.estimate_delta(sampling=hs.RandomAllocation(4, times=4), **run | {"steps": 8})
    assert always.lower <= full <= always.upper


def test_the_same_seed_gives_the_same_bits():
    first, second, other = (
        hs.estimate_delta(epsilon=1.0, group_size=3, samples=2_000, seed=seed, **RUN) for seed in (1, 1, 2)
    )
    assert first == second != other


def test_a_run_is_taken_as_it_is_stated():
    settings = {"epsilon": 1.0, "samples": 2_000, "seed": 3}
    run = hs.Run(
        sampling="random_allocation", batches=20, epochs=3, noise_multiplier=2.0, records_per_person=2
    )
    scheme = hs.RandomAllocation(20)
    expected = hs.estimate_delta(noise_multiplier=2.0, sampling=scheme, steps=60, group_size=2, **settings)
    assert hs.estimate_delta(run, **settings) == expected
    assert hs.estimate_delta(run.replace(epochs=None, steps=60), **settings) == expected
    by_epochs = hs.estimate_delta(noise_multiplier=2.0, sampling=scheme, epochs=3, group_size=2, **settings)
    assert by_epochs == expected
    assert hs.estimate_delta(run.replace(adjacency="remove"), **settings).upper <= expected.upper
    with pytest.raises(ValueError, match="contradicts the run"):
        hs.estimate_delta(run, steps=61, **settings)
    for other in (
        hs.Run(sampling="poisson", sample_rate=0.1, steps=9, noise_multiplier=1.0),
        run.replace(group=hs.Group(size=2, norms=[1.0, 0.5])),
    ):
        with pytest.raises(hs.UnsupportedError, match=r"takes no (sample_rate|group)"):
            hs.estimate_delta(other, **settings)
    with pytest.raises(TypeError, match="sampling is missing"):
        hs.estimate_delta(noise_multiplier=1.0, steps=3, **settings)
    with pytest.raises(TypeError, match="did you mean noise_multiplier"):
        hs.estimate_delta(sigma=1.0, steps=3, **settings)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sampling": hs.Poisson(0.1)}, hs.UnsupportedError, "RandomAllocation"),
        ({"noise_multiplier": None}, TypeError, "exactly one"),
        ({"mechanism": hs.CorrelatedNoise.toeplitz([1.0], 1.0)}, TypeError, "exactly one"),
        (
            {"noise_multiplier": None, "mechanism": hs.CorrelatedNoise.toeplitz([1.0], 1.0)},
            hs.UnsupportedError,
            "FixedBins",
        ),
        ({"noise_multiplier": 0.0}, ValueError, "noise_multiplier"),
        ({"group_size": 257}, ValueError, "group_size"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"samples": 1}, ValueError, "samples"),
        ({"adjacency": "replace"}, hs.UnsupportedError, "replace"),
        ({"sampling": hs.RandomAllocation(9, times=2), "group_size": 2}, hs.UnsupportedError, "times=1"),
        ({"sampling": hs.RandomAllocation(2**30)}, ValueError, "batches"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        hs.estimate_delta(**{"epsilon": 1.0, "seed": 1, "samples": 100} | RUN | arguments)
