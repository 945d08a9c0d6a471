"""Certificates are data that nobody vouches for: how they are read, and refused."""

from __future__ import annotations

import json
from typing import Any

from flint import arb

FORMAT, VERSION = "hockeystick-certificate", 1
LARGEST_FILE = 1 << 20
"""Bytes of a certificate that are read."""

Object = dict[str, Any]


class RefusedError(ValueError):
    """The certificate cannot be read: it is malformed, out of range, or about something not covered."""


class NotProvenError(Exception):
    """An inequality that the proof needs does not hold for the numbers of the witness."""


def _refuse_constant(name: str) -> float:
    raise RefusedError(f"{name} is not a number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError("an object has two entries of one name")
    return found


def read(text: str | bytes) -> Object:
    """Return the certificate of a JSON text, a dict whose format and version are those of this checker."""
    if len(text) > LARGEST_FILE:
        raise RefusedError(f"a certificate has at most {LARGEST_FILE} bytes")
    try:
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RefusedError:
        raise
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not JSON: {str(error)[:100]}") from None
    certificate = fields(found, "certificate", "format version run claims witness", "made_by note")
    if certificate["format"] != FORMAT or certificate["version"] != VERSION:
        raise RefusedError(f"format must be {FORMAT!r} of version {VERSION}")
    return certificate


def fields(value: object, name: str, needed: str, optional: str = "") -> Object:
    """Return `value` if it is an object with these entries and no others."""
    if not isinstance(value, dict):
        raise RefusedError(f"{name} must be an object")
    for key in needed.split():
        if key not in value:
            raise RefusedError(f"{name} lacks {key!r}")
    for key in value:
        if key not in needed.split() + optional.split():
            raise RefusedError(f"{name} has an unknown entry {str(key)[:40]!r}")
    return value


def number(value: object, name: str, low: float, high: float) -> arb:
    """Return the ball of a number in [low, high]: the double that it is written as, exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RefusedError(f"{name} must be a number in [{low}, {high}], got {str(value)[:40]}")
    return arb(value)


def whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RefusedError(f"{name} must be a whole number in [{low}, {high}], got {str(value)[:40]}")
    return value


def items(value: object, name: str, low: int, high: int) -> list[Any]:
    """Return a list with between `low` and `high` entries."""
    if not isinstance(value, list) or not low <= len(value) <= high:
        raise RefusedError(f"{name} must be a list of {low} to {high} entries")
    return value


def choice(value: object, name: str, allowed: str) -> str:
    """Return a text that is one of the allowed ones."""
    if not isinstance(value, str) or value not in allowed.split():
        raise RefusedError(f"{name} must be one of {allowed}, got {str(value)[:40]!r}")
    return value
