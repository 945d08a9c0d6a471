"""Tables in HTML: for notebooks and reports. Every text is escaped."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape

import numpy as np

from hockeystick._arguments import Floats
from hockeystick._rounding import rounded_up
from hockeystick.errors import OptimalOrderWarning, WideIntervalWarning

_ADDRESS = re.compile(r"https?://[\w./-]*[\w/]")
"""Addresses without a query, so that a text of the user has nothing to say in them."""

SHOWN_DELTAS = (1e-5, 1e-6, 1e-8)
"""At which deltas a notebook shows the epsilon of an object."""


def table(
    rows: Iterable[Sequence[object]],
    header: Sequence[object] = (),
    caption: str = "",
    *,
    named: bool = False,
    linked: bool = False,
) -> str:
    """Table of `rows` in HTML; `named` if the first cell of a row says what the others are.

    With `linked` addresses in cells are links.
    """
    cell = with_links if linked else _cell
    lines = ["<table>"]
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    if header:
        cells = "".join(f'<th scope="col">{_cell(name)}</th>' for name in header)
        lines.append(f"<thead><tr>{cells}</tr></thead>")
    lines.append("<tbody>")
    for first, *others in rows:
        start = f'<th scope="row">{cell(first)}</th>' if named else f"<td>{cell(first)}</td>"
        lines.append(f"<tr>{start}{''.join(f'<td>{cell(other)}</td>' for other in others)}</tr>")
    lines += ["</tbody>", "</table>"]
    return "\n".join(lines)


def with_links(value: object) -> str:
    """Return a text in HTML in which addresses of web pages are links."""
    return _ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', _cell(value))


def epsilons(ask: Callable[[Floats], Floats]) -> list[tuple[str, str]]:
    """Rows with the epsilon at some deltas, rounded up; none if they cannot be computed."""
    try:
        with warnings.catch_warnings():
            # What is shown holds all the same; a notebook should not warn because it shows something.
            warnings.simplefilter("ignore", WideIntervalWarning)
            warnings.simplefilter("ignore", OptimalOrderWarning)
            found = ask(np.array(SHOWN_DELTAS))
    except (ValueError, ArithmeticError):
        return []
    return [
        (f"epsilon at delta = {delta:g}", f"at most {rounded_up(float(epsilon))}")
        for delta, epsilon in zip(SHOWN_DELTAS, found, strict=True)
    ]


def _cell(value: object) -> str:
    return escape(str(value))
