"""The ends of a privacy curve: epsilon where delta is zero, and delta where epsilon is infinite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hockeystick.curve import PrivacyCurve

if TYPE_CHECKING:
    from hockeystick.curve import StepKind

_ROUNDING = 1.0 + 1e-12
"""Makes up for the rounding of the logarithms and their sum."""


def pure_epsilon(curve: PrivacyCurve) -> float:
    """Upper bound on epsilon at delta zero: the largest privacy losses of all steps together."""
    return math.fsum(count * _largest_loss(kind) for kind, count in curve.segments) * _ROUNDING


def telling_delta(curve: PrivacyCurve) -> float:
    """Upper bound on delta at an infinite epsilon.

    Only steps without noise can give the group away for certain: those whose batch has a member. It is
    the advantage against them alone, as a batch without a member has no loss above zero when records
    are removed or replaced, and a finite one when they are added.
    """
    telling = {kind: count for kind, count in curve.segments if kind.noise == 0.0}
    return PrivacyCurve(telling, curve.adjacency, curve.tolerance).advantage()


def _largest_loss(kind: StepKind) -> float:
    """Largest privacy loss of one step in either direction.

    With Laplace noise that of a record that is removed and seen far out in its own direction; a group of
    a fixed batch is one record, or replaced as a whole.
    """
    if kind.mechanism == "randomized_response":
        return math.log(kind.noise / (1.0 - kind.noise))
    fixed = kind.sampling == "fixed_batch"
    rate = kind.batch_size / kind.dataset_size if fixed else kind.sample_rate
    if rate == 0.0:
        return 0.0
    if kind.mechanism == "gaussian":
        return math.inf
    distance = (2.0 if fixed else 1.0) / kind.noise
    # Beyond the range of an exponential the rate makes no difference.
    loss = distance if distance > 700.0 else math.log1p(rate * math.expm1(distance))
    return kind.group_size * loss
