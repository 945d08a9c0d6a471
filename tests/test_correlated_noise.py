"""Correlated noise without amplification: certified sensitivities, and one Gaussian with each of them."""

import itertools
import json
import math
import pickle

import mpmath
import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves import composed_run
from hockeystick._vocabulary import step_kinds
from hockeystick.accountants import GroupAccountant, MonteCarloAccountant, RenyiGroupAccountant

DELTA = 1e-5
ROOT = hs.CorrelatedNoise.prefix_sum_root()
BLT = hs.CorrelatedNoise.blt([0.3, 0.2], [0.99, 0.5])
CGD = hs.CorrelatedNoise.lambda_cgd(0.9)
DECREASING = hs.CorrelatedNoise.toeplitz([1.0, 0.5, 0.25, 0.125])


def patterns(steps, separation, at_most):
    """Every non-empty set of steps that keep the distance."""
    for size in range(1, at_most + 1):
        for chosen in itertools.combinations(range(steps), size):
            if all(late - early >= separation for early, late in itertools.pairwise(chosen)):
                yield chosen


def by_definition(matrix, sets):
    """Largest norm over the sets: with the best signs, and with the magnitudes of all inner products."""
    gram = matrix.T @ matrix
    signed = magnitudes = 0.0
    for chosen in sets:
        part = gram[np.ix_(chosen, chosen)]
        magnitudes = max(magnitudes, np.abs(part).sum())
        for signs in itertools.product((1.0, -1.0), repeat=len(chosen) - 1):
            vector = np.array((1.0, *signs))
            signed = max(signed, vector @ part @ vector)
    return math.sqrt(signed), math.sqrt(magnitudes)


def drawn(kind, generator):
    steps = int(generator.integers(2, 9))
    bands = int(generator.integers(1, steps + 1))
    if kind == "decreasing":
        noise = hs.CorrelatedNoise.toeplitz(np.sort(generator.random(bands))[::-1])
    elif kind == "positive":
        noise = hs.CorrelatedNoise.toeplitz(generator.random(bands))
    elif kind == "signed":
        noise = hs.CorrelatedNoise.toeplitz(generator.normal(size=bands))
    elif kind == "blt":
        noise = hs.CorrelatedNoise.blt(generator.random(2) * 1.2, generator.random(2))
    elif kind == "positive matrix":
        noise = hs.CorrelatedNoise.from_matrix(np.tril(generator.random((steps, steps))))
    elif kind == "banded matrix":
        array = generator.normal(size=(steps, steps))
        noise = hs.CorrelatedNoise.from_matrix(np.tril(array) - np.tril(array, -bands))
    else:
        noise = hs.CorrelatedNoise.from_matrix(np.tril(generator.normal(size=(steps, steps))))
    return noise, steps


