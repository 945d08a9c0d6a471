"""How often a group takes part: the law q_E(c) of SHUFFLE, Definition 5.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hockeystick import _core
from hockeystick._arguments import (
    Counts,
    Floats,
    choice,
    count_array,
    count_scalar,
    float_array,
    float_scalar,
    require,
    shown,
)
from hockeystick._vocabulary.adjacency import STRONG_ADVERSARY
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick.shuffle._runs import of_run

CLIPPINGS = ("individual", "batch", "mixed")
LARGEST_EPOCHS = 10**9
"""Largest number of epochs: that of steps which the core's searches go to."""
_SUM_ROUNDING = 1e-12
"""Relative rounding error of a sum of up to ten thousand probabilities."""
NAMES = {Shuffle: "shuffle", WithoutReplacement: "without_replacement"}


@dataclass(frozen=True, eq=False)
class MembershipLaw:
    """Law of c², the sum over all rounds of the squared number of units that hold a member of the group.

    Given c the adversary tells N(0, σ²) from N(c, σ²), σ being half the noise multiplier. Made by
    `membership_law`.

    Examples
    --------
    >>> import hockeystick as hs
    >>> law = hs.shuffle.membership_law(hs.Shuffle(100, 5000), epochs=10)  # in one batch of every epoch
    >>> law.mean(), law.below(10.0), law.above(10.0)
    (10.0, 0.0, 0.0)
    """

    squares: Counts
    """c², ascending, shape (n,)."""
    probabilities: Floats
    """Probability of each c², shape (n,)."""
    left_out: float
    """Bound on the probability of all that is not listed."""
    rounding: float
    """Bound on the relative rounding error of the probabilities."""
    largest: int
    """Bound on c², that of what is not listed included."""

    def __post_init__(self) -> None:
        squares, masses = (
            count_array(self.squares, "squares", 0),
            float_array(self.probabilities, "probabilities"),
        )
        require(squares.ndim == 1 and squares.size > 0, "squares", self.squares, "a list of numbers")
        require(bool(np.all(np.diff(squares) > 0)), "squares", self.squares, "ascending")
        require(masses.shape == squares.shape, "probabilities", masses.shape, f"of shape {squares.shape}")
        require(bool(np.all((masses >= 0.0) & (masses <= 1.0))), "probabilities", masses, "in [0, 1]")
        for name in ("left_out", "rounding"):
            bound = float_scalar(getattr(self, name), name)
            require(bound >= 0.0, name, bound, "at least 0")
        listed = float(masses.sum())
        room = self.left_out + listed * (self.rounding + _SUM_ROUNDING)
        require(
            abs(listed - 1.0) <= room, "probabilities", f"a sum of {listed!r}", "1 in all, up to their errors"
        )
        count_scalar(self.largest, "largest", int(squares[-1]))

    def mean(self) -> float:
        """Mean of c².

        Returns
        -------
        float
        """
        return float(self.squares @ self.probabilities)

    def below(self, square: float) -> float:
        """Upper bound on the probability of c² < `square`.

        Parameters
        ----------
        square : float
            Any number.

        Returns
        -------
        float
            In [0, 1].
        """
        return self._upper(self.probabilities[self.squares < square])

    def above(self, square: float) -> float:
        """Upper bound on the probability of c² > `square`.

        Parameters
        ----------
        square : float
            Any number.

        Returns
        -------
        float
            In [0, 1].
        """
        return self._upper(self.probabilities[self.squares > square])

    def _upper(self, part: Floats) -> float:
        total = float(np.sum(part)) * (1.0 + self.rounding + 1e-15 * part.size)
        return min(1.0, total + self.left_out)

    def __repr__(self) -> str:
        return (
            f"<MembershipLaw of c² from {self.squares[0]} to {self.squares[-1]}, mean {self.mean():.6g}; "
            f"{STRONG_ADVERSARY}>"
        )


