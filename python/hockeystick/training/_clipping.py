"""From the gradients of a batch to an update of bounded sensitivity."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, count_scalar, float_array, float_scalar, require

SMALLEST_NORM = 1e-150
"""Smallest clipping norm: its square is still a normal float64."""

LARGEST_NORM = 1e150
"""Largest clipping norm, for the same reason."""


def clip(vectors: ArrayLike, max_norm: float) -> Floats:
    """Scale down the rows that are longer than a norm to that norm.

    Parameters
    ----------
    vectors : array_like, shape (n, parameters)
        One vector a row, in units of the loss over those of the parameters.
    max_norm : float
        Clipping norm C in [1e-150, 1e150], in the same units.

    Returns
    -------
    ndarray, shape (n, parameters)
        Rows of Euclidean norm at most C, but for rounding; rows that were no longer are as they were.

    Raises
    ------
    ValueError
        If `max_norm` is out of range, or `vectors` is not two-dimensional or has a row whose squared
        norm is not a finite float64.
    TypeError
        If an argument is not real.

    Notes
    -----
    [x]_C = x / max(1, ||x|| / C), SHUFFLE, equation (1).

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick import training
    >>> training.clip([[3.0, 4.0], [0.3, 0.4]], max_norm=1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    rows = _rows(vectors, "vectors")
    return np.asarray(rows / _divisors(rows, check_norm(max_norm, "max_norm"), "vectors")[:, None])


def individual_clipping(gradients: ArrayLike, max_grad_norm: float | ArrayLike) -> Floats:
    """Sum of the gradients of a batch, each of them clipped: the update of DP-SGD.

    Parameters
    ----------
    gradients : array_like, shape (batch, parameters)
        Gradient of every example in the batch, which may be empty.
    max_grad_norm : float or array_like, shape (batch,)
        Clipping norm C in [1e-150, 1e150], in the units of the gradients; or for every example a norm
        Z_i of its own, in [0, 1e150].

    Returns
    -------
    ndarray, shape (parameters,)
        U. It moves by at most 2kC where k examples are replaced, and by at most kC where k examples
        are added or removed; by at most Z_i where example i is.

    Raises
    ------
    ValueError
        If an argument is out of range or of the wrong shape.
    TypeError
        If an argument is not real.

    Notes
    -----
    U = sum_i [g_i]_C, SHUFFLE, equation (1). With norms of their own for the examples this is what
    INDIVIDUAL, Appendix B.2, calls individual clipping.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> from hockeystick import training
    >>> training.individual_clipping([[3.0, 4.0], [0.3, 0.4]], max_grad_norm=1.0)
    array([0.9, 1.2])
    >>> training.individual_clipping([[3.0, 4.0], [0.3, 0.4]], max_grad_norm=[0.5, 0.25])
    array([0.45, 0.6 ])
    """
    rows = _rows(gradients, "gradients")
    norms = _check_norms(max_grad_norm, len(rows))
    # A product with a vector sums the clipped rows without forming them.
    return np.asarray((1.0 / _divisors(rows, norms, "gradients")) @ rows)


def batch_clipping(gradients: ArrayLike, max_grad_norm: float) -> Floats:
    """Mean of the gradients of a batch, clipped as a whole.

    Parameters
    ----------
    gradients : array_like, shape (batch, parameters)
        Gradient of every example in the batch, at least one.
    max_grad_norm : float
        Clipping norm C in [1e-150, 1e150], in the units of the gradients.

    Returns
    -------
    ndarray, shape (parameters,)
        U. It moves by at most 2C, however many examples of the batch change.

    Raises
    ------
    ValueError
        If an argument is out of range or of the wrong shape.
    TypeError
        If an argument is not real.

    Notes
    -----
    U = [sum_i g_i / s]_C for a batch of s examples, SHUFFLE, equation (4).

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick import training
    >>> training.batch_clipping([[6.0, 0.0], [0.0, 8.0]], max_grad_norm=1.0)
    array([0.6, 0.8])
    """
    return mixed_clipping(gradients, max_grad_norm, 1)


def mixed_clipping(gradients: ArrayLike, max_grad_norm: float, units: int) -> Floats:
    """Sum of the clipped means of equal parts of a batch.

    Parameters
    ----------
    gradients : array_like, shape (batch, parameters)
        Gradient of every example in the batch, at least one.
    max_grad_norm : float
        Clipping norm C in [1e-150, 1e150], in the units of the gradients.
    units : int
        Number m of parts, which divides the size of the batch. The parts are consecutive: the order
        of the batch must be random, as that of `shuffled_batches` and `subsampled_batches` is.

    Returns
    -------
    ndarray, shape (parameters,)
        U. It moves by at most 2kC where examples in k of the parts change.

    Raises
    ------
    ValueError
        If an argument is out of range or of the wrong shape, or `units` does not divide the size of the
        batch.
    TypeError
        If an argument is not real.

    Notes
    -----
    U = sum_h [sum_(i in S_h) g_i / s]_C for m parts S_h of s examples, SHUFFLE, equation (22), which is
    equation (5) for mini-batch SGD. As many units as examples are individual clipping, one unit is batch
    clipping.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick import training
    >>> gradients = [[6.0, 0.0], [0.0, 8.0], [0.2, 0.0], [0.0, 0.2]]
    >>> training.mixed_clipping(gradients, max_grad_norm=1.0, units=2)
    array([0.7, 0.9])
    """
    norm = check_norm(max_grad_norm)
    rows = _rows(gradients, "gradients")
    batch, parameters = rows.shape
    require(batch >= 1, "gradients", f"shape {rows.shape}", "of at least one example")
    parts = count_scalar(units, "units", 1)
    require(batch % parts == 0, "units", parts, f"a divisor of the batch size {batch}")
    means = rows.reshape(parts, batch // parts, parameters).mean(axis=1)
    return np.asarray((1.0 / _divisors(means, norm, "gradients")) @ means)


def check_norm(value: object, name: str = "max_grad_norm") -> float:
    """`value` as a clipping norm."""
    norm = float_scalar(value, name)
    require(SMALLEST_NORM <= norm <= LARGEST_NORM, name, norm, f"in [{SMALLEST_NORM}, {LARGEST_NORM}]")
    return norm


def _check_norms(value: object, batch: int) -> float | Floats:
    """`value` as one clipping norm, or as one for every example of a batch."""
    norms = float_array(value, "max_grad_norm")
    if norms.ndim == 0:
        return check_norm(float(norms))
    require(norms.shape == (batch,), "max_grad_norm", f"shape {norms.shape}", f"of shape ({batch},)")
    bad = norms[~((norms >= 0.0) & (norms <= LARGEST_NORM))]
    if bad.size:
        raise ValueError(f"max_grad_norm must be in [0, {LARGEST_NORM}] for every example, got {bad[0]}")
    return norms


def row_norms(rows: Floats, name: str) -> Floats:
    """Euclidean norm of every row, all of them finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    bad = np.flatnonzero(~np.isfinite(squares))
    if bad.size:
        found = f"{squares[bad[0]]} in row {bad[0]}"
        raise ValueError(f"{name} must have rows of finite squared norm, got {found}")
    return np.asarray(np.sqrt(squares))


def _rows(value: object, name: str) -> Floats:
    """`value` as a two-dimensional array."""
    rows = float_array(value, name)
    require(rows.ndim == 2, name, f"shape {rows.shape}", "two-dimensional")
    return rows


def _divisors(rows: Floats, norm: float | Floats, name: str) -> Floats:
    """max(1, ||x|| / C) of every row x; inf where a row that is not zero must become zero."""
    lengths = row_norms(rows, name)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratios = lengths / norm
    # Where both are zero the ratio is NaN, and there is nothing to clip.
    return np.asarray(np.fmax(1.0, ratios))
