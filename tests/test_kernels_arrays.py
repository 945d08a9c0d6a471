"""Kernels on arrays of every numeric argument, and on tables that are too large to be copied."""

import os
import subprocess
import sys

import numpy as np
import pytest

from hockeystick import kernels

LAW = [0.9, 0.08, 0.02], [0.0, 1.0, 2.0]
NOISE = [[1.0], [2.5], [1.0]]
TABLE = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [0.5, 1.0, 1.5]])

ASKED = {
    "log_likelihood_ratio": (
        lambda x, noise: kernels.log_likelihood_ratio(x, *LAW, noise),
        [0.0, 0.7],
        NOISE,
    ),
    "renyi_mixture": (lambda a, noise: kernels.renyi_mixture(a, *LAW, noise, "remove"), [2.0, 3.5], NOISE),
    "monte_carlo_delta, noise": (
        lambda epsilon, noise: (
            kernels.monte_carlo_delta(epsilon, *LAW, noise, 3, samples=50, direction="add", seed=1).upper
        ),
        [0.1, 0.5],
        NOISE,
    ),
    "monte_carlo_delta, steps": (
        lambda epsilon, steps: (
            kernels.monte_carlo_delta(epsilon, *LAW, 1.0, steps, samples=50, direction="add", seed=1).upper
        ),
        [0.1, 0.5],
        [[0], [3], [7]],
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_element_is_the_answer_to_its_own_numbers(name):
    ask, points, numbers = ASKED[name]
    found = ask(points, numbers)
    assert found.shape == (3, 2)
    for i, (number,) in enumerate(numbers):
        assert found[i].tolist() == [ask(point, number) for point in points]
    assert type(ask(points[0], numbers[0][0])) is float
    with pytest.raises(ValueError, match=r"do not broadcast together: .*\(2,\).*\(3,\)"):
        ask(points, np.ravel(numbers))


def test_group_bounds_are_those_of_their_own_order_and_rate():
    orders, rates = [2.0, 3.0, 8.0], [[0.1], [0.3]]
    found = kernels.renyi_group_bound(orders, TABLE, rates)
    assert found.shape == (2, 3)
    for (rate,), row in zip(rates, found, strict=True):
        assert row.tolist() == kernels.renyi_group_bound(orders, TABLE, rate).tolist()
    one_each = kernels.renyi_group_bound(orders, TABLE, [0.1, 0.3, 0.1])
    assert one_each.tolist() == [found[0, 0], found[1, 1], found[0, 2]]
    alone = kernels.renyi_group_bound(3.0, TABLE[:, 1], [0.1, 0.3])
    assert alone.tolist() == found[:, 1].tolist()


@pytest.mark.parametrize("wrong", [np.nan, -0.1, 1.5])
def test_one_bad_rate_among_good_ones_is_refused(wrong):
    with pytest.raises(ValueError, match="sample_rate"):
        kernels.renyi_group_bound([2.0, 3.0, 8.0], TABLE, [0.1, wrong, 0.1])


@pytest.mark.parametrize("rows", [3, 2_000])  # few entries are copied, many are read where they lie
@pytest.mark.parametrize(
    "laid_out",
    [
        np.asfortranarray,
        lambda table: np.repeat(table, 2, axis=1)[:, ::2],
        lambda table: table[::-1].copy()[::-1],
        lambda table: table[:, ::-1].copy()[:, ::-1],
    ],
    ids=["columns", "every other", "rows backwards", "columns backwards"],
)
def test_a_table_is_read_however_it_lies(laid_out, rows):
    generator = np.random.default_rng(7)
    orders = np.linspace(1.5, 30.0, 12)
    table = generator.uniform(0.1, 3.0, (rows, len(orders)))
    given = laid_out(table)
    assert given.strides != table.strides
    assert np.array_equal(
        kernels.rdp_to_epsilon(orders, given, 1e-5), kernels.rdp_to_epsilon(orders, table, 1e-5)
    )
    # RGP, Lemma 2.2.
    gains = np.log1p(-1 / orders) - (np.log(1e-5) + np.log(orders)) / (orders - 1)
    expected = np.maximum(np.min(table + gains, axis=1), 0.0)
    assert kernels.rdp_to_epsilon(orders, given, 1e-5) == pytest.approx(expected, rel=1e-12)


def test_many_levels_of_one_row_are_rows_of_their_own():
    orders, row = np.linspace(1.5, 30.0, 12), np.linspace(0.1, 3.0, 12)
    deltas = np.geomspace(1e-9, 1e-3, 2_000)
    found, best = kernels.rdp_to_epsilon(orders, row, deltas, return_order=True)
    assert found[[5, 1_999]].tolist() == [kernels.rdp_to_epsilon(orders, row, deltas[i]) for i in (5, 1_999)]
    assert np.isin(best, orders).all()


MEMORY = """
import resource
import numpy as np
from hockeystick import kernels

orders = np.linspace(1.5, 64.0, 125)
kernels.rdp_to_epsilon(orders, np.ones((300, 125)), 1e-5)  # threads and tables that all calls share
table = np.ones({shape}){view}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kernels.rdp_to_epsilon(orders, table, 1e-5)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss differs")
@pytest.mark.parametrize(("shape", "view"), [((100_000, 125), ""), ((125, 100_000), ".T")])
def test_a_large_table_is_not_copied(shape, view):
    program = MEMORY.format(shape=shape, view=view)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    # The table has 100 MB; its rows as views and their answers have 6 MB.
    assert int(found.stdout) * 1024 < 25e6
