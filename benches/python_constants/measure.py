"""What becomes of answers, and of their time, when one constant of the Python package has twice its value.

Runs with a copy of the packages in front of the path. This process does not import them itself: it is forked
for every variant, when everything else that they import is there.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path

from benches.constants.comparing import (
    MOST_LOST,
    MOST_SECONDS,
    SHORT,
    TIMES,
    Asked,
    Effect,
    Question,
    chosen,
    effect,
)
from benches.constants.source import Place
from benches.python_constants.source import Module, made_of, parsed, with_doubled, with_reads
from benches.python_constants.variant import Read, Worker, what_it_reads

BEFORE = ("numpy", "scipy.special", "scipy.optimize", "flint", "click", "matplotlib.pyplot", "dp_accounting")
"""What is imported once, in front of all variants; where one is missing, its questions end in an error."""

FASTER, SLOWER = 0.9, 1.1
"""Quotients of times beyond which a question is asked again, however long it takes."""
TOO_SLOW = 4.0
"""Questions that take more seconds of processor time are left out."""

Numbers = dict[Place, int]


def every_question() -> list[Question]:
    """Import the package, and make the questions."""
    found: list[Question] = importlib.import_module("benches.python_constants.questions").every()
    return found


def readers_of(folder: Path, numbers: Numbers, asked: list[int]) -> dict[int, set[int]]:
    """Return the questions that read each constant."""
    modules = parsed(folder)
    changed = {file: with_reads(module, numbers) for file, module in modules.items()}
    worker = Worker({file: tree for file, (tree, _) in changed.items()}, every_question, what_it_reads)
    found = {number: worker.ask(number) for number in asked}
    worker.end()
    reads = {number: read for number, read in found.items() if isinstance(read, Read)}
    readers: dict[int, set[int]] = {}
    for question, read in reads.items():
        for constant in read.constants:
            readers.setdefault(constant, set()).add(question)
    for base, made in made_of(modules.values(), numbers).items():
        readers.setdefault(base, set()).update(*(readers.get(each, set()) for each in made))
    outside: dict[int, set[str]] = {}
    for file, (_, constants) in changed.items():
        for constant in constants:
            outside.setdefault(constant, set()).add(str(folder / file))
    # Those that only the import of a file reads are read by whoever calls a function of that file.
    for constant, files in outside.items():
        if not readers.get(constant):
            readers[constant] = {question for question, read in reads.items() if files & read.files}
    return readers


def compare(number: int, plain: Worker, changed: Worker) -> tuple[Asked, Asked] | str:
    """Ask both variants in turns, so that they have the same machine, until their times are known."""
    found: list[Asked] = []
    for _ in range(TIMES):
        asked = [plain.ask(number), changed.ask(number)]
        for each in asked:
            if isinstance(each, str):
                return each
        seconds = [each.seconds for each in asked]
        best = [min(pair) for pair in zip(seconds, (each.seconds for each in found or asked), strict=True)]
        found = [Asked(each.answers, least) for each, least in zip(asked, best, strict=True)]
        slower = found[1].seconds / found[0].seconds
        if found[0].seconds > SHORT and FASTER < slower < SLOWER:
            break
    return found[0], found[1]


class Measuring:
    """Measures constants one after the other, beside the package as it is."""

    def __init__(self, folder: Path) -> None:
        for name in BEFORE:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self._modules: dict[str, Module] = parsed(folder)
        places = [(each.file, each.name) for module in self._modules.values() for each in module.constants]
        self._places = places
        self._plain = Worker({}, every_question)
        self._kinds = [Question(kind, list) for kind in self._plain.kinds]
        self._seconds: dict[int, float] = {}
        for number, question in enumerate(self._kinds):
            found = self._plain.ask(number)
            if isinstance(found, Asked) and found.seconds <= TOO_SLOW:
                self._seconds[number] = found.seconds
            else:
                print(f"left out: {number}, {question.kind}: {found!s:.80}", file=sys.stderr)
        numbers = {place: number for number, place in enumerate(places)}
        self._readers = readers_of(folder, numbers, list(self._seconds))
        read = sum(map(bool, self._readers.values()))
        print(f"{len(self._seconds)} questions; {read} of {len(places)} constants are read", file=sys.stderr)

    def effect(self, number: int) -> Effect:
        """Measure one constant."""
        readers = self._readers.get(number, set())
        if not readers:
            return effect([], 0)
        short = {each for each in readers if self._seconds[each] <= MOST_SECONDS}
        shortest = min(readers, key=self._seconds.__getitem__)
        asked = chosen(short or [shortest], self._kinds, self._seconds)
        file, name = self._places[number]
        worker = Worker({file: with_doubled(self._modules[file].tree, name)}, every_question)
        found: list[tuple[Asked, Asked] | str] = []
        for question in asked:
            found.append(compare(question, self._plain, worker))
            if sum(isinstance(each, str) for each in found) == MOST_LOST:
                break
        worker.end()
        print(f"{number} of {len(self._places)}", end="\r", file=sys.stderr)
        return effect(found, len(readers))

    def end(self) -> None:
        """End the process of the package as it is."""
        self._plain.end()


def main(folder: Path, numbers: list[int]) -> dict[int, Effect]:
    """Measure constants by their numbers."""
    measuring = Measuring(folder)
    effects = {number: measuring.effect(number) for number in numbers}
    measuring.end()
    return effects


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]), json.load(sys.stdin)), sys.stdout)
