"""The run of a certificate, turned into dominating pairs of its steps (V1 and V10)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from flint import arb, fmpq

from hockeystick_verify.reading import Object, RefusedError, choice, fields, items, number, whole

LARGEST_COUNT = 10**12
"""Most steps of a kind, and records of a data set."""
LARGEST_GROUP = 1000
LARGEST_UNEQUAL_GROUP = 128
"""Most members of a group with rates or norms of their own, over all batches of a step."""
LARGEST_LAW = 2048
"""Most different shifts of a group law."""
LARGEST_KINDS = 64

Law = dict[Fraction, arb]
"""Probabilities by shift, in units of the clipping norm."""


class Pair(NamedTuple):
    """P has the density N(x) p(x) and Q the density N(x) q(-x), where N is that of N(0, sigma^2).

    p and q are likelihood ratios of mixtures of shifted Gaussians against N, or 1 where the law is None.
    """

    sigma: arb
    p: Law | None
    q: Law | None


# ---------------------------------------------------------------- the law of how far a group shifts a sum


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


def hypergeometric(group: int, batch: int, records: int) -> Law:
    """Members of a group in a fixed batch; each moves the sum by 2, as it pushes another record out."""
    if group > records or batch > records:
        raise RefusedError("a group or a batch has more records than the data set")
    low, high = max(0, group + batch - records), min(group, batch)
    ways = math.comb(records, group)
    return {
        Fraction(2 * j): arb(fmpq(math.comb(batch, j) * math.comb(records - batch, group - j), ways))
        for j in range(low, high + 1)
    }


def noise_of(mechanism: object) -> tuple[str, arb]:
    """Return the noise of a step, "gaussian", "laplace" or "randomized_response", and its parameter."""
    if not isinstance(mechanism, dict):
        raise RefusedError("mechanism must be an object")
    name = choice(
        mechanism.get("name"), "mechanism", "gaussian adaptive_clipping laplace randomized_response"
    )
    if name == "adaptive_clipping":
        fields(mechanism, "mechanism", "name noise_multiplier count_noise")
        sum_noise = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
        count_noise = number(mechanism["count_noise"], "count_noise", 1e-3, 1e9)
        return "gaussian", 1 / (1 / sum_noise**2 + 1 / (2 * count_noise) ** 2).sqrt()
    if name == "laplace":
        fields(mechanism, "mechanism", "name scale")
        return name, number(mechanism["scale"], "scale", 1e-3, 1e9)
    if name == "randomized_response":
        fields(mechanism, "mechanism", "name p")
        keep = number(mechanism["p"], "p", 0.5, 1.0)
        if not (keep > 0.5 and keep < 1):
            raise RefusedError("p must be in (0.5, 1)")
        return name, keep
    fields(mechanism, "mechanism", "name noise_multiplier")
    return name, number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)


class Members(NamedTuple):
    """The group of a step."""

    size: int
    norms: list[float]
    rates: list[float] | None
    orthogonal: bool

    @property
    def alike(self) -> bool:
        """Whether all members have norm 1, the rate of the sampling, and aligned gradients."""
        return set(self.norms) == {1.0} and self.rates is None and not self.orthogonal


def members_of(group: object) -> Members:
    """Read the group of a step."""
    group = fields(group, "group", "size", "rates norms gradients")
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    orthogonal = choice(group.get("gradients", "aligned"), "gradients", "aligned orthogonal") == "orthogonal"
    norms = [1.0] * size if group.get("norms") is None else items(group["norms"], "norms", size, size)
    for norm in norms:
        number(norm, "a norm", 1e-6, 1.0)
    rates = group.get("rates")
    for rate in [] if rates is None else items(rates, "rates", size, size):
        number(rate, "a rate", 0.0, 1.0)
    return Members(size, norms, rates, orthogonal)


def fixed_batch(sampling: Object) -> tuple[int, int]:
    """Return the sizes of a fixed batch and of the larger data set."""
    fields(sampling, "sampling", "name batch_size dataset_size")
    batch = whole(sampling["batch_size"], "batch_size", 1, LARGEST_COUNT)
    return batch, whole(sampling["dataset_size"], "dataset_size", 1, LARGEST_COUNT)


def laws_of_step(sampling: Object, members: Members, direction: str) -> list[tuple[Law, int]]:
    """Laws of the shift of a step with their numbers (V1): several if gradients are orthogonal.

    Replaced records of fixed batches have no such law.
    """
    name, shifts, batches = sampling.get("name"), [Fraction(norm) for norm in members.norms], 1
    if name == "without_replacement":
        batch, records = fixed_batch(sampling)
        if direction == "replace" or not members.alike:
            raise RefusedError("this proof covers fixed batches with added or removed records of norm 1 only")
        return [(hypergeometric(members.size, batch, records), 1)]
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
    if members.size * batches > LARGEST_GROUP:
        raise RefusedError(f"a group of more than {LARGEST_GROUP} records in the batches of a step")
    own = [rate] * members.size if members.rates is None else [arb(each) for each in members.rates]
    if direction == "replace" and name == "poisson":
        if members.size * batches > 1 or set(members.norms) != {1.0}:
            raise RefusedError("replaced records of Poisson samples are covered for one record of norm 1")
        return [(_law([(own[0], Fraction(1))]), 1)]
    each = list(zip(own, shifts, strict=True))
    if not members.orthogonal:
        return [(_law(each * batches), 1)]
    if batches > 1 or direction == "replace":
        raise RefusedError("orthogonal gradients are covered for added or removed records, one batch a step")
    equal: dict[tuple[float, float], list[tuple[arb, Fraction]]] = {}
    given = members.rates or [0.0] * members.size
    for key, member in zip(zip(given, members.norms, strict=True), each, strict=True):
        equal.setdefault(key, []).append(member)
    return [(_law(alike[:1]), len(alike)) for alike in equal.values()]


# ---------------------------------------------------------------- V1: pairs of Gaussian mixtures


def pairs_of_step(step: Object, direction: str) -> list[tuple[Pair, int]]:
    """Return the dominating pairs of a step with Gaussian noise (V1), with their numbers."""
    noise, sigma = noise_of(step["mechanism"])
    choice(noise, "mechanism", "gaussian")
    sampling = step["sampling"]
    laws = laws_of_step(sampling, members_of(step["group"]), direction)
    if direction == "replace" and sampling["name"] == "poisson":
        return [(Pair(sigma, law, law), number) for law, number in laws]
    if direction == "add":
        return [(Pair(sigma, None, law), number) for law, number in laws]
    return [(Pair(sigma, law, None), number) for law, number in laws]


class Composition(NamedTuple):
    """A run in one direction: pairs with their numbers of steps, and Gaussian pairs as one of distance mu."""

    kinds: list[tuple[Pair, int]]
    mu_squared: arb


def steps_of(run: object) -> list[tuple[Object, int]]:
    """Return the kinds of steps of a run, each with its number."""
    run, found = fields(run, "run", "adjacency steps"), []
    for step in items(run["steps"], "steps", 1, LARGEST_KINDS):
        fields(step, "a step", "mechanism sampling group count")
        if not isinstance(step["mechanism"], dict) or not isinstance(step["sampling"], dict):
            raise RefusedError("mechanism and sampling must be objects")
        found.append((step, whole(step["count"], "count", 1, LARGEST_COUNT)))
    return found


def composition(run: object, direction: str) -> Composition:
    """Return the pairs of a run; those that are Gaussian are one Gaussian pair together (V1)."""
    kinds: list[tuple[Pair, int]] = []
    mu_squared = arb(0)
    for step, count in steps_of(run):
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
