"""DP-SGD under the names of prv-accountant."""

from __future__ import annotations

from hockeystick import get_noise_multiplier
from hockeystick._arguments import float_scalar, require
from hockeystick.compat.prv_accountant._accountant import PRVAccountant, Triple
from hockeystick.compat.prv_accountant._privacy_random_variables import PoissonSubsampledGaussianMechanism
from hockeystick.errors import UnreachableError

__all__ = ["DPSGDAccountant", "find_noise_multiplier"]


def __dir__() -> list[str]:
    return list(__all__)


class DPSGDAccountant(PRVAccountant):
    """Accountant of DP-SGD and of algorithms that release as much, such as DP-Adam.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm, finite and at least zero.
    sampling_probability : float
        Probability in [0, 1] that a record is in a batch.
    max_steps : int
        Largest number of steps; a larger one costs nothing.
    eps_error, delta_error : float, optional
        Errors that are allowed, positive; not needed, as `PRVAccountant` says.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant._dpsgd import DPSGDAccountant
    >>> accountant = DPSGDAccountant(noise_multiplier=0.8, sampling_probability=5e-3, max_steps=1000)
    >>> lower, estimate, upper = accountant.compute_epsilon(delta=1e-6, num_steps=1000)
    >>> round(upper, 4)
    2.0041
    """

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        max_steps: int,
        eps_error: float = 0.1,
        delta_error: float = 1e-9,
    ) -> None:
        step = PoissonSubsampledGaussianMechanism(sampling_probability, noise_multiplier)
        super().__init__(step, eps_error, delta_error, max_self_compositions=max_steps)

    # The original's class takes other arguments than its base class, too.
    def compute_epsilon(self, delta: float, num_steps: int) -> Triple:  # type: ignore[override]
        """Certified interval for epsilon at a delta.

        Parameters
        ----------
        delta : float
            In (0, 1).
        num_steps : int
            Number of steps, at most the largest one that was announced.

        Returns
        -------
        lower, estimate, upper : float
            The estimate is the upper end.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        return super().compute_epsilon(delta, num_steps)


def find_noise_multiplier(
    sampling_probability: float,
    num_steps: int,
    target_epsilon: float,
    target_delta: float,
    eps_error: float = 0.1,
    mu_max: float = 100.0,
) -> float:
    """Smallest noise multiplier with which DP-SGD meets a target.

    Parameters
    ----------
    sampling_probability : float
        Probability in [0, 1] that a record is in a batch.
    num_steps : int
        Number of steps.
    target_epsilon : float
        Finite and at least zero.
    target_delta : float
        In (0, 1).
    eps_error : float, optional
        Not needed: epsilon is at most the target, and nearer to it than a thousandth.
    mu_max : float, optional
        Largest noise multiplier that is wanted.

    Returns
    -------
    float
        A noise multiplier, rounded up.

    Raises
    ------
    ValueError
        If an argument is out of range.
    RuntimeError
        If more noise than `mu_max` is needed.

    Examples
    --------
    >>> from hockeystick.compat.prv_accountant._dpsgd import find_noise_multiplier
    >>> round(find_noise_multiplier(2e-3, 10_000, target_epsilon=4.0, target_delta=1e-7), 4)
    0.6738
    """
    require(float_scalar(eps_error, "eps_error") > 0.0, "eps_error", eps_error, "positive")
    largest = float_scalar(mu_max, "mu_max")
    require(largest > 0.0, "mu_max", largest, "positive")
    try:
        found = get_noise_multiplier(
            epsilon=target_epsilon, delta=target_delta, sample_rate=sampling_probability, steps=num_steps
        )
    except UnreachableError as error:
        raise RuntimeError(f"no noise multiplier meets the target: {error}") from error
    noise = float(found)
    if noise > largest:
        raise RuntimeError(
            f"mu_max must be at least {noise:.6g}, the smallest noise multiplier that meets the target, "
            f"got {largest:g}: raise it, or the target epsilon, or sample less"
        )
    return noise
