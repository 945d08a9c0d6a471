"""The records that are added, removed or replaced together."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from hockeystick._arguments import LARGEST_GROUP, choice, count_scalar, float_vector, require, shown
from hockeystick._vocabulary.spelling import spelled_class

GRADIENTS = ("aligned", "orthogonal")


@spelled_class
@dataclass(frozen=True, init=False)
class Group:
    """A group of records, with what is known about each of its members.

    Parameters
    ----------
    size : int, optional
        Number of members, in [1, 10000]; not needed where `rates` or `norms` are given.
    rates : array_like, optional
        Probability in [0, 1] that a member is in a batch, one a member. They take the place of the
        sample rate.
    norms : array_like, optional
        Bound in [0, 1] on the norm of a member's contribution, in units of the clipping norm, one
        a member. By default all are 1. A member of norm zero contributes nothing.
    gradients : {"aligned", "orthogonal"}, optional
        Whether the members' gradients may point anywhere, so that at worst they all point the same
        way (the default), or are known to be orthogonal to each other: then a step is the composition of
        the members' own steps, each with its rate and norm.

    Raises
    ------
    ValueError
        If a number is out of range, the lengths differ or the size is left open.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.Group(rates=[0.01, 0.02, 0.02])
    Group(size=3, rates=(0.01, 0.02, 0.02), norms=None, gradients='aligned')
    """

    size: int
    rates: tuple[float, ...] | None
    norms: tuple[float, ...] | None
    gradients: str

    def __init__(
        self,
        size: int | None = None,
        rates: ArrayLike | None = None,
        norms: ArrayLike | None = None,
        gradients: str = "aligned",
    ) -> None:
        members = {
            "rates": None if rates is None else _member_values(rates, "rates"),
            "norms": None if norms is None else _member_values(norms, "norms"),
        }
        lengths = {name: len(values) for name, values in members.items() if values is not None}
        if size is not None:
            lengths = {"size": count_scalar(size, "size", 1, LARGEST_GROUP), **lengths}
        if not lengths:
            raise ValueError("give at least one of size, rates and norms")
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} by {name}" for name, count in lengths.items())
            raise ValueError(f"size, rates and norms must agree on the number of members, got {counts}")
        object.__setattr__(self, "size", next(iter(lengths.values())))
        object.__setattr__(self, "rates", members["rates"])
        object.__setattr__(self, "norms", members["norms"])
        object.__setattr__(self, "gradients", choice(gradients, "gradients", GRADIENTS))


def check_group(value: object) -> Group:
    """Return `value`, which must be a group."""
    if not isinstance(value, Group):
        raise TypeError(f"group must be a Group, got {shown(value)}")
    return value


def _member_values(value: ArrayLike, name: str) -> tuple[float, ...]:
    values = tuple(float_vector(value, name).tolist())
    require(1 <= len(values) <= LARGEST_GROUP, name, f"{len(values)} values", f"1 to {LARGEST_GROUP} values")
    for entry in values:
        require(0.0 <= entry <= 1.0, name, entry, "in [0, 1]")
    return values
