"""Enclose delta of a record in a random bin that stays, under correlated noise (V20 to V22)."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import cycle, pairwise
from typing import NamedTuple

from flint import acb, acb_mat, arb, arb_mat, ctx

from hockeystick_verify.checker import (
    LARGEST_COUNT,
    NotProvenError,
    Object,
    RefusedError,
    choice,
    fields,
    items,
    members_of,
    normal_above,
    number,
    steps_of,
    whole,
)
from hockeystick_verify.parallel import mapped

CORRELATED = "correlated_gaussian"
LARGEST_BINS, LARGEST_EPOCHS = 10**4, 10**4
"""Most bins and epochs of a run: limits on what is read, before the work is known."""
LARGEST_REACH, LARGEST_NODES, LARGEST_STORED = 500, 2000, 3 * 10**6
"""Most points of the lattice on each side of 0, nodes of the contour, and entries of all densities."""
PRODUCTS_AN_ENTRY, EXPONENTIAL = 20, 3
"""Products that cost as much as an entry without an exponential of its own, and what one with it costs."""
LARGEST_WORK = 6 * 10**7
"""Most entries of 128 bits: about a minute."""
MOST_MOVED = 12
"""Equal bins up to which as many products with a real matrix take less than the squares of a complex one."""
SMALL = 32
"""Points of a lattice below which a product with a complex matrix takes less than two with a real one and
what surrounds them, some 16 microseconds for each bin."""
LARGE = acb(2**24, 2**24)
"""What entries are rounded next to; it costs 24 of the bits of a witness, some 90 more than are needed."""
BOXES, FARTHEST = 400, 10
"""Boxes in which the outer hyperbola is bounded, up to this parameter."""


# ---------------------------------------------------------------- V20: the chain of a run


class Chain(NamedTuple):
    """The Gaussian chain (x, H_b, ..., H_1) of a run of whole epochs; lists begin with the last bin, b."""

    bins: int
    epochs: int
    sigma: arb
    decay: arb
    excess: arb
    """alpha - lambda."""
    halves: list[arb]
    """G_a / 2 by bin."""
    turns: list[arb]
    """t_a - lambda t_(a+1) by bin."""
    mean_weight: arb
    stretch: arb
    """1 + w lambda^b for the mean weight w."""
    closing: arb
    """Variance of x (1 + w lambda^b) - w H_1; not used in a single epoch."""
    closing_turn: arb
    variance: arb
    """That of H_1, the largest of all."""

    @property
    def has_closing(self) -> bool:
        """Whether there is a coordinate x."""
        return self.epochs > 1

    @property
    def cost(self) -> arb:
        """B: turning by theta costs a factor e^(theta^2 B / 2)."""
        total = sum((turn**2 for turn in self.turns), arb(0)) / self.epochs
        return total + self.closing_turn**2 / self.closing if self.has_closing else total

    @property
    def coordinates(self) -> list[tuple[arb, arb]]:
        """Of each coordinate its weight r and the size of its entry of the pull."""
        own, next_one = (1 + self.decay) / self.epochs, self.decay * (1 + self.decay) / self.epochs
        each = [turn / self.epochs for turn in self.turns]
        rows = [[own, turn] for turn in each]
        for row, before in zip(rows, each[1:], strict=False):
            row[0] += next_one
            row[1] -= self.decay * before
        if self.has_closing:
            both, turn = self.stretch + self.mean_weight, self.closing_turn / self.closing
            rows[-1][0] += both * self.mean_weight / self.closing
            rows[-1][1] -= self.mean_weight * turn
            last = next_one + both * self.stretch / self.closing
            rows.append([last, self.stretch * turn - self.decay * each[0]])
        return [(weight, abs(pull)) for weight, pull in rows]


def sum_of_powers(base: arb, count: int) -> arb:
    """1 + base + base^2 + ..., so many terms."""
    return (1 - base**count) / (1 - base)


def chain_of(bins: int, epochs: int, sigma: arb, first: arb, decay: arb) -> Chain:
    """Return the chain of the coefficients 1, first, first decay, first decay^2, ... (V20)."""
    power, square = decay**bins, decay**2
    weights = [(1 - power**e) / (1 - power) for e in range(epochs + 1)]
    mean = sum(weights[:epochs], arb(0)) / epochs
    spread = sum(((w - mean) ** 2 for w in weights[:epochs]), arb(0))
    squares = sum((w**2 for w in weights[1:epochs]), arb(0))
    start = sum(((1 + first * decay ** (bins - 1) * w) ** 2 for w in weights[:epochs]), arb(0))
    start += first**2 * squares * sum_of_powers(square, bins - 1)
    ends = [first**2 * weights[epochs] ** 2 * sum_of_powers(square, after) for after in range(bins)]
    excess, length = first - decay, sum_of_powers(square, bins)
    shift = sigma / (1 + excess) if epochs > 1 else arb(0)
    shifts = [shift]
    for _ in range(bins):
        shifts.append(shift if epochs > 1 else sigma - excess * shifts[-1])
    stretch = 1 + mean * power
    return Chain(
        bins,
        epochs,
        sigma,
        decay,
        excess,
        [(start + end) / (2 * sigma**2) for end in ends],
        [here - decay * before for before, here in pairwise(shifts)],
        mean,
        stretch,
        spread * length,
        stretch * shift - mean * shift,
        length * (squares + weights[epochs] ** 2),
    )


def chain_of_run(run: object) -> tuple[Chain, bool]:
    """Return the chain of a run, with its last epoch complete, and whether it is."""
    run = fields(run, "run", "adjacency steps")
    items(run["steps"], "steps of a run with correlated noise", 1, 1)
    ((step, count),) = steps_of(run)
    mechanism = fields(step["mechanism"], "mechanism", "name noise_multiplier first decay")
    choice(mechanism["name"], "mechanism", CORRELATED)
    sigma = number(mechanism["noise_multiplier"], "noise_multiplier", 1e-3, 1e9)
    first, decay = (number(mechanism[name], name, 0.0, 2.0) for name in ("first", "decay"))
    if not (decay < 1 and first < 1 + decay):
        raise RefusedError("decay must be below 1, and first below 1 + decay")
    sampling = fields(step["sampling"], "sampling", "name batches")
    choice(sampling["name"], "sampling under correlated noise", "fixed_bins")
    bins = whole(sampling["batches"], "batches", 1, LARGEST_BINS)
    members = members_of(step["group"])
    if members.size > 1 or not members.alike:
        raise RefusedError("random bins under correlated noise are covered for one record of norm 1")
    epochs = whole(-(-min(count, LARGEST_COUNT) // bins), "epochs", 1, LARGEST_EPOCHS)
    return chain_of(bins, epochs, sigma, first, decay), count % bins == 0


# ---------------------------------------------------------------- V21: the Laplace transform of W


class Lattice(NamedTuple):
    """Numbers of a witness for the sums over every coordinate."""

    spacing: arb
    reach: int
    """Points on each side of 0."""
    shift: arb
    turn: arb
    """The angle theta by which all terms are turned."""
    alike: int
    """From so many bins before the last one on, all bins have one operator."""

    @property
    def size(self) -> int:
        """Number of points."""
        return 2 * self.reach + 1


def error_of(chain: Chain, lattice: Lattice, largest: arb) -> arb:
    """Bound the error of the sum, over e^(theta^2 B / 2), for arguments of s from 0 to `largest` (V21)."""
    away = lattice.turn.max(largest - lattice.turn)
    if not away + lattice.shift * (1 + abs(chain.excess)) / chain.sigma < arb.pi() / 2:
        raise NotProvenError("V21: the lattice is moved to where terms grow")
    step, moved, product = (-2 * arb.pi() * lattice.shift / lattice.spacing).exp(), lattice.shift, arb(1)
    rows, stiffest = chain.coordinates, arb(0)
    for weight, pull in rows:
        gain = (moved**2 * weight / 2 + moved * lattice.turn * pull).exp()
        product *= 1 + 2 * step * gain / (1 - step)
        stiffest = stiffest.max(weight)
    whole_sum = (-2 * arb.pi() ** 2 / (lattice.spacing**2 * stiffest)).exp()
    if not (step < 1 and whole_sum < 1):
        raise NotProvenError("V21: the lattice is too coarse")
    beyond = normal_above(lattice.reach * lattice.spacing / chain.variance.sqrt())
    ends: arb = 2 * len(rows) * beyond * (1 + 2 * whole_sum / (1 - whole_sum)) ** (len(rows) - 1)
    return product - 1 + ends


Turned = tuple[list[acb], list[acb]]
"""Factors of the points before and after a step of the chain, by which its density is turned."""


class Operators:
    """What the operators of a chain have in common for all s; they lack a factor e^(theta^2 B / 2)."""

    def __init__(self, chain: Chain, lattice: Lattice) -> None:
        self.chain, self.size, epochs = chain, lattice.size, chain.epochs
        points = [lattice.spacing * i for i in range(-lattice.reach, lattice.reach + 1)]
        self.columns = [(y / chain.sigma).exp() for y in points]
        self.rows = [(chain.excess * x / chain.sigma).exp() for x in points]
        alone = min(lattice.alike, chain.bins)
        moves = [[y - chain.decay * x for y in points] for x in points]
        kernels: list[tuple[arb, list[list[acb]], Turned]] = []

        def kernel(turn: arb) -> tuple[list[list[acb]], Turned]:
            """Density of H_a given H_(a+1), in rows, turned, and how; each is computed once."""
            for known, found, turned in kernels:
                if known.contains(turn):
                    return found, turned
            angle = acb(0, lattice.turn * turn / epochs)
            turned = [(-angle * chain.decay * x).exp() for x in points], [(angle * y).exp() for y in points]
            kernels.append((turn, gaussian_rows(moves, arb(epochs), lattice, turn / epochs), turned))
            return kernels[-1][1:]

        each = [(half, turn, 1) for half, turn in zip(chain.halves[:alone], chain.turns[:alone], strict=True)]
        if alone < chain.bins:
            half, turn = chain.halves[alone], chain.turns[alone]
            for other, its_turn in zip(chain.halves[alone:], chain.turns[alone:], strict=True):
                half, turn = half.union(other), turn.union(its_turn)
            each.append((half, turn, chain.bins - alone))
        self.groups = [(half, kernel(turn)[0], count) for half, turn, count in each]
        self.turned = [kernel(turn)[1] for _, turn, _ in each]
        self.is_plain = chain.excess.is_zero()
        if self.is_plain:
            still = gaussian_rows(moves, arb(epochs), lattice, arb(0))
            self.density = arb_mat([[rounded(entry).real for entry in row] for row in still])
            self.large = arb_mat([[LARGE.real] * self.size] * self.size)
        self.closing: list[list[acb]] = []
        if chain.has_closing:
            moves = [[chain.stretch * x - chain.mean_weight * y for y in points] for x in points]
            self.closing = gaussian_rows(moves, chain.closing, lattice, chain.closing_turn / chain.closing)

    def operator(self, rate: acb, kernel: list[list[acb]]) -> acb_mat:
        """Operator from H_(a+1), in rows, to H_a: a kernel with the factor of the bin."""
        found = []
        factors = [(rate * column).exp() for column in self.columns]
        for line, row in zip(kernel, self.rows, strict=True):
            if not self.chain.excess.is_zero():
                here = rate * row
                factors = [(here * column).exp() for column in self.columns]
            found.append([rounded(a * b) for a, b in zip(line, factors, strict=True)])
        return acb_mat(found)

    def moved(self, total: acb_mat) -> acb_mat:
        """Product with the density that is not turned: one real matrix for all bins and all s."""
        parts = [total.real, total.imag]
        if total.nrows() == self.size:
            parts = [part + self.large - self.large for part in parts]  # as in `rounded`
        real, imaginary = (acb_mat(part * self.density) for part in parts)
        return real + imaginary * acb(0, 1)

    def moved_by_bins(self, total: acb_mat, rate: acb, turned: Turned, count: int) -> acb_mat:
        """Product with the equal operators of so many bins whose factor does not depend on H_(a+1).

        Their density is turned at each point by itself, so that what is left to multiply is a real matrix,
        which takes half of the products of a complex one.
        """
        before, after = turned
        last = [a * (rate * column).exp() for a, column in zip(after, self.columns, strict=True)]
        between = [a * b for a, b in zip(last, before, strict=True)]
        for factors in (before, *[between] * (count - 1)):
            total = self.moved(scaled(total, factors))
        return scaled(total, last)

    def transform(self, rate: acb) -> acb:
        """Sum over the lattice for E[e^(-sW)], where the rate is -s e^(-i theta) / b."""
        total: acb_mat | None = None
        is_closed, has_real = self.chain.has_closing, self.is_plain and self.size >= SMALL
        for (half, kernel, count), turned in zip(self.groups, self.turned, strict=True):
            own = rate * (-half).exp()
            if is_closed and (total is None or not has_real or count > MOST_MOVED):
                operator = power(self.operator(own, kernel), count)
                total = operator if total is None else total * operator
                continue
            if total is None:
                total = acb_mat(1, self.size, [acb(i == self.size // 2) for i in range(self.size)])
            if has_real:
                total = self.moved_by_bins(total, own, turned, count)
                continue
            operator = self.operator(own, kernel)
            for _ in range(count):
                total = total * operator
        if total is None:
            return acb(0)
        rows = self.closing or [[acb(1)] * self.size]
        lines = zip(rows, total.table(), strict=True)
        return sum((a * b for row, line in lines for a, b in zip(row, line, strict=True)), acb(0))


def scaled(matrix: acb_mat, factors: list[acb]) -> acb_mat:
    """Multiply every column by its factor."""
    entries = [a * b for a, b in zip(matrix.entries(), cycle(factors), strict=False)]
    return acb_mat(matrix.nrows(), len(factors), entries)


def rounded(entry: acb) -> acb:
    """Return the ball with the digits that it has next to `LARGE`: products of small entries are faster."""
    return entry + LARGE - LARGE


def gaussian_rows(moves: list[list[arb]], variance: arb, lattice: Lattice, turn: arb) -> list[list[acb]]:
    """Density of N(0, variance) at each move u times e^(i theta turn u), for sums over the lattice."""
    scale = lattice.spacing / (2 * arb.pi() * variance).sqrt()
    phase = acb(0, lattice.turn * turn)
    return [[scale * (phase * u - u * u / (2 * variance)).exp() for u in row] for row in moves]


def power(matrix: acb_mat, count: int) -> acb_mat:
    """Product of so many equal matrices, by squaring."""
    if count == 1:
        return matrix
    half = power(matrix, count // 2)
    return half * half * matrix if count & 1 else half * half


def entries_of(chain: Chain, size: int, alike: int) -> int:
    """Work for one value of the transform, in entries of operators."""
    alone = min(alike, chain.bins)
    left = chain.bins - alone
    moved = (
        left if chain.has_closing and left <= MOST_MOVED and size >= SMALL and chain.excess.is_zero() else 0
    )
    products, entries = alone - 1, (alone + 2 + moved) * size**2
    if not chain.excess.is_zero():
        entries *= EXPONENTIAL
    if left:
        products += left.bit_length() + left.bit_count() - 1
    if chain.has_closing:
        return entries + products * size**3 // PRODUCTS_AN_ENTRY
    return entries + chain.bins * (1 + size**2 // PRODUCTS_AN_ENTRY)


# ---------------------------------------------------------------- V22: the integral


class Contour(NamedTuple):
    """The hyperbola s0 - mu sin(d - iu), with the spacing of u and the number of nodes after 0."""

    start: arb
    scale: arb
    angle: arb
    spacing: arb
    nodes: int

    def at(self, u: arb, angle: arb) -> acb:
        """Point of the hyperbola with this angle."""
        away = acb(angle.sin() * u.cosh(), -angle.cos() * u.sinh())
        return self.start - self.scale * away

    def speed(self, u: arb, angle: arb) -> acb:
        """ds/du over i mu."""
        return acb(angle.cos() * u.cosh(), angle.sin() * u.sinh())

    @property
    def outer(self) -> arb:
        """Bound the integral of |ds|/|s|^2 over the hyperbola with twice the angle."""
        angle, total, width = 2 * self.angle, arb(0), arb(FARTHEST) / BOXES
        first = self.at(arb(0), angle)
        for i in range(1, BOXES + 1):
            # The real part falls, the imaginary part and the speed grow.
            last = self.at(i * width, angle)
            nearest = last.real if last.real > 0 else -first.real if first.real < 0 else arb(0)
            speed = self.scale * abs(self.speed(i * width, angle))
            total += width * speed / (nearest**2 + first.imag**2)
            first = last
        beyond: arb = 1 / (self.scale * angle.cos() ** 2 * arb(FARTHEST).sinh())
        return 2 * (total + beyond)


def contour_of(witness: object) -> Contour:
    """Read the contour."""
    found = fields(witness, "contour", "start scale angle spacing nodes")
    start, scale, angle, spacing = (
        number(found[name], name, 1e-9, 1e9) for name in ("start", "scale", "angle", "spacing")
    )
    contour = Contour(start, scale, angle, spacing, whole(found["nodes"], "nodes", 1, LARGEST_NODES))
    if not (4 * contour.angle < arb.pi() and contour.scale * (2 * contour.angle).sin() < contour.start):
        raise NotProvenError("V22: the hyperbola must cross the axis to the right of 0")
    return contour


def lattice_of(witness: Object) -> Lattice:
    """Read the lattice."""
    found = fields(witness["lattice"], "lattice", "spacing reach shift turn alike")
    spacing, shift, turn = (number(found[name], name, 0.0, 1e9) for name in ("spacing", "shift", "turn"))
    if not (spacing > 0 and shift > 0):
        raise RefusedError("spacing and shift must be above 0")
    reach = whole(found["reach"], "reach", 1, LARGEST_REACH)
    return Lattice(spacing, reach, shift, turn, whole(found["alike"], "alike", 1, LARGEST_BINS))


class Transform(NamedTuple):
    """The Laplace transform of a run, without a factor, and the contour on which it is asked for."""

    chain: Chain
    lattice: Lattice
    contour: Contour
    operators: Operators


@lru_cache(maxsize=1)
def transform_of(text: str, _precision: int) -> Transform:
    """Read a run and its witness, and refuse what asks for more than is computed."""
    run, witness = json.loads(text)
    (chain, _), lattice, contour = chain_of_run(run), lattice_of(witness), contour_of(witness["contour"])
    work = entries_of(chain, lattice.size, lattice.alike) * (contour.nodes + 1)
    alone = 1 if chain.has_closing or chain.excess.is_zero() else min(lattice.alike, chain.bins)
    if work * ctx.prec > LARGEST_WORK * 128 or (alone + 1) * lattice.size**2 > LARGEST_STORED:
        raise RefusedError("the witness asks for more nodes, or points of the lattice, than are computed")
    return Transform(chain, lattice, contour, Operators(chain, lattice))


def value_of_job(job: tuple[str, int]) -> acb:
    """Sum over the lattice for one node of the contour; each process makes the operators for itself."""
    text, node = job
    found = transform_of(text, ctx.prec)
    rate = -acb(0, -found.lattice.turn).exp() / found.chain.bins
    return found.operators.transform(
        rate * found.contour.at(node * found.contour.spacing, found.contour.angle)
    )


@lru_cache(maxsize=2)
def transforms(text: str, _precision: int) -> tuple[list[acb], list[acb], arb]:
    """Nodes of the contour, E[e^(-sW)] there, and B."""
    chain, lattice, contour, _ = transform_of(text, ctx.prec)
    points = [contour.at(j * contour.spacing, contour.angle) for j in range(contour.nodes + 1)]
    cost = chain.cost
    error = error_of(chain, lattice, arb.pi() / 2 + contour.angle)
    ball, factor = acb((-error).union(error), (-error).union(error)), (lattice.turn**2 * cost / 2).exp()
    values = mapped(value_of_job, [(text, node) for node in range(contour.nodes + 1)])
    return points, [factor * (value + ball) for value in values], cost


def puts(run: object, witness: Object, strikes: list[arb]) -> list[arb]:
    """Enclose E[(K - W)_+] for each K (V22)."""
    points, values, cost = transforms(json.dumps([run, witness]), ctx.prec)
    contour, found = contour_of(witness["contour"]), []
    last, outer = contour.nodes * contour.spacing, contour.outer
    aliases = 2 * arb.pi() * ((2 * arb.pi() * contour.angle / contour.spacing).exp() - 1)
    inner = contour.start - contour.scale * (2 * contour.angle).sin()
    for strike in strikes:
        total = arb(0)
        for j, (s, value) in enumerate(zip(points, values, strict=True)):
            term = (strike * s).exp() * value * contour.speed(j * contour.spacing, contour.angle) / s**2
            total += term.real / 2 if j == 0 else term.real
        right = arb.pi() * (strike * contour.start).exp() / contour.start
        left = (2 * contour.angle**2 * cost + strike * inner).exp() * outer
        end = (contour.angle**2 * cost / 2 + strike * points[-1].real).exp()
        end /= arb.pi() * contour.angle.cos() * contour.at(last, contour.angle).imag
        error = (right + left) / aliases + end
        found.append(contour.scale * contour.spacing / arb.pi() * total + (-error).union(error))
    return found


def enclose(run: object, direction: str, witness: Object, epsilons: list[arb]) -> list[arb]:
    """Enclose delta of one ordered pair at each epsilon; if the last epoch is not complete, from above."""
    choice(direction, "direction under correlated noise", "add remove")
    _, is_complete = chain_of_run(run)
    if direction == "add":
        found = puts(run, witness, [(-epsilon).exp() for epsilon in epsilons])
        deltas = [epsilon.exp() * put for epsilon, put in zip(epsilons, found, strict=True)]
    else:
        found = puts(run, witness, [epsilon.exp() for epsilon in epsilons])
        deltas = [1 - epsilon.exp() + put for epsilon, put in zip(epsilons, found, strict=True)]
    return deltas if is_complete else [arb(0).union(delta) for delta in deltas]
