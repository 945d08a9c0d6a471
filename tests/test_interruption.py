"""Ctrl-C ends a computation with all its threads, not only the call that waits for it."""

import json
import os
import subprocess
import sys

import pytest

WATCH = """
import json, os, signal, sys, threading, time
import numpy as np
import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import (
    IndividualAccountant, IndividualFilter, MonteCarloAccountant, RenyiGroupAccountant)

def curve(steps, group_size):
    return hs.privacy_curve(noise_multiplier=0.35, sample_rate=0.3, steps=steps, group_size=group_size)

def tradeoff(group_size=1):
    return hs.TradeoffCurve.from_curve(
        hs.privacy_curve(noise_multiplier=0.8, sample_rate=0.4, steps=3, group_size=group_size))

def monte_carlo(question):
    accountant = MonteCarloAccountant(16, samples=10**9)
    accountant.history = [(1.0 + 0.01 * i, 0.01, 100) for i in range(20)]
    return question(accountant)

def renyi():
    accountant = RenyiGroupAccountant(64)
    accountant.history = [(1.0 + 0.01 * i, 0.01, 10) for i in range(2000)]
    return accountant.get_epsilon(1e-5)

def norms(count):
    return np.random.default_rng(1).random(count)

LEVELS = np.geomspace(1e-9, 1e-2, 3000)
JOBS = {
    "get_sample_rate": lambda: hs.get_sample_rate(
        epsilon=0.07652005110758, delta=8.99956212762797e-14,
        noise_multiplier=np.linspace(0.3, 0.4, 200), steps=32, group_size=10_000),
    "get_noise_multiplier": lambda: hs.get_noise_multiplier(
        epsilon=np.linspace(1.0, 11.0, 3000), delta=1e-5, sample_rate=0.1, steps=1000, group_size=64),
    "beta": lambda: curve(7, 3000).beta(np.linspace(0.01, 0.9, 500)),
    "renyi": lambda: curve(7, 10_000).renyi(np.linspace(1.5, 9000.0, 20_000)),
    "renyi_mixture": lambda: kernels.renyi_mixture(
        np.linspace(1.5, 9000.0, 100_000), *kernels.binomial_law(10_000, 0.4, log=True), 0.9,
        direction="remove", log_weights=True),
    "poisson_binomial_law": lambda: [kernels.poisson_binomial_law(norms(10_000)) for _ in range(50)],
    "hockey_stick": lambda: kernels.hockey_stick(norms(10**6), np.linspace(0.0, 3.0, 30_000)),
    "group_rdp": lambda: hs.renyi.group_rdp(
        hs.Laplace(3.0), np.linspace(1.5, 5000.0, 20_000), sample_rate=0.01, group_size=500),
    "accumulate_rdp": lambda: kernels.accumulate_rdp(
        np.zeros((50_000, 50)), norms(50_000), np.linspace(1.5, 9000.0, 50), 1e-3, 0.1),
    "RenyiGroupAccountant": renyi,
    "MonteCarloAccountant.get_delta": lambda: monte_carlo(lambda each: each.get_delta(1.0)),
    "MonteCarloAccountant.get_epsilon": lambda: monte_carlo(lambda each: each.get_epsilon(1e-5)),
    "get_steps": lambda: [
        hs.get_steps(
            epsilon=epsilon, delta=1e-9, mechanism=hs.Laplace(15.9), sample_rate=2.5e-5, group_size=25)
        for epsilon in (3.0, 2.9, 2.8, 2.7, 2.6)],
    "TradeoffCurve.subsample": lambda: tradeoff().group(3).subsample(0.3).epsilon(LEVELS),
    "TradeoffCurve.group": lambda: tradeoff(3).subsample(0.5).group(50).epsilon(LEVELS),
    "TradeoffCurve.symmetrize": lambda: tradeoff(3).subsample(0.5).group(9).symmetrize().epsilon(LEVELS),
    "TradeoffCurve.mu": lambda: [
        tradeoff(3).subsample(0.5).group(size).mu(1e-7) for size in range(2, 300)],
}

def stop():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

# A process that was started in the background ignores the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=stop, daemon=True).start()
try:
    JOBS[sys.argv[1]]()
    ended = "finished"
except KeyboardInterrupt:
    ended = "interrupted"
time.sleep(0.3)
before = time.process_time()
time.sleep(0.5)
print(json.dumps([ended, time.process_time() - before]), flush=True)
os._exit(0)
"""

NAMES = [line.split('"')[1] for line in WATCH.splitlines() if line.startswith('    "')]
QUICK = {
    "get_steps",
    "get_sample_rate",
    "hockey_stick",
    "beta",
    "accumulate_rdp",
    "MonteCarloAccountant.get_delta",
}
"""One of each kind: each starts a process."""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_no_thread_goes_on_after_ctrl_c(name):
    answer = subprocess.run(
        [sys.executable, "-c", WATCH, name], capture_output=True, text=True, timeout=120, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    ended, computed = json.loads(answer.stdout)
    assert (ended, computed < 0.1) == ("interrupted", True), (ended, computed)


def test_a_rate_that_no_square_of_shows_takes_no_longer_than_others():
    import time

    import numpy as np

    from hockeystick.accountants import IndividualFilter

    def seconds(sample_rate):
        before = time.process_time()
        norms = np.linspace(0.001, 1.0, 2000)
        IndividualFilter(1.0, 1e-5).step(norms, noise_multiplier=1.0, sample_rate=sample_rate)
        return time.process_time() - before

    assert seconds(2.2e-308) < 10.0 * seconds(1.3e-4) + 1.0


HANDLER = """
import os, signal, sys, threading, time
import hockeystick as hs

slow = {"mechanism": hs.Laplace(15.9), "sample_rate": 2.5e-5, "group_size": 25}
curve = hs.privacy_curve(steps=129, **slow)
RUNS = {
    "planner": lambda: hs.get_steps(epsilon=3.0, delta=1e-9, **slow),
    "curve": lambda: hs.privacy_curve(steps=129, **slow).epsilon(2.4e-10),
    "same curve": lambda: curve.epsilon(2.4e-10),
}
run = RUNS[sys.argv[1]]

def questions():
    few = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    return [few, curve.epsilon(1e-3), *curve.delta([0.5, 1.0])]

def save(signum, frame):
    asked.extend(questions())

asked = []
expected = questions()  # which also imports what the handler needs
signal.signal(signal.SIGUSR1, save)
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
begun = time.monotonic()
found = run()
assert time.monotonic() - begun > 0.2, "too fast for the signal"
assert asked == expected, asked
assert found == run()
"""
"""A signal handler that writes the privacy spent so far, as one for SIGTERM would."""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGUSR1 to a process")
@pytest.mark.parametrize("name", ["planner", "curve", "same curve"])
def test_a_signal_handler_may_ask_meanwhile_and_the_computation_goes_on(name):
    answer = subprocess.run(
        [sys.executable, "-c", HANDLER, name], capture_output=True, text=True, timeout=120, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
