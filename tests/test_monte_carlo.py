"""Monte-Carlo delta: right value, valid interval, same bits for a seed, prompt and frugal."""

import json
import os
import subprocess
import sys

import by_definition
import numpy as np
import pytest
from nightly import some
from reference_rows import mixture, rows

from hockeystick import kernels

FEW_STEPS = 4.5316772417068194e-06
"""delta(2) of 10 steps, 4 records, sigma 1, rate 0.01, remove: tests/data/privacy_curves.csv."""

TINY_DELTAS = [
    # (group size, sample rate, sigma, steps, direction, epsilon, delta): delta by Laplace inversion along a
    # vertical line in the plane of complex orders, with mpmath at 40 digits, 16 of them right.
    pytest.param(4, 0.01, 1.0, 1000, "remove", 16.2423, 8.7640449603516217e-13, marks=pytest.mark.slow),
    (4, 0.05, 2.0, 300, "add", 11.9834, 4.4670745480890073e-12),
    (2, 0.1, 1.5, 100, "remove", 13.6222, 4.5941742938789363e-12),
]


def in_fresh_process(code, timeout=120, **environment):
    """Standard output of a Python process of its own, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ten_million_plain_samples_contain_the_reference():
    law = kernels.binomial_law(4, 0.01)
    found = kernels.monte_carlo_delta(
        2.0, *law, 1.0, 10, samples=10_000_000, direction="remove", tilt=0.0, seed=20
    )
    assert found.lower <= FEW_STEPS <= found.upper
    # About 45 events in 10^7: an interval that is narrower than 10 % would be wrong, wider than 5x useless.
    assert 1.1 < found.upper / found.lower < 5


def test_a_subnormal_tilt_is_none():
    run = {"samples": 10_000, "direction": "remove", "seed": 3}
    law = kernels.binomial_law(4, 0.01)
    tiny, none = (kernels.monte_carlo_delta(2.0, *law, 1.0, 10, tilt=tilt, **run) for tilt in (5e-324, 0.0))
    assert (tiny.estimate, tiny.lower, tiny.upper) == pytest.approx((none.estimate, none.lower, none.upper))


@pytest.mark.parametrize("tilt", [None, 0.5, 50.0])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_epsilon_next_to_the_largest_float_has_an_interval(direction, tilt):
    run = {"samples": 200, "direction": direction, "seed": 3, "tilt": tilt}
    for epsilon in (1e300, 1.7976931348623157e308):
        large = kernels.monte_carlo_delta(epsilon, *kernels.binomial_law(2, 0.1), 1.0, 3, **run)
        assert (large.estimate, large.lower, large.upper) == pytest.approx((0.0, 0.0, 5e-324), abs=0)
        small = kernels.monte_carlo_delta(-epsilon, *kernels.binomial_law(2, 0.1), 1.0, 3, **run)
        assert 0.0 <= small.lower <= small.estimate <= small.upper == 1.0


def test_tilting_contains_the_reference_in_an_interval_ten_times_narrower():
    law = kernels.binomial_law(4, 0.01)
    plain, tilted = (
        kernels.monte_carlo_delta(
            2.0, *law, 1.0, 10, samples=10_000_000, direction="remove", tilt=tilt, seed=21
        )
        for tilt in (0.0, None)
    )
    assert tilted.lower <= FEW_STEPS <= tilted.upper
    assert tilted.upper - tilted.lower < (plain.upper - plain.lower) / 10


@pytest.mark.parametrize(
    ("group_size", "sample_rate", "sigma", "steps", "direction", "epsilon", "delta"), TINY_DELTAS
)
def test_a_delta_near_1e_12_is_met_to_one_percent(
    group_size, sample_rate, sigma, steps, direction, epsilon, delta
):
    law = kernels.binomial_law(group_size, sample_rate)
    found = kernels.monte_carlo_delta(
        epsilon, *law, sigma, steps, samples=400_000, direction=direction, seed=1
    )
    assert found.estimate == pytest.approx(delta, rel=0.01)
    assert found.lower <= delta <= found.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_delta_near_1e_12_of_one_step_is_met_to_one_percent(direction):
    weights, shifts = by_definition.binomial(4, 0.3)
    epsilon = 6.0 if direction == "remove" else 1.2
    sigma = 1.35 if direction == "remove" else 0.6
    delta = float(by_definition.one_step_delta(epsilon, sigma, weights, shifts, direction))
    found = kernels.monte_carlo_delta(
        epsilon, *kernels.binomial_law(4, 0.3), sigma, 1, samples=400_000, direction=direction, seed=3
    )
    assert found.estimate == pytest.approx(delta, rel=0.01)
    assert found.lower <= delta <= found.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_without_sampling_the_gaussian_closed_form_is_met(direction):
    # Ten steps of shift 2 at sigma 5 are one Gaussian of mean 2 sqrt(10) / 5.
    delta = float(by_definition.gaussian_delta(9.0, 2 * 10**0.5 / 5))
    found = kernels.monte_carlo_delta(
        9.0, [1.0], [2.0], 5.0, 10, samples=400_000, direction=direction, seed=5
    )
    assert delta < 1e-10
    assert found.estimate == pytest.approx(delta, rel=0.01)
    assert found.lower <= delta <= found.upper


@pytest.mark.parametrize(
    "row", rows("privacy_curves.csv"), ids=lambda r: f"{r['name']} {r['sigma']} {r['steps']} {r['direction']}"
)
def test_every_reference_curve_lies_in_its_interval(row):
    weights, shifts = mixture(row["weights"])
    steps = int(row["steps"])
    found = kernels.monte_carlo_delta(
        float(row["epsilon"]),
        weights,
        shifts,
        float(row["sigma"]),
        steps,
        samples=max(200, min(200_000, 20_000_000 // steps)),
        direction=row["direction"],
        seed=11,
        confidence=1 - 1e-6,  # so that all rows together fail by chance once in 30,000
    )
    assert found.lower <= float(row["delta"]) <= found.upper
    assert found.lower <= found.estimate <= found.upper


COVERED = [
    # (group size, rate, sigma, steps, epsilon, direction, tilt, samples)
    (4, 0.05, 1.0, 1, 0.7, "remove", 0.0, 2_000),
    pytest.param(4, 0.05, 1.0, 1, 0.7, "remove", None, 300, marks=pytest.mark.slow),
    pytest.param(4, 0.05, 0.6, 1, 0.15, "add", None, 300, marks=pytest.mark.slow),
    (4, 0.05, 0.6, 1, 0.15, "add", 0.0, 2_000),
    (1, 0.3, 0.8, 1, 2.5, "remove", 2.0, 1_000),
    (1, 0.3, 0.8, 1, 2.5, "remove", None, 50),
    (1, 1.0, 4.0, 10, 1.0, "add", 3.0, 1_000),
    (1, 1.0, 4.0, 10, 1.0, "add", 0.0, 1_000),
    pytest.param(4, 0.01, 1.0, 10, 2.0, "remove", None, 1_000, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("confidence", [0.99, pytest.param(0.9, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("group_size", "rate", "sigma", "steps", "epsilon", "direction", "tilt", "samples"), some(COVERED)
)
def test_the_interval_covers_delta_at_least_as_often_as_it_says(
    group_size, rate, sigma, steps, epsilon, direction, tilt, samples, confidence
):
    if steps == 1:
        weights, shifts = by_definition.binomial(group_size, rate)
        delta = float(by_definition.one_step_delta(epsilon, sigma, weights, shifts, direction))
    elif rate == 1.0:
        delta = float(by_definition.gaussian_delta(epsilon, steps**0.5 / sigma))
    else:
        delta = FEW_STEPS
    law = kernels.binomial_law(group_size, rate)
    covered = 0
    for seed in range(500):
        found = kernels.monte_carlo_delta(
            epsilon,
            *law,
            sigma,
            steps,
            samples=samples,
            direction=direction,
            tilt=tilt,
            seed=seed,
            confidence=confidence,
        )
        covered += found.lower <= delta <= found.upper
    assert covered >= confidence * 500


@pytest.mark.slow
def test_estimates_of_many_seeds_are_unbiased():
    weights, shifts = by_definition.binomial(4, 0.05)
    law = kernels.binomial_law(4, 0.05)
    for direction, sigma, epsilon in [("remove", 1.0, 0.7), ("add", 0.6, 0.15)]:
        delta = float(by_definition.one_step_delta(epsilon, sigma, weights, shifts, direction))
        for tilt in (0.0, 1.5, None):
            estimates = [
                kernels.monte_carlo_delta(
                    epsilon, *law, sigma, 1, samples=40_000, direction=direction, tilt=tilt, seed=seed
                ).estimate
                for seed in range(100)
            ]
            error = np.std(estimates) / 100**0.5
            assert abs(np.mean(estimates) - delta) < 4 * error


@pytest.mark.parametrize("sigma", [1e-2, 1e-5, 1e-8, 1e-20, 1e-90, 5e-324])
def test_tiny_noise_neither_hangs_nor_misses_delta(sigma):
    # A member joins with probability 1/2 and is then seen: delta(1) is 1/2; when adding, 1 - e/2 < 0.
    code = f"""
