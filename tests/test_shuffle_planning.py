"""Noise, steps and group size of shuffled batches for a target: by the upper end of the interval."""

import math

import pytest

import hockeystick as hs

SHUFFLED = {"sampling": hs.Shuffle(100, 5000), "adjacency": "zero_out"}
TARGET = {"epsilon": 3.0, "delta": 1e-5}


def ends(**run):
    return hs.get_epsilon(delta=TARGET["delta"], bounds=True, **{**SHUFFLED, **run})


@pytest.mark.parametrize(
    ("run", "shift"),
    [
        ({"steps": 100}, math.sqrt(2.0)),  # two epochs, one record, whose gradient is taken out
        ({"steps": 50, "adjacency": "replace"}, 2.0),
        ({"steps": 1}, None),
        ({"steps": 120, "group_size": 3}, None),
    ],
)
def test_the_noise_is_the_smallest_whose_upper_end_meets_the_target(run, shift):
    noise = hs.get_noise_multiplier(**TARGET, **{**SHUFFLED, **run})
    assert ends(noise_multiplier=noise, **run)[1] <= 3.0
    assert ends(noise_multiplier=noise * (1.0 - 1e-5), **run)[1] > 3.0
    if shift is not None:  # one Gaussian step an epoch
        assert noise / shift == pytest.approx(
            hs.get_noise_multiplier(**TARGET, sampling=hs.FullBatch(), steps=1), rel=1e-5
        )


def test_the_other_end_of_the_noise_certainly_misses_the_target():
    lower, upper = hs.get_noise_multiplier(**TARGET, **SHUFFLED, steps=50, bounds=True)
    assert upper == hs.get_noise_multiplier(**TARGET, **SHUFFLED, steps=50)
    assert 0.0 < lower < upper
    assert ends(noise_multiplier=lower, steps=50)[0] > 3.0
    # It is near the largest one that misses, and Poisson accounting would take less than that.
    assert ends(noise_multiplier=1.05 * lower, steps=50)[0] <= 3.0
    assert hs.get_noise_multiplier(**TARGET, sample_rate=0.02, steps=50) < lower


def test_steps_are_the_most_whose_upper_end_meets_the_target():
    run = {"noise_multiplier": 3.0, **SHUFFLED}
    steps = hs.get_steps(**TARGET, **run)
    assert ends(noise_multiplier=3.0, steps=steps)[1] <= 3.0 < ends(noise_multiplier=3.0, steps=steps + 1)[1]
    few, misses = hs.get_steps(epsilon=3.0, delta=1e-2, noise_multiplier=0.7, **SHUFFLED, bounds=True)
    assert few < misses < math.inf
    kept = {"delta": 1e-2, "noise_multiplier": 0.7, "bounds": True, **SHUFFLED}
    assert hs.get_epsilon(steps=int(misses), **kept)[0] > 3.0
    assert hs.get_epsilon(steps=few, **kept)[1] <= 3.0


def test_the_group_is_the_largest_whose_upper_end_meets_the_target():
    run = {"noise_multiplier": 4.0, "steps": 50}
    size, misses = hs.get_group_size(**TARGET, **run, **SHUFFLED, bounds=True)
    assert ends(group_size=size, **run)[1] <= 3.0 < ends(group_size=size + 1, **run)[1]
    assert size < misses
    assert ends(group_size=int(misses), **run)[0] > 3.0
    # Not more than there are.
    assert (
        hs.get_group_size(
            **TARGET, noise_multiplier=1e6, steps=2, sampling=hs.Shuffle(3, 7), adjacency="zero_out"
        )
        == 7
    )


def test_arrays_broadcast_and_executors_give_the_same():
    from concurrent.futures import ThreadPoolExecutor

    plan = {"delta": 1e-5, "epsilon": [2.0, 4.0], "group_size": [[1], [2]], "steps": 50, **SHUFFLED}
    found = hs.get_noise_multiplier(**plan)
    assert found.shape == (2, 2)
    assert found[1, 0] == hs.get_noise_multiplier(**{**plan, "epsilon": 2.0, "group_size": 2})
    with ThreadPoolExecutor(2) as pool:
        assert (hs.get_noise_multiplier(**plan, executor=pool) == found).all()
    sizes = hs.get_group_size(**TARGET, noise_multiplier=[4.0, 8.0], steps=50, **SHUFFLED)
    assert sizes.dtype.kind == "i"
    assert sizes[0] < sizes[1]


def test_what_cannot_be_reached_says_so():
    with pytest.raises(hs.UnreachableError, match="one record has epsilon"):
        hs.get_group_size(**TARGET, noise_multiplier=0.5, steps=50, **SHUFFLED)
    for scheme, relation in ((hs.FullBatch(), "add_remove"), (hs.Shuffle(5, 5), "zero_out")):
        with pytest.warns(hs.UnusualValueWarning, match="0 steps: not even one meets the target"):
            found = hs.get_steps(**TARGET, noise_multiplier=0.2, sampling=scheme, adjacency=relation)
        assert found == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"adjacency": "add_remove"}, hs.UnsupportedError, "adjacency='zero_out'"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"steps": -1}, ValueError, "steps"),
        ({"tolerance": 1.0}, ValueError, "tolerance"),
        ({"bounds": 1}, TypeError, "bounds"),
        ({"group": hs.Group(norms=[1.0, 0.5])}, hs.UnsupportedError, "group_size"),
        ({"sample_rate": 0.1}, TypeError, "sample_rate"),
    ],
)
def test_bad_arguments_are_named(change, error, words):
    with pytest.raises(error, match=words):
        hs.get_noise_multiplier(**{**TARGET, **SHUFFLED, "steps": 50, **change})
