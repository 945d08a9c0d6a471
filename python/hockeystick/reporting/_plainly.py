"""What a guarantee assumes, in words for readers who use no library."""

from __future__ import annotations

from typing import Any

from hockeystick import (
    AdaptiveClipping,
    BatchClipping,
    FixedBins,
    FullBatch,
    Gaussian,
    Laplace,
    Poisson,
    RandomAllocation,
    RandomizedResponse,
    Shuffle,
    Skellam,
    WithoutReplacement,
)
from hockeystick._guarantees.guarantee import ExactGuarantee, Guarantee, ShuffledGuarantee
from hockeystick._guarantees.proven import ProvenGuarantee
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick.accountants import MonteCarloAccountant, RenyiGroupAccountant, ShuffleAccountant

LABELS = {
    "mechanism": "noise that is added",
    "sampling": "how batches are drawn",
    "adjacency": "what may differ between the data",
    "group": "unit that is protected",
    "queries": "what is computed",
    "adversary": "attacker",
    "status": "how close to the truth",
    "certified": "epsilon lies between",
}
"""The names of the assumptions in the part of a report for officers; others stand in the technical part."""

TECHNICAL = {
    "trade-off function": "trade-off function",
    "adversary": "adversary",
    "queries": "queries",
    "status": "status",
    "theorem": "proven by",
    "bound": "bound",
    "certified": "certified interval of epsilon",
}
"""Their names in the technical part, which has noise and sampling among the hyper-parameters."""

EXACT = "exact: there are data for which no smaller epsilon holds"
PROVEN = "proven: there are data for which no epsilon below the lower of the two ends holds"
UPPER = "an upper bound: the true epsilon may be smaller"


def noise(mechanism: Any) -> str:
    """Return the noise of a step in words."""
    if isinstance(mechanism, float | Gaussian):
        value = mechanism if isinstance(mechanism, float) else mechanism.noise_multiplier
        return (
            f"Gaussian noise; its standard deviation is {value:g} times the largest influence of one record "
            f"(noise multiplier {value:g})"
        )
    if isinstance(mechanism, Laplace):
        return f"Laplace noise; its scale is {mechanism.scale:g} times the largest influence of one record"
    if isinstance(mechanism, Skellam):
        return f"Skellam noise on whole numbers, with variance {mechanism.variance:g}"
    if isinstance(mechanism, RandomizedResponse):
        return f"randomised response: an answer is true with a probability of {mechanism.p:g}"
    if isinstance(mechanism, BatchClipping):
        value = mechanism.noise_multiplier
        return (
            f"Gaussian noise; its standard deviation is {value:g} times the largest size of the update of a "
            f"batch, which is limited as a whole (noise multiplier {value:g})"
        )
    if isinstance(mechanism, AdaptiveClipping):
        return (
            f"Gaussian noise (noise multiplier {mechanism.noise_multiplier:g}), and noise with a standard "
            f"deviation of {mechanism.count_noise:g} on the number of records whose influence was limited"
        )
    return "noise that is correlated between steps; the part for engineers describes it"


def draw(scheme: Any) -> str:
    """Return how a batch is drawn in words."""
    if isinstance(scheme, float):
        scheme = Poisson(scheme)
    if isinstance(scheme, Poisson):
        words = f"by chance: each record joins a batch with a probability of {scheme.sample_rate:g}"
        words += ", whatever the others do (Poisson sampling)"
        if scheme.max_batch_size is not None:
            words += f"; batches of more than {scheme.max_batch_size:,} records are cut"
        if scheme.microbatches > 1:
            words += f"; {scheme.microbatches:,} batches are added up before noise"
        return words
    if isinstance(scheme, WithoutReplacement):
        return (
            f"by chance: for every step {scheme.batch_size:,} of the {scheme.dataset_size:,} records "
            "(fixed batches)"
        )
    if isinstance(scheme, Shuffle):
        return (
            f"the {scheme.dataset_size:,} records are shuffled and cut into batches of "
            f"{scheme.batch_size:,}, anew in every pass over the data"
        )
    if isinstance(scheme, FullBatch):
        return "every record takes part in every step"
    if isinstance(scheme, RandomAllocation):
        where = "one" if scheme.times == 1 else f"{scheme.times:,}"
        return f"each record is in {where} of {scheme.batches:,} batches, drawn anew in every pass"
    if isinstance(scheme, FixedBins):
        return f"each record is in one of {scheme.batches:,} batches, the same in every pass"
    return "not described"


