"""The Rényi divergence of one step for a group of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import (
    LARGEST_RENYI_GROUP,
    Floats,
    broadcast,
    choice,
    count_scalar,
    flat,
    float_array,
    float_scalar,
    require,
    shown,
)
from hockeystick._distinct import answered_once
from hockeystick._vocabulary.adjacency import check_adjacency
from hockeystick._vocabulary.beside import step_of_run, with_terms
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import Mechanism, check_mechanism, family_of
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.kernels._renyi import renyi_group_bound
from hockeystick.renyi._drawing import check_drawing, check_renyi_group_sizes, require_known
from hockeystick.renyi._statement import (
    BOUNDS,
    COMPONENT_STATEMENT,
    RenyiBound,
    RenyiBounds,
    Statement,
    statement_of,
)

Component: TypeAlias = Callable[[int, float], float]


@step_of_run("the divergence of several steps is the sum of theirs")
@with_terms()
def group_rdp(
    mechanism: Mechanism | Run | None = None,
    orders: ArrayLike | None = None,
    *,
    sample_rate: ArrayLike | None = None,
    group_size: ArrayLike | None = None,
    bound: str | None = None,
    component: Component | ArrayLike | None = None,
    sampling: Sampling | str | None = None,
    batch_size: ArrayLike | None = None,
    dataset_size: ArrayLike | None = None,
    group: Group | None = None,
    adjacency: str = "add_remove",
) -> RenyiBound | RenyiBounds:
    """Rényi divergence of one step for a group of records that is added, removed or replaced.

    Parameters
    ----------
    mechanism : Gaussian, Laplace, Skellam, RandomizedResponse or Run
        What randomises the step. Left out where `component` is given. A run says also how batches are drawn
        and whose records change: the answer is about one of its steps, which are alike, and
        ``run.number_of_steps`` times as much about all of them.
    orders : array_like
        Rényi orders in (1, 10000]. Whole numbers for `Skellam` with "jensen" or "black_box", whose
        formula is proven for those only.
    sample_rate : array_like, optional
        Probability q in [0, 1] that a record is in the batch: short for ``sampling=Poisson(q)``.
    group_size : array_like of int, optional
        Number m of records, in [1, 100000], or in [1, 10000] for fixed batches and where "exact" is about
        replaced records.
    bound : {"exact", "jensen", "black_box", "lower"}, optional
        What is said of the divergence; see the notes. By default "exact", or "jensen" where
        `component` is given, which goes with no other.
    component : callable or array_like, optional
        Bounds on the divergence of any other mechanism without sampling: called as
        ``component(k, order)`` with ints k = 1..m and float orders, or an array of shape
        (m + 1, n_orders), or (m + 1,) for a scalar order, whose row k is for k records and whose row
        0 is zero. For an array `sample_rate` is a scalar, and `group_size` may be left out. What bounds
        added or replaced records, the result does too.
    sampling : Poisson, WithoutReplacement or FullBatch, optional
        How the batch is drawn, in place of `sample_rate`. Not where `component` is given.
    batch_size, dataset_size : array_like, optional
        Sizes in place of `sample_rate`, or of a scheme that ``sampling="fixed"`` or another name says.
    group : Group, optional
        A group whose members have rates of their own, in place of `group_size` and `sample_rate`. Not
        where `component` is given.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation. A replaced record moves the sum by up to two clipping norms.

    Returns
    -------
    RenyiBound or RenyiBounds
        A float, or an array of the shape to which `orders`, `sample_rate` and `group_size` broadcast:
        nats. Its `statement` says what it is, for which queries it holds, and whether it is attained.

    Raises
    ------
    ValueError
        If an argument is out of range, shapes do not fit together, or an exact divergence of Skellam
        noise takes more than a million terms.
    TypeError
        If an argument has the wrong type or is missing.
    UnsupportedError
        If no bound is known for such batches or such a group; if "exact" is asked about replaced records
        with `Skellam` noise, or with `Laplace` noise on Poisson samples.

    Notes
    -----
    - "exact": D_alpha of the dominating pair, the larger of both directions, from above. Attained, so
      that no bound is smaller: for `Gaussian` on queries of any dimension (GROUP, Theorem 18), for
      `Laplace` and `Skellam` on queries of one dimension, for `RandomizedResponse` on its bit. Replaced
      records: attained on Poisson samples and full batches, and for `RandomizedResponse`; in fixed
      batches the pair is an upper bound (PITFALLS, Theorem 14). The statement says which it is.
    - "jensen": RGP, Theorem 3.1,
      log(sum_k C(m, k) (1 - q)^(m - k) q^k e^((alpha - 1) tau_k)) / (alpha - 1), where tau_k bounds
      the divergence for k records without sampling (Lemma 4.2, Theorems 4.3 and 4.4, equation 20), of
      twice the sensitivity for replaced records. Queries of any dimension. Members with rates of their
      own and fixed batches have a Poisson-binomial and a hypergeometric law in place of the binomial
      one; a record of a fixed batch moves the sum by two clipping norms too.
    - "black_box": RGP, Lemma 2.3, 3^c times the bound for one record at the order 2^c alpha, for the
      smallest 2^c >= m; the bound for one record is the tight one of Zhu and Wang 2019. Below order 2
      that of order 2 is given. For `RandomizedResponse` at most its divergence without sampling.
    - "lower": RGP, equation 12, the sum of Theorem 3.1 with every binomial weight to the power alpha.
      Nothing below it holds for all data sets. For replaced records it is about the same data sets, in
      which members are replaced by records that contribute nothing (Poisson samples) or what all others
      do (fixed batches).

    Upper bounds are rounded up and the lower one down, by less than 1e-12 of their size in ordinary runs.

    References
    ----------
    - Jiang, Luo, Yang and Xiao 2024, "Calibrating Noise for Group Privacy in Subsampled Mechanisms", PVLDB
      18(2), doi:10.14778/3705829.3705848 (RGP)
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    Figure 2 of RGP at m = 16: 500 steps at a divergence of 1 take sigma = 26.55 by its bound, in truth
    15.24.

    >>> import hockeystick as hs
    >>> run = dict(sample_rate=0.03, group_size=16)
    >>> f"{500 * hs.renyi.group_rdp(hs.Gaussian(26.5527), 4, bound='jensen', **run):.3f}"
    '1.000'
    >>> f"{500 * hs.renyi.group_rdp(hs.Gaussian(15.2404), 4, **run):.3f}"
    '1.000'

    Theorem 3.1 for a mechanism of one's own, here pure 0.1-differential privacy for every record:

    >>> f"{hs.renyi.group_rdp(component=lambda k, order: 0.1 * k, orders=8, **run):.4f}"
    '0.0685'

    One step of a run, and all of them:

    >>> stated = hs.Run(sampling="poisson", sample_rate=0.03, steps=500, noise_multiplier=15.2404,
    ...                 records_per_person=16)
    >>> f"{stated.number_of_steps * hs.renyi.group_rdp(stated, 4):.3f}"
    '1.000'

    Replaced records, in Poisson samples and in fixed batches:

    >>> noise, four = hs.Gaussian(30.0), dict(orders=4, group_size=16, adjacency="replace", bound="jensen")
    >>> f"{hs.renyi.group_rdp(noise, sample_rate=0.03, **four):.6f}"
    '0.006449'
    >>> f"{hs.renyi.group_rdp(noise, sampling=hs.WithoutReplacement(300, 10_000), **four):.6f}"
    '0.006441'
    """
    assert not isinstance(sampling, str)
    assert not isinstance(mechanism, Run)
    if orders is None:
        raise TypeError("orders is missing")
    if component is not None:
        if mechanism is not None:
            raise TypeError("give exactly one of mechanism and component")
        if bound not in (None, "jensen"):
            raise ValueError(f"bound must be 'jensen' where component is given, got {shown(bound)}")
        if sampling is not None or group is not None:
            raise TypeError("component goes with sample_rate and group_size, and no sampling or group")
        if sample_rate is None:
            raise TypeError("sample_rate is missing")
        check_adjacency(adjacency)
        return _of_component(component, orders, sample_rate, group_size)
    if mechanism is None:
        raise TypeError("give exactly one of mechanism and component")
    noise = check_mechanism(mechanism)
    chosen = "exact" if bound is None else choice(bound, "bound", BOUNDS)
    drawing = check_drawing(sample_rate, sampling, group_size, group, adjacency)
    require_known(family_of(noise), chosen, drawing)
    points = _orders(orders)
    shape = broadcast(orders=points, **drawing.arrays)
    names = list(drawing.arrays)

    def answer(points: Floats, *columns: NDArray[Any]) -> tuple[Floats]:
        draw, members = drawing.for_core(dict(zip(names, columns, strict=True)))
        return (_core.group_rdp((noise, draw, members), points, chosen, drawing.adjacency),)

    (values,) = answered_once(flat((points, *drawing.arrays.values()), shape), answer)
    return _stated(values, shape, statement_of(family_of(noise), chosen, drawing))


def _orders(orders: ArrayLike) -> Floats:
    points = float_array(orders, "orders")
    require(points.size > 0, "orders", "an empty array", "at least one order")
    return points


def _of_component(
    component: Component | ArrayLike,
    orders: ArrayLike,
    sample_rate: ArrayLike,
    group_size: ArrayLike | None,
) -> RenyiBound | RenyiBounds:
    """RGP Theorem 3.1 with component bounds of the user's."""
    if not callable(component):
        points = float_array(orders, "orders")
        table = _table(component, points, group_size)
        found = renyi_group_bound(points, table, float_scalar(sample_rate, "sample_rate"))
        return _stated(np.atleast_1d(found), points.shape, COMPONENT_STATEMENT)
    if group_size is None:
        raise TypeError("group_size is missing")
    points, rates, sizes = (
        _orders(orders),
        float_array(sample_rate, "sample_rate"),
        check_renyi_group_sizes(group_size),
    )
    shape = broadcast(orders=points, sample_rate=rates, group_size=sizes)
    flat_points, flat_rates, flat_sizes = flat((points, rates, sizes), shape)
    wanted = np.unique(flat_points)
    rows = np.zeros((int(sizes.max()) + 1, wanted.size))
    for k in range(1, len(rows)):
        for column, order in enumerate(wanted.tolist()):
            name = f"component({k}, {order:g})"
            value = float_scalar(component(k, order), name)
            require(value >= 0.0, name, value, "in [0, inf]")
            rows[k, column] = value
    columns = np.searchsorted(wanted, flat_points)
    values = np.empty(flat_points.size)
    for rate, size in sorted(set(zip(flat_rates.tolist(), flat_sizes.tolist(), strict=True))):
        here = (flat_rates == rate) & (flat_sizes == size)
        values[here] = renyi_group_bound(flat_points[here], rows[: size + 1, columns[here]], rate)
    return _stated(values, shape, COMPONENT_STATEMENT)


def _table(component: ArrayLike, points: Floats, group_size: ArrayLike | None) -> Floats:
    """Component bounds as an array, checked."""
    table = float_array(component, "component")
    shape = "(group_size + 1,)" if points.ndim == 0 else "(group_size + 1, n_orders)"
    if points.ndim > 1 or table.ndim != points.ndim + 1 or len(table) < 2 or table.shape[1:] != points.shape:
        raise ValueError(f"component must have shape {shape}, got {table.shape} and orders {points.shape}")
    if group_size is not None:
        size = count_scalar(group_size, "group_size", 1, LARGEST_RENYI_GROUP)
        if len(table) != size + 1:
            raise ValueError(f"component must have one row for each of 0..{size} records, got {len(table)}")
    good = table >= 0.0
    require(bool(np.all(good)), "component", table[~good].flat[:1], "in [0, inf]")
    require(not np.any(table[0]), "component[0]", table[0], "zero: 0 records differ by nothing")
    return table


def _stated(values: Floats, shape: tuple[int, ...], statement: Statement) -> RenyiBound | RenyiBounds:
    if shape == ():
        return RenyiBound(float(values[0]), statement)
    return RenyiBounds(values.reshape(shape), statement)
