"""Pairs that are made of several parts (V10): other noise, public outcomes, replaced records."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from flint import arb, fmpq

from hockeystick_verify.checker import (
    LARGEST_COUNT,
    LARGEST_GROUP,
    LARGEST_LAWS,
    Law,
    Members,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    exact,
    fields,
    fixed_batch,
    gaussian_noise,
    hypergeometric,
    law_of_step,
    members_of,
    number,
    steps_of,
    whole,
)
from hockeystick_verify.sensitivity import SCALED, scaled_noise
from hockeystick_verify.variants import (
    ZERO,
    bounded_cosines,
    clipped_batches,
    direction_of,
    is_bounded,
    is_clipped,
)

LARGEST_TAIL = 10**6
"""Most terms of a binomial tail."""
LARGEST_TRUNCATED_GROUP = 128
"""Most records of a group in samples that are cut: the work grows by the third power."""
LARGEST_TRUNCATED_WORK = 2 * LARGEST_TRUNCATED_GROUP**3
"""Most that the third powers of the groups of all truncated samples add up to: 128 records take 9 seconds."""
LARGEST_JOINED_GROUP = 16
"""Most replaced records of fixed batches whose joined pairs are taken; of more the number is published. With
32, bounds on divergences of 18 and 20 records are exact and up to five times smaller, in 0.1 s in place of
0.004."""


class Part(NamedTuple):
    """Outputs from `low` to `high` (None: no end) of shifted noise; the loss does not decrease there.

    P has the density weight * sum_s p[s] f(x - s), Q the same with q; no shift of p is below one of q.
    """

    weight: arb
    noise: str
    scale: arb
    p: Law
    q: Law
    low: Fraction | None = None
    high: Fraction | None = None


class Atom(NamedTuple):
    """An outcome with its probabilities under P and Q."""

    p: arb
    q: arb


Step = list[Part | Atom]
"""The pair of a step: P and Q are the sums of the parts."""


def up_to(step: Step, largest: Fraction) -> tuple[Step, arb, bool]:
    """Leave out shifts that are larger: the step, what P loses, and whether P alone loses terms (V24)."""
    found: Step = []
    lost, of_p_only = arb(0), True
    for each in step:
        if isinstance(each, Atom):
            found.append(each)
            continue
        p, q = ({s: w for s, w in law.items() if abs(s) <= largest} for law in (each.p, each.q))
        if not p or not q:
            raise NotProvenError("V24: a law must keep a shift")
        lost += each.weight * sum((w for s, w in each.p.items() if s not in p), arb(0))
        of_p_only = of_p_only and len(q) == len(each.q)
        found.append(each._replace(p=p, q=q))
    return found, lost, of_p_only


def above(noise: str, scale: arb, law: Law, x: arb) -> arb:
    """Probability that a mixture of shifted noise gives to outputs above x."""
    found = arb(0)
    for shift, weight in law.items():
        found += weight * one_above(noise, scale, x - exact(shift))
    return found


def one_above(noise: str, scale: arb, x: arb) -> arb:
    """Probability that noise without a shift gives to outputs above x."""
    if noise == "gaussian":
        return (x / (scale * arb(2).sqrt())).erfc() / 2
    away = x / scale
    if away <= 0:
        return 1 - away.exp() / 2
    return (-away).exp() / 2  # If `away` may be a < 0, then 1/2 <= 1 - e^a / 2 <= e^-a / 2.


def mirrored(law: Law) -> Law:
    """Return the law of the opposite shift."""
    return {-shift: weight for shift, weight in law.items()}


def mixture(noise: str, scale: arb, law: Law, direction: str, weight: arb | None = None) -> Step:
    """Pair of a group that is removed, (Mix, noise), or added, (noise, Mix), the latter mirrored."""
    one, alone = arb(1) if weight is None else weight, {ZERO: arb(1)}
    if noise == "randomized_response":
        unseen = law.get(ZERO, arb(0))
        pairs = [(unseen * k + (1 - unseen) * (1 - k), k) for k in (scale, 1 - scale)]
        if direction == "add":
            return [Atom(one * q, one * p) for p, q in pairs]
        return [Atom(one * p, one * q) for p, q in pairs]
    if direction == "add":
        return [Part(one, noise, scale, alone, mirrored(law))]
    return [Part(one, noise, scale, law, alone)]


def joined(noise: str, scale: arb, rate: arb, distance: int, weight: arb | None = None) -> Step:
    """Pair of the joined curve of replaced records: a shift by `distance` with the probability `rate`."""
    one, rest = arb(1) if weight is None else weight, 1 - rate
    if noise == "randomized_response":
        changed, kept = rest * (1 - scale) + rate * scale, rest * (2 * scale - 1)
        found: Step = [Atom(one * changed, one * (1 - scale)), Atom(one * (1 - scale), one * changed)]
        return [*found, Atom(one * kept, one * kept)] if not kept.is_zero() else found
    shift, alone = Fraction(distance), {ZERO: arb(1)}
    law = {place: w for place, w in ((ZERO, rest), (shift, rate)) if not w.is_zero()}
    beyond = above(noise, scale, alone, arb(distance) / 2)
    found = [
        Part(one, noise, scale, law, alone, shift / 2, None),
        Part(one, noise, scale, alone, mirrored(law), None, -shift / 2),
    ]
    middle = one * rest * (1 - 2 * beyond)
    return found if rest.is_zero() else [*found, Atom(middle, middle)]


# ---------------------------------------------------------------- truncated Poisson samples


def binomial(n: int, rate: arb, k: int) -> arb:
    """Probability of k among n."""
    if not 0 <= k <= n:
        return arb(0)
    if rate.is_zero() or (1 - rate).is_zero():
        return arb(int(k == (0 if rate.is_zero() else n)))
    logs = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    return (logs + k * rate.log() + (n - k) * (1 - rate).log()).exp()


def binomial_above(n: int, rate: arb, k: int) -> arb:
    """Probability of k or more among n (V10): the smaller tail is summed, its end bounded."""
    if k <= 0 or k > n:
        return arb(int(k <= 0))
    if k <= n * rate.mid():
        return 1 - binomial_above(n, 1 - rate, n - k + 1)
    term = total = binomial(n, rate, k)
    odds = rate / (1 - rate)
    for count in range(k + 1, min(n, k + LARGEST_TAIL) + 1):
        ratio = odds * (n - count + 1) / count
        if ratio < 0.999 and term < total * arb(2) ** -100:
            return total + (term * ratio / (1 - ratio)).union(arb(0))
        term *= ratio
        total += term
    if k + LARGEST_TAIL < n:
        raise RefusedError(f"a binomial tail of more than {LARGEST_TAIL} terms is not covered")
    return total


def dropped(records: int, members: int, drawn: int, most: int) -> arb:
    """Probability that at most `most` of `drawn` of the records are members."""
    ways = math.comb(records, drawn)
    each = (math.comb(members, x) * math.comb(records - members, drawn - x) for x in range(most + 1))
    return arb(fmpq(sum(each), ways)) if most >= 0 else arb(0)


def joint_full(size: int, rate: arb, largest: int, records: int) -> dict[int, arb]:
    """Probability of j members in the batch and of others that fill it, by j."""
    found: dict[int, arb] = {}
    if largest > records:
        return found
    above_all = binomial_above(records, rate, largest + size)
    for shift, weight in hypergeometric(size, largest, records).items():
        j = int(shift / 2)
        total = above_all
        for r in range(size):
            if largest + r <= records and r - j >= 0:
                part = dropped(records - largest, size - j, r, min(r - j, size - j))
                total += binomial(records, rate, largest + r) * part
        found[j] = weight * total
    return found


def public_laws(size: int, rate: arb, largest: int, records: int) -> list[tuple[str, arb, Law]]:
    """Public outcomes of a truncated Poisson sample: name, probability, and the law of the shift given it."""
    others, found = records - size, []
    own = {j: binomial(size, rate, j) for j in range(size + 1)}
    free = 1 - binomial_above(others, rate, largest - size + 1)
    if largest >= size and not free.is_zero():
        found.append(("free", free, {Fraction(j): w for j, w in own.items() if not w.is_zero()}))
    for m in range(max(0, largest - size + 1), min(largest, others + 1)):
        law: Law = {}
        for a, weight in own.items():
            kept = {a: arb(1)}
            if m + a > largest:
                kept = {
                    j: arb(fmpq(math.comb(a, j) * math.comb(m, largest - j), math.comb(m + a, largest)))
                    for j in range(a + 1)
                    if 0 <= largest - j <= m
                }
            for j, part in kept.items():
                place = Fraction(j + max(0, j - (largest - m)))
                law[place] = law.get(place, arb(0)) + weight * part
        found.append(("partly", binomial(others, rate, m), {s: w for s, w in law.items() if not w.is_zero()}))
    full = {j: w for j, w in joint_full(size, rate, largest, records).items() if not w.is_zero()}
    if full:
        total = sum(full.values(), arb(0))
        found.append(("full", total, {Fraction(2 * j): w / total for j, w in full.items()}))
    return [each for each in found if not each[1].is_zero()]


def truncated(scale: arb, sampling: Object, members: Members, direction: str) -> Step:
    """Pair of a step on a Poisson sample that is cut to a largest size."""
    fields(sampling, "sampling", "name sample_rate max_batch_size dataset_size")
    rate = number(sampling["sample_rate"], "sample_rate", 0.0, 1.0)
    largest = whole(sampling["max_batch_size"], "max_batch_size", 1, LARGEST_COUNT)
    records = whole(sampling["dataset_size"], "dataset_size", 1, 10**9)
    if not members.alike or members.size > min(records, LARGEST_TRUNCATED_GROUP):
        raise RefusedError("truncated samples are covered for groups of up to 128 records that are alike")
    if direction == "replace" and members.size > 1:
        raise RefusedError("replaced records of truncated samples are covered for one record")
    found: Step = []
    for outcome, probability, law in public_laws(members.size, rate, largest, records):
        if direction != "replace":
            found += mixture("gaussian", scale, law, direction, probability)
        elif outcome == "free":
            found.append(Part(probability, "gaussian", scale, law, mirrored(law)))
        else:
            found += joined("gaussian", scale, law.get(Fraction(2), arb(0)), 2, probability)
    return found


# ---------------------------------------------------------------- the step


def replaced_in_fixed_batch(noise: str, scale: arb, sampling: Object, members: Members) -> Step:
    """Pair of k replaced records of fixed batches."""
    batch, records = fixed_batch(sampling)
    if not members.alike:
        raise RefusedError("replaced records of fixed batches are covered for records of norm 1")
    law = hypergeometric(members.size, batch, records)
    if noise != "gaussian" or members.size == 1:
        return joined(noise, scale, 1 - law.get(ZERO, arb(0)), 2 * min(members.size, batch))
    return published(scale, law) if members.size <= LARGEST_JOINED_GROUP else counted(scale, law)


def published(scale: arb, law: Law) -> Step:
    """Pair of replaced records: their distance is published unless it is 0, and has a joined pair."""
    rate = 1 - law.get(ZERO, arb(0))
    distances = {int(shift): weight for shift, weight in law.items() if shift}
    if len(distances) <= 1:
        return joined("gaussian", scale, rate, next(iter(distances), 2))
    found: Step = []
    for distance, weight in distances.items():
        found += joined("gaussian", scale, rate, distance, weight / rate)
    return found


def counted(scale: arb, law: Law) -> Step:
    """Pair of replaced records whose number in the batch is published, 0 too."""
    found: Step = []
    for shift, weight in law.items():
        if shift:
            found.append(Part(weight, "gaussian", scale, {shift: arb(1)}, {ZERO: arb(1)}))
        else:
            found.append(Atom(weight, weight))
    return found


def is_counted(run: object) -> bool:
    """Whether the pair of some step publishes how many replaced records are in a batch, which is a bound."""
    run = fields(run, "run", "adjacency steps")
    for step, _ in steps_of(run, "adjacency"):
        replaced = step.get("adjacency", run["adjacency"]) == "replace"
        fixed = step["sampling"].get("name") == "without_replacement" and not is_clipped(step)
        gaussian = step["mechanism"].get("name") not in ("laplace", "randomized_response")
        if replaced and fixed and gaussian and step["group"].get("size", 1) > LARGEST_JOINED_GROUP:
            return True
    return False


def noise_of(mechanism: Object, members: Members) -> tuple[str, arb]:
    """Return the noise of a step, "gaussian", "laplace" or "randomized_response", and its parameter."""
    name = mechanism.get("name")
    if name == SCALED:
        return "gaussian", scaled_noise(mechanism)
    if name not in ("laplace", "randomized_response"):
        return "gaussian", gaussian_noise(mechanism, members)
    if set(members.norms) != {1.0}:
        raise RefusedError("norms of their own are covered for Gaussian noise")
    if name == "laplace":
        fields(mechanism, "mechanism", "name scale")
        return name, number(mechanism["scale"], "scale", 1e-3, 1e9)
    fields(mechanism, "mechanism", "name p")
    keep = number(mechanism["p"], "p", 0.5, 1.0)
    if not (keep > 0.5 and keep < 1):
        raise RefusedError("p must be in (0.5, 1)")
    return "randomized_response", keep


def in_clipped_batches(step: Object, direction: str) -> Step:
    """Pair of a step whose batches are clipped as a whole."""
    sigma, law = clipped_batches(step)
    if direction == "replace" and step["sampling"]["name"] != "full_batch":
        return published(sigma, law)
    return mixture("gaussian", sigma, law, direction)


def parts_of_step(step: Object, direction: str) -> Step:
    """Return the pair of a step in parts (V10)."""
    direction = direction_of(step, direction)
    if is_bounded(step):
        sigma, law = bounded_cosines(step, direction)
        if direction == "replace":
            return [Part(arb(1), "gaussian", sigma, law, mirrored(law))]
        return mixture("gaussian", sigma, law, direction)
    if is_clipped(step):
        return in_clipped_batches(step, direction)
    sampling, members = step["sampling"], members_of(step["group"])
    noise, scale = noise_of(step["mechanism"], members)
    choice(sampling.get("name"), "sampling", "poisson full_batch without_replacement truncated_poisson")
    if sampling["name"] == "truncated_poisson":
        choice(noise, "noise of truncated samples", "gaussian")
        return truncated(scale, sampling, members, direction)
    if direction == "replace" and sampling["name"] == "without_replacement":
        return replaced_in_fixed_batch(noise, scale, sampling, members)
    law = law_of_step(sampling, members, direction)
    if direction == "replace" and sampling["name"] == "poisson":
        if noise == "randomized_response":
            return joined(noise, scale, 1 - law.get(ZERO, arb(0)), 2)
        return [Part(arb(1), noise, scale, law, mirrored(law))]
    return mixture(noise, scale, law, direction)


def steps_in_parts(run: object, direction: str) -> list[tuple[Step, int]]:
    """Return all pairs of a run in parts, with their numbers."""
    work, parts = 0, 0
    for step, _ in steps_of(run, "adjacency"):
        size = whole(step["group"].get("size"), "group size", 1, LARGEST_GROUP)
        parts += size * whole(step["sampling"].get("microbatches", 1), "microbatches", 1, LARGEST_LAWS) + 1
        work += size**3 if step["sampling"].get("name") == "truncated_poisson" else 0
    if work > LARGEST_TRUNCATED_WORK or parts > LARGEST_LAWS:
        raise RefusedError("the groups of all steps together are larger than are covered")
    return [(parts_of_step(step, direction), count) for step, count in steps_of(run, "adjacency")]
