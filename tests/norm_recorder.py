"""Stands in for an accountant of individual examples, and writes down what it is told."""

import numpy as np


class NormRecorder:
    def __init__(self, dataset_size, max_grad_norm=1.0, *, individual_clipping=False):
        self.dataset_size = dataset_size
        self.max_grad_norm = max_grad_norm
        self.individual_clipping = individual_clipping
        self.norms = np.full(dataset_size, max_grad_norm)
        self.told = []
        """Arguments of `update_norms`."""
        self.steps = []
        """(noise multiplier, sample rate, norms) of every step."""

    def update_norms(self, norms, indices=None):
        assert indices is None
        self.told.append(norms.copy())
        self.norms = np.minimum(norms, self.max_grad_norm)

    def step(self, *, noise_multiplier, sample_rate):
        self.steps.append((noise_multiplier, sample_rate, self.norms.copy()))

    def get_optimizer_hook_fn(self, sample_rate):
        def hook(optimizer):
            rate = sample_rate * optimizer.accumulated_iterations
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=rate)

        return hook

    def __len__(self):
        return len(self.steps)
