"""The inequalities of the certificate checker, V1 to V9, against cases in which they are nearly attained."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from flint import acb, arb, ctx

from hockeystick_verify import checker, few_steps, variants

BITS = 160


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, BITS
    with mpmath.workdps(50):
        yield
    ctx.prec = before


def exact(ball):
    """Return the middle of a ball with many digits."""
    return mpmath.mpf(str(ball.mid().str(45, radius=False)))


def ends(ball):
    return exact(ball.lower()), exact(ball.upper())


def one_shift(shift, sigma=1.0):
    """A Gaussian pair in the form of a mixture of one component."""
    return checker.Pair(arb(sigma), {Fraction(shift): arb(1)}, None)


def nodes(pair, **changed):
    witness = {"start": -16.0, "spacing": 0.05, "nodes": 801, "height": 0.5, "shift": 0.5, "shift_strip": 0.5}
    if "cut" in changed:
        return few_steps.Part(pair, witness | changed, "test", near=True).at_real_outputs()
    return checker.Nodes(pair, witness | changed, "test").at_real_outputs()


def terms_of(found, tilt):
    """Sum of the terms of the rule for E[e^(tilt loss)]."""
    each = zip(found.noise, found.logs_p, found.losses, strict=True)
    return sum((noise * (log_p + tilt * loss).exp() for noise, log_p, loss in each), arb(0))


def transform(found, tilt, spacing, terms):
    """What a rule encloses on a line."""
    line = checker.Line(tilt, tilt + 1, spacing, terms, math.isqrt(terms + 1))
    starts = range(0, found.count, checker.CHUNK)
    return found.enclosed(sum((found.sums(i, line) for i in starts[1:]), found.sums(0, line)), line)


# ---- V1


def by_enumeration(members):
    """Law of the sum of the shifts of those who are in."""
    law = {}
    for chosen in itertools.product((0, 1), repeat=len(members)):
        probability, place = Fraction(1), Fraction(0)
        for inside, (rate, shift) in zip(chosen, members, strict=True):
            probability *= Fraction(rate) if inside else 1 - Fraction(rate)
            place += Fraction(shift) * inside
        law[place] = law.get(place, 0) + probability
    return {place: weight for place, weight in law.items() if weight}


def step(sampling, **group):
    gaussian = {"name": "gaussian", "noise_multiplier": 1.5}
    return {"mechanism": gaussian, "sampling": sampling, "group": group, "count": 1}


POISSON = {"name": "poisson", "sample_rate": 0.25}


@pytest.mark.parametrize(
    ("sampling", "group", "members"),
    [
        (POISSON, {"size": 3}, [(0.25, 1.0)] * 3),
        (POISSON, {"size": 3, "rates": [0.5, 0.125, 1.0]}, [(0.5, 1.0), (0.125, 1.0), (1.0, 1.0)]),
        (POISSON, {"size": 2, "norms": [0.5, 0.25]}, [(0.25, 0.5), (0.25, 0.25)]),
        (POISSON | {"microbatches": 3}, {"size": 2}, [(0.25, 1.0)] * 6),
        ({"name": "full_batch"}, {"size": 2}, [(1.0, 1.0)] * 2),
    ],
)
def test_laws_of_groups_are_those_of_enumeration(sampling, group, members):
    (plain,) = variants.plain({"adjacency": "remove", "steps": [step(sampling, **group)]})["steps"]
    pair = checker.pair_of_step(plain, "remove")
    wanted = by_enumeration(members)
    assert plain["count"] == 1
    assert set(pair.p) == set(wanted)
    assert all(float(pair.p[place]) == pytest.approx(float(wanted[place]), rel=1e-14) for place in wanted)


def test_members_of_fixed_batches_are_counted_by_enumeration():
    records, batch, size = 7, 3, 2
    fixed = {"name": "without_replacement", "batch_size": batch, "dataset_size": records}
    pair = checker.pair_of_step(step(fixed, size=size), "remove")
    drawn = list(itertools.combinations(range(records), batch))
    for members in range(size + 1):
        share = sum(len(set(each) & {0, 1}) == members for each in drawn) / len(drawn)
        assert float(pair.p[Fraction(2 * members)]) == pytest.approx(share, rel=1e-14)


def test_the_two_directions_of_a_pair_are_its_reflections():
    removed = checker.pair_of_step(step(POISSON, size=2), "remove")
    added = checker.pair_of_step(step(POISSON, size=2), "add")
    assert removed.q is None
    assert added.p is None
    assert {place: float(weight) for place, weight in removed.p.items()} == {
        place: float(weight) for place, weight in added.q.items()
    }


def test_orthogonal_members_and_full_batches_add_up():
    group = {"size": 3, "norms": [1.0, 0.5, 1.0], "gradients": "orthogonal"}
    run = variants.plain({"adjacency": "remove", "steps": [step(POISSON, **group)]})
    found = checker.composition(run, "remove").kinds
    assert [(max(pair.p), count) for pair, count in found] == [(1, 2), (Fraction(1, 2), 1)]
    run = {"adjacency": "remove", "steps": [step({"name": "full_batch"}, size=2) | {"count": 5}]}
    assert float(checker.composition(run, "remove").mu_squared) == pytest.approx(5 * 4 / 1.5**2)
    assert float(checker.composition(run, "replace").mu_squared) == pytest.approx(5 * 16 / 1.5**2)


# ---- V2


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_one_step_is_the_integral_of_the_definition(direction):
    sigma, rate, epsilon = mpmath.mpf(1.5), mpmath.mpf(0.25), mpmath.mpf(0.25)
    size = 1 if direction == "replace" else 2
    pair = checker.pair_of_step(step(POISSON, size=size), direction)

    def density(law, x):
        places = law or {Fraction(0): arb(1)}
        return sum(exact(w) * mpmath.npdf(x, float(s), sigma) for s, w in places.items())

    def excess(x):
        return max(density(pair.p, x) - mpmath.exp(epsilon) * density(pair.q, -x), 0)

    assert rate == mpmath.mpf(POISSON["sample_rate"])
    crossing = mpmath.findroot(
        lambda x: density(pair.p, x) - mpmath.exp(epsilon) * density(pair.q, -x), (0, 3), solver="anderson"
    )
    wanted = mpmath.quad(excess, [crossing, crossing + 4, crossing + 12, crossing + 40])
    lower, upper = ends(few_steps.one_step(pair, arb(0.25)))
    assert lower <= wanted * (1 + mpmath.mpf(10) ** -25)
    assert wanted * (1 - mpmath.mpf(10) ** -25) <= upper
    assert upper - lower < 1e-30


# ---- V3, V4: a run of Gaussian steps, whose delta has a closed form


def gaussian_run(mu, epsilon, **witness):
    """Interval of the inversion, and the truth."""
    run = checker.Composition([], arb(mu) ** 2)
    (found,) = checker.inversion(run, witness | {"kinds": []}, [arb(epsilon)], checker.serial_sums)
    return ends(found), exact(checker.gaussian(arb(mu), arb(epsilon)))


def test_the_error_of_the_spacing_is_nearly_attained():
    # Of losses that are above epsilon less a period all terms of the first series are nearly 1.
    (lower, upper), truth = gaussian_run(2.0, 0.0, tilt=0.1, outer_tilt=3.0, spacing=0.25, terms=60)
    assert lower <= truth <= upper
    assert upper - truth > 0.9 * (upper - lower)


def test_the_second_series_of_the_spacing_is_nearly_attained():
    # Losses a period above epsilon, nearly equal on the scale of 1 / outer_tilt: Chernoff is nearly attained.
    tilt, outer, period, mean = 0.0005, 0.005, 667.0, 707.0
    mu = (2 * mean) ** 0.5
    (lower, upper), truth = gaussian_run(
        mu, 0.0, tilt=tilt, outer_tilt=outer, spacing=float(2 * mpmath.pi / period), terms=60
    )
    first = 1 / mpmath.expm1(tilt * period)
    second = mpmath.exp(outer * (outer + 1) * mean) / mpmath.expm1((outer - tilt) * period)
    assert lower <= truth
    assert upper - lower == pytest.approx(float(first + second), rel=1e-3)
    assert upper - first - second / 2 > truth


def test_far_too_coarse_a_spacing_is_not_believed():
    # The second series: a Chernoff bound, so that it is not attained.
    (lower, upper), truth = gaussian_run(0.3, 0.4, tilt=20.0, outer_tilt=26.0, spacing=9.0, terms=60)
    assert lower <= truth <= upper
    assert upper > 2 * truth


def test_the_error_of_the_end_is_nearly_attained():
    # Here no factor of the terms turns but 1 / z(z + 1), which is nearly -1 / y^2.
    tilt, mu = 0.01, 1e-4
    epsilon = (2 * tilt + 1) * mu**2 / 2
    (lower, upper), truth = gaussian_run(
        mu, epsilon, tilt=tilt, outer_tilt=1000.0, spacing=0.003, terms=10000
    )
    assert lower <= truth <= upper
    middle = (lower + upper) / 2
    assert middle - truth > 0.9 * (upper - middle)


# ---- V5


def test_the_decay_of_a_gaussian_pair_attains_its_bound():
    shift, tilt, frequency = 0.5, 1.5, 1.2
    best = frequency * shift
    found = nodes(one_shift(shift), shift=best, shift_strip=best)
    bound = exact(found.decay(arb(tilt), arb(frequency)) / found.moment(arb(tilt)))
    truth = mpmath.exp(-((mpmath.mpf(frequency) * shift) ** 2) / 2)
    assert truth <= bound * (1 + mpmath.mpf(10) ** -30)
    assert bound < 1.001 * truth


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_the_decay_holds_for_mixtures_at_all_higher_frequencies(direction):
    pair = checker.pair_of_step(step(POISSON, size=1), direction)
    found = nodes(pair, shift=0.8, shift_strip=0.8, start=-24.0, nodes=1201)
    tilt, first = arb(2), 4
    bound = float(found.decay(tilt, arb(first)))
    values = transform(found, tilt, arb(0.5), 60)
    assert all(float(abs(value).lower()) <= bound for value in values[2 * first :])
    assert float(abs(values[2 * first]).lower()) > bound / 4


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_the_integrand_off_the_real_line_is_bounded(direction):
    pair = checker.pair_of_step(step(POISSON, size=1), direction)
    found, tilt, height, closest = nodes(pair), arb(3), arb(1.2), 0.0

    def modulus(x):
        turned = 3 * (found.p(x).log() - found.q(-x).log()) + found.p(x).log()
        return abs((turned - x * x / (2 * found.sigma**2)).exp())

    bound = found.smoothness(tilt, height)
    for place in range(-60, 61):
        x = arb(place) / 4
        ratio = modulus(acb(x, height)) / modulus(acb(x))
        assert ratio <= bound
        closest = max(closest, float(ratio / bound))
    assert closest > 0.6


# ---- V6, V7


def test_the_error_of_the_rule_is_nearly_attained():
    # A Gaussian centred on a node, with the best height.
    shift, tilt, spacing = Fraction(1, 64), 1.0, 2.0
    centre = 2 * float(shift)
    found = nodes(
        one_shift(shift), start=centre - 8 * spacing, spacing=spacing, nodes=17, height=float(mpmath.pi / 2)
    )
    total = exact(terms_of(found, arb(tilt)))
    truth = mpmath.exp(mpmath.mpf(tilt) * (tilt + 1) * mpmath.mpf(float(shift)) ** 2 / 2)
    lower, upper = ends(found.moment(arb(tilt)))
    assert lower <= truth <= upper
    assert total - truth > 0.9 * (total - lower)


def test_the_error_on_the_line_is_nearly_attained():
    shift, tilt, spacing = Fraction(1, 64), 1.0, 2.0
    centre = 2 * float(shift)
    height = float(mpmath.pi / 2)
    found = nodes(one_shift(shift), start=centre - 8 * spacing, spacing=spacing, nodes=17, height=height)
    (value,) = transform(found, arb(tilt), arb(1), 0)
    truth = mpmath.exp(mpmath.mpf(tilt) * (tilt + 1) * mpmath.mpf(float(shift)) ** 2 / 2)
    lower, upper = ends(value.real)
    assert lower <= truth <= upper
    assert abs((lower + upper) / 2 - truth) > 0.9 * (upper - lower) / 2


def test_what_is_beyond_the_nodes_is_nearly_attained():
    # The nodes end beyond the centre, where the integrand still has much of its mass; then they begin late.
    tilt = 2.0
    late = {"start": -0.01, "nodes": 2001}
    for shift, changed in ((Fraction(1, 2), {"start": -16.0, "nodes": 1781}), (Fraction(1, 64), late)):
        truth = mpmath.exp(mpmath.mpf(tilt) * (tilt + 1) * mpmath.mpf(float(shift)) ** 2 / 2)
        found = nodes(one_shift(shift), spacing=0.01, **changed)
        total = exact(terms_of(found, arb(tilt)))
        lower, upper = ends(found.moment(arb(tilt)))
        assert lower <= truth <= upper
        assert truth - total > 0.9 * (upper - total)


def test_the_near_part_beyond_the_nodes_is_bounded():
    cut = {"at": 1.0, "width": 0.5}
    short = nodes(one_shift(1), spacing=0.01, start=-12.0, nodes=1451, cut=cut, height=0.2)
    whole = nodes(one_shift(1), spacing=0.01, start=-12.0, nodes=3001, cut=cut, height=0.2)
    tilt = arb(3)
    missing, bound = exact(terms_of(whole, tilt) - terms_of(short, tilt)), exact(short.beyond(tilt))
    assert 0.5 * bound < missing <= bound


def test_what_is_beyond_the_nodes_where_nobody_may_be_seen_is_nearly_attained():
    # Beyond the last node the ratio of Q is hardly above the weight of the shift 0.
    weight = arb(1) / 4
    pair = checker.Pair(arb(1), None, {Fraction(0): weight, Fraction(1): 1 - weight})
    changed = {"spacing": 0.01, "start": -12.0, "height": 0.2, "shift": 0.2, "shift_strip": 0.2}
    short, tilt = nodes(pair, nodes=1701, **changed), arb(2)
    beyond = nodes(pair, nodes=3001, **changed)
    missing = exact(terms_of(beyond, tilt) - terms_of(short, tilt))
    assert 0.5 * exact(short.beyond(tilt)) < missing <= exact(short.beyond(tilt))


# ---- V8, V9


def test_the_remainder_of_near_runs_is_nearly_attained():
    # All is near, losses are far above epsilon, and a tilt of nearly 0 makes Chernoff's bound 1.
    pair = checker.Pair(arb(0.25), {Fraction(0): arb(2) ** -30, Fraction(1): 1 - arb(2) ** -30}, None)
    run = checker.Composition([(pair, 2)], arb(0))
    kind = {"start": -4.0, "spacing": 0.02, "nodes": 501, "height": 0.05, "shift": 0.04, "shift_strip": 0.04}
    witness = {"tilt": 0.2, "outer_tilt": 0.4, "spacing": 0.05, "terms": 4, "near_tilt": 0.001}
    cut = {"at": 5.5, "width": 0.5}
    (found,) = few_steps.split(run, witness | {"kinds": [kind | {"cut": cut}]}, [arb(0)], checker.serial_sums)
    lower, upper = ends(found)
    assert lower <= 1
    assert upper / 2 < 0.99 < upper < 1.2


def test_the_largest_loss_is_attained():
    run = {"adjacency": "add", "steps": [step(POISSON, size=2)]}
    composed = checker.composition(run, "add")
    most = few_steps.largest_loss(composed)
    assert float(most) == pytest.approx(-2 * float(mpmath.log(0.75)), rel=1e-14)
    just_below = few_steps.one_step(composed.kinds[0][0], most - arb(2) ** -10)
    assert just_below > 0
    assert few_steps.largest_loss(checker.composition(run, "remove")) is None
