"""The inverse functions: answers meet the target, hardly anything cheaper does, some targets are refused."""

import re

import numpy as np
import pytest

import hockeystick as hs

SETTINGS = {
    "poisson": {"sample_rate": 0.01},
    "fixed batch": {"sampling": hs.WithoutReplacement(100, 10_000)},
    "full batch": {"sampling": hs.FullBatch()},
    "one replaced": {"sample_rate": 0.01, "adjacency": "replace"},
    "one replaced in a fixed batch": {"sampling": hs.WithoutReplacement(100, 10_000), "adjacency": "replace"},
    "orthogonal": {"sample_rate": 0.01, "group": hs.Group(3, gradients="orthogonal")},
    "unequal": {"group": hs.Group(rates=[0.01, 0.02], norms=[1.0, 0.7])},
    "add": {"sample_rate": 0.01, "adjacency": "add"},
}
DELTA = 1e-5


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 20.0])
def test_the_noise_multiplier_meets_its_target_and_hardly_less_would(setting, epsilon):
    plan = {"steps": 100, **setting}
    sigma = hs.get_noise_multiplier(epsilon=epsilon, delta=DELTA, **plan)
    assert hs.get_epsilon(delta=DELTA, noise_multiplier=sigma, **plan) <= epsilon
    # Added records that are seen for certain cost at most -steps * log(1 - rate): no noise may be needed.
    if sigma > 0.0:
        assert hs.get_epsilon(delta=DELTA, noise_multiplier=sigma * (1 - 1e-4), **plan) > epsilon
    lower, upper = hs.get_noise_multiplier(epsilon=epsilon, delta=DELTA, bounds=True, **plan)
    assert lower <= upper == sigma


@pytest.mark.parametrize("group_size", [1, 8, 64])
@pytest.mark.parametrize("epsilon", [0.1, 3.0, 100.0])
def test_the_noise_multiplier_of_a_group_meets_its_target(epsilon, group_size):
    plan = {"sample_rate": 0.02, "steps": 300, "group_size": group_size}
    sigma = hs.get_noise_multiplier(epsilon=epsilon, delta=DELTA, **plan)
    assert hs.get_epsilon(delta=DELTA, noise_multiplier=sigma, **plan) <= epsilon
    # Added records that are seen for certain cost at most -steps * log(1 - rate): no noise may be needed.
    if sigma > 0.0:
        assert hs.get_epsilon(delta=DELTA, noise_multiplier=sigma * (1 - 1e-4), **plan) > epsilon


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("group", [{}, {"group_size": 5}, {"group": hs.Group(norms=[1.0, 0.5])}])
def test_the_sample_rate_meets_its_target_and_hardly_more_would(epsilon, group):
    plan = {"noise_multiplier": 2.0, "steps": 200, **group}
    rate = hs.get_sample_rate(epsilon=epsilon, delta=DELTA, **plan)
    assert 0.0 < rate < 1.0
    assert hs.get_epsilon(delta=DELTA, sample_rate=rate, **plan) <= epsilon
    assert hs.get_epsilon(delta=DELTA, sample_rate=rate * (1 + 1e-4), **plan) > epsilon


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 20.0])
def test_the_steps_meet_their_target_and_one_more_would_not(setting, epsilon):
    plan = {"noise_multiplier": 12.0, **setting}
    steps = hs.get_steps(epsilon=epsilon, delta=DELTA, **plan)
    assert hs.get_epsilon(delta=DELTA, steps=steps, **plan) <= epsilon
    lower, upper = hs.get_steps(epsilon=epsilon, delta=DELTA, bounds=True, **plan)
    assert lower == steps < upper
    assert hs.get_epsilon(delta=DELTA, steps=upper, bounds=True, **plan)[0] >= epsilon * (1 - 1e-6)
    assert upper - lower <= 1 + 1e-3 * upper


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    "setting",
    [
        {"noise_multiplier": 4.0, "sample_rate": 0.01},
        {"noise_multiplier": 8.0, "sampling": hs.WithoutReplacement(100, 10_000)},
        {"noise_multiplier": 100.0, "sampling": hs.FullBatch()},
        {"noise_multiplier": 100.0, "sampling": hs.FullBatch(), "adjacency": "replace"},
        pytest.param(
            {"noise_multiplier": 3.0, "sampling": hs.WithoutReplacement(100, 10_000), "adjacency": "replace"},
            marks=pytest.mark.slow,
        ),
        {"mechanism": hs.Laplace(8.0), "sample_rate": 0.01},
    ],
    ids=lambda setting: "-".join(setting),
)
def test_the_group_size_meets_its_target_and_one_more_would_not(setting):
    plan = {"steps": 100, **setting}
    sizes = hs.get_group_size(epsilon=[3.0, 10.0], delta=DELTA, **plan)
    assert 1 <= sizes[0] < sizes[1]
    for epsilon, size in zip((3.0, 10.0), sizes, strict=True):
        at, above = hs.get_epsilon(delta=DELTA, group_size=[size, size + 1], **plan)
        assert at <= epsilon < above


def test_a_group_is_never_larger_than_the_data_set():
    scheme = hs.WithoutReplacement(3, 6)
    run = {"noise_multiplier": 1000.0, "sampling": scheme, "steps": 1}
    assert hs.get_group_size(epsilon=5.0, delta=DELTA, **run) == 6


