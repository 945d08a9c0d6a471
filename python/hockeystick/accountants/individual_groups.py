"""Exact curves of examples with norms of their own: several together, or one whose norm never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hockeystick.curve import PrivacyCurve, step_kind
from hockeystick.groups import Group
from hockeystick.intervals import DEFAULT_TOLERANCE
from hockeystick.sampling import Poisson, WithoutReplacement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hockeystick._arguments import Floats
    from hockeystick.accountants.norm_history import Kind, NormHistory
    from hockeystick.curve import StepKind

MOST_DIFFERENT = 8
"""Members whose norms are taken as they are: 256 different sums."""

MOST_SUMS = 2000
"""Different sums of the norms of larger groups."""

MOST_CURVES = 128
"""Different norms that `same_norm_epsilon` makes curves of."""


def group_curve(history: NormHistory, places: NDArray[np.int64]) -> PrivacyCurve:
    """Curve of the members at `places`, at least two, over the whole run."""
    kinds: dict[StepKind, int] = {}
    for norms, steps in history:
        members = _coarsened(np.sort(norms[places]))
        for kind, count in steps.items():
            found = _group_kind(members, kind)
            if found is not None:
                kinds[found] = kinds.get(found, 0) + count
    return PrivacyCurve(kinds, "add_remove", DEFAULT_TOLERANCE)


def _coarsened(norms: Floats) -> Floats:
    """`norms`, those of large groups rounded up to multiples of a power of 1/2."""
    seen = norms[norms > 0.0]
    if len(np.unique(seen)) <= 1 or len(seen) <= MOST_DIFFERENT:
        return seen
    steps = 2.0 ** np.floor(np.log2(MOST_SUMS / len(seen)))
    return np.minimum(np.ceil(seen * steps) / steps, 1.0)


def _group_kind(norms: Floats, kind: Kind) -> StepKind | None:
    """One step of the group, None if its gradients are all zero in it and batches have no fixed size."""
    noise, draw = kind
    sampling = Poisson(draw) if isinstance(draw, float) else draw
    if isinstance(sampling, WithoutReplacement):
        # Every member in the batch pushes another example out. No tighter pair is known.
        size = max(len(norms), 1)
        return step_kind(noise_multiplier=noise, sampling=sampling, group_size=size)[0]
    if not len(norms):
        return None
    group = Group(norms=norms) if np.any(norms < 1.0) else Group(size=len(norms))
    return step_kind(noise_multiplier=noise, sampling=sampling, group=group)[0]


def same_norm_epsilon(norms: Floats, steps: Mapping[Kind, int], delta: float) -> Floats:
    """Epsilon of examples with one positive norm each for the whole run: with that much more noise.

    Of more than `MOST_CURVES` different norms, some are rounded up to others.
    """
    levels = np.unique(norms)
    if len(levels) > MOST_CURVES:
        levels = levels[np.linspace(0, len(levels) - 1, MOST_CURVES).round().astype(np.int64)]
    found = np.array([_of_norm(float(norm), steps, delta) for norm in levels])
    return np.asarray(found[np.searchsorted(levels, norms)])


def _of_norm(norm: float, steps: Mapping[Kind, int], delta: float) -> float:
    kinds: dict[StepKind, int] = {}
    for (noise, draw), count in steps.items():
        if isinstance(draw, WithoutReplacement):
            # The pair has shift 2 for the full norm.
            kind, _ = step_kind(noise_multiplier=noise * 2.0 / (1.0 + norm), sampling=draw)
        else:
            sampling = Poisson(draw) if isinstance(draw, float) else draw
            kind, _ = step_kind(noise_multiplier=noise / norm, sampling=sampling)
        kinds[kind] = kinds.get(kind, 0) + count
    return float(PrivacyCurve(kinds, "add_remove", DEFAULT_TOLERANCE).epsilon(delta))
