"""Hooks by which accountants are told of the steps of an Opacus optimizer, after its loader was checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from hockeystick import FullBatch, Poisson, Shuffle, WithoutReplacement
from hockeystick._arguments import choice
from hockeystick._loaders.torch_loaders import (
    ON_MISMATCH,
    RATE_TOLERANCE,
    LoaderScheme,
    check_loader,
    complain,
    mismatch,
)
from hockeystick._vocabulary.adjacency import ZERO_OUT
from hockeystick._vocabulary.sampling import Sampling, UnaccountedSampling, check_sampling
from hockeystick.accountants import Accountant, GroupAccountant, IndividualAccountant, ShuffleAccountant
from hockeystick.accountants._adaptors import (
    ADVICE,
    PROBLEM,
    Draw,
    adapts_clipping,
    batches_of,
    in_equal_parts,
    noise_of,
    record,
    record_accumulated,
    require_pair,
    whole_in_every_batch,
)
from hockeystick.errors import UnsupportedError

__all__ = [
    "ON_MISMATCH",
    "Charge",
    "attach",
    "charge_for",
    "charge_of_optimizer",
    "charge_of_poisson",
    "poisson_hook",
    "step_hook",
]

_GOES_ON = (
    "Training goes on, and the steps are counted, but every question about their privacy will be refused "
    "with these words"
)

ONCE_AN_EPOCH = ("shuffle", "sequential", "distributed")
"""Names of schemes in which different batches of an epoch have different records."""


class Charge(NamedTuple):
    """The sampling that a step with batches of a loader is charged for."""

    draw: Draw | Shuffle
    """The sample rate or the scheme of one batch of the loader, or the reason why there is no account."""
    problem: str | None = None
    """Text of the warning or error that this calls for; None if all is well."""
    once_an_epoch: bool = False
    """Whether batches that are accumulated share no record, and are one larger batch."""

    @property
    def has_account(self) -> bool:
        """Whether the accountant will answer."""
        return not isinstance(self.draw, UnaccountedSampling)


def stated(sampling: object) -> Sampling | Shuffle | None:
    """Return what the user says that a loader draws, checked."""
    if sampling is None or isinstance(sampling, Shuffle):
        return sampling
    return check_sampling(sampling)


def encloses_shuffled_batches(accountant: object) -> bool:
    """Whether an accountant answers for shuffled batches, by the upper end of a certified interval."""
    return isinstance(accountant, GroupAccountant) and accountant.adjacency in (ZERO_OUT, "replace")


def charge_of_poisson(
    accountant: Any, rate: float, sampling: Sampling | Shuffle | None, action: str
) -> Charge:
    """Return the charge of a loader that ``make_private`` will make, which draws Poisson samples at `rate`.

    What the user says about the sampling must not contradict that: an error even where mismatches only warn.
    """
    wanted = accountant.sampling if isinstance(accountant, ShuffleAccountant) else sampling
    drawn = f"poisson_sampling=True draws Poisson samples at rate {rate!r}"
    if (
        isinstance(wanted, Poisson)
        and not wanted.is_truncated
        and abs(wanted.sample_rate - rate) <= RATE_TOLERANCE * rate
    ):
        wanted = None
    if wanted is not None:
        if action != "ignore":
            complain(f"{wanted!r} is accounted for, but {drawn}", "raise")
        return Charge(rate)
    require_pair(accountant, rate)
    return Charge(rate)


def charge_for(
    accountant: Any,
    loader: Any,
    opacus_rate: float,
    action: str,
    sampling: Sampling | Shuffle | None = None,
) -> Charge:
    """Return what an accountant charges a step that draws from `loader`.

    Parameters
    ----------
    accountant : Accountant or opacus.accountants.IAccountant
        Whose steps are charged.
    loader : torch.utils.data.DataLoader
        What training draws from.
    opacus_rate : float
        Sample rate that Opacus computed, one over the number of batches.
    action : {"raise", "warn", "ignore"}
        What to do about a loader without a guarantee.
    sampling : Poisson, WithoutReplacement, FullBatch, RandomAllocation, FixedBins or Shuffle, optional
        What the user says that the loader draws; it is believed of loaders that are not known.

    Raises
    ------
    SamplingMismatchError
        If no account is known for the loader and `action` is "raise".
    UnsupportedError
        If the accountant has no pair for what is drawn.
    """
    scheme = check_loader(loader, on_mismatch="ignore")
    if isinstance(accountant, ShuffleAccountant):
        accountant.require_all_units("the optimizers of Opacus keep")
        wanted = accountant.sampling
        sizes = (scheme.batch_size, scheme.dataset_size)
        if scheme.name == "shuffle" and sizes == (wanted.batch_size, wanted.dataset_size):
            return Charge(opacus_rate)
        problem = f"{wanted!r} is accounted for, but {scheme.description}"
        return _without_account(opacus_rate, problem, action, scheme)
    if sampling is not None:
        return _as_stated(accountant, scheme, opacus_rate, action, sampling)
    if scheme.shuffle is not None and encloses_shuffled_batches(accountant):
        require_pair(accountant, scheme.shuffle)
        problem = (
            f"{scheme.description}. The steps are charged as those of {scheme.shuffle!r} for "
            f"adjacency={accountant.adjacency!r}: epsilon is the upper end of a certified interval"
        )
        return Charge(scheme.shuffle, problem if action != "ignore" else None)
    if scheme.is_poisson and scheme.sample_rate is not None:
        require_pair(accountant, scheme.sample_rate)
        return Charge(scheme.sample_rate)
    draw = _covered(accountant, scheme.sampling)
    if draw is not None:
        problem = f"{scheme.description}: the steps are charged as those of {scheme.sampling!r}"
        return Charge(draw, problem if action != "ignore" else None)
    problem = f"Poisson sampling is accounted for, but {scheme.description}"
    return _without_account(opacus_rate, problem, action, scheme)


def _as_stated(
    accountant: Any, scheme: LoaderScheme, opacus_rate: float, action: str, sampling: Sampling | Shuffle
) -> Charge:
    problem = None if scheme.name == "unknown" else mismatch(scheme, sampling)
    if problem is not None:
        return _without_account(opacus_rate, problem, action, scheme)
    if isinstance(sampling, Shuffle):
        require_pair(accountant, sampling)
        return Charge(sampling)
    draw = _covered(accountant, sampling)
    if draw is None:
        raise UnsupportedError(
            f"{type(accountant).__name__} does not account for {sampling!r}: use GroupAccountant"
        )
    return Charge(draw)


def _covered(accountant: Any, sampling: Sampling | None) -> float | Sampling | None:
    """Return `sampling` in the words of an accountant, None where that has none."""
    if isinstance(sampling, Poisson) and not sampling.is_truncated:
        sampling = Poisson(
            sampling.sample_rate
        )  # a batch of the loader; optimizers count how many they add up
    draw: float | Sampling | None = sampling
    if isinstance(sampling, Poisson) and not sampling.is_truncated:
        draw = sampling.sample_rate
    if isinstance(sampling, FullBatch) and not isinstance(accountant, GroupAccountant):
        draw = 1.0
    if isinstance(draw, WithoutReplacement | Poisson) and not isinstance(accountant, GroupAccountant):
        return None
    if draw is not None:
        require_pair(accountant, draw)
    return draw


def _without_account(
    opacus_rate: float, problem: str, action: str, scheme: LoaderScheme | None = None
) -> Charge:
    if action == "raise":
        complain(problem, "raise")
    once = scheme is not None and scheme.name in ONCE_AN_EPOCH
    if action == "ignore":
        return Charge(opacus_rate, None, once)
    return Charge(UnaccountedSampling(opacus_rate, problem), f"{problem}. {_GOES_ON}", once)


def charge_of_optimizer(charge: Charge, optimizer: Any, action: str) -> Charge:
    """Return what a step of an optimizer is charged as, given the charge of the loader.

    Raises
    ------
    SamplingMismatchError
        If no account is known for what the optimizer releases and `action` is "raise".
    """
    if action == "ignore" or not adapts_clipping(optimizer) or not charge.has_account:
        return charge
    if action == "raise":
        complain(f"{PROBLEM}. {ADVICE}", "raise")
    rate = charge.draw if isinstance(charge.draw, float) else 1.0
    problem = f"{PROBLEM}. {ADVICE}. {_GOES_ON}"
    return Charge(UnaccountedSampling(rate, f"{PROBLEM}. {ADVICE}"), problem)


def step_hook(accountant: Any, charge: Charge, action: str = "ignore") -> Callable[[Any], None]:
    """Return a function of an Opacus optimizer that charges one step, however many batches it is for.

    With another `action` than "ignore" the optimizer is looked at too, at its first step.
    """
    count = batches_of()

    def hook(optimizer: Any) -> None:
        """Charge one step of an optimizer, and complain of a mismatch once."""
        nonlocal charge, action
        known, charge = charge, charge_of_optimizer(charge, optimizer, action)
        if charge is not known and charge.problem is not None:
            complain(charge.problem, "warn")
        action = "ignore"
        _charge(accountant, noise_of(optimizer), charge, count(optimizer))

    return hook


def poisson_hook(accountant: Any, rate: float) -> Callable[[Any], None]:
    """Return a function that charges one step of an optimizer that draws Poisson batches at a rate."""
    return step_hook(accountant, Charge(rate))


def _charge(accountant: Any, noise: float, charge: Charge, batches: int) -> None:
    draw = charge.draw
    if isinstance(draw, UnaccountedSampling):
        if isinstance(accountant, Accountant):
            record(accountant, noise, draw)
        else:  # Opacus's own accountants know rates only; the engine refuses in their place
            accountant.step(noise_multiplier=noise, sample_rate=draw.sample_rate)
    elif isinstance(draw, float):
        if charge.once_an_epoch:
            _charge_larger_batch(accountant, noise, draw, batches)
        else:
            _charge_poisson(accountant, noise, draw, batches)
    elif isinstance(draw, Shuffle):
        accountant.step(noise_multiplier=noise, sampling=_larger_batches(draw, batches))
    elif isinstance(draw, FullBatch):
        # Every record is in all batches, and moves the sum by as many clipping norms.
        accountant.step(noise_multiplier=whole_in_every_batch(noise, batches), sampling=draw)
    else:
        for _ in range(batches):
            accountant.step(noise_multiplier=in_equal_parts(noise, batches), sampling=draw)


def _charge_poisson(accountant: Any, noise: float, rate: float, batches: int) -> None:
    """Charge a step after Poisson batches, each drawn at `rate`.

    They are independent: a record may be in several of them, and a rate as many times as high would
    understate. Accountants that know nothing of that get as many steps with a part of the noise each.
    """
    if batches == 1:
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    elif isinstance(accountant, Accountant) and _takes_schemes(accountant):
        record_accumulated(accountant, noise, rate, batches)
    else:
        for _ in range(batches):
            accountant.step(noise_multiplier=in_equal_parts(noise, batches), sample_rate=rate)


def _takes_schemes(accountant: Any) -> bool:
    return (
        isinstance(accountant, ShuffleAccountant)
        or "sampling" in inspect.signature(accountant.step).parameters
    )


def _larger_batches(draw: Shuffle, batches: int) -> Shuffle:
    """Return shuffled batches of which so many are added up before noise, as one larger batch."""
    if draw.dataset_size // draw.batch_size % batches:
        raise ValueError(
            f"{batches} accumulated batches of {draw!r} are not an epoch's in whole numbers: one step would "
            f"be about batches of two epochs. Accumulate a number of batches that divides "
            f"{draw.dataset_size // draw.batch_size}"
        )
    return Shuffle(draw.batch_size * batches, draw.dataset_size)


def _charge_larger_batch(accountant: Any, noise: float, rate: float, batches: int) -> None:
    """Charge a step after batches that share no record, as a batch that is so many times as large."""
    if rate * batches > 1.0:
        raise ValueError(
            f"{batches} accumulated batches at sample rate {rate!r} each have a rate above 1 together: an "
            f"epoch does not have so many, so that records are in several of them. Step more often"
        )
    accountant.step(noise_multiplier=noise, sample_rate=rate * batches)


def attach(
    accountant: Any,
    optimizer: Any,
    data_loader: Any,
    *,
    sampling: Sampling | Shuffle | None = None,
    on_mismatch: str = "warn",
) -> None:
    """Let an accountant record every step of an Opacus optimizer from now on, in place of any other.

    What ``make_private`` of the engine does at its end, for loops that do without: a run that goes on with
    another accountant, or a ``DPOptimizer`` that was made by hand.

    Parameters
    ----------
    accountant : Accountant
        Accountant to record the steps, as `from_opacus` returns it.
    optimizer : opacus.optimizers.DPOptimizer
        What makes the steps; of any way of clipping. Its step hook is replaced.
    data_loader : torch.utils.data.DataLoader
        What training draws from, which is looked at as by `check_loader`.
    sampling : Poisson, WithoutReplacement, FullBatch, RandomAllocation, FixedBins or Shuffle, optional
        How the loader draws, as in `PrivacyEngine`.
    on_mismatch : {"warn", "raise", "ignore"}, optional
        What to do about a loader that no account is known for, as in `PrivacyEngine`.

    Raises
    ------
    SamplingMismatchError
        If no account is known for the loader and `on_mismatch` is "raise".
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        If the accountant has no proven pair for what the loader draws.

    Warns
    -----
    SamplingMismatchWarning
        If the loader does not draw Poisson samples and `on_mismatch` is "warn".

    Examples
    --------
    >>> import hockeystick as hs
    >>> engine.accountant = hs.opacus.from_opacus(engine.accountant)  # doctest: +SKIP
    >>> hs.opacus.attach(engine.accountant, optimizer, loader)  # doctest: +SKIP
    """
    action = choice(on_mismatch, "on_mismatch", ON_MISMATCH)
    if not isinstance(accountant, Accountant) or isinstance(accountant, IndividualAccountant):
        raise TypeError(
            f"accountant must be an accountant of hockeystick other than IndividualAccountant, for which "
            f"there is IndividualTracker; got {type(accountant).__name__}"
        )
    if not hasattr(optimizer, "attach_step_hook"):
        raise TypeError(f"optimizer must be an opacus DPOptimizer, got {type(optimizer).__name__}")
    charge = charge_for(accountant, data_loader, 1 / len(data_loader), action, stated(sampling))
    charge = charge_of_optimizer(charge, optimizer, action)
    if charge.problem is not None:
        complain(charge.problem, "warn")
    optimizer.attach_step_hook(step_hook(accountant, charge))
