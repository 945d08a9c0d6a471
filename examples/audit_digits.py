"""An attack on DP-SGD with copies of one record among real digits, beside what the accountant reports.

    pip install "hockeystick[demo]"
    python examples/audit_digits.py

Trains softmax regression by `hockeystick.training` on 400 of scikit-learn's digits, many times with eight
copies of a strange picture and as many times without, and lets an adversary who sees every iterate
say which is which. What the attack proves is set beside the epsilon that the accountant reports for groups
of eight. Then it trains once, with a hundred canaries of eight copies each, and guesses which of them were
in. It takes twenty seconds to half a minute.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

import hockeystick as hs
from hockeystick import auditing, kernels, training
from hockeystick.accountants import GroupAccountant

RECORDS = 400
COPIES = 8
BATCH_SIZE = 41
EPOCHS = 2
MAX_GRAD_NORM = 1.0
NOISE_MULTIPLIER = 4.0
LEARNING_RATE = 0.5
DELTA = 1e-3
LARGEST_PIXEL = 16.0
BRIGHT = 4.0

CANARIES = 100
GUESSES = 40
CANARY_RECORDS = 1000
CANARY_BATCH_SIZE = 360

MODEL = training.SoftmaxRegression(features=64, classes=10)


@dataclass(frozen=True)
class Audit:
    """Counts of an attack on many runs, and what the accountant of these runs reports."""

    true_positives: int
    false_positives: int
    runs: int
    reported: float
    sample_rate: float
    steps: int

    @property
    def counts(self):
        """Return the first four arguments of the functions of `hockeystick.auditing`."""
        return self.true_positives, self.runs, self.false_positives, self.runs


class Watched:
    """Gradients that write down the weights at which they are asked for: what the adversary sees."""

    def __init__(self, gradients):
        self._gradients = gradients
        self.weights = []

    def __call__(self, weights, indices):
        """Return the gradients of some records."""
        self.weights.append(weights.copy())
        return self._gradients(weights, indices)


@cache
def digits(records):
    """Return images and labels of the first digits in a fixed random order, and a canary with its label.

    The canary is bright in the pixels that are empty in every digit: hardly any other gradient has a part
    in the direction of its own.
    """
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(labels))[:records]
    canary = np.where(pixels.max(axis=0) == 0.0, BRIGHT, 0.0)
    return pixels[order] / LARGEST_PIXEL, labels[order], canary[None, :], np.array([0])


def train(gradients, size, batch_size, noise_multiplier, accountant, random):
    """Train once; the weights before every step, and the noisy sum of clipped gradients that moved them."""
    watched = Watched(gradients)
    last, _ = training.train(
        watched,
        MODEL.initial_weights(),
        dataset_size=size,
        batch_size=batch_size,
        epochs=EPOCHS,
        max_grad_norm=MAX_GRAD_NORM,
        noise_multiplier=noise_multiplier,
        learning_rate=LEARNING_RATE,
        sampling="poisson",
        accountant=accountant,
        seed=random,
    )
    # A step with an empty batch is not seen; it only lengthens the move of the step before.
    points = np.array(watched.weights)
    moves = points - np.vstack([points[1:], last])
    return points, moves * batch_size / LEARNING_RATE


def score(inserted, noise_multiplier, accountant, random):
    """How much likelier the canary makes what a run did in the direction where it would push.

    The logarithm of the likelihood ratio as though no other record had a part in that direction.
    """
    images, labels, canary, canary_label = digits(RECORDS)
    gradients, size = auditing.insert_canaries(
        lambda weights, indices: MODEL.gradients(weights, images[indices], labels[indices]),
        lambda weights, indices: np.repeat(
            MODEL.gradients(weights, canary, canary_label), len(indices), axis=0
        ),
        dataset_size=RECORDS,
        inserted=inserted,
        copies=COPIES,
    )
    points, sums = train(gradients, size, BATCH_SIZE, noise_multiplier, accountant, random)
    pushes = np.vstack([MODEL.gradients(point, canary, canary_label) for point in points])
    pushes = training.clip(pushes, MAX_GRAD_NORM)
    moved = np.sum(sums * pushes, axis=1) / MAX_GRAD_NORM**2
    law = kernels.binomial_law(COPIES, BATCH_SIZE / size)
    return float(kernels.log_likelihood_ratio(moved, *law, noise_multiplier).sum())


def best_threshold(inside, outside):
    """Choose the score above which the canary is said to be in, on runs that are not counted afterwards."""

    def bound(threshold):
        hits, false_alarms = np.sum(inside > threshold), np.sum(outside > threshold)
        return auditing.epsilon_lower_bound(hits, len(inside), false_alarms, len(outside), DELTA)

    return max(np.concatenate([inside, outside]), key=bound)


def many_runs(runs, pilots, seed, noise_multiplier=NOISE_MULTIPLIER, claimed=None):
    """Attack `runs` runs of each kind; the threshold comes from `pilots` others.

    The accountant is told the noise multiplier `claimed`, by default the one that is used.
    """
    random = np.random.default_rng(seed)

    def scores(inserted, number):
        return np.array([score(inserted, noise_multiplier, None, random) for _ in range(number)])

    threshold = best_threshold(scores(True, pilots), scores(False, pilots))
    accountant = GroupAccountant(group_size=COPIES)
    score(True, noise_multiplier, accountant, random)
    _, sample_rate, steps = accountant.history[0]
    told = hs.get_epsilon(
        delta=DELTA,
        noise_multiplier=noise_multiplier if claimed is None else claimed,
        sample_rate=sample_rate,
        steps=steps,
        group_size=COPIES,
    )
    return Audit(
        true_positives=int(np.sum(scores(True, runs) > threshold)),
        false_positives=int(np.sum(scores(False, runs) > threshold)),
        runs=runs,
        reported=told,
        sample_rate=sample_rate,
        steps=steps,
    )


def one_run(seed, noise_multiplier=NOISE_MULTIPLIER):
    """Guess about canaries of one run: how many guesses are right, and the epsilon that is reported.

    Every canary pushes in a random direction of its own. The attack says "in" of the twenty that the run
    followed most, "out" of the twenty that it followed least, and nothing of the others.
    """
    random = np.random.default_rng(seed)
    images, labels, *_ = digits(CANARY_RECORDS)
    inserted = random.random(CANARIES) < 0.5
    directions = training.clip(random.standard_normal((CANARIES, MODEL.parameters)), MAX_GRAD_NORM)
    gradients, size = auditing.insert_canaries(
        lambda weights, indices: MODEL.gradients(weights, images[indices], labels[indices]),
        lambda weights, indices: directions[indices],
        dataset_size=CANARY_RECORDS,
        inserted=inserted,
        copies=COPIES,
    )
    accountant = GroupAccountant(group_size=COPIES)
    _, sums = train(gradients, size, CANARY_BATCH_SIZE, noise_multiplier, accountant, random)
    order = np.argsort(directions @ sums.sum(axis=0))
    half = GUESSES // 2
    correct = np.sum(inserted[order[-half:]]) + np.sum(~inserted[order[:half]])
    return int(correct), accountant.get_epsilon(DELTA)


def main():
    """Print both audits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of each kind that are counted")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    audit = many_runs(options.runs, max(options.runs // 5, 10), options.seed)
    noise = auditing.noise_multiplier_upper_bound(
        *audit.counts, sample_rate=audit.sample_rate, steps=audit.steps, group_size=COPIES
    )
    run = {"sample_rate": audit.sample_rate, "steps": audit.steps, "group_size": COPIES}
    print(f"{audit.runs} runs with {COPIES} copies of a canary, as many without, {audit.steps} steps each")
    print(f"  found {audit.true_positives}, false alarms {audit.false_positives}")
    print(f"  reported epsilon at delta {DELTA:g}:         {audit.reported:.3f}")
    print(
        f"  at least, by both error rates:           {auditing.epsilon_lower_bound(*audit.counts, DELTA):.3f}"
    )
    by_curve = hs.get_epsilon(delta=DELTA, noise_multiplier=noise, **run) if np.isfinite(noise) else 0.0
    print(f"  at least, by the trade-off functions:    {by_curve:.3f} (noise multiplier <= {noise:.3f})")

    correct, reported = one_run(options.seed)
    bound = auditing.one_run_epsilon_lower_bound(correct, GUESSES, CANARIES, DELTA)
    print(f"one run with {CANARIES} canaries of {COPIES} copies, each in or out by a coin")
    print(f"  {correct} of {GUESSES} guesses right")
    print(f"  reported epsilon at delta {DELTA:g}:         {reported:.3f}")
    print(f"  at least:                                {bound:.3f}")


if __name__ == "__main__":
    main()
