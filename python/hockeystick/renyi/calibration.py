"""The noise with which a run meets a target for a group of records."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import (
    Counts,
    FloatOrFloats,
    Floats,
    broadcast,
    choice,
    count_array,
    flat,
    float_array,
    float_vector,
    in_shape,
    require,
)
from hockeystick._distinct import answered_once
from hockeystick._vocabulary.mechanisms import Mechanism, check_mechanism_class, check_sensitivity
from hockeystick.renyi.divergence import check_renyi_group_sizes
from hockeystick.renyi.statement import BOUNDS

CONVERSIONS = ("canonne", "optimal")
"""How the divergence of one order becomes (epsilon, delta)."""


def calibrate(
    mechanism: type[Mechanism],
    *,
    order: ArrayLike,
    tau: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    group_size: ArrayLike,
    bound: str = "exact",
    sensitivity: int = 1,
) -> FloatOrFloats:
    """Noise with which the Rényi divergence of a run is at most tau: (m, alpha, tau)-RGP.

    Parameters
    ----------
    mechanism : type
        What randomises the steps: the class `Gaussian`, `Laplace`, `Skellam` or `RandomizedResponse`.
    order : array_like
        Rényi order alpha in (1, 10000].
    tau : array_like
        Divergence that the whole run may have, in nats, in (0, inf).
    sample_rate : array_like
        Probability in [0, 1] that a record is in the batch.
    steps : array_like of int
        Number of steps.
    group_size : array_like of int
        Number m of records, in [1, 100000].
    bound : {"exact", "jensen", "black_box", "lower"}, optional
        Bound on the divergence of a step, as in `group_rdp`. With "lower" the answer is no guarantee,
        but noise below which there is none.
    sensitivity : int, optional
        l1 sensitivity of one record, for `Skellam`.

    Returns
    -------
    float or ndarray
        `noise_multiplier`, `scale`, `variance` or `p`, which meets the target itself and is within 1e-9
        of its root in relative terms. Where the least noise that is searched will do, that: a noise
        multiplier or scale of 0.001, a variance of 0.0001 times the squared sensitivity, p = 1 - 1e-13.

    Raises
    ------
    ValueError
        If an argument is out of range or shapes do not broadcast; if no parameter up to 1e9 (variance:
        1e18 times the squared sensitivity; p: down to 0.5 + 2.5e-10) reaches tau, with the nearest tau
        that is reached.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    Figure 2 of RGP: group sizes for 500 steps at (alpha, tau) = (4, 1), by their bound and exactly.

    >>> import hockeystick as hs
    >>> run = dict(order=4, tau=1, sample_rate=0.03, steps=500, group_size=[16, 64])
    >>> hs.renyi.calibrate(hs.Gaussian, bound="jensen", **run).round(2)
    array([26.55, 74.67])
    >>> hs.renyi.calibrate(hs.Gaussian, **run).round(2)
    array([15.24, 60.77])
    """
    kind = check_mechanism_class(mechanism)
    chosen = choice(bound, "bound", BOUNDS)
    runs = _runs(sample_rate, steps, group_size)
    targets = {"order": float_array(order, "order"), "tau": float_array(tau, "tau")}
    shape, (orders, taus), flat_runs = _flatten(targets, runs)
    size = check_sensitivity(sensitivity)
    (found,) = answered_once(
        [orders, taus, *flat_runs],
        lambda order, tau, *runs: (_core.renyi_calibrate(kind, size, order, tau, runs, chosen),),
    )
    return in_shape(found, shape)


def calibrate_dp(
    mechanism: type[Mechanism],
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    group_size: ArrayLike,
    bound: str = "exact",
    orders: ArrayLike | None = None,
    conversion: str = "canonne",
    sensitivity: int = 1,
) -> FloatOrFloats:
    """Noise with which a run is (epsilon, delta)-differentially private for a group, by Rényi divergences.

    `hockeystick.get_noise_multiplier` needs less noise: a privacy curve is more than its divergences.

    Parameters
    ----------
    mechanism : type
        What randomises the steps: the class `Gaussian`, `Laplace`, `Skellam` or `RandomizedResponse`.
    epsilon : array_like
        Finite and at least zero.
    delta : array_like
        In (0, 1).
    sample_rate : array_like
        Probability in [0, 1] that a record is in the batch.
    steps : array_like of int
        Number of steps.
    group_size : array_like of int
        Number of records, in [1, 100000].
    bound : {"exact", "jensen", "black_box"}, optional
        Bound on the divergence of a step, as in `group_rdp`.
    orders : array_like, shape (n_orders,), optional
        Orders in (1, 10000] over which to minimise. By default all real orders of that range, or whole
        ones where a formula needs those.
    conversion : {"canonne", "optimal"}, optional
        From divergences to epsilon, as in `kernels.rdp_to_epsilon`.
    sensitivity : int, optional
        l1 sensitivity of one record, for `Skellam`.

    Returns
    -------
    float or ndarray
        `noise_multiplier`, `scale`, `variance` or `p`, which meets the target itself and is within 1e-9
        of its root in relative terms.

    Raises
    ------
    ValueError
        If an argument is out of range or shapes do not broadcast; if no parameter of the range reaches
        epsilon, with the nearest epsilon that is reached.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)
    - Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", arXiv:2004.00010
    - Asoodeh, Liao, Calmon, Kosut and Sankar 2021, "Three Variants of Differential Privacy: Lossless
      Conversion and Applications", arXiv:2008.06529

    Examples
    --------
    The noise of RGP's section 5.2 at (4, 1e-5) and a group of 32:

    >>> import hockeystick as hs
    >>> run = dict(epsilon=4, delta=1e-5, sample_rate=0.03, steps=500, group_size=32)
    >>> for bound in ("black_box", "jensen", "exact"):
    ...     print(f"{hs.renyi.calibrate_dp(hs.Gaussian, bound=bound, **run):.2f}")
    68.52
    35.77
    24.95
    """
    kind = check_mechanism_class(mechanism)
    chosen = choice(bound, "bound", BOUNDS)
    require(chosen != "lower", "bound", repr(chosen), "an upper bound, as a lower one guarantees nothing")
    way = choice(conversion, "conversion", CONVERSIONS)
    runs = _runs(sample_rate, steps, group_size)
    targets = {"epsilon": float_array(epsilon, "epsilon"), "delta": float_array(delta, "delta")}
    shape, (epsilons, deltas), flat_runs = _flatten(targets, runs)
    size = check_sensitivity(sensitivity)
    listed = None
    if orders is not None:
        listed = float_vector(orders, "orders")
        require(listed.size > 0, "orders", "an empty array", "at least one order")
    (found,) = answered_once(
        [epsilons, deltas, *flat_runs],
        lambda epsilon, delta, *runs: (
            _core.renyi_calibrate_dp(kind, size, epsilon, delta, listed, runs, chosen, way),
        ),
    )
    return in_shape(found, shape)


def _runs(sample_rate: ArrayLike, steps: ArrayLike, group_size: ArrayLike) -> dict[str, NDArray[Any]]:
    return {
        "sample_rate": float_array(sample_rate, "sample_rate"),
        "steps": count_array(steps, "steps", 0),
        "group_size": check_renyi_group_sizes(group_size),
    }


def _flatten(
    targets: dict[str, Floats], runs: dict[str, NDArray[Any]]
) -> tuple[tuple[int, ...], list[Floats], tuple[Floats, Counts, Counts]]:
    """Broadcast targets and runs together: their shape, and all of them flat."""
    shape = broadcast(**targets, **runs)
    rates, steps, sizes = flat(runs.values(), shape)
    return shape, flat(targets.values(), shape), (rates, steps, sizes)
