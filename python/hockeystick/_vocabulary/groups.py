"""The records that are added, removed or replaced together."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from hockeystick._arguments import (
    LARGEST_GROUP,
    choice,
    count_scalar,
    float_scalar,
    float_vector,
    require,
    shown,
)
from hockeystick._vocabulary.spelling import spelled_class

GRADIENTS = ("aligned", "orthogonal", "bounded")


@spelled_class
@dataclass(frozen=True, init=False, repr=False)
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
    gradients : {"aligned", "orthogonal", "bounded"}, optional
        Whether the members' gradients may point anywhere, so that at worst they all point the same
        way (the default), or are known to be orthogonal to each other: then a step is the composition of
        the members' own steps, each with its rate and norm. "bounded" goes with a `cosine` between.
    cosine : float, optional
        Bound in [0, 1] on the cosine of the angle between any two members' gradients. 1 is "aligned", and 0
        (at most a right angle) has the curve of "orthogonal"; between them the curve is an upper bound.

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
    >>> hs.Group(8, cosine=0.25)
    Group(size=8, rates=None, norms=None, gradients='bounded', cosine=0.25)
    """

    size: int
    rates: tuple[float, ...] | None
    norms: tuple[float, ...] | None
    gradients: str
    cosine: float

    def __init__(
        self,
        size: int | None = None,
        rates: ArrayLike | None = None,
        norms: ArrayLike | None = None,
        gradients: str = "aligned",
        cosine: float | None = None,
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
        known = _largest_cosine(choice(gradients, "gradients", GRADIENTS), cosine)
        object.__setattr__(self, "gradients", {1.0: "aligned", 0.0: "orthogonal"}.get(known, "bounded"))
        object.__setattr__(self, "cosine", known)

    def __repr__(self) -> str:
        named: dict[str, object] = {
            "size": self.size,
            "rates": self.rates,
            "norms": self.norms,
            "gradients": self.gradients,
        }
        if self.gradients == "bounded":
            named["cosine"] = self.cosine
        return f"Group({', '.join(f'{name}={value!r}' for name, value in named.items())})"


def _largest_cosine(gradients: str, cosine: float | None) -> float:
    """Return the bound on cosines that the two arguments state."""
    stated = {"aligned": 1.0, "orthogonal": 0.0}.get(gradients)
    if cosine is None:
        if stated is None:
            raise ValueError("gradients='bounded' needs cosine, a number between 0 and 1")
        return stated
    found = float_scalar(cosine, "cosine")
    require(0.0 <= found <= 1.0, "cosine", found, "in [0, 1]")
    # "aligned", the default, says nothing.
    if gradients == "orthogonal" and found != 0.0:
        raise ValueError(f"gradients='orthogonal' means cosine=0, got cosine={found}: give one of them")
    return found


def check_group(value: object) -> Group:
    """Return `value`, which must be a group."""
    if not isinstance(value, Group):
        is_size = isinstance(value, int) and not isinstance(value, bool)
        hint = f"; did you mean group_size={value}?" if is_size else ""
        raise TypeError(f"group must be a Group, got {shown(value)}{hint}")
    return value


def _member_values(value: ArrayLike, name: str) -> tuple[float, ...]:
    values = tuple(float_vector(value, name).tolist())
    require(1 <= len(values) <= LARGEST_GROUP, name, f"{len(values)} values", f"1 to {LARGEST_GROUP} values")
    for entry in values:
        require(0.0 <= entry <= 1.0, name, entry, "in [0, 1]")
    return values
