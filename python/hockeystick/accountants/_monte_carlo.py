"""Group accounting by Monte Carlo, with bounds that hold with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Floats, count_scalar, float_scalar, require
from hockeystick._curves.coarsening import rounded_segments
from hockeystick._executors import check_executor
from hockeystick._simulation import simulated
from hockeystick._vocabulary.adjacency import DIRECTIONS, check_add_remove
from hockeystick._vocabulary.mechanisms import AdaptiveClipping, Mechanism
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants import _dealt_simulation
from hockeystick.accountants._dealt_simulation import DEALT, has_dealt, multiplier_of, require_simulated
from hockeystick.accountants._history import (
    Draw,
    Segment,
    as_core_segments,
    by_microbatches,
    check_answerable,
    check_noise,
    check_poisson_draw,
    check_step,
    merged,
)
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._repeating import repeatable
from hockeystick.errors import UnsupportedError
from hockeystick.kernels._group_laws import binomial_law
from hockeystick.kernels._monte_carlo import MonteCarloEstimate

PILOT_SHARE = 8
"""The search for epsilon uses samples / PILOT_SHARE, so that its ten or so runs cost about one full run."""

FEWEST_PILOT_SAMPLES = 1_000
"""Fewer samples would propose an epsilon too far off to save the time they take."""

PILOT_EVALUATIONS = 16
"""At most this many bisections; ten reach the tolerance unless Rényi is far off."""

PILOT_TOLERANCE = 1e-3
"""Relative width of the bracket at which the search stops, below the noise of a pilot run."""

ATTEMPTS = 20
"""Certification attempts before falling back to the Rényi bound."""

FIRST_RAISE = 0.01
"""Relative raise of epsilon after the first failed attempt; it doubles with each further one."""

MAX_EXACT = 1_000
"""Different kinds of steps that are simulated as they are; each takes a table of a millisecond or so."""

MAX_ROUNDED = 500
"""Kinds of steps that rounding aims for beyond; it moves the answer by less than the samples do."""

# Purposes of a run, so that no two runs of one accountant share their samples.
_DELTA, _PILOT, _ATTEMPT, _BELOW = range(4)


class MonteCarloAccountant(Accountant):
    """Privacy of DP-SGD for a group of records, by Monte Carlo: Poisson samples and dealt batches.

    Parameters
    ----------
    group_size : int, optional
        Number of records that are added or removed together, in [1, 10000].
    samples : int, optional
        Samples of each run; each sample draws every step of the history.
    confidence : float, optional
        Probability in (0, 1) with which each answer is a valid bound.
    seed : int, optional
        In [0, 2**64). The same seed gives the same answers for any number of threads.
    adjacency : {"add_remove", "add", "remove"}, optional
        Neighbouring relation.
    executor : concurrent.futures.Executor, optional
        Draws the samples; answers are the same to the last bit with and without it. It is not part of the
        accountant's state.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        For ``adjacency="replace"``.

    Notes
    -----
    Samples the composed dominating pair of GROUP, Theorem 18
    by its Algorithm 2, with importance tilting. An answer is a bound with probability `confidence`
    over the samples, each answer on its own: of a hundred answers at 0.99, one may fail.

    An epsilon at which the samples themselves happened to look good would be no bound. So a search on pilot
    samples proposes one, starting from the Rényi bound, and fresh samples, independent of the proposal,
    certify that the upper end of the interval for delta(epsilon) is at most delta. If they do not, epsilon is
    raised and tried again with fresh samples; attempt n has an error probability of (1 - confidence) / 2^n,
    so that all attempts together have at most 1 - confidence. The Rényi bound, which needs no samples, is the
    answer of `get_epsilon` where no smaller epsilon was certified. `get_delta` is the upper end of
    `get_delta_interval`.

    Where records are dealt into batches (``sampling=RandomAllocation(...)`` or ``FixedBins(...)``, beside
    Poisson samples too) the outputs of whole epochs are drawn, as `hockeystick.estimate_delta` draws them,
    and the certified bound of `GroupAccountant` takes the place of the Rényi bound. That is for groups of up
    to 256 records, noise multipliers from 0.01 on, and one record where it is in several batches of an epoch;
    an `executor` has no part in it. One record in one batch is exact in `GroupAccountant`, so that samples
    can only confirm it.

    Every kind of step takes a table. After more than 1,000 different steps, as with noise that changes at
    every update, multipliers and rates are rounded to a grid on which there are 500 or fewer: to the
    leaking side for upper ends, to the other for lower ends.

    References
    ----------
    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    Examples
    --------
    >>> from hockeystick.accountants import MonteCarloAccountant
    >>> accountant = MonteCarloAccountant(group_size=4, samples=100_000)
    >>> for _ in range(1000):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> 8.764e-13 < accountant.get_delta(16.2423) < 1.1e-12
    True
    >>> accountant.samples, accountant.confidence, accountant.seed, accountant.mechanism()
    (100000, 0.99, 0, 'monte_carlo_group')
    """

    _ANSWERS_AT_ONCE = False

    def __init__(
        self,
        group_size: int = 1,
        samples: int = 100_000,
        confidence: float = 0.99,
        seed: int = 0,
        adjacency: str = "add_remove",
        executor: Executor | None = None,
    ) -> None:
        super().__init__(group_size, check_add_remove(adjacency))
        self._deals = False  # whether records are dealt into the batches of some steps
        self._samples = count_scalar(samples, "samples", 1)
        self._confidence = float_scalar(confidence, "confidence")
        require(0.0 < self._confidence < 1.0, "confidence", self._confidence, "in (0, 1)")
        self._seed = count_scalar(seed, "seed", 0, 2**64 - 1)
        check_executor(executor)
        self._executor = executor

    @property
    def samples(self) -> int:
        """Samples of each run."""
        return self._samples

    @property
    def confidence(self) -> float:
        """Probability with which each answer is a valid bound."""
        return self._confidence

    @property
    def seed(self) -> int:
        """Seed of all runs."""
        return self._seed

    @classmethod
    def mechanism(cls) -> str:
        """Return "monte_carlo_group"."""
        return "monte_carlo_group"

    @staticmethod
    def _check_noise(value: object, name: str) -> float | Mechanism:
        return _check_noise(value, name)

    @staticmethod
    def _check_draw(value: object, name: str) -> Any:
        return value if isinstance(value, DEALT) else check_poisson_draw(value, name)

    def _checked(self, segments: object) -> list[Any]:
        history = super()._checked(segments)
        require_simulated(history, self.group_size)
        self._deals = has_dealt(history)
        return history

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        mechanism: Mechanism | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | str | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
        epochs: float | None = None,
        steps: int = 1,
    ) -> None:
        """Record one optimisation step, several equal ones, or all of a run.

        Parameters
        ----------
        run : Run, optional
            A whole run, in place of all other arguments; about as many records per person as the accountant.
        noise_multiplier : float, optional
            Standard deviation of the noise in units of the clipping norm, at least zero.
        mechanism : Gaussian or AdaptiveClipping, optional
            What randomises the step. Give either this or `noise_multiplier`.
        sample_rate : float, optional
            Probability in [0, 1] that a record is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson, RandomAllocation or FixedBins, optional
            How the batch is drawn. Give either this or `sample_rate`.
        batch_size, dataset_size, epochs : optional
            Sizes in place of a rate, and epochs in place of `steps`, as in `Accountant.step`.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, or not exactly one of `noise_multiplier` and `mechanism`, and
            one of `sample_rate` and `sampling`, is given; the accountant stays as it was.
        UnsupportedError
            If such noise or batches are not simulated; the accountant stays as it was.

        Examples
        --------
        >>> import hockeystick as hs
        >>> accountant = hs.MonteCarloAccountant(group_size=4, samples=5_000)
        >>> accountant.step(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=20)
        >>> accountant.history
        [(2.0, RandomAllocation(10), 20)]
        """
        self._record(*check_step(noise_multiplier, mechanism, sample_rate, sampling, check=_check_noise))

    def _record(self, noise: Any, draw: Draw) -> None:
        checked = self._check_draw(draw, "sampling")
        deals = isinstance(checked, DEALT)
        if deals and not self._deals:
            # All that was recorded before has to stand beside it.
            require_simulated([*self._history, (noise, checked, 1)], self.group_size)
        elif self._deals:
            require_simulated([(noise, checked, 1)], self.group_size, beside=True)
        super()._record(noise, checked)
        self._deals = self._deals or deals

    def _delta(self, epsilon: float) -> float:
        return float(self.get_delta_interval(epsilon).upper)

    def get_delta_interval(self, epsilon: float) -> MonteCarloEstimate:
        """Estimate delta of all steps so far, with an interval.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.

        Returns
        -------
        MonteCarloEstimate
            ``(estimate, lower, upper)``; delta lies in [lower, upper] with probability
            `confidence`.

        Raises
        ------
        ValueError
            If `epsilon` is negative or not finite.
        TypeError
            If `epsilon` is not a real number.

        Notes
        -----
        Delta is the larger one of its directions. Each direction has an interval of its own at a
        confidence of 1 - (1 - confidence) / directions, so that both hold together (Bonferroni).
        A step without noise shows whether a member was in the batch, so delta is at least the
        probability of that.

        Examples
        --------
        >>> from hockeystick.accountants import MonteCarloAccountant
        >>> accountant = MonteCarloAccountant(samples=10_000)
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.1)
        >>> estimate, lower, upper = accountant.get_delta_interval(1.0)
        >>> lower <= estimate <= upper
        True
        """
        level = _check_epsilon(epsilon)
        error, seed = 1.0 - self.confidence, self._seed_for(_DELTA)
        if len(merged(self._segments())) <= MAX_EXACT:
            return self._interval(level, self.samples, error, seed)
        # Each run bounds delta on one side only, so that both must hold together.
        above = self._interval(level, self.samples, 0.5 * error, seed)
        below = self._interval(level, self.samples, 0.5 * error, self._seed_for(_BELOW), leaking=False)
        return MonteCarloEstimate(above.estimate, min(below.lower, above.upper), above.upper)

    def _epsilon(self, delta: float) -> float:
        certain = self._certain_epsilon(delta)
        if certain in (0.0, math.inf):
            return certain
        epsilon = self._propose_epsilon(delta, certain)
        for attempt in range(1, ATTEMPTS + 1):
            if epsilon >= certain:
                break
            error = (1.0 - self.confidence) / 2.0**attempt
            seed = self._seed_for(_ATTEMPT, attempt)
            if self._interval(epsilon, self.samples, error, seed).upper <= delta:
                return epsilon
            # From zero, a relative raise would not move.
            start = max(epsilon, FIRST_RAISE * certain)
            epsilon = start * (1.0 + FIRST_RAISE * 2.0 ** (attempt - 1))
        return certain

    def _propose_epsilon(self, delta: float, largest: float) -> float:
        """Epsilon at which the upper end of a pilot run meets `delta`."""
        samples = min(self.samples, max(self.samples // PILOT_SHARE, FEWEST_PILOT_SAMPLES))
        error = 1.0 - self.confidence
        seed = self._seed_for(_PILOT)

        def excess(epsilon: float) -> float:
            upper = float(self._interval(epsilon, samples, error, seed).upper)
            return upper - delta

        return _root_from_above(excess, largest)

    def _interval(
        self, epsilon: float, samples: int, error: float, seed: int, leaking: bool = True
    ) -> MonteCarloEstimate:
        """Interval for delta(epsilon) over all directions, wrong with probability `error` at most.

        Of a run with very many different steps it is that of one that leaks no less, or no more.
        """
        directions = DIRECTIONS[self.adjacency]
        history, each = self._segments(), 1.0 - error / len(directions)
        if has_dealt(history):
            kinds = (MAX_EXACT, MAX_ROUNDED)
            runs = [
                _dealt_simulation.interval(
                    epsilon, history, self.group_size, leaking, kinds, (samples, direction, seed, each)
                )
                for direction in directions
            ]
            return MonteCarloEstimate(*(max(ends) for ends in zip(*runs, strict=True)))
        mixtures = [
            self._mixture(segment, batches)
            for batches, segments in by_microbatches(history).items()
            for segment in rounded_segments(merged(segments), leaking, MAX_EXACT, MAX_ROUNDED)
        ]
        runs = [
            simulated((epsilon, mixtures, True, samples, direction, None, seed, each), self._executor)
            for direction in directions
        ]
        return MonteCarloEstimate(*(max(ends) for ends in zip(*runs, strict=True)))

    def _segments(self) -> list[Any]:
        # The list is the user's to change, so it is checked again.
        history: list[Any] = self._checked(self.history)
        check_answerable(history)
        return [(multiplier_of(noise), draw, steps) for noise, draw, steps in history]

    def _mixture(self, segment: Segment, batches: int) -> tuple[Floats, Floats, float, int]:
        noise_multiplier, sample_rate, steps = segment
        # A member is in each of the accumulated batches on its own, as another member would be.
        log_weights, shifts = binomial_law(self.group_size * batches, sample_rate, log=True)
        return log_weights, shifts, noise_multiplier, steps

    def _certain_epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon for which no samples are drawn."""
        history = self._segments()
        if has_dealt(history):
            return _dealt_simulation.certified_epsilon(history, self.group_size, self.adjacency, delta)
        parts = by_microbatches(history)
        # A larger group loses more: the most batches of any step stand for those of all.
        members = self.group_size * max(parts, default=1)
        together = merged(segment for part in parts.values() for segment in part)
        segments = as_core_segments(rounded_segments(together), members)
        found, _ = _core.history_epsilon(np.array([delta]), segments, self.adjacency, "exact", "canonne")
        return float(found[0])

    def _seed_for(self, *purpose: int) -> int:
        sequence = np.random.SeedSequence([self.seed, *purpose])
        return int(sequence.generate_state(1, np.uint64)[0])

    def _status(self) -> str:
        by = "docs/theory/allocation-estimate.md" if has_dealt(self._history) else "GROUP, Theorem 18"
        return f"upper bound that holds with confidence {self.confidence:g}, by simulation ({by})"

    def _settings(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "samples": self.samples,
            "confidence": self.confidence,
            "seed": self.seed,
            "adjacency": self.adjacency,
        }


def _check_noise(value: object, name: str) -> float | Mechanism:
    """`value` as a noise multiplier, or the clipped sum and count of adaptive clipping."""
    noise = check_noise(value, name)
    if isinstance(noise, float | AdaptiveClipping):
        return noise
    raise UnsupportedError(
        f"{name} must be Gaussian noise, which is what the samples are drawn from, got {noise!r}: "
        f"GroupAccountant accounts for it"
    )


def _check_epsilon(epsilon: float) -> float:
    level = float_scalar(epsilon, "epsilon")
    require(math.isfinite(level) and level >= 0.0, "epsilon", level, "in [0, inf)")
    return level


def _root_from_above(excess: Callable[[float], float], upper: float) -> float:
    """Smallest point found on [0, upper] where the decreasing function `excess` is not positive.

    Bisection: `excess` is noisy, and a secant would follow the noise.
    """
    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, upper
    for _ in range(PILOT_EVALUATIONS):
        if high - low <= PILOT_TOLERANCE * high:
            break
        middle = 0.5 * (low + high)
        if excess(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high
