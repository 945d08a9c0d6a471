"""Group accounting by Rényi divergences, for four mechanisms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import _core
from hockeystick._arguments import (
    LARGEST_ORDER,
    LARGEST_RENYI_GROUP,
    FloatOrFloats,
    Floats,
    choice,
    float_array,
    float_vector,
    in_shape,
    require,
)
from hockeystick._curves.coarsening import rounded_segments
from hockeystick._distinct import entries_answered_once
from hockeystick._vocabulary.adjacency import check_adjacency
from hockeystick._vocabulary.configuration import Segment as CoreSegment
from hockeystick._vocabulary.configuration import require_within
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.intervals import levels_inside
from hockeystick._vocabulary.mechanisms import Mechanism, family_of
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import FullBatch, Sampling, UnaccountedSampling, WithoutReplacement
from hockeystick.accountants._history import (
    by_microbatches,
    check_answerable,
    check_noise,
    check_poisson_draw,
    check_step,
    draws_in_words,
    group_as_json,
    merged,
)
from hockeystick.accountants._interface import Accountant
from hockeystick.accountants._renyi_certifying import CertifiesRenyiBounds
from hockeystick.accountants._repeating import repeatable
from hockeystick.errors import OptimalOrderWarning
from hockeystick.renyi._calibration import CONVERSIONS
from hockeystick.renyi._drawing import Drawing, check_members, require_known, require_poisson_rates

BOUNDS = ("exact", "jensen", "black_box")

ORDERS_OF_MIXED = np.minimum(1.0 + np.geomspace(1e-4, LARGEST_ORDER - 1.0, 600), LARGEST_ORDER)
"""Orders for steps of different numbers of batches; the best real one gives about a ten thousandth less. The
core refuses orders above `LARGEST_ORDER`."""


class RenyiGroupAccountant(CertifiesRenyiBounds, Accountant):
    """Privacy of a run for a group of records, by Rényi divergences.

    Steps of DP-SGD, or of any mechanism and sampling scheme of `hockeystick.renyi.group_rdp`, in one run too.

    Parameters
    ----------
    group_size : int, optional
        Number of records that change together, in [1, 100000].
    bound : {"exact", "jensen", "black_box"}, optional
        Rényi bound of a step, as in `hockeystick.renyi.group_rdp`: the exact divergence of the
        dominating pair (the smallest), the bound of RGP, or the conversion of the bound for one record.
    orders : array_like, optional
        Rényi orders in (1, 10000] over which to minimise. By default the order is optimised over
        the real numbers of that range (over whole ones for Skellam noise with "jensen" or "black_box").
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.
    conversion : {"canonne", "optimal"}, optional
        From divergences to (epsilon, delta), as in `kernels.rdp_to_epsilon`: RGP's Lemma 2.2, or the
        best that one order gives.
    group : Group, optional
        A group whose members have rates of their own, which take the place of the sample rate in every
        step, in place of `group_size`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        If more is known of a group than rates.

    Notes
    -----
    Divergences add up over the steps and become (epsilon, delta) order by order; no such conversion
    is tight, so the true epsilon is smaller. `group_rdp` says for which queries a bound holds: for
    `Laplace` and `Skellam` noise, "exact" is about queries of one dimension, and refused for some replaced
    records, which "jensen" covers.

    After more than 10,000 different steps, as with noise that changes at every update, noise multipliers are
    rounded down and sample rates up, to a grid on which there are 5,000 or fewer: the answer stays an
    upper bound, in ordinary runs a part in a thousand higher or so.

    References
    ----------
    Y. Jiang, X. Luo, Y. Yang and X. Xiao, "Calibrating Noise for Group Privacy in Subsampled Mechanisms"
    (RGP), Proceedings of the VLDB Endowment 18(2), 2024. doi:10.14778/3705829.3705848

    Examples
    --------
    >>> from hockeystick.accountants import RenyiGroupAccountant
    >>> accountant = RenyiGroupAccountant(group_size=4)
    >>> for _ in range(1000):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> accountant.history
    [(1.0, 0.01, 1000)]
    >>> round(accountant.get_epsilon(1e-5), 2)
    9.93

    Another mechanism joins the run:

    >>> import hockeystick as hs
    >>> accountant.step(mechanism=hs.Laplace(10.0), sample_rate=0.5)
    >>> round(accountant.get_epsilon(1e-5), 2)
    9.98

    Four replaced records, by RGP's own bound:

    >>> accountant = RenyiGroupAccountant(group_size=4, bound="jensen", adjacency="replace")
    >>> accountant.step(noise_multiplier=8.0, sampling=hs.WithoutReplacement(256, 60_000), steps=2000)
    >>> round(accountant.get_epsilon(1e-5), 2)
    8.17
    >>> accountant.bound, accountant.orders, accountant.conversion, accountant.group, accountant.mechanism()
    ('jensen', None, 'canonne', None, 'renyi_group')
    """

    _LARGEST_GROUP = LARGEST_RENYI_GROUP

    def __init__(
        self,
        group_size: int = 1,
        bound: str = "exact",
        orders: ArrayLike | None = None,
        adjacency: str = "add_remove",
        conversion: str = "canonne",
        group: Group | None = None,
    ) -> None:
        members = None if group is None else check_group(group)
        if members is not None:
            check_members(members)
            if group_size not in (1, members.size):
                raise TypeError("give at most one of group_size and group")
            group_size = members.size
        super().__init__(group_size, check_adjacency(adjacency))
        self._group = members
        self._bound = choice(bound, "bound", BOUNDS)
        self._orders = None if orders is None else check_orders(orders)
        self._conversion = choice(conversion, "conversion", CONVERSIONS)

    @property
    def group(self) -> Group | None:
        """The group whose members have rates of their own, or None."""
        return self._group

    @property
    def bound(self) -> str:
        """Which Rényi bound of a step is used."""
        return self._bound

    @property
    def orders(self) -> Floats | None:
        """Orders to minimise over, or None for all real orders in (1, 10000]."""
        return None if self._orders is None else self._orders.copy()

    @property
    def conversion(self) -> str:
        """How divergences become (epsilon, delta)."""
        return self._conversion

    @staticmethod
    def _check_noise(value: object, name: str) -> float | Mechanism:
        return check_noise(value, name)

    @staticmethod
    def _check_draw(value: object, name: str) -> Any:
        return value if isinstance(value, WithoutReplacement | FullBatch) else check_poisson_draw(value, name)

    def _checked(self, segments: object) -> list[Any]:
        history = super()._checked(segments)
        for noise, draw, _ in history:
            self._require_bound(noise, draw)
        return history

    def _record(self, noise: Any, draw: Any) -> None:
        checked = self._check_draw(draw, "sampling")
        self._require_bound(noise, checked)
        super()._record(noise, checked)

    def _require_bound(self, noise: float | Mechanism, draw: float | Sampling | UnaccountedSampling) -> None:
        """Raise an error if no bound is known for such a step."""
        scheme = draw if isinstance(draw, WithoutReplacement | FullBatch) else None
        require_within(self.group_size, scheme)
        require_poisson_rates(self._group, scheme)
        family = "gaussian" if isinstance(noise, float) else family_of(noise)
        require_known(family, self._bound, Drawing(None, scheme, None, self._group, self.adjacency))

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | str | None = None,
        mechanism: Mechanism | None = None,
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
        sampling : Poisson, WithoutReplacement or FullBatch, optional
            How the batch is drawn, or the several that are added up. Give either this or `sample_rate`. The
            history keeps schemes other than Poisson's where the sample rate stands.
        mechanism : Gaussian, Laplace, Skellam or RandomizedResponse, optional
            What randomises the step, in place of `noise_multiplier`. The history keeps it where the
            noise multiplier stands.
        batch_size, dataset_size, epochs : optional
            Sizes in place of a rate, and epochs in place of `steps`, as in `Accountant.step`.
        steps : int, optional
            Number of equal steps, at least 0.

        Raises
        ------
        ValueError
            If an argument is out of range; the accountant stays as it was.
        TypeError
            If an argument has the wrong type, or if not exactly one of `noise_multiplier` and
            `mechanism`, and one of `sample_rate` and `sampling`, is given; the accountant stays as it was.
        UnsupportedError
            If no bound is known for such a step; the accountant stays as it was.

        Examples
        --------
        >>> import hockeystick as hs
        >>> accountant = hs.accountants.RenyiGroupAccountant()
        >>> accountant.step(mechanism=hs.Laplace(2.0), sample_rate=0.1)
        >>> accountant.history
        [(Laplace(scale=2.0), 0.1, 1)]
        """
        self._record(*check_step(noise_multiplier, mechanism, sample_rate, sampling))

    @classmethod
    def mechanism(cls) -> str:
        """Return "renyi_group"."""
        return "renyi_group"

    def _epsilon(self, delta: float) -> float:
        epsilon, order = self._at_best_order(delta, _core.history_epsilon, _core.rdp_to_epsilon)
        if 0.0 < epsilon < math.inf and self._is_end(order):
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=levels_inside())
        return epsilon

    def _delta(self, epsilon: float) -> float:
        delta, order = self._at_best_order(epsilon, _core.history_delta, _core.rdp_to_delta)
        if 0.0 < delta < 1.0 and self._is_end(order):
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=levels_inside())
        return delta

    def get_renyi(self, orders: ArrayLike) -> FloatOrFloats:
        """Rényi bound of all steps so far.

        Parameters
        ----------
        orders : array_like, any shape
            Rényi orders in (1, 10000].

        Returns
        -------
        float or ndarray, shape of `orders`
            The bound in nats, the larger of the directions that the adjacency asks for.

        Raises
        ------
        ValueError
            If an order is out of range.
        TypeError
            If `orders` is not real.

        Examples
        --------
        >>> from hockeystick.accountants import RenyiGroupAccountant
        >>> accountant = RenyiGroupAccountant()
        >>> accountant.step(noise_multiplier=2.0, sample_rate=1.0)
        >>> accountant.get_renyi([2.0, 8.0]).round(9).tolist()  # order / (2 * 2.0**2)
        [0.25, 1.0]
        """
        points = float_array(orders, "orders")
        parts = self._parts()

        def answer(entries: Floats) -> Floats:
            """Add up the divergences of the parts of the history at these orders."""
            found = sum(
                _core.history_renyi(entries, segments, self.adjacency, self.bound) for segments in parts
            )
            return np.asarray(found)

        values = entries_answered_once(
            points.ravel(),
            answer,
        )
        return in_shape(np.asarray(values), points.shape)

    def _parts(self) -> list[list[CoreSegment]]:
        """Return the steps as the core takes them, by how many batches they have."""
        # The list is the user's to change, so it is checked again.
        history = self._checked(self.history)
        check_answerable(history)
        parts = by_microbatches(history) or {1: []}
        return [
            [
                (noise, draw, self._members(batches), steps)
                for noise, draw, steps in rounded_segments(merged(part))
            ]
            for batches, part in parts.items()
        ]

    def _members(self, batches: int) -> int | Group:
        """Return the group that has the law of this one in so many batches."""
        if self._group is None or self._group.rates is None:
            return self.group_size * batches
        return Group(rates=self._group.rates * batches)

    def _sampling(self) -> str:
        if all(isinstance(draw, float) for _, draw, _ in self._history):
            return super()._sampling()
        return draws_in_words(self._history)

    def _status(self) -> str:
        return f"upper bound by way of Rényi divergences, of a step by the bound {self.bound!r}"

    def _settings(self) -> dict[str, Any]:
        found = {
            "group_size": self.group_size,
            "bound": self.bound,
            "orders": None if self._orders is None else self._orders.tolist(),
            "adjacency": self.adjacency,
            "conversion": self._conversion,
        }
        return found if self._group is None else found | {"group": group_as_json(self._group)}

    def _at_best_order(
        self, level: float, over_real_orders: Callable[..., Any], over_listed_orders: Callable[..., Any]
    ) -> tuple[float, float]:
        """Bound at `level` and the order that gives it."""
        levels = np.array([level])
        parts = self._parts()
        listed = self._orders
        if listed is None and len(parts) > 1:
            # The search over the real numbers takes one size of a group for all steps.
            listed = ORDERS_OF_MIXED
        rdp = None if listed is None else np.atleast_1d(self.get_renyi(listed))
        # A divergence of zero at any order means equal laws, which the conversion of a list cannot see.
        if rdp is None or not rdp.any():
            values, orders = over_real_orders(levels, parts[0], self.adjacency, self.bound, self._conversion)
        else:
            values, orders = over_listed_orders(listed, rdp[np.newaxis], levels, self._conversion)
        return float(values[0]), float(orders[0])

    def _is_end(self, order: float) -> bool:
        """Whether a wider range of orders could give less."""
        if self._orders is None:
            return order >= LARGEST_ORDER
        return self._orders.size > 1 and order in (self._orders.min(), self._orders.max())


def check_orders(orders: ArrayLike) -> Floats:
    """Return a copy of `orders`, at least one in (1, 10000]."""
    values = float_vector(orders, "orders").copy()
    require(values.size > 0, "orders", "an empty array", "at least one order")
    for order in values.tolist():
        require(1.0 < order <= LARGEST_ORDER, "orders", order, f"in (1, {LARGEST_ORDER:g}]")
    return values


def _at_end(order: float) -> str:
    return f"the best order, {order:g}, is an end of the range of orders: a wider range could give less"
