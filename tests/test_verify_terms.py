"""Every term of the bounds of V3 to V8: what the checker adds to a sum is what the page says, term by term.

Where a bound is attained a test compares with the truth, in `test_verify_bounds.py` or here; the others are
computed once more from the page, with rules so coarse that every term is seen.
"""

import math
from fractions import Fraction

import mpmath
import pytest
from flint import acb, arb, ctx

from hockeystick_verify import NotProvenError, RefusedError, checker, few_steps

WAYS = ["remove", "add", "replace"]
COARSE = {"start": -3.0, "spacing": 0.9, "nodes": 9, "height": 0.55, "shift": 0.7, "shift_strip": 0.5}
CUT = {"at": 0.8, "width": 0.7}


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    with mpmath.workdps(40):
        yield
    ctx.prec = before


def exact(ball):
    """Return the middle of a ball with many digits."""
    return mpmath.mpf(str(ball.mid().str(40, radius=False)))


def ends(ball):
    return exact(ball.lower()), exact(ball.upper())


def pair_of(way, sigma=1.0, shift=Fraction(1), none=0.75):
    """A record that is in a batch now and then, or, where `none` is 0, always."""
    law = {Fraction(0): arb(none), shift: 1 - arb(none)} if none else {shift: arb(1)}
    return checker.Pair(arb(sigma), None if way == "add" else law, None if way == "remove" else law)


def rule_of(pair, near=None, **changed):
    """A rule for a pair, or, where `near` says which, for a part of it."""
    witness = COARSE | changed
    if near is None:
        return checker.Nodes(pair, witness, "test").at_real_outputs()
    return few_steps.Part(pair, witness | {"cut": CUT}, "test", near).at_real_outputs()


class Stated:
    """The bounds of the page for one rule, in numbers of mpmath."""

    def __init__(self, pair, near=None, **changed):
        self.witness = {name: mpmath.mpf(value) for name, value in (COARSE | changed).items()}
        self.sigma, self.near = exact(pair.sigma), near
        self.laws = [
            [(mpmath.mpf(float(s)), exact(w)) for s, w in (law or {Fraction(0): arb(1)}).items()]
            for law in (pair.p, pair.q)
        ]
        self.tops = [max(s for s, _ in law) for law in self.laws]
        self.rate = 1 / self.sigma**2 + (0 if near is None else 1 / mpmath.mpf(CUT["width"]) ** 2)
        w = self.witness
        self.outputs = [w["start"] + i * w["spacing"] for i in range(int(w["nodes"]))]

    def ratio(self, which, x):
        scale = self.sigma**2
        return sum(w * mpmath.exp(s * x / scale - s * s / (2 * scale)) for s, w in self.laws[which])

    def factor(self, x):
        if self.near is None:
            return 1
        away = (x - CUT["at"]) / CUT["width"]
        return mpmath.ncdf(-away if self.near else away)

    def growth(self, c, tau, turned=None):
        """Factor of V5, (1): e^(lambda tau^2 / 2) kappa^(-c)."""
        most = max(self.tops) * (tau if turned is None else turned) / (2 * self.sigma**2)
        turn = mpmath.cos(most) ** (-c) if self.tops[1] else 1
        return mpmath.exp(self.rate * tau**2 / 2) * turn

    def tilted(self, c, x):
        return self.ratio(0, x) ** (1 + c) / self.ratio(1, -x) ** c

    def weighted(self, x):
        """Noise at a node, times the spacing and the factor of the part."""
        density = mpmath.exp(-(x**2) / (2 * self.sigma**2)) / (self.sigma * mpmath.sqrt(2 * mpmath.pi))
        return self.witness["spacing"] * density * self.factor(x)

    def total(self, c):
        return sum(self.weighted(x) * self.tilted(c, x) for x in self.outputs)

    def beyond(self, c):
        """V7: both ends."""
        first, last, ways = self.outputs[0], self.outputs[-1], []
        at_last, own = self.ratio(0, last) ** (1 + c), (1 + c) * self.tops[0] / self.sigma**2
        ways.append((self.tilted(c, last), own + c * self.tops[1] / self.sigma**2))
        none = dict(self.laws[1]).get(0)
        if none is not None:
            ways.append((at_last / none**c, own))
        after = []
        for value, slope in ways:
            if self.near:
                value *= self.factor(last)
                slope -= (last - CUT["at"]) / mpmath.mpf(CUT["width"]) ** 2
            if last >= slope * self.sigma**2:
                growth = mpmath.exp(slope**2 * self.sigma**2 / 2 - slope * last)
                after.append(value * growth * mpmath.ncdf(slope * self.sigma - last / self.sigma))
        return self.tilted(c, first) * mpmath.ncdf(first / self.sigma) + min(after)

    def aliasing(self, strip):
        return 1 / mpmath.expm1(2 * mpmath.pi * strip / self.witness["spacing"])

    def moment(self, c):
        """Ends of the interval of V6 on the real line."""
        tau, total, beyond = self.witness["height"], self.total(c), self.beyond(c)
        rho = 2 * self.aliasing(2 * tau) * self.growth(c, 2 * tau)
        most = (total + beyond) / (1 - rho)
        return total - rho * most, total + rho * most + beyond

    def off_the_line(self, c):
        """Most that a sum on the line Im x = tau is off."""
        tau = self.witness["height"]
        both = (self.growth(c, 2 * tau) + 1) * self.moment(c)[1]
        return self.aliasing(tau) * both + self.growth(c, tau) * self.beyond(c)

    def decay(self, c, y):
        """V5 (2) by V6 and V7."""
        a, b, total = self.witness["shift"], self.witness["shift_strip"], 0
        for x in self.outputs:
            above, below = (self.ratio(0, mpmath.mpc(x, a)), self.ratio(1, mpmath.mpc(-x, a)))
            angle = mpmath.arg(above) + mpmath.arg(below)
            size = abs(above) ** (1 + c) * abs(below) ** (-c)
            total += self.weighted(x) * size * mpmath.exp(-y * angle)
        error = 2 * self.aliasing(b) * self.growth(c, b, a + b) * self.moment(c)[1]
        raised = mpmath.exp(self.rate * a**2 / 2) * (total + error)
        return raised + self.growth(c, a) * self.beyond(c)


