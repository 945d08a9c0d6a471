"""Dealt batches on a line right of the origin in the certificate checker (V27)."""

import json
import math
import warnings
from collections import Counter

import forging_campaign
import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from nightly import some
from test_verify_dealt import WEIGHTS, dealt, log_normal, normal, step

import hockeystick as hs
from hockeystick._curves.allocation_witness import _witness as half_line_witness
from hockeystick._curves.tilted_witness import tilted_witness
from hockeystick_verify import NotProvenError, RefusedError, allocation, claims, tilted_allocation
from hockeystick_verify.checker import Line
from hockeystick_verify.half_moments import Allocation

BITS = 192
CHANGES = 60
"""Witnesses that are changed at random, in each direction."""
RULE = {
    "order": 4, "angle": 0.9, "outer_angle": 1.45, "start": -60.0, "unit": 0.1, "stride": 1, "nodes": 760,
    "output_stride": 1, "outputs": 120, "decay": 20,
}  # fmt: skip


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, BITS
    with mpmath.workdps(40):
        yield
    ctx.prec = before


def rule(**changed):
    return tilted_allocation.rule_of(RULE | changed)


# ---- statement 1: the ray

FEW, FEW_WEIGHTS = normal(241, 13.0)
LARGE, SMALL = log_normal(0.5, FEW), log_normal(0.25, FEW)
EXAMPLES = [
    (Allocation(2, arb(1) / 4), np.add.outer(SMALL, SMALL) / 2),
    (Allocation(1, arb(1) / 2, 1, arb(1) / 4), np.add.outer(LARGE, SMALL) / 2),
    (Allocation(1, arb(1) / 2, 3), (LARGE[:, None] + 3.0) / 4 * np.ones(2)),
]


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("added", [False, True])
def test_moments_of_two_batches_are_integrals(example, added):
    allocation_, ratio = example
    line = Line(arb(2.5), arb(4), arb(0.5), 8, 3)
    given = rule(order=1, angle=0.8) if added else rule()
    found = tilted_allocation.moments_of(allocation_, given, line, added)
    weights = np.ones(2) / 2 if ratio.shape[1] == 2 else FEW_WEIGHTS

    def mean(power):
        return FEW_WEIGHTS @ ratio.astype(complex) ** power @ weights

    for j in (0, 1, 8):
        wanted = mean(-2.5 - 0.5j * j) if added else mean(3.5 + 0.5j * j)
        assert abs(complex(found.line[j].mid()) - wanted) < 1e-10 * abs(mean(-2.5 if added else 3.5))
        assert float(found.line[j].real.rad()) < 1e-10
    assert mean(-4.0 if added else 5.0).real == pytest.approx(float(found.outer), rel=1e-9)


@pytest.mark.parametrize(("angle", "before"), [(0.0, 0.9), (0.5, 0.0)])
def test_the_alias_of_the_ray_is_nearly_attained(angle, before):
    """W is 1 but for one batch of a million, and Gamma's bound is sharp at Im = p tan(outer angle)."""
    shape, outer = 7.5, math.pi / 4 + angle / 2
    period = shape * math.tan(outer)
    y = before * period
    period += y
    given = rule(
        order=8, angle=angle, outer_angle=outer, start=-8.0, unit=2 * math.pi / period, nodes=60,
        output_stride=1, outputs=60, decay=120,
    )  # fmt: skip
    mostly_one = Allocation(1, arb(1), 10**6)
    terms = tilted_allocation.series_of_epoch(given, mostly_one)
    line = Line(arb(0), arb(1), arb(y) if before else arb(1) / 100, 1, 1)
    power = arb(1) / 2
    sums = tilted_allocation.sums_of_ray(terms, given, power, line)
    found = tilted_allocation.enclosed(sums, given, mostly_one, power, line.spacing)
    ball = found[1 if before else 0]
    away = abs(complex(ball.mid()) - 1)
    assert 0.5 * float(ball.real.rad()) < away <= float(ball.real.rad())
    with pytest.raises(NotProvenError, match="nodes are too far apart"):
        tilted_allocation.enclosed(sums, given, mostly_one, power, arb(period) * (1 + arb(2) ** -40))


def test_what_is_before_the_ray_is_nearly_attained():
    """One batch with v = 1: before the first node psi_3 is almost E[Y^3] = e^3."""
    given = rule(order=3, angle=0.0, start=-9.0, nodes=3000, decay=14)
    bound = float(tilted_allocation.left_out(given, Allocation(1, arb(1)), arb(5) / 2))
    places = [-9.0 - 0.1 * i for i in range(1, 300)]
    ratio = log_normal(1.0)
    missing = sum(
        0.1 * math.exp(2.5 * u) * (WEIGHTS @ (ratio**3 * np.exp(-math.exp(u) * ratio))) for u in places
    )
    assert 0.9 * bound < missing <= bound


