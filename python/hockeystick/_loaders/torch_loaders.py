"""How a PyTorch data loader really draws its batches.

Classes are recognised through the modules that define them, which are loaded by whoever made the loader:
nothing is imported here.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from hockeystick._arguments import choice, count_scalar, float_scalar, require, require_type, text
from hockeystick._curves.accounting import get_epsilon
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Poisson,
    Sampling,
    Shuffle,
    WithoutReplacement,
    check_sampling,
)
from hockeystick.errors import SamplingMismatchError, SamplingMismatchWarning

RATE_TOLERANCE = 1e-9
"""Relative difference of sample rates that counts as none."""

ON_MISMATCH = ("raise", "warn", "ignore")

_PACKAGES = ("hockeystick", "opacus")
"""Packages whose lines a warning does not point at."""

_NAMES = (
    "poisson",
    "without_replacement",
    "full_batch",
    "shuffle",
    "sequential",
    "with_replacement",
    "weighted",
    "distributed",
    "unknown",
)
"""Names of the schemes that a loader may have."""

_NO_ACCOUNT = "no accountant of this version covers it"


@dataclass(frozen=True)
class LoaderScheme:
    """How a loader draws its batches, as `check_loader` found it.

    Attributes
    ----------
    name : str
        "poisson", "without_replacement", "full_batch", "shuffle", "sequential", "with_replacement",
        "weighted", "distributed" or "unknown".
    sampling : Poisson, WithoutReplacement, FullBatch or None
        What to pass as `sampling` to the functions of this library; None where none of them is about
        the scheme.
    sample_rate : float or None
        The largest probability, over the records, of being in a given batch of an epoch that starts
        with fresh randomness; None where it is not known. It is an accountant's sample rate only
        if the name is "poisson".
    dataset_size : int or None
        Number of records that the loader draws from.
    batch_size : int or None
        Number of draws in a full batch; None for Poisson sampling.
    description : str
        The same in words, with what to do about it.
    shuffle : Shuffle or None
        Shuffled batches as this library's class, where every batch is full.

    Examples
    --------
    >>> import hockeystick as hs
    >>> from hockeystick.opacus import LoaderScheme
    >>> scheme = LoaderScheme("poisson", hs.Poisson(0.01), 0.01, 10_000, None, "Poisson samples")
    >>> scheme.is_poisson, scheme.sampling
    (True, Poisson(sample_rate=0.01))
    """

    name: str
    sampling: Sampling | None
    sample_rate: float | None
    dataset_size: int | None
    batch_size: int | None
    description: str
    shuffle: Shuffle | None = None

    def __post_init__(self) -> None:
        choice(self.name, "name", _NAMES)
        if self.sample_rate is not None:
            rate = float_scalar(self.sample_rate, "sample_rate")
            require(0.0 <= rate <= 1.0, "sample_rate", rate, "in [0, 1]")
        for name in ("dataset_size", "batch_size"):
            if getattr(self, name) is not None:
                count_scalar(getattr(self, name), name, 1)
        text(self.description, "description")
        require_type(self.shuffle, (Shuffle, type(None)), "shuffle")

    @property
    def is_poisson(self) -> bool:
        """Whether accountants that take a sample rate may be used."""
        return self.name == "poisson"


def check_loader(
    loader: object, *, assumed: Sampling | None = None, on_mismatch: str = "raise"
) -> LoaderScheme:
    """Tell how a PyTorch data loader draws its batches, and object if that is not what is accounted for.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        The loader that training iterates over: after `make_private`, the one that Opacus returned.
    assumed : Poisson, WithoutReplacement or FullBatch, optional
        What the accountant assumes. By default Poisson sampling at whatever rate the loader has, as
        Opacus and all accountants of this library that take a sample rate.
    on_mismatch : {"raise", "warn", "ignore"}, optional
        What to do if the loader does something else.

    Returns
    -------
    LoaderScheme
        The scheme, its exact sample rate and what to do about it.

    Raises
    ------
    SamplingMismatchError
        If the loader does not do what is assumed and `on_mismatch` is "raise".
    TypeError
        If `loader` is not a PyTorch data loader, or another argument has the wrong type.
    ValueError
        If `on_mismatch` is something else.

    Warns
    -----
    SamplingMismatchWarning
        If the loader does not do what is assumed and `on_mismatch` is "warn".

    Notes
    -----
    The rate is that of the records, N of them: a loader over fewer draws than records (a sampler with
    ``num_samples`` below N) has fewer batches an epoch, and one over their number is not a rate.

    Opacus draws float32 numbers below the rate, multiples of 2^-24: what is drawn is the rate rounded
    up to such a multiple, a relative difference of 6e-8 over the rate at most.

    Examples
    --------
    >>> import hockeystick as hs
    >>> from torch.utils.data import DataLoader, TensorDataset  # doctest: +SKIP
    >>> loader = DataLoader(dataset, batch_size=64, shuffle=True)  # doctest: +SKIP
    >>> hs.opacus.check_loader(loader)  # doctest: +SKIP
    Traceback (most recent call last):
    ...
    hockeystick.errors.SamplingMismatchError: Poisson sampling is accounted for, but the loader shuffles ...
    """
    action = choice(on_mismatch, "on_mismatch", ON_MISMATCH)
    wanted = None if assumed is None else check_sampling(assumed)
    scheme = scheme_of(loader)
    problem = mismatch(scheme, wanted)
    if problem is not None:
        complain(problem, action)
    return scheme


def complain(problem: str, action: str) -> None:
    """Raise or warn on behalf of the caller, or let it be."""
    if action == "raise":
        raise SamplingMismatchError(problem)
    if action == "warn":
        warnings.warn(problem, SamplingMismatchWarning, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """Levels from the function that calls this up to the first line outside of `_PACKAGES`.

    Python shows a warning once for each line: one that pointed into this library would be shown for the first
    training run of a process only.
    """
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, levels = frame.f_back, levels + 1
    return levels


def mismatch(scheme: LoaderScheme, wanted: Sampling | Shuffle | None) -> str | None:
    """Return what is wrong, or None."""
    if wanted is None:
        if scheme.is_poisson:
            return None
        return f"Poisson sampling is accounted for, but {scheme.description}"
    if isinstance(wanted, Shuffle):
        return None if scheme.shuffle == wanted else f"{wanted!r} is accounted for, but {scheme.description}"
    if scheme.sampling is None or type(scheme.sampling) is not type(wanted):
        return f"{wanted!r} is accounted for, but {scheme.description}"
    if isinstance(wanted, Poisson) and wanted.is_truncated:
        # No loader that is known cuts its samples.
        return f"{wanted!r} is accounted for, but {scheme.description}"
    if isinstance(wanted, Poisson):
        found = scheme.sampling.sample_rate if isinstance(scheme.sampling, Poisson) else math.nan
        if abs(found - wanted.sample_rate) <= RATE_TOLERANCE * wanted.sample_rate:
            return None
        return f"sample rate {wanted.sample_rate!r} is accounted for, but that of the loader is {found!r}"
    if scheme.sampling == wanted:
        return None
    return f"{wanted!r} is accounted for, but the loader draws {scheme.sampling!r}"


def scheme_of(loader: object) -> LoaderScheme:
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, got {type(loader).__name__}")
    if isinstance(loader.dataset, data.IterableDataset):
        return _unknown("draws from an IterableDataset, whose order is its own affair")
    batches, ranks = _unwrapped(loader.batch_sampler)
    splitter = getattr(sys.modules.get("opacus.utils.batch_memory_manager"), "BatchSplittingSampler", None)
    if splitter is not None and isinstance(batches, splitter):
        batches = batches.sampler  # a logical batch in several physical ones
    poisson = _opacus_samplers()
    if isinstance(batches, poisson):
        return _poisson(batches)
    if batches is None:
        # Without automatic batching every sample is a batch.
        return _of_draws(loader.sampler, 1, data, drop_last=False)
    if type(batches) is data.BatchSampler:
        size = int(batches.batch_size)
        if batches.drop_last and len(batches.sampler) < size:
            return _unknown(f"draws nothing: drop_last leaves out a batch of less than {size}")
        return _of_draws(batches.sampler, size * ranks, data, drop_last=bool(batches.drop_last))
    return _unknown(f"draws batches by {type(batches).__name__}, which is not known")


def _unwrapped(batches: Any) -> tuple[Any, int]:
    """Return the sampler inside what Accelerate wraps around it, and how many ranks share a batch."""
    module = sys.modules.get("accelerate.data_loader")
    ranks = 1
    while module is not None and isinstance(batches, (module.BatchSamplerShard, module.SkipBatchSampler)):
        if isinstance(batches, module.BatchSamplerShard) and not batches.split_batches:
            ranks *= int(batches.num_processes)
        batches = batches.batch_sampler
    return batches, ranks


def _opacus_samplers() -> tuple[type[Any], ...]:
    """Return Opacus's samplers of whole batches, if it is loaded."""
    module = sys.modules.get("opacus.utils.uniform_sampler")
    names = ("UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler")
    return tuple(getattr(module, name) for name in names if hasattr(module, name))


