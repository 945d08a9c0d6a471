"""The states of two shards of a run as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Counts, shown
from hockeystick.accountants._individual.deferred import complete
from hockeystick.accountants._individual.state import IndividualState, read_only


def check_settings_agree(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if settings other than the size of the data set differ."""
    for name, value in first.items():
        if name != "dataset_size" and second[name] != value:
            raise ValueError(f"{name} of both must be the same, got {shown(value)} and {shown(second[name])}")


def joined(first: IndividualState, second: IndividualState) -> IndividualState:
    """Return one state of the examples of both shards, which have the same settings.

    Steps that either has deferred are added to its accounts; otherwise both stay as they are.

    Raises
    ------
    ValueError
        If steps differ, or both shards have norms of the same example.
    """
    complete(first)
    complete(second)
    if first.worst_case.history != second.worst_case.history:
        histories = f"{shown(first.worst_case.history)} and {shown(second.worst_case.history)}"
        raise ValueError(f"history of both must be the same, got {histories}")
    own = _places(first, second)

    def rows(here: NDArray[Any], there: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of `here` or `there` that make up the joined accounts."""
        result: NDArray[Any] = here[np.where(own >= 0, own, 0)]
        result[own < 0] = there[-1 - own[own < 0]]
        return result

    return IndividualState(
        settings=first.settings,
        worst_case=first.worst_case,
        accounts=first.accounts.mixed(second.accounts, own),
        norm_history=first.norm_history.joined(second.norm_history, own),
        norms=read_only(rows(first.norms, second.norms)),
        fresh=rows(first.fresh, second.fresh),
        known=rows(first.known, second.known),
        full=rows(first.full, second.full),
        by_indices=first.by_indices and second.by_indices,
        refreshed=first.refreshed or second.refreshed,
        is_guarantee=first.is_guarantee and second.is_guarantee,
        recent={},
        deferred={},
    )


def _places(first: IndividualState, second: IndividualState) -> Counts:
    """Where each example stands: at an index in the first shard, or at -1 - index in the second."""
    size = first.dataset_size
    if size == second.dataset_size and first.by_indices and second.by_indices:
        twice = np.flatnonzero(first.known & second.known)
        if twice.size:
            raise ValueError(
                f"each example must have norms in one shard only, got example {twice[0]} in both"
            )
        places = np.arange(size, dtype=np.int64)
        return np.where(second.known, -1 - places, places)
    there = -1 - np.arange(second.dataset_size, dtype=np.int64)
    return np.concatenate((np.arange(size, dtype=np.int64), there))
