"""Which data sets count as neighbours, and which ordered pairs of distributions that asks for."""

from __future__ import annotations

from hockeystick._arguments import choice, text
from hockeystick._vocabulary.spelling import suggested_value
from hockeystick.errors import UnsupportedError

DIRECTIONS: dict[str, tuple[str, ...]] = {
    "add_remove": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}
"""Ordered pairs to bound for each adjacency: "remove" is (mixture, noise), "add" is (noise, mixture)."""

ADJACENCIES = (*DIRECTIONS, "replace")

ZERO_OUT = "zero_out"
"""The gradients of the group are replaced by 0, so that no batch changes its size."""

ADVERSARY = "an adversary who sees the output of every step"
"""The adversary that the guarantees of this library are about."""

STRONG_ADVERSARY = "strong adversary (knows batch membership)"
"""The one of SHUFFLE, whom the guarantees for shuffled batches are about."""


def check_adjacency(value: object) -> str:
    """Return `value` if it is the name of a neighbouring relation.

    Raises
    ------
    UnsupportedError
        For "zero_out", which the functions and accountants that know it take before they ask here.
    ValueError
        For any other string.
    TypeError
        For anything but a string.
    """
    if isinstance(value, str) and value == ZERO_OUT:
        raise UnsupportedError(
            "adjacency 'zero_out' is not known here: use 'add_remove', which is the same where no record "
            "pushes another one out (Poisson sampling, full batches, random allocation and fixed "
            "bins), or 'add', 'remove' or 'replace'"
        )
    return _chosen(value, ADJACENCIES)


def check_add_remove(value: object) -> str:
    """Return `value` if it is a neighbouring relation other than "replace".

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
            "adjacency 'replace' is not supported by this accountant; use 'add_remove', 'add' or "
            "'remove', or GroupAccountant(adjacency='replace')"
        )
    return _chosen(value, tuple(DIRECTIONS))


def _chosen(value: object, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is allowed; the error names the relation that other names stand for."""
    try:
        return choice(value, "adjacency", allowed)
    except ValueError as error:
        meant = suggested_value("adjacency", value, allowed)
        if not meant:
            raise
        message = f"{error}{meant}"
    raise ValueError(message)
