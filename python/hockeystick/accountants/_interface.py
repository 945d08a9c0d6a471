"""What every accountant does: the methods of Opacus's `IAccountant`, without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, ClassVar, Protocol

import numpy as np

from hockeystick import _html
from hockeystick._arguments import LARGEST_GROUP, count_scalar, float_scalar
from hockeystick._vocabulary.adjacency import ADVERSARY, check_adjacency
from hockeystick._vocabulary.mechanisms import Mechanism, check_noise_multiplier
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Poisson, Sampling, UnaccountedSampling, check_sample_rate
from hockeystick._vocabulary.spelling import spelled, spelled_class
from hockeystick.accountants._accumulation import batches_of, in_equal_parts
from hockeystick.accountants._adaptive_clipping import ADVICE, PROBLEM, adapts_clipping, noise_of
from hockeystick.accountants._history import (
    Draw,
    Segment,
    check_gaussian_step,
    check_history,
    check_poisson_draw,
    is_answerable,
    microbatches_of,
    with_step,
)
from hockeystick.accountants._repeating import repeatable, sized, step_of
from hockeystick.accountants._state import history_from_state, to_state
from hockeystick.accountants._state_limits import check_limits, refusals


class Optimizer(Protocol):
    """What the optimizer hook reads of an Opacus `DPOptimizer`."""

    noise_multiplier: float
    accumulated_iterations: int


class Accountant(ABC):
    """Base class: keeps the history of a run, and leaves its privacy to the subclasses.

    Parameters
    ----------
    group_size : int
        Number of records that change together.
    adjacency : {"add_remove", "add", "remove", "replace"}
        Neighbouring relation.

    Examples
    --------
    >>> from hockeystick.accountants import Accountant, ShuffleAccountant
    >>> accountant = ShuffleAccountant(batch_size=10, dataset_size=100)
    >>> isinstance(accountant, Accountant), len(accountant), accountant.history
    (True, 0, [])
    >>> accountant.mechanism(), accountant.group_size, accountant.adjacency
    ('shuffle', 1, 'replace')
    """

    _LARGEST_GROUP: ClassVar[int] = LARGEST_GROUP
    _ANSWERS_AT_ONCE: ClassVar[bool] = True
    """Whether a notebook may ask for epsilon to show it."""

    def __init_subclass__(cls, **others: Any) -> None:
        """Have constructors refuse unknown arguments with the name that was meant."""
        super().__init_subclass__(**others)
        if "__init__" in vars(cls):
            spelled_class(cls)

    def __init__(self, group_size: int, adjacency: str) -> None:
        self._group_size = count_scalar(group_size, "group_size", 1, self._LARGEST_GROUP)
        self._adjacency = self._check_adjacency(adjacency)
        self._history: list[Any] = []

    @property
    def group_size(self) -> int:
        """Number of records that change together."""
        return self._group_size

    @property
    def adjacency(self) -> str:
        """Neighbouring relation."""
        return self._adjacency

    @property
    def history(self) -> list[Segment]:
        """Steps so far as a list of (noise_multiplier, sample_rate, num_steps).

        Equal consecutive steps are one entry. Assigning a list checks it and replaces the history.
        """
        return self._history

    @history.setter
    def history(self, segments: list[Segment]) -> None:
        self._history = self._checked(segments)

    @staticmethod
    def _check_adjacency(value: object) -> str:
        """`value` as a neighbouring relation."""
        return check_adjacency(value)

    @staticmethod
    def _check_noise(value: object, name: str) -> float | Mechanism:
        """`value` as the noise of a segment."""
        return check_noise_multiplier(value, name)

    @staticmethod
    def _check_draw(value: object, name: str) -> Draw:
        """`value` as the sampling of a segment."""
        draw: Draw = check_poisson_draw(value, name)
        return draw

    def _checked(self, segments: object) -> list[Any]:
        """`segments` as a history of this accountant."""
        return check_history(segments, noise=self._check_noise, draw=self._check_draw)

    @classmethod
    @abstractmethod
    def mechanism(cls) -> str:
        """Name of the way of accounting, as saved states carry it."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far, at one number `delta`."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """Upper bound on delta of all steps so far, at one number `epsilon`."""

    @spelled
    def get_epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon in nats; zero before the first step, inf after a step without noise. `description` says
            for whom it holds, and with which probability if samples are drawn.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1), or the answer would take too many operations.
        TypeError
            If `delta` is not a real number.
        SamplingMismatchError
            If steps were taken with a loader that no account is known for.

        Warns
        -----
        WideIntervalWarning
            If a certified interval wider than the tolerance had to be used.
        OptimalOrderWarning
            If the best Rényi order is the smallest or the largest of the range.

        Examples
        --------
        >>> from hockeystick.accountants import GroupAccountant
        >>> accountant = GroupAccountant()
        >>> accountant.get_epsilon(1e-5)
        0.0
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> accountant.get_epsilon(1e-5) > 0.0
        True
        """
        return self._epsilon(float_scalar(delta, "delta"))

    @spelled
    def get_delta(self, epsilon: float) -> float:
        """Upper bound on delta of all steps so far.

        Parameters
        ----------
        epsilon : float
            In nats, finite and at least zero.

        Returns
        -------
        float
            Delta in [0, 1]; zero before the first step. `description` says for whom it holds, and with which
            probability if samples are drawn.

        Raises
        ------
        ValueError
            If `epsilon` is negative or not finite, or the answer would take too many operations.
        TypeError
            If `epsilon` is not a real number.
        SamplingMismatchError
            If steps were taken with a loader that no account is known for.

        Warns
        -----
        WideIntervalWarning
            If a certified interval wider than the tolerance had to be used.
        OptimalOrderWarning
            If the best Rényi order is the smallest or the largest of the range.

        Examples
        --------
        >>> from hockeystick.accountants import GroupAccountant
        >>> accountant = GroupAccountant()
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> 0.0 < accountant.get_delta(1.0) < 0.01
        True
        """
        return self._delta(float_scalar(epsilon, "epsilon"))

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name, of plain JSON types."""

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | str | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
        epochs: float | None = None,
        steps: int = 1,
    ) -> None:
        """Record one optimisation step, several equal ones, or all of a run.

        Parameters
        ----------
        run : Run, optional
            A whole run, in place of all other arguments; about as many records per person as the accountant.
        noise_multiplier : float
            Standard deviation of the noise in units of the clipping norm, at least zero.
        sample_rate : float, optional
            Probability in [0, 1] that a record is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson, optional
            How the batch is drawn, or the several that are added up. Give either this or `sample_rate`.
        batch_size, dataset_size : float and int, optional
            Sizes in place of `sample_rate`, or of a scheme that ``sampling="fixed"`` or another name says.
        epochs : float, optional
            Number of epochs in place of `steps`: each has ``dataset_size / batch_size`` steps, or one over
            the rate.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, or not exactly one of `sample_rate` and `sampling` is given;
            the accountant stays as it was.
        UnsupportedError
            If the accountant does not cover such batches; it stays as it was.

        Examples
        --------
        >>> from hockeystick.accountants import RenyiGroupAccountant
        >>> accountant = RenyiGroupAccountant()
        >>> for _ in range(3):
        ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01, steps=997)
        >>> accountant.history
        [(1.0, 0.01, 1000)]
        """
        self._record(*check_gaussian_step(noise_multiplier, sample_rate, sampling))

    def _step_of(self, run: Run) -> dict[str, Any]:
        """Return the arguments of one step of a run, which must be about what the accountant is about."""
        return step_of(self, run)

    def _sized(self, given: dict[str, Any]) -> dict[str, Any]:
        return sized(self, given)

    def _again(self, count: int) -> None:
        """Record the last step as often again."""
        noise, draw, steps = self._history[-1]
        self._history[-1] = (noise, draw, steps + count)

    def _record(self, noise: float | Mechanism, draw: Draw) -> None:
        """Record one step with checked noise; a draw that has no account makes the answers errors."""
        checked = self._check_draw(draw, "sampling")
        self._require_members(checked)
        with_step(self._history, noise, checked)

    def _require_members(self, draw: Draw) -> None:
        """Raise ``ValueError`` if the group has too many members in all accumulated batches together."""
        batches = microbatches_of(draw)
        if self.group_size * batches > self._LARGEST_GROUP:
            raise ValueError(
                f"group_size times microbatches must be at most {self._LARGEST_GROUP}, "
                f"got {self.group_size} times {batches}"
            )

    def __len__(self) -> int:
        """Return the number of steps so far."""
        return sum(steps for _, _, steps in self._history)

    def __bool__(self) -> bool:
        """Return True: an accountant without steps is still an accountant."""
        return True

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Optimizer], None]:
        """Return a function that records one step of an Opacus optimizer.

        Parameters
        ----------
        sample_rate : float
            Probability in [0, 1] that a record is in one batch of the loader.

        Returns
        -------
        callable
            Takes the optimizer and records a step with its ``noise_multiplier``: for several batches that
            it has accumulated, that of ``Poisson(sample_rate, microbatches=...)``. Where this has no proven
            pair it records m steps with noise multiplier σ/√m, which is an upper bound.

        Raises
        ------
        ValueError
            If `sample_rate` is not in [0, 1].
        TypeError
            If `sample_rate` is not a real number.

        Notes
        -----
        Accumulated are batches of several backward passes (the optimizer's ``accumulated_iterations``),
        and those before a step that ``signal_skip_step`` left out. The pieces into which a
        ``BatchMemoryManager`` splits one batch are one batch. The function raises ``RuntimeError``
        where it does not know, because it was attached after steps had been left out.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> from hockeystick.accountants import GroupAccountant
        >>> accountant = GroupAccountant()
        >>> hook = accountant.get_optimizer_hook_fn(sample_rate=0.01)
        >>> hook(SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1))  # as an optimizer does
        >>> accountant.history
        [(1.0, 0.01, 1)]
        """
        rate = check_sample_rate(sample_rate)
        count = batches_of()

        def hook(optim: Optimizer) -> None:
            if adapts_clipping(optim):
                self._record(noise_of(optim), UnaccountedSampling(rate, f"{PROBLEM}. {ADVICE}"))
            else:
                self._accumulated(optim.noise_multiplier, rate, count(optim))

        return hook

    def _accumulated(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        """Record one step after several batches, each drawn at the sample rate.

        Where their sum has no proven pair, as for replaced records, it is as many steps with a part of the
        noise each, which reveal more: an upper bound. Training is not stopped half way.
        """
        noise = check_noise_multiplier(noise_multiplier)
        try:
            self._record(noise, Poisson(sample_rate, microbatches=batches))
        except ValueError:  # too many, or no pair
            if batches == 1:
                raise
            for _ in range(batches):
                self._record(in_equal_parts(noise, batches), sample_rate)

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Save the accountant as plain JSON types.

        Parameters
        ----------
        destination : mutable mapping, optional
            Mapping to fill; a new dict if not given.

        Returns
        -------
        mutable mapping
            `destination`, with the keys "version", "mechanism", "settings" and "history", and "accounts" for
            single examples, whose state is private data. It shares nothing with the accountant, and ``json``
            keeps its numbers exactly.

        Examples
        --------
        >>> import json
        >>> from hockeystick.accountants import GroupAccountant
        >>> accountant = GroupAccountant()
        >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> state = json.loads(json.dumps(accountant.state_dict()))
        >>> state["mechanism"], state["history"]
        ('exact_group', [[1.0, 0.01, 1]])
        """
        if destination is None:
            destination = {}
        destination.update(self._saved())
        return destination

    def _saved(self) -> dict[str, Any]:
        """Return the state, of plain JSON types."""
        return to_state(self.mechanism(), self._settings(), self._history)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replace all steps by saved ones.

        Parameters
        ----------
        state_dict : mapping
            What `state_dict` returned for an accountant with the same settings.

        Raises
        ------
        ValueError
            If a key is missing or foreign, the state is of another mechanism, of other settings or
            of a newer version, a number in it is out of range, a part has the wrong type, or it is larger
            than a state can be; the accountant stays as it was.

        Examples
        --------
        >>> from hockeystick.accountants import GroupAccountant
        >>> first, second = GroupAccountant(group_size=2), GroupAccountant(group_size=2)
        >>> first.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> second.load_state_dict(first.state_dict())
        >>> second.get_epsilon(1e-5) == first.get_epsilon(1e-5)
        True
        """
        with refusals():
            check_limits(state_dict, examples=self._single_examples())
            self._take_state(state_dict)

    def _single_examples(self) -> int:
        """Return the number of examples that have accounts of their own."""
        return 0

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        """Replace what the accountant has by a state that is no larger than it may be."""
        self._history = history_from_state(state_dict, self.mechanism(), self._settings(), self._checked)

    @abstractmethod
    def _status(self) -> str:
        """Return what kind of number the accountant gives, and by which theorem."""

    def _sampling(self) -> str:
        """Return how batches are drawn."""
        words = "Poisson, every record in every batch with the probability of its step"
        if any(microbatches_of(draw) > 1 for _, draw, _ in self._history):
            words += "; several batches under one noise in some steps"
        return words

    def _adversary(self) -> str:
        """Return whom the answers are about."""
        return ADVERSARY

    @property
    def description(self) -> dict[str, str]:
        """What the answers assume and what kind of bound they are, as ``print`` shows it.

        Keys are "sampling", "adjacency", "group", "adversary" and "status".

        Examples
        --------
        >>> from hockeystick.accountants import GroupAccountant
        >>> GroupAccountant(group_size=4).description["group"]
        '4 records'
        """
        return {
            "sampling": self._sampling(),
            "adjacency": self.adjacency,
            "group": self._whose(),
            "adversary": self._adversary(),
            "status": self._status(),
        }

    def __str__(self) -> str:
        lines = [f"  {name}: {words}" for name, words in self.description.items()]
        return "\n".join([self._summary()[1:-1], *lines])

    def _repr_html_(self) -> str:
        rows = list(self.description.items())
        if self._ANSWERS_AT_ONCE and len(self) and is_answerable(self.history):
            rows += _html.epsilons(lambda deltas: np.array([self.get_epsilon(d) for d in deltas.tolist()]))
        return _html.table(rows, caption=self._summary()[1:-1], named=True)

    def _whose(self) -> str:
        """Return whose privacy it is."""
        return "one record" if self.group_size == 1 else f"{self.group_size} records"

    def __repr__(self) -> str:
        return self._summary()

    def _summary(self) -> str:
        """Return the first line of what is printed."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"<{type(self).__name__}({settings}) after {len(self)} steps>"
