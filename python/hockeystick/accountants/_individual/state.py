"""Everything that an `IndividualAccountant` knows, in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick import _core
from hockeystick._arguments import Floats, count_array, count_scalar, float_scalar, require
from hockeystick.accountants._group import GroupAccountant
from hockeystick.accountants._individual.accounts import Accounts, ExactAccounts, RenyiAccounts
from hockeystick.accountants._individual.norm_history import NormHistory, StepParameters
from hockeystick.accountants._individual.norms import quotients_rounded_up
from hockeystick.accountants._renyi import check_orders

DEFAULT_ORDERS = (*(1.0 + x / 10.0 for x in range(1, 100)), *(float(x) for x in range(12, 64)))
"""Rényi orders of Opacus."""

SMALLEST_NORM, LARGEST_NORM = 1e-150, 1e150
"""Limits of the clipping norm: a norm over it, and the square of that, are float64 numbers."""


@dataclass(frozen=True)
class Settings:
    """Arguments of an accountant, besides the number of examples, which grows when shards are merged."""

    max_grad_norm: float
    """Clipping norm C."""
    orders: Floats
    """Rényi orders; read-only."""
    exact: bool
    """Whether accounts are moments of the norms, which give exact answers, rather than Rényi divergences."""
    rounding: float | None
    """Norms are rounded up to multiples of this."""
    individual_clipping: bool
    """Whether training clips each example to the norm that the accountant has for it."""

    def plain(self) -> dict[str, Any]:
        """Return the settings by name, of plain JSON types."""
        return {
            "max_grad_norm": self.max_grad_norm,
            "orders": self.orders.tolist(),
            "exact": self.exact,
            "rounding": self.rounding,
            "individual_clipping": self.individual_clipping,
        }


def check_max_grad_norm(max_grad_norm: object) -> float:
    """Return the clipping norm as a float; ``ValueError`` unless it is in [1e-150, 1e150]."""
    norm = float_scalar(max_grad_norm, "max_grad_norm")
    require(SMALLEST_NORM <= norm <= LARGEST_NORM, "max_grad_norm", max_grad_norm, "in [1e-150, 1e150]")
    return norm


def check_settings(
    max_grad_norm: object,
    orders: ArrayLike | None,
    exact: object,
    rounding: object,
    individual_clipping: object,
) -> Settings:
    """Return checked settings; ``ValueError`` or ``TypeError`` for an argument that is not one."""
    norm = check_max_grad_norm(max_grad_norm)
    points = read_only(check_orders(DEFAULT_ORDERS if orders is None else orders))
    unit = None if rounding is None else float_scalar(rounding, "rounding")
    if unit is not None:
        require(0.0 < unit <= norm, "rounding", rounding, "in (0, max_grad_norm]")
    return Settings(norm, points, bool(exact), unit, bool(individual_clipping))


def read_only(values: Floats) -> Floats:
    """Return the same array, which cannot be written to any more."""
    values.flags.writeable = False
    return values


@dataclass
class IndividualState:
    """The accounts of n examples after some steps, and what the next step needs."""

    settings: Settings
    worst_case: GroupAccountant
    """The steps, for an example that always has the norm C: its answers bound those of every example."""
    accounts: Accounts
    """One account for each example, of all steps but the `deferred` ones."""
    norm_history: NormHistory
    """Norms of all steps but the `recent` ones."""
    norms: Floats
    """Norm of each example's gradient in the next step, at most C, shape (n,); read-only."""
    fresh: NDArray[np.bool_]
    """Examples without a step since their norm was given; at first all, whose norm C needs none."""
    known: NDArray[np.bool_]
    """Examples whose norm was ever given."""
    full: NDArray[np.bool_]
    """Examples whose norm was C in every step."""
    by_indices: bool
    """Whether norms were given for chosen examples only, so that shards may stand for the whole data set."""
    refreshed: bool
    """Whether norms were given since the last step of `norm_history`."""
    is_guarantee: bool
    """Whether the answers bound the privacy of every example, as its norms were those of every step."""
    recent: dict[StepParameters, int]
    """Number of steps of each kind with the `norms`, which are not in `norm_history`."""
    deferred: dict[StepParameters, int]
    """The part of `recent` that is not in `accounts` yet."""

    @property
    def dataset_size(self) -> int:
        """Number n of examples."""
        return len(self.norms)

    def relative_norms(self, places: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Return the norms of the examples at `places` in units of C, as a new read-only array.

        Quotients are rounded up, but for those that are exact.
        """
        return read_only(quotients_rounded_up(self.norms[places], self.settings.max_grad_norm))


def empty_state(dataset_size: object, settings: Settings) -> IndividualState:
    """Return the state before the first step, in which every example has the norm C."""
    size = count_scalar(dataset_size, "dataset_size", 1)
    accounts: Accounts
    if settings.exact:
        accounts = ExactAccounts(_core.IndividualAccounts(size))
    else:
        accounts = RenyiAccounts(settings.orders, np.zeros((size, len(settings.orders))))
    return IndividualState(
        settings=settings,
        worst_case=GroupAccountant(),
        accounts=accounts,
        norm_history=NormHistory(),
        norms=read_only(np.full(size, settings.max_grad_norm)),
        fresh=np.ones(size, dtype=np.bool_),
        known=np.zeros(size, dtype=np.bool_),
        full=np.ones(size, dtype=np.bool_),
        by_indices=False,
        refreshed=True,
        is_guarantee=True,
        recent={},
        deferred={},
    )


def check_indices(indices: ArrayLike, dataset_size: int, name: str = "indices") -> NDArray[np.int64]:
    """Return the examples as an array; ``ValueError`` for an unknown example, or one that is named twice."""
    places = count_array(indices, name, 0)
    if places.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {places.shape}")
    unknown = places[places >= dataset_size]
    if unknown.size:
        raise ValueError(f"{name} must be below dataset_size, {dataset_size}, got {unknown[0]}")
    if len(np.unique(places)) < len(places):
        raise ValueError(f"{name} must name each example once, got {len(places)} with repetitions")
    return places


def everyone(state: IndividualState) -> NDArray[np.int64]:
    """Return the indices of all examples."""
    return np.arange(state.dataset_size, dtype=np.int64)