CASES = [(way, near) for way in WAYS for near in (None, True, False)]


# ---- V5 to V7


@pytest.mark.parametrize(("way", "near"), CASES)
def test_moments_have_the_errors_of_the_page(way, near):
    pair, tilt = pair_of(way), mpmath.mpf(1) / 2
    found, stated = rule_of(pair, near), Stated(pair, near)
    assert ends(found.moment(arb(0.5))) == pytest.approx(stated.moment(tilt), rel=1e-8)
    total, beyond = stated.total(tilt), stated.beyond(tilt)
    # Every term is seen: the aliases, what is beyond, and their product.
    assert (stated.moment(tilt)[1] - total - beyond) > 1e-3 * total
    assert beyond > 1e-4 * total


@pytest.mark.parametrize(("way", "near"), CASES)
def test_values_on_the_line_have_the_errors_of_the_page(way, near):
    pair = pair_of(way)
    found, stated = rule_of(pair, near), Stated(pair, near)
    line = checker.Line(arb(0.5), arb(1), arb(1), 3, 2)
    values = found.enclosed(found.sums(0, line), line)
    for value in values:
        wanted = stated.off_the_line(mpmath.mpf(1) / 2)
        assert float(value.real.rad()) == pytest.approx(float(wanted), rel=1e-6)
        assert float(value.imag.rad()) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize(("way", "near"), CASES)
def test_bounds_of_the_decay_are_those_of_the_page(way, near):
    pair = pair_of(way)
    found, stated = rule_of(pair, near), Stated(pair, near)
    wanted = stated.decay(mpmath.mpf(1) / 2, mpmath.mpf(2))
    assert float(exact(found.decay(arb(0.5), arb(2)).upper())) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("way", ["add", "replace"])
