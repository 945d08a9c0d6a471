"""Auditing: how much a run has been seen to leak, with a confidence bound, to compare with what it reports.

- `insert_canaries`: training data with records, or groups of copies, that an attacker looks for.
- `epsilon_lower_bound`: from an attack on many runs, half of them with the canaries.
- `refutes`, `noise_multiplier_upper_bound`: the same by a trade-off function, which takes far fewer runs.
- `one_run_epsilon_lower_bound`: from guesses about many canaries in a single run.
- `clopper_pearson`: the exact interval of a probability that all of them build upon.

An audit finds errors: a lower bound above the reported epsilon shows that the training or the accounting is
wrong. It never shows that they are right.
"""

from hockeystick.auditing._canaries import insert_canaries
from hockeystick.auditing._error_rates import (
    epsilon_lower_bound,
    noise_multiplier_upper_bound,
    refutes,
)
from hockeystick.auditing._one_run import one_run_epsilon_lower_bound
from hockeystick.auditing._proportions import clopper_pearson

__all__ = [
    "clopper_pearson",
    "epsilon_lower_bound",
    "insert_canaries",
    "noise_multiplier_upper_bound",
    "one_run_epsilon_lower_bound",
    "refutes",
]


def __dir__() -> list[str]:
    return list(__all__)
