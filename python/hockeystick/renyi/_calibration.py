"""The noise with which a run meets a target for a group of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import (
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
from hockeystick._vocabulary.beside import of_run, with_terms
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import FAMILIES, Mechanism, check_mechanism_class, check_sensitivity
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.renyi._drawing import Drawing, check_drawing, require_known
from hockeystick.renyi._statement import BOUNDS

CONVERSIONS = ("canonne", "optimal")
"""The conversions from a divergence of one order to (epsilon, delta)."""


@of_run
@with_terms("noise_multiplier")
def calibrate(
    mechanism: type[Mechanism] | Run,
    *,
    order: ArrayLike,
    tau: ArrayLike,
    sample_rate: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike | None = None,
    bound: str = "exact",
    sensitivity: int = 1,
    sampling: Sampling | str | None = None,
    group: Group | None = None,
    adjacency: str = "add_remove",
) -> FloatOrFloats:
    """Noise with which the Rényi divergence of a run is at most tau: (m, alpha, tau)-RGP.

    Parameters
    ----------
    mechanism : type or Run
        What randomises the steps: the class `Gaussian`, `Laplace`, `Skellam` or `RandomizedResponse`. Or a
        run, whose mechanism it is, with another amount of noise; its other facts take the place of arguments.
    order : array_like
        Rényi order alpha in (1, 10000].
    tau : array_like
        Divergence that the whole run may have, in nats, in (0, inf).
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in the batch: short for ``sampling=Poisson(...)``.
    steps : array_like of int
        Number of steps.
    epochs, batch_size, dataset_size : array_like, optional
        In place of `steps` and `sample_rate`, as in `hockeystick.get_noise_multiplier`.
    group_size : array_like of int, optional
        Number m of records, in [1, 100000], as in `group_rdp`.
    bound : {"exact", "jensen", "black_box", "lower"}, optional
        Bound on the divergence of a step, as in `group_rdp`. With "lower" the answer is no guarantee,
        but noise below which there is none.
    sensitivity : int, optional
        l1 sensitivity of one record, for `Skellam`.
    sampling : Poisson, WithoutReplacement or FullBatch, optional
        How batches are drawn, in place of `sample_rate`.
    group : Group, optional
        A group whose members have rates of their own, in place of `group_size` and `sample_rate`.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.

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
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        As in `group_rdp`.

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

    Replaced records:

    >>> hs.renyi.calibrate(hs.Gaussian, adjacency="replace", **run).round(2)
    array([ 30.35, 121.42])
    """
    assert steps is not None
    assert not isinstance(sampling, str)
    kind = check_mechanism_class(mechanism)
    chosen = choice(bound, "bound", BOUNDS)
    drawing = check_drawing(sample_rate, sampling, group_size, group, adjacency)
    require_known(_family(kind), chosen, drawing)
    targets = {"order": float_array(order, "order"), "tau": float_array(tau, "tau")}
    size = check_sensitivity(sensitivity)

    def solve(order: Floats, tau: Floats, runs: Any) -> Floats:
        return _core.renyi_calibrate(kind, size, order, tau, runs, chosen, drawing.adjacency)

    return _solved(solve, targets, steps, drawing)


@of_run
@with_terms("noise_multiplier")
def calibrate_dp(
    mechanism: type[Mechanism] | Run,
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    sample_rate: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    epochs: ArrayLike | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group_size: ArrayLike | None = None,
    bound: str = "exact",
    orders: ArrayLike | None = None,
    conversion: str = "canonne",
    sensitivity: int = 1,
    sampling: Sampling | str | None = None,
    group: Group | None = None,
    adjacency: str = "add_remove",
) -> FloatOrFloats:
    """Noise with which a run is (epsilon, delta)-differentially private for a group, by Rényi divergences.

    `hockeystick.get_noise_multiplier` needs less noise: a privacy curve is more than its divergences.

    Parameters
    ----------
    mechanism : type or Run
        What randomises the steps: the class `Gaussian`, `Laplace`, `Skellam` or `RandomizedResponse`. Or a
        run, whose mechanism it is, with another amount of noise; its other facts take the place of arguments.
    epsilon : array_like
        Finite and at least zero.
    delta : array_like
        In (0, 1).
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in the batch: short for ``sampling=Poisson(...)``.
    steps : array_like of int
        Number of steps.
    epochs, batch_size, dataset_size : array_like, optional
        In place of `steps` and `sample_rate`, as in `hockeystick.get_noise_multiplier`.
    group_size : array_like of int, optional
        Number of records, in [1, 100000], as in `group_rdp`.
    bound : {"exact", "jensen", "black_box"}, optional
        Bound on the divergence of a step, as in `group_rdp`.
    orders : array_like, shape (n_orders,), optional
        Orders in (1, 10000] over which to minimise. By default all real orders of that range, or whole
        ones where a formula needs those.
    conversion : {"canonne", "optimal"}, optional
        From divergences to epsilon, as in `kernels.rdp_to_epsilon`.
    sensitivity : int, optional
        l1 sensitivity of one record, for `Skellam`.
    sampling : Poisson, WithoutReplacement or FullBatch, optional
        How batches are drawn, in place of `sample_rate`.
    group : Group, optional
        A group whose members have rates of their own, in place of `group_size` and `sample_rate`.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.

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
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        As in `group_rdp`.

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
    assert steps is not None
    assert not isinstance(sampling, str)
    kind = check_mechanism_class(mechanism)
    chosen = choice(bound, "bound", BOUNDS)
    require(chosen != "lower", "bound", repr(chosen), "an upper bound, as a lower one guarantees nothing")
    way = choice(conversion, "conversion", CONVERSIONS)
    drawing = check_drawing(sample_rate, sampling, group_size, group, adjacency)
    require_known(_family(kind), chosen, drawing)
    targets = {"epsilon": float_array(epsilon, "epsilon"), "delta": float_array(delta, "delta")}
    size = check_sensitivity(sensitivity)
    listed = None
    if orders is not None:
        listed = float_vector(orders, "orders")
        require(listed.size > 0, "orders", "an empty array", "at least one order")

    def solve(epsilon: Floats, delta: Floats, runs: Any) -> Floats:
        return _core.renyi_calibrate_dp(
            kind, size, epsilon, delta, listed, runs, chosen, drawing.adjacency, way
        )

    return _solved(solve, targets, steps, drawing)


def _family(kind: type[Mechanism]) -> str:
    """Name of the mechanism."""
    return next(name for name, found in FAMILIES.items() if found is kind)


def _solved(
    solve: Callable[[Floats, Floats, Any], Floats],
    targets: dict[str, Floats],
    steps: ArrayLike,
    drawing: Drawing,
) -> FloatOrFloats:
    """Noise for every target and run, all of which broadcast together."""
    columns = {**targets, "steps": count_array(steps, "steps", 0), **drawing.arrays}
    shape = broadcast(**columns)
    names = list(columns)[2:]

    def answer(first: Floats, second: Floats, *others: NDArray[Any]) -> tuple[Floats]:
        by_name = dict(zip(names, others, strict=True))
        draw, members = drawing.for_core(by_name)
        return (solve(first, second, (draw, by_name["steps"], members)),)

    (found,) = answered_once(flat(columns.values(), shape), answer)
    return in_shape(found, shape)
