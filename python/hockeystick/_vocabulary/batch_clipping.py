"""Batches that are clipped as a whole, as steps of single records (`docs/theory/batch-clipping.md`)."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, TypeAlias

import numpy as np

from hockeystick._arguments import CountOrCounts, Counts, FloatOrFloats, Floats, require
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.sampling import FullBatch, Mixture, Poisson, Sampling, WithoutReplacement
from hockeystick._vocabulary.support import Pair
from hockeystick.errors import UnsupportedError

FARTHEST = 2.0
"""Clipping norms by which a clipped unit moves at most: from one end of a ball to the other."""

_UP = 1.0 + 8e-15
"""Makes up for the rounding of a probability from logarithms and exponentials."""

_DENOMINATOR = 2**53
"""Denominator of the fraction that a probability is rounded up to: the size of the largest data set, above
which sizes are refused."""

_ATTAINED = Pair(
    True, "batch clipping: any member moves a batch by two clipping norms", stands_for_others=True
)
_BOUND = Pair(
    False, f"{_ATTAINED.source}; the smaller data set may have no other batch", stands_for_others=True
)
_ALL_REPLACED = Pair(True, "batch clipping: every batch moves by two clipping norms", stands_for_others=True)
_REPLACED = Pair(
    False, "batch clipping: PITFALLS, Theorem 14, for batches with a member", stands_for_others=True
)
_UNITS_REPLACED = Pair(
    False,
    "mixed clipping: PITFALLS, Theorem 14, by the number of units with a member",
    stands_for_others=True,
)
_RECORDS_REPLACED = Pair(
    False,
    "units of one record: the smaller of PITFALLS, Theorem 14, for a group, and GROUP, Theorem 5, for a "
    "chain of records",
    stands_for_others=True,
)

Draw: TypeAlias = FloatOrFloats | Sampling


class Equivalent(NamedTuple):
    """A step of one record that is clipped on its own, with the curve of a step that clips batches."""

    noise: float
    draw: Draw | Mixture
    pair: Pair
    records: int = 1
    """How many records: one, but where every unit is a record, which are as records clipped one by one."""


def equivalent(
    mechanism: BatchClipping, draw: Draw, sizes: CountOrCounts, group: Group | None, adjacency: str
) -> Equivalent:
    """Return the step of one record that stands for a step with batch clipping.

    Parameters
    ----------
    mechanism : BatchClipping
        The noise, and how many units a batch of a fixed size has.
    draw : float, ndarray or sampling scheme
        Sample rates of Poisson samples, or how batches are drawn.
    sizes : int or ndarray
        Number of records of the group.
    group : Group or None
        Members with rates of their own.
    adjacency : str
        "replace", or one in which records are added or removed.

    Raises
    ------
    ValueError
        If a rate is not in [0, 1], or a batch cannot be split into equal units.
    UnsupportedError
        For ways to draw batches and groups that no pair is proven for.
    """
    _require_plain(mechanism, group, draw)
    if not isinstance(draw, float | np.ndarray | Poisson | WithoutReplacement | FullBatch) or (
        isinstance(draw, Poisson) and draw.is_truncated
    ):
        raise UnsupportedError(
            f"{mechanism!r} and sampling {draw!r} have no proven pair together: use Poisson(sample_rate), "
            f"WithoutReplacement(batch_size, dataset_size) or FullBatch()"
        )
    units = mechanism.units_per_batch
    if units > 1 and not isinstance(draw, WithoutReplacement):
        raise UnsupportedError(
            f"{mechanism!r} and sampling {draw!r} have no proven pair together: units are parts of batches "
            f"of a fixed size, WithoutReplacement(batch_size, dataset_size); for m parts that are Poisson "
            f"samples of their own use BatchClipping(noise_multiplier) and Poisson(rate, microbatches=m)"
        )
    if adjacency == "replace":
        return _replaced(mechanism, draw, sizes, group)
    half = mechanism.noise_multiplier / FARTHEST
    if isinstance(draw, FullBatch):
        return Equivalent(half, 1.0, _ATTAINED)
    if not isinstance(draw, WithoutReplacement):
        share = probability_of_any(_rates(draw), sizes, group)
        if isinstance(draw, Poisson):
            return Equivalent(half, Poisson(float(share), microbatches=draw.microbatches), _ATTAINED)
        return Equivalent(half, share, _ATTAINED)
    left = draw.dataset_size - draw.batch_size
    pair = _ATTAINED if np.all(np.asarray(sizes) <= left) else _BOUND
    if units == 1:
        return Equivalent(half, probability_of_any(draw, sizes, group), pair)
    return Equivalent(half, units_with_members(draw, int(_one(sizes, "group_size")), units), pair)


def _replaced(mechanism: BatchClipping, draw: Draw, sizes: CountOrCounts, group: Group | None) -> Equivalent:
    noise = mechanism.noise_multiplier
    if isinstance(draw, FullBatch):
        return Equivalent(noise, draw, _ALL_REPLACED)
    size = int(_one(sizes, "group_size"))
    units = mechanism.units_per_batch
    if isinstance(draw, WithoutReplacement) and units > 1:
        require(draw.batch_size % units == 0, "units_per_batch", units, f"a divisor of {draw.batch_size}")
        if size == 1:
            return Equivalent(noise, draw, _REPLACED)
        if units == draw.batch_size:
            return Equivalent(noise, draw, _RECORDS_REPLACED, size)
        return Equivalent(noise / FARTHEST, units_with_members(draw, size, units), _UNITS_REPLACED)
    if isinstance(draw, Poisson) and draw.microbatches > 1:
        share = float(probability_of_any(_one(_rates(draw), "sample_rate"), size, group))
        return Equivalent(noise / FARTHEST, _of_samples(share, draw.microbatches), _UNITS_REPLACED)
    if isinstance(draw, WithoutReplacement):
        if size == 1:
            return Equivalent(noise, draw, _REPLACED)
        share = float(probability_of_any(draw, size, group))
    else:
        share = float(probability_of_any(_one(_rates(draw), "sample_rate"), size, group))
    members = min(_DENOMINATOR, math.ceil(share * _DENOMINATOR))
    return Equivalent(noise, WithoutReplacement(max(1, members), _DENOMINATOR), _REPLACED)


def probability_of_any(
    draw: FloatOrFloats | WithoutReplacement, sizes: CountOrCounts, group: Group | None = None
) -> FloatOrFloats:
    """Probability that a batch holds a member of the group, rounded up.

    1 - (1 - q)^g for Poisson samples at rate q, 1 minus the product of the 1 - q_i for members with rates of
    their own, and 1 - C(n - g, b) / C(n, b) for b of n records without replacement.
    """
    if isinstance(draw, WithoutReplacement):
        return _of_fixed(draw, sizes)
    rates: Floats = np.asarray(draw if group is None or group.rates is None else group.rates)
    bad = rates[~((rates >= 0.0) & (rates <= 1.0))]
    if bad.size:
        raise ValueError(f"sample_rate must be in [0, 1], got {bad[0]}")
    with np.errstate(divide="ignore"):
        log_missed = np.log1p(-rates)
    if group is not None and group.rates is not None:
        return _at_most_one(-math.expm1(math.fsum(log_missed.tolist())))
    counts: Counts = np.asarray(sizes)
    with np.errstate(invalid="ignore"):
        several = np.minimum(1.0, -np.expm1(counts * log_missed) * _UP)
    found = np.where(counts == 1, rates, several)
    return found if found.ndim else float(found)


def _of_fixed(draw: WithoutReplacement, sizes: CountOrCounts) -> FloatOrFloats:
    if not isinstance(sizes, int):
        return np.array([_of_fixed(draw, int(size)) for size in np.ravel(sizes)]).reshape(np.shape(sizes))
    records, batch = draw.dataset_size, draw.batch_size
    # The probability that a batch and a group have no record in common does not change if their sizes are
    # exchanged. The product over the smaller of the two is the shorter one.
    few, many = min(sizes, batch), max(sizes, batch)
    if few + many > records:
        return 1.0
    if few == 1:
        return math.nextafter(many / records, 2.0) if many < records else 1.0
    return _at_most_one(-math.expm1(math.fsum(math.log1p(-many / (records - i)) for i in range(few))))


def _at_most_one(probability: float) -> float:
    return min(1.0, probability * _UP)


@functools.lru_cache(maxsize=256)
def units_with_members(draw: WithoutReplacement, size: int, units: int) -> Mixture:
    """Law of the number of units of a fixed batch that hold members of a group, in shifts of 1 each.

    The members in the batch have a uniformly random subset of its places. Member by member, the next one has
    a place in a unit without members with a known probability (`docs/theory/batch-clipping.md`, Theorem 4).
    Rounding is made up for by moving probability to more units.
    """
    batch = draw.batch_size
    require(batch % units == 0, "units_per_batch", units, f"a divisor of batch_size {batch}")
    in_batch = _hypergeometric(draw, size)
    held = np.arange(min(size, units) + 1)
    given = np.zeros(held.size)
    given[0] = 1.0
    law = in_batch[0] * given
    for placed, probability in enumerate(in_batch[1:].tolist()):
        left = batch - placed
        new = np.maximum(units - held, 0) * (batch // units) / left
        old = np.maximum(held * (batch // units) - placed, 0) / left
        given = given * old + np.concatenate([[0.0], (given * new)[:-1]])
        law = law + probability * given
    return _rounded_up(law, 1e-14 * (size + 10))


def _of_samples(share: float, samples: int) -> Mixture:
    """Law of the number of Poisson samples with a member, which each has with the probability `share`."""
    law = np.ones(1)
    for _ in range(samples):
        law = np.append(law * (1.0 - share), 0.0) + np.append(0.0, law * share)
    return _rounded_up(law, 1e-15 * (samples + 10))


def _rounded_up(law: Floats, rounding: float) -> Mixture:
    """Return a law of 0, 1, ... whose P(L >= l) are rounded up: one with larger tails dominates."""
    tails = np.minimum(1.0, np.cumsum(law[::-1])[::-1] * (1.0 + rounding))
    tails[0] = 1.0
    weights = tails - np.concatenate([tails[1:], [0.0]])
    kept = np.flatnonzero(weights > 0.0)
    return Mixture(tuple(weights[kept].tolist()), tuple(kept.astype(float).tolist()))


def _hypergeometric(draw: WithoutReplacement, size: int) -> Floats:
    """Probabilities that a batch holds 0, 1, ... of `size` records."""
    records, batch = draw.dataset_size, draw.batch_size
    first, last = max(0, size + batch - records), min(size, batch)
    j = np.arange(first, last, dtype=np.float64)
    ratios = (size - j) / (j + 1.0) * ((batch - j) / (records - size - batch + j + 1.0))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    found = np.zeros(last + 1)
    found[first:] = np.exp(logs - logs.max())
    return np.asarray(found / found.sum())


def _rates(draw: Draw) -> FloatOrFloats:
    if isinstance(draw, Poisson):
        return draw.sample_rate
    assert isinstance(draw, float | np.ndarray)
    return draw


def _one(values: FloatOrFloats | CountOrCounts, name: str) -> int | float:
    """Return the one value, where several cannot be answered at once."""
    if np.ndim(values):
        raise TypeError(f"{name} must be one number with this batch clipping, got an array: ask one by one")
    found: int | float = np.asarray(values).item()
    return found


def _require_plain(mechanism: BatchClipping, group: Group | None, draw: Draw) -> None:
    """Raise ``UnsupportedError`` for what is known of single gradients, which are not clipped."""
    if group is None:
        return
    if group.rates is not None and isinstance(draw, WithoutReplacement | FullBatch):
        raise UnsupportedError(
            f"{group!r} and sampling {draw!r} are not supported together: rates of members are for Poisson "
            f"samples"
        )
    if group.norms is not None or (group.gradients != "aligned" and group.size > 1):
        raise UnsupportedError(
            f"{mechanism!r} and {group!r} are not supported together: gradients of single records are not "
            f"clipped, so that their norms and angles say nothing; use group_size, or Group(rates=...)"
        )
