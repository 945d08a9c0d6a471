"""The core's trade-off function of a curve."""

from __future__ import annotations

from hockeystick import _core
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick.errors import UnsupportedError


def core_of_curve(curve: PrivacyCurve | ShuffledCurve) -> _core.TradeoffCurve:
    """Return the trade-off function of a run, over both orders of its dominating pair."""
    if isinstance(curve, ShuffledCurve):
        return curve.compiled()
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"privacy_curve must be a PrivacyCurve, got {type(curve).__name__}")
    for kind, _ in curve.segments:
        if isinstance(kind.draw, RandomAllocation | FixedBins):
            raise UnsupportedError(
                f"{kind.draw!r} is one release an epoch, or a run, and no step that a trade-off function "
                f"is composed of: ask privacy_curve.beta(alpha), or add curves"
            )
    adjacency = "replace" if curve.adjacency == "replace" else "add_remove"
    return _core.TradeoffCurve.of_steps(curve.core_segments(), adjacency)
