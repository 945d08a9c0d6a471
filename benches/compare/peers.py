"""Other libraries' answers to the same questions: epsilon of a run, and the noise that meets a target.

Each call builds its accountant anew. Imports are not timed: the first call, which makes them, counts as cold.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import comb
from typing import Any

MIXTURE_INTERVAL = 1e-3
"""dp_accounting's spacing of the mixture's loss; at its default of 1e-4 a group of 16 takes minutes."""


@dataclass(frozen=True)
class Run:
    """One run of DP-SGD and the delta it is asked about."""

    name: str
    noise_multiplier: float
    sample_rate: float
    steps: int
    group_size: int = 1
    delta: float = 1e-5

    @property
    def parameters(self) -> str:
        """What is run, in one line."""
        return (
            f"σ {self.noise_multiplier:g}, q {self.sample_rate:g}, T {self.steps:,}, k {self.group_size}, "
            f"δ {self.delta:g}"
        )


def opacus_epsilon(run: Run) -> float:
    """Opacus's PRV accountant, error 0.01 in epsilon; one record."""
    accountant = importlib.import_module("opacus.accountants").PRVAccountant()
    accountant.history = [(run.noise_multiplier, run.sample_rate, run.steps)]
    return float(accountant.get_epsilon(delta=run.delta))


def opacus_noise_multiplier(run: Run, epsilon: float) -> float:
    """Opacus's search with its PRV accountant; one record."""
    search = importlib.import_module("opacus.accountants.utils").get_noise_multiplier
    return float(
        search(
            target_epsilon=epsilon,
            target_delta=run.delta,
            sample_rate=run.sample_rate,
            steps=run.steps,
            accountant="prv",
        )
    )


def dp_accounting_epsilon(run: Run) -> float:
    """dp_accounting's PLD accountant at its default spacing of 1e-4; one record."""
    events: Any = importlib.import_module("dp_accounting.dp_event")
    pld: Any = importlib.import_module("dp_accounting.pld")
    accountant = pld.PLDAccountant()
    step = events.PoissonSampledDpEvent(run.sample_rate, events.GaussianDpEvent(run.noise_multiplier))
    accountant.compose(step, run.steps)
    return float(accountant.get_epsilon(run.delta))


def dp_accounting_mixture_epsilon(run: Run) -> float:
    """dp_accounting's PLD accountant on the mixture of Gaussians of a group."""
    events: Any = importlib.import_module("dp_accounting.dp_event")
    pld: Any = importlib.import_module("dp_accounting.pld")
    size, rate = run.group_size, run.sample_rate
    weights = [comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    accountant = pld.PLDAccountant(value_discretization_interval=MIXTURE_INTERVAL)
    step = events.MixtureOfGaussiansDpEvent(run.noise_multiplier, list(range(size + 1)), weights)
    accountant.compose(step, run.steps)
    return float(accountant.get_epsilon(run.delta))


@dataclass(frozen=True)
class Peer:
    """A library's way to epsilon."""

    package: str
    name: str
    epsilon: Callable[[Run], float]


OPACUS = Peer("opacus", "Opacus PRV", opacus_epsilon)
DP_ACCOUNTING = Peer("dp-accounting", "dp_accounting PLD", dp_accounting_epsilon)
DP_ACCOUNTING_MIXTURE = Peer(
    "dp-accounting",
    f"dp_accounting mixture PLD, interval {MIXTURE_INTERVAL:g}",
    dp_accounting_mixture_epsilon,
)

PACKAGES = ("opacus", "dp-accounting")


def installed_version(package: str) -> str | None:
    """Version of a peer, or None where it is not installed; does not import it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
