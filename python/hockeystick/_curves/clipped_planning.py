"""Noise, rate and group size with which a run of batches that are clipped as a whole meets a target.

A step with batch clipping is one of a single record, whose noise and probability are known functions of
what is asked for (docs/theory/batch-clipping.md). The compiled solver answers for the single record where
these functions can be inverted, and elsewhere a search looks at runs. Numbers of steps need nothing of their
own.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from hockeystick._arguments import Counts, FloatOrFloats, Floats
from hockeystick._curves.risk import Target, search
from hockeystick._curves.solving import solve
from hockeystick._executors import check_executor
from hockeystick._vocabulary.batch_clipping import FARTHEST, probability_of_any
from hockeystick._vocabulary.configuration import check_group_sizes, configure
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick.errors import UnsupportedError

_OUTWARDS = 1.0 + 1e-13
"""Makes up for the rounding of a rate from the probability that a batch has a member."""


def plan_clipped(
    unknown: str,
    mechanism: BatchClipping,
    target: Target,
    arguments: dict[str, Any],
    *,
    bounds: bool,
    tolerance: float,
    executor: Executor | None,
) -> Any:
    """Noise multiplier, sample rate or group size of batches that are clipped as a whole.

    Parameters
    ----------
    unknown : {"noise_multiplier", "sample_rate", "group_size"}
        What is looked for.
    mechanism : BatchClipping
        The units of a batch, and the noise where it is not asked for.
    target : Target
        What has to be met.
    arguments : dict
        The others, as `privacy_curve` takes them; numbers may be arrays.
    bounds, tolerance, executor
        As in `get_epsilon`. Where a search looks at runs, it does so in this process.

    Raises
    ------
    UnsupportedError
        For ways to draw batches and groups that no pair is proven for.
    """
    if executor is not None:
        check_executor(executor)
    if arguments.get("noise_multiplier") is not None:
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    adjacency = target.adjacency(arguments["adjacency"])
    of_step = {name: value for name, value in arguments.items() if name not in ("steps", "noise_multiplier")}
    of_step |= {"mechanism": mechanism, "adjacency": adjacency}
    solved: dict[str, Any] = {"bounds": bounds, "tolerance": tolerance}
    if unknown == "noise_multiplier":
        step = configure(**{**of_step, "mechanism": replace(mechanism, noise_multiplier=FARTHEST)})
        if target.is_point:
            about: dict[str, Any] = {
                "steps": arguments["steps"],
                "epsilon": target.epsilon,
                "delta": target.delta,
            }
            found = solve(unknown, step, **about, **solved, executor=executor)
            return _times(found, FARTHEST / float(np.asarray(step.noise)), bounds)
    else:
        sizes = check_group_sizes(arguments.get("group_size", 1))
        group = arguments.get("group")
        if unknown == "sample_rate" and group is not None and group.rates is not None:
            raise UnsupportedError("get_sample_rate looks for the rate of all members: leave out rates")
        # What has no pair is refused by name. Groups of other sizes have one if a record has.
        configure(**{**of_step, unknown: 0.5 if unknown == "sample_rate" else 1, **_plain(of_step)})
        if unknown == "sample_rate" and target.is_point and adjacency != "replace":
            members = np.asarray(sizes if group is None else group.size)
            return _largest_rate(
                mechanism, target, arguments["steps"], members, adjacency, executor, **solved
            )
    return search(unknown, target, {**arguments, "mechanism": mechanism}, **solved)


def _plain(of_step: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a group that stands for arrays of sizes, which are asked about one by one."""
    return {"group_size": 1} if np.ndim(of_step.get("group_size", 1)) else {}


def _times(found: Any, factor: float, bounds: bool) -> Any:
    """Both ends, or the one, times a power of two, which rounds nothing."""
    return (found[0] * factor, found[1] * factor) if bounds else found * factor


def _largest_rate(
    mechanism: BatchClipping,
    target: Target,
    steps: Any,
    members: Counts,
    adjacency: str,
    executor: Executor | None,
    *,
    bounds: bool,
    tolerance: float,
) -> Any:
    """Largest rate of a group, from the largest rate of the one record that stands for it."""
    half = mechanism.noise_multiplier / FARTHEST
    step = configure(adjacency=adjacency, noise_multiplier=half, unknown="sample_rate")
    lower, upper = solve(
        "sample_rate",
        step,
        steps=steps,
        epsilon=target.epsilon,
        delta=target.delta,
        bounds=True,
        tolerance=tolerance,
        executor=executor,
    )
    safe = _rate_below(np.asarray(lower), members)
    if not bounds:
        return safe
    missed = np.minimum(_rate(np.minimum(upper, 1.0), members) * _OUTWARDS, 1.0)
    missed = np.where(members == 1, upper, np.where(np.isfinite(upper), missed, upper))
    return safe, missed if missed.ndim else float(missed)


def _rate(shares: Any, members: Counts) -> Floats:
    """Rates at which a batch holds a member of groups with these probabilities."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(np.log1p(-np.asarray(shares)) / members))


def _rate_below(shares: Floats, members: Counts) -> FloatOrFloats:
    """Rates at which the probability of a member, rounded up as the curve has it, is at most `shares`."""
    found = np.where(members == 1, shares, np.where(shares < 1.0, _rate(shares, members), 1.0))
    found = np.minimum(found, shares)
    step = 1e-14
    while np.any(over := np.asarray(probability_of_any(found, members)) > shares):
        found = np.where(over, found * (1.0 - step), found)
        step *= 2.0
    return found if found.ndim else float(found)
