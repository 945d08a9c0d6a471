"""The saved form of an accountant: plain JSON types, with a version, checked when read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hockeystick._arguments import count_scalar
from hockeystick.accountants.history import check_history

if TYPE_CHECKING:
    from typing import Any

    from hockeystick.accountants.history import Segment

VERSION = 1
"""Version of the saved form; a reader refuses a newer one."""

KEYS = ("version", "mechanism", "settings", "history")


def to_state(mechanism: str, settings: Mapping[str, Any], history: list[Segment]) -> dict[str, Any]:
    """State of dicts, lists, strings and numbers only; ``json`` keeps every float exactly."""
    return {
        "version": VERSION,
        "mechanism": mechanism,
        "settings": dict(settings),
        "history": [list(segment) for segment in history],
    }


def history_from_state(state: object, mechanism: str, settings: Mapping[str, Any]) -> list[Segment]:
    """Return the checked history of `state`, saved by an accountant with these settings.

    Raises
    ------
    ValueError
        If a key is missing or foreign, the version is newer, the mechanism or a setting is another
        one, or a number is out of range.
    TypeError
        If `state` or a part of it has the wrong type.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a mapping, got {type(state).__name__}")
    _check_keys(state, KEYS, "state")
    version = count_scalar(state["version"], "version", 1)
    if version > VERSION:
        raise ValueError(f"state has version {version}, this version of hockeystick reads up to {VERSION}")
    if state["mechanism"] != mechanism:
        raise ValueError(f"mechanism must be {mechanism!r}, got {state['mechanism']!r}")
    _check_settings(state["settings"], settings)
    return check_history(state["history"])


def _check_settings(found: object, expected: Mapping[str, Any]) -> None:
    if not isinstance(found, Mapping):
        raise TypeError(f"settings must be a mapping, got {type(found).__name__}")
    _check_keys(found, tuple(expected), "settings")
    for name, value in expected.items():
        if found[name] != value:
            raise ValueError(
                f"{name} of the saved accountant is {found[name]!r}, of this one {value!r}: "
                f"load the state into an accountant made with {name}={found[name]!r}"
            )


def _check_keys(found: Mapping[Any, Any], expected: tuple[str, ...], name: str) -> None:
    missing = [key for key in expected if key not in found]
    foreign = [key for key in found if key not in expected]
    if missing or foreign:
        raise ValueError(f"{name} must have the keys {list(expected)}: missing {missing}, foreign {foreign}")
