"""How a trade-off function was built: nested tuples of an operation and its arguments, curves as such.

Everything here runs over the tuple without recursion, as chains of operations may be long.
"""

from __future__ import annotations

from typing import Any, TypeVar

Curve = TypeVar("Curve")
"""The type of the curves, whose methods are the operations."""

Recipe = tuple[Any, ...]
"""An operation and its arguments."""
Step = tuple[str, int, tuple[Any, ...]]
"""An operation, how many curves it takes, and its other arguments."""

MOST_SHOWN = 8
"""Most operations of a curve of which a notebook shows numbers."""

_LEAVES = {"gaussian", "laplace", "from_epsilon_delta", "from_points", "from_curve", "shuffle"}
_OF_TWO = {"compose", "minimum", "maximum"}


def steps_of(recipe: Recipe) -> tuple[Step, ...]:
    """Return the operations in the order in which a stack machine does them."""
    steps: list[Step] = []
    open_recipes = [recipe]
    while open_recipes:
        operation, *arguments = open_recipes.pop()
        curves = 0 if operation in _LEAVES else 2 if operation in _OF_TWO else 1
        steps.append((operation, curves, tuple(arguments[curves:])))
        open_recipes.extend(arguments[:curves])
    return tuple(reversed(steps))


def made(curve_type: type[Curve], steps: tuple[Step, ...]) -> Curve:
    """Return the curve of this type that `steps` make."""
    stack: list[Any] = []
    for operation, curves, arguments in steps:
        if operation == "shuffle":
            function, sampling, named = arguments
            stack.append(function(sampling, **dict(named)))
            continue
        if not curves:
            stack.append(getattr(curve_type, operation)(*arguments))
            continue
        others = [stack.pop() for _ in range(curves - 1)]
        first = stack.pop()
        if operation == "repeat":
            stack.append(first * int(arguments[0]))
            continue
        stack.append(getattr(first, operation)(*others, *arguments))
    found: list[Curve] = stack
    (curve,) = found
    return curve


def is_shuffled(recipe: Recipe) -> bool:
    """Whether a part of the curve is about the adversary who knows batch membership."""
    return any(operation == "shuffle" for operation, _, _ in steps_of(recipe))


def answers_at_once(recipe: Recipe) -> bool:
    """Whether questions about the curve take no time to speak of: few operations, none for groups."""
    steps = steps_of(recipe)
    return len(steps) <= MOST_SHOWN and all(operation != "group" for operation, _, _ in steps)


def words(recipe: Recipe) -> str:
    """Return the expression, as it is written."""
    stack: list[tuple[str, str]] = []
    for operation, curves, arguments in steps_of(recipe):
        if not curves:
            stack.append((operation, _leaf(operation, arguments)))
            continue
        inside = [stack.pop()[1] for _ in range(curves - 1)] + [f"{part:g}" for part in arguments]
        kind, first = stack.pop()
        if operation == "repeat":
            stack.append((operation, f"{first} * {arguments[0]}"))
            continue
        whole = f"({first})" if kind == "repeat" else first
        stack.append((operation, f"{whole}.{operation}({', '.join(inside)})"))
    ((_, text),) = stack
    return text


def _leaf(operation: str, arguments: tuple[Any, ...]) -> str:
    if operation == "shuffle":
        function, sampling, named = arguments
        text = ", ".join(f"{name}={value!r}" for name, value in named)
        return f"shuffle.{function.__name__}({sampling!r}, {text})"
    if operation == "from_points":
        return f"from_points of {len(arguments[0])} points"
    if operation == "from_curve":
        return f"from_curve({arguments[0]!r})"
    return f"{operation}({', '.join(f'{value:g}' for value in arguments)})"
