"""Accounts of two shards as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Counts, shown

if TYPE_CHECKING:
    from hockeystick.accountants.individual import IndividualAccountant


def joined(first: IndividualAccountant, second: IndividualAccountant) -> dict[str, Any]:
    """Return the attributes of an accountant of both shards, whose steps have all been added to the accounts.

    Raises
    ------
    ValueError
        If settings or steps differ, or both shards have norms of the same example.
    """
    mine, theirs = first._settings(), second._settings()
    for name, value in mine.items():
        if name != "dataset_size" and theirs[name] != value:
            raise ValueError(f"{name} of both must be the same, got {shown(value)} and {shown(theirs[name])}")
    if first.history != second.history:
        histories = f"{shown(first.history)} and {shown(second.history)}"
        raise ValueError(f"history of both must be the same, got {histories}")
    own = _places(first, second)

    def mixed(name: str) -> NDArray[Any]:
        here, there = getattr(first, name), getattr(second, name)
        result: NDArray[Any] = here[np.where(own >= 0, own, 0)]
        result[own < 0] = there[-1 - own[own < 0]]
        return result

    norms = mixed("_norms")
    norms.flags.writeable = False
    return {
        "_accounts": first._accounts.mixed(second._accounts, own),
        "_norms": norms,
        **{name: mixed(name) for name in ("_fresh", "_known", "_full")},
        "_by_indices": first._by_indices and second._by_indices,
        "_refreshed": first._refreshed,
        "_is_guarantee": first._is_guarantee and second._is_guarantee,
        "_norm_history": first._norm_history.joined(second._norm_history, own),
        "_dataset_size": len(own),
    }


def _places(first: IndividualAccountant, second: IndividualAccountant) -> Counts:
    """Where the examples of both stand: at an index in the first, or at -1 - index in the second."""
    size = first.dataset_size
    have = (first._known, second._known)
    if size == second.dataset_size and first._by_indices and second._by_indices:
        twice = np.flatnonzero(have[0] & have[1])
        if twice.size:
            raise ValueError(
                f"each example must have norms in one shard only, got example {twice[0]} in both"
            )
        places = np.arange(size, dtype=np.int64)
        return np.where(have[1], -1 - places, places)
    there = -1 - np.arange(second.dataset_size, dtype=np.int64)
    return np.concatenate((np.arange(size, dtype=np.int64), there))
