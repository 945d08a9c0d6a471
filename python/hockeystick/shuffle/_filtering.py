"""Clipped units that are kept with probability 1/2 (SHUFFLE, Appendix D)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import (
    DEFAULT_TOLERANCE,
    FloatOrFloats,
    Floats,
    float_array,
    float_scalar,
    in_shape,
    require,
    require_type,
)
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.making import privacy_curve
from hockeystick._curves.shuffled_upper import LEAST_NOISE
from hockeystick._vocabulary.adjacency import STRONG_ADVERSARY
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick.shuffle._guarantee import check_noise
from hockeystick.shuffle._membership import MembershipLaw, Plan, check_plan
from hockeystick.shuffle._patterns import PatternLaw, pattern_law
from hockeystick.shuffle._runs import of_run

KEPT = 0.5
"""Probability that a clipped unit is kept."""

WITHOUT_COINS = ", without the coins that keep units"
"""What the adversary does not know."""

_MOST_BLOCKS = 48
"""Largest number of curves. Numbers of rounds are put into so many blocks, and all of a block count as its
largest one."""

_RELATIVE_WIDTH = 1e-6
"""Relative width at which the search for epsilon ends."""


@dataclass(frozen=True)
class FilteredRun:
    """Privacy of a run whose clipped units are kept with probability 1/2 each, by coins that nobody sees.

    The adversary knows which units hold members of the group, in every round, but not which units were
    kept. Made by `filtered`; all answers are upper bounds.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.shuffle.filtered(hs.Shuffle(100, 5000), noise_multiplier=10.0, epochs=10)
    >>> print(f"{run.epsilon(1e-5):.3f} {run.delta(1.0):.2e} {run.advantage():.3f}")
    1.198 1.08e-04 0.125
    >>> run.adversary
    'strong adversary (knows batch membership), without the coins that keep units'
    """

    rounds: MembershipLaw | PatternLaw
    """Law of the number of rounds in which a unit holds members of the group; or, where several units of a
    round may hold some, of the numbers of rounds with so many of them."""
    noise_multiplier: float
    """Standard deviation of the noise in clipping norms."""

    def __post_init__(self) -> None:
        if not isinstance(self.rounds, PatternLaw):
            require_type(self.rounds, MembershipLaw, "rounds")
        check_noise(self.noise_multiplier)

    @property
    def adversary(self) -> str:
        """The adversary that the answers are about."""
        return f"{STRONG_ADVERSARY}{WITHOUT_COINS}"

    @cached_property
    def _parts(self) -> tuple[list[tuple[float, PrivacyCurve]], float]:
        """Probabilities with the curves of their numbers of rounds, and a bound on the rest."""
        law = self.rounds
        weights = law.probabilities * (1.0 + law.rounding + 1e-13)
        if isinstance(law, PatternLaw):
            return [
                (float(weight), self._curve(law.counts(pattern))) for pattern, weight in enumerate(weights)
            ], law.left_out
        blocks = np.array_split(np.arange(weights.size), min(_MOST_BLOCKS, weights.size))
        found = [
            (float(weights[block].sum()), self._curve({1: int(law.squares[block[-1]])})) for block in blocks
        ]
        return found, law.left_out

    def _curve(self, counts: dict[int, int]) -> PrivacyCurve:
        """Curve of so many rounds, given for each number of units with members."""
        whole = PrivacyCurve({}, "replace", DEFAULT_TOLERANCE)
        for units, rounds in counts.items():
            curve = privacy_curve(
                noise_multiplier=self.noise_multiplier,
                sample_rate=KEPT,
                steps=rounds,
                group_size=units,
                adjacency="replace",
            )
            assert isinstance(curve, PrivacyCurve)
            whole = whole + curve
        return whole

    def delta(self, epsilon: ArrayLike) -> FloatOrFloats:
        """Upper bound on delta.

        Parameters
        ----------
        epsilon : array_like
            In nats, at least zero.

        Returns
        -------
        float or ndarray, shape of `epsilon`
            In [0, 1].

        Raises
        ------
        ValueError
            If `epsilon` is out of range.
        TypeError
            If `epsilon` is not real.
        """
        points = float_array(epsilon, "epsilon")
        parts, rest = self._parts
        total: Floats = np.full(points.size, rest)
        for weight, curve in parts:
            total = total + weight * np.asarray(curve.delta(points.ravel()))
        return in_shape(np.minimum(1.0, total * (1.0 + 1e-14)), points.shape)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            In nats.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1), or no epsilon up to 1e6 reaches it.
        TypeError
            If `delta` is not a real number.
        """
        level = float_scalar(delta, "delta")
        require(0.0 < level < 1.0, "delta", level, "in (0, 1)")
        if self.delta(0.0) <= level:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > level:
            low, high = high, 2.0 * high
            require(high <= 1e6, "delta", level, "one that some epsilon up to 1e6 reaches")
        return self._between(level, low, high)

    def _between(self, level: float, low: float, high: float) -> float:
        """Shrink an interval of which the upper end meets the level: by interpolation of the logarithm."""
        at_low, at_high = (self._excess(end, level) for end in (low, high))
        turn = 0
        while high - low > _RELATIVE_WIDTH * high:
            share = at_low / (at_low - at_high) if math.isfinite(at_low - at_high) else 0.5
            # Beyond the root by less than half of the width, now on one side of it and now on the other.
            share += 0.4 * _RELATIVE_WIDTH * high / (high - low) * (1.0 if turn % 2 else -1.0)
            if turn % 4 == 3 or not 0.0 < share < 1.0:
                share = 0.5
            middle = low + share * (high - low)
            excess = self._excess(middle, level)
            if excess <= 0.0:
                high, at_high = middle, excess
            else:
                low, at_low = middle, excess
            turn += 1
        return high

    def _excess(self, epsilon: float, level: float) -> float:
        """Logarithm of delta over the level; at most 0 where the level is met."""
        delta = float(self.delta(epsilon))
        if delta <= level:
            return min(0.0, math.log(delta / level)) if delta > 0.0 else -math.inf
        return max(math.log(delta / level), 1e-300)

    def advantage(self) -> float:
        """Upper bound on the advantage of a membership attack.

        Returns
        -------
        float
            Delta at epsilon zero.
        """
        return float(self.delta(0.0))


