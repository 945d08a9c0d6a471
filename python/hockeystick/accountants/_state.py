"""The saved form of an accountant: plain JSON types, with a version, checked when read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from hockeystick._arguments import count_scalar, shown
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.mechanisms import FAMILIES, Mechanism
from hockeystick._vocabulary.participation import CyclicPoisson, FixedOrder, MinimumSeparation
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Poisson,
    Sampling,
    Shuffle,
    UnaccountedSampling,
    WithoutReplacement,
)
from hockeystick.accountants._history import AnySegment

VERSION = 1
"""Version of the saved form; a reader refuses a newer one."""

SCHEMES: dict[str, type[Any]] = {
    "poisson": Poisson,
    "without_replacement": WithoutReplacement,
    "full_batch": FullBatch,
    "random_allocation": RandomAllocation,
    "fixed_bins": FixedBins,
    "fixed_order": FixedOrder,
    "minimum_separation": MinimumSeparation,
    "cyclic_poisson": CyclicPoisson,
    "shuffle": Shuffle,
    "unaccounted": UnaccountedSampling,
}
"""Sampling schemes by the words of a saved state; one batch by Poisson sampling is its sample rate."""

CORRELATED = "correlated"
"""Family of mechanisms of whole runs in a saved state."""

OF_OPACUS = ("rdp", "prv", "gdp")
"""Names of Opacus's own accountants, whose states have a history and no settings."""

OWN = ("exact_group", "renyi_group", "monte_carlo_group", "shuffle", "individual")
"""Names of the accountants of this library; states of registered ones carry the name of the registration."""

KEYS = ("version", "mechanism", "settings", "history")


def to_state(mechanism: str, settings: Mapping[str, Any], history: list[AnySegment]) -> dict[str, Any]:
    """State of dicts, lists, strings and numbers only; ``json`` keeps every float exactly.

    Noise is a noise multiplier, or a dict with the family of a mechanism and its arguments; sampling a
    sample rate, or a dict with a scheme and its arguments.
    """
    return {
        "version": VERSION,
        "mechanism": mechanism,
        "settings": dict(settings),
        "history": [[*segment_to_json((noise, draw)), steps] for noise, draw, steps in history],
    }


def segment_to_json(kind: tuple[float | Mechanism, float | Sampling]) -> list[Any]:
    """Noise and sampling of a segment as plain JSON types."""
    noise, draw = kind
    return [_to_json(noise, "family", FAMILIES), _to_json(draw, "scheme", SCHEMES)]


def segments_from_json(segments: object, name: str) -> object:
    """`segments` with mechanisms and schemes for dicts; anything else is for the check of a history."""
    if not isinstance(segments, list | tuple):
        return segments
    return [_segment_from_json(segment, f"{name}[{i}]") for i, segment in enumerate(segments)]


def history_from_state(
    state: object,
    mechanism: str,
    settings: Mapping[str, Any],
    checked: Callable[[object], list[AnySegment]],
) -> list[AnySegment]:
    """Return the history of `state`, saved by an accountant with these settings.

    `checked` checks the segments, once their parts are numbers, mechanisms and schemes again.

    Raises
    ------
    ValueError
        If a key is missing or foreign, the version is newer, the mechanism or a setting is another
        one, or a number is out of range.
    TypeError
        If `state` or a part of it has the wrong type.
    """
    if isinstance(state, Mapping) and "version" not in state and state.get("mechanism") in OF_OPACUS:
        raise ValueError(
            f"mechanism must be {mechanism!r}, got {state['mechanism']!r} of Opacus: take the history over "
            "by hockeystick.opacus.from_opacus(state)"
        )
    check_keys(state, KEYS, "state")
    assert isinstance(state, Mapping)
    version = count_scalar(state["version"], "version", 1)
    if version > VERSION:
        raise ValueError(f"state has version {version}, this version of hockeystick reads up to {VERSION}")
    if state["mechanism"] != mechanism and not _is_registered(
        state["mechanism"], state["settings"], settings
    ):
        raise ValueError(f"mechanism must be {shown(mechanism)}, got {shown(state['mechanism'])}")
    _check_settings(state["settings"], settings)
    return checked(segments_from_json(state["history"], "history"))


def _is_registered(name: object, found: object, expected: Mapping[str, Any]) -> bool:
    """Whether a state is one of this kind of accountant, under a name that it was registered by with Opacus.

    Kinds of accountants have settings of their own, by which they are distinguished.
    """
    if not isinstance(name, str) or not name or name in OWN or name in OF_OPACUS:
        return False
    return isinstance(found, Mapping) and set(found) == set(expected)


def _to_json(value: Any, key: str, kinds: Mapping[str, type[Any]]) -> float | dict[str, Any]:
    if isinstance(value, CorrelatedNoise):
        return {key: CORRELATED, **value.settings()}
    for name, kind in kinds.items():
        if isinstance(value, kind):
            # What is left out is None: states of earlier versions do not have it.
            arguments = {argument: given for argument, given in asdict(value).items() if given is not None}
            return {key: name, **arguments}
    return float(value)


def _segment_from_json(segment: object, name: str) -> object:
    """`segment` with mechanisms and schemes for dicts; anything else is for the check of a history."""
    if not isinstance(segment, list | tuple) or len(segment) != 3:
        return segment
    noise, draw, steps = segment
    return (
        _from_json(noise, "family", FAMILIES, f"{name} noise_multiplier"),
        _from_json(draw, "scheme", SCHEMES, f"{name} sample_rate"),
        steps,
    )


def _from_json(value: object, key: str, kinds: Mapping[str, type[Any]], name: str) -> object:
    if not isinstance(value, Mapping):
        return value
    found = value.get(key)
    if key == "family" and found == CORRELATED:
        check_keys(value, (key, "form", "parameters", "noise_multiplier"), name)
        return CorrelatedNoise.from_settings(value)
    if not isinstance(found, str) or found not in kinds:
        raise ValueError(f"{name} must have a {key} of {list(kinds)}, got {shown(found)}")
    kind = kinds[found]
    arguments = [field.name for field in fields(kind) if field.default is not None or field.name in value]
    check_keys(value, (key, *arguments), name)
    return kind(**{argument: value[argument] for argument in arguments})


def _check_settings(found: object, expected: Mapping[str, Any]) -> None:
    check_keys(found, tuple(expected), "settings")
    assert isinstance(found, Mapping)
    for name, value in expected.items():
        if found[name] != value:
            raise ValueError(
                f"{name} of the saved accountant is {shown(found[name])}, of this one {shown(value)}: "
                f"load the state into an accountant made with {name}={found[name]!r}"
            )


def check_keys(found: object, expected: tuple[str, ...], name: str) -> None:
    """Raise unless `found` is a mapping with the keys `expected`."""
    if not isinstance(found, Mapping):
        raise TypeError(f"{name} must be a mapping, got {type(found).__name__}")
    missing = [key for key in expected if key not in found]
    foreign = [key for key in found if key not in expected]
    if missing or foreign:
        raise ValueError(f"{name} must have the keys {list(expected)}: missing {missing}, foreign {foreign}")