KINDS = ("decreasing", "positive", "signed", "blt", "positive matrix", "banded matrix", "signed matrix")


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_contains_the_maximum_over_all_patterns(kind):
    """An upper end that were halved would lie below the maximum: it is at most 1.8 times as large."""
    generator = np.random.default_rng(KINDS.index(kind))
    for _ in range(40):
        noise, steps = drawn(kind, generator)
        matrix = noise.matrix(steps)
        separation = int(generator.integers(1, 5))
        at_most = int(generator.integers(1, 5))
        scheme = hs.MinimumSeparation(separation, at_most)
        found = noise.sensitivity(scheme, steps)
        signed, magnitudes = by_definition(matrix, patterns(steps, separation, at_most))
        assert signed <= found.upper * (1.0 + 1e-13)
        assert found.lower <= magnitudes * (1.0 + 1e-13)
        assert found.upper <= 1.8 * signed
        if found.exact:
            assert found.lower == pytest.approx(found.upper, rel=1e-12)
            assert found.upper == pytest.approx(magnitudes, rel=1e-12)
            assert signed == pytest.approx(magnitudes, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_orders_are_maxima_over_the_offsets(kind):
    generator = np.random.default_rng(100 + KINDS.index(kind))
    for _ in range(40):
        noise, steps = drawn(kind, generator)
        batches = int(generator.integers(1, steps + 2))
        found = noise.sensitivity(hs.FixedOrder(batches), steps)
        sets = [tuple(range(offset, steps, batches)) for offset in range(min(batches, steps))]
        signed, magnitudes = by_definition(noise.matrix(steps), sets)
        assert signed <= found.upper * (1.0 + 1e-13)
        assert found.lower <= magnitudes * (1.0 + 1e-13)
        assert found.upper <= 1.8 * signed
        if found.exact:
            assert found.lower == pytest.approx(found.upper, rel=1e-12)
            assert found.upper == pytest.approx(signed, rel=1e-12)
        everything = noise.sensitivity(hs.FullBatch(), steps)
        signed, _ = by_definition(noise.matrix(steps), [tuple(range(steps))])
        assert signed <= everything.upper * (1.0 + 1e-13)
        assert everything.upper <= 1.8 * signed or not everything.exact


def test_many_patterns_are_bounded_from_both_sides():
    """More patterns than are enumerated: two rounds of dynamic programming, within a third of the truth."""
    generator = np.random.default_rng(5)
    array = np.tril(generator.random((24, 24)))
    found = hs.CorrelatedNoise.from_matrix(array).sensitivity(hs.MinimumSeparation(1, 7), 24)
    assert not found.exact
    assert "dynamic programming" in found.method
    truth, _ = by_definition_of_positive(array, 24, 7)
    assert found.lower <= truth <= found.upper < 1.35 * truth
    assert found.upper / 2.0 < truth


def by_definition_of_positive(array, steps, count):
    gram = array.T @ array
    sets = np.array(list(itertools.combinations(range(steps), count)))
    best = gram[sets[:, :, None], sets[:, None, :]].sum(axis=(1, 2)).max()
    return math.sqrt(best), len(sets)


@pytest.mark.parametrize("noise", [ROOT, BLT, CGD, DECREASING, hs.CorrelatedNoise.toeplitz([0.4, 1.0, 0.2])])
@pytest.mark.parametrize("members", [2, 3])
def test_a_person_whose_records_are_apart(noise, members):
    steps, batches = 23, 7
    columns = [noise.matrix(steps)[:, offset::batches].sum(axis=1) for offset in range(batches)]
    truth = max(np.linalg.norm(sum(chosen)) for chosen in itertools.combinations(columns, members))
    found = noise.sensitivity(hs.FixedOrder(batches, members="apart"), steps, group_size=members)
    assert found.exact
    assert found.lower <= truth * (1.0 + 1e-13)
    assert truth <= found.upper * (1.0 + 1e-13)
    assert found.upper == pytest.approx(truth, rel=1e-12)
    together = noise.sensitivity(hs.FixedOrder(batches), steps, group_size=members)
    assert together.upper == pytest.approx(
        members * noise.sensitivity(hs.FixedOrder(batches), steps).upper, rel=1e-14
    )
    assert found.upper < together.upper


def test_many_sets_of_batches_are_bounded_from_both_sides():
    steps, batches, members = 60, 30, 6
    found = ROOT.sensitivity(hs.FixedOrder(batches, members="apart"), steps, group_size=members)
    columns = [ROOT.matrix(steps)[:, offset::batches].sum(axis=1) for offset in range(batches)]
    in_a_row = max(np.linalg.norm(sum(columns[i : i + members])) for i in range(batches - members + 1))
    assert not found.exact
    assert in_a_row <= found.upper < 1.2 * in_a_row
    assert found.lower <= in_a_row * (1.0 + 1e-12)
    assert found.lower > 0.9 * in_a_row


def test_coefficients_and_columns_of_the_named_matrices():
    steps = 50
    squared = ROOT.matrix(steps) @ ROOT.matrix(steps)
    assert squared == pytest.approx(np.tril(np.ones((steps, steps))), rel=1e-14)
    exact = [math.comb(2 * t, t) / 4**t for t in range(steps)]
    assert ROOT.matrix(steps)[:, 0] == pytest.approx(exact, rel=1e-15)
    taken_back = np.eye(steps) - 0.9 * np.eye(steps, k=-1)
    assert CGD.matrix(steps) @ taken_back == pytest.approx(np.eye(steps), abs=1e-14)
    by_hand = [1.0, *(0.3 * 0.99**t + 0.2 * 0.5**t for t in range(steps - 1))]
    assert BLT.matrix(steps)[:, 0] == pytest.approx(by_hand, rel=1e-14)
    given = np.tril(np.random.default_rng(1).random((9, 9)))
    by_products = hs.CorrelatedNoise.from_products(lambda x: given @ x, 9)
    assert by_products == hs.CorrelatedNoise.from_matrix(given)
    assert by_products.matrix(4).tolist() == given[:4, :4].tolist()


def gaussian_delta(mu, epsilon):
    """Delta of two Gaussians with noise 1 at the distance mu, in the precision of mpmath."""
    above = [mpmath.erfc((epsilon / mu + side * mu / 2) / mpmath.sqrt(2)) / 2 for side in (-1, 1)]
    return above[0] - mpmath.exp(epsilon) * above[1]


def test_lower_ends_count_what_is_not_known_of_the_sensitivity():
    """Far out, delta grows by hundreds of parts for one of the sensitivity, which sums have rounded."""
    steps = 100_000
    with mpmath.workdps(40):
        coefficient, total, square = mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0)
        for t in range(steps):
            total += coefficient
            square += total**2
            coefficient *= mpmath.mpf(2 * t + 1) / (2 * t + 2)
        noise = float(mpmath.sqrt(square))
        distance = mpmath.sqrt(square) / noise
        run = {"mechanism": ROOT.with_noise(noise), "sampling": hs.FullBatch(), "steps": steps}
        one = hs.privacy_curve(**run)
        mixed = hs.privacy_curve(**run, adjacency="add") + hs.privacy_curve(**run, adjacency="remove")
        for curve, mu in ((one, distance), (mixed, distance * mpmath.sqrt(2))):
            for epsilon in (0.0, 1.0, 8.0, 20.0):
                lower, upper = curve.bounds(epsilon=epsilon)
                assert lower <= gaussian_delta(mu, epsilon) <= upper
                assert upper <= lower * (1 + 1e-9)


