"""Epsilon, delta and noise multiplier of DP-SGD for groups: the three unknowns of one equation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hockeystick import _core
from hockeystick._arguments import broadcast, count_array, float_array, in_shape
from hockeystick.adjacency import check_adjacency
from hockeystick.sampling import check_sampling

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from hockeystick._arguments import FloatOrFloats, Floats
    from hockeystick.sampling import Poisson


def get_epsilon(
    *,
    delta: ArrayLike,
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike | None = None,
    sampling: Poisson | None = None,
    steps: ArrayLike,
    group_size: ArrayLike = 1,
    adjacency: str = "add_remove",
) -> FloatOrFloats:
    """Upper bound on epsilon of DP-SGD, for a group of records.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    delta : array_like
        In (0, 1).
    noise_multiplier : array_like
        Standard deviation of the noise in units of the clipping norm, at least zero. Zero gives
        epsilon = inf.
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, optional
        How batches are drawn. Give either this or `sample_rate`.
    steps : array_like
        Number of steps, whole and at least zero. Zero gives epsilon = 0.
    group_size : array_like, optional
        Number of records that are added or removed together, whole, in [1, 10000].
    adjacency : {"add_remove", "add", "remove"}, optional
        Whether the larger data set is the one with the group's records, the one without, or
        both in turn (the default).

    Returns
    -------
    float or ndarray
        An upper bound on epsilon: a Python float where all arguments are scalars.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument is not real, or not exactly one of `sample_rate` and `sampling` is given.
    UnsupportedError
        For ``adjacency="replace"`` and for sampling schemes other than Poisson.

    Notes
    -----
    The exact Rényi divergence D_alpha of the dominating pair of each step (GROUP, Theorem 18:
    "Optimal Group Privacy for DP-SGD") is summed over the steps and converted by RGP, Lemma 2.2,

        epsilon = min over alpha of tau + log((alpha - 1) / alpha) - log(delta alpha) / (alpha - 1),

    over real orders alpha in (1, 10000], in each direction; the larger epsilon counts. The
    divergence is exact, but the conversion from Rényi divergences to (epsilon, delta) is not
    tight: the true epsilon is smaller.

    Examples
    --------
    >>> import hockeystick as hs
    >>> epsilon = hs.get_epsilon(
    ...     delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000, group_size=[1, 2, 4]
    ... )
    >>> epsilon.round(2).tolist()
    [2.1, 4.52, 9.93]
    """
    rates = _sample_rates(sample_rate, sampling)
    return _of_runs(
        _core.epsilon_of_runs,
        adjacency,
        delta=float_array(delta, "delta"),
        noise_multiplier=float_array(noise_multiplier, "noise_multiplier"),
        sample_rate=rates,
        steps=count_array(steps, "steps", 0),
        group_size=count_array(group_size, "group_size", 1),
    )


def get_delta(
    *,
    epsilon: ArrayLike,
    noise_multiplier: ArrayLike,
    sample_rate: ArrayLike | None = None,
    sampling: Poisson | None = None,
    steps: ArrayLike,
    group_size: ArrayLike = 1,
    adjacency: str = "add_remove",
) -> FloatOrFloats:
    """Upper bound on delta of DP-SGD, for a group of records.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    epsilon : array_like
        Finite and at least zero.
    noise_multiplier : array_like
        Standard deviation of the noise in units of the clipping norm, at least zero. Zero gives
        delta = 1.
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, optional
        How batches are drawn. Give either this or `sample_rate`.
    steps : array_like
        Number of steps, whole and at least zero. Zero gives delta = 0.
    group_size : array_like, optional
        Number of records that are added or removed together, whole, in [1, 10000].
    adjacency : {"add_remove", "add", "remove"}, optional
        Whether the larger data set is the one with the group's records, the one without, or
        both in turn (the default).

    Returns
    -------
    float or ndarray
        An upper bound on delta, in [0, 1]: a Python float where all arguments are scalars.

    Raises
    ------
    ValueError
        If an argument is out of range or the shapes do not broadcast.
    TypeError
        If an argument is not real, or not exactly one of `sample_rate` and `sampling` is given.
    UnsupportedError
        For ``adjacency="replace"`` and for sampling schemes other than Poisson.

    Notes
    -----
    The exact Rényi divergence of the dominating pair (GROUP, Theorem 18), summed over the steps
    and converted by RGP, Lemma 2.2 at the best real order in (1, 10000]. The divergence is exact,
    but the conversion from Rényi divergences to (epsilon, delta) is not tight: the true delta is
    smaller.

    Examples
    --------
    >>> import hockeystick as hs
    >>> delta = hs.get_delta(epsilon=3.0, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> f"{delta:.1e}"
    '1.9e-08'
    """
    rates = _sample_rates(sample_rate, sampling)
    return _of_runs(
        _core.delta_of_runs,
        adjacency,
        epsilon=float_array(epsilon, "epsilon"),
        noise_multiplier=float_array(noise_multiplier, "noise_multiplier"),
        sample_rate=rates,
        steps=count_array(steps, "steps", 0),
        group_size=count_array(group_size, "group_size", 1),
    )


def get_noise_multiplier(
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
    sample_rate: ArrayLike | None = None,
    sampling: Poisson | None = None,
    steps: ArrayLike,
    group_size: ArrayLike = 1,
    adjacency: str = "add_remove",
) -> FloatOrFloats:
    """Noise multiplier at which `get_epsilon` meets a target epsilon.

    All numeric arguments broadcast like those of a NumPy ufunc; the elements are computed in
    parallel.

    Parameters
    ----------
    epsilon : array_like
        Target epsilon, finite and at least zero.
    delta : array_like
        In (0, 1).
    sample_rate : array_like, optional
        Probability in [0, 1] that a record is in a batch: short for ``sampling=Poisson(...)``.
    sampling : Poisson, optional
        How batches are drawn. Give either this or `sample_rate`.
    steps : array_like
        Number of steps, whole and at least zero.
    group_size : array_like, optional
        Number of records that are added or removed together, whole, in [1, 10000].
    adjacency : {"add_remove", "add", "remove"}, optional
        Whether the larger data set is the one with the group's records, the one without, or
        both in turn (the default).

    Returns
    -------
    float or ndarray
        A noise multiplier sigma, rounded up: `get_epsilon` at sigma is at most `epsilon`.

    Raises
    ------
    ValueError
        If an argument is out of range, the shapes do not broadcast or no noise multiplier reaches
        the target.
    TypeError
        If an argument is not real, or not exactly one of `sample_rate` and `sampling` is given.
    UnsupportedError
        For ``adjacency="replace"`` and for sampling schemes other than Poisson.

    Notes
    -----
    The root in sigma of the bound that `get_epsilon` computes: the exact Rényi divergence of the
    dominating pair (GROUP, Theorem 18) converted by RGP, Lemma 2.2 at the best real order in
    (1, 10000]. The conversion is not tight, so less noise would do.

    Examples
    --------
    >>> import hockeystick as hs
    >>> sigma = hs.get_noise_multiplier(
    ...     epsilon=3.0, delta=1e-5, sample_rate=0.01, steps=1000, group_size=8
    ... )
    >>> round(sigma, 2)
    3.91
    """
    rates = _sample_rates(sample_rate, sampling)
    return _of_runs(
        _core.noise_multiplier_of_runs,
        adjacency,
        epsilon=float_array(epsilon, "epsilon"),
        delta=float_array(delta, "delta"),
        sample_rate=rates,
        steps=count_array(steps, "steps", 0),
        group_size=count_array(group_size, "group_size", 1),
    )


def _sample_rates(sample_rate: ArrayLike | None, sampling: Poisson | None) -> Floats:
    """Sample rates, however the user gave them."""
    if (sample_rate is None) == (sampling is None):
        raise TypeError("give exactly one of sample_rate and sampling")
    if sampling is not None:
        sample_rate = check_sampling(sampling).sample_rate
    return float_array(sample_rate, "sample_rate")


def _of_runs(core_function: Any, adjacency: str, **arguments: NDArray[Any]) -> FloatOrFloats:
    """Call `core_function` on the flattened broadcast of `arguments`, in the order given."""
    checked_adjacency = check_adjacency(adjacency)
    shape = broadcast(**arguments)
    flat = [np.broadcast_to(array, shape).flatten() for array in arguments.values()]
    return in_shape(core_function(*flat, checked_adjacency), shape)
