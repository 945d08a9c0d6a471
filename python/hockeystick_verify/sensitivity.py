"""Runs with correlated Gaussian noise as plain steps (V25): one full batch, or Poisson samples in turns.

How far a record can move the encoded sum is derived from the matrix and from who may take part when. Stored
matrices are computed in whole numbers, Toeplitz matrices in balls. What a run costs is known before it is
computed.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, cast

from flint import arb, ctx

from hockeystick_verify.checker import (
    LARGEST_COUNT,
    Object,
    RefusedError,
    choice,
    exact,
    fields,
    items,
    members_of,
    number,
    whole,
)
from hockeystick_verify.stored_matrices import (
    LARGEST_ROWS,
    Square,
    Stored,
    largest_of_apart,
    stored,
    whole_above,
    whole_below,
)

CORRELATED_NOISE, SCALED = "correlated_noise", "scaled_gaussian"
"""Mechanisms: of a run in a certificate; and of the plain steps that it amounts to, in no certificate."""
LARGEST_COEFFICIENTS, LARGEST_BUFFERS, LARGEST_SIZE = 4096, 64, 1e9
"""Most coefficients that are given, and buffers; largest magnitude of an entry of a matrix."""
LARGEST_WORK = 2 * 10**6
"""Most products of balls for all entries of a run: a second or two, and as many balls in memory."""
BITS = 128
"""Bits of the arithmetic, whatever those of the witness are."""
PERIODS = {"fixed_order": "batches", "minimum_separation": "separation", "cyclic_poisson": "cycle"}
OPTIONS = {
    "full_batch": ("", "", ""),
    "fixed_order": ("batches", "members", "any apart"),
    "minimum_separation": ("separation", "participations", ""),
    "cyclic_poisson": ("sample_rate cycle", "members", "any together apart"),
}
"""Entries of a scheme that are needed, one that is not, and what it may say of members."""
NUMBERS = {"toeplitz": "coefficients", "blt": "scales decays", "lambda_cgd": "correlation", "matrix": "rows"}
"""Entries of a matrix by its form."""


# ---------------------------------------------------------------- reading: what a run is, and what it costs


class Scheme(NamedTuple):
    """Who takes part when."""

    name: str
    steps: int
    period: int
    """Steps between two of one record, or more for "minimum_separation"; at most those of the run."""
    places: int
    """Batches of a fixed order, or parts of a cycle."""
    often: int
    """Most steps of a record."""
    rate: float
    members: str

    @property
    def is_regular(self) -> bool:
        """Whether the steps of a record are exactly a period apart."""
        return self.name != "minimum_separation"

    @property
    def is_in_turns(self) -> bool:
        """Whether parts of the records are sampled in turns."""
        return self.name == "cyclic_poisson"


class Toeplitz(NamedTuple):
    """A Toeplitz matrix for a number of steps, by its form and numbers; coefficients are made later."""

    form: str
    numbers: tuple[float, ...]
    bands: int
    """Coefficients up to the last that is not 0, at most the steps of the run."""
    is_falling: bool
    """Whether coefficients never increase and are never below 0."""
    is_nonnegative: bool

    @property
    def cost(self) -> int:
        """Products that the coefficients take."""
        return self.bands * (1 + len(self.numbers) // 2 if self.form == "blt" else 1)

    def coefficients(self) -> list[arb]:
        """Return balls of all coefficients up to the last that is not 0."""
        if self.form == "toeplitz":
            return [arb(each) for each in self.numbers[: self.bands]]
        found = [arb(1)]
        if self.form == "prefix_sum_root":
            for t in range(1, self.bands):
                found.append(found[-1] * (2 * t - 1) / (2 * t))
        elif self.form == "lambda_cgd":
            for _ in range(1, self.bands):
                found.append(found[-1] * self.numbers[0])
        else:
            half = len(self.numbers) // 2
            terms, decays = [arb(scale) for scale in self.numbers[:half]], self.numbers[half:]
            for _ in range(1, self.bands):
                found.append(sum(terms, arb(0)))
                terms = [term * decay for term, decay in zip(terms, decays, strict=True)]
        return found


class CorrelatedRun(NamedTuple):
    """A run with correlated noise, read and checked."""

    matrix: Toeplitz | Stored
    scheme: Scheme
    group: int

    @property
    def is_apart(self) -> bool:
        """Whether members are known to be in different batches or parts."""
        return self.scheme.members == "apart" and self.group > 1

    @property
    def is_spread(self) -> bool:
        """Whether members may be in several parts of a cycle."""
        return self.scheme.is_in_turns and self.group > 1 and self.scheme.members != "together"

    @property
    def work(self) -> int:
        """Products that it takes, at most."""
        scheme, matrix = self.scheme, self.matrix
        if isinstance(matrix, Stored):
            return len(matrix.rows) ** 3
        if self.is_spread:
            return matrix.cost + matrix.bands**2
        if scheme.is_in_turns:
            return matrix.cost
        if self.is_apart:
            return matrix.cost + scheme.steps * (2 + scheme.period) + 2 * scheme.period**2
        if scheme.often == 1 or matrix.bands <= scheme.period:
            return matrix.cost
        if scheme.is_regular and not matrix.is_nonnegative:
            return matrix.cost + 2 * matrix.bands * (matrix.bands // scheme.period + 1)
        return matrix.cost + scheme.steps


def double(value: object, name: str, low: float, high: float) -> float:
    """Return a number in a range."""
    number(value, name, low, high)
    return float(cast("float", value))


def matrix_of(mechanism: Object, steps: int) -> Toeplitz | Stored:
    """Read the matrix of a mechanism with correlated noise, for so many steps."""
    forms = "toeplitz blt lambda_cgd prefix_sum_root matrix"
    form = choice(mechanism.get("form"), "form of a matrix", forms)
    fields(mechanism, "mechanism", f"name noise_multiplier form steps {NUMBERS.get(form, '')}")
    if form == "matrix":
        return stored(mechanism["rows"], steps, LARGEST_SIZE)
    if form == "toeplitz":
        given = items(mechanism["coefficients"], "coefficients", 1, LARGEST_COEFFICIENTS)
        return banded([double(each, "a coefficient", -LARGEST_SIZE, LARGEST_SIZE) for each in given], steps)
    if form == "prefix_sum_root":
        return Toeplitz(form, (), steps, True, True)
    if form == "lambda_cgd":
        base = double(mechanism["correlation"], "correlation", 0.0, 1.0)
        return Toeplitz(form, (base,), steps if base > 0.0 else 1, True, True)
    given = items(mechanism["scales"], "scales", 0, LARGEST_BUFFERS)
    scales = [double(each, "a scale", 0.0, LARGEST_SIZE) for each in given]
    given = items(mechanism["decays"], "decays", len(scales), len(scales))
    decays = [double(each, "a decay", 0.0, 1.0) for each in given]
    is_lasting = any(s > 0.0 and d > 0.0 for s, d in zip(scales, decays, strict=True))
    bands = steps if is_lasting else min(2 if any(scales) else 1, steps)
    is_falling = sum(map(Fraction, scales)) <= 1
    return Toeplitz(form, (*scales, *decays), bands, is_falling, True)


def banded(values: list[float], steps: int) -> Toeplitz:
    """Return the matrix of coefficients that are given."""
    if values[0] == 0.0:
        raise RefusedError("the first coefficient is not 0, as the matrix is inverted")
    bands = max(place for place, value in enumerate(values[:steps]) if value != 0.0) + 1
    values = values[:bands]
    # Behind the last one there are zeros, unless it is in the last row.
    is_falling = values[-1] > 0.0 and all(a >= b for a, b in pairwise(values))
    return Toeplitz("toeplitz", tuple(values), bands, is_falling, min(values) >= 0.0)


def scheme_of(sampling: Object, steps: int) -> Scheme:
    """Read who takes part when."""
    name = choice(sampling.get("name"), "sampling under correlated noise", " ".join(OPTIONS))
    needed, optional, who = OPTIONS[name]
    fields(sampling, "sampling", f"name {needed}", optional)
    members = choice(sampling["members"], "members", who) if "members" in sampling else "any"
    places = whole(sampling[PERIODS[name]], PERIODS[name], 1, LARGEST_COUNT) if name in PERIODS else 1
    period = min(places, steps)
    often = -(-steps // period)
    if "participations" in sampling:
        often = min(often, whole(sampling["participations"], "participations", 1, LARGEST_COUNT))
    rate = double(sampling.get("sample_rate", 1.0), "sample_rate", 0.0, 1.0)
    return Scheme(name, steps, period, places, often, rate, members)


def read_run(step: Object, is_replaced: bool) -> CorrelatedRun:
    """Read a step of a certificate that is a run with correlated noise; nothing of it is computed."""
    mechanism = step["mechanism"]
    steps = whole(mechanism.get("steps"), "steps of a run with correlated noise", 1, LARGEST_COUNT)
    number(mechanism.get("noise_multiplier"), "noise_multiplier", 1e-3, 1e9)
    members = members_of(step["group"])
    if not members.alike:
        raise RefusedError("groups under correlated noise have neither rates nor norms")
    matrix, scheme = matrix_of(mechanism, steps), scheme_of(step["sampling"], steps)
    run = CorrelatedRun(matrix, scheme, members.size)
    if run.is_apart and members.size > scheme.places:
        raise RefusedError("members who are apart are at most as many as there are batches, or parts")
    if scheme.is_in_turns and matrix.bands > scheme.period:
        raise RefusedError(
            "in turns, matrices are covered that have at most as many bands as the cycle steps"
        )
    if run.is_spread and not run.is_apart and is_replaced:
        raise RefusedError("replaced records of a group in any parts of a cycle are not covered")
    return run


# ---------------------------------------------------------------- Toeplitz matrices


def interval(ball: arb, attained: bool) -> Square:
    """Return a squared sensitivity as whole numbers with some forty digits."""
    middle, exponent = (int(each) for each in ball.upper().man_exp())
    places = max(0, BITS - exponent - middle.bit_length())
    upper = whole_above(ball, places)
    return Square(whole_below(ball, places) if attained else upper, upper, places, attained)


def squares(values: list[arb]) -> arb:
    """Sum of squares."""
    return sum((value * value for value in values), arb(0))


def moved(values: list[arb], scheme: Scheme) -> list[arb]:
    """Return the sum of the earliest columns, a period apart, as many as a record has steps."""
    period, end, bands = scheme.period, scheme.often * scheme.period, len(values)
    found: list[arb] = []
    for t in range(min(scheme.steps, end - period + bands)):
        total = values[t] if t < bands else arb(0)
        if t >= period:
            total = total + found[t - period]
        if end <= t < end + bands:
            total = total - values[t - end]
        found.append(total)
    return found


def without_overlap(values: list[arb], scheme: Scheme) -> arb:
    """Sum of the squared norms of the earliest columns, a period apart, none of which overlap."""
    steps, period, bands = scheme.steps, scheme.period, len(values)
    whole_columns = min(scheme.often, (steps - bands) // period + 1)
    found = whole_columns * squares(values)
    for place in range(whole_columns, scheme.often):
        found += squares(values[: steps - place * period])
    return found


def sum_of_magnitudes(values: list[arb], scheme: Scheme) -> tuple[arb, bool]:
    """Sum of the magnitudes of inner products of columns a period apart, and whether none is negative."""
    steps, period, bands, total, attained = scheme.steps, scheme.period, len(values), arb(0), True
    for distance in range(min(scheme.often, -(-bands // period))):
        gap = distance * period
        each = (a * b for a, b in zip(values, values[gap:], strict=False))
        sums = [arb(0), *accumulate(each)]
        # The later one of the two columns begins at the step `later * period`, and is cut at the last step.
        last_whole = (steps - bands + gap) // period
        number_whole = max(0, last_whole - distance + 1)
        used = [(sums[-1], number_whole)] if number_whole else []
        used += ((sums[steps - m * period], 1) for m in range(distance + number_whole, scheme.often))
        for product, times in used:
            total += (2 if distance else 1) * times * abs(product)
            attained = attained and bool(product >= 0)
    return total, attained


def falling_hull(values: list[arb]) -> list[arb]:
    """Return the least coefficients above the magnitudes of these that never increase."""
    return list(accumulate((abs(value) for value in reversed(values)), lambda a, b: a.max(b)))[::-1]


def one_record(matrix: Toeplitz, scheme: Scheme) -> Square:
    """Squared sensitivity to one record, or a bound of it."""
    values = matrix.coefficients()
    if scheme.often == 1:
        return interval(squares(values), True)
    if matrix.bands <= scheme.period:
        return interval(without_overlap(values, scheme), True)
    if matrix.is_falling or (scheme.is_regular and matrix.is_nonnegative):
        return interval(squares(moved(values, scheme)), True)
    if scheme.is_regular:
        return interval(*sum_of_magnitudes(values, scheme))
    if matrix.form == "toeplitz" and scheme.steps <= LARGEST_ROWS:
        rows = [
            [0.0] * max(0, s + 1 - matrix.bands) + list(matrix.numbers[s::-1]) for s in range(scheme.steps)
        ]
        return stored(rows, scheme.steps, LARGEST_SIZE).separated(scheme.period, scheme.often)
    return interval(squares(moved(falling_hull(values), scheme)), False)


def different_batches(matrix: Toeplitz, scheme: Scheme, members: int) -> Square:
    """Bound the squared sensitivity to records in different batches of a fixed order."""
    steps, batches = scheme.steps, scheme.period
    first = moved([abs(value) for value in matrix.coefficients()], scheme)
    first += [arb(0)] * (steps - len(first))
    lower, upper = ([[0] * batches for _ in range(batches)] for _ in range(2))
    for away in range(batches):
        sums = [arb(0), *accumulate(a * b for a, b in zip(first, first[away:], strict=False))]
        for r in range(batches - away):
            product = sums[steps - r - away]
            lower[r][r + away] = lower[r + away][r] = whole_below(product, 2 * BITS)
            upper[r][r + away] = upper[r + away][r] = whole_above(product, 2 * BITS)
    low, high, is_maximum = largest_of_apart(lower, upper, members)
    attained = is_maximum and matrix.is_nonnegative
    return Square(low if attained else high, high, 2 * BITS, attained)


def overlapping(matrix: Toeplitz, cycle: int, others: int) -> Square:
    """Bound the squared norm of a column with its inner products with the columns of so many other parts."""
    values = [abs(value) for value in matrix.coefficients()]
    lags = [
        whole_above(sum((a * b for a, b in zip(values, values[d:], strict=False)), arb(0)), 2 * BITS)
        for d in range(len(values))
    ]
    near = {d for lag in range(1, len(lags)) for d in (lag, cycle - lag) if 0 < d < cycle}
    beside = sorted(
        (sum(lags[d] for d in (away, cycle - away) if d < len(lags)) for away in near), reverse=True
    )
    bound = lags[0] + sum(beside[:others])
    return Square(bound, bound, 2 * BITS, False)


# ---------------------------------------------------------------- the plain steps of a run


class Part(NamedTuple):
    """Equal plain steps: their number, for so many members, with noise over the root of a square."""

    square: Square
    times: int
    members: int


def in_turns(run: CorrelatedRun) -> list[Part]:
    """Return the steps of a run in which parts of the records are sampled in turns."""
    matrix, scheme = run.matrix, run.scheme
    steps, cycle = scheme.steps, scheme.period
    turns = scheme.often
    if run.is_spread:
        others = min(run.group, cycle) - 1
        if isinstance(matrix, Stored):
            bound = matrix.overlap(cycle, others)
        else:
            bound = overlapping(matrix, cycle, others)
        return [Part(bound, turns * run.group, 1) if run.is_apart else Part(bound, turns, run.group)]
    if isinstance(matrix, Stored):
        return [Part(square, times, run.group) for square, times in matrix.in_turns(cycle)]
    values, left = matrix.coefficients(), steps - (turns - 1) * cycle
    if left >= len(values):
        return [Part(interval(squares(values), True), turns, run.group)]
    last = Part(interval(squares(values[:left]), True), 1, run.group)
    return [Part(interval(squares(values), True), turns - 1, run.group), last] if turns > 1 else [last]


def parts_of(run: CorrelatedRun) -> list[Part]:
    """Return the plain steps that reveal as much as a run with correlated noise, or more."""
    matrix, scheme = run.matrix, run.scheme
    if scheme.is_in_turns:
        return in_turns(run)
    if run.is_apart:
        if isinstance(matrix, Stored):
            return [Part(matrix.apart(scheme.period, run.group), 1, 1)]
        return [Part(different_batches(matrix, scheme, run.group), 1, 1)]
    if isinstance(matrix, Toeplitz):
        square = one_record(matrix, scheme)
    elif scheme.is_regular:
        square = matrix.at_offsets(scheme.period)
    else:
        square = matrix.separated(scheme.period, scheme.often)
    return [Part(square, 1, run.group)]


def require_affordable(runs: list[CorrelatedRun]) -> None:
    """Refuse runs that take more work together than is done."""
    if sum(run.work for run in runs) > LARGEST_WORK:
        raise RefusedError(f"runs with correlated noise take more than {LARGEST_WORK} products together")


@lru_cache(maxsize=128)
def derived(text: str) -> list[Part]:
    """Return the plain steps of a run that was read and is affordable, from its text."""
    with ctx.workprec(BITS):
        found = parts_of(read_run(json.loads(text), False))
    if not all(0 < part.square.lower <= part.square.upper for part in found):
        raise RefusedError("a sensitivity is not known to be above 0")
    return found


def plain_steps(step: Object) -> list[Object]:
    """Return a run with correlated noise, which was read and is affordable, as plain steps."""
    parts = derived(
        json.dumps({key: step[key] for key in ("mechanism", "sampling", "group")}, sort_keys=True)
    )
    rate, noise = step["sampling"].get("sample_rate"), step["mechanism"]["noise_multiplier"]
    sampling = {"name": "full_batch"} if rate is None else {"name": "poisson", "sample_rate": rate}
    return [
        {
            **step,
            "mechanism": {"name": SCALED, "noise_multiplier": noise, "square": list(part.square)},
            "sampling": sampling,
            "group": {"size": part.members},
            "count": step["count"] * part.times,
        }
        for part in parts
    ]


def is_scaled(step: Object) -> bool:
    """Whether a plain step is one of a run with correlated noise."""
    return bool(step["mechanism"].get("name") == SCALED)


def scaled_noise(mechanism: Object) -> arb:
    """Return the standard deviation of a plain step: the noise multiplier over the root of the square."""
    lower, upper, places, _ = mechanism["square"]
    ends = [exact(Fraction(end, 2**places)) for end in (lower, upper)]
    found: arb = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
    return found / ends[0].union(ends[1]).sqrt()


def is_bounded_only(run: Any) -> bool:
    """Whether a plain run has steps that reveal more, perhaps, than those of the certificate."""
    return any(is_scaled(step) and not step["mechanism"]["square"][-1] for step in run["steps"])
