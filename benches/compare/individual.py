"""Cost of individual accounting (INDIVIDUAL, Table 1) beside the formula of its authors, as a Markdown table.

The peer is Opacus's ``compute_rdp``, one call for each pair of a norm and a step, as the authors do it; it is
timed on a few norms and scaled. Without Opacus only this library's times are printed.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from benches.compare.machine import describe_machine
from hockeystick import kernels
from hockeystick.accountants import IndividualAccountant

ORDERS = np.concatenate((1.0 + np.arange(1, 100) / 10.0, np.arange(12.0, 63.0)))
NOISE_MULTIPLIER, SAMPLE_RATE, DELTA = 2.0, 0.08, 1e-5
EXAMPLES, REFRESHES = 50_000, 200
PEER_NORMS = 20


def seconds(task: Callable[[], object]) -> float:
    """Wall-clock time of one call: all cores work on it."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def accumulate(rounded: bool) -> float:
    """Seconds for all refreshes, of different norms in each."""
    rng = np.random.default_rng(1)
    rdp = np.zeros((EXAMPLES, len(ORDERS)))
    total = 0.0
    for _ in range(REFRESHES):
        norms = rng.random(EXAMPLES)
        if rounded:
            norms = np.ceil(norms * 100) / 100
        total += seconds(partial(kernels.accumulate_rdp, rdp, norms, ORDERS, NOISE_MULTIPLIER, SAMPLE_RATE))
    return total


def exact(examples: int = 60_000, refreshes: int = 25, steps: int = 200) -> tuple[float, float, float, float]:
    """Seconds to keep and to read exact accounts; MB in use before that, and how many more for that."""
    rng = np.random.default_rng(1)
    accountant = IndividualAccountant(examples)
    usual = rng.random(examples)
    kept = 0.0
    for _ in range(refreshes):
        norms = 0.7 * usual + 0.3 * rng.random(examples) ** 2

        def refresh(norms: np.ndarray = norms) -> None:
            accountant.update_norms(norms)
            for _ in range(steps):
                accountant.step(noise_multiplier=NOISE_MULTIPLIER, sample_rate=SAMPLE_RATE)

        kept += seconds(refresh)
    before = megabytes("VmRSS")
    read = seconds(lambda: accountant.get_epsilons(DELTA))
    return kept, read, before, megabytes("VmHWM") - before


def megabytes(entry: str) -> float:
    """Memory of this process: "VmRSS" now, "VmHWM" at most so far."""
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except FileNotFoundError:  # not Linux
        return float("nan")
    [line] = [line for line in status.splitlines() if line.startswith(f"{entry}:")]
    return int(line.split()[1]) / 1024


def peer() -> float | None:
    """Seconds that Opacus would take for all refreshes without rounding; None without Opacus."""
    try:
        compute_rdp = import_module("opacus.accountants.analysis.rdp").compute_rdp
    except ImportError:
        return None
    norms = np.random.default_rng(1).random(PEER_NORMS)

    def all_norms() -> None:
        for norm in norms:
            compute_rdp(q=SAMPLE_RATE, noise_multiplier=NOISE_MULTIPLIER / norm, steps=1, orders=ORDERS)

    return seconds(all_norms) * EXAMPLES * REFRESHES / PEER_NORMS


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, help="only the exact accounts of so many examples")
    options = parser.parse_args(arguments)
    if options.examples is not None:
        kept, read, before, more = exact(options.examples)
        print(
            f"{options.examples:,} exact accounts, 25 refreshes, 5,000 steps: {kept:.1f} s to keep, "
            f"{read:.1f} s for `get_epsilons`; {before:,.0f} MB, and {more:,.0f} MB more while it runs"
        )
        return
    distinct, rounded, theirs = accumulate(False), accumulate(True), peer()
    kept, read, *_ = exact()
    print(f"{EXAMPLES:,} examples, {REFRESHES} refreshes, {len(ORDERS)} orders")
    print()
    print("| task | seconds | ratio to Opacus's formula |")
    print("| --- | --- | --- |")
    if theirs is not None:
        print(f"| Opacus, each norm on its own (from {PEER_NORMS} norms) | {theirs:,.0f} | 1 |")
    ratio = "" if theirs is None else f"{theirs / distinct:,.0f} times as fast"
    print(f"| `accumulate_rdp`, norms as they are | {distinct:.2f} | {ratio} |")
    print(f"| `accumulate_rdp`, norms rounded to 100 levels | {rounded:.2f} | |")
    print(f"| 60,000 exact accounts, 25 refreshes, 5,000 steps: to keep | {kept:.2f} | |")
    print(f"| the same: `get_epsilons` | {read:.2f} | |")


if __name__ == "__main__":
    print(describe_machine())
    print()
    main()