import json
from hockeystick import kernels
print(json.dumps([
    kernels.monte_carlo_delta(
        1.0, [0.5, 0.5], [0.0, 1.0], {sigma}, 1, samples=1000, direction=direction, tilt=tilt, seed=0)
    for direction in ("remove", "add") for tilt in (None, 0.0)
]))
"""
    *removed, added, _ = in_fresh_process(code, timeout=20)
    assert all(lower <= 0.5 <= upper for _, lower, upper in removed[:2])
    assert added[1] == 0.0


@pytest.mark.parametrize("sigma", [1e8, 1e20, 1e90])
def test_enormous_noise_leaves_no_delta_to_find(sigma):
    for direction in ("remove", "add"):
        found = kernels.monte_carlo_delta(
            1.0, [0.5, 0.5], [0.0, 1.0], sigma, 1, samples=1000, direction=direction, seed=0
        )
        assert found.lower == 0.0
        assert found.upper < 1e-300


def test_more_samples_narrow_the_interval():
    law = kernels.binomial_law(4, 0.01)

    def width(samples):
        found = kernels.monte_carlo_delta(2.0, *law, 1.0, 10, samples=samples, direction="remove", seed=2)
        return found.upper - found.lower

    assert width(1_000_000) < width(10_000) / 5


def test_the_same_seed_gives_the_same_bits_with_one_thread_and_with_two():
    code = """
