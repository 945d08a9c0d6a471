"""Individual privacy filters: who may still take part, so that nobody's budget is exceeded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick._arguments import Floats, float_scalar, float_vector, require, shown
from hockeystick._curves.making import privacy_curve
from hockeystick._curves.planning import get_noise_multiplier
from hockeystick._vocabulary.beside import step_of_one_record, with_terms
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Sampling, WithoutReplacement
from hockeystick._vocabulary.spelling import spelled_class
from hockeystick.accountants._history import check_gaussian_step
from hockeystick.accountants._individual.accounts import shifts_of
from hockeystick.accountants._individual.norms import check_norms, quotients_rounded_up
from hockeystick.accountants._individual.state import check_max_grad_norm
from hockeystick.accountants._packing import packed, unpacked
from hockeystick.accountants._state import check_keys
from hockeystick.accountants._state_limits import check_limits, refusals
from hockeystick.errors import UnsupportedError
from hockeystick.kernels import accumulate_rdp, rdp_to_epsilon

ORDERS = 1.0 + np.geomspace(1e-2, 9.99e3, 240)
"""Rényi orders among which the filter's is chosen."""

ROOM_FOR_ADDITIONS = 1.0 - 1e-11
"""Part of the budget that may be spent: what 1e5 additions lose by rounding is less than the rest."""

VERSION = 1
"""Version of the saved form."""


