"""The run of a curve in the words of a certificate, and the laws of its steps for the search of a witness."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._curves.described_correlated import apart_from_others
from hockeystick._curves.witness import Kind
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.batch_clipping import probability_of_any, units_with_members
from hockeystick._vocabulary.configuration import microbatches_of
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import AdaptiveClipping, Mechanism, family_of, parameter_of
from hockeystick._vocabulary.sampling import FullBatch, Mixture, Poisson, Sampling, WithoutReplacement
from hockeystick._vocabulary.step_kinds import StepKind
from hockeystick._vocabulary.support import ClippedStep
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._arguments import FloatOrFloats, Floats

LARGEST_KINDS = 64
LARGEST_GROUP = 4096
LARGEST_UNEQUAL_GROUP = 128
LARGEST_LAW, LARGEST_SUMS, LARGEST_DRAWN_GROUP = 20_000, 2048, 1000
"""Limits of the checker."""
DEALT = {"random_allocation", "fixed_bins"}
"""Schemes that deal records into the batches of an epoch."""
GAUSSIAN = {"gaussian", "adaptive_clipping", "batch_clipping", "scaled_gaussian"}
"""Mechanisms whose noise is Gaussian; the last one is of the checker's plain steps, and of no certificate."""


def described(segments: tuple[tuple[StepKind, int], ...], adjacency: str) -> dict[str, Any]:
    """Return the run as a certificate describes it.

    Raises
    ------
    UnsupportedError
        If the checker does not cover a step; the message says which.
    """
    if not 1 <= len(segments) <= LARGEST_KINDS:
        raise UnsupportedError(
            f"certificates cover runs of 1 to {LARGEST_KINDS} kinds of steps, got {len(segments)}"
        )
    runs, others = apart_from_others(segments, adjacency)
    return {"adjacency": adjacency, "steps": runs + [_step(kind, count, adjacency) for kind, count in others]}


def described_parts(parts: dict[str, tuple[tuple[StepKind, int], ...]]) -> dict[str, Any]:
    """Return a run of parts, each under an adjacency of its own, as a certificate describes it."""
    steps: list[dict[str, Any]] = []
    for adjacency, segments in parts.items():
        each = described(segments, adjacency)["steps"] if segments else ()
        steps += ({**step, "adjacency": adjacency} for step in each)
    if not 1 <= len(steps) <= LARGEST_KINDS:
        raise UnsupportedError(
            f"certificates cover runs of 1 to {LARGEST_KINDS} kinds of steps, got {len(steps)}"
        )
    return {"adjacency": "mixed", "steps": steps}


def directions(run: dict[str, Any]) -> tuple[str, ...]:
    """Return the ordered pairs of a described run: steps under "add_remove" all have one direction."""
    adjacencies = {step.get("adjacency", run["adjacency"]) for step in run["steps"]}
    if "add_remove" in adjacencies:
        return ("remove", "add")
    return (run["adjacency"],)


def _direction(step: dict[str, Any], direction: str) -> str:
    own: str = step.get("adjacency", "add_remove")
    return direction if own == "add_remove" else own


def _step(kind: StepKind, count: int, adjacency: str) -> dict[str, Any]:
    if kind.pair.stands_for_others:
        return _clipped_step(kind.pair.clipped, count)
    mechanism, group = _mechanism(kind.noise), _group(kind)
    draw = kind.draw
    whole_batch = isinstance(draw, WithoutReplacement) and draw.batch_size == draw.dataset_size
    sampling = _sampling(FullBatch() if whole_batch and adjacency == "replace" else draw)
    everyone = sampling == {"name": "poisson", "sample_rate": 1.0} and "rates" not in group
    if everyone and adjacency != "replace":
        sampling = _sampling(FullBatch())
    own = "rates" in group or "norms" in group
    largest = LARGEST_UNEQUAL_GROUP if own and group["gradients"] != "orthogonal" else LARGEST_GROUP
    if isinstance(draw, WithoutReplacement):
        largest = min(largest, LARGEST_DRAWN_GROUP)
    if kind.records * kind.microbatches > largest:
        raise UnsupportedError(f"certificates cover such groups of up to {largest} records in a step")
    return {"mechanism": mechanism, "sampling": sampling, "group": group, "count": count}


def _mechanism(noise: float | Mechanism) -> dict[str, Any]:
    if isinstance(noise, AdaptiveClipping):
        _check_noise(min(noise.noise_multiplier, noise.count_noise))
        found = {"name": "adaptive_clipping", "noise_multiplier": noise.noise_multiplier}
        return found | {"count_noise": noise.count_noise}
    family = family_of(noise)
    if family == "randomized_response":
        return {"name": family, "p": parameter_of(noise)}
    if family not in ("gaussian", "laplace"):
        raise UnsupportedError(f"certificates do not cover {noise!r}")
    _check_noise(parameter_of(noise))
    return {"name": family, "noise_multiplier" if family == "gaussian" else "scale": parameter_of(noise)}


