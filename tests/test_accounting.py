"""The top-level functions: broadcasting, soundness against exact curves, and their inverses."""

import by_definition
import numpy as np
import pytest
from reference_rows import rows

import hockeystick as hs

BINOMIAL_CURVES = [r for r in rows("privacy_curves.csv") if r["weights"].startswith("binomial")]
RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def run_of(row):
    _, group_size, sample_rate = row["weights"].split()
    return {
        "noise_multiplier": float(row["sigma"]),
        "sample_rate": float(sample_rate),
        "steps": int(row["steps"]),
        "group_size": int(group_size),
        "adjacency": row["direction"],
    }


@pytest.mark.parametrize("row", BINOMIAL_CURVES, ids=lambda r: f"{r['name']} {r['sigma']} {r['direction']}")
def test_epsilon_and_delta_bound_the_exact_curve(row):
    epsilon, delta = float(row["epsilon"]), float(row["delta"])
    assert hs.get_epsilon(delta=delta, **run_of(row)) >= epsilon
    assert hs.get_delta(epsilon=epsilon, **run_of(row)) >= delta


@pytest.mark.parametrize(("sigma", "sample_rate", "steps"), [("1.0", "0.01", 1000), ("3.0", "0.2", 50)])
def test_epsilon_is_at_most_the_best_of_all_whole_orders(sigma, sample_rate, steps):
    best = min(
        by_definition.epsilon_of_rdp(
            order, steps * by_definition.renyi_of_one_record(order, sigma, sample_rate), 1e-6
        )
        for order in range(2, 80)
    )
    arguments = {"noise_multiplier": float(sigma), "sample_rate": float(sample_rate), "steps": steps}
    epsilon = hs.get_epsilon(delta=1e-6, adjacency="remove", **arguments)
    assert 0.97 * best <= epsilon <= best * (1 + 1e-9)


def test_epsilon_without_sampling_is_the_optimum_of_the_closed_form():
    # q = 1: the divergence is order * steps k^2 / (2 sigma^2).
    rho, delta = 20 * 9 / (2 * 25.0**2), 1e-5
    orders = 1 + np.geomspace(1e-3, 1e4, 400_001)
    epsilons = rho * orders + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    epsilon = hs.get_epsilon(delta=delta, noise_multiplier=25.0, sample_rate=1.0, steps=20, group_size=3)
    assert epsilon == pytest.approx(epsilons.min(), rel=1e-6)


def test_numeric_arguments_broadcast_like_a_ufunc():
    delta = np.array([1e-6, 1e-5, 1e-4])
    group_size = np.array([[1], [4]])
    values = hs.get_epsilon(delta=delta, group_size=group_size, **RUN)
    assert values.shape == (2, 3)
    assert values[1, 0] == hs.get_epsilon(delta=1e-6, group_size=4, **RUN)
    sigma = hs.get_noise_multiplier(
        epsilon=[2.0, 4.0], delta=delta[:, None], sample_rate=0.01, steps=np.array([[[100]], [[1000]]])
    )
    assert sigma.shape == (2, 3, 2)
    assert hs.get_delta(
        epsilon=[[1.0], [2.0]], steps=[10, 20, 30], noise_multiplier=1.0, sample_rate=0.1
    ).shape == (
        2,
        3,
    )


def test_scalars_give_python_floats():
    assert type(hs.get_epsilon(delta=1e-5, **RUN)) is float
    assert type(hs.get_delta(epsilon=np.float64(1.0), **RUN)) is float
    sigma = hs.get_noise_multiplier(epsilon=np.array(1.0), delta=1e-5, sample_rate=0.01, steps=10)
    assert type(sigma) is float
    assert type(hs.get_epsilon(delta=[1e-5], **RUN)) is np.ndarray


def test_empty_arrays_give_empty_arrays_of_the_broadcast_shape():
    values = hs.get_epsilon(delta=np.empty((0, 1)), group_size=[1, 2, 3], **RUN)
    assert values.shape == (0, 3)
    assert hs.get_delta(epsilon=[], **RUN).shape == (0,)


def test_every_dtype_and_stride_gives_the_same_answer():
    expected = hs.get_epsilon(delta=1e-5, noise_multiplier=2.0, sample_rate=0.25, steps=100, group_size=4)
    for steps in (100.0, np.int8(100), np.uint64(100), np.float32(100), np.array(100), 100):
        got = hs.get_epsilon(
            delta=1e-5,
            noise_multiplier=np.float32(2),
            sample_rate=np.float16(0.25),
            steps=steps,
            group_size=4.0,
        )
        assert got == expected
    strided = np.array([9, 100, 9, 100, 9])[1::2]
    assert not strided.flags.c_contiguous
    values = hs.get_epsilon(delta=1e-5, noise_multiplier=2, sample_rate=0.25, steps=strided, group_size=4)
    assert values.tolist() == [expected, expected]


