"""The accountant that dp-accounting and what is built on it can use in place of their own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hockeystick._arguments import LARGEST_COUNT, LARGEST_GROUP, count_scalar, float_scalar, require, shown
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._extras import needed
from hockeystick._vocabulary.intervals import DEFAULT_TOLERANCE, check_tolerance
from hockeystick.dp_accounting.pure import noiseless_delta, pure_epsilon
from hockeystick.dp_accounting.translation import NoPairError, Setting, translate

if TYPE_CHECKING:
    from hockeystick._vocabulary.step_kinds import StepKind

_peer = needed("dp_accounting", "dp-accounting")
PrivacyAccountant: Any = _peer.PrivacyAccountant
_Relation = _peer.NeighboringRelation

_ADJACENCIES = {
    _Relation.ADD_OR_REMOVE_ONE: "add_remove",
    _Relation.REPLACE_ONE: "replace",
    # To a sum, a record of value zero is one that is not there.
    _Relation.REPLACE_SPECIAL: "add_remove",
}


class ExactAccountant(PrivacyAccountant):
    """Privacy of composed events for a group of records, by the exact privacy curve.

    A ``dp_accounting.PrivacyAccountant``: what takes one takes this one. Answers are upper bounds, the
    safe ends of certified intervals.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation, optional
        ADD_OR_REMOVE_ONE, REPLACE_ONE or REPLACE_SPECIAL (a record is replaced by one of value zero).
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    tolerance : float, optional
        Relative width of the certified intervals to aim at, in [1e-9, 0.1].

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Noise multipliers are in units of the largest norm of one record, as the events say: under
    REPLACE_ONE a sum moves by up to twice that. ``source_dataset_size`` of a
    ``SampledWithoutReplacementDpEvent`` counts the records at hand; the same number serves where
    records join them, as they only make every batch a smaller part of the data.

    Groups take an event as what happens to all records alike, which is for the caller to know: an event
    that sums up what one record comes to see, as that of cyclic sampling, says nothing about groups. A
    mixture of Gaussians and randomised response are about one record.

    Pairs: GROUP, Theorem 18; PITFALLS, Propositions 9 and 13 and
    Theorem 14.
    An event without a proven pair makes ``compose`` raise ``UnsupportedEventError``, a parameter out of
    range ``ValueError``; either way the accountant stays as it was.

    References
    ----------
    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    C. J. Lebeda, M. Regehr, G. Kamath and T. Steinke, "Avoiding Pitfalls for Privacy Accounting of Subsampled
    Mechanisms under Composition" (PITFALLS), 2024. arXiv:2405.20769

    Examples
    --------
    >>> import dp_accounting
    >>> from hockeystick.dp_accounting import ExactAccountant
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> accountant = ExactAccountant(group_size=2).compose(step, 1000)
    >>> round(accountant.get_epsilon(1e-5), 4)
    3.9791
    >>> accountant.ledger.count
    1000
    """

    def __init__(
        self,
        neighboring_relation: Any = _Relation.ADD_OR_REMOVE_ONE,
        group_size: int = 1,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        if not isinstance(neighboring_relation, _Relation):
            raise TypeError(
                "neighboring_relation must be a dp_accounting.NeighboringRelation, "
                f"got {shown(neighboring_relation)}"
            )
        super().__init__(neighboring_relation)
        self._setting = Setting(
            _ADJACENCIES[neighboring_relation],
            neighboring_relation is _Relation.REPLACE_SPECIAL,
            count_scalar(group_size, "group_size", 1, LARGEST_GROUP),
        )
        self._tolerance = check_tolerance(tolerance)
        self._steps: dict[StepKind, int] = {}
        self._composed: PrivacyCurve | None = None
        self._non_private = False

    @property
    def group_size(self) -> int:
        """Number of records that change together."""
        return self._setting.group_size

    @property
    def tolerance(self) -> float:
        """Relative width of the certified intervals to aim at."""
        return self._tolerance

    @property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of all events so far, for more questions than epsilon and delta.

        Raises
        ------
        ValueError
            If an event was not private at all.
        """
        if self._non_private:
            raise ValueError("there is no privacy curve: an event was not private at all")
        return self._curve

    def get_epsilon(self, target_delta: float) -> float:
        """Upper bound on epsilon.

        Parameters
        ----------
        target_delta : float
            In [0, 1].

        Returns
        -------
        float
            Epsilon; inf where no noise protects, and at delta 0 with Gaussian noise.

        Raises
        ------
        ValueError
            If `target_delta` is out of range.
        TypeError
            If `target_delta` is not a real number.

        Warns
        -----
        WideIntervalWarning
            If an interval wider than the tolerance had to be used.
        """
        delta = float_scalar(target_delta, "target_delta")
        require(0.0 <= delta <= 1.0, "target_delta", delta, "in [0, 1]")
        if self._non_private:
            return math.inf
        if delta == 1.0 or not self._curve.steps:
            return 0.0
        return pure_epsilon(self._curve) if delta == 0.0 else float(self._curve.epsilon(delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Upper bound on delta.

        Parameters
        ----------
        target_epsilon : float
            At least zero, perhaps inf.

        Returns
        -------
        float
            Delta in [0, 1].

        Raises
        ------
        ValueError
            If `target_epsilon` is out of range.
        TypeError
            If `target_epsilon` is not a real number.

        Warns
        -----
        WideIntervalWarning
            If an interval wider than the tolerance had to be used.
        """
        epsilon = float_scalar(target_epsilon, "target_epsilon")
        require(epsilon >= 0.0, "target_epsilon", epsilon, "at least 0")
        if self._non_private:
            return 1.0
        return float(self._curve.delta(epsilon)) if epsilon < math.inf else noiseless_delta(self._curve)

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Compose `event`, or say why that cannot be done; as the base class asks."""
        repeated = count_scalar(count, "count", 0)
        try:
            found = translate(event, self._setting)
        except NoPairError as refusal:
            invalid_event, reason = refusal.args
            return self.CompositionErrorDetails(invalid_event, reason)
        # Made before anything is kept: it refuses too many steps.
        added = PrivacyCurve(found.steps, self._setting.adjacency, self._tolerance) * repeated
        totals = {kind: self._steps.get(kind, 0) + steps for kind, steps in added.segments}
        most = max(totals.values(), default=0)
        require(most <= LARGEST_COUNT, "steps", most, f"at most {LARGEST_COUNT} of one kind")
        if do_compose:
            # In place: a copy for every event of a schedule would take the square of their number.
            self._steps.update(totals)
            self._composed = None
            self._non_private |= found.non_private
        return None

    @property
    def _curve(self) -> PrivacyCurve:
        if self._composed is None:
            self._composed = PrivacyCurve(self._steps.copy(), self._setting.adjacency, self._tolerance)
        return self._composed
