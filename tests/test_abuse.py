"""Calls from many threads, after a fork, interrupted, and without end: no deadlock and no leak."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from python_surface import SURFACE, numbers_in

import hockeystick as hs

THREADS = 16

PATIENCE = 120.0
"""Seconds after which threads or processes count as hanging."""

INTERRUPTED_WITHIN = 5.0
"""Seconds that Ctrl-C may take here, on a machine that does other things too; alone it takes 0.05."""

QUICK_CALLS, FEW_CALLS, MANY_CALLS = 4_000, 20_000, 1_000_000

GROWTH = 8 * 2**20
"""Bytes that the memory may grow by, whatever the number of calls."""

NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is a call of Unix")

RUN = "dict(delta=1e-5, noise_multiplier=[1.0, 1.1], sample_rate=0.01, steps=1000, group_size=4)"

AFTER_FORK = f"""
import os, signal
import numpy as np
import hockeystick as hs

def everything():
    yield hs.get_epsilon(**{RUN})
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.02, steps=100)
    yield curve.epsilon([1e-3, 1e-5])
    yield hs.TradeoffCurve.from_curve(curve).beta([0.1, 0.2])
    yield hs.kernels.monte_carlo_delta(
        1.0, [0.9, 0.1], [0.0, 1.0], 1.0, 5, samples=10_000, direction="remove", seed=0)
    yield hs.renyi.group_rdp(hs.Gaussian(2.0), orders=[2.0, 3.0], sample_rate=0.1, group_size=2)
    accountant = hs.accountants.IndividualAccountant(3)
    accountant.update_norms([0.0, 0.5, 1.0])
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    yield accountant.get_epsilons(1e-5)

def answers():
    return [np.asarray(answer).tolist() for answer in everything()]

