"""Every term of V27 by itself: against the page, and where a witness leaves it next to nothing else."""

import itertools
import json
import math
from contextlib import nullcontext

import numpy as np
import pytest
from flint import acb, arb, ctx
from test_verify_dealt import WEIGHTS, dealt, log_normal, step

import hockeystick as hs
from hockeystick._curves.allocation_witness import _witness as half_line_witness
from hockeystick._curves.tilted_witness import tilted_witness
from hockeystick_verify import NotProvenError, RefusedError, allocation, check, claims, tilted_allocation
from hockeystick_verify.checker import Line, Nodes, gaussian_moment
from hockeystick_verify.half_moments import Allocation
from hockeystick_verify.variants import composition

RULE = {
    "order": 4, "angle": 0.9, "outer_angle": 1.45, "start": -60.0, "unit": 0.1, "stride": 1, "nodes": 760,
    "output_stride": 1, "outputs": 120, "decay": 20,
}  # fmt: skip
STRIPS = [j / 16 for j in range(1, 25)]


@pytest.fixture(autouse=True)
def bits():
    kept, ctx.prec = ctx.prec, 192
    yield
    ctx.prec = kept


def rule(**changed):
    return tilted_allocation.rule_of(RULE | changed)


def is_close(found, value, relative=1e-7):
    return float(found) == pytest.approx(float(value), rel=relative)


def above(x):
    return math.erfc(x / math.sqrt(2)) / 2


# ---------------------------------------------------------------- statement 2


def errors_of_the_page(given, v):
    """Both bounds of Statement 2 for each m, the first one without r^m."""
    theta, wide = float(given.angle), given.output_stride * float(given.unit)
    root, turned = math.sqrt(v), math.exp(theta**2 / (2 * v))
    last = given.outputs * wide / root
    aliases = {
        phi: 2 * math.exp((theta + phi) ** 2 / (2 * v)) / math.expm1(2 * math.pi * phi / wide)
        for phi in STRIPS
    }
    for m in range(given.order + 1):
        tail = above(last - m * root) if last > m * root else 1.0
        first = math.exp((m * m - m) * v / 2) * (min(aliases.values()) + 2 * turned * tail)
        spacing = min(alias / math.cos(phi) ** m for phi, alias in aliases.items())
        second = (m / math.e) ** m * (spacing + 2 * turned * above(last))
        yield first / math.factorial(m), second / math.factorial(m)


RULES_OF_OUTPUTS = [
    ({"angle": 0.9, "unit": 0.3, "outputs": 40}, 0.25),  # the spacing decides
    ({"angle": 0.4, "unit": 0.05, "output_stride": 2, "outputs": 25}, 1.0),  # the ends do, and are too early
    ({"angle": 0.0, "unit": 0.02, "stride": 3, "output_stride": 5, "outputs": 22}, 0.09),
]


@pytest.mark.parametrize(("changed", "v"), RULES_OF_OUTPUTS)
def test_errors_of_outputs_are_those_of_the_page(changed, v):
    given = rule(order=6, **changed)
    found = tilted_allocation.errors_of_outputs(given, arb(v))
    for (relative, absolute), (first, second) in zip(found, errors_of_the_page(given, v), strict=True):
        assert is_close(relative, first)
        assert is_close(absolute, second)


@pytest.mark.parametrize(("changed", "v"), RULES_OF_OUTPUTS)
def test_coefficients_have_the_smaller_error_at_every_node(changed, v):
    given = rule(order=6, start=-3.0, nodes=40, **changed)
    found = tilted_allocation.series_of_batch(given, 5, arb(v))
    pages, used = list(errors_of_the_page(given, v)), set()
    for i, series in enumerate(found):
        r = math.exp(-3.0 + i * given.stride * float(given.unit)) / 5
        for m, (first, second) in enumerate(pages):
            used.add(first * r**m < second)
            for part in (series[m].real, series[m].imag):
                assert is_close(part.rad(), min(first * r**m, second))
    assert used == {True, False}


def coefficient(v, m, r, theta):
    """Coefficient of x^m in L(s (1 - x)), s = r e^(i theta), by a fine rule over real outputs."""
    outputs = np.linspace(-16.0, 34.0, 6001)
    weights = np.exp(-(outputs**2) / 2) * (outputs[1] - outputs[0]) / math.sqrt(2 * math.pi)
    log = math.log(r) + 1j * theta + math.sqrt(v) * outputs - v / 2
    with np.errstate(under="ignore"):
        return weights @ np.exp(m * log - np.exp(log)) / math.factorial(m)


