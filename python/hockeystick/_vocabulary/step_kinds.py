"""Kinds of steps: what happens in one step of a run, as an object to compare, to count and to print."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hockeystick._arguments import LARGEST_GROUP, count_scalar
from hockeystick._vocabulary.allocation import FixedBins, RandomAllocation
from hockeystick._vocabulary.configuration import Segment, configure, microbatches_of
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.mechanisms import (
    FAMILIES,
    AdaptiveClipping,
    BatchClipping,
    Mechanism,
    check_noise_multiplier,
    family_of,
    parameter_of,
)
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Mixture,
    Poisson,
    Sampling,
    WithoutReplacement,
    check_sample_rate,
)
from hockeystick._vocabulary.support import Pair
from hockeystick.errors import UnsupportedError


class StepKind(NamedTuple):
    """A kind of steps, with what is known of its dominating pair; equal kinds compare equal.

    A noun stands as its main number where that says everything: Gaussian noise as its multiplier, Poisson
    sampling as its rate (1 for full batches, unless records are replaced), records that are alike as their
    number.
    """

    noise: float | Mechanism
    draw: float | Sampling | Mixture
    group: int | Group
    pair: Pair

    @property
    def records(self) -> int:
        """Number of records that change together."""
        return self.group if isinstance(self.group, int) else self.group.size

    @property
    def microbatches(self) -> int:
        """Number of batches that are added up before noise."""
        return microbatches_of(self.draw)

    @property
    def has_own_rates(self) -> bool:
        """Whether members' rates take the place of the sample rate."""
        return isinstance(self.group, Group) and self.group.rates is not None

    @property
    def asked(self) -> StepKind:
        """The step that was asked about, where this one of a single record stands for it; for words only."""
        clipped = self.pair.clipped
        if clipped is None:
            return self
        group = clipped.size if clipped.rates is None else Group(rates=clipped.rates)
        draw = 1.0 if clipped.rates is not None and isinstance(clipped.draw, float) else clipped.draw
        return StepKind(clipped.mechanism, draw, group, self.pair)


def step_kind(
    *,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    sampling: Sampling | Participation | None = None,
    group_size: int = 1,
    group: Group | None = None,
    adjacency: str = "add_remove",
    mechanism: Mechanism | None = None,
) -> tuple[StepKind, str]:
    """Return the checked step of a run and its adjacency; the arguments are those of `privacy_curve`."""
    step = configure(
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        sampling=sampling,
        group_size=group_size,
        group=group,
        adjacency=adjacency,
        mechanism=mechanism,
    )
    noise, draw, members = step.noise, step.draw, step.group
    # Arrays and numbers out of range are refused here: the core is not asked before the first question.
    if isinstance(noise, np.ndarray) or (isinstance(noise, float) and not 0.0 <= noise < math.inf):
        noise = check_noise_multiplier(noise)
    if isinstance(draw, np.ndarray) or (isinstance(draw, float) and not 0.0 <= draw <= 1.0):
        draw = check_sample_rate(draw)
    if isinstance(members, np.ndarray):
        members = count_scalar(members, "group_size", 1, LARGEST_GROUP)
    if isinstance(members, Group):
        members = _normal(members)
        if members.rates is not None:
            # With rates of the members' own the sample rate means nothing.
            draw = replace(draw, sample_rate=1.0) if isinstance(draw, Poisson) else 1.0
    return StepKind(noise, draw, members, step.pair), step.adjacency


def _normal(group: Group) -> Group:
    """Return the one of all equivalent groups that stands for them."""
    norms, cosine = group.norms, group.cosine
    if group.size == 1:
        cosine = 1.0
    if cosine == 0.0 and norms is None:
        norms = (1.0,) * group.size
    if (norms, cosine) == (group.norms, group.cosine):
        return group
    return Group(group.size, group.rates, norms, cosine=cosine)


def require_whole_epochs(kind: StepKind, one: int, other: int) -> None:
    """Raise ``UnsupportedError`` where two runs cannot be added up, as their epochs are not whole."""
    draw = kind.draw
    if not isinstance(draw, RandomAllocation | FixedBins) or one == 0 or other == 0:
        return
    if isinstance(draw, FixedBins) or one % draw.batches or other % draw.batches:
        raise UnsupportedError(
            f"runs of {draw!r} are composed only where their epochs are whole and bins are drawn afresh"
        )


