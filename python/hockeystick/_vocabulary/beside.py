"""A `Run`, epochs and sizes for functions that have positional arguments of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hockeystick._arguments import shown
from hockeystick._vocabulary.mechanisms import Gaussian, Skellam
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.spelling import parameters_of, unknown_argument
from hockeystick._vocabulary.terms import TERMS, resolved
from hockeystick.errors import UnsupportedError

Function = TypeVar("Function", bound=Callable[..., Any])


_OF_STEPS = "{}() is about one step, and takes no steps or epochs: {}"


def step_of_run(of_steps: str) -> Callable[[Function], Function]:
    """Decorate a function about one step with a mechanism, in whose place a run may stand.

    Parameters
    ----------
    of_steps : str
        What to do instead with several steps.
    """

    def decorate(function: Function) -> Function:
        name, known = function.__qualname__, parameters_of(function)
        assert known is not None

        @functools.wraps(function)
        def asked(mechanism: Any = None, *positional: Any, run: Run | None = None, **given: Any) -> Any:
            """Call the function with what a run states in its place."""
            if "epochs" in given or "steps" in given:
                raise TypeError(_OF_STEPS.format(name, of_steps))
            if isinstance(mechanism, Run):
                if run is not None:
                    raise TypeError(f"{name}() takes one run")
                mechanism, run = None, mechanism
            if run is None:
                return function(mechanism, *positional, **given)
            facts = _facts_of_one_step(run, {"mechanism": mechanism, **given}, known)
            noise = facts.pop("noise_multiplier", None)
            mechanism = facts.pop("mechanism", None if noise is None else Gaussian(noise))
            return function(mechanism, *positional, **facts)

        return cast(Function, asked)

    return decorate


def step_of_one_record(of_steps: str) -> Callable[[Function], Function]:
    """Decorate a method about one Gaussian step and single records, which takes noise and rate of a run.

    Parameters
    ----------
    of_steps : str
        What to do instead with several steps.
    """

    def decorate(function: Function) -> Function:
        name, known = function.__qualname__, parameters_of(function)
        assert known is not None

        @functools.wraps(function)
        def asked(self: Any, norms: Any, run: Run | None = None, **given: Any) -> Any:
            """Call the method with the noise and the rate that a run states in its place."""
            if "epochs" in given or "steps" in given:
                raise TypeError(_OF_STEPS.format(name, of_steps))
            if run is None:
                return function(self, norms, **given)
            facts = _facts_of_one_step(run, given, known)
            for fact, covered in _ONE_RECORD.items():
                stated = facts.pop(fact, covered)
                if stated != covered:
                    raise UnsupportedError(
                        f"{name}() is about one record that is added or removed in Gaussian steps, and "
                        f"the run states {fact}={shown(stated)}"
                    )
            return function(self, norms, **facts)

        return cast(Function, asked)

    return decorate


_ONE_RECORD = {"group_size": 1, "group": None, "adjacency": "add_remove", "mechanism": None}
"""What a run states, or does not, that is about one record in Gaussian steps."""


def _facts_of_one_step(run: object, given: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return what a run says of each step, with other arguments, which must not contradict it."""
    if not isinstance(run, Run):
        raise TypeError(f"run must be a Run, got {shown(run)}")
    facts = {"group_size", "group", "adjacency", "mechanism", "noise_multiplier", "sample_rate", "sampling"}
    return resolved(run.replace(steps=None, epochs=None), given, (known | facts) - {"steps"}, "", "")


def of_run(function: Function) -> Function:
    """Decorate a function of a class of mechanisms, in whose place a run may stand."""

    @functools.wraps(function)
    def asked(mechanism: Any = None, *positional: Any, **given: Any) -> Any:
        """Call the function with the class of the run's mechanism, and with the run without it."""
        if isinstance(mechanism, Run):
            given["run"] = mechanism
        run = given.get("run")
        if isinstance(run, Run):
            kind = Gaussian if run.mechanism is None else type(run.mechanism)
            if isinstance(mechanism, type) and mechanism is not kind:
                raise ValueError(
                    f"mechanism contradicts the run, which has {kind.__name__}, got {mechanism.__name__}"
                )
            if isinstance(run.mechanism, Skellam):
                given.setdefault("sensitivity", run.mechanism.sensitivity)
            mechanism, given["run"] = kind, run.replace(mechanism=None)
        if mechanism is None:
            raise TypeError(
                f"{function.__name__}() needs a mechanism, which is a class such as Gaussian, or a Run"
            )
        return function(mechanism, *positional, **given)

    return cast(Function, asked)


def with_terms(unknown: str = "", assumes: str = "") -> Callable[[Function], Function]:
    """Decorate a function so that it takes ``run=``, and epochs and sizes in place of rate and steps.

    Parameters
    ----------
    unknown : str, optional
        What the function finds, which is not taken from a run.
    assumes : str, optional
        The neighbouring relation of a function that takes no adjacency, which a run must have.
    """

    def decorate(function: Function) -> Function:
        named = parameters_of(function)
        assert named is not None
        known = named

        @functools.wraps(function)
        def asked(*positional: Any, run: Run | None = None, **given: Any) -> Any:
            """Call the function with what a run, epochs or sizes stand for."""
            for name in given:
                if name not in known:
                    raise unknown_argument(function.__name__, name, sorted(known))
            is_in_terms = not TERMS.isdisjoint(given) or type(given.get("sampling")) is str
            if run is not None or is_in_terms:
                given = resolved(run, given, known | ({"adjacency"} if assumes else set()), unknown, "")
                if assumes and given.get("adjacency", assumes) != assumes:
                    raise UnsupportedError(
                        f"{function.__name__}() is about adjacency={assumes!r}, and the run states "
                        f"{given['adjacency']!r}"
                    )
                if assumes:
                    given.pop("adjacency", None)
            elif "steps" in known and given.get("steps") is None:
                raise TypeError(
                    f"{function.__name__}() needs steps, or epochs with sizes or a rate, or a Run"
                )
            return function(*positional, **given)

        return cast(Function, asked)

    return decorate
