"""Every term of V26 by itself: against the page, against cases that attain it, and in forged certificates."""

import json
import math
from fractions import Fraction

import mpmath as mp
import pytest
from flint import acb, arb, ctx

import hockeystick as hs
from hockeystick_verify import NotProvenError, RefusedError, check, dealt_moments, moments
from hockeystick_verify.dealt_moments import Batches, Rule
from hockeystick_verify.parts import Atom, Part

ZERO, ONE = Fraction(0), Fraction(1)
STILL = [Batches(3)]


@pytest.fixture(autouse=True)
def bits():
    kept, ctx.prec = ctx.prec, 128
    yield
    ctx.prec = kept


def rule(**changed):
    numbers = {"series": 2, "start": arb(-60), "spacing": arb(0.125), "nodes": 800, "decay": 12}
    numbers |= {"reach": arb(14), "output_spacing": arb(0.125)}
    return Rule(**numbers | changed)


def is_close(interval, value, relative=1e-9):
    return float(interval) == pytest.approx(float(value), rel=relative)


# ---------------------------------------------------------------- statement 1


@pytest.mark.parametrize(
    ("p", "q", "low"),
    [({0: 0.5}, {-1: 0.75}, None), ({2: 1.0}, {0: 1.0}, None), ({2: 1.0}, {0: 1.0}, 1)],
    ids=["added", "removed", "above"],
)
def test_one_shift_each_has_a_closed_form_without_ends(p, q, low):
    sigma, order = 1.5, 2.5
    laws = [{Fraction(s): arb(w) for s, w in law.items()} for law in (p, q)]
    part = Part(arb(0.5), "gaussian", arb(sigma), *laws, None if low is None else Fraction(low), None)
    found = moments.of_gaussian(part, arb(order), moments.Work(1))
    (s, w), (s_q, w_q) = *p.items(), *q.items()
    truth = 0.5 * w**order * w_q ** (1 - order) * math.exp(order * (order - 1) * ((s - s_q) / sigma) ** 2 / 2)
    if low is not None:
        truth *= float(mp.ncdf((order * s - (order - 1) * s_q - low) / sigma))
    assert is_close(found, truth)


def test_logarithms_across_their_cut_are_not_analytic():
    # The mixture is negative around 0.999 + i pi, but nowhere 0, so that its logarithm has a value there.
    law = {ZERO: arb(0.125), ONE: arb(0.75), Fraction(2): arb(0.125)}
    p, q = moments.Mixture(law, arb(1)), moments.Mixture({ZERO: arb(1)}, arb(1))
    around = acb(arb(0.999, 0.01), arb(math.pi, 0.01))
    assert moments.log_integrand(p, q, arb(1), arb(2.5), around).is_finite()
    assert not moments.log_integrand(p, q, arb(1), arb(2.5), around, True).is_finite()
    integrands = []

    class Kept(moments.Work):
        def integral(self, integrand, low, high, cost):
            integrands.append(integrand)
            return super().integral(integrand, low, high, cost)

    # Between both shifts P has the density (e^-x + e^(x - 1))/4, which is negative around 1/2 + i pi.
    part = Part(arb(1), "laplace", arb(1), {ZERO: arb(0.5), ONE: arb(0.5)}, {ZERO: arb(1)}, ZERO, ONE)
    moments.of_laplace(part, arb(2.5), Kept(1))
    around = acb(arb(0.5, 0.01), arb(math.pi, 0.01))
    assert integrands[0](around, False).is_finite()
    assert not integrands[0](around, True).is_finite()


def test_outcomes_that_never_occur_have_no_moment():
    assert moments.of_atom(Atom(arb(0), arb(0)), arb(2.5)) == 0


def test_integrals_share_the_work_of_all_claims():
    work = moments.Work(4)
    assert work.left == moments.LARGEST_WORK // 4
    work.integral(lambda x, _: x * x, arb(0), arb(1), 1000)
    assert work.left <= moments.LARGEST_WORK // 4 - 1000


# ---------------------------------------------------------------- statements 2 and 3


