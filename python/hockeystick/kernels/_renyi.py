"""Rényi divergences of mixture pairs, Rényi group bounds and their conversion to (epsilon, delta)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    FloatOrFloats,
    Floats,
    float_array,
    float_or_floats,
    float_view,
    in_shape,
    require,
    text,
)
from hockeystick._distinct import entries_answered_once
from hockeystick.kernels._broadcasting import Laws, for_each_law, for_each_number

MOST_DIMENSIONS = 32
"""Dimensions of an array that the core reads as it is; NumPy has 64."""


def renyi_mixture(
    orders: ArrayLike,
    weights: ArrayLike,
    shifts: ArrayLike,
    noise_multiplier: ArrayLike,
    direction: str,
    *,
    log_weights: bool = False,
) -> FloatOrFloats:
    """Exact Rényi divergence of a mixture pair, one step.

    Parameters
    ----------
    orders : array_like, any shape
        Rényi orders, real numbers in (1, 10000].
    weights : array_like, shape (..., n)
        Mixture weights along the last axis: at least zero and of sum one. Leading axes, one law for each of
        their elements, broadcast with the other arguments; `binomial_law` makes such arrays.
    shifts : array_like, shape (..., n)
        Means of the mixture's components, in units of the clipping norm.
    noise_multiplier : array_like, broadcast against `orders`
        Standard deviation sigma of every component.
    direction : {"remove", "add"}
        "remove" is D(MoG || N(0)), "add" is D(N(0) || MoG).
    log_weights : bool, optional
        `weights` holds logarithms: for large groups, whose weights underflow.

    Returns
    -------
    float or ndarray, shape to which `orders`, `noise_multiplier` and the laws broadcast
        D_alpha in nats, to a relative error of 1e-10.

    Raises
    ------
    ValueError
        If an argument is out of range, or the lengths of `weights` and `shifts` differ.
    TypeError
        If an argument is not real.

    Notes
    -----
    D_alpha(P || Q) = log(E_Q[(P / Q)^alpha]) / (alpha - 1). The pair dominates every pair of
    neighbouring data sets (GROUP, Theorem 18), and a Rényi divergence is an integral of
    hockey-stick divergences, so the divergence of the pair is a valid Rényi bound and the smallest
    that holds for all data sets.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    The Gaussian mechanism without sampling has D_alpha = alpha / (2 sigma^2):

    >>> from hockeystick import kernels
    >>> kernels.renyi_mixture([2.0, 8.0], [1.0], [1.0], 1.0, "remove").round(9).tolist()
    [1.0, 4.0]

    Groups of one and of two records at order 2:

    >>> kernels.renyi_mixture(2.0, *kernels.binomial_law([1, 2], 0.1), 1.0, "remove").round(4).tolist()
    [0.017, 0.0807]
    """
    points = float_array(orders, "orders")
    noise = float_or_floats(noise_multiplier, "noise_multiplier")
    way = text(direction, "direction"), bool(log_weights)
    return for_each_law(
        lambda weights, shifts, points, noise: entries_answered_once(
            points, lambda entries: _core.renyi_mixture(entries, weights, shifts, noise, *way)
        ),
        Laws.of(weights, shifts),
        points,
        "orders",
        noise,
        "noise_multiplier",
    )


def renyi_group_bound(orders: ArrayLike, component_rdp: ArrayLike, sample_rate: ArrayLike) -> FloatOrFloats:
    """Rényi bound of a Poisson-sampled mechanism for a group, from bounds without sampling.

    Parameters
    ----------
    orders : array_like, shape (n_orders,) or ()
        Rényi orders, real numbers > 1.
    component_rdp : array_like, shape (group_size + 1, n_orders) or (group_size + 1,)
        Row k bounds the Rényi divergence of the mechanism without sampling when k records
        change, in nats. Row 0 is zero. The one-dimensional form goes with a scalar order.
    sample_rate : array_like, broadcast against `orders`
        Probability q in [0, 1] that a record is in the batch.

    Returns
    -------
    float or ndarray, shape to which `orders` and `sample_rate` broadcast
        The bound tau in nats, one step.

    Raises
    ------
    ValueError
        If an argument is out of range, row 0 is not zero or the shapes do not fit together.
    TypeError
        If an argument is not real.

    Notes
    -----
    tau_m(alpha) = log(sum_k C(m, k) (1 - q)^(m - k) q^k e^((alpha - 1) t_k(alpha))) / (alpha - 1)
    with t_k in row k (RGP, Theorem 3.1: "Calibrating Noise for Group Privacy in Subsampled
    Mechanisms"). For the Gaussian mechanism t_k = alpha k^2 / (2 sigma^2); `renyi_mixture` is tighter there.

    References
    ----------
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)

    Examples
    --------
    Sixteen records at the noise that the paper reports for 500 steps and a divergence of 1:

    >>> import numpy as np
    >>> from hockeystick import kernels
    >>> members = np.arange(17.0)
    >>> bound = kernels.renyi_group_bound(4.0, 4.0 * members**2 / (2 * 26.59**2), 0.03)
    >>> round(500 * bound, 2)
    1.0
    """
    points = float_array(orders, "orders")
    components = float_view(component_rdp, "component_rdp")
    if points.ndim == 0 and components.ndim == 1:
        components = components.reshape(-1, 1)
    if points.ndim > 1 or components.ndim != 2 or components.shape[1] != points.size:
        raise ValueError(
            f"component_rdp must have shape (group_size + 1, n_orders) with the n_orders of orders, "
            f"got component_rdp {components.shape} and orders {points.shape}"
        )
    rates = float_or_floats(sample_rate, "sample_rate")
    if isinstance(rates, float):
        values = _core.renyi_group_bound(points.reshape(-1), components, rates)
        return in_shape(values, points.shape)
    # An order is a column of the table.
    columns = np.arange(float(points.size)).reshape(points.shape)

    def answer(columns: Floats, rate: float) -> Floats:
        wanted, places = np.unique(columns.astype(np.int64), return_inverse=True)
        found = _core.renyi_group_bound(points.reshape(-1)[wanted], components[:, wanted], rate)
        return found[places]

    return for_each_number(answer, columns, "orders", rates, "sample_rate")


@overload
def rdp_to_epsilon(
    orders: ArrayLike,
    rdp: ArrayLike,
    delta: ArrayLike,
    *,
    conversion: str = ...,
    return_order: Literal[False] = ...,
) -> FloatOrFloats: ...
@overload
def rdp_to_epsilon(
    orders: ArrayLike,
    rdp: ArrayLike,
    delta: ArrayLike,
    *,
    conversion: str = ...,
    return_order: Literal[True],
) -> tuple[FloatOrFloats, FloatOrFloats]: ...
def rdp_to_epsilon(
    orders: ArrayLike,
    rdp: ArrayLike,
    delta: ArrayLike,
    *,
    conversion: str = "canonne",
    return_order: bool = False,
) -> FloatOrFloats | tuple[FloatOrFloats, FloatOrFloats]:
    """Smallest epsilon that Rényi bounds give at delta, over the given orders.

    Parameters
    ----------
    orders : array_like, shape (n_orders,) or ()
        Rényi orders, real numbers > 1.
    rdp : array_like, shape (..., n_orders), or (...) for a scalar order
        Bound on the Rényi divergence at each order, in nats, at least zero.
    delta : array_like, broadcast against the leading axes of `rdp`
        In (0, 1).
    conversion : {"canonne", "optimal"}, optional
        How one order is converted; see the notes.
    return_order : bool, optional
        Return also the order that gives the smallest epsilon. Where that is the first or the last
        of `orders`, a wider range could give less.

    Returns
    -------
    epsilon : float or ndarray
        One number for each set of bounds.
    order : float or ndarray
        Only with ``return_order=True``.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not fit together.
    TypeError
        If an argument is not real.

    Notes
    -----
    canonne: epsilon = min over alpha of
    tau(alpha) + log((alpha - 1) / alpha) - log(delta alpha) / (alpha - 1), and no less than zero (RGP,
    Lemma 2.2; Canonne, Kamath and Steinke 2020, Proposition 12), as published numbers have it.

    optimal: for each alpha the smallest epsilon that follows from tau(alpha) alone (Asoodeh, Liao,
    Calmon, Kosut and Sankar 2021, "Three Variants of Differential Privacy", Theorem 3): never
    larger. No conversion from finitely many orders is tight.

    References
    ----------
    - Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", arXiv:2004.00010
    - Asoodeh, Liao, Calmon, Kosut and Sankar 2021, "Three Variants of Differential Privacy: Lossless
      Conversion and Applications", arXiv:2008.06529
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> round(kernels.rdp_to_epsilon(4.0, 1.0, 1e-5), 9)
    4.087861629
    >>> round(kernels.rdp_to_epsilon(4.0, 1.0, 1e-5, conversion="optimal"), 9)
    4.070841336
    """
    result = _convert(_core.rdp_to_epsilon, orders, rdp, delta, "delta", conversion)
    return result if return_order else result[0]


@overload
def rdp_to_delta(
    orders: ArrayLike,
    rdp: ArrayLike,
    epsilon: ArrayLike,
    *,
    conversion: str = ...,
    return_order: Literal[False] = ...,
) -> FloatOrFloats: ...
@overload
def rdp_to_delta(
    orders: ArrayLike,
    rdp: ArrayLike,
    epsilon: ArrayLike,
    *,
    conversion: str = ...,
    return_order: Literal[True],
) -> tuple[FloatOrFloats, FloatOrFloats]: ...
def rdp_to_delta(
    orders: ArrayLike,
    rdp: ArrayLike,
    epsilon: ArrayLike,
    *,
    conversion: str = "canonne",
    return_order: bool = False,
) -> FloatOrFloats | tuple[FloatOrFloats, FloatOrFloats]:
    """Smallest delta that Rényi bounds give at epsilon, over the given orders.

    Parameters
    ----------
    orders : array_like, shape (n_orders,) or ()
        Rényi orders, real numbers > 1.
    rdp : array_like, shape (..., n_orders), or (...) for a scalar order
        Bound on the Rényi divergence at each order, in nats, at least zero.
    epsilon : array_like, broadcast against the leading axes of `rdp`
        Finite and at least zero.
    conversion : {"canonne", "optimal"}, optional
        How one order is converted; see the notes.
    return_order : bool, optional
        Return also the order that gives the smallest delta. Where that is the first or the last
        of `orders`, a wider range could give less.

    Returns
    -------
    delta : float or ndarray
        One number in [0, 1] for each set of bounds.
    order : float or ndarray
        Only with ``return_order=True``.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not fit together.
    TypeError
        If an argument is not real.

    Notes
    -----
    canonne: delta = min over alpha of
    e^((alpha - 1) (tau(alpha) - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1), and at most one: the
    inverse of `rdp_to_epsilon` (RGP, Lemma 2.2; Canonne, Kamath and Steinke 2020, Proposition 12).

    optimal: for each alpha the smallest delta that follows from tau(alpha) alone (Asoodeh et al.
    2021, Theorem 3): never larger.

    References
    ----------
    - Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", arXiv:2004.00010
    - Asoodeh, Liao, Calmon, Kosut and Sankar 2021, "Three Variants of Differential Privacy: Lossless
      Conversion and Applications", arXiv:2008.06529
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> round(kernels.rdp_to_delta(4.0, 1.0, 4.087861628831665), 12)
    1e-05
    """
    result = _convert(_core.rdp_to_delta, orders, rdp, epsilon, "epsilon", conversion)
    return result if return_order else result[0]


def _convert(
    kernel: Callable[[Floats, Floats, Floats, str], tuple[Floats, Floats]],
    orders: ArrayLike,
    rdp: ArrayLike,
    level: ArrayLike,
    level_name: str,
    conversion: str,
) -> tuple[FloatOrFloats, FloatOrFloats]:
    """Call `kernel` on rows of bounds, one for each element of the broadcast leading shape."""
    points = float_array(orders, "orders")
    bounds = float_view(rdp, "rdp")
    levels = float_array(level, level_name)
    if points.ndim == 0:
        points, bounds = points.reshape(1), bounds[..., np.newaxis]
    require(points.size > 0, "orders", "an empty array", "at least one order")
    if points.ndim != 1 or bounds.ndim == 0 or bounds.shape[-1] != points.size:
        raise ValueError(
            f"rdp must have shape (..., n_orders) with the n_orders of orders, "
            f"got rdp {bounds.shape} and orders {points.shape}"
        )
    try:
        shape = np.broadcast_shapes(bounds.shape[:-1], levels.shape)
    except ValueError:
        raise ValueError(
            f"{level_name} must broadcast against the leading axes of rdp, "
            f"got {level_name} {levels.shape} and rdp {bounds.shape}"
        ) from None
    rows = np.broadcast_to(bounds, (*shape, points.size))
    all_levels = np.broadcast_to(levels, shape)
    if rows.ndim > MOST_DIMENSIONS:
        rows, all_levels = rows.reshape(-1, points.size), all_levels.reshape(-1)
    values, best_orders = kernel(points, rows, all_levels, text(conversion, "conversion"))
    return in_shape(values.reshape(-1), shape), in_shape(best_orders.reshape(-1), shape)
