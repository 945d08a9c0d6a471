"""The random runs on which peers are asked, each drawn from its number: the number reproduces it."""

import math
from dataclasses import dataclass

import numpy as np

import hockeystick as hs

SEED = 20_260_000

KINDS = ("poisson", "full batch", "group", "poisson", "replace", "laplace", "poisson", "randomised response")
"""In turn; Poisson sampling of one record is what every peer knows."""

LARGEST_SPREAD = 4.0
"""Largest standard deviation of the privacy loss: beyond it the grids of the peers fill the memory."""


@dataclass(frozen=True)
class Configuration:
    """A run, and the points at which it is asked."""

    number: int
    kind: str
    noise: float
    """Noise multiplier, scale of Laplace noise, or the probability of the true answer."""
    sample_rate: float
    steps: int
    group_size: int
    delta: float
    epsilon: float

    @property
    def run(self):
        """The same as arguments of our functions."""
        step = {"steps": self.steps}
        if self.kind == "laplace":
            return {**step, "mechanism": hs.Laplace(self.noise), "sample_rate": self.sample_rate}
        if self.kind == "randomised response":
            return {**step, "mechanism": hs.RandomizedResponse(self.noise), "sampling": hs.FullBatch()}
        step["noise_multiplier"] = self.noise
        if self.kind == "replace":
            return {**step, "sampling": hs.FullBatch(), "adjacency": "replace"}
        if self.kind == "full batch":
            return {**step, "sampling": hs.FullBatch()}
        return {**step, "sample_rate": self.sample_rate, "group_size": self.group_size}


def configurations(numbers, *kinds):
    """Configurations of these numbers, those of other kinds left out."""
    return [run for run in map(configuration, numbers) if run.kind in kinds]


def configuration(number):
    """Configuration of this number: it depends on nothing else."""
    generator = np.random.default_rng([SEED, number])
    while True:
        drawn = draw(generator, number, KINDS[number % len(KINDS)])
        if spread(drawn) <= LARGEST_SPREAD:
            return drawn


def draw(generator, number, kind):
    """Draw one configuration, however wide its privacy loss is."""
    noise = log_uniform(generator, 0.5, 20.0)
    if kind == "randomised response":
        noise = float(generator.uniform(0.505, 0.95))
    is_sampled = kind not in ("full batch", "replace", "randomised response")
    rate = log_uniform(generator, 1e-4, 0.9) if is_sampled else 1.0
    return Configuration(
        number=number,
        kind=kind,
        noise=noise,
        sample_rate=rate,
        steps=int(log_uniform(generator, 1.0, 5000.0)),
        group_size=int(generator.integers(2, 13)) if kind == "group" else 1,
        delta=log_uniform(generator, 1e-8, 1e-1),
        epsilon=log_uniform(generator, 1e-2, 10.0),
    )


def spread(drawn):
    """About the standard deviation of the privacy loss of the run."""
    if drawn.kind == "randomised response":
        one = math.log(drawn.noise / (1.0 - drawn.noise))
    elif drawn.kind == "laplace":
        one = drawn.sample_rate * math.sqrt(math.expm1(1.0 / drawn.noise))
    else:
        shift = 2.0 if drawn.kind == "replace" else float(drawn.group_size)
        one = drawn.sample_rate * math.sqrt(math.expm1(min(500.0, (shift / drawn.noise) ** 2)))
    return one * math.sqrt(drawn.steps)


def log_uniform(generator, low, high):
    """Draw a number whose logarithm is uniform."""
    return float(math.exp(generator.uniform(math.log(low), math.log(high))))