@pytest.mark.parametrize("theta", [0.0, 0.4, 0.8])
def test_outputs_that_end_too_early_are_within_their_error(theta):
    """With all outputs far below those of E[Y^m], and spacings so wide that a node there has too much."""
    for v, unit, outputs in ((1.0, 0.5, 3), (1.0, 3.0, 1), (1.0, 6.0, 1), (4.0, 10.0, 1), (4.0, 9.0, 2)):
        given = rule(order=12, angle=theta, start=-30.0, unit=unit, nodes=6, outputs=outputs)
        for i, series in enumerate(tilted_allocation.series_of_batch(given, 1, arb(v))):
            r = math.exp(-30.0 + i * unit)
            for m in range(13):
                wanted = coefficient(v, m, r, theta)
                assert abs(float(series[m].real.mid()) - wanted.real) <= float(series[m].real.rad()) * 1.001
                assert abs(float(series[m].imag.mid()) - wanted.imag) <= float(series[m].imag.rad()) * 1.001


def test_tiny_exponentials_are_not_left_out():
    """With 64 bits e^-sY below 2^-128 is between 0 and that, but (sY)^m / m! is large."""
    given = rule(order=64, angle=0.0, start=math.log(88.9), unit=0.0001, stride=60, nodes=3, outputs=120)
    ctx.prec, almost_one = 64, arb(2) ** -20
    found = tilted_allocation.series_of_batch(given, 1, almost_one)
    ctx.prec = 192
    for series, wanted in zip(found, tilted_allocation.series_of_batch(given, 1, almost_one), strict=True):
        assert wanted[64].real > 1e-4
        assert series[64].real.contains(wanted[64].real.mid())


# ---------------------------------------------------------------- statement 1

LAWS = [Allocation(2, arb(0.5), 1, arb(0.25)), Allocation(1, arb(0.5), 3)]


def variances(allocation_):
    others = float(allocation_.variance_of_others)
    return [float(allocation_.variance)] * allocation_.batches + [others] * allocation_.others


def whole_moment(allocation_, n):
    """E[W^n] by all ways to choose a batch for each factor."""
    each = variances(allocation_)
    total = 0.0
    for way in itertools.product(range(len(each)), repeat=n):
        counts = [way.count(i) for i in range(len(each))]
        total += math.exp(sum(c * (c - 1) * v / 2 for c, v in zip(counts, each, strict=True)))
    return total / len(each) ** n


def ends_of_the_page(given, allocation_, p):
    """Omega of Statement 1."""
    n, k, h = given.order, given.decay, given.stride * float(given.unit)
    start, each = float(given.start), variances(allocation_)
    share = (k - n) / len(each)
    log_moment = sum(share * (share + 1) * v / 2 for v in each)
    last = start + given.nodes * h
    before = whole_moment(allocation_, n) * math.exp(p * (start - h)) / -math.expm1(-p * h)
    after = k * math.log(k / (math.e * math.cos(float(given.angle)))) + log_moment + (p - k) * last
    return h * (before + math.exp(after) / -math.expm1((p - k) * h))


ENDS = [
    ({"order": 0, "start": -4.0, "unit": 0.25, "nodes": 400, "decay": 6}, 2.5),
    ({"order": 3, "start": -4.0, "unit": 0.25, "nodes": 400, "decay": 6}, 0.5),
    ({"order": 3, "start": -40.0, "unit": 0.25, "stride": 2, "nodes": 90, "decay": 9}, 2.5),
    ({"order": 2, "angle": 0.0, "start": -40.0, "unit": 0.5, "nodes": 90, "decay": 2}, 0.75),
    ({"order": 1, "angle": 1.3, "start": -30.0, "unit": 1.5, "nodes": 24, "decay": 7}, 3.5),
]


@pytest.mark.parametrize(("changed", "p"), ENDS)
@pytest.mark.parametrize("law", LAWS)
def test_the_ends_of_the_ray_are_those_of_the_page(changed, p, law):
    given = rule(**changed)
    assert is_close(tilted_allocation.left_out(given, law, arb(p)), ends_of_the_page(given, law, p))


