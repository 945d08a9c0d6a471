"""One interface to every kind of guarantee that pictures and reports are made of."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._curves.bins_curve import BinsCurve
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.expression import answers_at_once
from hockeystick._curves.making import privacy_curve
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._guarantees.attacks import SMALL_DELTA, Attacks, error_rates
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick._vocabulary.run import Run
from hockeystick.accountants import (
    Accountant,
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    ShuffleAccountant,
)
from hockeystick.errors import OptimalOrderWarning, UnsupportedError, WideIntervalWarning
from hockeystick.tradeoff import TradeoffCurve

Bounds = tuple[Floats | None, Floats]
"""Lower bounds, None where only upper bounds are known, and upper bounds."""

ATTACK_TOLERANCE = 1e-4
"""Relative width of the intervals behind error rates of attacks, which are shown in three digits."""


MAX_LOWER_ENDS = 4
"""Most questions about shuffled batches that are answered by a lower end too; one takes up to a second."""


class Guarantee(ABC):
    """A guarantee, however it is known. Lower ends are None where only a bound from above is known."""

    run: RecordedRun | None = None
    """The steps, where a history of them is known."""
    group_size: int = 1
    in_order: bool = True
    """Whether the steps of `run` stand in the order in which they were made."""

    @abstractmethod
    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon."""

    @abstractmethod
    def deltas(self, epsilons: Floats) -> Bounds:
        """Bounds on delta."""

    @abstractmethod
    def attacks(self) -> Attacks:
        """Return what attacks can do."""

    @abstractmethod
    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size."""

    @abstractmethod
    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run."""

    def quick(self) -> Guarantee:
        """Return the guarantee that answers many questions: itself, unless that takes long."""
        return self

    def advantage(self) -> float:
        """Upper bound on the advantage of attacks, which is the same in both directions."""
        return float(self.deltas(np.array([0.0]))[1][0])

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon."""
        return float(self.epsilons(np.array([delta]))[1][0])

    def proven(self, delta: float) -> float | None:
        """Return the epsilon that an independent checker has proven at `delta`, if it has."""
        return None

    def known_run(self, what: str) -> RecordedRun:
        """Return the steps; `what` says in an error message what needs them."""
        if self.run is None:
            raise UnsupportedError(
                f"{what} needs the steps of the run, which a TradeoffCurve does not have: "
                "use a PrivacyCurve or an accountant"
            )
        return self.run


class ExactGuarantee(Guarantee):
    """A run with its exact curve."""

    def __init__(self, run: RecordedRun, curve: PrivacyCurve | None = None, *, in_order: bool = True) -> None:
        self.run, self.group_size, self.in_order = run, run.group_size, in_order
        self.curve = run.curve() if curve is None else curve
        self._attacks: Attacks | None = None

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon."""
        lower, upper = self.curve.bounds(delta=deltas)
        return np.asarray(lower), np.asarray(upper)

    def deltas(self, epsilons: Floats) -> Bounds:
        """Bounds on delta."""
        lower, upper = self.curve.bounds(epsilon=epsilons)
        return np.asarray(lower), np.asarray(upper)

    def attacks(self) -> Attacks:
        """Return what attacks can do, in both orders of the dominating pair."""
        if self._attacks is None:
            run = self.known_run("this")
            both = "replace" if run.adjacency == "replace" else "add_remove"
            rough = replace(run, adjacency=both, tolerance=max(run.tolerance, ATTACK_TOLERANCE)).curve()
            largest = float(rough.epsilon(SMALL_DELTA))
            self._attacks = error_rates(lambda epsilons: np.asarray(rough.delta(epsilons)), largest)
        return self._attacks

    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size."""
        return ExactGuarantee(self.known_run("this").for_group(size), in_order=self.in_order)

    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run."""
        return ExactGuarantee(self.known_run("this").until(steps), in_order=self.in_order)


