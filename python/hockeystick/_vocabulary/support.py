"""Which combinations have a proven dominating pair, and what to use in place of the others."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
    from hockeystick._vocabulary.participation import Participation
    from hockeystick._vocabulary.sampling import FullBatch


class Combination(NamedTuple):
    """The properties of a step that decide which dominating pair it has."""

    mechanism: str
    sampling: str
    adjacency: str
    """"add_remove" stands for "add" and "remove" too."""
    group: str


ONE, SEVERAL, RATES, NORMS, RATES_AND_NORMS = "one", "several", "rates", "norms", "rates and norms"
"""A group: of one record, of several alike, with rates, with norms, or with both."""

ORTHOGONAL, RATES_AND_ORTHOGONAL = "orthogonal", "rates and orthogonal"
"""A group of several records with orthogonal gradients, and perhaps norms; without and with rates."""

BOUNDED, RATES_AND_BOUNDED = "bounded", "rates and bounded"
"""A group of several records with a bound between 0 and 1 on the cosines of their gradients."""


class ClippedStep(NamedTuple):
    """A step whose batches are clipped as a whole, as it was asked about."""

    mechanism: BatchClipping
    draw: float | Sampling
    size: int
    rates: tuple[float, ...] | None


class CorrelatedRun(NamedTuple):
    """A run with correlated noise, as it was asked about."""

    mechanism: CorrelatedNoise
    sampling: FullBatch | Participation
    steps: int
    size: int


class Pair(NamedTuple):
    """The dominating pair of a combination: its source, and whether it is attained."""

    tight: bool
    """Whether some data sets attain it; otherwise it is an upper bound only."""
    source: str
    """Paper and theorem."""
    of_whole_run: bool = False
    """Whether the step stands for a part of a run with correlated noise: nothing is known of other groups."""
    stands_for_others: bool = False
    """Whether the step of one record stands for a group in batches that are clipped as a whole."""
    clipped: ClippedStep | None = None
    """The step that it stands for, where that is a single one."""
    correlated: CorrelatedRun | None = None
    """The run with correlated noise of which it is a part, unless its matrix is large."""
    most_noise: float | None = None
    """Noise with which the step is surely attained, where its own was rounded down with a sensitivity."""


def _tight(source: str) -> Pair:
    return Pair(True, source)


_THEOREM_18 = _tight("GROUP, Theorem 18")
_LEMMA_14 = _tight("GROUP, Lemma 14")
_ALIGNED = _tight("GROUP, Lemma 14 and section 6")
_PROPOSITION_9 = _tight("PITFALLS, Proposition 9")
_PROPOSITION_13 = _tight("PITFALLS, Proposition 13")
_MIRRORED = _tight("PITFALLS, Proposition 13, for a group")
_MIRRORED_LOG_CONCAVE = _tight("PITFALLS, Proposition 13, for a group and log-concave noise")
_MIRRORED_SUMS = Pair(False, "PITFALLS, Proposition 13, for a group, by the norms of sums")
_PRODUCT = _tight("composition of the members' pairs")
_FIXED_GROUP = _tight("PITFALLS, Proposition 9, for a group")
_NORMS_OF_SUMS = Pair(False, "GROUP, Lemma 14 and section 6, by the norms of sums")
_THEOREM_14 = Pair(False, "PITFALLS, Theorem 14")
_REPLACED_GROUP = Pair(
    False, "the smaller of PITFALLS, Theorem 14, for a group, and GROUP, Theorem 5, for a chain of records"
)
_ALWAYS = _tight("every member in every batch")
_LOG_CONCAVE = _tight("GROUP, Lemma 14, for log-concave noise")
_TWO_ANSWERS = _tight("mixture of two answers")
_LARGER_ANSWER = Pair(
    False, "PITFALLS, Theorem 14, for Poisson sampling: the larger of two mixtures of two answers"
)
_ALLOCATION = _tight("Feldman and Shenfeld 2025, and Chua et al. 2024: one of the batches of an epoch")
_PATTERNS = Pair(
    False, "public pattern of the group's batches, one allocation in each block; a chain of records above six"
)
_BLOCKS_OF_GROUP = Pair(False, "GROUP, Theorem 5, for a chain of records; Feldman and Shenfeld 2025 for one")
_BLOCKS = Pair(False, "Feldman and Shenfeld 2025: one allocation in each of as many blocks")
_CHAIN_OF_ALLOCATIONS = Pair(False, "GROUP, Theorem 5, for a chain of records")
_PUBLIC_BINS = Pair(
    False,
    "batches taken as published beyond one epoch, or for groups: one output that moves by the group",
)
_THEOREM_10 = _tight("PITFALLS, Theorem 10")

_TRUNCATED = Pair(False, "public number of other records; Ganesh 2025, for one record")

_SUPPORTED = {
    ("gaussian", "poisson", "add_remove"): {
        ONE: _THEOREM_18,
        SEVERAL: _THEOREM_18,
        RATES: _LEMMA_14,
        NORMS: _ALIGNED,
        RATES_AND_NORMS: _ALIGNED,
        ORTHOGONAL: _PRODUCT,
        RATES_AND_ORTHOGONAL: _PRODUCT,
        BOUNDED: _NORMS_OF_SUMS,
        RATES_AND_BOUNDED: _NORMS_OF_SUMS,
    },
    ("gaussian", "full_batch", "add_remove"): {
        ONE: _THEOREM_18,
        SEVERAL: _THEOREM_18,
        NORMS: _ALIGNED,
        ORTHOGONAL: _PRODUCT,
        BOUNDED: _ALIGNED,
    },
    ("gaussian", "without_replacement", "add_remove"): {ONE: _PROPOSITION_9, SEVERAL: _FIXED_GROUP},
    ("gaussian", "random_allocation", "add_remove"): {ONE: _ALLOCATION, SEVERAL: _PATTERNS},
    ("gaussian", "several_allocations", "add_remove"): {ONE: _BLOCKS, SEVERAL: _BLOCKS_OF_GROUP},
    ("gaussian", "fixed_bins", "add_remove"): {ONE: _ALLOCATION, SEVERAL: _PATTERNS},
    ("gaussian", "truncated_poisson", "add_remove"): {ONE: _TRUNCATED, SEVERAL: _TRUNCATED},
    ("gaussian", "truncated_poisson", "replace"): {ONE: _TRUNCATED},
    ("gaussian", "poisson", "replace"): {
        ONE: _PROPOSITION_13,
        SEVERAL: _MIRRORED,
        RATES: _MIRRORED,
        NORMS: _MIRRORED,
        RATES_AND_NORMS: _MIRRORED,
        BOUNDED: _MIRRORED_SUMS,
        RATES_AND_BOUNDED: _MIRRORED_SUMS,
    },
    ("gaussian", "full_batch", "replace"): {ONE: _ALWAYS, SEVERAL: _ALWAYS},
    ("gaussian", "without_replacement", "replace"): {ONE: _THEOREM_14, SEVERAL: _REPLACED_GROUP},
    ("laplace", "poisson", "add_remove"): {ONE: _LOG_CONCAVE, SEVERAL: _LOG_CONCAVE, RATES: _LOG_CONCAVE},
    ("laplace", "poisson", "replace"): {
        ONE: _MIRRORED_LOG_CONCAVE,
        SEVERAL: _MIRRORED_LOG_CONCAVE,
        RATES: _MIRRORED_LOG_CONCAVE,
    },
    ("laplace", "random_allocation", "add_remove"): {ONE: _ALLOCATION, SEVERAL: _CHAIN_OF_ALLOCATIONS},
    ("laplace", "several_allocations", "add_remove"): {ONE: _BLOCKS, SEVERAL: _CHAIN_OF_ALLOCATIONS},
    ("laplace", "fixed_bins", "add_remove"): {ONE: _PUBLIC_BINS, SEVERAL: _PUBLIC_BINS},
    ("laplace", "full_batch", "add_remove"): {ONE: _LOG_CONCAVE, SEVERAL: _LOG_CONCAVE},
    ("laplace", "without_replacement", "add_remove"): {ONE: _PROPOSITION_9, SEVERAL: _FIXED_GROUP},
    ("laplace", "without_replacement", "replace"): {ONE: _THEOREM_14, SEVERAL: _REPLACED_GROUP},
    ("laplace", "full_batch", "replace"): {ONE: _ALWAYS, SEVERAL: _ALWAYS},
    ("randomized_response", "poisson", "add_remove"): {
        ONE: _TWO_ANSWERS,
        SEVERAL: _TWO_ANSWERS,
        RATES: _TWO_ANSWERS,
    },
    ("randomized_response", "poisson", "replace"): {
        ONE: _LARGER_ANSWER,
        SEVERAL: _LARGER_ANSWER,
        RATES: _LARGER_ANSWER,
    },
    ("randomized_response", "full_batch", "add_remove"): {ONE: _TWO_ANSWERS, SEVERAL: _TWO_ANSWERS},
    ("randomized_response", "without_replacement", "add_remove"): {ONE: _THEOREM_10, SEVERAL: _THEOREM_10},
    ("randomized_response", "full_batch", "replace"): {ONE: _ALWAYS, SEVERAL: _ALWAYS},
    ("randomized_response", "without_replacement", "replace"): {ONE: _THEOREM_14, SEVERAL: _REPLACED_GROUP},
}

SUPPORTED = {
    Combination(*setting, group): pair
    for setting, groups in _SUPPORTED.items()
    for group, pair in groups.items()
}
"""The pair of every combination that has one.