def _poisson(batches: Any) -> LoaderScheme:
    rate = float(batches.sample_rate)
    distributed = hasattr(batches, "total_size")
    size = int(batches.total_size if distributed else batches.num_samples)
    place = ", over all ranks together" if distributed else ""
    return LoaderScheme(
        "poisson",
        Poisson(rate),
        rate,
        size,
        None,
        f"the loader draws each of {size} records into each batch with probability {rate!r}{place}",
    )


def _of_draws(sampler: Any, batch_size: int, data: Any, *, drop_last: bool) -> LoaderScheme:
    """Batches of consecutive draws of `sampler`."""
    kind = type(sampler)
    if kind is data.SequentialSampler:
        return _sequential(len(sampler.data_source), batch_size)
    seedable = getattr(sys.modules.get("accelerate.data_loader"), "SeedableRandomSampler", None)
    if kind is data.RandomSampler or kind is seedable:
        size, draws = len(sampler.data_source), int(sampler.num_samples)
        if sampler.replacement:
            return _with_replacement(size, min(batch_size, draws))
        return _shuffled(size, draws, batch_size, drop_last=drop_last)
    if kind is data.SubsetRandomSampler:
        return _shuffled(len(sampler.indices), len(sampler.indices), batch_size, drop_last=drop_last)
    if kind is data.WeightedRandomSampler:
        return _weighted(sampler, batch_size)
    if isinstance(sampler, sys.modules["torch.utils.data.distributed"].DistributedSampler):
        size = len(sampler.dataset)
        return LoaderScheme(
            "distributed",
            None,
            min(1.0, batch_size * int(sampler.num_replicas) / size) if sampler.shuffle else 1.0,
            size,
            batch_size,
            f"the loader deals {'shuffled' if sampler.shuffle else 'fixed'} records out to "
            f"{sampler.num_replicas} ranks, in batches of {batch_size}, each record once an epoch: "
            f"{_NO_ACCOUNT}. Give Opacus a loader without this sampler, leave poisson_sampling as it is, and "
            f"wrap the model in opacus.distributed.DifferentiallyPrivateDistributedDataParallel: Opacus then "
            f"makes a loader for every rank",
        )
    return _unknown(f"draws records by {kind.__name__}, which is not known")


