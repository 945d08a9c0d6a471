"""A privacy curve as a privacy profile of OpenDP. Importing this does not import OpenDP; calling it does.

OpenDP leaves the proof of what is passed to it to whoever passes it, and asks for the features "contrib" and
"honest-but-curious" to be enabled before (``opendp.prelude.enable_features``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick import PrivacyCurve, privacy_curve
from hockeystick._arguments import count_scalar, float_scalar
from hockeystick._extras import needed
from hockeystick._vocabulary.mechanisms import Mechanism
from hockeystick._vocabulary.sampling import Sampling

__all__ = ["privacy_map", "privacy_profile"]


def __dir__() -> list[str]:
    return list(__all__)


def privacy_profile(curve: PrivacyCurve) -> Any:
    """Privacy profile of a curve: its delta at every epsilon, rounded up.

    Parameters
    ----------
    curve : PrivacyCurve
        Of a run, for one neighbouring relation and group.

    Returns
    -------
    opendp.mod.PrivacyProfile
        With ``delta(epsilon)`` and ``epsilon(delta)``, for measurements under ``smoothed_max_divergence()``.

    Raises
    ------
    TypeError
        If `curve` is not a privacy curve.
    ImportError
        If OpenDP is not installed.
    opendp.mod.OpenDPException
        If the features "contrib" and "honest-but-curious" are not enabled.

    Examples
    --------
    >>> import hockeystick as hs
    >>> import opendp.prelude as dp  # doctest: +SKIP
    >>> dp.enable_features("contrib", "honest-but-curious")  # doctest: +SKIP
    >>> run = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    >>> hs.compat.opendp.privacy_profile(run).delta(2.0)  # doctest: +SKIP
    2.66...e-06
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"curve must be a PrivacyCurve, got {type(curve).__name__}")
    measures = needed("opendp.measures", "release")
    return measures.new_privacy_profile(lambda epsilon: float(curve.delta(epsilon)))


def privacy_map(
    *,
    delta: float,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | None = None,
    steps: int,
    group_size: int = 1,
    mechanism: Mechanism | None = None,
) -> Callable[[int], tuple[float, float]]:
    """Privacy map of a training run at one delta, for one record or one user who is added or removed.

    Parameters
    ----------
    delta : float
        In (0, 1).
    noise_multiplier, sample_rate, sampling, steps, mechanism
        The run, as in `hockeystick.privacy_curve`.
    group_size : int, optional
        Most records that a user has, in [1, 10000].

    Returns
    -------
    callable
        Takes ``d_in``, the number of users that data sets differ by, 0 or 1, and returns (epsilon, delta). To
        be passed to ``make_user_measurement`` with ``approximate(max_divergence())`` and
        ``symmetric_distance()``. Another ``d_in`` is a `ValueError`: of two users one may be added and the
        other removed, for which no pair is proven.

    Raises
    ------
    ValueError, TypeError, UnsupportedError
        As `hockeystick.privacy_curve`, or if `delta` is out of range.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 1000}
    >>> of_users = hs.compat.opendp.privacy_map(delta=1e-5, **run, group_size=8)
    >>> epsilon, delta = of_users(1)
    >>> print(f"({epsilon:.3f}, {delta})")
    (2.686, 1e-05)
    >>> of_users(0)
    (0.0, 0.0)
    """
    curve = privacy_curve(
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        sampling=sampling,
        steps=steps,
        group_size=group_size,
        mechanism=mechanism,
    )
    at = float_scalar(delta, "delta")
    spent = (float(curve.epsilon(at)), at)

    def of_distance(d_in: int) -> tuple[float, float]:
        return spent if count_scalar(d_in, "d_in", 0, 1) else (0.0, 0.0)

    return of_distance
