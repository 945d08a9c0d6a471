"""One step of bounded losses against its definition: small rates, large scales, groups, fixed batches.

Where next to nobody takes part, or noise is large, losses are next to 0 and so is delta: rounding errors that
are relative to 1 are then larger than the answer. No certified interval may miss the value of the definition,
and none may be wide without a reason.
"""

import itertools
import random
import warnings

import mpmath as mp
import numpy as np
import one_step_pairs as pairs
import pytest

import hockeystick as hs
from hockeystick import renyi

QUESTIONS = 300


def drawn_epsilon(rng, top):
    """Anywhere below the largest loss, next to it, next to 0, 0 itself, or beyond."""
    power = 10 ** rng.uniform(-12, 0)
    return float(top) * rng.choice([rng.random(), 1 - power, power, 0.0, 1 + 1e-3 * power])


def drawn_rate(rng):
    return rng.choice(
        [10 ** rng.uniform(-12, 0), 10 ** rng.uniform(-12, 0), 1 - 10 ** rng.uniform(-12, -1), 1.0]
    )


def drawn_batch(rng):
    dataset = int(10 ** rng.uniform(0.5, 9))
    return rng.choice([rng.randint(1, dataset), max(1, int(dataset * 10 ** rng.uniform(-6, 0)))]), dataset


def largest_laplace_loss(scale, weights, direction):
    sign = 1 if direction == "remove" else -1
    return sign * mp.log(mp.fsum(w * mp.exp(sign * mp.mpf(s) / scale) for s, w in weights.items()))


def laplace_question(rng, fixed):
    scale = 10 ** rng.uniform(-1.5, 4)
    if fixed:
        batch, dataset = drawn_batch(rng)
        weights = pairs.weights_of_fixed_batch(batch, dataset)
        adjacency = rng.choice(["add", "remove", "replace"])
        run = {"sampling": hs.WithoutReplacement(batch, dataset)}
    else:
        rate, group = drawn_rate(rng), int(10 ** rng.uniform(0, 1.7))
        weights = pairs.weights_of_poisson(rate, group)
        adjacency = rng.choice(["add", "remove"])
        run = {"sample_rate": rate, "group_size": group}
    # A record that is replaced: for epsilon >= 0 the curve is that of "remove".
    direction = "add" if adjacency == "add" else "remove"
    epsilon = drawn_epsilon(rng, largest_laplace_loss(scale, weights, direction))
    truth = pairs.laplace_delta(epsilon, scale, weights, direction)
    return {"epsilon": epsilon, "mechanism": hs.Laplace(scale), "adjacency": adjacency, **run}, truth


def response_question(rng, fixed):
    keep = rng.choice([0.5 + 10 ** rng.uniform(-12, -0.4), 1 - 10 ** rng.uniform(-14, -0.5)])
    if fixed:
        batch, dataset = drawn_batch(rng)
        unseen, run = 1 - mp.mpf(batch) / dataset, {"sampling": hs.WithoutReplacement(batch, dataset)}
        adjacency = rng.choice(["add", "remove", "replace"])
    else:
        rate, group = drawn_rate(rng), int(10 ** rng.uniform(0, 1.7))
        unseen, run = (1 - mp.mpf(rate)) ** group, {"sample_rate": rate, "group_size": group}
        adjacency = rng.choice(["add", "remove"])
    direction = "add" if adjacency == "add" else "remove"
    p = mp.mpf(keep)
    no = unseen * p + (1 - unseen) * (1 - p)
    top = mp.log(p / no) if direction == "add" else mp.log((1 - no) / (1 - p))
    epsilon = drawn_epsilon(rng, top)
    truth = pairs.response_delta(epsilon, keep, unseen, direction)
    return {
        "epsilon": epsilon,
        "mechanism": hs.RandomizedResponse(keep),
        "adjacency": adjacency,
        **run,
    }, truth


