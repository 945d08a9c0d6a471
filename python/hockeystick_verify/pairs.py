"""The run of a certificate: read as data that nobody vouches for, and turned into pairs (V1)."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb, fmpq

FORMAT, VERSION = "hockeystick-certificate", 1
LARGEST_FILE = 1 << 20
"""Bytes of a certificate that are read."""
LARGEST_COUNT = 10**12
"""Most steps of a kind, and records of a data set."""
LARGEST_GROUP = 1000
LARGEST_UNEQUAL_GROUP = 128
"""Most members of a group with rates or norms of their own, over all batches of a step."""
LARGEST_LAW = 2048
"""Most different shifts of a group law."""
LARGEST_KINDS = 64

Object = dict[str, Any]


class RefusedError(ValueError):
    """The certificate cannot be read: it is malformed, out of range, or about something not covered."""


class NotProvenError(Exception):
    """An inequality that the proof needs does not hold for the numbers of the witness."""


# ---------------------------------------------------------------- reading


def _refuse_constant(name: str) -> float:
    raise RefusedError(f"{name} is not a number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError("an object has two entries of one name")
    return found


def read(text: str | bytes) -> Object:
    """Return the certificate of a JSON text, a dict whose format and version are those of this checker."""
    if len(text) > LARGEST_FILE:
        raise RefusedError(f"a certificate has at most {LARGEST_FILE} bytes")
    try:
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RefusedError:
        raise
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not JSON: {str(error)[:100]}") from None
    certificate = fields(found, "certificate", "format version run claims witness", "made_by note")
    if certificate["format"] != FORMAT or certificate["version"] != VERSION:
        raise RefusedError(f"format must be {FORMAT!r} of version {VERSION}")
    return certificate


def fields(value: object, name: str, needed: str, optional: str = "") -> Object:
    """Return `value` if it is an object with these entries and no others."""
    if not isinstance(value, dict):
        raise RefusedError(f"{name} must be an object")
    for key in needed.split():
        if key not in value:
            raise RefusedError(f"{name} lacks {key!r}")
    for key in value:
        if key not in needed.split() + optional.split():
            raise RefusedError(f"{name} has an unknown entry {str(key)[:40]!r}")
    return value


def number(value: object, name: str, low: float, high: float) -> arb:
    """Return the ball of a number in [low, high]: the double that it is written as, exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RefusedError(f"{name} must be a number in [{low}, {high}], got {str(value)[:40]}")
    return arb(value)


def whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RefusedError(f"{name} must be a whole number in [{low}, {high}], got {str(value)[:40]}")
    return value


def items(value: object, name: str, low: int, high: int) -> list[Any]:
    """Return a list with between `low` and `high` entries."""
    if not isinstance(value, list) or not low <= len(value) <= high:
        raise RefusedError(f"{name} must be a list of {low} to {high} entries")
    return value


def choice(value: object, name: str, allowed: str) -> str:
    """Return a text that is one of the allowed ones."""
    if not isinstance(value, str) or value not in allowed.split():
        raise RefusedError(f"{name} must be one of {allowed}, got {str(value)[:40]!r}")
    return value


# ---------------------------------------------------------------- V1: the pair of a step

Law = dict[Fraction, arb]
"""Probabilities by shift, in units of the clipping norm."""


class Pair(NamedTuple):
    """P has the density N(x) p(x) and Q the density N(x) q(-x), where N is that of N(0, sigma^2).

    p and q are likelihood ratios of mixtures of shifted Gaussians against N, or 1 where the law is None.
    """

    sigma: arb
    p: Law | None
    q: Law | None


def _law(members: list[tuple[arb, Fraction]]) -> Law:
    """Law of a sum to which each member adds its shift with its probability, independently."""
    rate, shift = members[0]
    if all(member == members[0] for member in members):
        n = len(members)
        law = {j * shift: math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1)}
        return {place: weight for place, weight in law.items() if not weight.is_zero()}
    if len(members) > LARGEST_UNEQUAL_GROUP:
        raise RefusedError(f"more than {LARGEST_UNEQUAL_GROUP} members that differ are not covered")
    law = {Fraction(0): arb(1)}
    for rate, shift in members:
        found = {place: weight * (1 - rate) for place, weight in law.items()}
        for place, weight in law.items():
            found[place + shift] = found.get(place + shift, arb(0)) + weight * rate
        law = {place: weight for place, weight in found.items() if not weight.is_zero()}
        if len(law) > LARGEST_LAW:
            raise RefusedError(f"a group whose sums have more than {LARGEST_LAW} values is not covered")
    return law


def _hypergeometric(group: int, batch: int, records: int) -> Law:
    """Members of a group in a fixed batch; each moves the sum by 2, as it pushes another record out."""
    if group > records or batch > records:
        raise RefusedError("a group or a batch has more records than the data set")
    low, high = max(0, group + batch - records), min(group, batch)
    ways = math.comb(records, group)
    return {
        Fraction(2 * j): arb(fmpq(math.comb(batch, j) * math.comb(records - batch, group - j), ways))
        for j in range(low, high + 1)
    }


