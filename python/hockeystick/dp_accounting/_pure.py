"""The ends of a privacy curve: epsilon where delta is zero, and delta where epsilon is infinite."""

from __future__ import annotations

from hockeystick import PrivacyCurve, _core


def pure_epsilon(curve: PrivacyCurve) -> float:
    """Upper bound on epsilon at delta zero: the largest privacy losses of all steps together.

    It is the sum itself where that is a number, as for Laplace noise of scale 1 without sampling.
    """
    return _core.Composition(curve.core_segments(), curve.adjacency, curve.tolerance).max_loss()


def noiseless_delta(curve: PrivacyCurve) -> float:
    """Upper bound on delta at an infinite epsilon.

    Only steps without noise can give the group away for certain: those whose batch has a member. It is
    the advantage against them alone, as a batch without a member has no loss above zero when records
    are removed or replaced, and a finite one when they are added.
    """
    noiseless = {kind: count for kind, count in curve.segments if kind.noise == 0.0}
    return PrivacyCurve(noiseless, curve.adjacency, curve.tolerance).advantage()