@pytest.mark.parametrize(
    ("question", "fixed"),
    [
        pytest.param(laplace_question, False, id="laplace_question-poisson", marks=pytest.mark.slow),
        pytest.param(response_question, False, id="response_question-poisson"),
        pytest.param(laplace_question, True, id="laplace_question-fixed"),
        pytest.param(response_question, True, id="response_question-fixed"),
    ],
)
def test_no_interval_misses_the_definition(question, fixed):
    rng = random.Random(20_261_122 + fixed)
    misses, wide = [], 0
    with mp.workdps(pairs.DIGITS), warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)  # next to the largest loss
        for _ in range(QUESTIONS):
            asked, truth = question(rng, fixed)
            lower, upper = hs.get_delta(steps=1, bounds=True, **asked)
            if not mp.mpf(lower) <= truth <= mp.mpf(upper):
                misses.append((asked, lower, upper, mp.nstr(truth, 17)))
            # Only where epsilon is all but the largest loss does rounding of that loss count.
            wide += truth > 1e-290 and upper - lower > 1e-9 * truth
    assert not misses
    assert wide <= QUESTIONS // 5


@pytest.mark.parametrize(
    ("epsilon", "scale", "rate", "group"),
    [
        (2.790929650917556e-11, 119.03738267935937, 1e-8, 1),
        (9.771857619990944e-08, 139.00849041219453, 1e-5, 2),
        (1e-16, 119.0, 1e-12, 1),
        (2.5e-13, 1e3, 1e-9, 1),
    ],
)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_losses_next_to_zero_keep_their_digits(epsilon, scale, rate, group, direction):
    with mp.workdps(pairs.DIGITS):
        weights = pairs.weights_of_poisson(rate, group)
        truth = pairs.laplace_delta(epsilon, scale, weights, direction)
        run = {"mechanism": hs.Laplace(scale), "sample_rate": rate, "group_size": group}
        lower, upper = hs.get_delta(epsilon=epsilon, steps=1, adjacency=direction, bounds=True, **run)
        assert mp.mpf(lower) <= truth <= mp.mpf(upper)
        assert upper - lower <= 1e-11 * truth


GAUSSIAN = [
    ("poisson", 30.0, 1e-9, 1, 1e-11),
    ("poisson", 1e3, 1e-4, 5, 1e-8),
    ("poisson", 0.7, 1e-12, 3, 1e-11),
    ("poisson", 5.0, 0.999999, 2, 0.3),
    ("replace", 200.0, 1e-6, 1, 1e-9),
    ("replace", 2.0, 1e-10, 1, 1e-10),
]


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("kind", "sigma", "rate", "group", "epsilon"), GAUSSIAN)
def test_gaussian_noise_does_so_too(kind, sigma, rate, group, epsilon, direction):
    with mp.workdps(60):
        weights = {mp.mpf(j): w for j, w in pairs.weights_of_poisson(rate, group).items()}
        mirrored, alone = {-c: w for c, w in weights.items()}, {mp.mpf(0): mp.mpf(1)}
        if kind == "replace":
            direction, p, q = "replace", weights, mirrored
        else:
            p, q = (weights, alone) if direction == "remove" else (alone, mirrored)
        truth = pairs.gaussian_delta(epsilon, sigma, p, q)
        run = {"noise_multiplier": sigma, "sample_rate": rate, "group_size": group, "adjacency": direction}
        lower, upper = hs.get_delta(epsilon=epsilon, steps=1, bounds=True, **run)
        assert mp.mpf(lower) <= truth <= mp.mpf(upper)
        assert upper - lower <= 1e-6 * truth