def _sequential(size: int, batch_size: int) -> LoaderScheme:
    if batch_size >= size:
        return _full_batch(size)
    return LoaderScheme(
        "sequential",
        None,
        1.0,
        size,
        batch_size,
        f"the loader walks through {size} records in their order, {batch_size} at a time: anyone knows which "
        f"batch a record is in, and sampling hides nothing. Account for one step an epoch with "
        f"sampling=FullBatch(), or use Poisson sampling",
    )


def _full_batch(size: int) -> LoaderScheme:
    return LoaderScheme(
        "full_batch", FullBatch(), 1.0, size, size, f"the loader takes all {size} records in every batch"
    )


def _with_replacement(size: int, batch_size: int) -> LoaderScheme:
    rate = -math.expm1(batch_size * math.log1p(-1.0 / size)) if size > 1 else 1.0
    return LoaderScheme(
        "with_replacement",
        None,
        rate,
        size,
        batch_size,
        f"the loader draws {batch_size} times from {size} records with replacement: a record is in a batch "
        f"with probability {rate:.6g}, and may be in it more than once, so that it moves the sum by more "
        f"than the clipping norm: {_NO_ACCOUNT}. Use Poisson sampling",
    )


def _shuffled(size: int, draws: int, batch_size: int, *, drop_last: bool) -> LoaderScheme:
    """Draws without replacement: a new permutation whenever all records have been drawn."""
    batch = min(batch_size, draws)
    if draws <= batch_size and draws < size:
        # One batch an epoch, a fresh subset each time.
        return LoaderScheme(
            "without_replacement",
            WithoutReplacement(draws, size),
            draws / size,
            size,
            draws,
            f"the loader draws a fresh subset of {draws} of {size} records an epoch, which is one batch",
        )
    if batch_size >= size and draws == size:
        return _full_batch(size)
    rate = min(1.0, batch / size)
    whole = draws == size and (drop_last or size % batch_size == 0)
    part = "each record once" if draws == size else f"{draws} draws"
    own = "" if whole else "with drop_last=True, "
    return LoaderScheme(
        "shuffle",
        None,
        rate,
        size,
        batch_size,
        f"the loader shuffles {size} records and walks through them in batches of {batch_size}, {part} an "
        f"epoch: batches depend on each other, and Poisson sampling at rate {rate:.6g} may need less noise "
        f"than this does{_understated(size, batch, draws)}. Use Poisson sampling; or, {own}account for "
        f"shuffled batches by GroupAccountant(adjacency='zero_out'); or draw fresh fixed "
        f"batches by a batch_sampler of your own and say so: "
        f"hockeystick.opacus.PrivacyEngine(sampling=WithoutReplacement({batch}, {size}))",
        Shuffle(batch_size, size) if whole else None,
    )


