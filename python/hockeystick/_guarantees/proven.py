"""The guarantee of a run whose epsilon at one delta an independent checker has proven."""

from __future__ import annotations

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._guarantees.guarantee import Bounds, ExactGuarantee, Guarantee, ShuffledGuarantee
from hockeystick._guarantees.recorded_run import RecordedRun


class ProvenEnds(Guarantee):
    """A guarantee that answers with what is proven at one delta, and as before elsewhere."""

    run: RecordedRun
    ends: tuple[float | None, float]
    _before: Guarantee
    _at: float

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon; no lower ones where an upper end alone is proven."""
        lower, upper = self._before.epsilons(deltas)
        at, (least, most) = deltas == self._at, self.ends
        upper = np.where(at, most, upper)
        if lower is None or (least is None and np.any(at)):
            return None, upper
        return np.where(at, 0.0 if least is None else least, lower), upper

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon."""
        known = self.proven(delta)
        return self._before.epsilon(delta) if known is None else known

    def proven(self, delta: float) -> float | None:
        """Return the epsilon that is proven at `delta`, if it is."""
        return self.ends[1] if delta == self._at else None

    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size, of which nothing is proven."""
        return self if size == self.group_size else self._before.for_group(size)

    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run, of which nothing is proven unless they are all."""
        return self if steps == self.run.steps else self._before.until(steps)


class ProvenGuarantee(ProvenEnds, ExactGuarantee):
    """An exact guarantee whose epsilon at one delta is proven.

    Parameters
    ----------
    exact : ExactGuarantee
        The guarantee of the run.
    delta : float
        Where epsilon is proven.
    ends : (float or None, float)
        The proven interval of epsilon; None if an upper end alone is proven.
    """

    def __init__(self, exact: ExactGuarantee, delta: float, ends: tuple[float | None, float]) -> None:
        ExactGuarantee.__init__(self, exact.known_run("a certificate"), exact.curve, in_order=exact.in_order)
        self._before, self._at, self.ends = exact, delta, ends


class ProvenInterval(ProvenEnds, ShuffledGuarantee):
    """The interval of shuffled batches whose ends at one delta are proven.

    Parameters
    ----------
    shuffled : ShuffledGuarantee
        The guarantee of the run.
    delta : float
        Where epsilon is proven.
    ends : (float or None, float)
        The proven interval of epsilon; None if an upper end alone is proven.
    """

    def __init__(self, shuffled: ShuffledGuarantee, delta: float, ends: tuple[float | None, float]) -> None:
        ShuffledGuarantee.__init__(self, shuffled.curve)
        self._before, self._at, self.ends = shuffled, delta, ends
