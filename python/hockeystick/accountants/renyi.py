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
from hockeystick._vocabulary.adjacency import check_add_remove
from hockeystick._vocabulary.configuration import Segment as CoreSegment
from hockeystick._vocabulary.mechanisms import Mechanism
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling
from hockeystick.accountants.history import (
    as_core_segments,
    by_microbatches,
    check_answerable,
    check_history,
    check_noise,
    check_poisson_draw,
    check_step,
    merged,
)
from hockeystick.accountants.interface import Accountant
from hockeystick.accountants.repeating import repeatable
from hockeystick.errors import OptimalOrderWarning
from hockeystick.renyi.calibration import CONVERSIONS

BOUNDS = ("exact", "jensen", "black_box")

ORDERS_OF_MIXED = np.minimum(1.0 + np.geomspace(1e-4, LARGEST_ORDER - 1.0, 600), LARGEST_ORDER)
"""Orders for steps of different numbers of batches; the best real one gives about a ten thousandth less."""


class RenyiGroupAccountant(Accountant):
    """Privacy of Poisson-sampled steps for a group of records, by Rényi divergences.

    Steps of DP-SGD, or of any mechanism of `hockeystick.renyi.group_rdp`, in one run too.

    Parameters
    ----------
    group_size : int, optional
        Number of records that are added or removed together, in [1, 100000].
    bound : {"exact", "jensen", "black_box"}, optional
        Rényi bound of a step, as in `hockeystick.renyi.group_rdp`: the exact divergence of the
        dominating pair (the smallest), the bound of RGP, or the conversion of the bound for one record.
    orders : array_like, optional
        Rényi orders in (1, 10000] over which to minimise. By default the order is optimised over
        the real numbers of that range (over whole ones for Skellam noise with "jensen" or "black_box").
    adjacency : {"add_remove", "add", "remove"}, optional
        Neighbouring relation.
    conversion : {"canonne", "optimal"}, optional
        From divergences to (epsilon, delta), as in `kernels.rdp_to_epsilon`: RGP's Lemma 2.2, or the
        best that one order gives.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.
    UnsupportedError
        For ``adjacency="replace"``.

    Notes
    -----
    Divergences add up over the steps and become (epsilon, delta) order by order; no such conversion
    is tight, so the true epsilon is smaller. `group_rdp` says for which queries a bound holds: for
    `Laplace` and `Skellam` noise, "exact" is about queries of one dimension.

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
    """

    _LARGEST_GROUP = LARGEST_RENYI_GROUP

    def __init__(
        self,
        group_size: int = 1,
        bound: str = "exact",
        orders: ArrayLike | None = None,
        adjacency: str = "add_remove",
        conversion: str = "canonne",
    ) -> None:
        super().__init__(group_size, check_add_remove(adjacency))
        self._bound = choice(bound, "bound", BOUNDS)
        self._orders = None if orders is None else check_orders(orders)
        self._conversion = choice(conversion, "conversion", CONVERSIONS)

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

    @repeatable
    def step(
        self,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | None = None,
        mechanism: Mechanism | None = None,
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
        sampling : Poisson, optional
            How the batch is drawn, or the several that are added up. Give either this or `sample_rate`.
        mechanism : Gaussian, Laplace, Skellam or RandomizedResponse, optional
            What randomises the step, in place of `noise_multiplier`. The history keeps it where the
            noise multiplier stands.
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
            If the batch is not drawn by Poisson sampling; the accountant stays as it was.

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
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=3)
        return epsilon

    def _delta(self, epsilon: float) -> float:
        delta, order = self._at_best_order(epsilon, _core.history_delta, _core.rdp_to_delta)
        if 0.0 < delta < 1.0 and self._is_end(order):
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=3)
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
        history = check_history(self.history, noise=self._check_noise, draw=check_poisson_draw)
        check_answerable(history)
        parts = by_microbatches(history) or {1: []}
        return [
            as_core_segments(rounded_segments(merged(part)), self.group_size * batches)
            for batches, part in parts.items()
        ]

    def _status(self) -> str:
        return f"upper bound by way of Rényi divergences, of a step by the bound {self.bound!r}"

    def _settings(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "bound": self.bound,
            "orders": None if self._orders is None else self._orders.tolist(),
            "adjacency": self.adjacency,
            "conversion": self._conversion,
        }

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
