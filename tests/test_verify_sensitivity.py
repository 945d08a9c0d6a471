"""Runs with correlated noise, of which the checker derives the sensitivity (V25): by all sets of steps."""

import itertools
import random
import time
from fractions import Fraction

import pytest
from flint import arb, ctx
from sensitivity_by_sets import (
    BANDED,
    FULL,
    ROOT,
    SIGNED,
    TURNS,
    both_ends,
    entry,
    gram,
    matrix,
    random_run,
    sets_of_steps,
)

import hockeystick as hs
from hockeystick_verify import RefusedError, sensitivity, stored_matrices
from hockeystick_verify.variants import plain


def derived(mechanism, sampling, size=1):
    """Plain steps of a run, which is affordable."""
    run = sensitivity.read_run(entry(mechanism, sampling, size), False)
    sensitivity.require_affordable([run])
    with ctx.workprec(sensitivity.BITS):
        return sensitivity.parts_of(run)


def square(mechanism, sampling, size=1):
    """Both ends of the squared sensitivity of a run that is one Gaussian, and whether it is attained."""
    (part,) = derived(mechanism, sampling, size)
    lower, upper, places, attained = part.square
    return Fraction(lower, 2**places), Fraction(upper, 2**places), attained


def check_against_sets(run):
    """Compare with all sets of steps; return whether the sensitivity is attained."""
    lower, upper, attained = square(*run)
    found, _ = both_ends(*run)
    assert found <= upper, run
    if attained:
        assert lower <= found, run
        assert (upper - lower) * 2**90 <= upper < 2 * found, run
    else:
        assert lower == upper, run
    return attained


# ---------------------------------------------------------------- squares, by all sets of steps


@pytest.mark.parametrize("seed", range(4))
def test_squares_of_random_runs_are_those_of_all_sets(seed):
    draw = random.Random(seed)
    assert 40 < sum(check_against_sets(random_run(draw)) for _ in range(60)) < 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_squares_of_many_random_runs_are_those_of_all_sets(seed):
    draw = random.Random(seed)
    for _ in range(300):
        check_against_sets(random_run(draw))


@pytest.mark.parametrize("seed", range(2))
def test_bounds_that_save_work_are_above_all_sets(seed, monkeypatch):
    monkeypatch.setattr(stored_matrices, "MOST_SETS", -1)
    monkeypatch.setattr(stored_matrices, "MOST_ENUMERATED", 0)
    monkeypatch.setattr(sensitivity, "LARGEST_ROWS", 0)
    draw = random.Random(seed)
    for _ in range(120):
        check_against_sets(random_run(draw))


SHARP = {
    "signs": (SIGNED, FULL, 1),
    "signs, a fixed order": (
        {**SIGNED, "coefficients": [1.0, 0.3, -0.5]},
        {"name": "fixed_order", "batches": 2},
        1,
    ),
    "a hull": (
        {"form": "toeplitz", "coefficients": [1.0, 0.9, 0.91], "steps": 8},
        {"name": "minimum_separation", "separation": 2},
        1,
    ),
    "a hull of buffers": (
        {"form": "blt", "scales": [0.8, 0.3], "decays": [0.5, 0.9], "steps": 8},
        {"name": "minimum_separation", "separation": 2, "participations": 3},
        1,
    ),
    "rows": (
        {"form": "matrix", "rows": [[1.0], [0.5, 1.0], [0.5, 0.5, 1.0], [0.1, 0.5, 0.5, 1.0]], "steps": 4},
        {"name": "minimum_separation", "separation": 2},
        1,
    ),
    "different batches": (ROOT, {"name": "fixed_order", "batches": 4, "members": "apart"}, 3),
    "different batches, signs": (SIGNED, {"name": "fixed_order", "batches": 5, "members": "apart"}, 2),
}


@pytest.mark.parametrize("name", SHARP)
def test_half_of_a_bound_would_be_too_small(name, monkeypatch):
    """Cases in which bounds that need not be attained nearly are."""
    monkeypatch.setattr(stored_matrices, "MOST_SETS", -1)
    monkeypatch.setattr(stored_matrices, "MOST_ENUMERATED", 0)
    monkeypatch.setattr(sensitivity, "LARGEST_ROWS", 0)
    _, upper, attained = square(*SHARP[name])
    found, _ = both_ends(*SHARP[name])
    assert not attained
    assert upper / 2 < found <= upper


