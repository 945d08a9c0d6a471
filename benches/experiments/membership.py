"""Membership inference by a threshold on the loss, class by class (INDIVIDUAL, Appendix D)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benches.experiments import data
from benches.experiments.dpsgd import Training
from benches.experiments.following import Outcome, Task, Values
from benches.experiments.models import Floats, accuracy

BATCH_SIZE, LEARNING_RATE = 100, 0.3
UNLIMITED = 1e6
"""Clipping norm that clips nothing."""


def membership(task: Task, private: Outcome, epochs: int, members: int) -> dict[str, Any]:
    """Attack a model that is trained without privacy, and the private one, class by class.

    The former is trained on the first `members` examples only, few enough for it to learn them by heart.
    """
    split = data.first(task.split, members)
    steps = epochs * members // BATCH_SIZE
    training = Training(
        task.model, split.rows, split.labels, BATCH_SIZE / members, steps, 0.0, UNLIMITED, LEARNING_RATE
    )
    weights = training.run(1)
    found = {
        "private": attacked(task, data.first(task.split, len(task.split)), private.weights),
        "not_private": attacked(task, split, weights),
    }
    means = task.group_means(private.epsilons, "class")
    return {
        "names": data.CLOTHES,
        "mean_epsilon": means,
        "success": found,
        "standard_error": 0.5 / np.sqrt(1000),  # of a fraction of the 1,000 losses of a class
        "accuracy_on_members": accuracy(task.model, weights, split.rows, split.labels),
        "accuracy_on_others": task.test_accuracy(weights),
        "correlation_not_private": np.corrcoef(means, found["not_private"])[0, 1],
        "correlation_private": np.corrcoef(means, found["private"])[0, 1],
        "members": members,
        "epochs": epochs,
    }


def attacked(task: Task, split: data.Split, weights: Floats) -> Values:
    """Success of the attack on each class."""
    random = np.random.default_rng(1)
    inside = task.model.losses(weights, split.rows, split.labels)
    outside = task.model.losses(weights, split.test_rows, split.test_labels)
    return np.array(
        [
            success(inside[split.labels == number], outside[split.test_labels == number], random)
            for number in range(split.classes)
        ]
    )


def success(inside: Values, outside: Values, random: np.random.Generator) -> float:
    """Fraction of right answers of a threshold that is chosen on one half of the losses, on the other half.

    As many losses of members as of others are taken.
    """
    size = min(len(inside), len(outside))
    inside = random.permutation(inside)[:size]
    outside = random.permutation(outside)[:size]
    half = size // 2

    def right(threshold: Any, start: int, stop: int) -> Any:
        hits = np.mean(inside[start:stop, None] < threshold, axis=0)
        return 0.5 * (hits + np.mean(outside[start:stop, None] >= threshold, axis=0))

    candidates = np.concatenate([inside[:half], outside[:half], [np.inf]])
    best = candidates[np.argmax(right(candidates, 0, half))]
    return float(right(np.array([best]), half, size)[0])
