"""Calibration of a parameter to epsilon and delta under the names of autodp."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hockeystick._arguments import float_scalar, require
from hockeystick.compat.autodp._mechanism_zoo import Mechanism
from hockeystick.errors import WideIntervalWarning

__all__ = ["ana_gaussian_calibrator", "eps_delta_calibrator", "generalized_eps_delta_calibrator"]


def __dir__() -> list[str]:
    return list(__all__)


class eps_delta_calibrator:  # noqa: N801 -- autodp's name
    """The parameter with which a mechanism of one parameter meets a target; call it with the class.

    Examples
    --------
    >>> from hockeystick.compat.autodp import LaplaceMechanism, eps_delta_calibrator
    >>> found = eps_delta_calibrator()(LaplaceMechanism, 1.0, 1e-6, [0.01, 100.0])
    >>> round(found.params["b"], 3), found.get_approxDP(1e-6) <= 1.0
    (1.0, True)
    """

    name = "eps_delta_calibrator"

    def __call__(
        self,
        mech_class: Callable[..., Mechanism],
        eps: float,
        delta: float,
        bounds: Sequence[float],
        name: str | None = None,
    ) -> Mechanism:
        """Calibrate.

        Parameters
        ----------
        mech_class : callable
            Makes a mechanism from a number, and from a name if one is given.
        eps : float
            Target epsilon, positive.
        delta : float
            Target delta, in [0, 1].
        bounds : sequence of two floats
            Range of the parameter, in which epsilon rises or falls throughout.
        name : str, optional
            Name of the mechanism that is returned.

        Returns
        -------
        Mechanism
            One whose epsilon is at most the target, and nearly the target where the range allows it.

        Raises
        ------
        ValueError
            If an argument is out of range.
        RuntimeError
            If no parameter in the range meets the target.
        """
        found = _meeting(lambda value: mech_class(value), eps, delta, bounds)
        return mech_class(found) if name is None else mech_class(found, name=name)

    calibrate = __call__


class generalized_eps_delta_calibrator:  # noqa: N801 -- autodp's name
    """One parameter of a mechanism that takes a dict of them; call it with the class.

    Examples
    --------
    >>> from hockeystick.compat.autodp import SubsampleGaussianMechanism, generalized_eps_delta_calibrator
    >>> known = {"prob": 0.01, "coeff": 1000, "sigma": None}
    >>> calibrate = generalized_eps_delta_calibrator()
    >>> target = (3.0, 1e-5, [0.1, 100.0])
    >>> found = calibrate(SubsampleGaussianMechanism, *target, params=known, para_name="sigma")
    >>> round(found.params["sigma"], 4)
    0.8136
    """

    name = "generalized_eps_delta_calibrator"

    def __call__(
        self,
        mech_class: Callable[..., Mechanism],
        eps: float,
        delta: float,
        bounds: Sequence[float],
        params: dict[str, Any] | None = None,
        para_name: str | None = None,
        name: str | None = None,
    ) -> Mechanism:
        """Calibrate.

        Parameters
        ----------
        mech_class : callable
            Makes a mechanism from a dict of parameters, or from a number if `params` is left out.
        eps, delta, bounds
            As for `eps_delta_calibrator`.
        params : dict, optional
            The other parameters; it is left as it is.
        para_name : str, optional
            Name of the parameter that is looked for.
        name : str, optional
            Name of the mechanism that is returned.

        Returns
        -------
        Mechanism
            One whose epsilon is at most the target, and nearly the target where the range allows it.

        Raises
        ------
        ValueError
            If an argument is out of range.
        RuntimeError
            If no parameter in the range meets the target.
        """
        require((params is None) == (para_name is None), "para_name", para_name, "given together with params")

        def made(value: float, **named: Any) -> Mechanism:
            argument = value if params is None else {**params, str(para_name): value}
            return mech_class(argument, **named)

        found = _meeting(made, eps, delta, bounds)
        return made(found) if name is None else made(found, name=name)

    calibrate = __call__


class ana_gaussian_calibrator:  # noqa: N801 -- autodp's name
    """Gaussian noise for a target; call it with the class of the mechanism.

    Examples
    --------
    >>> from hockeystick.compat.autodp import ExactGaussianMechanism, ana_gaussian_calibrator
    >>> round(ana_gaussian_calibrator()(ExactGaussianMechanism, 1.0, 1e-6).params["sigma"], 4)
    4.2247
    """

    name = "ana_gaussian_calibrator"

    def __call__(
        self,
        mech_class: Callable[..., Mechanism],
        eps: float,
        delta: float,
        name: str | None = None,
        tol: float = 1e-12,
    ) -> Mechanism:
        """Calibrate.

        Parameters
        ----------
        mech_class : callable
            Makes a mechanism from a noise multiplier.
        eps : float
            Target epsilon, positive.
        delta : float
            Target delta, in (0, 1).
        name : str, optional
            Name of the mechanism that is returned.
        tol : float, optional
            Positive; without effect.

        Returns
        -------
        Mechanism
            One whose epsilon is at most the target.

        Raises
        ------
        ValueError
            If an argument is out of range.
        RuntimeError
            If no noise multiplier up to 10**6 meets the target.
        """
        require(float_scalar(tol, "tol") > 0.0, "tol", tol, "positive")
        found = _meeting(lambda value: mech_class(value), eps, delta, (_SMALLEST, 1e6))
        return mech_class(found) if name is None else mech_class(found, name=name)

    calibrate = __call__


_SMALLEST = 1e-3
"""Stands for the start of a range that begins at zero, as parameters are positive."""

_HALVINGS = 80
"""Halvings of the logarithm of the range; fewer are needed for neighbouring numbers."""


def _meeting(made: Callable[[float], Mechanism], eps: float, delta: float, bounds: Sequence[float]) -> float:
    """Parameter whose epsilon is at most the target and next to one whose epsilon is not."""
    target = float_scalar(eps, "eps")
    require(math.isfinite(target) and target > 0.0, "eps", target, "in (0, inf)")
    low, high = (float_scalar(end, "bounds") for end in bounds)
    require(0.0 <= low < high < math.inf, "bounds", bounds, "two numbers, 0 <= low < high < inf")
    low = max(low, min(_SMALLEST, high / 2.0))

    def meets(value: float) -> bool:
        return made(value).get_approxDP(delta) <= target

    # The ends may be far from any use, where intervals are wide; what is returned is looked at again.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WideIntervalWarning)
        at_low, at_high = meets(low), meets(high)
    if at_low and at_high:
        return low
    if not at_low and not at_high:
        raise RuntimeError(
            f"no parameter in [{low:g}, {high:g}] has epsilon {target:g} or less at delta {delta:g}"
        )
    good, bad = (low, high) if at_low else (high, low)
    for _ in range(_HALVINGS):
        middle = math.sqrt(good * bad)
        if abs(good - bad) <= 1e-12 * high or middle in (good, bad):
            break
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good
