"""Commands that say what was probably meant by an option that they do not have."""

from __future__ import annotations

import re
from typing import Any

from hockeystick._extras import needed
from hockeystick._vocabulary.spelling import suggested_value, suggestion
from hockeystick.cli._schemes import flag

click: Any = needed("click", "cli")


def _parse_args(command: Any, context: Any, arguments: list[str]) -> Any:
    """Read the arguments of a command; an unknown option that has another name here is answered with it."""
    try:
        return click.Command.parse_args(command, context, arguments)
    except click.NoSuchOption as error:
        names = [option.name for option in command.params]
        name = error.option_name.lstrip("-").replace("-", "_")
        hint = hint_of_option(name, names) or _of_answer(name, command.name)
        if not hint:
            raise
        raise click.UsageError(f"No such option '{error.option_name}'{hint}", context) from None


def hint_of_option(name: str, names: list[str]) -> str:
    """Return "; did you mean --...?" for a name that is no option, or nothing."""
    if name in ("output", "out", "file", "o") and "path" in names:
        return "; did you mean --path?"
    if "texts" in names:
        return f"; an argument of the function is given by --vary {name}=..."
    hint = suggestion(name, names)
    found = re.match(r"(; did you mean )(\w+)(.*)", hint)
    return hint if found is None else f"{found[1]}{flag(found[2])}{found[3]}"


def _of_answer(name: str, command: str) -> str:
    """Say that an option is what a command finds, if it is."""
    meant = {"eps": "epsilon", "target_epsilon": "epsilon", "target_delta": "delta"}.get(name, name)
    if meant != command or meant not in ("epsilon", "delta"):
        return ""
    return f": {command} finds it; noise --{meant} finds the noise for a target"


def _convert(choice: Any, value: Any, parameter: Any, context: Any) -> Any:
    """Return a value of a choice; an unknown one that has another name here is answered with it."""
    hint = suggested_value(choice.argument, value, choice.choices)
    if value not in choice.choices and hint:
        choice.fail(
            f"{value!r} is not one of {', '.join(map(repr, choice.choices))}{hint}", parameter, context
        )
    return click.Choice.convert(choice, value, parameter, context)


def _start(choice: Any, argument: str, choices: tuple[str, ...]) -> None:
    click.Choice.__init__(choice, choices)
    choice.argument = argument


NamedChoice: Any = type("NamedChoice", (click.Choice,), {"__init__": _start, "convert": _convert})
"""A choice of click with such answers, for an argument with that name."""

Command: Any = type("Command", (click.Command,), {"parse_args": _parse_args})
"""A command of click with such answers."""
