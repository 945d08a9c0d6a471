"""Training with correlated noise on real digits: banded matrix factorisation with cyclic Poisson sampling.

    pip install "hockeystick[demo]" jax-privacy
    python examples/correlated_noise_digits.py

Trains softmax regression on scikit-learn's digits with clipped gradients in NumPy. JAX Privacy optimises
the matrix, draws the batches and makes the noise; hockeystick finds the noise multiplier for the epsilon
that is asked for, and follows the run step by step. One band is DP-SGD with independent noise: all rows of
the table are equally private, for groups too if asked. It takes about a minute.
"""

from __future__ import annotations

import argparse

import numpy as np
from jax_privacy import batch_selection, noise_addition
from jax_privacy.matrix_factorization import toeplitz
from sklearn.datasets import load_digits

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import GroupAccountant

TEST_RECORDS = 297
BATCH_SIZE = 100
MAX_GRAD_NORM = 1.0
LEARNING_RATE = 2.0
DELTA = 1e-5
LARGEST_PIXEL = 16.0

MODEL = training.SoftmaxRegression(features=64, classes=10)


def digits(seed):
    """Return training and test images with their labels, in a random order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order] / LARGEST_PIXEL, labels[order]
    return images[TEST_RECORDS:], labels[TEST_RECORDS:], images[:TEST_RECORDS], labels[:TEST_RECORDS]


def plan(bands, steps, epsilon, group_size, records):
    """Return the mechanism and the sampling of a run that meets the target."""
    if bands == 1:
        coefficients = [1.0]
    else:
        coefficients = np.asarray(toeplitz.optimize_banded_toeplitz(n=steps, bands=bands), dtype=np.float64)
    sampling = hs.CyclicPoisson(bands * BATCH_SIZE / records, cycle=bands)
    matrix = hs.CorrelatedNoise.toeplitz(coefficients)
    sigma = hs.get_noise_multiplier(
        epsilon=epsilon, delta=DELTA, mechanism=matrix, sampling=sampling, steps=steps, group_size=group_size
    )
    return matrix.with_noise(sigma), sampling


def train(mechanism, sampling, steps, group_size, seed):
    """Return the accuracy on test images, and the accountant of the run."""
    images, labels, test_images, test_labels = digits(seed)
    coefficients = mechanism.matrix(steps)[:, 0][: sampling.cycle]
    batches = batch_selection.CyclicPoissonSampling(
        sampling_prob=sampling.sample_rate,
        iterations=steps,
        cycle_length=sampling.cycle,
        partition_type=batch_selection.PartitionType.INDEPENDENT,
    )
    # The noise is that of C^-1 Z: clipped gradients go in, and private ones come out.
    privatizer = noise_addition.matrix_factorization_privatizer(
        toeplitz.inverse_as_streaming_matrix(coefficients),
        stddev=mechanism.noise_multiplier * MAX_GRAD_NORM,
        prng_key=seed,
    )
    accountant = GroupAccountant(group_size=group_size)
    weights = MODEL.initial_weights()
    state = privatizer.init(weights.astype(np.float32))
    for indices in batches.batch_iterator(len(labels), rng=seed):
        total = np.zeros_like(weights)
        if len(indices):
            gradients = MODEL.gradients(weights, images[indices], labels[indices])
            total = training.clip(gradients, MAX_GRAD_NORM).sum(axis=0)
        private, state = privatizer.update(total.astype(np.float32), state)
        accountant.step(mechanism=mechanism, sampling=sampling)
        weights = weights - LEARNING_RATE / BATCH_SIZE * np.asarray(private, dtype=np.float64)
    return MODEL.accuracy(weights, test_images, test_labels), accountant


def main():
    """Train with several numbers of bands, and print how well."""
    parser = argparse.ArgumentParser(description="correlated noise on digits, at equal epsilon")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--group-size", type=int, default=1)
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    records = len(digits(0)[1])
    print(f"{records} digits, {options.steps} steps, groups of {options.group_size}, delta {DELTA:g}")
    print("bands  noise multiplier  noise of prefix sums  epsilon  test accuracy")
    for bands in options.bands:
        mechanism, sampling = plan(bands, options.steps, options.epsilon, options.group_size, records)
        inverse = np.linalg.inv(mechanism.matrix(options.steps))
        sums = np.cumsum(inverse, axis=0) * mechanism.noise_multiplier
        error = np.sqrt((sums**2).sum(axis=1).mean())
        run = (mechanism, sampling, options.steps, options.group_size)
        found = [train(*run, seed) for seed in range(options.runs)]
        accuracy = np.mean([right for right, _ in found])
        epsilon = found[0][1].get_epsilon(DELTA)
        print(
            f"{bands:5d}  {mechanism.noise_multiplier:16.3f}  {error:20.2f}  {epsilon:7.4f}  {accuracy:13.3f}"
        )


if __name__ == "__main__":
    main()
