"""Privacy curves: the exact privacy of a composed run, as an object that answers many questions."""

from __future__ import annotations

import operator
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _html
from hockeystick._arguments import (
    LARGEST_COUNT,
    FloatOrFloats,
    Floats,
    float_array,
    in_shape,
    require,
    shown,
)
from hockeystick._curves.best_of import BestOf
from hockeystick._curves.certifiable import Certifiable
from hockeystick._curves.composed_run import ComposedRun
from hockeystick._curves.mixed_curve import MixedCurve
from hockeystick._curves.number_of_runs import NumberOfRuns
from hockeystick._distinct import entries_answered_once
from hockeystick._readouts import CurveAnswers
from hockeystick._rounding import steps_in_words
from hockeystick._vocabulary import step_kinds
from hockeystick._vocabulary.adjacency import ADJACENCIES, ADVERSARY, check_adjacency
from hockeystick._vocabulary.configuration import Segment
from hockeystick._vocabulary.intervals import both_ends, check_tolerance
from hockeystick._vocabulary.step_kinds import StepKind

PRINTED_SEGMENTS = 8
"""Most lines of the printed table of segments."""

REPEATED_SEGMENTS = 3
"""Most kinds of steps that the representation names."""

_HEADER = ("steps", "noise", "sampling", "group", "pair")


