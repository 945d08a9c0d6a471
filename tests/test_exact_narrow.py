"""Runs in corners of the domain have narrow intervals, whose ends are known otherwise."""

import math

import numpy as np
import pytest

import hockeystick as hs


def run_of(noise, rate, steps, records):
    return {
        "noise_multiplier": noise,
        "sample_rate": rate,
        "steps": steps,
        "group_size": records,
    }


NEXT_TO_ZERO = [
    (17.6722, 3.1494e-5, 17_871, 4, 3.41131e-4, "add_remove"),
    (6.8716, 1.30797e-5, 2, 94, 8.64578e-5, "add_remove"),
    (3.3905, 4.75683e-5, 1, 2, 1.31829e-5, "replace"),
    (12.5814, 1.31956e-5, 6, 8, 4.68e-6, "replace"),
    (1.28246, 8.83104e-5, 6, 9, 6.53882e-4, "add_remove"),
]


@pytest.mark.parametrize(("noise", "rate", "steps", "records", "delta", "adjacency"), NEXT_TO_ZERO)
def test_an_epsilon_next_to_zero_is_narrow_and_is_confirmed(noise, rate, steps, records, delta, adjacency):
    run = run_of(noise, rate, steps, records) | {"adjacency": adjacency}
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    assert 0.0 < lower <= upper < 1e-3
    assert upper - lower <= 1e-6 * upper
    assert hs.get_delta(epsilon=upper, **run) <= delta
    assert hs.get_delta(epsilon=lower, bounds=True, **run)[1] >= delta


# Some forty members in all batches together, in hundreds of thousands of steps: epsilon is reached by a few
# outputs far out, far more often than by all others together or by one output alone.
FEW_LARGE_LOSSES = [
    ((0.744731, 1.82548e-5, 592_861, 4), 1.50459e-10),
    ((0.728942, 4.44248e-5, 798_913, 1), 1.96152e-9),
]


@pytest.mark.parametrize(("run", "delta"), FEW_LARGE_LOSSES, ids=["four records", "one record"])
def test_a_few_large_losses_among_many_members_have_a_narrow_interval(run, delta):
    run = run_of(*run)
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    assert upper - lower <= 1e-6 * upper
    # Inversion of all runs knows delta to a part in ten thousand there: both enclosures meet.
    composition = hs.privacy_curve(adjacency="remove", **run)._run.composition()
    below, above = composition.delta_by("inversion", np.array([lower, upper]))
    assert below[1] <= delta <= above[0]
    assert above[0] <= below[0] * (1 + 1e-3)


REPLACED = [
    (0.304058, 0.230523, 4, 205, 2.54838e-11),
    (0.335245, 0.111763, 2, 344, 1.3029e-6),
    (0.576181, 0.358984, 3, 184, 5.67427e-12),
    (0.635335, 0.084641, 6, 685, 1.4354e-9),
]


@pytest.mark.parametrize(("noise", "rate", "steps", "records", "delta"), REPLACED)
def test_replacing_a_large_group_costs_a_constant_more_than_removing_it(noise, rate, steps, records, delta):
    run = run_of(noise, rate, steps, records) | {"delta": delta}
    lower, upper = hs.get_epsilon(adjacency="replace", bounds=True, **run)
    assert upper - lower <= 1e-6 * upper
    # Where P has its outputs, nothing of the second mixture is seen but its part without any member, which is
    # (1 - q)^k times the noise: no loss exceeds that of "remove" and a constant, and hardly any is smaller.
    constant = -steps * records * math.log1p(-rate)
    removed = hs.get_epsilon(adjacency="remove", bounds=True, **run)
    assert lower <= removed[1] + constant
    assert upper == pytest.approx(removed[1] + constant, rel=1e-6)


# Next to the largest loss delta falls to 0 within a millionth of epsilon.
NEXT_TO_LARGEST_LOSS = [
    (
        [(25, 0.00017580822671936947, 1.8551478400736794), (39, 0.0016294763708301426, 2.2332341750475795)],
        1.384452847792888e-12,
        0.03901815337877526,
    ),
    (
        [(25, 0.00017580822671936947, 1.8551478400736794), (39, 0.0016294763708301426, 2.2332341750475795)],
        5e-13,
        None,
    ),
]


