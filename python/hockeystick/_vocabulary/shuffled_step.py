"""Steps of shuffled batches against the usual adversary: noise, batches and whose records change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import CountOrCounts, FloatOrFloats, choice, float_or_floats
from hockeystick._vocabulary.adjacency import DIRECTIONS, ZERO_OUT
from hockeystick._vocabulary.configuration import check_group_sizes
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.mechanisms import Gaussian, Mechanism, check_mechanism
from hockeystick._vocabulary.sampling import Shuffle
from hockeystick.errors import UnsupportedError

SHUFFLED_ADJACENCIES = (ZERO_OUT, "replace")
"""Neighbouring relations that leave the number of records, and with it every batch size, as it is."""


class ShuffledStep(NamedTuple):
    """A step of a run with shuffled batches; numbers may be arrays that broadcast."""

    noise_multiplier: FloatOrFloats
    sampling: Shuffle
    group_size: CountOrCounts
    adjacency: str


def configure_shuffled(
    *,
    adjacency: str,
    noise_multiplier: ArrayLike | None,
    mechanism: Mechanism | None,
    sample_rate: ArrayLike | None,
    sampling: Shuffle,
    group_size: ArrayLike,
    group: Group | None,
) -> ShuffledStep:
    """Check the arguments of a public function that is asked about shuffled batches.

    Raises
    ------
    ValueError
        If a group is larger than the data set, or the adjacency is no neighbouring relation.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        For other noise than Gaussian, records that are added or removed, and members that differ.
    """
    if sample_rate is not None:
        raise TypeError("give exactly one of sample_rate and sampling")
    check_relation(adjacency, sampling)
    noise = _noise_multiplier(noise_multiplier, mechanism, sampling)
    sizes = check_group_sizes(group_size)
    if group is not None:
        if not isinstance(sizes, int) or sizes not in (1, check_group(group).size):
            raise TypeError("give at most one of group_size and group")
        sizes = _plain_size(group, sampling)
    if np.any(np.asarray(sizes) > sampling.dataset_size):
        worst = np.max(sizes)
        raise ValueError(f"group_size must be at most dataset_size {sampling.dataset_size}, got {worst}")
    return ShuffledStep(noise, sampling, sizes, adjacency)


def check_relation(adjacency: object, sampling: Shuffle) -> str:
    """Return a relation that shuffled batches have bounds for."""
    relation = choice(adjacency, "adjacency", (*SHUFFLED_ADJACENCIES, *DIRECTIONS))
    if relation in DIRECTIONS:
        raise UnsupportedError(
            f"sampling {sampling!r} has no bounds for adjacency {relation!r}: the number of records decides "
            f"how many batches an epoch has, and which record fills the place of one that is gone; use "
            f"adjacency='zero_out' (a record's gradient is replaced by 0) or 'replace', or "
            f"hockeystick.shuffle.tradeoff or ShuffleAccountant for a strong adversary who knows batch "
            f"membership"
        )
    return relation


def _noise_multiplier(
    noise_multiplier: ArrayLike | None, mechanism: Mechanism | None, sampling: Shuffle
) -> FloatOrFloats:
    if (noise_multiplier is None) == (mechanism is None):
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    if mechanism is None:
        return float_or_floats(noise_multiplier, "noise_multiplier")
    if not isinstance(check_mechanism(mechanism), Gaussian):
        raise UnsupportedError(
            f"{mechanism!r} and sampling {sampling!r} are not supported together: use noise_multiplier"
        )
    assert isinstance(mechanism, Gaussian)
    return mechanism.noise_multiplier


def _plain_size(group: Group, sampling: Shuffle) -> int:
    """Return the size of a group of which nothing else is known."""
    if group.rates is not None or group.norms is not None or group.gradients != "aligned":
        raise UnsupportedError(
            f"{group!r} and sampling {sampling!r} are not supported together: use group_size, without rates, "
            f"norms and orthogonal gradients, which is an upper bound for members with smaller gradients"
        )
    return group.size
