"""The saved form of an IndividualAccountant: plain JSON types, checked before anything is replaced."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._arguments import shown
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._history import AnySegment, check_draw, check_history, merged
from hockeystick.accountants._individual.accounts import Accounts, ExactAccounts, RenyiAccounts
from hockeystick.accountants._individual.deferred import complete_accounts, complete_norm_history
from hockeystick.accountants._individual.norm_history import NormHistory
from hockeystick.accountants._individual.state import IndividualState, read_only
from hockeystick.accountants._packing import packed, unpacked
from hockeystick.accountants._state import check_keys, history_from_state, segment_to_json, segments_from_json
from hockeystick.accountants._state import to_state as history_to_state

FLAGS = ("is_guarantee", "by_indices", "refreshed")
"""True or false for all examples together."""

ARRAYS = {"fresh": "|b1", "known": "|b1", "full": "|b1", "norms": "<f8"}
"""One entry for each example."""

RENYI_KEYS = ("rdp",)
EXACT_KEYS = ("gaussian", "moments", "places", "rates", "telling")
"""Parts of the accounts; "telling" marks examples with a step that shows whether they took part."""


def to_json(state: IndividualState, mechanism: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """State of all steps, of plain JSON types, for an accountant of this name with these settings."""
    saved = history_to_state(mechanism, settings, list(state.worst_case.history))
    flags = {name: getattr(state, name) for name in FLAGS}
    # What is saved has no recent steps: they are in the history of norms.
    flags["refreshed"] = state.refreshed and not state.recent
    saved["accounts"] = {
        **flags,
        **{name: packed(getattr(state, name)) for name in ARRAYS},
        "norm_history": complete_norm_history(state).state(segment_to_json),
        "accounts": complete_accounts(state).state(),
    }
    saved["accounts"]["checksum"] = _checksum(saved)
    return saved


def _checksum(saved: Mapping[str, Any]) -> str:
    """Checksum of all parts but itself."""
    parts = {key: value for key, value in saved.items() if key != "accounts"}
    parts["accounts"] = {key: value for key, value in saved["accounts"].items() if key != "checksum"}
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"state is damaged: it holds a {type(value).__name__}")


def from_json(
    saved: object, state: IndividualState, mechanism: str, settings: Mapping[str, Any]
) -> IndividualState:
    """Return the state that `saved` holds, for an accountant whose present state is `state`.

    Raises
    ------
    ValueError
        If it is damaged, or of another accountant.
    TypeError
        If a part of it has the wrong type.
    """
    if not isinstance(saved, Mapping):
        raise TypeError(f"state must be a mapping, got {type(saved).__name__}")
    if "accounts" not in saved:
        raise ValueError("state must have the key 'accounts'")
    parts = saved["accounts"]
    history: list[Any] = history_from_state(
        {key: value for key, value in saved.items() if key != "accounts"}, mechanism, settings, _checked
    )
    worst_case = GroupAccountant()
    worst_case.history = history
    expected = (*ARRAYS, *FLAGS, "norm_history", "accounts", "checksum")
    check_keys(parts, tuple(sorted(expected)), "accounts")
    flags, arrays = _flags(parts), _arrays(parts, state)
    loaded = IndividualState(
        settings=state.settings,
        worst_case=worst_case,
        norm_history=_norm_history(parts["norm_history"], state.dataset_size, history),
        accounts=_accounts(parts["accounts"], state),
        norms=arrays["norms"],
        fresh=arrays["fresh"],
        known=arrays["known"],
        full=arrays["full"],
        by_indices=flags["by_indices"],
        refreshed=flags["refreshed"],
        is_guarantee=flags["is_guarantee"],
        recent={},
        deferred={},
    )
    if parts["checksum"] != _checksum(saved):
        raise ValueError("state is damaged: its parts do not have the checksum that they were saved with")
    return loaded


def _flags(parts: Mapping[str, Any]) -> dict[str, bool]:
    for name in FLAGS:
        if not isinstance(parts[name], bool):
            raise TypeError(f"{name} must be a bool, got {shown(parts[name])}")
    return {name: parts[name] for name in FLAGS}


def _arrays(parts: Mapping[str, Any], state: IndividualState) -> dict[str, NDArray[Any]]:
    shape = (state.dataset_size,)
    arrays = {name: unpacked(parts[name], name, kind, shape) for name, kind in ARRAYS.items()}
    norms, largest = arrays["norms"], state.settings.max_grad_norm
    if not np.all((norms >= 0.0) & (norms <= largest)):
        raise ValueError(f"norms must be in [0, {largest}]: the saved ones are damaged")
    read_only(norms)
    return arrays


def _norm_history(saved: object, dataset_size: int, history: list[AnySegment]) -> NormHistory:
    """Return the saved norms, which must be those of the steps of `history`."""
    norms = NormHistory.from_state(saved, dataset_size, _segments)
    if norms.counts() != {(noise, draw): count for noise, draw, count in merged(history)}:
        raise ValueError("norm_history must have the steps of the history, got others")
    return norms


def _accounts(saved: Any, state: IndividualState) -> Accounts:
    check_keys(saved, EXACT_KEYS if state.settings.exact else RENYI_KEYS, "accounts")
    if state.settings.exact:
        return ExactAccounts.from_state(saved, state.dataset_size)
    return RenyiAccounts.from_state(saved, state.dataset_size, state.settings.orders)


def _checked(segments: object) -> list[Any]:
    return check_history(segments, noise=check_noise_multiplier, draw=check_draw)


def _segments(saved: object, name: str) -> list[Any]:
    segments = segments_from_json(saved, name)
    return check_history(segments, name, noise=check_noise_multiplier, draw=check_draw)