@pytest.mark.parametrize(
    ("order", "rate", "scale", "group"),
    [
        (31.447246761561917, 1.952183523998731e-4, 52.69122663862487, 1),
        (2.0, 1e-7, 1.0, 1),
        (2.5, 1e-12, 300.0, 3),
        (1.0 + 1e-9, 1e-3, 5.0, 2),
        (1.0 + 2**-50, 0.5, 20.0, 1),
        (700.0, 1e-9, 0.4, 2),
        (64.0, 1.0, 1e3, 4),
        (9000.0, 0.999, 0.2, 1),
    ],
)
def test_rdp_of_laplace_noise_is_not_below_the_divergence_and_hardly_above(order, rate, scale, group):
    with mp.workdps(60):
        weights = pairs.weights_of_poisson(rate, group)
        truth = max(pairs.laplace_divergence(order, scale, weights, way) for way in ("add", "remove"))
        run = {"sample_rate": rate, "group_size": group, "bound": "exact"}
        found = float(renyi.group_rdp(hs.Laplace(scale), np.array([order]), **run)[0])
        assert truth <= mp.mpf(found) <= truth * (1 + mp.mpf("1e-10"))


def test_rdp_of_the_curve_is_not_below_it_either():
    for order, rate, scale in itertools.product([1.5, 8.0], [1e-7, 1e-3], [1.0, 80.0]):
        curve = hs.privacy_curve(mechanism=hs.Laplace(scale), sample_rate=rate, steps=1)
        with mp.workdps(60):
            weights = pairs.weights_of_poisson(rate, 1)
            truth = max(pairs.laplace_divergence(order, scale, weights, way) for way in ("add", "remove"))
            assert truth <= mp.mpf(curve.renyi(order)) <= truth * (1 + mp.mpf("1e-3"))


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")
@pytest.mark.parametrize(
    ("scale", "rate", "size", "steps"),
    [
        (10.876, 2.0177e-6, 5, 18),
        (10.876, 2.0177e-6, 5, 2),
        (5.101484636164054, 0.005050043990779394, 50, 15),
    ],
)
def test_adding_and_removing_have_one_total_variation(scale, rate, size, steps):
    """Delta at epsilon 0 is the total variation, which does not depend on the order of the pair."""
    run = {"mechanism": hs.Laplace(scale), "sample_rate": rate, "group_size": size, "steps": steps}
    ends = [
        hs.get_delta(epsilon=0.0, adjacency=adjacency, bounds=True, **run) for adjacency in ("add", "remove")
    ]
    (low, high), (other_low, other_high) = ends
    assert low <= other_high
    assert other_low <= high
    assert high <= 1.001 * low


def _delta_of_one_record(scale, rate, epsilon, adjacency):
    return hs.get_delta(
        epsilon=epsilon,
        mechanism=hs.Laplace(scale),
        sample_rate=rate,
        steps=1,
        adjacency=adjacency,
        bounds=True,
    )


@pytest.mark.parametrize(
    ("inverse", "rate", "epsilon"), [(395, 1e-176, 1.76e-5), (380, 1e-168, 5e-4), (380, 1e-168, 1e-9)]
)
def test_a_rare_record_with_little_noise_is_not_lost_to_underflow(inverse, rate, epsilon):
    """Beyond t, where q (e^((2t - 1)/b) - 1) = e^epsilon - 1, all count: delta = q (1 - e^(-(1 - t)/b))."""
    with mp.workdps(250):
        scale = 1 / inverse
        b, q = mp.mpf(scale), mp.mpf(rate)
        t = (1 + b * mp.log1p(mp.expm1(mp.mpf(epsilon)) / q)) / 2
        exact = q * -mp.expm1(-(1 - t) / b)
        assert 0 < t < 1
        lower, upper = _delta_of_one_record(scale, rate, epsilon, "remove")
        assert lower <= exact <= upper <= exact * (1 + mp.mpf(10) ** -6), (lower, upper)


@pytest.mark.parametrize("adjacency", ["remove", "replace"])
def test_laplace_noise_of_next_to_no_scale_hides_nothing(adjacency):
    lower, upper = _delta_of_one_record(1e-308, 0.1, 1.0, adjacency)
    assert lower <= 0.1 <= upper <= 0.1 * (1 + 1e-9)
