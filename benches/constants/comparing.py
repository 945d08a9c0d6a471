"""What becomes of answers, and of their time: questions, the processes in which they are asked, and effects.

Nothing here imports the library, so that a process can begin with this and then take a variant of it.
"""

import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

Interval = tuple[float, float]

FACTOR = 2.0
SEED = 1
"""Where questions are drawn from, and chosen by."""
MOST_ASKED, MOST_OF_A_KIND = 12, 2
"""Questions that are asked again for one constant, of those that read it."""
TIMES, SHORT = 3, 0.1
"""How often a question that takes no more seconds is asked for its time, of which the shortest counts."""
TOO_SLOW, MOST_SECONDS = 1.0, 0.4
"""Questions that take more seconds of processor time are left out; and those of one constant may take so many
in all, unless it is only one."""
PATIENCE = 20.0
"""Seconds after which a process is ended."""
MOST_LOST = 2
"""Processes that are lost to one constant: it breaks the others, too."""
MEMORY = 8 << 30
"""Bytes that a process may have."""
CLOCK = 2e-5
"""Seconds that are added to times, of which shorter ones are not known well."""
ROUNDING = 1e-9
"""Relative difference that does not count: of widths, and between intervals that should meet."""


class Question(NamedTuple):
    """One question: what it is about, and how it is asked."""

    kind: str
    ask: Callable[[], list[Interval]]
    """Returns certified intervals; where a number alone is known, it is both ends."""


class Asked(NamedTuple):
    """What one question came to."""

    answers: list[Interval] | str
    """Or the type of the error."""
    seconds: float


class Effect(NamedTuple):
    """What a constant does at twice its value."""

    questions: int
    """How many questions read it."""
    asked: int
    """How many of them were asked again."""
    time: float
    """Geometric mean of the quotients of times."""
    slowest: float
    """Largest quotient of times."""
    width: float
    """Largest quotient of relative widths."""
    widest: float
    """The relative width of that answer."""
    apart: int
    """Questions whose two intervals do not meet: one of them is wrong."""
    moved: float
    """Largest relative change of an upper end, or of a number that has no interval."""
    errors: list[str]
    """Errors that questions ended in, which had an answer."""


def in_a_process(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a process of its own, or the word for why that ended."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send, args=(work, there))
    process.start()
    there.close()
    found: Any = "no end"
    if here.poll(PATIENCE):
        try:
            found = here.recv()
        except EOFError:
            found = "crash"
    process.kill()
    process.join()
    return found


def _send(work: Callable[[], Any], to: Connection) -> None:
    """Work where what is printed about a panic is not seen, and memory has an end."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    to.send(work())


def ask(question: Question) -> Asked:
    """Ask once in this process."""
    start = time.process_time()
    try:
        answers: list[Interval] | str = question.ask()
    except Exception as error:
        answers = type(error).__name__
    return Asked(answers, time.process_time() - start)


def width(interval: Interval) -> float:
    """Width of an interval over its larger end; 1 where nothing is known."""
    low, high = interval
    if low == high:
        return 0.0
    return min((high - low) / high, 1.0) if np.isfinite(high) and high > 0.0 else 1.0


def change(first: float, second: float) -> float:
    """Relative change of a number."""
    if first == second:
        return 0.0
    larger = max(abs(first), abs(second))
    return abs(first - second) / larger if np.isfinite(larger) else 1.0


def do_meet(first: Interval, second: Interval) -> bool:
    """Whether two intervals have a point in common, up to rounding."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    return not low - high > ROUNDING * max(abs(low), abs(high))


def effect(pairs: list[tuple[Asked, Asked] | str], readers: int) -> Effect:
    """Compare what questions came to before and after, or the words for why a process ended."""
    quotients, widths, apart, errors = list[float](), [(1.0, 0.0)], 0, set[str]()
    moved = 0.0
    for pair in pairs:
        if isinstance(pair, str):
            errors.add(pair)
            continue
        old, new = pair
        quotients.append((new.seconds + CLOCK) / (old.seconds + CLOCK))
        if isinstance(new.answers, str) or isinstance(old.answers, str):
            if new.answers != old.answers:
                errors.add(new.answers if isinstance(new.answers, str) else "an answer in place of an error")
            continue
        both = list(zip(old.answers, new.answers, strict=False))
        enclosed = [pair for pair in both if all(low < high for low, high in pair)]
        apart += not all(do_meet(known, found) for known, found in enclosed)
        moved = max([moved, *(change(known[1], found[1]) for known, found in both)])
        widths += [
            ((width(found) + ROUNDING) / (width(known) + ROUNDING), width(found)) for known, found in both
        ]
    times = quotients or [1.0]
    most = max(widths)
    mean = float(np.exp(np.mean(np.log(times))))
    return Effect(readers, len(pairs), mean, max(times), *most, apart, moved, sorted(errors))


def chosen(readers: Iterable[int], questions: list[Question], seconds: dict[int, float]) -> list[int]:
    """Choose some of the questions that read a constant, of as many kinds as there are, that take so long."""
    found: list[int] = []
    kinds: list[str] = []
    left = MOST_SECONDS
    for number in np.random.default_rng(SEED).permutation(sorted(readers)).tolist():
        kind = questions[number].kind
        is_short = seconds[number] <= left or not found
        if is_short and kinds.count(kind) < MOST_OF_A_KIND and len(found) < MOST_ASKED:
            kinds.append(kind)
            found.append(number)
            left -= seconds[number]
    return found
