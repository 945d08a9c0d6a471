"""Sampling: the schemes by which the batch of a step is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from hockeystick._arguments import (
    LARGEST_DATASET,
    LARGEST_GROUP,
    count_scalar,
    float_scalar,
    require,
    shown,
    text,
)
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.spelling import spelled_class
from hockeystick.errors import SamplingMismatchError, UnsupportedError


@spelled_class
@dataclass(frozen=True)
class Poisson:
    """Poisson sampling: every record joins every batch on its own, with the same probability.

    Parameters
    ----------
    sample_rate : float
        Probability q in [0, 1] that a record is in a batch. One number: to sweep over sample
        rates, pass an array as the argument ``sample_rate`` of the function itself.
    microbatches : int, optional
        Number m of batches, each drawn on its own at the sample rate, whose clipped gradients are added
        up before noise is added once, in [1, 10000]: gradient accumulation. One step is then one such
        sum, and the noise multiplier that of its noise.
    max_batch_size : int, optional
        Largest number B of records in a batch: of a sample that has more, a uniformly random B are kept
        (truncated Poisson sampling). Together with `dataset_size`.
    dataset_size : int, optional
        Number of records in the data set, in [1, 2**53]; where records are added or removed, that of the
        larger data set. Together with `max_batch_size`.

    Raises
    ------
    ValueError
        If `sample_rate` is not in [0, 1], or a number is out of range.
    TypeError
        If `sample_rate` is not a real number, another number not a whole one, or only one of
        `max_batch_size` and `dataset_size` is given.
    UnsupportedError
        If several batches with a largest size are to be added up, which has no proven pair.

    Notes
    -----
    A record is in a number of the m batches that has the binomial law Bin(m, q), and moves the sum by the
    clipping norm each time. That is the law of a group of m records in one batch: a group of k records in
    m batches has the dominating pair of a group of k·m. A batch at the rate m·q is something else, in which
    a record comes once at most: it would understate the loss.

    A sample that is cut has another pair than Poisson sampling, and the rate alone understates: a record
    that joins a full batch pushes another one out, so that the sum may move by twice the clipping norm. The
    pair is an upper bound. A largest size that holds all records is Poisson sampling.

    References
    ----------
    A. Ganesh, "Tighter privacy analysis for truncated Poisson sampling", 2025. arXiv:2508.15089

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Poisson(0.01)
    Poisson(sample_rate=0.01)
    >>> run = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 3}
    >>> print(f"{hs.get_epsilon(sampling=hs.Poisson(0.1, microbatches=3), **run):.3f}")
    7.003
    >>> capped = hs.Poisson(0.01, max_batch_size=128, dataset_size=10_000)
    >>> print(f"{hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sampling=capped, steps=1000):.3f}")
    3.995
    >>> capped.is_truncated, capped.is_plain, hs.Poisson(0.01).is_plain
    (True, False, True)
    """

    sample_rate: float
    microbatches: int = field(default=1, kw_only=True)
    max_batch_size: int | None = field(default=None, kw_only=True)
    dataset_size: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_rate", check_sample_rate(self.sample_rate))
        count = count_scalar(self.microbatches, "microbatches", 1, LARGEST_GROUP)
        object.__setattr__(self, "microbatches", count)
        if (self.max_batch_size is None) != (self.dataset_size is None):
            raise TypeError("give both of max_batch_size and dataset_size, or neither")
        if self.max_batch_size is None:
            return
        for name in ("max_batch_size", "dataset_size"):
            object.__setattr__(self, name, count_scalar(getattr(self, name), name, 1, LARGEST_DATASET))
        if count > 1:
            raise UnsupportedError(
                "several batches with a largest size under one noise have no proven pair: use "
                "microbatches=1, or leave max_batch_size out"
            )

    @property
    def is_truncated(self) -> bool:
        """Whether a sample may be cut: whether there are more records than a batch may have."""
        if self.max_batch_size is None or self.dataset_size is None:
            return False
        return self.max_batch_size < self.dataset_size

    @property
    def is_plain(self) -> bool:
        """Whether the sample rate describes the scheme: one batch, and no sample that is cut."""
        return self.microbatches == 1 and not self.is_truncated

    def __repr__(self) -> str:
        more = "" if self.microbatches == 1 else f", microbatches={self.microbatches}"
        if self.max_batch_size is not None:
            more += f", max_batch_size={self.max_batch_size}, dataset_size={self.dataset_size}"
        return f"{type(self).__name__}(sample_rate={self.sample_rate!r}{more})"


@spelled_class
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


@spelled_class
@dataclass(frozen=True)
class Shuffle:
    """Shuffled batches: every epoch a fresh random permutation is cut into batches of one size.

    What ``DataLoader(shuffle=True, drop_last=True)`` does. Records that do not fill a batch are in none.
    No tight dominating pair against the usual adversary is known. Its epsilon is enclosed in a certified
    interval, for ``adjacency="zero_out"`` and "replace", of which the upper end is the guarantee: in the
    functions, in `ShuffledCurve` and in `GroupAccountant`. `hockeystick.shuffle` and `ShuffleAccountant`
    bound it against one who knows every batch, with other ways to clip too.

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


