"""Turns the arguments of the public functions into a checked `Step`, as the compiled core takes it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    LARGEST_GROUP,
    CountOrCounts,
    Counts,
    FloatOrFloats,
    count_or_counts,
    float_or_floats,
)
from hockeystick._vocabulary.adjacency import ADJACENCIES, ZERO_OUT, check_adjacency
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.batch_clipping import equivalent
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.mechanisms import (
    AdaptiveClipping,
    BatchClipping,
    Gaussian,
    Laplace,
    Mechanism,
    Skellam,
    check_mechanism,
    family_of,
)
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Mixture,
    Poisson,
    Sampling,
    WithoutReplacement,
    check_sampling,
)
from hockeystick._vocabulary.spelling import parameters_of, unknown_argument
from hockeystick._vocabulary.support import (
    BOUNDED,
    NORMS,
    ONE,
    ORTHOGONAL,
    RATES,
    RATES_AND_BOUNDED,
    RATES_AND_NORMS,
    RATES_AND_ORTHOGONAL,
    SEVERAL,
    ClippedStep,
    Pair,
    not_attained,
    require_supported,
)
from hockeystick._vocabulary.terms import (
    LARGE_NOISE,
    SMALL_NOISE,
    TERMS,
    asked_from_outside,
    meant,
    resolved,
    warn_of_large_noise,
    warn_of_small_noise,
)
from hockeystick.errors import UnsupportedError

Function = TypeVar("Function", bound=Callable[..., Any])

Noise: TypeAlias = FloatOrFloats | Mechanism
"""Noise multipliers of Gaussian noise, or another mechanism."""
Draw: TypeAlias = FloatOrFloats | Sampling
"""Rates of Poisson samples, or another sampling scheme."""
Members: TypeAlias = CountOrCounts | Group
"""Numbers of records of which nothing more is known, or a group."""

Segment: TypeAlias = tuple[float | Mechanism, float | Sampling | Mixture, int | Group, int]
"""Equal steps of a run as the core takes them: noise, draw, group and number of steps."""

_SCHEME_NAMES = {
    WithoutReplacement: "without_replacement",
    FullBatch: "full_batch",
    RandomAllocation: "random_allocation",
    FixedBins: "fixed_bins",
}
"""Sampling schemes in the words of the table of supported pairs; all others are Poisson's."""

_LARGEST_TRUNCATED_GROUP = 128
"""Largest group whose law is computed where a sample may be cut."""

_UNKNOWN = 1.0
"""Stands for the noise multiplier or sample rate that is asked for; the core ignores it."""


def in_own_terms(unknown: str = "", *, keeps: str = "") -> Callable[[Function], Function]:
    """Decorate a function so that it takes a run, and epochs and sizes in place of rate and steps.

    Parameters
    ----------
    unknown : str, optional
        What the function finds, which is not taken from a run.
    keeps : str, optional
        One of the terms, which the function takes itself.
    """

    def decorate(function: Function) -> Function:
        named = parameters_of(function)
        assert named is not None
        known = named
        plain = known - (TERMS - {keeps})
        needs_steps = "steps" in known

        @functools.wraps(function)
        def asked(run: Run | None = None, **given: Any) -> Any:
            """Call the function with what a run, epochs or sizes stand for, and explain what it refuses."""
            if run is None and plain.issuperset(given) and type(given.get("sampling")) is not str:
                if needs_steps and given.get("steps") is None:
                    raise TypeError(
                        f"{function.__name__}() needs steps, or epochs with sizes or a rate, or a Run"
                    )
                noise: Any = given.get("noise_multiplier")
                if type(noise) in (float, int) and not SMALL_NOISE <= noise <= LARGE_NOISE:
                    # A search of the library may pass through such noise on its way.
                    module = sys._getframe(1).f_globals.get("__name__", "")
                    if asked_from_outside(module):
                        warn_of_small_noise(float(noise))
                        if unknown != "group_size":
                            warn_of_large_noise(float(noise), given)
                arguments = given
            else:
                for name in given:
                    if name not in known:
                        raise unknown_argument(function.__name__, name, sorted(known))
                arguments = resolved(run, given, known, unknown, keeps)
            try:
                return function(**arguments)
            except ValueError as error:
                hint = meant(error, given)
                if not hint:
                    raise
                kind, problem = type(error), f"{error}{hint}"
            raise kind(problem)

        return cast(Function, asked)

    return decorate


