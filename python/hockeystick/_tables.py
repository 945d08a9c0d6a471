"""Tables of answers: columns with names, for notebooks, files and data frames."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick import _html
from hockeystick._arguments import require_type
from hockeystick._atomic import write_atomically

MOST_SHOWN = 60
"""Rows that are printed."""


class Table:
    """Named columns of equal length, as `sweep` and `plan` return them.

    Parameters
    ----------
    columns : mapping of str to sequence
        The columns, in their order.
    index : sequence, optional
        Labels of the rows: those of the data frame that the arguments came from.
    answer : str, optional
        The column that was computed from the others.
    caption : str, optional
        What the table is about.
    stated : str, optional
        What all rows have in common, for the title of a picture; by default the caption.

    Raises
    ------
    ValueError
        If columns differ in length.

    Examples
    --------
    >>> import hockeystick as hs
    >>> table = hs.sweep("epsilon", delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=1000)
    >>> print(table)
    noise_multiplier  epsilon
                   1   1.8282
                   2  0.62203
    >>> table["epsilon"].shape
    (2,)
    >>> table.columns, table.index, table.answer
    (('noise_multiplier', 'epsilon'), None, 'epsilon')
    >>> table.stated
    'delta 1e-05; sample rate 0.01; steps 1000'
    """

    __slots__ = ("_answer", "_caption", "_columns", "_index", "_stated")

    def __init__(
        self,
        columns: Mapping[str, Sequence[Any] | NDArray[Any]],
        *,
        index: Sequence[Any] | None = None,
        answer: str = "",
        caption: str = "",
        stated: str = "",
    ) -> None:
        require_type(columns, Mapping, "columns")
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns must have one length, got {sorted(lengths)}")
        self._index = None if index is None else list(index)
        if self._index is not None and lengths != {len(self._index)}:
            raise ValueError(f"index must have {lengths} labels, got {len(self._index)}")
        self._answer, self._caption, self._stated = answer, caption, stated or caption

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def index(self) -> list[Any] | None:
        """Labels of the rows, if they have some."""
        return self._index

    @property
    def answer(self) -> str:
        """Name of the column that was computed from the others."""
        return self._answer

    @property
    def stated(self) -> str:
        """What all rows have in common, in words."""
        return self._stated

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            raise KeyError(f"{name!r}; the columns are {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Rows as dicts of plain Python values."""
        lists = [values.tolist() for values in self._columns.values()]
        return (dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True))

    def to_pandas(self) -> Any:
        """Return a pandas data frame, with the index of the arguments.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> import hockeystick as hs
        >>> table = hs.sweep("epsilon", delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=9)
        >>> table.to_pandas()["epsilon"].max() < 1.0  # doctest: +SKIP
        True
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self._columns), index=self._index)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as CSV with all digits, and write it to a file if one is given.

        Parameters
        ----------
        path : str or path-like, optional
            File to write, replaced as a whole.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import hockeystick as hs
        >>> table = hs.sweep("steps", epsilon=1, delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=0.01)
        >>> for line in table.to_csv().splitlines():
        ...     print(line)
        noise_multiplier,steps
        1.0,254
        2.0,2433
        """
        stream = io.StringIO()
        import csv  # takes a millisecond, which starts should not pay

        writer = csv.writer(stream)
        first = [] if self._index is None else [""]
        writer.writerow([*first, *self._columns])
        for place, row in enumerate(self):
            label = [] if self._index is None else [self._index[place]]
            writer.writerow([*label, *row.values()])
        if path is not None:
            write_atomically(Path(os.fspath(path)), stream.getvalue().encode("utf-8"), private=False)
        return stream.getvalue()

    def plot(
        self, x: str | None = None, y: str | None = None, *, title: bool | str = False, ax: Any = None
    ) -> Any:
        """Draw one column against another, one line for each combination of the rest.

        Parameters
        ----------
        x : str, optional
            Column of the horizontal axis; by default the numeric one with the most values.
        y : str, optional
            Column of the vertical axis; by default the answer.
        title : bool or str, optional
            True for a title that states what all rows have in common, or its text.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        KeyError
            If there is no such column.
        ValueError
            If no column has numbers to draw against, or `title` is True and nothing is known in common.
        TypeError
            If `title` is neither a bool nor a string.
        ImportError
            If Matplotlib is not installed.

        Examples
        --------
        >>> import hockeystick as hs
        >>> table = hs.sweep("epsilon", delta=1e-5, noise_multiplier=[1.0, 2.0], sample_rate=0.01, steps=9)
        >>> axes = table.plot()  # doctest: +SKIP
        """
        return import_module("hockeystick.plot._tables").lines(self, x, y, title, ax)

    def __str__(self) -> str:
        rows = self._printed()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        if len(self) > MOST_SHOWN:
            lines.append(f"and {len(self) - MOST_SHOWN} further rows")
        return "\n".join([self._caption, *lines] if self._caption else lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, *rows = self._printed()
        return _html.table(rows, header, self._caption)

    def _printed(self) -> list[list[str]]:
        found = [[*([] if self._index is None else [""]), *self._columns]]
        for place, row in enumerate(self):
            if place == MOST_SHOWN:
                break
            label = [] if self._index is None else [str(self._index[place])]
            found.append([*label, *(_shown(value) for value in row.values())])
        return found


def _shown(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