class PrivacyCurve(Certifiable, CurveAnswers):
    """Trade-off between epsilon and delta of a run, for one group of records.

    Made by `privacy_curve`; composed by ``+`` (to a `MixedCurve` where the adjacencies differ) and, for
    repeated runs, by ``*``. Every answer is on the
    safe side: an upper bound on epsilon, delta, Rényi divergences and the advantage, a lower bound on
    the error of an attack. The first question prepares the curve; later ones are cheap.

    A curve of very many kinds of steps, as a noise schedule makes that changes at every update, is computed
    from a few hundred of them where noise is Gaussian and samples are Poisson: the losses of the others are
    interpolated, and the certified interval counts the error. Where that is not possible, a curve of more
    than 10,000 kinds is answered for two runs near it: one with parameters rounded to leak more, which gives
    the upper ends, and one with parameters rounded to leak less, which gives the lower ends. Both have at
    most 5,000 kinds of steps in ordinary runs, so that epsilon is known to a part in a thousand or so, and a
    `WideIntervalWarning` says how well.

    References
    ----------
    - Mahloujifar, Sablayrolles, Cormode and Jha, "Optimal Group Privacy for DP-SGD", Bulletin of the IEEE
      Computer Society Technical Committee on Data Engineering (GROUP)
    - Lebeda, Regehr, Kamath and Steinke 2024, "Avoiding Pitfalls for Privacy Accounting of Subsampled
      Mechanisms under Composition", arXiv:2405.20769 (PITFALLS)
    - Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function",
      arXiv:2106.08567

    Examples
    --------
    >>> import hockeystick as hs
    >>> first = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=300, group_size=4)
    >>> second = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.02, steps=500, group_size=4)
    >>> print(first + second * 2)
    1300 steps of 2 kinds, adjacency 'add_remove', tolerance 1e-06
      steps  noise        sampling       group      pair
        300  Gaussian(1)  Poisson(0.01)  4 records  tight (GROUP, Theorem 18)
       1000  Gaussian(2)  Poisson(0.02)  4 records  tight (GROUP, Theorem 18)
    against an adversary who sees the output of every step
    >>> first.steps, first.adjacency, first.tolerance, first.tight, len(first.segments)
    (300, 'add_remove', 1e-06, True, 1)
    """

    __slots__ = ("_adjacency", "_composed", "_steps", "_tolerance")
    __array_ufunc__ = None
    """Leaves ``numpy.int64(3) * curve`` to this class."""

    def __init__(self, steps: dict[StepKind, int], adjacency: str, tolerance: float) -> None:
        if not isinstance(steps, dict):
            raise TypeError(
                f"steps must be a dict of counts by StepKind, got {type(steps).__name__}: curves are "
                "made by privacy_curve"
            )
        for kind in steps:
            if not isinstance(kind, StepKind):
                raise TypeError(
                    f"steps must be counts of StepKinds, as `segments` has them, got {shown(kind)}"
                )
        for count in steps.values():
            whole = type(count) is int
            allowed = f"a whole number in [0, {LARGEST_COUNT}] of each kind"
            require(whole and 0 <= count <= LARGEST_COUNT, "steps", count, allowed)
        self._steps = dict(steps)
        known = type(adjacency) is str and adjacency in ADJACENCIES
        self._adjacency = adjacency if known else check_adjacency(adjacency)
        self._tolerance = check_tolerance(tolerance)
        self._composed: ComposedRun | None = None

    @property
    def segments(self) -> tuple[tuple[StepKind, int], ...]:
        """Kinds of steps and how often each occurs, in an order that does not depend on the run's."""
        return step_kinds.in_order(self._steps)

    @property
    def adjacency(self) -> str:
        """Neighbouring relation."""
        return self._adjacency

    @property
    def tolerance(self) -> float:
        """Relative width of the certified intervals to aim at."""
        return self._tolerance

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(self._steps.values())

    @property
    def tight(self) -> bool:
        """Whether some data sets attain the curve; otherwise it is an upper bound only."""
        return all(kind.pair.tight for kind in self._steps)

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
            Enclose the curve of the dominating pair or, where `bound_used` says "chain", the bound by a
            chain of single records. Where `tight` is false only upper is a statement about the run:
            lower then says how closely the bound was computed, not how small the truth may be.

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
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> lower, upper = curve.bounds(delta=1e-5)
        >>> f"{lower:.4f} {upper:.4f}"
        '1.8282 1.8282'
        """
        return both_ends(delta, epsilon, self._run.both_ends, self._tolerance)

    def bound_used(
        self, *, delta: ArrayLike | None = None, epsilon: ArrayLike | None = None
    ) -> str | NDArray[np.str_]:
        """Which of the proven bounds an answer is: every answer is the smallest of them.

        Parameters
        ----------
        delta : array_like, optional
            In (0, 1): asks about epsilon there.
        epsilon : array_like, optional
            Finite and at least zero: asks about delta there. Give either this or `delta`.

        Returns
        -------
        str or ndarray of str
            "pair" for the curve of the dominating pair. "chain" for that of a chain of data sets, each with
            one record more replaced, by the curve of one record (GROUP, Theorem 5): only where several
            records of a fixed batch are replaced, where it may be the smaller of the two, and for groups of
            more than six records, or of records in several batches, that are dealt into the batches of
            an epoch.

        Raises
        ------
        ValueError
            If the argument is out of range.
        TypeError
            If the argument is not real, or not exactly one is given.

        Examples
        --------
        >>> import hockeystick as hs
        >>> fixed = hs.WithoutReplacement(256, 60_000)
        >>> run = {"noise_multiplier": 8.0, "sampling": fixed, "steps": 2000, "adjacency": "replace"}
        >>> hs.privacy_curve(group_size=4, **run).bound_used(delta=1e-5)
        'chain'
        """
        if (delta is None) == (epsilon is None):
            raise TypeError("give exactly one of delta and epsilon")
        unknown, at = ("epsilon", delta) if epsilon is None else ("delta", epsilon)
        given = float_array(at, "delta" if epsilon is None else "epsilon")
        words = np.array(self._run.composition().bound_used(unknown, given.ravel()), dtype=np.str_)
        return str(words[0]) if given.shape == () else words.reshape(given.shape)

    def _lower_beta(self, alpha: Floats) -> Floats:
        return entries_answered_once(alpha, self._run.composition().beta)

    def renyi(self, order: ArrayLike) -> FloatOrFloats:
        """Upper bound on the Rényi divergence.

        Parameters
        ----------
        order : array_like
            Order, above 1.

        Returns
        -------
        float or ndarray, shape of `order`
            The divergence in nats, the larger of the directions that the adjacency asks for.

        Raises
        ------
        ValueError
            If `order` is out of range.
        TypeError
            If `order` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=1.0, steps=10)
        >>> round(curve.renyi(4.0), 6)  # order times steps / (2 noise_multiplier^2)
        5.0
        """
        orders = float_array(order, "order")
        return in_shape(entries_answered_once(orders.ravel(), self._run.composition().renyi), orders.shape)

    def best_of(self, runs: NumberOfRuns) -> BestOf:
        """Privacy of the best of a random number of such runs: the price of tuning.

        Parameters
        ----------
        runs : PoissonRuns, GeometricRuns, NegativeBinomialRuns or BinomialRuns
            The law of the number of runs, each of which has at most the loss of this curve.

        Returns
        -------
        BestOf
            Answers `epsilon` and `delta`, as upper bounds.

        Raises
        ------
        TypeError
            If `runs` is no law of a number of runs.
        UnsupportedError
            If the adjacency asks for one order of the data sets only.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
        >>> print(f"{curve.best_of(hs.PoissonRuns(20)).epsilon(1e-6):.2f}")
        1.89
        """
        return BestOf(self, runs)

    @overload
    def __add__(self, other: PrivacyCurve) -> PrivacyCurve: ...
    @overload
    def __add__(self, other: MixedCurve) -> MixedCurve: ...
    def __add__(self, other: object) -> PrivacyCurve | MixedCurve:
        """Compose with another run on the same data; a `MixedCurve` where adjacencies differ."""
        if isinstance(other, MixedCurve):
            return other.with_part(self._adjacency, self._steps, self._tolerance)
        if not isinstance(other, PrivacyCurve):
            return NotImplemented
        if other._adjacency != self._adjacency:
            parts = {self._adjacency: self._steps, other._adjacency: other._steps}
            return MixedCurve(parts, min(self._tolerance, other._tolerance))
        counts = self._steps.copy()
        for kind, count in other._steps.items():
            step_kinds.require_whole_epochs(kind, counts.get(kind, 0), count)
            counts[kind] = counts.get(kind, 0) + count
        return PrivacyCurve(counts, self._adjacency, min(self._tolerance, other._tolerance))

    def __radd__(self, other: object) -> MixedCurve:
        """Compose with a run of which parts are seen under relations of their own."""
        return self + other if isinstance(other, MixedCurve) else NotImplemented

    def __mul__(self, times: object) -> PrivacyCurve:
        """Repeat the run."""
        if isinstance(times, bool | np.bool_) or not hasattr(times, "__index__"):
            return NotImplemented
        count = operator.index(times)
        require(count >= 0, "times", count, "a whole number >= 0")
        for kind, steps in self._steps.items():
            step_kinds.require_whole_epochs(kind, steps, steps if count > 1 else 0)
        repeated = {kind: steps * count for kind, steps in self._steps.items()} if count else {}
        return PrivacyCurve(repeated, self._adjacency, self._tolerance)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyCurve):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        steps, adjacency, tolerance = self._parts()
        return hash((frozenset(steps.items()), adjacency, tolerance))

    def __reduce__(self) -> tuple[Any, ...]:
        return PrivacyCurve, self._parts()

    def __repr__(self) -> str:
        kinds = [f"{count} x {', '.join(words)}" for count, *words in self._kinds_in_words()]
        more = len(self._steps) - len(kinds)
        listed = "; ".join([*kinds, *([f"{more} further kinds"] if more else [])]) or "no steps"
        return f"<PrivacyCurve of {listed}; adjacency {self._adjacency!r}>"

    def _kinds_in_words(self) -> list[tuple[str, ...]]:
        """Count, noise, sampling and group of the first kinds of steps."""
        return [row[:4] for row in self.printed_rows(REPEATED_SEGMENTS)[1:]]

    def _repr_html_(self) -> str:
        caption = f"PrivacyCurve of {self._summary()}, against {ADVERSARY}"
        if not self._steps:
            return _html.table([], caption=caption)
        header, *kinds = self.printed_rows()
        found = [_html.table(kinds, header, caption)]
        if len(self._steps) > PRINTED_SEGMENTS:
            found.append(f"<p>and {len(self._steps) - PRINTED_SEGMENTS} further kinds</p>")
        else:
            rows = _html.epsilons(lambda deltas: np.asarray(self.epsilon(deltas)))
            found.append(_html.table(rows, named=True))
        return "\n".join(found)

    def printed_rows(self, most: int = PRINTED_SEGMENTS) -> list[tuple[str, ...]]:
        """Table of the first `most` segments in words, with its header.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> for row in curve.printed_rows():
        ...     print(*row, sep=", ")
        steps, noise, sampling, group, pair
        1000, Gaussian(1), Poisson(0.01), 1 record, tight (GROUP, Theorem 18)
        """
        segments = self.segments[:most]
        return [_HEADER, *(step_kinds.row(kind, count, self._adjacency) for kind, count in segments)]

    def __str__(self) -> str:
        segments = self.segments
        if not segments:
            return self._summary()
        rows = self.printed_rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self._summary()]
        for steps, *texts in rows:
            cells = [steps.rjust(widths[0])]
            cells += [text.ljust(width) for text, width in zip(texts, widths[1:], strict=True)]
            lines.append("  " + "  ".join(cells).rstrip())
        if len(segments) > PRINTED_SEGMENTS:
            lines.append(f"  and {len(segments) - PRINTED_SEGMENTS} further kinds")
        lines.append(f"against {ADVERSARY}")
        return "\n".join(lines)

    def _summary(self) -> str:
        kinds = f" of {len(self._steps)} kinds" if len(self._steps) > 1 else ""
        steps = steps_in_words(self.steps)
        return f"{steps}{kinds}, adjacency {self._adjacency!r}, tolerance {self._tolerance:g}"

    def _parts(self) -> tuple[dict[StepKind, int], str, float]:
        return self._steps, self._adjacency, self._tolerance

    @property
    def _run(self) -> ComposedRun:
        """The run in the core, made when the first question is asked."""
        if self._composed is None:
            self._composed = ComposedRun(self._steps, self._adjacency, self._tolerance)
        return self._composed

    def core_segments(self) -> list[Segment]:
        """Segments as the compiled core takes them, rounded to leak more if there are very many.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> len(curve.core_segments())
        1
        """
        return self._run.core_segments()
