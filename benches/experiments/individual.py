"""INDIVIDUAL: privacy of single examples on Fashion-MNIST and Adult.

The paper trains residual networks on MNIST, CIFAR-10 and UTKFace. Here softmax regression and a small
convolutional network are trained on all of Fashion-MNIST, and logistic regression on Adult with groups by
race and by sex. The numbering of figures and tables is the paper's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.experiments import data, individual_pictures
from benches.experiments.convolutional import Convolutional
from benches.experiments.effort import FULL, Effort
from benches.experiments.following import (
    DELTA,
    TRAINED_BY,
    Outcome,
    Task,
    Values,
    followed,
    plain_accuracy,
)
from benches.experiments.membership import membership
from benches.experiments.models import Linear
from benches.experiments.results import Results
from benches.experiments.store import Store
from hockeystick import kernels
from hockeystick.accountants import IndividualAccountant

EPSILON = 2.4
"""What training guarantees to every example, as on MNIST in the paper, with `DELTA`."""

PRICE = 0.1
"""Part of it that is spent on the clipping norm, where that is a private median."""

LARGEST_NORM = 40.0
"""Upper end of the range in which the private median of norms is looked for, chosen without the data."""

USUAL_NORM = 10.0
"""By which the step size is divided where the clipping norm adapts itself; chosen without the data."""

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


def tasks(effort: Effort, store: Store) -> dict[str, Task]:
    """Return the data sets, models and runs."""
    fashion, adult = data.fashion_mnist(), data.adult()
    features = fashion.rows.shape[1]
    many, few = effort.epochs, effort.network_epochs
    every = (
        Task("softmax", fashion, Linear(features, 10), many, 1024, 2.0, EPSILON, store),
        Task("hinge", fashion, Linear(features, 10, "hinge"), many, 1024, 1.0, EPSILON, store),
        Task("cnn", fashion, Convolutional(10), few, 1024, 2.0, EPSILON, store),
        Task("adult", adult, Linear(adult.rows.shape[1], 2), many, 1024, 3.0, EPSILON, store),
    )
    return {task.name: task for task in every}


def main(output: Path, effort: Effort = FULL, store: Store | None = None) -> None:
    """Run all of it, and write numbers and pictures."""
    store = store or Store()
    results = Results("individual", output, effort, store)
    every = tasks(effort, store)
    medians = {name: float(np.median(task.first_norms())) for name, task in every.items()}
    results.numbers["median_norm_at_the_start"] = medians
    found: dict[str, Outcome] = {}
    for name, task in every.items():
        with results.timed(name):
            way = "race" if name == "adult" else "class"
            found[name] = followed(task, medians[name], sample=effort.sample, way=way)
    results.numbers["runs"] = {name: summary(every[name], found[name]) for name in found}
    with results.timed("individual clipping (Table 3)"):
        clipped = own_bounds(results, every, medians, found, range(1, effort.own_bounds_seeds + 1))
    with results.timed("clipping norms (Figures 9, 10 and 12)"):
        norms = other_norms(results, every["softmax"], medians["softmax"])
    with results.timed("clipping norms that are paid for"):
        results.numbers["paid_for"] = kept(every["softmax"], "paid for", partial(paid_for, every["softmax"]))
    with results.timed("membership inference (Figure 11)"):
        results.numbers["membership"] = membership(
            every["cnn"], found["cnn"], effort.attack_epochs, effort.members, effort.networks
        )
    with results.timed("releases (Table 2)"):
        results.numbers["released"] = {
            name: kept(every[name], "released", partial(released, found[name].epsilons))
            for name in ("softmax", "adult")
        }
    results.write()
    individual_pictures.draw(output, every, found, clipped, norms, results.numbers)
    with results.timed("cost (Table 1)"):
        results.numbers["cost"] = kept(every["softmax"], "cost", partial(cost, every["softmax"]))
    results.write()


def kept(task: Task, part: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return numbers that differ from run to run by their noise or by time: stored ones, or new ones."""
    modules = (*TRAINED_BY, "benches.experiments.individual", "hockeystick.release")
    found: dict[str, Any] = task.store.get(task.settings | {"part": part}, modules, make)
    return found


