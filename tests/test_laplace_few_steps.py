"""A few steps of Laplace noise against integrals of the definition, one step after the other."""

import functools
import itertools

import numpy as np
import pytest
from scipy.stats import binom

import hockeystick as hs

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


class Mixture:
    """Noise of scale b on the sum over a group: P a mixture of shifts and Q the noise, or the reverse."""

    def __init__(self, scale, rate, group_size, direction):
        self.scale, self.sign = scale, 1.0 if direction == "remove" else -1.0
        self.weights = binom.pmf(np.arange(group_size + 1), group_size, rate)

    def log_ratio(self, x):
        """log of the mixture over the noise, for outputs from 0 to the size of the group."""
        shifts = np.arange(self.weights.size)
        x = np.asarray(x, dtype=float)[..., None]
        growth = self.weights * np.expm1((np.abs(x) - np.abs(x - shifts)) / self.scale)
        return np.log1p(growth.sum(axis=-1))

    def loss(self, x):
        """log P/Q at an output."""
        return self.sign * self.log_ratio(x)

    def density(self, x):
        """That of P."""
        noise = np.exp(-np.abs(x) / self.scale) / (2.0 * self.scale)
        return noise * np.exp(self.log_ratio(x)) if self.sign > 0 else noise

    @functools.cached_property
    def atoms(self):
        """Losses of the outputs on both sides of the components, and P's probabilities."""
        last = self.weights.size - 1
        losses = np.array([float(self.loss(0.0)), float(self.loss(last))])
        masses = 0.5 * np.exp([0.0, -last / self.scale])
        return losses, masses * np.exp(losses) if self.sign > 0 else masses

    def kinks(self, steps):
        """Epsilons at which the curve of so many steps may not be smooth."""
        knots = [float(self.loss(j)) for j in range(self.weights.size)]
        sums = itertools.combinations_with_replacement(knots, steps)
        return sorted({sum(each) for each in sums})

    def output_with_loss(self, loss, piece):
        """The outputs of [piece, piece + 1] with these losses, or the nearest end, by bisection."""
        low, high = np.full(loss.shape, float(piece)), np.full(loss.shape, piece + 1.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_below = self.sign * (self.loss(middle) - loss) < 0.0
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return low

    def delta(self, steps, epsilon):
        """The curve of so many steps at an array of epsilons."""
        if steps == 0:
            return np.maximum(-np.expm1(epsilon), 0.0)
        return self.mean(lambda rest: self.delta(steps - 1, rest), self.kinks(steps - 1), epsilon)

    def mean(self, curve, kinks, epsilon):
        """The mean of another curve, which may have kinks, at epsilon less the loss: one step before it."""
        epsilon = np.asarray(epsilon, dtype=float)
        losses, masses = self.atoms
        total = curve(epsilon[..., None] - losses) @ masses
        for piece in range(self.weights.size - 1):
            cuts = self.output_with_loss(epsilon[..., None] - np.array(kinks), piece)
            ends = np.full((*epsilon.shape, 1), float(piece))
            ends = np.concatenate((ends, np.sort(cuts, axis=-1), ends + 1.0), axis=-1)
            half = 0.5 * np.diff(ends)[..., None]
            x = 0.5 * (ends[..., 1:] + ends[..., :-1])[..., None] + half * NODES
            values = curve(epsilon[..., None, None] - self.loss(x))
            total = total + np.sum(half * WEIGHTS * self.density(x) * values, axis=(-1, -2))
        return total


# Scale, rate, group, steps, and the part of the largest epsilon that is asked for.
RUNS = [
    (1.0, 1.0, 1, 2, 0.7),
    (1.0, 1.0, 1, 2, 0.999),
    (5.0, 1.0, 1, 3, 0.4),
    (0.4, 0.1, 1, 2, 0.6),
    (3.0, 0.01, 1, 2, 0.1),
    (1.0, 1e-3, 1, 3, 0.5),
    (2.0, 0.2, 2, 2, 0.8),
    (6.0, 0.01, 3, 2, 0.3),
    (0.7, 1e-3, 2, 2, 0.05),
    # More members than are ever seen together.
    (1.0, 1e-3, 7, 2, 0.06),
    (0.5, 1e-4, 10, 2, 0.02),
]


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_delta_is_the_integral_of_its_definition(run, direction):
    scale, rate, group_size, steps, part = run
    mixture = Mixture(scale, rate, group_size, direction)
    epsilon = part * steps * max(float(mixture.loss(0.0)), float(mixture.loss(group_size)))
    expected = float(mixture.delta(steps, epsilon))
    lower, upper = hs.get_delta(
        epsilon=epsilon,
        mechanism=hs.Laplace(scale),
        sample_rate=rate,
        steps=steps,
        group_size=group_size,
        adjacency=direction,
        bounds=True,
    )
    assert lower * (1 - 1e-10) <= expected <= upper * (1 + 1e-10)
    assert upper - lower <= 1e-5 * upper


# The second step has losses that all are next to each other, where the first one decides the tilt.
KINDS = [
    ((0.49, 0.06, 1), (2.06, 0.0005, 1), "remove", 0.041, 0.1),
    ((0.91, 0.11, 1), (5.95, 0.00012, 1), "remove", 0.052, 1e-6),
    ((0.64, 0.17, 1), (4.14, 0.00011, 1), "add", 0.099, 0.1),
    ((0.6, 0.15, 1), (2.4, 0.00025, 1), "remove", 0.032, 1e-6),
    ((0.45, 0.42, 1), (4.11, 0.00017, 1), "add", 0.313, 1e-6),
    ((0.8, 0.1, 2), (3.0, 0.0002, 3), "remove", 0.06, 1e-4),
]


@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_steps_of_two_kinds_are_the_integral_of_their_definition(kinds):
    *_, direction, epsilon, tolerance = kinds
    first, second = (Mixture(*kind, direction) for kind in kinds[:2])
    expected = float(second.mean(lambda rest: first.delta(1, rest), first.kinks(1), epsilon))
    curves = [
        hs.privacy_curve(
            mechanism=hs.Laplace(scale),
            sample_rate=rate,
            steps=1,
            group_size=group_size,
            adjacency=direction,
            tolerance=tolerance,
        )
        for scale, rate, group_size in kinds[:2]
    ]
    lower, upper = (curves[0] + curves[1]).bounds(epsilon=epsilon)
    assert lower * (1 - 1e-10) <= expected <= upper * (1 + 1e-10)
    assert upper - lower <= tolerance * upper


# Lower ends were half of the upper ones.
LARGE_GROUPS = [
    (1.3461610932456352, 0.2754466780844273, 74_935, 868, 5.9778948485231811e-11),
    (18.467692687745675, 0.027536433547501349, 96_060, 483, 2.799960185704015e-10),
    (0.59672068066500217, 1.2949494643579766e-05, 2, 782, 6.4787659351293348e-07),
]


@pytest.mark.parametrize("run", LARGE_GROUPS, ids=str)
def test_large_groups_have_close_ends(run):
    scale, rate, steps, group_size, delta = run
    lower, upper = hs.get_epsilon(
        mechanism=hs.Laplace(scale),
        sample_rate=rate,
        steps=steps,
        group_size=group_size,
        delta=delta,
        bounds=True,
    )
    assert upper - lower <= 1e-6 * upper


def test_four_steps_next_to_the_largest_loss_have_close_ends():
    # All four losses are 4/b with probability 1/16: delta is (1 - e^(epsilon - 16/b)) / 16 next to it.
    scale, delta = 1.6928735107793915, 1e-12
    lower, upper = hs.get_epsilon(
        mechanism=hs.Laplace(scale), sample_rate=1.0, steps=4, group_size=4, delta=delta, bounds=True
    )
    expected = 16.0 / scale + np.log1p(-16.0 * delta)
    assert lower <= expected * (1 + 1e-12)
    assert expected <= upper * (1 + 1e-12)
    assert upper - lower <= 1e-6 * upper


def test_a_contour_that_just_misses_its_limit_is_tried_with_larger_errors():
    """Grids, which came next, left this epsilon 3.5e-5 wide after a second."""
    run = {"mechanism": hs.Laplace(10.555), "sample_rate": 5.6488e-4, "steps": 152, "group_size": 3}
    lower, upper = hs.get_epsilon(delta=5.5176e-4, bounds=True, **run)
    assert 5.06021e-4 < lower <= upper <= lower * (1 + 1e-6)
