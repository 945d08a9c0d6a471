"""Filters stop every example within its budget."""

import json
import time

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant, IndividualFilter


def run(gate, norms, **step):
    """Norms that took part in each step: those of stopped examples are zero."""
    return [np.where(gate.step(row, **step), row, 0.0) for row in norms]


def spent(gate, taken, delta, **step):
    """Epsilon of each example: Rényi at the filter's order, or exactly for Gaussian steps."""
    kept = {} if gate.order is None else {"exact": False, "orders": [gate.order]}
    accountant = IndividualAccountant(len(taken[0]), **kept)
    for row in taken:
        accountant.update_norms(row)
        accountant.step(**step)
    return accountant.get_epsilons(delta)


def exact(norms, delta, noise_multiplier, sample_rate):
    """Epsilon of one example by the curve of all its steps."""
    curve = None
    for norm in norms[norms > 0.0]:
        step = hs.privacy_curve(noise_multiplier=noise_multiplier / norm, sample_rate=sample_rate, steps=1)
        curve = step if curve is None else curve + step
    return curve.epsilon(delta)


@pytest.mark.parametrize("sampling", [hs.Poisson(0.05), hs.FullBatch()], ids=["poisson", "full"])
def test_no_example_of_1000_random_runs_exceeds_its_budget(sampling):
    rng = np.random.default_rng(1)
    step = {"noise_multiplier": 4.0 if sampling == hs.FullBatch() else 1.0, "sampling": sampling}
    # 1,000 examples with norms that change: each column is a run.
    norms = rng.random(1000) ** 2 * rng.random((120, 1000))
    norms[:, :10] = 1.0
    gate = IndividualFilter(1.5, 1e-5)
    taken = run(gate, norms, **step)
    epsilons = spent(gate, taken, 1e-5, **step)
    assert np.all(epsilons <= 1.5)
    stopped = np.any(np.array(taken) < norms, axis=0)
    assert np.all(stopped[:10])
    assert 0.01 < stopped.mean() < 0.9


def test_norms_that_answer_to_the_filter_do_not_exceed_the_budget():
    gate = IndividualFilter(1.0, 1e-6)
    step = {"noise_multiplier": 1.5, "sample_rate": 0.1}
    taken, row = [], np.linspace(0.05, 1.0, 40)
    for _ in range(60):
        allowed = gate.step(row, **step)
        taken.append(np.where(allowed, row, 0.0))
        # The closer to the budget, the larger the next gradient.
        row = np.clip(gate.used * 1.2 + 0.02, 0.0, 1.0)
    epsilons = spent(gate, taken, 1e-6, **step)
    assert np.all(epsilons <= 1.0)
    assert epsilons.max() > 0.9
    busiest = np.array(taken)[:, epsilons.argmax()]
    assert exact(busiest, 1e-6, **step) <= epsilons.max()


def test_gaussian_steps_use_the_whole_budget():
    gate = IndividualFilter(2.0, 1e-5)
    taken = run(gate, np.full((1000, 1), 0.5), noise_multiplier=5.0, sampling=hs.FullBatch())
    steps = sum(bool(row[0]) for row in taken)
    expected = hs.get_steps(epsilon=2.0, delta=1e-5, noise_multiplier=10.0, sampling=hs.FullBatch())
    assert abs(steps - expected) <= 1
    assert gate.order is None


def test_who_was_stopped_stays_stopped():
    gate = IndividualFilter(0.5, 1e-5)
    for _ in range(50):
        gate.step([1.0, 0.0], noise_multiplier=1.0, sample_rate=0.2)
    assert gate.active.tolist() == [False, True]
    assert gate.step([1e-6, 1e-6], noise_multiplier=1.0, sample_rate=0.2).tolist() == [False, True]


def test_the_order_does_not_depend_on_the_data():
    orders = set()
    for norms in ([0.1], [1.0]):
        gate = IndividualFilter(1.0, 1e-5)
        gate.step(norms, noise_multiplier=1.0, sample_rate=0.01)
        orders.add(gate.order)
    assert len(orders) == 1


