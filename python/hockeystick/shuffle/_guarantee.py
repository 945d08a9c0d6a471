"""Trade-off functions of shuffled and subsampled runs, against an adversary who knows batch membership."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hockeystick import _core
from hockeystick._arguments import count_scalar, float_scalar, require, shown
from hockeystick._curves import shuffled_upper
from hockeystick._curves.renyi_readouts import GaussianMixture
from hockeystick._curves.shuffled_upper import LEAST_NOISE, Law
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick.errors import UnsupportedError
from hockeystick.shuffle._membership import MembershipLaw, Plan, check_plan
from hockeystick.shuffle._runs import of_replaced_run, of_run
from hockeystick.tradeoff import TradeoffCurve

SENSITIVITY = shuffled_upper.SENSITIVITY["replace"]
"""Clipping norms by which a unit can move when its records are replaced."""


@of_run
def tradeoff(
    sampling: Shuffle | WithoutReplacement | Run,
    *,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
    units_per_batch: int | None = None,
) -> TradeoffCurve:
    """Trade-off function of a run against a strong adversary, who knows batch membership.

    Parameters
    ----------
    sampling : Shuffle, WithoutReplacement or Run
        How batches are made, see `membership_law`; a run states all other arguments too.
    noise_multiplier : float
        Standard deviation of the noise in clipping norms, above zero: twice the σ of SHUFFLE.
    epochs, group_size, clipping, units_per_batch : optional
        As for `membership_law`.

    Returns
    -------
    TradeoffCurve
        The mixture of G_{c/σ} over the law of c: f of Definition 5.2, which is a guarantee by Theorem 5.6
        and the best one against this adversary, for any `group_size` records replaced.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.shuffle.tradeoff(hs.Shuffle(64, 60_000), noise_multiplier=20.0, epochs=100, group_size=4)
    >>> round(run.epsilon(1e-5), 3)
    10.014
    >>> run.adversary
    'strong adversary (knows batch membership)'
    """
    noise = check_noise(noise_multiplier)
    plan = check_plan(sampling, epochs, group_size, clipping, units_per_batch)
    laws = [(plan.law(), noise)]
    return _curve(tradeoff, plan, noise, mixture(laws), mixtures=squared_distances(laws))


@of_replaced_run
def upper_bound(
    sampling: Shuffle | WithoutReplacement | Run,
    *,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
    units_per_batch: int | None = None,
    split: int | None = None,
) -> TradeoffCurve:
    """Return f^U of SHUFFLE, Definition 5.3, which no guarantee against a strong adversary can exceed.

    Parameters
    ----------
    sampling, noise_multiplier, epochs, group_size, clipping, units_per_batch
        As for `tradeoff`; a run must have ``adjacency="replace"``.
    split : int, optional
        c² at which the law is split; by default that with the largest advantage, which bounds best.

    Returns
    -------
    TradeoffCurve
        Of (1 - u) parts G_{c/σ}, u being the exact probability of what is below the split. Not a guarantee.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = {"noise_multiplier": 20.0, "epochs": 100, "group_size": 4}
    >>> bounds = [f(hs.Shuffle(64, 60_000), **run)(0.1) for f in (hs.shuffle.lower_bound, hs.shuffle.tradeoff,
    ...                                                        hs.shuffle.upper_bound)]
    >>> bounds == sorted(bounds)
    True
    """
    noise = check_noise(noise_multiplier)
    plan = check_plan(sampling, epochs, group_size, clipping, units_per_batch)
    law = plan.law()
    chosen = _split(law, split, noise, law.below, is_upper=True)
    return _curve(upper_bound, plan, noise, *chosen)


@of_run
def lower_bound(
    sampling: Shuffle | WithoutReplacement | Run,
    *,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
    units_per_batch: int | None = None,
    split: int | None = None,
) -> TradeoffCurve:
    """Return f^L of SHUFFLE, Definition 5.4: a guarantee against a strong adversary, from one split.

    Parameters
    ----------
    sampling, noise_multiplier, epochs, group_size, clipping, units_per_batch
        As for `tradeoff`.
    split : int, optional
        c² at which the law is split; by default that with the smallest advantage.

    Returns
    -------
    TradeoffCurve
        G_{c/σ} less l, l being the exact probability of what is above the split. `tradeoff` is never below
        it.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import hockeystick as hs
    >>> bound = hs.shuffle.lower_bound(hs.Shuffle(64, 60_000), noise_multiplier=20.0, epochs=100)
    >>> bound == hs.shuffle.lower_bound(hs.Shuffle(64, 60_000), noise_multiplier=20.0, epochs=100, split=100)
    True
    """
    noise = check_noise(noise_multiplier)
    plan = check_plan(sampling, epochs, group_size, clipping, units_per_batch)
    law = plan.law()
    chosen = _split(law, split, noise, law.above, is_upper=False)
    return _curve(lower_bound, plan, noise, *chosen)


@of_run
def closed_form(
    sampling: Shuffle | Run,
    *,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    group_size: int = 1,
    clipping: str = "individual",
) -> TradeoffCurve:
    """Return the G_μ of shuffled batches: μ = √E/σ for one record, √(gE)/σ with batch clipping.

    Parameters
    ----------
    sampling : Shuffle or Run
        How batches are made; a run states all other arguments too. μ does not depend on their size.
    noise_multiplier : float
        Twice the σ of SHUFFLE, above zero.
    epochs : int, optional
        E.
    group_size : int, optional
        g.
    clipping : {"individual", "batch", "mixed"}, optional
        With more than one record, "batch" only: a unit counts once, however many members it holds.

    Returns
    -------
    TradeoffCurve

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        For groups without batch clipping: several members may fall into one round, and `tradeoff` counts
        that.

    Notes
    -----
    SHUFFLE, Theorem F.1; tight for one record whose data set has no records left over.

    Examples
    --------
    >>> import hockeystick as hs
    >>> hs.shuffle.closed_form(hs.Shuffle(64, 64_000), noise_multiplier=20.0, epochs=25).mu()
    0.5
    """
    noise = check_noise(noise_multiplier)
    units = 1 if clipping == "mixed" else None
    plan = check_plan(sampling, epochs, group_size, clipping, units)
    if not isinstance(sampling, Shuffle):
        raise TypeError(f"sampling must be Shuffle(batch_size, dataset_size), got {shown(sampling)}")
    if plan.group_size > 1 and clipping != "batch":
        raise UnsupportedError(
            f"clipping {clipping!r} with a group of {plan.group_size} has no closed form: use "
            "clipping='batch', group_size=1 or hockeystick.shuffle.tradeoff"
        )
    distance = SENSITIVITY * math.sqrt(plan.group_size * plan.epochs) / noise
    core = _core.TradeoffCurve.gaussian(distance)
    square = plan.group_size * plan.epochs
    always = MembershipLaw(np.array([square]), np.ones(1), 0.0, 0.0, square)
    mixtures = squared_distances([(always, noise)])
    return _curve(closed_form, plan, noise, core, mixtures=mixtures)


def of_history(
    sampling: Shuffle,
    *,
    steps: tuple[tuple[float, int], ...],
    group_size: int,
    clipping: str,
    units_per_batch: int,
) -> TradeoffCurve:
    """Trade-off function of steps with these noise multipliers; for `ShuffleAccountant`."""
    plan = check_plan(sampling, 1, group_size, clipping, units_per_batch)
    named = {
        "steps": steps,
        "group_size": plan.group_size,
        "clipping": plan.clipping,
        "units_per_batch": plan.units_per_batch,
    }
    mixtures = None
    if any(noise == 0.0 for noise, _ in steps):
        core = _core.TradeoffCurve.epsilon_delta(0.0, 1.0)
    else:
        blocks = shuffled_upper.epochs_by_noise(steps, plan.rounds)
        parts = [
            (replace(plan, epochs=epochs).law(rounds), max(noise, LEAST_NOISE))
            for noise, (epochs, rounds) in blocks.items()
        ]
        core, mixtures = mixture(parts), squared_distances(parts)
    return TradeoffCurve.of_shuffle(core, of_history, plan.sampling, tuple(named.items()), mixtures)


def mixture(laws: list[tuple[MembershipLaw, float]]) -> _core.TradeoffCurve:
    """Composition of independent parts of a run, each with its law of c² and its noise multiplier."""
    parts = [
        (Law(law.squares, law.probabilities, law.left_out, law.rounding, law.largest), noise)
        for law, noise in laws
    ]
    return shuffled_upper.mixture(parts, SENSITIVITY)


def squared_distances(laws: list[tuple[MembershipLaw, float]]) -> tuple[GaussianMixture, ...]:
    """Squares of the distances that independent parts of a run have, for Rényi divergences."""
    return tuple(_squared(law, noise) for law, noise in laws)


def _squared(law: MembershipLaw, noise: float) -> GaussianMixture:
    with np.errstate(over="ignore", invalid="ignore"):  # hardly any noise: inf where a member takes part
        unit = np.square(np.float64(SENSITIVITY / noise))
        squares = np.where(law.squares > 0, unit * law.squares, 0.0)
        largest = float(unit * law.largest)
    return GaussianMixture(squares, law.probabilities, law.left_out, law.rounding + 1e-14, largest)


def check_noise(value: object) -> float:
    """`value` as a noise multiplier above zero, no smaller than distances can be told."""
    noise = float_scalar(value, "noise_multiplier")
    require(math.isfinite(noise) and noise > 0.0, "noise_multiplier", noise, "in (0, inf)")
    return max(noise, LEAST_NOISE)


def _split(
    law: MembershipLaw,
    split: int | None,
    noise: float,
    tail: Callable[[float], float],
    *,
    is_upper: bool,
) -> tuple[_core.TradeoffCurve, int]:
    """Curve of the given split, or of the one that bounds best, and the split."""

    def bound(square: int) -> _core.TradeoffCurve:
        """Return the curve of the split at a sum of squared distances."""
        return _core.TradeoffCurve.split(is_upper, tail(square), SENSITIVITY * math.sqrt(square) / noise)

    if split is not None:
        square = count_scalar(split, "split", 1)
        return bound(square), square

    def advantage(square: int) -> float:
        _, upper = bound(square).delta(np.zeros(1))
        return float(upper[0])

    candidates = [int(square) for square in law.squares if square > 0]
    best = max if is_upper else min
    square = best(candidates, key=advantage) if candidates else 1
    return bound(square), square


def _curve(
    function: Callable[..., TradeoffCurve],
    plan: Plan,
    noise: float,
    core: _core.TradeoffCurve,
    split: int | None = None,
    mixtures: tuple[GaussianMixture, ...] | None = None,
) -> TradeoffCurve:
    arguments = {
        "noise_multiplier": noise,
        "epochs": plan.epochs,
        "group_size": plan.group_size,
        "clipping": plan.clipping,
    }
    if plan.clipping == "mixed" and function is not closed_form:
        arguments["units_per_batch"] = plan.units_per_batch
    if split is not None:
        arguments["split"] = split
    return TradeoffCurve.of_shuffle(core, function, plan.sampling, tuple(arguments.items()), mixtures)


def printed(
    sampling: Shuffle, *, square: float, tail: float, noise_multiplier: float, is_upper: bool
) -> TradeoffCurve:
    """Return f^L or f^U with a tail that SHUFFLE prints, true or not; for `table`."""
    distance = SENSITIVITY * math.sqrt(square) / noise_multiplier
    core = _core.TradeoffCurve.split(is_upper, tail, distance)
    named: dict[str, float] = {
        "square": square,
        "tail": tail,
        "noise_multiplier": noise_multiplier,
        "is_upper": is_upper,
    }
    return TradeoffCurve.of_shuffle(core, printed, sampling, tuple(named.items()))


def printed_law(sampling: Shuffle, *, noise_multiplier: float, epochs: int, group_size: int) -> TradeoffCurve:
    """Return the function f of SHUFFLE, Theorem F.1, with its false weights; for `table`."""
    plan = check_plan(sampling, epochs, group_size, "batch", None)
    members = range(1, min(plan.group_size, plan.rounds) + 1)
    patterns = math.comb(plan.rounds - 1 + plan.group_size, plan.group_size)
    weights = [math.comb(plan.rounds, j) * math.comb(plan.group_size - 1, j - 1) / patterns for j in members]
    distances = SENSITIVITY * np.sqrt(np.array(members, dtype=np.float64)) / noise_multiplier
    epoch = _core.TradeoffCurve.mixture(distances, np.array(weights), 0.0, 1e-15, float(distances.max()))
    named = {
        "noise_multiplier": noise_multiplier,
        "epochs": plan.epochs,
        "group_size": plan.group_size,
    }
    return TradeoffCurve.of_shuffle(
        epoch.repeat(plan.epochs), printed_law, plan.sampling, tuple(named.items())
    )
