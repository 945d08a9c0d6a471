"""Errors and warnings that carry a meaning of their own; everything else is ValueError or TypeError."""

from __future__ import annotations

__all__ = [
    "ContradictionError",
    "OptimalOrderWarning",
    "SamplingMismatchError",
    "SamplingMismatchWarning",
    "StateTypeError",
    "UnreachableError",
    "UnsupportedError",
    "UnusualValueWarning",
    "WideIntervalWarning",
]


def __dir__() -> list[str]:
    return list(__all__)


class UnsupportedError(ValueError):
    """A combination of mechanism, sampling scheme and adjacency without a proven dominating pair.

    The message says what to use in its place.
    """


class UnreachableError(ValueError):
    """A target that no value in the supported range meets; the message says how near one comes."""


class ContradictionError(RuntimeError):
    """Two certified bounds on one number contradict each other, so that at least one of them is wrong.

    Where several ways to compute a number are available, what they say is compared. That they contradict
    each other means a defect of this library, not a mistake of the caller: no number is returned, as it
    might be no bound. Please report it with the arguments of the call.
    """


class StateTypeError(ValueError, TypeError):
    """A part of a saved state has the wrong type.

    A ``TypeError``, as for any argument, and a ``ValueError``, since a state comes from a file.
    """


class SamplingMismatchError(ValueError):
    """Batches are drawn in another way than is accounted for; the message says how, and what to do."""


class SamplingMismatchWarning(UserWarning):
    """Batches are drawn in another way than is accounted for; the numbers are not about this run."""


class OptimalOrderWarning(UserWarning):
    """The best Rényi order is an end of the given range, so a wider range could give a smaller bound."""


class WideIntervalWarning(UserWarning):
    """The certified interval is wider than the tolerance asked for; both its ends still hold."""


class UnusualValueWarning(UserWarning):
    """A value is allowed and hardly ever meant; the message says what it might have been."""
