"""Speed of ``kernels.monte_carlo_delta`` beside NumPy doing the same sum, and beside drawing normals alone.

Every figure is the shortest of several repetitions, in nanoseconds per sample and step. Kernel and NumPy take
turns in one process; that process is started once for every number of threads, because the kernel's thread
pool is made once. NumPy's ufuncs use one thread whatever the setting.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benches.compare import numpy_monte_carlo
from hockeystick import kernels

Array = NDArray[np.float64]

SAMPLE_RATE = 0.01
NOISE_MULTIPLIER = 1.0
STEPS = 10
EPSILON = 2.0
GROUP_SIZE = 16
GROUP_SIZES = (1, 4, 16, 64, 256)
KERNEL_SAMPLES = 1 << 22
NUMPY_SAMPLES = 1 << 17
NUMPY_CHUNKS = (2_048, 65_536)  # arrays that fit the processor's caches, and arrays that do not
REPEATS = 3
CASES = [(direction, tilt) for direction in ("add", "remove") for tilt in (0.0, None)]


def binomial_weights(group_size: int) -> tuple[Array, Array]:
    """Weights and shifts of the mixture for a group under Poisson sampling."""
    weights = [
        comb(group_size, j) * SAMPLE_RATE**j * (1 - SAMPLE_RATE) ** (group_size - j)
        for j in range(group_size + 1)
    ]
    return np.array(weights), np.arange(group_size + 1, dtype=np.float64)


def kernel_call(direction: str, tilt: float | None, group_size: int, samples: int = KERNEL_SAMPLES) -> None:
    """Run our kernel once."""
    weights, shifts = binomial_weights(group_size)
    kernels.monte_carlo_delta(
        EPSILON,
        weights,
        shifts,
        NOISE_MULTIPLIER,
        STEPS,
        samples=samples,
        direction=direction,
        tilt=tilt,
        seed=1,
    )


def numpy_call(direction: str, chunk: int) -> None:
    """Run the NumPy version once."""
    weights, shifts = binomial_weights(GROUP_SIZE)
    numpy_monte_carlo.monte_carlo_delta(
        EPSILON,
        weights,
        shifts,
        NOISE_MULTIPLIER,
        STEPS,
        samples=NUMPY_SAMPLES,
        direction=direction,
        seed=1,
        chunk=chunk,
    )


def normals_call() -> None:
    """Draw as many standard normals as the NumPy version uses, into one buffer."""
    random = np.random.default_rng(1)
    buffer = np.empty(NUMPY_CHUNKS[0] * STEPS)
    for _ in range(NUMPY_SAMPLES // NUMPY_CHUNKS[0]):
        random.standard_normal(out=buffer)


def shortest(calls: dict[str, tuple[Callable[[], None], int]]) -> dict[str, float]:
    """Shortest time of each call in ns per sample and step; the calls take turns."""
    seconds = dict.fromkeys(calls, np.inf)
    for _ in range(REPEATS):
        for name, (call, _samples) in calls.items():
            start = time.perf_counter()
            call()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return {name: 1e9 * seconds[name] / (samples * STEPS) for name, (_, samples) in calls.items()}


def kernel_name(direction: str, tilt: float | None) -> str:
    """Key of a kernel timing."""
    return f"{direction}, tilt {tilt}"


def measure_beside_numpy() -> dict[str, float]:
    """Time kernel, NumPy and the normals at one group size."""
    calls: dict[str, tuple[Callable[[], None], int]] = {
        "normals": (normals_call, NUMPY_SAMPLES),
        "one sample": (partial(kernel_call, "remove", 0.0, GROUP_SIZE, samples=1), 1),
    }
    for direction in ("add", "remove"):
        for chunk in NUMPY_CHUNKS:
            calls[f"{direction}, numpy {chunk}"] = (partial(numpy_call, direction, chunk), NUMPY_SAMPLES)
    for direction, tilt in CASES:
        calls[kernel_name(direction, tilt)] = (
            partial(kernel_call, direction, tilt, GROUP_SIZE),
            KERNEL_SAMPLES,
        )
    return shortest(calls)


def measure_group_sizes() -> dict[str, float]:
    """Time the kernel at every group size."""
    return shortest(
        {
            f"{kernel_name(direction, tilt)}, k {size}": (
                partial(kernel_call, direction, tilt, size),
                KERNEL_SAMPLES,
            )
            for direction, tilt in CASES
            for size in GROUP_SIZES
        }
    )


MEASUREMENTS = {"beside-numpy": measure_beside_numpy, "group-sizes": measure_group_sizes}


def measure_in_process(measurement: str, threads: int) -> dict[str, float]:
    """Run one of the measurements in a process of its own with this many threads."""
    command = [sys.executable, "-m", "benches.compare.monte_carlo", "--measure", measurement]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    top = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=top, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def print_beside_numpy(threads: int) -> None:
    """Print the kernel's times and how many times longer NumPy takes."""
    times = measure_in_process("beside-numpy", threads)
    start_up = times["one sample"] * STEPS / 1e6
    print(f"kernel threads: {threads}; drawing the normals alone in NumPy: {times['normals']:.2f} ns")
    print(f"kernel with a single sample (set-up, contained in the figures below): {start_up:.1f} ms")
    heading = "".join(f"{f'NumPy, {chunk:,} at a time':>26}{'ratio':>8}" for chunk in NUMPY_CHUNKS)
    print(f"{'direction, tilt':<20}{'kernel':>9}{heading}{'kernel / normals':>18}")
    for direction, tilt in CASES:
        kernel = times[kernel_name(direction, tilt)]
        peers = [times[f"{direction}, numpy {chunk}"] for chunk in NUMPY_CHUNKS]
        columns = "".join(f"{peer:>23.1f} ns{peer / kernel:>7.1f}x" for peer in peers)
        beside_normals = f"{kernel / times['normals']:>17.2f}x"
        print(f"{kernel_name(direction, tilt):<20}{kernel:>6.2f} ns{columns}{beside_normals}")
    print()


def print_group_sizes() -> None:
    """Print the kernel's time at every group size and the slope of a line fitted to it."""
    times = measure_in_process("group-sizes", 1)
    print("one thread, ns per sample and step at group size k, and the slope in k of the line fitted to them")
    heading = "".join(f"{f'k = {size}':>10}" for size in GROUP_SIZES)
    print(f"{'direction, tilt':<20}{heading}{'slope':>12}")
    for direction, tilt in CASES:
        costs = [times[f"{kernel_name(direction, tilt)}, k {size}"] for size in GROUP_SIZES]
        slope = np.polyfit(GROUP_SIZES, costs, 1)[0]
        columns = "".join(f"{cost:>10.2f}" for cost in costs)
        print(f"{kernel_name(direction, tilt):<20}{columns}{slope:>9.3f} ns")


def main() -> None:
    """Print every table of this benchmark."""
    print(
        f"monte_carlo_delta at epsilon = {EPSILON}, q = {SAMPLE_RATE}, sigma = {NOISE_MULTIPLIER}, "
        f"T = {STEPS}, k = {GROUP_SIZE}"
    )
    print(f"ns per sample and step; {KERNEL_SAMPLES:,} samples by the kernel, {NUMPY_SAMPLES:,} by NumPy\n")
    for threads in (1, 2):
        print_beside_numpy(threads)
    print_group_sizes()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=MEASUREMENTS, help="print one measurement as JSON")
    chosen = parser.parse_args().measure
    if chosen:
        print(json.dumps(MEASUREMENTS[chosen]()))
    else:
        main()
