"""ExactAccountant beside dp-accounting's own accountants; `make test-opacus` installs what it needs."""

import doctest
import importlib
import math
import pickle
import unittest

import numpy as np
import pytest
from dp_accounting_events import event, exact, fixed, gaussian, mixture, peer, poisson

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

DELTA = 1e-5

WIDTH = 2e-6
"""Twice the relative width of our certified intervals: what our upper end may be above a tighter one."""

PEERS_ERROR = 1e-8
"""Rounding and truncated tails of dp-accounting's loss distributions, relative to epsilon."""


@pytest.fixture
def dpa():
    import dp_accounting

    return dp_accounting


# --- dp-accounting's own tests ---


def test_the_test_class_that_dp_accounting_ships_passes():
    from dp_accounting import NeighboringRelation, privacy_accountant_test

    class ExactAccountantTest(privacy_accountant_test.PrivacyAccountantTest):
        def _make_test_accountants(self):
            return [
                hs.dp_accounting.ExactAccountant(relation, group_size)
                for relation in NeighboringRelation
                for group_size in (1, 3)
            ]

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(ExactAccountantTest).run(result)
    assert result.failures + result.errors + result.skipped == []
    assert result.testsRun >= 13


def test_it_is_one_of_their_accountants(dpa):
    assert isinstance(exact(), dpa.PrivacyAccountant)
    assert exact("REPLACE_ONE").neighboring_relation is dpa.NeighboringRelation.REPLACE_ONE


# --- beside the accountant of privacy loss distributions ---

BOTH_ANSWER = [
    pytest.param("ADD_OR_REMOVE_ONE", lambda: gaussian(3.0), 10, id="gaussian"),
    pytest.param("REPLACE_SPECIAL", lambda: gaussian(3.0), 10, id="gaussian, special"),
    pytest.param("REPLACE_ONE", lambda: gaussian(3.0), 10, id="gaussian, replace"),
    pytest.param("ADD_OR_REMOVE_ONE", lambda: poisson(0.01, gaussian(1.0)), 1000, id="DP-SGD"),
    pytest.param("REPLACE_SPECIAL", lambda: poisson(0.01, gaussian(1.0)), 1000, id="DP-SGD, special"),
    pytest.param("REPLACE_ONE", lambda: poisson(0.01, gaussian(1.0)), 1000, id="DP-SGD, replace"),
    pytest.param("ADD_OR_REMOVE_ONE", lambda: event("Laplace", 20.0), 100, id="Laplace"),
    pytest.param("REPLACE_SPECIAL", lambda: event("Laplace", 20.0), 100, id="Laplace, special"),
    pytest.param("ADD_OR_REMOVE_ONE", lambda: poisson(0.1, event("Laplace", 2.0)), 50, id="sampled Laplace"),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        lambda: event(
            "Composed",
            [
                event("SelfComposed", poisson(0.02, gaussian(1.5)), 100),
                event("Laplace", 10.0),
                event("NoOp"),
                gaussian(20.0),
            ],
        ),
        3,
        id="a mixed run",
    ),
]


@pytest.mark.parametrize(("relation", "make", "count"), BOTH_ANSWER)
def test_epsilon_and_delta_are_at_most_theirs(relation, make, count):
    ours, theirs = (accountant(relation).compose(make(), count) for accountant in (exact, peer))
    assert ours.ledger == theirs.ledger
    for delta in (1e-3, 1e-5, 1e-7):
        epsilon = theirs.get_epsilon(delta)
        assert ours.get_epsilon(delta) <= epsilon * (1 + WIDTH)
        # Their loss distribution dominates the pair, so it cannot be below the pair's own curve.
        assert ours.curve.bounds(delta=delta)[0] <= epsilon * (1 + PEERS_ERROR)
        # Cells of 1e-4 cost them little: a wrong pair would show.
        assert ours.get_epsilon(delta) >= epsilon * (1 - 1e-3)
        assert ours.get_delta(epsilon) <= theirs.get_delta(epsilon) * (1 + 1e-4)


