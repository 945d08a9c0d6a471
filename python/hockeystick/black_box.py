"""Group privacy from the privacy of one record alone, to compare with the exact curve of the group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import FloatOrFloats, Floats, count_array, float_array, in_shape
from hockeystick._distinct import answered_once
from hockeystick.configuration import check_group_sizes, configure, require_within
from hockeystick.intervals import DEFAULT_TOLERANCE, check_tolerance
from hockeystick.mechanisms import Mechanism
from hockeystick.sampling import Sampling, WithoutReplacement

__all__ = ["get_epsilon"]


def __dir__() -> list[str]:
    return list(__all__)


def get_epsilon(
    *,
    delta: ArrayLike,
    noise_multiplier: ArrayLike | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | None = None,
    steps: ArrayLike,
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
    noise_multiplier : array_like
        Standard deviation of Gaussian noise in units of the clipping norm, at least zero. Left out
        with `mechanism`.
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, WithoutReplacement or FullBatch, optional
        How batches are drawn. Give either this or `sample_rate`.
    steps : array_like
        Number of steps, whole and at least zero.
    group_size : array_like, optional
        Number of records that change together, whole, in [1, 10000].
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Whether the group's records are added, removed, either of the two (the default) or replaced.
    mechanism : Gaussian, Laplace or RandomizedResponse, optional
        The noise, in place of `noise_multiplier`.
    tolerance : float, optional
        Relative accuracy to aim at, in [1e-9, 0.1].

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

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000, "group_size": 8}
    >>> hs.get_epsilon(delta=1e-5, **run) < hs.black_box.get_epsilon(delta=1e-5, **run)
    True
    """
    width = check_tolerance(tolerance)
    one_record = configure(
        adjacency=adjacency,
        noise_multiplier=noise_multiplier,
        mechanism=mechanism,
        sample_rate=sample_rate,
        sampling=sampling,
    )
    # A record in several accumulated batches is as many records in one.
    sizes = check_group_sizes(check_group_sizes(group_size) * one_record.step.microbatches)
    require_within(sizes, sampling)
    shape, step, (deltas, counts, group_sizes) = one_record.columns(
        delta=float_array(delta, "delta"),
        steps=count_array(steps, "steps", 0),
        group_size=sizes,
    )
    if isinstance(sampling, WithoutReplacement) and adjacency != "replace":
        # The chain from one data set to the other ends at a smaller data set, of which a batch is a
        # larger part: that is the worst link.
        dataset_size = step.dataset_size - group_sizes + 1
        step = step._replace(dataset_size=dataset_size, batch_size=np.minimum(step.batch_size, dataset_size))

    def answer(*columns: Any) -> tuple[Floats]:
        noise, rates, batches, datasets, number, size, target = columns
        found = _core.black_box_epsilon(
            one_record.adjacency,
            step.mechanism,
            noise,
            step.sampling,
            rates,
            batches,
            datasets,
            number,
            size,
            target,
            width,
        )
        return (found,)

    drawing = (step.sample_rate, step.batch_size, step.dataset_size)
    (epsilon,) = answered_once((step.noise, *drawing, counts, group_sizes, deltas), answer)
    return in_shape(epsilon, shape)
