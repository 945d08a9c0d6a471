"""Softmax regression by DP-SGD, in NumPy, on the 1,797 handwritten digits that scikit-learn ships."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from tqdm import trange

from hockeystick.accountants import Accountant

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

CLASSES = 10
LARGEST_PIXEL = 16.0


@dataclass(frozen=True)
class Settings:
    """What a run depends on; two runs with equal settings train the same model."""

    noise_multiplier: float = 2.0
    sample_rate: float = 0.05
    steps: int = 600
    clipping_norm: float = 1.0
    learning_rate: float = 0.5
    test_fraction: float = 0.2
    seed: int = 20


@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 pixels in [0, 1] and a constant 1 for the intercept, with their labels."""

    train_images: Array
    train_labels: Labels
    test_images: Array
    test_labels: Labels


def load(settings: Settings) -> Digits:
    """Split the digits into a training and a test part, always the same for the same seed."""
    pixels, labels = load_digits(return_X_y=True)
    images = np.hstack([pixels / LARGEST_PIXEL, np.ones((len(pixels), 1))])
    order = np.random.default_rng(settings.seed).permutation(len(images))
    tests = round(settings.test_fraction * len(images))
    test, train = order[:tests], order[tests:]
    return Digits(images[train], labels[train], images[test], labels[test])


def class_probabilities(weights: Array, images: Array) -> Array:
    """Softmax of the class scores, one row an image."""
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def clipped_gradient_sum(weights: Array, images: Array, labels: Labels, clipping_norm: float) -> Array:
    """Sum of the examples' gradients of the log loss, each scaled down to the clipping norm where longer.

    An example's gradient is the outer product of its image and its residual, so that its norm is the product
    of theirs and no per-example matrix is ever formed.
    """
    residuals = class_probabilities(weights, images)
    residuals[np.arange(len(labels)), labels] -= 1.0
    norms = np.linalg.norm(images, axis=1) * np.linalg.norm(residuals, axis=1)
    scales = np.minimum(1.0, clipping_norm / np.maximum(norms, np.finfo(np.float64).tiny))
    return np.asarray(images.T @ (residuals * scales[:, None]))


def train(digits: Digits, settings: Settings, accountant: Accountant) -> Array:
    """Train by DP-SGD, with the accountant following every step, and return the weights.

    Every example joins a batch independently with probability ``sample_rate`` (Poisson sampling), and the
    noisy sum is divided by the expected batch size: dividing by the size of the batch drawn would not be
    covered by the accounting.
    """
    images, labels = digits.train_images, digits.train_labels
    random = np.random.default_rng([settings.seed, 1])
    weights: Array = np.zeros((images.shape[1], CLASSES))
    noise_scale = settings.noise_multiplier * settings.clipping_norm
    expected_batch_size = settings.sample_rate * len(images)
    for _ in trange(settings.steps, desc="training", unit="step"):
        batch = random.random(len(images)) < settings.sample_rate
        gradient = clipped_gradient_sum(weights, images[batch], labels[batch], settings.clipping_norm)
        noise = random.normal(scale=noise_scale, size=weights.shape)
        weights = weights - settings.learning_rate * (gradient + noise) / expected_batch_size
        accountant.step(noise_multiplier=settings.noise_multiplier, sample_rate=settings.sample_rate)
    return weights


def accuracy(weights: Array, images: Array, labels: Labels) -> float:
    """Fraction of the images whose most probable class is their label."""
    return float(np.mean(np.argmax(images @ weights, axis=1) == labels))