def test_the_modulus_in_the_strip_of_the_decay_is_nearly_attained(way):
    # In a narrow strip about the line Im x = a two terms of equal weight cancel as far as the bound says.
    pair = pair_of(way, shift=Fraction(1), none=0.5)
    found, tilt, a, b, closest = rule_of(pair), arb(3), arb(1.2), arb(0.05), 0.0

    def ratio_of(rule, x, sign):
        """Continuation of the modulus of a ratio at height a, squared."""
        return rule(sign * x + acb(0, a)) * rule(sign * x - acb(0, a))

    bound = found.smoothness(tilt, b, a + b)
    for place in range(-60, 61):
        x = arb(place) / 8
        here, value = acb(x, b), found.p(acb(x)) ** 4 * found.q(acb(-x)) ** -3
        size = ratio_of(found.p, here, 1) ** 2 * ratio_of(found.q, here, -1).sqrt() ** -3
        grown = abs(size / value) * (b**2 / 2).exp()
        assert grown <= bound
        closest = max(closest, float(grown / bound))
    assert closest > 0.6


def test_the_error_of_the_rule_is_nearly_attained_where_sums_are_too_small():
    # A Gaussian whose centre is in the middle between two nodes.
    shift, tilt, spacing = Fraction(1, 64), 1.0, 2.0
    start = 2 * float(shift) - 8.5 * spacing
    height = float(mpmath.pi / 2)
    found = rule_of(
        pair_of("remove", shift=shift, none=0), start=start, spacing=spacing, nodes=18, height=height
    )
    stated = Stated(
        pair_of("remove", shift=shift, none=0), start=start, spacing=spacing, nodes=18, height=height
    )
    truth = mpmath.exp(mpmath.mpf(tilt) * (tilt + 1) * mpmath.mpf(float(shift)) ** 2 / 2)
    total, (lower, upper) = stated.total(mpmath.mpf(tilt)), ends(found.moment(arb(tilt)))
    assert lower <= truth <= upper
    assert truth - total > 0.9 * (upper - total)


def test_the_error_of_the_bound_on_the_decay_is_nearly_attained():
    shift, spacing, strip, tilt = Fraction(1, 64), 2.0, float(mpmath.pi), 1.0
    given = {"start": 2 * float(shift) - 8.5 * spacing, "spacing": spacing, "nodes": 18}
    given |= {"height": strip / 2, "shift": strip, "shift_strip": strip}
    found = rule_of(pair_of("remove", shift=shift, none=0), **given)
    s, y = mpmath.mpf(float(shift)), mpmath.mpf(3)
    truth = mpmath.exp(mpmath.pi**2 / 2 - y * s * mpmath.pi + tilt * (tilt + 1) * s**2 / 2)
    bound = exact(found.decay(arb(tilt), arb(3)))
    # The sum alone is 1.4 % too small, and the error of the rule makes up for it.
    assert truth <= bound < 1.005 * truth


@pytest.mark.parametrize("way", ["add", "replace"])
def test_what_is_beyond_the_nodes_is_nearly_attained_by_ratios_of_q(way):
    tilt, shift = mpmath.mpf(2), Fraction(1, 4)
    pair, given = pair_of(way, shift=shift, none=0), {"spacing": 0.01, "start": -16.0, "nodes": 1780}
    found, stated = rule_of(pair, **given), Stated(pair, **given)
    distance = mpmath.mpf(1) / 4 * (2 if way == "replace" else 1)
    truth = mpmath.exp(tilt * (tilt + 1) * distance**2 / 2)
    total, (lower, upper) = stated.total(tilt), ends(found.moment(arb(2)))
    assert lower <= truth <= upper
    assert truth - total > 0.9 * (upper - total) > 1e-3


@pytest.mark.parametrize(
    ("changed", "error", "reason"),
    [
        ({"height": 1.51}, NotProvenError, "V6: a strip reaches"),
        ({"shift": 2.6}, NotProvenError, "V6: a strip reaches"),
        ({"shift_strip": 0.71}, NotProvenError, "V6: shift_strip must be"),
        ({"nodes": 5}, NotProvenError, "V7: the nodes do not reach"),
        ({"spacing": 4.0}, NotProvenError, "V6: the nodes are too far apart"),
        ({"start": 0.5}, RefusedError, "start must be"),
    ],
)
def test_rules_outside_of_the_statements_are_not_believed(changed, error, reason):
    with pytest.raises(error, match=reason):
        rule_of(pair_of("remove"), **changed).moment(arb(0.5))


