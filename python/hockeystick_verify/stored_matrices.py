"""Squared sensitivities of stored matrices in whole numbers, and maxima over sets of steps (V25)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from flint import arb

from hockeystick_verify.checker import RefusedError, items, number

LARGEST_ROWS = 64
"""Most rows of a matrix that a certificate holds, so that it stays a file that is read at once."""
MOST_SETS = 20_000
"""Most sets of steps, or of batches, that are enumerated."""
MOST_ENUMERATED = 32
"""Most members of a group of which sets of batches are enumerated."""

Gram = list[list[int]]
"""Inner products of columns, in a unit."""


class Square(NamedTuple):
    """An interval of a squared sensitivity, in units of 2^-places."""

    lower: int
    upper: int
    places: int
    attained: bool
    """Whether some data sets attain it; otherwise both ends are one bound."""


def whole_above(x: arb, places: int) -> int:
    """Return the least whole number that is certainly not below x 2^places."""
    middle, exponent = (int(each) for each in x.upper().man_exp())
    shift = exponent + places
    return middle << shift if shift >= 0 else -(-middle >> -shift)


def whole_below(x: arb, places: int) -> int:
    """Return the largest whole number that is certainly not above x 2^places."""
    return -whole_above(-x, places)


# ---------------------------------------------------------------- sets of steps


def number_of_sets(steps: int, separation: int, most: int) -> int:
    """Return the number of sets of 1 to `most` steps, any two of which are `separation` or more apart."""
    sizes = range(1, most + 1)
    return sum(math.comb(max(0, steps - (size - 1) * (separation - 1)), size) for size in sizes)


def largest_of_sets(weights: Gram, separation: int, most: int, exactly: bool = False) -> tuple[int, bool]:
    """Largest sum of magnitudes over all pairs of a set, and whether one with no negative entry attains it.

    With `exactly`, of the sets of `most` steps alone, which are not kept apart.
    """
    steps, best, attained = len(weights), 0, False

    def extended(chosen: list[int], total: int, signs: bool) -> None:
        """Look at a set of steps and at all sets that continue it."""
        nonlocal best, attained
        if total > best or (total == best and signs):
            best, attained = total, signs
        if len(chosen) == most:
            return
        last = steps - (most - len(chosen) - 1 if exactly else 0)
        for step in range(chosen[-1] + separation if chosen else 0, last):
            row = [weights[step][other] for other in chosen]
            more = weights[step][step] + 2 * sum(map(abs, row))
            extended([*chosen, step], total + more, signs and all(each >= 0 for each in row))

    extended([], 0, True)
    return best, attained


def largest_sum(weights: list[int], separation: int, most: int) -> int:
    """Largest sum of numbers that are not negative over sets of at most `most` steps."""
    steps = len(weights)
    best = [0] * (steps + 1)
    for _ in range(most):
        found = [0] * (steps + 1)
        for step in range(steps - 1, -1, -1):
            found[step] = max(found[step + 1], weights[step] + best[min(step + separation, steps)])
        best = found
    return best[0]


def bound_of_sets(gram: Gram, separation: int, most: int) -> int:
    """Bound the sum of magnitudes over all pairs of a set: the best of each row, and the best rows."""
    rows = []
    for step, row in enumerate(gram):
        far = [abs(each) if abs(step - t) >= separation or step == t else 0 for t, each in enumerate(row)]
        rows.append(largest_sum(far, separation, most))
    return largest_sum(rows, separation, most)


def largest_of_apart(lower: Gram, upper: Gram, members: int) -> tuple[int, int, bool]:
    """Both ends of the largest sum over all pairs of a set of so many batches, and whether it is the maximum.

    Entries are not negative, and known from both sides. Larger sets have larger sums; of more members than
    there are batches in the run, the others take no part.
    """
    batches, rows = len(upper), []
    members = min(members, batches)
    if members <= MOST_ENUMERATED and math.comb(batches + 1, members) <= 2 * MOST_SETS:
        low, high = (largest_of_sets(gram, 1, members, exactly=True)[0] for gram in (lower, upper))
        return low, high, True
    for place, row in enumerate(upper):
        others = sorted((each for other, each in enumerate(row) if other != place), reverse=True)
        rows.append(row[place] + sum(others[: members - 1]))
    bound = sum(sorted(rows, reverse=True)[:members])
    return sum(map(sum, lower)) if members == batches else bound, bound, members == batches


# ---------------------------------------------------------------- stored matrices


class Stored(NamedTuple):
    """The entries of a lower-triangular matrix, row by row, in units of 2^-places."""

    rows: list[list[int]]
    places: int

    @property
    def bands(self) -> int:
        """Number of diagonals up to the last one with an entry that is not 0."""
        entries = ((s - t, entry) for s, row in enumerate(self.rows) for t, entry in enumerate(row))
        return max(away for away, entry in entries if entry) + 1

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative."""
        return all(entry >= 0 for row in self.rows for entry in row)

    def square(self, value: int, attained: bool) -> Square:
        """Return a sum of products of two entries as an interval."""
        return Square(value, value, 2 * self.places, attained)

    def gram(self) -> Gram:
        """Return the inner products of all columns."""
        steps, rows = len(self.rows), self.rows
        found = [[0] * steps for _ in range(steps)]
        for s in range(steps):
            for t in range(s + 1):
                found[s][t] = found[t][s] = sum(row[s] * row[t] for row in rows[s:])
        return found

    def at_offsets(self, period: int) -> Square:
        """Largest squared norm of what columns add up to that are exactly a period apart."""
        gram, best, attained = self.gram(), 0, False
        for offset in range(min(period, len(gram))):
            steps = range(offset, len(gram), period)
            entries = [gram[s][t] for s in steps for t in steps]
            total, signs = sum(map(abs, entries)), min(entries) >= 0
            if total > best or (total == best and signs):
                best, attained = total, signs
        return self.square(best, attained)

    def separated(self, separation: int, most: int) -> Square:
        """Largest squared norm of what columns add up to, any two of which are so far apart or more."""
        gram = self.gram()
        if most == 1 or self.bands <= separation:
            diagonal = [gram[s][s] for s in range(len(gram))]
            return self.square(largest_sum(diagonal, separation, most), True)
        if separation == 1 and most >= len(gram):
            return self.at_offsets(1)
        if number_of_sets(len(gram), separation, most) <= MOST_SETS:
            return self.square(*largest_of_sets(gram, separation, most))
        return self.square(bound_of_sets(gram, separation, most), False)

    def apart(self, batches: int, members: int) -> Square:
        """Bound the squared norm of what records add that are in different batches of a fixed order."""
        steps = len(self.rows)
        sums = [
            [sum(map(abs, row[offset::batches])) for row in self.rows]
            for offset in range(min(batches, steps))
        ]
        gram = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in sums] for one in sums]
        value, _, found = largest_of_apart(gram, gram, members)
        return self.square(value, found and self.is_nonnegative)

    def in_turns(self, cycle: int) -> list[tuple[Square, int]]:
        """Squared norms of the columns of the worst part, and how often; attained if one part has all."""
        steps, gram = len(self.rows), self.gram()
        turns = -(-steps // cycle)
        parts = []
        for part in range(min(cycle, steps)):
            norms = sorted((gram[s][s] for s in range(part, steps, cycle)), reverse=True)
            parts.append(norms + [0] * (turns - len(norms)))
        worst = [max(each) for each in zip(*parts, strict=True)]
        attained = worst in parts
        return [(self.square(norm, attained), worst.count(norm)) for norm in sorted(set(worst), reverse=True)]

    def overlap(self, cycle: int, others: int) -> Square:
        """Largest squared norm of a column with its inner products with the columns of other parts."""
        gram, best = self.gram(), 0
        for step, row in enumerate(gram):
            parts = [sum(map(abs, row[part::cycle])) for part in range(min(cycle, len(gram)))]
            own = parts.pop(step % cycle)
            best = max(best, own + sum(sorted(parts, reverse=True)[:others]))
        return self.square(best, False)


def stored(given: object, steps: int, largest: float) -> Stored:
    """Read the leading part of a matrix, for so many steps."""
    rows = [
        items(row, f"row {place} of a matrix", place + 1, place + 1)
        for place, row in enumerate(items(given, "rows", 1, LARGEST_ROWS))
    ]
    for entry in (entry for row in rows for entry in row):
        number(entry, "an entry of a matrix", -largest, largest)
    if any(row[-1] == 0 for row in rows):
        raise RefusedError("a matrix has no 0 on its diagonal, as it is inverted")
    if steps > len(rows):
        raise RefusedError("a run has more steps than its matrix has rows")
    entries = [[Fraction(float(entry)) for entry in row] for row in rows[:steps]]
    places = max(entry.denominator for row in entries for entry in row).bit_length() - 1
    return Stored([[int(entry * 2**places) for entry in row] for row in entries], places)
