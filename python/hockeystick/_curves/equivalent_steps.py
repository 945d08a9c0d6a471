"""Independent steps that reveal as much as a run with correlated noise: one Gaussian, or cyclic samples.

Proofs: docs/theory/correlated-noise.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hockeystick._arguments import Floats, require, shown
from hockeystick._factorization.dense import Dense
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick._vocabulary.support import CorrelatedRun, Pair
from hockeystick.errors import UnsupportedError

MOST_PLACED = 8
"""Up to so many members each way to place them in parts is computed: 22 ways, as many times the work."""

MOST_NOISE = 1e30
"""More noise than this is taken as this much."""

MOST_REMEMBERED = 4096
"""Most numbers of a matrix that the steps of a curve remember: coefficients, or entries of 64 rows."""

ROUNDED_DOWN = 1.0 - 1e-15
"""Makes up for the rounding of a few operations. It is a factor of the noise, so that any other is wrong."""


class Part(NamedTuple):
    """Equal steps that stand for a part of the run."""

    scale: float
    """The noise of each is the noise multiplier of Z over this, which is rounded up."""
    least: float
    """`scale` rounded down, for the lower end of an interval."""
    times: int
    members: int
    """How many records change together in such a step."""


class Equivalent(NamedTuple):
    """Independent steps that reveal at least as much as a run with correlated noise."""

    parts: tuple[Part, ...]
    sampling: Sampling
    attained: bool
    """Whether they reveal as much for some data sets, and not more."""
    reason: str
    run: CorrelatedRun | None = None
    """The run itself with any noise multiplier, unless its matrix is too large to be remembered."""
    covers_replaced: bool = True
    """Whether they dominate the run for replaced records too."""

    def require(self, adjacency: str) -> None:
        """Raise if the steps are not proven for an adjacency."""
        if adjacency == "replace" and not self.covers_replaced:
            raise UnsupportedError(
                "replaced records of a group that may be in any parts of CyclicPoisson are not supported by "
                f"one curve, nor in groups of more than {MOST_PLACED}: use members='together' or "
                "members='apart', or get_epsilon, which takes the worst of all ways to place them"
            )

    def kinds(self, noise_multiplier: float, adjacency: str) -> dict[StepKind, int]:
        """Return the steps and how often each occurs."""
        self.require(adjacency)
        found: dict[StepKind, int] = {}
        run = self.run
        if run is not None:
            run = run._replace(mechanism=run.mechanism.with_noise(noise_multiplier))
        for part in self.parts:
            noise = min(noise_multiplier / part.scale * ROUNDED_DOWN, MOST_NOISE)
            kind, _ = step_kind(
                noise_multiplier=noise,
                sampling=self.sampling,
                group_size=part.members,
                adjacency=adjacency,
            )
            attained = kind.pair.tight and self.attained and noise < MOST_NOISE
            most = noise_multiplier / part.least / ROUNDED_DOWN if attained else None
            source = f"{kind.pair.source}; {self.reason}"
            pair = Pair(attained, source, of_whole_run=True, correlated=run, most_noise=most)
            kind = kind._replace(pair=pair)
            # Norms that differ in the last digit may have one noise.
            found[kind] = found.get(kind, 0) + part.times
        return found


def equivalent(mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int) -> Equivalent:
    """Return the independent steps for a run of so many steps.

    Raises
    ------
    ValueError
        If there are more steps than the matrix has rows, or a group does not fit the scheme.
    UnsupportedError
        If no such steps are proven for the scheme.
    """
    count = mechanism.check_steps(steps)
    run = _remembered(mechanism, sampling, count, group_size)
    if isinstance(sampling, CyclicPoisson):
        return _cyclic(mechanism, sampling, count, group_size, (group_size,))._replace(run=run)
    if not isinstance(sampling, FullBatch | FixedOrder | MinimumSeparation):
        raise UnsupportedError(
            f"sampling {shown(sampling)} and CorrelatedNoise are not supported together: use FullBatch(), "
            f"FixedOrder(batches), MinimumSeparation(separation, participations) or "
            f"CyclicPoisson(sample_rate, cycle); or FixedBins(batches) in a run of its own"
        )
    if count == 0:
        return Equivalent((), FullBatch(), True, "no steps")
    found = mechanism.sensitivity(sampling, count, group_size)
    # A group of m at full batches moves the sum by m: what is left is how far one of them does.
    scale = math.nextafter(found.upper / group_size, math.inf)
    part = Part(scale, math.nextafter(found.lower / group_size, 0.0), 1, group_size)
    reason = f"correlated noise, {count} steps: {found.method}"
    return Equivalent((part,), FullBatch(), found.exact, reason, run)


def _remembered(
    mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int
) -> CorrelatedRun | None:
    """Return the run as its steps remember it, for certificates; None if its matrix is large."""
    matrix = mechanism.factor
    numbers = matrix.array.size if isinstance(matrix, Dense) else len(getattr(matrix, "parameters", ()))
    if numbers > MOST_REMEMBERED:
        return None
    if group_size == 1 and isinstance(sampling, FixedOrder | CyclicPoisson):
        sampling = replace(sampling, members="any")  # which means nothing
    if not isinstance(sampling, FullBatch | FixedOrder | MinimumSeparation | CyclicPoisson):
        return None
    return CorrelatedRun(mechanism, sampling, steps, group_size)


def placements(mechanism: CorrelatedNoise, sampling: object, steps: int, group_size: int) -> list[Equivalent]:
    """Return independent steps for each way to place a group, at most that of the worst is revealed.

    Where members may be in any parts of a cycle, each way to place them has a bound of its own, and the
    largest of these is below that of `equivalent`, which one composition has to cover.
    """
    several = isinstance(sampling, CyclicPoisson) and sampling.members == "any" and group_size > 1
    if not several or group_size > MOST_PLACED or steps == 0:
        return [equivalent(mechanism, sampling, steps, group_size)]
    assert isinstance(sampling, CyclicPoisson)
    count = mechanism.check_steps(steps)
    together = equivalent(mechanism, replace(sampling, members="together"), steps, group_size)
    placed = [sizes for sizes in _partitions(group_size) if 1 < len(sizes) <= sampling.cycle]
    return [together, *(_cyclic(mechanism, sampling, count, group_size, sizes) for sizes in placed)]


def _partitions(number: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """Return all ways to write a number as a sum of positive ones, the largest first."""
    if number == 0:
        return [()]
    top = number if largest is None else min(largest, number)
    return [(first, *rest) for first in range(top, 0, -1) for rest in _partitions(number - first, first)]


def _cyclic(
    mechanism: CorrelatedNoise,
    scheme: CyclicPoisson,
    steps: int,
    group_size: int,
    sizes: tuple[int, ...],
) -> Equivalent:
    """Return the steps of a group with these numbers of members in its parts; (m,) stands for any parts."""
    sampling = Poisson(scheme.sample_rate)
    matrix, cycle = mechanism.factor, min(scheme.cycle, max(steps, 1))
    if steps == 0:
        return Equivalent((), sampling, True, "no steps")
    bands = matrix.bands(steps)
    if bands > cycle:
        raise UnsupportedError(
            f"{scheme!r} needs a matrix of at most {cycle} bands, as the noise of two steps with the same "
            f"record must not overlap; {mechanism!r} has {bands}: use toeplitz with fewer coefficients, or a "
            f"longer cycle"
        )
    turns = -(-steps // cycle)
    if group_size == 1 or scheme.members == "together":
        parts, attained = _one_part(matrix.squared_columns(steps), cycle, turns, group_size)
        return Equivalent(parts, sampling, attained, f"correlated noise, {steps} steps in turns")
    if scheme.members == "apart":
        require(group_size <= scheme.cycle, "group_size", group_size, f"at most {scheme.cycle} parts")
        sizes = (1,) * group_size
    # Members anywhere: at worst they are in as many parts as there are, and all of them move the same steps.
    used = len(sizes) if len(sizes) > 1 else group_size
    scale = math.nextafter(math.sqrt(matrix.overlap(steps, cycle, min(used, cycle) - 1)), math.inf)
    reason = f"correlated noise, {steps} steps in turns: members in several parts"
    found = tuple(
        Part(scale, scale * ROUNDED_DOWN, turns * sizes.count(size), size)
        for size in sorted(set(sizes), reverse=True)
    )
    # One curve for any parts rests on the comparison theorem, which is about added and removed records.
    placed = len(sizes) > 1 or used == 1
    return Equivalent(found, sampling, False, reason, covers_replaced=placed)


def _one_part(
    squares: tuple[Floats, Floats], cycle: int, turns: int, members: int
) -> tuple[tuple[Part, ...], bool]:
    """Return the norms of the columns of the worst part, largest first; and whether one part has them all."""
    lower, upper = (_by_turns(ends, cycle, turns) for ends in squares)
    worst = upper.max(axis=1)
    has_all = np.all(upper == worst[:, None], axis=0)
    attained = bool(np.any(has_all))
    # Lower ends are those of one part, which has all of the steps.
    surely = lower[:, has_all.argmax()] if attained else lower.max(axis=1)
    norms, counts = np.unique(worst, return_counts=True)
    parts = []
    for norm, count in zip(norms.tolist(), counts.tolist(), strict=True):
        if norm > 0.0:
            least = float(surely[worst == norm].min())
            roots = math.nextafter(math.sqrt(norm), math.inf), math.nextafter(math.sqrt(least), 0.0)
            parts.append(Part(*roots, count, members))
    return tuple(parts), attained


def _by_turns(squares: Floats, cycle: int, turns: int) -> Floats:
    """Return the squared norms of each part in a column, largest first; 0 where a part has a turn less."""
    padded = np.zeros(turns * cycle)
    padded[: squares.size] = squares
    return np.sort(padded.reshape(turns, cycle), axis=0)[::-1]
