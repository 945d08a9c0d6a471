"""Group accounting by Rényi divergences."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from hockeystick import _core
from hockeystick._arguments import (
    LARGEST_ORDER,
    choice,
    float_array,
    float_scalar,
    float_vector,
    in_shape,
    require,
)
from hockeystick.accountants.history import as_arrays, check_history
from hockeystick.accountants.interface import Accountant
from hockeystick.adjacency import check_add_remove
from hockeystick.errors import OptimalOrderWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

    from hockeystick._arguments import FloatOrFloats, Floats

BOUNDS = ("exact", "jensen", "black_box")


class RenyiGroupAccountant(Accountant):
    """Privacy of DP-SGD with Poisson sampling for a group of records, by Rényi divergences.

    Parameters
    ----------
    group_size : int, optional
        Number of records that are added or removed together, in [1, 10000].
    bound : {"exact", "jensen", "black_box"}, optional
        Rényi bound of a step: the exact divergence of the dominating pair (the smallest), the
        bound of RGP, or the conversion of the bound for one record.
    orders : array_like, optional
        Rényi orders in (1, 10000] over which to minimise. By default the order is optimised over
        the real numbers of that range.
    adjacency : {"add_remove", "add", "remove"}, optional
        Neighbouring relation.

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
    - exact: D_alpha of (Binomial(k, q) mixture, noise) and its reverse (GROUP, Theorem 18:
      "Optimal Group Privacy for DP-SGD").
    - jensen: log(sum_k C(m, k) (1 - q)^(m - k) q^k e^((alpha - 1) alpha k^2 / (2 sigma^2)))
      / (alpha - 1) (RGP, Theorem 4.1: "Calibrating Noise for Group Privacy in Subsampled
      Mechanisms").
    - black_box: 3^c times the divergence for one record at the order 2^c alpha, where 2^c is the
      first power of two that is at least the group size (RGP, Lemma 2.3).

    Divergences add up over the steps and become (epsilon, delta) by RGP, Lemma 2.2; that
    conversion is not tight, so the true epsilon is smaller.

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
    """

    def __init__(
        self,
        group_size: int = 1,
        bound: str = "exact",
        orders: ArrayLike | None = None,
        adjacency: str = "add_remove",
    ) -> None:
        super().__init__(group_size, check_add_remove(adjacency))
        self._bound = choice(bound, "bound", BOUNDS)
        self._orders = None if orders is None else _check_orders(orders)

    @property
    def bound(self) -> str:
        """Which Rényi bound of a step is used."""
        return self._bound

    @property
    def orders(self) -> Floats | None:
        """Orders to minimise over, or None for all real orders in (1, 10000]."""
        return None if self._orders is None else self._orders.copy()

    @classmethod
    def mechanism(cls) -> str:
        """Return "renyi_group"."""
        return "renyi_group"

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
            If `delta` is not in (0, 1).
        TypeError
            If `delta` is not a real number.

        Warns
        -----
        OptimalOrderWarning
            If the best order is the smallest or the largest of the range.
        """
        level = float_scalar(delta, "delta")
        epsilon, order = self._at_best_order(level, _core.history_epsilon, _core.rdp_to_epsilon)
        if 0.0 < epsilon < math.inf and self._is_end(order):
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=2)
        return epsilon

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
            If `epsilon` is negative or not finite.
        TypeError
            If `epsilon` is not a real number.

        Warns
        -----
        OptimalOrderWarning
            If the best order is the smallest or the largest of the range.
        """
        level = float_scalar(epsilon, "epsilon")
        delta, order = self._at_best_order(level, _core.history_delta, _core.rdp_to_delta)
        if 0.0 < delta < 1.0 and self._is_end(order):
            warnings.warn(_at_end(order), OptimalOrderWarning, stacklevel=2)
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
        """
        points = float_array(orders, "orders")
        values = _core.history_renyi(points.ravel(), *self._history_arguments())
        return in_shape(values, points.shape)

    def _history_arguments(self) -> tuple[Any, ...]:
        # The list is the user's to change, so it is checked again.
        segments = as_arrays(check_history(self.history))
        return (*segments, self.group_size, self.adjacency, self.bound)

    def _settings(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "bound": self.bound,
            "orders": None if self._orders is None else self._orders.tolist(),
            "adjacency": self.adjacency,
        }

    def _at_best_order(
        self, level: float, over_real_orders: Callable[..., Any], over_listed_orders: Callable[..., Any]
    ) -> tuple[float, float]:
        """Bound at `level` and the order that gives it."""
        levels = np.array([level])
        rdp = None if self._orders is None else np.atleast_1d(self.get_renyi(self._orders))
        # A divergence of zero at any order means equal laws, which the conversion of a list cannot see.
        if rdp is None or not rdp.any():
            values, orders = over_real_orders(levels, *self._history_arguments())
        else:
            values, orders = over_listed_orders(self._orders, rdp[np.newaxis], levels)
        return float(values[0]), float(orders[0])

    def _is_end(self, order: float) -> bool:
        """Whether a wider range of orders could give less."""
        if self._orders is None:
            return order >= LARGEST_ORDER
        return self._orders.size > 1 and order in (self._orders.min(), self._orders.max())


def _check_orders(orders: ArrayLike) -> Floats:
    values = float_vector(orders, "orders").copy()
    require(values.size > 0, "orders", "an empty array", "at least one order")
    for order in values.tolist():
        require(1.0 < order <= LARGEST_ORDER, "orders", order, f"in (1, {LARGEST_ORDER:g}]")
    return values


def _at_end(order: float) -> str:
    return f"the best order, {order:g}, is an end of the range of orders: a wider range could give less"
