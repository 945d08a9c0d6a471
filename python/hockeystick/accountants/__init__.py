"""Accountants that follow a training run step by step, with the interface of Opacus's `IAccountant`."""

from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._individual import IndividualAccountant
from hockeystick.accountants._individual.filter import IndividualFilter
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._monte_carlo import MonteCarloAccountant
from hockeystick.accountants._renyi import RenyiGroupAccountant
from hockeystick.accountants._shuffle import ShuffleAccountant

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
