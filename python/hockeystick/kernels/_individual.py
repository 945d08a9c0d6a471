"""Rényi accounts of many examples with norms of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    CountOrCounts,
    FloatOrFloats,
    Floats,
    broadcast,
    count_or_counts,
    float_array,
    float_or_floats,
    float_vector,
    require,
)


def accumulate_rdp(
    rdp: Floats,
    norms: ArrayLike,
    orders: ArrayLike,
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike,
    *,
    steps: ArrayLike = 1,
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
    noise_multiplier : float or array_like that broadcasts to the shape of `norms`
        Standard deviation of the noise in units of the clipping norm.
    sample_rate : float or array_like that broadcasts to the shape of `norms`
        Probability in [0, 1] that an example is in the batch. Each different rate takes a table of its own:
        milliseconds for a hundred orders.
    steps : int or array_like that broadcasts to the shape of `norms`, optional
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
    norm without rounding. What is added is never below the truth, and at most 1e-290 / (order - 1) plus
    1 + 1e-10 + 1e-14 * order * log(1 / q) times it, which is 1 + 1e-10 but for large orders at small rates.
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
    noise = float_or_floats(noise_multiplier, "noise_multiplier")
    rates = float_or_floats(sample_rate, "sample_rate")
    counts = count_or_counts(steps, "steps", 0)
    given = points.ravel()
    if np.may_share_memory(given, rdp):
        given = given.copy()
    regular = rdp.flags.aligned and all(stride % rdp.itemsize == 0 for stride in rdp.strides)
    if isinstance(noise, float) and isinstance(rates, float) and isinstance(counts, int):
        flat = (rdp.view(np.ndarray) if regular else rdp.copy()).reshape(-1, len(values))
        _core.accumulate_rdp(flat, given, values, noise, rates, float(counts))
    else:
        # A copy, so that the accounts stay as they were if any of the kinds of steps is refused.
        flat = rdp.copy().reshape(-1, len(values))
        _accumulate_kinds(flat, given, values, _kinds(points.shape, noise, rates, counts))
    if not np.may_share_memory(flat, rdp):
        # Strides of parts of numbers, none that a view of two axes could have, or several kinds of steps.
        rdp[...] = flat.reshape(rdp.shape)


def _kinds(
    shape: tuple[int, ...], noise: FloatOrFloats, rates: FloatOrFloats, counts: CountOrCounts
) -> Floats:
    """Noise multiplier, sample rate and number of steps of each example: shape (examples, 3)."""
    columns = {"noise_multiplier": noise, "sample_rate": rates, "steps": counts}
    for name, value in columns.items():
        allowed = f"an array that broadcasts to the shape {shape} of norms"
        fits = broadcast(norms=np.empty(shape), **{name: value}) == shape
        require(fits, name, f"shape {np.shape(value)}", allowed)
    flat = [np.broadcast_to(np.asarray(value, dtype=float), shape).ravel() for value in columns.values()]
    return np.stack(flat, axis=-1)


def _accumulate_kinds(flat: Floats, norms: Floats, orders: Floats, kinds: Floats) -> None:
    """Add to each row of `flat` the step that the same row of `kinds` describes."""
    different, place = np.unique(kinds, axis=0, return_inverse=True)
    by_kind = np.argsort(place.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(place.ravel(), minlength=len(different)))[:-1]
    for kind, rows in zip(different, np.split(by_kind, ends), strict=True):
        accounts = flat[rows]
        _core.accumulate_rdp(accounts, norms[rows], orders, *map(float, kind))
        flat[rows] = accounts


def _require_accounts(rdp: object) -> None:
    if not isinstance(rdp, np.ndarray) or rdp.dtype != np.float64:
        kind = rdp.dtype if isinstance(rdp, np.ndarray) else type(rdp).__name__
        raise TypeError(f"rdp must be an array of float64 to be changed in place, got {kind}")
