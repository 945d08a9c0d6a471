"""What ExactAccountant refuses, by name and without a change; `make test-opacus` installs what it needs."""

import math

import pytest
from dp_accounting_events import event, exact, fixed, gaussian, mixture, poisson

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

DELTA = 1e-5


@pytest.fixture
def dpa():
    return pytest.importorskip("dp_accounting")


REFUSED = [
    pytest.param(
        "REPLACE_SPECIAL",
        1,
        lambda: event("TruncatedSubsampledGaussian", 1000, 0.01, 16, 1.0),
        "REPLACE_ONE, which covers .* TruncatedSubsampledGaussianDpEvent",
        id="capped batches",
    ),
    pytest.param("ADD_OR_REMOVE_ONE", 1, lambda: event("ZC", 1.0), "ZCDpEvent is not", id="zCDP"),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        1,
        lambda: poisson(0.1, event("DiscreteLaplace", 1.0, 1)),
        "noisy sums",
        id="a sample of discrete noise",
    ),
    pytest.param(
        "REPLACE_SPECIAL",
        1,
        lambda: fixed(10, 1000, gaussian(1.0)),
        "REPLACE_ONE, which covers",
        id="special",
    ),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        1,
        lambda: poisson(0.1, event("SelfComposed", event("Laplace", 1.0), 2)),
        "one LaplaceDpEvent",
        id="two Laplace sums",
    ),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        1,
        lambda: poisson(0.1, event("SelfComposed", poisson(0.1, gaussian(1.0)), 2)),
        "noisy sums",
        id="two samples of one sample",
    ),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        1,
        lambda: event("SingleEpochTreeAggregation", 1.0, 8),
        "REPLACE_SPECIAL or REPLACE_ONE .* other leaves",
        id="a tree",
    ),
    pytest.param(
        "REPLACE_ONE", 1, lambda: mixture(1.0, [0.0, 1.0], [0.5, 0.5]), "REPLACE_SPECIAL", id="mixture"
    ),
    pytest.param(
        "ADD_OR_REMOVE_ONE",
        2,
        lambda: mixture(1.0, [0.0, 1.0], [0.5, 0.5]),
        "the pair itself",
        id="a mixture for a group",
    ),
    pytest.param(
        "REPLACE_SPECIAL", 1, lambda: event("RandomizedResponse", 0.5, 3), "REPLACE_ONE", id="three answers"
    ),
    pytest.param(
        "ADD_OR_REMOVE_ONE", 1, lambda: event("RandomizedResponse", 0.5, 2), "REPLACE_ONE", id="response"
    ),
]


def test_a_group_in_fixed_batches_of_laplace_noise_has_its_exact_epsilon(dpa):
    accountant = exact(group_size=2)
    accountant.compose(fixed(9, 99, event("Laplace", 2.0)), 5)
    batch = hs.WithoutReplacement(9, 99)
    run = {"mechanism": hs.Laplace(2.0), "sampling": batch, "steps": 5, "group_size": 2}
    assert accountant.get_epsilon(1e-3) == hs.get_epsilon(delta=1e-3, **run)


def test_replaced_records_of_a_sample_with_laplace_noise_have_their_exact_epsilon(dpa):
    run = exact("REPLACE_ONE").compose(poisson(0.1, event("Laplace", 2.0)), 5)
    noise = {"mechanism": hs.Laplace(2.0), "sample_rate": 0.1, "steps": 5, "adjacency": "replace"}
    assert run.get_epsilon(1e-3) == hs.get_epsilon(delta=1e-3, **noise)
    assert exact("REPLACE_ONE").compose(poisson(0.1, event("Laplace", 0.0))).get_epsilon(1e-3) == float("inf")


@pytest.mark.parametrize(("relation", "group_size", "make", "words"), REFUSED)
def test_what_has_no_proven_pair_is_refused_and_changes_nothing(dpa, relation, group_size, make, words):
    run = exact(relation, group_size=group_size).compose(gaussian(5.0), 2)
    before = (run.get_epsilon(DELTA), run.ledger)
    for nested in (make(), event("Composed", [gaussian(1.0), event("SelfComposed", make(), 3)])):
        assert not run.supports(nested)
        with pytest.raises(dpa.UnsupportedEventError, match=words):
            run.compose(nested)
    assert (run.get_epsilon(DELTA), run.ledger) == before


def test_a_subclass_of_an_event_is_not_trusted(dpa):
    class Twice(dpa.GaussianDpEvent):
        pass

    assert not exact().supports(Twice(1.0))
    named = type("GaussianDpEvent", (dpa.GaussianDpEvent,), {})
    assert not exact().supports(named(1.0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gaussian(-1.0), "noise_multiplier"),
        (lambda: gaussian(math.nan), "noise_multiplier"),
        (lambda: event("Laplace", math.inf), "noise_multiplier"),
        (lambda: poisson(1.5, gaussian(1.0)), "sampling_probability must be in"),
        (lambda: fixed(11, 10, gaussian(1.0)), "batch_size"),
        (lambda: fixed(1, 2, gaussian(1.0)), "group_size must be at most 2 records"),
        (lambda: event("Composed", [event("SelfComposed", gaussian(1.0), -1)]), "count"),
        (lambda: event("SelfComposed", gaussian(1.0), 2**62), "steps"),
    ],
)
def test_values_out_of_range_are_named_and_change_nothing(make, words):
    run = exact(group_size=3).compose(gaussian(5.0), 2)
    before = (run.get_epsilon(DELTA), run.ledger)
    with pytest.raises(ValueError, match=words):
        run.compose(make(), 3)
    assert (run.get_epsilon(DELTA), run.ledger) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1.0, [1.0], [1.0]), "standard_deviation"),
        ((1.0, [1.0, 2.0], [1.0]), "sampling_probs must be 2 values"),
        ((1.0, [], []), "sensitivities must be 1 to"),
        ((1.0, [-1.0], [1.0]), "sensitivities"),
        ((1.0, [1.0, 2.0], [1.5, -0.5]), "sampling_probs"),
        ((1.0, [1.0, 2.0], [0.5, 0.4]), "sum"),
    ],
)
def test_mixtures_that_are_none_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        exact().compose(mixture(*arguments))


def test_arguments_out_of_range_are_named(dpa):
    run = exact().compose(gaussian(1.0))
    for delta in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="target_delta must be in"):
            run.get_epsilon(delta)
    for epsilon in (-1.0, math.nan):
        with pytest.raises(ValueError, match="target_epsilon must be at least 0"):
            run.get_delta(epsilon)
    with pytest.raises(TypeError, match="NeighboringRelation"):
        hs.dp_accounting.ExactAccountant("add_remove")
    for count in (0, -1):
        with pytest.raises(ValueError, match="count"):
            run.compose(gaussian(1.0), count)
    with pytest.raises(ValueError, match="group_size"):
        exact(group_size=0)
    with pytest.raises(ValueError, match="tolerance"):
        exact(tolerance=1.0)


def test_the_arguments_can_be_read(dpa):
    accountant = hs.dp_accounting.ExactAccountant(group_size=4, tolerance=1e-4)
    assert (accountant.group_size, accountant.tolerance) == (4, 1e-4)
    assert accountant.neighboring_relation is dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