@functools.lru_cache(maxsize=64)
def _understated(size: int, batch: int, draws: int) -> str:
    """Return what Poisson accounting gets wrong in one epoch with noise of the clipping norm, as an example.

    The lower end is about the whole batches of an epoch, which a last one that is smaller only adds to.
    """
    if draws < size or batch > size:
        return ""
    run: dict[str, Any] = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": size // batch, "tolerance": 1e-4}
    scheme = Shuffle(batch, size)
    ends = get_epsilon(sampling=scheme, adjacency="zero_out", bounds=True, **run)
    least, claimed = float(ends[0]), float(get_epsilon(sample_rate=batch / size, **run))
    return (
        f" (one epoch with noise multiplier 1 has an epsilon of at least {rounded_down(least, 3)} at delta "
        f"1e-5, where Poisson accounting says {rounded_up(claimed, 3)}: see get_epsilon with "
        f"sampling={scheme!r}, adjacency='zero_out' and bounds=True)"
    )


def _weighted(sampler: Any, batch_size: int) -> LoaderScheme:
    weights = [float(weight) for weight in sampler.weights]
    size, batch = len(weights), min(batch_size, int(sampler.num_samples))
    share = max(weights) / math.fsum(weights)
    rate = None
    if sampler.replacement:
        rate = 1.0 if share >= 1.0 else -math.expm1(batch * math.log1p(-share))
    shown = "" if rate is None else f": the likeliest one is in a batch with probability {rate:.6g}"
    way = "with" if sampler.replacement else "without"
    return LoaderScheme(
        "weighted",
        None,
        rate,
        size,
        batch_size,
        f"the loader draws {batch} records for a batch by weights, {way} replacement, from {size}{shown}. "
        f"No accountant of this version covers it: use Poisson sampling, with rates of their own for records "
        f"that should come more often (Group(rates=...))",
    )


def _unknown(what: str) -> LoaderScheme:
    advice = "use Poisson sampling, as Opacus's DPDataLoader does"
    return LoaderScheme("unknown", None, None, None, None, f"the loader {what}: {advice}")
