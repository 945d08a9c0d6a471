"""Group privacy from the privacy of one record alone, to compare with the exact curve of the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    FloatOrFloats,
    Floats,
    count_or_counts,
    float_or_floats,
    in_shape,
)
from hockeystick._curves.solving import answered
from hockeystick._vocabulary.configuration import (
    check_group_sizes,
    configure,
    in_own_terms,
    require_within,
)
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick._vocabulary.mechanisms import BatchClipping, Mechanism
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Poisson, Sampling
from hockeystick.errors import UnsupportedError

__all__ = ["get_delta", "get_epsilon"]


def __dir__() -> list[str]:
    return list(__all__)


@in_own_terms()
def get_epsilon(
    run: Run | None = None,
    *,
    delta: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> FloatOrFloats:
    """Epsilon for a group by the conversion that knows only the privacy curve of one record.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    delta : array_like
        In (0, 1).
    run, noise_multiplier, mechanism, sample_rate, sampling, steps, epochs, batch_size, dataset_size, \
    group_size, adjacency, tolerance
        As in `hockeystick.get_epsilon`.

    Returns
    -------
    float or ndarray
        An upper bound on epsilon, inf where the conversion gives none.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If one record has no proven dominating pair in this combination of mechanism, sampling and
        adjacency; the message says what to use instead.

    Notes
    -----
    A run that is (epsilon, delta)-private for one record is private for k records with k epsilon and
    delta (e^(k epsilon) - 1) / (e^epsilon - 1) (GROUP, Theorem 4: "Optimal Group Privacy for
    DP-SGD"). The conversion is applied to the exact curve of one record at its best point.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000, "group_size": 8}
    >>> hs.get_epsilon(delta=1e-5, **run) < hs.black_box.get_epsilon(delta=1e-5, **run)
    True
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    asked = (noise_multiplier, sample_rate, sampling, steps, group_size, adjacency, mechanism)
    return _answered(_core.black_box_epsilon, float_or_floats(delta, "delta"), asked, tolerance)


@in_own_terms()
def get_delta(
    run: Run | None = None,
    *,
    epsilon: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | str | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike = 1,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> FloatOrFloats:
    """Delta for a group by the conversion that knows only the privacy curve of one record.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    epsilon : array_like
        At least zero, in nats.
    run, noise_multiplier, mechanism, sample_rate, sampling, steps, epochs, batch_size, dataset_size, \
    group_size, adjacency, tolerance
        As in `hockeystick.get_delta`.

    Returns
    -------
    float or ndarray
        An upper bound on delta, at most 1, which is what the conversion says of large groups.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If one record has no proven dominating pair in this combination of mechanism, sampling and
        adjacency; the message says what to use instead.

    Notes
    -----
    The least delta_1 (e^(k epsilon_1) - 1) / (e^(epsilon_1) - 1) of the points (epsilon_1, delta_1) of the
    exact curve of one record with k epsilon_1 <= epsilon (GROUP, Theorem 4, with the factor of its proof; the
    statement has another k).

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    See Also
    --------
    get_epsilon : the same by epsilon at a delta.

    Examples
    --------
    GROUP, Figure 2: with epsilon in proportion to the group, delta hardly grows, but by this bound it does.

    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 20, "group_size": 8}
    >>> f"{hs.get_delta(epsilon=4.0, **run):.1e}", f"{hs.black_box.get_delta(epsilon=4.0, **run):.1e}"
    ('1.3e-05', '5.0e-04')
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    asked = (noise_multiplier, sample_rate, sampling, steps, group_size, adjacency, mechanism)
    return _answered(_core.black_box_delta, float_or_floats(epsilon, "epsilon"), asked, tolerance)


def _answered(ask: Callable[..., Floats], at: Any, run: tuple[Any, ...], tolerance: float) -> FloatOrFloats:
    """Answers of a function of the core about a run, at deltas or at epsilons."""
    noise_multiplier, sample_rate, sampling, steps, group_size, adjacency, mechanism = run
    width = check_tolerance(tolerance)
    if isinstance(mechanism, BatchClipping):
        raise UnsupportedError(
            f"{mechanism!r} has no black-box bound here: use get_epsilon, which is about the group itself"
        )
    one_record = configure(
        adjacency=adjacency,
        noise_multiplier=noise_multiplier,
        mechanism=mechanism,
        sample_rate=sample_rate,
        sampling=sampling,
    )
    sizes = check_group_sizes(group_size)
    if isinstance(one_record.draw, Poisson) and one_record.draw.is_truncated:
        raise UnsupportedError(
            f"{sampling!r} has no black-box bound here: a chain of data sets that lose one record each has a "
            "pair of its own at every link; use get_epsilon, whose bound is about the group itself"
        )
    # A record in several accumulated batches is as many records in one.
    check_group_sizes(sizes * one_record.microbatches)
    require_within(sizes, sampling)
    questions = {
        "at": at,
        "steps": count_or_counts(steps, "steps", 0),
        "group_size": sizes,
        "noise_multiplier": one_record.noise,
        "sample_rate": one_record.draw,
    }

    def answer(at: Any, steps: Any, group: Any, noise: Any, draw: Any) -> tuple[Floats]:
        return (ask((noise, draw, group), steps, one_record.adjacency, at, width),)

    if np.ndarray not in map(type, questions.values()):
        return answer(*questions.values())[0].item()
    shape, (bounds,) = answered(answer, questions)
    return in_shape(bounds, shape)
