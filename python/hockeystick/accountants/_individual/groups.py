"""Epsilon of several examples together, with the norms that each of them had."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import DEFAULT_TOLERANCE, Floats
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._progress import Report
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.sampling import Poisson, WithoutReplacement
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._individual.answers import epsilons_of
from hockeystick.accountants._individual.deferred import complete_norm_history
from hockeystick.accountants._individual.norm_history import NormHistory, StepParameters
from hockeystick.accountants._individual.state import IndividualState

MAX_DIFFERENT_NORMS = 8
"""Members whose norms are taken as they are: 256 different sums."""

MAX_SUMS = 2000
"""Different sums of the norms of larger groups."""


class Owners:
    """Who owns which examples.

    Parameters
    ----------
    user_ids : array_like, shape (count,)
        One id for each example.
    count : int
        Number of examples.

    Raises
    ------
    ValueError
        If there is not one id for each example.
    """

    def __init__(self, user_ids: ArrayLike, count: int) -> None:
        ids = np.asarray(user_ids)
        if ids.shape != (count,):
            raise ValueError(f"user_ids must have one id for each of {count} examples, got shape {ids.shape}")
        self.users, owners, self._counts = np.unique(ids, return_inverse=True, return_counts=True)
        self._order = np.argsort(owners, kind="stable")
        self._starts = np.concatenate(([0], np.cumsum(self._counts)))

    def alone(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return users with one example, and these examples."""
        users = np.flatnonzero(self._counts == 1)
        return users, self._order[self._starts[users]]

    def several(self) -> list[tuple[int, NDArray[np.int64]]]:
        """Return users with several examples, and these examples."""
        users = np.flatnonzero(self._counts > 1).tolist()
        return [(user, self._order[self._starts[user] : self._starts[user + 1]]) for user in users]


def group_epsilon(state: IndividualState, members: NDArray[np.int64], delta: float) -> float:
    """Upper bound on epsilon of the examples at `members` together."""
    return _epsilon_of_members(state, complete_norm_history(state), members, delta)


def user_epsilons(state: IndividualState, owners: Owners, delta: float, report: Report | None) -> Floats:
    """Upper bounds on epsilon of each user, all of whose examples are added or removed together."""
    epsilons = np.zeros(len(owners.users))
    alone, places = owners.alone()
    if places.size:
        epsilons[alone] = epsilons_of(state, places, delta)
    history = complete_norm_history(state)
    several = owners.several()
    for done, (user, members) in enumerate(several, 1):
        epsilons[user] = _epsilon_of_members(state, history, members, delta)
        if report is not None:
            report(done, len(several))
    return epsilons


def _epsilon_of_members(
    state: IndividualState, history: NormHistory, members: NDArray[np.int64], delta: float
) -> float:
    if len(members) == 1:
        return float(epsilons_of(state, members, delta)[0])
    worst_case = GroupAccountant(len(members))
    worst_case.history = state.worst_case.history
    found = float(group_curve(history, members).epsilon(delta))
    return min(found, worst_case.get_epsilon(delta))


def group_curve(history: NormHistory, places: NDArray[np.int64]) -> PrivacyCurve:
    """Curve of the members at `places` over the whole run."""
    return PrivacyCurve(_group_kinds(history, places), "add_remove", DEFAULT_TOLERANCE)


def _group_kinds(history: NormHistory, places: NDArray[np.int64]) -> dict[StepKind, int]:
    kinds: dict[StepKind, int] = {}
    for norms, steps in history:
        members = _coarsened(np.sort(norms[places]))
        for kind, count in steps.items():
            found = _group_kind(members, kind, len(places))
            if found is not None:
                kinds[found] = kinds.get(found, 0) + count
    return kinds


def _coarsened(norms: Floats) -> Floats:
    """`norms`, those of large groups rounded up to multiples of a power of 1/2."""
    seen = norms[norms > 0.0]
    if len(np.unique(seen)) <= 1 or len(seen) <= MAX_DIFFERENT_NORMS:
        return seen
    steps = 2.0 ** np.floor(np.log2(MAX_SUMS / len(seen)))
    return np.asarray(np.minimum(np.ceil(seen * steps) / steps, 1.0))


def _group_kind(norms: Floats, kind: StepParameters, size: int) -> StepKind | None:
    """One step of the group, None if its gradients are all zero in it and batches have no fixed size."""
    noise, draw = kind
    sampling = Poisson(draw) if isinstance(draw, float) else draw
    if isinstance(sampling, WithoutReplacement):
        # Every member in the batch pushes another example out. For members of norm one the pair is tight.
        return step_kind(noise_multiplier=noise, sampling=sampling, group_size=size)[0]
    if not len(norms):
        return None
    group = Group(norms=norms) if np.any(norms < 1.0) else Group(size=len(norms))
    return step_kind(noise_multiplier=noise, sampling=sampling, group=group)[0]
