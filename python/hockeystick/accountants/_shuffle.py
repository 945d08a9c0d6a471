"""Accounting for shuffled batches, against an adversary who knows them."""

from __future__ import annotations

import math
from typing import Any

from hockeystick._arguments import require, require_type
from hockeystick._vocabulary.adjacency import STRONG_ADVERSARY
from hockeystick._vocabulary.drawing import steps_of
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Shuffle, UnaccountedSampling, check_sample_rate
from hockeystick.accountants._history import Segment, check_answerable, check_history, check_poisson_draw
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._repeating import repeatable
from hockeystick.errors import UnsupportedError
from hockeystick.shuffle._filtering import WITHOUT_COINS, FilteredRun, filtered_history
from hockeystick.shuffle._guarantee import of_history
from hockeystick.shuffle._membership import check_plan
from hockeystick.tradeoff import TradeoffCurve

RATE_TOLERANCE = 1e-9
"""Relative distance from the rate of the data set below which a step's rate is taken as that."""


class ShuffleAccountant(Accountant):
    """Privacy of shuffled batches for a group of records: strong adversary (knows batch membership).

    Every N // b steps are one epoch: a fresh permutation of the data set, cut into batches; records left over
    are in none, as with ``DataLoader(shuffle=True, drop_last=True)``.

    Parameters
    ----------
    batch_size : int
        b, records in a batch.
    dataset_size : int
        N, records in the data set.
    group_size : int, optional
        Number of records that are replaced together, at most N.
    clipping : {"individual", "batch", "mixed"}, optional
        What is clipped as one: every record's gradient, the whole batch's, or that of each of
        `units_per_batch` parts of the batch.
    units_per_batch : int, optional
        A divisor of `batch_size`; for "mixed".
    filtered : bool, optional
        Whether every clipped unit is kept with probability 1/2, by coins that nobody sees, as
        ``hockeystick.training.train(..., filtered=True)`` does (SHUFFLE, Appendix D).

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    SHUFFLE, Theorem 5.6, with the exact law of Definition 5.1
    (`hockeystick.shuffle.membership_law`). The noise multiplier of a step is that of Opacus, in clipping
    norms; a unit moves by up to two of them when its records are replaced, so that the σ of SHUFFLE is half
    of it. Within an epoch the smallest noise multiplier counts for all of its steps. The guarantee is the
    best one against this adversary, and far weaker than that of Poisson sampling against the usual one
    (SHUFFLE, appendix G).

    With `filtered` it is that of `hockeystick.shuffle.filtered`, an upper bound for an adversary who knows
    the batches and not the coins; the smallest noise multiplier of the run counts for all of its steps.
    There is no trade-off function of it: ask for epsilon and delta.

    References
    ----------
    M. van Dijk, P. H. Nguyen, T. N. Nguyen and L. M. Nguyen, "Generalizing DP-SGD with Shuffling and Batch
    Clipping" (SHUFFLE), 2022. arXiv:2212.05796

    Examples
    --------
    >>> from hockeystick.accountants import ShuffleAccountant
    >>> accountant = ShuffleAccountant(batch_size=100, dataset_size=5000)
    >>> for _ in range(10 * 50):
    ...     accountant.step(noise_multiplier=10.0, sample_rate=100 / 5000)
    >>> round(accountant.get_epsilon(1e-5), 4)  # of G_mu with mu = 2 sqrt(10) / 10
    2.5944
    >>> accountant.sampling, accountant.clipping, accountant.units_per_batch, accountant.mechanism()
    (Shuffle(batch_size=100, dataset_size=5000), 'individual', 100, 'shuffle')
    >>> accountant.filtered
    False
    """

    def __init__(
        self,
        batch_size: int,
        dataset_size: int,
        group_size: int = 1,
        clipping: str = "individual",
        units_per_batch: int | None = None,
        filtered: bool = False,
    ) -> None:
        self._plan = check_plan(Shuffle(batch_size, dataset_size), 1, group_size, clipping, units_per_batch)
        require_type(filtered, bool, "filtered")
        self._filtered = filtered
        super().__init__(self._plan.group_size, "replace")
        self._kept: tuple[list[Segment], TradeoffCurve | FilteredRun] | None = None

    @property
    def sampling(self) -> Shuffle:
        """The sampling scheme of the run."""
        sampling = self._plan.sampling
        assert isinstance(sampling, Shuffle)
        return sampling

    @property
    def clipping(self) -> str:
        """The clipping: "individual", "batch" or "mixed"."""
        return self._plan.clipping

    @property
    def units_per_batch(self) -> int:
        """Clipped units of a batch."""
        return self._plan.units_per_batch

    @property
    def filtered(self) -> bool:
        """Whether every clipped unit is kept with probability 1/2."""
        return self._filtered

    def require_all_units(self, who: str) -> None:
        """Raise unless all clipped units are accounted for, which is what a loop without coins releases.

        Parameters
        ----------
        who : str
            Subject and verb of what keeps all units, for the message.

        Raises
        ------
        UnsupportedError
            If the accountant is about units that are kept with probability 1/2.

        Examples
        --------
        >>> from hockeystick.accountants import ShuffleAccountant
        >>> ShuffleAccountant(batch_size=10, dataset_size=100).require_all_units("this loop keeps")
        """
        if self._filtered:
            raise UnsupportedError(
                f"a ShuffleAccountant with filtered=True is about units that are kept with probability 1/2, "
                f"and {who} all of them: use filtered=False"
            )

    @classmethod
    def mechanism(cls) -> str:
        """Return "shuffle"."""
        return "shuffle"

    @repeatable
    def step(  # type: ignore[override]  # a batch is drawn in one way only
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
        epochs: float | None = None,
        steps: int = 1,
    ) -> None:
        """Record one optimisation step: one batch of the current epoch; or several, or all of a run.

        Parameters
        ----------
        run : Run, optional
            A whole run with ``sampling="shuffle"``, in place of all other arguments.
        noise_multiplier : float
            Standard deviation of the noise in units of the clipping norm, at least zero.
        sample_rate : float
            ``batch_size / dataset_size``, or one over the number of batches of an epoch, as Opacus has it.
        batch_size, dataset_size : int, optional
            In place of `sample_rate`; those of the accountant.
        epochs : float, optional
            Number of epochs in place of `steps`: each has as many steps as it has whole batches.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range, or `sample_rate` is not that of the data set; the accountant
            stays as it was.
        TypeError
            If an argument is not a real number; the accountant stays as it was.

        Examples
        --------
        >>> from hockeystick.accountants import ShuffleAccountant
        >>> accountant = ShuffleAccountant(batch_size=10, dataset_size=100)
        >>> accountant.step(noise_multiplier=2.0, sample_rate=0.1)
        >>> len(accountant)
        1
        """
        self._require_rate(check_sample_rate(sample_rate), "sample_rate")
        super().step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)

    def _step_of(self, run: Run) -> dict[str, Any]:
        scheme = run.scheme
        if scheme != self.sampling or run.group is not None or run.records_per_person != self.group_size:
            raise ValueError(
                f"the run must have sampling {self.sampling!r} and {self.group_size} records per person, got "
                f"{run!r}"
            )
        rate = self.sampling.batch_size / self.sampling.dataset_size
        return {"noise_multiplier": self._noise_of(run), "sample_rate": rate}

    def _noise_of(self, run: Run) -> float | None:
        """Return the noise multiplier of a run that clips as the accountant assumes."""
        if run.mechanism is None:
            return run.noise_multiplier
        mechanism = run.mechanism
        if isinstance(mechanism, BatchClipping):
            units = mechanism.units_per_batch
            if self.clipping == ("batch" if units == 1 else "mixed") and self.units_per_batch == units:
                return mechanism.noise_multiplier
        raise UnsupportedError(
            f"the accountant has clipping={self.clipping!r} and units_per_batch={self.units_per_batch}, and "
            f"the run has {mechanism!r}: BatchClipping goes with 'batch', or 'mixed' and as many units"
        )

    def _sized(self, given: dict[str, Any]) -> dict[str, Any]:
        for name in ("batch_size", "dataset_size"):
            own = getattr(self.sampling, name)
            if given.pop(name, own) != own:
                raise ValueError(f"{name} must be that of the accountant, {own}")
        rate = self.sampling.batch_size / self.sampling.dataset_size
        found = {"sample_rate": rate, **given}
        if "epochs" in found:
            steps = steps_of(found.pop("epochs"), {"sampling": self.sampling})
            if found.setdefault("steps", steps) != steps:
                raise ValueError(f"steps {found['steps']} contradicts epochs, which are {steps} steps")
        return found

    def _epsilon(self, delta: float) -> float:
        if self._filtered and any(noise == 0.0 for noise, _, _ in self._answerable()):
            return math.inf
        return float(self._answering().epsilon(delta))

    def _delta(self, epsilon: float) -> float:
        if self._filtered and any(noise == 0.0 for noise, _, _ in self._answerable()):
            return 1.0
        return float(self._answering().delta(epsilon))

    def tradeoff_curve(self) -> TradeoffCurve:
        """Trade-off function of all steps so far.

        Returns
        -------
        TradeoffCurve
            Against the strong adversary, as its ``adversary`` says.

        Raises
        ------
        ValueError
            If the law of the run would take too many operations.
        UnsupportedError
            If units are kept with probability 1/2.

        Examples
        --------
        >>> from hockeystick.accountants import ShuffleAccountant
        >>> accountant = ShuffleAccountant(batch_size=10, dataset_size=100)
        >>> for _ in range(10):
        ...     accountant.step(noise_multiplier=2.0, sample_rate=0.1)
        >>> accountant.tradeoff_curve().advantage() < 0.5
        True
        """
        found = self._answering()
        if isinstance(found, FilteredRun):
            raise UnsupportedError(
                "units that are kept with probability 1/2 have no trade-off function here: use get_epsilon "
                "and get_delta, or filtered=False for an upper bound"
            )
        return found

    def _answerable(self) -> list[Segment]:
        """Return the history, checked again: the list is the user's to change."""
        history = self._checked(self.history)
        check_answerable(history)
        return history

    def _answering(self) -> TradeoffCurve | FilteredRun:
        """Return what has the epsilon and delta of all steps so far."""
        history = self._answerable()
        if self._kept is None or self._kept[0] != history:
            steps = tuple((noise, count) for noise, _, count in history)
            if self._filtered:
                least = min((noise for noise, count in steps if count), default=1.0)
                run = filtered_history(self._plan, least, sum(count for _, count in steps))
                self._kept = (history, run)
            else:
                self._kept = (history, of_history(self.sampling, steps=steps, **self._group()))
        return self._kept[1]

    def _checked(self, segments: object) -> list[Any]:
        history: list[Any] = check_history(segments, draw=check_poisson_draw)
        for i, (_, draw, _) in enumerate(history):
            if not isinstance(draw, UnaccountedSampling):
                self._require_rate(check_sample_rate(draw), f"history[{i}] sample_rate")
        return history

    def _accumulated(self, noise_multiplier: float, sample_rate: float, batches: int) -> None:
        if batches > 1:
            size = self.sampling.batch_size
            raise UnsupportedError(
                f"a {type(self).__name__} of batches of {size} does not cover a step after {batches} of them"
                f": make the batches larger and account for Shuffle({batches * size}, ...)"
            )
        self.step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)

    def _require_rate(self, sample_rate: float, name: str) -> None:
        size, batch = self.sampling.dataset_size, self.sampling.batch_size
        allowed = (batch / size, 1.0 / (size // batch), 1.0 / -(-size // batch))
        fits = any(math.isclose(sample_rate, rate, rel_tol=RATE_TOLERANCE) for rate in allowed)
        require(fits, name, sample_rate, f"batch_size / dataset_size = {allowed[0]!r}, one shuffled batch")

    def _group(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "clipping": self.clipping,
            "units_per_batch": self.units_per_batch,
        }

    def _settings(self) -> dict[str, Any]:
        size, batch = self.sampling.dataset_size, self.sampling.batch_size
        found = {"batch_size": batch, "dataset_size": size, **self._group()}
        return found | ({"filtered": True} if self._filtered else {})

    def _sampling(self) -> str:
        size, batch = self.sampling.dataset_size, self.sampling.batch_size
        return f"shuffled, {size // batch} batches of {batch} of {size} records in an epoch"

    def _adversary(self) -> str:
        return f"{STRONG_ADVERSARY}{WITHOUT_COINS if self._filtered else ''}"

    def _status(self) -> str:
        if self._filtered:
            return (
                "upper bound, units kept with probability 1/2 (SHUFFLE, Appendix D; PITFALLS, Proposition 13)"
            )
        return "exact for this adversary, an upper bound for others (SHUFFLE, Theorem 5.6)"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}; {self._adversary()}>"
