"""Work spread over the workers of any executor, with answers in the order of the jobs.

A function, its jobs and its answers are pickled on the way. The function is named at the top of a module, so
that a worker that imports this package finds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hockeystick._arguments import shown

Answer = TypeVar("Answer")


ATTEMPTS = 4
"""Times that a job is given to a worker before its loss is an error."""

IN_FLIGHT = 256
"""Jobs that are submitted at a time: the others wait here, where they can still be cancelled."""

PARTS = 128
"""Parts of equal size that a long list is cut into: enough for tens of workers to end at one time."""


class _Outcome(NamedTuple):
    """What became of a job that a worker finished."""

    answer: Any
    error: Exception | None


def _run(function: Callable[..., Any], job: tuple[Any, ...], attempt: int) -> _Outcome:
    """Do a job on a worker. What the function itself raises is an answer, and would be the same elsewhere.

    `attempt` makes calls differ for schedulers that know a call by its arguments.
    """
    del attempt
    try:
        return _Outcome(function(*job), None)
    except Exception as error:
        return _Outcome(None, error)


def check_executor(executor: object) -> None:
    """Raise ``TypeError`` unless `executor` is None or can be given work as `concurrent.futures` do it."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}")


def slices(length: int, smallest: int = 1, largest: int | None = None) -> list[slice]:
    """Cut `length` elements into parts that depend on nothing else, of between these numbers of elements."""
    size = max(smallest, -(-length // PARTS))
    if largest is not None:
        size = min(size, largest)
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def check_floats(answer: object, what: str, shape: tuple[int, ...]) -> None:
    """Raise ``RuntimeError`` unless a worker's `answer` is a float64 array of this shape without NaN."""
    if not isinstance(answer, np.ndarray) or answer.dtype != np.float64 or answer.shape != shape:
        got = f"{answer.dtype} of shape {answer.shape}" if isinstance(answer, np.ndarray) else shown(answer)
        raise RuntimeError(
            f"a worker of the executor answered with {got} for {what}, which must be float64 of shape {shape}"
        )
    if np.any(np.isnan(answer)):
        place = np.unravel_index(int(np.argmax(np.isnan(answer))), shape)
        raise RuntimeError(
            f"a worker of the executor answered with nan for {what} at index {tuple(map(int, place))}"
        )


def check_bounds(answer: object, what: str, length: int) -> None:
    """Raise ``RuntimeError`` unless a worker's `answer` is a pair (lower, upper) of `length` numbers each."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(
            f"a worker of the executor answered with {shown(answer)} for {what}, "
            "which must be a pair (lower, upper)"
        )
    for end, name in zip(answer, ("lower", "upper"), strict=True):
        check_floats(end, f"the {name} bounds on {what}", (length,))
    lower, upper = answer
    bad = ~((lower >= 0.0) & (lower <= upper))
    if np.any(bad):
        place = int(np.argmax(bad))
        raise RuntimeError(
            f"a worker of the executor answered with [{lower[place]!s}, {upper[place]!s}] for {what} "
            f"at index {place}, which must be an interval of numbers >= 0"
        )


def ordered_map(
    executor: Executor,
    function: Callable[..., Answer],
    jobs: Iterable[tuple[Any, ...]],
    check: Callable[[Any, tuple[Any, ...]], None] | None = None,
) -> Generator[Answer, None, None]:
    """Yield ``function(*job)`` for each job, in the order of the jobs, computed by the executor.

    A job whose worker was lost is submitted again, ATTEMPTS times in all. On the way out, by an error or by
    Ctrl-C, what has not begun is cancelled. What comes back may be from a worker with other versions or with
    broken memory: ``check(answer, job)`` raises unless it can be an answer.

    Raises
    ------
    RuntimeError
        If a worker of a process pool died, which ends the pool, a job was lost too often, or a worker's
        answer cannot be one.
    Exception
        What the function raised.
    """
    waiting = iter(jobs)
    running: deque[tuple[tuple[Any, ...], Future[_Outcome]]] = deque()
    try:
        while True:
            while len(running) < IN_FLIGHT and (job := next(waiting, None)) is not None:
                running.append((job, _submit(executor, function, job, 1)))
            if not running:
                return
            job, future = running[0]
            outcome = _outcome(executor, function, job, future)
            running.popleft()
            if not isinstance(outcome, _Outcome):
                raise RuntimeError(
                    f"a worker of the executor answered with {shown(outcome)}, which is no outcome of a job"
                )
            if outcome.error is not None:
                raise outcome.error
            if check is not None:
                check(outcome.answer, job)
            yield outcome.answer
    finally:
        for _, future in running:
            future.cancel()


def _submit(
    executor: Executor, function: Callable[..., Any], job: tuple[Any, ...], attempt: int
) -> Future[_Outcome]:
    try:
        return executor.submit(_run, function, job, attempt)
    except BrokenExecutor as error:
        raise _broken() from error


def _outcome(
    executor: Executor, function: Callable[..., Any], job: tuple[Any, ...], future: Future[_Outcome]
) -> _Outcome:
    """Wait for a job, and submit it again where its worker was lost."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return future.result()
        except BrokenExecutor as error:
            raise _broken() from error
        # Functions' own errors are outcomes: this is the executor's, whose classes are as many as executors.
        except Exception as error:
            if attempt == ATTEMPTS:
                raise RuntimeError(
                    f"a part of the work was lost {ATTEMPTS} times, last by {type(error).__name__}: {error}"
                ) from error
        future = _submit(executor, function, job, attempt + 1)
    raise AssertionError("unreachable")


def _broken() -> RuntimeError:
    return RuntimeError(
        "a worker of the executor died, and the executor with it: make a new one and ask again, with fewer "
        "workers if memory ran out"
    )