@dataclass(frozen=True)
class Plan:
    """Checked arguments of a run."""

    sampling: Shuffle | WithoutReplacement
    epochs: int
    group_size: int
    clipping: str
    units_per_batch: int

    @property
    def rounds(self) -> int:
        """Rounds of an epoch."""
        return self.sampling.dataset_size // self.sampling.batch_size

    def law(self, rounds: int = 0) -> MembershipLaw:
        """Law of c² over all epochs and the first `rounds` rounds of another."""
        squares, probabilities, left_out, rounding = _core.membership_law(
            NAMES[type(self.sampling)],
            self.sampling.dataset_size,
            self.sampling.batch_size,
            self.units_per_batch,
            self.group_size,
            self.epochs,
            rounds,
        )
        units = min(self.group_size, self.units_per_batch)
        if isinstance(self.sampling, Shuffle):
            largest = (self.epochs + (rounds > 0)) * self.group_size * units
        else:
            largest = (self.epochs * self.rounds + rounds) * units * units
        return MembershipLaw(squares, probabilities, left_out, rounding, largest)


def check_plan(
    sampling: object, epochs: object, group_size: object, clipping: object, units_per_batch: object
) -> Plan:
    """Return the arguments of `membership_law`, checked."""
    if not isinstance(sampling, Shuffle | WithoutReplacement):
        raise TypeError(
            "sampling must be Shuffle(batch_size, dataset_size) or "
            f"WithoutReplacement(batch_size, dataset_size), got {shown(sampling)}"
        )
    word = choice(clipping, "clipping", CLIPPINGS)
    size = count_scalar(group_size, "group_size", 1)
    require(
        size <= sampling.dataset_size, "group_size", size, f"at most dataset_size {sampling.dataset_size}"
    )
    return Plan(
        sampling,
        count_scalar(epochs, "epochs", 1, LARGEST_EPOCHS),
        size,
        word,
        _units(sampling.batch_size, word, units_per_batch),
    )


def _units(batch_size: int, clipping: str, units_per_batch: object) -> int:
    fixed = {"individual": batch_size, "batch": 1}.get(clipping)
    if units_per_batch is None:
        if fixed is None:
            raise TypeError("units_per_batch must be given with clipping='mixed'")
        return fixed
    units = count_scalar(units_per_batch, "units_per_batch", 1)
    if fixed is not None:
        require(units == fixed, "units_per_batch", units, f"{fixed} with clipping={clipping!r}")
    require(batch_size % units == 0, "units_per_batch", units, f"a divisor of batch_size {batch_size}")
    return units


@of_run
def membership_law(
    sampling: Shuffle | WithoutReplacement | Run,
    *,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
    units_per_batch: int | None = None,
) -> MembershipLaw:
    """Exact law of how often a group takes part: q_E(c) of SHUFFLE, Definition 5.1.

    Parameters
    ----------
    sampling : Shuffle, WithoutReplacement or Run
        How batches of b out of N records are made. An epoch has N // b of them; with `Shuffle` the
        records left over are in none. A run, of
        records that are replaced or zeroed out and of whole epochs, states all other arguments too.
    epochs : int, optional
        E, in [1, 10^9].
    group_size : int, optional
        g, number of records that differ, at most N.
    clipping : {"individual", "batch", "mixed"}, optional
        What is clipped as one: every record's gradient, the batch's, or that of each of `units_per_batch`
        parts.
    units_per_batch : int, optional
        m, a divisor of b; for "mixed".

    Returns
    -------
    MembershipLaw
        Values of c² with their probabilities, by sums of positive terms, and a bound on what is left out.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law would take more than 3e9 multiplications.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    The units that hold a member are drawn without replacement: the number of them follows a
    chain over the members, each of which finds a new unit with a known probability. SHUFFLE's Theorem F.1
    takes all occupancy patterns as equally likely, which they are not.

    Examples
    --------
    >>> import hockeystick as hs
    >>> law = hs.shuffle.membership_law(hs.Shuffle(100, 5000), group_size=4, clipping="batch")
    >>> law.squares
    array([1, 2, 3, 4])
    >>> round(float(law.probabilities[3]), 6)
    0.885414
    """
    return check_plan(sampling, epochs, group_size, clipping, units_per_batch).law()
