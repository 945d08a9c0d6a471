"""Correlated noise with cyclic Poisson sampling (BandMF): subsampled Gaussians, and groups in many parts."""

import itertools
import json
import math
import re

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves import equivalent_steps
from hockeystick.accountants import GroupAccountant

DELTA = 1e-5
BANDS = [1.0, 0.5, 0.25, 0.125]
NORM = math.sqrt(sum(value * value for value in BANDS))
NOISE = hs.CorrelatedNoise.toeplitz(BANDS, noise_multiplier=2.0)
SAMPLING = hs.CyclicPoisson(0.08, cycle=4)


def test_full_cycles_are_poisson_steps_with_the_norm_of_a_column():
    """n / b steps at the rate b B / N with the noise sigma / kappa."""
    for members, adjacency in ((1, "add_remove"), (1, "remove"), (1, "add"), (1, "replace")):
        how = {"delta": DELTA, "group_size": members, "adjacency": adjacency}
        found = hs.get_epsilon(mechanism=NOISE, sampling=SAMPLING, steps=400, **how)
        plain = hs.get_epsilon(noise_multiplier=2.0 / NORM, sample_rate=0.08, steps=100, **how)
        assert found == pytest.approx(plain, rel=3e-6)
    together = hs.CyclicPoisson(0.08, cycle=4, members="together")
    for members in (2, 5):
        found = hs.get_epsilon(delta=DELTA, mechanism=NOISE, sampling=together, steps=400, group_size=members)
        plain = hs.get_epsilon(
            delta=DELTA, noise_multiplier=2.0 / NORM, sample_rate=0.08, steps=100, group_size=members
        )
        assert found == pytest.approx(plain, rel=3e-6)


def test_columns_that_are_cut_short_count_for_less():
    """401 steps: the first part has a turn more, whose column has one entry left."""
    last = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.08, steps=1)
    whole = hs.privacy_curve(noise_multiplier=2.0 / NORM, sample_rate=0.08, steps=100)
    curve = hs.privacy_curve(mechanism=NOISE, sampling=SAMPLING, steps=401)
    assert curve.epsilon(DELTA) == pytest.approx((whole + last).epsilon(DELTA), rel=3e-6)
    assert curve.tight
    assert curve.steps == 101
    # One column of the full norm in its place is the published count of ceil(n / b) steps: an upper bound.
    published = hs.get_epsilon(delta=DELTA, noise_multiplier=2.0 / NORM, sample_rate=0.08, steps=101)
    assert whole.epsilon(DELTA) < curve.epsilon(DELTA) < published


def test_a_banded_matrix_whose_columns_differ():
    generator = np.random.default_rng(2)
    array = np.tril(generator.normal(size=(12, 12)))
    array -= np.tril(array, -3)
    mechanism = hs.CorrelatedNoise.from_matrix(array, noise_multiplier=3.0)
    scheme = hs.CyclicPoisson(0.3, cycle=3)
    by_part = []
    for part in range(3):
        curve = None
        for column in array.T[part::3]:
            step = hs.privacy_curve(noise_multiplier=3.0 / np.linalg.norm(column), sample_rate=0.3, steps=1)
            curve = step if curve is None else curve + step
        by_part.append(curve.epsilon(DELTA))
    found = hs.get_epsilon(delta=DELTA, mechanism=mechanism, sampling=scheme, steps=12)
    # No part need have all the longest columns: the bound takes the longest of each turn.
    assert max(by_part) * (1 - 1e-6) <= found < 1.25 * max(by_part)
    assert not hs.privacy_curve(mechanism=mechanism, sampling=scheme, steps=12).tight


def test_norms_that_differ_in_the_last_digit_count_as_often_as_they_occur():
    """Columns scaled to norm 1 have norms next to 1, some of which have the same root in doubles."""
    generator = np.random.default_rng(0)
    array = np.tril(generator.uniform(0.1, 1.0, size=(48, 48)))
    array -= np.tril(array, -4)
    array /= np.sqrt((array**2).sum(axis=0))
    mechanism = hs.CorrelatedNoise.from_matrix(array, noise_multiplier=1.0)
    curve = hs.privacy_curve(mechanism=mechanism, sampling=SAMPLING, steps=48)
    plain = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.08, steps=12)
    assert curve.steps == 12
    assert curve.epsilon(DELTA) == pytest.approx(plain.epsilon(DELTA), rel=1e-6)
    assert curve.certify(delta=DELTA).verify()[0]