def test_what_is_after_the_ray_is_bounded():
    """W is almost 1: s^p e^-s is (k/e)^k s^(p - k) at s = k, where the ray ends."""
    k, shape, spacing = 40, 7.5, 0.9
    start = math.log(k) - 30 * spacing
    given = rule(order=0, angle=0.0, start=start, unit=spacing, nodes=30, decay=k)
    bound = float(tilted_allocation.left_out(given, Allocation(1, arb(2) ** -60, 10**6), arb(shape)))
    places = [start + i * spacing for i in range(30, 60)]
    missing = sum(spacing * math.exp(shape * u - math.exp(u)) for u in places)
    assert 0.9 * bound < missing <= bound


def test_witnesses_that_do_not_fit_are_not_believed():
    line = Line(arb(2.5), arb(4), arb(0.5), 8, 3)
    one = Allocation(2, arb(1) / 4)
    for changed, match in [
        ({"order": 3}, "order is not above the power"),
        ({"outer_angle": 0.9}, "between the angle and a right angle"),
        ({"outer_angle": 1.575}, "between the angle and a right angle"),
        ({"order": 6, "decay": 5}, "decay must be above"),
    ]:
        with pytest.raises(NotProvenError, match=match):
            tilted_allocation.moments_of(one, rule(**changed), line, False)
    with pytest.raises(RefusedError, match="order must be a whole number"):
        rule(order=1000)


@pytest.mark.parametrize(
    ("changed", "of_rule"),
    [
        ({"outer_tilt": 300.0}, {}),
        ({"terms": 150_000}, {}),
        ({}, {"nodes": 90_000, "order": 60}),
        ({"bits": 64}, {"nodes": 90_000, "order": 30}),
        ({"bits": 4096}, {"nodes": 9_000, "order": 30}),
    ],
)
def test_work_is_bounded_before_it_is_done(changed, of_rule):
    witness = {"bits": 128, "method": "tilted_allocation", "tilt": 2.5, "outer_tilt": 4.0, "spacing": 0.5}
    witness |= {"terms": 8, "rules": [RULE | of_rule]} | changed
    with pytest.raises(RefusedError, match=r"than are computed|must be at most"):
        enclosed([dealt("random_allocation", 2, 2, 2.0)], "remove", witness, 3.0)


# ---- statement 2: the rule over an output


def coefficient_errors(given, variance):
    """Distances of the coefficients at the first node from s^m E[Y^m] / m!, and radii: e^-sY is 1 there."""
    series, *_ = tilted_allocation.series_of_batch(given, 1, variance)
    node = acb(given.start, given.angle)
    for m in range(given.order + 1):
        wanted = (m * node + (m * m - m) * variance / 2).exp() / math.factorial(m)
        unit = float(abs(wanted))
        yield abs(complex((series[m] - wanted).mid())) / unit, float(series[m].real.rad()) / unit


def test_the_error_of_the_outputs_is_nearly_attained():
    """Even powers are all in phase, and the best strip is a right angle wide, where the widest one is 1.5."""
    given = rule(angle=0.0, start=-80.0, unit=1.0, nodes=2, outputs=12)
    found = list(coefficient_errors(given, arb(1) / 4))
    for m in (0, 2, 4):
        assert 0.9 * found[m][1] < found[m][0] <= found[m][1]
    assert all(away <= radius for away, radius in found)
    short = rule(order=1, angle=0.0, start=-80.0, unit=0.005, nodes=2, outputs=200)
    (both, one) = coefficient_errors(short, arb(1) / 4)
    assert 0.95 * both[1] < both[0] <= both[1]
    assert 0.5 * one[1] < one[0] <= one[1]
    turned = rule(order=1, angle=0.3, start=-80.0, unit=0.005, nodes=2, outputs=200)
    assert all(away <= radius for away, radius in coefficient_errors(turned, arb(1) / 4))


