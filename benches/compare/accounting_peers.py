"""The same questions put to Opacus and dp_accounting: the yardsticks of the accounting benchmark.

Either package may be absent (the extra ``bench`` installs both). They are imported by name because neither
is needed to check or run anything else here.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from math import comb
from types import ModuleType

PACKAGES = {"opacus": "opacus", "dp_accounting": "dp-accounting"}
"""Module and distribution of each peer."""


def missing() -> list[str]:
    """Distributions that are not installed."""
    return [distribution for module, distribution in PACKAGES.items() if find_spec(module) is None]


def versions() -> str:
    """Name and version of the peers that are installed."""
    gone = missing()
    return ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES.values() if name not in gone)


@cache
def module(name: str) -> ModuleType:
    """Import a module once: the time goes to the warm-up call."""
    return import_module(name)


def opacus_epsilon(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """Opacus's PRV accountant with its own settings, its history set as Opacus's noise search sets it."""
    accountant = module("opacus.accountants").PRVAccountant()
    accountant.history = [(noise_multiplier, sample_rate, steps)]
    return float(accountant.get_epsilon(delta))


def opacus_noise_multiplier(epsilon: float, delta: float, sample_rate: float, steps: int) -> float:
    """Opacus's own search for the noise, by its PRV accountant."""
    utilities = module("opacus.accountants.utils")
    return float(
        utilities.get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            sample_rate=sample_rate,
            steps=steps,
            accountant="prv",
        )
    )


def binomial_weights(group_size: int, sample_rate: float) -> list[float]:
    """Law of the number of members in a batch."""
    return [
        comb(group_size, j) * sample_rate**j * (1 - sample_rate) ** (group_size - j)
        for j in range(group_size + 1)
    ]


def dp_accounting_epsilon(
    noise_multiplier: float,
    weights: Sequence[float],
    steps: int,
    delta: float,
    interval: float,
) -> float:
    """dp_accounting's accountant by privacy loss distributions.

    Two weights are one record under Poisson sampling, which it has as a mechanism of its own; more are its
    mixture of Gaussians with shifts 0, 1, 2 and so on.
    """
    events = module("dp_accounting.dp_event")
    event = (
        events.PoissonSampledDpEvent(weights[1], events.GaussianDpEvent(noise_multiplier))
        if len(weights) == 2
        else events.MixtureOfGaussiansDpEvent(
            noise_multiplier, [float(shift) for shift in range(len(weights))], list(weights)
        )
    )
    return _pld_epsilon(event, steps, delta, interval)


def dp_accounting_fixed_batch_epsilon(
    noise_multiplier: float, batch_size: int, dataset_size: int, steps: int, delta: float, interval: float
) -> float:
    """Ask it about batches of fixed size, one record added or removed: it pushes another one out."""
    rate = batch_size / dataset_size
    event = module("dp_accounting.dp_event").MixtureOfGaussiansDpEvent(
        noise_multiplier, [0.0, 2.0], [1 - rate, rate]
    )
    return _pld_epsilon(event, steps, delta, interval)


def dp_accounting_replaced_epsilon(
    noise_multiplier: float, sample_rate: float, steps: int, delta: float, interval: float
) -> float:
    """Ask it about Poisson sampling where one record is replaced."""
    events = module("dp_accounting.dp_event")
    event = events.PoissonSampledDpEvent(sample_rate, events.GaussianDpEvent(noise_multiplier))
    return _pld_epsilon(event, steps, delta, interval, "REPLACE_ONE")


def _pld_epsilon(
    event: object, steps: int, delta: float, interval: float, relation: str = "ADD_OR_REMOVE_ONE"
) -> float:
    neighbours = module("dp_accounting").NeighboringRelation[relation]
    accountant = module("dp_accounting.pld").PLDAccountant(neighbours, value_discretization_interval=interval)
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))
