"""Certificates of a curve: which proof is made about a run, and what is claimed."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hockeystick._arguments import float_scalar, require
from hockeystick._core import __version__
from hockeystick._curves.certificate import Certificate
from hockeystick._curves.checked_bounds import OF_WITNESS, TOLERANCES, Curve, Enclosures, line_of
from hockeystick._curves.described_correlated import has_correlated_noise, in_plain_steps, is_bounded_only
from hockeystick._curves.described_run import DEALT, described, described_parts, directions, laws, method_of
from hockeystick._curves.norm_units import has_tiny_shifts, units_of
from hockeystick._curves.renyi_proofs import proofs_of_renyi
from hockeystick._curves.saddle_estimates import estimated, root
from hockeystick._curves.shared_work import FIRST, stage
from hockeystick._curves.witness import MOST_WORK
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._curves.bins_curve import BinsCurve
    from hockeystick._curves.curve import PrivacyCurve
    from hockeystick._curves.mixed_curve import MixedCurve
    from hockeystick._curves.shuffled_curve import ShuffledCurve

FORMAT, VERSION = "hockeystick-certificate", 1
"""Name and version of the format that the checker reads. It refuses others."""
SLACK = 10.0
"""Claims are wider than the certified interval by so many of these widths."""
NEAR = 1.0
"""How far apart the ends of an interval for epsilon may be, times the tilt, for one witness to prove claims
at both: its errors, relative to delta, grow by about e to this. Otherwise the upper end is claimed alone."""
DELICATE = 1e-60
"""The delta below which a witness on a line is checked before it is handed out: of 4,998 random runs four had
claims that theirs did not imply, three of them about a smaller delta and one about an epsilon of 0."""
MOST_ABOVE, MOST_DIGITS = 2.0, 0.02
"""A proven bound on delta may be so many times the answer of the engine, or the answer to the power of 1 less
the second number where that is more: far in the tail epsilon hardly changes by it."""
MOST_MORE = 0.05
"""A claimed epsilon may be above the answer of the engine by this part of it and by this number."""
LESS = 1e-3
"""A proven bound on delta may also be the answer at an epsilon that is less by this part: next to the largest
loss delta falls that fast."""
OF_CLAIMS = 0.1
"""Rough part of the work that is left after the first proof, which the progress bar shows."""
FURTHER = (1.001, 1.05, 1.5, 3.0, 10.0)
"""A claim on epsilon is tried at so many times its expected distance from the answer, until it is proven."""

_LARGEST_EXPONENT = 700.0
"""Largest epsilon of a line: its slope e^epsilon has to be a finite number."""

Claim = dict[str, float]


def certificate_of_curve(
    curve: Curve, epsilon: float | None, delta: float | None, order: float | None, alpha: float | None
) -> Certificate:
    """Certificate of what is not None, by the first way that has a proof."""
    run, left = _described(curve), 1.0
    if order is not None:
        return _of_renyi(curve, run, order)
    if alpha is not None:
        return _of_tradeoff(curve, run, alpha)
    method = _method(curve, run, epsilon, delta)
    if method == "line":
        units = units_of(run)
        rough = units is not None and units.is_rough
        for tolerance in () if rough else TOLERANCES:
            found = _on_a_line(curve, run, epsilon, delta, tolerance)
            if found is None:
                continue
            with stage(1.0 - left, 1.0 - left * (1.0 - FIRST)):
                if found.is_proven():
                    return found.certificate
            left *= 1.0 - FIRST
            if has_tiny_shifts(run):  # others of these would take as long to fail
                break
        _require_a_lattice(run)
        method = "rounded" if rough else "lattice"
    with stage(1.0 - left, 1.0):
        return _first_proven(curve, run, [method, *_other_methods(run, method)], epsilon, delta)


def certificate_of_bins(
    curve: BinsCurve, run: dict[str, Any], epsilon: float | None, delta: float | None
) -> Certificate:
    """Return a certificate of random bins under correlated noise; one argument is given."""
    if (epsilon is None) == (delta is None):
        raise TypeError("give exactly one of delta and epsilon")
    return _by_the_checker(curve, run, "bins", epsilon, delta)


def _described(curve: Curve) -> dict[str, Any]:
    adjacency = getattr(curve, "adjacency", None)
    if adjacency is None:
        return described_parts(cast("MixedCurve", curve).segments)
    return described(cast("PrivacyCurve", curve).segments, adjacency)


def _is_tight(curve: Curve) -> bool:
    """Whether the curve is that of a pair which some data sets attain in every step."""
    segments = cast("PrivacyCurve | MixedCurve", curve).segments
    parts = segments.values() if isinstance(segments, dict) else [segments]
    return all(kind.pair.tight for part in parts for kind, _ in part)


def _require_a_lattice(run: dict[str, Any]) -> None:
    """Raise for runs with correlated noise that are one Gaussian: no lattice proves more of them."""
    if has_correlated_noise(run) and not any(laws(in_plain_steps(run), way)[0] for way in directions(run)):
        raise UnsupportedError(
            "the checker's bound on the sensitivity of this run with correlated noise is larger than that of "
            "its curve, so that no claim about it is proven"
        )


def _are_delicate(claims: list[Claim]) -> bool:
    """Whether a witness on a line, whose digits are estimated, may not prove claims that are so extreme."""
    return any(
        claim["epsilon"] == 0.0 or claim.get("at_most", claim.get("at_least", 0.0)) < DELICATE
        for claim in claims
    )


def _method(curve: Curve, run: dict[str, Any], epsilon: float | None, delta: float | None) -> str:
    method = method_of(in_plain_steps(run))
    several = any(step["group"]["size"] > 1 for step in run["steps"])
    if method in ("lattice", "allocation") and several and run["adjacency"] != "mixed":
        asked = {"epsilon": epsilon} if delta is None else {"delta": delta}
        if cast("PrivacyCurve", curve).bound_used(**asked) == "chain":
            return "chain"
    return method


def _other_methods(run: dict[str, Any], method: str) -> tuple[str, ...]:
    """Return what to try if a method has no proof: records that are dealt into batches have several."""
    if not any(step["sampling"]["name"] in DEALT for step in run["steps"]):
        return ()
    if any(step["group"]["size"] > 1 for step in run["steps"]):
        return ("published",)
    # Few batches under much noise need many points on a line and few on a lattice. Next to the largest loss
    # of Laplace noise a lattice is too coarse, and publishing a record's batch hardly changes delta.
    return ("lattice", "published") if method == "allocation" else ("published",)


def _first_proven(
    curve: Curve, run: dict[str, Any], methods: list[str], epsilon: float | None, delta: float | None
) -> Certificate:
    """Certificate by the first of some methods that has a proof; if none has, the error of the first one."""
    try:
        with stage(0.0, FIRST if len(methods) > 1 else 1.0):
            return _by_the_checker(curve, run, methods[0], epsilon, delta)
    except UnsupportedError as error:
        if len(methods) == 1:
            raise
        refused = error
    try:
        with stage(FIRST, 1.0):
            return _first_proven(curve, run, methods[1:], epsilon, delta)
    except UnsupportedError:
        raise refused from None


def certificate_of(run: dict[str, Any], claims: list[Claim], witnesses: dict[str, Any]) -> Certificate:
    """Return the certificate of a described run with these claims and witnesses."""
    document = {"format": FORMAT, "version": VERSION, "made_by": f"hockeystick {__version__}"}
    return Certificate({**document, "run": run, "claims": claims, "witness": witnesses})


def _asked(curve: Curve, epsilon: float | None, delta: float | None) -> tuple[float, float, float, float]:
    """Return the engine's answer: the ends of epsilon, and the ends of delta."""
    if epsilon is not None:
        at = float_scalar(epsilon, "epsilon")
        least, level = (float(end) for end in curve.bounds(epsilon=at))
        return at, at, least, level
    level = float_scalar(delta, "delta")
    low, high = (float(end) for end in curve.bounds(delta=level))
    require(math.isfinite(high), "delta", level, "a delta for which epsilon is finite")
    return low, high, level, level


