"""A `Run` in place of the arguments of the functions about shuffled batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hockeystick._arguments import shown
from hockeystick._vocabulary.mechanisms import BatchClipping
from hockeystick._vocabulary.run import Run
from hockeystick._vocabulary.sampling import Shuffle, WithoutReplacement
from hockeystick._vocabulary.spelling import parameters_of, unknown_argument
from hockeystick.errors import UnsupportedError

Function = TypeVar("Function", bound=Callable[..., Any])

COVERED = ("replace", "zero_out")
"""Relations of a run for which a guarantee for replaced records holds: zeroing moves a sum by less."""


def of_run(function: Function) -> Function:
    """Decorate a function of a scheme, epochs and clipping, in place of all of which a run may stand."""
    return _of_run(function, COVERED)


def of_replaced_run(function: Function) -> Function:
    """Decorate as `of_run` a function whose answer is about replaced records alone."""
    return _of_run(function, ("replace",))


def _of_run(function: Function, relations: tuple[str, ...]) -> Function:
    named = parameters_of(function)
    assert named is not None
    known = named

    @functools.wraps(function)
    def asked(*positional: Any, **given: Any) -> Any:
        """Call the function with what a run states in its place."""
        for name in given:
            if name not in known and name != "run":
                raise unknown_argument(function.__name__, name, sorted(known))
        run = given.pop("run", positional[0] if positional else None)
        if not isinstance(run, Run):
            return function(*positional, **given)
        facts = {name: value for name, value in facts_of(run, relations).items() if name in known}
        for name, value in facts.items():
            if given.get(name, value) != value:
                raise ValueError(
                    f"{name} contradicts the run, which states {shown(value)}: use run.replace(...)"
                )
        return function(**facts | given)

    return cast(Function, asked)


def facts_of(run: Run, relations: tuple[str, ...]) -> dict[str, Any]:
    """Return a run as the functions of `hockeystick.shuffle` know it.

    Raises
    ------
    UnsupportedError
        If batches are neither shuffled nor of a fixed size, records may be added or removed, members of the
        group differ, noise is other than Gaussian, or the run ends within an epoch.
    """
    scheme = run.scheme
    if not isinstance(scheme, Shuffle | WithoutReplacement):
        raise UnsupportedError(
            f"hockeystick.shuffle takes runs with sampling='shuffle' or 'fixed', got {scheme!r}: use "
            "hockeystick.get_epsilon"
        )
    if run.adjacency not in relations:
        raise UnsupportedError(
            f"hockeystick.shuffle is about replaced records, got a run with adjacency={run.adjacency!r}: use "
            "run.replace(adjacency='replace')"
        )
    if run.group is not None:
        raise UnsupportedError(f"hockeystick.shuffle knows groups by their size alone, got {run.group!r}")
    mechanism = run.mechanism
    if mechanism is not None and not isinstance(mechanism, BatchClipping):
        raise UnsupportedError(f"hockeystick.shuffle knows Gaussian noise alone, got {mechanism!r}")
    found: dict[str, Any] = {"sampling": scheme, "group_size": run.records_per_person}
    if isinstance(mechanism, BatchClipping):
        units = mechanism.units_per_batch
        found["clipping"] = "batch" if units == 1 else "mixed"
        found["units_per_batch"] = units
    noise = run.noise_multiplier if mechanism is None else mechanism.noise_multiplier
    if noise is not None:
        found["noise_multiplier"] = noise
    if run.number_of_steps is not None:
        rounds = scheme.dataset_size // scheme.batch_size
        epochs, rest = divmod(run.number_of_steps, rounds)
        if rest:
            raise UnsupportedError(
                f"hockeystick.shuffle is about whole epochs, of {rounds} steps here, got a run of "
                f"{run.number_of_steps} steps: use ShuffleAccountant, which takes parts of epochs"
            )
        found["epochs"] = epochs
    return found