def test_poisson_is_the_same_as_its_sample_rate():
    by_rate = hs.get_epsilon(delta=1e-5, **RUN)
    by_scheme = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sampling=hs.Poisson(0.01), steps=1000)
    assert by_rate == by_scheme
    assert hs.Poisson(0.01) == hs.Poisson(np.float64(0.01))


@pytest.mark.parametrize("group_size", [1, 7, 300])
def test_the_larger_direction_decides(group_size):
    both, remove, add = (
        hs.get_epsilon(delta=1e-5, group_size=group_size, adjacency=a, **RUN)
        for a in ("add_remove", "remove", "add")
    )
    assert both == max(remove, add)
    assert remove != add


@pytest.mark.parametrize("group_size", [1, 3, 16])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 30.0])
def test_delta_and_epsilon_invert_each_other(epsilon, group_size):
    delta = hs.get_delta(epsilon=epsilon, group_size=group_size, **RUN)
    if delta < 1:
        assert hs.get_epsilon(delta=delta, group_size=group_size, **RUN) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("group_size", [1, 8, 64])
@pytest.mark.parametrize("epsilon", [0.1, 3.0, 100.0])
def test_the_noise_multiplier_meets_its_target_and_hardly_less_would(epsilon, group_size):
    plan = {"sample_rate": 0.02, "steps": 300, "group_size": group_size}
    sigma = hs.get_noise_multiplier(epsilon=epsilon, delta=1e-5, **plan)
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=sigma, **plan) <= epsilon
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=sigma * (1 - 1e-4), **plan) > epsilon


def test_nothing_released_costs_nothing_and_no_noise_costs_everything():
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_delta(epsilon=0.0, noise_multiplier=1.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.0, steps=1000) == 0.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=0.0, sample_rate=0.01, steps=1) == np.inf
    assert hs.get_delta(epsilon=5.0, noise_multiplier=0.0, sample_rate=0.01, steps=1) == 1.0
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=0.0, sample_rate=0.01, steps=0) == 0.0
    assert hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.0, steps=10) == 0.0
    assert hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.1, steps=0) == 0.0


@pytest.mark.parametrize("sigma", [1e-1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-20, 1e-80, 1e-150])
def test_tiny_noise_costs_what_a_visible_member_costs(sigma):
    # With probability 1/2 the member is in the batch, and then the loss is about 1 / (2 sigma^2).
    run = {"noise_multiplier": sigma, "sample_rate": 0.5, "steps": 1}
    assert hs.get_epsilon(delta=1e-5, **run) >= 0.5 / sigma / sigma
    assert hs.get_delta(epsilon=0.25 / sigma / sigma, **run) >= 0.499


def test_a_target_of_epsilon_zero_is_met_or_refused_with_a_reason():
    # At delta = 0.5 enough noise reaches epsilon = 0 exactly.
    plan = {"sample_rate": 0.01, "steps": 10}
    sigma = hs.get_noise_multiplier(epsilon=0.0, delta=0.5, **plan)
    assert hs.get_epsilon(delta=0.5, noise_multiplier=sigma, **plan) == 0.0
    with pytest.raises(ValueError, match="epsilon"):
        hs.get_noise_multiplier(epsilon=0.0, delta=1e-12, sample_rate=1.0, steps=1000)


def test_an_epsilon_near_zero_at_a_large_delta_is_met():
    plan = {"sample_rate": 0.01, "steps": 10}
    sigma = hs.get_noise_multiplier(epsilon=1e-3, delta=0.9, **plan)
    assert hs.get_epsilon(delta=0.9, noise_multiplier=sigma, **plan) <= 1e-3


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            {"noise_multiplier": 1e-3, "sample_rate": 0.5, "steps": 10, "group_size": 10_000},
            marks=pytest.mark.slow,
        ),
        {"noise_multiplier": 1e-3, "sample_rate": 0.5, "steps": 10, "group_size": 100},
        {"noise_multiplier": 1e6, "sample_rate": 1e-12, "steps": 1, "group_size": 1},
        {"noise_multiplier": 0.1, "sample_rate": 1.0, "steps": 10**9, "group_size": 10_000},
        {"noise_multiplier": 5e-324, "sample_rate": 0.5, "steps": 1, "group_size": 1},
        {"noise_multiplier": 1.7e308, "sample_rate": 0.5, "steps": 2**62, "group_size": 1},
        {"noise_multiplier": 1.0, "sample_rate": 5e-324, "steps": 2**62, "group_size": 1},
    ],
)
def test_the_corners_of_the_domain_give_a_number(run):
    epsilons = hs.get_epsilon(delta=[5e-324, 1e-5, 1 - 2**-53], **run)
    assert np.all(epsilons >= 0.0)  # not NaN
    assert np.all(epsilons[1:] <= epsilons[:-1])
    deltas = hs.get_delta(epsilon=[0.0, 1.0, 1e300], **run)
    assert np.all((deltas >= 0.0) & (deltas <= 1.0))
