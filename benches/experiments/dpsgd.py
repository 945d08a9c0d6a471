"""DP-SGD with Poisson batches, for models that sum clipped gradients themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches.experiments.models import Floats, Labels, Model


@dataclass
class Training:
    """A run of DP-SGD, as INDIVIDUAL's Algorithm 1 writes it.

    Attributes
    ----------
    model : Model
        The model.
    rows, labels : ndarray
        Examples.
    sample_rate, steps, noise_multiplier : float, int, float
        What the privacy depends on. The noise has the standard deviation noise_multiplier times the clipping
        norm.
    clipping_norm : float
        Clipping norm C; with `quantile` that of the first step.
    learning_rate : float
        Step size for the noisy sum over the expected size of a batch.
    bounds : callable, optional
        Returns the bounds to which the examples of a batch, given by their indices, are clipped; C by
        default.
    before_step : callable, optional
        Is told the step and the weights before each step.
    quantile, count_noise, clipping_rate : float, optional
        With `quantile` the clipping norm follows that quantile of the norms by the geometric updates of
        Andrew et al. (2021), with noise of this standard deviation on the count of unclipped gradients, each
        less one half.
    expected_size : float, optional
        Size of a batch by which sums are divided, where it must not depend on the number of examples.
    """

    model: Model
    rows: Floats
    labels: Labels
    sample_rate: float
    steps: int
    noise_multiplier: float
    clipping_norm: float
    learning_rate: float
    bounds: Callable[[NDArray[np.int64]], Any] | None = None
    before_step: Callable[[int, Floats], None] | None = None
    quantile: float | None = None
    count_noise: float = 0.0
    clipping_rate: float = 0.2
    expected_size: float | None = None
    norms: list[float] = field(default_factory=list)
    """Clipping norm of each step that was taken."""

    def run(self, seed: int) -> Floats:
        """Train from the model's initial weights and return the weights at the end."""
        random = np.random.default_rng(seed)
        weights = self.model.initial(seed)
        expected = self.expected_size or self.sample_rate * len(self.rows)
        clip = self.clipping_norm
        self.norms.clear()
        for step in range(self.steps):
            if self.before_step is not None:
                self.before_step(step, weights)
            self.norms.append(clip)
            batch = np.flatnonzero(random.random(len(self.rows)) < self.sample_rate)
            bounds = clip if self.bounds is None else self.bounds(batch)
            total, unclipped = self.model.clipped_sum(weights, self.rows[batch], self.labels[batch], bounds)
            noise = random.standard_normal(weights.size, dtype=np.float32)
            total += np.float32(self.noise_multiplier * clip) * noise
            weights = weights - np.float32(self.learning_rate / expected) * total
            if self.quantile is not None:
                count = unclipped - 0.5 * len(batch) + self.count_noise * random.standard_normal()
                # Dividing by the size that was drawn would not be covered by the accounting.
                clip *= float(np.exp(-self.clipping_rate * (count / expected + 0.5 - self.quantile)))
        return weights
