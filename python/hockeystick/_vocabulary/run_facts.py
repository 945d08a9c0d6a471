"""Facts of a run as strings, numbers, lists and dicts, and back: what files hold, and what the hash is of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hockeystick._arguments import shown
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import (
    AdaptiveClipping,
    BatchClipping,
    Gaussian,
    Laplace,
    Mechanism,
    RandomizedResponse,
    Skellam,
    check_mechanism,
)
from hockeystick._vocabulary.participation import (
    CyclicPoisson,
    FixedOrder,
    MinimumSeparation,
    Participation,
)
from hockeystick.errors import UnsupportedError

MECHANISMS: dict[str, type[Any]] = {
    "adaptive_clipping": AdaptiveClipping,
    "batch_clipping": BatchClipping,
    "laplace": Laplace,
    "randomized_response": RandomizedResponse,
    "skellam": Skellam,
}
"""Mechanisms of a step, by their names in files and on the command line."""

CORRELATED = "correlated_noise"
"""Name of the mechanism of a whole run."""

PARTICIPATIONS: dict[str, type[Any]] = {
    "cyclic_poisson": CyclicPoisson,
    "fixed_order": FixedOrder,
    "minimum_separation": MinimumSeparation,
}
"""Schemes that are for `CorrelatedNoise` alone, by their names in files."""


def check_run_mechanism(value: object) -> Mechanism | CorrelatedNoise:
    """Return `value`, which must be the mechanism of a run that files can hold."""
    if isinstance(value, CorrelatedNoise):
        if value.is_stored_matrix:
            raise UnsupportedError(
                f"a Run is saved in a file, which holds no matrices, got {value!r}: give "
                "CorrelatedNoise.toeplitz, blt, lambda_cgd or prefix_sum_root, or give the matrix to the "
                "functions themselves"
            )
        return value
    return check_mechanism(value)


def plain(value: Any) -> Any:
    """`value` of plain JSON types."""
    if isinstance(value, CorrelatedNoise):
        return {"name": CORRELATED, **_stated(value.settings())}
    for name, kind in {**MECHANISMS, **PARTICIPATIONS}.items():
        if type(value) is kind:
            return {"name": name, **_stated(dataclasses.asdict(value))}
    if isinstance(value, Group):
        given: dict[str, Any] = {
            "size": value.size,
            "rates": value.rates,
            "norms": value.norms,
            "gradients": value.gradients,
        }
        if value.gradients == "bounded":
            given["cosine"] = value.cosine
        return _stated(given)
    return value


def _stated(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are stated, with lists for tuples: TOML has no null."""
    return {
        name: list(part) if isinstance(part, tuple) else part
        for name, part in facts.items()
        if part is not None
    }


def mechanism_of(table: Mapping[str, Any]) -> Mechanism | CorrelatedNoise:
    """Return the mechanism of which this is the table."""
    arguments = dict(table)
    name = arguments.pop("name", "")
    if name == CORRELATED:
        try:
            return CorrelatedNoise.from_settings({"noise_multiplier": None, "parameters": [], **arguments})
        except KeyError as error:
            raise ValueError(
                f"mechanism {CORRELATED!r} needs form and parameters: {error} is missing"
            ) from None
    kind = MECHANISMS.get(name)
    if kind is None:
        known = ", ".join((*MECHANISMS, CORRELATED))
        raise ValueError(f"the name of mechanism must be one of {known}, got {shown(table)}")
    found: Mechanism = kind(**arguments)
    return found


def participation_of(table: Mapping[str, Any]) -> Participation:
    """Return the scheme of which this is the table."""
    arguments = dict(table)
    kind = PARTICIPATIONS.get(arguments.pop("name", ""))
    if kind is None:
        known = ", ".join(PARTICIPATIONS)
        raise ValueError(f"the name of a table sampling must be one of {known}, got {shown(table)}")
    found: Participation = kind(**arguments)
    return found


def noise_of(mechanism: Mechanism | CorrelatedNoise) -> float | None:
    """Return the noise multiplier of Gaussian noise, which a run states as such; None for other noise."""
    return mechanism.noise_multiplier if isinstance(mechanism, Gaussian) else None


def with_noise(
    mechanism: Mechanism | CorrelatedNoise | None, noise_multiplier: float
) -> Mechanism | CorrelatedNoise | None:
    """Return the mechanism with another noise multiplier, None if it has none."""
    if isinstance(mechanism, CorrelatedNoise):
        return mechanism.with_noise(noise_multiplier)
    if isinstance(mechanism, AdaptiveClipping | BatchClipping):
        return dataclasses.replace(mechanism, noise_multiplier=noise_multiplier)
    return None
