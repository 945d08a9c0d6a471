"""The Rényi group accountant: histories, bounds, given orders."""

import json
import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import GroupAccountant, MonteCarloAccountant, RenyiGroupAccountant


def stepped(history, **settings):
    accountant = RenyiGroupAccountant(**settings)
    for noise_multiplier, sample_rate, steps in history:
        for _ in range(steps):
            accountant.step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)
    return accountant


def test_steps_are_counted_and_equal_neighbours_merged():
    accountant = stepped([(1.0, 0.01, 3), (1.5, 0.01, 2), (1.0, 0.01, 1)])
    assert accountant.history == [(1.0, 0.01, 3), (1.5, 0.01, 2), (1.0, 0.01, 1)]
    assert len(accountant) == 6


@pytest.mark.parametrize("group_size", [1, 4, 32])
def test_stepping_gives_the_answer_of_the_written_history(group_size):
    accountant = stepped([(1.0, 0.01, 200)], group_size=group_size)
    written = RenyiGroupAccountant(group_size)
    written.history = [(1.0, 0.01, 200)]
    assert accountant.get_epsilon(1e-5) == written.get_epsilon(1e-5)
    assert accountant.get_delta(1.5) == written.get_delta(1.5)


@pytest.mark.parametrize("group_size", [1, 4, 32])
def test_the_renyi_bounds_lie_above_the_exact_curve(group_size):
    accountant = stepped([(1.0, 0.01, 200)], group_size=group_size)
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 200, "group_size": group_size}
    assert accountant.get_epsilon(1e-5) > hs.get_epsilon(delta=1e-5, **run)
    assert accountant.get_delta(1.5) > hs.get_delta(epsilon=1.5, **run)


@pytest.mark.parametrize("adjacency", ["add_remove", "add", "remove"])
def test_renyi_of_a_mixed_history_is_the_sum_of_its_steps(adjacency):
    history = [(1.0, 0.01, 5), (2.0, 0.1, 7), (0.7, 0.5, 1)]
    accountant = stepped(history, group_size=3, adjacency=adjacency)
    orders = np.array([1.5, 4.0, 30.0])

    def directed(direction):
        return sum(
            n * kernels.renyi_mixture(orders, *kernels.binomial_law(3, q), s, direction)
            for s, q, n in history
        )

    directions = {"add_remove": ("add", "remove")}.get(adjacency, (adjacency,))
    expected = np.max([directed(d) for d in directions], axis=0)
    np.testing.assert_allclose(accountant.get_renyi(orders), expected, rtol=1e-9)


def test_the_jensen_bound_is_the_kernel_of_the_same_theorem():
    accountant = stepped([(2.0, 0.1, 10)], group_size=5, bound="jensen")
    orders = np.array([2.0, 7.5])
    components = orders * np.arange(6)[:, None] ** 2 / (2 * 2.0**2)
    np.testing.assert_allclose(
        accountant.get_renyi(orders), 10 * kernels.renyi_group_bound(orders, components, 0.1), rtol=1e-12
    )


def test_the_black_box_bound_is_the_bound_of_one_record_at_a_higher_order():
    # Lemma 2.3 for 5 <= 2^3 records: 3^3 times the divergence of one record at 2^3 times the order.
    accountant = stepped([(20.0, 0.1, 10)], group_size=5, bound="black_box")
    one = stepped([(20.0, 0.1, 10)])
    assert accountant.get_renyi(2.5) == pytest.approx(27 * one.get_renyi(20.0), rel=1e-9)


def test_given_orders_give_the_minimum_over_them_and_real_orders_less():
    history = [(1.0, 0.01, 500)]
    orders = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 16.0, 32.0, 64.0]
    whole = stepped(history, orders=orders)
    rdp = stepped(history).get_renyi(orders)
    assert whole.get_epsilon(1e-5) == kernels.rdp_to_epsilon(orders, rdp, 1e-5)
    assert whole.get_delta(1.0) == kernels.rdp_to_delta(orders, rdp, 1.0)
    assert stepped(history).get_epsilon(1e-5) <= whole.get_epsilon(1e-5) * (1 + 1e-9)