def _check_noise(smallest: float, largest: float = math.inf) -> None:
    if not 1e-3 <= smallest <= largest:
        raise UnsupportedError(f"certificates cover noise of 0.001 or more, got {smallest}")


def _group(kind: StepKind) -> dict[str, Any]:
    group: dict[str, Any] = {"size": kind.records}
    if not isinstance(kind.group, Group):
        return group
    given = {"rates": kind.group.rates, "norms": kind.group.norms}
    group |= {key: list(values) for key, values in given.items() if values is not None}
    group["gradients"] = kind.group.gradients
    if kind.group.gradients == "bounded":
        group["cosine"] = kind.group.cosine
    return group


def _sampling(draw: float | Sampling | Mixture) -> dict[str, Any]:
    if isinstance(draw, FullBatch):
        return {"name": "full_batch"}
    if isinstance(draw, float):
        return {"name": "poisson", "sample_rate": draw}
    if isinstance(draw, Poisson):
        found = {"name": "poisson", "sample_rate": draw.sample_rate}
        if draw.is_truncated:
            limits = {"max_batch_size": draw.max_batch_size, "dataset_size": draw.dataset_size}
            return found | {"name": "truncated_poisson"} | limits
        return found | ({"microbatches": draw.microbatches} if draw.microbatches > 1 else {})
    if isinstance(draw, WithoutReplacement):
        sizes = {"batch_size": draw.batch_size, "dataset_size": draw.dataset_size}
        return {"name": "without_replacement", **sizes}
    if isinstance(draw, FixedBins):
        return {"name": "fixed_bins", "batches": draw.batches}
    if isinstance(draw, RandomAllocation):
        times = {"times": draw.times} if draw.times > 1 else {}
        return {"name": "random_allocation", "batches": draw.batches, **times}
    raise UnsupportedError(f"certificates do not cover {draw!r}")


def _clipped_step(asked: ClippedStep | None, count: int) -> dict[str, Any]:
    """Return a step whose batches are clipped as a whole: what was asked about, not what it amounts to."""
    if asked is None:
        raise UnsupportedError(
            "certificates cover batches that are clipped as a whole for one group at a time"
        )
    units, batches = asked.mechanism.units_per_batch, microbatches_of(asked.draw)
    _check_noise(asked.mechanism.noise_multiplier, 1e9)
    mechanism = {"name": "batch_clipping", "noise_multiplier": asked.mechanism.noise_multiplier}
    if units > 1:
        mechanism["units_per_batch"] = units
    group: dict[str, Any] = {"size": asked.size}
    sampling = _sampling(asked.draw)
    if asked.rates is not None:
        group["rates"] = list(asked.rates)
        sampling |= {"sample_rate": 1.0} if sampling["name"] == "poisson" else {}  # means nothing
    most = LARGEST_DRAWN_GROUP if isinstance(asked.draw, WithoutReplacement) else LARGEST_GROUP
    if max(asked.size, units, batches) > most:
        raise UnsupportedError(f"certificates cover up to {most} records, and clipped units, of a step")
    return {"mechanism": mechanism, "sampling": sampling, "group": group, "count": count}


def method_of(run: dict[str, Any]) -> str:
    """How the checker proves claims on a described run: on a line, on a lattice, or for dealt batches."""
    schemes = {step["sampling"]["name"] for step in run["steps"]}
    noises = {step["mechanism"]["name"] for step in run["steps"]}
    if schemes & DEALT:
        return "lattice" if "truncated_poisson" in schemes or not noises <= GAUSSIAN else "allocation"
    replaced = any(_is_joined(step, run["adjacency"]) for step in run["steps"])
    if noises <= GAUSSIAN and "truncated_poisson" not in schemes and not replaced:
        return "line"
    return "lattice"


def _is_joined(step: dict[str, Any], adjacency: str) -> bool:
    """Whether the pair of a step is a joined one, which has no law of shifts."""
    scheme: str = step["sampling"]["name"]
    clipped = bool(step["mechanism"]["name"] == "batch_clipping")
    if step.get("adjacency", adjacency) != "replace":
        return False
    return scheme == "without_replacement" or (clipped and scheme == "poisson")


def laws(run: dict[str, Any], direction: str) -> tuple[list[Kind], float]:
    """Return the kinds of steps of a described run, and the squared distance of its Gaussian steps."""
    kinds: list[Kind] = []
    mu_squared = 0.0
    for step in run["steps"]:
        sigma, way = _noise(step["mechanism"]), _direction(step, direction)
        for law, number in _laws_of_step(step, way):
            both = way == "replace" and step["sampling"]["name"] == "poisson"
            if len(law[0]) == 1:
                distance = (2.0 if both else 1.0) * float(law[1][0])
                mu_squared += step["count"] * number * (distance / sigma) ** 2
                continue
            p = None if way == "add" else law
            q = law if way == "add" or both else None
            kinds.append(Kind(sigma, p, q, step["count"] * number))
    return kinds, mu_squared