class _OnALine(NamedTuple):
    """A certificate, and whether it is to be checked before it is handed out."""

    certificate: Certificate
    is_delicate: bool

    def is_proven(self) -> bool:
        """Ask the checker, if it is installed; without it, what is not delicate is taken as proven."""
        if not self.is_delicate and find_spec("flint") is None:
            return True
        return self.certificate.verify()[0]


def _on_a_line(
    curve: Curve, run: dict[str, Any], epsilon: float | None, delta: float | None, tolerance: float
) -> _OnALine | None:
    """Certificate with claims of a relative accuracy, or None if it takes too long to check."""
    low, high, least, level = _asked(curve, epsilon, delta)
    witnesses: dict[str, Any] = {}
    plain = in_plain_steps(run)
    tilts, sharp = [math.inf, 0.0], False
    for direction in directions(run):
        found = line_of(plain, direction, (high, level), tolerance)
        if found.cost > MOST_WORK:
            return None
        witnesses[direction], sharp = found.witness, sharp or found.is_sharp
        if found.cost:
            tilts = [min(tilts[0], found.tilt), max(tilts[1], found.tilt)]
    sharp = sharp and not is_bounded_only(plain)
    wider = SLACK * tolerance
    claims: list[Claim] = []
    if epsilon is not None:
        claims.append({"epsilon": high, "at_most": min(1.0, level * (1.0 + wider))})
        if least > 0.0 and sharp:
            claims.append({"epsilon": high, "at_least": least * (1.0 - wider)})
    else:
        further = wider * (2.0 / tilts[0] + max(high, 1e-3))
        claims.append({"epsilon": high + further, "at_most": level})
        if sharp and low > further and (high - low) * tilts[1] < NEAR:
            claims.append({"epsilon": low - further, "at_least": level})
    changed = any({"largest_shifts", "norm_units"} & set(witness) for witness in witnesses.values())
    is_delicate = changed or has_correlated_noise(run) or has_tiny_shifts(run) or _are_delicate(claims)
    return _OnALine(certificate_of(run, claims, witnesses), is_delicate)


