"""Runs with correlated noise in the words of a certificate: the run that was asked about, not its steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hockeystick._curves.equivalent_steps import MOST_REMEMBERED, equivalent
from hockeystick._extras import needed
from hockeystick._factorization.toeplitz import Toeplitz
from hockeystick._vocabulary.mechanisms import parameter_of
from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
    from hockeystick._vocabulary.sampling import FullBatch
    from hockeystick._vocabulary.step_kinds import StepKind
    from hockeystick._vocabulary.support import CorrelatedRun

NAME = "correlated_noise"
LEAST_NOISE, MOST_NOISE = 1e-3, 1e9
"""Limits of the checker."""

Segments = tuple[tuple["StepKind", int], ...]


def apart_from_others(segments: Segments, adjacency: str) -> tuple[list[dict[str, Any]], Segments]:
    """Return the runs with correlated noise of a curve, described, and its other steps.

    Raises
    ------
    UnsupportedError
        If steps stand for a run that is not known, or for a part of one.
    """
    runs: dict[CorrelatedRun, dict[StepKind, int]] = {}
    others = []
    for kind, count in segments:
        run = kind.pair.correlated
        if run is not None:
            runs.setdefault(run, {})[kind] = count
        elif kind.pair.of_whole_run:
            raise UnsupportedError(
                f"certificates cover correlated noise with stored matrices of up to "
                f"{math.isqrt(MOST_REMEMBERED)} rows, and up to {MOST_REMEMBERED} coefficients; the Gaussian "
                f"steps that this run amounts to have one, as steps with the noise that the curve prints"
            )
        else:
            others.append((kind, count))
    return [_described(run, counts, adjacency) for run, counts in runs.items()], tuple(others)


def _described(run: CorrelatedRun, counts: dict[StepKind, int], adjacency: str) -> dict[str, Any]:
    """Return a run as an entry, if these are its steps, once or several times over."""
    noise = run.mechanism.noise_multiplier
    assert noise is not None
    steps = equivalent(run.mechanism, run.sampling, run.steps, run.size).kinds(noise, adjacency)
    times = min(counts.values()) // min(steps.values(), default=1)
    if counts != {kind: count * times for kind, count in steps.items()}:
        raise UnsupportedError(
            "certificates cover whole runs with correlated noise, not parts of their steps"
        )
    smallest = min(parameter_of(kind.noise) for kind in steps)
    if not (noise >= LEAST_NOISE and smallest >= LEAST_NOISE and noise <= MOST_NOISE):
        raise UnsupportedError(
            f"certificates cover noise of {LEAST_NOISE} or more, got {min(noise, smallest)}"
        )
    mechanism = {
        "name": NAME,
        "noise_multiplier": noise,
        **_matrix(run.mechanism, run.steps),
        "steps": run.steps,
    }
    return {
        "mechanism": mechanism,
        "sampling": _sampling(run.sampling),
        "group": {"size": run.size},
        "count": times,
    }


def _matrix(mechanism: CorrelatedNoise, steps: int) -> dict[str, Any]:
    matrix = mechanism.factor
    if not isinstance(matrix, Toeplitz):
        rows = mechanism.matrix(steps).tolist()
        return {"form": "matrix", "rows": [row[: place + 1] for place, row in enumerate(rows)]}
    values = list(matrix.parameters)
    half = len(values) // 2
    if matrix.form == "blt":
        return {"form": "blt", "scales": values[:half], "decays": values[half:]}
    if matrix.form == "toeplitz":
        return {"form": "toeplitz", "coefficients": values}
    return {"form": matrix.form, **({"correlation": values[0]} if values else {})}


def _sampling(draw: FullBatch | FixedOrder | MinimumSeparation | CyclicPoisson) -> dict[str, Any]:
    if isinstance(draw, FixedOrder):
        members = {} if draw.members == "any" else {"members": draw.members}
        return {"name": "fixed_order", "batches": draw.batches, **members}
    if isinstance(draw, MinimumSeparation):
        often = {} if draw.participations is None else {"participations": draw.participations}
        return {"name": "minimum_separation", "separation": draw.separation, **often}
    if isinstance(draw, CyclicPoisson):
        members = {} if draw.members == "any" else {"members": draw.members}
        return {"name": "cyclic_poisson", "sample_rate": draw.sample_rate, "cycle": draw.cycle, **members}
    return {"name": "full_batch"}


def has_correlated_noise(run: dict[str, Any]) -> bool:
    """Whether a described run has entries that are runs with correlated noise."""
    return any(step["mechanism"]["name"] == NAME for step in run["steps"])


def in_plain_steps(run: dict[str, Any]) -> dict[str, Any]:
    """Return a described run as the checker turns it into plain steps, if it has correlated noise.

    Raises
    ------
    UnsupportedError
        If the checker does not cover the run.
    """
    if not has_correlated_noise(run):
        return run
    checker = needed("hockeystick_verify.variants", "verify")
    try:
        found: dict[str, Any] = checker.plain(run)
    except checker.RefusedError as error:
        raise UnsupportedError(f"the checker does not cover this run: {error}") from None
    return found


def is_bounded_only(plain: dict[str, Any]) -> bool:
    """Whether plain steps of a run with correlated noise may reveal more than the run itself."""
    squares = (step["mechanism"].get("square") for step in plain["steps"])
    return any(square is not None and not square[-1] for square in squares)