@spelled_class
class IndividualFilter:
    """Privacy filter: stops each example before its own steps cost more than (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Budget of each example, above 0.
    delta : float
        In (0, 1).
    max_grad_norm : float, optional
        Clipping norm C > 0, in the units of the norms.
    order : float, optional
        Rényi order in (1, 10000] of the budget; by default the one that allows the most steps at full norm
        with noise and sampling of the first step. It must not depend on the data.

    Raises
    ------
    ValueError
        If an argument is out of range, or no divergence of `order` is small enough for the budget.
    TypeError
        If an argument is not a real number.

    Notes
    -----
    Before each step, examples whose Rényi divergences so far and those of this step add up to more than the
    budget are stopped for good; norms may depend on everything that was released. A run in which only the
    others take part, each with a gradient no longer than its norm here, is (epsilon, delta)-differentially
    private for all examples (Feldman and Zrnic 2021). The order is fixed for the whole run, as their theorem
    needs. If every example is in every batch, steps are Gaussian, squared norms over squared noise add up and
    no Rényi bound is needed (Koskela, Tobaben and Honkela 2022).

    Batches of a fixed size are refused. An example that was stopped is still drawn into them, and takes the
    place of another one whose gradient may have the full norm, so that every later step reveals as much
    about it as a step with shift 1: its cost never becomes zero, and every budget is used up. Ending the run
    where the first budget is used up does not help, as the number of steps would then depend on single
    examples.

    Who was stopped is private: it depends on the examples.

    References
    ----------
    V. Feldman and T. Zrnic, "Individual Privacy Accounting via a Rényi Filter", NeurIPS 2021.
    arXiv:2008.11193

    A. Koskela, M. Tobaben and A. Honkela, "Individual Privacy Accounting with Gaussian Differential Privacy",
    ICLR 2023. arXiv:2209.15596

    C. Canonne, G. Kamath and T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020.
    arXiv:2004.00010

    Examples
    --------
    >>> from hockeystick.accountants import IndividualFilter
    >>> gate = IndividualFilter(epsilon=1.0, delta=1e-5)
    >>> counts = [0, 0]
    >>> for _ in range(600):
    ...     allowed = gate.step([0.5, 1.0], noise_multiplier=2.0, sample_rate=0.02)
    ...     counts = [count + bool(ok) for count, ok in zip(counts, allowed)]
    >>> counts
    [600, 485]
    >>> gate.epsilon, gate.delta, gate.max_grad_norm, round(gate.order, 1)
    (1.0, 1e-05, 1.0, 17.3)
    >>> gate.active.tolist(), gate.used.round(2).tolist()
    ([True, False], [0.26, 1.0])
    """

    def __init__(
        self, epsilon: float, delta: float, max_grad_norm: float = 1.0, order: float | None = None
    ) -> None:
        self._epsilon = float_scalar(epsilon, "epsilon")
        require(0.0 < self._epsilon < np.inf, "epsilon", epsilon, "in (0, inf)")
        self._delta = float_scalar(delta, "delta")
        require(0.0 < self._delta < 1.0, "delta", delta, "in (0, 1)")
        self._max_grad_norm = check_max_grad_norm(max_grad_norm)
        self._order = None if order is None else float_scalar(order, "order")
        if self._order is not None:
            require(1.0 < self._order <= 1e4, "order", order, "in (1, 10000]")
            enough = self._budget(self._order) > 0.0
            require(enough, "order", order, f"large enough for epsilon {self._epsilon} at this delta")
        self._given_order = self._order
        self._is_gaussian = False
        self._limit = 0.0
        self._spent: Floats | None = None
        self._active: NDArray[np.bool_] | None = None

    @property
    def epsilon(self) -> float:
        """Budget of each example."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self._delta

    @property
    def max_grad_norm(self) -> float:
        """Clipping norm C."""
        return self._max_grad_norm

    @property
    def order(self) -> float | None:
        """Rényi order of the budget; None before the first step, and for Gaussian steps."""
        return None if self._is_gaussian else self._order

    @property
    def active(self) -> NDArray[np.bool_] | None:
        """Which examples are not stopped, shape (n,); None before the first step. Private."""
        return None if self._active is None else self._active.copy()

    @property
    def used(self) -> Floats | None:
        """Part of its budget that each example has used, shape (n,); None before the first step. Private."""
        return None if self._spent is None else self._spent / self._limit

    def _budget(self, order: float) -> float:
        """Largest divergence of this order that gives the budget (Canonne, Kamath and Steinke 2020)."""
        rest = np.log((order - 1.0) / order) - (np.log(self._delta) + np.log(order)) / (order - 1.0)
        budget = float(self._epsilon - rest)
        # Roundings of the two logarithms, which may be large for a small budget, count against it.
        while budget > 0.0:
            excess = float(rdp_to_epsilon([order], [budget], self._delta)) - self._epsilon
            if excess <= 0.0:
                break
            budget = min(budget - excess, math.nextafter(budget, 0.0))
        return budget

    @step_of_one_record("call it once a step, with the norms of that step")
    @with_terms()
    def step(
        self,
        norms: ArrayLike,
        run: Run | None = None,
        *,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
        sampling: Sampling | str | None = None,
        batch_size: float | None = None,
        dataset_size: int | None = None,
    ) -> NDArray[np.bool_]:
        """Say who may take part in the next step, and charge them for it.

        Parameters
        ----------
        norms : array_like, shape (n,)
            Norm that each example's gradient has at most in this step, in the units of `max_grad_norm`;
            larger ones are clipped to that.
        run : Run, optional
            A run whose noise and sampling this step has, in place of the other arguments. It must be about
            one record that is added or removed. One call is one step: call it as often as the run has steps.
        noise_multiplier : float
            Standard deviation of the noise in units of the clipping norm C, at least zero.
        sample_rate : float, optional
            Probability in [0, 1] that an example is in the batch: short for ``sampling=Poisson(...)``.
        sampling : Poisson or FullBatch, optional
            How the batch is drawn. Give either this or `sample_rate`.
        batch_size, dataset_size : optional
            Sizes in place of `sample_rate`.

        Returns
        -------
        ndarray of bool, shape (n,)
            True for examples that take part. The gradient of the others must be left out of the step.

        Raises
        ------
        UnsupportedError
            If batches have a fixed size: see the notes of the class. If the run is about several or replaced
            records or other noise. The filter stays as it was.
        ValueError
            If an argument is out of range, the number of examples is not that of the first step, or a step
            that is not Gaussian follows Gaussian ones; the filter stays as it was.
        TypeError
            If an argument has the wrong type or is missing; the filter stays as it was.

        Examples
        --------
        >>> import hockeystick as hs
        >>> from hockeystick.accountants import IndividualFilter
        >>> gate = IndividualFilter(epsilon=0.1, delta=1e-5)
        >>> gate.step([0.0, 1.0], noise_multiplier=1.0, sample_rate=1.0).tolist()
        [True, False]
        >>> run = hs.Run(sampling="poisson", sample_rate=0.01, steps=1000, noise_multiplier=1.0)
        >>> gate = IndividualFilter(epsilon=1.0, delta=1e-5)
        >>> gate.step([0.5, 1.0], run).tolist()
        [True, True]
        """
        assert run is None
        if noise_multiplier is None:
            raise TypeError("noise_multiplier is missing: give it, or a Run that states it")
        noise, draw = check_gaussian_step(noise_multiplier, sample_rate, sampling)
        if isinstance(draw, WithoutReplacement):
            raise UnsupportedError(
                f"sampling must be Poisson or FullBatch for an IndividualFilter, got {draw}: an example that "
                "is stopped is still drawn into batches of a fixed size and displaces another, which costs "
                "it privacy in every later step; use Poisson sampling"
            )
        values = np.minimum(check_norms(float_vector(norms, "norms")), self._max_grad_norm)
        require(values.size > 0, "norms", "an empty array", "of at least one example")
        if self._spent is not None and len(values) != len(self._spent):
            count = len(self._spent)
            raise ValueError(f"norms must have one entry for each of {count} examples, got {len(values)}")
        shifts, _, rate = shifts_of(quotients_rounded_up(values, self._max_grad_norm), draw)
        if self._spent is None:
            self._start(len(values), noise, rate)
        assert self._spent is not None
        assert self._active is not None
        cost = self._cost(shifts, noise, rate)
        after = self._spent + cost
        active = self._active & (after <= self._limit * ROOM_FOR_ADDITIONS)
        self._spent, self._active = np.where(active, after, self._spent), active
        return active.copy()

    def _start(self, count: int, noise: float, rate: float) -> None:
        """Fix what the budget is measured in, by what does not depend on the data."""
        is_gaussian = rate == 1.0 and self._order is None
        if is_gaussian:
            needed = get_noise_multiplier(epsilon=self._epsilon, delta=self._delta, sample_rate=1.0, steps=1)
            limit = float(needed) ** -2.0
        else:
            order = self._best_order(noise, rate) if self._order is None else self._order
            limit = self._budget(order)
            self._order = order
        self._is_gaussian, self._limit = is_gaussian, limit
        self._spent, self._active = np.zeros(count), np.ones(count, dtype=np.bool_)

    def _best_order(self, noise: float, rate: float) -> float:
        budgets = np.array([self._budget(order) for order in ORDERS.tolist()])
        possible = budgets > 0.0
        require(
            bool(np.any(possible)), "epsilon", self._epsilon, "larger: no order up to 10,000 shows so little"
        )
        orders, budgets = ORDERS[possible], budgets[possible]
        # Each order is asked once: tables for so many, as `accumulate_rdp` makes, would take much longer.
        costs = privacy_curve(noise_multiplier=noise, sample_rate=rate, steps=1).renyi(orders)
        return float(orders[np.argmin(costs / budgets)])

    def _cost(self, shifts: Floats, noise: float, rate: float) -> Floats:
        if self._is_gaussian:
            if rate != 1.0:
                raise ValueError(f"sample_rate must be 1 as in the first step of this filter, got {rate}")
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(shifts == 0.0, 0.0, (shifts / noise) ** 2)
        assert self._order is not None
        cost = np.zeros((len(shifts), 1))
        accumulate_rdp(cost, shifts, [self._order], noise, rate)
        return cost[:, 0]

    def state_dict(self) -> dict[str, Any]:
        """Save the filter as plain JSON types: private data.

        Returns
        -------
        dict
            With the keys "version", "mechanism", "settings" and "accounts".

        Examples
        --------
        >>> from hockeystick.accountants import IndividualFilter
        >>> state = IndividualFilter(epsilon=1.0, delta=1e-5).state_dict()
        >>> state["mechanism"], state["accounts"]
        ('individual_filter', None)
        """
        accounts = None
        if self._spent is not None and self._active is not None:
            accounts = {
                "is_gaussian": self._is_gaussian,
                "order": self._order,
                "spent": packed(self._spent),
                "active": packed(self._active),
            }
        return {
            "version": VERSION,
            "mechanism": "individual_filter",
            "settings": self._settings(),
            "accounts": accounts,
        }

    def _settings(self) -> dict[str, float | None]:
        return {
            "epsilon": self._epsilon,
            "delta": self._delta,
            "max_grad_norm": self._max_grad_norm,
            "order": self._given_order,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replace what was spent by a saved state.

        Parameters
        ----------
        state_dict : mapping
            What `state_dict` returned for a filter with the same budget.

        Raises
        ------
        ValueError
            If the state is damaged, of another budget or of a newer version, a part has the wrong type, or
            it is larger than a state can be; the filter stays as it was.

        Examples
        --------
        >>> from hockeystick.accountants import IndividualFilter
        >>> first, second = (IndividualFilter(epsilon=1.0, delta=1e-5) for _ in range(2))
        >>> _ = first.step([0.5, 1.0], noise_multiplier=2.0, sample_rate=0.02)
        >>> second.load_state_dict(first.state_dict())
        >>> bool((second.used == first.used).all())
        True
        """
        with refusals():
            check_limits(state_dict)
            self._take_state(state_dict)

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        """Replace what the filter has by a state that is no larger than it may be."""
        check_keys(state_dict, ("version", "mechanism", "settings", "accounts"), "state")
        if state_dict["version"] != VERSION or state_dict["mechanism"] != "individual_filter":
            raise ValueError(
                f"state must be version {VERSION} of an individual_filter, "
                f"got {shown(state_dict['version'])} of {shown(state_dict['mechanism'])}"
            )
        if state_dict["settings"] != self._settings():
            raise ValueError(f"settings must be {self._settings()}, got {shown(state_dict['settings'])}")
        accounts = state_dict["accounts"]
        if accounts is None:
            self._spent = self._active = None
            self._is_gaussian, self._limit, self._order = False, 0.0, self._given_order
            return
        check_keys(accounts, ("is_gaussian", "order", "spent", "active"), "accounts")
        spent = unpacked(accounts["spent"], "spent", "<f8", (None,))
        active = unpacked(accounts["active"], "active", "|b1", (len(spent),))
        if self._given_order not in (None, accounts["order"]):
            raise ValueError(f"order must be {self._given_order}, got {shown(accounts['order'])}")
        fresh = IndividualFilter(self._epsilon, self._delta, self._max_grad_norm, accounts["order"])
        if accounts["is_gaussian"] is True and accounts["order"] is None:
            fresh._start(len(spent), 1.0, 1.0)
        elif accounts["is_gaussian"] is False and accounts["order"] is not None:
            fresh._start(len(spent), 1.0, 0.5)
        else:
            raise ValueError("accounts are damaged: a filter is either Gaussian or has an order")
        if not np.all((spent >= 0.0) & (spent <= fresh._limit)):
            raise ValueError("spent is damaged: it has values outside the budget")
        self._is_gaussian, self._limit, self._order = fresh._is_gaussian, fresh._limit, fresh._order
        self._spent, self._active = spent, active

    def __repr__(self) -> str:
        started = "no steps yet" if self._spent is None else f"{len(self._spent)} examples"
        return f"<IndividualFilter(epsilon={self._epsilon}, delta={self._delta}): {started}>"
