"""Batch size, steps, cap per person and noise for a target: a table of what can be chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    LARGEST_DATASET,
    Counts,
    count_array,
    count_scalar,
    float_scalar,
    require,
    shown,
)
from hockeystick._curves.planning import get_noise_multiplier
from hockeystick._curves.risk import check_target
from hockeystick._progress import Report, reporting
from hockeystick._tables import Table
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.spelling import spelled
from hockeystick.errors import UnreachableError, UnsupportedError

LEAST_STEPS = 100
"""Least number of steps of the batch sizes that are tried by default: with fewer, a model hardly trains."""

SMALLEST_BATCH = 32
"""Smallest batch size that is tried by default: with less, the noise of an average is above any gradient."""


class Plan(Table):
    """Choices that meet a target, best first, as `plan` returns them.

    Columns: ``batch_size`` (expected), ``steps``, ``epochs``, ``cap`` (records that are kept of one person),
    ``records`` (in the data set after that), ``noise_multiplier``, and ``noise_per_gradient``: the standard
    deviation of the noise on the averaged gradient, in units of the clipping norm. With batches that are
    clipped as a whole (`BatchClipping`) it is that of the noise on the one clipped update.

    Examples
    --------
    >>> import hockeystick as hs
    >>> choices = hs.plan(dataset_size=60_000, epochs=10, epsilon=3, delta=1e-6, batch_sizes=[256, 1024])
    >>> isinstance(choices, hs.Plan), choices.run().batch_size
    (True, 1024)
    """

    __slots__ = ("_runs",)

    def __init__(self, columns: dict[str, list[Any]], runs: Sequence[Run], caption: str) -> None:
        super().__init__(columns, answer="noise_per_gradient", caption=caption)
        self._runs = tuple(runs)

    def run(self, row: int = 0) -> Run:
        """Return the run of a row, of the best one by default.

        Parameters
        ----------
        row : int, optional
            Number of the row, from 0.

        Returns
        -------
        Run
            With its noise multiplier, for all functions.

        Raises
        ------
        IndexError
            If there is no such row.

        Examples
        --------
        >>> import hockeystick as hs
        >>> choices = hs.plan(dataset_size=60_000, epochs=10, epsilon=3, delta=1e-6, batch_sizes=[256])
        >>> hs.get_epsilon(choices.run(), delta=1e-6) <= 3.0
        True
        """
        return self._runs[row]

    def plot(
        self, x: str | None = None, y: str | None = None, *, title: bool | str = False, ax: Any = None
    ) -> Any:
        """Draw the noise per averaged gradient against the batch size, one line for each cap.

        Parameters
        ----------
        x, y : str, optional
            Other columns.
        title : bool or str, optional
            True for a title that states what all rows have in common, or its text.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.

        Examples
        --------
        >>> import hockeystick as hs
        >>> choices = hs.plan(dataset_size=60_000, epochs=10, epsilon=3, delta=1e-6)  # doctest: +SKIP
        >>> axes = choices.plot()  # doctest: +SKIP
        """
        return import_module("hockeystick.plot._tables").choices(
            self, x or "batch_size", y or self.answer, title, ax
        )


@spelled
def plan(
    run: Run | None = None,
    *,
    dataset_size: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    bayes_success: float | None = None,
    prior: float | None = None,
    mu: float | None = None,
    epochs: float | None = None,
    compute: float | None = None,
    records_per_person: ArrayLike | None = None,
    batch_sizes: ArrayLike | None = None,
    caps: ArrayLike | None = None,
    adjacency: str | None = None,
    progress: Report | bool | None = None,
) -> Plan:
    """Batch size, steps, cap per person and noise that meet a target, the least noise per gradient first.

    Batches are Poisson samples. Of a person with more records than the cap only so many are kept, drawn at
    random before training: that takes less noise, and leaves fewer records.

    Parameters
    ----------
    run : Run, optional
        A run of Poisson samples, in place of `dataset_size`, `records_per_person`, `adjacency`, and of
        `epochs` or `compute`. Its batch size is tried too, its noise multiplier is not used. With
        ``mechanism=BatchClipping(...)`` the batches of all choices are clipped as a whole.
    dataset_size : int
        Number of records.
    epsilon, delta : float, optional
        Target for all records of a person: epsilon, finite and at least zero, and delta, in (0, 1). Give
        these two, or one of the targets below.
    advantage, tpr, fpr, bayes_success, prior, mu : float, optional
        Targets for attacks in their place, as `get_noise_multiplier` takes them: `advantage`, `tpr` with
        `fpr`, `bayes_success` with `prior`, or `mu`.
    epochs : float, optional
        Number of epochs. Give either this or `compute`.
    compute : float, optional
        Number of gradients of single records in the whole training, such as ten times `dataset_size`.
    records_per_person : int or array_like of int, optional
        Largest number of records of one person; or the numbers of all persons, of which the sum is
        `dataset_size`. With one number, every person counts as having so many. By default 1.
    batch_sizes : array_like of int, optional
        Expected batch sizes to try; by default powers of two with at least 100 steps.
    caps : array_like of int, optional
        Caps to try; by default 1, 2, 4, ... up to the largest number of records of a person.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation, by default "add_remove".
    progress : callable or bool, optional
        Called with the numbers of rows that are done and of all rows; True draws a bar (with tqdm).

    Returns
    -------
    Plan
        One row for each choice, to print, to draw and to continue with: ``plan(...).run()`` is the first
        row as a `Run`.

    Raises
    ------
    ValueError
        If an argument is out of range, or two contradict each other.
    TypeError
        If an argument has the wrong type, or not exactly one target, or not exactly one of `epochs` and
        `compute` is given.
    UnreachableError
        If no choice meets the target.

    Notes
    -----
    The noise on an averaged gradient is ``noise_multiplier / batch_size`` clipping norms. For the same
    number of epochs larger batches have less of it, and fewer steps. What is best for a model lies between:
    where the curve becomes flat, larger batches no longer help. A batch that is clipped as a whole has one
    update of at most one clipping norm, however large it is: its noise is ``noise_multiplier``.

    Examples
    --------
    >>> import hockeystick as hs
    >>> choices = hs.plan(
    ...     dataset_size=60_000, records_per_person=4, epochs=10, epsilon=3, delta=1e-6,
    ...     batch_sizes=[256, 1024], caps=[1, 4],
    ... )
    >>> print(choices)
    epsilon 3, delta 1e-06, 10 epochs, adjacency 'add_remove'
    batch_size  steps  epochs  cap  records  noise_multiplier  noise_per_gradient
          1024    147  10.035    1    15000            1.5788           0.0015418
          1024    586  10.001    4    60000            2.7286           0.0026646
           256    586  10.001    1    15000           0.98825           0.0038604
           256   2344  10.001    4    60000            1.4893           0.0058176
    """
    risks = {"advantage": advantage, "tpr": tpr, "fpr": fpr, "bayes_success": bayes_success, "prior": prior}
    stated: dict[str, Any] = {"epsilon": epsilon, "delta": delta, **risks, "mu": mu}
    check_target(**stated)
    target: Any = {name: float_scalar(value, name) for name, value in stated.items() if value is not None}
    in_words = ", ".join(f"{name} {value:g}" for name, value in target.items())
    sizes_of_run: list[int] = []
    clipping: BatchClipping | None = None
    if run is not None:
        stated_by_run = _facts_of(run)
        clipping = run.mechanism if isinstance(run.mechanism, BatchClipping) else None
        sizes_of_run = [] if run.batch_size is None else [max(1, round(run.batch_size))]
        asked = {
            "dataset_size": dataset_size,
            "epochs": epochs,
            "compute": compute,
            "records_per_person": records_per_person,
            "adjacency": adjacency,
        }
        dataset_size, epochs, compute, records_per_person, adjacency = _beside(stated_by_run, asked)
    records_per_person = 1 if records_per_person is None else records_per_person
    adjacency = "add_remove" if adjacency is None else adjacency
    if dataset_size is None:
        raise TypeError("plan() needs dataset_size, or a Run that states it")
    size = count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    if (epochs is None) == (compute is None):
        raise TypeError("give exactly one of epochs and compute")
    gradients = size * float_scalar(epochs, "epochs") if compute is None else float_scalar(compute, "compute")
    name, value = ("epochs", epochs) if compute is None else ("compute", compute)
    require(0.0 < gradients <= 2.0**53, name, value, "above 0, and at most 2**53 gradients")
    counts = _persons(records_per_person, size)
    largest = int(np.max(counts))
    tried = _caps(caps, largest)
    sizes = _batch_sizes(batch_sizes, size, gradients, sizes_of_run)
    question = _Question(size, counts, gradients, epochs, adjacency, clipping, target)
    choices: list[tuple[tuple[Any, ...], Run]] = []
    with reporting(progress, "plan") as report:
        for done, (cap, batch) in enumerate((cap, batch) for cap in tried for batch in sizes):
            choices += question.choice(cap, batch)
            if report is not None:
                report(done + 1, len(tried) * len(sizes))
    if not choices:
        raise UnreachableError(f"no choice of batch size and cap meets the target: {in_words}")
    # Equal noise: fewer gradients first, then the records that are kept.
    choices.sort(key=lambda choice: (choice[0][6], -choice[0][4], choice[0][1]))
    names = ("batch_size", "steps", "epochs", "cap", "records", "noise_multiplier", "noise_per_gradient")
    columns = {name: [row[number] for row, _ in choices] for number, name in enumerate(names)}
    length = f"{gradients:g} gradients" if epochs is None else f"{epochs:g} epochs"
    caption = f"{in_words}, {length}, adjacency {adjacency!r}"
    caption += "" if clipping is None else ", batches clipped as a whole"
    return Plan(columns, [run for _, run in choices], caption)


class _Question(NamedTuple):
    """What is the same for all choices."""

    dataset_size: int
    counts: Counts
    """Records of all persons, or the one number that each has."""
    gradients: float
    epochs: float | None
    adjacency: str
    clipping: BatchClipping | None
    target: dict[str, Any]

    def choice(self, cap: int, batch: int) -> list[tuple[tuple[Any, ...], Run]]:
        """Return the row and the run with a cap and a batch size; nothing where no noise is enough."""
        records = _kept(self.counts, cap, self.dataset_size)
        if batch > records:
            return []
        gradients = self.gradients if self.epochs is None else float(self.epochs) * records
        steps = math.ceil(gradients / batch)
        run = Run(
            sampling="poisson",
            batch_size=batch,
            dataset_size=records,
            steps=steps,
            records_per_person=min(cap, records),
            adjacency=self.adjacency,
            mechanism=self.clipping,
        )
        try:
            sigma = float(get_noise_multiplier(run, **self.target))
        except UnreachableError:
            return []
        if not math.isfinite(sigma):
            return []
        noise = sigma / batch if self.clipping is None else sigma
        row = (batch, steps, steps * batch / records, cap, records, sigma, noise)
        return [(row, run.replace(noise_multiplier=sigma))]


def _facts_of(run: Run) -> dict[str, Any]:
    """Return what a run states of what `plan` asks for."""
    if not isinstance(run, Run):
        raise TypeError(f"run must be a Run, got {shown(run)}; other arguments are given by name")
    if run.sampling != "poisson" or run.max_batch_size is not None or run.microbatches > 1:
        raise UnsupportedError(f"plan is about plain Poisson samples, got a run with {run.scheme!r}")
    known = run.mechanism is None or isinstance(run.mechanism, BatchClipping)
    if run.group is not None or not known:
        whose = run.group if run.mechanism is None else run.mechanism
        raise UnsupportedError(f"plan is about Gaussian noise and equal records, got a run with {whose!r}")
    if run.dataset_size is None:
        raise TypeError("the run does not state dataset_size, which plan needs")
    found: dict[str, Any] = {
        "dataset_size": run.dataset_size,
        "records_per_person": run.records_per_person,
        "adjacency": run.adjacency,
    }
    if run.epochs is not None:
        return found | {"epochs": run.epochs}
    steps, rate = run.number_of_steps, run.arguments["sample_rate"]
    return found if steps is None else found | {"compute": steps * rate * run.dataset_size}


def _beside(stated: dict[str, Any], asked: dict[str, Any]) -> tuple[Any, ...]:
    """Return the facts of a run with other arguments, which must not contradict it."""
    if asked["epochs"] is not None or asked["compute"] is not None:  # the length is what is asked, if given
        stated = {name: value for name, value in stated.items() if name not in ("epochs", "compute")}
    for name, value in asked.items():
        if value is not None and np.any(np.asarray(stated.get(name, value) != value)):
            raise ValueError(
                f"{name} contradicts the run, which states {shown(stated[name])}: use run.replace(...)"
            )
    return tuple(stated.get(name, value) for name, value in asked.items())


def _persons(records_per_person: ArrayLike, dataset_size: int) -> Counts:
    """Return the numbers of records of all persons, or the one number that each has."""
    counts = count_array(records_per_person, "records_per_person", 1)
    if counts.ndim > 1 or counts.size == 0:
        raise ValueError(f"records_per_person must be a number or a vector, got shape {counts.shape}")
    if counts.ndim == 1 and int(counts.sum()) != dataset_size:
        raise ValueError(
            f"dataset_size {dataset_size} contradicts records_per_person, whose sum is {int(counts.sum())}"
        )
    require(
        int(counts.max()) <= dataset_size, "records_per_person", int(counts.max()), "at most dataset_size"
    )
    return counts


def _kept(counts: Counts, cap: int, dataset_size: int) -> int:
    """Return the number of records that are kept."""
    if counts.ndim == 1:
        return int(np.minimum(counts, cap).sum())
    most = int(counts)
    return dataset_size if cap >= most else max(1, dataset_size * cap // most)


def _caps(caps: ArrayLike | None, largest: int) -> list[int]:
    if caps is None:
        return sorted({min(2**power, largest) for power in range(largest.bit_length() + 1)})
    return _vector(caps, "caps", largest)


def _batch_sizes(
    batch_sizes: ArrayLike | None, dataset_size: int, gradients: float, of_run: list[int]
) -> list[int]:
    if batch_sizes is not None:
        return _vector(batch_sizes, "batch_sizes", dataset_size)
    most = min(dataset_size, max(1.0, gradients / LEAST_STEPS))
    found = [2**power for power in range(53) if SMALLEST_BATCH <= 2**power <= most]
    return sorted({*found, *of_run}) or [max(1, int(most))]


def _vector(values: ArrayLike, name: str, largest: int) -> list[int]:
    found = np.atleast_1d(count_array(values, name, 1))
    require(found.ndim == 1 and found.size > 0, name, found.shape, "a vector of at least one number")
    require(int(found.max()) <= largest, name, int(found.max()), f"at most {largest}")
    return sorted(set(found.tolist()))
