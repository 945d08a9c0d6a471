"""Commands that say what was probably meant by an option that they do not have."""

from __future__ import annotations

import re
from typing import Any

from hockeystick._extras import needed
from hockeystick._vocabulary.spelling import suggestion
from hockeystick.cli.schemes import flag

click: Any = needed("click", "cli")


def _parse_args(command: Any, context: Any, arguments: list[str]) -> Any:
    """Read the arguments of a command; an unknown option that has another name here is answered with it."""
    try:
        return click.Command.parse_args(command, context, arguments)
    except click.NoSuchOption as error:
        names = [option.name for option in command.params]
        hint = hint_of_option(error.option_name.lstrip("-").replace("-", "_"), names)
        if not hint:
            raise
        raise click.UsageError(f"No such option '{error.option_name}'{hint}", context) from None


def hint_of_option(name: str, names: list[str]) -> str:
    """Return "; did you mean --...?" for a name that is no option, or nothing."""
    if name in ("output", "out", "file", "o") and "path" in names:
        return "; did you mean --path?"
    if "texts" in names:
        return f"; an argument of the function is given by --vary {name}=..."
    found = re.match(r"(; did you mean )(\w+)(.*)", suggestion(name, names))
    return "" if found is None else f"{found[1]}{flag(found[2])}{found[3]}"


Command: Any = type("Command", (click.Command,), {"parse_args": _parse_args})
"""A command of click with such answers."""
