"""Events for batches that dp-accounting has no event for: `ExactAccountant` takes them beside its own."""

from __future__ import annotations

from typing import Any

from hockeystick._extras import needed

_attr: Any = needed("attr", "dp-accounting")
# Any for mypy, as dp-accounting need not be there where types are checked.
_DpEvent: Any = needed("dp_accounting", "dp-accounting").DpEvent


@_attr.s(frozen=True, slots=True, auto_attribs=True)
class AccumulatedPoissonDpEvent(_DpEvent):  # type: ignore[misc]  # a base class of type Any
    """An event on the union of several Poisson samples, in which a record may be several times.

    Gradient accumulation: m batches, each drawn on its own, are added up before `event` is applied once.
    A ``PoissonSampledDpEvent`` with m times the rate is something else, and understates the loss.

    Attributes
    ----------
    sampling_probability : float
        Probability in [0, 1] that a record is in one of the samples.
    microbatches : int
        Number m of samples that are added up, in [1, 10000].
    event : dp_accounting.DpEvent
        What is released of the sum: a ``GaussianDpEvent`` or a composition of some.

    Notes
    -----
    The step of ``hockeystick.Poisson(sampling_probability, microbatches=m)``.

    Examples
    --------
    >>> import dp_accounting
    >>> from hockeystick.dp_accounting import AccumulatedPoissonDpEvent, ExactAccountant
    >>> step = AccumulatedPoissonDpEvent(0.1, 3, dp_accounting.GaussianDpEvent(1.0))
    >>> round(ExactAccountant().compose(step, 3).get_epsilon(1e-5), 3)
    7.003
    """

    sampling_probability: float
    microbatches: int
    event: Any


@_attr.s(frozen=True, slots=True, auto_attribs=True)
class RandomAllocationDpEvent(_DpEvent):  # type: ignore[misc]  # a base class of type Any
    """One epoch in which every record is in some of the batches, drawn afresh: an event on every batch.

    Composing it again stands for another epoch, whose batches are drawn anew.

    Attributes
    ----------
    batches : int
        Number of batches of the epoch, in [1, 2**40].
    event : dp_accounting.DpEvent
        What is released of each batch: a ``GaussianDpEvent`` or a composition of some.
    times : int, optional
        Number of batches that each record is in, in [1, batches].

    Notes
    -----
    ``batches`` steps of ``hockeystick.RandomAllocation(batches, times)``. For bins that stay the same from
    epoch to epoch it would understate the loss by far: `hockeystick.FixedBins` is for these.

    Examples
    --------
    >>> import dp_accounting
    >>> from hockeystick.dp_accounting import ExactAccountant, RandomAllocationDpEvent
    >>> epoch = RandomAllocationDpEvent(100, dp_accounting.GaussianDpEvent(2.0))
    >>> round(ExactAccountant().compose(epoch, 10).get_epsilon(1e-5), 4)
    0.6031
    """

    batches: int
    event: Any
    times: int = 1
