"""Speed and epsilon of hockeystick beside Opacus and dp_accounting, as Markdown tables.

Times are of warm calls: one call that is not counted, then as many as fit a budget, of which the median and
the shortest are shown; the ratio is of the medians. They are processor times, as other work on the machine
would lengthen elapsed ones. All accountants run in one process with one thread; the
call with 10,000 configurations has a process of its own with every core, and each answer whose memory is
measured has one too. Peers that are not installed are left out, with a line saying so.
"""

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import hockeystick as hs
from benches.compare import accounting_peers as peers
from benches.compare.machine import describe_machine
from benches.compare.monte_carlo import Array

Result = TypeVar("Result")

DELTA = 1e-5
BUDGET = 1.0  # seconds of counted calls
MOST_CALLS = 101
CONFIGURATIONS = 10_000
TIME_COLUMNS = ("median", "shortest", "calls", "ratio")
THREAD_SETTINGS = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    """A training run whose epsilon at DELTA is asked, and which peers answer."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    group_size: int = 1
    opacus: bool = False
    interval: float | None = None  # of dp_accounting's grid

    def __str__(self) -> str:
        """Give what is run, in the symbols of the documentation."""
        return (
            f"k {self.group_size}, σ {self.noise_multiplier:g}, q {self.sample_rate:g}, "
            f"T {self.steps if self.steps < 10_000 else f'{self.steps:.0e}'.replace('e+0', 'e')}"
        )

    def hockeystick(self) -> tuple[float, float]:
        """Certified interval of epsilon."""
        lower, upper = hs.get_epsilon(
            delta=DELTA,
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.sample_rate,
            steps=self.steps,
            group_size=self.group_size,
            bounds=True,
        )
        return float(lower), float(upper)

    def peers(self) -> dict[str, Callable[[], float]]:
        """Questions to the peers that are installed, by name."""
        missing = peers.missing()
        calls: dict[str, Callable[[], float]] = {}
        if self.opacus and "opacus" not in missing:
            calls["Opacus PRV"] = partial(
                peers.opacus_epsilon, self.noise_multiplier, self.sample_rate, self.steps, DELTA
            )
        if self.interval is not None and "dp-accounting" not in missing:
            kind = "PLD" if self.group_size == 1 else "mixture PLD"
            calls[f"dp_accounting {kind}, interval {self.interval:g}"] = partial(
                peers.dp_accounting_epsilon,
                self.noise_multiplier,
                peers.binomial_weights(self.group_size, self.sample_rate),
                self.steps,
                DELTA,
                self.interval,
            )
        return calls


RUNS = (
    Run(1.0, 0.01, 1000, opacus=True, interval=1e-4),
    Run(1.0, 0.01, 1000, 16, interval=1e-3),
    Run(1.0, 0.01, 1000, 256, interval=1e-2),
    Run(1.0, 0.01, 10, 4, interval=1e-3),
    Run(0.3, 0.001, 1000, 64, interval=1e-2),
)

LONG_RUNS = tuple(
    Run(1.0, 0.01, steps, opacus=steps <= 10_000, interval=1e-4 if steps <= 1_000_000 else None)
    for steps in (10**exponent for exponent in range(2, 10))
)

TARGET_EPSILON = 8.0
TARGET_SAMPLE_RATE = 0.01
TARGET_STEPS = 1000
TARGET_GROUP_SIZES = (1, 8)

HEAVY_RUNS = (
    *RUNS,
    LONG_RUNS[-1],
    Run(1.0, 0.01, 1000, 10_000),
    Run(0.05, 0.1, 500, 64),
)
"""Answers whose memory is measured: those that are timed, and extremes of the supported range."""


@dataclass(frozen=True)
class Timing:
    """Processor times of warm calls of one question, in seconds."""

    median: float
    shortest: float
    calls: int


def measure(call: Callable[[], Result]) -> tuple[Timing, Result]:
    """Call once uncounted, then until the budget is spent; the times and the last answer."""
    call()
    times: list[float] = []
    while True:
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
        if sum(times) >= BUDGET or len(times) >= MOST_CALLS:
            return Timing(statistics.median(times), min(times), len(times)), result


def duration(seconds: float) -> str:
    """Three digits, in milliseconds or seconds."""
    scale, unit = (1e3, "ms") if seconds < 1 else (1.0, "s")
    value = scale * seconds
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f} {unit}"


def print_heading(*names: str, left: int) -> None:
    """Print the first two lines of a Markdown table, its first columns aligned to the left."""
    print(f"| {' | '.join(names)} |")
    print(f"| {' | '.join('---' if column < left else '---:' for column in range(len(names)))} |")


def print_row(*cells: str) -> None:
    """Print one line of a Markdown table at once, as a long table takes minutes."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_timing(run: str, accountant: str, timing: Timing, ours: Timing, *answer: str) -> None:
    """Print the line of one accountant."""
    ratio = "" if timing is ours else f"{timing.median / ours.median:,.0f}"
    times = (duration(timing.median), duration(timing.shortest), str(timing.calls))
    print_row(run, accountant, *times, ratio, *answer)


def print_runs(runs: Iterable[Run]) -> None:
    """Time every run with every accountant that answers it."""
    print_heading("run", "accountant", *TIME_COLUMNS, "ε", "ε above ours", left=2)
    for run in runs:
        ours, (lower, upper) = measure(run.hockeystick)
        print_timing(
            str(run), "hockeystick", ours, ours, f"{upper:.9g}", f"certified within {upper - lower:.1e}"
        )
        for name, call in run.peers().items():
            timing, epsilon = measure(call)
            print_timing("", name, timing, ours, f"{epsilon:.9g}", f"{epsilon - upper:+.1e}")
    print()