def test_powers_near_whole_ones_are_between_both_continued_chords():
    epoch = [Batches(3, variance=arb(1))]
    logs = [float(each.log()) for each in dealt_moments.whole_moments(epoch, 4)]
    for k in (1, 2):
        for u in (0.25, 0.75):
            found = dealt_moments.between_whole_ones(epoch, k + Fraction(u))
            before = logs[k] + u * (logs[k] - logs[k - 1])
            after = logs[k + 1] - (1 - u) * (logs[k + 2] - logs[k + 1])
            assert float(found.lower()) == pytest.approx(max(before, after), abs=1e-7)
            assert float(found.upper()) == pytest.approx((1 - u) * logs[k] + u * logs[k + 1], abs=1e-7)


@pytest.mark.parametrize("power", [Fraction(-5, 2), Fraction(10_001, 2)])
def test_without_a_rule_a_mean_may_have_no_more_than_moment_one(power):
    # A batch of a million hardly moves W, whose moment is nearly 1; what is known above is far from that.
    found = dealt_moments.without_a_rule([Batches(1, variance=arb(2.0**-24)), Batches(10**6)], power)
    assert found.lower() <= 0 < found.upper()


# ---------------------------------------------------------------- statement 4


def test_the_terms_of_the_ray_are_those_of_the_page():
    epoch = [Batches(2, variance=arb(0.5)), Batches(1, scale=arb(2)), Batches(2)]
    for beta, n, k, h in ((1.25, 2, 9, 0.5), (-0.5, 0, 1, 0.25), (-3.0, 1, 8, 1.0)):
        c, start, nodes = n - beta, -2.0, 9
        given = rule(series=n, decay=k, spacing=arb(h), start=arb(start), nodes=nodes)
        turn = math.atan(2 * math.pi / h / c)
        alias = 2 * math.exp(-turn * 2 * math.pi / h) / math.cos(turn) ** c
        alias /= 1 - math.exp(-turn * 2 * math.pi / h)
        assert is_close(dealt_moments.alias_on_the_ray(arb(c), arb(h)), alias)
        q = (k - n) / 5
        negative = 2 * (q * (q + 1) * 0.25)
        outer = math.exp(q / 2) + math.exp(-(q + 1) / 2)
        inner = (math.exp(-(q + 1) / 2) - math.exp(q / 2)) / (-2 * q - 1)
        negative += math.log((outer + inner) / 2)
        before = float(dealt_moments.whole_moments(epoch, n)[n]) * math.exp(c * (start - h))
        after = (k / math.e) ** k * math.exp(negative + (c - k) * (start + nodes * h))
        bound = h * (before / (1 - math.exp(-c * h)) + after / (1 - math.exp((c - k) * h)))
        assert is_close(dealt_moments.left_out(epoch, given, arb(c)), bound)


def psi(v, n, s):
    """E[Y^n e^(-sY)] of one batch with Gaussian noise."""
    root, each = math.sqrt(v), (i / 16 for i in range(-200, 201))
    ratios = ((math.exp(-g * g / 2), math.exp(root * g - v / 2)) for g in each)
    return sum(w * y**n * math.exp(-s * y) for w, y in ratios) / 16 / math.sqrt(2 * math.pi)


def test_moments_beyond_the_ray_are_nearly_attained():
    v, n, c = 1.0, 2, 1.0
    epoch = [Batches(1, variance=arb(v))]
    early = [-8 - j / 8 for j in range(1, 200)]
    lacking = sum(math.exp(c * u) * psi(v, n, math.exp(u)) for u in early) / 8
    late = rule(start=arb(-8), nodes=800, decay=3)
    assert 0.98 < lacking / float(dealt_moments.left_out(epoch, late, arb(c))) <= 1.0
    # After: one term at s = k, where s^k e^-s is the largest, and many next to each other.
    v, k, step = 0.01, 12, 2.5
    epoch = [Batches(1, variance=arb(v))]
    numbers = rule(spacing=arb(step), start=arb(math.log(k) - 20 * step), nodes=20, decay=k)
    assert 0.8 < step * k**c * psi(v, n, k) / float(dealt_moments.left_out(epoch, numbers, arb(c))) <= 1.0
    beyond = sum(2 * math.exp(j / 8 - 2 * math.exp(j / 8)) / 8 for j in range(200))
    numbers = rule(start=arb(math.log(2) - 100), decay=2)
    bound = float(dealt_moments.left_out(STILL, numbers, arb(c)))
    assert 0.5 * bound < beyond <= bound


