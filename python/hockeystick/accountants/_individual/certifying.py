"""Certificates of single examples: the history of an example as a run that the independent checker covers."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hockeystick._arguments import DEFAULT_TOLERANCE, count_scalar, require
from hockeystick._curves.certificate import Certificate
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.shared_work import shared_work
from hockeystick._progress import Report
from hockeystick._vocabulary.groups import Group
from hockeystick._vocabulary.sampling import FullBatch, Poisson, Sampling
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick.accountants._individual.deferred import complete_norm_history
from hockeystick.accountants._individual.state import IndividualState
from hockeystick.errors import UnsupportedError

MOST_LEVELS = 64
"""Most different steps of a run that the checker covers."""

MOST_RATES = 32
"""Different sample rates that are kept of a history with more than `MOST_LEVELS` of them."""

TINY_SHIFTS = (2.0**-10, 2.0**-8)
"""Shifts, in units of the noise, to which smaller ones of sampled steps are raised: witnesses for tiny shifts
are often too coarse for their claims."""

NEGLIGIBLE = 1e-6
"""What raising shifts may add to the squared shift of the whole run without a closer try before."""


class Step(NamedTuple):
    """What an example adds to one step."""

    noise: float
    """Noise multiplier."""
    draw: float | Sampling
    """Sample rate, or how batches are drawn."""
    norm: float
    """Norm of the example's gradient, in units of the clipping norm."""

    @property
    def shift(self) -> float:
        """Norm in units of the noise: infinite without noise, but for a norm of zero."""
        if self.noise > 0.0:
            return self.norm / self.noise
        return math.inf if self.norm > 0.0 else 0.0

    @property
    def exact_shift(self) -> Fraction | float:
        """The quotient without rounding, which tells steps apart whose shifts are the same float."""
        return Fraction(self.norm) / Fraction(self.noise) if self.noise > 0.0 else self.shift

    @property
    def rate(self) -> float:
        """Probability that the example is in a batch."""
        if isinstance(self.draw, Poisson):
            return self.draw.sample_rate
        return self.draw if isinstance(self.draw, float) else 1.0

    @property
    def weight(self) -> float:
        """What a squared shift of such a step counts for, compared with other sampling."""
        batches = self.draw.microbatches if isinstance(self.draw, Poisson) else 1
        return self.rate**2 * batches


Levels = dict[Step, int]
"""How many steps of each kind there are."""


class CertifiesExamples:
    """What an accountant of single examples has certificates by."""

    _state: IndividualState

    def certify(
        self,
        example: int,
        *,
        delta: float | None = None,
        epsilon: float | None = None,
        progress: Report | bool | None = None,
        processes: int = 1,
    ) -> Certificate:
        """Certificate of one example's epsilon, or its delta, for an independent checker.

        Parameters
        ----------
        example : int
            Index of the example, from 0 on.
        delta : float, optional
            In (0, 1): certifies epsilon there.
        epsilon : float, optional
            Finite and at least zero: certifies delta there. Give exactly one of the two.
        progress : bool or callable, optional
            True for a bar, or a function of how many of a hundred parts of the work are done, and of 100.
        processes : int, optional
            Processes that share what the checker computes, at least 1; the result does not depend on it.

        Returns
        -------
        Certificate
            Its run is the history of the example: the steps with its norms, in units of C, as
            ``Group(norms=[norm])``. "At most" is the guarantee for these norms; "at least" is claimed too
            where no norm had to be raised. The certificate shows the norms, so it is as private as they are.

        Raises
        ------
        UnsupportedError
            For batches of a fixed size, in which an example pushes out another one: certificates know no
            norms there. Or if the checker does not cover the run.
        ValueError
            If there is no such example or there were no steps, `delta` or `epsilon` is out of range, or no
            finite epsilon exists.
        TypeError
            If an argument has the wrong type, or not exactly one of `delta` and `epsilon` is given.
        ImportError
            If the extra "verify" is not installed, where `PrivacyCurve.certify` needs it.

        Notes
        -----
        The proof is about the norms that were recorded. Whether these bound the privacy of the example says
        `is_guarantee`. A certificate has at most 64 different steps. Of a longer history the norms of
        equal noise and sampling are raised to the next larger ones, those first that add least to the sum of
        squared norms; then, if noise or sampling alone differ more often, steps count with the noise or the
        sample rate of others that reveal more. After more than 64 MB of norms the largest norm of the example
        counts for all equal steps. What is proven is an upper bound in each case.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualAccountant
        >>> accountant = IndividualAccountant(2)
        >>> accountant.update_norms([0.5, 1.0])
        >>> for _ in range(1000):
        ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> certificate = accountant.certify(0, delta=1e-5)
        >>> round(certificate.claims[0]["epsilon"], 4)
        0.622
        >>> certificate.verify()[0]
        True
        """
        place = count_scalar(example, "example", 0, self._state.dataset_size - 1)
        if (delta is None) == (epsilon is None):
            raise TypeError("give exactly one of delta and epsilon")
        with shared_work(progress, processes):
            return _certificate(levels_of(self._state, place), delta, epsilon)


