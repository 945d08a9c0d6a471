"""What an accountant does at each step of an Opacus optimizer, once the loader has been looked at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hockeystick.accountants.shuffle import ShuffleAccountant
from hockeystick.opacus.loaders import check_loader, complain

if TYPE_CHECKING:
    from collections.abc import Callable

    from hockeystick.opacus.loaders import LoaderScheme

_ROUNDED_DOWN = 1.0 - 2.0**-51
"""Factor that more than undoes the rounding of a square root and a quotient."""


def check_for(accountant: Any, loader: Any, on_mismatch: str) -> LoaderScheme:
    """Scheme of a loader, which must be the one that the accountant is about."""
    if not isinstance(accountant, ShuffleAccountant):
        return check_loader(loader, on_mismatch=on_mismatch)
    scheme = check_loader(loader, on_mismatch="ignore")
    wanted = accountant.sampling
    sizes = (scheme.batch_size, scheme.dataset_size)
    if scheme.name != "shuffle" or sizes != (wanted.batch_size, wanted.dataset_size):
        complain(f"{wanted!r} is accounted for, but {scheme.description}", on_mismatch)
    return scheme


def check_before(accountant: Any, loader: Any, poisson_sampling: bool) -> None:
    """Raise if what ``make_private`` will make of a loader is not what the accountant is about."""
    if not poisson_sampling:
        check_for(accountant, loader, "raise")
    elif isinstance(accountant, ShuffleAccountant):
        complain(
            f"{accountant.sampling!r} is accounted for, but poisson_sampling=True draws Poisson samples",
            "raise",
        )


def rate_of(scheme: LoaderScheme, told: float) -> float:
    """Sample rate to account for: the one that the loader draws with, or else what Opacus tells."""
    return scheme.sample_rate if scheme.is_poisson and scheme.sample_rate is not None else told


def step_hook(accountant: Any, loader: Any, told: float, on_mismatch: str) -> Callable[[Any], None]:
    """Return a function that records one step of an Opacus optimizer that draws from `loader`.

    Parameters
    ----------
    accountant : Accountant or opacus.accountants.IAccountant
        Who is told.
    loader : torch.utils.data.DataLoader
        What training draws from.
    told : float
        Sample rate that Opacus computed, one over the number of batches.
    on_mismatch : {"raise", "warn", "ignore"}
        What to do about a loader that draws in another way than is accounted for.

    Returns
    -------
    callable
        Function of the optimizer: that of `poisson_hook` for Poisson batches. Other batches get the rate m
        times as high for m accumulated ones, as in Opacus.
    """
    scheme = check_for(accountant, loader, on_mismatch)
    if not scheme.is_poisson:
        return accounting_hook(accountant, told)
    return poisson_hook(accountant, rate_of(scheme, told))


def poisson_hook(accountant: Any, rate: float) -> Callable[[Any], None]:
    """Return a function that records one step of an optimizer that draws Poisson batches at a rate.

    Those that are accumulated for one step are independent: a record may be in several of them, so that a
    rate m times as high would understate. The noise of m batches is m independent parts of variance 1/m:
    m steps with noise multiplier σ/√m, whose outputs tell more than their sum.
    """

    def hook(optimizer: Any) -> None:
        batches, noise = optimizer.accumulated_iterations, optimizer.noise_multiplier
        if batches > 1:
            noise *= _ROUNDED_DOWN / math.sqrt(batches)
        for _ in range(batches):
            accountant.step(noise_multiplier=noise, sample_rate=rate)

    return hook


def accounting_hook(accountant: Any, rate: float) -> Callable[[Any], None]:
    """Return what Opacus attaches: a step at the rate times the number of accumulated batches."""

    def hook(optimizer: Any) -> None:
        accountant.step(
            noise_multiplier=optimizer.noise_multiplier,
            sample_rate=rate * optimizer.accumulated_iterations,
        )

    return hook
