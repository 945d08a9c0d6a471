"""Individual accounting: every example's own epsilon, from the norms of its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import Floats, float_scalar, require
from hockeystick._executors import check_executor
from hockeystick._progress import Report, reporting
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Poisson, Sampling
from hockeystick.accountants._history import check_gaussian_step
from hockeystick.accountants._individual.accounts import RenyiAccounts
from hockeystick.accountants._individual.answers import epsilons_of
from hockeystick.accountants._individual.certifying import CertifiesExamples
from hockeystick.accountants._individual.deferred import accounts_at
from hockeystick.accountants._individual.groups import Owners, group_epsilon, user_epsilons
from hockeystick.accountants._individual.merging import check_settings_agree, joined
from hockeystick.accountants._individual.recording import record_steps, replace_norms
from hockeystick.accountants._individual.saving import from_json, to_json
from hockeystick.accountants._individual.state import check_indices, check_settings, empty_state, everyone
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._repeating import repeatable


class IndividualAccountant(CertifiesExamples, Accountant):
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
        Whether to store everything that each example's privacy loss depends on, so that `get_epsilons` is its
        exact epsilon; otherwise Rényi divergences are stored.
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

    `get_epsilon` and `get_delta` bound every example, whatever its norms: they are those of DP-SGD with
    clipping norm C, and may be published.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

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
    >>> accountant.dataset_size, accountant.max_grad_norm, accountant.norms.tolist()
    (3, 1.0, [0.1, 0.5, 1.0])
    >>> accountant.exact, len(accountant.orders), accountant.rounding, accountant.individual_clipping
    (True, 151, None, False)
    >>> accountant.history, accountant.mechanism()
    ([(1.0, 0.01, 1000)], 'individual')
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
        settings = check_settings(max_grad_norm, orders, exact, rounding, individual_clipping)
        self._state = empty_state(dataset_size, settings)

    @property
    def dataset_size(self) -> int:
        """Number of examples."""
        return self._state.dataset_size

    @property
    def max_grad_norm(self) -> float:
        """Clipping norm C."""
        return self._state.settings.max_grad_norm

    @property
    def orders(self) -> Floats:
        """Rényi orders of the accounts for ``exact=False``."""
        return self._state.settings.orders

    @property
    def exact(self) -> bool:
        """Whether accounts keep the whole privacy loss."""
        return self._state.settings.exact

    @property
    def rounding(self) -> float | None:
        """Norms are rounded up to multiples of this."""
        return self._state.settings.rounding

    @property
    def individual_clipping(self) -> bool:
        """Whether training clips each example to its own norm."""
        return self._state.settings.individual_clipping

    @property
    def norms(self) -> Floats:
        """Norm that the next step charges each example for, at most C, shape (n,); read-only and private."""
        return self._state.norms

    @property
    def is_guarantee(self) -> bool:
        """Whether `get_epsilons` bounds the privacy of every example, rather than estimating it.

        True if all steps had norms of their own (K = 1) or the full norm C, or with `individual_clipping`.
        """
        return self._state.is_guarantee

    @property
    def history(self) -> list[Any]:
        """Steps so far as a list of (noise_multiplier, sampling, num_steps); a copy."""
        return list(self._state.worst_case.history)

    @history.setter
    def history(self, segments: list[Any]) -> None:
        raise ValueError(
            "history of an IndividualAccountant must stay as it is, got other steps: norms belong to its own"
        )

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return len(self._state.worst_case)

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

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(3)
        >>> accountant.update_norms([0.5, 7.0], indices=[2, 0])
        >>> accountant.norms.tolist()
        [1.0, 1.0, 0.5]
        """
        replace_norms(self._state, norms, indices)

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | str | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
        epochs: float | None = None,
        steps: int = 1,
    ) -> None:
        """Record one step, several equal ones, or all of a run, with the norms of the moment.

        Parameters
        ----------
        run : Run, optional
            A whole run, in place of all other arguments, as in `Accountant.step`.
        noise_multiplier : float
            Standard deviation of the noise in units of the clipping norm C, at least zero.
        sample_rate : float, optional
            Probability in [0, 1] that an example is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson, WithoutReplacement or FullBatch, optional
            How the batch is drawn. Give either this or `sample_rate`. Of several Poisson batches that are
            added up, `get_epsilon` is exact; examples' own epsilons are those of as many steps with a part of
            the noise each, which is an upper bound.
        batch_size, dataset_size, epochs : optional
            As in `Accountant.step`; `dataset_size` is that of the accountant.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, or not exactly one of `sample_rate` and `sampling` is given;
            the accountant stays as it was.

        Examples
        --------
        >>> import hockeystick as hs
        >>> accountant = hs.accountants.IndividualAccountant(1000)
        >>> accountant.step(noise_multiplier=1.0, sampling=hs.WithoutReplacement(10, 1000))
        >>> len(accountant)
        1
        """
        self._record(*check_gaussian_step(noise_multiplier, sample_rate, sampling))

    def _record(self, noise: Any, draw: Any) -> None:
        record_steps(self._state, noise, draw, 1)

    def _again(self, count: int) -> None:
        noise, draw, _ = self.history[-1]
        record_steps(self._state, noise, draw, count)

    def _accumulated(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        self.step(noise_multiplier=noise_multiplier, sampling=Poisson(sample_rate, microbatches=batches))

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
            for delta from 1e-5 on, 1e-6 for 1e-12 and after fewer than about a hundred steps. It cannot be
            after few steps with small sample rates, if more than 256 histories differ there, nor after more
            than 64 MB of norms: epsilon is then that of Rényi divergences, as it always is with
            ``exact=False``. Norms below C / 2**20 count as that. Never more than `get_epsilon`, and equal to
            it for examples whose norm was always C.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1).
        TypeError
            If `delta` is not a real number.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(2)
        >>> accountant.update_norms([0.5, 1.0])
        >>> for _ in range(1000):
        ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> accountant.get_epsilons(1e-5).round(4).tolist()
        [0.622, 1.8282]
        """
        check_executor(executor)
        return epsilons_of(self._state, everyone(self._state), float_scalar(delta, "delta"), executor)

    def _epsilon(self, delta: float) -> float:
        return self._state.worst_case.get_epsilon(delta)

    def _delta(self, epsilon: float) -> float:
        return self._state.worst_case.get_delta(epsilon)

    def get_group_epsilon(self, members: ArrayLike, delta: float) -> float:
        """Upper bound on epsilon of several examples together, such as all those of one person.

        Parameters
        ----------
        members : array_like of int, shape (k,)
            The examples, each once.
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Of the exact curve of the members' norms (GROUP, Lemma 14, for a group whose members differ;
            gradients may all point the same way). More than eight members' norms are rounded up to multiples
            of C / 2**m with at most 2,000 different sums. After very many refreshes (more than 64 MB of
            norms) the largest norm of each member counts for every step. Batches of a fixed size count every
            member with the full norm. A private number.

        Raises
        ------
        ValueError
            If `members` is empty, names an unknown example or one twice, or `delta` is not in (0, 1).
        TypeError
            If an argument is not real.

        References
        ----------
        S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
        Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(3)
        >>> accountant.update_norms([0.1, 0.5, 0.2])
        >>> for _ in range(1000):
        ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> round(accountant.get_group_epsilon([0, 2], 1e-5), 3)
        0.327
        """
        level = float_scalar(delta, "delta")
        places = check_indices(members, self.dataset_size, "members")
        require(places.size > 0, "members", "an empty array", "at least one example")
        return group_epsilon(self._state, places, level)

    def get_user_epsilons(
        self, user_ids: ArrayLike, delta: float, *, progress: Report | bool | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Epsilon of each user of a data set, all of whose examples are added or removed together.

        Parameters
        ----------
        user_ids : array_like, shape (n,)
            Who owns each example: numbers or strings.
        delta : float
            In (0, 1).
        progress : callable or bool, optional
            Called with (done, total) after each user with several examples; True for a progress bar.

        Returns
        -------
        users : ndarray, shape (n_users,)
            The different ids, sorted.
        epsilons : ndarray of float64, shape (n_users,)
            Those of `get_epsilons` for users with one example, of `get_group_epsilon` for others. Private
            numbers.

        Raises
        ------
        ValueError
            If there is not one id for each example, or `delta` is not in (0, 1).
        TypeError
            If `delta` is not a real number.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(3)
        >>> accountant.update_norms([0.1, 0.5, 0.2])
        >>> for _ in range(1000):
        ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> users, epsilons = accountant.get_user_epsilons(["ada", "bob", "ada"], 1e-5)
        >>> users.tolist(), epsilons.round(3).tolist()
        (['ada', 'bob'], [0.327, 0.622])
        """
        level = float_scalar(delta, "delta")
        owners = Owners(user_ids, self.dataset_size)
        with reporting(progress, "users") as report:
            return owners.users, user_epsilons(self._state, owners, level, report)

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

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(3, orders=[2.0, 8.0], exact=False)
        >>> accountant.update_norms([0.0, 0.5, 1.0])
        >>> accountant.step(noise_multiplier=1.0, sample_rate=1.0)
        >>> accountant.get_rdp().round(9).tolist()  # order * norm**2 / 2
        [[0.0, 0.0], [0.25, 1.0], [1.0, 4.0]]
        """
        accounts = accounts_at(self._state, everyone(self._state))
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
        check_settings_agree(self._settings(), other._settings())
        self._state = joined(self._state, other._state)
        return self

    def _saved(self) -> dict[str, Any]:
        return to_json(self._state, self.mechanism(), self._settings())

    def _single_examples(self) -> int:
        return self.dataset_size

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        self._state = from_json(state_dict, self._state, self.mechanism(), self._settings())

    def _settings(self) -> dict[str, Any]:
        return {"dataset_size": self.dataset_size, **self._state.settings.plain()}

    def _whose(self) -> str:
        return "each example on its own"

    def _status(self) -> str:
        kind = "guarantees for" if self.is_guarantee else "estimates of"
        return (
            f"{kind} single examples (private; shown by get_epsilons alone); get_epsilon bounds all of them"
        )

    def _sampling(self) -> str:
        return self._state.worst_case._sampling()

    def _summary(self) -> str:
        kind = "guarantee" if self.is_guarantee else "estimate"
        return f"<IndividualAccountant of {self.dataset_size} examples after {len(self)} steps, {kind}>"
