"""Opacus's engine with exact noise and a look at the loader. Importing this imports Opacus."""

from __future__ import annotations

from typing import Any

from hockeystick._arguments import choice, count_scalar
from hockeystick._extras import needed
from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.interface import Accountant
from hockeystick.opacus.hooks import check_before, rate_of, step_hook
from hockeystick.opacus.loaders import ON_MISMATCH, check_loader
from hockeystick.opacus.noise import noise_for

OpacusEngine: Any = needed("opacus", "opacus").PrivacyEngine
IAccountant: Any = needed("opacus.accountants", "opacus").IAccountant


class PrivacyEngine(OpacusEngine):
    """Opacus's ``PrivacyEngine`` with an accountant of this library.

    Parameters
    ----------
    accountant : Accountant, opacus.accountants.IAccountant or str, optional
        An accountant, which the engine goes on to use, or the name of a registered one. By default
        ``GroupAccountant()``: exact, for one record.
    secure_mode : bool, optional
        As in Opacus.
    on_mismatch : {"raise", "warn", "ignore"}, optional
        What to do when the loader does not draw its batches as the accountant assumes, as in
        `check_loader`.

    Raises
    ------
    ValueError
        If `accountant` is a name that nobody registered, or `on_mismatch` is something else.
    TypeError
        If `accountant` is neither an accountant nor a name.

    Notes
    -----
    Everything is as in Opacus, but for this:

    - ``make_private`` looks at the loader first, and `SamplingMismatchError` leaves the model as it was;
    - steps are charged at the rate with which the loader draws. Opacus charges one over the number of
      batches, which for some loaders, of 93 batches for one, is not the same;
    - ``make_private_with_epsilon`` finds the smallest noise, rounded up, and not one for which ε is at
      most 0.01 smaller than asked for; it counts whole steps (Opacus plans for 224 steps in 3 epochs of 75
      batches); and steps that the accountant has taken already are part of the target;
    - m Poisson batches that are accumulated for one step are charged as m steps with noise multiplier σ/√m.

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
    """

    checks_loader = True
    """That a registered accountant need not."""

    def __init__(
        self,
        *,
        accountant: Any = None,
        secure_mode: bool = False,
        on_mismatch: str = "raise",
    ) -> None:
        action = choice(on_mismatch, "on_mismatch", ON_MISMATCH)
        if accountant is not None and not isinstance(accountant, str | Accountant | IAccountant):
            raise TypeError(
                f"accountant must be an accountant or the name of one, got {type(accountant).__name__}"
            )
        # Opacus makes its accountant by a name.
        named = accountant if isinstance(accountant, str) else "rdp"
        super().__init__(accountant=named, secure_mode=secure_mode)
        if not isinstance(accountant, str):
            self.accountant = GroupAccountant() if accountant is None else accountant
        self._on_mismatch = action

    def make_private(self, *, data_loader: Any, poisson_sampling: bool = True, **arguments: Any) -> Any:
        """Make model, optimizer and loader private, as Opacus does, and account for the loader's batches.

        Parameters
        ----------
        data_loader : torch.utils.data.DataLoader
            What to train on.
        poisson_sampling : bool, optional
            Whether Opacus replaces the loader by one that draws Poisson samples.
        **arguments
            The other arguments of Opacus's ``make_private``.

        Returns
        -------
        tuple
            Model, optimizer and loader, as of Opacus.

        Raises
        ------
        SamplingMismatchError
            If the loader does not draw as is accounted for and `on_mismatch` is "raise"; nothing has
            changed then.
        """
        self._refuse_mismatch(data_loader, poisson_sampling)
        made = super().make_private(data_loader=data_loader, poisson_sampling=poisson_sampling, **arguments)
        optimizer, loader = made[1], made[-1]
        optimizer.attach_step_hook(step_hook(self.accountant, loader, 1 / len(loader), self._on_mismatch))
        return made

    def make_private_with_epsilon(
        self,
        *,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        poisson_sampling: bool = True,
        **arguments: Any,
    ) -> Any:
        """Make private with the smallest noise that meets a target, for a group as for one record.

        Parameters
        ----------
        data_loader : torch.utils.data.DataLoader
            What to train on.
        target_epsilon : float
            What the accountant may say after all epochs, positive and finite. Steps that it was told of
            before are part of it.
        target_delta : float
            In (0, 1).
        epochs : int
            Number of times that training goes through the loader, at least one.
        poisson_sampling : bool, optional
            Whether Opacus replaces the loader by one that draws Poisson samples.
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
        SamplingMismatchError
            As `make_private`.
        """
        self._refuse_mismatch(data_loader, poisson_sampling)
        batches = len(data_loader)
        rate = 1 / batches
        if not poisson_sampling:
            rate = rate_of(check_loader(data_loader, on_mismatch="ignore"), rate)
        noise_multiplier = noise_for(
            self.accountant,
            epsilon=target_epsilon,
            delta=target_delta,
            sample_rate=rate,
            steps=count_scalar(epochs, "epochs", 1) * batches,
        )
        return self.make_private(
            data_loader=data_loader,
            poisson_sampling=poisson_sampling,
            noise_multiplier=noise_multiplier,
            **arguments,
        )

    def _refuse_mismatch(self, loader: Any, poisson_sampling: bool) -> None:
        """Raise, if asked to, while nothing has changed yet."""
        if self._on_mismatch == "raise":
            check_before(self.accountant, loader, poisson_sampling)
