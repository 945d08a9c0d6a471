"""Work in parts: shared among processes, with the same balls for any number of them, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from itertools import repeat
from typing import Any

from flint import acb, acb_mat, arb, ctx

from hockeystick_verify.checker import CHUNK, Nodes, NotProvenError, Object, line_of
from hockeystick_verify.few_steps import rules_of
from hockeystick_verify.large_groups import composition_of, shortened

Report = Callable[[int, int], object]
"""Is called with how many parts of the work are done, and with their number."""
NOT_FINITE = "an enclosure is not finite: the witness asks for too few bits"
MOST_BITS = 8192
"""Bits that hold the middle of every ball: witnesses ask for half of them at most."""


class Work:
    """Processes that share the work, and how much of it is done; what is done never decreases."""

    def __init__(self, pool: ProcessPoolExecutor | None, report: Report | None, total: int) -> None:
        self.pool, self.report, self.total = pool, report, total
        self.begin, self.end, self.shown = 0.0, 1.0, -1

    def reach(self, fraction: float) -> None:
        """Report that this fraction of the present part is done, if that is news."""
        done = int(self.total * min(1.0, self.begin + fraction * (self.end - self.begin)) + 1e-9)
        if self.report is not None and done > self.shown:
            self.shown = done
            self.report(done, self.total)


CURRENT: ContextVar[Work | None] = ContextVar("CURRENT", default=None)
"""The work of which everything that is computed now is a part."""


@contextmanager
def working(report: Report | None, processes: int, total: int) -> Iterator[None]:
    """Share the work of a block among processes, and report it in so many steps; all is done at its end.

    A block without a report and with one process, inside of another block, is a part of the latter.
    """
    if report is None and processes == 1 and CURRENT.get() is not None:
        yield
        return
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        work = Work(pool, report, total)
        token = CURRENT.set(work)
        try:
            work.reach(0.0)
            yield
            work.begin, work.end = 0.0, 1.0
            work.reach(1.0)
        finally:
            CURRENT.reset(token)


@contextmanager
def stage(begin: float, end: float) -> Iterator[None]:
    """Count what is done in a block as a part of the present one, from a fraction of it to another."""
    work = CURRENT.get()
    if work is None:
        yield
        return
    before = work.begin, work.end
    size = before[1] - before[0]
    work.begin, work.end = before[0] + begin * size, before[0] + end * size
    try:
        yield
        work.reach(1.0)
    finally:
        work.begin, work.end = before


def mapped(function: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """Yield ``function(job)`` for each job, in order: a named function of plain data, with balls as answers.

    Balls that come back from another process may have a radius that is larger by its last bit. Those of this
    process are treated in the same way, so that results do not depend on who computed them.
    """
    work, bits = CURRENT.get(), ctx.prec
    pool = None if work is None or len(jobs) < 2 else work.pool
    answers: Iterator[Any]
    if pool is None:
        answers = (with_bits(settled, with_bits(function, job, bits)) for job in jobs)
    else:
        each = zip(repeat(function), repeat(bits), jobs, strict=False)
        answers = map(unpacked, pool.map(answer_of, list(each)))
    for i, answer in enumerate(answers):
        ctx.prec = bits
        yield answer
        if work is not None:
            work.reach((i + 1) / len(jobs))


def reported(parts: Iterable[Any], count: int) -> Iterator[Any]:
    """Yield so many parts of the work, and report each when the next one is asked for."""
    for i, each in enumerate(parts):
        yield each
        if (work := CURRENT.get()) is not None:
            work.reach((i + 1) / count)


def answer_of(asked: tuple[Callable[[Any], Any], int, Any]) -> Any:
    """Compute one answer with so many bits, as whole numbers that other processes can read."""
    function, ctx.prec, job = asked
    return packed(function(job))


def with_bits(function: Callable[[Any], Any], given: Any, bits: int = MOST_BITS) -> Any:
    """Call a function with so many bits, and go back to the bits of before."""
    before, ctx.prec = ctx.prec, bits
    try:
        return function(given)
    finally:
        ctx.prec = before


def packed(answer: Any) -> Any:
    """Return nested lists in which every ball is a tuple of whole numbers: a middle and a radius, or two."""
    if isinstance(answer, arb):
        if not answer.is_finite():
            raise NotProvenError(NOT_FINITE)
        (m, e), (r, f) = answer.mid().man_exp(), answer.rad().man_exp()
        return int(m), int(e), int(r), int(f)
    if isinstance(answer, acb):
        return *packed(answer.real), *packed(answer.imag)
    return [packed(each) for each in answer] if isinstance(answer, list | tuple) else answer


def unpacked(answer: Any) -> Any:
    """Return what was packed: balls that contain those of before, and lists."""
    return with_bits(_unpacked, answer)


def _unpacked(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_unpacked(each) for each in answer]
    if isinstance(answer, tuple) and len(answer) == 8:
        return acb(_ball(*answer[:4]), _ball(*answer[4:]))
    return _ball(*answer) if isinstance(answer, tuple) else answer


def _ball(m: int, e: int, r: int, f: int) -> arb:
    middle = arb((m, e))
    return arb(mid=middle, rad=arb((r, f))) if r else middle


def settled(answer: Any) -> Any:
    """Return what an answer is after it was packed and unpacked, without the whole numbers."""
    if isinstance(answer, arb):
        return _settled(answer)
    if isinstance(answer, acb):
        return acb(_settled(answer.real), _settled(answer.imag))
    return [settled(each) for each in answer] if isinstance(answer, list | tuple) else answer


def _settled(ball: arb) -> arb:
    if not ball.is_finite():
        raise NotProvenError(NOT_FINITE)
    return ball.mid() if ball.is_exact() else arb(mid=ball.mid(), rad=ball.rad())


@lru_cache(maxsize=4)
def rules_of_job(text: str, _precision: int) -> list[Nodes]:
    """Make the rules of a run; the last ones are kept, as a process sums many parts of them."""
    run, direction, witness = json.loads(text)
    return rules_of(shortened(composition_of(run, direction, witness), witness).run.kinds, witness)


def some_sums(job: tuple[str, int, int]) -> list[list[acb]]:
    """Sum some nodes of a rule, which every process makes for itself."""
    text, place, start = job
    rule, line = rules_of_job(text, ctx.prec)[place], line_of(json.loads(text)[2])
    rows: list[list[acb]] = rule.sums(start, line).table()
    return rows


class Sums:
    """The sums of the rules of a run, in parts."""

    def __init__(self, run: Object, direction: str) -> None:
        self.run, self.direction = run, direction

    @property
    def is_shared(self) -> bool:
        """Whether several processes share the parts."""
        work = CURRENT.get()
        return work is not None and work.pool is not None

    def __call__(self, witness: Object, rules: list[Nodes]) -> list[acb_mat]:
        """Sum the rules over all of their nodes, as `checker.serial_sums`; the order is always one."""
        text = json.dumps([self.run, self.direction, witness])
        parts = [(place, start) for place, rule in enumerate(rules) for start in range(0, rule.count, CHUNK)]
        found: list[Any] = [None] * len(rules)
        each = zip(parts, mapped(some_sums, [(text, *part) for part in parts]), strict=True)
        for (place, _), rows in each:
            total = acb_mat(rows)
            found[place] = total if found[place] is None else found[place] + total
        return found
