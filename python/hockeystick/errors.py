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

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.get_epsilon(delta=1e-5, mechanism=hs.Skellam(100.0), sample_rate=0.01, steps=10)
    Traceback (most recent call last):
    hockeystick.errors.UnsupportedError: ...
    """


class UnreachableError(ValueError):
    """A target that no value in the supported range meets; the message says how near one comes.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.get_group_size(epsilon=0.01, delta=1e-9, noise_multiplier=0.1, sample_rate=0.5, steps=10)
    Traceback (most recent call last):
    hockeystick.errors.UnreachableError: epsilon = 0.01 cannot be reached at delta = 1e-9 ...
    """


class ContradictionError(RuntimeError):
    """Two certified bounds on one number contradict each other, so that at least one of them is wrong.

    Where several ways to compute a number are available, what they say is compared. That they contradict
    each other means a defect of this library, not a mistake of the caller: no number is returned, as it
    might be no bound. Please report it with the arguments of the call.

    Examples
    --------
    >>> import hockeystick as hs
    >>> try:
    ...     answer = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    ... except hs.ContradictionError:
    ...     answer = None  # no number at all, and a report to write
    >>> answer is not None
    True
    """


class StateTypeError(ValueError, TypeError):
    """A part of a saved state has the wrong type.

    A ``TypeError``, as for any argument, and a ``ValueError``, since a state comes from a file.
    """


class SamplingMismatchError(ValueError):
    """Batches are drawn in another way than is accounted for; the message says how, and what to do.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import hockeystick as hs
    >>> accountant = hs.GroupAccountant()
    >>> record = accountant.get_optimizer_hook_fn(sample_rate=0.01)
    >>> record(SimpleNamespace(noise_multiplier=1.0, unclipped_num_std=5.0))  # Opacus's adaptive clipping
    >>> accountant.get_epsilon(1e-5)
    Traceback (most recent call last):
    hockeystick.errors.SamplingMismatchError: ...AdaClipDPOptimizer computes its clipping norm from ...
    """


class SamplingMismatchWarning(UserWarning):
    """Batches are drawn in another way than is accounted for; the numbers are not about this run.

    Examples
    --------
    >>> import warnings
    >>> import hockeystick as hs
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", hs.SamplingMismatchWarning)  # train here: stops instead of warning
    ...     issubclass(hs.SamplingMismatchWarning, UserWarning)
    True
    """


class OptimalOrderWarning(UserWarning):
    """The best Rényi order is an end of the given range, so a wider range could give a smaller bound.

    Examples
    --------
    >>> import warnings
    >>> from hockeystick.accountants import RenyiGroupAccountant
    >>> accountant = RenyiGroupAccountant(orders=[2.0, 3.0])
    >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     epsilon = accountant.get_epsilon(1e-5)
    >>> [warning.category.__name__ for warning in caught]
    ['OptimalOrderWarning']
    """


class WideIntervalWarning(UserWarning):
    """The certified interval is wider than the tolerance asked for; both its ends still hold.

    Examples
    --------
    >>> import warnings
    >>> import hockeystick as hs
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", hs.WideIntervalWarning)  # an error instead of a wide interval
    ...     round(hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000), 4)
    1.8282
    """


class UnusualValueWarning(UserWarning):
    """A value is allowed and hardly ever meant; the message says what it might have been.

    Examples
    --------
    >>> import warnings
    >>> import hockeystick as hs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     epsilon = hs.get_epsilon(
    ...         delta=0.1, noise_multiplier=1.0, batch_size=100, dataset_size=1000, epochs=1
    ...     )
    >>> print(str(caught[0].message).partition(":")[0])
    delta 0.1 is above 1 / dataset_size = 0.001
    """
