"""Other names for arguments and values, and the errors that name the right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

NEAR = 0.7
"""Least similarity of a misspelt name, at most 1. At 0.6 "rates" is offered for "stages"; at 0.95
"nosie_multiplier" finds nothing."""

_OF_NOISE = ": the standard deviation of the noise divided by the clipping norm"

SYNONYMS: dict[str, tuple[tuple[str, ...], str]] = {
    "sigma": (("noise_multiplier",), _OF_NOISE),
    "noise": (("noise_multiplier",), _OF_NOISE),
    "noise_std": (("noise_multiplier",), _OF_NOISE),
    "noise_scale": (("noise_multiplier",), _OF_NOISE),
    "noise_stddev": (("noise_multiplier",), _OF_NOISE),
    "std": (("noise_multiplier",), _OF_NOISE),
    "stddev": (("noise_multiplier",), _OF_NOISE),
    "z": (("noise_multiplier",), _OF_NOISE),
    "q": (("sample_rate",), ": the probability that a record is in a batch"),
    "p": (("sample_rate",), ": the probability that a record is in a batch"),
    "sampling_rate": (("sample_rate",), ""),
    "sampling_probability": (("sample_rate",), ""),
    "sampling_prob": (("sample_rate",), ""),
    "subsampling_rate": (("sample_rate",), ""),
    "rate": (("sample_rate",), ""),
    "num_steps": (("steps",), ""),
    "n_steps": (("steps",), ""),
    "iterations": (("steps",), ""),
    "num_iterations": (("steps",), ""),
    "max_steps": (("steps",), ""),
    "num_updates": (("steps",), ""),
    "num_compositions": (("steps",), ""),
    "t": (("steps",), ""),
    "num_epochs": (("epochs",), ""),
    "epochs": (("steps",), ""),
    "n_epochs": (("epochs",), ""),
    "target_epsilon": (("epsilon", "target"), ""),
    "eps": (("epsilon", "target"), ""),
    "target_delta": (("delta",), ""),
    "dlt": (("delta",), ""),
    "n": (("dataset_size",), ""),
    "num_examples": (("dataset_size",), ""),
    "num_samples": (("dataset_size",), ""),
    "n_samples": (("dataset_size",), ""),
    "sample_size": (("dataset_size",), ""),
    "data_size": (("dataset_size",), ""),
    "num_records": (("dataset_size",), ""),
    "training_set_size": (("dataset_size",), ""),
    "b": (("batch_size",), ""),
    "lot_size": (("batch_size",), ""),
    "expected_batch_size": (("batch_size",), ""),
    "k": (("group_size", "records_per_person"), ""),
    "group": (("records_per_person",), ""),
    "records_per_user": (("records_per_person", "group_size"), ""),
    "examples_per_user": (("records_per_person", "group_size"), ""),
    "max_records_per_user": (("records_per_person", "group_size"), ""),
    "records_per_person": (("group_size",), ": the number of records that change together"),
    "group_size": (("records_per_person",), ""),
    "relation": (("adjacency",), ""),
    "neighboring_relation": (("adjacency",), ""),
    "neighbouring_relation": (("adjacency",), ""),
    "neighbors": (("adjacency",), ""),
    "replace_one": (("adjacency",), "='replace'"),
    "add_or_remove_one": (("adjacency",), "='add_remove'"),
    "sampler": (("sampling",), ""),
    "scheme": (("sampling",), ""),
    "shuffle": (("sampling",), ""),
    "tol": (("tolerance",), ""),
    "eps_error": (("tolerance",), ""),
}
"""Names that other libraries and papers have for an argument, with the names it has here and a hint in words.

The first of our names that a function takes is the one that its error suggests."""

_OF_CLIPPING = (
    ": the clipping norm needs no argument, as noise_multiplier is the standard deviation of the noise "
    "divided by it"
)

CLIPPING_NORMS = frozenset(
    {"max_grad_norm", "l2_norm_clip", "clip_norm", "clipping_norm", "max_norm", "clip", "c", "l2_sensitivity"}
)
"""Names of the clipping norm, which no epsilon depends on."""

VALUES: dict[str, dict[str, str]] = {
    "adjacency": {
        "replace_one": "replace",
        "replacement": "replace",
        "substitute": "replace",
        "substitution": "replace",
        "swap": "replace",
        "change_one": "replace",
        "bounded": "replace",
        "add_or_remove_one": "add_remove",
        "add_or_remove": "add_remove",
        "add-remove": "add_remove",
        "unbounded": "add_remove",
        "addition": "add",
        "removal": "remove",
        "zero-out": "zero_out",
        "zeroed": "zero_out",
    },
    "sampling": {
        "bernoulli": "poisson",
        "subset": "fixed",
        "fixed_size": "fixed",
        "shuffled": "shuffle",
        "shuffling": "shuffle",
        "none": "full",
        "balls_and_bins": "random_allocation",
        "balls_in_bins": "random_allocation",
    },
}
"""Names of other libraries and papers for values of arguments."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a name that is not known, or nothing."""
    names = list(known)
    ours, words = SYNONYMS.get(name.lower(), ((), ""))
    for candidate in ours:
        if candidate in names:
            return f"; did you mean {candidate}{words}?"
    if name.lower() in CLIPPING_NORMS and "noise_multiplier" in names:
        return _OF_CLIPPING
    if ours or name in ("epsilon", "delta"):
        return ""  # its meaning is known: a similar name would be another one
    near = _near(name, names)
    return f"; did you mean {near[0]}?" if near else ""


def _near(name: str, names: list[str]) -> list[str]:
    import difflib  # takes a millisecond, which starts should not pay

    return difflib.get_close_matches(name, names, n=1, cutoff=NEAR)


def suggested_value(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a string that the argument `name` does not take, or nothing."""
    if not isinstance(value, str):
        return ""
    known = list(allowed)
    ours = VALUES.get(name, {}).get(value.lower())
    if ours in known:
        return f"; did you mean {ours!r}?"
    near = _near(value.lower(), known)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an argument that a function does not take."""
    hint = suggestion(name, known) or _of_unknown(function.rpartition(".")[2], name)
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def _of_unknown(function: str, name: str) -> str:
    """Say that an argument is what a function finds, if it is, and which function takes it."""
    ours, _ = SYNONYMS.get(name.lower(), ((), ""))
    for each in (name, *ours):
        if function == f"get_{each}":
            if each in ("epsilon", "delta"):
                return f": {function} finds it; get_noise_multiplier({each}=...) finds the noise for a target"
            return f": {function} finds it; get_epsilon({each}=...) finds what it guarantees"
    return ""


def parameters_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names that a function takes by keyword; None if it takes any."""
    found = set()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return None
        if parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            found.add(name)
    return frozenset(found - {"self"})


def spelled(function: Function) -> Function:
    """Wrap a function so that an unknown keyword argument is refused with the name that was meant."""
    known = parameters_of(function)
    if known is None:
        return function
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def called(*positional: Any, **arguments: Any) -> Any:
        """Call the function; name the argument that was meant where it knows none of that name."""
        try:
            return function(*positional, **arguments)
        except TypeError:
            unknown = next((given for given in arguments if given not in known), None)
            if unknown is None:
                raise
        raise unknown_argument(name, unknown, sorted(known))

    return cast(Function, called)


def spelled_class(cls: Class) -> Class:
    """Have the constructor of a class refuse unknown arguments with the name that was meant."""
    cls.__init__ = spelled(cls.__init__)  # type: ignore[misc]  # mypy takes an __init__ for fixed
    return cls