def test_a_near_part_that_ends_before_its_cut_is_not_believed():
    with pytest.raises(NotProvenError, match="V7: the nodes do not reach beyond the cut"):
        rule_of(pair_of("remove"), near=True, nodes=5).moment(arb(0.5))


# ---- V3, V4


def test_terms_beyond_the_line_of_the_worst_phase_are_nearly_as_large_as_bounded():
    epsilon, tilt, spacing, terms = 0.7, 0.4, 0.05, 200
    line = checker.Line(arb(tilt), arb(60), arb(spacing), terms, 14)
    (found,) = line.integral([acb(0)] * (terms + 1), arb(0), arb(1), [arb(epsilon)])
    over = 1 / math.expm1(tilt * 2 * math.pi / spacing)
    missing = sum(
        spacing / math.pi * math.exp(-tilt * epsilon) / abs(z * (z + 1))
        for z in (complex(tilt, j * spacing) for j in range(terms + 1, 400 * terms))
    )
    lower, upper = (float(end) for end in ends(found))
    assert 0.99 * upper < missing <= upper
    assert 0.99 * -lower < missing + over <= -lower * (1 + 1e-9)


def test_the_decay_of_a_gaussian_pair_beyond_the_line_is_needed():
    # At the last point a Gaussian pair has decayed to e^-4.5, and falls from there on.
    tilt, mu, spacing, terms = 0.05, 0.05, 0.015, 4000
    epsilon = (2 * tilt + 1) * mu**2 / 2
    witness = {"tilt": tilt, "outer_tilt": 1000.0, "spacing": spacing, "terms": terms, "kinds": []}
    (found,) = checker.inversion(
        checker.Composition([], arb(mu) ** 2), witness, [arb(epsilon)], checker.serial_sums
    )
    (lower, upper), truth = ends(found), exact(checker.gaussian(arb(mu), arb(epsilon)))
    middle = (lower + upper) / 2
    assert lower <= truth <= upper
    assert middle - truth > 0.05 * (upper - middle)
    bound = mpmath.exp(-4.5 - tilt * epsilon + tilt * (tilt + 1) * mu**2 / 2) / mpmath.pi
    assert upper - middle == pytest.approx(float(bound / ((terms + 0.5) * spacing)), rel=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        {"tilt": 0.5, "outer_tilt": 0.7, "spacing": 2.0, "terms": 9},  # the second series is the error
        {"tilt": 0.5, "outer_tilt": 1.5, "spacing": 0.5, "terms": 4},  # the end of the line is
    ],
)
def test_steps_of_gaussian_pairs_have_the_interval_of_one_pair(line):
    pair, count, epsilon = pair_of("remove", shift=Fraction(1, 2), none=0), 4, arb(0.25)
    kind = {"start": -20.0, "spacing": 0.1, "nodes": 600, "height": 0.8, "shift": 1.0, "shift_strip": 1.0}
    both = []
    for run, kinds in (
        (checker.Composition([(pair, count)], arb(0)), [kind]),
        (checker.Composition([], arb(1)), []),
    ):
        (found,) = checker.inversion(run, line | {"kinds": kinds}, [epsilon], checker.serial_sums)
        both.append([float(end) for end in ends(found)])
    assert both[0] == pytest.approx(both[1], rel=1e-6)
    assert both[0][1] - both[0][0] > 1e-3


def test_curves_that_are_no_numbers_are_not_believed():
    for bad in (arb("nan"), arb("inf"), arb(0).union(arb("nan"))):
        with pytest.raises(NotProvenError, match="not finite"):
            checker.largest((arb(0.5), bad))
    assert float(checker.largest((arb(0.25), arb(0.5)))) == 0.5
    assert float(checker.largest((arb(-0.25), arb(-0.5)))) == 0.0
    assert float(checker.largest((arb(1.5),))) == 1.0


