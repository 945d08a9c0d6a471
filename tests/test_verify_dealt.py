"""Dealt batches in the certificate checker (V13 to V15, V19): each bound where it is nearly attained."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from test_documentation import TOP

from hockeystick._curves.allocation_witness import allocation_witness
from hockeystick_verify import (
    NotProvenError,
    RefusedError,
    allocation,
    checker,
    half_moments,
    verify_text,
)

BITS = 192


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, BITS
    with mpmath.workdps(40):
        yield
    ctx.prec = before


def assert_proven(run, epsilon, wanted):
    """Assert that narrow intervals of both directions hold what is wanted."""
    witness = allocation_witness(run, "remove", epsilon, math.log(max(wanted.values())))
    ctx.prec = witness["bits"]
    for way, delta in wanted.items():
        (found,) = allocation.enclose(run, way, witness, [arb(epsilon)])
        assert float(found.lower()) - 1e-13 <= delta <= float(found.upper()) + 1e-13
        assert float(found.rad()) < 1e-8


def step(sampling, count, sigma=2.0, **group):
    mechanism = {"name": "gaussian", "noise_multiplier": sigma}
    return {"mechanism": mechanism, "sampling": sampling, "group": {"size": 1} | group, "count": count}


def dealt(name, batches, count, sigma=2.0, times=1, **group):
    sampling = {"name": name, "batches": batches} | ({} if times == 1 else {"times": times})
    return step(sampling, count, sigma, **group)


def normal(points=4001, reach=12.0):
    """Nodes and weights of the rule for a standard normal variable: it is exact to 1e-15."""
    nodes = np.linspace(-reach, reach, points)
    return nodes, np.exp(-(nodes**2) / 2) * (nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)


OUTPUTS, WEIGHTS = normal()


def log_normal(variance, outputs=OUTPUTS):
    return np.exp(math.sqrt(variance) * outputs - variance / 2)


RULE = {
    "order": 3, "angle": 0.9, "start": -16.0, "spacing": 0.1, "nodes": 340, "reach": 14.0,
    "output_spacing": 0.1, "decay": 14,
}  # fmt: skip


def rule(**changed):
    return half_moments.rule_of(RULE | changed)


# ---- V13


def variances(each):
    """All v_i of an allocation, in multiples of 1/4: sigma is 2."""
    own, others = float(4 * each.variance), float(4 * each.variance_of_others)
    return sorted([own] * each.batches + [others] * each.others)


@pytest.mark.parametrize(("batches", "count"), [(3, 2), (3, 3), (3, 7), (4, 6), (1, 5), (2, 9)])
def test_one_record_is_in_the_batches_that_are_released(batches, count):
    epochs = allocation.epochs_of_step(dealt("random_allocation", batches, count), count)
    found = [variances(one) for each in epochs for _, (one,) in each.patterns for _ in range(each.epochs)]
    wanted = []
    for first in range(0, count, batches):
        released = min(batches, count - first)
        wanted.append(sorted([1.0] * released + [0.0] * (batches - released)))
    assert found == wanted
    (stay,) = allocation.epochs_of_step(dealt("fixed_bins", batches, count), count)
    ((_, (one,)),) = stay.patterns
    times = Counter(place % batches for place in range(count))
    assert stay.epochs == 1
    assert variances(one) == sorted(float(times[place]) for place in range(batches))
    assert not one.variance < one.variance_of_others


@pytest.mark.parametrize(("name", "epochs", "each"), [("random_allocation", 3, 1), ("fixed_bins", 1, 3)])
def test_members_of_a_group_are_in_blocks_of_batches(name, epochs, each):
    """Two epochs and a part of one, which counts as a whole, of four batches for three records."""
    ways = Counter(
        tuple(sorted(Counter(way).values(), reverse=True)) for way in itertools.product(range(4), repeat=3)
    )
    (found,) = allocation.epochs_of_step(dealt(name, 4, 9, size=3), 9)
    assert found.epochs == epochs
    patterns = {}
    for probability, blocks in found.patterns:
        assert sum(block.total for block in blocks) == 4
        assert max(block.total for block in blocks) - min(block.total for block in blocks) <= 1
        assert all(len(set(variances(block))) == 1 for block in blocks)
        together = [math.sqrt(variances(block)[0] / each) for block in blocks]
        patterns[tuple(together)] = float(probability)
    assert patterns == pytest.approx({way: count / 64 for way, count in ways.items()})


def test_a_record_in_several_batches_is_one_in_each_block():
    (found,) = allocation.epochs_of_step(dealt("random_allocation", 5, 11, times=2), 11)
    ((probability, blocks),) = found.patterns
    assert (float(probability), found.epochs) == (1.0, 3)
    assert [variances(block) for block in blocks] == [[1.0] * 3, [1.0] * 2]


def test_alike_entries_of_dealt_batches_are_refused():
    twice = {"adjacency": "remove", "steps": [dealt("fixed_bins", 4, 4), dealt("fixed_bins", 4, 8)]}
    with pytest.raises(RefusedError, match="each entry deals anew"):
        allocation.divided(twice, [False, False])
    twice["steps"][1] = dealt("fixed_bins", 4, 8, gradients="aligned", norms=[1.0]) | {"count": 5}
    with pytest.raises(RefusedError, match="each entry deals anew"):
        allocation.divided(twice, [False, False])
    twice["steps"][1] = dealt("fixed_bins", 4, 8, sigma=3.0)
    assert len(allocation.divided(twice, [False, False])[0]) == 2


# ---- V14, statement 1: the rule over an output


def coefficient_errors(given, variance):
    """Distances of the coefficients at the first node from s^m E[Y^m] / m!, and the radii of their balls.

    At this node s is so small that e^-sY is 1.
    """
    (series, *_) = half_moments.series_of_outputs(given, 1, variance, range(1))
    node = acb(given.start, given.angle)
    for m in range(given.order + 1):
        wanted = (m * node + (m * m - m) * variance / 2).exp() / math.factorial(m)
        unit = float(abs(wanted))
        yield abs(complex((series[m] - wanted).mid())) / unit, float(series[m].real.rad()) / unit


def test_the_error_of_the_output_spacing_is_nearly_attained():
    """The lines Re Y = 0 are the best ones for this spacing, and even powers are all in phase."""
    spacing = 2.0  # 4 sqrt(v)
    given = rule(order=4, angle=0.0, start=-80.0, nodes=2, reach=24.0, output_spacing=spacing)
    found = list(coefficient_errors(given, arb(1) / 4))
    for m in (0, 2, 4):
        assert 0.9 * found[m][1] < found[m][0] <= found[m][1]
    assert all(away <= radius for away, radius in found)
    # On a turned ray only one of the two lines is far out, and the bound counts it twice.
    spacing = 2 * math.pi / (math.pi + 1)
    turned = rule(order=4, angle=0.5, start=-80.0, nodes=2, reach=24.0, output_spacing=spacing)
    for away, radius in coefficient_errors(turned, arb(1) / 4):
        assert 0.49 * radius < away <= radius


def test_outputs_that_are_left_out_are_nearly_attained():
    given = rule(order=1, angle=0.0, start=-80.0, nodes=2, reach=2.0, output_spacing=0.01)
    (both, one) = coefficient_errors(given, arb(1) / 4)
    assert 0.95 * both[1] < both[0] <= both[1]
    assert 0.5 * one[1] < one[0] <= one[1]
    turned = rule(order=1, angle=0.3, start=-80.0, nodes=2, reach=2.0, output_spacing=0.01)
    assert all(away <= radius for away, radius in coefficient_errors(turned, arb(1) / 4))
    with pytest.raises(NotProvenError, match="outputs do not reach"):
        list(coefficient_errors(rule(reach=1.0, output_spacing=0.1), arb(1)))


# ---- V14, statement 2: the rule on the ray


@pytest.mark.parametrize(("angle", "before"), [(0.0, 0.9), (0.5, 0.0)])
def test_the_error_of_the_nodes_of_the_ray_is_nearly_attained(angle, before):
    """W is 1 but for one batch of a million, and Gamma's bound is sharp at Im = p tan(outer angle).

    The nearest alias is behind the point if the ray is not turned, and ahead of it if it is.
    """
    shape, outer = 7.5, math.pi / 4 + angle / 2
    period = shape * math.tan(outer)
    y = before * period
    if before:
        period += y
    given = rule(
        order=8, angle=angle, start=-8.0, spacing=2 * math.pi / period, nodes=60, decay=120, reach=30.0,
        output_spacing=0.05,
    )  # fmt: skip
    mostly_one = half_moments.Allocation(1, arb(1), 10**6)
    found = half_moments.half_moments(mostly_one, given, arb(y) if before else arb(1) / 100, 1)
    ball = found[1 if before else 0]
    away = abs(complex(ball.mid()) - 1)
    assert 0.55 * float(ball.real.rad()) < away <= float(ball.real.rad())
    with pytest.raises(NotProvenError, match="nodes are too far apart"):
        half_moments.half_moments(mostly_one, given, arb(period) * (1 + arb(2) ** -40), 1)


def test_moments_before_the_ray_are_nearly_attained():
    """One batch with v = 1: before the first node psi_n is almost E[Y^n] = e^3."""
    given = rule(angle=0.0, start=-9.0, nodes=1000)
    bound = float(half_moments.left_out(given, half_moments.Allocation(1, arb(1))))
    places = [float(given.start) - i * float(given.spacing) for i in range(1, 400)]
    ratio = log_normal(1.0)
    missing = sum(
        float(given.spacing) * math.exp(2.5 * u) * (WEIGHTS @ (ratio**3 * np.exp(-math.exp(u) * ratio)))
        for u in places
    )
    assert 0.9 * bound < missing <= bound


def test_negative_moments_are_bounded_by_the_geometric_mean():
    for q in (1, 4, 30):
        one = half_moments.log_of_negative_moment(half_moments.Allocation(1, arb(1) / 3), q)
        assert float(one) == pytest.approx((q + q * q) / 6, rel=1e-14)  # attained: one batch
        ratio = np.add.outer(log_normal(0.03), log_normal(0.01)) / 2
        exact = math.log(WEIGHTS @ ratio ** float(-q) @ WEIGHTS)
        bound = float(
            half_moments.log_of_negative_moment(half_moments.Allocation(1, arb("0.03"), 1, arb("0.01")), q)
        )
        assert exact <= bound
        assert exact > (0.9 if q > 4 else 0.6) * bound
    still = log_normal(0.01) / 4 + 0.75
    bound = float(half_moments.log_of_negative_moment(half_moments.Allocation(1, arb("0.01"), 3), 400))
    assert 0.5 * bound < math.log(WEIGHTS @ still**-400.0) <= bound


def test_series_of_too_few_terms_are_not_believed():
    """A coefficient beyond flint's cap reads as 0, so that each half moment would be about 0."""
    before, ctx.cap = ctx.cap, 3
    try:
        with pytest.raises(NotProvenError, match="cap is below the order"):
            half_moments.half_moments(half_moments.Allocation(2, arb(1)), rule(), arb(1), 1)
    finally:
        ctx.cap = before
    assert ctx.cap > half_moments.LARGEST_ORDER


