"""The inequalities of the certificate checker, V10 to V18, in cases in which they are nearly attained."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

import hockeystick as hs
from hockeystick_verify import (
    NotProvenError,
    RefusedError,
    allocation,
    check,
    checker,
    claims,
    half_moments,
    lattice,
    parts,
)

BITS = 192


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, BITS
    with mpmath.workdps(40):
        yield
    ctx.prec = before


def ends(ball):
    return float(ball.lower()), float(ball.upper())


def step(mechanism, sampling, count=1, **group):
    return {"mechanism": mechanism, "sampling": sampling, "group": {"size": 1} | group, "count": count}


GAUSSIAN = {"name": "gaussian", "noise_multiplier": 1.0}
LAPLACE = {"name": "laplace", "scale": 2.0}
COIN = {"name": "randomized_response", "p": 0.75}
POISSON = {"name": "poisson", "sample_rate": 0.25}
FIXED = {"name": "without_replacement", "batch_size": 3, "dataset_size": 10}


# ---- V10


def by_enumeration(records, size, rate, largest):
    """Joint law of the public outcome and of the shift, over all samples and all batches."""
    found = Counter()
    members = set(range(size))
    for chosen in itertools.product((0, 1), repeat=records):
        sample = [i for i in range(records) if chosen[i]]
        probability = rate ** len(sample) * (1 - rate) ** (records - len(sample))
        others = [i for i in sample if i not in members]
        m = len(others)
        outcome = ("free", 0) if m <= largest - size else ("full", 0) if m >= largest else ("partly", m)
        batches = list(itertools.combinations(sample, min(largest, len(sample))))
        for batch in batches:
            j = len(members & set(batch))
            found[outcome, j + max(0, j - max(0, largest - m))] += probability / len(batches)
    return found


@pytest.mark.parametrize(("records", "size", "largest"), [(5, 1, 2), (6, 2, 3), (6, 3, 2), (4, 1, 4)])
def test_truncated_samples_have_the_laws_of_enumeration(records, size, largest):
    rate = Fraction(1, 4)
    wanted = by_enumeration(records, size, rate, largest)
    found, m = Counter(), max(0, largest - size + 1)
    for name, probability, law in parts.public_laws(size, arb(1) / 4, largest, records):
        key = (name, m if name == "partly" else 0)
        m += name == "partly"
        for shift, weight in law.items():
            found[key, int(shift)] += float(probability * weight)
    assert set(found) == set(wanted)
    assert all(found[key] == pytest.approx(float(wanted[key]), rel=1e-14) for key in wanted)


@pytest.mark.parametrize(
    ("mechanism", "sampling", "size", "direction"),
    [
        (LAPLACE, POISSON, 3, "remove"),
        (LAPLACE, FIXED, 2, "add"),
        (LAPLACE, FIXED, 2, "replace"),
        (COIN, FIXED, 1, "replace"),
        (COIN, POISSON, 2, "replace"),
        (LAPLACE, POISSON, 2, "replace"),
        (COIN, POISSON, 2, "add"),
        (GAUSSIAN, FIXED, 1, "replace"),
        (GAUSSIAN, FIXED, 3, "replace"),
        (
            GAUSSIAN,
            {"name": "truncated_poisson", "sample_rate": 0.5, "max_batch_size": 3, "dataset_size": 6},
            1,
            "replace",
        ),
        (
            GAUSSIAN,
            {"name": "truncated_poisson", "sample_rate": 0.5, "max_batch_size": 3, "dataset_size": 6},
            2,
            "remove",
        ),
    ],
)
def test_parts_have_all_the_mass_under_both_laws(mechanism, sampling, size, direction):
    made = parts.parts_of_step(step(mechanism, sampling, size=size), direction)
    grid = lattice.Grid(arb(0), arb(1) / 8, [(-32, 33, 1)], [1] * 8)
    cells = [cell for place in range(len(made)) for cell in lattice.cells_at(made, grid, place, False)]
    for which in ("p", "q"):
        assert float(sum((getattr(cell, which) for cell in cells), arb(0))) == pytest.approx(1.0, abs=1e-14)
    for cell in cells:
        if cell.low is not None and cell.high is not None and cell.q > 0:
            assert not cell.p < cell.q * cell.low.exp() * (1 - arb(2) ** -60)
            assert not cell.p > cell.q * cell.high.exp() * (1 + arb(2) ** -60)


def test_binomial_tails_are_enclosed():
    n, rate = 40, Fraction(1, 8)
    for k in (1, 4, 6, 20, 40):
        wanted = sum(math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(k, n + 1))
        found = parts.binomial_above(n, arb(1) / 8, k)
        assert found.contains(arb(wanted.numerator) / wanted.denominator)
        assert found.rel_accuracy_bits() > 80


# ---- V11


def window(**changed):
    usual = {"spacing": 0.5, "points": 64, "first": -30, "tilt": 1.0, "outer_tilt": 4.0, "left_tilt": 4.0}
    return usual | {"kinds": [{"start": 0.0, "ranges": [[-12, 26, 1]], "coarser": [1]}]} | changed


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_rounding_up_and_down_encloses_one_step(direction):
    sigma, rate, epsilon, spacing = 1.0, 0.25, 0.2, 0.05
    run = {"adjacency": direction, "steps": [step(GAUSSIAN, POISSON)]}
    start = {"start": math.log(0.75) if direction == "remove" else -math.log(0.75)}
    ranges = [[0, 140, 1]] if direction == "remove" else [[-140, 1, 1]]
    given = window(
        spacing=spacing, points=1024, first=-100, kinds=[start | {"ranges": ranges, "coarser": [1]}]
    )
    found = lattice.enclose(run, direction, given, [arb(epsilon)])[0]

    def ratio(x):
        return 1 - rate + rate * math.exp(x / sigma**2 - 0.5)

    level = math.exp(epsilon if direction == "remove" else -epsilon)
    cut = math.log((level - 1 + rate) / rate) + 0.5 if level > 1 - rate else -60.0

    def excess(x):
        p, q = (ratio(x), 1.0) if direction == "remove" else (1.0, ratio(x))
        return mpmath.npdf(x) * (p - math.exp(epsilon) * q)

    between = [cut, cut + 3, cut + 9, 60] if direction == "remove" else [-60, cut - 9, cut - 3, cut]
    truth = float(mpmath.quad(excess, between))
    lower, upper = ends(found)
    assert lower <= truth <= upper
    assert upper - lower < 0.3 * truth
    finer = window(
        spacing=spacing / 8,
        points=8192,
        first=-800,
        kinds=[start | {"ranges": [[8 * a, 8 * b, 1] for a, b, _ in ranges], "coarser": [1]}],
    )
    narrow = ends(lattice.enclose(run, direction, finer, [arb(epsilon)])[0])
    assert lower <= narrow[0] <= truth <= narrow[1] <= upper
    assert narrow[1] - narrow[0] < (upper - lower) / 4


def test_a_mean_that_is_not_kept_would_be_too_small():
    # Two outcomes in one cell: the upper law is attained at the ends, the lower one is merged.
    low, high = arb(0), arb(1)
    q = [arb(1) / 4, arb(1) / 8]
    p = [q[0] * low.exp(), q[1] * high.exp()]
    cell = lattice.Cell(p[0] + p[1], q[0] + q[1], low, high)
    masses, lost = lattice.rounded_up([cell], lattice.Grid(arb(0), arb(1), [], []), arb(0))
    assert lost.is_zero()
    assert masses[0].overlaps(p[0])
    assert masses[1].overlaps(p[1])
    half = lattice.Grid(arb(0), arb(1) / 2, [], [])
    merged, sink = lattice.rounded_down([cell], half, arb(1))
    ((place, mass),) = merged.items()
    loss = float(half.at(place) - sink)
    assert mass.overlaps(cell.p)
    assert loss <= float((cell.p / cell.q).log()) < loss + 0.5


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("mechanism", [LAPLACE, COIN])
def test_replaced_records_of_poisson_samples_are_one_step_of_the_definition(mechanism, epsilon):
    weights, growth = [0.5625, 0.375, 0.0625], math.exp(epsilon)
    if mechanism == COIN:
        kept, seen = [0.75, 0.25], 1 - weights[0]
        changed = [k * (1 - seen) + (1 - k) * seen for k in kept]
        true = sum(max(c - growth * k, 0.0) for c, k in zip(changed, kept, strict=True))
        spacing = math.log(changed[1] / kept[1])
        grid = {"spacing": spacing, "points": 4, "first": -3, "tilt": 1.0, "outer_tilt": 200.0}
        kinds = [{"start": spacing, "ranges": [], "coarser": []}]
    else:
        x = np.linspace(-80.0, 80.0, 1_600_001)
        p, q = (
            sum(w * np.exp(-abs(x - side * j) / 2.0) / 4.0 for j, w in enumerate(weights)) for side in (1, -1)
        )
        true = float(np.sum(np.maximum(p - growth * q, 0.0)) * (x[1] - x[0]))
        grid = {"spacing": 0.002, "points": 4096, "first": -2048, "tilt": 1.0, "outer_tilt": 20.0}
        kinds = [{"start": 0.0, "ranges": [[-1100, 1101, 1]], "coarser": [1]}]
    run = {"adjacency": "replace", "steps": [step(mechanism, POISSON, size=2)]}
    witness = {"bits": 128, "method": "lattice", "left_tilt": 4.0, "kinds": kinds} | grid
    (found,) = check({
        "run": run, "claims": [{"epsilon": epsilon, "at_most": 1.0}], "witness": {"replace": witness}
    })  # fmt: skip
    assert found.lower <= true * (1 + 1e-7) + 1e-12
    assert true * (1 - 1e-7) <= found.upper + 1e-12
    assert found.upper - found.lower < 0.02 * true + 1e-9


# ---- V12


def coin_run(count=1):
    return {"adjacency": "remove", "steps": [step(COIN, {"name": "full_batch"}, count=count)]}


def coin_window(**changed):
    loss = math.log(3.0)
    kinds = [{"start": loss, "ranges": [], "coarser": []}]
    return window(spacing=2 * loss, points=8, first=-4, kinds=kinds) | changed


def test_a_few_answers_are_the_sum_over_their_counts():
    truth, epsilon = 0.0, 0.5
    for j in range(6):
        loss = (2 * j - 5) * math.log(3.0)
        mass = math.comb(5, j) * 0.75**j * 0.25 ** (5 - j)
        truth += mass * max(0.0, 1 - math.exp(epsilon - loss))
    found = lattice.enclose(
        coin_run(5), "remove", coin_window(points=64, first=-20, outer_tilt=3.0), [arb(epsilon)]
    )[0]
    lower, upper = ends(found)
    assert lower <= truth <= upper
    assert upper - lower < 1e-10


def test_what_a_window_counts_too_much_is_nearly_attained():
    # All losses are two windows above the place where they are counted.
    spacing = lattice.Grid(arb(20), arb(1), [], [])
    kind = lattice.Kind({0: arb(1)}, spacing, 1)
    for tilt, outer in ((0.01, 0.4), (0.05, 0.3)):
        given = lattice.Window(10, -19, arb(tilt), arb(outer), arb(0))
        epsilon = arb(1) + arb(2) ** -40
        (counted,) = lattice.sums([kind], given, [epsilon])
        bound = lattice.moments([kind], arb(outer)) * (-arb(outer) * epsilon).exp()
        bound /= ((arb(outer) - tilt) * 10).exp() - 1
        # The true value is 1 - e^-19 but lies outside the window, so that what is counted is the alias.
        assert counted <= bound
    below = lattice.Kind({0: arb(1)}, lattice.Grid(arb(0), arb(1), [], []), 1)
    given = lattice.Window(10, 1, arb(1) / 4, arb(1), arb(1) / 4)
    (counted,) = lattice.sums([below], given, [arb(1)])
    least = (arb(1) / 4 * 11).exp() / ((arb(1) / 2 * 10).exp() - 1)
    assert least / 2 < counted <= least


def test_places_of_a_window_may_be_beyond_doubles():
    # As a double the place of epsilon would be 56 places too high, above the loss that is to be counted.
    far = 2**60
    kind = lattice.Kind({far + 210: arb(1)}, lattice.Grid(arb(0), arb(1), [], []), 1)
    with ctx.workprec(256):
        epsilon = arb(far + 200)
        (counted,) = lattice.sums([kind], lattice.Window(1000, far, arb(0), arb(1), arb(0)), [epsilon])
        assert counted.overlaps(1 - arb(-10).exp())


def test_what_is_above_a_window_is_counted():
    epsilon = 0.5
    lower, upper = ends(
        lattice.enclose(coin_run(4), "remove", coin_window(points=4, first=-3), [arb(epsilon)])[0]
    )
    wide = ends(lattice.enclose(coin_run(4), "remove", coin_window(points=64, first=-20), [arb(epsilon)])[0])
    assert lower <= wide[0] <= wide[1] <= upper
    with pytest.raises(NotProvenError, match="window must begin below"):
        lattice.enclose(coin_run(4), "remove", coin_window(first=3), [arb(epsilon)])


# ---- V13 to V15


def test_patterns_have_the_probabilities_of_enumeration():
    members, batches = 4, 3
    wanted = Counter(
        tuple(sorted(Counter(way).values(), reverse=True))
        for way in itertools.product(range(batches), repeat=members)
    )
    found = {
        tuple(each): float(allocation.pattern_probability(each, members, batches))
        for each in allocation.partitions(members, members)
        if len(each) <= batches
    }
    assert found == pytest.approx({key: count / batches**members for key, count in wanted.items()})


RULE = {
    "order": 3, "angle": 0.9, "start": -16.0, "spacing": 0.1, "nodes": 340, "reach": 14.0,
    "output_spacing": 0.1, "decay": 14,
}  # fmt: skip


def test_the_half_moment_of_two_batches_is_an_integral():
    rule = half_moments.rule_of(RULE)
    found = half_moments.half_moments(half_moments.Allocation(2, arb(1)), rule, arb(1), 3)
    for y, ball in enumerate(found):
        w = mpmath.mpc(0.5, y)
        # a = (g_1 + g_2) / sqrt 2 and b = (g_1 - g_2) / sqrt 2 are independent:
        # W = e^(a / sqrt 2 - 1/2) cosh(b / sqrt 2).
        common = mpmath.exp(w**2 / 4 - w / 2)
        rest = mpmath.quad(
            lambda b, w=w: mpmath.npdf(b) * mpmath.cosh(b / mpmath.sqrt(2)) ** w, [-14, -4, 0, 4, 14]
        )
        wanted = common * rest
        assert abs(float(ball.real) - float(wanted.real)) < 1e-9
        assert abs(float(ball.imag) - float(wanted.imag)) < 1e-9
        assert float(ball.real.lower()) - 1e-15 <= float(wanted.real) <= float(ball.real.upper()) + 1e-15
        assert ball.real.rad() < 1e-6


OUTPUTS = np.linspace(-12.0, 12.0, 1201)
NORMAL = np.exp(-(OUTPUTS**2) / 2) * (OUTPUTS[1] - OUTPUTS[0]) / math.sqrt(2 * math.pi)
"""The rule on a line: analytic integrands that decay like this have errors below 1e-15."""


def log_normal(variance):
    return np.exp(math.sqrt(variance) * OUTPUTS - variance / 2)


@pytest.mark.parametrize(
    ("numbers", "still", "variance"),
    [
        # Half of an epoch of two batches, a quarter of one of four, and bins of which one occurs more often.
        ((1, arb(1), 1), 1, 0.0),
        ((1, arb(1), 3), 3, 0.0),
        ((1, arb(1), 1, arb(1) / 4), 1, 0.25),
    ],
)
def test_half_moments_of_parts_of_epochs_are_integrals(numbers, still, variance):
    found = half_moments.half_moments(
        half_moments.Allocation(*numbers), half_moments.rule_of(RULE), arb(1), 2
    )
    ratio = np.add.outer(log_normal(1.0), still * log_normal(variance)) / (1 + still)
    for y, ball in enumerate(found):
        wanted = NORMAL @ ratio ** (0.5 + 1j * y) @ NORMAL
        for here, true in ((ball.real, wanted.real), (ball.imag, wanted.imag)):
            assert float(here.lower()) - 1e-13 <= true <= float(here.upper()) + 1e-13
            assert here.rad() < 1e-6


def test_moments_of_parts_of_epochs_decay_no_slower_than_bounded():
    half_moment = arb(1) / 2, arb(1)  # E[W^(1/2)] is at most 1
    single = half_moments.Allocation(1, arb(1) / 2)
    for y in (1.0, 3.0, 6.0):
        exact = math.exp(-(y**2 + 0.25) / 4)  # E[Y^(1/2 + iy)] of one batch
        bound = float(allocation.decay(single, *half_moment, arb(y)))
        assert 0.5 * bound < exact <= bound
    half = half_moments.Allocation(1, arb(1), 1)
    for part in (0.1, 0.4, 1.0):
        below = float(mpmath.ncdf(mpmath.log(part) + 0.5))
        assert float(allocation.rarely_below(half, arb(part))) == pytest.approx(below, rel=1e-12)
    for y in (5, 20, 40):
        exact = abs(NORMAL @ ((log_normal(1.0) + 1) / 2) ** (0.5 + 1j * y))
        assert exact <= float(allocation.decay(half, *half_moment, arb(y))) < 1.0
    bins = half_moments.Allocation(1, arb(1), 1, arb(1) / 2)
    bound = float(allocation.decay(bins, *half_moment, arb(6)))
    assert bound == pytest.approx(math.exp(-36 / (2 * (1 + 2))), rel=1e-12)


def test_drawn_steps_on_the_line_of_dealt_ones_are_integrals():
    law = {Fraction(0): arb(3) / 4, Fraction(1): arb(1) / 4}
    others = checker.Composition([(checker.Pair(arb(2), law, None), 2)], arb(1) / 3)
    nodes = {
        "start": -20.0, "spacing": 0.5, "nodes": 90, "height": 2.0, "shift": 4.0, "shift_strip": 4.0
    }  # fmt: skip
    line = checker.Line(-arb(1) / 2, arb(0), arb(2), 3, 2)
    found, end = allocation.moments_of_others(
        allocation.Others(others, 1), {"terms": 3, "kinds": [nodes]}, line
    )
    for j, ball in enumerate(found):
        w = 0.5 + 2j * j
        each = NORMAL @ (0.75 + 0.25 * np.exp(OUTPUTS / 2 - 0.125)) ** w
        wanted = each**2 * np.exp(-(4 * j * j + 0.25) / 6)
        assert abs(complex(ball.mid()) - complex(wanted)) < 1e-9
        assert float(ball.rad()) < 1e-6
    last = abs(complex(wanted))
    assert last <= float(end) < 3 * last


def test_the_ends_of_the_ray_are_nearly_attained():
    # One batch and hardly any noise to tell: W is nearly 1, and psi_n(s) = e^-s.
    variance = arb(2) ** -60
    for changed in ({"start": -4.0, "angle": 0.0, "nodes": 1000}, {"angle": 0.0, "decay": 20, "nodes": 190}):
        rule = half_moments.rule_of(RULE | changed)
        bound, shape, step_ = (
            half_moments.left_out(rule, half_moments.Allocation(1, variance)),
            2.5,
            float(rule.spacing),
        )
        places = [float(rule.start) + i * step_ for i in range(-2000, 3000)]
        outside = [u for i, u in enumerate(places, -2000) if not 0 <= i < rule.nodes]
        missing = math.fsum(step_ * math.exp(shape * u - math.exp(u)) for u in outside if u < 6)
        assert 0.5 * float(bound) < missing <= float(bound) * (1 + 1e-9)


@pytest.mark.slow
def test_one_epoch_is_the_integral_of_a_put():
    # 100 batches, sigma = 1: E[(W - K)_+] by Laplace's inversion of E[e^(-sW)] / s^2, in 40 digits.
    wanted = {0.5: 4.40890803386300935922540142754e-5}
    curve = hs.privacy_curve(
        noise_multiplier=1.0, sampling=hs.RandomAllocation(100), steps=100, adjacency="remove"
    )
    for epsilon, delta in wanted.items():
        document = curve.certify(epsilon=epsilon)
        upper, lower = document.claims
        assert lower["at_least"] <= delta <= upper["at_most"]
        assert upper["at_most"] - lower["at_least"] < 1e-8 * delta


# ---- V16 to V18


def test_a_chain_of_one_link_is_the_curve():
    loss = math.log(3.0)
    replaced = {"adjacency": "replace", "steps": [step(COIN, {"name": "full_batch"}, count=3)]}
    kinds = [{"start": loss, "ranges": [], "coarser": []}]
    given = window(spacing=2 * loss, points=64, first=-20, outer_tilt=3.0, kinds=kinds)
    epsilon = arb(1) / 2
    curve = lattice.enclose(replaced, "replace", given, [epsilon])[0]
    one = given | {"bits": BITS, "method": "lattice"}
    chain = {"one": one, "splits": [[{"epsilon": 0.5, "links": 1}]]}
    once = float(claims.chain(replaced, "replace", chain, [epsilon])[0].upper())
    assert once == pytest.approx(float(curve.upper()), rel=1e-8)
    double = {"adjacency": "replace", "steps": [step(COIN, {"name": "full_batch"}, count=3, size=2)]}
    parts_ = [{"epsilon": 1.0, "links": 1}, {"epsilon": -0.5, "links": 1}]
    found = float(claims.chain(double, "replace", {"one": one, "splits": [parts_]}, [epsilon])[0].upper())
    whole, half = (
        float(lattice.enclose(replaced, "replace", given, [arb(e)])[0].upper()) for e in (1.0, 0.5)
    )
    wanted = math.exp(-0.5) * whole + (1 - math.exp(-0.5) + math.exp(-0.5) * half)
    assert found == pytest.approx(min(1.0, wanted), rel=1e-8)
    with pytest.raises(NotProvenError, match="link for every record"):
        claims.chain(double, "replace", chain, [epsilon])
    with pytest.raises(NotProvenError, match="sum to epsilon at most"):
        claims.chain(replaced, "replace", {"one": one, "splits": [[{"epsilon": 0.6, "links": 1}]]}, [epsilon])
    removed = {**double, "adjacency": "remove"}
    with pytest.raises(NotProvenError, match="parts below 0"):
        claims.chain(removed, "remove", {"one": one, "splits": [parts_]}, [epsilon])
    with pytest.raises(RefusedError, match="on a lattice, or for dealt"):
        claims.chain(double, "replace", {"one": chain | {"method": "chain"}, "splits": [parts_]}, [epsilon])


def test_a_renyi_divergence_of_full_batches_is_attained():
    run = {"adjacency": "remove", "steps": [step(GAUSSIAN, {"name": "full_batch"}, count=8)]}
    witness = {"remove": {"bits": 128, "method": "renyi", "order": 3.0, "kinds": []}}
    document = {"run": run, "witness": witness, "claims": [{"order": 3.0, "at_most": 12.0 * (1 + 1e-15)}]}
    (found,) = check(document)
    assert found.holds
    assert found.lower <= 12.0 <= found.upper
    (below,) = check(document | {"claims": [{"order": 3.0, "at_most": 12.0 * (1 - 1e-15)}]})
    assert not below.holds
    # The bound on delta is attained by the loss at which (1 - e^-u) e^(-cu) is largest.
    (bound,) = claims.by_renyi(run, "remove", witness["remove"], [arb(12)])
    assert float(bound.upper()) == pytest.approx(4 / 27, rel=1e-8)


def test_lines_of_the_tradeoff_function_touch_it():
    # A Gaussian pair with distance 1: beta = Phi(x - 1), which the line of epsilon = x - 1/2 touches.
    x = mpmath.mpf("1.25")
    alpha = 1 - mpmath.ncdf(x)
    epsilon = x - mpmath.mpf(1) / 2
    delta = (1 - mpmath.ncdf(x - 1)) - mpmath.exp(epsilon) * alpha
    found = claims.tradeoff(arb(float(delta)), arb(float(epsilon)), arb(float(alpha)))
    assert float(found) == pytest.approx(float(mpmath.ncdf(x - 1)), rel=1e-12)
    mirrored = claims.tradeoff(arb(float(delta)), arb(float(epsilon)), arb(float(mpmath.ncdf(x - 1))))
    assert float(mirrored) == pytest.approx(float(alpha), rel=1e-12)
    assert checker.directions({"adjacency": "add_remove", "steps": []}) == ["remove", "add"]
