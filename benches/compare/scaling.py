"""What a worker more brings, and what an example, an order and a step cost, as Markdown tables.

Workers are processes with one thread each. Weak scaling gives every worker as much work as a single one had,
strong scaling divides the work of a single one.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np

import hockeystick as hs
from benches.compare.machine import describe_machine
from hockeystick import distributed, kernels
from hockeystick.accountants import IndividualAccountant

NOISE, RATE, DELTA = 1.0, 0.01, 1e-5
LAW = kernels.binomial_law(4, RATE)
ORDERS = IndividualAccountant(1).orders

Task = Callable[[Executor, int], object]


def seconds(task: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def one_thread() -> None:
    """Keep a worker to one thread; the core looks when it first computes."""
    os.environ["RAYON_NUM_THREADS"] = "1"


def simulate(samples: int, executor: Executor | None = None) -> object:
    """Draw some samples of 1,000 steps."""
    return kernels.monte_carlo_delta(
        2.0, *LAW, NOISE, 1_000, samples=samples, direction="remove", seed=1, executor=executor
    )


def draw(executor: Executor, size: int) -> object:
    """Monte Carlo: 200,000 samples of 1,000 steps for each unit of work."""
    return simulate(200_000 * size, executor)


def sweep(executor: Executor, size: int) -> object:
    """Sweep: 200 noise multipliers for each unit of work."""
    noise = np.linspace(0.8, 3.0, 200 * size)
    return hs.get_epsilon(
        delta=DELTA, noise_multiplier=noise, sample_rate=RATE, steps=1_000, group_size=4, executor=executor
    )


def accounts(examples: int, refreshes: int = 4) -> IndividualAccountant:
    """Accounts after 2,000 steps."""
    norms = np.random.default_rng(1).uniform(0.05, 1.0, (examples, refreshes))
    return distributed.account(norms, [(NOISE, RATE, 2_000 // refreshes)] * refreshes)


@cache
def kept_accounts(size: int) -> IndividualAccountant:
    """Accounts that are asked more than once."""
    return accounts(16_000 * size)


def ask(executor: Executor, size: int) -> object:
    """Exact epsilons: 16,000 examples for each unit of work."""
    return kept_accounts(size).get_epsilons(DELTA, executor=executor)


def partition(size: int, seed: int) -> int:
    """Rényi accounts of a partition, for twenty refreshes; the accounts stay where they are."""
    norms = np.random.default_rng(seed).random((size, 20))
    return int(distributed.accumulate(norms, [(NOISE, RATE, 100)] * 20).nbytes)


def accumulate(executor: Executor, size: int) -> object:
    """Rényi accounts: four partitions of 2,000 examples for each unit of work."""
    return list(executor.map(partition, [2_000] * 4 * size, range(4 * size)))


TASKS: dict[str, Task] = {
    "Monte Carlo, `monte_carlo_delta`": draw,
    "sweep, `get_epsilon`": sweep,
    "exact ε, `get_epsilons`": ask,
    "Rényi accounts, `distributed.accumulate`": accumulate,
}


def timed(task: Task, workers: int, size: int, repetitions: int) -> tuple[float, float]:
    """Smallest time of some, by workers that have done such work before; and processor time of each."""
    context = multiprocessing.get_context("spawn")
    before = processor_time()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=one_thread) as executor:
        task(executor, size)
        shortest = min(seconds(lambda: task(executor, size)) for _ in range(repetitions))
    return shortest, (processor_time() - before) / (1 + repetitions)


def processor_time() -> float:
    """Seconds that this process and those of its children that have ended used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def scaling(repetitions: int) -> None:
    """Print weak and strong scaling from one worker to two: elapsed time, and processor time in brackets."""
    print("| work | 1 worker, s | 2 workers, s | 2 workers, twice the work, s | CPU, strong | CPU, weak |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, task in TASKS.items():
        found = [timed(task, workers, size, repetitions) for workers, size in ((1, 1), (2, 1), (2, 2))]
        times = " | ".join(f"{elapsed:.2f} ({used:.2f})" for elapsed, used in found)
        (_, one), (_, strong), (_, weak) = found
        print(f"| {name} | {times} | {one / strong:.0%} | {2.0 * one / weak:.0%} |", flush=True)


def renyi_costs() -> None:
    """Print the cost of `accumulate_rdp` by examples, orders and steps."""
    print("| `accumulate_rdp`: examples, orders, steps with these norms | ms | ns an example and order |")
    print("| --- | --- | --- |")
    rng = np.random.default_rng(1)
    for examples, orders, steps in (
        (10_000, len(ORDERS), 1),
        (100_000, len(ORDERS), 1),
        (100_000, len(ORDERS), 1_000_000),
        (100_000, 30, 1),
    ):
        chosen, norms = ORDERS[-orders:], rng.random(examples)
        rdp = np.zeros((examples, orders))
        call = partial(kernels.accumulate_rdp, rdp, norms, chosen, NOISE, RATE, steps=steps)
        call()
        took = min(seconds(call) for _ in range(5))
        per = took / examples / orders * 1e9
        print(f"| {examples:,}, {orders}, {steps:,} | {took * 1e3:.1f} | {per:.2f} |")


def whole_run(steps: int) -> object:
    """Epsilon of any example."""
    return hs.get_epsilon(delta=DELTA, noise_multiplier=NOISE, sample_rate=1e-3, steps=steps)


def other_costs() -> None:
    """Print what everything else costs."""
    rows = []
    examples = 20_000
    exact = accounts(examples, 1)
    norms = np.random.default_rng(2).uniform(0.05, 1.0, (10, examples))

    def refresh() -> None:
        for row in norms:
            exact.update_norms(row)
            exact.step(noise_multiplier=NOISE, sample_rate=RATE)

    rows.append(("exact account: a refresh", seconds(refresh) / len(norms) / examples * 1e9, "ns an example"))
    kept = kept_accounts(1)
    took = min(seconds(lambda: kept.get_epsilons(DELTA)) for _ in range(2))
    rows.append(("exact account: ε", took / kept.dataset_size * 1e6, "µs an example"))
    saved = len(json.dumps(kept.state_dict())) / kept.dataset_size
    rows.append(("exact account: saved, 4 refreshes", saved, "bytes an example"))
    rdp = distributed.accumulate(norms[0], [(NOISE, RATE, 100)])
    took = min(seconds(lambda: kernels.rdp_to_epsilon(ORDERS, rdp, DELTA)) for _ in range(3))
    rows.append(("Rényi account: ε", took / examples * 1e6, "µs an example"))
    rows.append(("Rényi account: kept", rdp.nbytes / examples, "bytes an example"))
    with tempfile.TemporaryDirectory() as folder:
        store = np.lib.format.open_memmap(Path(folder) / "rdp.npy", "w+", np.float64, (100_000, len(ORDERS)))
        many = np.random.default_rng(3).random(100_000)

        def fill() -> None:
            distributed.accumulate(many, [(NOISE, RATE, 1)], rdp=store)
            store.flush()

        fill()
        rows.append(("memory-mapped accounts: a refresh", seconds(fill) / 100_000 * 1e9, "ns an example"))
    took = seconds(partial(simulate, 200_000))
    rows.append(("Monte Carlo, all cores", took / 200_000 / 1_000 * 1e9, "ns a sample and step"))
    for steps in (1_000, 1_000_000):
        took = seconds(partial(whole_run, steps))
        rows += [(f"`get_epsilon`, {steps:,} steps", took * 1e3, "ms")]
    print("| cost | | |")
    print("| --- | --- | --- |")
    for name, value, unit in rows:
        print(f"| {name} | {value:,.3g} | {unit} |")


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args(arguments)
    renyi_costs()
    print()
    other_costs()
    print()
    scaling(given.repetitions)


if __name__ == "__main__":
    print(describe_machine())
    print()
    main()