def _is_sharp(curve: Curve, run: dict[str, Any], method: str) -> bool:
    """Whether the lower end that a method proves is a statement about the run."""
    if method == "allocation":
        return _is_tight(curve)
    if method == "bins":  # what a part of an epoch reveals is bounded by the whole one
        return all(step["count"] % step["sampling"]["batches"] == 0 for step in run["steps"])
    is_dealt = any(step["sampling"]["name"] in DEALT for step in run["steps"])
    return method in ("lattice", "rounded") and not is_dealt


def _by_the_checker(
    curve: Curve, run: dict[str, Any], method: str, epsilon: float | None, delta: float | None
) -> Certificate:
    """Certificate that claims what the checker proves.

    The certificate is about the run as it is described: the numbers of the claims come from the checker.
    """
    low, high, least, level = _asked(curve, epsilon, delta)
    floor, guess, least_known = level, None, low
    if method == "allocation":
        plain = needed("hockeystick_verify.variants", "verify").plain(run)
        guess = estimated(plain, directions(run), (low, high), (least, level))
        low, high, floor = guess or (low, high, level)
    with stage(0.0, OF_WITNESS):
        enclosures = Enclosures(curve, run, method, (low, high), floor)
    sharp = _is_sharp(curve, run, method)
    if epsilon is not None:
        with stage(OF_WITNESS, 1.0):
            ((lower, upper),) = enclosures.bounds([high])
        enough = max(MOST_ABOVE, level**-MOST_DIGITS if level else 0.0) * level
        if level > 0.0:
            enough = max(enough, float(curve.bounds(epsilon=high * (1.0 - LESS))[1]))
        if upper > enough > 0.0 or upper >= 1.0:
            raise UnsupportedError(f"the checker proves delta <= {upper:.3g} only, where {level:.3g} is true")
        claims = [{"epsilon": high, "at_most": upper}]
        if sharp and lower > 0.0:
            claims.append({"epsilon": high, "at_least": lower})
        return certificate_of(run, claims, enclosures.witnesses)
    with stage(OF_WITNESS, 1.0 - OF_CLAIMS):
        if guess is not None:
            low = high = root(enclosures.of_pairs, enclosures.renew, (least_known, high), level)
        ends = enclosures.bounds([high, high * (1 + 1e-6) + 1e-6, low])
    slope = max((math.log(ends[0][1]) - math.log(ends[1][1])) / (high * 1e-6 + 1e-6), 1e-3)
    more = max(math.log(ends[0][1] / level), 1e-12) / slope
    less = max(math.log(level / max(ends[2][0], 1e-300)), 1e-12) / slope
    tried = [high + more * factor + 1e-13 for factor in FURTHER]
    under = (
        [low - less * factor - 1e-13 for factor in FURTHER if low > less * factor + 1e-12] if sharp else []
    )
    if method == "chain":
        tried = tried[:2]
    try:
        with stage(1.0 - OF_CLAIMS, 1.0):
            found = enclosures.bounds([*tried, *under])
    except UnsupportedError:  # losses that far below epsilon may be outside the window of the witness
        under = []
        found = enclosures.bounds(tried)
    proven = [e for e, (_, upper) in zip(tried, found, strict=False) if upper <= level]
    if not proven or proven[0] > high * (1.0 + MOST_MORE) + MOST_MORE:
        raise UnsupportedError(f"the checker cannot prove epsilon at delta={level} for this run")
    claims = [{"epsilon": proven[0], "at_most": level}]
    held = [e for e, (lower, _) in zip(under, found[len(tried) :], strict=True) if lower >= level]
    claims += [{"epsilon": held[0], "at_least": level}] if held else []
    if method == "chain":
        enclosures.bounds([proven[0]])
    return certificate_of(run, claims, enclosures.witnesses)


