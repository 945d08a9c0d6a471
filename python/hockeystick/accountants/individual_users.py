"""What an IndividualAccountant says of several examples together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import Floats, float_scalar, require
from hockeystick._progress import Report, reporting
from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.individual_groups import Owners, group_curve
from hockeystick.accountants.norm_history import NormHistory


class GroupQuestions:
    """Epsilon of groups of examples with norms and histories of their own."""

    if TYPE_CHECKING:
        _dataset_size: int

        @property
        def history(self) -> list[Any]:
            """Of the accountant."""

        def _whole_history(self) -> NormHistory: ...
        def _check_indices(self, indices: ArrayLike, name: str = ...) -> NDArray[np.int64]: ...
        def _epsilons_of(self, places: NDArray[np.int64], delta: float) -> Floats: ...

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
        """
        level = float_scalar(delta, "delta")
        places = self._check_indices(members, "members")
        require(places.size > 0, "members", "an empty array", "at least one example")
        return self._group_epsilon(self._whole_history(), places, level)

    def _group_epsilon(self, history: NormHistory, places: NDArray[np.int64], delta: float) -> float:
        if len(places) == 1:
            return float(self._epsilons_of(places, delta)[0])
        full = GroupAccountant(len(places))
        full.history = self.history
        found = float(group_curve(history, places).epsilon(delta))
        return min(found, full.get_epsilon(delta))

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
        owners = Owners(user_ids, self._dataset_size)
        epsilons = np.zeros(len(owners.users))
        alone, places = owners.alone()
        several = owners.several()
        history = self._whole_history()
        with reporting(progress, "users") as report:
            if places.size:
                epsilons[alone] = self._epsilons_of(places, level)
            for done, (user, members) in enumerate(several, 1):
                epsilons[user] = self._group_epsilon(history, members, level)
                if report is not None:
                    report(done, len(several))
        return owners.users, epsilons