# ---- V15


def enclosed(steps, way, witness, epsilon=0.0):
    (found,) = allocation.enclose({"adjacency": way, "steps": steps}, way, witness, [arb(epsilon)])
    return float(found.lower()), float(found.upper())


@pytest.mark.parametrize(
    ("kind", "noise", "count"),
    [
        # One step that tells hardly anything: all that is beyond the line has the largest modulus.
        ("random_allocation", 1e5, 1),
        # Two epochs, or two full batches beside an epoch that tells nothing, whose moments decay.
        ("random_allocation", 20.0 / math.sqrt(3), 2),
        ("full_batch", 20.0 / math.sqrt(3), 2),
    ],
)
def test_what_is_beyond_the_line_is_nearly_attained(kind, noise, count):
    """At epsilon = 0 all terms have one sign, so that delta is too large by all that is left out."""
    witness = {"spacing": 0.1, "terms": 200, "rules": [], "kinds": []}
    if kind == "random_allocation":
        steps = [dealt(kind, 1, count, noise)]
    else:
        steps = [dealt("random_allocation", 1, 1, 1e7), step({"name": kind}, count, noise)]
    lower, upper = enclosed(steps, "remove", witness)
    true = math.erf(math.sqrt(count) / noise / math.sqrt(8))
    middle = (lower + upper) / 2
    assert lower <= true <= upper
    assert middle - true > (0.9 if count == 1 else 0.05) * (upper - lower) / 2
    ys = 0.1 * np.arange(201, 400_000)
    left = (0.1 / math.pi) * np.sum(np.exp(-(ys**2) * count / noise**2 / 2) / (0.25 + ys**2))
    assert middle - true == pytest.approx(left, rel=1e-2)


