"""The moments of steps that prove Renyi divergences (V26), against integrals in high precision."""

import json
import math
from fractions import Fraction

import mpmath as mp
import pytest
from flint import acb, arb, ctx

import hockeystick as hs
from hockeystick_verify import RefusedError, check, dealt_moments, moments
from hockeystick_verify.dealt_moments import Batches, Rule
from hockeystick_verify.parts import Atom, Part

ZERO, ONE, TWO = Fraction(0), Fraction(1), Fraction(2)
mp.mp.dps = 30


@pytest.fixture(autouse=True)
def bits():
    kept, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = kept


def holds(interval, truth, width):
    """Whether an interval has the truth, up to its digits, and is so narrow."""
    low, high = (mp.mpf(str(end.mid().str(40, radius=False))) for end in (interval.lower(), interval.upper()))
    near = mp.mpf(10) ** -20 * abs(truth)
    return low - near <= truth <= high + near and high - low <= width * abs(truth)


# ---------------------------------------------------------------- statement 1: parts


def density(noise, scale, law, x):
    if noise == "gaussian":
        return sum(w * mp.exp(-((x - s) ** 2) / (2 * scale**2)) for s, w in law) / (
            scale * mp.sqrt(2 * mp.pi)
        )
    return sum(w * mp.exp(-abs(x - s) / scale) for s, w in law) / (2 * scale)


PARTS = {
    "removed": ("gaussian", 1.5, [(0, 0.75), (1, 0.25)], [(0, 1.0)], None, None),
    "added": ("gaussian", 1.5, [(0, 1.0)], [(0, 0.75), (-1, 0.25)], None, None),
    "both": ("gaussian", 1.0, [(0, 0.5), (1, 0.375), (2, 0.125)], [(0, 0.75), (-2, 0.25)], None, None),
    "above": ("gaussian", 0.75, [(0, 0.875), (2, 0.125)], [(0, 1.0)], 1, None),
    "below": ("gaussian", 0.75, [(0, 1.0)], [(0, 0.875), (-2, 0.125)], None, -1),
    "one shift": ("gaussian", 2.0, [(2, 1.0)], [(0, 1.0)], None, None),
    "laplace": ("laplace", 1.5, [(0, 0.5), (1, 0.25), (3, 0.25)], [(0, 1.0)], None, None),
    "laplace, both": ("laplace", 0.5, [(0, 0.75), (1, 0.25)], [(0, 0.5), (-1, 0.5)], None, None),
    "laplace, above": ("laplace", 2.0, [(0, 0.75), (2, 0.25)], [(0, 1.0)], 1, None),
    "laplace, below": ("laplace", 2.0, [(0, 1.0)], [(0, 0.75), (-2, 0.25)], None, -1),
}


def part_of(name):
    noise, scale, p, q, low, high = PARTS[name]
    laws = [{Fraction(s): arb(w) for s, w in law} for law in (p, q)]
    ends = [None if end is None else Fraction(end) for end in (low, high)]
    return Part(arb(0.5), noise, arb(scale), *laws, *ends)


def definition(name, order):
    noise, scale, p, q, low, high = PARTS[name]
    start = -40 * scale if low is None else low
    end = (3 * order + 40) * scale + 3 * order if high is None else high
    if noise == "laplace":
        start, end = (-80 * scale if low is None else low), (80 * scale + 3 if high is None else high)
    kinks = sorted(
        {float(s) for s, _ in (*p, *q) if start < s < end} | {start, end, start / 2, end / 2, end / 4}
    )
    inside = [x for x in kinks if start <= x <= end]

    def integrand(x):
        return density(noise, scale, p, x) ** order * density(noise, scale, q, x) ** (1 - order)

    return mp.quad(integrand, inside, maxdegree=9) / 2