@pytest.mark.parametrize(
    ("changed", "y"),
    [
        ({"unit": 0.4, "outer_angle": 1.4}, 0.5),  # the next alias above
        ({"unit": 1.0, "angle": 0.1, "outer_angle": 1.0}, 5.0),  # that below
        ({"unit": 0.5, "start": -3.0}, 2.0),  # what is before the ray
        ({"unit": 0.5, "start": -30.0, "nodes": 66}, 2.0),  # after it
    ],
)
@pytest.mark.parametrize("size", [0.0, 1.75])
def test_errors_of_moments_are_those_of_the_page(changed, y, size):
    law, power = LAWS[1], 1.5
    given = rule(**changed)
    theta, outer, p = float(given.angle), float(given.outer_angle), given.order - power
    period, gamma = 2 * math.pi / float(given.spacing), math.gamma(p)
    ends = ends_of_the_page(given, law, p)

    def alias(at):
        first = math.exp(-(outer - theta) * (at + period)) / -math.expm1(-(outer - theta) * period)
        second = math.exp(-(outer + theta) * (period - at)) / -math.expm1(-(outer + theta) * period)
        return gamma / math.cos(outer) ** p * (first + second)

    most = (size + ends) / (gamma - alias(0.0))
    found = tilted_allocation.enclosed([acb(size), acb(0)], given, law, arb(power), arb(y))
    for at, ball in ((0.0, found[0]), (y, found[1])):
        error = math.exp(-theta * at) * (alias(at) * most + ends)
        turn = 1 / complex(acb(p, at).gamma())
        assert is_close(ball.real.rad(), error * (abs(turn.real) + abs(turn.imag)), 1e-5)
        assert is_close(ball.imag.rad(), error * (abs(turn.real) + abs(turn.imag)), 1e-5)
    assert is_close(found[0].real.mid(), size / gamma)


def test_all_terms_of_a_series_are_kept(monkeypatch):
    """The library keeps ten terms, unless it is told to keep more: others would read as 0."""
    given, law = rule(order=12, decay=20, nodes=3), Allocation(2, arb(0.5))
    assert ctx.cap < 12
    assert all(each.is_finite() for each in tilted_allocation.series_of_epoch(given, law))
    assert ctx.cap < 12
    monkeypatch.setattr(tilted_allocation, "terms_kept", lambda _: nullcontext())
    with pytest.raises(NotProvenError, match="coefficients of a power series are missing"):
        tilted_allocation.series_of_epoch(given, law)


def test_conditions_of_the_ray_are_asked():
    law, sums = Allocation(2, arb(0.25)), [acb(1)]
    for changed, power, match in [
        ({"unit": 6.0, "outer_angle": 1.2}, 0.5, "nodes are too far apart"),  # a(0) is above Gamma(p)/2
        ({}, 4.0, "order is not above the power"),
        ({"order": 1, "decay": 3}, -2.5, "decay must be above"),
        ({"order": 1, "decay": 3}, -2.0, "decay must be above"),
    ]:
        with pytest.raises(NotProvenError, match=match):
            tilted_allocation.enclosed(sums, rule(**changed), law, arb(power), arb(1))
    tilted_allocation.enclosed(sums, rule(order=1, decay=4), law, arb(-2.5), arb(1))


def test_the_whole_moment_beyond_the_line_is_of_a_power_that_is_not_too_small():
    """As a double 1 + outer would be 2."""
    outer = 1 + 2.0**-52
    line = Line(arb(0.5), arb(outer), arb(0.5), 1, 1)
    found = tilted_allocation.moments_of(Allocation(2, arb(1)), rule(), line, False)
    assert is_close(found.outer, (math.exp(3.0) + 3 * math.e) / 4)


# ---------------------------------------------------------------- statement 3


def decay_of_the_page(allocation_, beta, moment, y):
    """The least bound of Statement 3 over the angles and levels of V15."""
    each = [v for v in variances(allocation_) if v > 0.0]
    stiffness = sum(1 / v for v in each)
    if len(each) == allocation_.total:
        return moment * math.exp(-(y**2) / (2 * stiffness))
    v, r = each[0], len(each)
    a, bounds = 1 - r / allocation_.total, [moment]
    for angle, level in itertools.product((1.5 * 0.75**i for i in range(16)), range(40)):
        rho = math.exp(-level / 8)
        phase = np.angle(a + (1 - a) * rho * np.exp(1j * angle))
        rare = above(-(math.log(rho) + v / 2) / math.sqrt(v / r))
        largest = (a if beta < 0 else a + (1 - a) * rho) ** beta
        cost = math.exp(stiffness * angle**2 / 2) * (math.cos(angle / 2) ** beta if beta < 0 else 1.0)
        bounds.append(cost * (math.exp(-y * phase) * moment + largest * rare))
    return min(bounds)