@pytest.mark.parametrize("orders", [[2.0, 2.5, 3.0], [60.0, 70.0, 80.0], [80.0, 70.0, 60.0]])
def test_a_best_order_at_the_end_of_the_list_is_announced(orders):
    accountant = stepped([(1.0, 0.01, 500)], orders=orders)
    with pytest.warns(hs.OptimalOrderWarning, match="wider range") as caught:
        epsilon = accountant.get_epsilon(1e-5)
    assert caught[0].filename == __file__
    with pytest.warns(hs.OptimalOrderWarning, match="wider range"):
        accountant.get_delta(epsilon)


def test_a_best_order_within_the_list_is_not():
    accountant = stepped([(1.0, 0.01, 500)], orders=[2.0, 8.0, 100.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accountant.get_epsilon(1e-5)


def test_the_largest_supported_order_is_announced():
    accountant = stepped([(1e6, 1e-3, 1)])
    with pytest.warns(hs.OptimalOrderWarning, match="10000"):
        accountant.get_epsilon(1e-300)


@pytest.mark.parametrize("orders", [None, [2.0, 8.0]])
@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box"])
def test_an_unused_accountant_has_spent_nothing(bound, orders):
    accountant = RenyiGroupAccountant(4, bound, orders)
    assert len(accountant) == 0
    assert accountant.get_renyi(2.0) == 0.0
    assert accountant.get_delta(0.0) == 0.0
    assert accountant.get_epsilon(1e-5) == 0.0
    assert bool(accountant)


@pytest.mark.parametrize("orders", [None, [2.0, 8.0]])
@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box"])
def test_a_step_without_noise_spends_everything_unless_nobody_is_sampled(bound, orders):
    accountant = stepped([(1.0, 0.01, 5), (0.0, 0.01, 1)], group_size=2, bound=bound, orders=orders)
    assert accountant.get_epsilon(1e-5) == np.inf
    assert accountant.get_delta(3.0) == 1.0
    unsampled = stepped([(0.0, 0.0, 3)], group_size=2, bound=bound, orders=orders)
    assert unsampled.get_epsilon(1e-5) == 0.0
    assert unsampled.get_delta(0.0) == 0.0


def test_settings_are_read_only_and_shown():
    accountant = stepped([(1.0, 0.1, 2)], group_size=8, bound="jensen", orders=[2, 4])
    assert repr(accountant) == (
        "<RenyiGroupAccountant(group_size=8, bound='jensen', orders=[2.0, 4.0], adjacency='add_remove', "
        "conversion='canonne') after 2 steps>"
    )
    for name in ("group_size", "bound", "orders", "adjacency", "conversion"):
        with pytest.raises(AttributeError):
            setattr(accountant, name, 1)
    accountant.orders[0] = 7.0  # a copy
    assert accountant.orders.tolist() == [2.0, 4.0]


MIXED = [
    (20.0, 0.1, 5),
    (hs.Laplace(40.0), 0.1, 3),
    (hs.Skellam(3000.0, 2), 0.05, 2),
    (hs.RandomizedResponse(0.52), 0.2, 1),
]


@pytest.mark.parametrize("bound", ["exact", "jensen", "black_box"])
def test_steps_of_any_mechanism_add_up(bound):
    accountant = RenyiGroupAccountant(4, bound)
    for noise, sample_rate, steps in MIXED:
        for _ in range(steps):
            mechanism = hs.Gaussian(noise) if isinstance(noise, float) else noise
            accountant.step(mechanism=mechanism, sample_rate=sample_rate)
    assert accountant.history == MIXED
    orders = [2.0, 5.0]
    expected = sum(
        steps
        * hs.renyi.group_rdp(
            hs.Gaussian(noise) if isinstance(noise, float) else noise,
            orders,
            sample_rate=sample_rate,
            group_size=4,
            bound=bound,
        )
        for noise, sample_rate, steps in MIXED
    )
    # The larger direction of the sum is at most the sum of the larger ones.
    found = accountant.get_renyi(orders)
    assert np.all(found <= expected * (1 + 1e-9))
    assert np.all(found >= expected * (0.8 if bound == "exact" else 0.9))
    listed = RenyiGroupAccountant(4, bound, orders=range(2, 400))
    listed.history = MIXED
    assert accountant.get_epsilon(1e-5) <= listed.get_epsilon(1e-5) * (1 + 1e-9)


def test_whole_orders_are_searched_where_a_formula_needs_them():
    accountant = RenyiGroupAccountant(4, "jensen")
    accountant.history = MIXED
    listed = RenyiGroupAccountant(4, "jensen", orders=range(2, 200))
    listed.history = MIXED
    assert accountant.get_epsilon(1e-5) == pytest.approx(listed.get_epsilon(1e-5), rel=1e-12)
    with pytest.raises(ValueError, match="whole numbers for Skellam"):
        accountant.get_renyi(2.5)


def test_mechanisms_are_saved_and_come_back():
    accountant = RenyiGroupAccountant(4)
    accountant.history = MIXED
    text = json.dumps(accountant.state_dict(), allow_nan=False)
    restored = RenyiGroupAccountant(4)
    restored.load_state_dict(json.loads(text))
    assert restored.history == MIXED
    assert restored.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("noise", "match"),
    [
        ({"family": "gamma", "scale": 1.0}, "family"),
        ({"scale": 1.0}, "family"),
        ({"family": ["laplace"], "scale": 1.0}, "family"),
        ({"family": "laplace"}, "missing .'scale'"),
        ({"family": "laplace", "scale": 1.0, "shape": 2.0}, "foreign .'shape'"),
        ({"family": "laplace", "scale": -1.0}, "scale must be in"),
        ({"family": "laplace", "scale": "1"}, "scale must be a real number"),
        ("laplace", "noise_multiplier must be a real number"),
    ],
)
def test_a_damaged_mechanism_is_refused_and_changes_nothing(noise, match):
    accountant = RenyiGroupAccountant(4)
    accountant.history = MIXED
    state = json.loads(json.dumps(accountant.state_dict()))
    state["history"][1][0] = noise
    with pytest.raises((ValueError, TypeError), match=match):
        accountant.load_state_dict(state)
    assert accountant.history == MIXED


def test_the_noise_of_a_step_is_given_once():
    accountant = RenyiGroupAccountant()
    with pytest.raises(TypeError, match="exactly one of noise_multiplier and mechanism"):
        accountant.step(noise_multiplier=1.0, mechanism=hs.Laplace(1.0), sample_rate=0.1)
    with pytest.raises(TypeError, match="noise_multiplier"):
        accountant.step(sample_rate=0.1)
    for wrong in ("laplace", hs.Laplace, 1.0):
        with pytest.raises(TypeError, match="mechanism must be Gaussian"):
            accountant.step(mechanism=wrong, sample_rate=0.1)
    with pytest.raises(ValueError, match="sample_rate"):
        accountant.step(mechanism=hs.Laplace(1.0), sample_rate=1.1)
    assert accountant.history == []


def test_other_accountants_refuse_what_they_cannot_account_for():
    state = RenyiGroupAccountant()
    state.history = MIXED
    for kind, error, word in (
        (GroupAccountant, hs.UnsupportedError, "Skellam"),
        (MonteCarloAccountant, hs.UnsupportedError, "noise_multiplier"),
    ):
        accountant = kind()
        with pytest.raises(error, match=word):
            accountant.history = MIXED
        saved = {**accountant.state_dict(), "history": state.state_dict()["history"]}
        with pytest.raises(error, match=word):
            accountant.load_state_dict(saved)
        assert accountant.history == []


def test_the_optimal_conversion_gives_less_in_both_ways():
    history = [(4.0, 0.1, 50)]
    for orders in (None, [2.0, 5.0, 20.0, 200.0]):
        canonne, optimal = (
            stepped(history, group_size=2, orders=orders, conversion=c) for c in ("canonne", "optimal")
        )
        assert optimal.get_epsilon(1e-2) < canonne.get_epsilon(1e-2)
        assert optimal.get_delta(1.0) < canonne.get_delta(1.0)
