"""Epsilon, delta or the noise multiplier of runs with correlated noise and random bins that stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, broadcast, count_or_counts, float_array, in_shape, require
from hockeystick._curves.chain_of_bins import INSTEAD, coefficients, enclosed, of_independent_noise
from hockeystick._curves.equivalent_steps import equivalent
from hockeystick._curves.solving import solve
from hockeystick._vocabulary.adjacency import check_add_remove
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.configuration import configure
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.intervals import warn_if_loose, warn_if_wide
from hockeystick._vocabulary.participation import FixedOrder
from hockeystick.errors import UnsupportedError


def check_one_record(group_size: ArrayLike) -> None:
    """Raise unless the guarantee is asked for single records.

    Raises
    ------
    UnsupportedError
        For groups.
    """
    members = np.asarray(count_or_counts(group_size, "group_size", 1))
    if np.any(members > 1):
        raise UnsupportedError(
            f"groups with random bins and correlated noise have no certified answer, got group_size "
            f"{int(members.max())}: {INSTEAD}"
        )


def solve_bins(
    unknown: str,
    mechanism: CorrelatedNoise,
    sampling: FixedBins,
    *,
    steps: ArrayLike,
    group_size: ArrayLike,
    adjacency: str,
    targets: dict[str, ArrayLike],
    bounds: bool,
    tolerance: float,
) -> Any:
    """Epsilon, delta or the noise multiplier, in the broadcast shape.

    Parameters
    ----------
    unknown : {"epsilon", "delta", "noise_multiplier"}
        What is asked for. For epsilon and delta the mechanism has its noise multiplier.
    targets : dict of array_like
        Delta, epsilon, or both, by their names.
    """
    relation = check_add_remove(adjacency)
    counts = np.asarray(count_or_counts(steps, "steps", 0))
    check_one_record(group_size)
    numbers = {name: float_array(value, name) for name, value in targets.items()}
    if coefficients(mechanism).is_identity:
        return _of_identity(unknown, mechanism, sampling, steps, relation, targets, bounds, tolerance)
    _check_targets(numbers)
    members = np.asarray(count_or_counts(group_size, "group_size", 1))
    shape = broadcast(steps=counts, group_size=members, **numbers)
    columns = {name: np.broadcast_to(value, shape).ravel() for name, value in numbers.items()}
    flat = np.broadcast_to(counts, shape).ravel()
    lower, upper = np.empty(flat.size), np.empty(flat.size)
    for count in np.unique(flat).tolist():
        alike = flat == count
        asked = {name: column[alike] for name, column in columns.items()}
        run = (mechanism.with_noise(None), sampling, count, relation)
        if unknown == "noise_multiplier":
            lower[alike], upper[alike] = _least_noises(run, asked["epsilon"], asked["delta"], tolerance)
        else:
            (at,) = asked.values()
            noise = mechanism.noise_multiplier
            assert noise is not None
            lower[alike], upper[alike] = enclosed(unknown, run[0], noise, *run[1:], at)
    if unknown == "noise_multiplier":
        loose = upper > lower * (1.0 + tolerance)
        if np.any(loose):
            warn_if_loose(unknown, lower, upper, loose, tolerance)
    else:
        warn_if_wide(unknown, lower, upper, tolerance)
    if bounds:
        return in_shape(lower, shape), in_shape(upper, shape)
    return in_shape(upper, shape)


def _of_identity(
    unknown: str,
    mechanism: CorrelatedNoise,
    sampling: FixedBins,
    steps: ArrayLike,
    adjacency: str,
    targets: dict[str, ArrayLike],
    bounds: bool,
    tolerance: float,
) -> Any:
    """Return the answer for independent noise, whose curve of fixed bins is known exactly."""
    scale = coefficients(mechanism).scale
    asked: dict[str, Any] = {"steps": steps, "bounds": bounds, "tolerance": tolerance, **targets}
    if unknown != "noise_multiplier":
        assert mechanism.noise_multiplier is not None
        noise = of_independent_noise(mechanism, mechanism.noise_multiplier)
        step = configure(adjacency=adjacency, noise_multiplier=noise, sampling=sampling)
        return solve(unknown, step, **asked)
    step = configure(adjacency=adjacency, sampling=sampling, unknown=unknown)
    found = solve(unknown, step, **asked)
    if scale == 1.0:
        return found
    if not bounds:
        return _scaled(found, scale, math.inf)
    return _scaled(found[0], scale, 0.0), _scaled(found[1], scale, math.inf)


def _scaled(noise: Any, scale: float, towards: float) -> Any:
    """Return the noise multiplier of Z from that of a step, rounded outwards."""
    found = np.nextafter(np.asarray(noise) * scale, towards)
    return float(found) if found.shape == () else found


def _check_targets(numbers: dict[str, Floats]) -> None:
    epsilon, delta = numbers.get("epsilon", np.zeros(0)), numbers.get("delta", np.zeros(0))
    wrong = ~(np.isfinite(epsilon) & (epsilon >= 0.0))
    if np.any(wrong):
        require(False, "epsilon", float(epsilon[wrong].ravel()[0]), "in [0, inf)")
    wrong = ~((delta > 0.0) & (delta < 1.0))
    if np.any(wrong):
        require(False, "delta", float(delta[wrong].ravel()[0]), "in (0, 1)")


Ends = Callable[[float], tuple[float, float]]
"""Both ends of delta at a noise multiplier."""

_FIRST_STEP = 1.1
"""Factor of the first step down from the noise of a known bin; the next steps are its square, and so on."""

_MOST_TRIALS = 60
"""Noise multipliers at most for one target. Some ten are usual."""


def _least_noises(
    run: tuple[CorrelatedNoise, FixedBins, int, str], epsilons: Floats, deltas: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Both ends of the smallest noise multiplier of Z for every pair of targets."""
    mechanism, sampling, count, relation = run
    lower, upper = np.zeros(epsilons.size), np.zeros(epsilons.size)
    if count == 0:
        return lower, upper
    for place, (epsilon, delta) in enumerate(zip(epsilons.tolist(), deltas.tolist(), strict=True)):

        def ends(noise: float, at: float = epsilon) -> tuple[float, float]:
            """Return both ends of delta at this noise."""
            found = enclosed("delta", mechanism, noise, sampling, count, relation, np.array([at]))
            return float(found[0][0]), float(found[1][0])

        start = _noise_of_known_bin(run, epsilon, delta, tolerance)
        lower[place], upper[place] = _Search(ends, delta, tolerance).between(start)
    return lower, upper


