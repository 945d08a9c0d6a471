"""The privacy loss of a mixture pair and its hockey-stick divergence from samples."""

from __future__ import annotations

from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import FloatOrFloats, float_array, float_or_floats, in_shape
from hockeystick.kernels._broadcasting import Laws, for_each_law


def log_likelihood_ratio(
    x: ArrayLike,
    weights: ArrayLike,
    shifts: ArrayLike,
    noise_multiplier: ArrayLike,
    *,
    log_weights: bool = False,
) -> FloatOrFloats:
    """Logarithm of the density ratio of a Gaussian mixture to its noise.

    Parameters
    ----------
    x : array_like, any shape
        Where to evaluate the ratio, in units of the clipping norm.
    weights : array_like, shape (..., n)
        Mixture weights along the last axis: at least zero and of sum one. Leading axes, one law for each of
        their elements, broadcast with the other arguments; `binomial_law` makes such arrays.
    shifts : array_like, shape (..., n)
        Means of the mixture's components.
    noise_multiplier : array_like, broadcast against `x`
        Standard deviation sigma of every component, positive.
    log_weights : bool, optional
        `weights` holds logarithms.

    Returns
    -------
    float or ndarray, shape to which `x`, `noise_multiplier` and the laws broadcast
        log(MoG(x) / N(0, sigma^2)(x)), in nats.

    Raises
    ------
    ValueError
        If an argument is out of range, or the lengths of `weights` and `shifts` differ.
    TypeError
        If an argument is not real.

    Notes
    -----
    L(x) = log sum_j w_j exp((s_j x - s_j^2 / 2) / sigma^2), the privacy loss of the dominating
    pair of GROUP, Theorem 18 ("Optimal Group Privacy for DP-SGD"); the loss of the direction "add"
    is -L.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)

    Examples
    --------
    >>> from hockeystick import kernels
    >>> kernels.log_likelihood_ratio(0.5, [0.75, 0.25], [0.0, 1.0], 1.0)
    0.0
    """
    points = float_array(x, "x")
    return for_each_law(
        lambda weights, shifts, points, noise: _core.log_likelihood_ratio(
            points, weights, shifts, noise, bool(log_weights)
        ),
        Laws.of(weights, shifts),
        points,
        "x",
        float_or_floats(noise_multiplier, "noise_multiplier"),
        "noise_multiplier",
    )


def hockey_stick(log_ratio: ArrayLike, epsilon: ArrayLike) -> FloatOrFloats:
    """Mean hockey-stick divergence over samples of the privacy loss.

    Parameters
    ----------
    log_ratio : array_like, any shape, at least one element
        Samples l of the privacy loss log dP/dQ, drawn from P.
    epsilon : array_like, any shape
        Where to evaluate the divergence.

    Returns
    -------
    float or ndarray, shape of `epsilon`
        The mean of (1 - exp(epsilon - l))_+ over the samples.

    Raises
    ------
    ValueError
        If `log_ratio` is empty or a value is not finite.
    TypeError
        If an argument is not real.

    Notes
    -----
    An unbiased estimate of H_{e^epsilon}(P || Q) = E_P[(1 - e^(epsilon - l))_+] and no bound on
    it: `monte_carlo_delta` gives an interval.

    Examples
    --------
    >>> from hockeystick import kernels
    >>> round(kernels.hockey_stick([0.0, 1.0], 0.0), 12)
    0.316060279414
    """
    levels = float_array(epsilon, "epsilon")
    values = _core.hockey_stick(float_array(log_ratio, "log_ratio").ravel(), levels.ravel())
    return in_shape(values, levels.shape)
