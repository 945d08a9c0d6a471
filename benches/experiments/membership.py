"""Membership inference by a threshold on the loss, class by class (INDIVIDUAL, Appendix D)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benches.experiments import data
from benches.experiments.dpsgd import Training
from benches.experiments.following import TRAINED_BY, Outcome, Task, Values
from benches.experiments.models import Floats, accuracy

BATCH_SIZE, LEARNING_RATE = 25, 0.5
"""Small batches and long steps, with which the network learns its members by heart."""

UNLIMITED = 1e6
"""Clipping norm that clips nothing."""


def membership(task: Task, private: Outcome, epochs: int, members: int, networks: int) -> dict[str, Any]:
    """Attack models that are trained without privacy, and the private one, class by class.

    Each of the former is trained on `members` examples of its own, few enough for it to learn them by heart;
    its success is averaged over the `networks`.
    """
    every = [network(task, epochs, members, number) for number in range(networks)]
    success = np.mean([found["success"] for found in every], axis=0)
    found = {"private": attacked(task, task.split, private.weights), "not_private": success}
    means = task.group_means(private.epsilons, "class")
    tests = len(task.split.test_rows) / task.split.classes
    return {
        "names": data.CLOTHES,
        "mean_epsilon": means,
        "success": found,
        "standard_error": {
            "private": standard_error(len(task.split) / task.split.classes, tests),
            "not_private": standard_error(networks * members / task.split.classes, networks * tests),
        },
        "accuracy_on_members": np.mean([found["on_members"] for found in every]),
        "accuracy_on_others": np.mean([found["on_others"] for found in every]),
        "correlation_not_private": np.corrcoef(means, found["not_private"])[0, 1],
        "correlation_private": np.corrcoef(means, found["private"])[0, 1],
        "members": members,
        "epochs": epochs,
        "networks": networks,
    }


def network(task: Task, epochs: int, members: int, number: int) -> dict[str, Any]:
    """Train one network without privacy and attack it, unless that is done and stored."""

    def make() -> dict[str, Any]:
        split = data.part(task.split, slice(number * members, (number + 1) * members))
        training = Training(
            task.model,
            split.rows,
            split.labels,
            BATCH_SIZE / members,
            epochs * members // BATCH_SIZE,
            0.0,
            UNLIMITED,
            LEARNING_RATE,
        )
        weights = training.run(1 + number)
        return {
            "success": attacked(task, split, weights),
            "on_members": accuracy(task.model, weights, split.rows, split.labels),
            "on_others": task.test_accuracy(weights),
        }

    settings = {
        "paper": "individual",
        "data and model": task.name,
        "attack": {"epochs": epochs, "members": members, "batch_size": BATCH_SIZE, "rate": LEARNING_RATE},
        "seed": 1 + number,
    }
    found: dict[str, Any] = task.store.get(settings, (*TRAINED_BY, "benches.experiments.membership"), make)
    return found


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
    """Mean of the fractions of members and of others that a threshold on the loss gets right.

    The threshold is chosen on one half of the losses and tried on the other half, and the other way round.
    """
    inside, outside = random.permutation(inside), random.permutation(outside)
    halves = [(inside[::2], outside[::2]), (inside[1::2], outside[1::2])]
    return float(np.mean([right(best(*one), *two) for one, two in (halves, halves[::-1])]))


def best(inside: Values, outside: Values) -> float:
    """Threshold with the largest success; the losses below it are taken for those of members."""
    candidates = np.concatenate([inside, outside, [np.inf]])
    below = [np.searchsorted(np.sort(part), candidates, "left") / len(part) for part in (inside, outside)]
    return float(candidates[np.argmax(below[0] - below[1])])


def right(threshold: float, inside: Values, outside: Values) -> float:
    """Success of one threshold."""
    return float(0.5 * (np.mean(inside < threshold) + np.mean(outside >= threshold)))


def standard_error(members: float, others: float) -> float:
    """Return the standard error of the success of a guess, from so many members and others."""
    return float(0.5 * np.sqrt(0.25 / members + 0.25 / others))