def test_runs_for_lower_ends_count_all_steps_and_are_not_merged(monkeypatch):
    run = {"mechanism": ROOT.with_noise(9.0), "sampling": hs.FullBatch(), "steps": 50}
    ((kind, _),) = hs.privacy_curve(**run).segments
    assert kind.noise < kind.pair.most_noise
    less = kind._replace(noise=kind.noise * (1 - 1e-15))
    (found,) = step_kinds.surely_attained({kind: 2, less: 3}).items()
    assert found == (kind._replace(noise=kind.pair.most_noise), 5)
    plain = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.1, steps=3)
    assert step_kinds.surely_attained(dict(plain.segments)) is None
    (step,) = dict(plain.segments)
    schedule = hs.PrivacyCurve(
        {step._replace(noise=2.0 + t / 200): 1 for t in range(200)}, "add_remove", 1e-6
    )
    # Merged schedules have one interval for both ends.
    monkeypatch.setattr(composed_run, "MERGED_FROM", 1)
    for curve, is_merged in ((schedule, True), (hs.privacy_curve(**run) + schedule, False)):
        composed = composed_run.ComposedRun(dict(curve.segments), "add_remove", 1e-6)
        assert (composed._of_schedules() is not None) == is_merged


def test_more_noise_than_is_counted_is_not_said_to_be_attained():
    for noise, is_tight in ((1e29, True), (1e31, False)):
        run = {"mechanism": ROOT.with_noise(noise), "sampling": hs.FullBatch(), "steps": 10}
        assert hs.privacy_curve(**run).tight == is_tight


