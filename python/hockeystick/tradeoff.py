"""Trade-off functions (f-DP): the error rates of attacks, and the algebra of mechanisms that they obey."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core, _html
from hockeystick._arguments import FloatOrFloats, count_scalar, float_scalar, float_vector
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.expression import answers_at_once, is_shuffled, made, steps_of, words
from hockeystick._curves.renyi_readouts import GaussianMixture, RenyiReadOuts
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._curves.tradeoff_core import core_of_curve
from hockeystick._readouts import ReadOuts
from hockeystick._rounding import percent_up
from hockeystick._vocabulary.adjacency import ADVERSARY, STRONG_ADVERSARY
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement

__all__ = ["TradeoffCurve"]


def __dir__() -> list[str]:
    return list(__all__)


Bounds = tuple[FloatOrFloats, FloatOrFloats]


class TradeoffCurve(RenyiReadOuts, ReadOuts):
    """A trade-off function f: an attack with false positive rate α misses with probability f(α) at least.

    Immutable. Made by `gaussian`, `laplace`, `from_epsilon_delta`, `from_points` and `from_curve`; called on
    an array of α it returns f. Every answer is on the safe side, a lower bound on f and an upper bound on
    epsilon, delta and the success of attacks, through all operations; `bounds` gives the other side too.

    Notes
    -----
    A curve is kept as the expression it was built by. An operation has a closed form for f or for its
    hockey-stick curve δ(ε) = sup 1 - f(α) - e^ε α, and the other is a minimum of a convex function, found
    with bounds on both sides (Dong, Roth and Su 2022, "Gaussian differential privacy", Proposition 6). The
    error of f is below 1e-9 where the privacy curves behind it can be computed as closely; `bounds` tells.

    References
    ----------
    - Dong, Roth and Su 2022, "Gaussian Differential Privacy", Journal of the Royal Statistical Society B
      84(1), doi:10.1111/rssb.12454
    - van Dijk, Nguyen, Nguyen and Nguyen 2022, "Generalizing DP-SGD with Shuffling and Batch Clipping",
      arXiv:2212.05796 (SHUFFLE)

    Examples
    --------
    >>> import hockeystick as hs
    >>> step = hs.TradeoffCurve.gaussian(0.5)
    >>> run = step.subsample(0.01) * 1000
    >>> run
    <TradeoffCurve: gaussian(0.5).subsample(0.01) * 1000>
    >>> round(run(0.05), 4)
    0.9261
    >>> round(run.epsilon(1e-5), 3)
    0.719
    >>> step.is_symmetric, step.adversary
    (True, 'an adversary who sees the output of every step')
    >>> other = hs.TradeoffCurve.gaussian(1.0)
    >>> [round(step.minimum(other)(0.1), 4), round(step.maximum(other)(0.1), 4), round(other(0.1), 4)]
    [0.6109, 0.7828, 0.6109]
    >>> one_way = hs.TradeoffCurve.from_points([0.0, 0.5, 1.0], [0.8, 0.2, 0.0])
    >>> [round(f(0.1), 4) for f in (one_way, one_way.inverse(), one_way.symmetrize(), one_way.convexify())]
    [0.68, 0.75, 0.65, 0.68]
    """

    __slots__ = ("_compiled", "_mixtures", "_recipe")
    __array_ufunc__ = None
    """Leaves ``numpy.int64(3) * curve`` to this class."""

    _compiled: _core.TradeoffCurve
    _recipe: tuple[Any, ...]

    def __init__(self) -> None:
        raise TypeError(
            "make a TradeoffCurve by gaussian, laplace, from_epsilon_delta, from_points or from_curve"
        )

    @classmethod
    def _of(cls, core: _core.TradeoffCurve, *recipe: Any) -> TradeoffCurve:
        curve = object.__new__(cls)
        object.__setattr__(curve, "_compiled", core)
        object.__setattr__(curve, "_recipe", recipe)
        object.__setattr__(curve, "_mixtures", None)
        return curve

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a TradeoffCurve does not change: cannot set {name}")

    @classmethod
    def gaussian(cls, mu: float) -> TradeoffCurve:
        """G_μ, the trade-off between N(0, 1) and N(μ, 1).

        Parameters
        ----------
        mu : float
            Distance in standard deviations, in [0, 1e6]; 0 is no information, f = 1 - α.

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        ValueError
            If `mu` is out of range.
        TypeError
            If `mu` is not a real number.

        Examples
        --------
        >>> import hockeystick as hs
        >>> (hs.TradeoffCurve.gaussian(1) * 100).mu()
        10.0
        """
        distance = float_scalar(mu, "mu")
        return cls._of(_core.TradeoffCurve.gaussian(distance), "gaussian", distance)

    @classmethod
    def laplace(cls, mu: float) -> TradeoffCurve:
        """Trade-off between Laplace noise of scale 1 around 0 and around μ: (μ, 0)-differential privacy.

        Parameters
        ----------
        mu : float
            Distance in scales, in [0, 600].

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        ValueError
            If `mu` is out of range.
        TypeError
            If `mu` is not a real number.

        Examples
        --------
        >>> import hockeystick as hs
        >>> round(hs.TradeoffCurve.laplace(1.0)(0.5), 4)
        0.1839
        """
        distance = float_scalar(mu, "mu")
        return cls._of(_core.TradeoffCurve.laplace(distance), "laplace", distance)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float) -> TradeoffCurve:
        """f_{ε,δ}(α) = max{0, 1 - δ - e^ε α, e^-ε (1 - δ - α)}: all that (ε, δ)-differential privacy says.

        Parameters
        ----------
        epsilon : float
            In [0, 600].
        delta : float
            In [0, 1].

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        ValueError
            If an argument is out of range.
        TypeError
            If an argument is not a real number.

        Notes
        -----
        SHUFFLE prints a minimum in place of the maximum, which is at most 0.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.TradeoffCurve.from_epsilon_delta(1.0, 1e-3)
        >>> round(curve(0.1), 4)
        0.7272
        """
        bound, lost = float_scalar(epsilon, "epsilon"), float_scalar(delta, "delta")
        core = _core.TradeoffCurve.epsilon_delta(bound, lost)
        return cls._of(core, "from_epsilon_delta", bound, lost)

    @classmethod
    def from_points(cls, alpha: ArrayLike, beta: ArrayLike) -> TradeoffCurve:
        """Largest trade-off function below some points: straight lines between those on their lower hull.

        Parameters
        ----------
        alpha : array_like, shape (n,)
            False positive rates, ascending from 0 to 1, n >= 2.
        beta : array_like, shape (n,)
            False negative rates in [0, 1], descending, at most ``1 - alpha``.

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        ValueError
            If the points are not such.
        TypeError
            If an argument is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.TradeoffCurve.from_points([0, 0.1, 0.4, 1], [0.9, 0.5, 0.1, 0])
        >>> round(curve(0.05), 4)
        0.7
        """
        rates, misses = float_vector(alpha, "alpha"), float_vector(beta, "beta")
        core = _core.TradeoffCurve.points(rates, misses)
        return cls._of(core, "from_points", tuple(rates.tolist()), tuple(misses.tolist()))

    @classmethod
    def from_curve(cls, privacy_curve: PrivacyCurve | ShuffledCurve) -> TradeoffCurve:
        """Trade-off function of a run: min{f, f^-1}** over both orders of its dominating pair.

        Parameters
        ----------
        privacy_curve : PrivacyCurve or ShuffledCurve
            A run; one with ``adjacency="add"`` or "remove" is taken in both orders, as "add_remove". Of
            shuffled batches it is the guarantee.

        Returns
        -------
        TradeoffCurve
            Composes with others: each order of the pair on its own, which is exact for runs on one data
            set and at least the tensor product of the symmetrised curves.

        Raises
        ------
        TypeError
            If `privacy_curve` is not one of these.
        UnsupportedError
            If records are dealt into the batches of an epoch: ask the curve itself, or compose curves.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> round(hs.TradeoffCurve.from_curve(run).epsilon(1e-5), 4)
        1.8282
        """
        core = core_of_curve(privacy_curve)
        return cls._of(core, "from_curve", privacy_curve)

    @classmethod
    def of_shuffle(
        cls,
        core: _core.TradeoffCurve,
        function: Callable[..., TradeoffCurve],
        sampling: Shuffle | WithoutReplacement,
        arguments: tuple[tuple[str, Any], ...],
        mixtures: tuple[GaussianMixture, ...] | None = None,
    ) -> TradeoffCurve:
        """Return the result of a function of `hockeystick.shuffle`; for that package.

        >>> import hockeystick as hs
        >>> hs.shuffle.tradeoff(hs.Shuffle(10, 100), noise_multiplier=4.0)  # made by this
        <TradeoffCurve: shuffle.tradeoff(...
        """
        curve = cls._of(core, "shuffle", function, sampling, arguments)
        object.__setattr__(curve, "_mixtures", mixtures)
        return curve

    @property
    def adversary(self) -> str:
        """The adversary that the curve is about: the usual one, or one who knows batch membership too."""
        return STRONG_ADVERSARY if is_shuffled(self._recipe) else ADVERSARY

    def subsample(self, p: float) -> TradeoffCurve:
        """C_p(f) = min{f_p, f_p^-1}** with f_p(α) = p f(α) + (1 - p)(1 - α), of the symmetrised f.

        One step on a random part of the data that holds a record with probability p, which is replaced.

        Parameters
        ----------
        p : float
            In [0, 1].

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        ValueError
            If `p` is not in [0, 1].
        TypeError
            If `p` is not a real number.

        Notes
        -----
        Dong, Roth and Su 2022, Theorem 9; SHUFFLE, Appendix A. ``gaussian(2 / sigma).subsample(b / n)``
        composed T times is the curve of `WithoutReplacement` with records replaced (PITFALLS, Theorem 14).

        Examples
        --------
        >>> import hockeystick as hs
        >>> round(hs.TradeoffCurve.gaussian(1.0).subsample(0.1).advantage(), 5)
        0.03829
        """
        rate = float_scalar(p, "p")
        return self._of(self._compiled.subsample(rate), "subsample", self._recipe, rate)

    def compose(self, other: TradeoffCurve) -> TradeoffCurve:
        """Tensor product f ⊗ g: both mechanisms on the same data.

        Parameters
        ----------
        other : TradeoffCurve

        Returns
        -------
        TradeoffCurve
            Through the composed privacy curve, not by products on a grid.

        Raises
        ------
        TypeError
            If `other` is not a TradeoffCurve.

        Notes
        -----
        Curves of `group`, `minimum` or `maximum`, and those subsampled after composition, are not known as
        pairs of laws: such a one is replaced by a pair whose curve is nowhere above it, see the
        documentation on how closely. Where it is the same, compose before such operations.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.TradeoffCurve.gaussian(3.0).compose(hs.TradeoffCurve.gaussian(4.0)).mu()
        5.0
        """
        found = self._compiled.compose(_other(other)._compiled)
        return self._of(found, "compose", self._recipe, other._recipe)

    def __mul__(self, times: object) -> TradeoffCurve:
        """Compose with itself: f ⊗ … ⊗ f."""
        if isinstance(times, bool | np.bool_) or not hasattr(times, "__index__"):
            return NotImplemented
        count = count_scalar(operator.index(times), "times", 0)
        return self._of(self._compiled.repeat(count), "repeat", self._recipe, count)

    __rmul__ = __mul__

    def group(self, k: int) -> TradeoffCurve:
        """1 - (1 - f)^∘k: what f for one record implies for a group of k.

        Parameters
        ----------
        k : int
            At least 1; at most 10,000 unless f is of Gaussian or Laplace noise alone.

        Returns
        -------
        TradeoffCurve
            A black box: where the mechanism is known, ``privacy_curve(group_size=k)`` is exact.

        Raises
        ------
        ValueError
            If `k` is out of range.
        TypeError
            If `k` is not a whole number.

        Notes
        -----
        Dong, Roth and Su 2022, Theorem 6; GROUP, Theorem 5.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.TradeoffCurve.gaussian(0.5).group(4).mu()
        2.0
        """
        size = count_scalar(k, "k", 1)
        return self._of(self._compiled.group(size), "group", self._recipe, size)

    def inverse(self) -> TradeoffCurve:
        """f^-1(α) = inf{t : f(t) <= α}: the hypotheses the other way round.

        Returns
        -------
        TradeoffCurve
        """
        if self.is_symmetric:
            return self
        if self._recipe[0] == "inverse":
            return made(TradeoffCurve, steps_of(self._recipe[1]))
        return self._of(self._compiled.inverse(), "inverse", self._recipe)

    def symmetrize(self) -> TradeoffCurve:
        """min{f, f^-1}**: what holds in both orders of the hypotheses.

        Returns
        -------
        TradeoffCurve
        """
        if self.is_symmetric:
            return self
        return self._of(self._compiled.symmetrize(), "symmetrize", self._recipe)

    def convexify(self) -> TradeoffCurve:
        """f**, the largest convex function below f: the curve itself.

        Every curve is convex already: `from_points` takes the hull of its points, and the operations that
        can leave a function without convexity take the double conjugate.

        Returns
        -------
        TradeoffCurve
        """
        return self

    def minimum(self, other: TradeoffCurve) -> TradeoffCurve:
        """min{f, g}**: what holds whichever of the two mechanisms was run.

        Parameters
        ----------
        other : TradeoffCurve

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        TypeError
            If `other` is not a TradeoffCurve.
        """
        found = self._compiled.minimum(_other(other)._compiled)
        return self._of(found, "minimum", self._recipe, other._recipe)

    def maximum(self, other: TradeoffCurve) -> TradeoffCurve:
        """max{f, g}: what holds of one mechanism if both bounds do.

        Parameters
        ----------
        other : TradeoffCurve

        Returns
        -------
        TradeoffCurve

        Raises
        ------
        TypeError
            If `other` is not a TradeoffCurve.
        """
        found = self._compiled.maximum(_other(other)._compiled)
        return self._of(found, "maximum", self._recipe, other._recipe)

    @property
    def is_symmetric(self) -> bool:
        """Whether f is known to be its own inverse."""
        return self._compiled.is_symmetric()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TradeoffCurve):
            return NotImplemented
        return steps_of(self._recipe) == steps_of(other._recipe)

    def __hash__(self) -> int:
        return hash(steps_of(self._recipe))

    def __reduce__(self) -> tuple[Any, ...]:
        return made, (TradeoffCurve, steps_of(self._recipe))

    def _repr_html_(self) -> str:
        rows = [("expression", words(self._recipe)), ("adversary", self.adversary)]
        if answers_at_once(self._recipe):
            rows += _html.epsilons(lambda deltas: np.asarray(self.epsilon(deltas)))
            rows.append(("advantage of an attack", f"at most {percent_up(self.advantage())}"))
            found = percent_up(1.0 - float(self.beta(0.01)))
            rows.append(("found at 1 % false alarms", f"at most {found}"))
        return _html.table(rows, caption="TradeoffCurve", named=True)

    def __repr__(self) -> str:
        strong = f"; {STRONG_ADVERSARY}" if is_shuffled(self._recipe) else ""
        return f"<TradeoffCurve: {words(self._recipe)}{strong}>"


def _other(value: object) -> TradeoffCurve:
    if not isinstance(value, TradeoffCurve):
        raise TypeError(f"other must be a TradeoffCurve, got {type(value).__name__}")
    return value
