"""How the batch of a step is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from typing import TypeAlias

    Sampling: TypeAlias = "Poisson | WithoutReplacement | FullBatch"
    """What the exact curves cover; `Shuffle` is for `hockeystick.shuffle`."""

LARGEST_DATASET = 2**53
"""Largest data set: up to here float64 tells whole numbers apart."""


@dataclass(frozen=True)
class Poisson:
    """Poisson sampling: every record joins every batch on its own, with the same probability.

    Parameters
    ----------
    sample_rate : float
        Probability q in [0, 1] that a record is in a batch. One number: to sweep over sample
        rates, pass an array as the argument ``sample_rate`` of the function itself.

    Raises
    ------
    ValueError
        If `sample_rate` is not in [0, 1].
    TypeError
        If `sample_rate` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Poisson(0.01)
    Poisson(sample_rate=0.01)
    """

    sample_rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_rate", check_sample_rate(self.sample_rate))


@dataclass(frozen=True)
class WithoutReplacement:
    """Fixed batches: every batch is a uniformly random subset of one size, drawn afresh.

    Parameters
    ----------
    batch_size : int
        Number of records in a batch, in [1, dataset_size].
    dataset_size : int
        Number of records in the data set, in [1, 2**53]; where records are added or removed,
        that of the larger data set.

    Raises
    ------
    ValueError
        If a size is out of range.
    TypeError
        If a size is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.WithoutReplacement(256, 60_000)
    WithoutReplacement(batch_size=256, dataset_size=60000)
    """

    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        _check_sizes(self)


@dataclass(frozen=True)
class Shuffle:
    """Shuffled batches: every epoch a fresh random permutation is cut into batches of one size.

    What ``DataLoader(shuffle=True, drop_last=True)`` does. Records that do not fill a batch are in none.
    No dominating pair against the usual adversary is known, so `get_epsilon` and the curves refuse it;
    `hockeystick.shuffle` and `ShuffleAccountant` bound it against one who knows every batch.

    Parameters
    ----------
    batch_size : int
        Number of records in a batch, in [1, dataset_size].
    dataset_size : int
        Number of records in the data set, in [1, 2**53].

    Raises
    ------
    ValueError
        If a size is out of range.
    TypeError
        If a size is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Shuffle(256, 60_000)
    Shuffle(batch_size=256, dataset_size=60000)
    """

    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        _check_sizes(self)


@dataclass(frozen=True)
class FullBatch:
    """No sampling: every batch is the whole data set.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.FullBatch()
    FullBatch()
    """


def _check_sizes(scheme: WithoutReplacement | Shuffle) -> None:
    dataset_size = count_scalar(scheme.dataset_size, "dataset_size", 1, LARGEST_DATASET)
    batch_size = count_scalar(scheme.batch_size, "batch_size", 1, LARGEST_DATASET)
    require(batch_size <= dataset_size, "batch_size", batch_size, f"at most dataset_size {dataset_size}")
    object.__setattr__(scheme, "batch_size", batch_size)
    object.__setattr__(scheme, "dataset_size", dataset_size)


def check_sample_rate(value: object, name: str = "sample_rate") -> float:
    """`value` as a probability."""
    sample_rate = float_scalar(value, name)
    require(0.0 <= sample_rate <= 1.0, name, sample_rate, "in [0, 1]")
    return sample_rate


def check_sampling(value: object) -> Sampling:
    """Return `value` if it is a sampling scheme that this version can account for."""
    if isinstance(value, Poisson | WithoutReplacement | FullBatch):
        return value
    if isinstance(value, Shuffle):
        raise UnsupportedError(
            f"sampling {value!r} has no proven dominating pair against the usual adversary: use "
            "Poisson(sample_rate), WithoutReplacement(batch_size, dataset_size) or FullBatch(); or "
            "hockeystick.shuffle.tradeoff or ShuffleAccountant for a weaker guarantee, against a strong "
            "adversary who knows batch membership"
        )
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        raise TypeError(f"sampling must be a sampling scheme such as Poisson(0.01), got {value!r}")
    raise UnsupportedError(
        f"sampling {value!r} is not supported in this version; use Poisson(sample_rate), "
        "WithoutReplacement(batch_size, dataset_size) or FullBatch()"
    )