def summary(task: Task, outcome: Outcome) -> dict[str, Any]:
    """Numbers of one training."""
    epsilons = outcome.epsilons
    worst = float(hs.get_epsilon(delta=DELTA, noise_multiplier=outcome.noise_multiplier, **task.sampling))
    losses = task.model.losses(outcome.weights, task.split.rows, task.split.labels)
    positive = losses > 0  # the hinge loss is zero for many examples
    logs = np.log(losses[positive])
    return {
        "data": task.split.name,
        "examples": len(task.split),
        "epochs": task.epochs,
        "batch_size": task.batch_size,
        "noise_multiplier": outcome.noise_multiplier,
        "clipping_norm": outcome.clipping_norm,
        "test_accuracy": task.test_accuracy(outcome.weights),
        "worst_epsilon": worst,
        "mean_epsilon": epsilons.mean(),
        "median_epsilon": np.median(epsilons),
        "least_epsilon": epsilons.min(),
        "fraction_at_the_worst": np.mean(epsilons > 0.999 * worst),
        "correlation_with_log_loss": np.corrcoef(logs, epsilons[positive])[0, 1],
        "fraction_without_loss": 1.0 - positive.mean(),
        "estimates": {
            f"{rate:g}": estimate_errors(outcome.truth, values) for rate, values in outcome.estimates.items()
        },
        "groups": {way: of_groups(task, outcome, way) for way in task.split.groups},
    }


def estimate_errors(truth: Values, values: Values) -> dict[str, float]:
    """How far estimates are from the truth (Figure 4)."""
    error = np.abs(values - truth)
    return {
        "correlation": float(np.corrcoef(truth, values)[0, 1]),
        "mean_error": float(error.mean()),
        "largest_error": float(error.max()),
    }


def of_groups(task: Task, outcome: Outcome, way: str) -> dict[str, Any]:
    """Mean epsilon and test accuracy of each group (Figures 2 and 6)."""
    means = task.group_means(outcome.epsilons, way)
    accuracies = task.group_accuracies(outcome.weights, way)
    worst, best = int(accuracies.argmin()), int(accuracies.argmax())
    names, groups, _ = task.split.groups[way]
    return {
        "names": names,
        "sizes": np.bincount(groups, minlength=len(names)),
        "mean_epsilon": means,
        "test_accuracy": accuracies,
        "correlation": np.corrcoef(means, accuracies)[0, 1],
        "more_epsilon_of_the_least_accurate": means[worst] / means[best] - 1.0,
    }


def own_bounds(
    results: Results,
    every: dict[str, Task],
    medians: dict[str, float],
    found: dict[str, Outcome],
    seeds: range,
) -> dict[str, Outcome]:
    """Clip each example to its own norm, with several seeds (Table 3, Figures 7 and 8)."""
    table: dict[str, Any] = {}
    clipped: dict[str, Outcome] = {}
    for name in ("softmax", "adult"):
        task, clip = every[name], medians[name]
        way = next(iter(task.split.groups))
        runs = [
            followed(task, clip, seed=seed, own_bounds=True, answers=seed == 1, way=way) for seed in seeds
        ]
        clipped[name] = runs[0]
        assert all(run.is_guarantee for run in runs)
        own = np.array([task.test_accuracy(run.weights) for run in runs])
        one = np.array([plain_accuracy(task, clip, task.noise(), seed) for seed in seeds])
        table[name] = {
            "seeds": len(seeds),
            "own_thresholds": [own.mean(), own.std(ddof=1)],
            "one_threshold": [one.mean(), one.std(ddof=1)],
            "difference": [(own - one).mean(), (own - one).std(ddof=1)],
            "summary": summary(task, runs[0]),
            "same_order_of_groups": {
                way: bool(
                    np.array_equal(
                        np.argsort(task.group_means(runs[0].epsilons, way)),
                        np.argsort(task.group_means(found[name].epsilons, way)),
                    )
                )
                for way in task.split.groups
            },
            "mean_change_of_epsilon": float(np.mean(runs[0].epsilons - found[name].epsilons)),
        }
    results.numbers["individual_clipping"] = table
    return clipped


def other_norms(results: Results, task: Task, median: float) -> dict[str, Outcome]:
    """Other clipping norms: parts of the median (Figures 9 and 10), and 5 and 10 (Figure 12)."""
    norms = {f"{part:g} M": part * median for part in (0.1, 0.3, 0.5, 1.5)} | {"5": 5.0, "10": 10.0}
    found = {name: followed(task, clip) for name, clip in norms.items()}
    results.numbers["clipping_norms"] = {name: summary(task, run) for name, run in found.items()}
    return found