def test_lower_ends_are_those_of_the_part_that_has_all_upper_ends():
    """Two parts of two columns: another part may have a larger lower end, but not the same data sets."""
    upper = np.array([4.0, 3.9, 1.0, 1.0])
    lower = np.array([3.5, 3.8, 0.9, 0.95])
    parts, attained = equivalent_steps._one_part((lower, upper), cycle=2, turns=2, members=1)
    assert attained
    assert sorted(part.least**2 for part in parts) == pytest.approx([0.9, 3.5], rel=1e-14)


def test_more_bands_than_parts_are_refused():
    with pytest.raises(hs.UnsupportedError, match="at most 3 bands"):
        hs.get_epsilon(delta=DELTA, mechanism=NOISE, sampling=hs.CyclicPoisson(0.1, cycle=3), steps=9)
    root = hs.CorrelatedNoise.prefix_sum_root(2.0)
    with pytest.raises(hs.UnsupportedError, match="bands"):
        hs.get_epsilon(delta=DELTA, mechanism=root, sampling=hs.CyclicPoisson(0.1, cycle=3), steps=9)


def exact_second_moment(matrix, rate, parts, cycle, variance):
    """E_Q[W^2] = E[exp(<m, m'> / s^2)] over two independent draws of who takes part, by enumeration."""
    steps = matrix.shape[0]
    slots = [step for part in parts for step in range(part, steps, cycle)]
    draws = list(itertools.product((0, 1), repeat=len(slots)))
    means = np.array([sum(b * matrix[:, s] for b, s in zip(draw, slots, strict=True)) for draw in draws])
    weights = np.array([np.prod([rate if b else 1.0 - rate for b in draw]) for draw in draws])
    return float(weights @ np.exp(means @ means.T / variance) @ weights)


def test_members_in_different_parts_are_bounded():
    """The Rényi divergence of order 2 of every placement, by enumeration of who takes part, is covered.

    With half of the added overlap the bound of members apart would fall below the truth.
    """
    matrix, rate, cycle, steps = NOISE.matrix(8), 0.4, 4, 8
    noise = NOISE.with_noise(1.5)
    scheme = hs.CyclicPoisson(rate, cycle=cycle)
    apart = hs.CyclicPoisson(rate, cycle=cycle, members="apart")
    together = hs.CyclicPoisson(rate, cycle=cycle, members="together")

    def order_two(sampling):
        run = {"mechanism": noise, "sampling": sampling, "steps": steps, "group_size": 2}
        return hs.privacy_curve(adjacency="remove", **run).renyi(2.0)

    worst = 0.0
    for parts in itertools.combinations(range(cycle), 2):
        truth = math.log(exact_second_moment(matrix, rate, parts, cycle, 1.5**2))
        assert truth <= order_two(apart) <= order_two(scheme)
        worst = max(worst, truth)
    half = NORM**2 + 0.5 * max(overlaps(BANDS, cycle))
    less = hs.privacy_curve(
        noise_multiplier=1.5 / math.sqrt(half), sample_rate=rate, steps=4, adjacency="remove"
    )
    assert less.renyi(2.0) < worst
    same = math.log(exact_second_moment(matrix, rate, (0, 0), cycle, 1.5**2))
    assert same == pytest.approx(order_two(together), rel=1e-5)
    assert same <= order_two(scheme)
    assert order_two(together) < order_two(scheme)


def test_the_overlap_is_needed():
    """Two parts whose columns overlap fully: only all of the added overlap covers full participation."""
    flat = hs.CorrelatedNoise.toeplitz([1.0, 1.0], noise_multiplier=3.0)
    apart = hs.CyclicPoisson(1.0, cycle=2, members="apart")
    found = hs.get_epsilon(delta=DELTA, mechanism=flat, sampling=apart, steps=40, group_size=2)
    moved = np.linalg.norm(flat.matrix(40).sum(axis=1))
    truth = hs.get_epsilon(delta=DELTA, noise_multiplier=3.0 / moved, sampling=hs.FullBatch(), steps=1)
    assert truth <= found < 1.02 * truth
    # Without the overlap: two runs of a record each.
    without = hs.get_epsilon(
        delta=DELTA, noise_multiplier=3.0 / math.sqrt(2.0), sampling=hs.FullBatch(), steps=40
    )
    assert without < truth


