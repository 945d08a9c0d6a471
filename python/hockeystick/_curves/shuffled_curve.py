"""The certified interval of a run with shuffled batches, as an object that answers many questions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core, _html
from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    FloatOrFloats,
    Floats,
    count_scalar,
    float_array,
    in_shape,
    require,
)
from hockeystick._curves.best_of import BestOf
from hockeystick._curves.certificate import Certificate
from hockeystick._curves.number_of_runs import NumberOfRuns
from hockeystick._curves.renyi_readouts import LARGEST_ORDER
from hockeystick._curves.shared_work import shared_work
from hockeystick._curves.shuffled_certifying import certificate_of_shuffled
from hockeystick._curves.shuffled_upper import Steps, divergence, upper_curve
from hockeystick._progress import Report
from hockeystick._readouts import CurveAnswers
from hockeystick._rounding import steps_in_words
from hockeystick._vocabulary.adjacency import ADVERSARY
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick._vocabulary.mechanisms import check_noise_multiplier
from hockeystick._vocabulary.sampling import Shuffle
from hockeystick._vocabulary.shuffled_step import configure_shuffled
from hockeystick.errors import UnsupportedError

REPEATED_SEGMENTS = 3
"""Most noise multipliers that the representation names."""

_LOWER_ENDS = 8
"""Most choices of epochs that a lower end is computed for, each of which takes up to a second."""


class ShuffledCurve(CurveAnswers):
    """What a run with shuffled batches guarantees and certainly reveals, for one group of records.

    Made by `privacy_curve` with ``sampling=Shuffle(...)``; composed by ``+`` and ``*``, of whole epochs.
    No tight curve is known: `epsilon`, `delta`, `beta` and `advantage` are the guarantee, which holds even if
    the adversary knows every batch, and `bounds` has the other end too, what two data sets certainly reveal.

    Parameters
    ----------
    sampling : Shuffle
        How batches are made.
    segments : tuple of (float, int)
        Noise multipliers and numbers of batches, in the order of the run.
    group_size : int, optional
        Number of records that change together, at most all.
    adjacency : {"zero_out", "replace"}, optional
        Whether gradients are replaced by 0, or records by others.
    tolerance : float, optional
        Relative width to which the ends are computed, in [1e-9, 0.1].

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        For records that are added or removed.

    Notes
    -----
    Within an epoch the smallest noise multiplier counts for all of its batches. Where noise changes between
    epochs, the lower end is that of the epochs with the least noise, however many of them reveal most, with
    their largest noise multiplier: more noise and fewer epochs reveal less.

    References
    ----------
    L. Chua, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha and C. Zhang, "How Private are DP-SGD
    Implementations?", 2024. arXiv:2403.17673

    Examples
    --------
    >>> import hockeystick as hs
    >>> epoch = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(600, 60_000), "steps": 100}
    >>> curve = hs.privacy_curve(adjacency="zero_out", **epoch)
    >>> print(curve)
    100 steps of shuffled batches, 600 of 60000 records, noise 1, for 1 record, adjacency 'zero_out'
    against an adversary who sees the output of every step
    >>> lower, upper = curve.bounds(delta=1e-5)
    >>> print(f"{lower:.3f} {upper:.3f}, two epochs: at most {(curve * 2).epsilon(1e-5):.3f}")
    4.063 4.377, two epochs: at most 6.573
    >>> curve.sampling, curve.segments, curve.steps, curve.group_size
    (Shuffle(batch_size=600, dataset_size=60000), ((1.0, 100),), 100, 1)
    >>> curve.adjacency, curve.tolerance, curve.tight
    ('zero_out', 1e-06, False)
    """

    __slots__ = ("_adjacency", "_group_size", "_sampling", "_segments", "_tolerance", "_upper")
    __array_ufunc__ = None
    """Leaves ``numpy.int64(3) * curve`` to this class."""

    def __init__(
        self,
        sampling: Shuffle,
        segments: Steps,
        group_size: int = 1,
        adjacency: str = "zero_out",
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        if not isinstance(sampling, Shuffle):
            raise TypeError(f"sampling must be Shuffle(...), got {type(sampling).__name__}")
        merged: list[tuple[float, int]] = []
        for noise, count in segments:
            checked = (check_noise_multiplier(noise), count_scalar(count, "steps", 0))
            if merged and merged[-1][0] == checked[0]:
                merged[-1] = (checked[0], merged[-1][1] + checked[1])
            elif checked[1]:
                merged.append(checked)
        step = configure_shuffled(
            adjacency=adjacency,
            noise_multiplier=1.0,
            mechanism=None,
            sample_rate=None,
            sampling=sampling,
            group_size=count_scalar(group_size, "group_size", 1),
            group=None,
        )
        self._sampling = sampling
        self._segments: Steps = tuple(merged)
        self._group_size = int(step.group_size)
        self._adjacency = step.adjacency
        self._tolerance = check_tolerance(tolerance)
        self._upper: _core.TradeoffCurve | None = None

    @property
    def sampling(self) -> Shuffle:
        """How batches are made."""
        return self._sampling

    @property
    def segments(self) -> Steps:
        """Noise multipliers and numbers of batches, in the order of the run."""
        return self._segments

    @property
    def group_size(self) -> int:
        """Number of records that change together."""
        return self._group_size

    @property
    def adjacency(self) -> str:
        """Neighbouring relation."""
        return self._adjacency

    @property
    def tolerance(self) -> float:
        """Relative width to which the ends are computed."""
        return self._tolerance

    @property
    def steps(self) -> int:
        """Number of batches."""
        return sum(count for _, count in self._segments)

    @property
    def tight(self) -> bool:
        """False: the curve is an upper bound."""
        return False

    def _upper_end(self, unknown: str, at: ArrayLike) -> FloatOrFloats:
        levels = float_array(at, "delta" if unknown == "epsilon" else "epsilon")
        ask = self.compiled().epsilon if unknown == "epsilon" else self.compiled().delta
        return in_shape(ask(levels.ravel())[1], levels.shape)

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
            What two data sets certainly reveal, and the guarantee. A lower end takes up to a second.

        Raises
        ------
        ValueError
            If the argument is out of range.
        TypeError
            If the argument is not real, or not exactly one is given.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(
        ...     noise_multiplier=1.0, sampling=hs.Shuffle(600, 60_000), steps=100, adjacency="zero_out"
        ... )
        >>> lower, upper = curve.bounds(epsilon=4.0)
        >>> 0.0 < lower < upper < 1e-3
        True
        """
        if (delta is None) == (epsilon is None):
            raise TypeError("give exactly one of delta and epsilon")
        if delta is not None:
            unknown, given, upper = "epsilon", float_array(delta, "delta"), self.epsilon(delta)
        else:
            assert epsilon is not None
            unknown, given, upper = "delta", float_array(epsilon, "epsilon"), self.delta(epsilon)
        lower, most = _core.meet_bounds(self._lower(unknown, given.ravel()), np.ravel(upper))
        return in_shape(lower, given.shape), in_shape(most, given.shape)

    def renyi(self, order: ArrayLike) -> FloatOrFloats:
        """Upper bound on the Rényi divergence, which holds even if the adversary knows every batch.

        Parameters
        ----------
        order : array_like
            Above 1, at most 1e6.

        Returns
        -------
        float or ndarray, shape of `order`
            In nats.

        Raises
        ------
        ValueError
            If `order` is out of range.
        TypeError
            If `order` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(
        ...     noise_multiplier=2.0, sampling=hs.Shuffle(600, 60_000), steps=300, adjacency="zero_out"
        ... )
        >>> round(curve.renyi(4.0), 6)  # order times epochs / (2 noise_multiplier^2)
        1.5
        """
        orders = float_array(order, "order")
        bad = orders[~((orders > 1.0) & (orders <= LARGEST_ORDER))]
        if bad.size:
            raise ValueError(f"order must be in (1, {LARGEST_ORDER:g}], got {bad[0]}")
        run = (self._sampling, self._segments, self._group_size, self._adjacency)
        found = np.array([divergence(value, *run) for value in orders.ravel().tolist()])
        return in_shape(found, orders.shape)

    def best_of(self, runs: NumberOfRuns) -> BestOf:
        """Privacy of the best of a random number of such runs, from the guarantee of each.

        Parameters
        ----------
        runs : PoissonRuns, GeometricRuns, LogarithmicRuns, NegativeBinomialRuns or BinomialRuns
            The law of the number of runs.

        Returns
        -------
        BestOf
            Answers `epsilon` and `delta`, as upper bounds.

        Raises
        ------
        TypeError
            If `runs` is none of these.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(
        ...     noise_multiplier=4.0, sampling=hs.Shuffle(600, 60_000), steps=100, adjacency="zero_out"
        ... )
        >>> curve.epsilon(1e-6) < curve.best_of(hs.PoissonRuns(20)).epsilon(1e-6) < 4.0
        True
        """
        return BestOf(self, runs)

    def certify(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        order: float | None = None,
        alpha: float | None = None,
        progress: Report | bool | None = None,
        processes: int = 1,
    ) -> Certificate:
        """Certificate of both ends of the interval at one point, for an independent checker.

        Parameters
        ----------
        epsilon : float, optional
            Finite and at least zero: certifies both ends of delta there.
        delta : float, optional
            In (0, 1): certifies both ends of epsilon there.
        order : float, optional
            In [1.001, 1e4]: certifies the upper bound on the Rényi divergence of this order.
        alpha : float, optional
            In (0, 1): certifies the trade-off function at this false positive rate. Give one of the four.
        progress : bool or callable, optional
            True for a bar, or a function of how many of a hundred parts of the work are done, and of 100.
        processes : int, optional
            Processes that share what the checker computes, at least 1; the result does not depend on it.

        Returns
        -------
        Certificate
            Claims the guarantee, "at most", and what two data sets certainly reveal, "at least".

        Raises
        ------
        UnsupportedError
            If the checker does not cover the run, as noise below 0.001.
        ValueError
            If the argument is out of range, or no finite epsilon exists.
        TypeError
            If the argument is not a number, or not exactly one is given.
        ImportError
            If the extra "verify" is not installed.

        Notes
        -----
        docs/theory/certificates.md, V28, has what the checker proves.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(
        ...     noise_multiplier=1.0, sampling=hs.Shuffle(600, 60_000), steps=100, adjacency="zero_out"
        ... )
        >>> certificate = curve.certify(delta=1e-5)
        >>> [round(claim["epsilon"], 3) for claim in certificate.claims], certificate.verify()[0]
        ([4.377, 4.063], True)
        """
        given = [each for each in (epsilon, delta, order, alpha) if each is not None]
        if len(given) != 1:
            raise TypeError("give exactly one of delta, epsilon, order and alpha")
        with shared_work(progress, processes):
            return certificate_of_shuffled(self, epsilon, delta, order, alpha)

    def _lower_beta(self, alpha: Floats) -> Floats:
        return self.compiled().beta(alpha)[0]

    def compiled(self) -> _core.TradeoffCurve:
        """Return the guarantee as a trade-off function of the core, for the modules of this package.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(
        ...     noise_multiplier=1.0, sampling=hs.Shuffle(600, 60_000), steps=100, adjacency="zero_out"
        ... )
        >>> type(curve.compiled()).__name__
        'TradeoffCurve'
        """
        if self._upper is None:
            self._upper = upper_curve(self._sampling, self._segments, self._group_size, self._adjacency)
        return self._upper

    def __add__(self, other: object) -> ShuffledCurve:
        """Compose with another run on the same data, in epochs of its own."""
        if not isinstance(other, ShuffledCurve):
            return NotImplemented
        for name in ("adjacency", "group_size", "sampling"):
            if getattr(self, name) != getattr(other, name):
                values = f"{getattr(self, name)!r} and {getattr(other, name)!r}"
                raise ValueError(f"{name} must be the same in both curves, got {values}")
        for curve in (self, other):
            curve._require_whole_epochs()
        tolerance = min(self._tolerance, other._tolerance)
        return self._with(self._segments + other._segments, tolerance)

    def __mul__(self, times: object) -> ShuffledCurve:
        """Repeat the run."""
        if isinstance(times, bool | np.bool_) or not hasattr(times, "__index__"):
            return NotImplemented
        count = operator.index(times)
        require(count >= 0, "times", count, "a whole number >= 0")
        if count > 1:
            self._require_whole_epochs()
        if len(self._segments) == 1:
            ((noise, steps),) = self._segments
            return self._with(((noise, steps * count),), self._tolerance)
        return self._with(self._segments * count, self._tolerance)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShuffledCurve):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[Any, ...]:
        return ShuffledCurve, self._parts()

    def __repr__(self) -> str:
        drawn = f"Shuffle({self._sampling.batch_size}, {self._sampling.dataset_size})"
        kinds = [f"{count} x Gaussian({noise:g}), {drawn}, {self._group}" for noise, count in self._first]
        more = len(self._segments) - len(kinds)
        listed = "; ".join([*kinds, *([f"{more} further kinds"] if more else [])]) or "no steps"
        return f"<ShuffledCurve of {listed}; adjacency {self._adjacency!r}>"

    def __str__(self) -> str:
        return f"{self._summary()}\nagainst {ADVERSARY}"

    def _repr_html_(self) -> str:
        caption = f"ShuffledCurve of {self._summary()}, against {ADVERSARY}"
        rows = _html.epsilons(lambda deltas: np.asarray(self.epsilon(deltas)))
        return _html.table(rows, caption=caption, named=True)

    def _summary(self) -> str:
        drawn = f"{self._sampling.batch_size} of {self._sampling.dataset_size} records"
        noises = ", ".join(f"{noise:g}" for noise, _ in self._first)
        noise = f"noise {noises}" + (", ..." if len(self._segments) > REPEATED_SEGMENTS else "")
        about = f"{noise}, for {self._group}, adjacency {self._adjacency!r}"
        return f"{steps_in_words(self.steps)} of shuffled batches, {drawn}, {about}"

    @property
    def _group(self) -> str:
        return f"{self._group_size} record" + ("s" if self._group_size > 1 else "")

    @property
    def _first(self) -> Steps:
        """The segments that are written out."""
        return self._segments[:REPEATED_SEGMENTS]

    def _parts(self) -> tuple[Any, ...]:
        return self._sampling, self._segments, self._group_size, self._adjacency, self._tolerance

    def _with(self, segments: Steps, tolerance: float) -> ShuffledCurve:
        return ShuffledCurve(self._sampling, segments, self._group_size, self._adjacency, tolerance)

    @property
    def _batches(self) -> int:
        """Batches of an epoch."""
        return self._sampling.dataset_size // self._sampling.batch_size

    def _require_whole_epochs(self) -> None:
        if self.steps % self._batches:
            raise UnsupportedError(
                f"runs of {self._sampling!r} are composed only where their epochs are whole: {self.steps} "
                f"steps are not a multiple of {self._batches}"
            )

    def _lower(self, unknown: str, given: Floats) -> Floats:
        """Largest of the lower ends of runs that reveal less than this one."""
        found = np.zeros(given.shape)
        for noise, steps in self._less():
            ends = _core.shuffled_interval(
                unknown,
                (self._sampling.batch_size, self._sampling.dataset_size),
                noise,
                self._group_size,
                steps,
                self._adjacency,
                given,
                self._tolerance,
            )
            found = np.maximum(found, ends[0])
        return found

    def _less(self) -> list[tuple[float, int]]:
        """Return runs of one noise multiplier each: this one with more noise, and some epochs left out."""
        if len(self._segments) <= 1:
            return list(self._segments)
        worst: dict[float, int] = {}  # whole epochs by their largest noise multiplier
        done, largest = 0, 0.0
        for noise, count in self._segments:
            left = count
            if done:
                taken = min(left, self._batches - done)
                done, left, largest = done + taken, left - taken, max(largest, noise)
                if done == self._batches:
                    worst[largest] = worst.get(largest, 0) + 1
                    done, largest = 0, 0.0
            if left >= self._batches:
                worst[noise] = worst.get(noise, 0) + left // self._batches
                left %= self._batches
            if left:
                done, largest = left, noise
        noises = sorted(worst)
        places = np.linspace(0, len(noises) - 1, _LOWER_ENDS) if noises else ()
        chosen = sorted({noises[round(place)] for place in places})
        counted = [(limit, sum(n for noise, n in worst.items() if noise <= limit)) for limit in chosen]
        return [(limit, epochs * self._batches) for limit, epochs in counted]