import json
from hockeystick import kernels
law = kernels.binomial_law(4, 0.01)
print(json.dumps([
    [float.hex(v) for v in kernels.monte_carlo_delta(
        2.0, *law, 1.0, 30, samples=samples, direction=direction, tilt=tilt, seed=9)]
    for samples in (1, 1_000, 123_457) for direction in ("add", "remove") for tilt in (0.0, None, 0.7)
]))
"""
    one, two = (in_fresh_process(code, RAYON_NUM_THREADS=threads) for threads in ("1", "2"))
    assert one == two
    assert one[-1] != one[-2]


def test_different_seeds_give_different_samples():
    law = kernels.binomial_law(4, 0.01)
    estimates = {
        kernels.monte_carlo_delta(2.0, *law, 1.0, 10, samples=5_000, direction="remove", seed=seed).estimate
        for seed in (0, 1, 2, 2**32, 2**63, 2**64 - 1)
    }
    assert len(estimates) == 6


def test_zero_steps_have_the_delta_of_equal_laws():
    for epsilon in (0.0, 1.0, 5.0):
        found = kernels.monte_carlo_delta(epsilon, [1.0], [1.0], 1.0, 0, samples=100, direction="add", seed=0)
        assert found == (0.0, 0.0, 0.0)


def test_arrays_of_epsilon_are_runs_of_their_own_with_the_same_seed():
    law = kernels.binomial_law(4, 0.01)
    arguments = {"samples": 3_000, "direction": "remove", "seed": 4}
    found = kernels.monte_carlo_delta([[1.0, 2.0], [3.0, 4.0]], *law, 1.0, 10, **arguments)
    assert found.estimate.shape == found.lower.shape == found.upper.shape == (2, 2)
    alone = kernels.monte_carlo_delta(3.0, *law, 1.0, 10, **arguments)
    assert (found.estimate[1, 0], found.lower[1, 0], found.upper[1, 0]) == alone
    assert all(type(value) is float for value in alone)


def test_logarithms_of_the_weights_give_the_same_run():
    arguments = {"samples": 20_000, "direction": "remove", "seed": 4}
    linear = kernels.monte_carlo_delta(2.0, *kernels.binomial_law(4, 0.01), 1.0, 10, **arguments)
    log = kernels.monte_carlo_delta(
        2.0, *kernels.binomial_law(4, 0.01, log=True), 1.0, 10, log_weights=True, **arguments
    )
    assert linear == pytest.approx(log, rel=1e-10)


def test_progress_is_told_and_ends_at_the_total():
    calls = []
    law = kernels.binomial_law(16, 0.01)
    kernels.monte_carlo_delta(
        [1.0, 2.0],
        *law,
        1.0,
        100,
        samples=400_000,
        direction="remove",
        seed=0,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert len(calls) > 2
    assert {total for _, total in calls} == {800_000}
    done = [done for done, _ in calls]
    assert done == sorted(done)
    assert done[-1] == 800_000


def test_an_error_in_progress_stops_the_run_and_reaches_the_caller():
    def fail(done, total):
        raise LookupError("from the progress function")

    with pytest.raises(LookupError, match="from the progress function"):
        kernels.monte_carlo_delta(
            1.0, [1.0], [1.0], 1.0, 1000, samples=10**9, direction="remove", seed=0, progress=fail
        )


def test_a_bar_is_drawn_by_tqdm(capsys):
    pytest.importorskip("tqdm")
    kernels.monte_carlo_delta(
        1.0, [1.0], [1.0], 1.0, 10, samples=100_000, direction="add", seed=0, progress=True
    )
    assert "Monte Carlo" in capsys.readouterr().err


def test_a_bar_without_tqdm_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        kernels.monte_carlo_delta(
            1.0, [1.0], [1.0], 1.0, 1, samples=10, direction="add", seed=0, progress=True
        )


@pytest.mark.parametrize("group_size", [1, 16, 1000])
def test_ctrl_c_is_honoured_within_a_fifth_of_a_second(group_size):
    code = f"""
import json, os, signal, threading, time
from hockeystick import kernels
law = kernels.binomial_law({group_size}, 0.01, log=True)
sent = []
def interrupt():
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, interrupt).start()
try:
    kernels.monte_carlo_delta(
        2.0, *law, 1.0, 1000, samples=10**10, direction="remove", seed=0, log_weights=True)
except KeyboardInterrupt:
    print(json.dumps(time.perf_counter() - sent[0]))
"""
    assert in_fresh_process(code) < 0.2


@pytest.mark.skipif(sys.platform == "win32", reason="resource is a Unix module")
def test_memory_does_not_depend_on_the_number_of_samples():
    code = """
import json, resource
from hockeystick import kernels
law = kernels.binomial_law(4, 0.01)
def peak(samples):
    kernels.monte_carlo_delta(2.0, *law, 1.0, 10, samples=samples, direction="remove", tilt=0.0, seed=0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([peak(1_000_000), peak(20_000_000)]))
"""
    few, many = in_fresh_process(code)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    # One float64 a sample would be 152 MB.
    assert (many - few) * unit < 4e6