def assumed(
    source: Any, guarantee: Guarantee, assumptions: dict[str, str], ends: tuple[float | None, float]
) -> dict[str, str]:
    """Return the rows of the table of what a guarantee assumes.

    Parameters
    ----------
    source : object
        What the report is about.
    guarantee : Guarantee
        The guarantee of it.
    assumptions : dict
        Its assumptions in technical words.
    ends : (float or None, float)
        The certified interval of epsilon; None if there is an upper end only.
    """
    if guarantee.run is None:
        return dict(assumptions)
    found = {name: text for name, text in assumptions.items() if name in LABELS or name == "steps"}
    segments = guarantee.run.segments
    found["mechanism"] = "; ".join(dict.fromkeys(noise(mechanism) for mechanism, _, _ in segments))
    if not guarantee.run.has_own_rates:
        found["sampling"] = "; ".join(dict.fromkeys(draw(scheme) for _, scheme, _ in segments))
    if isinstance(source, ShuffleAccountant):
        found["sampling"] = draw(source.sampling)
    if guarantee.run.group is not None:
        found["group"] = f"a group of {guarantee.group_size:,} records that differ in influence or frequency"
    if "queries" in found:
        found["queries"] = "one number a step, where noise is not Gaussian"
    found["status"] = closeness(source, guarantee)
    if ends[0] is None and "certified" in found:
        del found["certified"]
        found["epsilon is at most"] = f"{rounded_up(ends[1])}; this is proven"
    if ends[0] is not None:
        found["certified"] = f"{rounded_down(ends[0])} and {rounded_up(ends[1])}; this is proven"
    return {LABELS.get(name, name): text for name, text in found.items()}


def closeness(source: Any, guarantee: Guarantee) -> str:
    """Return whether epsilon is exact or an upper bound, in words."""
    if isinstance(guarantee, ProvenGuarantee) and guarantee.curve.tight:
        return UPPER if guarantee.ends[0] is None else PROVEN
    if isinstance(guarantee, ExactGuarantee):
        return EXACT if guarantee.curve.tight else UPPER
    if isinstance(guarantee, ShuffledGuarantee):
        return (
            "between two bounds: there are data for which epsilon is at least the lower one, and the upper "
            "one holds even for an attacker who knows which records are in which batch"
        )
    if isinstance(source, ShuffleAccountant) and not source.filtered:
        return "exact for an attacker who knows which records are in which batch, an upper bound for others"
    if isinstance(source, MonteCarloAccountant):
        return (
            f"found by simulation: an upper bound that holds with a confidence of {source.confidence:g} "
            "over the random numbers of the simulation"
        )
    if isinstance(source, RenyiGroupAccountant):
        return UPPER + " (computed by Rényi divergences)"
    return UPPER


def technical(assumptions: dict[str, str]) -> dict[str, str]:
    """Return the rows of the table of assumptions for engineers."""
    return {name: assumptions[key] for key, name in TECHNICAL.items() if key in assumptions}


def technical_noise(mechanism: object) -> str:
    """Return the noise of a step as engineers state it."""
    known = isinstance(mechanism, float)
    return f"Gaussian noise, noise multiplier {mechanism:g}" if known else repr(mechanism)


def technical_draw(scheme: object) -> str:
    """Return the sampling of a step as engineers state it."""
    return f"Poisson sampling, rate {scheme:g}" if isinstance(scheme, float) else repr(scheme)
