"""The work on a certificate: reported as it is done, and shared among processes where the checker does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec

from hockeystick._arguments import require, require_type
from hockeystick._extras import needed
from hockeystick._progress import Report, reporting

PARTS = 100
"""Parts of the work that are reported."""
FIRST = 0.8
"""What the first of several ways to a proof is of the work that is left, as most need no other one."""


@contextmanager
def shared_work(progress: Report | bool | None, processes: int) -> Iterator[None]:
    """Report what is done in a block, and share it; a block inside of another one is a part of the latter."""
    require_type(processes, int, "processes")
    require(processes >= 1, "processes", processes, "at least 1")
    with reporting(progress, "certify") as report:
        if find_spec("flint") is not None:
            with needed("hockeystick_verify.parallel", "verify").working(report, processes, PARTS):
                yield
            return
        if report is not None:
            report(0, PARTS)
        yield
        if report is not None:
            report(PARTS, PARTS)


def stage(begin: float, end: float) -> AbstractContextManager[None]:
    """Count what is done in a block from this fraction of the present work to another one."""
    if find_spec("flint") is None:
        return nullcontext()
    found: AbstractContextManager[None] = needed("hockeystick_verify.parallel", "verify").stage(begin, end)
    return found
