"""Individual accounting: every example's own epsilon, from the norms of its gradients."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import Floats, count_array, count_scalar, float_scalar, float_vector, require
from hockeystick._executors import check_executor, ordered_map, slices
from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.history import check_gaussian_step, with_step
from hockeystick.accountants.individual_accounts import (
    Accounts,
    ExactAccounts,
    RenyiAccounts,
    account_epsilons,
    check_account_epsilons,
)
from hockeystick.accountants.individual_groups import history_epsilon, is_wide
from hockeystick.accountants.individual_shards import joined
from hockeystick.accountants.individual_state import from_state, to_state
from hockeystick.accountants.individual_users import GroupQuestions
from hockeystick.accountants.interface import Accountant
from hockeystick.accountants.norm_history import Kind, NormHistory
from hockeystick.accountants.norms import check_norms, rounded_up
from hockeystick.accountants.renyi import check_orders
from hockeystick.accountants.state_limits import check_limits, refusals
from hockeystick.sampling import Poisson, Sampling

DEFAULT_ORDERS = (*(1.0 + x / 10.0 for x in range(1, 100)), *(float(x) for x in range(12, 64)))
"""Rényi orders of Opacus."""


BLOCK = 2**16
"""Examples whose accounts are copied at once."""

SMALLEST_PART = 2**13
"""Examples that are worth a message to a worker, who needs half a second for what all of them share."""


class IndividualAccountant(GroupQuestions, Accountant):
    """Privacy of each example of a data set, from the norms that its gradients had.

    Parameters
    ----------
    dataset_size : int
        Number of examples n, at least one.
    max_grad_norm : float, optional
        Clipping norm C > 0, in the units of the norms.
    orders : array_like, optional
        Rényi orders in (1, 10000] for ``exact=False``; by default the 151 of Opacus.
    exact : bool, optional
        Whether to keep all that each example's privacy loss depends on, so that `get_epsilons` is its exact
        epsilon; else Rényi divergences are kept.
    rounding : float, optional
        Norms are rounded up to multiples of this; 0.01 C is what INDIVIDUAL uses (it rounds to the
        nearest, which can understate). Neither speed nor accuracy needs it here.
    individual_clipping : bool, optional
        Whether training clips each example to the norm that this accountant has for it (INDIVIDUAL,
        Algorithm 3), so that old norms are as good as new ones.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    An example whose clipped gradient has norm Z ≤ C takes part in a step whose pair has shift Z / C
    (INDIVIDUAL, Algorithm 2). A batch of a fixed size gives it shift 1 + Z / C, as it pushes out another one
    of any norm. The result is about the trajectory that was released, not about the algorithm, and it is
    itself private: it may go to the example's owner. ``repr`` and ``str`` never show it;
    `hockeystick.release` publishes statistics.

    Until `update_norms` is called for an example, its norm is C. Norms serve until they are replaced.

    Examples
    --------
    >>> from hockeystick.accountants import IndividualAccountant
    >>> accountant = IndividualAccountant(3)
    >>> accountant.update_norms([0.1, 0.5, 2.0])  # the last is clipped to 1
    >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> accountant.is_guarantee
    True
    >>> for _ in range(999):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> accountant.get_epsilons(1e-5).round(4).tolist()
    [0.0978, 0.622, 1.8282]
    >>> accountant.is_guarantee  # the norms were not those of the later steps
    False
    >>> round(accountant.get_epsilon(1e-5), 4)  # of any example, whatever the norms
    1.8282
    """

    def __init__(
        self,
        dataset_size: int,
        max_grad_norm: float = 1.0,
        orders: ArrayLike | None = None,
        exact: bool = True,
        rounding: float | None = None,
        individual_clipping: bool = False,
    ) -> None:
        super().__init__(1, "add_remove")
        self._dataset_size = count_scalar(dataset_size, "dataset_size", 1)
        self._max_grad_norm = float_scalar(max_grad_norm, "max_grad_norm")
        usual = 1e-150 <= self._max_grad_norm <= 1e150
        require(usual, "max_grad_norm", max_grad_norm, "in [1e-150, 1e150]")
        self._orders = self._frozen(check_orders(DEFAULT_ORDERS if orders is None else orders))
        self._exact = bool(exact)
        self._rounding = None if rounding is None else float_scalar(rounding, "rounding")
        if self._rounding is not None:
            require(
                0.0 < self._rounding <= self._max_grad_norm, "rounding", rounding, "in (0, max_grad_norm]"
            )
        self._individual_clipping = bool(individual_clipping)
        self._worst = GroupAccountant()
        self._accounts: Accounts = self._empty()
        self._norms = self._frozen(np.full(self._dataset_size, self._max_grad_norm))
        self._fresh = np.ones(self._dataset_size, dtype=np.bool_)
        self._known = np.zeros(self._dataset_size, dtype=np.bool_)
        self._full = np.ones(self._dataset_size, dtype=np.bool_)
        self._by_indices = False
        self._refreshed = True
        self._is_guarantee = True
        self._pending: dict[Kind, int] = {}
        self._norm_history = NormHistory()

    def _empty(self) -> Accounts:
        if self._exact:
            return ExactAccounts(_core.IndividualAccounts(self._dataset_size))
        return RenyiAccounts(self._orders, np.zeros((self._dataset_size, len(self._orders))))

    @staticmethod
    def _frozen(norms: Floats) -> Floats:
        norms.flags.writeable = False
        return norms

    @property
    def dataset_size(self) -> int:
        """Number of examples."""
        return self._dataset_size

    @property
    def max_grad_norm(self) -> float:
        """Clipping norm C."""
        return self._max_grad_norm

    @property
    def orders(self) -> Floats:
        """Rényi orders of the accounts for ``exact=False``."""
        return self._orders

    @property
    def exact(self) -> bool:
        """Whether accounts keep the whole privacy loss."""
        return self._exact

    @property
    def rounding(self) -> float | None:
        """Norms are rounded up to multiples of this."""
        return self._rounding

    @property
    def individual_clipping(self) -> bool:
        """Whether training clips each example to its own norm."""
        return self._individual_clipping

    @property
    def norms(self) -> Floats:
        """Norm that the next step charges each example for, at most C, shape (n,); read-only and private."""
        return self._norms

    @property
    def is_guarantee(self) -> bool:
        """Whether `get_epsilons` bounds the privacy of every example, rather than estimating it.

        True as long as every step had norms of its own for every example (K = 1) or the full norm C,
        and always with `individual_clipping`.
        """
        return self._is_guarantee

    @property
    def history(self) -> list[Any]:
        """Steps so far as a list of (noise_multiplier, sampling, num_steps); a copy."""
        return list(self._worst.history)

    @history.setter
    def history(self, segments: list[Any]) -> None:
        raise ValueError(
            "history of an IndividualAccountant must stay as it is, got other steps: norms belong to its own"
        )

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return len(self._worst)

    @classmethod
    def mechanism(cls) -> str:
        """Return "individual"."""
        return "individual"

    def update_norms(self, norms: ArrayLike, indices: ArrayLike | None = None) -> None:
        """Replace the norms of all or some examples, for the steps to come.

        Parameters
        ----------
        norms : array_like, shape (n,) or (len(indices),)
            Norms of the examples' gradients before or after clipping, at least zero, in the units of
            `max_grad_norm`; larger ones count as C.
        indices : array_like of int, shape (m,), optional
            Examples that these are the norms of, each at most once; all of them by default.

        Raises
        ------
        ValueError
            If a norm is negative, NaN or infinite, an index is unknown or occurs twice, or the lengths
            differ; the accountant stays as it was.
        TypeError
            If an argument is not real; the accountant stays as it was.
        """
        values = float_vector(norms, "norms")
        places = None if indices is None else self._check_indices(indices)
        count = self._dataset_size if places is None else len(places)
        if len(values) != count:
            raise ValueError(f"norms must have one entry for each of {count} examples, got {len(values)}")
        check_norms(values)
        if self._rounding is not None:
            values = rounded_up(values, self._rounding)
        values = np.minimum(values, self._max_grad_norm)
        self._flush()
        new = values.copy() if places is None else self._norms.copy()
        if places is not None:
            new[places] = values
        self._norms = self._frozen(new)
        self._refreshed = True
        self._by_indices = places is not None and (self._by_indices or not np.any(self._known))
        self._fresh[slice(None) if places is None else places] = True
        self._known[slice(None) if places is None else places] = True

    def _check_indices(self, indices: ArrayLike, name: str = "indices") -> NDArray[np.int64]:
        places = count_array(indices, name, 0)
        if places.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {places.shape}")
        unknown = places[places >= self._dataset_size]
        if unknown.size:
            raise ValueError(f"{name} must be below dataset_size, {self._dataset_size}, got {unknown[0]}")
        if len(np.unique(places)) < len(places):
            raise ValueError(f"{name} must name each example once, got {len(places)} with repetitions")
        return places

    def step(
        self,
        *,
        noise_multiplier: float,
        sample_rate: float | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        """Record one step, with the norms of the moment.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise in units of the clipping norm C, at least zero.
        sample_rate : float, optional
            Probability in [0, 1] that an example is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson, WithoutReplacement or FullBatch, optional
            How the batch is drawn. Give either this or `sample_rate`. Of several Poisson batches that are
            added up, `get_epsilon` is exact; examples' own epsilons are those of as many steps with a part of
            the noise each, which is an upper bound.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, or not exactly one of `sample_rate` and `sampling` is given;
            the accountant stays as it was.
        """
        self._take(*check_gaussian_step(noise_multiplier, sample_rate, sampling), 1)

    def _accumulated(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        self.step(noise_multiplier=noise_multiplier, sampling=Poisson(sample_rate, microbatches=batches))

    def _take(self, noise: float, draw: float | Sampling, count: int) -> None:
        """Record equal steps with the norms of the moment."""
        if isinstance(draw, float):
            self._worst.step(noise_multiplier=noise, sample_rate=draw)
        else:
            self._worst.step(noise_multiplier=noise, sampling=draw)
        if count > 1:
            with_step(self._worst.history, noise, draw, count - 1)
        full = self._norms >= self._max_grad_norm
        if not self._individual_clipping and self._is_guarantee:
            first = count == 1 and not self._pending
            self._is_guarantee = bool(np.all(self._fresh | full if first else full))
        if not self._pending:
            self._full &= full
        self._fresh[:] = False
        self._pending[noise, draw] = self._pending.get((noise, draw), 0) + count

    def _relative(self) -> Floats:
        return self._frozen(self._norms / self._max_grad_norm)

    def _flush(self) -> None:
        """Add the steps since the last refresh to the accounts."""
        if not self._pending:
            return
        relative = self._relative()
        for (noise, draw), count in self._pending.items():
            self._accounts.add(relative, noise, draw, count)
        self._norm_history.add(relative, self._pending, refreshed=self._refreshed)
        self._pending, self._refreshed = {}, False

    def _whole_history(self) -> NormHistory:
        """Return the norms of all steps, those since the last refresh included."""
        if not self._pending:
            return self._norm_history
        history = self._norm_history.copied()
        history.add(self._relative(), self._pending, refreshed=self._refreshed)
        return history

    def _settled(self, places: NDArray[np.int64]) -> Accounts:
        """Return a copy of the accounts at `places`, with the steps since the last refresh."""
        accounts = self._accounts.taken(places)
        if self._pending:
            relative = self._relative()[places]
            for (noise, draw), count in self._pending.items():
                accounts.add(relative, noise, draw, count)
        return accounts

    def _everyone(self) -> NDArray[np.int64]:
        return np.arange(self._dataset_size, dtype=np.int64)

    def get_epsilons(self, delta: float, executor: Executor | None = None) -> Floats:
        """Epsilon of each example at delta: private numbers.

        Parameters
        ----------
        delta : float
            In (0, 1).
        executor : concurrent.futures.Executor, optional
            Its workers, who then see the accounts, answer for parts of the examples; answers are the same to
            the last bit.

        Returns
        -------
        ndarray of float64, shape (n,)
            Upper bounds for these norms; whether they bound the examples' privacy says `is_guarantee`. With
            ``exact=True`` the least epsilon wherever its computation can be certified: relative 1e-9 above it
            for delta from 1e-5 on, 1e-6 for 1e-12 and after fewer than about a hundred steps. Elsewhere, for
            examples where few steps with small sample rates count if they have more than 256 different
            histories, and after more than 64 MB of norms, that of Rényi divergences. Norms below C / 2**20
            count as that.
            With ``exact=False`` that of Rényi divergences. Never more than `get_epsilon`, and equal to it for
            examples whose norm was always C.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1).
        TypeError
            If `delta` is not a real number.
        """
        check_executor(executor)
        return self._epsilons_of(self._everyone(), float_scalar(delta, "delta"), executor)

    def _epsilons_of(
        self, places: NDArray[np.int64], delta: float, executor: Executor | None = None
    ) -> Floats:
        """Epsilon of the examples at `places`."""
        worst = self.get_epsilon(delta)
        if self._exact and len(self) == 1:
            # A single step has a closed form, which needs no moments.
            lower, upper = np.zeros(len(places)), np.full(len(places), np.inf)
        elif executor is not None:
            parts = (places[part] for part in slices(len(places), SMALLEST_PART, BLOCK))
            jobs = ((self._settled(part), delta) for part in parts)
            bounds = list(ordered_map(executor, account_epsilons, jobs, check_account_epsilons))
            lower, upper = (np.concatenate(sides) for sides in zip(*bounds, strict=True))
        elif len(places) <= BLOCK and len(places) == self._dataset_size and not self._pending:
            lower, upper = self._accounts.epsilons(delta)
        else:
            # In blocks, because their accounts are copied.
            blocks = [places[start : start + BLOCK] for start in range(0, len(places), BLOCK)]
            bounds = [self._settled(block).epsilons(delta) for block in blocks]
            lower, upper = (np.concatenate(sides) for sides in zip(*bounds, strict=True))
        full = self._full[places]
        upper = np.where(full, worst, np.minimum(upper, worst))
        if self._exact:
            wide = np.flatnonzero(is_wide(lower, upper) & ~full)
            if wide.size:
                found = history_epsilon(self._whole_history(), places[wide], delta)
                upper[wide] = np.minimum(upper[wide], found)
        return upper

    def get_epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of any example, whatever its norms: that of DP-SGD with clipping norm C.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon; zero before the first step, inf after a step without noise.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1).
        TypeError
            If `delta` is not a real number.
        """
        return self._worst.get_epsilon(delta)

    def get_delta(self, epsilon: float) -> float:
        """Upper bound on delta of any example, whatever its norms.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.

        Returns
        -------
        float
            Delta in [0, 1].

        Raises
        ------
        ValueError
            If `epsilon` is out of range.
        TypeError
            If `epsilon` is not a real number.
        """
        return self._worst.get_delta(epsilon)

    def get_rdp(self) -> Floats:
        """Rényi divergences of each example's steps at `orders`: private numbers.

        Returns
        -------
        ndarray of float64, shape (n, n_orders)
            In nats; a copy.

        Raises
        ------
        ValueError
            If the accountant was made with ``exact=True``, which does not keep them.
        """
        accounts = self._settled(self._everyone())
        if not isinstance(accounts, RenyiAccounts):
            raise ValueError("exact must be False for accounts of Rényi divergences, got exact=True")
        return accounts.rdp

    def merge(self, other: IndividualAccountant) -> IndividualAccountant:
        """Take in the accounts of another shard of the same run, in place.

        Shards either hold different examples, which are then those of `other` after those of this
        accountant; or both stand for the whole data set, and each was given norms of its own examples only,
        by ``update_norms(norms, indices)`` and never without indices.

        Parameters
        ----------
        other : IndividualAccountant
            With the same settings, but for the size of the data set, and the same steps. It is not changed.

        Returns
        -------
        IndividualAccountant
            This accountant.

        Raises
        ------
        ValueError
            If settings or steps differ, or both shards have norms of the same example; both stay as they
            were.
        TypeError
            If `other` is not an IndividualAccountant.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> shards = [IndividualAccountant(2), IndividualAccountant(1)]
        >>> for shard, norms in zip(shards, ([0.1, 0.2], [0.3])):
        ...     shard.update_norms(norms)
        ...     shard.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> shards[0].merge(shards[1]).dataset_size
        3
        """
        if not isinstance(other, IndividualAccountant):
            raise TypeError(f"other must be an IndividualAccountant, got {type(other).__name__}")
        self._flush()
        other._flush()
        for name, value in joined(self, other).items():
            setattr(self, name, value)
        return self

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Save the accountant as plain JSON types, with arrays as compressed text: private data.

        Parameters
        ----------
        destination : mutable mapping, optional
            Mapping to fill; a new dict if not given.

        Returns
        -------
        mutable mapping
            `destination`, with the keys "version", "mechanism", "settings", "history" and "accounts".
        """
        if destination is None:
            destination = {}
        accounts = self._settled(self._everyone()) if self._pending else self._accounts
        destination.update(to_state(self, accounts, self._whole_history()))
        return destination

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replace steps and accounts by saved ones.

        Parameters
        ----------
        state_dict : mapping
            What `state_dict` returned for an accountant with the same settings.

        Raises
        ------
        ValueError
            If the state is damaged, of other settings or of a newer version, a part has the wrong type, or
            it is larger than a state can be; the accountant stays as it was.
        """
        with refusals():
            check_limits(state_dict, examples=self._dataset_size)
            self._take_state(state_dict)

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        """Replace what the accountant has by a state that is no larger than it may be."""
        for name, value in from_state(self, state_dict).items():
            setattr(self, name, value)

    def _settings(self) -> dict[str, Any]:
        return {
            "dataset_size": self._dataset_size,
            "max_grad_norm": self._max_grad_norm,
            "orders": self._orders.tolist(),
            "exact": self._exact,
            "rounding": self._rounding,
            "individual_clipping": self._individual_clipping,
        }

    def _whose(self) -> str:
        return "each example on its own"

    def _status(self) -> str:
        kind = "guarantees for" if self._is_guarantee else "estimates of"
        return (
            f"{kind} single examples (private; shown by get_epsilons alone); get_epsilon bounds all of them"
        )

    def _sampling(self) -> str:
        return self._worst._sampling()

    def _summary(self) -> str:
        kind = "guarantee" if self._is_guarantee else "estimate"
        return f"<IndividualAccountant of {self._dataset_size} examples after {len(self)} steps, {kind}>"
