"""The largest counts with which a run meets a target: its steps, and the size of a group."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import DEFAULT_TOLERANCE, CountOrCounts, FloatOrFloats
from hockeystick._curves.meeting import value_that_meets
from hockeystick._curves.risk import Target, check_target
from hockeystick._vocabulary.configuration import in_own_terms, microbatches_of
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import BatchClipping, Mechanism
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling, Shuffle
from hockeystick._vocabulary.terms import asked_from_outside
from hockeystick.errors import UnreachableError, UnusualValueWarning

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hockeystick._signatures import GroupSizeArguments, StepsArguments


@overload
def get_steps(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[StepsArguments]
) -> CountOrCounts: ...


@overload
def get_steps(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[StepsArguments]
) -> tuple[CountOrCounts, FloatOrFloats]: ...


@in_own_terms("steps")
def get_steps(
    run: Run | None = None,
    *,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    advantage: ArrayLike | None = None,
    tpr: ArrayLike | None = None,
    fpr: ArrayLike | None = None,
    bayes_success: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Shuffle | str | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Largest number of steps with which a run meets a target.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        A run, of which everything but its length is taken.
    epsilon, delta, advantage, tpr, fpr, bayes_success, prior, mu
        The target, as in `get_noise_multiplier`.
    noise_multiplier, mechanism, sample_rate, sampling, group_size, group, adjacency
        As in `get_epsilon`.
    batch_size, dataset_size
        As in `get_epsilon`.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Returns
    -------
    int or ndarray of int64
        A number of steps with which `get_epsilon` is at most `epsilon`. The search ends at 10**9: that
        answer means at least so many. With ``bounds=True`` a tuple (lower, upper), the second a float or
        an array of floats: the smallest number of steps that is known to miss the target, inf if there is
        none in the supported range. For shuffled batches (`Shuffle`) the upper end of epsilon meets it.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not broadcast or nothing
        in the supported range reaches the target.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination of mechanism, sampling, adjacency and group has no proven dominating
        pair; the message says what to use instead.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)
    - Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function",
      arXiv:2106.08567

    Examples
    --------
    >>> import hockeystick as hs
    >>> plan = {"noise_multiplier": 1.0, "sample_rate": 0.01}
    >>> steps = hs.get_steps(epsilon=3.0, delta=1e-5, **plan)
    >>> epsilons = hs.get_epsilon(delta=1e-5, steps=[steps, steps + 1], **plan)
    >>> (epsilons <= 3.0).tolist()
    [True, False]
    """
    assert not isinstance(sampling, str)
    target = check_target(
        epsilon=epsilon,
        delta=delta,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        bayes_success=bayes_success,
        prior=prior,
        mu=mu,
    )
    known = {
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "sample_rate": sample_rate,
        "sampling": sampling,
        "group_size": group_size,
        "group": group,
        "adjacency": adjacency,
    }
    found = value_that_meets("steps", target, known, bounds=bounds, tolerance=tolerance, executor=executor)
    return _not_none(found, target, bounds=bounds)


@overload
def get_group_size(
    run: Run | None = None, *, bounds: Literal[False] = False, **arguments: Unpack[GroupSizeArguments]
) -> CountOrCounts: ...


@overload
def get_group_size(
    run: Run | None = None, *, bounds: Literal[True], **arguments: Unpack[GroupSizeArguments]
) -> tuple[CountOrCounts, FloatOrFloats]: ...


@in_own_terms("group_size")
def get_group_size(
    run: Run | None = None,
    *,
    epsilon: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    advantage: ArrayLike | None = None,
    tpr: ArrayLike | None = None,
    fpr: ArrayLike | None = None,
    bayes_success: ArrayLike | None = None,
    prior: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Shuffle | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    bounds: bool = False,
    tolerance: float = DEFAULT_TOLERANCE,
    executor: Executor | None = None,
) -> Any:
    """Size of the largest group for which a run meets a target.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    run : Run, optional
        A run, of which everything but the records per person is taken.
    epsilon, delta, advantage, tpr, fpr, bayes_success, prior, mu
        The target, as in `get_noise_multiplier`.
    noise_multiplier, mechanism, sample_rate, sampling, steps, adjacency
        As in `get_epsilon`.
    epochs, batch_size, dataset_size
        As in `get_epsilon`.
    bounds, tolerance, executor
        As in `get_epsilon`.

    Returns
    -------
    int or ndarray of int64
        A group size with which `get_epsilon` is at most `epsilon`. The search ends at 10,000, which then
        means at least so many, or at all records of the data set. With ``bounds=True`` a tuple
        (lower, upper), the second a float or an array of floats: the smallest group that is known to
        miss the target, inf if there is none in the supported range. For shuffled batches (`Shuffle`) the
        upper end of epsilon meets the target.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not broadcast or nothing
        in the supported range reaches the target.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination of mechanism, sampling, adjacency and group has no proven dominating
        pair; the message says what to use instead.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)
    - Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function",
      arXiv:2106.08567

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000}
    >>> size = hs.get_group_size(epsilon=3.0, delta=1e-5, **run)
    >>> epsilons = hs.get_epsilon(delta=1e-5, group_size=[size, size + 1], **run)
    >>> (epsilons <= 3.0).tolist()
    [True, False]
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    target = check_target(
        epsilon=epsilon,
        delta=delta,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        bayes_success=bayes_success,
        prior=prior,
        mu=mu,
    )
    known = {
        "noise_multiplier": noise_multiplier,
        "mechanism": mechanism,
        "sample_rate": sample_rate,
        "sampling": sampling,
        "steps": steps,
        "adjacency": adjacency,
    }
    found = value_that_meets(
        "group_size", target, known, bounds=bounds, tolerance=tolerance, executor=executor
    )
    microbatches = microbatches_of(sampling)
    # Searches for other targets, and with clipped batches, look at groups of persons as they are.
    solved = target.is_point and not isinstance(mechanism, BatchClipping)
    return _members(found, microbatches, bounds) if solved and microbatches > 1 else found


def _members(found: Any, microbatches: int, bounds: bool) -> Any:
    """Group sizes from numbers of records in one batch, of which a member of the group is `microbatches`."""
    lower, upper = found if bounds else (found, None)
    sizes = lower // microbatches
    if np.any(sizes < 1):
        raise UnreachableError(
            f"no group size meets the target: one record in {microbatches} accumulated batches misses it"
        )
    if upper is None:
        return sizes
    misses = np.ceil(np.asarray(upper) / microbatches)
    return sizes, float(misses) if misses.shape == () else misses


def _not_none(found: Any, target: Target, *, bounds: bool) -> Any:
    """Return numbers of steps, with a warning in a plain call if not even one step meets the target."""
    if np.all(np.asarray(found[0] if bounds else found) > 0):
        return found
    # Above are `get_steps` and what takes its terms.
    if not asked_from_outside(sys._getframe(3).f_globals.get("__name__", "")):
        return found
    why = "give more noise or a smaller rate"
    if target.mu is not None:
        why += (
            "; mu bounds all error rates at once, and at the smallest ones a sampled step is as one without "
            "sampling, while advantage, or tpr and fpr, ask about one point"
        )
    warnings.warn(f"0 steps: not even one meets the target; {why}", UnusualValueWarning, stacklevel=4)
    return found
