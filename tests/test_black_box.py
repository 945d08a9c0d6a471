"""Group privacy from one record alone: delta by the conversion, and what trade-off functions make of it."""

import numpy as np
import pytest

import hockeystick as hs

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 10}
"""The run of GROUP, Figure 1."""


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.4), (8, 2.0), (16, 6.0)])
def test_delta_is_the_least_that_the_theorem_gives_at_any_split(size, epsilon):
    found = hs.black_box.get_delta(epsilon=epsilon, group_size=size, **RUN)
    parts = epsilon / size * np.linspace(0.0, 1.0, 49)
    # The sum of GROUP's proof, written out.
    factors = sum(np.exp(i * parts) for i in range(size))
    of_theorem = np.min(factors * hs.get_delta(epsilon=parts, **RUN))
    assert found == pytest.approx(min(1.0, of_theorem), rel=5e-3)
    assert found >= hs.get_delta(epsilon=epsilon, group_size=size, **RUN)


@pytest.mark.parametrize(
    "setting",
    [
        {"noise_multiplier": 4.0, "sampling": hs.WithoutReplacement(10, 1000)},
        {"mechanism": hs.Laplace(5.0), "sample_rate": 0.01},
        {"noise_multiplier": 4.0, "sample_rate": 0.01, "adjacency": "replace"},
    ],
)
def test_delta_and_epsilon_are_inverse_to_each_other(setting):
    run = {"steps": 100, "group_size": 3, **setting}
    epsilon = hs.black_box.get_epsilon(delta=1e-5, **run)
    assert hs.black_box.get_delta(epsilon=epsilon, **run) == pytest.approx(1e-5, rel=2e-3)
    assert hs.black_box.get_delta(epsilon=0.9 * epsilon, **run) > 1.1e-5


def test_delta_of_one_record_is_that_of_its_curve_and_never_more_than_one():
    one = hs.black_box.get_delta(epsilon=1.0, **RUN)
    assert one == pytest.approx(hs.get_delta(epsilon=1.0, **RUN), rel=1e-5)
    assert hs.black_box.get_delta(epsilon=0.1, group_size=500, **RUN) == 1.0
    assert hs.black_box.get_delta(epsilon=[1.0, 2.0], group_size=[[1], [8]], **RUN).shape == (2, 2)


def test_a_split_below_the_largest_can_be_the_best():
    """The tail of little noise and a small rate falls so slowly that the factor decides."""
    run = {"noise_multiplier": 0.5, "sample_rate": 1e-3, "steps": 1}
    epsilon, size = 12.0, 4
    part = epsilon / size
    at_the_largest = np.expm1(epsilon) / np.expm1(part) * hs.get_delta(epsilon=part, **run)
    assert hs.black_box.get_delta(epsilon=epsilon, group_size=size, **run) < 0.9 * at_the_largest


@pytest.mark.slow
def test_the_bound_by_trade_off_functions_is_between_the_black_box_and_the_exact_one():
    """GROUP, Proposition 20, in the run of its Figure 1: strictly worse than Theorem 18."""
    sizes = [2, 4, 8]
    exact = hs.get_epsilon(delta=1e-3, group_size=sizes, **RUN)
    black_box = hs.black_box.get_epsilon(delta=1e-3, group_size=sizes, **RUN)
    one = hs.TradeoffCurve.from_curve(hs.privacy_curve(**RUN))
    by_tradeoff = np.array([one.group(size).epsilon(1e-3) for size in sizes])
    assert np.all(exact < by_tradeoff)
    assert np.all(by_tradeoff < black_box)
    assert [round(float(values[-1]), 2) for values in (exact, by_tradeoff, black_box)] == [1.53, 2.06, 2.23]


def test_with_all_records_in_every_batch_trade_off_functions_lose_nothing():
    """Proposition 20 asks for a sample rate below one: Gaussian noise alone is where the bound is tight."""
    run = {"noise_multiplier": 10.0, "sample_rate": 1.0, "steps": 4}
    exact = hs.get_epsilon(delta=1e-5, group_size=4, **run)
    one = hs.TradeoffCurve.gaussian(2.0 / 10.0)
    assert one.group(4).epsilon(1e-5) == pytest.approx(exact, rel=1e-6)
