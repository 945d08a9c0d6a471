"""Sample rate, number of batches and normaliser from a public number of records, not the private one."""

from __future__ import annotations

from typing import Any, NamedTuple

from hockeystick.errors import UnsupportedError


class PublicBatches(NamedTuple):
    """Sample rate of Poisson batches and divisor of their sums, from public numbers alone."""

    sample_rate: float
    batch_size: int
    """Expected number of records of a batch, over all processes."""
    per_epoch: int
    """Number of batches of an epoch."""


def public_batches(loader: Any, public_size: int, *, poisson: bool) -> PublicBatches:
    """Batches of the size that a loader has, out of a public number of records.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        Whose batch size is the expected one.
    public_size : int
        Number N of records that everyone may know.
    poisson : bool
        Whether Opacus makes a loader that draws Poisson samples.

    Raises
    ------
    UnsupportedError
        If Opacus does not make the loader, whose batches then depend on how many records there are.
    ValueError
        If the loader has no batch size, or one above `public_size`.
    """
    if not poisson:
        raise UnsupportedError(
            f"public_dataset_size={public_size} is for the Poisson samples that Opacus draws: use "
            "poisson_sampling=True, or leave public_dataset_size out and set optimizer.expected_batch_size, "
            "which the sums of a loader of your own are divided by"
        )
    batch_size = getattr(loader, "batch_size", None)
    if batch_size is None:
        raise ValueError(
            f"data_loader must have a batch_size, from which public_dataset_size={public_size} makes a "
            "sample rate, got one that draws batches by a batch_sampler"
        )
    size = int(batch_size)
    if size > public_size:
        raise ValueError(
            f"batch_size of data_loader must be at most public_dataset_size {public_size}, got {size}"
        )
    return PublicBatches(size / public_size, size, -(-public_size // size))


def draw_publicly(loader: Any, batches: PublicBatches) -> None:
    """Let a loader of Opacus draw as `batches` says, in as many batches an epoch."""
    sampler = loader.batch_sampler
    loader.sample_rate = sampler.sample_rate = batches.sample_rate
    # One name in each of Opacus's two samplers.
    setattr(sampler, "steps" if hasattr(sampler, "steps") else "num_batches", batches.per_epoch)