def test_large_nodes_have_the_absolute_bound():
    """At large nodes r^m E[Y^m] is far above every value of (rY)^m e^-rY, which is at most (m/e)^m."""
    given = rule(angle=0.0, start=4.0, unit=0.5, nodes=2, outputs=24)
    series, *_ = tilted_allocation.series_of_batch(given, 1, arb(1))
    outputs, weights = normal(8001, 14.0)
    values = math.exp(4.0) * log_normal(1.0, outputs)
    for m in range(5):
        wanted = weights @ (values**m * np.exp(-values)) / math.factorial(m)
        relative, absolute = tilted_allocation.errors_of_outputs(given, arb(1))[m]
        ball = series[m].real
        assert abs(float(ball.mid()) - wanted) <= float(ball.rad()) * (1 + 1e-9)
        assert float(ball.rad()) <= 1.001 * float(absolute)
        assert m < 2 or float(absolute) < 1e-2 * float(relative) * math.exp(4.0 * m)
    # Where all of (rY)^m e^-rY is next to its largest value, the ends are attained.
    short = rule(order=2, angle=0.0, start=math.log(2.0), unit=0.0002, nodes=2, outputs=100)
    _, absolute = tilted_allocation.errors_of_outputs(short, arb(10) ** -4)[2]
    series, *_ = tilted_allocation.series_of_batch(short, 1, arb(10) ** -4)
    missing = math.exp(-2.0) * 2.0 - float(series[2].real.mid())
    assert 0.9 * float(absolute) < missing <= float(absolute)


# ---- statement 3: beyond the line


@pytest.mark.parametrize("power", [-2.5, 3.5])
@pytest.mark.parametrize(
    ("released", "still", "variance", "y", "least"),
    [(1, 0, 0.01, 12.0, 0.999), (1, 1, 0.01, 12.0, 0.5), (2, 1, 0.01, 30.0, 0.5), (1, 9, 0.01, 100.0, 0.5)],
)
def test_moments_decay_as_bounded(power, released, still, variance, y, least):
    outputs, weights = normal(401)
    one = log_normal(variance, outputs)
    law = one[:, None] * np.ones(1) if released == 1 else np.add.outer(one, one)
    other = np.ones(1) if released == 1 else weights
    ratio = ((law + still) / (released + still)).astype(complex)
    exact = abs(weights @ ratio ** (power + 1j * y) @ other)
    moment = (weights @ ratio**power @ other).real
    given = Allocation(released, arb(variance), still)
    bound = float(tilted_allocation.decay(given, arb(power), arb(moment), arb(y)))
    assert least * bound < exact <= bound * (1 + 1e-9)


# ---- runs


def enclosed(steps, way, witness, epsilon):
    run = {"adjacency": way, "steps": steps}
    (found,) = claims.enclose((run, way, witness, [epsilon]))
    return found


def of_little(integrand, places, digits):
    """Integral of about 10^-digits: mpmath is content with absolute errors."""
    scale = mpmath.mpf(10) ** digits
    with mpmath.workdps(22):
        return mpmath.quad(lambda g: scale * integrand(g), places) / scale


def of_two_batches(way, epsilon):
    """Delta of an epoch of two batches with noise 1, by one integral over a known one."""
    level = mpmath.exp(epsilon if way == "remove" else -mpmath.mpf(epsilon))

    def put(strike):
        """E[(strike - Y)_+] with log Y ~ N(-1/2, 1)."""
        if strike <= 0:
            return mpmath.mpf(0)
        place = mpmath.log(strike) + mpmath.mpf(1) / 2
        return strike * mpmath.ncdf(place) - mpmath.ncdf(place - 1)

    def inner(g):
        other = mpmath.exp(g - mpmath.mpf(1) / 2)
        strike = 2 * level - other
        if way == "add":
            return mpmath.npdf(g) * put(strike) / 2
        if strike <= 0:
            return mpmath.npdf(g) * (1 - strike) / 2
        place = mpmath.log(strike) + mpmath.mpf(1) / 2
        return mpmath.npdf(g) * (mpmath.ncdf(1 - place) - strike * mpmath.ncdf(-place)) / 2

    end = mpmath.log(2 * level) + mpmath.mpf(1) / 2
    if way == "add":
        away = [24, 16, 11, 7, 4, 2, 1, 0.3, 0]
        return of_little(inner, [end - mpmath.mpf(each) for each in away], 84) / level
    away = [-2, -1, -0.5, -0.25, -0.1, -0.03, 0, 0.05, 0.1, 0.25, 0.5, 1, 2, 6]
    near = [-12, -9, -7, -5, -3.5, -2, -1, 0, 1, 2, 3.5, 5, 7, 9, 12]
    return of_little(inner, [*map(mpmath.mpf, near), *(end + mpmath.mpf(each) for each in away)], 101)


@pytest.mark.parametrize(("way", "epsilon"), [("remove", 20.94), ("add", 14.0)])
def test_two_batches_far_in_the_tail_are_the_integral_of_the_definition(way, epsilon):
    wanted = of_two_batches(way, epsilon)
    assert mpmath.mpf("1e-150") < wanted < mpmath.mpf("1e-60")
    steps = [dealt("random_allocation", 2, 2, 1.0)]
    witness = tilted_witness(
        {"adjacency": way, "steps": steps}, way, epsilon, float(mpmath.log(wanted)), 1e-9
    )
    found = enclosed(steps, way, witness, epsilon)
    assert float(found.lower()) <= float(wanted) <= float(found.upper())
    assert 0.0 < float(found.rad()) < 1e-8 * float(wanted)


