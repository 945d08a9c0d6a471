"""Composition and subsampling under the names of autodp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hockeystick import Gaussian, Laplace
from hockeystick._arguments import count_scalar, float_scalar, require
from hockeystick.compat.autodp._mechanism_zoo import Mechanism
from hockeystick.compat.autodp._steps import Steps
from hockeystick.errors import UnsupportedError

__all__ = [
    "AmplificationBySampling",
    "AmplificationBySampling_pld",
    "ComposeAFA",
    "ComposeGaussian",
    "Composition",
]


def __dir__() -> list[str]:
    return list(__all__)


class Composition:
    """Composition of mechanisms on the same data, exact; call it with mechanisms and how often each occurs.

    Examples
    --------
    >>> from hockeystick.compat.autodp import Composition, ExactGaussianMechanism
    >>> queries = [ExactGaussianMechanism(5.0, name="a"), ExactGaussianMechanism(8.0, name="b")]
    >>> run = Composition()(queries, [3, 4])
    >>> run.name, round(run.get_approxDP(1e-6), 4)
    ('Compose:{a: 3, b: 4}', 1.8971)
    """

    name = "Composition"

    def __call__(
        self, mechanism_list: Sequence[Mechanism], coeff_list: Sequence[int], **switches: Any
    ) -> Mechanism:
        """Compose.

        Parameters
        ----------
        mechanism_list : sequence of Mechanism
            What is composed.
        coeff_list : sequence of int
            How often each of them occurs, at least zero.
        **switches
            Which of autodp's bounds to use; without effect.

        Returns
        -------
        Mechanism

        Raises
        ------
        ValueError
            If the lists differ in length or a number is out of range.
        """
        mechanisms, counts = (
            list(mechanism_list),
            [count_scalar(count, "coeff_list", 0) for count in coeff_list],
        )
        require(len(mechanisms) == len(counts), "coeff_list", counts, f"{len(mechanisms)} numbers")
        steps: list[Steps] = []
        for mechanism, count in zip(mechanisms, counts, strict=True):
            steps += (replace(kind, times=kind.times * count) for kind in mechanism.steps)
        pairs = list(zip(mechanisms, counts, strict=True))
        name = ", ".join(f"{mechanism.name}: {count}" for mechanism, count in pairs)
        params = {f"{one.name}:{key}": value for one in mechanisms for key, value in one.params.items()}
        return Mechanism(tuple(steps), f"Compose:{{{name}}}", params)

    compose = __call__


class ComposeAFA(Composition):
    """Composition of mechanisms, as `Composition`, which is exact here too.

    Examples
    --------
    >>> from hockeystick.compat.autodp import ComposeAFA, ExactGaussianMechanism
    >>> run = ComposeAFA()([ExactGaussianMechanism(sigma=4.0)], [4])
    >>> round(run.get_approxDP(1e-6), 4)  # as one query with sigma 2
    2.2541
    """

    name = "ComposeFourier"


class ComposeGaussian(Composition):
    """Composition of Gaussian mechanisms, as `Composition`, which is exact here too.

    Examples
    --------
    >>> from hockeystick.compat.autodp import ComposeGaussian, ExactGaussianMechanism
    >>> run = ComposeGaussian()([ExactGaussianMechanism(sigma=4.0)], [4])
    >>> round(run.get_approxDP(1e-6), 4)  # as one query with sigma 2
    2.2541
    """

    name = "ComposeGaussian"


class AmplificationBySampling:
    """A mechanism on a Poisson sample; call it with a mechanism and the sample rate.

    Parameters
    ----------
    PoissonSampling : bool, optional
        Must be true: a subset of a given fraction has no size to account for; for fixed batches there is
        `hockeystick.WithoutReplacement`.

    Raises
    ------
    ValueError
        If `PoissonSampling` is not true.

    Examples
    --------
    >>> from hockeystick.compat.autodp import AmplificationBySampling, LaplaceMechanism
    >>> step = AmplificationBySampling(PoissonSampling=True)(LaplaceMechanism(b=1.0), 0.1)
    >>> round(step.get_pureDP(), 4)  # ln(1 + 0.1 (e - 1))
    0.1586
    """

    name = "PoissonSample"

    def __init__(self, PoissonSampling: bool = True) -> None:  # noqa: N803 -- autodp's name
        require(PoissonSampling is True, "PoissonSampling", PoissonSampling, "True")

    def __call__(self, mechanism: Mechanism, prob: float, improved_bound_flag: bool = False) -> Mechanism:
        """Subsample.

        Parameters
        ----------
        mechanism : Mechanism
            One query with Gaussian or Laplace noise, or several with Gaussian noise, without sampling of
            their own.
        prob : float
            Sample rate, in [0, 1].
        improved_bound_flag : bool, optional
            Without effect.

        Returns
        -------
        Mechanism

        Raises
        ------
        ValueError
            If `prob` is out of range.
        UnsupportedError
            If no pair is known for the mechanism on a sample.
        """
        rate = float_scalar(prob, "prob")
        require(0.0 <= rate <= 1.0, "prob", rate, "in [0, 1]")
        query = _one_query(mechanism)
        inner = query.pure_epsilon
        pure = math.log1p(rate * math.expm1(inner)) if inner < 700.0 else (inner if rate > 0.0 else 0.0)
        sampled = replace(query, sample_rate=rate, pure_epsilon=pure)
        params = {f"{mechanism.name}:{key}": value for key, value in mechanism.params.items()}
        return Mechanism((sampled,), f"{self.name}:{mechanism.name}", params | {self.name: rate})

    amplify = __call__


class AmplificationBySampling_pld(AmplificationBySampling):  # noqa: N801 -- autodp's name
    """A mechanism on a Poisson sample, as `AmplificationBySampling`, which is exact here too.

    Parameters
    ----------
    PoissonSampling : bool, optional
        Must be true.
    neighboring : {"add_only", "remove_only", "add_remove"}, optional
        Without effect: both orders are accounted for.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from hockeystick.compat.autodp import AmplificationBySampling_pld, ExactGaussianMechanism
    >>> step = AmplificationBySampling_pld(neighboring="add_remove")(ExactGaussianMechanism(sigma=1.0), 0.01)
    >>> 0.0 < step.get_approxDP(1e-5) < 2.0
    True
    """

    def __init__(
        self,
        PoissonSampling: bool = True,  # noqa: N803 -- autodp's name
        neighboring: str = "add_only",
    ) -> None:
        super().__init__(PoissonSampling)
        known = ("add_only", "remove_only", "add_remove")
        require(neighboring in known, "neighboring", repr(neighboring), f"one of {', '.join(known)}")


def _one_query(mechanism: Mechanism) -> Steps:
    """Return a mechanism as one query: several with Gaussian noise are one with less of it."""
    steps = mechanism.steps
    if len(steps) == 1 and steps[0].sample_rate == 1.0 and steps[0].times == 1:
        if isinstance(steps[0].noise, Gaussian | Laplace):
            return steps[0]
    elif steps and all(kind.sample_rate == 1.0 and isinstance(kind.noise, Gaussian) for kind in steps):
        squares = [
            kind.times / _sigma(kind) ** 2 if _sigma(kind) else math.inf for kind in steps if kind.times
        ]
        joint = 1.0 / math.sqrt(math.fsum(squares)) * (1.0 - 1e-14) if squares else math.inf
        if math.isfinite(joint):
            return Steps(Gaussian(joint), 1.0, 1, math.inf)
    raise UnsupportedError(
        f"{mechanism.name} on a Poisson sample has no known dominating pair: subsample one query with "
        f"Gaussian or Laplace noise and compose afterwards"
    )


def _sigma(kind: Steps) -> float:
    return kind.noise.noise_multiplier if isinstance(kind.noise, Gaussian) else 0.0