def noise_multiplier(group_size: int) -> tuple[float, float]:
    """Certified bracket of the smallest noise multiplier that meets the target."""
    lower, upper = hs.get_noise_multiplier(
        epsilon=TARGET_EPSILON,
        delta=DELTA,
        sample_rate=TARGET_SAMPLE_RATE,
        steps=TARGET_STEPS,
        group_size=group_size,
        bounds=True,
    )
    return float(lower), float(upper)


def print_noise_multipliers() -> None:
    """Time the search for the noise; the ratio is to our search for the same group size or a larger one."""
    print(
        f"The smallest noise multiplier for ε {TARGET_EPSILON:g}, q {TARGET_SAMPLE_RATE:g}, "
        f"T {TARGET_STEPS}; Opacus's search is for one record, beside each of ours:\n"
    )
    print_heading("run", "search", *TIME_COLUMNS, "σ", "σ above ours at k 1", left=2)
    searches = {size: measure(partial(noise_multiplier, size)) for size in TARGET_GROUP_SIZES}
    opacus = None
    if "opacus" not in peers.missing():
        question = (TARGET_EPSILON, DELTA, TARGET_SAMPLE_RATE, TARGET_STEPS)
        opacus = measure(partial(peers.opacus_noise_multiplier, *question))
    _, smallest = searches[1][1]
    for group_size, (ours, (lower, upper)) in searches.items():
        answer = (f"{upper:.9g}", f"certified within {upper - lower:.1e}")
        print_timing(f"k {group_size}", "hockeystick", ours, ours, *answer)
        if opacus is not None:
            timing, sigma = opacus
            print_timing("k 1", "Opacus PRV", timing, ours, f"{sigma:.9g}", f"{sigma - smallest:+.1e}")
    print()


def print_answers() -> None:
    """Print the tables of single answers; run with one thread."""
    print(f"One thread, processor time, δ = {DELTA:g}, Poisson sampling, records added or removed.\n")
    print_runs(RUNS)
    print("The number of steps:\n")
    print_runs(LONG_RUNS)
    print_noise_multipliers()


def print_many() -> None:
    """Time one call with many random configurations; run with every core."""
    random = np.random.default_rng(1)

    def spread(smallest: float, largest: float) -> Array:
        return np.exp(random.uniform(math.log(smallest), math.log(largest), CONFIGURATIONS))

    noise, rates, delta = spread(0.5, 10.0), spread(1e-4, 0.1), spread(1e-10, 1e-3)
    steps, sizes = spread(100, 1e5).astype(np.int64), spread(1, 65).astype(np.int64)
    start, start_processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)  # what it says is printed below
        lower, upper = hs.get_epsilon(
            delta=delta, noise_multiplier=noise, sample_rate=rates, steps=steps, group_size=sizes, bounds=True
        )
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - start_processor
    upper = np.asarray(upper)
    widths = (upper - lower) / np.where(upper > 0, upper, 1)  # epsilon may be exactly zero
    print(
        f"One call with {CONFIGURATIONS:,} random configurations (logarithms uniform: σ 0.5 to 10, "
        f"q 0.0001 to 0.1, T 100 to 100,000, k 1 to 64, δ 1e-10 to 1e-3), {os.cpu_count()} threads, called "
        f"once: {duration(seconds)} elapsed, {duration(processor_seconds)} of processor time on all cores. "
        f"Relative width of the interval: median {np.median(widths):.1e}, largest {np.max(widths):.1e}, "
        f"at most 1e-6 for {np.mean(widths <= 1e-6):.2%}.\n"
    )


def peak_megabytes() -> float:
    """Most memory that this process has held so far, in 1e6 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def print_peak(index: int) -> None:
    """Print the peak of this process before and after one answer, for the process that asked."""
    before = peak_megabytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.WideIntervalWarning)
        HEAVY_RUNS[index].hockeystick()
    print(before, peak_megabytes())


def print_memory() -> None:
    """Measure the memory of single answers, each in a process of its own."""
    print("Peak memory of a process that gives one answer, Python and NumPy included:\n")
    print_heading("run", "before the answer", "peak", left=1)
    for index, run in enumerate(HEAVY_RUNS):
        printed = in_process("--peak", str(index), threads=1, stdout=subprocess.PIPE)
        print_row(str(run), *(f"{float(megabytes):.0f} MB" for megabytes in printed.split()))
    print()


def in_process(*arguments: str, threads: int, stdout: int | None = None) -> str:
    """Run a part of this benchmark in a fresh process with this many threads; what it printed, if piped."""
    sys.stdout.flush()
    done = subprocess.run(
        [sys.executable, "-m", "benches.compare.accounting", *arguments],
        env={**os.environ, **dict.fromkeys(THREAD_SETTINGS, str(threads))},
        cwd=Path(__file__).parents[2],
        check=True,
        stdout=stdout,
        text=True,
    )
    return done.stdout or ""


PARTS = {"answers": print_answers, "many": print_many}


def main() -> None:
    """Print every table of this benchmark."""
    if peers.versions():
        print(f"Beside {peers.versions()}.\n")
    for distribution in peers.missing():
        print(f"{distribution} is not installed and left out; `pip install '.[bench]'` has it.\n")
    in_process("--part", "answers", threads=1)
    in_process("--part", "many", threads=os.cpu_count() or 1)
    print_memory()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="print this part alone, in this process")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak is not None:
        print_peak(options.peak)
    elif options.part is not None:
        PARTS[options.part]()
    else:
        print(f"{describe_machine()}\n")
        main()