def test_signs_are_needed():
    """With signs offset 0 attains the sum of magnitudes; without magnitudes the sum would be too small."""
    found, magnitudes = both_ends(SIGNED, FULL)
    products = gram(matrix(SIGNED))
    assert square(SIGNED, FULL)[1] == magnitudes
    assert sum(map(sum, products)) < found / 2


def test_a_hull_is_needed():
    """With 1, 0, 1 two steps next to each other add up to less than two at a distance."""
    for steps in (6, 80):
        mechanism = {"form": "toeplitz", "coefficients": [1.0, 0.0, 1.0], "steps": steps}
        separated = {"name": "minimum_separation", "separation": 1, "participations": 2}
        _, upper, attained = square(mechanism, separated)
        assert upper == (6 if attained else 10)
        assert attained == (steps <= 64)


@pytest.mark.parametrize("name", ["root", "signs", "rows"])
def test_more_batches_than_steps_are_as_many_as_steps(name):
    rows = [[1.0], [-0.5, 1.0], [0.25, 0.5, 0.5], [0.0, 0.25, 0.5, 2.0]]
    mechanism = {
        "root": {**ROOT, "steps": 4},
        "signs": {**SIGNED, "steps": 4},
        "rows": {"form": "matrix", "rows": rows, "steps": 4},
    }[name]
    for scheme, period in (
        ({"name": "fixed_order"}, "batches"),
        ({"name": "fixed_order", "members": "apart"}, "batches"),
        ({"name": "minimum_separation"}, "separation"),
        ({"name": "cyclic_poisson", "sample_rate": 0.1}, "cycle"),
        ({"name": "cyclic_poisson", "sample_rate": 0.1, "members": "apart"}, "cycle"),
    ):
        for size in (1, 3):
            every = [derived(mechanism, {**scheme, period: places}, size) for places in (4, 5, 9, 10**12)]
            assert all(parts == every[0] for parts in every), (scheme, size)


def test_all_steps_next_to_each_other_are_a_full_batch():
    """Of a stored matrix with more sets of steps than are enumerated."""
    draw = random.Random(2)
    rows = [[draw.uniform(0, 1) for _ in range(s)] + [1.0] for s in range(20)]
    mechanism = {"form": "matrix", "rows": rows, "steps": 20}
    found = square(mechanism, {"name": "minimum_separation", "separation": 1})
    assert found == square(mechanism, FULL)
    assert found[2]


def test_bounds_over_batches_of_stored_matrices_are_not_attained():
    """Two parts of a record each that overlap, of three: the best rows belong to different pairs."""
    draw = random.Random(4)
    rows = [[draw.uniform(0, 1) for _ in range(s)] + [1.0] for s in range(40)]
    mechanism = {"form": "matrix", "rows": rows, "steps": 40}
    scheme = {"name": "fixed_order", "batches": 40, "members": "apart"}
    assert square(mechanism, scheme, 2)[2]
    assert not square(mechanism, scheme, 20)[2]
    assert square(mechanism, scheme, 40)[2]


@pytest.mark.parametrize(("steps", "separation", "most"), [(7, 1, 7), (7, 2, 4), (8, 3, 2), (5, 9, 1)])
def test_numbers_of_sets_are_those_of_enumeration(steps, separation, most):
    scheme = {"name": "minimum_separation", "separation": separation, "participations": most}
    every = sets_of_steps(scheme, steps)
    assert stored_matrices.number_of_sets(steps, separation, most) == len(every)


@pytest.mark.parametrize(("members", "enumerated"), [(2, 32), (3, 32), (3, 0)])
def test_maxima_over_batches_keep_both_ends(members, enumerated, monkeypatch):
    monkeypatch.setattr(stored_matrices, "MOST_ENUMERATED", enumerated)
    lower = [[4, 1, 2], [1, 5, 3], [2, 3, 6]]
    upper = [[each + 1 for each in row] for row in lower]
    ends = {2: (5 + 6 + 2 * 3, 6 + 7 + 2 * 4), 3: (27, 36)}[members]
    assert stored_matrices.largest_of_apart(lower, upper, members) == (*ends, True)


