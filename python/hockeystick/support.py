"""Which combinations have a proven dominating pair, and what to use in place of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Combination(NamedTuple):
    """What decides about the dominating pair of a step."""

    mechanism: str
    sampling: str
    adjacency: str
    """"add_remove" stands for "add" and "remove" too."""
    group: str


ONE, SEVERAL, RATES, NORMS, RATES_AND_NORMS = "one", "several", "rates", "norms", "rates and norms"
"""A group: of one record, of several alike, with rates, with norms or orthogonal gradients, or with both."""

_SUPPORTED = {
    ("gaussian", "poisson", "add_remove"): {
        ONE: "tight",
        SEVERAL: "tight",
        RATES: "tight",
        NORMS: "tight",
        RATES_AND_NORMS: "tight",
    },
    ("gaussian", "full_batch", "add_remove"): {ONE: "tight", SEVERAL: "tight", NORMS: "tight"},
    ("gaussian", "without_replacement", "add_remove"): {ONE: "tight", SEVERAL: "upper bound"},
    ("gaussian", "poisson", "replace"): {ONE: "tight"},
    ("gaussian", "full_batch", "replace"): {ONE: "tight", SEVERAL: "tight"},
    ("gaussian", "without_replacement", "replace"): {ONE: "upper bound", SEVERAL: "upper bound"},
    ("laplace", "poisson", "add_remove"): {ONE: "tight", SEVERAL: "tight", RATES: "tight"},
    ("laplace", "full_batch", "add_remove"): {ONE: "tight", SEVERAL: "tight"},
    ("laplace", "without_replacement", "add_remove"): {ONE: "tight"},
    ("laplace", "full_batch", "replace"): {ONE: "tight", SEVERAL: "tight"},
    ("randomized_response", "poisson", "add_remove"): {ONE: "tight", SEVERAL: "tight", RATES: "tight"},
    ("randomized_response", "full_batch", "add_remove"): {ONE: "tight", SEVERAL: "tight"},
    ("randomized_response", "without_replacement", "add_remove"): {ONE: "tight"},
    ("randomized_response", "full_batch", "replace"): {ONE: "tight", SEVERAL: "tight"},
    ("randomized_response", "without_replacement", "replace"): {ONE: "upper bound"},
}

SUPPORTED = {
    Combination(*setting, group): status
    for setting, groups in _SUPPORTED.items()
    for group, status in groups.items()
}
"""Whether the pair of a combination is attained ("tight") or only dominates ("upper bound").

GROUP Theorem 18 and Lemma 14, section 6 for norms; PITFALLS Propositions 9 (Laplace noise too) and 13,
Theorems 10 and 14. For Laplace noise every likelihood ratio grows along the one coordinate, so Lemma 14
holds as it stands; randomised response has two answers, which dominate whatever the batch holds.
"""

_WORDS = {
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "randomized_response": "randomised response",
    "poisson": "Poisson sampling",
    "full_batch": "full batches",
    "without_replacement": "fixed batches drawn without replacement",
    "add_remove": "records added or removed",
    "replace": "records replaced",
    ONE: "one record",
    SEVERAL: "a group of several records",
    RATES: "a group with rates of its own",
    NORMS: "a group with norms of its own or orthogonal gradients",
    RATES_AND_NORMS: "a group with rates of its own, and norms of its own or orthogonal gradients",
}

_ADVICE = {
    "gaussian": "noise_multiplier in place of mechanism",
    "poisson": "sampling=Poisson(sample_rate)",
    "full_batch": "sampling=FullBatch()",
    "without_replacement": "sampling=WithoutReplacement(batch_size, dataset_size)",
    "add_remove": "adjacency='add_remove', 'add' or 'remove'",
    "replace": "adjacency='replace'",
    ONE: "group_size=1",
    SEVERAL: "a group_size, without rates, norms and orthogonal gradients",
    RATES: "group=Group(rates=...)",
    NORMS: "group=Group(norms=...)",
    RATES_AND_NORMS: "group=Group(rates=..., norms=...)",
}


def require_supported(mechanism: str, sampling: str, adjacency: str, groups: Iterable[str]) -> bool:
    """Whether the pair is tight for all `groups`; ``UnsupportedError`` where one of them has no pair."""
    relation = "replace" if adjacency == "replace" else "add_remove"
    wanted = [Combination(mechanism, sampling, relation, group) for group in groups]
    for combination in wanted:
        if combination not in SUPPORTED:
            raise UnsupportedError(_refusal(combination))
    return all(SUPPORTED[combination] == "tight" for combination in wanted)


def _refusal(wanted: Combination) -> str:
    noise, sampling, relation, group = (_WORDS[part] for part in wanted)
    # Nobody who adds one kind of noise wants another but the usual one.
    near = [other for other in SUPPORTED if other.mechanism in (wanted.mechanism, "gaussian")]
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
