"""What a saved state may hold at most, whoever wrote it: loading takes bounded time and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from hockeystick.accountants._packing import KEYS, TYPES
from hockeystick.errors import StateTypeError

MAX_DEPTH = 16
"""Levels of lists and mappings within each other; a state of this library has eight."""

MAX_PARTS = 5_000_000
"""Numbers, strings, lists and mappings: a history of a million segments, or so."""

LARGEST_NUMBER = 2**64
"""Whole numbers are below that: seeds may have 64 bits."""

MAX_BYTES = 2**30
"""Bytes of the arrays in a state, unpacked: 1 GiB."""

MAX_TEXT_LENGTH = 1000
"""Characters of a string that is not an array."""

BYTES_AN_EXAMPLE = 2**12
"""An accountant that has so many examples already may be given so much for each."""

BYTES_A_CHARACTER = 16
"""And a state that is so large already may be unpacked to that much more."""


@contextmanager
def refusals() -> Iterator[None]:
    """Within it, what a state is refused for is a ``ValueError``."""
    try:
        yield
    except ValueError:
        raise
    except TypeError as error:
        raise StateTypeError(str(error)) from error


def check_limits(state: object, examples: int = 0, most_bytes: int | None = None) -> None:
    """Raise ``ValueError`` if `state` is larger or deeper than a state can be.

    Parameters
    ----------
    state : object
        Of the types that ``json`` reads; others are for the checks of each part.
    examples : int, optional
        Number of examples that the accountant has.
    most_bytes : int, optional
        Bytes of all its arrays, unpacked; by default what the limits above say.
    """
    level: list[Any] = [state]
    parts = unpacked_bytes = characters = 0
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for part in level:
            if isinstance(part, Mapping):
                _check_keys(part)
                is_array = len(part) == len(KEYS) and all(key in part for key in KEYS)
                unpacked_bytes += _claimed(part) if is_array else 0
                characters += len(part["data"]) if is_array and isinstance(part["data"], str) else 0
                deeper.extend(value for key, value in part.items() if not (is_array and key == "data"))
            elif isinstance(part, list | tuple):
                deeper.extend(part)
            else:
                _check_scalar(part)
            if parts + len(deeper) > MAX_PARTS:
                raise ValueError(f"state must have at most {MAX_PARTS} parts, got more")
        parts += len(deeper)
        level = deeper
        if not level:
            break
    else:
        raise ValueError(f"state must have at most {MAX_DEPTH} levels, got more")
    if most_bytes is None:
        most_bytes = max(MAX_BYTES, BYTES_AN_EXAMPLE * examples, BYTES_A_CHARACTER * characters)
    if unpacked_bytes > most_bytes:
        raise ValueError(f"arrays of the state must take at most {most_bytes} bytes, got {unpacked_bytes}")


def _check_keys(part: Mapping[Any, Any]) -> None:
    for key in part:
        if not isinstance(key, str):
            raise ValueError(f"keys of a state must be strings, got a {type(key).__name__}")
        _check_scalar(key)


def _check_scalar(value: object) -> None:
    if isinstance(value, int) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        raise ValueError(f"numbers of a state must be below 2**64, got one of {value.bit_length()} bits")
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise ValueError(
            f"text in a state must have at most {MAX_TEXT_LENGTH} characters, "
            f"got {len(value)}: {value[:20]!r}"
        )


def _claimed(array: Mapping[str, Any]) -> int:
    """Bytes that an array says it has; one that is malformed is refused when it is unpacked."""
    kind, shape = array["type"], array["shape"]
    if kind not in TYPES or not isinstance(shape, list | tuple) or len(shape) > 2:
        return 0
    if not all(type(length) is int and length >= 0 for length in shape):
        return 0
    return int(math.prod(shape) * np.dtype(kind).itemsize)
