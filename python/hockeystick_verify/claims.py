"""Claims of a certificate: on the privacy curve, on Renyi divergences, and on the trade-off function."""

from __future__ import annotations

import math
from typing import Any, cast

from flint import arb, ctx

from hockeystick_verify import (
    allocation,
    checker,
    correlated,
    few_steps,
    lattice,
    moments,
    parts,
    sensitivity,
    shuffled,
    shuffled_pair,
    tilted_allocation,
)
from hockeystick_verify.checker import (
    LARGEST_CLAIMS,
    NotProvenError,
    Object,
    Proven,
    RefusedError,
    choice,
    compared,
    down,
    fields,
    fixed_batch,
    items,
    largest,
    number,
    whole,
)
from hockeystick_verify.dealt_lattice import published
from hockeystick_verify.large_groups import composition_of
from hockeystick_verify.parallel import NOT_FINITE, Report, Sums, stage, working
from hockeystick_verify.variants import directions, plain

LARGEST_LINKS = 1000
"""Most records of a chain, each with a part of epsilon: a limit on what is read, as all of `checker.py`."""
LARGEST_CHAIN = 5 * 10**6
"""Most points of the line, times the epsilons of all links: they take about a minute."""
COMPARED_BITS = 256
"""Bits of the comparisons with claims; those of the witnesses may be fewer or more."""
OF_UPPER = 0.5
"""Part of the work on shuffled batches that the claims on the upper end are."""
PARTS = 100
"""Parts of the work on one ordered pair, or on one claim on a divergence, that are reported."""
LITTLE = 0.02
"""Work on an ordered pair whose transforms are known from another one, as a part of that on the other one."""
METHODS = {
    "lattice": "spacing points first tilt outer_tilt left_tilt kinds",
    "allocation": "spacing terms rules",
    "tilted_allocation": "tilt outer_tilt spacing terms rules",
    "chain": "splits one",
    "renyi": "order kinds",
    "moments": "rules",
    "bins": "lattice contour",
}
"""Entries of the witness of each method besides "bits" and "method"; without one, that of `few_steps`."""

OPTIONAL = {
    "allocation": "kinds",
    "tilted_allocation": "kinds",
    "renyi": "norm_units",
    "moments": "published",
}
"""Entries that not all of these have."""


# ---------------------------------------------------------------- one ordered pair


def single(run: Object, direction: str) -> tuple[Object, int]:
    """Return a run whose curve is that of any link of a chain, and the size of the group (V16)."""
    steps, sizes = [], set()
    for step in items(fields(run, "run", "adjacency steps")["steps"], "steps", 1, 64):
        fields(step, "a step", "mechanism sampling group count")
        if sensitivity.is_scaled(step):
            raise RefusedError("chains are not covered for runs with correlated noise")
        group = fields(step["group"], "group", "size", "gradients")
        choice(group.get("gradients", "aligned"), "gradients of a chain", "aligned")
        size = whole(group["size"], "group size", 1, LARGEST_LINKS)
        sizes.add(size)
        sampling = step["sampling"]
        if direction != "replace":
            sampling = sampling_of_last_link(sampling, size)
        steps.append({**step, "sampling": sampling, "group": {"size": 1}})
    if len(sizes) > 1:
        raise RefusedError("a chain is about one group in all steps")
    return {**run, "steps": steps}, sizes.pop()


def sampling_of_last_link(sampling: Object, size: int) -> Object:
    """Return the batches of the smallest data set of a chain that holds the record of a link (V16).

    Each link has one record less, so that a fixed batch holds its record more often.
    """
    if sampling.get("name") == "truncated_poisson" and size > 1:
        raise RefusedError("chains of added or removed records are not covered for truncated samples")
    if sampling.get("name") != "without_replacement":
        return sampling
    batch, records = fixed_batch(sampling)
    if size > records or batch > records:
        raise RefusedError("a group or a batch has more records than the data set")
    return {**sampling, "dataset_size": max(batch, records - size + 1)}


