"""Gradient norms of a whole data set: what individual accounting asks for."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import LARGEST_DATASET, Floats, count_scalar
from hockeystick._gradients import Gradients, check_callable, check_weights, gradient_rows
from hockeystick._progress import Report, reporting
from hockeystick.training._clipping import row_norms

CHUNK_SIZE = 1024
"""Examples whose gradients are held at once by default."""


def gradient_norms(
    gradients: Gradients,
    weights: ArrayLike,
    *,
    dataset_size: int,
    chunk_size: int = CHUNK_SIZE,
    progress: Report | bool | None = None,
) -> Floats:
    """Gradient norm of every example of a data set, at given weights.

    The norms are private data: they belong to the examples, and are not covered by the guarantee of
    the weights.

    Parameters
    ----------
    gradients : callable
        Function (weights, indices) that returns the gradients of the loss of these examples, shape
        (batch, parameters). What it returns for an example must depend on the weights and that
        example alone: no dropout, no statistics of the batch.
    weights : array_like, shape (parameters,)
        Where the gradients are taken.
    dataset_size : int
        Number of examples n, in [1, 2**53]; the function is asked for the indices 0, ..., n - 1.
    chunk_size : int, optional
        Number of examples that it is asked for at once, at least one: memory is needed for that many
        gradients.
    progress : callable or bool, optional
        Function (done, total) of examples that is called after every chunk; or True for a bar, which
        needs tqdm.

    Returns
    -------
    ndarray, shape (dataset_size,)
        Euclidean norms, in the units of the gradients, not clipped.

    Raises
    ------
    ValueError
        If an argument is out of range, or gradients have the wrong shape or are not finite.
    TypeError
        If an argument has the wrong type.
    ImportError
        If `progress` is True and tqdm is not installed.

    Notes
    -----
    The Z^(i) of INDIVIDUAL, Algorithm 2, before the minimum with C, which
    `hockeystick.accountants.IndividualAccountant.update_norms` takes.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import training
    >>> data = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    >>> training.gradient_norms(lambda weights, indices: weights - data[indices], [0.0, 0.0], dataset_size=3)
    array([5., 1., 0.])
    """
    check_callable(gradients, "gradients")
    point = check_weights(weights)
    total = count_scalar(dataset_size, "dataset_size", 1, LARGEST_DATASET)
    size = count_scalar(chunk_size, "chunk_size", 1)
    norms = np.empty(total)
    with reporting(progress, "gradient norms") as report:
        for start in range(0, total, size):
            indices = np.arange(start, min(start + size, total), dtype=np.int64)
            norms[indices] = row_norms(gradient_rows(gradients, point, indices), "gradients")
            if report is not None:
                report(int(indices[-1]) + 1, total)
    return norms
