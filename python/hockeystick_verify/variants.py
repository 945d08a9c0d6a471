"""Gaussian steps besides the plain ones of `checker.py` (V1).

Some are several plain steps, or a plain one for a larger group, and are written as such. Batches that are
clipped as a whole and gradients with a bounded cosine have laws of their own. In a mixed run every step has a
direction of its own. Runs with correlated noise are plain steps with noise of their own (V25).
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb

from hockeystick_verify import checker, sensitivity
from hockeystick_verify.checker import (
    LARGEST_DRAWN_GROUP,
    LARGEST_GROUP,
    LARGEST_KINDS,
    LARGEST_UNEQUAL_GROUP,
    Composition,
    Law,
    Object,
    Pair,
    RefusedError,
    choice,
    fields,
    fixed_batch,
    gaussian_noise,
    hypergeometric,
    items,
    law_of_step,
    members_of,
    number,
    steps_of,
    whole,
)

CLIPPED, BOUNDED = "batch_clipping", "bounded"
MIXED = "mixed"
"""The adjacency of a run whose steps are seen under relations of their own."""
DEALT = ("random_allocation", "fixed_bins")
"""Schemes that deal records into the batches of an epoch."""
ZERO, ONE = Fraction(0), Fraction(1)
LARGEST_SUMS = 2048
"""Most different sums of the norms of members with a bounded cosine, each of which takes a root."""
ROOT_BITS = 96
"""Norms of sums are rounded up to multiples of 2^-96."""


def refuse_alike(run: Object) -> None:
    """Refuse entries with the same dealt batches: each deals anew, but they read like one deal (V13)."""
    seen = []
    for step, _ in steps_of(run, "adjacency"):
        if step["sampling"].get("name") in DEALT:
            kind = (step["mechanism"], {"times": 1} | step["sampling"], step["group"].get("size"))
            if kind in seen:
                raise RefusedError("dealt batches that are alike are one entry: each entry deals anew (V13)")
            seen.append(kind)


# ---------------------------------------------------------------- steps that are plain ones


def plain(run: object) -> Object:
    """Return the run with neither several batches under one noise nor orthogonal gradients."""
    run = fields(run, "run", "adjacency steps")
    items(run["steps"], "steps", 1, LARGEST_KINDS)
    found, correlated = [], []
    for step, _ in steps_of(run, "adjacency"):
        if ("adjacency" in step) != (run["adjacency"] == MIXED):
            raise RefusedError(
                "steps have an adjacency of their own if that of the run is 'mixed', and only then"
            )
        adjacency = choice(
            step.get("adjacency", run["adjacency"]), "adjacency", "add_remove add remove replace"
        )
        if sensitivity.is_scaled(step):
            raise RefusedError("no step of a certificate has a squared sensitivity: it is derived")
        if step["mechanism"].get("name") == sensitivity.CORRELATED_NOISE:
            correlated.append(sensitivity.read_run(step, adjacency == "replace"))
            found.append(step)
        else:
            found += without_angles(without_batches(step, adjacency), adjacency)
    sensitivity.require_affordable(correlated)
    return {**run, "steps": [each for step in found for each in without_correlation(step)]}


def without_correlation(step: Object) -> list[Object]:
    """Return a run with correlated noise, which was read, as plain steps (V25); other steps as they are."""
    if step["mechanism"].get("name") == sensitivity.CORRELATED_NOISE:
        return sensitivity.plain_steps(step)
    return [step]


def directions(run: Object) -> list[str]:
    """Return the ordered pairs of a run, as `checker.directions`; "add_remove" steps have one direction."""
    if fields(run, "run", "adjacency steps")["adjacency"] != MIXED:
        return checker.directions(run)
    steps = [step for step, _ in steps_of(run, "adjacency")]
    return ["remove", "add"] if any(step.get("adjacency") == "add_remove" for step in steps) else [MIXED]


def direction_of(step: Object, direction: str) -> str:
    """Direction of a step in one ordered pair of its run: its own one, if it has one."""
    own: str = step.get("adjacency", "add_remove")
    return choice(direction, "direction", "add remove replace") if own == "add_remove" else own


def without_batches(step: Object, adjacency: object) -> Object:
    """Return a step on one batch: a member is one in each of the batches that are added up."""
    sampling, group = step["sampling"], fields(step["group"], "group", "size", "rates norms gradients cosine")
    if sampling.get("name") != "poisson" or "microbatches" not in sampling or is_clipped(step):
        return step
    batches = whole(sampling["microbatches"], "microbatches", 1, LARGEST_GROUP)
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    if size * batches > LARGEST_GROUP:
        raise RefusedError(f"a group of more than {LARGEST_GROUP} records in the batches of a step")
    if batches > 1 and (adjacency == "replace" or group.get("gradients", "aligned") != "aligned"):
        raise RefusedError("several batches of a step are covered for added or removed, aligned records")
    members = {**group, "size": size * batches}
    for name in ("rates", "norms"):
        if group.get(name) is not None:
            members[name] = items(group[name], name, size, size) * batches
    rest = {key: value for key, value in sampling.items() if key != "microbatches"}
    return {**step, "sampling": rest, "group": members}


def without_angles(step: Object, adjacency: object) -> list[Object]:
    """Return a step for each kind of member, if gradients are orthogonal: the members' pairs compose."""
    group = fields(step["group"], "group", "size", "rates norms gradients cosine")
    if ("cosine" in group) != is_bounded(step):
        raise RefusedError("a cosine is given for gradients that are 'bounded', and only for these")
    if group.get("gradients") != "orthogonal":
        return [step]
    if adjacency == "replace" or step["sampling"].get("name") not in ("poisson", "full_batch"):
        raise RefusedError(
            "orthogonal gradients are covered for added or removed records of Poisson samples or full batches"
        )
    choice(step["mechanism"].get("name"), "mechanism of orthogonal gradients", "gaussian")
    size = whole(group["size"], "group size", 1, LARGEST_GROUP)
    given = {
        key: items(group[key], key, size, size) for key in ("rates", "norms") if group.get(key) is not None
    }
    alike: dict[str, tuple[Object, int]] = {}
    for place in range(size):
        member = {"size": 1, **{key: [values[place]] for key, values in given.items()}}
        alike[repr(member)] = member, alike.get(repr(member), (member, 0))[1] + 1
    return [{**step, "group": member, "count": step["count"] * times} for member, times in alike.values()]