def test_answers_of_different_functions_agree():
    run = {"noise_multiplier": 1.3, "sample_rate": 0.02, "steps": 700, "group_size": 3}

    def without(name):
        return {key: value for key, value in run.items() if key != name}

    # A little more than needed, so that rounding to the safe side keeps the answer.
    epsilon = hs.get_epsilon(delta=DELTA, **run) * (1 + 1e-5)
    target = {"epsilon": epsilon, "delta": DELTA}
    assert hs.get_noise_multiplier(**target, **without("noise_multiplier")) == pytest.approx(1.3, rel=1e-4)
    assert hs.get_sample_rate(**target, **without("sample_rate")) == pytest.approx(0.02, rel=1e-4)
    assert hs.get_steps(**target, **without("steps")) == 700
    assert hs.get_group_size(**target, **without("group_size")) == 3


def test_a_target_of_epsilon_zero_is_met_at_a_large_delta():
    # At delta = 0.5 enough noise reaches epsilon = 0 exactly.
    plan = {"sample_rate": 0.01, "steps": 10}
    sigma = hs.get_noise_multiplier(epsilon=0.0, delta=0.5, **plan)
    assert hs.get_delta(epsilon=0.0, noise_multiplier=sigma, **plan) <= 0.5
    assert hs.get_epsilon(delta=0.5, noise_multiplier=sigma, **plan) == 0.0


def test_an_epsilon_near_zero_at_a_large_delta_is_met():
    plan = {"sample_rate": 0.01, "steps": 10}
    sigma = hs.get_noise_multiplier(epsilon=1e-3, delta=0.9, **plan)
    assert hs.get_epsilon(delta=0.9, noise_multiplier=sigma, **plan) <= 1e-3


UNREACHABLE = [
    (hs.get_noise_multiplier, {"epsilon": 0.0, "delta": 1e-12, "sample_rate": 1.0, "steps": 1000}),
    (hs.get_noise_multiplier, {"epsilon": 1e-6, "delta": 1e-15, "sample_rate": 1.0, "steps": 10**6}),
    (
        hs.get_group_size,
        {"epsilon": 0.1, "delta": 1e-9, "noise_multiplier": 0.5, "sample_rate": 0.5, "steps": 9},
    ),
]
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")


@pytest.mark.parametrize(("function", "call"), UNREACHABLE)
def test_an_unreachable_target_says_so_and_what_is_within_reach(function, call):
    with pytest.raises(ValueError, match=r"\bepsilon\b") as caught:
        function(**call)
    numbers = [float(number) for number in NUMBER.findall(str(caught.value))]
    # The message names the nearest epsilon within reach: it works, and a little less does not.
    named = [number for number in numbers if number > call["epsilon"]]
    assert any(
        works(function, call, 1.01 * number) and not works(function, call, 0.9 * number) for number in named
    )


def works(function, call, epsilon):
    try:
        function(**{**call, "epsilon": epsilon})
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("function", [hs.get_noise_multiplier])
def test_one_unreachable_target_among_others_is_refused(function):
    with pytest.raises(ValueError, match="epsilon"):
        function(epsilon=[3.0, 0.0], delta=1e-12, sample_rate=1.0, steps=1000)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
def test_no_steps_and_no_sampling_are_answers_too():
    # One step already costs more: the answer is zero steps, not an error.
    strict = {"epsilon": 0.01, "delta": 1e-9, "noise_multiplier": 0.5}
    assert hs.get_steps(sample_rate=1.0, **strict) == 0
    strict["noise_multiplier"] = 2.0
    rate = hs.get_sample_rate(steps=1000, **strict)
    assert 0.0 <= rate < 0.01
    assert hs.get_epsilon(delta=1e-9, noise_multiplier=2.0, sample_rate=rate, steps=1000) <= 0.01


def test_a_target_that_everything_meets_gives_the_largest_answer():
    run = {"noise_multiplier": 100.0, "steps": 10}
    assert hs.get_sample_rate(epsilon=10.0, delta=1e-5, **run) == 1.0
    lower, upper = hs.get_steps(epsilon=1.0, delta=1e-5, noise_multiplier=1.0, sample_rate=0.0, bounds=True)
    assert lower >= 10**9
    assert upper == np.inf
    assert hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.0, steps=10) == 0.0


@pytest.mark.parametrize("name", ["mechanism", "noise_multiplier", "sampling", "sample_rate", "group"])
def test_the_unknown_is_not_an_argument(name):
    calls = {
        "noise_multiplier": (hs.get_noise_multiplier, {"sample_rate": 0.1, "steps": 5}, 1.0),
        "mechanism": (hs.get_noise_multiplier, {"sample_rate": 0.1, "steps": 5}, hs.Laplace(1.0)),
        "sample_rate": (hs.get_sample_rate, {"noise_multiplier": 1.0, "steps": 5}, 0.1),
        "sampling": (hs.get_sample_rate, {"noise_multiplier": 1.0, "steps": 5}, hs.Poisson(0.1)),
        "group": (hs.get_group_size, {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 5}, hs.Group(2)),
    }
    function, call, value = calls[name]
    with pytest.raises((TypeError, hs.UnsupportedError), match=name):
        function(epsilon=1.0, delta=1e-5, **call, **{name: value})


def test_the_sample_rate_of_members_with_rates_is_not_asked_for():
    with pytest.raises(hs.UnsupportedError, match="leave out rates"):
        hs.get_sample_rate(
            epsilon=1.0, delta=1e-5, noise_multiplier=1.0, steps=5, group=hs.Group(rates=[0.1, 0.2])
        )
