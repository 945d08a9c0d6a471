"""Equal elements of arrays, which are computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hockeystick._arguments import Floats


def answered_once(
    columns: Sequence[NDArray[Any]], answer: Callable[..., tuple[NDArray[Any], ...]]
) -> tuple[NDArray[Any], ...]:
    """Answers to all rows of some columns, where equal rows are asked about once.

    An answer may take milliseconds and a comparison takes nanoseconds, so looking for equal rows costs
    next to nothing where there are none.

    Parameters
    ----------
    columns : sequence of ndarray, shape (n,)
        Floats or whole numbers of eight bytes, one row a question.
    answer : callable
        Called once with as many columns, their rows all different and in the order in which they first
        occur; returns a tuple of arrays with one entry a row.

    Returns
    -------
    tuple of ndarray, shape (n,)
        What `answer` returned, with one entry for each row of `columns`.
    """
    found = _distinct(columns)
    if found is None:
        return answer(*columns)
    first, places = found
    return tuple(values[places] for values in answer(*(column[first] for column in columns)))


def entries_answered_once(values: Floats, answer: Callable[[Floats], Floats]) -> Floats:
    """Answers of the shape of `values`, flat, where equal entries are asked about once."""
    (found,) = answered_once([values], lambda entries: (answer(entries),))
    return found


def _distinct(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Places at which each different row first occurs, and which of them every row is.

    None where all rows differ. Numbers are compared by their bits, so that nothing is taken for equal that
    might be answered in another way.
    """
    length = len(columns[0])
    if length < 2:
        return None
    codes: NDArray[np.int64] | None = None
    for column in columns:
        bits = np.ascontiguousarray(column).view(np.int64)
        if np.all(bits == bits[0]):
            continue
        _, ranks = np.unique(bits, return_inverse=True)
        # Ranks are below n, so that the code of a pair of them is below n squared and fits.
        codes = ranks if codes is None else np.unique(codes * length + ranks, return_inverse=True)[1]
    if codes is None:
        return np.zeros(1, dtype=np.intp), np.zeros(length, dtype=np.intp)
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    if len(first) == length:
        return None
    order = np.argsort(first)
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.arange(len(order))
    return first[order], ranks[places]
