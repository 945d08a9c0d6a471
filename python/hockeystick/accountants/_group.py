"""Exact group accounting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hockeystick._arguments import DEFAULT_TOLERANCE
from hockeystick._curves.bins_curve import BinsCurve
from hockeystick._curves.curve import PrivacyCurve
from hockeystick._curves.shuffled_curve import ShuffledCurve
from hockeystick._curves.whole_runs import bins_curve, check_whole_run, placed_kinds, whole_run_kinds
from hockeystick._vocabulary.adjacency import ZERO_OUT, check_adjacency
from hockeystick._vocabulary.allocation import FixedBins
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.intervals import check_tolerance
from hockeystick._vocabulary.mechanisms import BatchClipping, Mechanism
from hockeystick._vocabulary.participation import CyclicPoisson, Participation
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import (
    FullBatch,
    Sampling,
    Shuffle,
    UnaccountedSampling,
    noise_and_sampling,
)
from hockeystick._vocabulary.shuffled_step import configure_shuffled
from hockeystick._vocabulary.step_kinds import StepKind, step_kind
from hockeystick.accountants._history import (
    check_answerable,
    check_draw,
    check_noise,
    check_step,
    draws_in_words,
    group_as_json,
    is_answerable,
    merged,
    with_step,
)
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._repeating import repeatable
from hockeystick.errors import UnsupportedError

_MOST_WAYS = 64
"""Ways to place a group in the parts of several runs; more are covered by one curve."""


class GroupAccountant(Accountant):
    """Privacy of a run for a group of records, by the exact privacy curve.

    Steps of DP-SGD with Poisson sampling, or of any mechanism and sampling scheme of `privacy_curve`,
    in one run too.

    Parameters
    ----------
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    adjacency : {"add_remove", "add", "remove", "replace", "zero_out"}, optional
        Neighbouring relation; "zero_out" and "replace" for shuffled batches.
    group : Group, optional
        A group whose members differ, in place of `group_size`. Members' rates take the place of the
        sample rate in every step.
    tolerance : float, optional
        Relative width of the certified intervals to aim at, in [1e-9, 0.1].

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, or both `group_size` and `group` are given.

    Notes
    -----
    The dominating pairs of GROUP and PITFALLS, composed over the history;
    ``print(accountant)`` says which. Very many different steps, as with noise that changes at every update,
    are interpolated or rounded as `PrivacyCurve` says; the accountant refuses none that it has recorded.
    A step that has no proven pair for this group and adjacency is refused: fixed batches and a group with
    rates, for example. The answers do not depend on the order of the steps, but for shuffled
    batches (``sampling=Shuffle(...)``). These are runs of their own, in which every step is one batch of an
    epoch; the answer is the upper end of their certified interval (`ShuffledCurve`). So are runs with
    `CorrelatedNoise` and `FixedBins` (`BinsCurve`), in which an epoch that has begun counts as complete.

    References
    ----------
    S. Mahloujifar, A. Sablayrolles, G. Cormode and S. Jha, "Optimal Group Privacy for DP-SGD" (GROUP),
    Bulletin of the IEEE Computer Society Technical Committee on Data Engineering.

    C. J. Lebeda, M. Regehr, G. Kamath and T. Steinke, "Avoiding Pitfalls for Privacy Accounting of Subsampled
    Mechanisms under Composition" (PITFALLS), 2024. arXiv:2405.20769

    Examples
    --------
    >>> from hockeystick.accountants import GroupAccountant
    >>> accountant = GroupAccountant()
    >>> for _ in range(1000):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> accountant.history
    [(1.0, 0.01, 1000)]
    >>> round(accountant.get_epsilon(1e-5), 4)
    1.8282

    Steps with batches of a fixed size join the run:

    >>> import hockeystick as hs
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=2.0, sampling=hs.WithoutReplacement(600, 60_000))
    >>> accountant.history[-1]
    (2.0, WithoutReplacement(batch_size=600, dataset_size=60000), 100)
    >>> round(accountant.get_epsilon(1e-5), 4)
    1.9148
    >>> accountant.mechanism(), accountant.group, accountant.tolerance
    ('exact_group', None, 1e-06)
    """

    def __init__(
        self,
        group_size: int = 1,
        adjacency: str = "add_remove",
        group: Group | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        if isinstance(group_size, Run):
            raise TypeError(
                f"group_size must be a whole number, got a Run: make the accountant with "
                f"group_size={group_size.records_per_person} and pass the run to its step()"
            )
        members = None if group is None else check_group(group)
        if members is not None:
            if group_size not in (1, members.size):
                raise TypeError("give at most one of group_size and group")
            group_size = members.size
        super().__init__(group_size, adjacency)
        self._group = members
        self._tolerance = check_tolerance(tolerance)
        self._kinds: dict[tuple[type[Any], Sampling | None], StepKind] = {}
        self._curve: PrivacyCurve | ShuffledCurve | BinsCurve | None = None

    @property
    def group(self) -> Group | None:
        """The group whose members differ, or None."""
        return self._group

    @property
    def tolerance(self) -> float:
        """Relative width of the certified intervals to aim at."""
        return self._tolerance

    @classmethod
    def mechanism(cls) -> str:
        """Return "exact_group"."""
        return "exact_group"

    @staticmethod
    def _check_adjacency(value: object) -> str:
        return ZERO_OUT if isinstance(value, str) and value == ZERO_OUT else check_adjacency(value)

    @staticmethod
    def _check_noise(value: object, name: str) -> Any:
        return value if isinstance(value, CorrelatedNoise | BatchClipping) else check_noise(value, name)

    @staticmethod
    def _check_draw(value: object, name: str) -> Any:
        return value if isinstance(value, Participation | Shuffle) else check_draw(value, name)

    def _checked(self, segments: object) -> list[Any]:
        history = super()._checked(segments)
        for place, (noise, draw, _) in enumerate(history):
            self._require_pair(noise, draw, history[:1] if place else [])
        return history

    def _record(self, noise: Any, draw: Any) -> None:
        checked = draw if isinstance(noise, CorrelatedNoise) else self._check_draw(draw, "sampling")
        self._require_pair(noise, checked, self._history[:1])
        with_step(self._history, noise, checked)

    def _require_pair(self, noise: Any, draw: Any, first: list[Any]) -> None:
        """Raise ``UnsupportedError`` if such a step has no pair here, or cannot follow the `first` one."""
        if isinstance(noise, CorrelatedNoise):
            check_whole_run(noise, draw, self.group_size, self._group, self.adjacency)
        elif not isinstance(draw, UnaccountedSampling):
            if isinstance(draw, Shuffle):
                self._require_shuffled(noise, draw)
            else:
                self._kind(noise, draw)
        for before, other, _ in first:
            if isinstance(other, UnaccountedSampling) or isinstance(draw, UnaccountedSampling):
                continue  # there will be no answer
            if other != draw and (isinstance(draw, Shuffle) or isinstance(other, Shuffle)):
                raise UnsupportedError(
                    f"steps of {other!r} and of {draw!r} have no proven pair together: account for "
                    "shuffled batches in a run of their own, and add up the epsilons and deltas of the runs"
                )
            dealt = _are_dealt(noise, draw) or _are_dealt(before, other)
            if dealt and (before, other) != (noise, draw):
                raise UnsupportedError(
                    f"steps of {before!r} with {other!r} and of {noise!r} with {draw!r} have no proven pair "
                    "together: account for random bins under correlated noise in a run of their own, and add "
                    "up the epsilons and deltas of the runs"
                )

    def _require_shuffled(self, noise: float | Mechanism, draw: Shuffle) -> None:
        configure_shuffled(
            adjacency=self.adjacency,
            **noise_and_sampling(noise, draw),
            sample_rate=None,
            group_size=self.group_size,
            group=self._group,
        )

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | Participation | Shuffle | str | None = None,
        mechanism: Mechanism | CorrelatedNoise | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
        epochs: float | None = None,
        steps: int = 1,
    ) -> None:
        """Record one step, several equal ones, or all of a run.

        Parameters
        ----------
        run : Run, optional
            A whole run, in place of all other arguments, as in `Accountant.step`.
        noise_multiplier : float, optional
            Standard deviation of Gaussian noise in units of the clipping norm, at least zero.
        sample_rate : float, optional
            Probability in [0, 1] that a record is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson, WithoutReplacement, FullBatch, RandomAllocation, FixedBins or Shuffle, optional
            How the batch is drawn. Give either this or `sample_rate`. The history keeps schemes
            other than Poisson's where the sample rate stands.
        mechanism : Gaussian, BatchClipping, Laplace, RandomizedResponse or CorrelatedNoise, optional
            What randomises the step, in place of `noise_multiplier`. The history keeps it where the
            noise multiplier stands. All steps with equal `CorrelatedNoise` and sampling are one run.
        batch_size, dataset_size, epochs : optional
            Sizes in place of a rate, and epochs in place of `steps`, as in `Accountant.step`.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, is missing, or excludes another one; the accountant
            stays as it was.
        UnsupportedError
            If such a step has no proven dominating pair for the group and adjacency of the
            accountant; it stays as it was.

        Examples
        --------
        >>> import hockeystick as hs
        >>> accountant = hs.accountants.GroupAccountant()
        >>> accountant.step(mechanism=hs.Laplace(2.0), sampling=hs.FullBatch())
        >>> round(accountant.get_epsilon(1e-9), 6)
        0.5
        """
        if isinstance(mechanism, CorrelatedNoise):
            if noise_multiplier is not None or sample_rate is not None:
                raise TypeError(
                    "with CorrelatedNoise give sampling alone, and no noise_multiplier or sample_rate"
                )
            self._record(mechanism, sampling)
        elif isinstance(sampling, Shuffle):
            noise, _ = check_step(noise_multiplier, mechanism, sample_rate, FullBatch())
            self._record(noise, sampling)
        else:
            check = self._check_noise
            self._record(*check_step(noise_multiplier, mechanism, sample_rate, sampling, check=check))

    def _kind(self, noise: float | Mechanism, draw: float | Sampling) -> StepKind:
        """Step with this noise and sampling, as the core takes it."""
        if isinstance(noise, BatchClipping):
            return self._asked(
                noise, draw
            )  # how much noise there is and the rate make another step of one record
        # What is supported depends neither on how much noise there is nor on a sample rate, so a schedule of
        # either asks once.
        question = (type(noise), None if isinstance(draw, float) else draw)
        known = self._kinds.get(question)
        if known is None:
            known = self._kinds[question] = self._asked(noise, draw)
        # Members' own rates take the place of the sample rate.
        if isinstance(draw, float) and not known.has_own_rates:
            return known._replace(noise=noise, draw=draw)
        return known._replace(noise=noise)

    def _asked(self, noise: float | Mechanism, draw: float | Sampling) -> StepKind:
        kind, _ = step_kind(
            **noise_and_sampling(noise, draw),
            group_size=self.group_size,
            group=self._group,
            adjacency=self.adjacency,
        )
        return kind

    def _epsilon(self, delta: float) -> float:
        return max(float(curve.epsilon(delta)) for curve in self._placed())

    def _delta(self, epsilon: float) -> float:
        return max(float(curve.delta(epsilon)) for curve in self._placed())

    def _placed(self) -> Sequence[PrivacyCurve | ShuffledCurve | BinsCurve]:
        """Return a curve for each way to place the group in parts that take turns, or the one for all."""
        curve = self.privacy_curve()
        if self.group_size == 1 or not any(isinstance(draw, CyclicPoisson) for _, draw, _ in self._history):
            return [curve]
        ways: list[PrivacyCurve] = [PrivacyCurve({}, self.adjacency, self._tolerance)]
        for noise, draw, count in merged(self._checked(self.history)):
            if isinstance(noise, CorrelatedNoise):
                kinds = placed_kinds(noise, draw, count, self.group_size, self.adjacency)
            else:
                kinds = [{self._kind(noise, draw): count}]
            if len(ways) * len(kinds) > _MOST_WAYS:
                return [curve]
            parts = [PrivacyCurve(kind, self.adjacency, self._tolerance) for kind in kinds]
            ways = [way + part for way in ways for part in parts]
        return ways

    def privacy_curve(self) -> PrivacyCurve | ShuffledCurve | BinsCurve:
        """Privacy curve of all steps so far.

        Returns
        -------
        PrivacyCurve, ShuffledCurve or BinsCurve
            The same object until the history changes, so that later questions are cheap. Where members of a
            group may be in any part of a `CyclicPoisson`, it covers all placements at once, and may lie
            above `get_epsilon`, which takes the worst of them.

        Raises
        ------
        SamplingMismatchError
            If steps were taken with a loader that no account is known for.

        Examples
        --------
        >>> from hockeystick.accountants import GroupAccountant
        >>> accountant = GroupAccountant()
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> curve = accountant.privacy_curve()
        >>> curve.steps, curve is accountant.privacy_curve()
        (1, True)
        """
        curve = self._shuffled_curve() or self._dealt_curve() or self._exact_curve()
        if self._curve != curve:
            self._curve = curve
        return self._curve

    def _exact_curve(self) -> PrivacyCurve:
        steps: dict[StepKind, int] = {}
        for kind, count in self._segments():
            steps[kind] = steps.get(kind, 0) + count
        adjacency = "add_remove" if self.adjacency == ZERO_OUT else self.adjacency  # of no steps
        return PrivacyCurve(steps, adjacency, self._tolerance)

    def _shuffled_curve(self) -> ShuffledCurve | None:
        """Return the curve of shuffled batches; None where there are no steps with them."""
        if not any(isinstance(draw, Shuffle) for _, draw, _ in self._history[:1]):
            return None
        history: list[Any] = self._checked(self.history)
        check_answerable(history)
        segments = tuple((self._noise_of_shuffled(noise), count) for noise, _, count in history)
        return ShuffledCurve(history[0][1], segments, self.group_size, self.adjacency, self._tolerance)

    def _dealt_curve(self) -> PrivacyCurve | BinsCurve | None:
        """Return the curve of random bins under correlated noise; None where there are no steps with them."""
        if not any(_are_dealt(noise, draw) for noise, draw, _ in self._history[:1]):
            return None
        ((noise, draw, count),) = merged(self._checked(self.history))
        return bins_curve(noise, draw, count, self.adjacency, self._tolerance)

    @staticmethod
    def _noise_of_shuffled(noise: float | Mechanism) -> float:
        assert isinstance(noise, float)  # all others are refused when they are recorded
        return noise

    def _segments(self) -> list[tuple[StepKind, int]]:
        # The list is the user's to change, so it is checked again.
        history = self._checked(self.history)
        check_answerable(history)
        segments: list[tuple[StepKind, int]] = []
        for noise, draw, count in merged(history):
            if isinstance(noise, CorrelatedNoise):
                segments += whole_run_kinds(noise, draw, count, self.group_size, self.adjacency).items()
            else:
                segments.append((self._kind(noise, draw), count))
        return segments

    def _sampling(self) -> str:
        if all(isinstance(draw, float) for _, draw, _ in self._history):
            return super()._sampling()
        return draws_in_words(self._history)

    def _status(self) -> str:
        if not is_answerable(self._history):
            return "no answer: some steps were drawn in a way that no account is known for"
        if self._shuffled_curve() is not None:
            return "upper end of a certified interval, far from its lower end; no pair (SHUFFLE, Theorem 5.6)"
        dealt = self._dealt_curve()
        if isinstance(dealt, BinsCurve):
            pair = "tight" if dealt.tight else "upper bound"
            return (
                f"upper end of a certified interval; pair {pair} (arXiv:2410.06266; random bins as a chain)"
            )
        segments = self._segments() if dealt is None else dealt.segments
        pairs = dict.fromkeys(kind.pair for kind, _ in segments)
        words = [f"pair {'tight' if pair.tight else 'upper bound'} ({pair.source})" for pair in pairs]
        return "; ".join(["upper end of a certified interval", *words])

    def _settings(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "adjacency": self.adjacency,
            "group": None if self._group is None else group_as_json(self._group),
            "tolerance": self._tolerance,
        }


def _are_dealt(noise: object, draw: object) -> bool:
    """Whether steps belong to a run with correlated noise and random bins that stay."""
    return isinstance(noise, CorrelatedNoise) and isinstance(draw, FixedBins)