# ---- V8


@pytest.mark.parametrize("line", [{"spacing": 0.2, "terms": 60}, {"spacing": 0.9, "terms": 12}])
def test_runs_with_a_far_step_have_the_errors_of_the_page(line):
    pair, count, mu_squared, epsilon = pair_of("remove"), 3, arb(0.01), arb(0.25)
    kind = {"start": -12.0, "spacing": 0.2, "nodes": 151, "height": 0.7, "shift": 0.7, "shift_strip": 0.7}
    far, near = (rule_of(pair, side, **kind) for side in (False, True))
    witness = {"tilt": 1.0, "outer_tilt": 1.3, "near_tilt": 2.0} | line
    (found,) = few_steps.split(
        checker.Composition([(pair, count)], mu_squared),
        witness | {"kinds": [kind | {"cut": CUT}]},
        [epsilon],
        checker.serial_sums,
    )

    def gaussian(c):
        return mpmath.exp(c * (c + 1) * exact(mu_squared) / 2)

    def parts(c):
        return exact(far.moment(arb(c))), exact(near.moment(arb(c)))

    e, last, (h, n) = mpmath.mpf(0.25), line["spacing"] * line["terms"], (line["spacing"], line["terms"])
    whole, outer, period = sum(parts(1.0)), sum(parts(1.3)), 2 * mpmath.pi / h
    some = count * exact(far.decay(arb(1), arb(last)).upper()) / whole
    beyond = gaussian(1) * whole**count * some * mpmath.exp(-(mpmath.mpf(last) ** 2) * exact(mu_squared) / 2)
    end = beyond * mpmath.exp(-e) / (mpmath.pi * (n + mpmath.mpf(1) / 2) * h)
    second = gaussian(1.3) * outer**count * mpmath.exp(-1.3 * e) / mpmath.expm1(0.3 * period)
    rest = gaussian(2) * parts(2.0)[1] ** count * mpmath.exp(-2 * e)
    lower, upper = ends(found)
    wanted = 2 * end + second + 1 / mpmath.expm1(period) + rest
    assert float(upper - lower) == pytest.approx(float(wanted), rel=1e-4)
    assert min(end, second, rest) > 1e-4 * wanted


# ---- V9


def run_of(way, *counts, sampling=("poisson", 0.25)):
    name, rate = sampling
    each = {"mechanism": {"name": "gaussian", "noise_multiplier": 1.0}, "group": {"size": 1}}
    each |= {"sampling": {"name": name} | ({} if rate is None else {"sample_rate": rate})}
    return {"adjacency": way, "steps": [each | {"count": count} for count in counts]}


def test_largest_losses_add_up_over_all_steps():
    most = few_steps.largest_loss(checker.composition(run_of("add", 3, 4), "add"))
    assert float(most) == pytest.approx(-7 * math.log(0.75), rel=1e-12)


def test_only_added_records_that_may_be_in_no_batch_have_a_largest_loss():
    full = run_of("add", 1, sampling=("full_batch", None))["steps"]
    for way in ("remove", "replace"):
        assert few_steps.largest_loss(checker.composition(run_of(way, 2), way)) is None
    beside = {"adjacency": "add", "steps": run_of("add", 2)["steps"] + full}
    assert few_steps.largest_loss(checker.composition(beside, "add")) is None
    never_away = checker.Composition([(pair_of("add", none=0), 1)], arb(0))
    assert few_steps.largest_loss(never_away) is None


def test_what_is_never_exceeded_is_so_at_every_epsilon_that_is_asked_for():
    most = -math.log(0.75)
    both = few_steps.enclose(run_of("add", 1), "add", {"bits": 128}, [arb(most / 2), arb(most * 1.01)])
    assert both[0] > 1e-3
    assert both[1].contains(0)
    (alone,) = few_steps.enclose(run_of("add", 1), "add", {"bits": 128}, [arb(most * 1.01)])
    assert alone.is_zero()