def _noise(mechanism: dict[str, Any]) -> float:
    sigma = float(mechanism["noise_multiplier"])
    if mechanism["name"] == "scaled_gaussian":
        _, upper, places, _ = mechanism["square"]
        return sigma / math.sqrt(upper / 2**places)
    if "count_noise" not in mechanism:
        return sigma
    return float((sigma**-2 + (2 * mechanism["count_noise"]) ** -2) ** -0.5)


def _laws_of_step(step: dict[str, Any], direction: str) -> list[tuple[tuple[Floats, Floats], int]]:
    """Logarithms of the probabilities, and shifts, of the mixtures of a step, and how many are alike."""
    sampling, group = step["sampling"], step["group"]
    size = group["size"]
    if step["mechanism"]["name"] == "batch_clipping":
        return [(_law_of_units(step), 1)]
    if sampling["name"] == "without_replacement":
        return [(_hypergeometric(size, sampling["batch_size"], sampling["dataset_size"]), 1)]
    full = sampling["name"] == "full_batch"
    scale = 2.0 if full and direction == "replace" else 1.0
    shifts = [scale * norm for norm in group.get("norms", [1.0] * size)]
    rates = group.get("rates", [1.0 if full else sampling["sample_rate"]] * size)
    members = list(zip(rates, shifts, strict=True))
    if group.get("gradients") == "orthogonal":
        alike = dict.fromkeys(members, 0)
        for member in members:
            alike[member] += 1
        return [(_sums([member]), number) for member, number in alike.items()]
    if group.get("gradients") == "bounded":
        return [(_norms_of_sums(members, group["cosine"]), 1)]
    return [(_sums(members * sampling.get("microbatches", 1)), 1)]


def _law_of_units(step: dict[str, Any]) -> tuple[Floats, Floats]:
    """Law of twice the number of clipped units with a member."""
    sampling, size, units = step["sampling"], step["group"]["size"], step["sampling"].get("microbatches", 1)
    parts = step["mechanism"].get("units_per_batch", 1)
    share: FloatOrFloats = 1.0
    if sampling["name"] == "without_replacement":
        draw = WithoutReplacement(sampling["batch_size"], sampling["dataset_size"])
        if parts > 1:
            law = units_with_members(draw, size, parts)
            return np.log(law.weights), 2.0 * np.array(law.shifts)
        share = probability_of_any(draw, size)
    elif sampling["name"] == "poisson":
        rates = step["group"].get("rates")
        group = None if rates is None else Group(rates=rates)
        share = probability_of_any(sampling["sample_rate"], size, group)
    return _sums([(float(share), 2.0)] * units)


def _norms_of_sums(members: list[tuple[float, float]], cosine: float) -> tuple[Floats, Floats]:
    """Law of the largest norms of sums of gradients whose pairs have at most a cosine, as `_sums`."""
    sums = {(0.0, 0.0): 0.0}
    for rate, norm in members:
        found: dict[tuple[float, float], float] = {}
        for (total, squares), log_weight in sums.items():
            if rate < 1.0:
                _add(found, (total, squares), log_weight + math.log1p(-rate))
            if rate > 0.0:
                place = (round(total + norm, 12), round(squares + norm**2, 12))
                _add(found, place, log_weight + math.log(rate))
        sums = found
        if len(sums) > LARGEST_SUMS:
            raise UnsupportedError(f"certificates cover groups whose sums have up to {LARGEST_SUMS} values")
    law: dict[float, float] = {}
    for (total, squares), log_weight in sums.items():
        _add(law, math.sqrt((1.0 - cosine) * squares + cosine * total**2), log_weight)
    return np.array([law[shift] for shift in sorted(law)]), np.array(sorted(law))


def _add(law: dict[Any, float], place: Any, log_weight: float) -> None:
    law[place] = float(np.logaddexp(law.get(place, -math.inf), log_weight))


def _hypergeometric(size: int, batch: int, records: int) -> tuple[Floats, Floats]:
    found = np.arange(max(0, size + batch - records), min(size, batch) + 1)
    ways = [_log_binomial(batch, int(j)) + _log_binomial(records - batch, size - int(j)) for j in found]
    return np.array(ways) - _log_binomial(records, size), np.array(2.0 * found, dtype=np.float64)


def _log_binomial(n: int, k: int) -> float:
    """Logarithm of n over k, for small k."""
    return sum(math.log((n - i) / (i + 1)) for i in range(k))


def _sums(members: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    law = {0.0: 0.0}
    for rate, shift in members:
        found: dict[float, float] = {}
        for place, weight in law.items():
            for other, factor in ((place, 1.0 - rate), (round(place + shift, 12), rate)):
                if factor > 0.0:
                    term = weight + (math.log1p(-rate) if other == place else math.log(rate))
                    known = found.get(other, -math.inf)
                    found[other] = max(known, term) + math.log1p(math.exp(-abs(known - term)))
        law = found
        if len(law) > LARGEST_LAW:
            raise UnsupportedError(f"certificates cover groups whose sums have up to {LARGEST_LAW} values")
    return np.array([law[shift] for shift in sorted(law)]), np.array(sorted(law))
