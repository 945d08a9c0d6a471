"""How the batch of a step is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from hockeystick._arguments import float_scalar, require
from hockeystick.errors import UnsupportedError


@dataclass(frozen=True)
class Poisson:
    """Poisson sampling: every record joins every batch on its own, with the same probability.

    Parameters
    ----------
    sample_rate : float
        Probability q in [0, 1] that a record is in a batch. One number: to sweep over sample
        rates, pass an array as the argument ``sample_rate`` of the function itself.

    Raises
    ------
    ValueError
        If `sample_rate` is not in [0, 1].
    TypeError
        If `sample_rate` is not a real number.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Poisson(0.01)
    Poisson(sample_rate=0.01)
    """

    sample_rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_rate", check_sample_rate(self.sample_rate))


def check_sample_rate(value: object, name: str = "sample_rate") -> float:
    """`value` as a probability."""
    sample_rate = float_scalar(value, name)
    require(0.0 <= sample_rate <= 1.0, name, sample_rate, "in [0, 1]")
    return sample_rate


def check_sampling(value: object) -> Poisson:
    """Return `value` if it is a sampling scheme that this version can account for."""
    if isinstance(value, Poisson):
        return value
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        raise TypeError(f"sampling must be a sampling scheme such as Poisson(0.01), got {value!r}")
    raise UnsupportedError(f"sampling {value!r} is not supported in this version; use Poisson(sample_rate)")
