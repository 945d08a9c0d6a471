"""A process that is forked while another thread computes answers, or says at once why it cannot."""

import os
import subprocess
import sys

import pytest

FORK = """
import os, sys, threading, time, warnings
import numpy as np
import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import IndividualAccountant

warnings.simplefilter("ignore")

def curve():
    run = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.3, steps=70)
    return (lambda i: run.delta(np.linspace(0.01, 3.0 + 1e-9 * i, 2000))), (lambda: run.delta(1.0))

def tradeoff():
    curve = hs.TradeoffCurve.from_curve(hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.3, steps=70))
    half = curve.subsample(0.5)
    return (lambda i: half.epsilon(np.full(400, 1e-3 + 1e-9 * i))), (lambda: curve.epsilon(1e-3))

def tables():
    orders = np.linspace(1.5, 500.0, 50)
    def step(rate):
        kernels.accumulate_rdp(np.zeros((50, 50)), np.geomspace(0.01, 1.0, 50), orders, 1.0, rate)
    return (lambda i: step(0.01 + 1e-9 * i)), (lambda: step(0.01))

def grids():
    def ask(i=0):
        noise = hs.Laplace(4.0 + 1e-9 * i)
        hs.get_epsilon(delta=1e-5, mechanism=noise, sampling=hs.RandomAllocation(10), steps=20)
    return ask, ask

def individual(exact):
    accountant = IndividualAccountant(200_000, exact=exact)
    def step(i=0):
        accountant.update_norms(np.random.default_rng(i).random(200_000))
        accountant.step(noise_multiplier=1.0 + 1e-3 * i, sample_rate=0.01)
    def child():
        step()
        accountant.update_norms(np.random.default_rng(1).random(200_000))
    return step, child

busy, child = {
    "curve": curve,
    "tradeoff": tradeoff,
    "tables": tables,
    "grids": grids,
    "exact accounts": lambda: individual(True),
    "Renyi accounts": lambda: individual(False),
}[sys.argv[1]]()

def forever():
    i = 0
    while True:
        i += 1
        busy(i)

threading.Thread(target=forever, daemon=True).start()
time.sleep(0.5)
codes = set()
for _ in range(6):
    time.sleep(0.07)
    process = os.fork()
    if process == 0:
        try:
            child()
        except RuntimeError as error:
            os._exit(3 if "forked" in str(error) else 4)
        except BaseException:
            os._exit(4)
        os._exit(0)
    for _ in range(1500):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            codes.add(os.waitstatus_to_exitcode(status))
            break
        time.sleep(0.02)
    else:
        os.kill(process, 9)
        codes.add("waits for ever")
        break
print(sorted(map(str, codes)), flush=True)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("what", "allowed"),
    [
        ("curve", {"0"}),
        ("tradeoff", {"0"}),
        ("tables", {"0"}),
        pytest.param("grids", {"0"}, marks=pytest.mark.long),
        # Half a step may be in the accounts: an error says so.
        ("exact accounts", {"0", "3"}),
        ("Renyi accounts", {"0", "3"}),
    ],
)
def test_a_child_never_waits_for_a_thread_of_its_parent(what, allowed):
    answer = subprocess.run(
        [sys.executable, "-c", FORK, what], capture_output=True, text=True, timeout=240, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert set(eval(answer.stdout)) <= allowed, answer.stdout + answer.stderr[-2000:]