def test_all_of_what_the_ray_leaves_out_is_counted():
    late = rule(start=arb(-6), nodes=200, decay=400)
    lacking = float(dealt_moments.left_out(STILL, late, arb(1)))
    found = dealt_moments.on_the_ray(STILL, ONE, late)
    assert found.contains(1)
    assert float(found.upper()) - 1 < 0.02 * lacking
    step = 2 * math.pi / 2.3
    for i in range(16):  # aliases are above and below
        numbers = rule(spacing=arb(step), start=arb(-60 + i * step / 16), nodes=40)
        assert dealt_moments.on_the_ray(STILL, ONE, numbers).contains(1)


@pytest.mark.parametrize(("power", "n", "k"), [(1, 1, 12), (3, 4, 2), (-2, 1, 2), (-2, 1, 3)])
def test_series_and_decay_must_be_above_the_power(power, n, k):
    with pytest.raises(NotProvenError, match="decay above both"):
        dealt_moments.on_the_ray([Batches(2, variance=arb(1))], Fraction(power), rule(series=n, decay=k))


def of_outputs(v, m, r):
    root = math.sqrt(v)
    each = ((g / 64, math.exp(root * g / 64 - v / 2)) for g in range(-900, 900))
    return sum(math.exp(-g * g / 2) * (r * y) ** m * math.exp(-r * y) for g, y in each) / (
        64 * math.sqrt(2 * math.pi)
    )


@pytest.mark.parametrize(("m", "r"), [(0, 1e-6), (2, 1e-6), (10, 1e-6), (10, 10.0)])
@pytest.mark.parametrize(
    ("v", "numbers", "attained"),
    [
        (0.04, {"output_spacing": arb(0.01), "reach": arb(3)}, "beyond"),
        (0.04, {"output_spacing": arb(2), "reach": arb(20)}, "alias"),
        (0.25, {"output_spacing": arb(0.01), "reach": arb(2.5)}, "all"),
        (0.25, {"output_spacing": arb(2), "reach": arb(2)}, ""),
    ],
)
def test_coefficients_count_both_errors_of_the_outputs(m, r, v, numbers, attained):
    given = rule(series=m, **numbers)
    ((*_, found),) = dealt_moments.coefficients(Batches(1, variance=arb(v)), [arb(r)], given)
    found, truth = found * math.factorial(m), of_outputs(v, m, r)
    assert found.lower() <= truth * (1 + 1e-11)
    assert truth * (1 - 1e-11) <= found.upper()
    width = float(found.upper() - found.lower())
    if r < 1 and attained == "beyond":
        assert float(found.upper()) - truth < 0.02 * width
    elif m == 0 and attained == "alias":
        phase = width / (2 * truth)  # of a sum whose nodes have 0 among them
        assert float(found.lower()) == pytest.approx(truth, abs=0.5 * phase)
    elif r < 1 and m == 10 and attained == "all":  # what is left out is nearly all of E[Y^m]
        assert float(found.lower()) < 0.02 * truth
        assert float(found.upper()) < 1.02 * truth


def test_strips_are_where_likelihood_ratios_have_a_positive_real_part():
    assert all(0 < angle < arb.pi() / 2 for angle in dealt_moments.ANGLES)


# ---------------------------------------------------------------- runs

DEALT = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(10), "steps": 30}
RUNS = {
    "one batch of an epoch": DEALT | {"steps": 31, "adjacency": "add"},
    "bins, part": DEALT | {"sampling": hs.FixedBins(10), "steps": 35},
}


@pytest.mark.parametrize("name", RUNS)
def test_divergences_of_parts_of_epochs_are_those_of_the_engine(name):
    curve = hs.privacy_curve(**RUNS[name])
    certificate = curve.certify(order=3.0)
    assert certificate.verify()[0]
    upper, engine = certificate.claims[0]["at_most"], float(curve.renyi(3.0))
    assert engine * (1 - 2e-6) <= upper <= engine * (1 + 1e-12)
    if name == "one batch of an epoch":  # with a rule for each
        assert upper == pytest.approx(certificate.claims[1]["at_least"], rel=1e-12)


