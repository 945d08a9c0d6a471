"""The guarantee of a run whose epsilon at one delta an independent checker has proven."""

from __future__ import annotations

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._guarantees.guarantee import Bounds, ExactGuarantee, Guarantee
from hockeystick._guarantees.recorded_run import RecordedRun


class ProvenGuarantee(ExactGuarantee):
    """An exact guarantee that answers with what is proven at one delta, and as before elsewhere.

    Parameters
    ----------
    exact : ExactGuarantee
        The guarantee of the run.
    delta : float
        Where epsilon is proven.
    ends : (float or None, float)
        The proven interval of epsilon; None if an upper end alone is proven.
    """

    run: RecordedRun

    def __init__(self, exact: ExactGuarantee, delta: float, ends: tuple[float | None, float]) -> None:
        super().__init__(exact.known_run("a certificate"), exact.curve, in_order=exact.in_order)
        self._at, self.ends = delta, ends

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon; no lower ones where an upper end alone is proven."""
        lower, upper = super().epsilons(deltas)
        at, (least, most) = deltas == self._at, self.ends
        upper = np.where(at, most, upper)
        if lower is None or (least is None and np.any(at)):
            return None, upper
        return np.where(at, 0.0 if least is None else least, lower), upper

    def proven(self, delta: float) -> float | None:
        """Return the epsilon that is proven at `delta`, if it is."""
        return self.ends[1] if delta == self._at else None

    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size, of which nothing is proven."""
        return self if size == self.group_size else super().for_group(size)

    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run, of which nothing is proven unless they are all."""
        return self if steps == self.run.steps else super().until(steps)
