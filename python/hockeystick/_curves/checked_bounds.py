"""What the checker proves about a curve: witnesses about its pairs, and the bounds that follow from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from hockeystick._curves.allocation_witness import allocation_witness
from hockeystick._curves.bins_witness import bins_witness
from hockeystick._curves.chain_witness import Chains
from hockeystick._curves.described_correlated import in_plain_steps
from hockeystick._curves.described_run import directions, laws, method_of
from hockeystick._curves.large_groups import Proof, witness_on_a_line
from hockeystick._curves.lattice_witness import LatticeWitness
from hockeystick._curves.norm_units import in_units
from hockeystick._curves.shared_work import stage
from hockeystick._extras import needed
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick._curves.bins_curve import BinsCurve
    from hockeystick._curves.curve import PrivacyCurve
    from hockeystick._curves.mixed_curve import MixedCurve

TOLERANCES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Relative widths of the interval to be proven, finest first; the first that is cheap enough to check."""
CLOSED_FORM_BITS = 256
"""Bits of a proof by a closed form, which costs next to nothing: its errors are far below the width of a
claim."""
ROUGH = 0.01
"""Part of a delta from which on a proven interval is wide."""
OF_WITNESS = 0.3
"""Part of the work that witnesses are, roughly: for the bar alone."""

Curve: TypeAlias = "PrivacyCurve | MixedCurve | BinsCurve"


def line_of(run: dict[str, Any], direction: str, at: tuple[float, float], tolerance: float) -> Proof:
    """Witness about one ordered pair, at an epsilon and a delta; it costs nothing if it has a closed form."""
    rounded, more = in_units(run)
    kinds, mu_squared = laws(rounded, direction)
    alone = mu_squared == 0.0 and sum(kind.steps for kind in kinds) == 1
    if not kinds or alone or at[1] == 0.0:
        return Proof({"bits": CLOSED_FORM_BITS, **more}, 0.0, 0.0, True)
    guarantee = direction == "add" and len(directions(run)) > 1  # the other order has the lower end
    place = (at[0], math.log(at[1]))
    found = witness_on_a_line(kinds, mu_squared, place, tolerance, guarantee=guarantee)
    # With units both ends have a sum of their own.
    return found._replace(witness={**found.witness, **more}, cost=found.cost * (2.0 if more else 1.0))


class Enclosures:
    """What the checker proves about delta, with the witnesses that it is given."""

    def __init__(
        self, curve: Curve, run: dict[str, Any], method: str, ends: tuple[float, float], level: float
    ) -> None:
        self.checker = needed("hockeystick_verify.claims", "verify")
        self.curve, self.run, self.method = curve, run, method
        self.witnesses: dict[str, Any] = {}
        self.chains = Chains(cast("PrivacyCurve", curve), run) if method == "chain" else None
        (least, epsilon), floor = ends, math.log(max(level, 1e-300))
        dealt = needed("hockeystick_verify.dealt_lattice", "verify")
        try:
            plain = needed("hockeystick_verify.variants", "verify").plain(run)
            reported = needed("hockeystick_verify.parallel", "verify").reported
            for direction in reported(directions(run), len(directions(run))):
                if method == "allocation":
                    self.witnesses[direction] = allocation_witness(plain, direction, epsilon, floor)
                elif method == "bins":
                    pairs = len(directions(run))
                    self.witnesses[direction] = bins_witness(plain, direction, epsilon, floor, pairs=pairs)
                elif method == "rounded":
                    at = (epsilon, max(level, 1e-300))
                    proof = line_of(in_plain_steps(run), direction, at, TOLERANCES[2])
                    self.witnesses[direction] = proof.witness
                elif method == "lattice":
                    self.witnesses[direction] = LatticeWitness(plain, direction, epsilon, floor, least).find()
                elif method == "published":
                    seen, at = dealt.published(plain), (epsilon, max(level, 1e-300))
                    if method_of(seen) == "line":
                        found = line_of(seen, direction, at, TOLERANCES[2]).witness
                    else:
                        found = LatticeWitness(seen, direction, epsilon, floor, least).find()
                    self.witnesses[direction] = found | {"published": True}
        except self.checker.RefusedError as error:
            raise UnsupportedError(f"the checker does not cover this run: {error}") from None

    def renew(self, epsilon: float, level: float) -> None:
        """Make the witnesses of dealt batches anew whose intervals at an epsilon are wide."""
        plain = needed("hockeystick_verify.variants", "verify").plain(self.run)
        for way, witness in self.witnesses.items():
            (delta,) = self.checker.enclose((self.run, way, witness, [epsilon]))
            if not delta.rad() < ROUGH * level:
                self.witnesses[way] = allocation_witness(plain, way, epsilon, math.log(level))

    def of_pairs(self, epsilons: list[float]) -> list[tuple[float, float]]:
        """Return the ends of the intervals of the pairs, which may be a bound on the curve, for a search."""
        try:
            return cast("list[Any]", self.checker.ends_of_pairs(self.run, self.witnesses, epsilons))
        except (self.checker.NotProvenError, self.checker.RefusedError) as error:
            raise UnsupportedError(f"no proof was found that the checker accepts: {error}") from None

    def bounds(self, epsilons: list[float]) -> list[tuple[float, float]]:
        """Return the ends of the proven intervals."""
        made = 0.0
        if self.chains is not None:
            made = OF_WITNESS
            with stage(0.0, made):
                self.witnesses = self.chains.witnesses(epsilons)
        claims = [{"epsilon": each, "at_most": 1.0} for each in epsilons]
        try:
            with stage(made, 1.0):
                found = self.checker.check({"run": self.run, "claims": claims, "witness": self.witnesses})
        except (self.checker.NotProvenError, self.checker.RefusedError) as error:
            raise UnsupportedError(f"no proof was found that the checker accepts: {error}") from None
        return [(max(0.0, each.lower), min(1.0, each.upper)) for each in found]
