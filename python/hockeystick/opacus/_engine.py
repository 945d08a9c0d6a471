"""Opacus's engine with exact noise and a look at the loader. Importing this imports Opacus."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from hockeystick import Poisson, Shuffle
from hockeystick._arguments import LARGEST_DATASET, choice, count_scalar
from hockeystick._extras import needed
from hockeystick._loaders.torch_loaders import ON_MISMATCH, check_loader, complain
from hockeystick._vocabulary.adjacency import ZERO_OUT
from hockeystick._vocabulary.sampling import Sampling, UnaccountedSampling
from hockeystick.accountants import Accountant, GroupAccountant, IndividualAccountant
from hockeystick.accountants._adaptors import check_draw
from hockeystick.errors import SamplingMismatchError
from hockeystick.opacus._hooks import (
    Charge,
    charge_for,
    charge_of_optimizer,
    charge_of_poisson,
    encloses_shuffled_batches,
    stated,
    step_hook,
)
from hockeystick.opacus._noise import noise_for
from hockeystick.opacus._public_size import PublicBatches, draw_publicly, public_batches

OpacusEngine: Any = needed("opacus", "opacus").PrivacyEngine
IAccountant: Any = needed("opacus.accountants", "opacus").IAccountant

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _with_arguments_of(original: Any) -> Callable[[_Method], _Method]:
    """Give a method the signature that its own arguments and those of Opacus's method make together.

    Prompts then complete the names that it takes as ``**arguments``, and ``help`` shows them.
    """

    def decorated(method: _Method) -> _Method:
        """Set the signature of a method."""
        signature = inspect.signature(method)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        stated = {each.name for each in own}
        theirs = [each for each in inspect.signature(original).parameters.values() if each.name not in stated]
        found = sorted([*own, *theirs], key=lambda each: each.kind)
        # inspect reads this attribute, which the type of functions does not declare.
        method.__signature__ = signature.replace(parameters=found)  # type: ignore[attr-defined]
        return method

    return decorated


class PrivacyEngine(OpacusEngine):
    """Opacus's ``PrivacyEngine`` with an accountant of this library.

    Parameters
    ----------
    accountant : Accountant, opacus.accountants.IAccountant or str, optional
        An accountant, which the engine goes on to use, or the name of a registered one. By default
        ``GroupAccountant()``: exact, for one record.
    secure_mode : bool, optional
        As in Opacus.
    on_mismatch : {"warn", "raise", "ignore"}, optional
        What to do when no account is known for the loader. "warn" warns once, lets training run, and makes
        ``get_epsilon`` raise `SamplingMismatchError`; "raise" raises it before anything has changed; "ignore"
        counts the steps as if the batches were Poisson samples, at your own risk. Shuffled batches of one
        size have an account for records that are zeroed out: with "warn" and no accountant of your own, the
        engine takes ``GroupAccountant(adjacency="zero_out")`` for them, and says so.
    sampling : Poisson, WithoutReplacement, FullBatch, RandomAllocation, FixedBins or Shuffle, optional
        How the loader draws, and what the steps are charged as. It is compared with the loader, and believed
        where that draws in a way that is not known, such as by a ``batch_sampler`` of your own. By default
        what the loader is seen to draw. ``Poisson(rate, microbatches=m)`` plans for m accumulated batches.
    public_dataset_size : int, optional
        A number N of records that everyone may know, in [1, 2**53]. With it a loader of batch size b is
        replaced by one that draws each record with probability b/N, in ⌈N/b⌉ batches an epoch, and the noisy
        sums are divided by b. By default Opacus computes all three from the number of records at hand, which
        is private where records are added or removed.

    Raises
    ------
    ValueError
        If `accountant` is a name that nobody registered, `on_mismatch` is something else, or
        `public_dataset_size` is out of range.
    TypeError
        If `accountant` is neither an accountant nor a name; or if it is an `IndividualAccountant`, which
        needs the norms of the examples: attach an `IndividualTracker` as well as the engine's accountant.

    Notes
    -----
    Everything is as in Opacus, but for this:

    - ``make_private`` looks at the loader first, and an error leaves the model as it was;
    - steps are charged as the loader draws: Poisson samples at its rate (Opacus charges one over the number
      of batches, which for some loaders, of 93 batches for one, is not the same), full batches, and fresh
      subsets of a fixed size as what they are; shuffled batches (``poisson_sampling=False``) by the upper end
      of their certified interval, for ``adjacency="zero_out"`` or "replace" of a `GroupAccountant`;
    - ``make_private_with_epsilon`` finds the smallest noise, rounded up, and not one for which ε is at
      most 0.01 smaller than asked for; it counts whole steps (Opacus plans for 224 steps in 3 epochs of 75
      batches); and steps that the accountant has taken already are part of the target;
    - m Poisson batches that are added up for one step, by several backward passes or by
      ``signal_skip_step``, are charged by their exact law, as ``Poisson(rate, microbatches=m)``; accountants
      of Opacus get m steps with noise multiplier σ/√m.

    The guarantee for records that are added or removed takes as public what the noisy sums are divided by,
    the sample rate and the number of steps. Without `public_dataset_size` they are functions of the number of
    records, so that the guarantee assumes that number to be public.

    Examples
    --------
    >>> import hockeystick as hs
    >>> from hockeystick.accountants import GroupAccountant
    >>> engine = hs.opacus.PrivacyEngine(accountant=GroupAccountant(group_size=8))  # doctest: +SKIP
    >>> model, optimizer, loader = engine.make_private_with_epsilon(  # doctest: +SKIP
    ...     module=model,
    ...     optimizer=optimizer,
    ...     data_loader=loader,
    ...     target_epsilon=8.0,
    ...     target_delta=1e-5,
    ...     epochs=10,
    ...     max_grad_norm=1.0,
    ... )
    >>> engine.get_epsilon(1e-5)  # doctest: +SKIP
    0.0
    >>> engine.save_checkpoint(path="run.pt", module=model)  # doctest: +SKIP
    >>> saved = engine.load_checkpoint(path="run.pt", module=model)  # doctest: +SKIP
    """

    checks_loader = True
    """Whether the engine checks loaders itself, so that a registered accountant need not."""

    def __init__(
        self,
        *,
        accountant: Any = None,
        secure_mode: bool = False,
        on_mismatch: str = "warn",
        sampling: Sampling | Shuffle | None = None,
        public_dataset_size: int | None = None,
    ) -> None:
        action = choice(on_mismatch, "on_mismatch", ON_MISMATCH)
        wanted = stated(sampling)
        public = None
        if public_dataset_size is not None:
            public = count_scalar(public_dataset_size, "public_dataset_size", 1, LARGEST_DATASET)
        _check_kind(accountant)
        # Opacus makes its accountant by a name.
        named = accountant if isinstance(accountant, str) else "rdp"
        super().__init__(accountant=named, secure_mode=secure_mode)
        if not isinstance(accountant, str):
            self.accountant = GroupAccountant() if accountant is None else accountant
        self._chooses_accountant = accountant is None
        self._on_mismatch = action
        self._sampling = wanted
        self._public_size = public
        self._public: PublicBatches | None = None
        self._mismatch: str | None = None

    @_with_arguments_of(OpacusEngine.make_private)
    def make_private(
        self, *, data_loader: Any, poisson_sampling: bool | None = None, **arguments: Any
    ) -> Any:
        """Make model, optimizer and loader private, as Opacus does, and account for the loader's batches.

        Parameters
        ----------
        data_loader : torch.utils.data.DataLoader
            What to train on.
        poisson_sampling : bool, optional
            Whether Opacus replaces the loader by one that draws Poisson samples. By default it does, unless
            the engine's `sampling` is of another kind.
        **arguments
            The other arguments of Opacus's ``make_private``.

        Returns
        -------
        tuple
            Model, optimizer and loader, as of Opacus.

        Raises
        ------
        SamplingMismatchError
            If no account is known for the loader and `on_mismatch` is "raise"; nothing has changed then.
        UnsupportedError
            If the accountant has no proven pair for what the loader draws; nothing has changed then.

        Warns
        -----
        SamplingMismatchWarning
            If the loader does not draw Poisson samples and `on_mismatch` is "warn": what its steps are
            charged as, or that ``get_epsilon`` will refuse.

        Examples
        --------
        >>> import hockeystick as hs
        >>> engine = hs.opacus.PrivacyEngine()  # doctest: +SKIP
        >>> model, optimizer, loader = engine.make_private(  # doctest: +SKIP
        ...     module=model,
        ...     optimizer=optimizer,
        ...     data_loader=loader,
        ...     noise_multiplier=1.0,
        ...     max_grad_norm=1.0,
        ... )
        """
        poisson = self._draws_poisson(poisson_sampling)
        charge = self._charge_before(data_loader, poisson)
        made = super().make_private(data_loader=data_loader, poisson_sampling=poisson, **arguments)
        optimizer, loader = made[1], made[-1]
        if poisson and charge.has_account:
            charge = charge_for(self.accountant, loader, 1 / len(loader), self._on_mismatch)
        charge = charge_of_optimizer(charge, optimizer, self._on_mismatch)
        if charge.problem is not None:
            complain(charge.problem, "warn")
        if not charge.has_account and not isinstance(self.accountant, Accountant):
            # Without an account, draw is an UnaccountedSampling: that is what has_account asks.
            self._mismatch = charge.draw.description  # type: ignore[union-attr]
        optimizer.attach_step_hook(step_hook(self.accountant, charge))
        return made

    @_with_arguments_of(OpacusEngine.make_private_with_epsilon)
    def make_private_with_epsilon(
        self,
        *,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int | None = None,
        steps: int | None = None,
        poisson_sampling: bool | None = None,
        **arguments: Any,
    ) -> Any:
        """Make private with the smallest noise that meets a target, for a group as for one record.

        Parameters
        ----------
        data_loader : torch.utils.data.DataLoader
            What to train on.
        target_epsilon : float
            What the accountant may say after all epochs, positive and finite. Steps that it has recorded
            before are part of it.
        target_delta : float
            In (0, 1).
        epochs : int, optional
            Number of times that training goes through the loader, at least one.
        steps : int, optional
            Number of steps of the optimizer, at least one, in place of `epochs`.
        poisson_sampling : bool, optional
            Whether Opacus replaces the loader by one that draws Poisson samples. By default it does, unless
            the engine's `sampling` is of another kind.
        **arguments
            The other arguments of Opacus's ``make_private_with_epsilon``.

        Returns
        -------
        tuple
            Model, optimizer and loader, as of Opacus; the noise is ``optimizer.noise_multiplier``.

        Raises
        ------
        ValueError
            If an argument is out of range or no noise meets the target; nothing has changed then.
        TypeError
            If not exactly one of `epochs` and `steps` is given, or an argument has the wrong type.
        SamplingMismatchError
            If no account is known for the loader, unless `on_mismatch` is "ignore": no noise is known then
            that meets the target. Nothing has changed.
        """
        if (epochs is None) == (steps is None):
            raise TypeError("give exactly one of epochs and steps")
        poisson = self._draws_poisson(poisson_sampling)
        charge = self._charge_before(data_loader, poisson)
        if isinstance(charge.draw, UnaccountedSampling):
            charge.draw.refuse()
        draw, together = charge.draw, 1
        if isinstance(self._sampling, Poisson) and isinstance(draw, float):
            together = self._sampling.microbatches
            draw = check_draw(Poisson(draw, microbatches=together), "sampling")
        if epochs is None:
            planned = count_scalar(steps, "steps", 1)
        else:
            of_an_epoch = len(data_loader) if self._public is None else self._public.per_epoch
            planned = -(-count_scalar(epochs, "epochs", 1) * of_an_epoch // together)
        noise_multiplier = noise_for(
            self.accountant, epsilon=target_epsilon, delta=target_delta, draw=draw, steps=planned
        )
        return self.make_private(
            data_loader=data_loader,
            poisson_sampling=poisson,
            noise_multiplier=noise_multiplier,
            **arguments,
        )

    def get_epsilon(self, delta: float) -> float:
        """Epsilon of all steps so far, as the accountant says.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon.

        Raises
        ------
        SamplingMismatchError
            If steps were taken with a loader that no account is known for; it names the loader.
        """
        if self._mismatch is not None:
            raise SamplingMismatchError(self._mismatch)
        return float(self.accountant.get_epsilon(delta))

    def save_checkpoint(self, *, checkpoint_dict: dict[str, Any] | None = None, **arguments: Any) -> None:
        """Save as Opacus does, and what the engine remembers for an accountant of Opacus.

        Parameters
        ----------
        checkpoint_dict : dict, optional
            What else to save.
        **arguments
            The other arguments of Opacus's ``save_checkpoint``.
        """
        others = dict(checkpoint_dict or {})
        if self._mismatch is not None:
            others[_MISMATCH] = self._mismatch
        super().save_checkpoint(checkpoint_dict=others, **arguments)

    def load_checkpoint(self, **arguments: Any) -> Any:
        """Load as Opacus does, and what the engine remembers for an accountant of Opacus.

        Parameters
        ----------
        **arguments
            Those of Opacus's ``load_checkpoint``.

        Returns
        -------
        dict
            What else was saved.
        """
        checkpoint = super().load_checkpoint(**arguments)
        found = checkpoint.pop(_MISMATCH, None)
        if not isinstance(self.accountant, Accountant):
            self._mismatch = found
        return checkpoint

    def _draws_poisson(self, asked: bool | None) -> bool:
        """Whether Opacus is to make a loader that draws Poisson samples."""
        if asked is None:
            return self._sampling is None or isinstance(self._sampling, Poisson)
        return bool(asked)

    def _charge_before(self, loader: Any, poisson: bool) -> Charge:
        """Return what steps will be charged as; raise, if asked to, while nothing has changed yet."""
        rate, self._public = 1 / len(loader), None
        if self._public_size is not None:
            self._public = public_batches(loader, self._public_size, poisson=poisson)
            rate = self._public.sample_rate
        self._choose_accountant(loader, poisson=poisson)
        if poisson:
            return charge_of_poisson(self.accountant, rate, self._sampling, self._on_mismatch)
        return charge_for(self.accountant, loader, rate, self._on_mismatch, self._sampling)

    def _choose_accountant(self, loader: Any, *, poisson: bool) -> None:
        """Take the accountant for what is drawn, if the choice is the engine's and no step was taken."""
        if not self._chooses_accountant or len(self.accountant):
            return
        shuffled = isinstance(self._sampling, Shuffle)
        if not poisson and self._sampling is None and self._on_mismatch == "warn":
            shuffled = check_loader(loader, on_mismatch="ignore").shuffle is not None
        if shuffled != encloses_shuffled_batches(self.accountant):
            self.accountant = GroupAccountant(adjacency=ZERO_OUT if shuffled else "add_remove")

    def _prepare_data_loader(self, data_loader: Any, **arguments: Any) -> Any:
        """Return Opacus's loader, which draws at the public rate if there is one."""
        made = super()._prepare_data_loader(data_loader, **arguments)
        if self._public is not None:
            draw_publicly(made, self._public)
        return made

    def _prepare_optimizer(
        self, *, expected_batch_size: float, distributed: bool = False, **arguments: Any
    ) -> Any:
        """Return Opacus's optimizer, which divides by the public size of a batch if there is one."""
        expected = expected_batch_size
        if self._public is not None:
            expected = self._public.batch_size
            if distributed:  # of one process
                expected /= _processes()
        return super()._prepare_optimizer(expected_batch_size=expected, distributed=distributed, **arguments)


def _processes() -> int:
    """Return how many processes share a batch."""
    return int(needed("torch.distributed", "opacus").get_world_size())


_MISMATCH = "hockeystick_sampling_mismatch"
"""Key of a checkpoint."""


def _check_kind(accountant: object) -> None:
    """Raise ``TypeError`` for what cannot be an engine's accountant."""
    if isinstance(accountant, IndividualAccountant):
        raise TypeError(
            "accountant must not be an IndividualAccountant, which needs the norms of all examples at every "
            "step: leave the engine its own, and attach an IndividualTracker(model, dataset, loss_fn, "
            "accountant) to the optimizer"
        )
    if accountant is not None and not isinstance(accountant, str | Accountant | IAccountant):
        raise TypeError(
            f"accountant must be an accountant or the name of one, got {type(accountant).__name__}"
        )