def test_a_million_steps_against_sums_of_high_precision():
    """The norm of a column in closed form: geometric sums, and sum_t a_t^2 with 50 digits."""
    steps = 10**6
    with mpmath.workdps(50):
        ratio = mpmath.mpf(0.9)
        geometric = mpmath.sqrt((1 - ratio ** (2 * steps)) / (1 - ratio**2))
        # sum_{t < n} (binomial(2 t, t) / 4^t)^2, by the asymptotic series of Euler and Maclaurin.
        gauss = mpmath.sqrt(mpmath.nsum(lambda t: (mpmath.binomial(2 * t, t) / 4**t) ** 2, [0, 10**3 - 1]))
    one = hs.MinimumSeparation(1, 1)
    found = CGD.sensitivity(one, steps)
    assert found.lower <= geometric <= found.upper
    short = ROOT.sensitivity(one, 10**3)
    assert short.lower <= gauss <= short.upper
    for noise in (ROOT, BLT, CGD):
        for scheme in (hs.FullBatch(), hs.FixedOrder(1000), hs.MinimumSeparation(1000, 3)):
            long = noise.sensitivity(scheme, steps)
            assert long.exact
            assert long.upper <= long.lower * (1.0 + 2e-12)
    # All steps: C 1 for the square root is t -> (2 t + 1) binomial(2 t, t) / 4^t.
    sums = [(2 * t + 1) * math.comb(2 * t, t) / 4**t for t in range(300)]
    everything = ROOT.sensitivity(hs.FullBatch(), 300)
    assert everything.lower <= math.sqrt(math.fsum(x * x for x in sums)) <= everything.upper


def test_the_largest_stored_matrix():
    """4,096 rows of ones, the prefix sums: norms in closed form, for one step and for all."""
    rows = 4096
    matrix = hs.CorrelatedNoise.from_matrix(np.tril(np.ones((rows, rows))))
    one = matrix.sensitivity(hs.MinimumSeparation(1, 1), rows)
    assert one.exact
    assert one.lower <= 64.0 <= one.upper <= 64.0 * (1.0 + 1e-11)
    everything = matrix.sensitivity(hs.FullBatch(), rows)
    truth = math.sqrt(rows * (rows + 1) * (2 * rows + 1) / 6)
    assert everything.lower <= truth <= everything.upper <= truth * (1.0 + 1e-11)


def test_runs_are_one_gaussian_of_that_sensitivity():
    for noise, scheme, steps in (
        (ROOT, hs.FixedOrder(100), 400),
        (BLT, hs.MinimumSeparation(50, 3), 1000),
        (DECREASING, hs.FullBatch(), 64),
    ):
        sensitivity = noise.sensitivity(scheme, steps).upper
        for members in (1, 3):
            for adjacency, factor in (("add_remove", 1.0), ("remove", 1.0), ("replace", 2.0)):
                run = {"sampling": scheme, "steps": steps, "group_size": members, "adjacency": adjacency}
                mechanism = noise.with_noise(5.0)
                scaled = 5.0 / (sensitivity * members * factor)
                one = {"noise_multiplier": scaled, "sampling": hs.FullBatch(), "steps": 1}
                found = hs.get_epsilon(delta=DELTA, mechanism=mechanism, **run)
                assert found == pytest.approx(hs.get_epsilon(delta=DELTA, **one), rel=3e-6)
                delta = hs.get_delta(epsilon=1.0, mechanism=mechanism, **run)
                assert delta == pytest.approx(hs.get_delta(epsilon=1.0, **one), rel=3e-6)
                curve = hs.privacy_curve(mechanism=mechanism, **run)
                assert curve.epsilon(DELTA) == found
                assert curve.tight


def test_the_identity_is_independent_noise():
    identity = hs.CorrelatedNoise.toeplitz([1.0], noise_multiplier=3.0)
    full = {"delta": DELTA, "sampling": hs.FullBatch(), "steps": 20}
    assert hs.get_epsilon(mechanism=identity, **full) == pytest.approx(
        hs.get_epsilon(noise_multiplier=3.0, **full), rel=3e-6
    )
    epochs = {"delta": DELTA, "mechanism": identity, "sampling": hs.FixedOrder(10), "steps": 70}
    assert hs.get_epsilon(**epochs) == pytest.approx(
        hs.get_epsilon(delta=DELTA, noise_multiplier=3.0, sampling=hs.FullBatch(), steps=7), rel=3e-6
    )


