"""What adaptors to training libraries, pictures and reports ask of accountants, and users need not.

Everything else in `hockeystick.accountants`, other than its public classes, is private to that package.
"""

from __future__ import annotations

from typing import Any

from hockeystick._vocabulary.sampling import Sampling, Shuffle
from hockeystick.accountants._accumulation import batches_of, in_equal_parts, whole_in_every_batch
from hockeystick.accountants._adaptive_clipping import ADVICE, PROBLEM, adapts_clipping, noise_of
from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._history import AnySegment, Draw, check_draw, check_history, merged
from hockeystick.accountants._individual.accountant import IndividualAccountant
from hockeystick.accountants._individual.accounts import of_single_batches, shifts_of
from hockeystick.accountants._individual.norms import check_norms, quotients_rounded_up
from hockeystick.accountants._individual.recording import record_steps
from hockeystick.accountants._individual.state import DEFAULT_ORDERS, check_max_grad_norm
from hockeystick.accountants._interface import Accountant, Optimizer
from hockeystick.accountants._refreshing import NormAccountant, NormRefresher
from hockeystick.accountants._renyi import check_orders
from hockeystick.accountants._state import check_keys, segments_from_json
from hockeystick.accountants._state_limits import MAX_BYTES, MAX_PARTS, check_limits, refusals

__all__ = [
    "ADVICE",
    "DEFAULT_ORDERS",
    "MAX_BYTES",
    "MAX_PARTS",
    "PROBLEM",
    "AnySegment",
    "Draw",
    "NormAccountant",
    "NormRefresher",
    "Optimizer",
    "adapts_clipping",
    "batches_of",
    "check_draw",
    "check_history",
    "check_keys",
    "check_limits",
    "check_max_grad_norm",
    "check_norms",
    "check_orders",
    "class_of",
    "in_equal_parts",
    "load_checked",
    "merged",
    "noise_of",
    "of_single_batches",
    "quotients_rounded_up",
    "record",
    "record_accumulated",
    "record_equal_steps",
    "refusals",
    "require_pair",
    "segments_from_json",
    "shifts_of",
    "whole_in_every_batch",
]


def record(accountant: Accountant, noise_multiplier: float, draw: Draw) -> None:
    """Record one step; where no account is known for `draw`, questions will be refused.

    Raises
    ------
    UnsupportedError
        If the accountant has no pair for such batches; it stays as it was.
    """
    accountant._record(noise_multiplier, draw)


def record_accumulated(
    accountant: Accountant, noise_multiplier: float, sample_rate: float, batches: int
) -> None:
    """Record one step after several Poisson batches, each drawn at `sample_rate`."""
    accountant._accumulated(noise_multiplier, sample_rate, batches)


def record_equal_steps(
    accountant: IndividualAccountant, noise_multiplier: float, draw: float | Sampling, count: int
) -> None:
    """Record `count` checked steps with the norms of the moment, in the time of one."""
    record_steps(accountant._state, noise_multiplier, draw, count)


def class_of(accountant: Any) -> type[Any]:
    """Return the class of an accountant, without what its registration with Opacus adds."""
    kind = type(accountant)
    template = getattr(kind, "_template", None)
    return kind if template is None else type(template)


def load_checked(accountant: Any, state: Any) -> None:
    """Load a state into an accountant or filter, once `state_limits` has found that it is not too large.

    Raises
    ------
    ValueError
        If the state is damaged or of another accountant, which stays as it was.
    TypeError
        If a part of it has the wrong type.
    """
    accountant._take_state(state)


def require_pair(accountant: Any, draw: float | Sampling | Shuffle) -> None:
    """Raise ``UnsupportedError`` if a `GroupAccountant` has no pair for batches drawn like this."""
    if isinstance(accountant, GroupAccountant):
        accountant._require_pair(1.0, draw, [])
