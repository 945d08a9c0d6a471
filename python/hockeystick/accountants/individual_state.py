"""The saved form of an IndividualAccountant: plain JSON types, checked before anything is replaced."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._arguments import shown
from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.history import check_draw, check_history, merged
from hockeystick.accountants.individual_accounts import Accounts, ExactAccounts, RenyiAccounts
from hockeystick.accountants.norm_history import NormHistory
from hockeystick.accountants.packing import packed, unpacked
from hockeystick.accountants.state import check_keys, history_from_state, segment_to_json, segments_from_json
from hockeystick.accountants.state import to_state as history_to_state
from hockeystick.mechanisms import check_noise_multiplier

if TYPE_CHECKING:
    from hockeystick.accountants.individual import IndividualAccountant

FLAGS = ("is_guarantee", "by_indices", "refreshed")
"""True or false for all."""

ARRAYS = {"fresh": "|b1", "known": "|b1", "full": "|b1", "norms": "<f8"}
"""One entry for each example."""


def to_state(accountant: IndividualAccountant, accounts: Accounts, norms: NormHistory) -> dict[str, Any]:
    """State of an accountant, with accounts and norms of all steps."""
    state = history_to_state(accountant.mechanism(), accountant._settings(), accountant.history)
    flags = {name: getattr(accountant, f"_{name}") for name in FLAGS}
    # Steps since the last refresh are in the norms now.
    flags["refreshed"] = accountant._refreshed and not accountant._pending
    state["accounts"] = {
        **flags,
        **{name: packed(getattr(accountant, f"_{name}")) for name in ARRAYS},
        "norm_history": norms.state(segment_to_json),
        "accounts": accounts.state(),
    }
    state["accounts"]["checksum"] = _checksum(state)
    return state


def _checksum(state: Mapping[str, Any]) -> str:
    """Checksum of all parts but itself."""
    parts = {key: value for key, value in state.items() if key != "accounts"}
    parts["accounts"] = {key: value for key, value in state["accounts"].items() if key != "checksum"}
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"state is damaged: it holds a {type(value).__name__}")


def from_state(accountant: IndividualAccountant, state: object) -> dict[str, Any]:
    """Return the attributes that `state` stands for; raises before anything is changed.

    Raises
    ------
    ValueError
        If the state is damaged, or of another accountant.
    TypeError
        If a part of it has the wrong type.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a mapping, got {type(state).__name__}")
    if "accounts" not in state:
        raise ValueError("state must have the key 'accounts'")
    accounts = state["accounts"]
    worst = GroupAccountant()
    rest = {key: value for key, value in state.items() if key != "accounts"}
    steps_so_far: list[Any] = history_from_state(
        rest, accountant.mechanism(), accountant._settings(), _checked
    )
    worst.history = steps_so_far
    wanted = sorted((*ARRAYS, *FLAGS, "norm_history", "accounts", "checksum"))
    check_keys(accounts, tuple(wanted), "accounts")
    for name in FLAGS:
        if not isinstance(accounts[name], bool):
            raise TypeError(f"{name} must be a bool, got {shown(accounts[name])}")
    size = accountant.dataset_size
    arrays = {name: unpacked(accounts[name], name, kind, (size,)) for name, kind in ARRAYS.items()}
    norms = arrays["norms"]
    if not np.all((norms >= 0.0) & (norms <= accountant.max_grad_norm)):
        raise ValueError(f"norms must be in [0, {accountant.max_grad_norm}]: the saved ones are damaged")
    norms.flags.writeable = False
    history = NormHistory.from_state(accounts["norm_history"], size, _segments)
    if history.counts() != {(noise, draw): count for noise, draw, count in merged(steps_so_far)}:
        raise ValueError("norm_history must have the steps of the history, got others")
    saved = accounts["accounts"]
    keys = {"rdp"} if not accountant.exact else {"rates", "gaussian", "telling", "places", "moments"}
    check_keys(saved, tuple(sorted(keys)), "accounts")
    kept = (
        ExactAccounts.from_state(saved, size)
        if accountant.exact
        else RenyiAccounts.from_state(saved, size, accountant.orders)
    )
    if accounts["checksum"] != _checksum(state):
        raise ValueError("state is damaged: its parts do not have the checksum that they were saved with")
    return {
        **{f"_{name}": array for name, array in arrays.items()},
        **{f"_{name}": accounts[name] for name in FLAGS},
        "_norm_history": history,
        "_accounts": kept,
        "_worst": worst,
        "_pending": {},
    }


def _checked(segments: object) -> list[Any]:
    return check_history(segments, noise=check_noise_multiplier, draw=check_draw)


def _segments(saved: object, name: str) -> list[Any]:
    segments = segments_from_json(saved, name)
    return check_history(segments, name, noise=check_noise_multiplier, draw=check_draw)