@pytest.mark.parametrize("members", [2, 3])
def test_overlaps_of_stored_matrices_are_those_of_inner_products(members):
    """Theorem 4 with the magnitudes of inner products, which signs make smaller than those of magnitudes."""
    generator = np.random.default_rng(5)
    array = np.tril(generator.normal(size=(15, 15)))
    array -= np.tril(array, -5)
    products = np.abs(array.T @ array)
    rows = []
    for step, row in enumerate(products):
        parts = [row[part::5].sum() for part in range(5)]
        own = parts.pop(step % 5)
        rows.append(own + sum(sorted(parts, reverse=True)[: members - 1]))
    curve = hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.from_matrix(array, noise_multiplier=6.0),
        sampling=hs.CyclicPoisson(0.1, cycle=5),
        steps=15,
        group_size=members,
    )
    ((kind, count),) = curve.segments
    assert count == 3
    assert kind.noise <= 6.0 / math.sqrt(max(rows)) <= kind.noise * (1 + 1e-12)


@pytest.mark.parametrize("members", [2, 3])
def test_a_group_is_the_worst_of_its_placements(members):
    run = {"delta": DELTA, "mechanism": NOISE, "steps": 400, "group_size": members}
    together = hs.get_epsilon(sampling=hs.CyclicPoisson(0.08, cycle=4, members="together"), **run)
    anywhere = hs.get_epsilon(sampling=SAMPLING, **run)
    apart = hs.get_epsilon(sampling=hs.CyclicPoisson(0.08, cycle=4, members="apart"), **run)
    found = [together, apart]
    if members == 3:
        # Two in one part and one in another: the noise over the overlap of two parts.
        overlap = 1.0 + 0.25 + 1 / 16 + 1 / 64 + max(overlaps(BANDS, 4))
        pair, one = (
            hs.privacy_curve(
                noise_multiplier=2.0 / math.sqrt(overlap), sample_rate=0.08, steps=100, group_size=size
            )
            for size in (2, 1)
        )
        found.append((pair + one).epsilon(DELTA))
    assert anywhere == pytest.approx(max(found), rel=3e-6)
    # One curve has to cover all placements at once.
    curve = hs.privacy_curve(mechanism=NOISE, sampling=SAMPLING, steps=400, group_size=members)
    assert anywhere < curve.epsilon(DELTA)


def overlaps(coefficients, cycle):
    """Inner products of a column with those of another part, on both sides."""
    padded = np.zeros(3 * cycle)
    padded[: len(coefficients)] = coefficients
    return [padded @ (np.roll(padded, lag) + np.roll(padded, cycle - lag)) for lag in range(1, cycle)]


def test_members_apart_fit_the_parts():
    with pytest.raises(ValueError, match="group_size"):
        hs.get_epsilon(
            delta=DELTA,
            mechanism=NOISE,
            steps=8,
            group_size=5,
            sampling=hs.CyclicPoisson(0.1, cycle=4, members="apart"),
        )


@pytest.mark.parametrize("steps", [400, 401])
@pytest.mark.parametrize("members", [1, 2])
def test_calibration_meets_the_target(steps, members):
    run = {"sampling": SAMPLING, "steps": steps, "group_size": members}
    lower, upper = hs.get_noise_multiplier(epsilon=2.0, delta=DELTA, mechanism=NOISE, bounds=True, **run)
    assert lower <= upper
    if members == 1:
        assert upper <= lower * (1.0 + 1e-5)
    assert 1.9999 < hs.get_epsilon(delta=DELTA, mechanism=NOISE.with_noise(upper), **run) <= 2.0
    table = hs.get_noise_multiplier(epsilon=[1.0, 2.0], delta=DELTA, mechanism=NOISE, **run)
    assert table.shape == (2,)
    assert table[1] == pytest.approx(upper, rel=1e-6)


def test_an_accountant_records_a_run_step_by_step():
    for members in (1, 2):
        accountant = GroupAccountant(group_size=members)
        for _ in range(401):
            accountant.step(mechanism=NOISE, sampling=SAMPLING)
        assert accountant.history == [(NOISE, SAMPLING, 401)]
        run = {"mechanism": NOISE, "sampling": SAMPLING, "steps": 401, "group_size": members}
        assert accountant.get_epsilon(DELTA) == hs.get_epsilon(delta=DELTA, **run)
        assert accountant.get_delta(1.0) == hs.get_delta(epsilon=1.0, **run)
        assert accountant.privacy_curve() == hs.privacy_curve(**run)
        again = GroupAccountant(group_size=members)
        again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
        assert again.history == accountant.history
        assert again.get_epsilon(DELTA) == accountant.get_epsilon(DELTA)
        # Independent steps on the same data join the run.
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        assert accountant.get_epsilon(DELTA) > again.get_epsilon(DELTA)
        assert "CyclicPoisson" in repr(accountant) or "CyclicPoisson" in str(accountant)


