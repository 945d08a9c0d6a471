"""Attacks with copies of a record on softmax regression of all of Fashion-MNIST (GROUP, Remark 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hockeystick as hs
from benches.experiments.data import CLOTHES, Split
from benches.experiments.dpsgd import Training
from benches.experiments.models import Floats, Linear, predictions
from benches.experiments.store import Store
from hockeystick import auditing, kernels

COPIES = (4, 8, 12)
CLIP, LEARNING_RATE = 1.0, 2.0
BRIGHT = 4.0
"""Brightness of the one pixel of the crafted example: its gradient is longer than the clipping norm."""

PROBES = 500
"""Pictures from which the adversary knows how usual batches move."""

IDEAL_AUDITS = 5
"""Audits whose median is taken, of draws from the two laws of the bound."""

POISON_RUN: dict[str, Any] = {"noise_multiplier": 2.0, "sample_rate": 0.01, "steps": 100}
POISON_COPIES = (4, 16, 64, 256)
ANY_TARGET = (0, 0)
"""Number of a test picture, and the label that its copies have: a boot is called a T-shirt."""

UNDECIDED_MARGIN = 0.1
"""By how much the score of the label of the other picture is ahead of the next one: 1.5 times the standard
deviation that noise gives to the difference of two scores."""

TRAINED_BY = tuple(f"benches.experiments.{name}" for name in ("attacks", "data", "dpsgd", "models"))
"""Modules with the code of the trainings."""


def stored(store: Store, settings: dict[str, Any], make: Callable[[], Any]) -> Any:
    """Return what trainings on Fashion-MNIST found, from the stored file or else from new ones."""
    return store.get({"paper": "group", "data": "Fashion-MNIST", **settings}, TRAINED_BY, make)


class Planted:
    """Data in which the last rows are copies of one example.

    Parameters
    ----------
    split : Split
        Pictures, scaled to norm 1.
    row, label : ndarray, int
        The example.
    copies : int
        How many of it there are.
    """

    def __init__(self, split: Split, row: Floats, label: int, copies: int) -> None:
        self.rows = np.vstack([split.rows, np.repeat(row[None], copies, axis=0)])
        self.labels = np.append(split.labels, np.repeat(label, copies))
        self.row, self.label, self.copies = row[None], np.array([label]), copies
        self.clean = len(split)

    def expected(self, run: dict[str, Any]) -> float:
        """Size of a batch by which sums are divided: the same with the copies and without them."""
        return float(run["sample_rate"]) * self.clean

    def training(self, model: Linear, run: dict[str, Any], **more: Any) -> Training:
        """Return a run on the data with the copies."""
        return Training(
            model,
            self.rows,
            self.labels,
            run["sample_rate"],
            int(run["steps"]),
            run["noise_multiplier"],
            CLIP,
            LEARNING_RATE,
            expected_size=self.expected(run),
            **more,
        )


def audit(
    split: Split, run: dict[str, Any], delta: float, runs: int, pilots: int, store: Store
) -> dict[str, Any]:
    """Look for copies of a crafted example and of a mislabelled picture in runs that show every iterate."""
    unit = of_norm_one(split)
    # The first pixel is dark in all but a few pictures: nearly no other gradient points where this one does.
    crafted = np.zeros(unit.rows.shape[1], dtype=np.float32)
    crafted[0] = BRIGHT
    found: dict[str, Any] = {"runs_of_each_kind": runs, "pilots": pilots, "copies": COPIES}
    examples = {"crafted": (crafted, 0), "picture": (unit.rows[0], int(unit.labels[0] + 1) % unit.classes)}
    for name, (row, label) in examples.items():
        every = {}
        for copies in (0, *COPIES):
            planted = Planted(unit, row, label, copies)
            seeds = range(copies * 10**6, copies * 10**6 + runs + pilots)
            settings = {"attack": "audit", "example": name, "copies": copies, "runs": len(seeds), "run": run}
            every[copies] = stored(store, settings, partial(moves, planted, run, seeds))
        rows = []
        for copies in COPIES:
            inside, outside = every[copies], every[0]
            rows.append({"copies": copies, **told_apart(inside, outside, copies, run, delta, pilots)})
        found[name] = rows
    return found


def told_apart(
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    copies: int,
    run: dict[str, Any],
    delta: float,
    pilots: int,
) -> dict[str, Any]:
    """Tell runs with the copies from runs without them by the likelihood ratio of their steps."""
    law = kernels.binomial_law(copies, run["sample_rate"])
    positive, negative = (
        np.sum(kernels.log_likelihood_ratio(part, *law, run["noise_multiplier"]), axis=1)
        for part in (inside, outside)
    )
    return at_least(positive, negative, pilots, run | {"group_size": copies}, delta)


def ideal_audit(run: dict[str, Any], delta: float, runs: int, pilots: int) -> list[dict[str, Any]]:
    """Do what `audit` does with draws from the two laws of the bound, in place of trainings.

    No audit of as many runs can be expected to prove more: nothing but the noise hides the copies.
    """
    random = np.random.default_rng(1)
    shape = (runs + pilots, int(run["steps"]))
    rows = []
    for copies in COPIES:
        proved = []
        for _ in range(IDEAL_AUDITS):
            outside = run["noise_multiplier"] * random.standard_normal(shape)
            inside = random.binomial(copies, run["sample_rate"], shape) + run[
                "noise_multiplier"
            ] * random.standard_normal(shape)
            found = told_apart(inside, outside, copies, run, delta, pilots)
            proved.append(found["epsilon_at_least"])
        rows.append(
            {
                "copies": copies,
                "audits": IDEAL_AUDITS,
                "epsilon_at_least": np.quantile(proved, [0.0, 0.5, 1.0]),
            }
        )
    return rows


def moves(planted: Planted, run: dict[str, Any], seeds: range) -> NDArray[np.float64]:
    """How far each step of each run moved along the gradient of the copies, in units of the clipping norm.

    What batches of the other records usually do in that direction is taken away, which the adversary knows
    from the gradients of some of them.
    """
    model = Linear(planted.rows.shape[1], int(planted.labels.max()) + 1)
    found = np.empty((len(seeds), int(run["steps"])))
    for number, seed in enumerate(seeds):
        directions: list[Floats] = []
        known: list[float] = []
        points: list[Floats] = []

        def before(
            step: int, weights: Floats, directions: Any = directions, known: Any = known, points: Any = points
        ) -> None:
            push, _ = model.clipped_sum(weights, planted.row, planted.label, CLIP)
            direction = push / np.linalg.norm(push)
            total, _ = model.clipped_sum(weights, planted.rows[:PROBES], planted.labels[:PROBES], CLIP)
            directions.append(direction)
            known.append(float(total @ direction) * planted.clean / PROBES * run["sample_rate"])
            points.append(weights)

        training = planted.training(model, run, before_step=before)
        points.append(training.run(seed))
        sums = -np.diff(np.array(points), axis=0) * (planted.expected(run) / LEARNING_RATE)
        along: Any = np.sum(sums * np.array(directions), axis=1)
        found[number] = (along - known) / CLIP
    return found


def at_least(
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    pilots: int,
    run: dict[str, Any],
    delta: float,
) -> dict[str, Any]:
    """Epsilon that the counted runs prove, with a threshold from the others."""

    def counted(threshold: float, part: slice) -> tuple[int, int, int, int]:
        one, other = inside[part], outside[part]
        return int(np.sum(one > threshold)), len(one), int(np.sum(other > threshold)), len(other)

    def proved(threshold: float) -> float:
        return float(auditing.epsilon_lower_bound(*counted(threshold, slice(pilots)), delta))

    candidates = np.quantile(
        np.concatenate([inside[:pilots], outside[:pilots]]), np.linspace(0.02, 0.995, 60)
    )
    threshold = max(candidates.tolist(), key=proved)
    counts = counted(threshold, slice(pilots, None))
    sampling = {key: run[key] for key in ("sample_rate", "steps", "group_size")}
    noise = float(auditing.noise_multiplier_upper_bound(*counts, **sampling))
    by_curve = hs.get_epsilon(delta=delta, noise_multiplier=noise, **sampling) if np.isfinite(noise) else 0.0
    return {
        "reported": float(hs.get_epsilon(delta=delta, **run)),
        "epsilon_at_least": float(by_curve),
        "by_error_rates": float(auditing.epsilon_lower_bound(*counts, delta)),
        "noise_multiplier_at_most": noise,
        "true_positives": counts[0],
        "false_positives": counts[2],
    }


def poisoning(
    split: Split, runs: int, store: Store, copies: tuple[int, ...] = POISON_COPIES
) -> dict[str, Any]:
    """How often copies of a test picture with a wrong label make the model give it that label.

    What the guarantee for the group says: if the model without the copies does so with probability p, then
    with them it does so with probability at most 1 - beta(p), where beta is the trade-off function of the
    group. One picture is any, and of the other a model without noise is nearly undecided.
    """
    unit = of_norm_one(split)
    model = Linear(unit.rows.shape[1], unit.classes)
    found: dict[str, Any] = {"run": POISON_RUN, "runs": runs, "copies": copies, "targets": {}}
    near = stored(store, {"attack": "undecided picture"}, partial(undecided, unit, model))
    for name, (number, label) in {"any": ANY_TARGET, "undecided": near}.items():
        hits = {}
        for many in (0, *copies):
            planted = Planted(unit, unit.test_rows[number], label, many)
            settings = {"attack": "poisoning", "picture": number, "label": label, "copies": many}
            settings |= {"runs": runs, "run": POISON_RUN}
            hits[many] = stored(store, settings, partial(successes, planted, model, runs))
        found["targets"][name] = {
            "picture": number,
            "label": CLOTHES[label],
            "true_label": CLOTHES[int(unit.test_labels[number])],
            **allowed(hits, runs),
        }
    return found


def allowed(hits: dict[int, int], runs: int) -> dict[str, Any]:
    """Frequencies of success by the number of copies, and what the guarantees for groups allow."""
    _, usual_rate = auditing.clopper_pearson(hits[0], runs)
    rows = [
        {
            "copies": copies,
            "success": found / runs,
            "interval": auditing.clopper_pearson(found, runs),
            "at_most": 1.0 - float(hs.privacy_curve(**POISON_RUN, group_size=copies).beta(usual_rate)),
            "at_most_black_box": by_black_box(usual_rate, copies),
        }
        for copies, found in hits.items()
        if copies
    ]
    return {"without_copies": hits[0] / runs, "without_copies_at_most": usual_rate, "rows": rows}


def undecided(unit: Split, model: Linear) -> tuple[int, int]:
    """Return a test picture that is classified with a small margin without noise, and the other label."""
    planted = Planted(unit, unit.test_rows[0], 0, 0)
    weights = planted.training(model, POISON_RUN | {"noise_multiplier": 0.0}).run(1)
    scores, every = model.scores(weights, unit.test_rows), np.arange(len(unit.test_rows))
    own = scores[every, unit.test_labels].copy()
    scores[every, unit.test_labels] = -np.inf
    number = int(np.argmin(np.abs(own - scores.max(axis=1) - UNDECIDED_MARGIN)))
    return number, int(scores[number].argmax())


def successes(planted: Planted, model: Linear, runs: int) -> int:
    """In how many trainings the picture gets the label of the copies."""
    return sum(hit(planted, model, 1000 * planted.copies + seed) for seed in range(runs))


def hit(planted: Planted, model: Linear, seed: int) -> bool:
    """Whether one training gives the picture the label of the copies."""
    weights = planted.training(model, POISON_RUN).run(seed)
    return bool(predictions(model, weights, planted.row)[0] == planted.label[0])


def by_black_box(rate: float, size: int) -> float:
    """Largest probability that the conversion from one record allows, at the best of some epsilons."""
    epsilons = np.geomspace(0.1, 25.0, 9)
    deltas = hs.black_box.get_delta(epsilon=epsilons, group_size=size, **POISON_RUN)
    return float(min(1.0, np.min(np.exp(epsilons) * rate + deltas)))


def of_norm_one(split: Split) -> Split:
    """Scale each picture to norm 1, and leave the constant away."""
    parts = [
        part[:, :-1] / np.linalg.norm(part[:, :-1], axis=1, keepdims=True)
        for part in (split.rows, split.test_rows)
    ]
    return replace(split, rows=parts[0], test_rows=parts[1])
