"""Sampling and adjacency, as the functions of this package take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import LARGEST_RENYI_GROUP, Counts, Floats, count_array, float_array
from hockeystick._vocabulary.adjacency import check_adjacency
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling, WithoutReplacement, check_sampling
from hockeystick.errors import UnsupportedError


class Drawing(NamedTuple):
    """Sample rates or a scheme, group sizes or a group, and which data sets are neighbours."""

    rates: Floats | None
    scheme: Sampling | None
    sizes: Counts | None
    group: Group | None
    adjacency: str

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The numbers that may differ by question, by the names of their arguments."""
        given: dict[str, NDArray[Any] | None] = {"sample_rate": self.rates, "group_size": self.sizes}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def all_sizes(self) -> Counts:
        """Numbers of records."""
        return np.array(self.group.size) if self.sizes is None and self.group else np.asarray(self.sizes)

    @property
    def is_replaced(self) -> bool:
        """Whether records are replaced by others."""
        return self.adjacency == "replace"

    @property
    def is_full(self) -> bool:
        """Whether every batch has all records, in data sets of one size."""
        if isinstance(self.scheme, WithoutReplacement):
            return self.is_replaced and self.scheme.batch_size == self.scheme.dataset_size
        return isinstance(self.scheme, FullBatch)

    def for_core(self, columns: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
        """Draw and group as the compiled core takes them, with these flat arrays."""
        draw = columns["sample_rate"] if self.scheme is None else self.scheme
        return draw, columns["group_size"] if self.group is None else self.group


def check_drawing(
    sample_rate: ArrayLike | None,
    sampling: Sampling | None,
    group_size: ArrayLike | None,
    group: Group | None,
    adjacency: str,
) -> Drawing:
    """Check the arguments that say how batches are drawn and whose records change.

    Raises
    ------
    ValueError
        If a group size is out of range, or the adjacency has another name; the core checks rates.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If no Rényi bound is known for such batches or such a group.
    """
    relation = check_adjacency(adjacency)
    members = None if group is None else _check_members(group)
    if (group_size is None) == (members is None):
        if members is None:
            raise TypeError("group_size is missing")
        raise TypeError("give at most one of group_size and group")
    has_rates = members is not None and members.rates is not None
    if sample_rate is not None and sampling is not None:
        raise TypeError("give exactly one of sample_rate and sampling")
    scheme = None if sampling is None else _check_scheme(sampling)
    require_poisson_rates(members, scheme)
    rates: Floats | None = None
    if isinstance(scheme, Poisson) and scheme.microbatches == 1:
        rates, scheme = np.array(scheme.sample_rate), None
    elif scheme is None:
        if sample_rate is None and not has_rates:
            raise TypeError("give exactly one of sample_rate and sampling")
        # With rates of the members' own the common one means nothing.
        rates = np.array(1.0) if sample_rate is None else float_array(sample_rate, "sample_rate")
    sizes = None if group_size is None else check_renyi_group_sizes(group_size)
    return Drawing(rates, scheme, sizes, members, relation)


def require_poisson_rates(group: Group | None, scheme: object) -> None:
    """Raise ``UnsupportedError`` where members have rates and batches no use for them."""
    if group is not None and group.rates is not None and isinstance(scheme, WithoutReplacement | FullBatch):
        raise UnsupportedError(
            f"rates of members are rates of Poisson samples: leave out sampling={scheme!r}"
        )


def require_known(family: str, bound: str, drawing: Drawing) -> None:
    """Raise ``UnsupportedError`` where no exact divergence of replaced records is known."""
    if bound != "exact" or not drawing.is_replaced or drawing.is_full:
        return
    if family == "skellam":
        raise UnsupportedError(
            "the exact divergence of replaced records is not known for Skellam noise: use bound='jensen', or "
            "adjacency='add_remove'"
        )


def check_renyi_group_sizes(value: ArrayLike) -> Counts:
    """`value` as an array of group sizes of Rényi bounds."""
    sizes = count_array(value, "group_size", 1)
    if np.any(sizes > LARGEST_RENYI_GROUP):
        worst = sizes[sizes > LARGEST_RENYI_GROUP].flat[0]
        raise ValueError(f"group_size must be a whole number in [1, {LARGEST_RENYI_GROUP}], got {worst}")
    return sizes


def check_renyi_scheme(value: object) -> None:
    """Raise ``UnsupportedError`` for batches of which no Rényi bound is known."""
    whole = not (isinstance(value, Poisson) and value.is_truncated)
    if not isinstance(value, Poisson | WithoutReplacement | FullBatch) or not whole:
        raise UnsupportedError(
            f"sampling={value!r} has no Rényi bound here: use Poisson(sample_rate), WithoutReplacement(...) "
            f"or FullBatch(), or hockeystick.get_epsilon"
        )


def check_members(group: Group) -> None:
    """Raise ``UnsupportedError`` if more is known of a group than rates."""
    if group.norms is not None or (group.gradients != "aligned" and group.size > 1):
        raise UnsupportedError(
            f"Rényi bounds cover groups with rates, and no norms or angles, got {group!r}: use "
            f"hockeystick.get_epsilon, or a group without them, an upper bound"
        )


def _check_scheme(sampling: Sampling) -> Sampling:
    scheme = check_sampling(sampling)
    check_renyi_scheme(scheme)
    return scheme


def _check_members(group: Group) -> Group:
    members = check_group(group)
    check_members(members)
    return members
