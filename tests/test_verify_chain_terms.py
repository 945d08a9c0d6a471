"""Every term of the bounds of V20 to V22, once more from the page and from the matrix of the noise."""

import json
import math

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx

from hockeystick_verify import NotProvenError, correlated


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    with mpmath.workdps(30):
        yield
    ctx.prec = before


def chain_of(bins, epochs, sigma, first, decay):
    return correlated.chain_of(bins, epochs, arb(sigma), arb(first), arb(decay))


def lattice_of(spacing, reach, shift, turn, alike=50):
    return correlated.Lattice(arb(spacing), reach, arb(shift), arb(turn), alike)


def run_of(bins, count, sigma=2.0, first=0.5, decay=0.5):
    noise = {"name": "correlated_gaussian", "noise_multiplier": sigma, "first": first, "decay": decay}
    each = {"mechanism": noise, "sampling": {"name": "fixed_bins", "batches": bins}, "group": {"size": 1}}
    return {"adjacency": "remove", "steps": [each | {"count": count}]}


WITNESS = {
    "lattice": {"spacing": 1.2, "reach": 7, "shift": 0.4, "turn": 0.8, "alike": 5},
    "contour": {"start": 2.0, "scale": 2.1, "angle": 0.3, "spacing": 0.5, "nodes": 6},
}


# ---- V21


def precision_and_shift(bins, epochs, sigma, first, decay):
    """Precision matrix of (x, H_b, ..., H_1), and the shift that adds 1 to every loss, by definition."""
    steps = bins * epochs
    rows = np.zeros((steps + 1, steps))
    for t in range(steps - 1, -1, -1):
        rows[t] = decay * rows[t + 1] + np.eye(steps)[t]
    sums = [rows[a:steps:bins].sum(axis=0) for a in range(bins)]
    last = [rows[bins:steps:bins].sum(axis=0)] if epochs > 1 else []
    values = np.array([*last, *sums[::-1]])
    covariances, shifts = values @ values.T, [sigma / (1 + first - decay) if epochs > 1 else 0.0]
    for _ in range(bins):
        shifts.append(sigma - (first - decay) * shifts[-1])
    shift = np.array(shifts if epochs > 1 else shifts[1:])
    return np.linalg.inv(covariances), shift, covariances.diagonal().max()


def stated_error(chain, spacing, reach, moved, turn):
    """The bound of V21 over e^(theta^2 B / 2)."""
    bins, epochs, _, _, decay = chain
    matrix, shift, variance = precision_and_shift(*chain)
    weights = [(1 + decay) ** 2 / epochs] * (bins - 1) + [(1 + decay) / epochs]
    if epochs > 1:
        w = [(1 - decay ** (bins * q)) / (1 - decay**bins) for q in range(epochs)]
        mean = sum(w) / epochs
        closing = sum(decay ** (2 * d) for d in range(bins)) * sum((each - mean) ** 2 for each in w)
        stretch = 1 + mean * decay**bins
        weights[-1] += (stretch + mean) * mean / closing
        weights = [decay * (1 + decay) / epochs + (stretch + mean) * stretch / closing, *weights]
    q, product = math.exp(-2 * math.pi * moved / spacing), 1.0
    for r, pull in zip(weights, np.abs(matrix @ shift), strict=True):
        product *= 1 + 2 * q * math.exp(moved**2 * r / 2 + moved * turn * pull) / (1 - q)
    whole = math.exp(-2 * math.pi**2 / (spacing**2 * max(weights)))
    beyond = float(mpmath.ncdf(-reach * spacing / math.sqrt(variance)))
    number = len(weights)
    return product - 1 + 2 * number * beyond * (1 + 2 * whole / (1 - whole)) ** (number - 1)


CHAINS = [(3, 2, 2.0, 0.5, 0.3), (1, 3, 2.0, 0.9, 0.4), (2, 1, 1.5, 0.2, 0.6), (4, 1, 2.0, 0.7, 0.0)]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("lattice", [(2.5, 2, 0.5, 0.3), (1.0, 3, 0.3, 0.6), (4.0, 9, 0.6, 0.2)])
def test_errors_of_the_lattice_are_those_of_the_page(chain, lattice):
    spacing, reach, shift, turn = lattice
    given = lattice_of(spacing, reach, shift, turn)
    found = float(correlated.error_of(chain_of(*chain), given, arb(turn + 0.1)))
    assert found == pytest.approx(stated_error(chain, *lattice), rel=1e-9)