@spelled_class
@dataclass(frozen=True)
class FullBatch:
    """No sampling: every batch is the whole data set.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.FullBatch()
    FullBatch()
    """


@dataclass(frozen=True)
class UnaccountedSampling:
    """What a loader did that no guarantee is known for: it stands in a history where a sample rate would.

    Steps with it are counted, saved and loaded as all others, so that training can go on; every question
    about the privacy of a history that has such steps raises `SamplingMismatchError`.

    Parameters
    ----------
    sample_rate : float
        What the training loop said, which is not the rate of Poisson samples.
    description : str
        How the loader draws, and what to do about it: the words of the error.

    Raises
    ------
    ValueError
        If `sample_rate` is not in [0, 1].
    TypeError
        If an argument has the wrong type.
    """

    sample_rate: float
    description: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_rate", check_sample_rate(self.sample_rate))
        object.__setattr__(self, "description", text(self.description, "description"))

    def refuse(self) -> NoReturn:
        """Raise the error that says why there is no answer."""
        raise SamplingMismatchError(self.description)


@dataclass(frozen=True)
class Mixture:
    """The dominating pair itself, in place of a sampling scheme: a step whose law is given.

    Parameters
    ----------
    weights : tuple of float
        Probability of each shift; their sum is 1.
    shifts : tuple of float
        How far the sum of the batch moves, in units of the clipping norm; of any size.
    """

    weights: tuple[float, ...]
    shifts: tuple[float, ...]


def _check_sizes(scheme: WithoutReplacement | Shuffle) -> None:
    dataset_size = count_scalar(scheme.dataset_size, "dataset_size", 1, LARGEST_DATASET)
    batch_size = count_scalar(scheme.batch_size, "batch_size", 1, LARGEST_DATASET)
    require(batch_size <= dataset_size, "batch_size", batch_size, f"at most dataset_size {dataset_size}")
    object.__setattr__(scheme, "batch_size", batch_size)
    object.__setattr__(scheme, "dataset_size", dataset_size)


Sampling: TypeAlias = Poisson | WithoutReplacement | FullBatch | RandomAllocation | FixedBins
"""The schemes of the exact curves; `Shuffle` is for `hockeystick.shuffle`."""


def noise_and_sampling(noise: object, draw: object) -> dict[str, Any]:
    """Return what `privacy_curve` takes for noise and batches, of which numbers are the usual ones.

    A float as noise is a noise multiplier, and as a draw the sample rate of Poisson batches.
    """
    is_number = isinstance(noise, float)
    return {
        "noise_multiplier": noise if is_number else None,
        "mechanism": None if is_number else noise,
        "sampling": Poisson(draw) if isinstance(draw, float) else draw,
    }


def check_sample_rate(value: object, name: str = "sample_rate") -> float:
    """`value` as a probability."""
    sample_rate = float_scalar(value, name)
    require(0.0 <= sample_rate <= 1.0, name, sample_rate, "in [0, 1]")
    return sample_rate


def check_sampling(value: object) -> Sampling:
    """Return `value` if it is a sampling scheme that this version can account for."""
    if isinstance(value, Poisson | WithoutReplacement | FullBatch | RandomAllocation | FixedBins):
        return value
    if isinstance(value, UnaccountedSampling):
        value.refuse()
    if isinstance(value, Shuffle):
        raise UnsupportedError(
            f"sampling {shown(value)} has no proven dominating pair against the usual adversary: use "
            "Poisson(sample_rate), WithoutReplacement(batch_size, dataset_size) or FullBatch(); or "
            "get_epsilon or get_delta with adjacency='zero_out' and bounds=True for a certified interval; or "
            "hockeystick.shuffle.tradeoff or ShuffleAccountant for a weaker guarantee, against a strong "
            "adversary who knows batch membership"
        )
    if isinstance(value, Participation):
        raise UnsupportedError(
            f"sampling {shown(value)} is for mechanism=CorrelatedNoise: independent noise is that of "
            "CorrelatedNoise.toeplitz([1.0], noise_multiplier)"
        )
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        raise TypeError(f"sampling must be a sampling scheme such as Poisson(0.01), got {shown(value)}")
    raise UnsupportedError(
        f"sampling {shown(value)} is not supported in this version; use Poisson(sample_rate), "
        "WithoutReplacement(batch_size, dataset_size) or FullBatch()"
    )
