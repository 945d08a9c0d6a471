"""Accountants that follow a training run step by step, with the interface of Opacus's `IAccountant`."""

from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.individual import IndividualAccountant
from hockeystick.accountants.individual.filter import IndividualFilter
from hockeystick.accountants.interface import Accountant
from hockeystick.accountants.monte_carlo import MonteCarloAccountant
from hockeystick.accountants.renyi import RenyiGroupAccountant
from hockeystick.accountants.shuffle import ShuffleAccountant

__all__ = [
    "Accountant",
    "GroupAccountant",
    "IndividualAccountant",
    "IndividualFilter",
    "MonteCarloAccountant",
    "RenyiGroupAccountant",
    "ShuffleAccountant",
]


def __dir__() -> list[str]:
    return list(__all__)
