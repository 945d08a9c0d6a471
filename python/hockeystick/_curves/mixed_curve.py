"""Privacy curves of runs of which parts are seen under neighbouring relations of their own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import FloatOrFloats, Floats, float_array, in_shape, require, require_type
from hockeystick._curves.certifiable import Certifiable
from hockeystick._curves.coarsening import MOST_EXACT
from hockeystick._distinct import entries_answered_once
from hockeystick._readouts import CurveAnswers
from hockeystick._rounding import steps_in_words
from hockeystick._vocabulary import step_kinds
from hockeystick._vocabulary.adjacency import ADVERSARY
from hockeystick._vocabulary.intervals import both_ends, check_tolerance
from hockeystick._vocabulary.step_kinds import StepKind

Steps = dict[StepKind, int]
"""Kinds of steps, and how often each occurs."""


class MixedCurve(Certifiable, CurveAnswers):
    """Trade-off between epsilon and delta of a run whose group is added in some steps and removed in others.

    Made by ``+`` from two `PrivacyCurve` objects of different adjacencies. The two data sets are
    neighbours in a way of their own in each part, as where a record is replaced in a fixed batch and all
    others push the sum one way in the queries of the first part, and the other way in those of the second:
    replacing it is like removing a record in one part, and like adding one in the other (PITFALLS, Figure 3).
    The losses of all steps add up, each in the direction of its part. Steps of a part with "add_remove" all
    have one direction, and the curve is the larger one of both.

    Every answer is on the safe side, as with `PrivacyCurve`, and has certificates (`certify`).

    References
    ----------
    Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
    Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)

    Examples
    --------
    The third pair of Figure 3: batches of one of two records, Laplace noise of scale 3.

    >>> import hockeystick as hs
    >>> step = dict(mechanism=hs.Laplace(3.0), sampling=hs.WithoutReplacement(1, 2), steps=1)
    >>> mixed = hs.privacy_curve(adjacency="add", **step) + hs.privacy_curve(adjacency="remove", **step)
    >>> mixed
    <MixedCurve of 1 step 'add', 1 step 'remove'>
    >>> round(mixed.delta(0.2), 4)
    0.1049
    >>> sorted(mixed.segments), mixed.steps, mixed.tolerance
    (['add', 'remove'], 2, 1e-06)
    """

    __slots__ = ("_composed", "_less", "_parts", "_tolerance")
    __array_ufunc__ = None
    """Leaves ``numpy.int64(3) * curve`` to this class."""

    def __init__(self, parts: dict[str, Steps], tolerance: float) -> None:
        require_type(parts, dict, "parts")
        check_tolerance(tolerance)
        self._parts = {adjacency: dict(steps) for adjacency, steps in sorted(parts.items())}
        self._tolerance = tolerance
        self._composed: _core.Composition | None = None
        self._less: _core.Composition | None = None
        kinds = sum(map(len, self._parts.values()))
        require(kinds <= MOST_EXACT, "steps", f"{kinds} kinds", f"at most {MOST_EXACT} kinds of steps")

    @property
    def segments(self) -> dict[str, tuple[tuple[StepKind, int], ...]]:
        """Kinds of steps and how often each occurs, by the adjacency that they are seen under."""
        return {adjacency: step_kinds.in_order(steps) for adjacency, steps in self._parts.items()}

    @property
    def tolerance(self) -> float:
        """Relative width of the certified intervals to aim at."""
        return self._tolerance

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(sum(steps.values()) for steps in self._parts.values())

    def _upper_end(self, unknown: str, at: ArrayLike) -> FloatOrFloats:
        return self.bounds(delta=at)[1] if unknown == "epsilon" else self.bounds(epsilon=at)[1]

    def bounds(
        self, *, delta: ArrayLike | None = None, epsilon: ArrayLike | None = None
    ) -> tuple[FloatOrFloats, FloatOrFloats]:
        """Both ends of the certified interval for epsilon at `delta`, or for delta at `epsilon`.

        Parameters
        ----------
        delta : array_like, optional
            In (0, 1).
        epsilon : array_like, optional
            Finite and at least zero. Give either this or `delta`.

        Returns
        -------
        lower, upper : float or ndarray
            Enclose the curve of the composed pairs.

        Raises
        ------
        ValueError
            If the argument is out of range.
        TypeError
            If the argument is not real, or not exactly one is given.

        Warns
        -----
        WideIntervalWarning
            If the interval is wider than the tolerance.

        Examples
        --------
        >>> import hockeystick as hs
        >>> step = dict(mechanism=hs.Laplace(3.0), sampling=hs.WithoutReplacement(1, 2), steps=1)
        >>> mixed = hs.privacy_curve(adjacency="add", **step) + hs.privacy_curve(adjacency="remove", **step)
        >>> lower, upper = mixed.bounds(epsilon=0.2)
        >>> f"{lower:.4f} {upper:.4f}"
        '0.1049 0.1049'
        """
        return both_ends(delta, epsilon, self._both_ends, self._tolerance)

    def _both_ends(self, unknown: str, questions: Floats) -> tuple[Floats, Floats]:
        lower, upper = getattr(self._run, unknown)(questions)
        if self._less is not None:
            lower = getattr(self._less, unknown)(questions)[0]
        return _core.meet_bounds(lower, upper)

    def _lower_beta(self, alpha: Floats) -> Floats:
        return entries_answered_once(alpha, self._run.beta)

    def renyi(self, order: ArrayLike) -> FloatOrFloats:
        """Upper bound on the Rényi divergence.

        Parameters
        ----------
        order : array_like
            Order, above 1.

        Returns
        -------
        float or ndarray, shape of `order`
            The divergence in nats.

        Raises
        ------
        ValueError
            If `order` is out of range.
        TypeError
            If `order` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> step = dict(noise_multiplier=2.0, sample_rate=0.1, steps=1)
        >>> parts = [hs.privacy_curve(adjacency=adjacency, **step) for adjacency in ("add", "remove")]
        >>> bool(abs((parts[0] + parts[1]).renyi(2.0) - parts[0].renyi(2.0) - parts[1].renyi(2.0)) < 1e-9)
        True
        """
        orders = float_array(order, "order")
        return in_shape(entries_answered_once(orders.ravel(), self._run.renyi), orders.shape)

    def with_part(self, adjacency: str, steps: Steps, tolerance: float) -> MixedCurve:
        """Return this run with more steps.

        Parameters
        ----------
        adjacency : {"add_remove", "add", "remove", "replace"}
            Neighbouring relation that the steps are seen under.
        steps : dict of StepKind to int
            How often each kind of steps occurs.
        tolerance : float
            Relative width to aim at; the smaller one counts.

        Returns
        -------
        MixedCurve
            A new curve.

        Raises
        ------
        UnsupportedError
            If epochs into whose batches records are dealt would not be whole.

        Examples
        --------
        >>> import hockeystick as hs
        >>> step = dict(noise_multiplier=2.0, sample_rate=0.1, steps=1)
        >>> added, removed = (hs.privacy_curve(adjacency=way, **step) for way in ("add", "remove"))
        >>> (added + removed).with_part("add", dict(added.segments), 1e-6).steps
        3
        """
        counts = self._parts.get(adjacency, {}).copy()
        for kind, count in steps.items():
            step_kinds.require_whole_epochs(kind, counts.get(kind, 0), count)
            counts[kind] = counts.get(kind, 0) + count
        return MixedCurve({**self._parts, adjacency: counts}, min(self._tolerance, tolerance))

    def __add__(self, other: object) -> MixedCurve:
        """Compose with another run on the same data."""
        if not isinstance(other, MixedCurve):
            return NotImplemented
        found = self
        for adjacency, steps in other._parts.items():
            found = found.with_part(adjacency, steps, other._tolerance)
        return found

    def __mul__(self, times: object) -> MixedCurve:
        """Repeat the run."""
        if isinstance(times, bool | np.bool_) or not hasattr(times, "__index__"):
            return NotImplemented
        count = operator.index(times)
        require(count >= 0, "times", count, "a whole number >= 0")
        repeated: dict[str, Steps] = {}
        for adjacency, steps in self._parts.items():
            for kind, number in steps.items():
                step_kinds.require_whole_epochs(kind, number, number if count > 1 else 0)
            repeated[adjacency] = {kind: number * count for kind, number in steps.items()} if count else {}
        return MixedCurve(repeated, self._tolerance)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixedCurve):
            return NotImplemented
        return (self._parts, self._tolerance) == (other._parts, other._tolerance)

    def __hash__(self) -> int:
        parts = ((adjacency, frozenset(steps.items())) for adjacency, steps in self._parts.items())
        return hash((frozenset(parts), self._tolerance))

    def __reduce__(self) -> tuple[Any, ...]:
        return MixedCurve, (self._parts, self._tolerance)

    def __repr__(self) -> str:
        parts = (
            f"{steps_in_words(sum(steps.values()))} {adjacency!r}" for adjacency, steps in self._parts.items()
        )
        return f"<MixedCurve of {', '.join(parts)}>"

    def __str__(self) -> str:
        lines = [f"{steps_in_words(self.steps)}, tolerance {self._tolerance:g}"]
        for adjacency, segments in self.segments.items():
            lines += [f"  {adjacency}: " + ", ".join(row) for row in _rows(adjacency, segments)]
        return "\n".join([*lines, f"against {ADVERSARY}"])

    @property
    def _run(self) -> _core.Composition:
        """The run in the core, made when the first question is asked."""
        if self._composed is None:
            self._composed = self._in_core(self._parts)
            less = {way: step_kinds.surely_attained(steps) for way, steps in self._parts.items()}
            if any(less.values()):
                self._less = self._in_core({way: less[way] or steps for way, steps in self._parts.items()})
        return self._composed

    def _in_core(self, parts: dict[str, Steps]) -> _core.Composition:
        given = [(step_kinds.for_core(steps), adjacency) for adjacency, steps in parts.items()]
        return _core.Composition.of_parts(given, self._tolerance)


def _rows(adjacency: str, segments: tuple[tuple[StepKind, int], ...]) -> list[tuple[str, ...]]:
    """Segments in words, without what is known of their pairs."""
    return [step_kinds.row(kind, count, adjacency)[:4] for kind, count in segments]