@of_run
def filtered(
    sampling: Shuffle | WithoutReplacement | Run,
    *,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
    units_per_batch: int | None = None,
) -> FilteredRun:
    """Privacy of a run in which every clipped unit is kept with probability 1/2.

    Parameters
    ----------
    sampling : Shuffle, WithoutReplacement or Run
        How batches are made, see `membership_law`; a run states all other arguments too.
    noise_multiplier : float
        Standard deviation of the noise in clipping norms, above zero: twice the σ of SHUFFLE.
    epochs, group_size, clipping, units_per_batch : optional
        As for `membership_law`. Where several units of a round may hold members, groups have at most 16.

    Returns
    -------
    FilteredRun
        For records that are replaced.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    SHUFFLE, Appendix D, which leaves the analysis open (`docs/theory/filtering.md`). k units with members,
    kept by coins, are a group of k records in a Poisson sample at rate 1/2 that are replaced: their updates
    are there in half of the cases. Rounds of which no unit was kept must be released too, as noise.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 20.0, "epochs": 25, "group_size": 4, "clipping": "batch"}
    >>> half = hs.shuffle.filtered(hs.Shuffle(64, 64_000), **run)
    >>> all_units = hs.shuffle.tradeoff(hs.Shuffle(64, 64_000), **run)
    >>> print(f"{half.epsilon(1e-5):.2f} {all_units.epsilon(1e-5):.2f}")
    1.99 4.37
    """
    noise = check_noise(noise_multiplier)
    plan = check_plan(sampling, epochs, group_size, clipping, units_per_batch)
    return FilteredRun(_rounds(plan, plan.epochs, 0), noise)


def filtered_history(plan: Plan, noise_multiplier: float, steps: int) -> FilteredRun:
    """Privacy of so many steps of shuffled batches, from the start of an epoch; for `ShuffleAccountant`."""
    return FilteredRun(_rounds(plan, *divmod(steps, plan.rounds)), max(noise_multiplier, LEAST_NOISE))


def _rounds(plan: Plan, epochs: int, rounds: int) -> MembershipLaw | PatternLaw:
    """Law of what counts in whole epochs and the first rounds of another."""
    if plan.group_size > 1 and plan.units_per_batch > 1:
        return pattern_law(plan, epochs, rounds)
    return replace(plan, epochs=epochs).law(rounds)


def thinned_law(law: MembershipLaw) -> MembershipLaw:
    """Law of the number of rounds whose unit with members is kept, by coins of probability 1/2.

    Parameters
    ----------
    law : MembershipLaw
        Of the number of rounds in which a unit holds members, at most one in each: of batch clipping, or of
        one record.

    Returns
    -------
    MembershipLaw
        Of a binomial number of them: what SHUFFLE, Appendix D, calls the transformed distribution, for an
        adversary who sees the coins.

    Examples
    --------
    >>> import hockeystick as hs
    >>> law = hs.shuffle.membership_law(hs.Shuffle(100, 5000), epochs=2)
    >>> hs.shuffle.thinned_law(law).probabilities
    array([0.25, 0.5 , 0.25])
    """
    most = int(law.squares[-1])
    kept = np.zeros(most + 1)
    row, done = np.ones(1), 0  # of a binomial number of `done` coins
    for count, probability in zip(law.squares.tolist(), law.probabilities.tolist(), strict=True):
        for _ in range(count - done):
            row = KEPT * (np.append(row, 0.0) + np.append(0.0, row))
        done = count
        kept[: count + 1] += probability * row
    rounding = law.rounding + 1e-15 * (most + law.squares.size + 2)
    return MembershipLaw(np.arange(most + 1), kept, law.left_out, rounding, law.largest)
