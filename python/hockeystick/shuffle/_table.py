"""Tables 1 and 2 of SHUFFLE for given numbers: what is printed, and what is true."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hockeystick import _core
from hockeystick._arguments import count_scalar, float_scalar, require, require_type, text
from hockeystick._vocabulary.adjacency import ADVERSARY, STRONG_ADVERSARY
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick.shuffle._guarantee import (
    SENSITIVITY,
    check_noise,
    closed_form,
    printed,
    printed_law,
    tradeoff,
)
from hockeystick.tradeoff import TradeoffCurve


@dataclass(frozen=True)
class TableRow:
    """One row of Table 1 or 2.

    Examples
    --------
    >>> import hockeystick as hs
    >>> rows = hs.shuffle.table(
    ...     dataset_size=10_000, samples_per_unit=4, units_per_batch=16, epochs=50,
    ...     noise_multiplier=2.0, group_size=4,
    ... )
    >>> row = rows[2]
    >>> row.printed, row.holds
    ('G with μ = sqrt(E)/σ', True)
    >>> print(f"{row.epsilon(1e-5):.2f} {row.printed_epsilon(1e-5):.2f}")
    54.33 54.38
    """

    table: int
    """1 or 2."""
    clipping: str
    """"individual", "batch" or "general" (any number of units; here that of the argument)."""
    sampling: str
    """"subsampling" or "shuffling"."""
    group_size: int
    """g."""
    adversary: str
    """The adversary that the row is about."""
    printed: str
    """The guarantee in the words of the table, σ being half the noise multiplier."""
    printed_lower: TradeoffCurve | None
    """The printed guarantee as a function, tails included; None where its tail is no probability."""
    printed_upper: TradeoffCurve | None
    """The printed function that no guarantee can exceed; None for G_0."""
    guarantee: TradeoffCurve
    """The true guarantee: exact for the row's adversary, or the best that is known."""
    holds: bool
    """Whether, for these numbers, `guarantee` lies between the printed functions."""
    note: str
    """Why not, or what the printed row leaves out."""

    def __post_init__(self) -> None:
        require(self.table in (1, 2), "table", self.table, "1 or 2")
        count_scalar(self.group_size, "group_size", 1)
        for name in ("clipping", "sampling", "adversary", "printed", "note"):
            text(getattr(self, name), name)
        for name in ("printed_lower", "printed_upper"):
            require_type(getattr(self, name), (TradeoffCurve, type(None)), name)
        require_type(self.guarantee, TradeoffCurve, "guarantee")
        require_type(self.holds, (bool, np.bool_), "holds")

    def printed_epsilon(self, delta: float) -> float:
        """Epsilon of the printed lower end.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            inf where the printed tail is larger than `delta`.
        """
        return math.inf if self.printed_lower is None else float(self.printed_lower.epsilon(delta))

    def epsilon(self, delta: float) -> float:
        """Epsilon of the guarantee.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
        """
        return float(self.guarantee.epsilon(delta))


def table(
    *,
    dataset_size: int,
    samples_per_unit: int,
    units_per_batch: int,
    epochs: int,
    noise_multiplier: float,
    group_size: int,
    gamma: float = 1.0,
) -> list[TableRow]:
    """Tables 1 and 2 of SHUFFLE as data, for given numbers.

    Parameters
    ----------
    dataset_size : int
        N.
    samples_per_unit : int
        s, records that are clipped as one in "general" rows. Batches have s m records in all rows.
    units_per_batch : int
        m, clipped units of a batch in "general" rows.
    epochs : int
        E.
    noise_multiplier : float
        Of Opacus, twice the printed σ.
    group_size : int
        g, for rows with g >= 1; rows with g = 1 are about one record.
    gamma : float, optional
        γ > 0 of the last row.

    Returns
    -------
    list of TableRow
        Table 1 in its order, then Table 2.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Two results behind the tables are false. Theorem E.1 (rows 1 and 2) bounds tails by
    Hoeffding's inequality without its 1/n; `membership_law` has the exact ones. Theorem F.1 (the last row
    of Table 1) weighs occupancy patterns equally; its G of the closed form holds all the same.

    Examples
    --------
    >>> import hockeystick as hs
    >>> rows = hs.shuffle.table(dataset_size=10_000, samples_per_unit=4, units_per_batch=16, epochs=50,
    ...                         noise_multiplier=2.0, group_size=4)
    >>> [row.holds for row in rows]
    [False, False, True, True, True, False, True, True, True]
    """
    batch_size = count_scalar(samples_per_unit, "samples_per_unit", 1) * count_scalar(
        units_per_batch, "units_per_batch", 1
    )
    noise = check_noise(noise_multiplier)
    shuffle = Shuffle(batch_size, dataset_size)
    subsample = WithoutReplacement(batch_size, shuffle.dataset_size)
    factor = float_scalar(gamma, "gamma")
    require(factor > 0.0, "gamma", factor, "in (0, inf)")
    run = _Run(shuffle, subsample, noise, count_scalar(epochs, "epochs", 1), units_per_batch, group_size)
    return [*_table_1(run), *_table_2(run, factor)]


