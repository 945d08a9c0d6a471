"""The page of documentation about constants of the Python package."""

from pathlib import Path

from benches.constants.comparing import PATIENCE, TIMES, Effect
from benches.constants.page import known, row, with_facts, with_tables, worded
from benches.constants.source import Constant
from benches.python_constants.measure import TOO_SLOW

FASTER, SLOWER = 0.8, 1.25
"""Mean quotients of times that are worth a word, further from 1 than for the core: every question is asked
in a process of its own. Few constants that only limit what is refused have such a quotient."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-constants.md"

_HEAD = """# Constants of the Python package

[Constants](constants.md) of the core are measured on a page of their own. This one is about those of
`hockeystick` and of `hockeystick_verify`, the checker of certificates: names in capitals whose value is a
number, or a tuple or dict of numbers. What each is for stands beside it in the source. This page adds a
measurement: what becomes of the answers and of their time when one constant has {factor:g} times its
value, each of its numbers where it has several, and all others stay as they are.

`make python-constants` asks questions of three sorts: those of [Constants](constants.md), the examples of
all docstrings and of these pages, and certificates, of which it makes and checks random ones of every
scheme and checks those of [Certificates](certificates.md). They are {questions} in all; those that take
over {slow:g} s are left out, and so is what needs PyTorch, or dp-accounting where that is not installed.
Sources in which every function says what it reads tell the readers of a constant. Up to {most} of them,
for {seconds:g} s in all, or else the shortest one, are asked again, up to {times} times in turns with the
package as it is. A row stays until its constant has another value.

How to read the last column:

- **time ×1.3, up to ×4**: the geometric mean of the quotients of processor times, and the largest. Means
  from {faster:g} to {slower:g} and single quotients below {much_slower:g} are not told apart from the
  clock's noise.
- **width ×20, to 3e-5**: the relative width of a certified interval grew to that. A wide interval still
  holds.
- **numbers move by 2e-5**: the relative change of an upper end, or of a number that has no interval. Of a
  text its numbers count, and its length, so that tables and messages that change are seen here.
- **contradiction**: for so many questions the interval does not meet the one before. The constant is part
  of a bound or of a formula, and twice its value is wrong.
- **error**: questions that had an answer end in this error, do not end within {patience:g} seconds, or
  end the process. If the package cannot be imported, its error stands here.
- **nothing**: none of these. Twice the value would do as well for these questions; the reason in the
  source says what it is for.
- **not read**: none of the questions reads it, as it stands for a rarer case.

Versions of formats, types of files, sizes of pictures and the like are measured as all others are, and
have their values for other reasons.

{summary}

Measured on: {machine}.
"""


def write(found: list[Constant], effects: dict[int, Effect], questions: int) -> None:
    """Write the page: effects by the numbers of the constants, and what was known of all others."""
    said, rows = known(PAGE), {}
    for number, constant in sorted(enumerate(found), key=lambda pair: folder_of(pair[1])):
        if number in effects:
            words = worded(effects[number], FASTER, SLOWER)
            rows[constant] = f" {effects[number].questions} | {words} |"
        else:
            rows[constant] = said[row(constant)]
    others = {"questions": questions, "slow": TOO_SLOW, "times": TIMES, "patience": PATIENCE}
    head = with_facts(_HEAD, rows.values(), FASTER, SLOWER, **others)
    PAGE.write_text(with_tables(head, rows, folder_of), encoding="utf-8")


def folder_of(constant: Constant) -> str:
    """Return the folder of a constant's file, without those inside of the packages' own folders."""
    return "/".join(Path(constant.file).parent.parts[:2])
