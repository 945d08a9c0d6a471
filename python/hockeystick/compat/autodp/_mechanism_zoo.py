"""Mechanisms under the names of autodp, and what may be asked of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import FullBatch, Laplace, Poisson, PrivacyCurve, RandomizedResponse, privacy_curve
from hockeystick._arguments import FloatOrFloats, float_scalar, float_vector, require
from hockeystick.compat.autodp._steps import ROUNDED_UP, Steps, gaussian, responses
from hockeystick.tradeoff import TradeoffCurve

__all__ = [
    "ComposedGaussianMechanism",
    "ExactGaussianMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "NoisyGD_Mechanism",
    "NoisySGD_Mechanism",
    "PureDP_Mechanism",
    "RandresponseMechanism",
    "SubsampleGaussianMechanism",
]


def __dir__() -> list[str]:
    return list(__all__)


class Mechanism:
    """A mechanism with an exact privacy curve. Made by the classes below and by transformers.

    Parameters
    ----------
    steps : sequence of Steps, optional
        What it releases.
    name : str, optional
        Name.
    params : dict, optional
        Parameters by name, for calibrators.

    Examples
    --------
    >>> from hockeystick.compat.autodp import AmplificationBySampling, Composition, ExactGaussianMechanism
    >>> noise = ExactGaussianMechanism(sigma=1.0)
    >>> step = AmplificationBySampling(PoissonSampling=True)(noise, 0.01)
    >>> run = Composition()([step], [1000])
    >>> round(run.get_approxDP(1e-5), 4)
    1.8282
    >>> run.get_eps(1e-5) == run.get_approxDP(1e-5), run.get_approx_delta(1.8283) < 1e-5, run.get_pureDP()
    (True, True, inf)
    >>> print(f"{run.get_RDP(2.0):.4f} {run.get_fDP(0.05):.4f} {run.privacy_curve().steps}")
    0.1718 0.8890 1000
    """

    def __init__(
        self, steps: tuple[Steps, ...] = (), name: str = "generic", params: dict[str, Any] | None = None
    ) -> None:
        self.steps = tuple(steps)
        self.name = name
        self.params: dict[str, Any] = dict(params or {})
        self.delta0 = 0.0

    def privacy_curve(self) -> PrivacyCurve:
        """Exact curve of the mechanism, for adding or removing a record.

        Returns
        -------
        PrivacyCurve
        """
        total = privacy_curve(noise_multiplier=1.0, sampling=FullBatch(), steps=0)
        for kind in self.steps:
            sampling = FullBatch() if kind.sample_rate == 1.0 else Poisson(kind.sample_rate)
            total = total + privacy_curve(mechanism=kind.noise, sampling=sampling, steps=kind.times)
        return total

    def get_pureDP(self) -> float:  # noqa: N802 -- autodp's name
        """Upper bound on epsilon at delta zero.

        Returns
        -------
        float
            The sum of the largest losses, inf for Gaussian noise.
        """
        losses = [kind.times * kind.pure_epsilon for kind in self.steps if kind.times > 0]
        total = math.fsum(losses) if all(map(math.isfinite, losses)) else math.inf
        return total * ROUNDED_UP

    def get_approxDP(self, delta: float) -> float:  # noqa: N802 -- autodp's name
        """Upper bound on epsilon.

        Parameters
        ----------
        delta : float
            In [0, 1].

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `delta` is out of range.
        """
        at = float_scalar(delta, "delta")
        require(0.0 <= at <= 1.0, "delta", at, "in [0, 1]")
        if at == 1.0:
            return 0.0
        return self.get_pureDP() if at == 0.0 else float(self.privacy_curve().epsilon(at))

    def get_eps(self, delta: float) -> float:
        """Upper bound on epsilon, as `get_approxDP`.

        Parameters
        ----------
        delta : float
            In [0, 1].

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `delta` is out of range.
        """
        return self.get_approxDP(delta)

    def get_approx_delta(self, eps: float) -> float:
        """Upper bound on delta.

        Parameters
        ----------
        eps : float
            Finite and at least zero.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If `eps` is out of range.
        """
        return float(self.privacy_curve().delta(float_scalar(eps, "eps")))

    def get_RDP(self, alpha: float) -> float:  # noqa: N802 -- autodp's name
        """Upper bound on the Rényi divergence.

        Parameters
        ----------
        alpha : float
            Order, above 1; inf for the largest loss.

        Returns
        -------
        float
            In nats, the larger of both orders of the pair.

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        """
        order = float_scalar(alpha, "alpha")
        return self.get_pureDP() if order == math.inf else float(self.privacy_curve().renyi(order))

    def get_fDP(self, fpr: ArrayLike) -> FloatOrFloats:  # noqa: N802 -- autodp's name
        """Lower bound on the trade-off function.

        Parameters
        ----------
        fpr : array_like
            False positive rate, in [0, 1].

        Returns
        -------
        float or ndarray, shape of `fpr`
            False negative rate.

        Raises
        ------
        ValueError
            If `fpr` is out of range.
        """
        return TradeoffCurve.from_curve(self.privacy_curve()).beta(fpr)

    approxDP = get_approxDP  # noqa: N815 -- autodp's name
    approx_delta = get_approx_delta
    RenyiDP = get_RDP
    fDP = get_fDP  # noqa: N815 -- autodp's name


class GaussianMechanism(Mechanism):
    """Gaussian noise on a query.

    Parameters
    ----------
    sigma : float, optional
        Standard deviation in units of the l2 sensitivity, positive; may be left out for a calibrator.
    name : str, optional
        Name.
    **switches
        Which of autodp's bounds to use; without effect.

    Raises
    ------
    ValueError
        If `sigma` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import GaussianMechanism
    >>> round(GaussianMechanism(sigma=2.0).get_approxDP(1e-6), 4)
    2.2541
    """

    def __init__(self, sigma: float | None = None, name: str = "Gaussian", **switches: Any) -> None:
        steps = () if sigma is None else (gaussian(sigma),)
        super().__init__(steps, name, {"sigma": sigma})


class ExactGaussianMechanism(GaussianMechanism):
    """Gaussian noise on a query; as `GaussianMechanism`, which is exact here too.

    Parameters
    ----------
    sigma : float, optional
        Standard deviation in units of the l2 sensitivity, positive; may be left out for a calibrator.
    name : str, optional
        Name.

    Raises
    ------
    ValueError
        If `sigma` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import ExactGaussianMechanism
    >>> round(ExactGaussianMechanism(sigma=2.0).get_approxDP(1e-6), 4)
    2.2541
    """


class LaplaceMechanism(Mechanism):
    """Laplace noise on a query.

    Parameters
    ----------
    b : float, optional
        Scale in units of the l1 sensitivity, positive; may be left out for a calibrator.
    name : str, optional
        Name.
    **switches
        Which of autodp's bounds to use; without effect.

    Raises
    ------
    ValueError
        If `b` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import Composition, LaplaceMechanism
    >>> round(Composition()([LaplaceMechanism(b=20.0)], [100]).get_approxDP(1e-6), 4)
    2.1933
    """

    def __init__(self, b: float | None = None, name: str = "Laplace", **switches: Any) -> None:
        steps = () if b is None else (Steps(Laplace(b), 1.0, 1, 1.0 / float(b)),)
        super().__init__(steps, name, {"b": b})


class RandresponseMechanism(Mechanism):
    """Randomised response on a bit.

    Parameters
    ----------
    p : float, optional
        Probability of the true answer, in (0.5, 1); may be left out for a calibrator.
    name : str, optional
        Name.
    **switches
        Which of autodp's bounds to use; without effect.

    Raises
    ------
    ValueError
        If `p` is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import RandresponseMechanism
    >>> round(RandresponseMechanism(p=0.75).get_pureDP(), 4)
    1.0986
    """

    def __init__(self, p: float | None = None, name: str = "Randresponse", **switches: Any) -> None:
        steps = () if p is None else (responses(RandomizedResponse(p)),)
        super().__init__(steps, name, {"p": p})


class PureDP_Mechanism(Mechanism):  # noqa: N801 -- autodp's name
    """Any ε-differentially private mechanism: the randomised response that dominates all of them.

    Parameters
    ----------
    eps : float
        Epsilon, in (0, 30].
    name : str, optional
        Name.

    Raises
    ------
    ValueError
        If `eps` is out of range.

    References
    ----------
    Kairouz, Oh and Viswanath 2015, "The Composition Theorem for Differential Privacy", arXiv:1311.0776,
    Theorem 3.3.

    Examples
    --------
    >>> from hockeystick.compat.autodp import PureDP_Mechanism
    >>> PureDP_Mechanism(0.5).get_approxDP(1e-9) <= 0.5
    True
    """

    def __init__(self, eps: float, name: str = "PureDP") -> None:
        epsilon = float_scalar(eps, "eps")
        require(0.0 < epsilon <= 30.0, "eps", epsilon, "in (0, 30]")
        p = 1.0 / (1.0 + math.exp(-epsilon)) * ROUNDED_UP
        steps = (Steps(RandomizedResponse(p), 1.0, 1, epsilon),)
        super().__init__(steps, name, {"eps": eps})


class SubsampleGaussianMechanism(Mechanism):
    """Steps of DP-SGD: Gaussian noise on Poisson samples.

    Parameters
    ----------
    params : dict
        "prob", the sample rate in [0, 1]; "sigma", the noise multiplier; "coeff", the number of steps.
    name : str, optional
        Name.
    **switches
        Which of autodp's bounds to use, and its ``neighboring``; without effect, as both orders are
        accounted for.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    KeyError
        If one is missing.

    Examples
    --------
    >>> from hockeystick.compat.autodp import SubsampleGaussianMechanism
    >>> run = SubsampleGaussianMechanism({"prob": 0.01, "sigma": 1.0, "coeff": 1000})
    >>> round(run.get_approxDP(1e-5), 4)
    1.8282
    """

    def __init__(self, params: dict[str, Any], name: str = "SubsampleGaussian", **switches: Any) -> None:
        known = {key: params[key] for key in ("prob", "sigma", "coeff")}
        super().__init__((gaussian(known["sigma"], known["prob"], known["coeff"]),), name, known)


class ComposedGaussianMechanism(Mechanism):
    """Gaussian noise on several queries.

    Parameters
    ----------
    params : dict
        "sigma", the noise multiplier; "coeff", the number of queries.
    name : str, optional
        Name.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    KeyError
        If one is missing.

    Examples
    --------
    >>> from hockeystick.compat.autodp import ComposedGaussianMechanism
    >>> round(ComposedGaussianMechanism({"sigma": 4.0, "coeff": 4}).get_approxDP(1e-6), 4)
    2.2541
    """

    def __init__(self, params: dict[str, Any], name: str = "ComposedGaussian") -> None:
        known = {key: params[key] for key in ("sigma", "coeff")}
        super().__init__((gaussian(known["sigma"], 1.0, known["coeff"]),), name, known)


class NoisySGD_Mechanism(Mechanism):  # noqa: N801 -- autodp's name
    """DP-SGD with Poisson samples.

    Parameters
    ----------
    prob : float
        Sample rate, in [0, 1].
    sigma : float
        Noise multiplier, positive.
    niter : int
        Number of steps.
    PoissonSampling : bool, optional
        Must be true: a subset of a given fraction has no size to account for.
    name : str, optional
        Name.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import NoisySGD_Mechanism
    >>> round(NoisySGD_Mechanism(prob=0.01, sigma=1.0, niter=1000).get_approxDP(1e-5), 4)
    1.8282
    """

    def __init__(
        self,
        prob: float,
        sigma: float,
        niter: int,
        PoissonSampling: bool = True,  # noqa: N803 -- autodp's name
        name: str = "NoisySGD",
    ) -> None:
        require(PoissonSampling is True, "PoissonSampling", PoissonSampling, "True")
        params = {"prob": prob, "sigma": sigma, "niter": niter, "PoissonSampling": True}
        super().__init__((gaussian(sigma, prob, niter),), name, params)


class NoisyGD_Mechanism(Mechanism):  # noqa: N801 -- autodp's name
    """Gradient descent with Gaussian noise on all records.

    Parameters
    ----------
    sigma_list : array_like
        Noise multiplier of each step, positive.
    name : str, optional
        Name.

    Raises
    ------
    ValueError
        If a noise multiplier is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import NoisyGD_Mechanism
    >>> round(NoisyGD_Mechanism([4.0] * 4).get_approxDP(1e-6), 4)
    2.2541
    """

    def __init__(self, sigma_list: ArrayLike, name: str = "NoisyGD") -> None:
        sigmas = float_vector(sigma_list, "sigma_list")
        super().__init__(tuple(map(gaussian, sigmas.tolist())), name, {"sigma_list": np.array(sigmas)})
