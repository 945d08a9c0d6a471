"""The questions that all curves answer: (epsilon, delta), error rates, attack success."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import FloatOrFloats, Floats, float_array, float_scalar, in_shape
from hockeystick._distinct import answered_once

Bounds = tuple[FloatOrFloats, FloatOrFloats]


class SafeAnswers(ABC):
    """Epsilon and delta, of each the end of its interval at which the guarantee holds."""

    __slots__ = ()

    @abstractmethod
    def _upper_end(self, unknown: str, at: ArrayLike) -> FloatOrFloats:
        """Return an upper bound on `unknown`, "epsilon" or "delta", at values of the other one."""

    def epsilon(self, delta: ArrayLike) -> FloatOrFloats:
        """Upper bound on epsilon.

        Parameters
        ----------
        delta : array_like
            In (0, 1).

        Returns
        -------
        float or ndarray, shape of `delta`
            Epsilon, inf where no noise protects.

        Raises
        ------
        ValueError
            If `delta` is out of range.
        TypeError
            If `delta` is not real.

        Warns
        -----
        WideIntervalWarning
            Of curves with a tolerance, if an interval wider than it had to be used.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> round(curve.epsilon(1e-5), 4)
        1.8282
        """
        return self._upper_end("epsilon", delta)

    def delta(self, epsilon: ArrayLike) -> FloatOrFloats:
        """Upper bound on delta.

        Parameters
        ----------
        epsilon : array_like
            Finite and at least zero.

        Returns
        -------
        float or ndarray, shape of `epsilon`
            Delta in [0, 1].

        Raises
        ------
        ValueError
            If `epsilon` is out of range.
        TypeError
            If `epsilon` is not real.

        Warns
        -----
        WideIntervalWarning
            Of curves with a tolerance, if an interval wider than it had to be used.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
        >>> 0.0 < curve.best_of(hs.GeometricRuns(5)).delta(3.0) < 1e-6
        True
        """
        return self._upper_end("delta", epsilon)

    get_epsilon = epsilon
    """The name of the function and of accountants."""
    get_delta = delta

    def advantage(self) -> float:
        """Upper bound on the advantage of a membership attack: its hit rate less its false alarms.

        Returns
        -------
        float
            In [0, 1]: delta at epsilon zero, the total variation distance.

        Warns
        -----
        WideIntervalWarning
            Of curves with a tolerance, if an interval wider than it had to be used.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> round(curve.advantage(), 4)
        0.161
        """
        return float(self.delta(0.0))


class CurveAnswers(SafeAnswers):
    """Epsilon and delta, and the error rates of attacks."""

    __slots__ = ()

    @abstractmethod
    def _lower_beta(self, alpha: Floats) -> Floats:
        """Return lower bounds on the false negative rate at false positive rates, one-dimensional."""

    def beta(self, alpha: ArrayLike) -> FloatOrFloats:
        """Lower bound on the trade-off function: how often an attack misses at a false positive rate.

        Parameters
        ----------
        alpha : array_like
            False positive rate of a test for the group, in [0, 1].

        Returns
        -------
        float or ndarray, shape of `alpha`
            False negative rate that every such test has at least.

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        TypeError
            If `alpha` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
        >>> curve.beta([0.0, 0.05, 1.0]).round(4).tolist()
        [1.0, 0.889, 0.0]
        """
        rates = float_array(alpha, "alpha")
        return in_shape(self._lower_beta(rates.ravel()), rates.shape)


class ReadOuts(SafeAnswers):
    """The questions that a `hockeystick.TradeoffCurve` answers."""

    __slots__ = ()

    _compiled: _core.TradeoffCurve

    def __call__(self, alpha: ArrayLike) -> FloatOrFloats:
        """Return f(α), see `beta`."""
        return self.beta(alpha)

    def beta(self, alpha: ArrayLike) -> FloatOrFloats:
        """Lower bound on f: how often an attack misses at a false positive rate.

        Parameters
        ----------
        alpha : array_like
            False positive rate, in [0, 1].

        Returns
        -------
        float or ndarray, shape of `alpha`
            In [0, 1 - alpha].

        Raises
        ------
        ValueError
            If `alpha` is out of range.
        TypeError
            If `alpha` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> curve = hs.TradeoffCurve.gaussian(1.0)
        >>> round(curve.beta(0.05), 4), curve.beta(0.05) == curve(0.05)
        (0.7405, True)
        """
        return self.bounds(alpha=alpha)[0]

    def _upper_end(self, unknown: str, at: ArrayLike) -> FloatOrFloats:
        return self.bounds(delta=at)[1] if unknown == "epsilon" else self.bounds(epsilon=at)[1]

    def bounds(
        self,
        *,
        alpha: ArrayLike | None = None,
        epsilon: ArrayLike | None = None,
        delta: ArrayLike | None = None,
    ) -> Bounds:
        """Both ends of the interval that is known to hold f(α), δ(ε) or ε(δ) of this very expression.

        Parameters
        ----------
        alpha, epsilon, delta : array_like, optional
            Exactly one of the three, as for `beta`, `delta` and `epsilon`.

        Returns
        -------
        lower, upper : float or ndarray

        Raises
        ------
        ValueError
            If the argument is out of range.
        TypeError
            If it is not real, or not exactly one is given.

        Examples
        --------
        >>> import hockeystick as hs
        >>> lower, upper = hs.TradeoffCurve.gaussian(1.0).group(3).bounds(alpha=0.01)
        >>> upper - lower < 1e-12
        True
        """
        given = {"alpha": alpha, "epsilon": epsilon, "delta": delta}
        asked = [name for name, value in given.items() if value is not None]
        if len(asked) != 1:
            raise TypeError(f"give exactly one of alpha, epsilon and delta, got {asked or 'none'}")
        (name,) = asked
        ask = {
            "alpha": self._compiled.beta,
            "epsilon": self._compiled.delta,
            "delta": self._compiled.epsilon,
        }[name]
        return _answers(ask, given[name], name)

    def mu(self, regret: float = 0.0) -> float:
        """Best Gaussian fit from below: the smallest μ with f >= G_μ.

        Parameters
        ----------
        regret : float, optional
            κ in [0, 1): with κ > 0 the smallest μ with f(α) >= G_μ(α + κ) - κ. A fit that may be off by
            that much in both error rates is often far closer than one that holds to the last event.

        Returns
        -------
        float
            μ, rounded up by 1e-10 or so. Without regret it is that of the widest pair behind the curve
            if losses are unbounded: attacks with a vanishing α see nothing else.

        Raises
        ------
        ValueError
            If `regret` is out of range, or no G_μ is below the curve (f(0) < 1).
        TypeError
            If `regret` is not a real number.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.TradeoffCurve.gaussian(1.0).subsample(0.01) * 1000
        >>> round(run.mu(), 2), round(run.mu(regret=1e-3), 2)
        (31.62, 0.52)
        """
        return self._compiled.mu(float_scalar(regret, "regret"))

    def attack_success(self, prior: ArrayLike = 0.5) -> FloatOrFloats:
        """Upper bound on the probability that an attack is right about who took part.

        Parameters
        ----------
        prior : array_like, optional
            Probability in [0, 1], known to the attacker, that the group took part.

        Returns
        -------
        float or ndarray, shape of `prior`
            At least ``max(prior, 1 - prior)``, which needs no attack.

        Raises
        ------
        ValueError
            If `prior` is out of range.
        TypeError
            If `prior` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.TradeoffCurve.gaussian(1.0).attack_success([0.5, 0.01]).round(4)
        array([0.6915, 0.99  ])
        """
        return _answers(self._compiled.attack_success, prior, "prior")[1]

    def worst_case_probability(self, p: ArrayLike) -> FloatOrFloats:
        """How likely an event of probability p can become when the group joins or leaves.

        Parameters
        ----------
        p : array_like
            Probability in [0, 1] of the event without the change: of a wrong prediction, say.

        Returns
        -------
        float or ndarray, shape of `p`
            1 - f(p), whatever the group's records are: a certificate against poisoning (GROUP,
            section 6).

        Raises
        ------
        ValueError
            If `p` is out of range.
        TypeError
            If `p` is not real.

        Examples
        --------
        >>> import hockeystick as hs
        >>> round(hs.TradeoffCurve.gaussian(1.0).worst_case_probability(0.01), 4)
        0.0924
        """
        return _answers(self._compiled.worst_case_probability, p, "p")[1]


def _answers(ask: Any, asked: ArrayLike | None, name: str) -> Bounds:
    questions = float_array(asked, name)
    lower, upper = answered_once([questions.ravel()], ask)
    return in_shape(lower, questions.shape), in_shape(upper, questions.shape)
