"""Who takes part when in a run with correlated noise: by a fixed order, a distance, or cyclic sampling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hockeystick._arguments import choice, count_scalar, float_scalar, require
from hockeystick._vocabulary.allocation import LARGEST_EPOCH


@dataclass(frozen=True)
class FixedOrder:
    """Batches that come back in a fixed order: each record is in one batch of every epoch, the same in all.

    Nothing is random about who takes part, so that nothing is amplified: what is known is only that a
    record's steps are exactly `batches` apart. For `CorrelatedNoise`.

    Parameters
    ----------
    batches : int
        Number of batches in an epoch, in [1, 2**40].
    members : {"any", "apart"}, optional
        Where the records of one person are: in any batches, at worst all in one (the default), or known to
        be in different ones.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.prefix_sum_root(noise_multiplier=4.0)
    >>> run = {"delta": 1e-5, "mechanism": noise, "sampling": hs.FixedOrder(100), "steps": 400}
    >>> print(f"{hs.get_epsilon(**run):.3f}")
    4.695
    """

    batches: int
    members: str = field(default="any", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", count_scalar(self.batches, "batches", 1, LARGEST_EPOCH))
        object.__setattr__(self, "members", choice(self.members, "members", ("any", "apart")))


@dataclass(frozen=True)
class MinimumSeparation:
    """Any order in which a record takes part a limited number of times, with a distance in between.

    For `CorrelatedNoise`. Several records of a person may take part in the same steps.

    Parameters
    ----------
    separation : int
        Least distance b between two steps with the same record, in [1, 2**40]: 1 if any steps may follow
        each other.
    participations : int, optional
        Largest number k of steps with the same record, in [1, 2**40]; by default as many as fit.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument is not a whole number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.lambda_cgd(0.9, noise_multiplier=4.0)
    >>> for times in (1, 3):
    ...     scheme = hs.MinimumSeparation(100, participations=times)
    ...     epsilon = hs.get_epsilon(delta=1e-5, mechanism=noise, sampling=scheme, steps=1000)
    ...     print(f"{epsilon:.3f}")
    2.324
    4.344
    """

    separation: int
    participations: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "separation", count_scalar(self.separation, "separation", 1, LARGEST_EPOCH))
        if self.participations is not None:
            count = count_scalar(self.participations, "participations", 1, LARGEST_EPOCH)
            object.__setattr__(self, "participations", count)


@dataclass(frozen=True)
class CyclicPoisson:
    """Cyclic Poisson sampling: records are dealt into parts that take turns, and sampled within them.

    Every record belongs to one of `cycle` parts from the start. Step t draws a Poisson sample from part t
    modulo `cycle`, so that each record is sampled in every `cycle`-th step at most. For `CorrelatedNoise`
    with at most `cycle` bands, whose noise amplifies the samples of such runs as that of DP-SGD does.

    Parameters
    ----------
    sample_rate : float
        Probability in [0, 1] that a record is in a batch of its part: the expected batch size times `cycle`
        over the number of records.
    cycle : int
        Number of parts, in [1, 2**40].
    members : {"any", "together", "apart"}, optional
        In which parts the records of one person are: in any (the default), all in the same, as where whole
        persons are dealt into the parts, or known to be in different ones. The pair is exact for one record
        and for members together, and an upper bound elsewhere.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    C. A. Choquette-Choo, A. Ganesh, R. McKenna, H. B. McMahan, K. Rush, A. Thakurta and Z. Xu, "(Amplified)
    Banded Matrix Factorization: A unified approach to private training", NeurIPS 2023. arXiv:2306.08153

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125], noise_multiplier=1.0)
    >>> sampling = hs.CyclicPoisson(0.04, cycle=4)
    >>> print(f"{hs.get_epsilon(delta=1e-5, mechanism=noise, sampling=sampling, steps=1000):.3f}")
    5.672
    """

    sample_rate: float
    cycle: int
    members: str = field(default="any", kw_only=True)

    def __post_init__(self) -> None:
        rate = float_scalar(self.sample_rate, "sample_rate")
        require(0.0 <= rate <= 1.0, "sample_rate", rate, "in [0, 1]")
        object.__setattr__(self, "sample_rate", rate)
        object.__setattr__(self, "cycle", count_scalar(self.cycle, "cycle", 1, LARGEST_EPOCH))
        object.__setattr__(self, "members", choice(self.members, "members", ("any", "together", "apart")))


Participation: TypeAlias = FixedOrder | MinimumSeparation | CyclicPoisson
"""Schemes that are for `CorrelatedNoise` alone."""