before = answers()
child = os.fork()
if child == 0:
    signal.alarm({int(PATIENCE)})
    grandchild = os.fork()
    same = answers() == before
    if grandchild == 0:
        os._exit(0 if same else 1)
    os._exit(0 if same and os.waitpid(grandchild, 0)[1] == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert answers() == before
"""

LONG_CALLS = {
    "many runs": "hs.get_epsilon(delta=1e-5, noise_multiplier=1 + 1e-5 * np.arange(1e6), **plan)",
    "one curve, many questions": "curve.epsilon(np.geomspace(1e-9, 0.1, 1_000_000))",
    "Monte Carlo": "hs.kernels.monte_carlo_delta(1.0, [0.9, 0.1], [0.0, 1.0], 1.0, 1000, "
    "samples=10**9, direction='remove', seed=0)",
    "calibration": "hs.get_noise_multiplier(epsilon=np.linspace(1, 2, 100_000), delta=1e-5, **plan)",
    "Rényi": "hs.renyi.group_rdp(hs.Gaussian(2.0), orders=np.linspace(1.5, 90, 10**6), sample_rate=0.1, "
    "group_size=64)",
    "trade-off function": "hs.TradeoffCurve.from_curve(curve).beta(np.linspace(0, 1, 1_000_000))",
    "likelihood ratio": "hs.kernels.log_likelihood_ratio(np.linspace(-9, 9, 5 * 10**7), "
    "*hs.kernels.binomial_law(500, 0.3), 2.0)",
}

NAMES = [
    name if name in ("many runs", "one curve, many questions") else pytest.param(name, marks=pytest.mark.slow)
    for name in LONG_CALLS
]

INTERRUPTED = """
import signal
import time
import numpy as np
import hockeystick as hs

# A test run in the background of a shell is started with Ctrl-C ignored, and hands that on.
signal.signal(signal.SIGINT, signal.default_int_handler)
plan = dict(sample_rate=0.01, steps=1000)
curve = hs.privacy_curve(noise_multiplier=1.0, **plan)
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
else:
    print("answered", flush=True)
"""


@NEEDS_FORK
def test_a_forked_process_answers_as_its_parent():
    subprocess.run([sys.executable, "-c", AFTER_FORK], check=True, timeout=2 * PATIENCE)


@NEEDS_FORK
@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c_ends_a_long_call(name):
    program = [sys.executable, "-c", INTERRUPTED.format(call=LONG_CALLS[name])]
    with subprocess.Popen(program, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        try:
            word, *when = process.communicate(timeout=PATIENCE)[0].split()
        finally:
            process.kill()
    assert word == "interrupted"
    assert float(when[0]) - sent < INTERRUPTED_WITHIN


def test_a_call_after_an_interrupted_one_answers():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    expected = curve.epsilon(1e-5)

    def stop(done, total):
        raise KeyboardInterrupt

    settings = {"samples": 10**8, "direction": "remove", "seed": 0}
    with pytest.raises(KeyboardInterrupt):
        hs.kernels.monte_carlo_delta(1.0, [0.9, 0.1], [0.0, 1.0], 1.0, 1000, progress=stop, **settings)
    assert curve.epsilon(1e-5) == expected


def parts(answer):
    return [part.tolist() for part in numbers_in(answer)]


@pytest.mark.slow
def test_sixteen_threads_at_once_get_the_answers_of_one():
    expected = [parts(function(**good)) for _, function, good in SURFACE]
    start = threading.Barrier(THREADS)

    def all_from(first):
        start.wait(PATIENCE)
        # Each thread has a quarter of them, so that four threads ask each question.
        places = np.roll(np.arange(len(SURFACE)), -first * len(SURFACE) // THREADS)[: len(SURFACE) // 4]
        return {place: parts(SURFACE[place][1](**SURFACE[place][2])) for place in places.tolist()}

    with ThreadPoolExecutor(THREADS) as threads:
        for found in threads.map(all_from, range(THREADS), timeout=PATIENCE):
            for place, answer in found.items():
                assert answer == expected[place], SURFACE[place][0]


def test_threads_that_share_a_curve_get_the_answers_of_one():
    alphas = np.linspace(0.01, 0.99, 50)
    deltas = np.geomspace(1e-8, 1e-2, 20)

    def made():
        curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.02, steps=200)
        return curve, hs.TradeoffCurve.from_curve(curve) * 2

    def answers(curves):
        curve, tradeoff = curves
        return parts((curve.epsilon(deltas), tradeoff.beta(alphas), tradeoff.epsilon(1e-5)))

    shared, expected = made(), answers(made())
    with ThreadPoolExecutor(THREADS) as threads:
        found = threads.map(answers, [shared] * THREADS, timeout=PATIENCE)
        assert all(answer == expected for answer in found)


def memory():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def call_again(count):
    """Put `count` quick questions, some of them refused, all of them new."""
    accountant = hs.accountants.RenyiGroupAccountant(2, orders=[2.0, 3.0])
    for i in range(count // 8):
        x = i / count
        hs.kernels.rdp_to_epsilon([2.0, 3.0], [0.1 + x, 0.2], 1e-5)
        hs.kernels.log_likelihood_ratio([0.1, x], [0.9, 0.1], [0.0, 1.0], 1.0)
        hs.kernels.hockey_stick([0.1, x], 0.0)
        hs.kernels.binomial_law(3, x)
        hs.get_epsilon(delta=1e-5, noise_multiplier=1.0 + x, sampling=hs.FullBatch(), steps=3)
        hs.TradeoffCurve.gaussian(0.5 + x).beta(0.3)
        accountant.load_state_dict(accountant.state_dict())
        try:
            hs.get_delta(epsilon=-1.0 - x, noise_multiplier=1.0, sample_rate=0.1, steps=3)
        except ValueError:
            continue
        raise AssertionError("not refused")


def grows_by(count):
    call_again(count // 10)
    before = memory()
    call_again(count)
    return memory() - before


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the memory is read as Linux tells it")
@pytest.mark.parametrize(
    "count",
    [
        QUICK_CALLS,
        pytest.param(FEW_CALLS, marks=pytest.mark.slow),
        pytest.param(MANY_CALLS, marks=pytest.mark.long),
    ],
)
def test_the_memory_stays_as_it_is(count):
    assert grows_by(count) < GROWTH