def test_a_filter_goes_on_from_its_state():
    step = {"noise_multiplier": 1.0, "sample_rate": 0.05}
    rows = np.random.default_rng(2).random((60, 20))
    whole, first = IndividualFilter(1.0, 1e-5), IndividualFilter(1.0, 1e-5)
    expected = [whole.step(row, **step) for row in rows]
    found = [first.step(row, **step) for row in rows[:30]]
    second = IndividualFilter(1.0, 1e-5)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found += [second.step(row, **step) for row in rows[30:]]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"mechanism": "individual"},
        {"settings": {"epsilon": 2.0, "delta": 1e-5, "max_grad_norm": 1.0}},
        {"accounts": {}},
        {"foreign": 1},
    ],
)
def test_foreign_states_are_refused_and_change_nothing(change):
    gate = IndividualFilter(1.0, 1e-5)
    gate.step([1.0], noise_multiplier=1.0, sample_rate=0.05)
    before = gate.state_dict()
    with pytest.raises(ValueError):  # noqa: PT011 (each has a message of its own)
        gate.load_state_dict({**before, **change})
    assert gate.state_dict() == before


def test_bad_arguments_are_refused_and_change_nothing():
    for arguments, message in [
        ((0.0, 1e-5), "epsilon must be in"),
        ((1.0, 0.0), "delta must be in"),
        ((1.0, 1e-5, 0.0), "max_grad_norm must be in"),
        ((1.0, 1e-5, 1.0, 1.0), "order must be in"),
        ((0.1, 1e-5, 1.0, 2.0), "order must be large enough"),
    ]:
        with pytest.raises(ValueError, match=message):
            IndividualFilter(*arguments)
    gate = IndividualFilter(1.0, 1e-5)
    gate.step([0.5, 1.0], noise_multiplier=1.0, sample_rate=0.05)
    before = gate.state_dict()
    for norms, step, message in [
        ([0.5, -1.0], {"noise_multiplier": 1.0, "sample_rate": 0.1}, r"norms must be .* got -1.0 at index 1"),
        ([0.5], {"noise_multiplier": 1.0, "sample_rate": 0.1}, "one entry for each of 2"),
        ([0.5, 0.5], {"noise_multiplier": -1.0, "sample_rate": 0.1}, "noise_multiplier must be"),
        ([0.5, 0.5], {"noise_multiplier": 1.0, "sample_rate": 1.1}, "sample_rate must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            gate.step(norms, **step)
    with pytest.raises(TypeError, match="exactly one of sample_rate and sampling"):
        gate.step([0.5, 0.5], noise_multiplier=1.0)
    assert gate.state_dict() == before


def test_what_is_printed_is_not_private():
    gate = IndividualFilter(1.0, 1e-5)
    gate.step([0.5, 1.0], noise_multiplier=1.0, sample_rate=0.05)
    assert repr(gate) == "<IndividualFilter(epsilon=1.0, delta=1e-05): 2 examples>"


@pytest.mark.parametrize("epsilon", [1e288, 1e308])
@pytest.mark.parametrize("sample_rate", [1e-10, 1e-300])
def test_a_budget_beyond_all_costs_lets_everything_pass(epsilon, sample_rate):
    gate = IndividualFilter(epsilon=epsilon, delta=1e-5)
    assert gate.step([0.5, 1.0], noise_multiplier=1.0, sample_rate=sample_rate).all()


@pytest.mark.parametrize("sample_rate", [1e-160, 1e-200, 2.2e-308])
def test_rates_whose_squares_underflow_are_answered_at_once(sample_rate):
    # It took 20 seconds, as errors were asked to be small in relation to divergences that had become 0.
    start = time.perf_counter()
    gate = IndividualFilter(1.0, 1e-5)
    assert gate.step([0.5, 1.0], noise_multiplier=1.0, sample_rate=sample_rate).all()
    assert time.perf_counter() - start < 5.0
    assert np.all(gate.used > 0.0)
    assert np.all(gate.used < 1e-280)
