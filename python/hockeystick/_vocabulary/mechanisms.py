"""Mechanisms: the noise of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from hockeystick._arguments import count_scalar, float_scalar, require, shown
from hockeystick._vocabulary.spelling import spelled_class
from hockeystick.errors import UnsupportedError

LARGEST_SENSITIVITY = 2**20
"""Largest sensitivity of Skellam noise."""


@spelled_class
@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise, on a query of any dimension.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation sigma in units of the l2 sensitivity of one record (the clipping norm),
        finite and at least zero.

    Raises
    ------
    ValueError
        If `noise_multiplier` is out of range.
    TypeError
        If `noise_multiplier` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Gaussian(1.1)
    Gaussian(noise_multiplier=1.1)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_noise_multiplier(self.noise_multiplier))


@dataclass(frozen=True)
class AdaptiveClipping:
    """Gaussian noise on a clipped sum and on how many of its gradients were clipped: adaptive clipping.

    Both are released in every step, and the clipping norm of the next is computed from the count.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation sigma of the noise on the sum of clipped gradients, in units of the clipping norm
        of the step; finite and at least zero.
    count_noise : float
        Standard deviation sigma_b of the noise on the count, in records, where each record in the batch
        adds 1/2 or -1/2 to the count: whether it was clipped, less one half; finite and at least zero.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument is not a real number.

    Notes
    -----
    A record moves the sum by at most one clipping norm and the count by 1/2. In units of the noise that is a
    shift of length at most sqrt(sigma^-2 + (2 sigma_b)^-2) = 1/z of one Gaussian query, with the noise
    multiplier `joint_noise_multiplier` z (Andrew et al. 2021, Theorem 1); a group of k moves it by at most
    k / z. A clipping norm that depends on earlier releases changes nothing, as the shift is in its units.

    A count that each record changes by 1 (how many gradients were clipped, without one half being
    subtracted) is covered with half of its noise: `count_noise` is then half of the standard deviation. What
    is computed from the count must use no other data, such as the number of records in the batch.

    References
    ----------
    G. Andrew, O. Thakkar, B. McMahan, S. Ramaswamy, "Differentially Private Learning with Adaptive
    Clipping", NeurIPS 2021. arXiv:1905.03871

    Examples
    --------
    >>> import hockeystick as hs
    >>> clipping = hs.AdaptiveClipping(noise_multiplier=1.0, count_noise=5.0)
    >>> round(clipping.joint_noise_multiplier, 4)
    0.995
    >>> run = {"delta": 1e-5, "sample_rate": 0.01, "steps": 1000}
    >>> for noise in ({"mechanism": clipping}, {"noise_multiplier": 1.0}):
    ...     print(f"{hs.get_epsilon(**noise, **run):.3f}")
    1.847
    1.828
    """

    noise_multiplier: float
    count_noise: float

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "count_noise"):
            object.__setattr__(self, name, check_noise_multiplier(getattr(self, name), name))

    @property
    def joint_noise_multiplier(self) -> float:
        """Noise multiplier of the one Gaussian query that the sum and the count are, rounded down."""
        total, count = self.noise_multiplier, 2.0 * self.count_noise
        if total == 0.0 or count == 0.0:
            return 0.0
        # The smaller one over the root of one plus a square of at most 1: nothing overflows.
        least, most = min(total, count), max(total, count)
        return least / math.hypot(1.0, least / most) * _ROUNDED_DOWN


@spelled_class
@dataclass(frozen=True)
class BatchClipping:
    """Gaussian noise on an update that is clipped batch by batch, in place of record by record.

    Any algorithm computes an update from all records of a batch together, such as the mean gradient or the
    way that several epochs of SGD or Adam went; its Euclidean norm is clipped to the clipping norm, and noise
    is added.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation sigma of the noise in units of the clipping norm, finite and at least zero. SHUFFLE
        writes the noise N(0, (2 C sigma)^2): its sigma is half of this.
    units_per_batch : int, optional
        Number m of equal parts into which every batch of a fixed size is split at random, each of which is
        clipped on its own before they are added up (mixed clipping), at least 1; it divides the size of
        the batch. Poisson samples are not split: ``hs.Poisson(rate, microbatches=m)`` stands for m parts,
        each of them a Poisson sample of its own.

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    A batch that holds any members of a group moves by up to two clipping norms, however many they are, as
    two clipped updates may point in opposite directions. So a group of g counts as one record that is in the
    batch with probability 1 - (1 - q)^g for Poisson samples at rate q, and noise counts half of what it
    does where records are clipped one by one. The update must be computed from the records of the batch,
    the weights and what was released alone: a state that is kept from one batch to the next without noise,
    such as a momentum, is not covered.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"delta": 1e-5, "sample_rate": 0.01, "steps": 1000, "group_size": 256}
    >>> for noise in ({"mechanism": hs.BatchClipping(16.0)}, {"noise_multiplier": 16.0}):
    ...     print(f"{hs.get_epsilon(**noise, **run):.2f}")
    21.60
    33.89
    """

    noise_multiplier: float
    units_per_batch: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_noise_multiplier(self.noise_multiplier))
        object.__setattr__(self, "units_per_batch", count_scalar(self.units_per_batch, "units_per_batch", 1))


_ROUNDED_DOWN = 1.0 - 1e-15
"""Makes up for the rounding of a few operations. It is a factor of the noise, so that any other is wrong."""


@spelled_class
@dataclass(frozen=True)
class Laplace:
    """Laplace noise.

    Parameters
    ----------
    scale : float
        Scale b of the density exp(-abs(x) / b) / (2 b) of every coordinate, in units of the l1
        sensitivity of one record; in (0, inf).

    Raises
    ------
    ValueError
        If `scale` is not in (0, inf).
    TypeError
        If `scale` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Laplace(2.0)
    Laplace(scale=2.0)
    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _positive(self.scale, "scale"))


