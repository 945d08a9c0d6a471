"""One question for many runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hockeystick._arguments import as_numpy, choice, is_tensor
from hockeystick._curves.accounting import get_delta, get_epsilon
from hockeystick._curves.counting import get_group_size, get_steps
from hockeystick._curves.planning import get_noise_multiplier, get_sample_rate
from hockeystick._progress import Report, reporting
from hockeystick._tables import Table
from hockeystick._vocabulary.run import Run

QUESTIONS: dict[str, Callable[..., Any]] = {
    "epsilon": get_epsilon,
    "delta": get_delta,
    "noise_multiplier": get_noise_multiplier,
    "sample_rate": get_sample_rate,
    "steps": get_steps,
    "group_size": get_group_size,
}
"""The functions by what they find."""

PART = 64
"""Rows that are computed in one call, after which progress is reported."""

_IN_RUN = {"group_size": "records_per_person"}
"""Arguments of the functions that a run has under another name."""


RUN_FACTS = frozenset(field.name for field in dataclasses.fields(Run) if field.init)


def sweep(
    unknown: str, run: Run | None = None, *, progress: Report | bool | None = None, **arguments: Any
) -> Table:
    """Ask one question for many runs: every combination of the arguments that have several values.

    Parameters
    ----------
    unknown : {"epsilon", "delta", "noise_multiplier", "sample_rate", "steps", "group_size"}
        What to find: `get_epsilon` for "epsilon", and so on.
    run : Run, optional
        A run; arguments take the place of its facts.
    progress : callable or bool, optional
        Called with the numbers of rows that are done and of all rows; True draws a bar (with tqdm).
    **arguments
        Those of the function, each a single value or several. Lists, arrays, ranges and tuples are combined,
        each with each. Columns of a data frame (pandas or polars) vary together, row by row, and an index is
        kept.

    Returns
    -------
    Table
        A column for every argument that varies, and one with the answers: to print, to draw (``.plot()``), as
        a data frame (``.to_pandas()``) or as CSV (``.to_csv(path)``).

    Raises
    ------
    ValueError
        If an argument is out of range, or columns differ in length.
    TypeError
        If an argument has the wrong type, is unknown or missing.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.Run(sampling="poisson", batch_size=100, dataset_size=10_000, epochs=10, noise_multiplier=1.0)
    >>> print(hs.sweep("epsilon", run, delta=1e-5, noise_multiplier=[1.0, 2.0], group_size=[1, 8]))
    noise_multiplier  group_size  epsilon
                   1           1   1.8282
                   1           8   20.895
                   2           1  0.62203
                   2           8   6.4602
    """
    function = QUESTIONS[choice(unknown, "unknown", tuple(QUESTIONS))]
    arguments = {name: _plain(value) for name, value in arguments.items()}
    columns = {name: value for name, value in arguments.items() if _is_column(value)}
    lists = {
        name: list(value) for name, value in arguments.items() if name not in columns and _is_list(value)
    }
    fixed = {name: value for name, value in arguments.items() if name not in columns and name not in lists}
    rows, index = _rows(columns, lists)
    names = [*columns, *lists]
    answers: list[Any] = []
    with reporting(progress, f"sweep of {unknown}") as report:
        for start in range(0, len(rows), PART):
            part = rows[start : start + PART]
            answers += _answers(function, run, fixed, [dict(zip(names, row, strict=True)) for row in part])
            if report is not None:
                report(start + len(part), len(rows))
    found = {name: _array([row[place] for row in rows]) for place, name in enumerate(names)}
    varied = ", ".join(name.replace("_", " ") for name in names)
    common = [] if run is None else [f"{run!r} with other {varied}"]
    common += [f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in fixed.items()]
    return Table({**found, unknown: np.array(answers)}, index=index, answer=unknown, stated="; ".join(common))


def _in_words(value: object) -> str:
    """Return an argument for a title."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_column(value: object) -> bool:
    """Whether `value` is a column of pandas or polars."""
    kind = type(value)
    return kind.__module__.partition(".")[0] in ("pandas", "polars") and kind.__name__ == "Series"


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | range) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    """`value` as lists and numbers of NumPy, if it is a tensor of torch or JAX, or holds such scalars."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return as_numpy(value)[()] if is_tensor(value) else value


def _rows(
    columns: dict[str, Any], lists: dict[str, list[Any]]
) -> tuple[list[tuple[Any, ...]], list[Any] | None]:
    """Return the values of each row, and its label where columns have an index."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns must have one length, got {sorted(lengths)}")
    beside: Iterable[tuple[Any, ...]] = zip(*columns.values(), strict=True) if columns else [()]
    combined = list(itertools.product(*lists.values()))
    indexed = (column for column in columns.values() if type(column).__module__.startswith("pandas"))
    labels = next((list(column.index) for column in indexed), None)
    rows = [(*row, *other) for row in beside for other in combined]
    return rows, None if labels is None else [label for label in labels for _ in combined]


def _answers(
    function: Callable[..., Any], run: Run | None, fixed: dict[str, Any], rows: list[dict[str, Any]]
) -> list[Any]:
    """Return the answers for some rows: numbers that all rows have in one call where there is no run."""
    if run is not None:
        return [_one(function, run, {**fixed, **row}) for row in rows]
    together = [name for name in rows[0] if all(_is_number(row[name]) for row in rows)] if rows else []
    found: list[Any] = [None] * len(rows)
    groups: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        rest = tuple(_identity(value) for name, value in row.items() if name not in together)
        groups.setdefault(rest, []).append(place)
    for places in groups.values():
        given = dict(rows[places[0]])
        given |= {name: np.array([rows[place][name] for place in places]) for name in together}
        answers = np.broadcast_to(function(**fixed, **given), (len(places),))
        for place, answer in zip(places, answers.tolist(), strict=True):
            found[place] = answer
    return found


def _identity(value: Any) -> Any:
    """Return what only equal values have in common: not what they print as, which matrices share."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _one(function: Callable[..., Any], run: Run, given: dict[str, Any]) -> Any:
    """Return the answer for a run in which some facts are others."""
    own = {_IN_RUN.get(name, name): value for name, value in given.items()}
    changes = {name: value for name, value in own.items() if name in RUN_FACTS}
    rest = {name: value for name, value in given.items() if _IN_RUN.get(name, name) not in RUN_FACTS}
    return function(run.replace(**changes) if changes else run, **rest)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _array(values: list[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return values as a column: of numbers or strings, or of what they print as."""
    if all(_is_number(value) for value in values):
        return np.array(values)
    return np.array([value if isinstance(value, str) else repr(value) for value in values])
