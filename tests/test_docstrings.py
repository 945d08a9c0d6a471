"""Every public name has an example that runs: in its docstring, or in that of its class."""

import functools
import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

import hockeystick as hs

MODULES = [
    "hockeystick",
    *(f"hockeystick.{name}" for name in hs.__all__ if inspect.ismodule(getattr(hs, name))),
    "hockeystick.datasets",
    "hockeystick.tradeoff",
    *(f"hockeystick.compat.{name}" for name in hs.compat.__all__),
]
OF_ANOTHER_LIBRARY = {"hockeystick.opacus", "hockeystick.dp_accounting"}
"""Their classes exist only where that library is installed."""


def functions_of(value: object) -> list[object]:
    """Functions behind an attribute of a class, none if it is data."""
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, functools.cached_property):
        return [value.func]
    return [value] if isinstance(value, property) or inspect.isroutine(value) else []


def examples(text: str | None) -> str:
    """Lines of code of the examples in a docstring."""
    return "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) (.*)$", text or "", re.MULTILINE))


def without_example(qualified: str, value: object) -> Iterator[str]:
    """Names of a function, or of a class and its members, that no example shows."""
    if inspect.isroutine(value) and not examples(value.__doc__):
        yield qualified
    if not inspect.isclass(value) or not value.__module__.startswith("hockeystick"):
        return
    if not examples(value.__doc__):
        yield qualified
    family = [each for each in value.__mro__ if each.__module__.startswith("hockeystick")]
    others = [each for each in value.__mro__ if each not in family and each is not object]
    # An object that is called shows how in the example of its class.
    shown = "\n".join(examples(each.__doc__) for each in family)
    members = {name: member for each in reversed(family) for name, member in vars(each).items()}
    for name, member in members.items():
        inherited = any(name in vars(each) for each in others)  # documented by the other library
        for function in functions_of(member) if not name.startswith("_") and not inherited else ():
            aliases = [other for other, same in members.items() if same is member]
            of_class = "__call__" in aliases or any(re.search(rf"\.{alias}\b", shown) for alias in aliases)
            if not examples(function.__doc__) and not of_class:
                yield f"{qualified}.{name}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.opacus) if each in OF_ANOTHER_LIBRARY else each
        for each in MODULES
    ],
)
def test_every_public_name_has_an_example(name: str) -> None:
    module = importlib.import_module(name)
    found = {each: getattr(module, each) for each in dir(module) if not each.startswith("_")}
    values = {each: value for each, value in found.items() if not inspect.ismodule(value)}
    assert values or name == "hockeystick.compat"
    missing = [text for each, value in values.items() for text in without_example(f"{name}.{each}", value)]
    assert not missing, f"no example in the docstring, nor in that of the class: {missing}"


def test_the_check_finds_names_without_examples() -> None:
    class Shown:
        """With an example.

        >>> Shown().shown
        1
        """

        shown = property(lambda self: 1)
        hidden = property(lambda self: 2)

        def method(self) -> None:
            """Without an example."""

    Shown.__module__ = "hockeystick.made_up"
    assert list(without_example("Shown", Shown)) == ["Shown.hidden", "Shown.method"]
    assert list(without_example("plain", test_every_public_name_has_an_example)) == ["plain"]
