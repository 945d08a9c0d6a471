"""Shuffling, subsampling and batch clipping against an adversary who knows batch membership."""

import copy
import itertools
import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import hockeystick as hs

DATA = {"dataset_size": 60_000, "batch_size": 64}
SCHEMES = {"shuffling": hs.Shuffle(64, 60_000), "subsampling": hs.WithoutReplacement(64, 60_000)}
CLIPPINGS = [("individual", None), ("batch", None), ("mixed", 8)]


def square_of_round(members, first, size, units):
    """Squared number of units of one round with a member; a unit is a row of `size / units` positions."""
    step = size // units
    hit = {(position - first) // step for position in members if first <= position < first + size}
    return len(hit) ** 2


def by_enumeration(sampling, group_size, units):
    """Law of c² over one epoch, from all placements of the members, which are equally likely."""
    size, records = sampling.batch_size, sampling.dataset_size
    rounds = records // size
    placements = list(itertools.combinations(range(records), group_size))
    if isinstance(sampling, hs.Shuffle):
        counts = Counter(
            sum(square_of_round(members, b * size, size, units) for b in range(rounds))
            for members in placements
        )
        return {square: Fraction(n, len(placements)) for square, n in counts.items()}
    one = Counter(square_of_round(members, 0, size, units) for members in placements)
    law = {0: Fraction(1)}
    for _ in range(rounds):
        following = Counter()
        for (a, p), (b, n) in itertools.product(law.items(), one.items()):
            following[a + b] += p * Fraction(n, len(placements))
        law = following
    return law


@pytest.mark.parametrize("scheme", [hs.Shuffle, hs.WithoutReplacement])
@pytest.mark.parametrize("records", [12, 14])
@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("group_size", [1, 2, 3, 5])
def test_the_law_is_that_of_all_placements(scheme, records, units, group_size):
    sampling = scheme(4, records)
    expected = by_enumeration(sampling, group_size, units)
    run = {"group_size": group_size, "clipping": "mixed", "units_per_batch": units}
    found = hs.shuffle.membership_law(sampling, **run)
    assert found.squares.tolist() == sorted(expected)
    np.testing.assert_allclose(found.probabilities, [float(expected[s]) for s in found.squares], rtol=1e-13)
    assert found.left_out < 1e-30
    # Two epochs are two independent ones.
    twice = Counter()
    for (a, p), (b, q) in itertools.product(expected.items(), repeat=2):
        twice[a + b] += p * q
    found = hs.shuffle.membership_law(sampling, epochs=2, **run)
    np.testing.assert_allclose(found.probabilities, [float(twice[s]) for s in found.squares], rtol=1e-13)


def test_four_members_in_fifty_rounds_do_not_follow_the_printed_law():
    law = hs.shuffle.membership_law(hs.Shuffle(100, 5000), group_size=4, clipping="batch")
    exact = math.comb(50, 4) * 100**4 / math.comb(5000, 4)
    assert law.probabilities[3] == pytest.approx(exact, rel=1e-12)
    assert exact == pytest.approx(0.885414, abs=5e-7)
    printed = math.comb(50, 4) * math.comb(3, 3) / math.comb(53, 4)
    assert printed == pytest.approx(0.786477, abs=5e-7)
    generator = np.random.default_rng(0)
    # Distinct positions: draws with a repetition are drawn again.
    draws = np.sort(generator.integers(0, 5000, (1_010_000, 4)), axis=1)
    draws = draws[np.all(np.diff(draws, axis=1) > 0, axis=1)][:1_000_000]
    rounds = np.sort(draws // 100, axis=1)
    distinct = 1 + np.count_nonzero(np.diff(rounds, axis=1), axis=1)
    counts = np.bincount(distinct, minlength=5)[1:] / len(distinct)
    deviation = np.sqrt(law.probabilities * (1 - law.probabilities) / len(distinct))
    assert np.all(np.abs(counts - law.probabilities) < 4.5 * deviation + 1e-6)
    assert abs(counts[3] - printed) > 0.09


def test_the_tails_of_theorem_e_1_are_false():
    law = hs.shuffle.membership_law(hs.WithoutReplacement(1, 50), epochs=100)
    split = 100 - math.sqrt(50)
    assert law.below(split) == pytest.approx(binom.cdf(92, 5000, 0.02), rel=1e-12)
    assert law.below(split) == pytest.approx(0.226388, abs=5e-7)
    assert math.exp(-100) < 4e-44  # what is printed
    assert law.above(100 + math.sqrt(50)) == pytest.approx(binom.sf(107, 5000, 0.02), rel=1e-11)
    assert law.mean() == pytest.approx(100, rel=1e-12)


@pytest.mark.parametrize(("clipping", "units"), CLIPPINGS)
@pytest.mark.parametrize("name", SCHEMES)
def test_the_curve_is_that_of_definition_5_2(name, clipping, units):
    run = {"epochs": 3, "group_size": 5, "clipping": clipping, "units_per_batch": units}
    law = hs.shuffle.membership_law(SCHEMES[name], **run)
    noise = 4.0
    curve = hs.shuffle.tradeoff(SCHEMES[name], noise_multiplier=noise, **run)
    sigma = noise / 2
    c = np.sqrt(law.squares)
    moved = c > 0

    def mixture(level, sign):
        """Σ q(c) Φ(level·σ/c + sign·c/2σ); for c = 0 the test takes one of both sides."""
        parts = norm.cdf(level * sigma / c[moved] + sign * c[moved] / (2 * sigma))
        still = law.probabilities[~moved].sum() * (level > 0)
        return law.probabilities[moved] @ parts + still

    for level in (-8.0, -2.0, -0.3, 0.4, 1.0, 4.0, 9.0):
        alpha = 1 - mixture(level, +1)
        lower, upper = curve.bounds(alpha=alpha)
        assert upper - lower < 1e-9
        assert lower - 1e-12 <= mixture(level, -1) <= upper + 1e-12


def test_subsampled_rounds_that_hold_no_member_say_nothing():
    curve = hs.shuffle.tradeoff(hs.WithoutReplacement(1, 1000), noise_multiplier=1.0, epochs=1)
    missed = 0.999**1000
    assert curve.advantage() < 1 - missed
    assert curve(0.0) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("clipping", ["individual", "batch"])
def test_subnormal_noise_hides_nothing(clipping):
    run = {"epochs": 2, "group_size": 2, "clipping": clipping}
    curve = hs.shuffle.tradeoff(hs.Shuffle(5, 50), noise_multiplier=5e-324, **run)
    assert curve.beta(0.01) == 0.0


@pytest.mark.parametrize("epochs", [1, 4, 100])
def test_one_shuffled_record_is_a_gaussian(epochs):
    run = {"noise_multiplier": 20.0, "epochs": epochs}
    sampling = hs.Shuffle(50, 5000)
    exact = hs.shuffle.tradeoff(sampling, **run)
    closed = hs.shuffle.closed_form(sampling, **run)
    assert closed.mu() == pytest.approx(2 * math.sqrt(epochs) / 20, rel=1e-14)
    alphas = np.linspace(0, 1, 21)
    np.testing.assert_allclose(exact(alphas), closed(alphas), atol=1e-12)
    assert exact.epsilon(1e-6) == pytest.approx(closed.epsilon(1e-6), rel=1e-10)


@pytest.mark.parametrize("group_size", [2, 8, 40])
def test_the_closed_form_of_batch_clipping_is_a_guarantee(group_size):
    run = {"noise_multiplier": 20.0, "epochs": 10, "group_size": group_size, "clipping": "batch"}
    closed = hs.shuffle.closed_form(hs.Shuffle(50, 1000), **run)
    assert closed.mu() == pytest.approx(2 * math.sqrt(10 * group_size) / 20, rel=1e-14)
    exact = hs.shuffle.tradeoff(hs.Shuffle(50, 1000), **run)
    alphas = np.linspace(0, 1, 33)
    assert np.all(closed(alphas) <= exact.bounds(alpha=alphas)[1])
    assert exact.epsilon(1e-5) < closed.epsilon(1e-5)


def test_individual_clipping_is_worse_for_groups_than_batch_clipping():
    run = {"noise_multiplier": 20.0, "epochs": 10, "group_size": 20}
    epsilons = [
        hs.shuffle.tradeoff(hs.Shuffle(50, 500), clipping=clipping, units_per_batch=units, **run).epsilon(
            1e-5
        )
        for clipping, units in (("batch", 1), ("mixed", 5), ("mixed", 10), ("individual", 50))
    ]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < 0.6 * epsilons[-1]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(("clipping", "units"), CLIPPINGS)
def test_the_bounds_of_definitions_5_3_and_5_4_enclose_the_exact_function(name, clipping, units):
    run = {
        "noise_multiplier": 8.0,
        "epochs": 5,
        "group_size": 6,
        "clipping": clipping,
        "units_per_batch": units,
    }
    exact = hs.shuffle.tradeoff(SCHEMES[name], **run)
    alphas = np.linspace(0, 1, 41)
    law_run = {key: value for key, value in run.items() if key != "noise_multiplier"}
    law = hs.shuffle.membership_law(SCHEMES[name], **law_run)
    middle = int(law.squares[len(law.squares) // 2])
    for split in (None, middle):
        lower = hs.shuffle.lower_bound(SCHEMES[name], split=split, **run)
        upper = hs.shuffle.upper_bound(SCHEMES[name], split=split, **run)
        assert np.all(lower(alphas) <= exact.bounds(alpha=alphas)[1] + 1e-12)
        assert np.all(upper.bounds(alpha=alphas)[1] >= exact(alphas) - 1e-12)
    # By definition, at the given split.
    mu = 2 * math.sqrt(middle) / 8.0
    u, tail = law.below(middle), law.above(middle)
    g = norm.cdf(norm.ppf(1 - alphas) - mu)
    assert np.all(
        hs.shuffle.upper_bound(SCHEMES[name], split=middle, **run)(alphas) <= u + (1 - u) * g + 1e-12
    )
    shifted = norm.cdf(norm.ppf(1 - np.minimum(1, alphas + tail)) - mu)
    np.testing.assert_allclose(
        hs.shuffle.lower_bound(SCHEMES[name], split=middle, **run)(alphas),
        np.maximum(shifted, np.maximum(0, g - tail)),
        atol=1e-12,
    )


def test_the_chosen_split_is_the_best_one():
    run = {"noise_multiplier": 8.0, "epochs": 5, "group_size": 6}
    law = hs.shuffle.membership_law(SCHEMES["subsampling"], epochs=5, group_size=6)
    splits = law.squares[law.squares > 0].tolist()
    for function, best in ((hs.shuffle.lower_bound, min), (hs.shuffle.upper_bound, max)):
        chosen = function(SCHEMES["subsampling"], **run).advantage()
        assert chosen == best(
            function(SCHEMES["subsampling"], split=split, **run).advantage()
            for split in splits[::3] + splits[1::3] + splits[2::3]
        )


def table(**changes):
    run = {
        "dataset_size": 10_000,
        "samples_per_unit": 4,
        "units_per_batch": 16,
        "epochs": 50,
        "noise_multiplier": 2.0,
        "group_size": 4,
    }
    return hs.shuffle.table(**{**run, **changes})


def test_the_tables_say_which_printed_rows_are_false():
    rows = table()
    assert [row.table for row in rows] == [1] * 6 + [2] * 3
    assert [row.holds for row in rows] == [False, False, True, True, True, False, True, True, True]
    assert all("strong adversary" in row.adversary for row in rows if row not in rows[6:8])
    assert "Hoeffding" in rows[0].note
    # The printed lower end of row 1 claims less than is true, its upper end more.
    delta = 1e-8
    assert rows[0].printed_epsilon(delta) < rows[0].epsilon(delta)
    # The printed f of row 6 leaks less than the exact one.
    assert rows[5].printed_epsilon(1e-5) < rows[5].epsilon(1e-5)
    assert rows[4].printed_epsilon(1e-5) >= rows[4].epsilon(1e-5)
    # Row 7 is the ordinary accountant.
    fixed = hs.WithoutReplacement(64, 10_000)
    ordinary = hs.get_epsilon(
        delta=1e-5, noise_multiplier=2.0, sampling=fixed, steps=50 * 156, adjacency="replace"
    )
    assert rows[6].epsilon(1e-5) == pytest.approx(ordinary, rel=1e-6)
    assert rows[2].epsilon(1e-5) > ordinary


def test_rows_of_the_table_for_one_record_agree():
    rows = table(group_size=1, noise_multiplier=20.0)
    assert rows[5].holds  # One member: the printed weights are right.
    assert rows[3].epsilon(1e-5) == pytest.approx(rows[2].epsilon(1e-5), rel=1e-9)
    assert rows[0].epsilon(1e-5) == pytest.approx(rows[1].epsilon(1e-5), rel=1e-9)


def test_everything_names_its_adversary():
    law = hs.shuffle.membership_law(SCHEMES["shuffling"])
    run = {"noise_multiplier": 8.0}
    curves = [
        function(SCHEMES["shuffling"], **run)
        for function in (
            hs.shuffle.tradeoff,
            hs.shuffle.lower_bound,
            hs.shuffle.upper_bound,
            hs.shuffle.closed_form,
        )
    ]
    curves += [curves[0].compose(hs.TradeoffCurve.gaussian(1.0)), curves[1].group(2), curves[0] * 3]
    for thing in (law, *curves):
        assert "strong adversary (knows batch membership)" in repr(thing)
    assert all(curve.adversary == "strong adversary (knows batch membership)" for curve in curves)
    assert "strong" not in hs.TradeoffCurve.gaussian(1.0).adversary


def test_curves_are_values():
    run = {"noise_multiplier": 8.0, "epochs": 2, "group_size": 3}
    for function in (hs.shuffle.tradeoff, hs.shuffle.lower_bound, hs.shuffle.upper_bound):
        curve = function(SCHEMES["shuffling"], **run)
        for twin in (copy.deepcopy(curve), pickle.loads(pickle.dumps(curve))):
            assert twin == curve
            assert twin.epsilon(1e-5) == curve.epsilon(1e-5)
    assert hs.shuffle.tradeoff(SCHEMES["shuffling"], **run) != hs.shuffle.tradeoff(
        SCHEMES["subsampling"], **run
    )


def test_the_usual_functions_refuse_shuffled_batches():
    run = {"delta": 1e-5, "noise_multiplier": 1.0, "steps": 5}
    with pytest.raises(hs.UnsupportedError, match=r"Shuffle\(.*ShuffleAccountant.*strong adversary"):
        hs.get_epsilon(sampling=hs.Shuffle(5, 50), **run)
    with pytest.raises(ValueError, match="batch_size must be at most dataset_size 7, got 8"):
        hs.Shuffle(8, 7)
    with pytest.raises(ValueError, match="batch_size must be a whole number in"):
        hs.Shuffle(2.5, 7)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"sampling": hs.Poisson(0.1)}, TypeError, r"sampling must be Shuffle\(batch_size, dataset_size\)"),
        ({"epochs": 0}, ValueError, "epochs must be a whole number in"),
        ({"group_size": 60_001}, ValueError, "group_size must be at most dataset_size 60000"),
        ({"clipping": "flat"}, ValueError, "clipping must be one of 'individual', 'batch', 'mixed'"),
        ({"clipping": "mixed"}, TypeError, "units_per_batch must be given with clipping='mixed'"),
        ({"clipping": "mixed", "units_per_batch": 5}, ValueError, "units_per_batch must be a divisor of"),
        ({"clipping": "batch", "units_per_batch": 2}, ValueError, "units_per_batch must be 1 with clipping="),
        ({"units_per_batch": 2}, ValueError, "units_per_batch must be 64 with clipping='individual'"),
        ({"noise_multiplier": 0.0}, ValueError, r"noise_multiplier must be in \(0, inf\), got 0.0"),
        ({"noise_multiplier": math.nan}, ValueError, "noise_multiplier"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(changes, error, message):
    arguments = {"sampling": SCHEMES["shuffling"], "noise_multiplier": 2.0, **changes}
    with pytest.raises(error, match=message):
        hs.shuffle.tradeoff(arguments.pop("sampling"), **arguments)


def test_splits_and_closed_forms_are_checked():
    with pytest.raises(ValueError, match="split must be a whole number"):
        hs.shuffle.lower_bound(SCHEMES["shuffling"], noise_multiplier=2.0, split=0)
    with pytest.raises(hs.UnsupportedError, match=r"no closed form: use clipping='batch', group_size=1 or"):
        hs.shuffle.closed_form(SCHEMES["shuffling"], noise_multiplier=2.0, group_size=2)
    with pytest.raises(TypeError, match="sampling must be Shuffle"):
        hs.shuffle.closed_form(SCHEMES["subsampling"], noise_multiplier=2.0)
    with pytest.raises(ValueError, match=r"group_size of 3000 in 60 rounds.*multiplications"):
        hs.shuffle.membership_law(hs.Shuffle(100, 6000), group_size=3000)


def test_a_mixture_by_quadrature():
    """δ of the mixture by its definition, where members may share rounds."""
    law = hs.shuffle.membership_law(hs.Shuffle(20, 100), group_size=6, epochs=2)
    mu = 2 * np.sqrt(law.squares) / 15.0

    def delta(epsilon):
        terms = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        return law.probabilities @ terms

    curve = hs.shuffle.tradeoff(hs.Shuffle(20, 100), noise_multiplier=15.0, group_size=6, epochs=2)
    for epsilon in (0.0, 0.5, 2.0):
        assert curve.delta(epsilon) == pytest.approx(delta(epsilon), rel=1e-10)
    root = brentq(lambda epsilon: delta(epsilon) - 1e-4, 0, 50, xtol=1e-14)
    assert curve.epsilon(1e-4) == pytest.approx(root, rel=1e-9)