@dataclass(frozen=True)
class _Run:
    shuffle: Shuffle
    subsample: WithoutReplacement
    noise: float
    epochs: int
    units: int
    group_size: int

    def exact(self, sampling: Shuffle | WithoutReplacement, clipping: str, group_size: int) -> TradeoffCurve:
        """Exact function against the strong adversary."""
        return tradeoff(
            sampling,
            noise_multiplier=self.noise,
            epochs=self.epochs,
            group_size=group_size,
            clipping=clipping,
            units_per_batch=self.units if clipping == "mixed" else None,
        )

    def gaussian(self, square: float) -> TradeoffCurve:
        """G_{c/σ}."""
        return TradeoffCurve.gaussian(SENSITIVITY * math.sqrt(square) / self.noise)

    def split(self, square: float, tail: float, *, is_upper: bool = False) -> TradeoffCurve:
        """f^L or f^U with a printed tail."""
        return printed(self.shuffle, square=square, tail=tail, noise_multiplier=self.noise, is_upper=is_upper)


_DELTAS = (0.3, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
"""Points at which the printed functions are compared with the exact one."""


def _row(
    table_and_setting: tuple[int, str, str, int],
    wording: str,
    printed_ends: tuple[TradeoffCurve | None, TradeoffCurve | None],
    guarantee: TradeoffCurve,
    note: str,
    adversary: str = STRONG_ADVERSARY,
) -> TableRow:
    number, clipping, sampling, group_size = table_and_setting
    lower, upper = printed_ends
    holds = True
    if (lower or upper) and lower != guarantee:
        epsilons = guarantee.epsilon(_DELTAS)
        at_least, at_most = guarantee.bounds(epsilon=epsilons)
        if lower is not None:
            holds &= bool(np.all(lower.bounds(epsilon=epsilons)[1] >= at_least))
        if upper is not None:
            holds &= bool(np.all(upper.bounds(epsilon=epsilons)[0] <= at_most))
    return TableRow(
        number, clipping, sampling, group_size, adversary, wording, lower, upper, guarantee, holds, note
    )


def _table_1(run: _Run) -> list[TableRow]:
    group, epochs = run.group_size, run.epochs
    subsampled = run.exact(run.subsample, "batch", group)
    one_subsampled = run.exact(run.subsample, "mixed", 1)
    one_shuffled = run.exact(run.shuffle, "mixed", 1)
    shuffled = run.exact(run.shuffle, "mixed", group)
    batches = run.exact(run.shuffle, "batch", group)
    closed = closed_form(
        run.shuffle, noise_multiplier=run.noise, epochs=epochs, group_size=group, clipping="batch"
    )

    law = None
    if group <= run.shuffle.batch_size:
        law = printed_law(run.shuffle, noise_multiplier=run.noise, epochs=epochs, group_size=group)

    def hoeffding(mean: float) -> tuple[TradeoffCurve, TradeoffCurve]:
        """Return the bounds of Hoeffding's inequality for so many batches with members on average."""
        spread, tail = 1.0 / math.sqrt(2.0 * mean), math.exp(-mean)
        ends = ((False, 1.0 + spread), (True, 1.0 - spread))
        lower, upper = (run.split(factor * mean, tail, is_upper=is_upper) for is_upper, factor in ends)
        return lower, upper

    tails = "the printed tails lack the 1/n of Hoeffding's inequality (Theorem E.1)"
    # q of Theorem E.1: N/s times the probability that a batch holds a member.
    missed = 1.0 - _first_round(run, group)
    expected = run.shuffle.dataset_size / run.shuffle.batch_size * missed
    return [
        _row(
            (1, "batch", "subsampling", group),
            "between G with μ = sqrt((1 ± 1/sqrt(2gE)) gE)/σ",
            hoeffding(expected * epochs),
            subsampled,
            tails,
        ),
        _row(
            (1, "general", "subsampling", 1),
            "between G with μ = sqrt((1 ± 1/sqrt(2E)) E)/σ",
            hoeffding(float(epochs)),
            one_subsampled,
            tails,
        ),
        _row(
            (1, "general", "shuffling", 1),
            "G with μ = sqrt(E)/σ",
            (run.gaussian(epochs), None),
            one_shuffled,
            "exact if N is a multiple of the batch size",
        ),
        _row(
            (1, "general", "shuffling", group),
            "between G with μ about sqrt(gE)/σ and G_0",
            (_separated(run), None),
            shuffled,
            "printed with the tail g² m s/(N - g) in every epoch (Lemma F.3); compared for one epoch only",
        ),
        _row(
            (1, "batch", "shuffling", group),
            "between G with μ = sqrt(gE)/σ and G_0",
            (closed, None),
            batches,
            "members that share a round make the exact function larger",
        ),
        _row(
            (1, "batch", "shuffling", group),
            "about G with μ = sqrt(gE)/σ: f of Theorem F.1, for g <= s",
            (law, None),
            batches,
            "Theorem F.1 weighs all patterns of members in rounds equally, which they are not; the G holds",
        ),
    ]


def _table_2(run: _Run, gamma: float) -> list[TableRow]:
    group, epochs = run.group_size, run.epochs
    size, batch = run.subsample.dataset_size, run.subsample.batch_size
    step = TradeoffCurve.gaussian(SENSITIVITY / run.noise).subsample(batch / size)
    one = step * (size // batch * epochs)
    beta = size / (size - group - batch) if size > group + batch else math.inf
    square = (math.exp(beta) + gamma) * min(batch, group) * group * epochs if beta < 700 else math.inf
    claim = run.split(square, math.exp(-gamma * group * epochs)) if square < math.inf else None
    return [
        _row(
            (2, "individual", "subsampling", 1),
            "C_{m/N}(G_{1/σ}) composed N E/m times",
            (one, None),
            one,
            "records replaced: get_epsilon with WithoutReplacement",
            ADVERSARY,
        ),
        _row(
            (2, "individual", "subsampling", group),
            "1 - (1 - f)^∘g of the row above",
            (one.group(group), None),
            one.group(group),
            "a black box; no smaller one is proven for replaced groups of a fixed batch",
            ADVERSARY,
        ),
        _row(
            (2, "individual", "subsampling", group),
            "between G with μ about sqrt((e + γ) min{m, g} g E)/σ and G_0",
            (claim, None),
            run.exact(run.subsample, "individual", group),
            "valid, and far below the exact function",
        ),
    ]


def _first_round(run: _Run, group: int) -> float:
    """Probability that a round of batch clipping with subsampling holds no member."""
    squares, probabilities, *_ = _core.membership_law(
        "without_replacement", run.subsample.dataset_size, run.subsample.batch_size, 1, group, 0, 1
    )
    return float(probabilities[squares == 0].sum())


def _separated(run: _Run) -> TradeoffCurve | None:
    """f^L of Lemma F.3 for one epoch; None for more, and where its tail is no probability."""
    group, size = run.group_size, run.shuffle.dataset_size
    if group == 1:
        return run.gaussian(run.epochs)
    tail = group * group * run.shuffle.batch_size / (size - group) if size > group else 1.0
    return run.split(group, tail) if tail < 1.0 and run.epochs == 1 else None
