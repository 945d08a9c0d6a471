"""Accounts of more examples than memory holds, and of training on several ranks.

The functions of one partition run anywhere: in `dask.array.map_blocks`, in `mapInPandas` of Spark, in a loop
over a memory-mapped file. An example's account does not depend on the others, so that partitions of any size
give the same bits. Importing this imports neither Dask nor torch.

- `accumulate`: Rényi accounts of a partition's examples, one row each; of all partitions of a Dask array.
- `account`: an accountant of a partition's examples, with exact epsilons.
- `merge`: one accountant of those of many partitions.
- `all_gather`: one accountant of those of all ranks of a `torch.distributed` group.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Floats, float_array, require
from hockeystick._extras import needed
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants import IndividualAccountant
from hockeystick.accountants._adaptors import (
    DEFAULT_ORDERS,
    check_draw,
    check_history,
    check_max_grad_norm,
    check_norms,
    check_orders,
    of_single_batches,
    quotients_rounded_up,
    record_equal_steps,
    shifts_of,
)
from hockeystick.kernels import accumulate_rdp

Steps = Sequence[tuple[float, float | Sampling, int]]


__all__ = ["account", "accumulate", "all_gather", "merge"]


def __dir__() -> list[str]:
    return list(__all__)


def accumulate(
    norms: Any,
    steps: Steps,
    *,
    max_grad_norm: float = 1.0,
    orders: ArrayLike | None = None,
    rdp: Floats | None = None,
) -> Any:
    """Rényi divergences of the steps of each example of a partition, or of a Dask array of partitions.

    Parameters
    ----------
    norms : array_like or dask.array.Array, shape (n, refreshes) or (n,)
        Norms of the examples' gradients at each refresh, at least zero, in the units of `max_grad_norm`;
        larger ones count as that. One row an example, so that rows are partitioned.
    steps : sequence of (noise_multiplier, sample_rate or sampling, num_steps)
        The steps that were made with the norms of each refresh: one entry for each column of `norms`.
    max_grad_norm : float, optional
        Clipping norm C > 0.
    orders : array_like, optional
        Rényi orders in (1, 10000]; by default the 151 of Opacus.
    rdp : ndarray of float64, shape (n, n_orders), optional
        Accounts so far, changed in place: rows of a ``numpy.memmap``, say. New ones by default.

    Returns
    -------
    ndarray of float64 or dask.array.Array, shape (n, n_orders)
        Accounts in nats, `rdp` where given; `kernels.rdp_to_epsilon` makes epsilons of them. Private numbers.
        Of a Dask array a lazy one, of which no more is in memory than the partitions that workers hold.

    Raises
    ------
    ValueError
        If an argument is out of range, shapes do not fit together, or `rdp` is given with a Dask array; `rdp`
        stays as it was.
    TypeError
        If an argument has the wrong type; `rdp` stays as it was.

    Notes
    -----
    The accounts of `IndividualAccountant` with ``exact=False``, bit by bit: 8 bytes an example and order,
    1.2 kB for each example with the default orders. See `kernels.accumulate_rdp` for what is computed.

    Examples
    --------
    >>> import numpy as np
    >>> from hockeystick import distributed, kernels
    >>> norms = np.array([[0.1, 0.2], [0.5, 0.4], [1.0, 3.0]])
    >>> steps = [(2.0, 0.01, 500), (2.0, 0.01, 500)]
    >>> orders = [2.0, 8.0, 32.0]
    >>> rdp = distributed.accumulate(norms, steps, orders=orders)
    >>> rdp.shape
    (3, 3)
    >>> kernels.rdp_to_epsilon(orders, rdp, 1e-5).round(3).tolist()
    [0.238, 0.314, 0.731]
    """
    checked, bound = _checked_steps(steps), check_max_grad_norm(max_grad_norm)
    points = check_orders(DEFAULT_ORDERS if orders is None else orders)
    if hasattr(norms, "map_blocks") and hasattr(norms, "rechunk"):
        if rdp is not None:
            raise ValueError(f"rdp must be None with a Dask array, got {type(rdp).__name__}: add the results")
        return _lazily(norms, checked, bound, points)
    columns = _columns(norms, checked)
    check_norms(columns.ravel())
    accounts = np.zeros((len(columns), len(points))) if rdp is None else rdp
    if rdp is not None and len(checked) > 1:
        # All checks of the accounts, before the first column changes them.
        accumulate_rdp(accounts, np.zeros(len(columns)), points, 1.0, 0.0, steps=0)
    # All that may be refused comes before the first column is added.
    singles = [of_single_batches(*step) for step in checked]
    parts = [
        shifts_of(quotients_rounded_up(np.minimum(column, bound), bound), draw)
        for column, (_, draw, _) in zip(columns.T, singles, strict=True)
    ]
    for (shifts, _, rate), (noise, _, count) in zip(parts, singles, strict=True):
        accumulate_rdp(accounts, shifts, points, noise, rate, steps=count)
    return accounts


def account(norms: ArrayLike, steps: Steps, **settings: Any) -> IndividualAccountant:
    """Accountant of the examples of a partition.

    Parameters
    ----------
    norms : array_like, shape (n, refreshes) or (n,)
        As in `accumulate`.
    steps : sequence of (noise_multiplier, sample_rate or sampling, num_steps)
        As in `accumulate`.
    **settings
        Settings of the `IndividualAccountant`, but for the size of the data set.

    Returns
    -------
    IndividualAccountant
        Of the n examples; `merge` joins those of several partitions.

    Raises
    ------
    ValueError
        If an argument is out of range, or shapes do not fit together.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> from hockeystick import distributed
    >>> part = distributed.account([0.1, 0.5, 2.0], [(1.0, 0.01, 1000)])
    >>> part.get_epsilons(1e-5).round(4).tolist()
    [0.0978, 0.622, 1.8282]
    """
    checked = _checked_steps(steps)
    columns = _columns(norms, checked)
    made = IndividualAccountant(len(columns), **settings)
    for column, step in zip(columns.T, checked, strict=True):
        made.update_norms(column)
        record_equal_steps(made, *step)
    return made


def merge(accountants: Iterable[IndividualAccountant]) -> IndividualAccountant:
    """Join accountants of the partitions of a run into one, in their order.

    Parameters
    ----------
    accountants : iterable of IndividualAccountant
        Of different examples, with the same settings and steps. They stay as they are, and are not to be
        used beside the one that is returned, which shares their steps.

    Returns
    -------
    IndividualAccountant
        Of all examples, bit by bit that of a single process.

    Raises
    ------
    ValueError
        If there are none, or settings or steps differ.
    TypeError
        If one of them is not an IndividualAccountant.

    Examples
    --------
    >>> from hockeystick import distributed
    >>> parts = [distributed.account(norms, [(1.0, 0.01, 1000)]) for norms in ([0.1, 0.5], [2.0])]
    >>> distributed.merge(parts).get_epsilons(1e-5).round(4).tolist()
    [0.0978, 0.622, 1.8282]
    """
    left = list(accountants)
    require(len(left) > 0, "accountants", "none", "at least one accountant")
    for each in left:
        if not isinstance(each, IndividualAccountant):
            raise TypeError(f"accountants must be IndividualAccountants, got a {type(each).__name__}")
    # Copies, as a later pair may be refused; the accounts of a state are not changed by merging it.
    left = [copy.copy(each) for each in left]
    # Neighbours in pairs, so that no account is copied more than log2(partitions) times.
    while len(left) > 1:
        for first, second in zip(left[::2], left[1::2], strict=False):
            first.merge(second)
        left = left[::2]
    return left[0]


def all_gather(accountant: IndividualAccountant, group: Any = None) -> IndividualAccountant:
    """Join the accountants of all ranks of a `torch.distributed` group into one, on every rank.

    Parameters
    ----------
    accountant : IndividualAccountant
        This rank's, of its own examples; it is not changed.
    group : torch.distributed.ProcessGroup, optional
        A group of ranks that exchanges tensors of the CPU (gloo, MPI); the default group if not given.

    Returns
    -------
    IndividualAccountant
        Of the examples of all ranks, those of rank 0 first unless the ranks distinguish them by indices: the
        same bits on every rank, and those of a single process.

    Raises
    ------
    ImportError
        If torch is not installed.
    ValueError
        If settings or steps of the ranks differ.
    TypeError
        If `accountant` is not an IndividualAccountant.

    Notes
    -----
    Ranks exchange states as JSON, which is checked when it is loaded: nothing is unpickled. Every rank holds
    the accounts of all examples afterwards.

    Examples
    --------
    >>> import hockeystick as hs
    >>> accountant = hs.IndividualAccountant(100)  # the examples of this rank
    >>> everyone = hs.distributed.all_gather(accountant)  # doctest: +SKIP
    """
    if not isinstance(accountant, IndividualAccountant):
        raise TypeError(f"accountant must be an IndividualAccountant, got {type(accountant).__name__}")
    torch = needed("torch", "opacus")
    state = torch.frombuffer(bytearray(json.dumps(accountant.state_dict()).encode()), dtype=torch.uint8)
    ranks = range(torch.distributed.get_world_size(group))
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in ranks]
    torch.distributed.all_gather(sizes, torch.tensor([len(state)]), group=group)
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: len(state)] = state
    states = [torch.zeros(longest, dtype=torch.uint8) for _ in ranks]
    torch.distributed.all_gather(states, padded, group=group)
    return merge(
        _loaded(bytes(state.numpy())[: int(size)]) for state, size in zip(states, sizes, strict=True)
    )


def _loaded(state: bytes) -> IndividualAccountant:
    saved = json.loads(state)
    accountant = IndividualAccountant(**saved["settings"])
    accountant.load_state_dict(saved)
    return accountant


def _checked_steps(steps: Steps) -> list[Any]:
    return check_history(steps, "steps", noise=check_noise_multiplier, draw=check_draw)


def _columns(norms: ArrayLike, steps: list[Any]) -> Floats:
    """`norms` with one column for each entry of `steps`."""
    values = float_array(norms, "norms")
    columns = values[:, np.newaxis] if values.ndim == 1 else values
    if columns.ndim != 2 or columns.shape[1] != len(steps):
        raise ValueError(
            f"norms must have shape (n, {len(steps)}), a column for each entry of steps, got {values.shape}"
        )
    return columns


def _lazily(norms: Any, steps: list[Any], bound: float, orders: Floats) -> Any:
    """Return the accounts of a Dask array of norms."""
    columns = norms[:, np.newaxis] if norms.ndim == 1 else norms.rechunk({1: -1})
    return columns.map_blocks(
        accumulate,
        steps,
        max_grad_norm=bound,
        orders=orders,
        dtype=np.float64,
        chunks=(columns.chunks[0], (len(orders),)),
        meta=np.empty((0, 0)),
    )