@pytest.mark.parametrize(
    ("chain", "lattice", "largest"),
    [
        ((2, 2, 2.0, 0.5, 0.5), (0.3, 40, 0.3, 1.5), 1.6),  # arguments far below the turn
        ((2, 2, 2.0, 0.5, 0.5), (0.3, 40, 0.3, 0.1), 1.6),  # and far above it
        ((2, 2, 2.0, 0.9, 0.1), (0.3, 40, 2.0, 0.0), 0.0),  # g moves by 1.8 of the shift
        ((2, 2, 2.0, 0.0, 0.8), (0.3, 40, 2.0, 0.0), 0.0),
    ],
)
def test_lattices_for_which_terms_grow_are_not_believed(chain, lattice, largest):
    with pytest.raises(NotProvenError, match="V21: the lattice is moved"):
        correlated.error_of(chain_of(*chain), lattice_of(*lattice), arb(largest))


def test_arguments_of_all_nodes_are_within_the_lattice_s_reach():
    # The nodes have arguments of up to pi/2 + 0.3; were it pi/2, this shift would do.
    lattice = WITNESS["lattice"] | {"turn": 0.5, "shift": 0.6}
    with pytest.raises(NotProvenError, match="V21: the lattice is moved"):
        correlated.transforms(json.dumps([run_of(1, 1, decay=0.5), WITNESS | {"lattice": lattice}]), ctx.prec)


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "epochs"), [(1, 1), (1, 2)])
def test_transforms_have_the_factor_of_the_turn_and_the_error_of_the_page(bins, epochs):
    run, chain = run_of(bins, bins * epochs), chain_of(bins, epochs, 2.0, 0.5, 0.5)
    points, values, cost = correlated.transforms(json.dumps([run, WITNESS]), ctx.prec)
    matrix, shift, _ = precision_and_shift(bins, epochs, 2.0, 0.5, 0.5)
    assert float(cost) == pytest.approx(shift @ matrix @ shift, rel=1e-12)
    given = WITNESS["lattice"]
    lattice = lattice_of(given["spacing"], given["reach"], given["shift"], given["turn"])
    error = float(correlated.error_of(chain, lattice, arb.pi() / 2 + arb(0.3)))
    factor = math.exp(0.8**2 * (shift @ matrix @ shift) / 2)
    for value in values:
        assert float(value.real.rad()) == pytest.approx(factor * error, rel=1e-6)
        assert float(value.imag.rad()) == pytest.approx(factor * error, rel=1e-6)
    # With a fine lattice they are the integral of the definition.
    fine = WITNESS | {"lattice": WITNESS["lattice"] | {"spacing": 0.25, "reach": 60, "shift": 0.9}}
    points, values, _ = correlated.transforms(json.dumps([run, fine]), ctx.prec)
    root = mpmath.sqrt(mpmath.mpf(float(2 * chain.halves[0])))
    for s, value in zip(points, values, strict=True):
        if s.real > 0:
            z = mpmath.mpc(float(s.real), float(s.imag))
            true = mpmath.quad(
                lambda x, z=z: mpmath.npdf(x) * mpmath.exp(-z * mpmath.exp(root * x - root**2 / 2)),
                [-12, -4, -1, 0, 1, 2, 3, 4, 6, 12],
            )
            assert abs(complex(true) - complex(value.mid())) < 1e-8
            assert float(value.real.rad()) < 1e-5


@pytest.mark.parametrize("chain", [(6, 2, 3.0, 0.5, 0.4), (6, 1, 3.0, 0.8, 0.4)])
@pytest.mark.parametrize("part", ["halves", "turns"])
def test_balls_of_alike_bins_contain_those_of_each(chain, part):
    made = chain_of(*chain)
    operators = correlated.Operators(made, lattice_of(1.0, 3, 1.0, 0.3, 2))
    half, _, count = operators.groups[-1]
    assert count == 4
    if part == "halves":
        assert all(half.contains(each) for each in made.halves[2:])
        return
    kernel = operators.groups[-1][1]
    for turn in made.turns[2:]:
        epochs = arb(made.epochs)
        moves = [[arb(j - i * 0.4) for j in range(-3, 4)] for i in range(-3, 4)]
        rows = correlated.gaussian_rows(moves, epochs, lattice_of(1.0, 3, 1.0, 0.3), turn / epochs)
        for row, wanted in zip(kernel, rows, strict=True):
            for a, b in zip(row, wanted, strict=True):
                assert abs(float(a.real.mid() - b.real)) <= float(a.real.rad()) + 1e-15
                assert abs(float(a.imag.mid() - b.imag)) <= float(a.imag.rad()) + 1e-15


def test_densities_are_used_again_for_turns_that_they_contain_only():
    made = chain_of(2, 1, 3.0, 0.5, 0.5)
    wide = arb(3).union(arb(3) + arb(2) ** -20)
    for turns, shared in (([wide, arb(3)], True), ([arb(3), wide], False)):
        groups = correlated.Operators(made._replace(turns=turns), lattice_of(1.0, 3, 1.0, 0.3)).groups
        assert (groups[0][1] is groups[1][1]) == shared