def levels_of(state: IndividualState, place: int) -> tuple[Levels, bool]:
    """Return the steps of an example with its norms, and whether these are the recorded ones."""
    history = complete_norm_history(state)
    # A quotient by a power of two is exact; others may be next to the true one in states of earlier versions.
    exact = math.frexp(state.settings.max_grad_norm)[0] == 0.5
    levels: Levels = {}
    for norms, steps in history:
        norm = float(norms[place])
        if not exact and 0.0 < norm < 1.0:
            norm = math.nextafter(norm, 1.0)
        for (noise, draw), count in steps.items():
            step = Step(noise, _checked(draw), norm)
            levels[step] = levels.get(step, 0) + count
    require(bool(levels), "steps", 0, "at least 1: a run without steps reveals nothing")
    return levels, history.is_whole


def _checked(draw: float | Sampling) -> float | Sampling:
    plain = isinstance(draw, float | FullBatch) or (isinstance(draw, Poisson) and not draw.is_truncated)
    if not plain:
        raise UnsupportedError(
            f"there is no certificate of a single example with {draw!r}: its norms count on Poisson samples "
            "and full batches alone; certify privacy_curve(...) of the run, which holds for every example"
        )
    return draw


def _certificate(found: tuple[Levels, bool], delta: float | None, epsilon: float | None) -> Certificate:
    """Return the certificate of a history; where shifts are tiny, the first that has a proof."""
    recorded, is_whole = found
    levels = coarsened(recorded)

    def with_floor(floor: float) -> Certificate:
        """Return the certificate of the run whose smaller shifts are raised to a floor."""
        run = raised(levels, floor)
        made = _curve(run).certify(delta=delta, epsilon=epsilon)
        if is_whole and run == recorded:
            return made
        # The lower end is that of the run with larger norms, and says nothing of the example.
        return made.with_claims([claim for claim in made.claims if "at_most" in claim])

    *first, last = _floors(levels)
    for floor in first:
        with suppress(UnsupportedError):
            return with_floor(floor)
    return with_floor(last)


def _floors(levels: Levels) -> tuple[float, ...]:
    """Return the smallest shifts to try, those that cost nothing first."""
    tiny = {
        step: count for step, count in levels.items() if step.rate < 1.0 and 0.0 < step.shift < TINY_SHIFTS[0]
    }
    if not tiny:
        return (0.0,)
    added = sum(count * step.weight for step, count in tiny.items()) * TINY_SHIFTS[0] ** 2
    return TINY_SHIFTS if added < NEGLIGIBLE else (0.0, *TINY_SHIFTS)