def test_numbers_broadcast_and_bounds_enclose():
    mechanism = ROOT.with_noise(8.0)
    run = {"mechanism": mechanism, "sampling": hs.FixedOrder(10)}
    steps, sizes = np.array([[10], [40]]), np.array([1, 2, 3])
    table = hs.get_epsilon(delta=DELTA, steps=steps, group_size=sizes, **run)
    assert table.shape == (2, 3)
    for row, count in enumerate((10, 40)):
        for column, members in enumerate((1, 2, 3)):
            alone = hs.get_epsilon(delta=DELTA, steps=count, group_size=members, **run)
            assert table[row, column] == alone
    lower, upper = hs.get_delta(epsilon=[0.5, 1.0], steps=40, bounds=True, **run)
    assert lower.shape == (2,)
    assert np.all(lower <= upper)
    assert np.all(upper <= lower * (1.0 + 1e-5))
    assert hs.get_epsilon(delta=DELTA, steps=0, **run) == 0.0
    assert isinstance(hs.get_epsilon(delta=DELTA, steps=40, **run), float)


@pytest.mark.parametrize("members", [1, 4])
def test_calibration_meets_the_target(members):
    run = {"sampling": hs.FixedOrder(100), "steps": 400, "group_size": members}
    lower, upper = hs.get_noise_multiplier(epsilon=3.0, delta=DELTA, mechanism=BLT, bounds=True, **run)
    assert lower <= upper <= lower * (1.0 + 1e-5)
    assert 2.9999 < hs.get_epsilon(delta=DELTA, mechanism=BLT.with_noise(upper), **run) <= 3.0
    assert hs.get_epsilon(delta=DELTA, mechanism=BLT.with_noise(lower * (1 - 1e-4)), **run) > 3.0
    # The noise that the mechanism has does not matter.
    again = hs.get_noise_multiplier(epsilon=3.0, delta=DELTA, mechanism=BLT.with_noise(7.0), **run)
    assert again == upper


def test_a_bound_that_need_not_be_attained_says_so():
    array = np.tril(np.random.default_rng(3).normal(size=(12, 12)))
    mechanism = hs.CorrelatedNoise.from_matrix(array, noise_multiplier=20.0)
    curve = hs.privacy_curve(mechanism=mechanism, sampling=hs.FullBatch(), steps=12)
    assert not curve.tight
    assert "upper bound" in str(curve)
    assert "magnitudes of inner products" in str(curve)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hs.CorrelatedNoise.toeplitz([]), "coefficients"),
        (lambda: hs.CorrelatedNoise.toeplitz([0.0, 1.0]), "inverted"),
        (lambda: hs.CorrelatedNoise.toeplitz([1.0, math.nan]), "finite"),
        (lambda: hs.CorrelatedNoise.toeplitz([1.0], -1.0), "noise_multiplier"),
        (lambda: hs.CorrelatedNoise.blt([0.1], [1.1]), "decays"),
        (lambda: hs.CorrelatedNoise.blt([-0.1], [0.1]), "scales"),
        (lambda: hs.CorrelatedNoise.blt([0.1, 0.2], [0.1]), "decays"),
        (lambda: hs.CorrelatedNoise.lambda_cgd(1.5), "correlation"),
        (lambda: hs.CorrelatedNoise.from_matrix([[1.0, 2.0]]), "shape"),
        (lambda: hs.CorrelatedNoise.from_matrix([[1.0, 2.0], [0.0, 1.0]]), "lower-triangular"),
        (lambda: hs.CorrelatedNoise.from_matrix([[1.0, 0.0], [1.0, 0.0]]), "invertible"),
        (lambda: hs.CorrelatedNoise.from_matrix(np.eye(4097)), "4096"),
        (lambda: hs.CorrelatedNoise.from_products(lambda x: x[:1], 3), "multiply"),
        (lambda: hs.CorrelatedNoise.from_matrix(np.eye(3)).sensitivity(hs.FullBatch(), 4), "at most 3"),
        (lambda: hs.FixedOrder(0), "batches"),
        (lambda: hs.FixedOrder(3, members="together"), "members"),
        (lambda: hs.MinimumSeparation(0), "separation"),
        (lambda: hs.MinimumSeparation(1, 0), "participations"),
        (lambda: ROOT.sensitivity(hs.FixedOrder(3, members="apart"), 9, group_size=4), "group_size"),
        (lambda: ROOT.sensitivity(hs.FullBatch(), 0), "steps"),
    ],
)
def test_arguments_are_checked(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="classmethod"):
        hs.CorrelatedNoise(np.eye(3))
    with pytest.raises(TypeError, match="multiply"):
        hs.CorrelatedNoise.from_products(np.eye(3), 3)
    with pytest.raises(TypeError, match="no noise multiplier"):
        hs.get_epsilon(delta=DELTA, mechanism=ROOT, sampling=hs.FullBatch(), steps=3)
    with pytest.raises(TypeError, match="give sampling"):
        hs.get_epsilon(delta=DELTA, mechanism=ROOT.with_noise(1.0), sample_rate=0.1, steps=3)
    with pytest.raises(TypeError, match="exactly one"):
        hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, mechanism=ROOT, sampling=hs.FullBatch(), steps=3)


