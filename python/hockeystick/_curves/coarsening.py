"""Runs of very many different steps: their parameters rounded to a grid, to either side.

A noise schedule that changes at every update makes each step a kind of its own, and every kind costs some
tenths of a millisecond. Where schedules cannot be merged (see `composed_run`), and for questions that merged
runs do not answer, parameters are rounded beyond `MOST_EXACT` kinds, to a few significant bits: as many as
leave `MOST_ROUNDED` kinds or fewer. Rounded to the leaking side (less noise, larger batches) the run leaks at
least what the true one does, rounded to the other side at most that: more noise is less noise and some more
on top, and a smaller batch is a random part of a larger one (data processing).
So the upper end for the first and the lower end for the second enclose the truth. The grid does not depend on
the run, nor on the order of its steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hockeystick._vocabulary.mechanisms import AdaptiveClipping, RandomizedResponse, parameter_of
from hockeystick._vocabulary.sampling import Poisson, WithoutReplacement

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from hockeystick._arguments import Counts, Floats
    from hockeystick._vocabulary.mechanisms import Mechanism
    from hockeystick._vocabulary.sampling import Sampling
    from hockeystick._vocabulary.step_kinds import StepKind

MOST_EXACT = 10_000
"""Different kinds of steps that are all taken as they are."""

MOST_ROUNDED = 5_000
"""Kinds of steps that rounding aims for: two such runs take about as long as one of `MOST_EXACT` kinds."""

FEWEST_BITS = 4
"""Bits behind the leading one that are always kept: rounding moves no parameter by more than 1/16."""

_MANTISSA_BITS = 52
"""Bits behind the leading one of a float64."""

Noise = TypeVar("Noise", bound="float | Mechanism")
Draw = TypeVar("Draw", bound="float | Sampling")


def coarsened(steps: dict[StepKind, int]) -> tuple[dict[StepKind, int], dict[StepKind, int]] | None:
    """Two runs of fewer kinds of steps: one that leaks no less and one that leaks no more.

    None where there are few enough kinds already.
    """
    if len(steps) <= MOST_EXACT:
        return None
    kinds = list(steps)
    noise, rate, batch, dataset = (np.array(column) for column in zip(*map(_numbers, kinds), strict=True))
    # A coin is fair at p = 1/2: what counts is how often it lies.
    coins = np.array([isinstance(kind.noise, RandomizedResponse) for kind in kinds])
    noise = np.where(coins, 1.0 - noise, noise)
    # Where the batch is the data set, as for full batches, there is nothing to round.
    fixed = batch < dataset
    smallest = np.maximum(batch, np.array([kind.records for kind in kinds]))
    others = _codes(_with_numbers(kind, None, None, None, None) for kind in kinds)

    def rounded(bits: int, leaking: bool) -> tuple[Floats, Floats, Counts, Counts]:
        """Return the numbers with so many bits, rounded to leak more, or no more."""
        up, down = _up, _down
        if not leaking:
            up, down = down, up
        drawn = np.minimum(up(batch.astype(float), bits).astype(np.int64), dataset)
        records = np.maximum(down(dataset.astype(float), bits).astype(np.int64), smallest)
        # A batch that is rounded up stays within the data set before that is rounded down.
        records = np.maximum(records, drawn)
        return (
            down(noise, bits),
            up(rate, bits),
            np.where(fixed, drawn, batch),
            np.where(fixed, records, dataset),
        )

    bits = _most_bits(lambda bits: _count(*rounded(bits, True), others), MOST_ROUNDED)
    found: list[dict[StepKind, int]] = []
    for leaking in (True, False):
        run: dict[StepKind, int] = {}
        noises, rates, batches, datasets = (column.tolist() for column in rounded(bits, leaking))
        for i, (kind, count) in enumerate(steps.items()):
            value = 1.0 - noises[i] if coins[i] else noises[i]
            if coins[i] and value <= 0.5:
                continue  # a fair coin says nothing
            new = _with_numbers(kind, value, rates[i], batches[i], datasets[i])
            run[new] = run.get(new, 0) + count
        found.append(run)
    return found[0], found[1]


def _numbers(kind: StepKind) -> tuple[float, float, int, int]:
    """Parameters of a step that may be rounded: noise, sample rate, batch size, data set size."""
    draw = kind.draw
    if isinstance(draw, WithoutReplacement):
        return parameter_of(kind.noise), 1.0, draw.batch_size, draw.dataset_size
    rate = draw if isinstance(draw, float) else 1.0
    if isinstance(draw, Poisson) and not draw.is_truncated:
        rate = draw.sample_rate
    return parameter_of(kind.noise), rate, 1, 1


def _with_numbers(kind: StepKind, noise: Any, rate: Any, batch_size: Any, dataset_size: Any) -> Any:
    """Return the step with other such numbers; where they are None, what the rest of the step is."""
    draw: Any = kind.draw
    if isinstance(draw, float):
        draw = rate
    elif isinstance(draw, Poisson):
        if not draw.is_truncated:  # whose laws do not grow with the rate: it is not rounded
            draw = draw.microbatches if rate is None else replace(draw, sample_rate=rate)
    elif isinstance(draw, WithoutReplacement):
        draw = type(draw) if batch_size is None else type(draw)(batch_size, dataset_size)
    if isinstance(kind.noise, AdaptiveClipping):  # of two parameters: it is not rounded
        return kind._replace(draw=draw)
    mechanism: Any = float if isinstance(kind.noise, float) else type(kind.noise)
    return kind._replace(noise=mechanism if noise is None else mechanism(noise), draw=draw)


def rounded_segments(
    segments: Sequence[tuple[Noise, Draw, int]],
    leaking: bool = True,
    most_exact: int = MOST_EXACT,
    most: int = MOST_ROUNDED,
) -> list[tuple[Noise, Draw, int]]:
    """Segments that leak no less than the given ones, or no more, and are fewer if those are very many.

    Multipliers of Gaussian noise and Poisson sample rates are rounded; other mechanisms and sampling stay as
    they are. Each segment is (noise multiplier or mechanism, sample rate or sampling, steps).
    """
    if len(segments) <= most_exact:
        return list(segments)
    noises = np.array([noise if isinstance(noise, float) else 0.0 for noise, _, _ in segments])
    rates = np.array([draw if isinstance(draw, float) else 0.0 for _, draw, _ in segments])
    others = _codes(
        (None if isinstance(noise, float) else noise, None if isinstance(draw, float) else draw)
        for noise, draw, _ in segments
    )
    bits = _most_bits(lambda bits: _count(_down(noises, bits), _up(rates, bits), others), most)
    for_noise, for_rates = (_down, _up) if leaking else (_up, _down)
    rounded = zip(for_noise(noises, bits).tolist(), for_rates(rates, bits).tolist(), strict=True)
    steps: dict[tuple[Any, Any], int] = {}
    for (noise, draw, count), (new_noise, new_rate) in zip(segments, rounded, strict=True):
        key = (
            new_noise if isinstance(noise, float) else noise,
            new_rate if isinstance(draw, float) else draw,
        )
        steps[key] = steps.get(key, 0) + count
    return [(*key, count) for key, count in steps.items()]


def _most_bits(count: Callable[[int], int], most: int) -> int:
    """Bits behind the leading one with which there are `most` kinds at most, by bisection."""
    low, high = FEWEST_BITS, _MANTISSA_BITS
    while low < high:
        middle = (low + high + 1) // 2
        if count(middle) <= most:
            low = middle
        else:
            high = middle - 1
    return low


def _down(values: Floats, bits: int) -> Floats:
    """Numbers that are not negative, rounded down to so many bits behind the leading one."""
    dropped = np.int64((1 << (_MANTISSA_BITS - bits)) - 1)
    return (np.ascontiguousarray(values, dtype=np.float64).view(np.int64) & ~dropped).view(np.float64)


def _up(values: Floats, bits: int) -> Floats:
    """Numbers that are not negative, rounded up to so many bits behind the leading one."""
    dropped = np.int64((1 << (_MANTISSA_BITS - bits)) - 1)
    # What is carried out of the fraction goes to the exponent: the next power of two.
    places = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    found = ((places + dropped) & ~dropped).view(np.float64)
    return np.where(np.isfinite(found), found, values)


def _codes(keys: Iterable[Hashable]) -> Counts:
    """Equal numbers for equal keys."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _count(*columns: Floats | Counts) -> int:
    """How many different rows there are."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, ranks = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * len(codes) + ranks, return_inverse=True)
    return int(codes.max()) + 1
