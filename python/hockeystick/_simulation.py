"""A Monte-Carlo run, drawn by this process or by the workers of an executor: the same bits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from hockeystick import _core
from hockeystick._executors import ordered_map, slices

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hockeystick._arguments import Floats
    from hockeystick._progress import Report

    Run = tuple[float, list[tuple[Floats, Floats, float, int]], bool, int, str, float | None, int, float]

SMALLEST_JOB = 32
"""Tasks that are worth a message: each is about 3 ms of one core, and a worker builds the tables first."""

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
    with closing(ordered_map(executor, _drawn, jobs)) as answers:
        for part, sums in zip(parts, answers, strict=True):
            # Unlike np.sum, which adds in pairs, this adds one after the other.
            totals = np.add.accumulate(np.vstack((totals, sums)))[-1]
            if report is not None:
                report(simulation.samples_before(part.stop), simulation.samples_before(tasks))
    return simulation.estimate(float(totals[0]), float(totals[1]))


def _drawn(run: Run, first: int, end: int) -> Floats:
    """Draw some tasks: sums and sums of squares, shape (tasks, 2)."""
    return np.stack(_core.Simulation(*run).draw(first, end), axis=1)
