"""Monte-Carlo estimate of delta with an interval that holds at finite sample size."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    FloatOrFloats,
    Floats,
    broadcast,
    count_array,
    count_scalar,
    flat,
    float_array,
    in_shape,
    text,
)
from hockeystick._executors import check_executor
from hockeystick._progress import Report, reporting
from hockeystick._simulation import simulated
from hockeystick.kernels._broadcasting import Laws


class MonteCarloEstimate(NamedTuple):
    """An estimate of delta and the ends of its confidence interval.

    Examples
    --------
    >>> from hockeystick import kernels
    >>> found = kernels.monte_carlo_delta(
    ...     1.0, [0.99, 0.01], [0.0, 1.0], 1.0, 100, samples=10_000, direction="remove", seed=1
    ... )
    >>> found.lower <= found.estimate <= found.upper
    True
    """

    estimate: FloatOrFloats
    lower: FloatOrFloats
    upper: FloatOrFloats


def monte_carlo_delta(
    epsilon: ArrayLike,
    weights: ArrayLike,
    shifts: ArrayLike,
    noise_multiplier: ArrayLike,
    steps: ArrayLike,
    *,
    samples: ArrayLike,
    direction: str,
    tilt: ArrayLike | None = None,
    seed: int,
    confidence: ArrayLike = 0.99,
    log_weights: bool = False,
    progress: Report | bool | None = None,
    executor: Executor | None = None,
) -> MonteCarloEstimate:
    """Estimate delta(epsilon) of a composed mixture pair, with a confidence interval.

    Parameters
    ----------
    epsilon : array_like, any shape
        Where to estimate delta. It broadcasts with the laws, `noise_multiplier`, `steps`, `samples`, `tilt`
        and `confidence`: every element is a run of its own with the same seed, and the interval of each holds
        with its confidence on its own.
    weights : array_like, shape (..., n)
        Mixture weights of one step along the last axis: at least zero and of sum one. Leading axes, one law
        for each of their elements, broadcast with the other arguments.
    shifts : array_like, shape (..., n)
        Means of the mixture's components, in units of the clipping norm.
    noise_multiplier : array_like
        Standard deviation sigma of every component.
    steps : array_like of int
        Number T >= 0 of composed steps.
    samples : array_like of int
        Number >= 1 of samples; each draws all steps. Memory does not depend on it.
    direction : {"remove", "add"}
        "remove" is the ordered pair (MoG, N(0)), "add" is (N(0), MoG).
    tilt : array_like, optional
        None chooses the tilt such that the mean loss is near `epsilon`; 0.0 is plain Monte Carlo;
        a positive number lambda draws each step from its law tilted by e^(lambda * loss).
    seed : int
        In [0, 2**64). The same seed gives the same bits for any number of threads.
    confidence : array_like, optional
        Probability in (0, 1) that the interval contains delta.
    log_weights : bool, optional
        `weights` holds logarithms.
    progress : callable or bool, optional
        A function of (done, total), called now and then with numbers of samples; True draws a bar
        with tqdm.
    executor : concurrent.futures.Executor, optional
        Draws the samples: a process pool, Dask's ``client.get_executor()`` or another. The result is the
        same to the last bit, whatever the number of workers; without it, the threads of this process draw.

    Returns
    -------
    MonteCarloEstimate
        ``(estimate, lower, upper)``: floats, or arrays of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is out of range, or the lengths of `weights` and `shifts` differ.
    TypeError
        If an argument is not real, or `progress` cannot be called, or `executor` is none.
    ImportError
        If `progress` is True and tqdm is not installed.
    RuntimeError
        If workers of the executor were lost, so that it cannot go on.
    KeyboardInterrupt
        On Ctrl-C, promptly.

    Notes
    -----
    With r = MoG / N(0) at each coordinate,

    - remove: delta = E_{x ~ MoG^T}[(1 - e^epsilon / prod r)_+]
    - add:    delta = E_{x ~ N(0)^T}[(1 - e^epsilon prod r)_+]

    (GROUP, Algorithm 2; its line 21 prints the ratio upside down.) The interval is valid at every
    sample size because the estimated variable is bounded; it is not a normal approximation.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> weights, shifts = kernels.binomial_law(4, 0.01)
    >>> delta = kernels.monte_carlo_delta(
    ...     2.0, weights, shifts, 1.0, 10, samples=100_000, direction="remove", seed=1
    ... )
    >>> delta.lower < 4.5316772e-06 < delta.upper
    True
    """
    levels = float_array(epsilon, "epsilon")
    laws, places = Laws.of(weights, shifts).numbered()
    numbers = {
        "weights": places,
        "epsilon": levels,
        "noise_multiplier": float_array(noise_multiplier, "noise_multiplier"),
        "steps": count_array(steps, "steps", 0),
        "samples": count_array(samples, "samples", 1),
        "confidence": float_array(confidence, "confidence"),
    }
    if tilt is not None:
        numbers["tilt"] = float_array(tilt, "tilt")
    shape = broadcast(**numbers)
    runs = list(zip(*(column.tolist() for column in flat(numbers.values(), shape)), strict=True))
    chosen_seed = count_scalar(seed, "seed", 0, 2**64 - 1)
    chosen_direction = text(direction, "direction")

    check_executor(executor)

    results = np.empty((3, len(runs)))
    with reporting(progress, "Monte Carlo") as report:
        for run, (law, level, noise, count, drawn, certainty, *chosen_tilt) in enumerate(runs):
            results[:, run] = simulated(
                (
                    level,
                    [(*laws[int(law)], noise, count)],
                    bool(log_weights),
                    drawn,
                    chosen_direction,
                    chosen_tilt[0] if chosen_tilt else None,
                    chosen_seed,
                    certainty,
                ),
                executor,
                _one_of_several(report, run, len(runs)),
            )
    return _as_estimate(results, shape)


def _as_estimate(results: Floats, shape: tuple[int, ...]) -> MonteCarloEstimate:
    estimate, lower, upper = (in_shape(row, shape) for row in results)
    return MonteCarloEstimate(estimate, lower, upper)


def _one_of_several(report: Report | None, run: int, runs: int) -> Report | None:
    """`report` for run number `run` of `runs` equal runs, as progress of them all."""
    if report is None or runs == 1:
        return report

    def shifted(done: int, total: int) -> object:
        return report(run * total + done, runs * total)

    return shifted
