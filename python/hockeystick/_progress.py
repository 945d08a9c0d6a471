"""A progress argument: nothing, a function, or True for a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Report: TypeAlias = Callable[[int, int], object]


@contextmanager
def reporting(progress: Report | bool | None, title: str) -> Iterator[Report | None]:
    """Give the function (done, total) that `progress` stands for; a bar is closed at the end."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar(title) as report:
            yield report
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            "progress must be a function of (done, total), True for a bar, or None, "
            f"got {type(progress).__name__}"
        )


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True draws its bar with tqdm: pip install tqdm") from None
    with tqdm(desc=title, unit_scale=True) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report
