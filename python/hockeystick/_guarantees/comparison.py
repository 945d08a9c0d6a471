"""The same noise and steps under every sampling scheme and neighbouring relation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from hockeystick._curves.accounting import get_epsilon
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._guarantees.recorded_run import RecordedRun
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick._vocabulary.adjacency import ZERO_OUT
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Poisson,
    Sampling,
    Shuffle,
    UnaccountedSampling,
    WithoutReplacement,
)
from hockeystick.accountants import ShuffleAccountant
from hockeystick.errors import SamplingMismatchError, UnsupportedError, WideIntervalWarning

Draw = float | Sampling


LARGE_DATASET = 10**9
"""Stands for the size of the data set where a fixed batch is compared with a sample rate alone."""

RELATIONS = {"add_remove": "add or remove", "replace": "replace"}

RELATIONS_OF_ALL = {**RELATIONS, ZERO_OUT: "zero out"}
"""With the relation that shuffled batches alone are asked about."""

INTERVAL_SOURCE = (
    "lower end: Chua et al. 2024, composed in cells of the largest sum of an epoch; "
    "upper end: SHUFFLE, Theorem 5.6"
)
"""Theorems behind both ends of the interval of shuffled batches."""

INTERVAL_STATUS = (
    "interval: two data sets reveal the lower end at least, and the upper end holds even if the adversary "
    "knows every batch"
)
"""A sentence that says in what sense the interval of shuffled batches is a guarantee."""

POISSON, FIXED, FULL, SHUFFLED = "Poisson sampling", "fixed batches", "no sampling", "shuffling"
TRUNCATED = "Poisson sampling, cut"
DEALT = "batches of an epoch"


_ACCUMULATED = "several batches of a fixed size under one noise"


class Entry(NamedTuple):
    """Epsilon under one scheme and relation."""

    name: str
    relation: str
    sampling: str | None
    """The value of `sampling`; None where segments differ or members have rates of their own."""
    epsilon: float | None
    """None where nothing is proven."""
    status: str | None
    theorem: str | None
    note: str
    lower: float | None = None
    """The lower end of the interval of which `epsilon` is the upper one, where it is known to be wide."""
    is_own: bool = False
    """Whether the run itself has this sampling and this relation."""

    @property
    def scheme(self) -> str:
        """Scheme and relation in words."""
        return f"{self.name}, {RELATIONS_OF_ALL[self.relation]}"

    @property
    def shown(self) -> str:
        """Epsilon in words, rounded to the safe side: both ends where these are far apart."""
        if self.epsilon is None:
            return "not covered"
        if self.lower is None:
            return rounded_up(self.epsilon)
        return f"{rounded_down(self.lower)} to {rounded_up(self.epsilon)}"


def compared(
    run: RecordedRun, delta: float, dataset_size: int | None = None, own: float | None = None
) -> list[Entry]:
    """Epsilon at `delta` under every scheme and relation, at the rates and with the noise of `run`.

    `dataset_size` is the number of records of which fixed batches are drawn, by default that of the run's
    own fixed batches, or a large one. `own` takes the place of the run's own epsilon, where it is proven.
    """
    size = LARGE_DATASET if dataset_size is None else dataset_size

    def poisson(draw: Draw) -> Draw:
        return draw if _has_several_batches(draw) else _rate(draw)

    def fixed(draw: Draw) -> Any:
        """Return batches of a fixed size that stand for a draw."""
        if isinstance(draw, WithoutReplacement):
            return draw
        if isinstance(draw, Shuffle):
            return WithoutReplacement(draw.batch_size, draw.dataset_size)
        if isinstance(draw, Poisson) and _has_several_batches(draw):
            return UnaccountedSampling(draw.sample_rate, f"{_ACCUMULATED}: they have no proven pair")
        return WithoutReplacement(min(size, max(1, round(_rate(draw) * size))), size)

    def full(draw: Draw) -> Sampling:
        if isinstance(draw, Poisson) and _has_several_batches(draw):
            return replace(draw, sample_rate=1.0)
        return FullBatch()

    draws = list(dict.fromkeys(draw for _, draw, _ in run.segments))
    rates = ", ".join(f"{rate:g}" for rate in dict.fromkeys(map(_rate, draws)))
    batches = dict.fromkeys(fixed(draw) for draw in draws if not _has_several_batches(draw))
    sized = dataset_size is not None or any(isinstance(draw, WithoutReplacement | Shuffle) for draw in draws)
    schemes: list[tuple[str, Callable[[Draw], Draw], str]] = [
        (POISSON, poisson, "members' own rates" if run.has_own_rates else f"rate {rates}"),
        (
            FIXED,
            fixed,
            "batches of " + ", ".join(_batch_sizes(batch) for batch in batches)
            if sized
            else "a large data set",
        ),
        (FULL, full, "every record in every step"),
    ]
    largest = ", ".join(_largest(draw) for draw in draws if _is_truncated(draw))
    if largest:
        schemes.insert(0, (TRUNCATED, lambda draw: draw, f"batches of at most {largest}"))
    dealt = dict.fromkeys(draw for draw in draws if isinstance(draw, RandomAllocation | FixedBins))
    if dealt and len(dealt) == len(draws):
        schemes.insert(0, (DEALT, lambda draw: draw, ", ".join(map(repr, dealt))))

    def is_own(scheme: Callable[[Draw], Draw], relation: str) -> bool:
        return relation == run.adjacency and all(scheme(draw) in (draw, _plain(draw)) for draw in draws)

    entries = [
        _entry(name, run.drawn(scheme, relation), delta, note, is_own=is_own(scheme, relation))
        for name, scheme, note in schemes
        for relation in RELATIONS
    ]
    if own is None:
        return entries
    return [entry._replace(epsilon=own) if entry.is_own else entry for entry in entries]


def shuffled(run: RecordedRun, delta: float, dataset_size: int | None = None) -> Entry | None:
    """Epsilon of shuffled batches, against an adversary who knows them all; None where it is not known."""
    scheme = _shuffled_scheme(run, dataset_size)
    if scheme is None:
        return None
    batch, size = scheme.batch_size, scheme.dataset_size
    try:
        accountant = ShuffleAccountant(batch, size, run.group_size)
        history: list[Any] = [(noise, batch / size, count) for noise, _, count in run.segments]
        accountant.history = history
        epsilon = accountant.get_epsilon(delta)
    except (TypeError, ValueError):  # other noise than Gaussian, or a law of too many terms
        return None
    assumed = accountant.description
    return Entry(
        SHUFFLED,
        "replace",
        repr(accountant.sampling),
        epsilon,
        assumed["status"],
        "SHUFFLE, Theorem 5.6",
        f"against a {accountant.description['adversary']}",
    )


def enclosed(
    run: RecordedRun, delta: float, dataset_size: int | None = None, own: float | None = None
) -> Entry | None:
    """Interval for epsilon of shuffled batches against the usual adversary; None where it is not known.

    `own` takes the place of the run's own epsilon, where it is proven.
    """
    scheme = _shuffled_scheme(run, dataset_size)
    noises = {noise for noise, _, _ in run.segments}
    if scheme is None or len(noises) != 1 or not isinstance(noise := next(iter(noises)), float):
        return None
    common: dict[str, Any] = {
        "delta": delta,
        "noise_multiplier": noise,
        "steps": run.steps,
        "group_size": run.group_size,
        "tolerance": run.tolerance,  # a coarser one changes last digits of numbers that stand elsewhere too
    }
    try:
        ends = get_epsilon(sampling=scheme, adjacency=ZERO_OUT, bounds=True, **common)
        lower, upper = map(float, ends)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WideIntervalWarning)
            rate = scheme.batch_size / scheme.dataset_size
            poisson = float(get_epsilon(sample_rate=rate, **common))
    except ValueError:  # a group larger than the data set
        return None
    if (
        own is not None
        and run.adjacency == "add_remove"
        and {_plain(draw) for _, draw, _ in run.segments} == {rate}
    ):
        poisson = own
    note = f"at least {rounded_down(lower)}; Poisson accounting says {rounded_up(poisson)}"
    return Entry(SHUFFLED, ZERO_OUT, repr(scheme), upper, INTERVAL_STATUS, INTERVAL_SOURCE, note, lower)


def _shuffled_scheme(run: RecordedRun, dataset_size: int | None) -> Shuffle | None:
    """Return shuffled batches of the sizes of the run; None where it does not have one size."""
    draws = {draw for _, draw, _ in run.segments}
    if len(draws) != 1 or run.group is not None:
        return None
    (draw,) = draws
    if isinstance(draw, Poisson):
        return None
    if isinstance(draw, Shuffle):
        return draw
    if isinstance(draw, WithoutReplacement):
        return Shuffle(draw.batch_size, draw.dataset_size)
    if dataset_size is None:
        return None
    return Shuffle(min(dataset_size, max(1, round(_rate(draw) * dataset_size))), dataset_size)


def status(curve: PrivacyCurve) -> str:
    """Whether some data sets attain the curve."""
    if curve.tight:
        return "tight: some data sets attain it"
    return "upper bound: the true epsilon may be smaller"


BOUNDS = {
    "pair": "the curve of the dominating pair",
    "chain": "a chain of single records (GROUP, Theorem 5), smaller than the curve of the pair",
}
"""Name in a report of each bound that `PrivacyCurve.bound_used` returns."""


def sources(curve: PrivacyCurve) -> str:
    """Return the theorems behind a curve."""
    return "; ".join(dict.fromkeys(kind.pair.source for kind, _ in curve.segments))


def _entry(name: str, run: RecordedRun, delta: float, note: str, *, is_own: bool) -> Entry:
    draws = list(dict.fromkeys(draw for _, draw, _ in run.segments))
    words = None
    if len(draws) == 1 and not (name == POISSON and run.has_own_rates):
        words = repr(Poisson(draws[0]) if isinstance(draws[0], float) else draws[0])
    entry = Entry(name, run.adjacency, words, None, None, None, note, is_own=is_own)
    try:
        # Numbers that stand elsewhere too are as accurate as there, so that they have one rounding: that of
        # the run itself, and that of Poisson accounting beside shuffled batches.
        is_repeated = is_own or name == POISSON
        curve = (run if is_repeated else replace(run, tolerance=max(run.tolerance, 1e-4))).curve()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WideIntervalWarning)
            epsilon = float(curve.epsilon(delta))
        return entry._replace(epsilon=epsilon, status=status(curve), theorem=sources(curve))
    except (UnsupportedError, SamplingMismatchError) as refusal:
        return entry._replace(note=str(refusal).partition(":")[0])
    except ValueError as refusal:
        return entry._replace(note=str(refusal))


def _rate(draw: Draw | Shuffle) -> float:
    if isinstance(draw, WithoutReplacement | Shuffle):
        return draw.batch_size / draw.dataset_size
    if isinstance(draw, RandomAllocation | FixedBins):
        return getattr(draw, "times", 1) / draw.batches
    if isinstance(draw, float):
        return draw
    return draw.sample_rate if isinstance(draw, Poisson) else 1.0


def _plain(draw: Draw) -> Draw:
    """Return plain Poisson sampling as its rate, and other draws as they are."""
    return draw.sample_rate if isinstance(draw, Poisson) and draw == Poisson(draw.sample_rate) else draw


def _has_several_batches(draw: Draw) -> bool:
    """Whether batches are added up under one noise, which other schemes then do too."""
    return isinstance(draw, Poisson) and draw.microbatches > 1


def _is_truncated(draw: Draw) -> bool:
    """Whether samples are cut to a largest size."""
    return isinstance(draw, Poisson) and draw.is_truncated


def _largest(draw: Draw) -> str:
    assert isinstance(draw, Poisson)
    return f"{draw.max_batch_size} of {draw.dataset_size}"


def _batch_sizes(batch: Draw) -> str:
    assert isinstance(batch, WithoutReplacement)
    return f"{batch.batch_size} of {batch.dataset_size}"