@pytest.mark.parametrize("sampling", [hs.Poisson(0.1), hs.WithoutReplacement(2, 10), hs.RandomAllocation(4)])
def test_other_schemes_are_refused_with_advice(sampling):
    with pytest.raises(hs.UnsupportedError, match="CyclicPoisson"):
        hs.get_epsilon(delta=DELTA, mechanism=ROOT.with_noise(1.0), sampling=sampling, steps=8)


def test_the_schemes_are_for_correlated_noise_alone():
    for sampling in (hs.FixedOrder(4), hs.MinimumSeparation(4), hs.CyclicPoisson(0.1, 4)):
        with pytest.raises(hs.UnsupportedError, match="toeplitz"):
            hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, sampling=sampling, steps=8)


def test_no_account_of_one_step_or_example():
    mechanism = ROOT.with_noise(1.0)
    for ask in (
        lambda: hs.get_steps(epsilon=1.0, delta=DELTA, mechanism=mechanism, sampling=hs.FullBatch()),
        lambda: MonteCarloAccountant(seed=1).step(noise_multiplier=mechanism, sample_rate=0.1),
        lambda: hs.accountants.IndividualAccountant(10).step(noise_multiplier=mechanism, sample_rate=0.1),
        lambda: RenyiGroupAccountant().step(mechanism=mechanism, sample_rate=0.1),
        lambda: hs.explain(delta=DELTA, mechanism=mechanism, sample_rate=0.1, steps=3),
    ):
        with pytest.raises(hs.UnsupportedError, match="correlates the noise of all steps"):
            ask()


def test_values_are_equal_printed_and_pickled():
    stored = hs.CorrelatedNoise.from_matrix(np.tril(np.ones((3, 3))), 2.0)
    for noise in (ROOT, BLT, CGD.with_noise(1.5), DECREASING, stored):
        assert pickle.loads(pickle.dumps(noise)) == noise
        assert hash(pickle.loads(pickle.dumps(noise))) == hash(noise)
        assert noise.with_noise(9.0) != noise
        if noise is not stored:
            assert eval(repr(noise), {"CorrelatedNoise": hs.CorrelatedNoise}) == noise
            again = hs.CorrelatedNoise.from_settings(json.loads(json.dumps(noise.settings())))
            assert again == noise
    assert repr(stored) == "<CorrelatedNoise of a matrix of 3 steps, noise_multiplier=2.0>"
    assert len({ROOT, BLT, CGD, DECREASING, stored}) == 5
    assert isinstance(GroupAccountant(), GroupAccountant)


def test_replaced_members_in_any_parts_have_no_curve_of_their_own():
    # One composition for all placements is proven for added and removed members only.
    noise = hs.CorrelatedNoise.toeplitz([1.0, 0.5], noise_multiplier=2.0)
    run = {"mechanism": noise, "steps": 40, "adjacency": "replace"}
    anywhere, together = (hs.CyclicPoisson(0.1, 4, members=each) for each in ("any", "together"))
    worst = hs.get_epsilon(delta=1e-5, sampling=anywhere, group_size=2, **run)
    assert worst >= hs.get_epsilon(delta=1e-5, sampling=together, group_size=2, **run)
    for group_size, asked in ((2, hs.privacy_curve), (9, hs.get_epsilon)):
        target = {"delta": 1e-5} if asked is hs.get_epsilon else {}
        with pytest.raises(hs.UnsupportedError, match="one curve, nor in groups of more than 8"):
            asked(sampling=anywhere, group_size=group_size, **target, **run)
