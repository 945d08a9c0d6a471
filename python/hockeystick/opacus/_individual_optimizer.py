"""Opacus's optimizer with a clipping norm for every example. Importing this imports Opacus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick._arguments import Counts, count_array, require
from hockeystick._extras import needed
from hockeystick.accountants._adaptors import NormAccountant
from hockeystick.opacus._opacus_classes import is_plain_optimizer

DPOptimizer: Any = needed("opacus.optimizers", "opacus").DPOptimizer


class _Replaced(DPOptimizer):
    """An optimizer whose place another one has taken: schedulers that still hold it would change nothing."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("noise_multiplier", "max_grad_norm"):
            raise RuntimeError(
                f"{name} of this optimizer has no effect any more: an IndividualClippingOptimizer took its "
                f"place. Make schedulers of noise and clipping for that one"
            )
        super().__setattr__(name, value)


def _retire(optimizer: Any) -> None:
    """Let an optimizer refuse the changes that only the one in its place would act upon."""
    optimizer.__class__ = _Replaced


class IndividualClippingOptimizer(DPOptimizer):
    """Opacus's optimizer, but for clipping each example to its own norm in an accountant.

    The update moves by at most the norm Z_i where example i is added or removed, so that an accountant
    that charges Z_i for the step gives a guarantee, however old the norms are. The noise is that of
    the clipping norm C >= Z_i, as before.

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        What ``make_private`` returned; use this one in its place. Its step hook, the engine's
        accountant, is kept. Schedulers of noise or clipping must be made for this one: from now on the
        other one refuses to be changed.
    accountant : IndividualAccountant
        Whose ``norms`` are the thresholds; made with ``individual_clipping=True`` and the same
        ``max_grad_norm``.

    Raises
    ------
    TypeError
        If `optimizer` is anything but a ``DPOptimizer``, such as one that clips layers on their own.
    ValueError
        If the accountant is not one for individual clipping, or has another clipping norm.

    Notes
    -----
    INDIVIDUAL, Appendix B.2. Before each ``step()``, and for each physical batch of a
    ``BatchMemoryManager``, say by `announce` which examples the gradients belong to;
    `IndexedDataset` hands out the indices. A step whose examples are unknown is refused.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import hockeystick as hs
    >>> optimizer = hs.opacus.IndividualClippingOptimizer(optimizer, accountant)  # doctest: +SKIP
    >>> for inputs, labels, indices in loader:  # doctest: +SKIP
    ...     optimizer.zero_grad()
    ...     loss_fn(model(inputs), labels).backward()
    ...     optimizer.announce(indices)
    ...     optimizer.step()
    >>> optimizer.accountant is accountant  # doctest: +SKIP
    True
    >>> optimizer.attach_batch_hook(lambda: None)  # as the tracker does  # doctest: +SKIP
    """

    max_grad_norm: Any

    def __init__(self, optimizer: Any, accountant: NormAccountant) -> None:
        if not is_plain_optimizer(optimizer):
            raise TypeError(f"optimizer must be an opacus DPOptimizer, got {type(optimizer).__name__}")
        require(accountant.individual_clipping, "accountant.individual_clipping", False, "True")
        norm = accountant.max_grad_norm
        allowed = f"that of the optimizer, {optimizer.max_grad_norm}"
        require(norm == optimizer.max_grad_norm, "accountant.max_grad_norm", norm, allowed)
        super().__init__(
            optimizer.original_optimizer,
            noise_multiplier=optimizer.noise_multiplier,
            max_grad_norm=optimizer.max_grad_norm,
            expected_batch_size=optimizer.expected_batch_size,
            loss_reduction=optimizer.loss_reduction,
            generator=optimizer.generator,
            secure_mode=optimizer.secure_mode,
        )
        self.step_hook = optimizer.step_hook
        _retire(optimizer)
        self._accountant = accountant
        self._batch_hook: Callable[[], None] | None = None
        self._announced: list[Counts] = []
        self._seen = np.zeros(accountant.dataset_size, dtype=bool)
        self._batch_has_begun = False

    @property
    def accountant(self) -> NormAccountant:
        """The accountant whose norms are the thresholds."""
        return self._accountant

    def announce(self, indices: ArrayLike) -> None:
        """Say which examples the next gradients belong to.

        Parameters
        ----------
        indices : array_like of int, shape (batch,)
            Their indices in the data set, in the order of the batch. Once a backward pass: the indices
            of several are put together.

        Raises
        ------
        ValueError
            If `indices` has another shape or an index is not in [0, dataset_size).
        TypeError
            If `indices` is not made of numbers.
        """
        found = count_array(np.asarray(indices), "indices", 0)
        require(found.ndim == 1, "indices", f"shape {found.shape}", "one-dimensional")
        largest = int(found.max(initial=0))
        require(largest < len(self._seen), "indices", largest, f"in [0, {len(self._seen)})")
        self._announced.append(found)

    def attach_batch_hook(self, hook: Callable[[], None]) -> None:
        """Attach a function that is called before the first gradients of a logical batch are clipped.

        Parameters
        ----------
        hook : callable
            Function of no arguments. The weights are still those where the gradients were taken.
        """
        self._batch_hook = hook

    def clip_and_accumulate(self) -> None:
        """Clip the gradients to the norms of their examples, and add them up.

        Raises
        ------
        RuntimeError
            If it is unknown which examples the gradients belong to.
        ValueError
            If their number differs from that of the gradients, or an example is in the batch twice.
        """
        announced, self._announced = self._announced, []
        if not self._batch_has_begun:
            self._seen[:] = False
            if self._batch_hook is not None:
                self._batch_hook()
            self._batch_has_begun = True
        gradients = self._get_flat_grad_sample(self.params[0])
        indices = self._check_examples(announced, len(gradients))
        thresholds = np.asarray(self._accountant.norms[indices])
        norm = self.max_grad_norm
        # DPOptimizer divides it by the norms of the gradients, entry by entry.
        self.max_grad_norm = gradients.new_tensor(thresholds)
        try:
            super().clip_and_accumulate()
        finally:
            self.max_grad_norm = norm

    def pre_step(self, closure: Callable[[], float] | None = None) -> Any:
        """Do what comes before the inner optimizer's step, and return whether the batch is complete."""
        complete = super().pre_step(closure)
        if complete:
            self._batch_has_begun = False
        return complete

    def _check_examples(self, announced: list[Counts], number: int) -> Counts:
        if not announced and number:
            raise RuntimeError(
                "individual clipping must know which examples are in the batch: call announce(indices) "
                "before step(), with the indices that IndexedDataset adds to the batch"
            )
        indices = np.concatenate([np.empty(0, dtype=np.int64), *announced])
        require(len(indices) == number, "indices", len(indices), f"as many as gradients, {number}")
        if self._seen[indices].any() or len(np.unique(indices)) < number:
            raise ValueError("indices must be different: an example is in the batch twice")
        self._seen[indices] = True
        return indices