def test_a_mixture_of_gaussians_is_at_most_theirs():
    # Their inverse of the loss is slow here, so their cells are coarse: both ends of ours are below.
    drawn = mixture(2.0, [0.0, 1.0, 4.5], [0.8, 0.15, 0.05])
    ours, theirs = exact().compose(drawn, 5), peer(value_discretization_interval=0.02).compose(drawn, 5)
    epsilon = theirs.get_epsilon(DELTA)
    assert 0.99 * epsilon <= ours.get_epsilon(DELTA) <= epsilon


def test_randomized_response_is_at_most_theirs():
    # Composed one at a time: PLDAccountant takes no notice of the count of this event.
    response = event("RandomizedResponse", 0.8, 2)
    ours, theirs = exact("REPLACE_ONE").compose(response, 12), peer("REPLACE_ONE")
    for _ in range(12):
        theirs.compose(response)
    assert theirs.get_epsilon(DELTA) * 0.99 <= ours.get_epsilon(DELTA)
    assert ours.get_epsilon(DELTA) <= theirs.get_epsilon(DELTA) * (1 + WIDTH)
    true_answer = hs.RandomizedResponse(0.6)
    direct = hs.get_epsilon(
        delta=DELTA, mechanism=true_answer, sampling=hs.FullBatch(), steps=12, adjacency="replace"
    )
    assert ours.get_epsilon(DELTA) == pytest.approx(direct, rel=WIDTH)


# --- what their accountant of loss distributions refuses ---


def test_a_fixed_batch_is_poisson_sampling_at_half_the_noise():
    # PITFALLS, Proposition 9: two of its terms, which dp-accounting can compute.
    theirs = peer().compose(poisson(0.01, gaussian(1.0)), 500).get_epsilon(DELTA)
    ours = exact().compose(fixed(10, 1000, gaussian(2.0)), 500)
    assert theirs * (1 - 1e-3) <= ours.get_epsilon(DELTA) <= theirs * (1 + WIDTH)
    assert not peer().supports(fixed(10, 1000, gaussian(2.0)))


def test_a_replaced_record_of_a_fixed_batch_is_below_their_renyi_bound():
    # Their noise multiplier is over the sensitivity, which is twice the largest norm of a record.
    ours = exact("REPLACE_ONE").compose(fixed(10, 1000, gaussian(4.0)), 500).get_epsilon(DELTA)
    theirs = peer("REPLACE_ONE", "rdp").compose(fixed(10, 1000, gaussian(2.0)), 500).get_epsilon(DELTA)
    assert 0.4 * theirs < ours < theirs


def test_their_renyi_accountant_reads_noise_over_the_sensitivity():
    theirs = peer("REPLACE_ONE", "rdp").compose(gaussian(3.0), 10).get_epsilon(DELTA)
    same, doubled = (
        exact("REPLACE_ONE").compose(gaussian(noise), 10).get_epsilon(DELTA) for noise in (3.0, 6.0)
    )
    assert doubled < theirs < 1.1 * doubled < same


@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize(
    ("relation", "adjacency"), [("ADD_OR_REMOVE_ONE", "add_remove"), ("REPLACE_ONE", "replace")]
)
def test_fixed_batches_are_those_of_the_library(relation, adjacency, group_size):
    ours = exact(relation, group_size=group_size).compose(fixed(60, 6000, gaussian(8.0)), 100)
    direct = hs.get_epsilon(
        delta=DELTA,
        noise_multiplier=8.0,
        sampling=hs.WithoutReplacement(60, 6000),
        steps=100,
        adjacency=adjacency,
        group_size=group_size,
    )
    assert ours.get_epsilon(DELTA) == pytest.approx(direct, rel=WIDTH)


def test_records_that_join_a_fixed_batch_scheme_leak_no_more():
    # The event names the records at hand; a neighbour may have as many more as the group.
    here, larger = (
        exact(group_size=4).compose(fixed(50, records, gaussian(8.0)), 200) for records in (1000, 1004)
    )
    assert larger.get_epsilon(DELTA) <= here.get_epsilon(DELTA)