def pairs_of_step(step: Object, direction: str) -> list[tuple[Pair, int]]:
    """Return the dominating pairs of a step with their numbers (V1): several if gradients are orthogonal."""
    mechanism = step["mechanism"]
    if mechanism.get("name") == "adaptive_clipping":
        fields(mechanism, "mechanism", "name noise_multiplier count_noise")
        sum_noise = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
        count_noise = number(mechanism["count_noise"], "count_noise", 1e-3, 1e9)
        sigma = 1 / (1 / sum_noise**2 + 1 / (2 * count_noise) ** 2).sqrt()
    else:
        fields(mechanism, "mechanism", "name noise_multiplier")
        choice(mechanism["name"], "mechanism", "gaussian")
        sigma = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
    group = fields(step["group"], "group", "size", "rates norms gradients")
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    orthogonal = choice(group.get("gradients", "aligned"), "gradients", "aligned orthogonal") == "orthogonal"
    norms = [1.0] * size if group.get("norms") is None else items(group["norms"], "norms", size, size)
    for norm in norms:
        number(norm, "a norm", 1e-6, 1.0)
    shifts = [Fraction(norm) for norm in norms]
    sampling, rates = step["sampling"], group.get("rates")
    name = sampling.get("name")
    if name == "without_replacement":
        fields(sampling, "sampling", "name batch_size dataset_size")
        batch = whole(sampling["batch_size"], "batch_size", 1, LARGEST_COUNT)
        records = whole(sampling["dataset_size"], "dataset_size", 1, LARGEST_COUNT)
        if direction == "replace" or orthogonal or rates is not None or set(norms) != {1.0}:
            raise RefusedError("fixed batches are covered for added or removed records of norm 1 only")
        return [(_directed(sigma, _hypergeometric(size, batch, records), direction), 1)]
    batches = 1
    if name == "full_batch":
        fields(sampling, "sampling", "name")
        rate = arb(1)
        if direction == "replace":
            shifts = [2 * shift for shift in shifts]
    else:
        choice(name, "sampling", "poisson")
        fields(sampling, "sampling", "name sample_rate", "microbatches")
        rate = number(sampling["sample_rate"], "sample_rate", 0.0, 1.0)
        batches = whole(sampling.get("microbatches", 1), "microbatches", 1, LARGEST_GROUP)
    if size * batches > LARGEST_GROUP:
        raise RefusedError(f"a group of more than {LARGEST_GROUP} records in the batches of a step")
    own = [rate] * size
    if rates is not None:
        own = [number(each, "a rate", 0.0, 1.0) for each in items(rates, "rates", size, size)]
    if direction == "replace" and name == "poisson":
        if size * batches > 1 or set(norms) != {1.0}:
            raise RefusedError("replaced records of Poisson samples are covered for one record of norm 1")
        law = _law([(own[0], Fraction(1))])
        return [(Pair(sigma, law, law), 1)]
    if orthogonal and (batches > 1 or direction == "replace"):
        raise RefusedError("orthogonal gradients are covered for added or removed records, one batch a step")
    given = items(rates, "rates", size, size) if rates is not None else [0.0] * size
    members = list(zip(own, shifts, strict=True))
    if not orthogonal:
        return [(_directed(sigma, _law(members * batches), direction), 1)]
    equal: dict[tuple[float, float], list[tuple[arb, Fraction]]] = {}
    for key, member in zip(zip(given, norms, strict=True), members, strict=True):
        equal.setdefault(key, []).append(member)
    return [(_directed(sigma, _law(each[:1]), direction), len(each)) for each in equal.values()]


def _directed(sigma: arb, law: Law, direction: str) -> Pair:
    """Return the pair of a mixture: it is P if the group is removed, and Q (mirrored) if it is added."""
    return Pair(sigma, None, law) if direction == "add" else Pair(sigma, law, None)


class Composition(NamedTuple):
    """A run in one direction: pairs with their numbers of steps, and Gaussian pairs as one of distance mu."""

    kinds: list[tuple[Pair, int]]
    mu_squared: arb


def composition(run: object, direction: str) -> Composition:
    """Return the pairs of a run; those that are Gaussian are one Gaussian pair together (V1)."""
    run = fields(run, "run", "adjacency steps")
    kinds: list[tuple[Pair, int]] = []
    mu_squared = arb(0)
    for step in items(run["steps"], "steps", 1, LARGEST_KINDS):
        fields(step, "a step", "mechanism sampling group count")
        if not isinstance(step["mechanism"], dict) or not isinstance(step["sampling"], dict):
            raise RefusedError("mechanism and sampling must be objects")
        count = whole(step["count"], "count", 1, LARGEST_COUNT)
        for pair, number_of_pairs in pairs_of_step(step, direction):
            steps = count * number_of_pairs
            law = pair.p if pair.q is None else pair.q
            if law is not None and len(law) == 1:
                (shift,) = law
                mu_squared += steps * (arb(fmpq(shift.numerator, shift.denominator)) / pair.sigma) ** 2
            else:
                kinds.append((pair, steps))
    if len(kinds) > LARGEST_KINDS:
        raise RefusedError(f"more than {LARGEST_KINDS} kinds of steps")
    return Composition(kinds, mu_squared)


def directions(run: object) -> list[str]:
    """Return the ordered pairs of an adjacency: its curve is the largest of theirs."""
    adjacency = fields(run, "run", "adjacency steps")["adjacency"]
    choice(adjacency, "adjacency", "add_remove add remove replace")
    return ["remove", "add"] if adjacency == "add_remove" else [adjacency]
