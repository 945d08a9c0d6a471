"""One account for each example: Rényi divergences, or moments from which the privacy loss follows."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Counts, Floats, shown
from hockeystick._executors import check_bounds
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling, WithoutReplacement
from hockeystick.accountants._accumulation import in_equal_parts
from hockeystick.accountants._packing import packed, unpacked
from hockeystick.errors import UnsupportedError
from hockeystick.kernels import rdp_to_epsilon


def shifts_of(norms: Floats, draw: float | Sampling) -> tuple[Floats, float, float]:
    """Shift of each example's dominating pair, the largest possible shift, and the sample rate.

    In a batch of a fixed size an example pushes another one out, whose gradient may have the full norm.
    Shifts are rounded up.

    Parameters
    ----------
    norms : ndarray
        In units of the clipping norm.
    draw : float or sampling scheme
        A sample rate, or a scheme that is not Poisson's.
    """
    if isinstance(draw, WithoutReplacement):
        shifts = 1.0 + norms
        # The difference is exact, and below the norm where the sum was rounded down.
        shifts = np.where(shifts - 1.0 < norms, np.nextafter(shifts, 2.0), shifts)
        return shifts, 2.0, draw.batch_size / draw.dataset_size
    if isinstance(draw, FullBatch):
        return norms, 1.0, 1.0
    if not isinstance(draw, float):
        raise UnsupportedError(
            f"examples with norms of their own are not accounted for with {draw!r} here: use one Poisson "
            f"batch a step (microbatches=1), or IndividualAccountant, which bounds several"
        )
    return norms, 1.0, draw


def of_single_batches(
    noise_multiplier: float, draw: float | Sampling, steps: int
) -> tuple[float, float | Sampling, int]:
    """Noise, draw and number of steps of one batch each that reveal at least as much as those of several."""
    if isinstance(draw, Poisson) and draw.is_truncated:
        raise UnsupportedError(
            f"single examples are not accounted for with {draw!r}: use GroupAccountant, or leave "
            "max_batch_size out"
        )
    if not isinstance(draw, Poisson):
        return noise_multiplier, draw, steps
    batches = draw.microbatches
    return in_equal_parts(noise_multiplier, batches), draw.sample_rate, steps * batches


class Accounts(ABC):
    """One account for each example."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of accounts."""

    @abstractmethod
    def add(self, norms: Floats, noise_multiplier: float, draw: float | Sampling, steps: int) -> None:
        """Add equal steps to all accounts."""

    @abstractmethod
    def epsilons(self, delta: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds on epsilon of each account."""

    @abstractmethod
    def mixed(self, other: Any, own: Counts) -> Accounts:
        """Return the accounts at `own` of these, or of `other` where negative: -1 is the first there."""

    @abstractmethod
    def taken(self, places: Counts) -> Accounts:
        """Return a copy of the accounts at `places`."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return plain JSON types."""


def account_epsilons(accounts: Accounts, delta: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds on epsilon of each account: a function that other processes know by name."""
    return accounts.epsilons(delta)


def check_account_epsilons(answer: object, job: tuple[Accounts, float]) -> None:
    """Raise ``RuntimeError`` unless a worker's answer to `account_epsilons` can be one."""
    check_bounds(answer, "epsilon of single examples", len(job[0]))


class RenyiAccounts(Accounts):
    """Rényi divergences at some orders."""

    def __init__(self, orders: Floats, rdp: Floats) -> None:
        self._orders = orders
        self._accounts = rdp
        self._changing_in: int | None = None

    def __len__(self) -> int:
        return len(self._accounts)

    @property
    def _rdp(self) -> Floats:
        """Accounts, unless another thread was changing them when this process was forked."""
        if self._changing_in not in (None, os.getpid()):
            raise RuntimeError(
                "another thread was adding a step to these accounts when this process was forked, so that "
                "they are half changed in this process: make new ones here, or load saved ones"
            )
        return self._accounts

    def add(self, norms: Floats, noise_multiplier: float, draw: float | Sampling, steps: int) -> None:
        """Add equal steps to all accounts."""
        noise_multiplier, draw, steps = of_single_batches(noise_multiplier, draw, steps)
        shifts, _, rate = shifts_of(norms, draw)
        accounts = self._rdp
        if self._changing_in is not None:
            raise RuntimeError("another thread is adding a step to these accounts: give each thread its own")
        self._changing_in = os.getpid()
        try:
            _core.accumulate_rdp(accounts, shifts, self._orders, noise_multiplier, rate, float(steps))
        finally:
            self._changing_in = None

    def epsilons(self, delta: float) -> tuple[Floats, Floats]:
        """Lower bounds, which are zero, and upper bounds on epsilon of each account."""
        upper = np.asarray(rdp_to_epsilon(self._orders, self._rdp, delta))
        # An account without any loss: no order shows that epsilon is 0.
        upper = np.where(self._rdp.max(axis=1) == 0.0, 0.0, upper)
        return np.zeros_like(upper), upper

    @property
    def rdp(self) -> Floats:
        """Accounts in nats, shape (examples, orders)."""
        return self._rdp

    def mixed(self, other: RenyiAccounts, own: Counts) -> RenyiAccounts:
        """Return the accounts at `own` of these, or of `other` where negative: -1 is the first there."""
        rows = self._rdp[np.where(own >= 0, own, 0)]
        theirs = own < 0
        rows[theirs] = other._rdp[-1 - own[theirs]]
        return RenyiAccounts(self._orders, rows)

    def taken(self, places: Counts) -> RenyiAccounts:
        """Return a copy of the accounts at `places`."""
        return RenyiAccounts(self._orders, self._rdp[places])

    def state(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {"rdp": packed(self._rdp)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], examples: int, orders: Floats) -> RenyiAccounts:
        """Return the accounts of a state; ``ValueError`` if it is not one."""
        rdp = unpacked(state["rdp"], "rdp", "<f8", (examples, len(orders)))
        if not np.all(rdp >= 0.0):
            raise ValueError("rdp is damaged: it has values below zero")
        return cls(orders, rdp)


class ExactAccounts(Accounts):
    """Moments of the norms, from which the privacy loss of all steps follows."""

    def __init__(self, core: _core.IndividualAccounts) -> None:
        self._core = core

    def __len__(self) -> int:
        return len(self._core)

    def add(self, norms: Floats, noise_multiplier: float, draw: float | Sampling, steps: int) -> None:
        """Add equal steps to all accounts."""
        noise_multiplier, draw, steps = of_single_batches(noise_multiplier, draw, steps)
        shifts, largest, rate = shifts_of(norms, draw)
        self._core.add(shifts, largest, noise_multiplier, rate, float(steps))

    def epsilons(self, delta: float) -> tuple[Floats, Floats]:
        """Lower and upper bounds on epsilon of each account."""
        return self._core.epsilons(delta)

    def mixed(self, other: ExactAccounts, own: Counts) -> ExactAccounts:
        """Return the accounts at `own` of these, or of `other` where negative: -1 is the first there."""
        return ExactAccounts(self._core.mixed(other._core, own))

    def taken(self, places: Counts) -> ExactAccounts:
        """Return a copy of the accounts at `places`."""
        return ExactAccounts(self._core.taken(places))

    def state(self) -> dict[str, Any]:
        """Return plain JSON types."""
        rates, gaussian, revealing, places, moments = self._core.state()
        # "telling" is the key under which saved states have it.
        arrays = {"gaussian": gaussian, "telling": revealing, "places": places, "moments": moments}
        return {"rates": rates, **{name: packed(array) for name, array in arrays.items()}}

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactAccounts.from_state, (self.state(), len(self._core))

    @classmethod
    def from_state(cls, state: Mapping[str, Any], examples: int) -> ExactAccounts:
        """Return the accounts of a state; ``ValueError`` if it is not one."""
        rates = state["rates"]
        if not isinstance(rates, list) or not all(isinstance(rate, float) for rate in rates):
            raise ValueError(f"rates must be a list of numbers, got {shown(rates)}")
        core = _core.IndividualAccounts.from_state(
            rates,
            unpacked(state["gaussian"], "gaussian", "<f8", (examples,)),
            unpacked(state["telling"], "telling", "|b1", (examples,)),
            unpacked(state["places"], "places", "<i8", (None, 4)),
            unpacked(state["moments"], "moments", "<f8", (None, None)),
        )
        return cls(core)
