"""How certificates prove the Rényi divergence of a run, in the order in which proofs are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hockeystick._curves.described_correlated import in_plain_steps
from hockeystick._curves.described_run import DEALT, directions, laws, method_of
from hockeystick._curves.moments_witness import moments_witness
from hockeystick._curves.norm_units import in_units
from hockeystick._curves.renyi_witness import renyi_on_a_lattice, renyi_witness
from hockeystick._extras import needed

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDED = {"laplace", "randomized_response"}
"""Mechanisms whose losses are bounded."""


def proofs_of_renyi(run: dict[str, Any]) -> list[Callable[[dict[str, Any], float], dict[str, Any]]]:
    """Return how to make witnesses about a Rényi divergence of a run, in the order to try them in."""
    plain = in_plain_steps(run)
    found: list[Callable[[dict[str, Any], float], dict[str, Any]]] = [_by_moments]
    if method_of(plain) == "line":
        found.insert(0, _by_nodes)
    if any(step["sampling"]["name"] in DEALT for step in plain["steps"]):
        found.append(_by_published_moments)
    elif {step["mechanism"]["name"] for step in plain["steps"]} <= BOUNDED:
        found.append(_by_lattice)
    return found


def _by_nodes(run: dict[str, Any], order: float) -> dict[str, Any]:
    rounded, more = in_units(in_plain_steps(run))
    return {way: renyi_witness(*laws(rounded, way), order) | more for way in directions(run)}


def _by_moments(run: dict[str, Any], order: float) -> dict[str, Any]:
    plain = needed("hockeystick_verify.variants", "verify").plain(run)
    return {way: moments_witness(plain, way, order) for way in directions(run)}


def _by_published_moments(run: dict[str, Any], order: float) -> dict[str, Any]:
    plain = needed("hockeystick_verify.variants", "verify").plain(run)
    seen = needed("hockeystick_verify.dealt_lattice", "verify").published(plain)
    return {way: moments_witness(seen, way, order) | {"published": True} for way in directions(run)}


def _by_lattice(run: dict[str, Any], order: float) -> dict[str, Any]:
    plain = needed("hockeystick_verify.variants", "verify").plain(run)
    return {way: renyi_on_a_lattice(plain, way, order) for way in directions(run)}
