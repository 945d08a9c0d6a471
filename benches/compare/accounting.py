"""Speed and epsilon of the exact engine beside Opacus and dp_accounting, and its peak memory.

Ours and the peers' calls are made in one process, each from nothing: no accountant or curve is kept from call
to call. A time is the median of warm calls. Ours uses one thread but for the call with many configurations;
the peers are left as they are. ``pip install 'hockeystick[bench]'`` installs them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hockeystick as hs
from benches.compare.peers import (
    DP_ACCOUNTING,
    DP_ACCOUNTING_MIXTURE,
    OPACUS,
    PACKAGES,
    Peer,
    Run,
    installed_version,
    opacus_noise_multiplier,
)

ENOUGH_SECONDS = 0.5
"""Warm calls are repeated until they took this long together, and at least LEAST_CALLS times."""
LEAST_CALLS = 3
SLOW_SECONDS = 5.0
"""After a warm call that takes longer no more are made."""

ONE_RECORD = Run("one record", 1.0, 0.01, 1000)
RUNS: list[tuple[Run, list[Peer]]] = [
    (ONE_RECORD, [OPACUS, DP_ACCOUNTING]),
    (Run("group of 16", 1.0, 0.01, 1000, 16), [DP_ACCOUNTING_MIXTURE]),
    (Run("group of 256", 1.0, 0.01, 1000, 256), []),
    (Run("few steps", 1.0, 0.01, 10, 4), [DP_ACCOUNTING_MIXTURE]),
    (Run("small noise", 0.3, 0.001, 1000, 64), []),
]
MEMORY_RUNS = [run for run, _ in RUNS] + [
    Run("very small noise", 0.05, 0.5, 10**5, 4),
    Run("two steps", 0.5, 0.001, 2, 64),
    Run("tiny delta", 1.0, 0.01, 1000, 4, 1e-100),
    Run("large group", 50.0, 0.01, 1000, 10_000),
]
STEPS = [10**exponent for exponent in range(2, 10)]
NOISE_TARGET = 3.0
NOISE_GROUP = 8
CONFIGURATIONS = 10_000
RANGES = {  # of the random configurations; each is drawn uniformly on a log scale
    "noise_multiplier": (0.3, 30.0),
    "sample_rate": (1e-4, 1.0),
    "steps": (1.0, 1e6),
    "group_size": (1.0, 64.0),
    "delta": (1e-12, 1e-3),
}

Result = dict[str, Any]


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """Median seconds of warm calls, and what they return."""
    value = call()
    times: list[float] = []
    while len(times) < LEAST_CALLS or sum(times) < ENOUGH_SECONDS:
        start = time.perf_counter()
        value = call()
        times.append(time.perf_counter() - start)
        if times[-1] > SLOW_SECONDS:
            break
    return median(times), value


def our_epsilon(run: Run) -> float:
    """Epsilon of one run: the upper end, with the default tolerance."""
    epsilon = hs.get_epsilon(
        delta=run.delta,
        noise_multiplier=run.noise_multiplier,
        sample_rate=run.sample_rate,
        steps=run.steps,
        group_size=run.group_size,
    )
    return float(epsilon)


def our_noise_multiplier(group_size: int) -> float:
    """Noise that keeps a group within the target."""
    noise = hs.get_noise_multiplier(
        epsilon=NOISE_TARGET,
        delta=ONE_RECORD.delta,
        sample_rate=ONE_RECORD.sample_rate,
        steps=ONE_RECORD.steps,
        group_size=group_size,
    )
    return float(noise)


def measure_runs() -> list[Result]:
    """Time and epsilon of every run, ours and the peers'."""
    results = []
    for run, peers in RUNS:
        seconds, epsilon = timed(partial(our_epsilon, run))
        beside = []
        for peer in peers:
            if installed_version(peer.package) is not None:
                peer_seconds, peer_epsilon = timed(partial(peer.epsilon, run))
                beside.append({"name": peer.name, "seconds": peer_seconds, "epsilon": peer_epsilon})
        results.append({"seconds": seconds, "epsilon": epsilon, "peers": beside})
    return results


def measure_steps() -> list[Result]:
    """Time at every number of steps, with the sample rate fixed and with it falling as 1 / sqrt(steps)."""
    results = []
    for steps in STEPS:
        fixed = Run("", 1.0, 0.01, steps)
        falling = Run("", 1.0, 0.01 * (1000 / steps) ** 0.5, steps)
        results.append(
            {"steps": steps, "runs": [timed(partial(our_epsilon, run)) for run in (fixed, falling)]}
        )
    return results


def measure_noise() -> Result:
    """Time of the search for the noise; Opacus's is for one record."""
    seconds, noise = timed(partial(our_noise_multiplier, NOISE_GROUP))
    one_seconds, one_noise = timed(partial(our_noise_multiplier, 1))
    result: Result = {"seconds": seconds, "noise": noise, "one_seconds": one_seconds, "one_noise": one_noise}
    if installed_version(OPACUS.package) is not None:
        result["peer"] = timed(partial(opacus_noise_multiplier, ONE_RECORD, NOISE_TARGET))
    return result


