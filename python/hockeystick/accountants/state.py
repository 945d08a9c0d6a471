"""The saved form of an accountant: plain JSON types, with a version, checked when read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from hockeystick._arguments import count_scalar
from hockeystick.accountants.history import check_history
from hockeystick.mechanisms import FAMILIES, as_core, check_mechanism

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hockeystick.accountants.history import AnySegment
    from hockeystick.mechanisms import Mechanism

VERSION = 1
"""Version of the saved form; a reader refuses a newer one."""

KEYS = ("version", "mechanism", "settings", "history")


def to_state(mechanism: str, settings: Mapping[str, Any], history: list[AnySegment]) -> dict[str, Any]:
    """State of dicts, lists, strings and numbers only; ``json`` keeps every float exactly.

    Noise is a noise multiplier, or a dict with the family of a mechanism and its arguments.
    """
    return {
        "version": VERSION,
        "mechanism": mechanism,
        "settings": dict(settings),
        "history": [[_noise_to_json(noise), rate, steps] for noise, rate, steps in history],
    }


def history_from_state(
    state: object,
    mechanism: str,
    settings: Mapping[str, Any],
    check_noise: Callable[[object, str], float | Mechanism],
) -> list[AnySegment]:
    """Return the checked history of `state`, saved by an accountant with these settings.

    `check_noise` checks the noise of a segment, once it is a number or a mechanism again.

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

    def noise(value: object, name: str) -> float | Mechanism:
        return check_noise(_noise_from_json(value, name) if isinstance(value, Mapping) else value, name)

    return check_history(state["history"], noise=noise)


def _noise_to_json(noise: float | Mechanism) -> float | dict[str, Any]:
    if isinstance(noise, float):
        return noise
    return {"family": as_core(noise)[0], **asdict(noise)}


def _noise_from_json(value: Mapping[Any, Any], name: str) -> Mechanism:
    family = value.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(f"{name} must have a family of {list(FAMILIES)}, got {family!r}")
    kind = FAMILIES[family]
    arguments = tuple(field.name for field in fields(kind))
    _check_keys(value, ("family", *arguments), name)
    return check_mechanism(kind(*(value[argument] for argument in arguments)))


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