def _order(segment: tuple[StepKind, int]) -> tuple[Any, ...]:
    """Place of a segment among others: by what it is in the core's terms, as a step of one batch."""
    kind, _ = segment
    draw, batches = kind.draw, kind.microbatches
    rates: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    cosine = 1.0
    if isinstance(kind.group, Group):
        rates, norms = (kind.group.rates or ()) * batches, (kind.group.norms or ()) * batches
        cosine = kind.group.cosine
    drawing: tuple[Any, ...]
    if isinstance(draw, WithoutReplacement):
        drawing = ("fixed_batch", 1.0, draw.batch_size, draw.dataset_size)
    elif isinstance(draw, FullBatch):
        drawing = ("fixed_batch", 1.0, kind.records, kind.records)
    elif isinstance(draw, RandomAllocation | FixedBins):
        drawing = ("allocation", float(isinstance(draw, FixedBins)), draw.batches, getattr(draw, "times", 1))
    elif isinstance(draw, Poisson) and draw.is_truncated:
        drawing = ("truncated_poisson", draw.sample_rate, draw.max_batch_size, draw.dataset_size)
    elif isinstance(draw, Mixture):
        drawing, rates, norms = ("mixture", 1.0, 1, 1), draw.weights, draw.shifts
    else:
        drawing = ("poisson", draw if isinstance(draw, float) else draw.sample_rate, 1, 1)
    noise = (family_of(kind.noise), parameter_of(kind.noise))
    return (*noise, *drawing, kind.records * batches, rates, norms, cosine, batches)


def in_order(steps: dict[StepKind, int]) -> tuple[tuple[StepKind, int], ...]:
    """Kinds of steps in an order that does not depend on the run's."""
    return tuple(sorted(steps.items(), key=_order))


def for_core(steps: dict[StepKind, int]) -> list[Segment]:
    """Segments as the compiled core takes them."""
    return [(kind.noise, kind.draw, kind.group, count) for kind, count in in_order(steps)]


def surely_attained(steps: dict[StepKind, int]) -> dict[StepKind, int] | None:
    """Return a run for its lower ends, if the noise of some steps was rounded down; None if of none."""
    if all(kind.pair.most_noise is None for kind in steps):
        return None
    found: dict[StepKind, int] = {}
    for kind, count in steps.items():
        noise = kind.noise if kind.pair.most_noise is None else kind.pair.most_noise
        less = kind._replace(noise=noise)
        found[less] = found.get(less, 0) + count
    return found


def _noise_in_words(noise: float | Mechanism) -> str:
    if isinstance(noise, AdaptiveClipping):
        return f"AdaptiveClipping({noise.noise_multiplier:g}, {noise.count_noise:g})"
    if isinstance(noise, BatchClipping):
        units = f", {noise.units_per_batch}" if noise.units_per_batch > 1 else ""
        return f"BatchClipping({noise.noise_multiplier:g}{units})"
    return f"{FAMILIES[family_of(noise)].__name__}({parameter_of(noise):g})"


def row(kind: StepKind, count: int, adjacency: str) -> tuple[str, str, str, str, str]:
    """One line of the printed table."""
    kind = kind.asked
    draw, members = kind.draw, kind.group if isinstance(kind.group, Group) else None
    if isinstance(draw, Mixture):
        sampling = f"mixture of {len(draw.weights)}"
    elif isinstance(draw, RandomAllocation | FixedBins):
        sampling = repr(draw)
    elif kind.has_own_rates:
        sampling = "Poisson, own rates"
    elif isinstance(draw, Poisson) or (isinstance(draw, float) and draw < 1.0):
        sampling = f"Poisson({draw if isinstance(draw, float) else draw.sample_rate:g})"
    elif isinstance(draw, WithoutReplacement) and (
        adjacency != "replace" or draw.batch_size < draw.dataset_size
    ):
        sampling = f"WithoutReplacement({draw.batch_size}, {draw.dataset_size})"
    else:
        sampling = "FullBatch()"  # the same pairs
    if isinstance(draw, Poisson) and draw.is_truncated:
        sampling += f", at most {draw.max_batch_size} of {draw.dataset_size}"
    if kind.microbatches > 1:
        sampling += f" of {kind.microbatches} batches"
    group = f"{kind.records} record" + ("s" if kind.records > 1 else "")
    qualities = [
        word
        for word, present in (
            ("rates", members is not None and members.rates is not None),
            ("norms", members is not None and members.norms is not None and set(members.norms) != {1.0}),
            ("orthogonal", members is not None and members.gradients == "orthogonal"),
            ("bounded cosine", members is not None and members.gradients == "bounded"),
        )
        if present
    ]
    if qualities:
        group += f" ({', '.join(qualities)})"
    return (
        str(count),
        _noise_in_words(kind.noise),
        sampling,
        group,
        f"{'tight' if kind.pair.tight else 'upper bound'} ({kind.pair.source})",
    )