def _noise_of_known_bin(
    run: tuple[CorrelatedNoise, FixedBins, int, str], epsilon: float, delta: float, tolerance: float
) -> float:
    """Return noise with which a record meets the target even if its bin is known."""
    mechanism, sampling, count, relation = run
    known = equivalent(mechanism, FixedOrder(sampling.batches), count, 1)
    (part,) = known.parts
    step = configure(adjacency=relation, sampling=known.sampling, unknown="noise_multiplier")
    found = solve(
        "noise_multiplier", step, steps=1, epsilon=epsilon, delta=delta, bounds=False, tolerance=tolerance
    )
    return float(found) * part.scale * (1.0 + 1e-14)


class _Search:
    """Search for the smallest noise multiplier at which delta is at most a target."""

    def __init__(self, ends: Ends, target: float, tolerance: float) -> None:
        self._ends = ends
        self._target = math.log(target)
        self._tolerance = tolerance
        self._trials = 0
        self._least_good = math.inf
        """Smallest noise that certainly meets the target."""
        self._most_bad = 0.0
        """Largest noise that certainly misses it."""

    def between(self, start: float) -> tuple[float, float]:
        """Both ends of the answer; `start` certainly meets the target."""
        self._least_good = start
        # Up to the first noise at which the target is missed, or not known to be met.
        high, at_high, low, at_low = start, -1.0, start, -1.0
        factor = _FIRST_STEP
        while at_low <= 0.0:
            high, at_high, low = low, at_low, low / factor
            factor *= factor
            try:
                at_low = self._excess(low)
            except UnsupportedError:  # too little noise for the operators: what is known is returned
                return self._most_bad, self._least_good
        # At the start delta is not computed, so its value is not used for interpolation.
        if high == start:
            at_high = self._excess(high)
        self._narrow(low, at_low, high, min(at_high, -1e-300))
        self._certify_miss()
        return self._most_bad, self._least_good

    def _excess(self, noise: float) -> float:
        """Log of the upper end of delta over the target; what is certain is kept."""
        self._trials += 1
        lower, upper = self._ends(noise)
        if math.log(max(upper, 5e-324)) <= self._target:
            self._least_good = min(self._least_good, noise)
        elif math.log(max(lower, 5e-324)) > self._target:
            self._most_bad = max(self._most_bad, noise)
        return max(-1e3, math.log(max(upper, 5e-324)) - self._target)

    def _narrow(self, low: float, at_low: float, high: float, at_high: float) -> None:
        """Bring both ends together, by interpolation in the logarithm of the noise.

        A point lies a third of the tolerance beyond the root of the chord, on alternate sides, so that both
        ends move; every third point halves the interval.
        """
        turn = 0
        while high > low * (1.0 + 0.5 * self._tolerance) and self._trials < _MOST_TRIALS:
            width = math.log(high / low)
            share = at_low / (at_low - at_high) + (0.3 if turn % 3 == 0 else -0.3) * self._tolerance / width
            if turn % 3 == 2 or not 0.0 < share < 1.0:
                share = 0.5
            middle = low * math.exp(share * width)
            if not low < middle < high:
                return
            at_middle = self._excess(middle)
            if at_middle <= 0.0:
                high, at_high = middle, at_middle
            else:
                low, at_low = middle, at_middle
            turn += 1

    def _certify_miss(self) -> None:
        """Go down from the smallest noise that is known to meet the target to one that misses it."""
        step = self._tolerance
        noise = self._least_good
        while self._most_bad < noise and self._trials < 2 * _MOST_TRIALS:
            noise = self._least_good / (1.0 + step)
            if noise <= self._most_bad:
                return
            try:
                self._excess(noise)
            except UnsupportedError:
                return
            step *= 4.0
