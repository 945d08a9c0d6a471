"""Rényi accounts of many examples with norms of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import Floats, count_scalar, float_array, float_scalar, float_vector, require


def accumulate_rdp(
    rdp: Floats,
    norms: ArrayLike,
    orders: ArrayLike,
    noise_multiplier: float,
    sample_rate: float,
    *,
    steps: int = 1,
) -> None:
    """Add Rényi divergences of Poisson-sampled Gaussian steps to the accounts of many examples, in place.

    Parameters
    ----------
    rdp : ndarray of float64, shape norms.shape + (n_orders,)
        Accounts in nats, one row for each example; changed in place. Any strides; memory-mapped files and
        fields of packed records too. Ctrl-C leaves them as they were.
    norms : array_like, any shape
        Norm of each example's clipped gradient in units of the clipping norm, at least zero.
    orders : array_like, shape (n_orders,)
        Rényi orders in (1, 10000].
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm.
    sample_rate : float
        Probability in [0, 1] that an example is in the batch.
    steps : int, optional
        Number of steps with these norms.

    Raises
    ------
    ValueError
        If an argument is out of range (norms are named by their indices), `rdp` is read-only, another
        thread is changing it or the shapes do not fit together; `rdp` stays as it was.
    TypeError
        If an argument is not real, or `rdp` is not a float64 array.

    Notes
    -----
    An example with norm s takes part in steps of the pair ((1 - q) N(0, σ²) + q N(s, σ²), N(0, σ²))
    (INDIVIDUAL, Algorithm 2; GROUP, Theorem 18 for one record), whose divergence depends on s / σ alone. It
    is tabulated as polynomials in (σ / s)², once for each sample rate and orders, and evaluated for every
    norm without rounding. What is added is never below the truth and at most 1 + 1e-10 times it (or 1e-296).
    Rows depend on their own norms alone, so that neither their order nor the number of threads changes a bit.

    References
    ----------
    - Yu, Kamath, Kulkarni, Liu, Yin and Zhang 2023, "Individual Privacy Accounting for Differentially Private
      Stochastic Gradient Descent", TMLR, arXiv:2206.02617 (INDIVIDUAL)
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import kernels
    >>> rdp = np.zeros((3, 2))
    >>> kernels.accumulate_rdp(rdp, [0.1, 0.5, 1.0], [2.0, 8.0], 2.0, 0.01, steps=1000)
    >>> rdp.round(6).tolist()
    [[0.00025, 0.001001], [0.006449, 0.025899], [0.028402, 0.115756]]
    """
    _require_accounts(rdp)
    if not rdp.flags.writeable:
        raise ValueError("rdp must be writeable, got a read-only array")
    points, values = float_array(norms, "norms"), float_vector(orders, "orders")
    wanted = (*points.shape, len(values))
    require(rdp.shape == wanted, "rdp", f"shape {rdp.shape}", f"of the shape {wanted}")
    arguments = (
        values,
        float_scalar(noise_multiplier, "noise_multiplier"),
        float_scalar(sample_rate, "sample_rate"),
        float(count_scalar(steps, "steps", 0)),
    )
    given = points.ravel()
    if np.may_share_memory(given, rdp):
        given = given.copy()
    regular = rdp.flags.aligned and all(stride % rdp.itemsize == 0 for stride in rdp.strides)
    flat = (rdp.view(np.ndarray) if regular else rdp.copy()).reshape(-1, len(values))
    _core.accumulate_rdp(flat, given, *arguments)
    if not np.may_share_memory(flat, rdp):
        # Strides of parts of numbers, or none that a view of two axes could have.
        rdp[...] = flat.reshape(rdp.shape)


def _require_accounts(rdp: object) -> None:
    if not isinstance(rdp, np.ndarray) or rdp.dtype != np.float64:
        kind = rdp.dtype if isinstance(rdp, np.ndarray) else type(rdp).__name__
        raise TypeError(f"rdp must be an array of float64 to be changed in place, got {kind}")