# ---------------------------------------------------------------- batches that are clipped as a whole


def is_clipped(step: Object) -> bool:
    """Whether batches are clipped as a whole, in place of their records."""
    return bool(step["mechanism"].get("name") == CLIPPED)


def any_in_units(missed: arb, units: int) -> Law:
    """Law of twice the number of units with members, if each has none with this probability (V1)."""
    found = {
        Fraction(2 * j): math.comb(units, j) * (1 - missed) ** j * missed ** (units - j)
        for j in range(units + 1)
    }
    return {shift: weight for shift, weight in found.items() if not weight.is_zero()}


def in_equal_units(members: Law, batch: int, units: int) -> Law:
    """Law of twice the number of equal parts of a fixed batch that hold members (V1).

    `members` is the law of twice their number in the batch.
    """
    if batch % units:
        raise RefusedError("units_per_batch must divide batch_size")
    each, last = batch // units, max(int(shift) // 2 for shift in members)
    held, found = [arb(1)], [arb(0)] * (min(last, units) + 1)
    for placed in range(last + 1):
        weight = members.get(Fraction(2 * placed), arb(0))
        for parts, probability in enumerate(held):
            found[parts] += weight * probability
        new = [arb(0)] * (min(placed + 1, units) + 1)
        for parts, probability in enumerate(held):
            new[parts] += probability * max(parts * each - placed, 0) / (batch - placed)
            if parts < units:
                new[parts + 1] += probability * (units - parts) * each / (batch - placed)
        held = new
    return {Fraction(2 * j): weight for j, weight in enumerate(found) if not weight.is_zero()}


def clipped_batches(step: Object) -> tuple[arb, Law]:
    """Return the noise of a step that clips batches, and the law of its shift: 2 for a unit with members."""
    mechanism, sampling = step["mechanism"], step["sampling"]
    fields(mechanism, "mechanism", "name noise_multiplier", "units_per_batch")
    sigma = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
    units = whole(mechanism.get("units_per_batch", 1), "units_per_batch", 1, LARGEST_DRAWN_GROUP)
    members, name = members_of(step["group"]), sampling.get("name")
    choice(name, "sampling of batches that are clipped", "poisson full_batch without_replacement")
    if set(members.norms) != {1.0} or (members.rates is not None and name != "poisson"):
        raise RefusedError(
            "members of batches that are clipped have no norms, and rates in Poisson samples only"
        )
    if units > 1 and name != "without_replacement":
        raise RefusedError("units are parts of batches of a fixed size")
    if name == "full_batch":
        fields(sampling, "sampling", "name")
        return sigma, any_in_units(arb(0), 1)
    if name == "without_replacement":
        batch, records = fixed_batch(sampling)
        law = hypergeometric(members.size, batch, records)
        law = any_in_units(law.get(ZERO, arb(0)), 1) if units == 1 else in_equal_units(law, batch, units)
    else:
        fields(sampling, "sampling", "name sample_rate", "microbatches")
        rate = number(sampling["sample_rate"], "sample_rate", 0.0, 1.0)
        units = whole(sampling.get("microbatches", 1), "microbatches", 1, LARGEST_GROUP)
        missed = arb(1)
        for own in [rate] * members.size if members.rates is None else map(arb, members.rates):
            missed *= 1 - own
        law = any_in_units(missed, units)
    return sigma, law


