"""Every term of the bounds of V10 to V12, V16 and V17 that no nearly attained case shows, one at a time."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx

from hockeystick_verify import NotProvenError, RefusedError, cells, claims, lattice, parts


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = before


def ends(ball):
    return float(ball.lower()), float(ball.upper())


def grid_of(start=0.0, spacing=1.0, ranges=(), coarser=()):
    return lattice.Grid(arb(start), arb(spacing), list(ranges), list(coarser))


def law(*weights, sign=1):
    return {Fraction(sign * i): arb(w) for i, w in enumerate(weights)}


# ---- V11


def test_losses_are_raised_by_the_slack_and_lowered_by_the_sink():
    # One outcome of loss 2.25: up to 3 with the slack, down to what is at most 2.25 with the sink.
    cell = cells.Cell(arb(2.25).exp() / 16, arb(1) / 16, arb(2.25), arb(2.25))
    slack = arb(0.25) + arb(2) ** -60
    masses, lost = lattice.rounded_up([cell], grid_of(), slack)
    assert lost.is_zero()
    assert set(masses) == {2}
    without, _ = lattice.rounded_up([cell], grid_of(), arb(0))
    assert set(without) == {2, 3}
    assert float(without[3]) == pytest.approx(
        float(cell.p) * (1 - math.exp(-0.25)) / (1 - math.exp(-1.0)), rel=1e-12
    )
    lower, sink = lattice.rounded_down([cell], grid_of(), arb(1))
    ((place, mass),) = lower.items()
    assert place - sink <= 2.25
    assert mass.overlaps(cell.p)


def test_the_mean_is_kept_with_the_bounds_that_the_slack_allows():
    # Losses between -0.1 and 1.1 at the points 0 and 1 with the slack 0.1.
    slack, p, q = 0.1, 0.5, 0.3
    cell = cells.Cell(arb(p), arb(q), arb(-0.1), arb(1.1))
    masses, _ = lattice.rounded_up([cell], grid_of(), arb(slack) + arb(2) ** -50)
    under, over = math.exp(-slack), math.exp(1 + slack)
    assert float(masses[1]) == pytest.approx(over * (p - under * q) / (over - under), rel=1e-12)
    assert float(masses[0] + masses[1]) == pytest.approx(p, rel=1e-12)


def test_laws_of_a_run_stand_by_their_slack_and_sink():
    step = {
        "mechanism": {"name": "randomized_response", "p": 0.75},
        "sampling": {"name": "poisson", "sample_rate": 0.25},
        "group": {"size": 1},
        "count": 3,
    }
    witness = {"spacing": 0.5, "points": 64, "tilt": 1.0}
    witness |= {"kinds": [{"start": 0.1, "ranges": [[-9, 9, 1]], "coarser": []}]}
    ((up, lost, down),) = lattice.laws({"adjacency": "remove", "steps": [step]}, "remove", witness)
    largest = max(abs(0.1 + 0.5 * i) for i in (-9, 9))
    assert float(up.grid.start - arb(0.1)) == pytest.approx(lattice.EXACT * largest, rel=1e-9, abs=0.0)
    assert lost.is_zero()
    losses = [math.log(p / q) for p, q in ((0.625, 0.75), (0.375, 0.25))]
    for place in down.masses:
        at = float(down.grid.at(place))
        assert min(abs(at - loss) for loss in losses) < 0.5
        assert any(at <= loss for loss in losses)
    mean = sum(float(mass) * float(down.grid.at(place)) for place, mass in down.masses.items())
    assert mean <= 0.625 * losses[0] + 0.375 * losses[1]
    assert (up.steps, down.steps) == (3, 3)


def test_masses_without_an_upper_bound_count_as_infinite_losses():
    found = [
        cells.Cell(arb(0.25), arb(0.5), arb(-2), None),
        cells.Cell(arb(0.5), arb(0.5), arb(0), arb(0)),
    ]
    masses, lost = lattice.rounded_up([*found, found[0]], grid_of(), arb(0))
    assert float(lost) == 0.5
    assert {place: float(mass) for place, mass in masses.items()} == {0: 0.5}


@pytest.mark.parametrize(
    ("low", "high"), [(arb(0.5), arb(0.5, 2.0)), (arb(0.5, 2.0), arb(0.75)), (arb("nan"), arb(1))]
)
def test_cells_of_which_too_little_is_known_are_not_believed(low, high):
    with pytest.raises((NotProvenError, ValueError, OverflowError)):
        lattice.rounded_up([cells.Cell(arb(0.5), arb(0.25), low, high)], grid_of(), arb(0))


def test_means_of_which_too_little_is_known_are_not_believed():
    cell = cells.Cell(arb(0.5, 0.49), arb(0.25), arb(0), arb(1))
    with pytest.raises(NotProvenError, match="V11: a mean loss has too wide a ball"):
        lattice.rounded_down([cell], grid_of(spacing=0.01), arb(1))


def test_nodes_that_are_not_in_order_are_not_believed(monkeypatch):
    monkeypatch.setattr(cells, "nodes", lambda *_: [0.5, 0.25, 1.0])
    part = parts.Part(arb(1), "gaussian", arb(1), law(0.75, 0.25), law(1))
    with pytest.raises(NotProvenError, match="V11: the nodes are not in order"):
        cells.cells_of_part(part, [0.0])


@pytest.mark.parametrize(
    ("part", "below", "above"),
    [
        # The limits of the loss: of Gaussian noise where the outermost shifts agree, and none otherwise.
        (("gaussian", law(0.75, 0.25), law(1)), math.log(0.75), None),
        (("gaussian", law(1), law(0.75, 0.25, sign=-1)), None, -math.log(0.75)),
        (("gaussian", law(0.5, 0.5), law(0.5, 0.5, sign=-1)), None, None),
        # Laplace noise of scale 2 changes the ratio by e^(1/2) for every unit of distance.
        (
            ("laplace", law(0.75, 0.25), law(1)),
            math.log(0.75 + 0.25 * math.exp(-0.5)),
            math.log(0.75 + 0.25 * math.exp(0.5)),
        ),
        (
            ("laplace", law(0.5, 0.5), law(0.5, 0.5, sign=-1)),
            math.log((0.5 + 0.5 * math.exp(-0.5)) / (0.5 + 0.5 * math.exp(0.5))),
            math.log((0.5 + 0.5 * math.exp(0.5)) / (0.5 + 0.5 * math.exp(-0.5))),
        ),
    ],
)
def test_losses_beyond_all_nodes_have_their_limits(part, below, above):
    noise, p, q = part
    made = parts.Part(arb(1), noise, arb(2 if noise == "laplace" else 1), p, q)
    for upper, wanted in ((False, below), (True, above)):
        found = cells.end_of_loss(made, upper)
        assert found is None if wanted is None else float(found) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_loss_of_a_joined_part_ends_at_its_bound(noise):
    right, left, _ = parts.joined(noise, arb(1), arb(0.25), 2)
    assert float(cells.end_of_loss(right, False)) == pytest.approx(0.0, abs=1e-12)
    assert float(cells.end_of_loss(left, True)) == pytest.approx(0.0, abs=1e-12)


# ---- V10


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "randomized_response"])
@pytest.mark.parametrize(("rate", "weight"), [(0.25, None), (0.25, 0.5), (1.0, 0.5)])
def test_joined_parts_have_the_masses_of_the_page(noise, rate, weight):
    scale = arb(0.75 if noise == "randomized_response" else 1.5)
    made = parts.joined(noise, scale, arb(rate), 2, None if weight is None else arb(weight))
    one = weight or 1.0
    if noise == "randomized_response":
        changed, found = (1 - rate) * 0.25 + rate * 0.75, [(float(a.p), float(a.q)) for a in made]
        kept = one * (1 - rate) * 0.5
        wanted = [(one * changed, one * 0.25), (one * 0.25, one * changed)] + [(kept, kept)] * (rate < 1)
        assert found == [pytest.approx(each, rel=1e-12) for each in wanted]
        return
    beyond = float(parts.above(noise, scale, law(1), arb(1)))
    atoms = [each for each in made if isinstance(each, parts.Atom)]
    assert [float(atom.p) for atom in atoms] == pytest.approx(
        [one * (1 - rate) * (1 - 2 * beyond)] * (rate < 1), rel=1e-12
    )
    assert [(part.low, part.high, float(part.weight)) for part in made[:2]] == [
        (1, None, one),
        (None, -1, one),
    ]


def test_the_distance_of_replaced_records_is_bounded_by_the_batch():
    laplace = {"name": "laplace", "scale": 2.0}
    for batch, size, distance in ((1, 3, 2), (2, 3, 4), (9, 3, 6)):
        fixed = {"name": "without_replacement", "batch_size": batch, "dataset_size": 12}
        step = {"mechanism": laplace, "sampling": fixed, "group": {"size": size}, "count": 1}
        right, _, _ = parts.parts_of_step(step, "replace")
        assert max(right.p) == distance


def test_the_rest_of_a_binomial_tail_is_nearly_attained():
    # With so many terms the rest is bounded by a geometric series, whose terms fall as slowly as it says.
    n, rate, k = 10**9, 1e-9, 3
    with ctx.workprec(192):
        found, total, term = parts.binomial_above(n, arb(rate), k), arb(0), parts.binomial(n, arb(rate), k)
        for j in range(k, k + 80):
            total += term
            term *= arb(rate) / (1 - arb(rate)) * (n - j) / (j + 1)
    missing = total - found.lower()
    assert found.contains(total)
    assert float(missing / found.rad()) > 1.0


def test_laplace_tails_at_a_shift_are_enclosed():
    for x, wanted in ((2.5, math.exp(-1.5) / 2), (-0.5, 1 - math.exp(-1.5) / 2), (1.0, 0.5)):
        assert float(parts.above("laplace", arb(1), law(0, 1), arb(x))) == pytest.approx(wanted, rel=1e-12)
    unknown = arb(1, 0.25)
    found = parts.above("laplace", arb(1), law(0, 1), unknown)
    lower, upper = ends(found)
    assert lower <= math.exp(-0.25) / 2
    assert upper >= 1 - math.exp(-0.25) / 2


# ---- V12


def kind_of(masses, steps=1, start=0.0):
    return lattice.Kind({i: arb(m) for i, m in masses.items()}, grid_of(start), steps)


def test_what_is_not_in_a_window_is_added_as_the_page_says(monkeypatch):
    # Laws that are given: two kinds of steps, with infinite masses.
    upper = [kind_of({0: 0.5, 2: 0.5}, 2), kind_of({-1: 0.25, 1: 0.75}, 3)]
    lower = [kind_of({0: 0.5, 1: 0.5}, 2, -0.25), kind_of({-1: 0.25, 1: 0.75}, 3, -0.5)]
    lost = [1e-3, 2e-3]
    both = [(up, arb(mass), down) for up, mass, down in zip(upper, lost, lower, strict=True)]
    monkeypatch.setattr(lattice, "laws", lambda *_: both)
    witness = {"points": 6, "first": -2, "tilt": 0.5, "outer_tilt": 1.25, "left_tilt": 0.75}
    epsilon = 0.5
    (found,) = lattice.enclose({}, "remove", witness, [arb(epsilon)])

    def moment(kinds, tilt):
        each = (
            sum(float(m) * math.exp(tilt * (float(k.grid.start) + i)) for i, m in k.masses.items()) ** k.steps
            for k in kinds
        )
        return math.prod(each)

    window = lattice.window_of(witness)
    within = [float(lattice.sums(kinds, window, [arb(epsilon)])[0]) for kinds in (upper, lower)]
    tops = [sum(k.steps * float(k.grid.start) for k in kinds) + 4 for kinds in (upper, lower)]
    above = moment(upper, 1.25) * math.exp(-1.25 * tops[0])
    below = moment(lower, -0.75) * math.exp(0.75 * tops[1]) / math.expm1(1.25 * 6)
    over = moment(lower, 1.25) * math.exp(-1.25 * epsilon) / math.expm1(0.75 * 6)
    lowest, highest = ends(found)
    assert highest == pytest.approx(within[0] + 2 * 1e-3 + 3 * 2e-3 + above, rel=1e-6)
    assert lowest == pytest.approx(within[1] - below - over, rel=1e-6)
    assert min(above, below, over) > 1e-4


# ---- V16, V17


def test_bounds_that_are_derived_have_no_lower_ends():
    loss = math.log(3.0)
    coin = {"name": "randomized_response", "p": 0.75}
    step = {"mechanism": coin, "sampling": {"name": "full_batch"}, "group": {"size": 1}, "count": 3}
    witness = {
        "spacing": 2 * loss,
        "points": 64,
        "first": -20,
        "tilt": 1.0,
        "outer_tilt": 3.0,
        "left_tilt": 4.0,
    }
    witness |= {"kinds": [{"start": loss, "ranges": [], "coarser": []}]}
    one = witness | {"bits": 128, "method": "lattice"}
    witness = {"one": one, "splits": [[{"epsilon": 0.5, "links": 1}]]}
    (chain,) = claims.chain({"adjacency": "replace", "steps": [step]}, "replace", witness, [arb(0.5)])
    gaussian = step | {"mechanism": {"name": "gaussian", "noise_multiplier": 2.0}}
    run = {"adjacency": "remove", "steps": [gaussian]}
    (renyi,) = claims.by_renyi(run, "remove", {"order": 3.0, "kinds": []}, [arb(0.5)])
    for found in (chain, renyi):
        assert found.contains(0)
        assert float(found.upper()) > 0.01


@pytest.mark.parametrize("gradients", ["near", "orthogonal", "bounded", None, 1])
def test_chains_of_gradients_that_nobody_knows_are_refused(gradients):
    step = {"mechanism": {}, "sampling": {}, "group": {"size": 2, "gradients": gradients}, "count": 3}
    with pytest.raises(RefusedError, match="gradients of a chain must be one of aligned"):
        claims.single({"adjacency": "replace", "steps": [step]}, "replace")


def test_renyi_divergences_add_up_over_steps_and_are_the_largest_of_both_orders():
    kind = {"start": -16.0, "spacing": 0.1, "nodes": 400, "height": 0.5, "shift": 0.5, "shift_strip": 0.5}
    poisson = {"name": "poisson", "sample_rate": 0.25}
    step = {"mechanism": {"name": "gaussian", "noise_multiplier": 1.0}, "sampling": poisson}
    entry = {"bits": 128, "method": "renyi", "order": 3.0, "kinds": [kind]}
    found = {}
    for count in (1, 7):
        run = {"adjacency": "add_remove", "steps": [step | {"group": {"size": 1}, "count": count}]}
        for way in ("remove", "add"):
            found[count, way] = float(claims.renyi_moment(run, way, entry, arb(3)))
        for witness in ({"remove": entry, "add": entry}, {"add": entry, "remove": entry}):
            proven = claims.on_renyi(run, ["remove", "add"], witness, 3.0, 1)
            backwards = claims.on_renyi(run, ["add", "remove"], witness, 3.0, 1)
            largest = max(found[count, way] for way in ("remove", "add"))
            for end in (*proven, *backwards):
                assert float(end) == pytest.approx(largest, rel=1e-9)
    assert found[7, "add"] == pytest.approx(7 * found[1, "add"], rel=1e-12)
    assert found[7, "remove"] == pytest.approx(7 * found[1, "remove"], rel=1e-12)
    assert abs(found[1, "add"] - found[1, "remove"]) > 1e-3
