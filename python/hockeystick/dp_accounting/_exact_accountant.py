"""The accountant that dp-accounting and what is built on it can use in place of their own."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import PrivacyCurve
from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    LARGEST_COUNT,
    LARGEST_GROUP,
    FloatOrFloats,
    count_scalar,
    float_array,
    float_scalar,
    in_shape,
    require,
    shown,
)
from hockeystick._extras import needed
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick.dp_accounting._known_curves import KnownCurve
from hockeystick.dp_accounting._pure import noiseless_delta, pure_epsilon
from hockeystick.dp_accounting._translation import NoPairError, Setting, translate
from hockeystick.tradeoff import TradeoffCurve

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
    mixture of Gaussians, randomised response, an (ε, δ) guarantee, the exponential mechanism and permute and
    flip are about one record.

    Mechanisms that are no noisy sums are known by their trade-off function (docs/theory/known-curves.md), to
    an absolute error of δ of some 1e-11.

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
    >>> accountant.group_size, accountant.tolerance, accountant.curve.steps
    (2, 1e-06, 1000)
    >>> accountant.get_delta(3.98) < 1e-5
    True
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
        self._curves: dict[KnownCurve, int] = {}
        self._composed: PrivacyCurve | None = None
        self._product: TradeoffCurve | None = None
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
    def curve(self) -> PrivacyCurve | TradeoffCurve:
        """Curve of all events so far, for more questions than epsilon and delta.

        A `TradeoffCurve` if some of them are no noisy sums.

        Raises
        ------
        ValueError
            If an event was not private at all.
        """
        if self._non_private:
            raise ValueError("there is no privacy curve: an event was not private at all")
        return self._whole

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
        if delta == 1.0 or not (self._curve.steps or self._curves):
            return 0.0
        if delta > 0.0:
            return float(self._whole.epsilon(delta))
        of_sums = pure_epsilon(self._curve) if self._curve.steps else 0.0
        return math.fsum([of_sums, *(count * known.largest_loss for known, count in self._curves.items())])

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
        if epsilon < math.inf:
            return float(self._whole.delta(epsilon))
        lost = noiseless_delta(self._curve)
        for known, count in self._curves.items():
            lost += (1.0 - lost) * -math.expm1(count * math.log1p(-min(known.infinite_loss, 1.0 - 2.0**-53)))
        return min(1.0, lost * (1.0 + 1e-12))

    def get_true_positive_rates(
        self, false_positive_rates: ArrayLike, deltas: ArrayLike | None = None
    ) -> FloatOrFloats:
        """Upper bound on the true positive rate of attacks, as ``PLDAccountant`` has it in later releases.

        Parameters
        ----------
        false_positive_rates : array_like
            In [0, 1].
        deltas : array_like, optional
            Has no effect: the bound is that of the whole curve.

        Returns
        -------
        float or ndarray, shape of `false_positive_rates`
            How often an attack finds a group that took part, at most.

        Raises
        ------
        ValueError
            If a rate is out of range.
        TypeError
            If a rate is not real.

        Examples
        --------
        >>> import dp_accounting
        >>> from hockeystick.dp_accounting import ExactAccountant
        >>> accountant = ExactAccountant().compose(dp_accounting.GaussianDpEvent(2.0))
        >>> print(f"{accountant.get_true_positive_rates(0.01):.4f}")
        0.0339
        """
        rates = float_array(false_positive_rates, "false_positive_rates")
        for rate in rates.ravel().tolist():
            require(0.0 <= rate <= 1.0, "false_positive_rates", rate, "in [0, 1]")
        if self._non_private:
            return in_shape(0.0 * rates.ravel() + 1.0, rates.shape)
        return in_shape(1.0 - np.asarray(self._tradeoff.beta(rates.ravel())), rates.shape)

    def get_gdp_parameter_estimate(
        self, false_positive_rates: ArrayLike | None = None, deltas: ArrayLike | None = None
    ) -> float:
        """Upper bound on μ of Gaussian differential privacy: all events together are μ-GDP.

        Parameters
        ----------
        false_positive_rates, deltas : array_like, optional
            Have no effect. ``PLDAccountant`` of later releases returns an estimate on a grid of these, which
            is neither an upper nor a lower bound; this is a bound on the whole curve.

        Returns
        -------
        float
            μ; inf where a loss is infinite, or larger than that of any Gaussian noise.

        Examples
        --------
        >>> import dp_accounting
        >>> from hockeystick.dp_accounting import ExactAccountant
        >>> accountant = ExactAccountant().compose(dp_accounting.GaussianDpEvent(2.0), 16)
        >>> round(accountant.get_gdp_parameter_estimate(), 6)
        2.0
        """
        if self._non_private or any(known.infinite_loss > 0.0 for known in self._curves):
            return math.inf
        if not (self._curve.steps or self._curves):
            return 0.0
        return self._tradeoff.mu()

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
        curves = {
            known: self._curves.get(known, 0) + times * repeated for known, times in found.curves.items()
        }
        most = max([*totals.values(), *curves.values()], default=0)
        require(most <= LARGEST_COUNT, "steps", most, f"at most {LARGEST_COUNT} of one kind")
        if do_compose:
            # In place: a copy for every event of a schedule would take the square of their number.
            self._steps.update(totals)
            self._curves.update({known: times for known, times in curves.items() if times})
            self._composed = self._product = None
            self._non_private |= found.non_private
        return None

    @property
    def _curve(self) -> PrivacyCurve:
        if self._composed is None:
            self._composed = PrivacyCurve(self._steps.copy(), self._setting.adjacency, self._tolerance)
        return self._composed

    @property
    def _whole(self) -> PrivacyCurve | TradeoffCurve:
        """Curve of all events: that of noisy sums alone is a `PrivacyCurve`."""
        return self._tradeoff if self._curves else self._curve

    @property
    def _tradeoff(self) -> TradeoffCurve:
        """Trade-off function of all events, in an order that is not that of their arrival."""
        if self._product is None:
            parts = sorted(self._curves.items(), key=lambda part: (repr(part[0].curve), part[0].largest_loss))
            factors = [TradeoffCurve.from_curve(self._curve)] if self._curve.steps or not parts else []
            factors += [known.curve * count for known, count in parts]
            self._product = functools.reduce(TradeoffCurve.compose, factors)
        return self._product