def test_groups_are_those_of_the_library():
    step = poisson(0.01, gaussian(1.0))
    sizes = np.array([1, 2, 8])
    direct = hs.get_epsilon(delta=DELTA, noise_multiplier=1.0, sample_rate=0.01, steps=1000, group_size=sizes)
    for size, expected in zip(sizes, direct, strict=True):
        found = exact(group_size=int(size)).compose(step, 1000).get_epsilon(DELTA)
        assert found == pytest.approx(expected, rel=WIDTH)


def test_laplace_noise_under_replacement_is_twice_as_near():
    replaced = exact("REPLACE_ONE").compose(event("Laplace", 4.0), 10).get_epsilon(DELTA)
    assert replaced == pytest.approx(peer().compose(event("Laplace", 2.0), 10).get_epsilon(DELTA), rel=1e-4)


# --- pairs that carry over to what events may be ---


def delta_on_a_grid(epsilon, log_p, log_q, reach, points):
    """Hockey-stick divergence of two densities on the plane, by the midpoint rule."""
    edge = np.linspace(-reach, reach, points + 1)
    middle = 0.5 * (edge[1:] + edge[:-1])
    x, y = np.meshgrid(middle, middle, indexing="ij")
    excess = np.exp(log_p(x, y)) - math.exp(epsilon) * np.exp(log_q(x, y))
    return float(np.maximum(excess, 0.0).sum()) * (edge[1] - edge[0]) ** 2


def test_two_sums_of_one_sample_are_one_with_less_noise():
    first, second, rate = 1.0, 2.0, 0.2
    sums = event("Composed", [gaussian(first), event("SelfComposed", gaussian(second), 1)])
    ours = exact().compose(poisson(rate, sums))

    def log_density(x, y, shift):
        squares = ((x - shift) / first) ** 2 + ((y - shift) / second) ** 2
        return -0.5 * squares - math.log(2 * math.pi * first * second)

    def log_noise(x, y):
        return log_density(x, y, 0.0)

    def log_mixture(x, y):
        return np.logaddexp(math.log1p(-rate) + log_noise(x, y), math.log(rate) + log_density(x, y, 1.0))

    for epsilon in (0.1, 0.5, 1.0):
        removed = delta_on_a_grid(epsilon, log_mixture, log_noise, 14.0, 1400)
        added = delta_on_a_grid(epsilon, log_noise, log_mixture, 14.0, 1400)
        assert ours.get_delta(epsilon) == pytest.approx(max(removed, added), rel=1e-3)
    # The Rényi bound that dp-accounting has for such samples.
    run = exact().compose(poisson(0.01, sums), 500).get_epsilon(DELTA)
    assert run < peer("ADD_OR_REMOVE_ONE", "rdp").compose(poisson(0.01, sums), 500).get_epsilon(DELTA)


def test_one_sum_of_a_sample_is_taken_as_it_is():
    for inner in (gaussian(1.25), event("Composed", [event("NoOp"), gaussian(1.25)])):
        (segment,) = exact().compose(poisson(0.1, inner), 7).curve.segments
        assert (segment[0].noise, segment[1]) == (1.25, 7)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_no_laplace_move_in_the_plane_is_worse_than_one_along_a_line(share):
    scale = 0.8

    def log_noise(x, y):
        return -(np.abs(x) + np.abs(y)) / scale - 2 * math.log(2 * scale)

    def log_moved(x, y):
        return log_noise(x - share, y - (1 - share))

    ours = exact().compose(event("Laplace", scale))
    for epsilon in (0.1, 0.5, 1.0):
        in_the_plane = delta_on_a_grid(epsilon, log_moved, log_noise, 16.0, 1600)
        assert in_the_plane <= ours.get_delta(epsilon)


def test_a_binomial_mixture_is_a_group_of_two():
    drawn = mixture(3.0, [0.0, 2.0, 4.0], [0.81, 0.18, 0.01])
    direct = hs.get_epsilon(delta=DELTA, noise_multiplier=1.5, sample_rate=0.1, steps=50, group_size=2)
    for relation in ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"):
        found = exact(relation).compose(drawn, 50).get_epsilon(DELTA)
        assert found == pytest.approx(direct, rel=WIDTH)


