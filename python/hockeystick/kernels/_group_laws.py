"""How many members of a group are in one batch: weights and shifts of the dominating mixture."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    LARGEST_GROUP,
    Counts,
    Floats,
    broadcast,
    count_array,
    float_view,
    require,
)


def binomial_law(
    group_size: ArrayLike, sample_rate: ArrayLike, *, log: bool = False
) -> tuple[Floats, Floats]:
    """Law of the number of group members in a Poisson-sampled batch.

    The arguments broadcast: for arrays there is one law for each element.

    Parameters
    ----------
    group_size : array_like of int
        Number k of records in the group, in [1, 10000].
    sample_rate : array_like
        Probability q in [0, 1] that a record is in the batch.
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (..., n)
        P(j members in the batch), or its logarithm, along the last axis. The other axes are those to which
        the arguments broadcast: none for numbers, whose law has the shape (n,). Counts of probability zero
        are left out. Where laws have different numbers of counts, n is the largest one, and the shorter laws
        end with weights of zero (logarithms of minus infinity).
    shifts : ndarray, shape (..., n)
        The counts j, ascending; zero where a shorter law ends with weights of zero.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not broadcast.
    TypeError
        If an argument is not real.

    Warns
    -----
    RuntimeWarning
        If a weight underflows. To drop the weight of a large shift can understate the privacy
        loss: use ``log=True`` then.

    Notes
    -----
    w_j = C(k, j) q^j (1 - q)^(k - j), s_j = j. Each member moves the sum by at most one clipping
    norm (GROUP, Theorem 18: "Optimal Group Privacy for DP-SGD").

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> weights, shifts = kernels.binomial_law(2, 0.25)
    >>> weights.round(6).tolist(), shifts.tolist()
    ([0.5625, 0.375, 0.0625], [0.0, 1.0, 2.0])

    Two groups at once; the law of one record has one count less:

    >>> weights, shifts = kernels.binomial_law([1, 2], 0.25)
    >>> weights.round(6).tolist()
    [[0.75, 0.25, 0.0], [0.5625, 0.375, 0.0625]]
    >>> shifts.tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 2.0]]
    """
    sizes, rates = _group_sizes(group_size), float_view(sample_rate, "sample_rate")
    shape = broadcast(group_size=sizes, sample_rate=rates)
    law = _core.binomial_law(np.broadcast_to(sizes, shape), np.broadcast_to(rates, shape))
    return _in_space(law, log)


def poisson_binomial_law(rates: ArrayLike, *, log: bool = False) -> tuple[Floats, Floats]:
    """Law of the number of group members in a batch where each has a sample rate of its own.

    Parameters
    ----------
    rates : array_like, shape (..., group_size)
        Sample rate of each member, in [0, 1]: the members of a group along the last axis, one group for each
        element of the others.
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (..., n)
        P(j members in the batch), or its logarithm. Counts of probability zero are left out; where laws have
        different numbers of counts, they end as those of `binomial_law` do.
    shifts : ndarray, shape (..., n)
        The counts j, ascending.

    Raises
    ------
    ValueError
        If there is no member, no axis or a value outside [0, 1].
    TypeError
        If `rates` does not hold real numbers.

    Warns
    -----
    RuntimeWarning
        If a weight underflows; see `binomial_law`.

    Notes
    -----
    The law of a sum of independent Bernoulli(q_i) (GROUP, Lemma 14).

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> weights, shifts = kernels.poisson_binomial_law([0.5, 0.1])
    >>> weights.round(6).tolist(), shifts.tolist()
    ([0.45, 0.5, 0.05], [0.0, 1.0, 2.0])
    """
    members = float_view(rates, "rates")
    require(members.ndim > 0, "rates", rates, "an array with one rate for each member")
    return _in_space(_core.poisson_binomial_law(members), log)


def hypergeometric_law(
    group_size: ArrayLike, batch_size: ArrayLike, dataset_size: ArrayLike, *, log: bool = False
) -> tuple[Floats, Floats]:
    """Law of the number of group members in a batch of fixed size drawn without replacement.

    The arguments broadcast: for arrays there is one law for each element.

    Parameters
    ----------
    group_size : array_like of int
        Number k of records in the group, in [1, 10000] and at most `dataset_size`.
    batch_size : array_like of int
        Number b of records in the batch, in [1, dataset_size].
    dataset_size : array_like of int
        Number n of records in the larger of the two data sets.
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (..., n)
        P(j members in the batch), or its logarithm. Counts of probability zero are left out; where laws have
        different numbers of counts, they end as those of `binomial_law` do.
    shifts : ndarray, shape (..., n)
        Twice the counts, 2 j, ascending: a member in the batch pushes another record out of it.

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes do not broadcast.
    TypeError
        If an argument is not real.

    Warns
    -----
    RuntimeWarning
        If a weight underflows; see `binomial_law`.

    Notes
    -----
    w_j = C(k, j) C(n - k, b - j) / C(n, b), s_j = 2 j (PITFALLS, Proposition 9: "Avoiding Pitfalls
    for Privacy Accounting of Subsampled Mechanisms under Composition"). Tight where the
    smaller data set still fills a batch, k + b <= n; an upper bound elsewhere.

    References
    ----------
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> weights, shifts = kernels.hypergeometric_law(1, batch_size=1, dataset_size=4)
    >>> weights.round(6).tolist(), shifts.tolist()
    ([0.75, 0.25], [0.0, 2.0])
    """
    sizes = _group_sizes(group_size)
    batches, records = (
        count_array(batch_size, "batch_size", 1),
        count_array(dataset_size, "dataset_size", 1),
    )
    shape = broadcast(group_size=sizes, batch_size=batches, dataset_size=records)
    law = _core.hypergeometric_law(*(np.broadcast_to(each, shape) for each in (sizes, batches, records)))
    return _in_space(law, log)


def _group_sizes(group_size: ArrayLike) -> Counts:
    sizes = count_array(group_size, "group_size", 1)
    too_large = sizes > LARGEST_GROUP
    if np.any(too_large):
        allowed = f"a whole number in [1, {LARGEST_GROUP}]"
        require(False, "group_size", int(sizes[too_large].flat[0]), allowed)
    return sizes


def _in_space(law: tuple[Floats, Floats], log: bool) -> tuple[Floats, Floats]:
    log_weights, shifts = law
    if log:
        return log_weights, shifts
    weights = np.exp(log_weights)
    # A logarithm of minus infinity is the end of a law that has fewer counts than another one.
    if np.any((weights < np.finfo(np.float64).tiny) & (log_weights > -np.inf)):
        # Left to pass, this would make the privacy loss of a large group look smaller than it is.
        warnings.warn(
            "some weights are below the smallest normal float64 (2.2e-308) and lose their digits "
            "or become zero; use log=True and, in the other kernels, log_weights=True",
            RuntimeWarning,
            stacklevel=3,
        )
    return weights, shifts
