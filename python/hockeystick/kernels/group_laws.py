"""How many members of a group are in one batch: weights and shifts of the dominating mixture."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import LARGEST_GROUP, Floats, count_scalar, float_scalar, float_vector


def binomial_law(group_size: int, sample_rate: float, *, log: bool = False) -> tuple[Floats, Floats]:
    """Law of the number of group members in a Poisson-sampled batch.

    Parameters
    ----------
    group_size : int
        Number k of records in the group, in [1, 10000].
    sample_rate : float
        Probability q in [0, 1] that a record is in the batch.
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (n,)
        P(j members in the batch), or its logarithm. Counts of probability zero are left out.
    shifts : ndarray, shape (n,)
        The counts j, ascending.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a real number.

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
    """
    law = _core.binomial_law(
        count_scalar(group_size, "group_size", 1, LARGEST_GROUP),
        float_scalar(sample_rate, "sample_rate"),
    )
    return _in_space(law, log)


def poisson_binomial_law(rates: ArrayLike, *, log: bool = False) -> tuple[Floats, Floats]:
    """Law of the number of group members in a batch where each has a sample rate of its own.

    Parameters
    ----------
    rates : array_like, shape (group_size,)
        Sample rate of each member, in [0, 1].
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (n,)
        P(j members in the batch), or its logarithm. Counts of probability zero are left out.
    shifts : ndarray, shape (n,)
        The counts j, ascending.

    Raises
    ------
    ValueError
        If `rates` is empty, not one-dimensional or holds a value outside [0, 1].
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
    return _in_space(_core.poisson_binomial_law(float_vector(rates, "rates")), log)


def hypergeometric_law(
    group_size: int, batch_size: int, dataset_size: int, *, log: bool = False
) -> tuple[Floats, Floats]:
    """Law of the number of group members in a batch of fixed size drawn without replacement.

    Parameters
    ----------
    group_size : int
        Number k of records in the group, in [1, 10000] and at most `dataset_size`.
    batch_size : int
        Number b of records in the batch, in [0, dataset_size].
    dataset_size : int
        Number n of records in the larger of the two data sets.
    log : bool, optional
        Return the logarithms of the weights, which do not underflow.

    Returns
    -------
    weights : ndarray, shape (n,)
        P(j members in the batch), or its logarithm. Counts of probability zero are left out.
    shifts : ndarray, shape (n,)
        Twice the counts, 2 j, ascending: a member in the batch pushes another record out of it.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a real number.

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
    law = _core.hypergeometric_law(
        count_scalar(group_size, "group_size", 1, LARGEST_GROUP),
        count_scalar(batch_size, "batch_size", 0),
        count_scalar(dataset_size, "dataset_size", 1),
    )
    return _in_space(law, log)


def _in_space(law: tuple[Floats, Floats], log: bool) -> tuple[Floats, Floats]:
    log_weights, shifts = law
    if log:
        return log_weights, shifts
    weights = np.exp(log_weights)
    if np.any(weights < np.finfo(np.float64).tiny):
        # Left to pass, this would make the privacy loss of a large group look smaller than it is.
        warnings.warn(
            "some weights are below the smallest normal float64 (2.2e-308) and lose their digits "
            "or become zero; use log=True and, in the other kernels, log_weights=True",
            RuntimeWarning,
            stacklevel=3,
        )
    return weights, shifts
