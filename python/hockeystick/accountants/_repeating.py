"""Several steps in one call of an accountant: equal ones, an epoch, or all those of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hockeystick._arguments import count_scalar, shown
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.spelling import parameters_of, unknown_argument
from hockeystick._vocabulary.terms import TERMS, step_in_terms
from hockeystick.errors import UnsupportedError

if TYPE_CHECKING:
    from hockeystick.accountants._interface import Accountant

Function = TypeVar("Function", bound=Callable[..., None])


def repeatable(step: Function) -> Function:
    """Decorate `step` of an accountant: it takes a run, a number of equal steps, or epochs and sizes.

    A call that fails leaves the accountant as it was, as the first of equal steps is checked before it is
    recorded.
    """
    named = parameters_of(step)
    assert named is not None
    known = named

    @functools.wraps(step)
    def stepped(self: Accountant, run: Run | None = None, *, steps: Any = 1, **given: Any) -> None:
        """Take the step as often as `steps` or the run says."""
        for name in given:
            if name not in known:
                raise unknown_argument(f"{type(self).__name__}.step", name, sorted(known))
        if run is not None:
            given, steps = _of_run(self, run, steps, given)
            for name, value in given.items():
                if name not in known:
                    raise UnsupportedError(
                        f"{type(self).__name__} takes no {name}, and the run states {name}={shown(value)}"
                    )
        elif not TERMS.isdisjoint(given) or type(given.get("sampling")) is str:
            given, steps = _of_terms(self, steps, given)
        count = 1 if type(steps) is int and steps == 1 else count_scalar(steps, "steps", 0)
        if count:
            step(self, **given)
        if count > 1:
            self._again(count - 1)

    return cast(Function, stepped)


def _of_terms(accountant: Accountant, steps: Any, given: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the arguments of one step in terms of a rate or a scheme, and how many steps there are."""
    stated = {name: value for name, value in given.items() if value is not None}
    if not (type(steps) is int and steps == 1):
        stated["steps"] = steps
    found = step_in_terms(accountant._sized(stated))
    counted = found.pop("steps", steps)
    return found, counted


def _of_run(
    accountant: Accountant, run: object, steps: Any, given: dict[str, Any]
) -> tuple[dict[str, Any], int]:
    """Return the arguments of one step of a run, and how many there are."""
    if not isinstance(run, Run):
        raise TypeError(f"run must be a Run, got {shown(run)}; other arguments are given by name")
    if given or not (type(steps) is int and steps == 1):
        names = ", ".join([*given, *([] if type(steps) is int and steps == 1 else ["steps"])])
        raise TypeError(f"a run states all of its steps: leave out {names}, or use run.replace(...)")
    if run.number_of_steps is None:
        raise TypeError("the run states neither steps nor epochs")
    return accountant._step_of(run), run.number_of_steps


def step_of(accountant: Accountant, run: Run) -> dict[str, Any]:
    """Return the arguments of one step of a run, which must be about the group of the accountant."""
    facts = run.arguments
    if run.group is not None and run.group != getattr(accountant, "group", None):
        raise ValueError(f"the run has {run.group!r}, which the accountant is not made for")
    if run.group is None and facts["group_size"] != accountant.group_size:
        raise ValueError(
            f"the run has {facts['group_size']} records per person and the accountant "
            f"{accountant.group_size}: use group_size={facts['group_size']}"
        )
    if run.adjacency != accountant.adjacency:
        raise ValueError(
            f"adjacency must be {accountant.adjacency!r} as in the accountant, got {run.adjacency!r}"
        )
    names = ("noise_multiplier", "mechanism", "sample_rate", "sampling")
    return {name: facts[name] for name in names if name in facts}


def sized(accountant: Accountant, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a step with the size of the data set of the accountant, if it has one."""
    own = getattr(accountant, "dataset_size", None)
    if own is None or "batch_size" not in given:
        return given
    if given.get("dataset_size", own) != own:
        raise ValueError(f"dataset_size must be {own} as in the accountant, got {given['dataset_size']}")
    return {**given, "dataset_size": own}
