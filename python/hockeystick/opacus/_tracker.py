"""Individual accounting in an Opacus training loop."""

from __future__ import annotations

from typing import Any

from hockeystick._arguments import require
from hockeystick._vocabulary.sampling import check_sample_rate
from hockeystick.accountants._adaptors import NormAccountant, NormRefresher, batches_of
from hockeystick.opacus._hooks import poisson_hook
from hockeystick.opacus._opacus_classes import is_grad_sample_module, is_plain_optimizer
from hockeystick.opacus._per_example import CHUNK_SIZE, Loss, check_dataset, per_example_norms

_BY_HAND = (
    "other ways to clip, several processes and unwrapped models are not followed; copy the weights into a "
    "bare module, and inform the accountant by update_norms(per_example_norms(module, dataset, loss_fn)) and "
    "step()"
)


class IndividualTracker:
    """Tells an accountant of individual examples of every step of an Opacus optimizer, norms included.

    Parameters
    ----------
    model : opacus.GradSampleModule
        What ``make_private`` returned.
    dataset : torch.utils.data.Dataset
        The training data as pairs (input, target), without augmentation, in the order of the
        accountant: all of it, not a loader.
    loss_fn : callable
        Function (outputs, targets), as in training.
    accountant : IndividualAccountant
        Whose account is kept, with the ``max_grad_norm`` of the optimizer.
    refresh_every : int, optional
        Number K of steps that norms serve before those of all examples are computed again, at least
        one. With 1 every step is charged the norms at the very weights where it took its gradients,
        and the account is a guarantee; with more it is an estimate, unless an
        `IndividualClippingOptimizer` enforces the norms.
    chunk_size : int, optional
        Number of examples whose gradients are in memory at once, at least one.

    Raises
    ------
    ValueError
        If the data set has another size than the accountant, or a number is out of range.
    TypeError
        If an argument has the wrong type: the model too, which must be the ``GradSampleModule`` that
        ``make_private`` returned.

    Notes
    -----
    It follows one process that clips the gradient of every example as a whole to one norm, or, with
    `IndividualClippingOptimizer`, to norms of their own. It does not follow ghost clipping, clipping by
    layers, adaptive clipping, several processes, and ``make_private(wrap_model=False)``. There the accountant
    can get the norms by hand: copy the weights into a module without Opacus, take `per_example_norms` of
    that, and call ``update_norms`` and ``step``.

    INDIVIDUAL, Algorithms 1 and 2. The training is not changed: weights are the same bit by bit, with
    and without the tracker. A refresh costs a forward and a backward pass over the whole data set.

    References
    ----------
    D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin and H. Zhang, "Individual Privacy Accounting for
    Differentially Private Stochastic Gradient Descent" (INDIVIDUAL), Transactions on Machine Learning
    Research, 2023. arXiv:2206.02617

    Examples
    --------
    >>> import hockeystick as hs
    >>> tracker = hs.opacus.IndividualTracker(  # doctest: +SKIP
    ...     model, dataset, loss_fn, accountant, refresh_every=100
    ... )
    >>> tracker.attach(optimizer, sample_rate=hs.opacus.check_loader(loader).sample_rate)  # doctest: +SKIP
    >>> tracker.accountant is accountant  # doctest: +SKIP
    True
    """

    def __init__(
        self,
        model: Any,
        dataset: Any,
        loss_fn: Loss,
        accountant: NormAccountant,
        refresh_every: int = 1,
        *,
        chunk_size: int = CHUNK_SIZE,
    ) -> None:
        if not isinstance(accountant, NormAccountant):
            raise TypeError(f"accountant must be an IndividualAccountant, got {type(accountant).__name__}")
        if not is_grad_sample_module(model):
            raise TypeError(
                f"model must be the GradSampleModule that make_private returned, with wrap_model=True and "
                f"grad_sample_mode='hooks', got {type(model).__name__}: {_BY_HAND}"
            )
        self._model = model
        self._accountant = accountant
        self._refresher = NormRefresher(
            accountant,
            lambda: per_example_norms(model, dataset, loss_fn, chunk_size=chunk_size),
            refresh_every,
            check_dataset(dataset),
            accountant.max_grad_norm,
        )
        self._attached = False

    @property
    def accountant(self) -> NormAccountant:
        """The accountant that gets the norms."""
        return self._accountant

    def attach(self, optimizer: Any, sample_rate: float) -> None:
        """Follow an optimizer from now on; hooks that it has are kept.

        Parameters
        ----------
        optimizer : opacus.optimizers.DPOptimizer or IndividualClippingOptimizer
            What makes the steps. A physical batch of a ``BatchMemoryManager`` that does not end a
            logical one is not a step.
        sample_rate : float
            Probability in [0, 1] that an example is in one physical batch without a
            ``BatchMemoryManager``. Batches that are accumulated for a step are drawn one by one and may
            share examples: m of them are charged as those of ``Poisson(sample_rate, microbatches=m)``.

        Raises
        ------
        TypeError
            If the optimizer clips in another way.
        ValueError
            If it moves other parameters than those of the model, has another clipping norm than the
            accountant, or one of them is for individual clipping and the other is not; or if the
            tracker is attached already.
        """
        account = poisson_hook(self._accountant, check_sample_rate(sample_rate))
        before_batch = getattr(optimizer, "attach_batch_hook", None)
        if not is_plain_optimizer(optimizer) and before_batch is None:
            raise TypeError(
                f"optimizer must be an opacus DPOptimizer or an IndividualClippingOptimizer, "
                f"got {type(optimizer).__name__}: {_BY_HAND}"
            )
        self._check_fit(optimizer)
        if self._attached:
            raise ValueError("the tracker is attached already: it would charge every step twice")
        self._attached = True
        count = batches_of()
        earlier = optimizer.step_hook
        if before_batch is not None:
            before_batch(self._refresher.before_step)

        def hook(stepping: Any) -> None:
            """Check one step, and account for it before the weights move."""
            # Whatever can fail comes before anything is charged.
            self._check_norm(stepping)
            if before_batch is not None and (batches := count(stepping)) > 1:
                raise ValueError(
                    f"a step with norms of the examples' own must be of one batch, got {batches}: an example "
                    f"that is in several of them moves the sum by more than its norm"
                )
            # Opacus calls this with the update ready and the weights as yet unmoved.
            if before_batch is None:
                self._refresher.before_step()
            if earlier is not None:
                earlier(stepping)
            account(stepping)

        optimizer.attach_step_hook(hook)

    def _check_fit(self, optimizer: Any) -> None:
        clipper = getattr(optimizer, "accountant", None)
        if clipper is None:
            require(
                not self._accountant.individual_clipping,
                "optimizer",
                type(optimizer).__name__,
                "an IndividualClippingOptimizer, as accountant.individual_clipping is True",
            )
        elif clipper is not self._accountant:
            raise ValueError("optimizer must clip to the norms of the tracker's accountant, not another one")
        self._check_norm(optimizer)
        known = {id(each) for each in self._model.parameters() if each.requires_grad}
        if not all(id(each) in known for each in optimizer.params):
            raise ValueError("optimizer must move parameters of the model only")

    def _check_norm(self, optimizer: Any) -> None:
        norm, found = self._accountant.max_grad_norm, optimizer.max_grad_norm
        require(found == norm, "max_grad_norm of the optimizer", found, f"that of the accountant, {norm}")
