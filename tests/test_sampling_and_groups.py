"""The words of a configuration: sampling schemes, groups, mechanisms."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import hockeystick as hs

WORDS = [
    hs.Poisson(0.25),
    hs.WithoutReplacement(256, 60_000),
    hs.FullBatch(),
    hs.Group(4),
    hs.Group(rates=[0.1, 0.2], norms=[1.0, 0.5], gradients="orthogonal"),
    hs.Laplace(2.0),
]


@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_words_are_values(word):
    for twin in (copy.deepcopy(word), pickle.loads(pickle.dumps(word))):
        assert twin == word
        assert hash(twin) == hash(word)
    assert eval(repr(word), vars(hs)) == word
    assert len({*WORDS, word}) == len(WORDS)


@pytest.mark.parametrize("word", [w for w in WORDS if vars(w)], ids=repr)
def test_words_do_not_change(word):
    for name in vars(word):
        with pytest.raises(FrozenInstanceError):
            setattr(word, name, 1)


def test_numbers_of_any_real_type_are_taken_as_python_numbers():
    scheme = hs.WithoutReplacement(np.int8(16), 1e3)
    assert scheme == hs.WithoutReplacement(16, 1000)
    assert type(scheme.batch_size) is type(scheme.dataset_size) is int
    assert type(hs.Poisson(np.float32(0.25)).sample_rate) is float
    assert type(hs.Laplace(np.int64(2)).scale) is float
    group = hs.Group(np.uint8(2), np.array([0, 1]), (1, np.float32(0.5)))
    assert group == hs.Group(2, [0.0, 1.0], [1.0, 0.5])
    assert {type(value) for value in (*group.rates, *group.norms)} == {float}


def test_sizes_of_a_batch_have_a_range():
    largest = hs.WithoutReplacement(1, 2**53)
    assert largest.dataset_size == 2**53
    assert hs.WithoutReplacement(7, 7).batch_size == 7
    with pytest.raises(ValueError, match="batch_size must be at most dataset_size 7, got 8"):
        hs.WithoutReplacement(8, 7)
    with pytest.raises(ValueError, match="dataset_size must be a whole number in"):
        hs.WithoutReplacement(1, 2**53 + 1)
    with pytest.raises(ValueError, match="batch_size must be a whole number in"):
        hs.WithoutReplacement(0, 7)


def test_the_size_of_a_group_follows_from_its_members():
    assert hs.Group(rates=[0.1, 0.2, 0.3]).size == 3
    assert hs.Group(norms=np.ones(5)).size == 5
    assert hs.Group(3, rates=[0.1, 0.2, 0.3]).size == 3
    assert hs.Group(10_000).size == 10_000


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "at least one of size, rates and norms"),
        ({"size": 2, "rates": [0.1]}, "got 2 by size, 1 by rates"),
        ({"rates": [0.1], "norms": [1.0, 1.0]}, "got 1 by rates, 2 by norms"),
        ({"size": 10_001}, "size must be a whole number in"),
        ({"rates": np.full(10_001, 0.1)}, "rates must be 1 to 10000 values"),
        ({"norms": [1.0, 1.5]}, r"norms must be in \[0, 1\], got 1.5"),
        ({"rates": [float("nan")]}, r"rates must be in \[0, 1\], got nan"),
        ({"size": 2, "gradients": "random"}, "gradients must be one of 'aligned', 'orthogonal'"),
    ],
)
def test_a_group_that_makes_no_sense_is_refused(members, message):
    with pytest.raises(ValueError, match=message):
        hs.Group(**members)


def test_a_group_and_a_group_size_exclude_each_other():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 5}
    expected = hs.get_epsilon(group_size=3, **run)
    assert hs.get_epsilon(group=hs.Group(3), **run) == expected
    assert hs.get_epsilon(group=hs.Group(3), group_size=3, **run) == expected
    for group_size in (2, [3], [1, 3]):
        with pytest.raises(TypeError, match="at most one of group_size and group"):
            hs.get_epsilon(group=hs.Group(3), group_size=group_size, **run)
    for wrong in (3, {"size": 3}, hs.Group):
        with pytest.raises(TypeError, match="group must be a Group"):
            hs.get_epsilon(group=wrong, **run)


def test_rates_of_the_members_take_the_place_of_the_sample_rate():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 5, "group": hs.Group(rates=[0.1, 0.1])}
    epsilon = hs.get_epsilon(**run)
    assert hs.get_epsilon(sample_rate=0.9, **run) == epsilon
    assert hs.get_epsilon(sampling=hs.Poisson(0.9), **run) == epsilon
    plain = {**run, "group": None, "group_size": 2}
    assert hs.get_epsilon(sample_rate=0.1, **plain) == pytest.approx(epsilon, rel=2e-6)
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        hs.get_epsilon(**plain)
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        hs.get_epsilon(sample_rate=0.1, sampling=hs.Poisson(0.1), **run)


def test_the_noise_is_given_once():
    run = {"delta": 1e-5, "sample_rate": 0.1, "steps": 5}
    laplace = hs.Laplace(5.0)
    assert hs.get_epsilon(mechanism=laplace, **run) > 0
    assert hs.get_epsilon(mechanism=hs.Gaussian(2.0), **run) == hs.get_epsilon(noise_multiplier=2.0, **run)
    with pytest.raises(TypeError, match="exactly one of noise_multiplier and mechanism"):
        hs.get_epsilon(mechanism=laplace, noise_multiplier=1.0, **run)
    with pytest.raises(TypeError, match="exactly one of noise_multiplier and mechanism"):
        hs.get_epsilon(**run)
    for wrong in ("laplace", hs.Laplace, 1.0):
        with pytest.raises(
            TypeError,
            match=r"mechanism must be Gaussian\(noise_multiplier\), .*Laplace\(scale\)",
        ):
            hs.get_epsilon(mechanism=wrong, **run)


def test_a_group_fits_into_its_data_set():
    run = {"delta": 1e-5, "noise_multiplier": 9.0, "sampling": hs.WithoutReplacement(2, 5), "steps": 3}
    assert hs.get_epsilon(group_size=5, **run) < np.inf
    for function in (hs.get_epsilon, hs.black_box.get_epsilon):
        with pytest.raises(ValueError, match="group_size must be at most dataset_size 5, got 6"):
            function(group_size=[1, 6], **run)


@pytest.mark.parametrize("wrong", ["yes", None, 2])
def test_bounds_is_true_or_false(wrong):
    with pytest.raises(TypeError, match="bounds must be True or False"):
        hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.1, steps=5, bounds=wrong)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")
@pytest.mark.parametrize(
    ("adjacency", "width"), [("remove", 1e-6), pytest.param("replace", 0.05, marks=pytest.mark.long)]
)
def test_forty_members_with_norms_have_useful_intervals_after_few_steps(adjacency, width):
    # 2,100 different sums: with the work of a small group the ends were 7.5 and 14, and 4.9 and 12,735.
    norms = np.random.default_rng(4).uniform(0.05, 1.0, 40).round(2).tolist()
    group, run = hs.Group(norms=norms), {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
    curve = hs.privacy_curve(group=group, adjacency=adjacency, **run)
    low, high = curve.bounds(delta=1e-5)
    assert 7.0 < low <= high < low * (1.0 + width)