class Step:
    """One step of a run: its noise, how its batch is drawn, whose records are protected, and from whom.

    A noun stands as its main number where that says everything: Gaussian noise as its multiplier, Poisson
    sampling as its rate, records that are alike as their number. Numbers may be arrays that broadcast.
    """

    __slots__ = ("adjacency", "draw", "group", "noise", "pair")

    def __init__(self, noise: Noise, draw: Draw, group: Members, adjacency: str, pair: Pair) -> None:
        self.noise = noise
        self.draw = draw
        self.group = group
        self.adjacency = adjacency
        self.pair = pair

    @property
    def microbatches(self) -> int:
        """Number of batches that are added up before noise."""
        return microbatches_of(self.draw)


def configure(
    *,
    adjacency: str,
    noise_multiplier: ArrayLike | None = None,
    mechanism: Mechanism | None = None,
    sample_rate: ArrayLike | None = None,
    sampling: Sampling | Participation | None = None,
    group_size: ArrayLike = 1,
    group: Group | None = None,
    unknown: str = "",
) -> Step:
    """Check the arguments of a public function.

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
    relation, zeroed = adjacency, type(adjacency) is str and adjacency == ZERO_OUT
    if zeroed:
        relation = ADJACENCIES[0]
    elif type(adjacency) is not str or adjacency not in ADJACENCIES:
        relation = check_adjacency(adjacency)
    noise = _noise(noise_multiplier, mechanism, unknown)
    members = None if group is None else check_group(group)
    sizes = _group_sizes(group_size, members, unknown)
    draw = _draw(sample_rate, sampling, members, unknown)
    if zeroed:
        _require_zeroable(noise, draw)
    if isinstance(noise, BatchClipping):
        return _of_clipped_batches(noise, draw, sizes, members, relation, unknown)
    if isinstance(noise, AdaptiveClipping) and members is not None:
        _require_equal_counts(noise, members)
    records = sizes
    if isinstance(draw, Poisson):
        _require_accumulable(draw, relation, members)
        # A member in several batches is as many members in one.
        records = sizes if unknown == "group_size" else _in_all_batches(draw.microbatches, sizes)
    family = "gaussian" if isinstance(noise, float | np.ndarray) else family_of(noise)
    forms = (ONE, SEVERAL) if unknown == "group_size" else _forms(records, members)
    pair = require_supported(family, _scheme_name(draw), relation, forms)
    if isinstance(draw, WithoutReplacement):
        require_within(sizes, draw)
        if relation != "replace" and np.any(sizes > draw.dataset_size - draw.batch_size):
            pair = not_attained(pair, "a batch is all of the smaller data set")
    elif isinstance(draw, Poisson) and draw.is_truncated:
        _require_truncated_group(sizes, draw)
    elif isinstance(draw, FullBatch):
        if relation != "replace":
            draw = 1.0
        elif unknown == "group_size":
            sizes = LARGEST_GROUP  # the largest data set that the search may need
    return Step(noise, draw, sizes if members is None or _is_plain(members) else members, relation, pair)


def _require_zeroable(noise: object, draw: object) -> None:
    """Raise ``UnsupportedError`` unless a record whose gradient is 0 leaves what a removed one leaves.

    The batches must be drawn so that no record's place depends on another record, and the sum of the
    gradients must be all that is released (docs/theory/random-allocation.md).
    """
    if isinstance(draw, WithoutReplacement) or (isinstance(draw, Poisson) and draw.is_truncated):
        raise UnsupportedError(
            f"adjacency 'zero_out' and sampling {draw!r} are not supported together, as a record whose "
            "gradient is 0 still pushes others out: use 'replace', which covers it"
        )
    if not isinstance(noise, float | np.ndarray | Gaussian | Laplace | Skellam):
        raise UnsupportedError(
            f"adjacency 'zero_out' and {noise!r} are not supported together, as more is released than a sum "
            "of gradients in which a removed record counts as 0: use 'replace', which covers it, or "
            "'add_remove'"
        )


def _of_clipped_batches(
    mechanism: BatchClipping,
    draw: Draw,
    sizes: CountOrCounts,
    group: Group | None,
    adjacency: str,
    unknown: str,
) -> Step:
    """Return the step of one record that stands for one whose batches are clipped as a whole."""
    assert not unknown, "planned by the step that stands for it"
    require_within(sizes, draw)
    noise, drawn, pair, records = equivalent(mechanism, draw, sizes, group, adjacency)
    if isinstance(sizes, int) and not isinstance(draw, np.ndarray):
        pair = pair._replace(clipped=ClippedStep(mechanism, draw, sizes, group.rates if group else None))
    return Step(noise, cast(Draw, drawn), records, adjacency, pair)


def _require_equal_counts(mechanism: AdaptiveClipping, group: Group) -> None:
    """Raise ``UnsupportedError`` where members move the sum less than they move the count.

    Every member moves the count by 1/2, however small its gradient is and whatever its angle to others.
    """
    if any(norm < 1.0 for norm in group.norms or ()) or (group.gradients != "aligned" and group.size > 1):
        raise UnsupportedError(
            f"{mechanism!r} has no proven pair for a group with bounds on norms or angles of its gradients, "
            "as each of its members moves the count of clipped gradients by 1/2: use group_size, an upper "
            "bound, or Gaussian(noise_multiplier)"
        )


def _scheme_name(draw: object) -> str:
    """Return the sampling in the words of the table of supported pairs."""
    if isinstance(draw, Poisson) and draw.is_truncated:
        return "truncated_poisson"
    if isinstance(draw, RandomAllocation) and draw.times > 1:
        return "several_allocations"
    return _SCHEME_NAMES.get(type(draw), "poisson")


def _require_truncated_group(sizes: CountOrCounts, scheme: Poisson) -> None:
    """Raise ``ValueError`` if a group is larger than the data set, or its law would take long."""
    require_within(sizes, scheme)
    _require_at_most(sizes, _LARGEST_TRUNCATED_GROUP, "where batches have a largest size")


def _require_at_most(sizes: CountOrCounts, largest: int, where: str) -> None:
    """Raise ``ValueError`` if a group has more than `largest` records."""
    records: Counts = np.asarray(sizes)
    if np.any(records > largest):
        raise ValueError(
            f"group_size must be at most {largest} {where}, got {records[records > largest].flat[0]}"
        )


def check_group_sizes(value: object) -> CountOrCounts:
    """`value` as a group size, or as an array of them."""
    sizes = count_or_counts(value, "group_size", 1)
    if type(sizes) is int:
        worst = sizes
    else:
        largest = np.asarray(sizes)
        worst = int(largest[largest > LARGEST_GROUP].flat[0]) if np.any(largest > LARGEST_GROUP) else 0
    if worst > LARGEST_GROUP:
        raise ValueError(f"group_size must be a whole number in [1, {LARGEST_GROUP}], got {worst}")
    return sizes


def require_within(sizes: CountOrCounts, sampling: object) -> None:
    """Raise ``ValueError`` if a group is larger than the data set of `sampling`."""
    size = sampling.dataset_size if isinstance(sampling, WithoutReplacement | Poisson) else None
    if size is not None:
        records: Counts = np.asarray(sizes)
        if np.any(records > size):
            worst = records[records > size].flat[0]
            raise ValueError(f"group_size must be at most dataset_size {size}, got {worst}")


def microbatches_of(draw: object) -> int:
    """Return the number of batches that are added up in a step."""
    return draw.microbatches if isinstance(draw, Poisson) else 1


def _require_accumulable(scheme: Poisson, adjacency: str, group: Group | None) -> None:
    """Raise ``UnsupportedError`` where several batches under one noise have no proven pair."""
    if scheme.microbatches == 1:
        return
    if adjacency == "replace":
        raise UnsupportedError(
            f"{scheme!r} has no proven pair for replaced records: use adjacency='add_remove', 'add' or "
            f"'remove', or microbatches=1"
        )
    if group is not None and group.gradients != "aligned" and group.size > 1:
        raise UnsupportedError(
            f"{scheme!r} has no proven pair for a group with {group.gradients} gradients, as the copies of "
            f"one member in several batches are aligned: use gradients='aligned', an upper bound, or "
            f"microbatches=1"
        )


def _in_all_batches(microbatches: int, sizes: CountOrCounts) -> CountOrCounts:
    """Numbers of records in one batch that have the law of groups of these sizes in several batches."""
    records: Counts = np.asarray(sizes)
    together = records * microbatches
    if np.any(together > LARGEST_GROUP):
        worst = records[together > LARGEST_GROUP].flat[0]
        raise ValueError(
            f"group_size times microbatches must be at most {LARGEST_GROUP}, got {worst} times {microbatches}"
        )
    return together if together.ndim else int(together)


def _noise(noise_multiplier: ArrayLike | None, mechanism: Mechanism | None, unknown: str) -> Noise:
    if mechanism is not None:
        if isinstance(check_mechanism(mechanism), Skellam):
            raise UnsupportedError(
                f"{mechanism!r} has no exact privacy curve here: use hockeystick.renyi or "
                f"RenyiGroupAccountant, or Gaussian(noise_multiplier) or Laplace(scale)"
            )
        if noise_multiplier is not None:
            raise TypeError("give exactly one of noise_multiplier and mechanism")
        return mechanism.noise_multiplier if isinstance(mechanism, Gaussian) else mechanism
    if unknown == "noise_multiplier":
        return _UNKNOWN
    if noise_multiplier is None:
        raise TypeError("give exactly one of noise_multiplier and mechanism")
    return float_or_floats(noise_multiplier, "noise_multiplier")


def _group_sizes(group_size: ArrayLike, group: Group | None, unknown: str) -> CountOrCounts:
    if unknown == "group_size":
        return 1
    sizes = check_group_sizes(group_size)
    if group is None:
        return sizes
    if not isinstance(sizes, int) or sizes not in (1, group.size):
        raise TypeError("give at most one of group_size and group")
    return group.size


def _draw(
    sample_rate: ArrayLike | None,
    sampling: Sampling | Participation | None,
    group: Group | None,
    unknown: str,
) -> Draw:
    """Return the sampling scheme or the sample rates, however the user gave them."""
    has_rates = group is not None and group.rates is not None
    if unknown == "sample_rate":
        if has_rates:
            raise UnsupportedError("get_sample_rate looks for the rate of all members: leave out rates")
        return _UNKNOWN
    if sample_rate is not None and sampling is not None:
        raise TypeError("give exactly one of sample_rate and sampling")
    if sampling is not None:
        scheme = check_sampling(sampling)
        return scheme.sample_rate if isinstance(scheme, Poisson) and scheme.is_plain else scheme
    if sample_rate is not None:
        return float_or_floats(sample_rate, "sample_rate")
    if has_rates:
        return _UNKNOWN
    raise TypeError("give exactly one of sample_rate and sampling")


def _is_orthogonal(group: Group) -> bool:
    """Whether members are known to be orthogonal to each other; one alone is not."""
    return group.gradients == "orthogonal" and group.size > 1


def _is_plain(group: Group) -> bool:
    """Whether only the number of members is known."""
    return group.rates is None and group.norms is None and (group.gradients == "aligned" or group.size == 1)


def _forms(records: CountOrCounts, group: Group | None) -> tuple[str, ...]:
    """Kinds of groups that the arguments ask for, in the words of the table of supported pairs."""
    if group is not None and not _is_plain(group):
        if _is_orthogonal(group):
            return (ORTHOGONAL if group.rates is None else RATES_AND_ORTHOGONAL,)
        if group.gradients == "bounded" and group.size > 1:
            return (BOUNDED if group.rates is None else RATES_AND_BOUNDED,)
        if group.rates is None:
            return (NORMS,)
        return (RATES if group.norms is None else RATES_AND_NORMS,)
    if isinstance(records, int):
        return (ONE,) if records == 1 else (SEVERAL,)
    ones = records == 1
    if ones.all():
        return (ONE,)
    return (ONE, SEVERAL) if ones.any() else (SEVERAL,)