class ShuffledGuarantee(Guarantee):
    """A run with shuffled batches, of which an interval is known; lower ends for few questions at a time."""

    def __init__(self, curve: ShuffledCurve) -> None:
        self.curve, self.group_size = curve, curve.group_size
        # A history may have such steps, too.
        segments: Any = tuple((noise, curve.sampling, count) for noise, count in curve.segments)
        self.run = RecordedRun(segments, curve.group_size, None, curve.adjacency, curve.tolerance)

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon."""
        if deltas.size > MAX_LOWER_ENDS:
            return None, np.asarray(self.curve.epsilon(deltas))
        lower, upper = self.curve.bounds(delta=deltas)
        return np.asarray(lower), np.asarray(upper)

    def deltas(self, epsilons: Floats) -> Bounds:
        """Bounds on delta."""
        if epsilons.size > MAX_LOWER_ENDS:
            return None, np.asarray(self.curve.delta(epsilons))
        lower, upper = self.curve.bounds(epsilon=epsilons)
        return np.asarray(lower), np.asarray(upper)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon."""
        return float(self.curve.epsilon(delta))

    def advantage(self) -> float:
        """Upper bound on the advantage of attacks."""
        return self.curve.advantage()

    def attacks(self) -> Attacks:
        """Return what attacks can do; the guarantee is the same in both directions."""
        largest = float(self.curve.epsilon(SMALL_DELTA))
        return error_rates(lambda epsilons: np.asarray(self.curve.delta(epsilons)), largest)

    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size."""
        return self._with(self.curve.segments, size)

    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run."""
        run: Any = self.known_run("this").until(steps).segments
        return self._with(tuple((noise, count) for noise, _, count in run), self.group_size)

    def _with(self, segments: tuple[tuple[float, int], ...], group_size: int) -> Guarantee:
        curve = self.curve
        return ShuffledGuarantee(
            ShuffledCurve(curve.sampling, segments, group_size, curve.adjacency, curve.tolerance)
        )


class TradeoffGuarantee(Guarantee):
    """A trade-off function, of which the steps are not known."""

    def __init__(self, curve: TradeoffCurve) -> None:
        self._curve = curve

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon."""
        lower, upper = self._curve.bounds(delta=deltas)
        return np.asarray(lower), np.asarray(upper)

    def deltas(self, epsilons: Floats) -> Bounds:
        """Bounds on delta."""
        lower, upper = self._curve.bounds(epsilon=epsilons)
        return np.asarray(lower), np.asarray(upper)

    def attacks(self) -> Attacks:
        """Return what attacks can do."""
        if not self._curve.is_symmetric or not answers_at_once(self._curve._recipe):
            return Attacks(lambda rates: np.asarray(self._curve(rates)), self._curve.advantage())
        largest = float(self._curve.epsilon(SMALL_DELTA))
        return error_rates(lambda epsilons: np.asarray(self._curve.delta(epsilons)), largest)

    def for_group(self, size: int) -> Guarantee:
        """Return what the curve implies for `size` times as many records."""
        return self if size == 1 else TradeoffGuarantee(self._curve.group(size))

    def until(self, steps: int) -> Guarantee:
        """Refuse: steps are not known."""
        raise UnsupportedError("a TradeoffCurve does not know steps: use an accountant")


class AccountantGuarantee(Guarantee):
    """An accountant with answers of its own, which are asked one by one."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self.description = accountant.description
        self.group_size = accountant.group_size
        self.run = RecordedRun(tuple(accountant.history), accountant.group_size, None, accountant.adjacency)

    def epsilons(self, deltas: Floats) -> Bounds:
        """Bounds on epsilon."""
        return None, np.array([self._accountant.get_epsilon(delta) for delta in deltas.tolist()])

    def deltas(self, epsilons: Floats) -> Bounds:
        """Bounds on delta."""
        return None, np.array([self._accountant.get_delta(epsilon) for epsilon in epsilons.tolist()])

    def quick(self) -> Guarantee:
        """Return the exact curve of the same steps in place of simulation."""
        if isinstance(self._accountant, MonteCarloAccountant):
            return ExactGuarantee(self.known_run("this"))
        return self

    def attacks(self) -> Attacks:
        """Return what attacks can do, by the exact curve of the steps or of shuffled batches."""
        if isinstance(self._accountant, ShuffleAccountant):
            return TradeoffGuarantee(self._accountant.tradeoff_curve()).attacks()
        return ExactGuarantee(self.known_run("this")).attacks()

    def advantage(self) -> float:
        """Upper bound on the advantage of attacks, by the same curve."""
        if isinstance(self._accountant, ShuffleAccountant):
            return super().advantage()
        return ExactGuarantee(self.known_run("this")).advantage()

    def for_group(self, size: int) -> Guarantee:
        """Return the same run for a group of another size; by the exact curve in place of simulation."""
        if size == self.group_size:
            return self
        if (exact := self.quick()) is not self:
            return exact.for_group(size)
        return self._like(self._accountant.history, group_size=size)

    def until(self, steps: int) -> Guarantee:
        """Return the first steps of the run; by the exact curve in place of simulation."""
        if (exact := self.quick()) is not self:
            return exact.until(steps)
        return self._like(list(self.known_run("this").until(steps).segments))

    def _like(self, history: list[Any], **settings: Any) -> Guarantee:
        present = self._accountant.state_dict()["settings"]
        accountant = type(self._accountant)(**{**present, **settings})
        accountant.history = history
        return AccountantGuarantee(accountant)