@pytest.mark.parametrize("beta", [-2.5, -0.25, 1.75, 6.5])
@pytest.mark.parametrize(
    "law",
    [
        *[Allocation(1, arb(v), 1) for v in (0.01, 0.25)],
        *[Allocation(2, arb(0.04), others) for others in (1, 7)],
        Allocation(3, arb(0.5)),
        Allocation(1, arb(0.5), 3, arb(0.25)),
    ],
)
def test_bounds_beyond_the_line_are_those_of_the_page(law, beta):
    for y in (0.5, 4.0, 15.0, 60.0, 300.0):
        for moment in (1.0, 30.0, 1e6):
            found = tilted_allocation.decay(law, arb(beta), arb(moment), arb(y))
            assert is_close(found, decay_of_the_page(law, beta, moment, y))


# ---------------------------------------------------------------- runs


def transforms(steps, way, witness):
    """Return the transforms of a run, each as it is computed once more."""
    run = {"adjacency": way, "steps": steps}
    return tilted_allocation.transforms(json.dumps([run, way, witness]), ctx.prec)


def line(tilt=1.5, outer=3.0, spacing=0.25, terms=2, **more):
    return {"tilt": tilt, "outer_tilt": outer, "spacing": spacing, "terms": terms} | more


@pytest.mark.parametrize("way", ["remove", "add"])
def test_public_patterns_and_epochs_have_bounds_of_their_own(way):
    """Two records in two batches: in one of them, a mean of two with 4 v, or in both, a Gaussian pair."""
    v = 1 / 9
    each = np.add.outer(log_normal(4 * v), log_normal(4 * v)) / 2
    powers = [-1.5, -3.0] if way == "add" else [2.5, 4.0]
    together = [float(WEIGHTS @ each**power @ WEIGHTS) for power in powers]
    apart = [math.exp(c * (c + 1) * v) for c in (1.5, 3.0)]
    found = transforms([dealt("random_allocation", 2, 4, 3.0, size=2)], way, line(rules=[RULE]))
    assert is_close(found.line[0].real, ((together[0] + apart[0]) / 2) ** 2)
    assert is_close(found.outer, ((together[1] + apart[1]) / 2) ** 2)
    y = 0.5
    beyond = together[0] * math.exp(-(y**2) * 4 * v / 4) + apart[0] * math.exp(-(y**2) * v)
    assert is_close(found.beyond, (beyond / 2) ** 2)


@pytest.mark.parametrize(("way", "beta"), [("remove", 2.5), ("add", -1.5)])
def test_a_part_of_an_epoch_has_the_bound_of_its_power(way, beta):
    rules = [RULE | {"angle": 0.0, "unit": 0.05, "nodes": 1520}]
    found = transforms([dealt("random_allocation", 2, 1, 10.0)], way, line(spacing=6.0, rules=rules))
    moment = float(WEIGHTS @ ((log_normal(0.01) + 1) / 2) ** beta)
    wanted = decay_of_the_page(Allocation(1, arb(1) / 100, 1), beta, moment, 12.0)
    assert wanted < 0.95 * moment
    assert is_close(found.beyond, wanted)


@pytest.mark.parametrize("way", ["remove", "add"])
@pytest.mark.parametrize("spacing", [0.25, 0.0625])
def test_other_steps_have_bounds_of_their_own(way, spacing):
    """At the end of the longer line the moments of the drawn steps have decayed, at that of the other not."""
    epoch = dealt("random_allocation", 3, 3, 3.0)
    drawn, full = step({"name": "poisson", "sample_rate": 0.3}, 3), step({"name": "full_batch"}, 2, 4.0)
    kind = {"start": -32.0, "spacing": 0.25, "nodes": 300, "height": 1.0, "shift": 1.0, "shift_strip": 0.5}
    of_line = line(spacing=spacing, terms=20, rules=[RULE])
    alone = transforms([epoch], way, of_line)
    beside = transforms([epoch, drawn, full], way, of_line | {"kinds": [kind]})
    ((pair, count),) = composition({"adjacency": way, "steps": [drawn]}, way).kinds
    nodes, y = Nodes(pair, kind, "kind").at_real_outputs(), 20 * arb(spacing)
    mu_squared, (decayed, moment) = arb(2) / 16, (nodes.decay(arb(1.5), y), nodes.moment(arb(1.5)))
    assert decayed < 0.99 * moment if spacing == 0.25 else decayed > moment > 1.01
    of_full = gaussian_moment(mu_squared, arb(1.5)) * (-(y**2) * mu_squared / 2).exp()
    assert is_close(beside.beyond / alone.beyond, of_full * decayed.min(moment) ** count)
    at_outer = gaussian_moment(mu_squared, arb(3)) * nodes.moment(arb(3)) ** count
    assert is_close(beside.outer / alone.outer, at_outer)
    at_tilt = gaussian_moment(mu_squared, arb(1.5)) * moment**count
    assert is_close((beside.line[0] / alone.line[0]).real, at_tilt)


