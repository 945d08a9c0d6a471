"""What a run does in each step: the arguments of the public functions, checked, in the core's words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import LARGEST_GROUP, Counts, Floats, broadcast, count_array, flat, float_array
from hockeystick.adjacency import check_adjacency
from hockeystick.errors import UnsupportedError
from hockeystick.groups import Group, check_group
from hockeystick.mechanisms import Mechanism, as_core, check_mechanism
from hockeystick.sampling import FullBatch, Poisson, Sampling, WithoutReplacement, check_sampling
from hockeystick.support import (
    NORMS,
    ONE,
    ORTHOGONAL,
    RATES,
    RATES_AND_NORMS,
    RATES_AND_ORTHOGONAL,
    SEVERAL,
    Pair,
    not_attained,
    require_supported,
)

_SCHEME_NAMES = {Poisson: "poisson", WithoutReplacement: "without_replacement", FullBatch: "full_batch"}

_UNKNOWN = np.ones(())
"""Stands for the number that is asked for; the core ignores it."""

_POISSON = Poisson(1.0)
"""Poisson sampling at rates that stand beside it."""


class Step(NamedTuple):
    """One step in the core's words, its numbers as arrays of any shapes that broadcast.

    `noise` is a noise multiplier or a scale. `sampling` is "poisson", which uses the sample rate, or
    "fixed_batch", which uses the two sizes. `rates` and `norms` have one entry a member of the group.
    """

    mechanism: str
    noise: Floats
    sampling: str
    sample_rate: Floats
    batch_size: Counts
    dataset_size: Counts
    group_size: Counts
    rates: tuple[float, ...] | None
    norms: tuple[float, ...] | None
    orthogonal: bool
    microbatches: int = 1
    """Batches that are added up before noise; group size, rates and norms are those of all together."""


class Configuration(NamedTuple):
    """The step of a run, the neighbouring relation, and what is known of the dominating pair."""

    step: Step
    adjacency: str
    pair: Pair

    def columns(self, **others: NDArray[Any]) -> tuple[tuple[int, ...], Step, list[NDArray[Any]]]:
        """Broadcast the numbers of the step with `others`: their shape, and all of them flat."""
        step = self.step
        numbers: dict[str, NDArray[Any]] = {
            "noise_multiplier": step.noise,
            "sample_rate": step.sample_rate,
            "group_size": step.group_size,
        }
        shape = broadcast(**others, **{name: numbers[name] for name in numbers if name not in others})
        drawing = (step.sample_rate, step.batch_size, step.dataset_size)
        noise, rate, batch, dataset, size = flat((step.noise, *drawing, step.group_size), shape)
        about_group = (step.rates, step.norms, step.orthogonal)
        flat_step = Step(
            step.mechanism, noise, step.sampling, rate, batch, dataset, size, *about_group, step.microbatches
        )
        return shape, flat_step, flat(others.values(), shape)


def configure(
    *,
    adjacency: str,
    noise_multiplier: ArrayLike | None = None,
    mechanism: Mechanism | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    unknown: str = "",
) -> Configuration:
    """Check the arguments of a public function and put them into the core's words.

    The argument named by `unknown` is the one that the function finds, and is not given.

    Raises
    ------
    ValueError
        If a group size is out of range; the core checks the other ranges.
    TypeError
        If an argument has the wrong type, is missing, or excludes another one.
    UnsupportedError
        If the combination has no proven dominating pair.
    """
    relation = check_adjacency(adjacency)
    mechanism_name, noise = _noise(noise_multiplier, mechanism, unknown)
    members = None if group is None else check_group(group)
    sizes = _group_sizes(group_size, members, unknown)
    rates = None if members is None else members.rates
    scheme, scheme_rates = _scheme(sample_rate, sampling, rates, unknown)
    orthogonal = members is not None and members.gradients == "orthogonal" and members.size > 1
    norms = None if members is None else members.norms
    if orthogonal and norms is None:
        norms = (1.0,) * int(sizes)
    microbatches = scheme.microbatches if isinstance(scheme, Poisson) else 1
    if microbatches > 1:
        _require_accumulable(scheme, relation, orthogonal)
        sizes, rates, norms = _in_all_batches(microbatches, sizes, rates, norms, unknown)
    forms = _forms(sizes, rates, norms, orthogonal, unknown)
    pair = require_supported(mechanism_name, _SCHEME_NAMES[type(scheme)], relation, forms)
    if isinstance(scheme, WithoutReplacement):
        require_within(sizes, scheme)
    drawn_from_all = isinstance(scheme, WithoutReplacement) and np.any(
        sizes > scheme.dataset_size - scheme.batch_size
    )
    if drawn_from_all and relation != "replace":
        pair = not_attained(pair, "a batch is all of the smaller data set")
    drawing = _drawing(scheme, scheme_rates, relation, sizes, unknown)
    step = Step(mechanism_name, noise, *drawing, sizes, rates, norms, orthogonal, microbatches)
    return Configuration(step, relation, pair)


def check_group_sizes(value: object) -> Counts:
    """`value` as an array of group sizes."""
    sizes = count_array(value, "group_size", 1)
    if (sizes > LARGEST_GROUP).any():
        worst = sizes[sizes > LARGEST_GROUP].flat[0]
        raise ValueError(f"group_size must be a whole number in [1, {LARGEST_GROUP}], got {worst}")
    return sizes


def require_within(sizes: Counts, sampling: Sampling | None) -> None:
    """Raise ``ValueError`` if a group is larger than the data set of `sampling`."""
    if isinstance(sampling, WithoutReplacement) and np.any(sizes > sampling.dataset_size):
        worst = sizes[sizes > sampling.dataset_size].flat[0]
        raise ValueError(f"group_size must be at most dataset_size {sampling.dataset_size}, got {worst}")


def _require_accumulable(scheme: Sampling, adjacency: str, orthogonal: bool) -> None:
    """Raise ``UnsupportedError`` where several batches under one noise have no proven pair."""
    if adjacency == "replace":
        raise UnsupportedError(
            f"{scheme!r} has no proven pair for replaced records: use adjacency='add_remove', 'add' or "
            f"'remove', or microbatches=1"
        )
    if orthogonal:
        raise UnsupportedError(
            f"{scheme!r} has no proven pair for a group with orthogonal gradients, as the copies of one "
            f"member in several batches are aligned: use gradients='aligned', which is an upper bound, or "
            f"microbatches=1"
        )


def _in_all_batches(
    microbatches: int,
    sizes: Counts,
    rates: tuple[float, ...] | None,
    norms: tuple[float, ...] | None,
    unknown: str,
) -> tuple[Counts, tuple[float, ...] | None, tuple[float, ...] | None]:
    """Group that has the law of this one in several batches: every member once for each batch.

    The batches are drawn on their own, so that a member is in each of them as if it were another record. Its
    gradients are aligned at worst, as those of other records are.
    """
    if unknown == "group_size":
        return sizes, rates, norms
    together = sizes * microbatches
    if np.any(together > LARGEST_GROUP):
        worst = sizes[together > LARGEST_GROUP].flat[0]
        raise ValueError(
            f"group_size times microbatches must be at most {LARGEST_GROUP}, got {worst} times {microbatches}"
        )
    rates = None if rates is None else rates * microbatches
    return together, rates, None if norms is None else norms * microbatches


def _noise(
    noise_multiplier: ArrayLike | None, mechanism: Mechanism | None, unknown: str
) -> tuple[str, Floats]:
    """Name of the mechanism and its noise."""
    if mechanism is not None:
        family, parameter, _ = as_core(check_mechanism(mechanism))
        if family == "skellam":
            raise UnsupportedError(
                f"{mechanism!r} has no exact privacy curve here: use hockeystick.renyi or "
                f"RenyiGroupAccountant, or Gaussian(noise_multiplier) or Laplace(scale)"
            )
        if noise_multiplier is not None:
            raise TypeError("give exactly one of noise_multiplier and mechanism")
        return family, np.asarray(parameter)
    if unknown == "noise_multiplier":
        return "gaussian", _UNKNOWN
    if noise_multiplier is None:
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    return "gaussian", float_array(noise_multiplier, "noise_multiplier")


def _group_sizes(group_size: ArrayLike, group: Group | None, unknown: str) -> Counts:
    if unknown == "group_size":
        return _UNKNOWN.astype(np.int64)
    sizes = check_group_sizes(group_size)
    if group is None:
        return sizes
    if sizes.shape != () or sizes not in (1, group.size):
        raise TypeError("give at most one of group_size and group")
    return np.asarray(group.size, dtype=np.int64)


def _scheme(
    sample_rate: ArrayLike | None,
    sampling: Sampling | None,
    rates: tuple[float, ...] | None,
    unknown: str,
) -> tuple[Sampling, Floats]:
    """Return the sampling scheme and the sample rates, however the user gave them."""
    if unknown == "sample_rate":
        if rates is not None:
            raise UnsupportedError("get_sample_rate looks for the rate of all members: leave out rates")
        return _POISSON, _UNKNOWN
    if sample_rate is not None and sampling is not None:
        raise TypeError("give exactly one of sample_rate and sampling")
    if sampling is not None:
        scheme = check_sampling(sampling)
        return scheme, np.asarray(scheme.sample_rate if isinstance(scheme, Poisson) else 1.0)
    if sample_rate is not None:
        return _POISSON, float_array(sample_rate, "sample_rate")
    if rates is not None:
        return _POISSON, _UNKNOWN
    raise TypeError("give exactly one of sample_rate and sampling")


def _forms(
    sizes: Counts,
    rates: tuple[float, ...] | None,
    norms: tuple[float, ...] | None,
    orthogonal: bool,
    unknown: str,
) -> tuple[str, ...]:
    """Kinds of groups that the arguments ask for, in the words of the table of supported pairs."""
    if unknown == "group_size":
        return (ONE, SEVERAL)
    if orthogonal:
        return (ORTHOGONAL if rates is None else RATES_AND_ORTHOGONAL,)
    if rates is not None or norms is not None:
        return (RATES if norms is None else NORMS if rates is None else RATES_AND_NORMS,)
    ones = sizes == 1
    if ones.all():
        return (ONE,)
    return (ONE, SEVERAL) if ones.any() else (SEVERAL,)


def _drawing(
    scheme: Sampling, sample_rates: Floats, adjacency: str, sizes: Counts, unknown: str
) -> tuple[str, Floats, Counts, Counts]:
    """How a batch is drawn: word, sample rate, batch size, data set size."""
    one = np.asarray(1, dtype=np.int64)
    if isinstance(scheme, WithoutReplacement):
        batch_size = np.asarray(scheme.batch_size, dtype=np.int64)
        return "fixed_batch", _UNKNOWN, batch_size, np.asarray(scheme.dataset_size, dtype=np.int64)
    if isinstance(scheme, FullBatch) and adjacency == "replace":
        # All members are in every batch; other records do not matter.
        records = one * LARGEST_GROUP if unknown == "group_size" else sizes
        return "fixed_batch", _UNKNOWN, records, records
    return "poisson", sample_rates, one, one
