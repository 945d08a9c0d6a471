"""What happens in training: new norms, and steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import float_vector
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants._history import with_step
from hockeystick.accountants._individual.deferred import complete
from hockeystick.accountants._individual.norms import check_norms, rounded_up
from hockeystick.accountants._individual.state import IndividualState, check_indices, read_only


def replace_norms(state: IndividualState, norms: ArrayLike, indices: ArrayLike | None) -> None:
    """Replace the norms of all examples, or of those at `indices`, for the steps to come."""
    values = float_vector(norms, "norms")
    places = None if indices is None else check_indices(indices, state.dataset_size)
    count = state.dataset_size if places is None else len(places)
    if len(values) != count:
        raise ValueError(f"norms must have one entry for each of {count} examples, got {len(values)}")
    check_norms(values)
    if state.settings.rounding is not None:
        values = rounded_up(values, state.settings.rounding)
    values = np.minimum(values, state.settings.max_grad_norm)
    complete(state)
    chosen = slice(None) if places is None else places
    replaced = state.norms.copy()
    replaced[chosen] = values
    state.norms = read_only(replaced)
    state.refreshed = True
    state.by_indices = places is not None and (state.by_indices or not np.any(state.known))
    state.fresh[chosen] = True
    state.known[chosen] = True


def record_steps(state: IndividualState, noise: float, draw: float | Sampling, count: int) -> None:
    """Record equal steps with the norms of the moment; nothing changes if such steps are refused.

    Answers are guarantees as long as the norm of each example was given for each step on its own, or was the
    full norm C, or training clips the example to its norm.
    """
    worst_case = state.worst_case
    if isinstance(draw, float):
        worst_case.step(noise_multiplier=noise, sample_rate=draw)
    else:
        worst_case.step(noise_multiplier=noise, sampling=draw)
    if count > 1:
        with_step(worst_case.history, noise, draw, count - 1)
    full = state.norms >= state.settings.max_grad_norm
    is_first = not state.recent
    if not state.settings.individual_clipping and state.is_guarantee:
        has_own_norms = state.fresh | full if is_first and count == 1 else full
        state.is_guarantee = bool(np.all(has_own_norms))
    if is_first:
        state.full &= full
    state.fresh[:] = False
    for steps in (state.recent, state.deferred):
        steps[noise, draw] = steps.get((noise, draw), 0) + count
