"""Epsilon of each example on its own."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import Floats
from hockeystick._executors import ordered_map, slices
from hockeystick.accountants._individual.accounts import account_epsilons, check_account_epsilons
from hockeystick.accountants._individual.deferred import accounts_at, complete_norm_history
from hockeystick.accountants._individual.histories import history_epsilon, is_wide
from hockeystick.accountants._individual.state import IndividualState, everyone

BLOCK = 2**16
"""Examples whose accounts are copied at once."""

SMALLEST_PART = 2**13
"""Examples that are worth a message to a worker, who needs half a second for what all of them share."""


def epsilons_of(
    state: IndividualState, places: NDArray[np.int64], delta: float, executor: Executor | None = None
) -> Floats:
    """Upper bounds on epsilon of the examples at `places`.

    The accounts bound each example, its history of norms may bound it more closely where an account cannot be
    certified, and the worst case bounds all of them.
    """
    worst = state.worst_case.get_epsilon(delta)
    lower, upper = _account_bounds(state, places, delta, executor)
    full = state.full[places]
    upper = np.where(full, worst, np.minimum(upper, worst))
    if state.settings.exact:
        wide = np.flatnonzero(is_wide(lower, upper) & ~full)
        if wide.size:
            found = history_epsilon(complete_norm_history(state), places[wide], delta)
            upper[wide] = np.minimum(upper[wide], found)
    return upper


def _account_bounds(
    state: IndividualState, places: NDArray[np.int64], delta: float, executor: Executor | None
) -> tuple[Floats, Floats]:
    """Lower and upper bounds on epsilon from the accounts of the examples at `places`."""
    if state.settings.exact and len(state.worst_case) == 1:
        # A single step has a closed form, which needs no moments.
        return np.zeros(len(places)), np.full(len(places), np.inf)
    if executor is not None:
        parts = (places[part] for part in slices(len(places), SMALLEST_PART, BLOCK))
        jobs = ((accounts_at(state, part), delta) for part in parts)
        bounds = list(ordered_map(executor, account_epsilons, jobs, check_account_epsilons))
    elif not state.deferred and len(places) <= BLOCK and np.array_equal(places, everyone(state)):
        return state.accounts.epsilons(delta)
    else:
        # In blocks, because their accounts are copied.
        blocks = [places[start : start + BLOCK] for start in range(0, len(places), BLOCK)]
        bounds = [accounts_at(state, block).epsilons(delta) for block in blocks]
    lower, upper = (np.concatenate(sides) for sides in zip(*bounds, strict=True))
    return lower, upper
