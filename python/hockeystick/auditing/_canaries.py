"""Canaries: records that an auditor inserts, to look for them in what was trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import LARGEST_DATASET, Floats, count_scalar
from hockeystick._gradients import Gradients, Indices, check_callable, gradient_rows


def insert_canaries(
    gradients: Gradients,
    canary_gradients: Gradients,
    *,
    dataset_size: int,
    inserted: ArrayLike,
    copies: int = 1,
) -> tuple[Gradients, int]:
    """Append canaries to the training data of `hockeystick.training.train`.

    Parameters
    ----------
    gradients : callable
        Function (weights, indices) that returns the gradients of these records, shape (batch, parameters).
    canary_gradients : callable
        The same for canaries, by their numbers in [0, number of canaries).
    dataset_size : int
        Number of records without the canaries, in [1, 2**53].
    inserted : bool or array_like of bool, shape (canaries,)
        Which canaries are in. One that is out keeps its place as a record whose gradient is zero, so that
        the sample rate is the same whatever is in.
    copies : int, optional
        Number k of copies of each canary, at least one; all k are in or out.

    Returns
    -------
    gradients : callable
        Function (weights, indices) for the larger data set: records first, then k copies of canary 0, k of
        canary 1, and so on.
    dataset_size : int
        Its size, to pass on.

    Raises
    ------
    ValueError
        If an argument is out of range, or gradients have the wrong shape.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    GROUP, Section 6: many copies of one record are easier to find than
    one, and what they show is about groups of their size. With Poisson sampling, a record whose gradient is
    zero is as good as none, so that data sets with a canary in and out are neighbours by adding or removing
    k records.

    References
    ----------
    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import auditing, training
    >>> data = np.zeros((100, 1))
    >>> gradients, size = auditing.insert_canaries(
    ...     lambda weights, indices: weights - data[indices],
    ...     lambda weights, indices: np.full((len(indices), 1), -1.0),
    ...     dataset_size=100,
    ...     inserted=True,
    ...     copies=8,
    ... )
    >>> size
    108
    >>> gradients(np.array([0.5]), np.array([3, 107])).ravel().tolist()
    [0.5, -1.0]
    """
    check_callable(gradients, "gradients")
    check_callable(canary_gradients, "canary_gradients")
    records = count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    k = count_scalar(copies, "copies", 1, LARGEST_DATASET)
    present = np.atleast_1d(np.asarray(inserted))
    if present.dtype != np.bool_:
        raise TypeError(f"inserted must be a bool or an array of bool, got {present.dtype}")
    if present.ndim != 1:
        raise ValueError(f"inserted must be one-dimensional, got shape {present.shape}")

    def of_all(weights: Floats, indices: Indices) -> Floats:
        """Return the gradients of records and of inserted canaries; the others' are zero."""
        rows = np.zeros((len(indices), len(weights)))
        is_record = indices < records
        if is_record.any():
            rows[is_record] = gradient_rows(gradients, weights, indices[is_record])
        canaries = np.where(is_record, 0, indices - records) // k
        is_seen = ~is_record & present[canaries] if present.size else np.zeros_like(is_record)
        if is_seen.any():
            rows[is_seen] = gradient_rows(canary_gradients, weights, canaries[is_seen])
        return rows

    return of_all, records + k * present.size