RUNS = [
    ([dealt("random_allocation", 3, 4)], 3.0),
    ([dealt("fixed_bins", 3, 4, 4.0)], 1.5),
    ([dealt("random_allocation", 4, 8, 4.0, size=2)], 2.5),
    ([dealt("random_allocation", 4, 4, 3.0, times=2)], 2.0),
    ([dealt("random_allocation", 4, 4), step({"name": "poisson", "sample_rate": 0.2}, 5)], 3.0),
    ([dealt("random_allocation", 4, 4), step({"name": "full_batch"}, 1, 5.0)], 3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "epsilon"), some(RUNS))
@pytest.mark.parametrize("way", ["remove", "add"])
def test_both_lines_agree(steps, epsilon, way):
    run = {"adjacency": way, "steps": steps}
    ctx.prec = 128
    witness = half_line_witness(run, way, epsilon, -12.0, 1e-9)
    ctx.prec = witness["bits"]
    (half,) = allocation.enclose(run, way, witness, [arb(epsilon)])
    level = max(float(half.mid()), 1e-12)
    tilted = enclosed(steps, way, tilted_witness(run, way, epsilon, math.log(level), 1e-7), epsilon)
    assert half.overlaps(tilted)
    assert float(tilted.rad()) < 1e-6 * level


def test_steps_in_both_directions_agree_on_both_lines():
    steps = [
        {**dealt("random_allocation", 3, 3), "adjacency": "add"},
        {**dealt("random_allocation", 4, 4, 3.0), "adjacency": "remove"},
    ]
    run = {"adjacency": "mixed", "steps": steps}
    witness = half_line_witness(run, "mixed", 2.0, -10.0, 1e-9)
    ctx.prec = witness["bits"]
    (half,) = allocation.enclose(run, "mixed", witness, [arb(2)])
    level = float(half.mid())
    (tilted,) = claims.enclose(
        (run, "mixed", tilted_witness(run, "mixed", 2.0, math.log(level), 1e-7), [2.0])
    )
    assert half.overlaps(tilted)
    assert float(tilted.rad()) < 1e-6 * level


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["remove", "add"])
@pytest.mark.parametrize(
    ("sampling", "steps"),
    [(hs.RandomAllocation(100), 1000), (hs.RandomAllocation(2), 2), (hs.FixedBins(3), 7)],
)
def test_tiny_deltas_are_certified(sampling, steps, adjacency):
    curve = hs.privacy_curve(noise_multiplier=1.0, sampling=sampling, steps=steps, adjacency=adjacency)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)  # the engine's interval is wide there
        certificate = curve.certify(delta=1e-100)
        low, high = curve.bounds(delta=1e-100)
    above, below = certificate.claims
    assert certificate.verify()[0]
    assert low - 1e-9 <= below["epsilon"] <= above["epsilon"] <= high + 1e-9
    assert above["epsilon"] - below["epsilon"] < 1e-6 * above["epsilon"]
    halved = certificate.with_claims([{"epsilon": above["epsilon"] * 0.999, "at_most": 1e-100}])
    assert not halved.verify()[0]


@pytest.mark.slow
@pytest.mark.parametrize("way", [pytest.param("remove", marks=pytest.mark.long), "add"])
def test_changed_witnesses_prove_nothing_that_is_false(way):
    """One epoch and a half of four batches; what is true is known by the line Re z = -1/2."""
    run = {"adjacency": way, "steps": [dealt("random_allocation", 4, 6)]}
    epsilon, generator = 3.0 if way == "remove" else 1.0, np.random.default_rng(27)
    ctx.prec = 128
    witness = half_line_witness(run, way, epsilon, -14.0, 1e-9)
    ctx.prec = witness["bits"]
    (true,) = allocation.enclose(run, way, witness, [arb(epsilon)])
    sound = tilted_witness(run, way, epsilon, math.log(float(true.mid())), 1e-6)
    outcomes = Counter()
    for _ in range(CHANGES):
        changed = json.loads(json.dumps(sound))
        forging_campaign.change(changed, generator)
        try:
            (found,) = claims.enclose((run, way, changed, [epsilon]))
        except (NotProvenError, RefusedError) as error:
            outcomes[type(error).__name__] += 1
            continue
        assert not found.is_finite() or found.overlaps(true), changed
        outcomes["true"] += 1
    assert outcomes["true"] > CHANGES / 4
    assert outcomes["NotProvenError"] > 0
    assert outcomes["RefusedError"] > 0
