"""What becomes of answers, and of their time, when one constant has twice its value.

Runs with the variant of the core (`benches.constants.variant`) in place of the library. Constants are
measured in processes of their own, so that nothing is kept from one to the next, and one that breaks the
core breaks its process alone.
"""

import json
import sys
from collections.abc import Callable
from functools import partial

from benches.constants.comparing import (
    FACTOR,
    MOST_LOST,
    SEED,
    SHORT,
    TIMES,
    TOO_SLOW,
    Asked,
    Effect,
    Question,
    ask,
    chosen,
    effect,
    in_a_process,
)
from benches.constants.questions import drawn
from benches.constants.variant import Factors

EACH_KIND = 8
"""Questions of each kind."""


def compare(question: Question, multiply: Callable[[float], None]) -> tuple[Asked, Asked]:
    """Ask with the constant as it is and at twice its value, in turns, so that both have the same machine."""
    found: dict[float, Asked] = {}
    for _ in range(TIMES):
        for factor in (1.0, FACTOR):
            multiply(factor)
            asked = ask(question)
            best = min(asked.seconds, found[factor].seconds) if factor in found else asked.seconds
            found[factor] = Asked(asked.answers, best)
        if found[1.0].seconds > SHORT:
            break
    return found[1.0], found[FACTOR]


def measure(numbers: list[int], count: int) -> dict[int, Effect]:
    """Measure constants, of which there are `count` in all."""
    factors, questions = Factors(), drawn(EACH_KIND, SEED)

    def first(question: Question) -> tuple[float, set[int]]:
        factors.read_since(count)
        return ask(question).seconds, factors.read_since(count)

    readers: dict[int, set[int]] = {}
    seconds: dict[int, float] = {}
    for number, question in enumerate(questions):
        found = in_a_process(partial(first, question))
        if isinstance(found, str) or found[0] > TOO_SLOW:
            continue
        seconds[number] = found[0]
        for constant in found[1]:
            readers.setdefault(constant, set()).add(number)
    print(f"{len(seconds)} of {len(questions)} questions; {len(readers)} constants are read", file=sys.stderr)

    def again(constant: int, asked: list[int]) -> list[tuple[Asked, Asked]]:
        return [compare(questions[number], partial(factors.multiply, constant)) for number in asked]

    effects = {}
    for constant in numbers:
        asked = chosen(readers.get(constant, ()), questions, seconds)
        found = in_a_process(partial(again, constant, asked)) if asked else []
        if isinstance(found, str):  # one of them breaks the process: each has one of its own
            found = []
            for number in asked:
                part = in_a_process(partial(again, constant, [number]))
                found.append(part if isinstance(part, str) else part[0])
                if sum(isinstance(each, str) for each in found) == MOST_LOST:
                    break
        effects[constant] = effect(found, len(readers.get(constant, ())))
        print(f"{constant} of {count}", end="\r", file=sys.stderr)
    return effects


if __name__ == "__main__":
    asked_for = json.load(sys.stdin)
    json.dump(measure(asked_for["numbers"], asked_for["count"]), sys.stdout)