@pytest.mark.parametrize("order", [1.25, 3.0, pytest.param(7.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PARTS)
def test_moments_of_parts_are_their_integrals(name, order):
    of_part = moments.of_laplace if PARTS[name][0] == "laplace" else moments.of_gaussian
    found = of_part(part_of(name), arb(order), moments.Work(1))
    assert holds(found, definition(name, mp.mpf(order)), 1e-18)


def test_what_is_below_an_integral_is_attained(monkeypatch):
    # Far to the left the likelihood ratio is the weight of the shift 0.
    monkeypatch.setattr(moments, "REACH", 0.5)
    part = Part(
        arb(1), "gaussian", arb(1), {ZERO: arb(0.75), Fraction(8): arb(0.25)}, {ZERO: arb(1)}, None, ONE
    )
    found = moments.of_gaussian(part, arb(3), moments.Work(1))
    truth = float(arb(0.75) ** 3 * (1 - moments.normal_above(arb(1))))
    assert float(found.lower()) < 0.7 * truth
    assert truth == pytest.approx(float(found.upper()), rel=1e-6)
    assert found.contains(arb(truth))


def test_what_is_above_an_integral_is_attained(monkeypatch):
    # Far to the right the term of the largest shift is the only one that counts.
    monkeypatch.setattr(moments, "REACH", 0.5)
    law = {ZERO: arb(0.75), Fraction(8): arb(0.25)}
    part = Part(arb(1), "gaussian", arb(1), law, {ZERO: arb(1)}, Fraction(6), None)
    found = moments.of_gaussian(part, arb(3), moments.Work(1))

    def integrand(x):
        return mp.npdf(x) * (0.75 + 0.25 * mp.exp(8 * x - 32)) ** 3

    truth = float(mp.quad(integrand, [6, 15, 20, 24, 28, 60]))
    assert float(found.lower()) < 0.75 * truth
    assert truth == pytest.approx(float(found.upper()), rel=1e-8)
    # Of Q the least shift counts.
    lower = part._replace(q={ZERO: arb(0.5), Fraction(-1): arb(0.5)})
    found = moments.of_gaussian(lower, arb(3), moments.Work(1))
    assert holds(
        found,
        mp.quad(lambda x: integrand(x) / (0.5 + 0.5 * mp.exp(-x - 0.5)) ** 2, [6, 20, 24, 28, 60]),
        0.05,
    )


def test_outcomes_have_the_moment_of_their_likelihood_ratio():
    assert abs(moments.of_atom(Atom(arb(0.25), arb(0.5)), arb(3)) - arb(1) / 16) < 1e-40
    assert moments.of_atom(Atom(arb(0), arb(0.5)), arb(3)) == 0
    with pytest.raises(moments.NotProvenError, match="no bounded loss"):
        moments.of_atom(Atom(arb(0.25), arb(0)), arb(3))


def test_a_wrong_branch_of_a_logarithm_is_not_analytic():
    p, q = (moments.Mixture({ZERO: arb(0.5), ONE: arb(0.5)}, arb(1)) for _ in range(2))
    zero = acb(arb(0.5), arb.pi())  # the mixture is 0 there
    around = acb(zero.real, (zero.imag - 1).union(zero.imag + 1))
    assert not moments.log_integrand(p, q, arb(1), arb(2.5), around, True).is_finite()
    assert moments.log_integrand(p, q, arb(1), arb(2.5), acb(0.5, 1), True).is_finite()


@pytest.mark.parametrize("order", [1.5, 64.0, 10_000.0])
def test_both_forms_of_a_logarithm_are_one(order):
    law = {ZERO: arb(0.875), ONE: arb(0.0625), TWO: arb(0.0625)}
    p, q = moments.Mixture(law, arb(0.5)), moments.Mixture({ZERO: arb(1)}, arb(0.5))
    for x in (p.turn - 1e-9, p.turn + 1e-9):
        logs = [w.log() + s * (arb(x) - arb(s) / 2) * 4 for s, w in zip((0, 1, 2), law.values(), strict=True)]
        plain = sum((log.exp() for log in logs), arb(0)).log() * arb(order) - 2 * arb(x) ** 2
        assert abs(moments.log_integrand(p, q, arb(0.5), arb(order), arb(x)) - plain) < 1e-30


# ---------------------------------------------------------------- statement 2: whole powers


def ratio_moment(batches, power):
    """E[Y^power] by an integral over the output."""
    if batches.variance is not None:
        v = mp.mpf(float(batches.variance))
        return mp.exp(power * (power - 1) * v / 2)
    if batches.scale is None:
        return mp.mpf(1)
    b = mp.mpf(float(batches.scale))
    one = mp.quad(
        lambda x: mp.exp(-abs(x) / b + power * (abs(x) - abs(x - 1)) / b) / (2 * b), [-60 * b, 0, 1, 60 * b]
    )
    return one**batches.times


BASES = [Batches(1, variance=arb(0.25)), Batches(1, scale=arb(1.5), times=2), Batches(1)]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("power", [1, 2, 5, Fraction(-3, 4), Fraction(5, 2)])
def test_moments_of_one_batch_are_integrals(base, power):
    found = dealt_moments.power_moment(base, arb(power.numerator) / power.denominator)
    assert holds(found, ratio_moment(base, mp.mpf(power.numerator) / power.denominator), 1e-18)


@pytest.mark.slow
def test_whole_moments_are_those_of_enumeration():
    epoch = [Batches(2, variance=arb(0.25)), Batches(1, scale=arb(1.5), times=2), Batches(1)]
    found = dealt_moments.whole_moments(epoch, 4)
    each = [batches._replace(number=1) for batches in epoch for _ in range(batches.number)]
    for k in range(5):
        total = mp.mpf(0)
        for number in range(4**k):
            picked = [number // 4**place % 4 for place in range(k)]
            total += mp.fprod(ratio_moment(one, picked.count(i)) for i, one in enumerate(each))
        assert holds(found[k], total / 4**k, 1e-18)


# ---------------------------------------------------------------- statement 3: convexity


def test_one_batch_attains_what_is_known_without_a_rule():
    for base in (Batches(1, variance=arb(0.25)), Batches(1, scale=arb(1.5), times=2)):
        for power in (Fraction(-5, 2), Fraction(9, 2), Fraction(20_001, 2)):
            found = dealt_moments.without_a_rule([base], power)
            truth = dealt_moments.power_moment(base, arb(power.numerator) / power.denominator).log()
            assert float(found.upper()) == pytest.approx(float(truth), rel=1e-7)
            assert float(found.lower()) <= float(truth)


def test_the_geometric_mean_is_smaller_than_one_batch_where_there_are_many():
    epoch = [Batches(50, variance=arb(1))]
    bound = float(dealt_moments.without_a_rule(epoch, Fraction(-40)).upper())
    assert bound == pytest.approx(40 / 2 + 40**2 / 100, rel=1e-7)
    # Two batches of very little noise: half of the bound would be below the smallest exponent.
    few = [Batches(2, variance=arb(40))]
    low = dealt_moments.without_a_rule(few, Fraction(-40))
    # W <= 2 max(Y_1, Y_2) / 2, and E[max^-40] >= E[(Y_1 Y_2)^-20 e^(-20 |log Y_1/Y_2|)].
    deviation = mp.sqrt(80)
    apart = 2 * mp.exp(mp.mpf(400) * 80 / 2) * mp.ncdf(-20 * deviation)
    least = 40 * 40 / 2 + 40**2 * 40 / 4 + mp.log(apart)
    assert float(low.upper()) >= float(least) > 0.5 * float(low.upper())


def test_powers_between_whole_ones_are_enclosed():
    for epoch in ([Batches(3, variance=arb(0.25))], [Batches(3, scale=arb(1.5))]):
        for power in (Fraction(3, 2), Fraction(9, 2)):
            between = dealt_moments.between_whole_ones(epoch, power)
            exact = dealt_moments.on_the_ray(epoch, power, rule(series=6, decay=20)).log()
            assert between.contains(exact)
            assert float(between.upper()) > float(exact)
    # The moments of W are nearly those of its largest value, which all three batches have.
    far = [Batches(3, scale=arb(0.125))]
    interval = dealt_moments.between_whole_ones(far, Fraction(401, 2))
    assert interval.rad() < 1e-3
    assert float(interval) == pytest.approx(200.5 * 8 - 3 * (8 + math.log(2)), rel=1e-4)


# ---------------------------------------------------------------- statement 4: the ray


def rule(**changed):
    numbers = {"series": 2, "start": arb(-60), "spacing": arb(0.125), "nodes": 800, "decay": 12}
    numbers |= {"reach": arb(14), "output_spacing": arb(0.125)}
    return Rule(**numbers | changed)


@pytest.mark.parametrize("power", [Fraction(5, 4), Fraction(7, 2), Fraction(-1, 2), Fraction(-3)])
def test_moments_of_two_batches_are_integrals(power):
    n = max(0, math.ceil(power) + 1)
    exponent = mp.mpf(power.numerator) / power.denominator
    for v in (0.25, 1.0):
        found = dealt_moments.on_the_ray([Batches(2, variance=arb(v))], power, rule(series=n, decay=n + 12))
        # With half the sum and half the difference of both normal outputs W is a product.
        root = mp.sqrt(v)
        one = mp.exp(exponent * (exponent / 2 - 1) * mp.mpf(v) / 2)
        two = mp.quad(
            lambda d, root=root: mp.npdf(d) * mp.cosh(root * d / mp.sqrt(2)) ** exponent, [-40, -8, 0, 8, 40]
        )
        assert holds(found, one * two, 1e-13)


@pytest.mark.parametrize("power", [Fraction(5, 4), Fraction(-3)])
def test_moments_of_parts_of_epochs_and_of_laplace_noise_are_integrals(power):
    n, exponent = max(0, math.ceil(power) + 1), mp.mpf(power.numerator) / power.denominator
    numbers = rule(series=n, decay=n + 12)
    gaussian = dealt_moments.on_the_ray([Batches(1, variance=arb(0.25)), Batches(2)], power, numbers)
    truth = mp.quad(
        lambda g: mp.npdf(g) * ((mp.exp(g / 2 - mp.mpf(1) / 8) + 2) / 3) ** exponent, [-40, -8, 0, 8, 40]
    )
    assert holds(gaussian, truth, 1e-15)
    laplace = dealt_moments.on_the_ray([Batches(1, scale=arb(1.5)), Batches(2)], power, numbers)

    def integrand(x):
        ratio = mp.exp((abs(x) - abs(x - 1)) / 1.5)
        return mp.exp(-abs(x) / 1.5) / 3 * ((ratio + 2) / 3) ** exponent

    assert holds(laplace, mp.quad(integrand, [-120, -30, 0, 1, 30, 120]), 1e-15)
    with pytest.raises(dealt_moments.NotProvenError, match="several times"):
        dealt_moments.on_the_ray([Batches(2, scale=arb(1.5), times=2)], power, numbers)


def test_the_error_of_the_spacing_of_the_ray_is_attained():
    # W = 1, so that the moment is 1 and the sum is that of Gamma's integral.
    worst, step = 0.0, 2 * math.pi / 2.3
    for i in range(16):
        start = -60 + i * step / 16
        total = sum(mp.exp(u - mp.exp(u)) for u in (start + j * step for j in range(40)))
        worst = max(worst, abs(float(step * total) - 1))
    bound = float(dealt_moments.alias_on_the_ray(arb(1), arb(step)))
    assert bound / 2 < worst <= bound
    found = dealt_moments.on_the_ray([Batches(3)], ONE, rule(spacing=arb(step), nodes=40))
    assert found.contains(1)


def test_what_the_ray_leaves_out_is_attained():
    still = [Batches(3)]
    late = rule(start=arb(-6), nodes=200, decay=400)
    lacking = sum(mp.exp(u - mp.exp(u)) for u in (-6 - mp.mpf(j) / 8 for j in range(1, 800))) / 8
    bound = float(dealt_moments.left_out(still, late, arb(1)))
    assert 0.99 * bound < float(lacking) <= bound
    # Beyond: s^(1 - k) is e^-s at s = k, and the nodes are far apart.
    k, step = 12, 2.5
    early = rule(spacing=arb(step), start=arb(math.log(k) - 20 * step), nodes=20, decay=k)
    after = step * float(mp.exp(math.log(k) - k))
    before = step * k * math.exp(-21 * step)
    bound = float(dealt_moments.left_out(still, early, arb(1))) - before
    assert 0.9 * bound < after <= bound * (1 + 1e-9)
    with pytest.raises(dealt_moments.NotProvenError, match="series must be above"):
        dealt_moments.on_the_ray(still, Fraction(2), rule(series=2))


@pytest.mark.parametrize("m", [0, 1, 3])
def test_the_error_of_the_output_spacing_is_attained(m):
    # E[Y^m] by the rule, which is what a small r leaves.
    root, spacing = 0.2, 2.0
    given = rule(output_spacing=arb(spacing), reach=arb(30))
    bound = dealt_moments.errors(arb(root), given, m)
    total = sum(
        spacing * mp.npdf(i * spacing) * mp.exp(m * root * i * spacing - m * root**2 / 2)
        for i in range(-15, 16)
    )
    truth = mp.exp((m * m - m) * mp.mpf(root) ** 2 / 2)
    error = abs(float(total / truth) - 1)
    phase = abs(math.cos(2 * math.pi * m * root / spacing))
    assert 0.6 * float(bound.alias) * phase < error <= float(bound.alias) * (1 + 1e-9)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_outputs_that_are_left_out_are_attained(m):
    root, spacing, last = 0.2, 0.01, 2.0
    given = rule(output_spacing=arb(spacing), reach=arb(last))
    bound = dealt_moments.errors(arb(root), given, m)
    outside = [x for i in range(int(last / spacing) + 1, 1500) for x in (i * spacing, -i * spacing)]
    lacking = sum(spacing * mp.npdf(g) * mp.exp(m * root * g - m * root**2 / 2) for g in outside)
    truth = mp.exp((m * m - m) * mp.mpf(root) ** 2 / 2)
    assert 0.9 * float(bound.beyond) < float(lacking / truth) <= float(bound.beyond)
    # (r Y)^m e^(-r Y) is at most (m/e)^m, which it is at Y = m/r.
    assert float(bound.most_beyond) == pytest.approx(2 * (m / math.e) ** m * float(mp.ncdf(-last)), rel=1e-9)


@pytest.mark.parametrize("m", [1, 3])
def test_the_absolute_error_of_the_output_spacing_is_above_what_it_is(m):
    # Where log Y varies little, (r Y)^m e^(-r Y) is near its maximum over the whole strip.
    root, spacing = 0.02, 2.0
    given = rule(output_spacing=arb(spacing), reach=arb(30))
    bound = float(dealt_moments.errors(arb(root), given, m).most_alias)

    def value(g):
        y = m * mp.exp(root * g)
        return mp.npdf(g) * y**m * mp.exp(-y)

    total = sum(spacing * value(i * spacing) for i in range(-15, 16))
    error = abs(float(total - mp.quad(value, [-30, -5, 0, 5, 30])))
    assert 0.6 * bound < error <= bound


@pytest.mark.slow
def test_coarse_rules_enclose_the_moment():
    for power, n in ((Fraction(5, 4), 3), (Fraction(-3), 0)):
        epoch = [Batches(2, variance=arb(0.25))]
        sharp = dealt_moments.on_the_ray(epoch, power, rule(series=n, decay=n + 12))
        for changed in (
            {"spacing": arb(1)}, {"start": arb(-4), "nodes": 200}, {"nodes": 500}, {"reach": arb(3)},
            {"output_spacing": arb(2)}, {"start": arb(-3), "nodes": 30},
        ):  # fmt: skip
            coarse = dealt_moments.on_the_ray(epoch, power, rule(series=n, decay=n + 12, **changed))
            assert coarse.contains(sharp), changed
            assert coarse.rad() > sharp.rad()


# ---------------------------------------------------------------- runs

DEALT = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(10), "steps": 30}
CUT = {"noise_multiplier": 2.0, "sampling": hs.Poisson(0.1, max_batch_size=14, dataset_size=100), "steps": 5}
FIXED = {"sampling": hs.WithoutReplacement(9, 90), "steps": 5, "adjacency": "replace"}
LAPLACE = {"mechanism": hs.Laplace(2.0), "sampling": hs.RandomAllocation(10), "steps": 30}
RUNS = {
    "dealt": DEALT,
    "added": DEALT | {"adjacency": "add"},
    "part": DEALT | {"steps": 35},
    "bins": DEALT | {"sampling": hs.FixedBins(10)},
    "times": DEALT | {"sampling": hs.RandomAllocation(10, times=2)},
    "dealt group": DEALT | {"group_size": 3},
    "large dealt group": DEALT | {"noise_multiplier": 9.0, "group_size": 8},
    "laplace": LAPLACE,
    "laplace group": LAPLACE | {"group_size": 3},
    "cut": CUT,
    "cut, replaced": CUT | {"adjacency": "replace"},
    "fixed, replaced": FIXED | {"noise_multiplier": 2.0},
    "fixed group, replaced": FIXED | {"noise_multiplier": 8.0, "group_size": 3},
    "clipped, replaced": {
        "mechanism": hs.BatchClipping(4.0), "sample_rate": 0.1, "steps": 5, "adjacency": "replace"
    },
}  # fmt: skip
BOUNDS = {"times", "dealt group", "large dealt group", "laplace group"}


@pytest.mark.parametrize("order", [pytest.param(1.5, marks=pytest.mark.slow), 4.0])
@pytest.mark.parametrize("name", RUNS)
def test_divergences_of_all_schemes_are_certified(name, order):
    curve = hs.privacy_curve(**RUNS[name])
    certificate, engine = curve.certify(order=order), float(curve.renyi(order))
    assert certificate.verify()[0]
    assert {"at_least" in claim for claim in certificate.claims} == (
        {False} if name in BOUNDS else {True, False}
    )
    upper = certificate.claims[0]["at_most"]
    assert engine * (1 - 2e-6) <= upper <= engine * (1 + 1e-12)
    below = certificate.with_claims([{"order": order, "at_most": upper * (1 - 1e-9)}])
    assert not below.verify()[0]
    above = certificate.with_claims([{"order": order, "at_least": upper * (1 + 1e-9)}])
    assert not above.verify()[0]


def test_several_kinds_of_steps_add_up():
    names = ("dealt", "laplace", "cut")
    curves = [hs.privacy_curve(**RUNS[name], adjacency="remove") for name in names]
    total = (curves[0] + curves[1] + curves[2]).certify(order=3.5)
    assert total.verify()[0]
    each = [curve.certify(order=3.5).claims[0]["at_most"] for curve in curves]
    assert total.claims[0]["at_most"] == pytest.approx(sum(each), rel=1e-12)


def test_steps_of_a_mixed_run_have_their_own_directions():
    dealt = hs.privacy_curve(**RUNS["added"])
    replaced = hs.privacy_curve(**RUNS["cut"], adjacency="remove")
    total = (dealt + replaced).certify(order=3.5)
    assert total.verify()[0]
    each = [curve.certify(order=3.5).claims[0]["at_most"] for curve in (dealt, replaced)]
    assert total.claims[0]["at_most"] == pytest.approx(sum(each), rel=1e-12)


@pytest.mark.slow
def test_large_orders_are_proven_where_a_rule_would_take_too_long():
    # One batch of three: the divergence of an order that large is that of the batch, less its probability.
    for name, order in (("dealt", 200.3), ("bins", 1234.5), ("added", 1234.5)):
        curve = hs.privacy_curve(**RUNS[name])
        certificate = curve.certify(order=order)
        assert certificate.verify()[0]
        assert certificate.claims[0]["at_most"] <= float(curve.renyi(order)) * (1 + 1e-3)
    dealt = hs.privacy_curve(**RUNS["dealt"]).certify(order=4096.0).claims
    alone = 3 * (4096 / 8 - math.log(10) * 4096 / 4095 + math.log(10) / 4095)
    assert dealt[0]["at_most"] == pytest.approx(alone, rel=1e-6)


def document_of(name, order=4.0, **more):
    return json.loads(hs.privacy_curve(**RUNS[name] | more).certify(order=order).to_json())


def test_forged_entries_of_moments_are_refused():
    document = document_of("added")
    (entry,) = document["witness"]["add"]["rules"]
    for rules, reason in (
        ([entry, entry], "more rules than there are epochs"),
        ([entry | {"nodes": 10**5, "output_spacing": 2e-4}], "more products than are computed"),
        ([entry | {"output_spacing": 1e-4, "reach": 1e3}], "too many outputs"),
        ([{**entry, "series": 65}], "series must be a whole number"),
        ({}, "rules must be a list"),
    ):
        document["witness"]["add"]["rules"] = rules
        with pytest.raises(RefusedError, match=reason):
            check(document)
    document["witness"]["add"] |= {"rules": [entry], "published": 1}
    with pytest.raises(RefusedError, match="published must be true"):
        check(document)


def test_the_work_of_integrals_is_bounded(monkeypatch):
    document = document_of("cut")
    monkeypatch.setattr(moments, "LARGEST_WORK", 20_000)
    with pytest.raises(RefusedError, match="integrals of all steps"):
        check(document)
    document = document_of("dealt", adjacency="remove")
    monkeypatch.setattr(dealt_moments, "LARGEST_WORK", 10)
    with pytest.raises(RefusedError, match="moments of dealt batches take more products"):
        check(document)


def test_nothing_is_claimed_at_least_of_a_bound():
    for name in sorted(BOUNDS):
        document = document_of(name)
        document["claims"] = [{"order": 4.0, "at_least": 1e-9}]
        (found,) = check(document)
        assert not found.holds
        assert found.lower == 0.0