def test_every_scheme_can_be_recorded_and_saved():
    for mechanism, scheme in (
        (hs.CorrelatedNoise.prefix_sum_root(9.0), hs.FixedOrder(10)),
        (hs.CorrelatedNoise.blt([0.3], [0.9], 9.0), hs.MinimumSeparation(10)),
        (hs.CorrelatedNoise.lambda_cgd(0.5, 9.0), hs.MinimumSeparation(10, 2)),
        (NOISE, hs.FullBatch()),
    ):
        accountant = GroupAccountant()
        for _ in range(30):
            accountant.step(mechanism=mechanism, sampling=scheme)
        expected = hs.get_epsilon(delta=DELTA, mechanism=mechanism, sampling=scheme, steps=30)
        assert accountant.get_epsilon(DELTA) == expected
        again = GroupAccountant()
        again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
        assert again.get_epsilon(DELTA) == expected


def test_a_refused_step_changes_nothing():
    accountant = GroupAccountant()
    accountant.step(mechanism=NOISE, sampling=SAMPLING)
    stored = hs.CorrelatedNoise.from_matrix(np.eye(3), 1.0)
    for refused, error in (
        ({"mechanism": NOISE, "sampling": hs.CyclicPoisson(0.1, cycle=3)}, hs.UnsupportedError),
        ({"mechanism": NOISE, "sampling": hs.Poisson(0.1)}, hs.UnsupportedError),
        ({"mechanism": stored, "sampling": hs.FullBatch()}, hs.UnsupportedError),
        ({"mechanism": NOISE, "sample_rate": 0.1}, TypeError),
        ({"mechanism": NOISE}, TypeError),
        ({"mechanism": NOISE.with_noise(None), "sampling": SAMPLING}, TypeError),
        ({"noise_multiplier": 1.0, "sampling": SAMPLING}, hs.UnsupportedError),
    ):
        with pytest.raises(error):
            accountant.step(**refused)
    assert accountant.history == [(NOISE, SAMPLING, 1)]
    bad = accountant.state_dict()
    bad["history"][0][0]["form"] = "unknown"
    with pytest.raises(ValueError, match="form"):
        GroupAccountant().load_state_dict(bad)


@pytest.mark.opacus
def test_events_of_dp_accounting_say_the_same():
    import dp_accounting

    for mechanism, sampling, steps in (
        (NOISE, SAMPLING, 401),
        (NOISE, SAMPLING, 400),
        (hs.CorrelatedNoise.prefix_sum_root(9.0), hs.FixedOrder(10), 40),
    ):
        event = hs.dp_accounting.correlated_event(mechanism, sampling=sampling, steps=steps)
        ours = hs.get_epsilon(delta=DELTA, mechanism=mechanism, sampling=sampling, steps=steps)
        exact = hs.dp_accounting.ExactAccountant().compose(event).get_epsilon(DELTA)
        assert exact == pytest.approx(ours, rel=3e-6)
        theirs = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(DELTA)
        assert ours * (1 - 1e-6) <= theirs <= ours * 1.001 + 1e-3


def test_reports_of_groups_ask_the_run_and_not_its_equivalent(tmp_path):
    """A curve of the steps that stand for a run says nothing of other groups; an accountant knows the run."""
    curve = hs.privacy_curve(mechanism=NOISE, sampling=SAMPLING, steps=40)
    with pytest.raises(hs.UnsupportedError, match="correlated noise"):
        hs.report(curve, tmp_path / "curve.md", delta=DELTA, group_sizes=[1, 2])
    accountant = GroupAccountant()
    for _ in range(40):
        accountant.step(mechanism=NOISE, sampling=SAMPLING)
    path = tmp_path / "accountant.md"
    hs.report(accountant, path, delta=DELTA, group_sizes=[1, 4])
    rows = dict(re.findall(r"^\| (\d+) \| ([\d.]+) \|", path.read_text("utf-8"), re.M))
    for members in (1, 4):
        least = hs.get_epsilon(delta=DELTA, mechanism=NOISE, sampling=SAMPLING, steps=40, group_size=members)
        assert float(rows[str(members)]) >= least * (1.0 - 1e-4)
