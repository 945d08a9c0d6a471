"""Refreshing of gradient norms during training, for accountants of individual examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from hockeystick._arguments import Floats, count_scalar, require


@runtime_checkable
class NormAccountant(Protocol):
    """What training asks of an accountant of individual examples, besides ``step``."""

    @property
    def dataset_size(self) -> int:
        """Number of examples."""

    @property
    def max_grad_norm(self) -> float:
        """Clipping norm C."""

    @property
    def individual_clipping(self) -> bool:
        """Whether training clips every example to its own norm."""

    @property
    def norms(self) -> Floats:
        """Current norms, at most C, shape (dataset_size,)."""

    def update_norms(self, norms: Floats) -> None:
        """Take new norms."""

    def __len__(self) -> int:
        """Return the number of steps so far."""


class NormRefresher:
    """Brings the norms of an accountant up to date before steps 0, K, 2K, ...

    Steps are counted by the accountant, so that a run that goes on from a saved state keeps the rhythm.

    Parameters
    ----------
    accountant : NormAccountant
        Whose norms they are.
    norms_at : callable
        Function of no arguments that returns the gradient norms of all examples, shape (n,), at the
        weights of the moment.
    refresh_every : int
        Number K of steps that the norms serve, at least one.
    dataset_size : int
        Number of examples that training draws from.
    max_grad_norm : float
        Clipping norm of training.

    Raises
    ------
    ValueError
        If `refresh_every` is out of range, or accountant and training disagree.
    TypeError
        If `refresh_every` is not a number.
    """

    def __init__(
        self,
        accountant: NormAccountant,
        norms_at: Callable[[], Floats],
        refresh_every: int,
        dataset_size: int,
        max_grad_norm: float,
    ) -> None:
        self._accountant = accountant
        self._norms_at = norms_at
        self._every = count_scalar(refresh_every, "refresh_every", 1)
        size, norm = accountant.dataset_size, accountant.max_grad_norm
        require(size == dataset_size, "accountant.dataset_size", size, f"that of training, {dataset_size}")
        require(norm == max_grad_norm, "accountant.max_grad_norm", norm, f"that of training, {max_grad_norm}")

    def before_step(self) -> None:
        """Refresh the norms if that is due: at the weights where the step takes its gradients."""
        if len(self._accountant) % self._every == 0:
            self._accountant.update_norms(self._norms_at())