@pytest.mark.parametrize(("steps", "delta", "expected"), NEXT_TO_LARGEST_LOSS, ids=["exact", "smaller delta"])
def test_laplace_noise_next_to_the_largest_loss_has_a_narrow_epsilon(steps, delta, expected):
    curves = [
        hs.privacy_curve(
            mechanism=hs.Laplace(scale), sample_rate=rate, steps=1, group_size=records, adjacency="remove"
        )
        for records, rate, scale in steps
    ]
    lower, upper = (curves[0] + curves[1]).bounds(delta=delta)
    assert upper - lower <= 1e-6 * upper
    # By integration of the definition, with twelve digits of delta.
    assert expected is None or lower * (1 - 1e-12) <= expected <= upper * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")  # 3e-5, as losses are rounded
def test_delta_of_two_laplace_steps_next_to_the_largest_loss_is_narrow():
    run = {"sample_rate": 0.0004995071494992974, "steps": 2, "group_size": 17, "adjacency": "remove"}
    found = hs.get_delta(
        epsilon=0.0023676384009348904, mechanism=hs.Laplace(7.661949863514063), bounds=True, **run
    )
    assert found[0] <= 7.23561e-12 * (1 + 1e-6)
    assert found[1] >= 7.23561e-12 * (1 - 1e-6)
    assert found[1] - found[0] <= 1e-4 * found[1]


# One epoch of dealt batches: an interval by inversion or by sums on lattices, of other proofs, that holds the
# value; several are so wide that nothing was known.
ONE_EPOCH = [
    (100, 2.0, 1e-20, (0.697887, 0.698185)),
    (1_000, 1.0, 1e-20, (2.67458108, 2.67473684)),
    (1_000, 2.0, 1e-20, (0.141713, 0.148731)),
    (100_000, 0.5, 1e-5, (0.201924547, 0.201924636)),
    (100_000, 1.0, 1e-5, (0.0101539696, 0.0101539713)),
    (100_000, 1.0, 1e-20, (0.02522, 0.43342)),
    (1_000_000, 1.0, 1e-10, (0.0, 0.00668734)),
    (10, 5.0, 1e-20, (0.561931672, 0.561931789)),
    (2, 20.0, 1e-20, (0.306658245, 0.306658284)),
]


@pytest.mark.parametrize(("batches", "noise", "delta", "known"), ONE_EPOCH)
def test_one_epoch_of_dealt_batches_has_a_narrow_epsilon(batches, noise, delta, known):
    run = {"noise_multiplier": noise, "sampling": hs.RandomAllocation(batches), "steps": batches}
    lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
    assert known[0] <= upper
    assert lower <= known[1]
    assert upper - lower <= 1e-6 * upper
    there = hs.get_delta(epsilon=upper, bounds=True, **run)
    assert there[1] <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("batches", "noise"), [(2, 3.0), (20, 1.0), (1_000, 0.7), (300_000, 2.0)])
@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_delta_of_one_epoch_falls_across_its_shared_lines(batches, noise, adjacency):
    run = {
        "noise_multiplier": noise,
        "sampling": hs.RandomAllocation(batches),
        "steps": batches,
        "adjacency": adjacency,
    }
    spread = math.sqrt(math.expm1(noise**-2) / batches)
    epsilons = spread * np.geomspace(0.01, 6.0, 25)
    lower, upper = hs.get_delta(epsilon=epsilons, bounds=True, **run)
    assert np.all(upper[:-1] >= lower[1:])
    assert np.all(upper - lower <= 1e-3 * upper)
    # The curve is a convex function of e^epsilon.
    grid = np.exp(epsilons)
    share = (grid[1:-1] - grid[:-2]) / (grid[2:] - grid[:-2])
    assert np.all(lower[1:-1] <= (1 - share) * upper[:-2] + share * upper[2:])


def test_delta_of_one_epoch_of_two_batches_is_one_integral():
    noise, epsilon = 4.0, 0.4
    log_ratio = np.linspace(-40, 40, 400_001) / (noise * 4)
    mean, deviation = -0.5 / noise**2, 1 / noise
    density = np.exp(-0.5 * ((log_ratio - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    rest = 2 * math.exp(epsilon) - np.exp(log_ratio)

    def call(strike):  # E[(Y - k)_+] of one log-normal variable
        first = (-np.log(strike) + 0.5 / noise**2) * noise
        normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
        return normal(first) - strike * normal(first - 1 / noise)

    inner = np.where(rest > 0, call(np.maximum(rest, 1e-300)), 1 - rest)
    exact = float(np.sum(density * inner)) * (log_ratio[1] - log_ratio[0]) / 2
    lower, upper = hs.get_delta(
        epsilon=epsilon,
        noise_multiplier=noise,
        sampling=hs.RandomAllocation(2),
        steps=2,
        adjacency="remove",
        bounds=True,
    )
    assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-9)