def test_a_mixture_that_always_moves_is_worth_its_nearest_shift_at_least():
    drawn = mixture(2.0, [4.5, 1.0, 9.0], [0.2, 0.8, 0.0])
    found = exact().compose(drawn, 5).get_epsilon(DELTA)
    least = exact().compose(gaussian(2.0), 5).get_epsilon(DELTA)
    most = exact().compose(gaussian(2.0 / 4.5), 5).get_epsilon(DELTA)
    assert least < found < most


def test_a_mixture_joins_other_steps_and_says_what_it_is():
    run = exact().compose(mixture(2.0, [0.0, 1.0, 3.0], [0.7, 0.2, 0.1]), 3)
    alone = run.get_epsilon(DELTA)
    run.compose(poisson(0.01, gaussian(1.0)), 100)
    assert run.get_epsilon(DELTA) > alone
    assert "mixture of 3" in str(run.curve)
    assert pickle.loads(pickle.dumps(run)).get_epsilon(DELTA) == run.get_epsilon(DELTA)


# --- ends of the curve ---


@pytest.mark.parametrize(
    ("relation", "make", "loss"),
    [
        ("ADD_OR_REMOVE_ONE", lambda: event("Laplace", 2.0), 0.5),
        ("REPLACE_ONE", lambda: event("Laplace", 2.0), 1.0),
        ("ADD_OR_REMOVE_ONE", lambda: poisson(0.1, event("Laplace", 2.0)), math.log(0.9 + 0.1 * math.e**0.5)),
        ("ADD_OR_REMOVE_ONE", lambda: fixed(1, 10, event("Laplace", 2.0)), math.log(0.9 + 0.1 * math.e)),
        ("REPLACE_ONE", lambda: fixed(1, 10, event("Laplace", 2.0)), math.log(0.9 + 0.1 * math.e)),
        ("REPLACE_ONE", lambda: event("RandomizedResponse", 0.5, 2), math.log(3.0)),
        ("ADD_OR_REMOVE_ONE", lambda: poisson(0.0, gaussian(1.0)), 0.0),
        ("ADD_OR_REMOVE_ONE", lambda: poisson(0.5, gaussian(1.0)), math.inf),
        ("ADD_OR_REMOVE_ONE", lambda: event("Laplace", 1e-3), 1000.0),
    ],
)
def test_epsilon_at_delta_zero_is_the_largest_loss(relation, make, loss):
    run = exact(relation).compose(make(), 10)
    found = run.get_epsilon(0)
    assert found == pytest.approx(10 * loss, rel=1e-11)
    assert found >= run.curve.bounds(delta=1e-300)[0]
    assert run.get_delta(math.inf) == 0.0
    assert run.get_epsilon(1) == 0.0


def test_what_is_released_without_noise():
    assert exact().compose(gaussian(0.0)).get_epsilon(0.5) == math.inf
    sampled = exact().compose(poisson(0.1, gaussian(0.0)), 2)
    assert sampled.get_delta(math.inf) == pytest.approx(1 - 0.9**2, rel=1e-12)
    assert sampled.get_epsilon(0.18) == math.inf
    assert sampled.get_epsilon(0.2) < math.inf
    for drawn in (
        poisson(0.1, event("Laplace", 0.0)),
        event("Composed", [event("Laplace", 0.0), gaussian(1.0)]),
        poisson(0.1, event("NonPrivate")),
        mixture(0.0, [1.0], [1.0]),
    ):
        assert exact().compose(drawn).get_epsilon(0.5) == math.inf
    told_all = exact("REPLACE_ONE").compose(event("RandomizedResponse", 0.0, 2))
    assert told_all.get_epsilon(0.5) == math.inf
    with pytest.raises(ValueError, match="no privacy curve"):
        _ = told_all.curve


def test_what_costs_nothing():
    for drawn in (
        poisson(0.5, event("NoOp")),
        event("Composed", []),
        event("Composed", [event("SelfComposed", gaussian(1.0), 0)]),
        mixture(1.0, [0.0, 5.0], [1.0, 0.0]),
    ):
        assert exact().compose(drawn).get_epsilon(0) == 0.0
    for buckets, noise in ((1, 0.0), (2, 1.0)):
        answered = exact("REPLACE_ONE").compose(event("RandomizedResponse", noise, buckets))
        assert answered.get_epsilon(0) == 0.0


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("name", ["Gaussian", "Laplace"])
def test_sums_over_batches_that_are_always_empty_cost_nothing(relation, noise, name):
    for empty in (poisson(0.0, event(name, noise)), fixed(0, 1000, event(name, noise))):
        run = exact(relation).compose(empty, 10)
        assert (run.get_epsilon(1e-6), run.get_epsilon(0.0), run.get_delta(0.0)) == (0.0, 0.0, 0.0)


