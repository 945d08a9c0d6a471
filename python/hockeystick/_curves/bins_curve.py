"""The certified curve of a record in a random bin under correlated noise, as an object."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _html
from hockeystick._arguments import DEFAULT_TOLERANCE, FloatOrFloats, Floats, count_scalar, require, shown
from hockeystick._curves.certificate import Certificate
from hockeystick._curves.chain_of_bins import LARGEST_EPSILON, coefficients, described_chain, enclosed
from hockeystick._curves.shared_work import shared_work
from hockeystick._progress import Report
from hockeystick._readouts import CurveAnswers
from hockeystick._rounding import steps_in_words
from hockeystick._vocabulary.adjacency import ADVERSARY, check_add_remove
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.intervals import both_ends, check_tolerance
from hockeystick.errors import UnsupportedError

_SUPPORTS = 96
"""Epsilons whose deltas bound the trade-off function: it lies less than 1e-3 above the largest line."""

_ROUNDING = 1e-15
"""Error of the few operations on numbers up to 1 that make an error rate of a line."""


class BinsCurve(CurveAnswers):
    """What a run with correlated noise guarantees one record that stays in a random batch of every epoch.

    Made by `privacy_curve` with a `CorrelatedNoise` whose coefficients are geometric after the first and
    ``sampling=FixedBins(...)``. All answers are certified. Every question computes anew, in seconds, so that
    many values are asked for in one array.

    Parameters
    ----------
    mechanism : CorrelatedNoise
        With a noise multiplier above zero.
    sampling : FixedBins
        The batches of an epoch.
    steps : int
        Number of steps of the run. An epoch that is not complete counts as complete in upper ends, and not
        at all in lower ones.
    adjacency : {"add_remove", "add", "remove"}, optional
        Neighbouring relation.
    tolerance : float, optional
        Relative width of intervals beyond which a warning says how wide they are, in [1e-9, 0.1].

    Raises
    ------
    ValueError
        If a number is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        If the bins are no chain, or records are replaced.

    Notes
    -----
    The law of the likelihood ratio is known by its Laplace transform, which gives delta at every epsilon.
    `beta` is the largest of the lines that delta at 96 epsilons gives, up to 1e-3 below the trade-off
    function. An answer raises `UnsupportedError` if the operators are too large.
    Rényi divergences and compositions with other runs need more, and are refused with the reason. The curve
    does not change if the noise and the matrix are multiplied by the same number. Proofs:
    docs/theory/correlated-bins.md.

    References
    ----------
    C. A. Choquette-Choo, A. Ganesh, S. Haque, T. Steinke and A. Thakurta, "Near-Exact Privacy Amplification
    for Matrix Mechanisms", ICLR 2025. arXiv:2410.06266

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
    >>> curve = hs.privacy_curve(
    ...     mechanism=noise, sampling=hs.FixedBins(4), steps=12, adjacency="remove", tolerance=1e-4
    ... )
    >>> print(curve)
    12 steps of CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0), FixedBins(4), 1 record, 'remove'
    against an adversary who sees the output of every step
    >>> lower, upper = curve.bounds(epsilon=[0.5, 1.0])
    >>> bool((lower <= upper).all()), bool((upper <= lower * 1.0001).all())
    (True, True)
    >>> curve.mechanism, curve.sampling, curve.steps
    (CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0), FixedBins(4), 12)
    >>> curve.group_size, curve.adjacency, curve.tolerance, curve.tight
    (1, 'remove', 0.0001, True)
    """

    __slots__ = ("_adjacency", "_lines", "_mechanism", "_sampling", "_steps", "_tolerance")
    __array_ufunc__ = None
    """Leaves ``numpy.int64(3) * curve`` to this class."""

    def __init__(
        self,
        mechanism: CorrelatedNoise,
        sampling: FixedBins,
        steps: int,
        adjacency: str = "add_remove",
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        if not isinstance(mechanism, CorrelatedNoise):
            raise TypeError(f"mechanism must be a CorrelatedNoise, got {shown(mechanism)}")
        if not isinstance(sampling, FixedBins):
            raise TypeError(f"sampling must be FixedBins(...), got {shown(sampling)}")
        if mechanism.noise_multiplier is None:
            raise TypeError(f"{mechanism!r} has no noise multiplier: give it one by with_noise")
        noise = mechanism.noise_multiplier
        require(noise > 0.0, "noise_multiplier", noise, "above 0")
        coefficients(mechanism)
        self._mechanism = mechanism
        self._sampling = sampling
        self._steps = mechanism.check_steps(count_scalar(steps, "steps", 0))
        self._adjacency = check_add_remove(adjacency)
        self._tolerance = check_tolerance(tolerance)
        self._lines: tuple[Floats, Floats] | None = None

    @property
    def mechanism(self) -> CorrelatedNoise:
        """The noise of the run."""
        return self._mechanism

    @property
    def sampling(self) -> FixedBins:
        """How records are dealt into batches."""
        return self._sampling

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self._steps

    @property
    def group_size(self) -> int:
        """Number of records that change together: 1."""
        return 1

    @property
    def adjacency(self) -> str:
        """Neighbouring relation."""
        return self._adjacency

    @property
    def tolerance(self) -> float:
        """Relative width of intervals beyond which a warning is given."""
        return self._tolerance

    @property
    def tight(self) -> bool:
        """Whether some data sets attain the curve: where no coefficient is negative and epochs are whole."""
        whole = self._steps % self._sampling.batches == 0
        return whole and self._mechanism.factor.is_nonnegative(max(self._steps, 1))

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
            They enclose the curve of the dominating pair, which is attained where `tight` is true.

        Raises
        ------
        ValueError
            If the argument is out of range.
        TypeError
            If the argument is not real, or not exactly one is given.
        UnsupportedError
            If the operators are too large.

        Warns
        -----
        WideIntervalWarning
            If the interval is wider than the tolerance.

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
        >>> curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedBins(4), steps=8, tolerance=1e-4)
        >>> lower, upper = curve.bounds(epsilon=0.5)
        >>> 0.0 < lower <= upper < 0.01
        True
        """
        return both_ends(
            delta, epsilon, lambda unknown, at: self._enclosed(unknown, at, self._adjacency), self._tolerance
        )

    def _lower_beta(self, alpha: Floats) -> Floats:
        # The largest of the lines that delta at 96 epsilons gives; up to 1e-3 below the trade-off function.
        wrong = ~((alpha >= 0.0) & (alpha <= 1.0))
        if np.any(wrong):
            require(False, "alpha", float(alpha[wrong][0]), "in [0, 1]")
        growth, hits = self._support()
        column = alpha[:, None]
        steep = 1.0 - hits - growth * column - _ROUNDING * (1.0 + growth * column)
        flat = (1.0 - hits - column) / growth - _ROUNDING
        return np.asarray(np.maximum(np.maximum(steep, flat).max(axis=1), 0.0))

    def renyi(self, order: ArrayLike) -> NoReturn:
        """Refuse: Rényi divergences are not derived from the Laplace transform.

        Parameters
        ----------
        order : array_like
            Order.

        Raises
        ------
        UnsupportedError
            Always, with the reason.

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
        >>> curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedBins(4), steps=8)
        >>> curve.renyi(2.0)
        Traceback (most recent call last):
        hockeystick.errors.UnsupportedError: renyi of random bins under correlated noise: ...
        """
        raise UnsupportedError(
            "renyi of random bins under correlated noise: moments of the likelihood ratio above the first "
            "are not computed; FixedOrder(batches) has an upper bound that uses no draw"
        )

    def best_of(self, runs: object) -> NoReturn:
        """Refuse: the best of several runs needs Rényi divergences and compositions.

        Parameters
        ----------
        runs : object
            The law of the number of runs.

        Raises
        ------
        UnsupportedError
            Always, with the reason.

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
        >>> curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedBins(4), steps=8)
        >>> curve.best_of(hs.PoissonRuns(20))
        Traceback (most recent call last):
        hockeystick.errors.UnsupportedError: best_of random bins under correlated noise: ...
        """
        raise UnsupportedError(
            "best_of random bins under correlated noise: the bounds use Rényi divergences of one run, which "
            "are not computed; use the curve of FixedOrder(batches)"
        )

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
        """Certificate of one number of the curve, for an independent checker.

        Parameters
        ----------
        epsilon : float, optional
            Finite and at least zero: certifies delta there.
        delta : float, optional
            In (0, 1): certifies epsilon there. Give exactly one of the two.
        order, alpha : float, optional
            Refused: they are what other curves certify a Rényi divergence and the trade-off function by.
        progress : bool or callable, optional
            True for a bar, or a function of how many of a hundred parts of the work are done, and of 100.
        processes : int, optional
            Processes that share what the checker computes, at least 1; the result does not depend on it.

        Returns
        -------
        Certificate
            Claims both ends of what the checker proves; the guarantee alone where the last epoch is not
            complete.

        Raises
        ------
        UnsupportedError
            If the checker would need more than a minute or two; for `order` and `alpha`, with the reason.
        ValueError
            If the argument is out of range.
        TypeError
            If the argument is not a number, or not exactly one is given.
        ImportError
            If the extra "verify" is not installed.

        Examples
        --------
        >>> import hockeystick as hs
        >>> noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0)
        >>> curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedBins(2), steps=2, adjacency="add")
        >>> certificate = curve.certify(epsilon=0.5)
        >>> certificate.run["steps"][0]["sampling"], len(certificate.claims)
        ({'name': 'fixed_bins', 'batches': 2}, 2)
        """
        if [epsilon, delta, order, alpha].count(None) != 3:
            raise TypeError("give exactly one of delta and epsilon")
        for name, value in (("order", order), ("alpha", alpha)):
            if value is not None:
                raise UnsupportedError(_NOT_CERTIFIED[name].format(value=value))
        noise = self._mechanism.noise_multiplier
        assert noise is not None
        if not 1e-3 <= noise <= 1e9 or self._steps == 0:
            raise UnsupportedError(
                f"certificates cover noise of 0.001 or more and at least one step: {self!r}"
            )
        run = described_chain(self._mechanism, noise, self._sampling, self._steps, self._adjacency)
        # Importing the modules that make certificates takes a fifth of the time of importing the
        # package. Most programs make no certificate, so that is done when the first one is made.
        from hockeystick._curves.certifying import certificate_of_bins

        with shared_work(progress, processes):
            return certificate_of_bins(self, run, epsilon, delta)

    def __add__(self, other: object) -> NoReturn:
        """Refuse: a sum of losses needs more than each of them."""
        raise UnsupportedError(_COMPOSITION)

    __radd__ = __mul__ = __rmul__ = __add__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinsCurve):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[Any, ...]:
        return BinsCurve, self._parts()

    def __repr__(self) -> str:
        return f"<BinsCurve of {self._summary()}>"

    def __str__(self) -> str:
        return f"{self._summary()}\nagainst {ADVERSARY}"

    def _repr_html_(self) -> str:
        # Epsilons would take seconds.
        return _html.table([], caption=f"BinsCurve of {self._summary()}, against {ADVERSARY}")

    def _summary(self) -> str:
        steps = steps_in_words(self._steps)
        return f"{steps} of {self._mechanism!r}, {self._sampling!r}, 1 record, {self._adjacency!r}"

    def _parts(self) -> tuple[Any, ...]:
        return self._mechanism, self._sampling, self._steps, self._adjacency, self._tolerance

    def _enclosed(self, unknown: str, at: Floats, adjacency: str) -> tuple[Floats, Floats]:
        noise = self._mechanism.noise_multiplier
        assert noise is not None
        return enclosed(unknown, self._mechanism, noise, self._sampling, self._steps, adjacency, at)

    def _support(self) -> tuple[Floats, Floats]:
        """Return e^epsilon, and the larger of both orders' upper bounds on delta there, up to tiny deltas."""
        if self._lines is None:
            largest = float(self._enclosed("epsilon", np.array([1e-9]), "add_remove")[1][0])
            largest = min(max(largest, 1e-3), LARGEST_EPSILON)
            epsilons = largest * (np.arange(_SUPPORTS) / (_SUPPORTS - 1)) ** 1.5
            deltas = self._enclosed("delta", epsilons, "add_remove")[1]
            self._lines = np.exp(epsilons), deltas
        return self._lines


_NOT_CERTIFIED = {
    "order": (
        "certify(order={value}) of random bins under correlated noise: moments of the likelihood ratio above "
        "the first are not known, so that no Rényi divergence is proven. Certify order of the curve with "
        "sampling=FixedOrder(batches) and the same noise, an upper bound that uses no draw; or give epsilon "
        "or delta"
    ),
    "alpha": (
        "certify(alpha={value}) of random bins under correlated noise: give epsilon, and take a line of the "
        "trade-off function from the delta that is proven, max(1 - delta - exp(epsilon) * alpha, "
        "exp(-epsilon) * (1 - delta - alpha))"
    ),
}

_COMPOSITION = (
    "compositions of random bins under correlated noise with other runs are not known: the record stays in "
    "its bin, so that epochs are not independent, and sums with other losses are not computed. State all "
    "epochs as one run, or use FixedOrder(batches), whose curves compose"
)