For Laplace noise every likelihood ratio grows along the one coordinate, so Lemma 14 holds as it stands;
randomised response has two answers, which dominate whatever the batch holds.

Fixed batches, several records added or removed: j members in the batch push j other records out, so that the
sum moves by at most 2 j, and Lemma 14 applies to the mixture over j. Where every other record pushes the sum
by -1 and every member by +1, it moves by exactly 2 j in every batch and every step: the pair is attained.
"""

_WORDS = {
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "randomized_response": "randomised response",
    "poisson": "Poisson sampling",
    "truncated_poisson": "Poisson sampling with a largest batch size",
    "full_batch": "full batches",
    "without_replacement": "fixed batches drawn without replacement",
    "random_allocation": "random allocation",
    "several_allocations": "random allocation to several batches of an epoch",
    "fixed_bins": "fixed bins",
    "add_remove": "records added or removed",
    "replace": "records replaced",
    ONE: "one record",
    SEVERAL: "a group of several records",
    RATES: "a group with rates of its own",
    NORMS: "a group with norms of its own",
    RATES_AND_NORMS: "a group with rates and norms of its own",
    ORTHOGONAL: "a group with orthogonal gradients",
    RATES_AND_ORTHOGONAL: "a group with rates of its own and orthogonal gradients",
    BOUNDED: "a group with a bound on the cosines of its gradients",
    RATES_AND_BOUNDED: "a group with rates of its own and a bound on the cosines of its gradients",
}

_ADVICE = {
    "gaussian": "noise_multiplier in place of mechanism",
    "poisson": "sampling=Poisson(sample_rate)",
    "truncated_poisson": "sampling=Poisson(sample_rate, max_batch_size=..., dataset_size=...)",
    "full_batch": "sampling=FullBatch()",
    "without_replacement": "sampling=WithoutReplacement(batch_size, dataset_size)",
    "random_allocation": "sampling=RandomAllocation(batches)",
    "several_allocations": "sampling=RandomAllocation(batches, times=...)",
    "fixed_bins": "sampling=FixedBins(batches)",
    "add_remove": "adjacency='add_remove', 'add' or 'remove'",
    "replace": "adjacency='replace'",
    ONE: "group_size=1",
    SEVERAL: "a group_size, without rates, norms and orthogonal gradients",
    RATES: "group=Group(rates=...)",
    NORMS: "group=Group(norms=...)",
    RATES_AND_NORMS: "group=Group(rates=..., norms=...)",
    ORTHOGONAL: "group=Group(size=..., gradients='orthogonal')",
    RATES_AND_ORTHOGONAL: "group=Group(rates=..., gradients='orthogonal')",
    BOUNDED: "group=Group(size=..., cosine=...)",
    RATES_AND_BOUNDED: "group=Group(rates=..., cosine=...)",
}

_ADVISED = ("poisson", "full_batch", "without_replacement")
"""Ways to draw batches that are advised in place of others."""

_KNOWN_ANGLES = (ORTHOGONAL, RATES_AND_ORTHOGONAL, BOUNDED, RATES_AND_BOUNDED)


@functools.cache
def require_supported(mechanism: str, sampling: str, adjacency: str, groups: tuple[str, ...]) -> Pair:
    """Return the pair for all `groups`; ``UnsupportedError`` where one of them has none."""
    relation = "replace" if adjacency == "replace" else "add_remove"
    wanted = [Combination(mechanism, sampling, relation, group) for group in groups]
    for combination in wanted:
        if combination not in SUPPORTED:
            raise UnsupportedError(_refusal(combination))
    pairs = [SUPPORTED[combination] for combination in wanted]
    sources = dict.fromkeys(pair.source for pair in pairs)
    return Pair(all(pair.tight for pair in pairs), "; ".join(sources))


def not_attained(pair: Pair, reason: str) -> Pair:
    """Return a pair that is tight in general as the upper bound that it is for the `reason` given."""
    return Pair(False, f"{pair.source}; {reason}") if pair.tight else pair


def _refusal(wanted: Combination) -> str:
    noise, sampling, relation, group = (_WORDS[part] for part in wanted)
    # Nobody who adds one kind of noise wants another but the usual one.
    near = [other for other in SUPPORTED if other.mechanism in (wanted.mechanism, "gaussian")]
    # Nor does anybody cut samples, or deal records out in epochs, whose loader does not.
    near = [other for other in near if other.sampling in (wanted.sampling, *_ADVISED)]
    # That gradients are orthogonal is knowledge, which nobody has because it would help.
    if wanted.group not in _KNOWN_ANGLES:
        near = [other for other in near if other.group not in _KNOWN_ANGLES]
    alternatives = [_changes(wanted, other) for other in near]
    fewest = min(len(changes) for changes in alternatives)
    nearest = [changes for changes in alternatives if len(changes) == fewest]
    # Who may take any group size need not be told that it may be one.
    general = [[SEVERAL if part == ONE else part for part in changes] for changes in nearest]
    kept = [old for old, new in zip(nearest, general, strict=True) if old == new or new not in nearest]
    advice = "; or ".join(" with ".join(_ADVICE[part] for part in changes) for changes in kept)
    return f"{noise}, {sampling}, {relation} and {group} are not supported together: use {advice}"


def _changes(wanted: Combination, other: Combination) -> list[str]:
    """Parts of `other` that `wanted` does not have."""
    return [new for old, new in zip(wanted, other, strict=True) if old != new]
