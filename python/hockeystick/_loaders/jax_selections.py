"""How the batch selection strategies of JAX Privacy draw.

Classes are recognised by their names and by the package that defines them, so that nothing is imported here
and strategies of later versions, which older ones lack, are known too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick._arguments import count_scalar
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.sampling import Poisson, Sampling, WithoutReplacement
from hockeystick.errors import SamplingMismatchError

PACKAGE = "jax_privacy"


def is_selection(value: object) -> bool:
    """Whether `value` is a batch selection strategy of JAX Privacy."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == PACKAGE and hasattr(kind, "batch_iterator")


def sampling_of_selection(selection: Any, dataset_size: int | None) -> Sampling:
    """Return the sampling scheme of a strategy; `dataset_size` is needed where the scheme depends on it."""
    name = type(selection).__name__
    if name not in _SCHEMES:
        raise SamplingMismatchError(f"{name} has no guarantee in this version: use CyclicPoissonSampling")
    return _SCHEMES[name](selection, dataset_size)


def _poisson(selection: Any, dataset_size: int | None) -> Sampling:
    rate, cycle = float(selection.sampling_prob), int(selection.cycle_length)
    if cycle > 1:
        steps = -(-int(selection.iterations) // cycle)
        raise SamplingMismatchError(
            f"CyclicPoissonSampling deals records into {cycle} parts, and each is in every {cycle}th batch "
            f"at most: account for steps={steps} with sampling=Poisson({rate!r}) where noise is independent, "
            f"or use sampling=CyclicPoisson({rate!r}, cycle={cycle}) with mechanism=CorrelatedNoise"
        )
    largest = selection.truncated_batch_size
    if largest is None:
        return Poisson(rate)
    return Poisson(rate, max_batch_size=int(largest), dataset_size=_known(dataset_size, "truncated batches"))


def _fixed_bins(selection: Any, dataset_size: int | None) -> Sampling:
    return FixedBins(int(selection.cycle_length))


def _random_allocation(selection: Any, dataset_size: int | None) -> Sampling:
    return RandomAllocation(int(selection.iterations), times=int(selection.total_participations))


def _fixed_batch(selection: Any, dataset_size: int | None) -> Sampling:
    if selection.replace:
        raise SamplingMismatchError(
            "FixedBatchSampling(replace=True) draws with replacement: a record may be in a batch more than "
            "once and moves the sum by more than the clipping norm; use replace=False"
        )
    return WithoutReplacement(int(selection.batch_size), _known(dataset_size, "fixed batches"))


def _of_users(selection: Any, dataset_size: int | None) -> Sampling:
    """Users are drawn by a strategy of their own, and a user's examples are clipped together."""
    return sampling_of_selection(selection.base_strategy, dataset_size)


def _known(dataset_size: int | None, what: str) -> int:
    if dataset_size is None:
        raise TypeError(f"dataset_size is needed: a guarantee of {what} depends on the number of records")
    return count_scalar(dataset_size, "dataset_size", 1)


_SCHEMES: dict[str, Callable[[Any, int | None], Sampling]] = {
    "CyclicPoissonSampling": _poisson,
    "BallsInBinsSampling": _fixed_bins,
    "RandomAllocationSampling": _random_allocation,
    "FixedBatchSampling": _fixed_batch,
    "UserSelectionStrategy": _of_users,
}