# ---- V22


def hyperbola(contour, u, times):
    """Point of the hyperbola with so many times the angle, and the modulus of its derivative."""
    angle = times * contour["angle"]
    point = contour["start"] - contour["scale"] * mpmath.sin(mpmath.mpc(angle, -u))
    return point, contour["scale"] * abs(mpmath.cos(mpmath.mpc(angle, -u)))


def stated_outer(contour):
    """The bound on I: the largest values in 400 intervals, and the rest."""
    total, width = mpmath.mpf(0), mpmath.mpf(10) / 400
    for i in range(400):
        (first, _), (last, speed) = (hyperbola(contour, (i + j) * width, 2) for j in (0, 1))
        crossed = first.real > 0 > last.real
        nearest = 0 if crossed else min(abs(first.real), abs(last.real))
        total += width * speed / (nearest**2 + first.imag**2)
    rest = 1 / (contour["scale"] * mpmath.cos(2 * contour["angle"]) ** 2 * mpmath.sinh(10))
    return 2 * (total + rest)


CONTOURS = [
    {"start": 2.0, "scale": 1.5, "angle": 0.3, "spacing": 0.9, "nodes": 3},
    {"start": 8.0, "scale": 2.0, "angle": 0.7, "spacing": 1.5, "nodes": 2},
    {"start": 0.5, "scale": 9.0, "angle": 0.02, "spacing": 0.1, "nodes": 9},
]


@pytest.mark.parametrize("contour", CONTOURS)
@pytest.mark.parametrize("cost", [0.0, 3.0])
def test_errors_of_the_integral_are_those_of_the_page(contour, cost, monkeypatch):
    read = correlated.contour_of(contour)
    points = [read.at(j * read.spacing, read.angle) for j in range(read.nodes + 1)]
    values = [acb(1)] * len(points)
    monkeypatch.setattr(correlated, "transforms", lambda *_: (points, values, arb(cost)))
    strike, d, s0 = mpmath.mpf(0.7), mpmath.mpf(contour["angle"]), mpmath.mpf(contour["start"])
    (found,) = correlated.puts({}, {"contour": contour}, [arb(0.7)])
    assert float(read.outer) == pytest.approx(float(stated_outer(contour)), rel=1e-9)
    inner = s0 - contour["scale"] * mpmath.sin(2 * d)
    right = mpmath.pi * mpmath.exp(strike * s0) / s0
    left = mpmath.exp(2 * d**2 * cost + strike * inner) * stated_outer(contour)
    last, _ = hyperbola(contour, mpmath.mpf(contour["nodes"]) * contour["spacing"], 1)
    end = mpmath.exp(d**2 * cost / 2 + strike * last.real) / (mpmath.pi * mpmath.cos(d) * last.imag)
    error = (right + left) / (2 * mpmath.pi * mpmath.expm1(2 * mpmath.pi * d / contour["spacing"])) + end
    assert float(found.rad()) == pytest.approx(float(error), rel=1e-6)
    # The sum itself, both sides of 0, as the page has it.
    total = mpmath.mpf(0)
    for j in range(-contour["nodes"], contour["nodes"] + 1):
        u = mpmath.mpf(j) * contour["spacing"]
        s, _ = hyperbola(contour, u, 1)
        total += (mpmath.exp(strike * s) / s**2 * mpmath.cos(mpmath.mpc(d, -u))).real
    total *= contour["scale"] * mpmath.mpf(contour["spacing"]) / (2 * mpmath.pi)
    assert float(found.mid()) == pytest.approx(float(total), rel=1e-6, abs=1e-8 * float(error))


def test_an_outer_hyperbola_next_to_the_pole_has_no_bound():
    # It crosses the imaginary axis in the first interval, in which its points may be 0 as far as is known.
    start = 2.0 * math.sin(0.8) * (1 + 1e-6)
    contour = {"start": start, "scale": 2.0, "angle": 0.4, "spacing": 0.1, "nodes": 9}
    assert not correlated.contour_of(contour).outer.is_finite()


@pytest.mark.parametrize("way", ["add", "remove"])
def test_runs_that_end_within_an_epoch_are_bounded_from_above_only(way, monkeypatch):
    monkeypatch.setattr(correlated, "puts", lambda _run, _witness, strikes: [strikes[0] * 0 + arb(0.9)])
    for count, complete in ((6, True), (5, False), (1, False)):
        (found,) = correlated.enclose(run_of(3, count), way, WITNESS, [arb(0.1)])
        wanted = math.exp(0.1) * 0.9 if way == "add" else 1 - math.exp(0.1) + 0.9
        assert float(found.upper()) == pytest.approx(wanted, rel=1e-6)
        assert float(found.lower()) == pytest.approx(wanted if complete else 0.0, rel=1e-6, abs=1e-8)
