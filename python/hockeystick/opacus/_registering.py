"""Accountants of this library under a name that Opacus's `PrivacyEngine` takes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, MutableMapping
from copy import deepcopy
from typing import Any, ClassVar

from hockeystick import Group
from hockeystick._arguments import choice, require, shown, text
from hockeystick._extras import needed
from hockeystick._loaders.torch_loaders import ON_MISMATCH, complain
from hockeystick.accountants import Accountant, GroupAccountant, IndividualAccountant
from hockeystick.accountants._adaptors import Optimizer, require_pair
from hockeystick.opacus._hooks import charge_for, step_hook

NAME = "hockeystick"


def register(
    group_size: int = 1,
    name: str = NAME,
    adjacency: str = "add_remove",
    *,
    group: Group | None = None,
    accountant: Accountant | None = None,
    on_mismatch: str = "warn",
    force: bool = False,
) -> None:
    """Make an accountant available to Opacus as ``PrivacyEngine(accountant=name)``.

    Parameters
    ----------
    group_size : int, optional
        Number of records that change together, in [1, 10000].
    name : str, optional
        What to call it. Registering again under the same name replaces the accountant for engines that
        are made afterwards; earlier ones go on with their own, also where they search noise.
    adjacency : {"add_remove", "add", "remove", "replace"}, optional
        Neighbouring relation.
    group : Group, optional
        A group whose members differ, in place of `group_size`.
    accountant : Accountant, optional
        Another accountant than `GroupAccountant`, such as ``RenyiGroupAccountant(group_size=8)``, in
        place of `group_size`, `adjacency` and `group`. It has no steps; every engine gets a copy.
    on_mismatch : {"warn", "raise", "ignore"}, optional
        What ``make_private`` does when no account is known for the loader that it returns. "warn" warns once,
        lets training run, and makes ``get_epsilon`` raise `SamplingMismatchError`; "raise" raises it at once;
        "ignore" counts the steps as if the batches were Poisson samples, at your own risk.
    force : bool, optional
        Whether to replace what Opacus or others have registered under `name`, "prv" for example.

    Raises
    ------
    ValueError
        If an argument is out of range, `accountant` has steps, or `name` belongs to somebody else.
    UnsupportedError
        If the accountant has no proven pair for Poisson samples, which the engine makes.
    TypeError
        If an argument has the wrong type or excludes another one, or `accountant` is an
        `IndividualAccountant`, to which an engine does not pass the norms (`IndividualTracker` does).
    ImportError
        If Opacus is not installed, or older than 1.6.

    Notes
    -----
    The engine's accountant is what `accountant` is, and besides:

    - the steps are charged as the loader of ``make_private`` draws: Poisson samples at its rate, full
      batches, and fresh subsets of a fixed size as what they are;
    - m Poisson batches that are added up for one step, by several backward passes or by
      ``signal_skip_step``, are charged by their exact law, as ``Poisson(rate, microbatches=m)``, since a
      record may be in several of them. A ``BatchMemoryManager`` splits one batch and costs nothing;
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
    if not hasattr(registry, "register_accountant"):
        version = getattr(needed("opacus", "opacus"), "__version__", "an older version")
        raise ImportError(
            f"register needs Opacus 1.6 or newer, and this is {version}, whose accountants have no register: "
            f"update it, or use hockeystick.opacus.PrivacyEngine, which takes an accountant itself"
        )
    require(bool(text(name, "name")), "name", repr(name), "a name")
    template = _template(group_size, adjacency, group, accountant)
    require_pair(template, 0.5)  # the engine draws Poisson samples
    made = registered_class(template, name, choice(on_mismatch, "on_mismatch", ON_MISMATCH))
    registry.register_accountant(name, made, force=force or _is_ours(registry, name))


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
    found = _class_of(registry, name)
    return found is not None and issubclass(found, Registered)


def _class_of(registry: Any, name: str) -> type[Any] | None:
    """Return what a name stands for, None if for nothing."""
    try:
        return type(registry.create_accountant(name))
    except ValueError:  # there is none of this name
        return None


def registered_class(template: Accountant, name: str, on_mismatch: str) -> type[Any]:
    """Class of accountants like `template` that Opacus knows as `name`."""
    key = (repr(template), name, on_mismatch)
    if key not in _CLASSES:
        kind = type(template)
        parts: dict[str, Any] = {"_template": deepcopy(template), "_name": name, "_on_mismatch": on_mismatch}
        parts |= {"__doc__": kind.__doc__, "__module__": kind.__module__}
        _CLASSES[key] = type(kind.__name__, (Registered, kind), parts)
    registry = sys.modules.get("opacus.accountants")
    if registry is not None:  # a pickled accountant is read without Opacus too
        registry.IAccountant.register(_CLASSES[key])
    return _CLASSES[key]


_CLASSES: dict[tuple[str, str, str], type[Any]] = {}
"""Classes by settings, name and what they do about loaders: copies of an accountant are of its own class."""


def _restored(template: Accountant, name: str, on_mismatch: str) -> Any:
    return registered_class(template, name, on_mismatch)()


class Registered:
    """Methods that a registered accountant has in place of those of its own class."""

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
        """Return a name under which Opacus makes accountants like this one.

        It is that of the registration, as long as nobody registers another accountant under it. An engine
        searches noise by this name, and must find its own accountant.
        """
        registry: Any = sys.modules.get("opacus.accountants")
        name: str = cls._name
        if registry is None or not hasattr(registry, "register_accountant"):
            return name
        found = _class_of(registry, name)
        if found is cls:
            return name
        own = name if found is None else f"{name}: {cls._template!r}"
        registry.register_accountant(own, cls, force=True)
        return own

    def get_epsilon(self, delta: float, *more: Any, **others: Any) -> float:
        """Upper bound on epsilon of all steps so far.

        Parameters
        ----------
        delta : float
            In (0, 1).
        *more, **others
            Left alone: what Opacus passes along of the arguments of ``make_private_with_epsilon``, which
            may be meant for the optimizer or for another accountant.

        Returns
        -------
        float
            Epsilon.

        Raises
        ------
        SamplingMismatchError
            If steps were taken with a loader that no account is known for.
        """
        return float(_accounting(self).get_epsilon(delta))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Optimizer], None]:
        """Return a function that records one step of an Opacus optimizer.

        Within ``make_private`` of Opacus's engine the loader is looked at first.

        Parameters
        ----------
        sample_rate : float
            Probability in [0, 1] that a record is in one batch of the loader.

        Returns
        -------
        callable
            Function of the optimizer.

        Raises
        ------
        SamplingMismatchError
            If ``make_private`` returns a loader that no account is known for, and the accountant was
            registered with ``on_mismatch="raise"``.

        Warns
        -----
        SamplingMismatchWarning
            If that loader does not draw Poisson samples, and it was registered with ``on_mismatch="warn"``.
        """
        frame = inspect.currentframe()
        loader = _loader_in_the_making(None if frame is None else frame.f_back)
        if loader is None:
            hook: Callable[[Optimizer], None] = _accounting(self).get_optimizer_hook_fn(sample_rate)
            return hook
        charge = charge_for(self, loader, sample_rate, self._on_mismatch)
        if charge.problem is not None:
            complain(charge.problem, "warn")
        return step_hook(self, charge, self._on_mismatch)

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
        state["mechanism"] = self._name
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
        if found in (self._name, type(self._template).mechanism()):
            state_dict = {**state_dict, "mechanism": self.mechanism()}
        elif isinstance(found, str) and found != self._name:
            raise ValueError(
                f"mechanism must be {shown(self._name)}, got {shown(found)}: make the engine with "
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