def paid_for(task: Task) -> dict[str, Any]:
    """Train with a clipping norm that is private too: a median of norms, or one that adapts itself."""
    norms = task.first_norms()
    median = hs.release.quantiles(norms, 0.5, epsilon=PRICE, upper=LARGEST_NORM)
    rest = task.noise(EPSILON - median.epsilon)
    clip = float(median.value)
    joint = task.noise()
    count_noise = task.batch_size / 20  # as Andrew et al. choose it
    of_sum = (joint**-2 - (2.0 * count_noise) ** -2) ** -0.5
    adaptive = task.training(clip, of_sum, quantile=0.5, count_noise=count_noise)
    adaptive.clipping_norm = 1.0  # it finds its own way
    adaptive.learning_rate = task.learning_rate / USUAL_NORM
    charged = hs.AdaptiveClipping(of_sum, count_noise)
    return {
        "true_median": np.median(norms),
        "private_median": clip,
        "its_price": median.epsilon,
        "not_paid_for": task.test_accuracy(task.training(float(np.median(norms)), joint).run(1)),
        "private_median_accuracy": task.test_accuracy(task.training(clip, rest).run(1)),
        "private_median_epsilon": median.epsilon
        + float(hs.get_epsilon(delta=DELTA, noise_multiplier=rest, **task.sampling)),
        "adaptive_accuracy": task.test_accuracy(adaptive.run(1)),
        "adaptive_epsilon": float(hs.get_epsilon(delta=DELTA, mechanism=charged, **task.sampling)),
        "adaptive_last_norm": adaptive.norms[-1],
        "adaptive_count_noise": count_noise,
    }


def released(epsilons: Values) -> dict[str, Any]:
    """Release statistics with noise (Table 2)."""
    average = hs.release.mean(epsilons, epsilon=PRICE, upper=EPSILON)
    five = hs.release.quantiles(epsilons, LEVELS, epsilon=PRICE, delta=DELTA, upper=EPSILON)
    truth = np.array([epsilons.mean(), *np.quantile(epsilons, LEVELS)])
    values = np.array([average.value, *np.asarray(five.value)])
    return {
        "levels": LEVELS,
        "true": truth,
        "released": values,
        "mean_relative_error": np.mean(np.abs(values / truth - 1.0)),
        "price_of_the_mean": [average.epsilon, average.delta],
        "price_of_the_quantiles": [five.epsilon, five.delta],
    }


def cost(task: Task) -> dict[str, Any]:
    """Time the accounts of 50,000 examples with new norms in each of 200 epochs, in full (Table 1)."""
    examples, epochs, batch_size = 50_000, 200, 4096
    split = data.part(task.split, slice(examples))
    run = Task("cost", split, task.model, epochs, batch_size, task.learning_rate, 7.8)
    clip, rate = float(np.median(run.first_norms())), batch_size / examples
    rows: list[Values] = []

    def before(step: int, weights: Any) -> None:
        if step % run.per_epoch == 0:
            rows.append(np.minimum(run.model.norms(weights, split.rows, split.labels) / clip, 1.0))

    noise = run.noise()
    run.training(clip, noise, before_step=before).run(1)
    orders = IndividualAccountant(1).orders

    def account(norms: list[Values]) -> dict[str, float]:
        start, clock = time.process_time(), time.perf_counter()
        rdp = np.zeros((len(norms[0]), len(orders)))
        for row in norms:
            kernels.accumulate_rdp(rdp, row, orders, noise, rate, steps=run.per_epoch)
        return {
            "different_norms": len(np.unique(np.concatenate(norms))),
            "processor_seconds": time.process_time() - start,
            "seconds": time.perf_counter() - clock,
        }

    few = np.arange(1, 101) / 100
    return {
        "examples": examples,
        "epochs": epochs,
        "orders": len(orders),
        "norms": sum(map(len, rows)),
        "without_rounding": account(rows),
        "with_rounding": account([np.ceil(row * 100) / 100 for row in rows]),
        "the_different_norms_alone": account([few]),
        "paper_seconds": {"without_rounding": 2.6e4, "with_rounding": 3.0},
    }