def measure_many() -> Result:
    """Time of one call with random configurations, and how many intervals are wider than asked for."""
    random = np.random.default_rng(1)
    drawn = {
        name: low * (high / low) ** random.random(CONFIGURATIONS) for name, (low, high) in RANGES.items()
    }
    arguments: dict[str, Any] = drawn | {name: np.floor(drawn[name]) for name in ("steps", "group_size")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        hs.get_epsilon(**{name: values[:100] for name, values in arguments.items()})
        start = time.perf_counter()
        lower, upper = hs.get_epsilon(**arguments, bounds=True)
        seconds = time.perf_counter() - start
    lower, upper = np.asarray(lower), np.asarray(upper)
    wide = np.count_nonzero((upper > 1e-12) & (upper - lower > 1.001e-6 * upper))
    return {"seconds": seconds, "wide": int(wide)}


def measure_memory(index: int) -> float:
    """Largest resident size of this process, in MB, once it has answered one question.

    Linux starts a child's maximum at the size of its parent, which therefore imports no peer.
    """
    import resource  # not on Windows

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        our_epsilon(MEMORY_RUNS[index])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


MEASUREMENTS: dict[str, Callable[[], object]] = {
    "runs": measure_runs,
    "steps": measure_steps,
    "noise": measure_noise,
    "many": measure_many,
} | {f"memory-{index}": partial(measure_memory, index) for index in range(len(MEMORY_RUNS))}


def in_process(measurement: str, threads: int) -> Any:
    """One of the measurements, in a process of its own with this many threads."""
    command = [sys.executable, "-W", "ignore", "-m", "benches.compare.accounting", "--measure", measurement]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    top = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=top, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def readable(seconds: float) -> str:
    """Seconds or milliseconds, three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def print_runs() -> None:
    """Print epsilon and time of every run beside the peers'."""
    print("| run | | hockeystick | ε | peer | | times ours | its ε less ours |")
    print("| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for (run, _), result in zip(RUNS, in_process("runs", 1), strict=True):
        ours = f"{run.name} | {run.parameters} | {readable(result['seconds'])} | {result['epsilon']:.7g}"
        for peer in result["peers"] or [None]:
            if peer is None:
                print(f"| {ours} | | | | |")
                continue
            ratio, difference = peer["seconds"] / result["seconds"], peer["epsilon"] - result["epsilon"]
            seconds = readable(peer["seconds"])
            print(f"| {ours} | {peer['name']} | {seconds} | {ratio:,.0f} | {difference:+.2g} |")
            ours = "| | |"
    print()


def print_steps() -> None:
    """Print the time at every number of steps."""
    print("σ 1, k 1, δ 1e-05, by number of steps:\n")
    print("| T | q 0.01 | ε | q 0.01 · √(1000 / T) | ε |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    results = in_process("steps", 1)
    for result in results:
        columns = " | ".join(f"{readable(seconds)} | {epsilon:.6g}" for seconds, epsilon in result["runs"])
        print(f"| {result['steps']:,} | {columns} |")
    for column, rate in enumerate(("q 0.01", "the falling q")):
        times = [result["runs"][column][0] for result in results]
        print(f"\nslowest over fastest at {rate}: {max(times) / min(times):.1f}", end="")
    print("\n")


def print_noise() -> None:
    """Print the time of the search for the noise."""
    result = in_process("noise", 1)
    run = f"q {ONE_RECORD.sample_rate:g}, T {ONE_RECORD.steps:,}, ε {NOISE_TARGET:g}, δ {ONE_RECORD.delta:g}"
    print(f"get_noise_multiplier at {run}:\n")
    print("| | time | σ |")
    print("| --- | ---: | ---: |")
    print(f"| k {NOISE_GROUP} | {readable(result['seconds'])} | {result['noise']:.6f} |")
    print(f"| k 1 | {readable(result['one_seconds'])} | {result['one_noise']:.6f} |")
    if "peer" in result:
        seconds, noise = result["peer"]
        print(f"| Opacus's search with PRV, k 1 | {readable(seconds)} | {noise:.6f} |")
        ratio = f"{seconds / result['seconds']:,.0f}"
        print(f"\nOpacus's search for one record takes {ratio} times as long as ours for {NOISE_GROUP}.")
    print()


def print_many(threads: int) -> None:
    """Print the time of one call with many configurations."""
    result = in_process("many", threads)
    ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in RANGES.items())
    print(
        f"{CONFIGURATIONS:,} random configurations in one call ({ranges}), {threads} threads: "
        f"{readable(result['seconds'])}; {result['wide']} intervals wider than asked for.\n"
    )


def print_memory() -> None:
    """Print the peak memory of a process that answers one question."""
    if sys.platform == "win32":
        print("peak memory is not measured on Windows")
        return
    print("Peak memory of a process that answers one question, Python and NumPy included:\n")
    print("| run | | MB |")
    print("| --- | --- | ---: |")
    for index, run in enumerate(MEMORY_RUNS):
        print(f"| {run.name} | {run.parameters} | {in_process(f'memory-{index}', 1):.0f} |")


def main() -> None:
    """Print every table of this benchmark."""
    print("get_epsilon from nothing, one thread, beside other accountants; medians of warm calls\n")
    versions = {package: installed_version(package) for package in PACKAGES}
    for package, version in versions.items():
        print(f"{package} {version}" if version else f"{package} is not installed: left out")
    print()
    print_runs()
    print_steps()
    print_noise()
    print_many(os.cpu_count() or 1)
    print_memory()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=MEASUREMENTS, help="print one measurement as JSON")
    chosen = parser.parse_args().measure
    if chosen:
        print(json.dumps(MEASUREMENTS[chosen]()))
    else:
        main()
