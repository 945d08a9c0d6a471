"""A Monte-Carlo run, drawn by this process or by the workers of an executor: the same bits."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import closing

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Floats
from hockeystick._executors import check_floats, ordered_map, slices
from hockeystick._progress import Report

Run = tuple[float, list[tuple[Floats, Floats, float, int]], bool, int, str, float | None, int, float]


SMALLEST_JOB = 32
"""Tasks that are worth a message: each is about 3 ms of one core, and a worker builds the tables first."""

SUMMATION = 1e-6
"""Room for the rounding of a worker's sums."""

LARGEST_JOB = 2**15
"""Tasks of at most a hundred seconds of one core, so that a lost worker costs no more."""


def simulated(
    run: Run, executor: Executor | None, report: Report | None = None
) -> tuple[float, float, float]:
    """Estimate, lower and upper end of one run.

    `run` holds the arguments of `_core.Simulation`. Task number i draws from stream number i of the seed, and
    the sums of the tasks are added in their order, so nothing depends on who draws them, or when.
    """
    if executor is None:
        return _core.monte_carlo_delta(*run, report)
    simulation = _core.Simulation(*run)
    tasks = simulation.tasks()
    parts = slices(tasks, SMALLEST_JOB, LARGEST_JOB)
    jobs = ((run, part.start, part.stop) for part in parts)
    totals = np.zeros(2)

    def check(sums: Floats, job: tuple[Run, int, int]) -> None:
        """Raise an error if a worker's sums cannot be those of samples in [0, 1]."""
        _, first, end = job
        check_floats(sums, "the sums of samples", (end - first, 2))
        # Each sample is in [0, 1], and sums over a task are rounded.
        most = (1.0 + SUMMATION) * (simulation.samples_before(end) - simulation.samples_before(first))
        bad = ~((sums >= 0.0) & (sums <= most)).all(axis=1) | (sums[:, 1] > sums[:, 0] * (1.0 + SUMMATION))
        if bad.any():
            total, squares = sums[int(np.argmax(bad))].tolist()
            raise RuntimeError(
                f"a worker of the executor answered with the sum {total} and the sum of squares {squares} of "
                f"samples in [0, 1], {most:g} of them at most"
            )

    with closing(ordered_map(executor, _drawn, jobs, check)) as answers:
        for part, sums in zip(parts, answers, strict=True):
            # Unlike np.sum, which adds in pairs, this adds one after the other.
            totals = np.add.accumulate(np.vstack((totals, sums)))[-1]
            if report is not None:
                report(simulation.samples_before(part.stop), simulation.samples_before(tasks))
    return simulation.estimate(float(totals[0]), float(totals[1]))


def _drawn(run: Run, first: int, end: int) -> Floats:
    """Draw some tasks: sums and sums of squares, shape (tasks, 2)."""
    return np.stack(_core.Simulation(*run).draw(first, end), axis=1)
