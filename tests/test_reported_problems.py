"""What users reported of other accountants: the same runs have an answer here, or an error says why.

Each test names its threads:

- much noise (Opacus 585), large targets and hangs (Opacus 591, 601, 604; prv_accountant 36, 42; NVIDIA's
  Safe-Synthesizer 351, 391), memory (Opacus 602, dpsynth 71), tiny deltas (prv_accountant 17);
- loaders that draw otherwise than is accounted for (Opacus 813), a normaliser that gives records away (Opacus
  571, 819), and what tuning costs (opendp 2656, tensorflow/privacy 76).
"""

import math
import subprocess
import sys

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.compat.prv_accountant import (
    DPSGDAccountant,
    PoissonSubsampledGaussianMechanism,
    PRVAccountant,
    find_noise_multiplier,
)


def test_much_noise_has_a_small_epsilon():
    """Opacus 585: epsilon was negative."""
    for noise in (50.0, 1e3, 1e6):
        run = {"noise_multiplier": noise, "sample_rate": 0.001, "steps": 10}
        lower, upper = hs.get_epsilon(delta=1e-5, bounds=True, **run)
        assert 0.0 <= lower <= upper < 1e-3
        accountant = DPSGDAccountant(noise, 0.001, max_steps=10)
        assert min(accountant.compute_epsilon(1e-5, 10)) >= 0.0


@pytest.mark.parametrize("epsilon", [10.0, 50.0, 100.0, 1000.0])
@pytest.mark.parametrize(("rate", "steps"), [(0.004, 2500), (0.2, 100), (1.0, 10)])
def test_large_targets_are_met(epsilon, rate, steps):
    """Opacus 591, 601, 604, Safe-Synthesizer 351 and 391: errors, overflow, and hangs up to epsilon 1000."""
    noise = find_noise_multiplier(rate, steps, target_epsilon=epsilon, target_delta=1e-5)
    assert hs.get_epsilon(delta=1e-5, noise_multiplier=noise, sample_rate=rate, steps=steps) <= epsilon
    less = hs.get_epsilon(delta=1e-5, noise_multiplier=0.98 * noise, sample_rate=rate, steps=steps)
    assert less > epsilon


def test_runs_that_stopped_the_accountant():
    """prv_accountant 36 and 42: "Discrete mean differs"."""
    step = PoissonSubsampledGaussianMechanism(sampling_probability=0.2, noise_multiplier=1.0)
    accountant = PRVAccountant(prvs=[step], max_self_compositions=[500], eps_error=0.01, delta_error=1e-10)
    for steps in (10, 500):
        lower, estimate, upper = accountant.compute_epsilon(delta=1e-5, num_self_compositions=[steps])
        assert 0.0 < lower <= estimate <= upper < lower + 1e-4
        exact = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.2, steps=steps)
        assert upper == pytest.approx(exact, rel=1e-6)
    for noise in (0.1, 0.2, 0.3, 0.4):
        lower, _, upper = DPSGDAccountant(noise, 0.01, max_steps=500).compute_epsilon(1e-5, 500)
        assert math.isfinite(upper)
        assert lower <= upper <= 1.001 * lower


def test_tiny_deltas_have_one_epsilon():
    """prv_accountant 17: epsilon jumped from 0.06 to 3.8."""
    for rate in (0.00033, 0.00038):
        accountant = DPSGDAccountant(4.0, rate, max_steps=10_000, eps_error=0.1, delta_error=1e-20)
        found = [
            accountant.compute_epsilon(delta, 10_000)[2] for delta in (1e-18, 1.1e-18, 1.11e-18, 1.13e-18)
        ]
        assert np.all(np.diff(found) < 0.0)
        assert 0.05 < found[-1] <= found[0] < 0.669  # of Rényi accounting


MEMORY = """
import resource
import hockeystick as hs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{call}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # 4 GB, where dp-accounting asked for 75
"""


def added_kilobytes(call):
    """Peak memory that a call adds, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY.format(call=call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return int(done.stdout)


def test_calibration_of_a_small_run_takes_little_memory():
    """Opacus 602: out of memory."""
    target = "epsilon=50.0, delta=1e-5, sample_rate=0.03, steps=1000"
    assert added_kilobytes(f"hs.get_noise_multiplier({target})") < 500_000


@pytest.mark.parametrize("releases", [1, 30])
def test_a_small_target_for_gaussian_noise(releases):
    """dpsynth 71: 75 GB for a calibration at epsilon 0.01."""
    call = f"hs.get_noise_multiplier(epsilon=0.01, delta=1e-5, sampling=hs.FullBatch(), steps={releases})"
    assert added_kilobytes(call) < 500_000
    noise = hs.get_noise_multiplier(epsilon=0.01, delta=1e-5, sampling=hs.FullBatch(), steps=releases)
    mu = math.sqrt(releases) / noise
    assert hs.TradeoffCurve.gaussian(mu).epsilon(1e-5) <= 0.01 * (1 + 1e-6)
    assert hs.TradeoffCurve.gaussian(1.001 * mu).epsilon(1e-5) > 0.01


DISCRETE = """
import attr
import dp_accounting as dpa
from hockeystick.dp_accounting import ExactAccountant

name, fields = "DiscreteGaussianDpEvent", ["sigma", "sensitivity", "dimension"]
if not hasattr(dpa.dp_event, name):  # of later releases
    setattr(dpa.dp_event, name, attr.make_class(name, fields, bases=(dpa.DpEvent,), frozen=True))

def releases(sigma):
    return dpa.SelfComposedDpEvent(getattr(dpa.dp_event, name)(sigma, 1.0, 1), {releases})

print(dpa.calibrate_dp_mechanism(ExactAccountant, releases, 0.01, 1e-5))
"""


@pytest.mark.opacus
def test_a_small_target_for_discrete_noise():
    """dpsynth 71: the same calibration for the discrete Gaussian noise of that library."""
    releases = 2
    done = subprocess.run(
        [sys.executable, "-c", LIMITED + DISCRETE.format(releases=releases)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    # Noise of such a size is nearly continuous.
    continuous = hs.get_noise_multiplier(epsilon=0.01, delta=1e-5, sampling=hs.FullBatch(), steps=releases)
    assert continuous * (1 - 1e-3) <= float(done.stdout) <= 1.01 * continuous


@pytest.mark.opacus
def test_a_loader_that_shuffles_is_found():
    """Opacus 813: a loader that is not the one that is accounted for."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.zeros(1000, 1))
    scheme = hs.sampling_of(DataLoader(data, batch_size=50, shuffle=True))
    assert scheme == hs.Shuffle(50, 1000)
    with pytest.raises(hs.SamplingMismatchError, match="shuffle"):
        hs.opacus.check_loader(DataLoader(data, batch_size=50, shuffle=True))


def test_the_normaliser_is_among_the_assumptions():
    """Opacus 571 and 819: an expected batch size from the private number of records."""
    explanation = hs.explain(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=100)
    assert "divided by numbers that are public" in str(explanation)
    replaced = hs.explain(
        delta=1e-5,
        noise_multiplier=1.0,
        sampling=hs.WithoutReplacement(10, 1000),
        steps=100,
        adjacency="replace",
    )
    assert "divided by numbers that are public" not in str(replaced)


def test_tuning_has_a_price():
    """opendp 2656 and tensorflow/privacy 76: a question without an answer there."""
    curve = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)
    tuned = curve.best_of(hs.GeometricRuns(20)).epsilon(1e-6)
    assert curve.epsilon(1e-6) < tuned < 4.0 * curve.epsilon(1e-6)
    assert tuned < (curve * 20).epsilon(1e-6)
