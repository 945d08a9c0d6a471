"""JSON from anywhere: no more than was agreed, or ``ValueError``."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST_NUMBER = 40
"""Characters of a number; ``repr`` of a float needs 24."""


def parse(text: bytes, most_parts: int) -> Any:
    """Return what `text` says, in time and memory that its length and `most_parts` bound.

    Parameters
    ----------
    text : bytes
        ASCII.
    most_parts : int
        Numbers, strings, lists and mappings in it.

    Raises
    ------
    ValueError
        If it is not JSON; if it has more parts, a key twice, NaN or an infinity, a number that no float64
        holds or that is written at length; or if it is nested too deeply for Python.
    """
    check_parts(text, most_parts)
    try:
        return json.loads(
            text.decode("ascii"),
            object_pairs_hook=_unique,
            parse_constant=_refused,
            parse_float=_float,
            parse_int=_int,
        )
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def check_parts(text: bytes, most_parts: int) -> None:
    """Raise ``ValueError`` if `text` has more parts, before anything is made of them."""
    # Each part but the first follows one of these.
    parts = 1 + sum(text.count(sign) for sign in (b",", b":", b"[", b"{"))
    if parts > most_parts:
        raise ValueError(f"JSON must have at most {most_parts} parts, got {parts}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("JSON has a key twice")
    return found


def _refused(literal: str) -> Any:
    raise ValueError(f"JSON must have finite numbers only, got {literal}")


def _short(literal: str) -> str:
    if len(literal) > LONGEST_NUMBER:
        raise ValueError(f"JSON has a number of {len(literal)} characters")
    return literal


def _float(literal: str) -> float:
    value = float(_short(literal))
    return value if math.isfinite(value) else _refused(literal)


def _int(literal: str) -> int:
    return int(_short(literal))
