"""The interface between training loops and accountants: the noise of a step, and how its batch was drawn."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

from hockeystick import BatchClipping, Gaussian, Poisson, Shuffle, WithoutReplacement
from hockeystick._arguments import require
from hockeystick._gradients import check_callable
from hockeystick.accountants import (
    GroupAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)
from hockeystick.errors import SamplingMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLINGS = ("poisson", "subsample", "shuffle")
"""The sampling schemes of `train`."""


class StepAccountant(Protocol):
    """The methods of an accountant that `train` uses: accountants of this library and of Opacus have them.

    Examples
    --------
    >>> from hockeystick import training
    >>> class Counter(training.StepAccountant):
    ...     steps = 0
    ...     def step(self, *, noise_multiplier, sample_rate):
    ...         self.steps += 1
    >>> counter = Counter()
    >>> counter.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> counter.steps
    1
    """

    def step(self, *, noise_multiplier: float, sample_rate: float) -> object:
        """Record one step."""


def step_charger(
    accountant: StepAccountant | None,
    sampling: str,
    dataset_size: int,
    batch_size: int,
    units: int | None,
    filtered: bool = False,
) -> Callable[[float], object]:
    """Return the function of the noise multiplier that records one step as its batch was drawn.

    An accountant that gets a sample rate and nothing else takes it for that of Poisson sampling. Batches of
    another kind therefore go to accountants that know their sampling scheme, and are refused by the others.

    Parameters
    ----------
    accountant : StepAccountant or None
        None records nothing.
    sampling : str
        One of `SAMPLINGS`.
    dataset_size, batch_size : int
        Checked sizes; for Poisson sampling, `batch_size` is the expected one.
    units : int or None
        Number of clipped parts of a batch; None for individual clipping.
    filtered : bool, optional
        Whether clipped units are kept with probability 1/2; of shuffled batches alone.

    Raises
    ------
    SamplingMismatchError
        If the accountant's guarantee is about batches that are drawn in another way.
    ValueError
        If the accountant assumes other clipping, or shuffled batches and is not at the start of an epoch.
    TypeError
        If `accountant` has no method ``step``.
    UnsupportedError
        If a `GroupAccountant` has no pair for such steps.
    """
    if accountant is None:
        return lambda noise_multiplier: None
    step: Any = getattr(accountant, "step", None)
    check_callable(step, "accountant.step")
    rate = batch_size / dataset_size
    if isinstance(accountant, ShuffleAccountant):
        _check_shuffle_accountant(accountant, sampling, Shuffle(batch_size, dataset_size), units)
        require(
            accountant.filtered == filtered,
            "accountant.filtered",
            accountant.filtered,
            f"{filtered}, as in this training clipped units are "
            f"{'kept with probability 1/2' if filtered else 'all kept'}",
        )
        return lambda noise_multiplier: step(noise_multiplier=noise_multiplier, sample_rate=rate)
    if sampling == "subsample" and units == batch_size:
        units = None  # every record is a unit
    _check_other_accountant(accountant, sampling, Shuffle(batch_size, dataset_size), units)
    fixed = WithoutReplacement(batch_size, dataset_size)
    if units is not None:
        parts = units
        drawn: Poisson | WithoutReplacement = Poisson(batch_size / parts / dataset_size, microbatches=parts)
        if sampling == "subsample":
            drawn = fixed
        in_batch = parts if sampling == "subsample" else 1
        _require_pair(accountant, BatchClipping(1.0, in_batch), drawn)
        return lambda noise_multiplier: step(
            mechanism=BatchClipping(noise_multiplier, in_batch), sampling=drawn
        )
    if sampling == "subsample":
        _require_pair(accountant, Gaussian(1.0), fixed)
        return lambda noise_multiplier: step(noise_multiplier=noise_multiplier, sampling=fixed)
    _require_pair(accountant, Gaussian(1.0), Poisson(rate))
    return lambda noise_multiplier: step(noise_multiplier=noise_multiplier, sample_rate=rate)


def _check_shuffle_accountant(
    accountant: ShuffleAccountant, sampling: str, scheme: Shuffle, units: int | None
) -> None:
    """Check that shuffled batches of these sizes and this clipping are what the accountant is about."""
    if sampling != "shuffle":
        raise SamplingMismatchError(
            f"ShuffleAccountant accounts for shuffled batches, but sampling={sampling!r} draws others; "
            "use GroupAccountant, or sampling='shuffle'"
        )
    if accountant.sampling != scheme:
        raise SamplingMismatchError(
            f"accountant.sampling must be {scheme}, as batches are drawn, got {accountant.sampling}"
        )
    parts = scheme.batch_size if units is None else units
    require(
        accountant.units_per_batch == parts,
        "accountant.units_per_batch",
        accountant.units_per_batch,
        f"{parts}, the clipped units of a batch in this training",
    )
    rounds = scheme.dataset_size // scheme.batch_size
    require(
        len(accountant) % rounds == 0,
        "accountant",
        f"one after {len(accountant)} steps",
        f"at the start of an epoch of {rounds} steps",
    )


def _check_other_accountant(
    accountant: StepAccountant, sampling: str, scheme: Shuffle, units: int | None
) -> None:
    """Check that an accountant of independent batches takes the scheme by which these are drawn."""
    name = type(accountant).__name__
    if sampling == "shuffle":
        raise SamplingMismatchError(
            f"{name} does not account for shuffled batches, which sampling='shuffle' draws; use "
            f"ShuffleAccountant(batch_size={scheme.batch_size}, dataset_size={scheme.dataset_size}), or "
            "sampling='poisson'"
        )
    if sampling == "subsample" and not _takes_sampling(accountant):
        raise SamplingMismatchError(
            f"{name} accounts for Poisson sampling alone, but sampling='subsample' draws batches of a fixed "
            "size; use GroupAccountant, which takes it, or sampling='poisson'"
        )
    require(
        units is None or isinstance(accountant, GroupAccountant),
        "units",
        units,
        f"None with a {name}, which assumes that every record is clipped on its own; use GroupAccountant",
    )


def _require_pair(
    accountant: StepAccountant, mechanism: Gaussian | BatchClipping, drawn: Poisson | WithoutReplacement
) -> None:
    """Raise ``UnsupportedError`` if a `GroupAccountant` has no pair for such a step, before it is taken."""
    if isinstance(accountant, GroupAccountant):
        size, group = accountant.group_size, accountant.group
        trial = GroupAccountant(size, accountant.adjacency, group, accountant.tolerance)
        trial.step(mechanism=mechanism, sampling=drawn)


def _takes_sampling(accountant: StepAccountant) -> bool:
    """Whether ``step`` takes a batch of a fixed size as ``sampling`` in place of a sample rate."""
    if isinstance(accountant, (MonteCarloAccountant, RenyiGroupAccountant)):
        return False  # of Poisson sampling alone, be it of several batches
    try:
        return "sampling" in signature(accountant.step).parameters
    except (TypeError, ValueError):  # a callable without a readable signature
        return False
