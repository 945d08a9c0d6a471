"""Compositions whose loss is bounded: delta is 0 from the largest loss on, and epsilon never exceeds it."""

import math
import warnings

import mpmath as mp
import pytest

import hockeystick as hs


def quietly(ask, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        return ask(*arguments, **named)


def laplace(scale, steps, **named):
    named = {"sample_rate": 1.0, **named}
    return hs.privacy_curve(mechanism=hs.Laplace(scale), steps=steps, **named)


@pytest.mark.parametrize(("steps", "adjacency"), [(1, "add"), (2, "add_remove"), (3, "remove"), (6, "add")])
def test_delta_is_zero_at_the_pure_epsilon_of_laplace_noise(steps, adjacency):
    curve = laplace(1.0, steps, adjacency=adjacency)
    assert curve.delta(float(steps)) == 0.0
    assert curve.delta(steps + 1e-9) == 0.0
    # The largest losses have the probability 2^-steps; none is above epsilon by more than 1e-7.
    lower, upper = curve.bounds(epsilon=steps - 1e-7)
    assert lower <= 1.00001 * 2.0**-steps * 1e-7
    assert 0.99999 * 2.0**-steps * 1e-7 <= upper <= 1e-7


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7, 1 / 3, 2.3, 1e-3, 49.7])
@pytest.mark.parametrize("steps", [1, 3, 7, 11])
def test_pure_epsilons_that_are_rounded_leave_next_to_nothing(scale, steps):
    curve = laplace(scale, steps)
    for epsilon in (steps / scale, steps * (1 / scale), sum([1 / scale] * steps)):
        found = quietly(curve.delta, epsilon)
        with mp.workdps(60):
            short = mp.mpf(steps) / mp.mpf(scale) - mp.mpf(epsilon)
        if short <= 0:
            assert found == 0.0
        else:
            assert short * mp.mpf(2) ** -(steps + 1) < found <= 2 * short
    assert quietly(curve.delta, math.nextafter(steps / scale, math.inf) * (1 + 4 * steps * 2.0**-53)) == 0.0


def test_steps_of_several_scales_add_up():
    curve = laplace(1.0, 3) + laplace(2.0, 2)
    assert curve.delta(4.0) == 0.0
    assert quietly(curve.delta, 4.0 - 2**-40) <= 2**-40


def binomial_loss(group, rate, scale, sign):
    q, terms = mp.mpf(rate), []
    for j in range(group + 1):
        weight = mp.binomial(group, j) * q**j * (1 - q) ** (group - j)
        terms.append(weight * mp.exp(sign * mp.mpf(j) / mp.mpf(scale)))
    return sign * mp.log(mp.fsum(terms))


@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize(
    ("group", "rate", "scale", "steps"),
    [(1, 0.1, 2.0, 3), pytest.param(4, 0.1, 2.0, 3, marks=pytest.mark.slow), (2, 1e-6, 50.0, 9)],
)
def test_sampled_noise_has_a_pure_epsilon_too(group, rate, scale, steps, adjacency):
    curve = laplace(scale, steps, sample_rate=rate, group_size=group, adjacency=adjacency)
    with mp.workdps(40):
        pure = steps * binomial_loss(group, rate, scale, 1 if adjacency == "remove" else -1)
    assert quietly(curve.delta, float(pure) * (1 + 1e-12)) == 0.0
    assert quietly(curve.delta, float(pure)) <= 1e-12 * float(pure)
    assert quietly(curve.epsilon, 1e-3) <= float(pure) * (1 + 1e-12)


@pytest.mark.parametrize("steps", [1, 4, 30])
def test_randomised_response_has_one(steps):
    curve = hs.privacy_curve(mechanism=hs.RandomizedResponse(0.75), sample_rate=1.0, steps=steps)
    pure = steps * math.log(3)
    assert quietly(curve.delta, pure * (1 + 1e-14)) == 0.0
    assert quietly(curve.delta, pure) <= 1e-14 * pure
    assert quietly(curve.epsilon, 1e-300) <= pure * (1 + 1e-14)


@pytest.mark.parametrize(
    ("scale", "steps"),
    [(0.01, 1), (0.002, 1), pytest.param(0.01, 5, marks=pytest.mark.slow), (1.0, 1), (1.0, 6)],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-12, 1e-100])
def test_epsilon_is_at_most_the_pure_one(scale, steps, delta):
    epsilon = quietly(laplace(scale, steps).epsilon, delta)
    assert epsilon <= steps / scale
    if steps == 1:  # 1 - e^((epsilon - 1/b)/2)
        assert epsilon == pytest.approx(1 / scale + 2 * math.log1p(-delta), rel=1e-6)


@pytest.mark.parametrize("adjacency", ["add", "remove", "replace"])
def test_delta_falls_towards_the_largest_loss(adjacency):
    sampling = hs.WithoutReplacement(10, 100) if adjacency == "replace" else hs.Poisson(0.1)
    curve = laplace(1.5, 3, sample_rate=None, sampling=sampling, adjacency=adjacency)
    sign = -1 if adjacency == "add" else 1
    pure = float(3 * binomial_loss(1, 0.1, 0.75 if adjacency == "replace" else 1.5, sign))
    deltas = [quietly(curve.delta, pure - short) for short in (1e-9, 1e-11, 1e-14, 0.0, -1e-12)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] == 0.0
    assert deltas[0] <= 1e-9