# ---------------------------------------------------------------- gradients with a bounded cosine


def is_bounded(step: Object) -> bool:
    """Whether the cosines of the angles between gradients are bounded."""
    return bool(step["group"].get("gradients") == BOUNDED)


def root_above(square: Fraction) -> Fraction:
    """Return the least multiple of 2^-96 that is not below the root."""
    scaled = math.ceil(square * 4**ROOT_BITS)
    return Fraction(math.isqrt(scaled - 1) + 1 if scaled > 0 else 0, 2**ROOT_BITS)


def norms_of_sums(members: list[tuple[arb, Fraction]], cosine: Fraction) -> Law:
    """Law of the largest norm of the sum over the batch, where no two have a larger cosine (V1).

    Each member is in the batch with its rate, and has its norm.
    """
    sums = {(ZERO, ZERO): arb(1)}
    if members[0][1] and all(member == members[0] for member in members):
        (rate, norm), n = members[0], len(members)
        weights = (math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(n + 1))
        sums = {(j * norm, j * norm**2): weight for j, weight in enumerate(weights)}
    elif len(members) > LARGEST_UNEQUAL_GROUP:
        raise RefusedError(f"more than {LARGEST_UNEQUAL_GROUP} members that differ are not covered")
    else:
        for rate, norm in members:
            found = {place: weight * (1 - rate) for place, weight in sums.items()}
            for (total, squares), weight in sums.items():
                place = (total + norm, squares + norm**2)
                found[place] = found.get(place, arb(0)) + weight * rate
            sums = {place: weight for place, weight in found.items() if not weight.is_zero()}
            if len(sums) > LARGEST_SUMS:
                raise RefusedError(f"a group whose sums have more than {LARGEST_SUMS} values is not covered")
    law: Law = {}
    for (total, squares), weight in sums.items():
        if not weight.is_zero():
            shift = root_above((1 - cosine) * squares + cosine * total**2)
            law[shift] = law.get(shift, arb(0)) + weight
    return law


def bounded_cosines(step: Object, direction: str) -> tuple[arb, Law]:
    """Return the noise of a step whose gradients have a bounded cosine, and the law of its shift."""
    choice(step["mechanism"].get("name"), "mechanism of gradients with a bounded cosine", "gaussian")
    group, sampling = dict(step["group"]), step["sampling"]
    number(group["cosine"], "cosine", 0.0, 1.0)
    members = members_of({key: group[key] for key in group if key not in ("cosine", "gradients")})
    name = choice(sampling.get("name"), "sampling of gradients with a bounded cosine", "poisson full_batch")
    if name == "full_batch":
        fields(sampling, "sampling", "name")
        if members.rates is not None or direction == "replace":
            raise RefusedError("full batches are covered here for added or removed members without rates")
        rates = [arb(1)] * members.size
    else:
        rate = number(
            fields(sampling, "sampling", "name sample_rate")["sample_rate"], "sample_rate", 0.0, 1.0
        )
        rates = [rate] * members.size if members.rates is None else [arb(each) for each in members.rates]
    each = list(zip(rates, map(Fraction, members.norms), strict=True))
    return gaussian_noise(step["mechanism"], members), norms_of_sums(each, Fraction(group["cosine"]))


# ---------------------------------------------------------------- the pair of any Gaussian step


def pair_of_step(step: Object, direction: str) -> Pair:
    """Return the dominating pair of a step with Gaussian noise, plain or not (V1)."""
    direction = direction_of(step, direction)
    if sensitivity.is_scaled(step):
        sigma = sensitivity.scaled_noise(step["mechanism"])
        law = law_of_step(step["sampling"], members_of(step["group"]), direction)
        if direction == "replace" and step["sampling"]["name"] == "poisson":
            return Pair(sigma, law, law)
    elif is_bounded(step):
        sigma, law = bounded_cosines(step, direction)
        if direction == "replace":
            return Pair(sigma, law, law)
    elif not is_clipped(step):
        return checker.pair_of_step(step, direction)
    elif direction == "replace" and step["sampling"].get("name") != "full_batch":
        raise RefusedError("this proof covers replaced records of clipped batches for full batches only")
    else:
        sigma, law = clipped_batches(step)
    return Pair(sigma, None, law) if direction == "add" else Pair(sigma, law, None)


def composition(run: object, direction: str) -> Composition:
    """Return the pairs of a run of Gaussian steps, plain or not; as `checker.composition`."""
    return checker.composition(run, direction, pair_of_step, "adjacency")
