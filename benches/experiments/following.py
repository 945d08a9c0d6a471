"""Trainings that are followed by accountants of single examples (INDIVIDUAL, Algorithms 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hockeystick as hs
from benches.experiments.data import Split
from benches.experiments.dpsgd import Training
from benches.experiments.models import Floats, Model, accuracy, predictions
from benches.experiments.store import Store
from hockeystick.accountants import IndividualAccountant

DELTA = 1e-5
RATES = (0.5, 1, 3)
"""Refreshes of all norms in an epoch, the paper's gamma, of the estimates for some examples."""

TRAINED_BY = (
    *(f"benches.experiments.{name}" for name in ("convolutional", "data", "dpsgd", "following", "models")),
    "hockeystick._core",
    "hockeystick.accountants",
)
"""Modules with the code of the trainings and of their accounts."""

Values = NDArray[np.float64]


@dataclass
class Task:
    """What is trained on, and how.

    Attributes
    ----------
    name : str
        Name of the data and of the model, by which trainings are stored.
    split, model : Split, Model
        Data and model.
    epochs, batch_size : int
        Size of the run; batches are Poisson, and `batch_size` is what is expected.
    learning_rate : float
        Step size in units of the clipping norm: a step moves the weights by at most this, if no noise is
        counted and all gradients point the same way.
    epsilon : float
        What the training guarantees to every example at `DELTA`.
    store : Store
        Trainings that are done.
    """

    name: str
    split: Split
    model: Model
    epochs: int
    batch_size: int
    learning_rate: float
    epsilon: float
    store: Store = field(default_factory=Store)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides a training, besides what is chosen for it alone."""
        return {
            "paper": "individual",
            "data and model": self.name,
            "examples": len(self.split),
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "epsilon": self.epsilon,
            "delta": DELTA,
        }

    @property
    def sampling(self) -> dict[str, Any]:
        """Sample rate and number of steps."""
        return {"sample_rate": self.batch_size / len(self.split), "steps": self.per_epoch * self.epochs}

    @property
    def per_epoch(self) -> int:
        """Number of steps of an epoch."""
        return len(self.split) // self.batch_size

    def noise(self, epsilon: float | None = None) -> float:
        """Noise multiplier for an epsilon."""
        target = self.epsilon if epsilon is None else epsilon
        return float(hs.get_noise_multiplier(epsilon=target, delta=DELTA, **self.sampling))

    def training(self, clip: float, noise: float, **more: Any) -> Training:
        """Return the run of DP-SGD with a clipping norm and a noise multiplier."""
        return Training(
            self.model,
            self.split.rows,
            self.split.labels,
            **self.sampling,
            noise_multiplier=noise,
            clipping_norm=clip,
            learning_rate=self.learning_rate / clip,
            **more,
        )

    def first_norms(self) -> Values:
        """Norms of the gradients at the initial weights."""
        return self.model.norms(self.model.initial(1), self.split.rows, self.split.labels)

    def test_accuracy(self, weights: Floats) -> float:
        """Fraction of the test examples that are classified as their label."""
        return accuracy(self.model, weights, self.split.test_rows, self.split.test_labels)

    def group_accuracies(self, weights: Floats, way: str) -> Values:
        """Test accuracy of each group."""
        names, _, groups = self.split.groups[way]
        right = predictions(self.model, weights, self.split.test_rows) == self.split.test_labels
        return np.array([right[groups == number].mean() for number in range(len(names))])

    def group_means(self, values: Values, way: str) -> Values:
        """Mean over the examples for training of each group."""
        names, groups, _ = self.split.groups[way]
        return np.array([values[groups == number].mean() for number in range(len(names))])


@dataclass
class Outcome:
    """What came of a training.

    Attributes
    ----------
    weights : ndarray
        At the end.
    noise_multiplier, clipping_norm : float
        Of the training.
    epsilons : ndarray, shape (n,)
        Of the examples: with norms that are refreshed once an epoch.
    is_guarantee : bool
        Whether they are, rather than estimates.
    medians : ndarray, shape (epochs, groups)
        Median of the norms of each group at the start of each epoch.
    sample : ndarray of int
        Examples whose norms were taken in every step.
    truth, estimates : ndarray, dict
        Their epsilons, and those that norms of older steps give, by the refreshes in an epoch.
    """

    weights: Floats
    noise_multiplier: float
    clipping_norm: float
    epsilons: Values
    is_guarantee: bool
    medians: Values
    sample: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    truth: Values = field(default_factory=lambda: np.empty(0))
    estimates: dict[float, Values] = field(default_factory=dict)


def followed(task: Task, clip: float, **more: Any) -> Outcome:
    """Return what `follow` returns, from a training that is done and stored or else from a new one."""

    def make() -> dict[str, Any]:
        outcome = follow(task, clip, **more)
        estimates = {f"{rate:g}": values for rate, values in outcome.estimates.items()}
        return vars(outcome) | {"estimates": estimates}

    found = task.store.get(task.settings | {"clipping_norm": clip, "follow": more}, TRAINED_BY, make)
    estimates = {float(rate): values for rate, values in found["estimates"].items()}
    return Outcome(**(found | {"estimates": estimates}))


def plain_accuracy(task: Task, clip: float, noise: float, seed: int) -> float:
    """Test accuracy of a training that no accountant follows: one that is stored, or else a new one."""
    settings = task.settings | {"clipping_norm": clip, "noise_multiplier": noise, "seed": seed}
    return float(
        task.store.get(settings, TRAINED_BY, lambda: task.test_accuracy(task.training(clip, noise).run(seed)))
    )


def follow(
    task: Task,
    clip: float,
    *,
    seed: int = 1,
    own_bounds: bool = False,
    answers: bool = True,
    sample: int = 0,
    way: str = "class",
) -> Outcome:
    """Train, with an accountant that gets the norms of all examples once an epoch.

    Accounts are of Rényi divergences, as in the paper: exact ones of norms that differ in every step take
    seconds an example.

    Without `answers` nobody is asked for epsilons, which takes longer than to train. With `own_bounds` each
    example is clipped to the norm that the accountant has for it. The norms of a `sample` of the examples are
    taken in every step besides, which is what their epsilons really are.
    """
    rows, labels = task.split.rows, task.split.labels
    names, groups, _ = task.split.groups[way]
    noise = task.noise()
    step = {"noise_multiplier": noise, "sample_rate": task.sampling["sample_rate"]}
    everyone = IndividualAccountant(len(rows), clip, exact=False, individual_clipping=own_bounds)
    watched = np.random.default_rng(seed).choice(len(rows), sample, replace=False)
    few = (
        {rate: IndividualAccountant(max(sample, 1), clip, exact=False) for rate in (*RATES, 0.0)}
        if sample
        else {}
    )
    medians: list[list[float]] = []

    def before(number: int, weights: Floats) -> None:
        if number % task.per_epoch == 0:
            norms = task.model.norms(weights, rows, labels)
            everyone.update_norms(norms)
            medians.append([float(np.median(norms[groups == group])) for group in range(len(names))])
        everyone.step(**step)
        if few:
            own = task.model.norms(weights, rows[watched], labels[watched])
            for rate, accountant in few.items():
                if rate == 0.0 or number % round(task.per_epoch / rate) == 0:
                    accountant.update_norms(own)
                accountant.step(**step)

    bounds = (lambda batch: everyone.norms[batch]) if own_bounds else None
    weights = task.training(clip, noise, bounds=bounds, before_step=before).run(seed)
    found = {rate: accountant.get_epsilons(DELTA) for rate, accountant in few.items()}
    return Outcome(
        weights,
        noise,
        clip,
        everyone.get_epsilons(DELTA) if answers else np.empty(0),
        everyone.is_guarantee,
        np.array(medians),
        watched,
        found.pop(0.0, np.empty(0)),
        found,
    )