def test_powers_for_many_batches_are_work():
    """Ten million batches, of half of which there is one more: each node takes a sixth of a second."""
    steps = [dealt("fixed_bins", 10**7, 15 * 10**6, 1000.0)]
    rules = [RULE | {"order": 128, "nodes": 2800, "outputs": 1, "decay": 200}]
    with pytest.raises(RefusedError, match="than are computed"):
        transforms(steps, "add", line(rules=rules))
    few = [dealt("fixed_bins", 3, 4, 1000.0)]
    with pytest.raises(NotProvenError, match="decay must be above"):
        transforms(few, "add", line(rules=[rules[0] | {"order": 64, "nodes": 500, "decay": 2}]))


def test_power_series_that_are_kept_are_limited():
    """With few bits their products would be within the limit, and they would take a gigabyte."""
    ctx.prec = 128
    rules = [RULE | {"order": 20, "nodes": 96_000, "outputs": 120}]
    with pytest.raises(RefusedError, match="than are computed"):
        transforms([dealt("random_allocation", 3, 3)], "add", line(rules=rules))


def test_alike_entries_are_refused():
    steps = [dealt("random_allocation", 3, 3), dealt("random_allocation", 3, 2)]
    with pytest.raises(RefusedError, match="alike"):
        transforms(steps, "add", line(rules=[RULE, RULE]))


def test_one_allocation_in_both_directions_has_two_rules():
    """Two batches of which one record is added, and two of which it is removed, twice."""
    steps = [
        {**dealt("random_allocation", 2, 2), "adjacency": "add"},
        {**dealt("random_allocation", 4, 4, times=2), "adjacency": "remove"},
    ]
    run = {"adjacency": "mixed", "steps": steps}
    ctx.prec = 128
    witness = half_line_witness(run, "mixed", 2.0, -10.0, 1e-9)
    ctx.prec = witness["bits"]
    (half,) = allocation.enclose(run, "mixed", witness, [arb(2)])
    tilted = tilted_witness(run, "mixed", 2.0, math.log(float(half.mid())), 1e-7)
    assert len(tilted["rules"]) == 2
    (found,) = claims.enclose((run, "mixed", tilted, [2.0]))
    assert half.overlaps(found)
    assert float(found.rad()) < 1e-6 * float(half.mid())


def of_two_records(epsilon):
    """Delta of two removed records with one gradient, each in one of two batches with noise 1."""
    ratio = log_normal(1.0)
    twice = log_normal(4.0)
    all_ways = (twice[:, None] + twice[None, :] + 2 * ratio[:, None] * ratio[None, :]) / 4
    return float(WEIGHTS @ np.maximum(all_ways - math.exp(epsilon), 0.0) @ WEIGHTS)


def test_nothing_is_claimed_at_least_of_a_bound():
    """A public pattern reveals more than the run: delta of the pair is above that of any data set known."""
    run = {"adjacency": "remove", "steps": [dealt("random_allocation", 2, 2, 1.0, size=2)]}
    true = of_two_records(1.0)
    witness = {"remove": tilted_witness(run, "remove", 1.0, math.log(0.345), 1e-6)}
    asked = [{"epsilon": 1.0, "at_most": 0.346}, {"epsilon": 1.0, "at_least": 0.33}]
    guarantee, forged = check({"run": run, "claims": asked, "witness": witness})
    assert true < 0.326
    assert guarantee.holds
    assert guarantee.lower == 0.0
    assert guarantee.upper == pytest.approx(0.3453928563, rel=1e-6)
    assert not forged.holds
    one = {"adjacency": "remove", "steps": [dealt("random_allocation", 2, 2, 0.5)]}
    (least,) = check({"run": one, "claims": asked[1:], "witness": witness})
    assert least.holds


def test_groups_far_in_the_tail_have_a_guarantee_of_their_pair():
    """The search for epsilon looks at both ends of the pair's interval; one end is claimed."""
    curve = hs.privacy_curve(
        noise_multiplier=2.0, sampling=hs.RandomAllocation(4), steps=4, group_size=2, adjacency="remove"
    )
    low, high = curve.bounds(delta=1e-60)
    certificate = curve.certify(delta=1e-60)
    (claim,) = certificate.claims
    assert high - low < 1e-6 * high
    assert low <= claim["epsilon"] < low + 0.05
    assert certificate.verify()[0]
