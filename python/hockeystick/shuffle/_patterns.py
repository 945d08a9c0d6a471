"""How many rounds have how many units with members: what is needed where units are kept by coins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hockeystick import _core
from hockeystick._arguments import Counts, Floats, require
from hockeystick._vocabulary.adjacency import STRONG_ADVERSARY
from hockeystick.shuffle._membership import NAMES, Plan

LARGEST_GROUP = 16
"""Largest group: of more records so many patterns are put together that little is gained."""

MOST_PATTERNS = 192
"""Largest number of patterns: others are put together, by the largest of their numbers of rounds."""


@dataclass(frozen=True, eq=False)
class PatternLaw:
    """Law of the numbers of rounds with at least 1, 2, ... units that hold members of the group.

    Of a run, or of one that reveals no less: patterns are put together by the largest numbers of rounds.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.shuffle.filtered(hs.Shuffle(2, 4), noise_multiplier=2.0, group_size=2)
    >>> run.rounds.tails, run.rounds.probabilities.round(4)
    (array([[1, 1],
           [2, 0]]), array([0.3333, 0.6667]))
    """

    tails: Counts
    """Number of rounds with at least k + 1 units that hold members, shape (patterns, k)."""
    probabilities: Floats
    """Probability of each pattern, shape (patterns,)."""
    left_out: float
    """Bound on the probability of all that is not listed."""
    rounding: float
    """Bound on the relative rounding error of the probabilities."""

    def counts(self, pattern: int) -> dict[int, int]:
        """Return how many rounds of a pattern have how many units with members.

        Parameters
        ----------
        pattern : int
            Number of the pattern, from 0.

        Returns
        -------
        dict of int to int
            Numbers of rounds by their number of units with members, above 0 both.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.shuffle.filtered(hs.Shuffle(2, 4), noise_multiplier=2.0, group_size=2)
        >>> run.rounds.counts(0), run.rounds.counts(1)  # one round with two units, two with one each
        ({2: 1}, {1: 2})
        """
        tails = self.tails[pattern]
        exactly = tails - np.append(tails[1:], 0)
        return {units: count for units, count in enumerate(exactly.tolist(), 1) if count}

    def __repr__(self) -> str:
        return (
            f"<PatternLaw of {self.probabilities.size} patterns of rounds with up to {self.tails.shape[1]} "
            f"units that hold members; {STRONG_ADVERSARY}>"
        )


def pattern_law(plan: Plan, epochs: int, rounds: int) -> PatternLaw:
    """Law over whole epochs, and the first `rounds` rounds of another."""
    size = plan.group_size
    require(
        size <= LARGEST_GROUP, "group_size", size, f"at most {LARGEST_GROUP} where units are kept by coins"
    )
    tails, patterns, probabilities, left_out, rounding = _core.pattern_law(
        NAMES[type(plan.sampling)],
        plan.sampling.dataset_size,
        plan.sampling.batch_size,
        plan.units_per_batch,
        plan.group_size,
        epochs,
        rounds,
        MOST_PATTERNS,
    )
    return PatternLaw(tails.reshape(patterns, -1), probabilities, left_out, rounding)