def raised(levels: Levels, floor: float) -> Levels:
    """Return the steps with the shifts of sampled ones raised to `floor`, but for norms of zero."""
    found: Levels = {}
    for step, count in levels.items():
        if step.rate < 1.0 and 0.0 < step.shift < floor:
            step = step._replace(norm=min(floor * step.noise, 1.0))
        found[step] = found.get(step, 0) + count
    return found


def coarsened(levels: Levels, most: int = MOST_LEVELS) -> Levels:
    """Return at most so many different steps, which reveal no less.

    A step reveals more with a larger shift, and with a larger sample rate. Steps with the same noise and
    sampling are merged first, then those with the same sampling, both with the next larger shift.
    """
    if len({step.draw for step in levels}) > most:
        levels = _with_few_rates(levels)
    families: tuple[Callable[[Step], object], ...] = (
        lambda step: (step.noise, step.draw),
        lambda step: step.draw,
    )
    for family in families:
        if len(levels) > most:
            levels = _merged(levels, family, most)
    if len(levels) > most:
        raise UnsupportedError(f"a certificate has at most {most} different ways of drawing batches")
    return levels


def _with_few_rates(levels: Levels) -> Levels:
    """Return the steps with sample rates rounded up to some of them."""
    rates = np.unique([step.draw for step in levels if isinstance(step.draw, float)])
    if not rates.size:
        return levels
    kept = rates[np.linspace(0, len(rates) - 1, MOST_RATES).round().astype(np.int64)]
    found: Levels = {}
    for step, count in levels.items():
        if isinstance(step.draw, float):
            step = step._replace(draw=float(kept[np.searchsorted(kept, step.draw)]))
        found[step] = found.get(step, 0) + count
    return found


def _merged(levels: Levels, family: Callable[[Step], object], most: int) -> Levels:
    """Merge steps with the next ones of their family, least increase of the squared shifts first."""
    order = sorted(levels, key=lambda step: (repr(family(step)), step.shift, step.exact_shift))
    counts = [levels[step] for step in order]
    size = len(order)
    after = [i + 1 if i + 1 < size and family(order[i]) == family(order[i + 1]) else -1 for i in range(size)]
    before = [-1] * size
    for i, following in enumerate(after):
        if following >= 0:
            before[following] = i

    def cost(i: int) -> float:
        """Return how much the sum of squared shifts grows if a step is merged with the next one."""
        own, larger = order[i].shift, order[after[i]].shift
        if own == larger or order[i].weight == 0.0:
            # The difference of two infinite shifts, or zero times an infinite one, would be no number.
            return 0.0
        # Shifts with next to no noise have squares beyond the largest float: they count as infinite.
        return counts[i] * order[i].weight * ((larger - own) * (larger + own))

    # Costs only grow: one that has grown since it was noted down is put back.
    heap = [(cost(i), i) for i in range(size) if after[i] >= 0]
    heapq.heapify(heap)
    remaining = size
    while heap and remaining > most:
        noted, i = heapq.heappop(heap)
        if (now := cost(i)) > noted:
            heapq.heappush(heap, (now, i))
            continue
        following, previous = after[i], before[i]
        counts[following] += counts[i]
        counts[i], before[following] = 0, previous
        if previous >= 0:
            after[previous] = following
        remaining -= 1
    return {step: count for step, count in zip(order, counts, strict=True) if count}


def _curve(levels: Levels) -> PrivacyCurve:
    kinds: dict[StepKind, int] = {}
    for step, count in levels.items():
        sampling = Poisson(step.draw) if isinstance(step.draw, float) else step.draw
        group = Group(norms=[step.norm]) if step.norm < 1.0 else Group(size=1)
        kind, _ = step_kind(noise_multiplier=step.noise, sampling=sampling, group=group)
        kinds[kind] = kinds.get(kind, 0) + count
    return PrivacyCurve(kinds, "add_remove", DEFAULT_TOLERANCE)
