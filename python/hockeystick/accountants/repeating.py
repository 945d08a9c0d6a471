"""Several steps in one call of an accountant: a number of equal ones, or all those of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hockeystick._arguments import count_scalar, shown
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.spelling import parameters_of, unknown_argument

if TYPE_CHECKING:
    from hockeystick.accountants.interface import Accountant

Function = TypeVar("Function", bound=Callable[..., None])


def repeatable(step: Function) -> Function:
    """Decorate `step` of an accountant: it takes a run, or a number of equal steps.

    A call that fails leaves the accountant as it was, as the first of equal steps is checked before it is
    recorded.
    """
    named = parameters_of(step)
    assert named is not None
    known = named

    @functools.wraps(step)
    def stepped(self: Accountant, run: Run | None = None, *, steps: Any = 1, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise unknown_argument(f"{type(self).__name__}.step", name, sorted(known))
        if run is not None:
            given, steps = _of_run(self, run, steps, given)
        count = 1 if type(steps) is int and steps == 1 else count_scalar(steps, "steps", 0)
        if count:
            step(self, **given)
        if count > 1:
            self._again(count - 1)

    return cast(Function, stepped)


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