@pytest.mark.parametrize("form", ["prefix_sum_root", "lambda_cgd", "blt"])
def test_long_runs_agree_with_the_engine(form):
    numbers = {"lambda_cgd": {"correlation": 0.99}, "blt": {"scales": [0.1, 0.2], "decays": [0.999, 0.9]}}
    noise = getattr(hs.CorrelatedNoise, form)(*numbers.get(form, {}).values())
    for sampling, described in (
        (hs.FixedOrder(50), {"name": "fixed_order", "batches": 50}),
        (hs.MinimumSeparation(7, 3), {"name": "minimum_separation", "separation": 7, "participations": 3}),
    ):
        engine = noise.sensitivity(sampling, 20_000)
        mechanism = {"form": form, "steps": 20_000, **numbers.get(form, {})}
        lower, upper, attained = square(mechanism, described)
        assert attained
        assert Fraction(engine.lower) ** 2 <= lower <= upper <= Fraction(engine.upper) ** 2


def test_scales_that_sum_to_more_than_one_by_less_than_a_digit_are_no_falling_coefficients():
    """Rounded, they sum to 1; the sensitivity is then that of a hull, and not known to be attained."""
    mechanism = {"form": "blt", "scales": [1.0, 1e-20], "decays": [0.5, 0.5], "steps": 6}
    separated = {"name": "minimum_separation", "separation": 1, "participations": 2}
    assert not square(mechanism, separated)[2]
    assert square({**mechanism, "scales": [0.5, 0.5]}, separated)[2]


def test_squares_are_rounded_outwards():
    third = arb(1) / 3
    assert [stored_matrices.whole_above(sign * third, 4) for sign in (1, -1)] == [6, -5]
    assert [stored_matrices.whole_below(sign * third, 4) for sign in (1, -1)] == [5, -6]
    noise = sensitivity.scaled_noise({"noise_multiplier": 6.0, "square": [4, 9, 0, True]})
    assert noise.contains(2)
    assert noise.contains(3)
    assert not noise.overlaps(arb(3.1))


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (2, 1)])
def test_a_square_that_may_be_0_or_has_no_interval_is_refused(lower, upper, monkeypatch):
    part = sensitivity.Part(stored_matrices.Square(lower, upper, 0, True), 1, 1)
    monkeypatch.setattr(sensitivity, "parts_of", lambda run: [part])
    with pytest.raises(RefusedError, match="not known to be above 0"):
        plain({"adjacency": "add_remove", "steps": [entry({**ROOT, "steps": 7 + upper + lower}, FULL)]})


# ---------------------------------------------------------------- turns


