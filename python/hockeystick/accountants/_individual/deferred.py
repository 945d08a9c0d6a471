"""Steps that are recorded and not yet in the accounts.

Accounts take any number of equal steps at once, for the price of one. So steps are counted until norms
change or accounts are merged; a question in between is answered from copies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hockeystick.accountants._individual.accounts import Accounts
from hockeystick.accountants._individual.norm_history import NormHistory
from hockeystick.accountants._individual.state import IndividualState, everyone


def complete(state: IndividualState) -> None:
    """Add all steps to the accounts and to the history of norms.

    An interrupted addition of one kind of steps leaves the accounts as they were. If the interruption comes
    between the addition and its removal from `deferred`, these steps count twice.
    """
    if not state.recent:
        return
    relative = state.relative_norms()
    while state.deferred:
        (noise, draw), count = next(iter(state.deferred.items()))
        state.accounts.add(relative, noise, draw, count)
        del state.deferred[noise, draw]
    state.norm_history.add(relative, state.recent, refreshed=state.refreshed)
    state.recent, state.refreshed = {}, False


def complete_norm_history(state: IndividualState) -> NormHistory:
    """Return the norms of all steps, recent ones included; the state is left as it is."""
    if not state.recent:
        return state.norm_history
    history = state.norm_history.copied()
    history.add(state.relative_norms(), state.recent, refreshed=state.refreshed)
    return history


def accounts_at(state: IndividualState, places: NDArray[np.int64]) -> Accounts:
    """Return a copy of the accounts of the examples at `places`, with all steps."""
    accounts = state.accounts.taken(places)
    if state.deferred:
        relative = state.relative_norms(places)
        for (noise, draw), count in state.deferred.items():
            accounts.add(relative, noise, draw, count)
    return accounts


def complete_accounts(state: IndividualState) -> Accounts:
    """Return the accounts of all examples with all steps: copies if some steps are deferred."""
    return accounts_at(state, everyone(state)) if state.deferred else state.accounts
