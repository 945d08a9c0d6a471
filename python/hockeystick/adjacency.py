"""Which data sets count as neighbours, and which ordered pairs of distributions that asks for."""

from __future__ import annotations

from hockeystick._arguments import choice, text
from hockeystick.errors import UnsupportedError

DIRECTIONS: dict[str, tuple[str, ...]] = {
    "add_remove": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}
"""Ordered pairs to bound for each adjacency: "remove" is (mixture, noise), "add" is (noise, mixture)."""


def check_adjacency(value: object) -> str:
    """Return `value` if this version can account for it.

    Raises
    ------
    UnsupportedError
        For "replace".
    ValueError
        For any other string that is not "add_remove", "add" or "remove".
    TypeError
        For anything but a string.
    """
    if text(value, "adjacency") == "replace":
        raise UnsupportedError(
            "adjacency 'replace' is not supported in this version; use 'add_remove', 'add' or 'remove'"
        )
    return choice(value, "adjacency", tuple(DIRECTIONS))
