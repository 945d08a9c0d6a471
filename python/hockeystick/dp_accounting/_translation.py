"""From the events of dp-accounting to steps with a proven dominating pair.

Events may be adaptive and of any dimension. Two facts carry the pairs over; both rest on trade-off functions
(the least false negative rate of a test by its false positive rate).

Gaussian noise several times on one sample: where j members of the group are in the sample, an adaptive
composition of Gaussian mechanisms is no easier to test than one with noise multiplier
(Σ 1/σ_i²)^(-1/2) and distance j (Dong, Roth, Su 2022, "Gaussian Differential Privacy", Corollary 2). All of
these bounds are attained by the same tests in one dimension, so the mixture over j is dominated by the
mixture in one dimension. The pairs of fixed batches and of a replaced record follow in the same way.

Laplace noise on all coordinates, l1 sensitivity 1: moving one coordinate after the other is a chain, and a
chain of trade-off functions in one dimension is the function of the whole move, as thresholds are the best
tests everywhere on it. So no move of l1 length j is easier to test than a move by j in one dimension.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hockeystick import (
    FullBatch,
    Laplace,
    NegativeBinomialRuns,
    Poisson,
    PoissonRuns,
    PrivacyCurve,
    RandomAllocation,
    RandomizedResponse,
    WithoutReplacement,
)
from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    LARGEST_GROUP,
    count_array,
    count_scalar,
    float_scalar,
    float_vector,
    require,
)
from hockeystick._extras import needed
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick._vocabulary.sampling import Mixture, Sampling, check_sample_rate
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick._vocabulary.support import Pair
from hockeystick.dp_accounting import _known_curves
from hockeystick.dp_accounting._events import AccumulatedPoissonDpEvent, RandomAllocationDpEvent
from hockeystick.dp_accounting._known_curves import KnownCurve
from hockeystick.dp_accounting._nested import rate_of_both
from hockeystick.errors import UnsupportedError

Kind = TypeVar("Kind")
"""The parts of a translated event: steps, or mechanisms that are known by their curve."""

SUM_TOLERANCE = 1e-9
"""How far the probabilities of a mixture may sum from 1."""

MAX_NOISE = 1e30
"""More noise than this is taken as this much."""

_ROUNDING = 1.0 - 1e-15
"""Makes up for the rounding of a few operations."""


class Setting(NamedTuple):
    """Who is protected, in the words of this library."""

    adjacency: str
    """"add_remove" or "replace"."""
    special: bool
    """Whether a record is replaced by one of value zero: what adding and removing is to sums."""
    group_size: int


class Translation(NamedTuple):
    """The meaning of an event."""

    steps: dict[StepKind, int]
    non_private: bool
    """Whether a part of it reveals everything."""
    curves: dict[KnownCurve, int] = MappingProxyType({})  # type: ignore[assignment]  # a default that nobody changes
    """Mechanisms that are known by their trade-off function, and how often each is run."""


class NoPairError(Exception):
    """An event without a proven pair; its arguments are the event and the reason."""


def translate(event: Any, setting: Setting) -> Translation:
    """Return the steps that an event stands for.

    Raises
    ------
    NoPairError
        If there is no proven dominating pair for the event.
    ValueError
        If a parameter of the event is out of range.
    TypeError
        If a parameter has the wrong type.
    """
    name = type(event).__name__
    known = _OWN.get(name) or getattr(needed("dp_accounting", "dp-accounting").dp_event, name, None)
    # A subclass may mean something else by the same fields.
    if known is not type(event):
        raise NoPairError(event, f"{type(event).__name__} is not an event of this dp-accounting.")
    if known.__name__ not in _TRANSLATIONS:
        reason = _REFUSALS.get(known.__name__, "it has no proven dominating pair here")
        raise NoPairError(event, f"{known.__name__} is not supported: {reason}.")
    try:
        return _TRANSLATIONS[known.__name__](event, setting)
    except UnsupportedError as refusal:
        raise NoPairError(event, str(refusal)) from None


_NOTHING = Translation({}, False)
_EVERYTHING = Translation({}, True)


def _one(kind: StepKind) -> Translation:
    return Translation({kind: 1}, False)


def _no_op(event: Any, setting: Setting) -> Translation:
    return _NOTHING


def _one_curve(known: KnownCurve) -> Translation:
    return Translation({}, False, {known: 1})


def _of_one_record(event: Any, setting: Setting) -> None:
    """Refuse an event that says what one record is guaranteed, and nothing about groups."""
    if setting.group_size > 1:
        raise NoPairError(
            event, f"group_size must be 1 for {type(event).__name__}, which is about one record."
        )


def _epsilon_delta(event: Any, setting: Setting) -> Translation:
    epsilon, delta = float_scalar(event.epsilon, "epsilon"), float_scalar(event.delta, "delta")
    if epsilon == 0.0 and delta == 0.0:
        return _NOTHING
    _of_one_record(event, setting)
    return _one_curve(_known_curves.epsilon_delta(epsilon, delta))


def _exponential(event: Any, setting: Setting) -> Translation:
    _of_one_record(event, setting)
    return _one_curve(_known_curves.exponential_mechanism(float_scalar(event.epsilon, "epsilon")))


def _permute_and_flip(event: Any, setting: Setting) -> Translation:
    _of_one_record(event, setting)
    return _one_curve(_known_curves.permute_and_flip(float_scalar(event.epsilon, "epsilon")))


def _discrete_laplace(event: Any, setting: Setting) -> Translation:
    """Return discrete Laplace noise; a record that is replaced moves the sum by up to twice its norm."""
    parameter = float_scalar(event.noise_parameter, "noise_parameter")
    norm = count_scalar(event.sensitivity, "sensitivity", 0)
    distance = norm * setting.group_size * (2 if setting.adjacency == "replace" else 1)
    if distance == 0:
        return _NOTHING
    if math.isinf(parameter):
        return _EVERYTHING
    return _one_curve(_known_curves.discrete_laplace(parameter, distance))


def _discrete_gaussian(event: Any, setting: Setting) -> Translation:
    """Return discrete Gaussian noise, whose sensitivity is that of the query under the relation."""
    sigma, sensitivity = float_scalar(event.sigma, "sigma"), float_scalar(event.sensitivity, "sensitivity")
    require(0.0 <= sensitivity < math.inf, "sensitivity", sensitivity, "in [0, inf)")
    if event.dimension != 1:
        raise NoPairError(
            event, "dimension must be 1 for DiscreteGaussianDpEvent: in several dimensions no curve is known."
        )
    distance = math.floor(sensitivity) * setting.group_size  # of whole numbers
    if distance == 0:
        return _NOTHING
    return _EVERYTHING if sigma == 0.0 else _one_curve(_known_curves.discrete_gaussian(sigma, distance))


def _repeat_and_select(event: Any, setting: Setting) -> Translation:
    """Return the best of a random number of runs, each of which is the event inside."""
    inner = translate(event.event, setting)
    if inner.non_private:
        return _EVERYTHING
    if inner.curves:
        raise NoPairError(
            event,
            "The event of RepeatAndSelectDpEvent must be of noisy sums, whose Rényi divergences are known.",
        )
    mean, shape = float_scalar(event.mean, "mean"), float_scalar(event.shape, "shape")
    runs = PoissonRuns(mean) if math.isinf(shape) and shape > 0.0 else NegativeBinomialRuns(mean, shape=shape)
    if not inner.steps:
        return _NOTHING
    return _one_curve(_best_of(frozenset(inner.steps.items()), setting.adjacency, runs))


@lru_cache(maxsize=16)
def _best_of(
    steps: frozenset[tuple[StepKind, int]], adjacency: str, runs: PoissonRuns | NegativeBinomialRuns
) -> KnownCurve:
    """Return the curve of the best of several runs, which takes a second and is asked for twice."""
    return _known_curves.best_of(PrivacyCurve(dict(steps), adjacency, DEFAULT_TOLERANCE).best_of(runs))


def _non_private(event: Any, setting: Setting) -> Translation:
    return _EVERYTHING


def _self_composed(event: Any, setting: Setting) -> Translation:
    count = count_scalar(event.count, "count", 0)
    steps, non_private, curves = translate(event.event, setting)
    if count == 0:
        return _NOTHING
    return Translation(_times(steps, count), non_private, _times(curves, count))


def _times(numbers: Mapping[Kind, int], count: int) -> dict[Kind, int]:
    """Return how often each kind occurs in `count` repetitions."""
    return {kind: number * count for kind, number in numbers.items()}


def _composed(event: Any, setting: Setting) -> Translation:
    steps: Counter[StepKind] = Counter()
    curves: Counter[KnownCurve] = Counter()
    non_private = False
    for part in event.events:
        found = translate(part, setting)
        steps.update(found.steps)
        curves.update(found.curves)
        non_private |= found.non_private
    return Translation(dict(steps), non_private, dict(curves))


def _full_batch(event: Any, setting: Setting) -> Translation:
    return _release(event, event, FullBatch(), setting)


def _poisson_sampled(event: Any, setting: Setting) -> Translation:
    rate, released = check_sample_rate(event.sampling_probability, "sampling_probability"), event.event
    while type(released) is type(event):
        rate = rate_of_both(rate, check_sample_rate(released.sampling_probability, "sampling_probability"))
        released = released.event
    if rate == 0.0:
        return _of_empty_batches(event, released)
    return _release(event, released, Poisson(rate), setting)


def _tree(event: Any, setting: Setting) -> Translation:
    """Return all nodes of trees together: one Gaussian whose sensitivity is the root of the depth.

    Every record is in one leaf of one tree, and so in at most floor(log2(steps)) + 1 of its complete nodes
    (docs/theory/known-curves.md, statement 5).
    """
    noise = check_noise_multiplier(event.noise_multiplier)
    if setting.adjacency != "replace" and not setting.special:
        raise NoPairError(
            event,
            "neighboring_relation must be REPLACE_SPECIAL or REPLACE_ONE for "
            "SingleEpochTreeAggregationDpEvent: a record that is added or removed may move later ones to "
            "other leaves.",
        )
    counts = np.atleast_1d(count_array(event.step_counts, "step_counts", 0))
    require(counts.size > 0, "step_counts", "none", "at least one number of steps")
    depth = int(counts.max()).bit_length()
    if depth == 0:
        return _NOTHING
    if noise == 0.0:
        return _EVERYTHING
    together = noise / math.sqrt(depth) * (1.0 if depth == 1 else _ROUNDING)
    group: dict[str, Any] = {"adjacency": setting.adjacency, "group_size": setting.group_size}
    return _one(step_kind(noise_multiplier=together, sampling=FullBatch(), **group)[0])


def _of_empty_batches(event: Any, released: Any) -> Translation:
    """Return nothing: sums over batches that are always empty hold no data, whatever their noise.

    The sums must still be those that a sample may have, so that an event is refused or not whatever its rate.
    """
    for part, _ in _flat(released, event):
        if type(part).__name__ != "NonPrivateDpEvent":
            check_noise_multiplier(part.noise_multiplier)
    return _NOTHING


def _without_replacement(event: Any, setting: Setting) -> Translation:
    dataset_size = count_scalar(event.source_dataset_size, "dataset_size", 1)
    if count_scalar(event.sample_size, "batch_size", 0, dataset_size) == 0:
        return _of_empty_batches(event, event.event)
    if setting.special:
        raise NoPairError(
            event,
            "neighboring_relation must be ADD_OR_REMOVE_ONE or REPLACE_ONE, which covers replacement by a "
            "record of value zero, for SampledWithoutReplacementDpEvent. Found REPLACE_SPECIAL.",
        )
    sampling = WithoutReplacement(event.sample_size, event.source_dataset_size)
    largest = sampling.dataset_size
    require(setting.group_size <= largest, "group_size", setting.group_size, f"at most {largest} records")
    return _release(event, event.event, sampling, setting)


def _truncated(event: Any, setting: Setting) -> Translation:
    """Return the step on a Poisson sample that is cut to a largest size.

    `dataset_size` counts the protected records: it is that of the larger data set.
    """
    rate = check_sample_rate(event.sampling_probability, "sampling_probability")
    noise = check_noise_multiplier(event.noise_multiplier)
    size = count_scalar(event.dataset_size, "dataset_size", 0)
    largest = count_scalar(event.truncated_batch_size, "truncated_batch_size", 0)
    if rate == 0.0 or size == 0 or largest == 0:
        return _NOTHING
    if setting.special:
        raise NoPairError(
            event,
            "neighboring_relation must be ADD_OR_REMOVE_ONE or REPLACE_ONE, which covers replacement by a "
            "record of value zero, for TruncatedSubsampledGaussianDpEvent. Found REPLACE_SPECIAL.",
        )
    if noise == 0.0:
        return _EVERYTHING
    require(setting.group_size <= size, "group_size", setting.group_size, f"at most {size} records")
    sampling = Poisson(rate, max_batch_size=largest, dataset_size=size)
    group: dict[str, Any] = {"adjacency": setting.adjacency, "group_size": setting.group_size}
    return _one(step_kind(noise_multiplier=noise, sampling=sampling, **group)[0])


def _accumulated(event: Any, setting: Setting) -> Translation:
    rate = check_sample_rate(event.sampling_probability, "sampling_probability")
    sampling = Poisson(rate, microbatches=event.microbatches)
    return (
        _of_empty_batches(event, event.event)
        if rate == 0.0
        else _release(event, event.event, sampling, setting)
    )


def _random_allocation(event: Any, setting: Setting) -> Translation:
    """Return the steps of one epoch; others draw their batches on their own, so that a zero is nothing."""
    sampling = RandomAllocation(event.batches, times=event.times)
    found = _release(event, event.event, sampling, setting)
    return found._replace(steps=dict.fromkeys(found.steps, sampling.batches))


def _release(event: Any, released: Any, sampling: Sampling, setting: Setting) -> Translation:
    """Return the step of sums with noise, all of one batch that is drawn by `sampling`."""
    group: dict[str, Any] = {"adjacency": setting.adjacency, "group_size": setting.group_size}
    sums = _flat(released, event)
    names = {type(part).__name__ for part, _ in sums}
    if not sums:
        return _NOTHING
    if "NonPrivateDpEvent" in names:
        return _EVERYTHING
    if names == {"GaussianDpEvent"}:
        noise = _combined([(check_noise_multiplier(part.noise_multiplier), n) for part, n in sums])
        return _one(step_kind(noise_multiplier=noise, sampling=sampling, **group)[0])
    if names != {"LaplaceDpEvent"} or sum(count for _, count in sums) > 1:
        raise NoPairError(
            event, "The event of a sample must be a composition of GaussianDpEvents, or one LaplaceDpEvent."
        )
    ((part, _),) = sums
    scale = check_noise_multiplier(part.noise_multiplier)
    kind, _ = step_kind(mechanism=Laplace(scale or 1.0), sampling=sampling, **group)
    return _one(kind) if scale > 0.0 else _EVERYTHING


def _flat(event: Any, sampled: Any) -> list[tuple[Any, int]]:
    """Noisy sums in `event`, each with how often it is released; what reveals everything, too."""
    events = needed("dp_accounting", "dp-accounting").dp_event
    if type(event) is events.NoOpDpEvent:
        return []
    if type(event) is events.SelfComposedDpEvent:
        count = count_scalar(event.count, "count", 0)
        parts = _flat(event.event, sampled)
        return [(part, number * count) for part, number in parts] if count else []
    if type(event) is events.ComposedDpEvent:
        return [part for inner in event.events for part in _flat(inner, sampled)]
    if type(event) in (events.GaussianDpEvent, events.LaplaceDpEvent, events.NonPrivateDpEvent):
        return [(event, 1)]
    raise NoPairError(sampled, f"The event of a sample must be noisy sums. Found {event}.")


def _combined(noises: list[tuple[float, int]]) -> float:
    """Noise multiplier of all sums of one batch together: (Σ n/σ²)^(-1/2), rounded down."""
    least = min(noise for noise, _ in noises)
    if least == 0.0 or noises == [(least, 1)]:
        return least
    total = math.fsum(count * (least / noise) ** 2 for noise, count in noises)
    return least / math.sqrt(total) * _ROUNDING


def _mixture(event: Any, setting: Setting) -> Translation:
    noise = float_scalar(event.standard_deviation, "standard_deviation")
    require(math.isfinite(noise) and noise >= 0.0, "standard_deviation", noise, "in [0, inf)")
    shifts = float_vector(list(event.sensitivities), "sensitivities").tolist()
    weights = float_vector(list(event.sampling_probs), "sampling_probs").tolist()
    require(len(weights) == len(shifts), "sampling_probs", f"{len(weights)} values", f"{len(shifts)} values")
    most = f"1 to {LARGEST_GROUP} values"
    require(1 <= len(shifts) <= LARGEST_GROUP, "sensitivities", f"{len(shifts)} values", most)
    for shift in shifts:
        require(math.isfinite(shift) and shift >= 0.0, "sensitivities", shift, "in [0, inf)")
    for weight in weights:
        require(0.0 <= weight <= 1.0, "sampling_probs", weight, "in [0, 1]")
    total = math.fsum(weights)
    require(abs(total - 1.0) <= SUM_TOLERANCE, "sampling_probs", f"a sum of {total}", "of sum 1")
    if setting.adjacency == "replace" or setting.group_size > 1:
        raise NoPairError(
            event,
            "neighboring_relation must be ADD_OR_REMOVE_ONE or REPLACE_SPECIAL and group_size must be 1 for "
            "MixtureOfGaussiansDpEvent, which gives the pair itself.",
        )
    atoms = sorted((shift, weight) for shift, weight in zip(shifts, weights, strict=True) if weight > 0.0)
    widest = atoms[-1][0]
    if widest == 0.0:
        return _NOTHING
    # In units of the largest shift; a shift that was rounded up and noise that was rounded down leak no less.
    scaled = [shift if shift in (0.0, widest) else shift / _ROUNDING for shift, _ in atoms]
    kind = StepKind(
        noise=noise if widest == 1.0 else min(noise / widest * _ROUNDING, MAX_NOISE),
        draw=Mixture(
            weights=tuple(weight for _, weight in atoms),
            shifts=tuple(min(shift / widest, 1.0) for shift in scaled),
        ),
        group=1,
        pair=Pair(True, "mixture of Gaussians, as given"),
    )
    return _one(kind)


def _randomized_response(event: Any, setting: Setting) -> Translation:
    noise = float_scalar(event.noise_parameter, "noise_parameter")
    require(0.0 <= noise <= 1.0, "noise_parameter", noise, "in [0, 1]")
    buckets = count_scalar(event.num_buckets, "num_buckets", 1)
    if setting.adjacency != "replace" or setting.group_size > 1:
        raise NoPairError(
            event,
            "neighboring_relation must be REPLACE_ONE and group_size 1 for RandomizedResponseDpEvent.",
        )
    if buckets == 1 or noise == 1.0:
        return _NOTHING
    if buckets > 2:
        known = noise > 0.0
        return _one_curve(_known_curves.randomized_response(noise, buckets)) if known else _EVERYTHING
    # The true answer with probability 1 - noise + noise/2, rounded up.
    p = 1.0 - 0.5 * noise
    if 2.0 * (1.0 - p) != noise:
        p = math.nextafter(p, 1.0)
    if p == 1.0:
        return _EVERYTHING
    return _one(step_kind(mechanism=RandomizedResponse(p), sampling=FullBatch(), adjacency="replace")[0])


_REFUSALS = {
    "UnsupportedDpEvent": "it stands for what no accountant knows",
    "SampledWithReplacementDpEvent": (
        "a record may be in a batch several times; use PoissonSampledDpEvent or "
        "SampledWithoutReplacementDpEvent"
    ),
    "ZCDpEvent": "a zCDP guarantee bounds Rényi divergences, which RdpAccountant composes, and has no curve",
}
"""Why events are refused that dp-accounting knows, and what to use in their place."""

_TRANSLATIONS: dict[str, Callable[[Any, Setting], Translation]] = {
    "NoOpDpEvent": _no_op,
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "NonPrivateDpEvent": _non_private,
    "SelfComposedDpEvent": _self_composed,
    "ComposedDpEvent": _composed,
    "GaussianDpEvent": _full_batch,
    "LaplaceDpEvent": _full_batch,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "ExponentialMechanismDpEvent": _exponential,
    "PermuteAndFlipDpEvent": _permute_and_flip,
    "RepeatAndSelectDpEvent": _repeat_and_select,
    "PoissonSampledDpEvent": _poisson_sampled,
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "MixtureOfGaussiansDpEvent": _mixture,
    "RandomizedResponseDpEvent": _randomized_response,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "AccumulatedPoissonDpEvent": _accumulated,
    "RandomAllocationDpEvent": _random_allocation,
}

_OWN: dict[str, type[Any]] = {
    event.__name__: event for event in (AccumulatedPoissonDpEvent, RandomAllocationDpEvent)
}
"""Events of this library."""
