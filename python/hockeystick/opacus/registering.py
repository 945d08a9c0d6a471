"""Accountants of this library under a name that Opacus's `PrivacyEngine` takes."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from hockeystick._arguments import choice, require, text
from hockeystick._extras import needed
from hockeystick.accountants.group import GroupAccountant
from hockeystick.accountants.individual import IndividualAccountant
from hockeystick.accountants.interface import Accountant
from hockeystick.opacus.hooks import step_hook
from hockeystick.opacus.loaders import ON_MISMATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from hockeystick.accountants.interface import Optimizer
    from hockeystick.groups import Group

NAME = "hockeystick"


def register(
    group_size: int = 1,
    name: str = NAME,
    adjacency: str = "add_remove",
    *,
    group: Group | None = None,
    accountant: Accountant | None = None,
    on_mismatch: str = "raise",
    force: bool = False,
) -> None:
    """Make an accountant available to Opacus as ``PrivacyEngine(accountant=name)``.

    Parameters
    ----------
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    name : str, optional
        What to call it. Registering again under the same name replaces the accountant, for engines that
        are made afterwards and for the noise that earlier ones search: give two groups two names.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.
    group : Group, optional
        A group whose members differ, in place of `group_size`.
    accountant : Accountant, optional
        Another accountant than `GroupAccountant`, such as ``RenyiGroupAccountant(group_size=8)``, in
        place of `group_size`, `adjacency` and `group`. It has no steps; every engine gets a copy.
    on_mismatch : {"raise", "warn", "ignore"}, optional
        What ``make_private`` does when the loader that it returns does not draw its batches as the
        accountant assumes, as in `check_loader`.
    force : bool, optional
        Whether to replace what Opacus or others have registered under `name`, "prv" for example.

    Raises
    ------
    ValueError
        If an argument is out of range, `accountant` has steps, or `name` belongs to somebody else.
    TypeError
        If an argument has the wrong type or excludes another one, or `accountant` is an
        `IndividualAccountant`, which an engine does not tell the norms (`IndividualTracker` does).
    ImportError
        If Opacus is not installed.

    Notes
    -----
    The engine's accountant is what `accountant` is, and besides:

    - ``make_private`` raises `SamplingMismatchError` for a loader without Poisson sampling, and the
      steps are charged at the rate with which the loader draws;
    - m Poisson batches that are accumulated for one step are charged as m steps with noise multiplier
      σ/√m, since a record may be in several of them. A ``BatchMemoryManager`` splits one batch and costs
      nothing;
    - ``make_private_with_epsilon`` of Opacus's own engine searches noise for which ε is at most 0.01
      below the target (its argument ``epsilon_tolerance``). `hockeystick.opacus.PrivacyEngine` finds the
      smallest noise, and counts the steps exactly.

    A saved state carries `name`, and is read under that name or by an accountant of the same kind; for
    the states of other accountants there is `from_opacus`.

    Examples
    --------
    >>> import hockeystick as hs
    >>> from opacus import PrivacyEngine  # doctest: +SKIP
    >>> hs.opacus.register(group_size=8)  # doctest: +SKIP
    >>> engine = PrivacyEngine(accountant="hockeystick")  # doctest: +SKIP
    >>> engine.accountant.group_size  # doctest: +SKIP
    8
    """
    registry = needed("opacus.accountants", "opacus")
    require(bool(text(name, "name")), "name", repr(name), "a name")
    template = _template(group_size, adjacency, group, accountant)
    made = registered_class(template, name, choice(on_mismatch, "on_mismatch", ON_MISMATCH))
    registry.register_accountant(name, made, force=force or _is_ours(registry, name))
    registry.IAccountant.register(made)


def _template(group_size: int, adjacency: str, group: Group | None, accountant: Any) -> Accountant:
    if accountant is None:
        return GroupAccountant(group_size, adjacency, group)
    if not isinstance(accountant, Accountant) or isinstance(accountant, IndividualAccountant):
        kind = accountant.__name__ if isinstance(accountant, type) else type(accountant).__name__
        raise TypeError(
            f"accountant must be an accountant of hockeystick, such as RenyiGroupAccountant(group_size=8), "
            f"and not an IndividualAccountant, for which there is IndividualTracker; got {kind}"
        )
    if (group_size, adjacency, group) != (1, "add_remove", None):
        raise TypeError("give either accountant or group_size, adjacency and group")
    require(len(accountant) == 0, "accountant", repr(accountant), "an accountant without steps")
    return accountant


def _is_ours(registry: Any, name: str) -> bool:
    try:
        return isinstance(registry.create_accountant(name), Registered)
    except ValueError:  # there is none of this name
        return False


def registered_class(template: Accountant, name: str, on_mismatch: str) -> type[Any]:
    """Class of accountants like `template` that Opacus knows as `name`."""
    kind = type(template)
    parts = {"_template": deepcopy(template), "_name": name, "_on_mismatch": on_mismatch}
    return type(kind.__name__, (Registered, kind), parts | {"__doc__": kind.__doc__})


def _restored(template: Accountant, name: str, on_mismatch: str) -> Any:
    return registered_class(template, name, on_mismatch)()


class Registered:
    """What a registered accountant does in another way than the accountant that it is."""

    _template: ClassVar[Accountant]
    _name: ClassVar[str]
    _on_mismatch: ClassVar[str]

    def __init__(self) -> None:
        vars(self).update(vars(deepcopy(self._template)))

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made at run time, and is made again where it is read.
        return _restored, (self._template, self._name, self._on_mismatch), vars(self)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name under which Opacus knows the accountant."""
        return cls._name

    def get_epsilon(self, delta: float, **others: Any) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).
        **others
            Left alone: what Opacus passes along of the arguments of ``make_private_with_epsilon``, which
            may be meant for the optimizer or for another accountant.

        Returns
        -------
        float
            Epsilon.
        """
        return float(_accounting(self).get_epsilon(delta))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Optimizer], None]:
        """Return a function that records one step of an Opacus optimizer.

        Within ``make_private`` of Opacus's engine the loader is looked at first.

        Parameters
        ----------
        sample_rate : float
            Probability in [0, 1] that a record is in one physical batch.

        Returns
        -------
        callable
            Function of the optimizer.

        Raises
        ------
        SamplingMismatchError
            If ``make_private`` returns a loader that draws in another way than is accounted for.
        """
        frame = inspect.currentframe()
        loader = _loader_in_the_making(None if frame is None else frame.f_back)
        if loader is None:
            hook: Callable[[Optimizer], None] = _accounting(self).get_optimizer_hook_fn(sample_rate)
            return hook
        return step_hook(self, loader, sample_rate, self._on_mismatch)

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Save the accountant as plain JSON types.

        Parameters
        ----------
        destination : mutable mapping, optional
            Mapping to fill; a new dict if not given.

        Returns
        -------
        mutable mapping
            `destination`, with the keys "version", "mechanism", "settings" and "history"; the entries of
            the history are tuples, as in Opacus.
        """
        state: MutableMapping[str, Any] = _accounting(self).state_dict(destination)
        state["history"] = [tuple(entry) for entry in state["history"]]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replace the history by a saved one.

        Parameters
        ----------
        state_dict : mapping
            What ``state_dict`` returned for an accountant with the same settings, registered under this
            name or not registered.

        Raises
        ------
        ValueError
            If the state is of another accountant, of other settings, or damaged; the accountant stays as
            it was.
        """
        found = state_dict.get("mechanism") if hasattr(state_dict, "get") else None
        if found == type(self._template).mechanism():
            state_dict = {**state_dict, "mechanism": self._name}
        elif isinstance(found, str) and found != self._name:
            raise ValueError(
                f"mechanism must be {self._name!r}, got {found!r}: make the engine with "
                f"accountant={found!r}, or take the history over by hockeystick.opacus.from_opacus(state)"
            )
        _accounting(self).load_state_dict(state_dict)


def _accounting(accountant: Any) -> Any:
    """Return the accountant as what it is without being registered."""
    return super(Registered, accountant)


def _loader_in_the_making(caller: Any) -> Any:
    """Return the loader of the ``make_private`` that is running, or None.

    Opacus asks for the hook with nothing but a rate, which says nothing about how batches are drawn. The
    loader stands in its frame, by the name of a documented argument; nothing is changed there. The engine
    of this library looks for itself.
    """
    if caller is None or caller.f_globals.get("__name__") != "opacus.privacy_engine":
        return None
    if getattr(caller.f_locals.get("self"), "checks_loader", False):
        return None
    return caller.f_locals.get("data_loader")
