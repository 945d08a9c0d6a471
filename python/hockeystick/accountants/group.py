"""Exact group accounting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hockeystick._arguments import float_scalar
from hockeystick.accountants.history import check_history, merged
from hockeystick.accountants.interface import Accountant
from hockeystick.curve import PrivacyCurve, step_kind
from hockeystick.groups import check_group
from hockeystick.intervals import DEFAULT_TOLERANCE, check_tolerance

if TYPE_CHECKING:
    from typing import Any

    from hockeystick.curve import StepKind
    from hockeystick.groups import Group


class GroupAccountant(Accountant):
    """Privacy of DP-SGD with Poisson sampling for a group of records, by the exact privacy curve.

    Parameters
    ----------
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation; "replace" for one record only.
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
    UnsupportedError
        For ``adjacency="replace"`` with a group of several records, or one whose members differ.

    Notes
    -----
    The dominating pairs of GROUP, Theorem 18 and Lemma 14 ("Optimal Group Privacy for DP-SGD"), for
    one replaced record that of PITFALLS, Proposition 13, composed over the history. The answers do
    not depend on the order of the steps.

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
    """

    def __init__(
        self,
        group_size: int = 1,
        adjacency: str = "add_remove",
        group: Group | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        # The numbers of the step stand for those of the history.
        self._kind, _ = step_kind(
            noise_multiplier=1.0,
            sample_rate=1.0,
            group_size=group_size,
            group=group,
            adjacency=adjacency,
        )
        super().__init__(self._kind.group_size, adjacency)
        self._group = None if group is None else check_group(group)
        self._tolerance = check_tolerance(tolerance)
        self._curve: PrivacyCurve | None = None

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

    def get_epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon; zero before the first step, inf after a step without noise.

        Raises
        ------
        ValueError
            If `delta` is not in (0, 1), or the history has more than 10,000 different steps.
        TypeError
            If `delta` is not a real number.

        Warns
        -----
        WideIntervalWarning
            If an interval wider than the tolerance had to be used.
        """
        return float(self.privacy_curve().epsilon(float_scalar(delta, "delta")))

    def get_delta(self, epsilon: float) -> float:
        """Upper bound on delta of all steps so far.

        Parameters
        ----------
        epsilon : float
            Finite and at least zero.

        Returns
        -------
        float
            Delta in [0, 1]; zero before the first step, one after a step without noise.

        Raises
        ------
        ValueError
            If `epsilon` is out of range, or the history has more than 10,000 different steps.
        TypeError
            If `epsilon` is not a real number.

        Warns
        -----
        WideIntervalWarning
            If an interval wider than the tolerance had to be used.
        """
        return float(self.privacy_curve().delta(float_scalar(epsilon, "epsilon")))

    def privacy_curve(self) -> PrivacyCurve:
        """Privacy curve of all steps so far.

        Returns
        -------
        PrivacyCurve
            The same object until the history changes, so that later questions are cheap.

        Raises
        ------
        ValueError
            If the history has more than 10,000 different steps.
        """
        # The list is the user's to change, so it is checked again.
        steps: dict[StepKind, int] = {}
        for noise_multiplier, sample_rate, count in merged(check_history(self.history)):
            kind = self._kind._replace(noise=noise_multiplier)
            if kind.rates is None:
                kind = kind._replace(sample_rate=sample_rate)
            steps[kind] = steps.get(kind, 0) + count
        curve = PrivacyCurve(steps, self.adjacency, self._tolerance)
        if self._curve != curve:
            self._curve = curve
        return self._curve

    def _status(self) -> str:
        pair = self._kind.pair
        kind = "tight" if pair.tight else "upper bound"
        return f"upper end of a certified interval; pair {kind} ({pair.source})"

    def _settings(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "adjacency": self.adjacency,
            "group": None if self._group is None else _as_json(self._group),
            "tolerance": self._tolerance,
        }


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "size": group.size,
        "rates": None if group.rates is None else list(group.rates),
        "norms": None if group.norms is None else list(group.norms),
        "gradients": group.gradients,
    }