_NO_STEPS = (
    "reports and pictures show a run step by step and under other ways to draw batches, and a run with "
    "random bins under correlated noise has no account of a step: state epsilon and delta of its BinsCurve, "
    "or show that of FixedOrder(batches), which is an upper bound that uses no draw"
)


def guarantee_of(curve_or_accountant: object, arguments: dict[str, Any] | None = None) -> Guarantee:
    """Return what a function was asked about: an object, or the arguments of `privacy_curve`.

    Raises
    ------
    TypeError
        If both or neither are given, or the object is of another type.
    UnsupportedError
        For random bins under correlated noise.
    """
    if curve_or_accountant is None:
        if not arguments:
            raise TypeError("give a curve or an accountant, or the arguments of privacy_curve")
        return guarantee_of(privacy_curve(**arguments))
    if arguments:
        raise TypeError(f"give either a curve or an accountant, or {', '.join(arguments)}")
    if isinstance(curve_or_accountant, Guarantee):
        return curve_or_accountant
    if isinstance(curve_or_accountant, Run):
        return guarantee_of(privacy_curve(curve_or_accountant))
    if isinstance(curve_or_accountant, PrivacyCurve):
        run = RecordedRun.of_curve(curve_or_accountant)
        return ExactGuarantee(run, curve_or_accountant, in_order=len(run.segments) <= 1)
    if isinstance(curve_or_accountant, ShuffledCurve):
        return ShuffledGuarantee(curve_or_accountant)
    if isinstance(curve_or_accountant, BinsCurve):
        raise UnsupportedError(_NO_STEPS)
    if isinstance(curve_or_accountant, TradeoffCurve):
        return TradeoffGuarantee(curve_or_accountant)
    if isinstance(curve_or_accountant, IndividualAccountant):
        # What holds for every example whatever its norms: nothing of the examples' own epsilons.
        return ExactGuarantee(RecordedRun(tuple(curve_or_accountant.history)))
    if isinstance(curve_or_accountant, GroupAccountant):
        accountant = curve_or_accountant
        curve = accountant.privacy_curve()
        if isinstance(curve, ShuffledCurve):
            return ShuffledGuarantee(curve)
        if isinstance(curve, BinsCurve):
            raise UnsupportedError(_NO_STEPS)
        run = RecordedRun(
            tuple(accountant.history),
            accountant.group_size,
            accountant.group,
            accountant.adjacency,
            accountant.tolerance,
        )
        return ExactGuarantee(run, curve)
    if isinstance(curve_or_accountant, Accountant):
        return AccountantGuarantee(curve_or_accountant)
    kind = type(curve_or_accountant).__name__
    raise TypeError(
        f"curve_or_accountant must be a Run, a PrivacyCurve, a ShuffledCurve, a TradeoffCurve or an "
        f"accountant, got {kind}"
    )


@contextmanager
def warnings_left_out() -> Iterator[None]:
    """Leave out the warnings that an interval is wide or a bound not the best: what is shown holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WideIntervalWarning)
        warnings.simplefilter("ignore", OptimalOrderWarning)
        yield