def _of_renyi(curve: Curve, run: dict[str, Any], order: float) -> Certificate:
    """Certificate of a Rényi divergence."""
    at = float_scalar(order, "order")
    require(1.001 <= at <= 1e4, "order", at, "in [1.001, 1e4]")
    checker = needed("hockeystick_verify.claims", "verify")
    is_dealt = any(step["sampling"]["name"] in DEALT for step in run["steps"])
    sharp = not is_bounded_only(in_plain_steps(run)) and (not is_dealt or _is_tight(curve))
    refused = None
    for witnesses_of in proofs_of_renyi(run):
        try:
            witnesses = witnesses_of(run, at)
            document = {"run": run, "claims": [{"order": at, "at_most": 1e12}], "witness": witnesses}
            (found,) = checker.check(document)
        except (checker.NotProvenError, checker.RefusedError, UnsupportedError) as error:
            refused = refused or error
            continue
        claims = [{"order": at, "at_most": found.upper}]
        if sharp and found.lower > 0.0:
            claims.append({"order": at, "at_least": found.lower})
        return certificate_of(run, claims, witnesses)
    raise UnsupportedError(f"no proof was found that the checker accepts: {refused}") from None


def _of_tradeoff(curve: Curve, run: dict[str, Any], alpha: float) -> Certificate:
    """Certificate of the trade-off function, by the point of the curve whose line is highest there."""
    if run["adjacency"] not in ("add_remove", "replace"):
        raise UnsupportedError("certificates of the trade-off function cover 'add_remove' and 'replace'")
    point, line = point_of_tradeoff(curve, alpha)
    found = curve.certify(epsilon=point)
    return found.with_claims([line(found.claims[0]["at_most"])])


def point_of_tradeoff(curve: Curve | ShuffledCurve, alpha: float) -> tuple[float, Callable[[float], Claim]]:
    """Epsilon of the point whose line is highest at a false positive rate, and the claim from its delta."""
    rate = float_scalar(alpha, "alpha")
    require(0.0 < rate < 1.0, "alpha", rate, "in (0, 1)")
    top = min(max(float(np.asarray(curve.epsilon(1e-12))), 1e-3), _LARGEST_EXPONENT)
    epsilons = np.linspace(0.0, top, 65)
    for _ in range(4):
        deltas = np.asarray(curve.delta(epsilons))
        lines = np.maximum(1 - deltas - np.exp(epsilons) * rate, (1 - deltas - rate) * np.exp(-epsilons))
        place = int(lines.argmax())
        low, high = epsilons[max(place - 1, 0)], epsilons[min(place + 1, 64)]
        best, epsilons = float(epsilons[place]), np.linspace(low, high, 65)

    def line(delta: float) -> Claim:
        """Return what follows for the trade-off function from a delta at the best epsilon."""
        height = max(1 - delta - math.exp(best) * rate, (1 - delta - rate) * math.exp(-best), 0.0)
        return {"alpha": rate, "epsilon": best, "at_least": max(0.0, height * (1 - 1e-12) - 1e-15)}

    return best, line
