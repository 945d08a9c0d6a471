"""The sums of `checker.serial_sums` in several processes, to the same balls."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any

from flint import acb, acb_mat, arb, ctx

from hockeystick_verify.checker import CHUNK, Nodes, Object, line_of
from hockeystick_verify.few_steps import rules_of
from hockeystick_verify.large_groups import composition_of, shortened

Ball = tuple[int, int, int, int]
"""Middle and radius as whole numbers times powers of two, which other processes can read."""
Done = Callable[[int, int], object]


def exported(ball: arb) -> Ball:
    """Whole numbers that say exactly which ball it is."""
    (m, e), (r, f) = ball.mid().man_exp(), ball.rad().man_exp()
    return int(m), int(e), int(r), int(f)


def imported(parts: Ball) -> arb:
    """Return the ball of `exported`."""
    before, ctx.prec = ctx.prec, 8192
    try:
        return arb(mid=arb(parts[:2]), rad=arb(parts[2:]))
    finally:
        ctx.prec = before


@lru_cache(maxsize=4)
def rules_of_job(text: str, _precision: int) -> list[Nodes]:
    """Make the rules of a run; the last ones are kept, as a process sums many parts of them."""
    run, direction, witness = json.loads(text)
    return rules_of(shortened(composition_of(run, direction, witness), witness).run.kinds, witness)


def some_sums(job: tuple[Object, str, Object, int, int]) -> list[list[tuple[Ball, Ball]]]:
    """Sum some nodes of a rule, which this process makes for itself."""
    run, direction, witness, place, start = job
    ctx.prec = witness["bits"]
    rule = rules_of_job(json.dumps([run, direction, witness]), ctx.prec)[place]
    rows = rule.sums(start, line_of(witness)).table()
    return [[(exported(z.real), exported(z.imag)) for z in row] for row in rows]


class Sums:
    """The sums of the rules of a run, in this process or in those of a pool; reports how many are done."""

    def __init__(self, pool: ProcessPoolExecutor | None, run: Object, direction: str, done: Done) -> None:
        self.pool, self.run, self.direction, self.done = pool, run, direction, done

    def __call__(self, witness: Object, rules: list[Nodes]) -> list[acb_mat]:
        """Sum the rules over all of their nodes, as `checker.serial_sums`; the order is always one."""
        line = line_of(witness)
        parts = [(place, start) for place, rule in enumerate(rules) for start in range(0, rule.count, CHUNK)]
        found: list[Any] = [None] * len(rules)
        jobs = [(self.run, self.direction, witness, *part) for part in parts]
        results = None if self.pool is None else self.pool.map(some_sums, jobs)
        for i, (place, start) in enumerate(parts):
            if results is None:
                total = rules[place].sums(start, line)
            else:
                rows = next(results)
                total = acb_mat([[acb(imported(x), imported(y)) for x, y in row] for row in rows])
            found[place] = total if found[place] is None else found[place] + total
            self.done(i + 1, len(parts))
        return found
