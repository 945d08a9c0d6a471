"""Targets for a run: epsilon and delta, or what an attack may achieve, and the search for the latter.

Advantage and Bayes success are one point of the curve delta(epsilon) each, so that the compiled solver
answers them. Error rates and mu ask about the whole curve: they are met or missed by a run, and a search over
runs finds the last that meets them. The search also takes points, for runs that the solver has no unknown of.
Every answer of the search was checked by a certified end of the curve or the trade-off function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import LARGEST_COUNT, broadcast, float_array, require
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.making import privacy_curve
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick.errors import UnreachableError, UnsupportedError

LARGEST_NOISE = 2.0**20
"""Largest noise multiplier that the search tries, about that of the compiled solver."""

SMALLEST_NOISE = 2.0**-20
"""Smallest noise multiplier that the search tries; with less, a batch of one record is as good as shown."""

SMALLEST_RATE = 2.0**-60
"""Smallest positive sample rate that the search tries."""

LARGEST_GROUP = 10_000
"""Largest group that the search tries, that of the core."""
LARGEST_STEPS = 10**9
"""Largest number of steps that the search tries, at which that of the core ends as well."""

_ROUNDING = 4e-16
"""Error of the few operations from a success rate to a delta, relative to the numbers that are subtracted."""

_WAYS = "epsilon and delta; advantage; tpr and fpr; bayes_success and prior; or mu"


class Target(NamedTuple):
    """What a run has to meet: a point of its curve, or a condition that a search has to look at."""

    epsilon: ArrayLike
    delta: ArrayLike
    tpr: ArrayLike | None = None
    fpr: ArrayLike | None = None
    mu: ArrayLike | None = None
    both_orders: bool = False
    """Whether the target is about tests between the two data sets in either order."""

    @property
    def is_point(self) -> bool:
        """Whether epsilon and delta say it all."""
        return self.tpr is None and self.mu is None

    def adjacency(self, stated: str) -> str:
        """Neighbouring relation to ask about: tests in either order ask about adding and removing."""
        return "add_remove" if self.both_orders and stated in ("add", "remove") else stated

    def point(self, scheme: str) -> tuple[ArrayLike, ArrayLike]:
        """Return epsilon and delta, where a scheme answers for one point in one order only."""
        if self.both_orders or not self.is_point:
            raise UnsupportedError(
                f"{scheme} takes epsilon and delta, or advantage, as the target: tpr and fpr, bayes_success "
                "and mu ask about tests in both orders of the data sets, which are not derived for it"
            )
        return self.epsilon, self.delta


def check_target(
    *,
    epsilon: ArrayLike | None,
    delta: ArrayLike | None,
    advantage: ArrayLike | None,
    tpr: ArrayLike | None,
    fpr: ArrayLike | None,
    bayes_success: ArrayLike | None,
    prior: ArrayLike | None,
    mu: ArrayLike | None,
) -> Target:
    """Return the one target that is given.

    Raises
    ------
    TypeError
        If none, several or half a target is given.
    ValueError
        If a number is out of range.
    UnreachableError
        If no run meets it, as an attack without the data does better.
    """
    groups = {
        "epsilon and delta": (epsilon, delta),
        "advantage": (advantage,),
        "tpr and fpr": (tpr, fpr),
        "bayes_success": (bayes_success,),
        "mu": (mu,),
    }
    given = [name for name, values in groups.items() if any(value is not None for value in values)]
    if len(given) != 1:
        raise TypeError(f"give exactly one target: {_WAYS}; got {' and '.join(given) or 'none'}")
    if prior is not None and bayes_success is None:
        raise TypeError("prior belongs to bayes_success, which is missing")
    if epsilon is not None or delta is not None:
        if epsilon is None or delta is None:
            missing = "epsilon" if epsilon is None else "delta"
            raise TypeError(f"{missing} is missing: give {_WAYS}")
        return Target(epsilon, delta)
    if advantage is not None:
        _inside(float_array(advantage, "advantage"), "advantage", 0.0, 1.0)
        return Target(0.0, advantage)
    if bayes_success is not None:
        return _of_success(bayes_success, 0.5 if prior is None else prior)
    if mu is not None:
        _inside(float_array(mu, "mu"), "mu", 0.0, math.inf)
        return Target(0.0, 0.5, mu=mu, both_orders=True)
    if tpr is None or fpr is None:
        raise TypeError(f"{'tpr' if tpr is None else 'fpr'} is missing: give {_WAYS}")
    rates = np.broadcast_arrays(float_array(tpr, "tpr"), float_array(fpr, "fpr"))
    _inside(rates[1], "fpr", 0.0, 1.0)
    _inside(rates[0], "tpr", 0.0, 1.0)
    lower = rates[0] <= rates[1]
    if np.any(lower):
        hit, false = rates[0][lower].ravel()[0], rates[1][lower].ravel()[0]
        raise UnreachableError(
            f"tpr must be above fpr: an attack that guesses has tpr = fpr whatever the run, "
            f"got tpr {hit:g} and fpr {false:g}"
        )
    return Target(0.0, 0.5, tpr=tpr, fpr=fpr, both_orders=True)


def _of_success(success: ArrayLike, prior: ArrayLike) -> Target:
    """Target delta at the epsilon of a prior.

    An attack that decides for a data set of prior probability π on the event S is right with probability
    π P(S) + (1 - π) (1 - Q(S)) = (1 - π) + π (P(S) - e^ε Q(S)), ε = ln((1 - π) / π); its largest value is
    (1 - π) + π δ(ε) where π <= 1/2. Where π is larger, P and Q change places.
    """
    rates, priors = np.broadcast_arrays(float_array(success, "bayes_success"), float_array(prior, "prior"))
    _inside(priors, "prior", 0.0, 1.0)
    _inside(rates, "bayes_success", 0.0, 1.0)
    smaller, larger = np.minimum(priors, 1.0 - priors), np.maximum(priors, 1.0 - priors)
    epsilon = np.log(larger / smaller)
    delta = (rates - larger - _ROUNDING * (1.0 + smaller * (1.0 + epsilon))) / smaller
    low = delta <= 0.0
    if np.any(low):
        wanted, guess = rates[low].ravel()[0], larger[low].ravel()[0]
        raise UnreachableError(
            f"bayes_success must be above {guess:g}, which an attack reaches by the prior alone, "
            f"got {wanted:g}"
        )
    if rates.shape == ():
        return Target(float(epsilon), float(delta), both_orders=True)
    return Target(epsilon, delta, both_orders=True)


def _inside(values: NDArray[np.float64], name: str, low: float, high: float) -> None:
    wrong = ~((values > low) & (values < high))
    if np.any(wrong):
        require(False, name, float(values[wrong].ravel()[0]), f"in ({low:g}, {high:g})")


def search(unknown: str, target: Target, arguments: dict[str, Any], *, bounds: bool, tolerance: float) -> Any:
    """Find the last run that meets a target, for every element of arguments that broadcast.

    Parameters
    ----------
    unknown : {"noise_multiplier", "sample_rate", "steps", "group_size"}
        What is looked for. With `BatchClipping` it is the noise multiplier of that.
    target : Target
        Error rates, mu, or a point of the curve.
    arguments : dict
        The others, as `privacy_curve` takes them; numbers may be arrays.
    bounds : bool
        Whether to return what is known to miss the target too.
    tolerance : float
        Relative width of the interval of noise multipliers and rates.

    Returns
    -------
    float, int, ndarray or tuple
        As the functions of `hockeystick` return it.
    """
    width = check_tolerance(tolerance)
    if not isinstance(bounds, bool | np.bool_):
        raise TypeError(f"bounds must be True or False, got {type(bounds).__name__}")
    if bounds and target.mu is not None:
        raise TypeError("bounds must be left out with mu, for which only the safe end is known")
    if bounds and isinstance(arguments.get("sampling"), Shuffle):
        raise TypeError(
            "bounds must be left out with error rates of shuffled batches: only the safe end is known"
        )
    if isinstance(arguments.get("sampling"), RandomAllocation | FixedBins) and unknown == "steps":
        raise UnsupportedError(
            "the number of whole epochs is found for epsilon and delta, not for other targets"
        )
    numbers = {name: arguments[name] for name in _NUMBERS if arguments.get(name) is not None}
    wanted = ("epsilon", "delta") if target.is_point else ("tpr", "fpr", "mu")
    numbers |= {name: value for name in wanted if (value := getattr(target, name)) is not None}
    arrays = {name: np.asarray(value) for name, value in numbers.items()}
    fixed = {name: value for name, value in arguments.items() if name not in _NUMBERS and value is not None}
    fixed["adjacency"] = target.adjacency(fixed["adjacency"])
    shape = broadcast(**arrays)
    columns = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
    found = [
        _one(unknown, {name: column[row].item() for name, column in columns.items()}, fixed, width, bounds)
        for row in range(math.prod(shape))
    ]
    safe = [pair[0] for pair in found]
    missing = [pair[1] for pair in found]
    kind = np.int64 if unknown in ("steps", "group_size") else np.float64
    ends = (safe, missing) if unknown != "noise_multiplier" else (missing, safe)
    kinds = (kind, np.float64)
    if not bounds:
        return safe[0] if shape == () else np.array(safe, dtype=kind).reshape(shape)
    if shape == ():
        return ends[0][0], float(ends[1][0])
    low, high = (np.array(end, dtype=of).reshape(shape) for end, of in zip(ends, kinds, strict=True))
    return low, high


_NUMBERS = ("noise_multiplier", "sample_rate", "steps", "group_size")


def _room_at(room: Callable[[Any, float], float], tolerance: float, value: Any) -> float:
    """Room that a value leaves at a tolerance."""
    return room(value, tolerance)


def _one(
    unknown: str, numbers: dict[str, Any], fixed: dict[str, Any], width: float, bounds: bool
) -> tuple[Any, float]:
    """Last value that meets the target, and the first that is known to miss it (if wanted)."""
    tpr, fpr, mu, epsilon, delta = (
        numbers.pop(name, None) for name in ("tpr", "fpr", "mu", "epsilon", "delta")
    )

    def run(value: Any, tolerance: float) -> PrivacyCurve | ShuffledCurve:
        """Return the curve of the run with this value of what is asked for."""
        known = {**numbers, **fixed}
        if unknown == "noise_multiplier" and isinstance(known.get("mechanism"), BatchClipping):
            known["mechanism"] = replace(known["mechanism"], noise_multiplier=value)
        else:
            known[unknown] = value
        found: PrivacyCurve | ShuffledCurve = privacy_curve(**known, tolerance=tolerance)
        return found

    def whole(value: Any) -> _core.TradeoffCurve:
        """Return the trade-off function of that run."""
        curve = run(value, width)
        if isinstance(curve, ShuffledCurve):
            return curve.compiled()  # the guarantee, whose mu and error rates are the safe ends
        return _core.TradeoffCurve.of_steps(curve.core_segments(), _order(curve.adjacency))

    def room(value: Any, tolerance: float) -> float:
        """How far a run is on the safe side of the target, certified; negative where that is not known."""
        if mu is not None:
            return float(mu - whole(value).mu(0.0))
        if epsilon is not None:
            if epsilon > 0.0:
                return float(epsilon - run(value, tolerance).epsilon(delta))
            return float(delta - run(value, tolerance).delta(0.0))
        return float(run(value, tolerance).beta(fpr) - (1.0 - tpr))

    def misses(value: Any) -> bool:
        """Whether a run certainly misses the target."""
        if epsilon is not None:
            return bool(run(value, width).bounds(delta=delta)[0] > epsilon)
        return bool(whole(value).beta(np.array([fpr]))[1][0] < 1.0 - tpr)

    certain = misses if bounds else None
    if unknown in ("steps", "group_size"):
        return _last_count(unknown, room, certain, width, _most(unknown, fixed))
    return _last_number(unknown, room, certain, width)


def _order(adjacency: str) -> str:
    return "replace" if adjacency == "replace" else "add_remove"


def _most(unknown: str, fixed: dict[str, Any]) -> int:
    if unknown == "steps":
        return min(LARGEST_STEPS, LARGEST_COUNT)
    sampling = fixed.get("sampling")
    return (
        min(LARGEST_GROUP, sampling.dataset_size)
        if isinstance(sampling, WithoutReplacement | Shuffle)
        else LARGEST_GROUP
    )


Test = Callable[[Any], bool]
Room = Callable[[Any, float], float]

ROUGH = 1e-2
"""Relative tolerance of curves while the end of a search is far away. Whatever they say meets the target does
so; at 1e-6 an answer takes up to fifteen times as long. The rest of the way is walked with the tolerance
asked for."""


def _last_count(unknown: str, room: Room, misses: Test | None, width: float, most: int) -> tuple[int, float]:
    """Largest count that meets the target: ever longer steps, then halving the interval."""
    rough, good, bad = max(width, ROUGH), 0, 1
    for tolerance in (rough, width):
        stride = max(1, bad - good)
        bad = min(good + stride, most)
        while room(bad, tolerance) >= 0.0:
            good = bad
            if good == most:
                return most, math.inf
            stride *= 2
            bad = min(good + stride, most)
        near = 1 if tolerance == width else max(1, int(good * ROUGH))
        while bad - good > near:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if room(middle, tolerance) >= 0.0 else (good, middle)
        if rough == width:
            break
    if good == 0 and unknown == "group_size":
        raise UnreachableError("no group size meets the target: one record misses it")
    return good, math.nan if misses is None else _first_miss(bad, misses, most)


def _first_miss(start: int, misses: Test, most: int) -> float:
    """Return a count from `start` on that is known to miss, near the first of them; inf if there is none."""
    distance = 0
    while start + distance <= most:
        if misses(start + distance):
            return float(start + distance)
        distance = max(1, 2 * distance)
    return math.inf


def _last_number(unknown: str, room: Room, misses: Test | None, width: float) -> tuple[float, float]:
    """Least noise or largest rate that meets the target: ever longer steps, then interpolation."""
    is_noise = unknown == "noise_multiplier"
    rough = max(width, ROUGH)
    end = SMALLEST_NOISE if is_noise else 1.0
    if is_noise:
        good = 1.0
        while room(good, rough) < 0.0:
            good *= 2.0
            if good > LARGEST_NOISE:
                raise UnreachableError(f"no noise_multiplier up to {LARGEST_NOISE:g} meets the target")
    else:
        good = 1.0
        while room(good, rough) < 0.0:
            good /= 2.0
            if good < SMALLEST_RATE:
                return 0.0, math.nan if misses is None else _beyond(SMALLEST_RATE, misses, 2.0, 1.0)
    stride = 2.0
    for tolerance in (rough, width):
        while True:
            if good == end:
                return good, 0.0 if is_noise else math.inf
            bad = max(good / stride, end) if is_noise else min(good * stride, end)
            at_bad = room(bad, tolerance)
            if at_bad < 0.0:
                break
            good, stride = bad, min(stride * stride, LARGEST_NOISE)
        good, bad = _between(good, bad, at_bad, functools.partial(_room_at, room, tolerance), tolerance)
        stride = 1.0 + 2.0 * rough
    if misses is None:
        return good, math.nan
    return good, _beyond(
        bad, misses, 1.0 / (1.0 + width) if is_noise else 1.0 + width, 0.0 if is_noise else 1.0
    )


def _between(
    good: float, bad: float, at_bad: float, room: Callable[[float], float], width: float
) -> tuple[float, float]:
    """Shrink an interval of which one end meets the target to a relative width.

    Linear interpolation of the room in the logarithm, moved half a width beyond its root, so that the next
    point tends to fall on the other side; every third point halves the interval.
    """
    left, right = math.log(good), math.log(bad)
    at_good = room(good)
    turn = 0
    while abs(right - left) > width:
        share = at_good / (at_good - at_bad) if at_good > 0.0 else 0.0
        share += 0.4 * width / abs(right - left) * (-1.0 if turn % 3 == 1 else 1.0)
        if turn % 3 == 2 or not 0.0 < share < 1.0:
            share = 0.5
        middle = left + share * (right - left)
        there = room(math.exp(middle))
        if there >= 0.0:
            left, at_good = middle, there
        else:
            right, at_bad = middle, there
        turn += 1
    return math.exp(left) if left != math.log(good) else good, math.exp(right)


def _beyond(start: float, misses: Test, factor: float, end: float) -> float:
    """Return a number from `start` on, away from those that meet the target, that is known to miss it."""
    value = start
    while (value < end) if factor > 1.0 else (value > SMALLEST_NOISE):
        if misses(value):
            return value
        value, factor = value * factor, factor * factor
    return end if factor < 1.0 else (1.0 if misses(1.0) else math.inf)