@spelled_class
@dataclass(frozen=True)
class Skellam:
    """Symmetric Skellam noise on whole numbers: the difference of two equal Poisson variables.

    Parameters
    ----------
    variance : float
        Variance of the noise, twice the rate of either Poisson variable; in (0, inf).
    sensitivity : int, optional
        l1 sensitivity of one record, a whole number in [1, 2**20].

    Raises
    ------
    ValueError
        If an argument is out of range or `sensitivity` is not whole.
    TypeError
        If an argument is not a real number.

    Notes
    -----
    RGP writes Sk(0, C^2 mu) and calls its variance twice that; their equation 18 is the known bound
    for a variance of C^2 mu, and their code passes twice the Poisson rate for mu. Here there is one
    word for it: the variance.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Skellam(232.26)
    Skellam(variance=232.26, sensitivity=1)
    """

    variance: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _positive(self.variance, "variance"))
        object.__setattr__(self, "sensitivity", check_sensitivity(self.sensitivity))


@spelled_class
@dataclass(frozen=True)
class RandomizedResponse:
    """Randomised response on one bit: the true answer with probability p, the other one otherwise.

    Parameters
    ----------
    p : float
        Probability of the true answer, in (0.5, 1).

    Raises
    ------
    ValueError
        If `p` is not in (0.5, 1).
    TypeError
        If `p` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.RandomizedResponse(0.75)
    RandomizedResponse(p=0.75)
    """

    p: float

    def __post_init__(self) -> None:
        p = float_scalar(self.p, "p")
        require(0.5 < p < 1.0, "p", p, "in (0.5, 1)")
        object.__setattr__(self, "p", p)


class WholeRun:
    """A mechanism of a whole run rather than of one of its steps."""

    __slots__ = ()


Mechanism: TypeAlias = Gaussian | AdaptiveClipping | BatchClipping | Laplace | Skellam | RandomizedResponse

FAMILIES: dict[str, type[Mechanism]] = {
    "gaussian": Gaussian,
    "adaptive_clipping": AdaptiveClipping,
    "batch_clipping": BatchClipping,
    "laplace": Laplace,
    "skellam": Skellam,
    "randomized_response": RandomizedResponse,
}
"""Mechanisms by the names of their families."""

_NAMES = {mechanism: name for name, mechanism in FAMILIES.items()} | {AdaptiveClipping: "gaussian"}

_MECHANISMS = (
    "Gaussian(noise_multiplier), AdaptiveClipping(noise_multiplier, count_noise), "
    "BatchClipping(noise_multiplier), Laplace(scale), Skellam(variance) or RandomizedResponse(p)"
)


def check_mechanism(value: object) -> Mechanism:
    """Return `value`, which must be the mechanism of a step."""
    _refuse_whole_runs(value)
    if not isinstance(value, Mechanism):
        raise TypeError(f"mechanism must be {_MECHANISMS}, got {shown(value)}")
    return value


def _refuse_whole_runs(value: object) -> None:
    """Raise ``UnsupportedError`` for a mechanism that says nothing about one step."""
    if isinstance(value, WholeRun):
        raise UnsupportedError(
            f"{shown(value)} correlates the noise of all steps: what one step reveals depends on the noise "
            f"of the others, so that there is no account of a step, an epoch or an example alone. A whole "
            f"run is accounted for by get_epsilon, get_delta, get_noise_multiplier, privacy_curve and "
            f"GroupAccountant, with sampling=FullBatch(), FixedOrder, MinimumSeparation or CyclicPoisson, or "
            f"FixedBins for some matrices; and by estimate_delta with FixedBins for any"
        )


def check_mechanism_class(value: object) -> type[Mechanism]:
    """Return `value`, which must be the class of a mechanism."""
    for mechanism in FAMILIES.values():
        # Adaptive and batch clipping have two parameters, of which neither alone is to be found.
        if value is mechanism and mechanism not in (AdaptiveClipping, BatchClipping):
            return mechanism
    raise TypeError(
        f"mechanism must be the class Gaussian, Laplace, Skellam or RandomizedResponse, got {shown(value)}"
    )


def family_of(noise: float | Mechanism) -> str:
    """Name of the family of `noise`, a mechanism or the noise multiplier of Gaussian noise.

    Adaptive clipping is one Gaussian query.
    """
    return "gaussian" if isinstance(noise, float) else _NAMES[type(noise)]


def parameter_of(noise: float | Mechanism) -> float:
    """Return the multiplier, the scale, the variance or the probability of the true answer."""
    if isinstance(noise, float):
        return noise
    if isinstance(noise, Gaussian | BatchClipping):
        return noise.noise_multiplier
    if isinstance(noise, AdaptiveClipping):
        return noise.joint_noise_multiplier
    if isinstance(noise, Laplace):
        return noise.scale
    return noise.variance if isinstance(noise, Skellam) else noise.p


def check_noise_multiplier(value: object, name: str = "noise_multiplier") -> float:
    """`value` as a noise multiplier."""
    _refuse_whole_runs(value)
    noise_multiplier = float_scalar(value, name)
    allowed = math.isfinite(noise_multiplier) and noise_multiplier >= 0.0
    require(allowed, name, noise_multiplier, "in [0, inf)")
    return noise_multiplier


def check_sensitivity(value: object) -> int:
    """`value` as the l1 sensitivity of Skellam noise."""
    return count_scalar(value, "sensitivity", 1, LARGEST_SENSITIVITY)


def _positive(value: object, name: str) -> float:
    number = float_scalar(value, name)
    require(math.isfinite(number) and number > 0.0, name, number, "in (0, inf)")
    return number