def test_bins_with_laplace_noise_have_the_moments_of_all_their_releases():
    sampling = hs.FixedBins(5)
    curve = hs.privacy_curve(mechanism=hs.Laplace(4.0), sampling=sampling, steps=12, adjacency="remove")
    certificate = curve.certify(order=3.0)
    assert certificate.verify()[0]

    def moment(k, releases):  # of one of them, by the three pieces of Y
        low, high = math.exp(-k / 4) / 2, math.exp((k - 1) / 4) / 2
        return (low + high + (high - low) / (2 * k - 1)) ** releases

    often, total = (3, 3, 2, 2, 2), 0.0
    for number in range(5**3):
        picked = [number // 5**place % 5 for place in range(3)]
        total += math.prod(moment(picked.count(i), releases) for i, releases in enumerate(often))
    assert certificate.claims[0]["at_most"] == pytest.approx(math.log(total / 5**3) / 2, rel=1e-11)


def document_of(order, adjacency="remove", count=20, **sampling):
    sampling = {"name": "random_allocation", "batches": 10} | sampling
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 2.0}, "sampling": sampling}
    run = {"adjacency": adjacency, "steps": [step | {"group": {"size": 1}, "count": count}]}
    witness = {adjacency: {"bits": 128, "method": "moments", "rules": []}}
    return {"run": run, "witness": witness, "claims": [{"order": order, "at_most": 1e6}]}


def test_null_in_place_of_a_rule_proves_no_less():
    document = document_of(2.5, "add")
    document["run"]["steps"][0]["group"]["size"] = 2
    truth = float(hs.privacy_curve(**DEALT | {"steps": 20, "group_size": 2}, adjacency="add").renyi(2.5))
    (found,) = check(document)
    assert truth * (1 - 1e-9) <= found.upper
    assert found.lower == 0.0


def test_orders_and_bits_share_the_work_on_dealt_batches(monkeypatch):
    monkeypatch.setattr(dealt_moments, "LARGEST_WORK", 300)
    document = document_of(20.0)
    check(document)
    more = document | {"claims": [{"order": 20.0 + place, "at_most": 1e6} for place in range(2)]}
    with pytest.raises(RefusedError, match="dealt batches take more products"):
        check(more)
    document["witness"]["remove"]["bits"] = 256
    with pytest.raises(RefusedError, match="dealt batches take more products"):
        check(document)


def test_orders_share_the_work_on_integrals(monkeypatch):
    monkeypatch.setattr(moments, "LARGEST_WORK", 100_000)
    document = document_of(2.5)
    document["run"]["steps"][0]["sampling"] = {"name": "poisson", "sample_rate": 0.125}
    check(document)
    document["claims"] = [{"order": 2.0 + place, "at_most": 1e6} for place in range(16)]
    with pytest.raises(RefusedError, match="integrals of all steps"):
        check(document)


def test_moments_prove_divergences_of_runs_that_are_read_as_one_deal_only():
    document = document_of(2.0)
    check(document)
    document["run"]["steps"] *= 2
    with pytest.raises(RefusedError, match="dealt batches that are alike"):
        check(document)
    document = document_of(2.0) | {"claims": [{"epsilon": 1.0, "at_most": 0.5}]}
    with pytest.raises(RefusedError, match="of no others"):
        check(document)


@pytest.mark.parametrize("adjacency", ["remove", "add"])
def test_forged_rules_and_claims_prove_nothing_that_is_false(adjacency):
    curve = hs.privacy_curve(**DEALT, adjacency=adjacency)
    document = json.loads(curve.certify(order=2.5).to_json())
    (entry,) = document["witness"][adjacency]["rules"]
    truth = document["claims"][0]["at_most"]
    document["claims"] = [{"order": 2.5, "at_most": truth * 0.999}, {"order": 2.5, "at_least": truth * 1.001}]
    changes = [
        {},
        {"start": -1.0},
        {"start": 1e6},
        {"nodes": 2},
        {"spacing": 1.5},
        {"decay": entry["series"]},
    ]
    changes += [{"decay": 10**6}, {"series": 0}, {"series": 5, "decay": 5}, {"reach": 1.0}]
    changes += [
        {"output_spacing": 10.0},
        {"reach": 1.0, "output_spacing": 10.0},
        {"start": -1e6, "nodes": 99},
    ]
    for changed in changes:
        document["witness"][adjacency]["rules"] = [entry | changed]
        try:
            found = check(document)
        except (NotProvenError, RefusedError):
            continue
        assert not any(each.holds for each in found), changed
    for hostile in (
        0,
        "x",
        [],
        {},
        {**entry, "nodes": 1.5},
        {**entry, "start": math.nan},
        entry | {"more": 1},
    ):
        document["witness"][adjacency]["rules"] = [hostile]
        with pytest.raises(RefusedError):
            check(document)