def norms_of_parts(mechanism, cycle):
    """Squared norms of the columns of each part, largest first."""
    products = gram(matrix(mechanism))
    steps, turns = len(products), -(-len(products) // cycle)
    parts = [sorted((products[s][s] for s in range(r, steps, cycle)), reverse=True) for r in range(cycle)]
    return [part + [Fraction(0)] * (turns - len(part)) for part in parts]


@pytest.mark.parametrize("steps", range(1, 14))
@pytest.mark.parametrize("is_stored", [False, True])
def test_turns_have_the_norms_of_the_worst_part(steps, is_stored):
    mechanism = {**BANDED, "steps": steps}
    if is_stored:
        rows = [[float(each) for each in row[: s + 1]] for s, row in enumerate(matrix(mechanism))]
        rows[0][0] = 0.75
        mechanism = {"form": "matrix", "rows": rows, "steps": steps}
    parts = derived(mechanism, {**TURNS, "members": "together"}, 3)
    found = [Fraction(p.square.upper, 2**p.square.places) for p in parts for _ in range(p.times)]
    every = norms_of_parts(mechanism, 4)
    worst = [max(each) for each in zip(*every, strict=True)]
    assert all(abs(a - b) * 2**100 <= b for a, b in zip(found, worst, strict=True))
    assert all(part.square.attained == (worst in every) and part.members == 3 for part in parts)


def largest_of_rows(products, cycle, others):
    """Largest sum over a row of the square of a column and the largest sums over so many other parts."""
    found = []
    for s, row in enumerate(products):
        parts = [sum(map(abs, row[r::cycle])) for r in range(cycle)]
        own = parts.pop(s % cycle)
        found.append(own + max(map(sum, itertools.combinations(parts, others))))
    return max(found)


def test_overlaps_of_stored_matrices_are_those_of_the_worst_parts():
    draw = random.Random(3)
    for _ in range(20):
        rows = [
            [draw.uniform(-1, 1) if s - t < 4 else 0.0 for t in range(s)] + [draw.uniform(0.1, 1)]
            for s in range(11)
        ]
        mechanism, members = {"form": "matrix", "rows": rows, "steps": 11}, draw.randint(2, 5)
        (part,) = derived(mechanism, {**TURNS, "cycle": 5}, members)
        bound = Fraction(part.square.upper, 2**part.square.places)
        assert bound == largest_of_rows(gram(matrix(mechanism)), 5, members - 1)


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("coefficients", [[1.0, 0.5, 0.25, 0.125], [1.0, -0.9], [0.5, 0.1, -2.0]])
def test_members_in_several_parts_have_the_largest_sum_of_a_row(coefficients, is_stored):
    mechanism = {"form": "toeplitz", "coefficients": coefficients, "steps": 17}
    signs = [[abs(each) for each in row] for row in matrix(mechanism)]
    products, cycle = gram(matrix(mechanism) if is_stored else signs), 5
    if is_stored:
        rows = [[float(each) for each in row[: s + 1]] for s, row in enumerate(matrix(mechanism))]
        mechanism = {"form": "matrix", "rows": rows, "steps": 17}
    for members in (2, 3, 7):
        largest = largest_of_rows(products, cycle, min(members, cycle) - 1)
        (part,) = derived(mechanism, {**TURNS, "cycle": cycle}, members)
        bound = Fraction(part.square.upper, 2**part.square.places)
        assert largest <= bound < largest * (1 + Fraction(1, 2**100))
        assert (part.times, part.members, part.square.attained) == (4, members, False)
    (part,) = derived(mechanism, {**TURNS, "cycle": cycle, "members": "apart"}, 3)
    assert (part.times, part.members) == (12, 1)


# ---------------------------------------------------------------- refusals

REFUSED = {
    "another name": (entry({**ROOT, "name": "scaled_gaussian"}, FULL), "it is derived"),
    "another form": (entry({**ROOT, "form": "hadamard"}, FULL), "form of a matrix"),
    "another scheme": (entry(ROOT, {"name": "poisson", "sample_rate": 0.1}), "sampling under correlated"),
    "a square": (entry({**ROOT, "square": [1, 1, 0, True]}, FULL), "unknown entry 'square'"),
    "coefficients of a root": (entry({**ROOT, "coefficients": [0.1]}, FULL), "unknown entry 'coefficients'"),
    "no steps": (entry({"form": "prefix_sum_root"}, FULL), "steps of a run with correlated noise"),
    "less than a step": (entry({**ROOT, "steps": 0}, FULL), "steps of a run with correlated noise"),
    "a first coefficient of 0": (entry({**BANDED, "coefficients": [0.0, 1.0]}, FULL), "is not 0"),
    "coefficients that are no numbers": (entry({**BANDED, "coefficients": ["1"]}, FULL), "a coefficient"),
    "too many coefficients": (entry({**BANDED, "coefficients": [1.0] * 4097}, FULL), "list of 1 to 4096"),
    "a correlation above 1": (entry({"form": "lambda_cgd", "correlation": 2.0, "steps": 9}, FULL), "correla"),
    "a negative scale": (
        entry({"form": "blt", "scales": [-0.1], "decays": [0.5], "steps": 9}, FULL), "a scale"
    ),
    "a decay above 1": (entry({"form": "blt", "scales": [0.1], "decays": [2], "steps": 9}, FULL), "a decay"),
    "a decay too few": (entry({"form": "blt", "scales": [0.1], "decays": [], "steps": 9}, FULL), "decays"),
    "more steps than rows": (entry({"form": "matrix", "rows": [[1.0]], "steps": 2}, FULL), "more steps"),
    "a row of another length": (entry({"form": "matrix", "rows": [[1.0, 0.0]], "steps": 1}, FULL), "row 0"),
    "0 on the diagonal": (entry({"form": "matrix", "rows": [[0.0]], "steps": 1}, FULL), "no 0 on its"),
    "too many rows": (
        entry({"form": "matrix", "rows": [[1.0] * (s + 1) for s in range(65)], "steps": 2}, FULL), "1 to 64"
    ),
    "norms": (
        {**entry(ROOT, FULL), "group": {"size": 2, "norms": [1.0, 0.5]}}, "neither rates nor norms"
    ),
    "orthogonal gradients": (
        {**entry(ROOT, FULL), "group": {"size": 2, "gradients": "orthogonal"}}, "gradients of this proof"
    ),
    "more bands than turns": (entry({**BANDED}, {**TURNS, "cycle": 3}), "as many bands as the cycle"),
    "a root in turns": (entry({**ROOT}, TURNS), "as many bands as the cycle"),
    "more members than batches": (
        entry(ROOT, {"name": "fixed_order", "batches": 2, "members": "apart"}, 3), "at most as many"
    ),
    "members together in a fixed order": (
        entry(ROOT, {"name": "fixed_order", "batches": 2, "members": "together"}), "members must be"
    ),
    "no participations": (
        entry(ROOT, {"name": "minimum_separation", "separation": 2, "participations": 0}), "participations"
    ),
    "noise of 0": (entry(ROOT, FULL, noise=0.0), "noise_multiplier"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_runs_that_are_not_covered_are_refused_by_name(name):
    step, message = REFUSED[name]
    with pytest.raises(RefusedError, match=message):
        plain({"adjacency": "add_remove", "steps": [step]})


def test_replaced_members_in_any_parts_are_refused_and_those_of_one_part_are_not():
    for members in ("together", "apart", "any"):
        run = {"adjacency": "replace", "steps": [entry(BANDED, {**TURNS, "members": members}, 2)]}
        mixed = {"adjacency": "mixed", "steps": [{**run["steps"][0], "adjacency": "replace"}]}
        for each in (run, mixed):
            if members == "any":
                with pytest.raises(RefusedError, match="replaced records of a group in any parts"):
                    plain(each)
            else:
                plain(each)


BIG = 10**12
HOSTILE = {
    "steps": entry({**ROOT, "steps": BIG}, FULL),
    "buffers": entry({"form": "blt", "scales": [0.1] * 64, "decays": [0.5] * 64, "steps": 10**5}, FULL),
    "a long window": entry({**BANDED, "steps": BIG}, FULL),
    "batches that are apart": entry(
        {**ROOT, "steps": 10**4}, {"name": "fixed_order", "batches": 10**4, "members": "apart"}, 5
    ),
    "pairs of batches": entry(
        {**ROOT, "steps": 1400}, {"name": "fixed_order", "batches": 1400, "members": "apart"}, 3
    ),
    "magnitudes": entry({"form": "toeplitz", "coefficients": [1.0, -0.5] * 2048, "steps": 4096}, FULL),
    "a root in one turn": entry({**ROOT, "steps": BIG}, {**TURNS, "cycle": BIG}),
    "overlaps": entry(
        {"form": "toeplitz", "coefficients": [1.0] * 4096, "steps": BIG}, {**TURNS, "cycle": 4096}, 2
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded_before_it_is_done(name):
    started = time.perf_counter()
    with pytest.raises(RefusedError, match="products together"):
        plain({"adjacency": "add_remove", "steps": [HOSTILE[name]]})
    assert time.perf_counter() - started < 1.0


def test_work_is_bounded_over_all_entries():
    steps = [entry({**ROOT, "steps": 60_000 + each}, FULL) for each in range(64)]
    with pytest.raises(RefusedError, match="products together"):
        plain({"adjacency": "add_remove", "steps": steps})


def test_work_is_bounded_over_all_stored_matrices():
    rows = [[1.0] * (s + 1) for s in range(64)]
    steps = [
        entry(
            {"form": "matrix", "rows": rows, "steps": 64},
            {"name": "minimum_separation", "separation": 3, "participations": most},
        )
        for most in range(1, 9)
    ]
    with pytest.raises(RefusedError, match="products together"):
        plain({"adjacency": "add_remove", "steps": steps})
    plain({"adjacency": "add_remove", "steps": steps[:7]})


def test_what_is_affordable_takes_some_seconds_at_most():
    draw = random.Random(1)
    rows = [[draw.uniform(-1, 1) for _ in range(s + 1)] for s in range(64)]
    steps = [
        entry(
            {"form": "matrix", "rows": rows, "steps": 64 - each},
            {"name": "minimum_separation", "separation": 9},
        )
        for each in range(6)
    ]
    started = time.perf_counter()
    plain({"adjacency": "add_remove", "steps": steps})
    plain({"adjacency": "add_remove", "steps": [entry({**ROOT, "steps": 10**6}, FULL)]})
    assert time.perf_counter() - started < 60.0


def test_banded_matrices_whose_columns_do_not_overlap_may_have_a_million_million_steps():
    mechanism = {**BANDED, "steps": BIG}
    parts = derived(mechanism, TURNS)
    assert sum(part.times for part in parts) == BIG // 4
    _, upper, attained = square(mechanism, {"name": "fixed_order", "batches": 5})
    assert attained
    assert upper == pytest.approx(Fraction(BIG, 5) * Fraction(85, 64))