def test_public_patterns_and_several_epochs_have_the_bound_of_their_product():
    """Two records in one batch, twice: a Gaussian pair with distance 2 sqrt(2) / sigma."""
    noise = 40.0 / math.sqrt(3)
    witness = {"spacing": 0.1, "terms": 200, "rules": []}
    lower, upper = enclosed([dealt("random_allocation", 1, 2, noise, size=2)], "add", witness)
    true = math.erf(math.sqrt(8) / noise / math.sqrt(8))
    assert lower <= true <= (lower + upper) / 2


@pytest.mark.parametrize(
    ("released", "still", "variance", "y", "least"),
    [
        (1, 1, 0.01, 12.0, 0.9),
        (1, 2, 0.01, 30.0, 0.8),
        (2, 1, 0.01, 30.0, 0.8),
        (1, 9, 0.01, 100.0, 0.8),
        (1, 1, 100.0, 1e4, 0.98),  # almost all Y are below any level
    ],
)
def test_parts_of_epochs_nearly_decay_as_bounded(released, still, variance, y, least):
    outputs, weights = normal(1201)
    one = log_normal(variance, outputs)
    law = one if released == 1 else np.add.outer(one, one)
    values = ((law + still) / (released + still)) ** (0.5 + 1j * y)
    exact = abs(values @ weights if released == 1 else weights @ values @ weights)
    dealt = half_moments.Allocation(released, arb(variance), still)
    bound = float(allocation.decay(dealt, arb(1) / 2, arb(1), arb(y)))
    assert least * bound < exact <= bound