def chain(run: Object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Bound delta of k records by the curve of one (V16); the lower ends are 0."""
    if direction not in ("add", "remove", "replace"):
        raise RefusedError("chains are about records that are added, removed or replaced in all steps")
    one, links = single(run, direction)
    splits = []
    for split in items(witness["splits"], "splits", len(epsilons), len(epsilons)):
        given = [fields(part, "a part", "epsilon links") for part in items(split, "a split", 1, 64)]
        counts = [whole(part["links"], "links", 1, LARGEST_LINKS) for part in given]
        if sum(counts) != links:
            raise NotProvenError("V16: a chain must have a link for every record")
        splits.append(([number(part["epsilon"], "epsilon", -1e6, 1e6) for part in given], counts))
    asked = [abs(part) for shares, _ in splits for part in shares]
    if direction != "replace" and any(part < 0 for shares, _ in splits for part in shares):
        raise NotProvenError("V16: parts below 0 need a curve of both orders")
    if method_of(witness["one"]) not in ("lattice", "allocation", "tilted_allocation"):
        raise RefusedError("in a chain, the curve of one record is proven on a lattice, or for dealt batches")
    terms = witness["one"].get("terms", 0)
    if isinstance(terms, int) and terms * len(asked) > LARGEST_CHAIN:
        raise RefusedError("the chains ask for more points of the line than are computed")
    curve = iter(enclose((one, direction, witness["one"], [float(each) for each in asked])))
    found = []
    for epsilon, (shares, counts) in zip(epsilons, splits, strict=True):
        total, after = arb(0), sum((p * n for p, n in zip(shares, counts, strict=True)), arb(0))
        if not after <= epsilon:
            raise NotProvenError("V16: the parts of a chain must sum to epsilon at most")
        for part, count in zip(shares, counts, strict=True):
            delta = next(curve).max(1 - abs(part).exp()).max(arb(0)).min(arb(1))
            if part < 0:
                delta = 1 - part.exp() + part.exp() * delta
            for _ in range(count):
                after -= part
                total += after.exp() * delta
        found.append(arb(0).union(total.min(arb(1))))
    return found


def renyi_moment(run: Object, direction: str, witness: Object, order: arb, claims: int = 1) -> arb:
    """Enclose the Renyi divergence of a run of Gaussian mixtures (V17); one of so many claims."""
    tilt, pairs = order - 1, composition_of(run, direction, witness)
    total: arb = checker.gaussian_moment(pairs.mu_squared, tilt).log()
    checker.require_affordable(pairs.kinds, {**witness, "terms": 0}, claims)
    kinds = witness["kinds"]
    for place, ((pair, count), entry) in enumerate(zip(pairs.kinds, kinds, strict=True)):
        total += count * checker.Nodes(pair, entry, f"kind {place}").at_real_outputs().moment(tilt).log()
    divergence: arb = total / tilt
    return divergence


def by_renyi(run: Object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Bound delta by a Renyi divergence (V17); the lower ends are 0."""
    order = number(witness["order"], "order", 1.0 + 1e-6, 1e6)
    divergence = renyi_moment(run, direction, witness, order)
    constant = ((order - 1).log() - order.log()) * (order - 1) - order.log()
    return [arb(0).union((constant + (order - 1) * (divergence - e)).exp()) for e in epsilons]


Job = tuple[Object, str, object, list[float]]
"""A run, one of its ordered pairs, the witness of it, and what epsilons are asked for."""


def enclose(job: Job, sums: Any = checker.serial_sums) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon."""
    run, direction, witness, given = job
    if isinstance(witness, dict) and "published" in witness:
        return in_public(job, sums)
    name, method, epsilons = f"witness of {direction!r}", method_of(witness), [arb(e) for e in given]
    try:
        equal = plain(run)
        is_bound = sensitivity.is_bounded_only(equal) or parts.is_counted(equal)
        if method is None:
            curve = few_steps.enclose(equal, direction, witness, epsilons, sums)
            return [arb(0).union(delta) for delta in curve] if is_bound else curve
        if method == "moments":
            raise RefusedError("'moments' are a proof of Renyi divergences, and of no others")
        optional = OPTIONAL.get(method, "")
        found = fields(witness, name, f"bits method {METHODS[method]}", optional)
        ctx.prec = whole(found["bits"], "bits", 64, 4096)
        prove = {
            "lattice": lattice.enclose, "allocation": allocation.enclose, "chain": chain, "renyi": by_renyi,
            "bins": correlated.enclose, "tilted_allocation": tilted_allocation.enclose,
        }[method]  # fmt: skip
        curve = prove(equal, direction, found, epsilons)
        return [arb(0).union(delta) for delta in curve] if is_bound else curve
    except RefusedError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise NotProvenError(f"a number of the witness is out of range: {str(error)[:100]}") from None


def run_of(job: Job) -> Object:
    """Return the plain run that a witness is about: with published batches, if it says so."""
    run, _, witness, _ = job
    in_public = isinstance(witness, dict) and "published" in witness
    return published(plain(run)) if in_public else plain(run)


def in_public(job: Job, sums: Any) -> list[arb]:
    """Bound delta of dealt batches by that of full batches (V23, 4); the lower ends are 0."""
    _, direction, witness, given = job
    rest = dict(cast("Object", witness))
    if rest.pop("published") is not True:
        raise RefusedError("published must be true, or left out")
    upper = enclose((run_of(job), direction, rest, given), sums)
    return [arb(0).union(delta) for delta in upper]


def method_of(witness: object) -> str | None:
    """Return the method that a witness names; None for the line."""
    if not isinstance(witness, dict) or "method" not in witness:
        return None
    return choice(witness["method"], "method", " ".join(METHODS))


# ---------------------------------------------------------------- claims


def read_claims(certificate: Object) -> list[Object]:
    """Return the claims, each with either "at_most" or "at_least"."""
    claims = items(certificate["claims"], "claims", 1, LARGEST_CLAIMS)
    for claim in claims:
        if not isinstance(claim, dict):
            raise RefusedError("a claim must be an object")
        about = "order" if "order" in claim else "epsilon alpha" if "alpha" in claim else "epsilon"
        fields(claim, "a claim", about, "at_most at_least")
        if ("at_most" in claim) == ("at_least" in claim):
            raise RefusedError("a claim has either 'at_most' or 'at_least'")
        if "alpha" in claim and "at_least" not in claim:
            raise RefusedError("a claim on the trade-off function has 'at_least'")
        ranges = {"epsilon": (0.0, 1e12), "order": (1.0 + 1e-6, 1e6)}
        for key in claim:
            number(claim[key], key, *ranges.get(key, (0.0, 1e12 if "order" in claim else 1.0)))
    return claims


def tradeoff(delta: arb, epsilon: arb, alpha: arb) -> arb:
    """Bound the trade-off function at `alpha` from below by both lines of one point of the curve (V18)."""
    return (1 - delta - epsilon.exp() * alpha).max((1 - delta - alpha) / epsilon.exp()).max(arb(0))


def check(certificate: Object, *, progress: Report | None = None, processes: int = 1) -> list[Proven]:
    """Enclose the quantity of every claim, and compare.

    Parameters
    ----------
    certificate : dict
        As `read` returns it.
    progress : callable, optional
        Is called with how many parts of the work are done, and their number: 100 for each ordered pair,
        and for each claim on a divergence.
    processes : int, optional
        Processes that share the work; the result does not depend on it.

    Returns
    -------
    list of Proven
        One for each claim, in order. `lower` and `upper` are rounded outwards.

    Raises
    ------
    RefusedError
        If the certificate is malformed, too large, or about something that is not covered.
    NotProvenError
        If an inequality fails before there is an interval.
    """
    claims = read_claims(certificate)
    if shuffled.is_shuffled(certificate["run"]):
        with working(progress, processes, PARTS):
            return of_shuffled(certificate, claims)
    ways, divergences = directions(certificate["run"]), len(distinct_orders(claims))
    curves = 0 if all("order" in claim for claim in claims) else len(ways)
    with working(progress, processes, PARTS * (curves + divergences)):
        return proven(certificate, claims, ways, curves / (curves + divergences))


def distinct_orders(claims: list[Object]) -> list[float]:
    """Return the orders of the claims on Renyi divergences, each once."""
    return list(dict.fromkeys(claim["order"] for claim in claims if "order" in claim))


def proven(certificate: Object, claims: list[Object], ways: list[str], of_curve: float) -> list[Proven]:
    """Compare all claims with what is enclosed; this part of the work is on the curve."""
    run, witness = certificate["run"], fields(certificate["witness"], "witness", " ".join(ways))
    points = [claim["epsilon"] for claim in claims if "order" not in claim]
    with stage(0.0, of_curve):
        enclosed = each_of([(run, way, witness[way], points) for way in ways] if points else [])
    ctx.prec = COMPARED_BITS
    is_bound = bool(points) and moments.is_bound(run)  # of the curve: its pair is not attained (V13)
    curve = iter([largest(each) for each in zip(*enclosed, strict=True)])
    orders, divergences = distinct_orders(claims), {}
    for place, order in enumerate(orders):
        ends = [of_curve + (1 - of_curve) * at / len(orders) for at in (place, place + 1)]
        with stage(*ends):
            divergences[order] = on_renyi(run, ways, witness, order, len(orders))
    found = []
    for claim in claims:
        if "order" in claim:
            found.append(compared_divergence(divergences[claim["order"]], claim))
            continue
        delta, epsilon = next(curve), arb(claim["epsilon"])
        name = f"delta({claim['epsilon']!r})"
        if "alpha" not in claim:
            one = compared(delta, claim, float(claim["epsilon"]), name)
            found.append(without_lower_end(one, claim) if is_bound else one)
            continue
        if run["adjacency"] not in ("add_remove", "replace"):
            raise RefusedError("claims on the trade-off function are about both orders of two data sets")
        least, name = tradeoff(delta, epsilon, arb(claim["alpha"])), f"beta({claim['alpha']!r})"
        # A ball up to 1 would have a radius that is too coarse for small lower ends.
        found.append(compared(least, claim, float(claim["epsilon"]), name)._replace(upper=1.0))
    return found


def each_of(jobs: list[Job]) -> list[list[arb]]:
    """Enclose the curve of every ordered pair; both have one transform where their witnesses are equal."""
    seen: list[object] = []
    sizes, found = [], []
    for _, _, witness, _ in jobs:
        shared = transforms_of(witness)
        sizes.append(LITTLE if shared is not None and shared in seen else 1.0)
        seen.append(shared)
    for place, job in enumerate(jobs):
        before, total = sum(sizes[:place]), sum(sizes)
        with stage(before / total, (before + sizes[place]) / total):
            found.append(enclose(job, Sums(run_of(job), job[1])))
    return found


def without_lower_end(found: Proven, claim: Object) -> Proven:
    """Leave out the lower end, that of a pair which is a bound on the curve."""
    return found._replace(lower=0.0, holds=found.holds and claim.get("at_least", 0.0) <= 0.0)


def ends_of_pairs(run: Object, witness: Object, epsilons: list[float]) -> list[tuple[float, float]]:
    """Return the ends of the largest delta of the pairs: a bound on that of the run, if not that itself."""
    each = [enclose((run, way, witness[way], epsilons)) for way in witness]
    found = [largest(deltas) for deltas in zip(*each, strict=True)]
    return [(down(delta.lower()), -down((-delta).lower())) for delta in found]


def transforms_of(witness: object) -> object:
    """Return the witness of transforms that do not depend on the ordered pair; None if they depend on it."""
    if not isinstance(witness, dict):
        return None
    if witness.get("method") == "chain":
        return transforms_of(witness.get("one"))
    return witness if witness.get("method") in ("allocation", "bins") else None


def divergence(run: Object, way: str, witness: Object, order: float, orders: int) -> tuple[arb, arb]:
    """Bound the Renyi divergence of one ordered pair from below and from above; one of so many orders."""
    name, method = f"witness of {way!r}", method_of(witness)
    if method not in ("renyi", "lattice", "moments"):
        raise RefusedError("claims on a Renyi divergence are proven by 'renyi', 'moments' or on a 'lattice'")
    entry = fields(witness, name, f"bits method {METHODS[method]}", OPTIONAL.get(method, ""))
    ctx.prec, at = whole(entry["bits"], "bits", 64, 1024), arb(order)
    equal, in_public = plain(run), "published" in entry
    if method == "moments":
        if entry.get("published", True) is not True:
            raise RefusedError("published must be true, or left out")
        equal = published(equal) if in_public else equal
        lower = upper = moments.renyi(equal, way, entry, order, orders)
    elif method == "lattice":
        lower = upper = lattice.renyi(equal, way, entry, at)
    else:
        lower = upper = renyi_moment(equal, way, entry, at, orders)
    if "norm_units" in entry:  # rounded up until here; down for the lower end
        lower = renyi_moment(equal, way, {**entry, "downwards": True}, at, orders)
    # Steps that may reveal more (V25), and pairs that are not attained, have no lower end.
    is_bound = in_public or sensitivity.is_bounded_only(equal) or moments.is_bound(equal)
    return arb(0) if is_bound else lower, upper


def on_renyi(run: Object, ways: list[str], witness: Object, order: float, orders: int) -> tuple[arb, arb]:
    """Bound a Renyi divergence from below and from above, one of so many orders."""
    least = most = arb(0)
    for way in ways:
        try:
            lower, upper = divergence(run, way, witness[way], order, orders)
        except RefusedError:
            raise
        except (ArithmeticError, ValueError) as error:
            raise NotProvenError(f"a number of the witness is out of range: {str(error)[:100]}") from None
        if not (lower.is_finite() and upper.is_finite()):
            raise NotProvenError(NOT_FINITE)
        least, most = least.max(lower), most.max(upper)
    return least, most


def compared_divergence(bounds: tuple[arb, arb], claim: Object) -> Proven:
    """Compare a claim on a Renyi divergence with what was proven."""
    lower, upper = bounds
    found = compared(upper if "at_most" in claim else lower, claim, math.nan, f"D_{claim['order']!r}")
    return found._replace(lower=max(0.0, down(lower.lower())), upper=-down((-upper).lower()))


# ---------------------------------------------------------------- V28: shuffled batches


def of_shuffled(certificate: Object, claims: list[Object]) -> list[Proven]:
    """Compare claims on a run with shuffled batches with the end that is proven for them."""
    run, way = shuffled.read_run(certificate["run"]), certificate["run"]["adjacency"]
    given = fields(certificate["witness"], "witness", way)[way]
    witness = fields(given, f"witness of {way!r}", "bits method upper lower")
    choice(witness["method"], "method for shuffled batches", "shuffled")
    if any("order" in claim and "at_least" in claim for claim in claims):
        raise RefusedError("claims on the Renyi divergence of shuffled batches have 'at_most'")
    ctx.prec = whole(witness["bits"], "bits", 64, 4096)
    rest = [claim for claim in claims if "order" not in claim]
    is_least = ["at_least" in claim and "alpha" not in claim for claim in rest]
    below = [claim["epsilon"] for claim, least in zip(rest, is_least, strict=True) if least]
    above = [claim["epsilon"] for claim, least in zip(rest, is_least, strict=True) if not least]
    try:
        with stage(0.0, OF_UPPER):
            ends = shuffled.upper_ends(run, witness["upper"], above) if above else []
            most = dict(zip(above, map(within, ends), strict=True))
        with stage(OF_UPPER, 1.0):
            ends = shuffled_pair.lower_ends_of_run(run, witness["lower"], below) if below else []
            least = dict(zip(below, map(within, ends), strict=True))
        orders = {
            order: shuffled.divergence(run, witness["upper"], order) for order in distinct_orders(claims)
        }
    except RefusedError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise NotProvenError(f"a number of the witness is out of range: {str(error)[:100]}") from None
    if not all(each.is_finite() for each in orders.values()):
        raise NotProvenError(NOT_FINITE)
    ctx.prec = COMPARED_BITS
    return [
        compared_divergence((arb(0), orders[claim["order"]]), claim)
        if "order" in claim
        else compared_end(claim, most, least)
        for claim in claims
    ]


def within(delta: arb) -> arb:
    """Return the part of an enclosure of delta that is a probability."""
    return largest((delta,))


def compared_end(claim: Object, most: dict[float, arb], least: dict[float, arb]) -> Proven:
    """Compare a claim with the end that it is about; the other end is known if another claim asks for it."""
    at = claim["epsilon"]
    if "alpha" in claim:
        line, name = tradeoff(most[at], arb(at), arb(claim["alpha"])), f"beta({claim['alpha']!r})"
        return compared(line, claim, float(at), name)._replace(upper=1.0)
    found = compared(most[at] if "at_most" in claim else least[at], claim, float(at), f"delta({at!r})")
    return found._replace(
        lower=max(0.0, down(least[at].lower())) if at in least else 0.0,
        upper=-down((-most[at]).lower()) if at in most else 1.0,
    )
