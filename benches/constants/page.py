"""The page of documentation about constants."""

from collections.abc import Callable, Iterable
from pathlib import Path

from benches.compare.machine import describe_machine
from benches.constants.comparing import FACTOR, MOST_ASKED, MOST_SECONDS, SEED, TOO_SLOW, Effect
from benches.constants.measure import EACH_KIND
from benches.constants.source import Constant, Place

PAGE = Path(__file__).resolve().parents[2] / "docs" / "constants.md"

SLOWER, MUCH_SLOWER, FASTER = 1.1, 1.5, 0.9
"""Quotients of times that are worth a word: the mean of all questions, the largest, and the mean again."""
WIDER, WIDE = 1.5, 1e-7
"""Quotient of relative widths that is worth a word, where the width is more than this."""
MOVED = 1e-6
"""Relative change of an upper end, or of an estimate, that is worth a word."""
LONGEST = 48
"""Signs of a value that are shown."""

_COLUMNS = ("| File | Constant | Value | Read by | At twice its value |", "|---|---|---|---|---|")
_HEAD = """# Constants

Searches, quadratures and bounds of the core have constants: how far a sum goes, how many terms a series
has, when a way to compute is tried. Each has a name, and its reason stands beside it in the source. This
page adds a measurement: what becomes of the answers and of their time when one constant has {factor:g}
times its value and all others stay as they are. [Constants of the Python package](python-constants.md) are
measured on a page of their own.

`make constants` compiles the core with every constant made a function, asks {each} random questions of each
of {kinds} kinds (seed {seed}; those that take over {slow:g} s are left out), notes which constants each one
reads, and asks up to {most} of the readers of a constant again, for {seconds:g} s in all, with it as it is
and at twice its value in turns. A row stays until its constant has another value: some are from a run with
fewer questions of each kind.

How to read the last column:

- **time ×1.3, up to ×4**: the geometric mean of the quotients of processor times, and the largest. Means
  from {faster:g} to {slower:g} and single quotients below {much_slower:g} are not told apart from the
  clock's noise.
- **width ×20, to 3e-5**: the relative width of a certified interval grew to that. A wide interval still
  holds.
- **numbers move by 2e-5**: the relative change of an upper end, or of an estimate. Both may hold.
- **contradiction**: for so many questions the interval does not meet the one before. The constant is part
  of a bound or of a formula, and twice its value is wrong.
- **error**: questions that had an answer end in this error, do not end within 20 seconds, or end the process.
- **nothing**: none of these. Twice the value would do as well for these questions; the reason in the source
  says what it is for.
- **not read**: none of the questions reads it, as it stands for a rarer case.
- **fixed**: the compiler must know it, as it is the length of an array or part of a pattern.

{summary}

Measured on: {machine}.
"""


def worded(effect: Effect | None, faster: float = FASTER, slower: float = SLOWER) -> str:
    """Say what a constant does at twice its value; None for one that stays.

    Mean quotients of times from `faster` to `slower` are not told apart from the clock's noise.
    """
    if effect is None:
        return "fixed"
    if not effect.questions:
        return "not read"
    found = []
    if effect.errors:
        found.append(f"error: {', '.join(effect.errors)}")
    if effect.apart:
        found.append(f"contradiction in {effect.apart} of {effect.asked}")
    if effect.width >= WIDER and effect.widest > WIDE:
        found.append(f"width ×{effect.width:.2g}, to {effect.widest:.0e}")
    if effect.moved >= MOVED and not effect.apart:
        found.append(f"numbers move by {effect.moved:.0e}")
    is_slower = effect.time >= slower or effect.slowest >= MUCH_SLOWER
    if is_slower or effect.time <= faster:
        peak = f", up to ×{effect.slowest:.2g}" if effect.slowest >= MUCH_SLOWER else ""
        found.append(f"time ×{effect.time:.2f}{peak}")
    return "; ".join(found) or "nothing"


def summary(words: Iterable[str]) -> str:
    """Say how many constants do what."""
    told = list(words)
    kinds = ("contradiction", "error", "width", "move", "time", "nothing", "not read", "fixed")
    counts = {kind: sum(kind in each for each in told) for kind in kinds}
    fixed = f", and\n{counts['fixed']} are fixed" if counts["fixed"] else ""
    return (
        f"Of {len(told)} constants {counts['contradiction']} lead to a contradiction, "
        f"{counts['error']} to an error, {counts['width']} to wider\nintervals, {counts['move']} to other "
        f"numbers and {counts['time']} to other times; {counts['nothing']} change nothing, "
        f"{counts['not read']} are not read{fixed}."
    )


def _value(constant: Constant) -> str:
    """Show a value, shortened, so that a table can hold it."""
    text = constant.value.replace("|", "\\|")
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def row(constant: Constant) -> str:
    """Return the beginning of a constant's row, which names it and its value."""
    return f"| `{constant.file}` | `{constant.name}` | {_value(constant)} |"


def known(page: Path = PAGE) -> dict[str, str]:
    """Return what a page says already, by the beginnings of the rows."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = (line.rsplit("|", 3) for line in text.splitlines() if line.startswith("| `"))
    return {f"{begin}|": f"{readers}|{words}|" for begin, readers, words, _ in rows}


def write(found: list[Constant], fixed: set[Place], effects: dict[int, Effect], kinds: int) -> None:
    """Write the page: effects by the numbers of the constants, and what was known of all others."""
    said, rows = known(), {}
    for number, constant in enumerate(found):
        if number in effects:
            is_fixed = (constant.file, constant.name) in fixed
            words = worded(None if is_fixed else effects[number])
            rows[constant] = f" {effects[number].questions} | {words} |"
        else:
            rows[constant] = said[row(constant)]
    head = with_facts(
        _HEAD, rows.values(), FASTER, SLOWER, each=EACH_KIND, kinds=kinds, seed=SEED, slow=TOO_SLOW
    )
    PAGE.write_text(with_tables(head, rows, _room_of), encoding="utf-8")


def with_facts(head: str, words: Iterable[str], faster: float, slower: float, **others: float) -> str:
    """Fill the head of a page with how constants were measured, and with the counts of their `words`."""
    return head.format(
        factor=FACTOR,
        most=MOST_ASKED,
        seconds=MOST_SECONDS,
        faster=faster,
        slower=slower,
        much_slower=MUCH_SLOWER,
        summary=summary(words),
        machine=describe_machine(),
        **others,
    )


def _room_of(constant: Constant) -> str:
    """Return the part of the core in which a constant is."""
    return constant.file.partition("/")[0].removesuffix(".rs")


def with_tables(head: str, rows: dict[Constant, str], room_of: Callable[[Constant], str]) -> str:
    """Return a page: its head, and a table for each room with the ends of the constants' rows."""
    lines, room = [head], ""
    for constant, words in rows.items():
        here = room_of(constant)
        if here != room:
            room = here
            lines += [f"\n## {room}\n", *_COLUMNS]
        lines.append(row(constant) + words)
    return "\n".join(lines) + "\n"
