"""Errors and warnings that carry a meaning of their own; everything else is ValueError or TypeError."""

from __future__ import annotations


class UnsupportedError(ValueError):
    """A combination of mechanism, sampling scheme and adjacency without a proven dominating pair.

    The message says what to use in its place.
    """


class OptimalOrderWarning(UserWarning):
    """The best Rényi order is an end of the given range, so a wider range could give a smaller bound."""


class WideIntervalWarning(UserWarning):
    """The certified interval is wider than the tolerance asked for; both its ends still hold."""