# ---- V19


def test_drawn_steps_beside_dealt_ones_nearly_decay_as_bounded():
    law = {Fraction(0): arb(3) / 4, Fraction(1): arb(1) / 4}
    nodes = {
        "start": -10.0, "spacing": 0.025, "nodes": 900, "height": 0.125, "shift": 0.3, "shift_strip": 0.2
    }  # fmt: skip
    others = checker.Composition([(checker.Pair(arb(1) / 2, law, None), 2)], arb(0))
    line = checker.Line(-arb(1) / 2, arb(0), arb(4), 2, 1)
    found, end = allocation.moments_of_others(
        allocation.Others(others, 1), {"terms": 2, "kinds": [nodes]}, line
    )
    exact = abs(WEIGHTS @ (0.75 + 0.25 * log_normal(4.0)) ** (0.5 + 8j)) ** 2
    assert abs(complex(found[2].mid())) == pytest.approx(exact, rel=1e-9)
    assert 0.85 * float(end) < exact <= float(end)


@pytest.mark.slow
def test_a_witness_without_the_numbers_of_drawn_steps_is_refused():
    document = json.loads((TOP / "docs/certificates/dealt-and-drawn.json").read_text(encoding="utf-8"))
    for witness in document["witness"].values():
        del witness["kinds"]
    verified, (line,) = verify_text(json.dumps(document))
    assert not verified
    assert "refused: kinds must be a list" in line


# ---- the curves


def upper_tail(x):
    """Probability that a standard normal variable is above x."""
    return 0.5 * np.vectorize(math.erfc, otypes=[float])(x / math.sqrt(2))


def excess(level, variance, sign):
    """E[(Y - level)_+] for sign = 1, and E[(level - Y)_+] for sign = -1."""
    root, inside = math.sqrt(variance), np.maximum(level, 1e-300)
    above = (np.log(inside) + variance / 2) / root
    value = sign * (upper_tail(sign * (above - root)) - level * upper_tail(sign * above))
    return np.where(level > 0, value, 1 - level if sign == 1 else 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [-0.3, 0.0, 0.4, 1.5])
@pytest.mark.parametrize(
    ("given", "own", "other"),
    [
        (("fixed_bins", 2, 3), 2, 1),
        (("random_allocation", 2, 2), 1, 1),
    ],
)
def test_two_batches_are_the_integral_of_the_definition(given, own, other, epsilon):
    sigma = 1.25
    run = {"adjacency": "add_remove", "steps": [dealt(*given, sigma)]}
    outputs, weights = normal(40_001)
    rest = log_normal(other / sigma**2, outputs)
    wanted = {
        "remove": weights @ excess(2 * math.exp(epsilon) - rest, own / sigma**2, 1) / 2,
        "add": weights @ excess(2 * math.exp(-epsilon) - rest, own / sigma**2, -1) * math.exp(epsilon) / 2,
    }
    assert_proven(run, epsilon, wanted)


@pytest.mark.parametrize("epsilon", [-0.4, 0.0, 0.7])
def test_half_an_epoch_beside_a_full_batch_is_an_integral(epsilon):
    """Given the ratio W of the half epoch, what is left is the Gaussian pair at epsilon less its loss."""
    sigma, distance = 2.0, 0.5
    steps = [dealt("random_allocation", 2, 1, sigma), step({"name": "full_batch"}, 1, 1 / distance)]
    run = {"adjacency": "add_remove", "steps": steps}
    ratio = (log_normal(1 / sigma**2) + 1) / 2

    def gaussian(at):
        return upper_tail(at / distance - distance / 2) - np.exp(at) * upper_tail(
            at / distance + distance / 2
        )

    wanted = {
        "remove": WEIGHTS @ (ratio * gaussian(epsilon - np.log(ratio))),
        "add": WEIGHTS @ gaussian(epsilon + np.log(ratio)),
    }
    assert_proven(run, epsilon, wanted)