def test_empty_batches_do_not_hide_an_event_that_has_no_pair(dpa):
    for empty in (poisson(0.0, event("ZC", 1.0)), fixed(0, 1000, event("ZC", 1.0))):
        with pytest.raises(dpa.UnsupportedEventError, match="noisy sums"):
            exact().compose(empty)
    with pytest.raises(ValueError, match="noise_multiplier"):
        exact().compose(poisson(0.0, gaussian(-1.0)))


def test_every_event_of_dp_accounting_is_answered_or_refused_by_name():
    from hockeystick.dp_accounting._translation import _REFUSALS, _TRANSLATIONS

    events = __import__("dp_accounting").dp_event
    known = {name for name in dir(events) if name.endswith("DpEvent") and name != "DpEvent"}
    assert known <= set(_REFUSALS) | set(_TRANSLATIONS)


# --- where an accountant is passed ---


def test_calibration_finds_the_noise_of_the_library(dpa):
    def run(noise):
        return dpa.SelfComposedDpEvent(poisson(0.01, gaussian(noise)), 1000)

    for size in (1, 8):
        found = dpa.calibrate_dp_mechanism(lambda: exact(group_size=size), run, 2.0, DELTA)  # noqa: B023 - called at once
        expected = hs.get_noise_multiplier(
            epsilon=2.0, delta=DELTA, sample_rate=0.01, steps=1000, group_size=size
        )
        assert found == pytest.approx(expected, abs=3e-6)
        assert exact(group_size=size).compose(run(found)).get_epsilon(DELTA) <= 2.0


def test_calibration_finds_the_steps_of_the_library(dpa):
    found = dpa.calibrate_dp_mechanism(
        hs.dp_accounting.ExactAccountant,
        lambda steps: dpa.SelfComposedDpEvent(poisson(0.01, gaussian(1.0)), steps),
        1.0,
        DELTA,
        dpa.LowerEndpointAndGuess(1, 100),
        discrete=True,
    )
    assert found == hs.get_steps(epsilon=1.0, delta=DELTA, noise_multiplier=1.0, sample_rate=0.01)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("_exact_accountant", "ExactAccountant"),
        ("_events", "AccumulatedPoissonDpEvent"),
        ("_events", "RandomAllocationDpEvent"),
    ],
)
def test_the_example_of_the_class_prints_what_it_says(module, name):
    module = importlib.import_module(f"hockeystick.dp_accounting.{module}")
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(module, name), name, module=module)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_a_mixture_shows_itself_but_has_no_other_groups_to_report(tmp_path):
    curve = exact().compose(mixture(2.0, [0.0, 1.0, 1.5], [0.9, 0.06, 0.04]), 100).curve
    assert "mixture of 3" in curve._repr_html_()
    with pytest.raises(hs.UnsupportedError, match="given by their mixture of shifts"):
        hs.report(curve, tmp_path / "privacy.html")
    assert list(tmp_path.iterdir()) == []


def test_batches_without_records_cost_nothing():
    import dp_accounting

    for event_of_nobody in (
        dp_accounting.SampledWithoutReplacementDpEvent(1000, 0, dp_accounting.GaussianDpEvent(1.0)),
        dp_accounting.PoissonSampledDpEvent(0.0, dp_accounting.LaplaceDpEvent(0.0)),
        dp_accounting.PoissonSampledDpEvent(0.0, dp_accounting.GaussianDpEvent(0.0)),
    ):
        accountant = hs.dp_accounting.ExactAccountant()
        accountant.compose(event_of_nobody, 10)
        assert accountant.get_epsilon(1e-5) == 0.0
        assert accountant.get_delta(0.0) == 0.0
