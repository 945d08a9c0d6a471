"""One table of everything, side by side with the peers: ``python -m benches.compare.table``.

Every question is put to hockeystick and to its peers in one process with one thread; what is kept is the
median of warm calls in processor time. With ``--write`` the table goes into docs/benchmarks.md, between two
comments; every peer must then be installed.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

import hockeystick as hs
from benches.compare import accounting_peers as peers
from benches.compare import import_cost, monte_carlo, numpy_monte_carlo, renyi
from benches.compare.accounting import (
    DELTA,
    RUNS,
    TARGET_EPSILON,
    TARGET_SAMPLE_RATE,
    TARGET_STEPS,
    THREAD_SETTINGS,
    duration,
    measure,
    noise_multiplier,
)
from benches.compare.individual import NOISE_MULTIPLIER, ORDERS, PEER_NORMS, SAMPLE_RATE
from benches.compare.machine import describe_machine
from hockeystick import kernels

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN = "<!-- written by `make bench`: begin -->"
END = "<!-- written by `make bench`: end -->"

COLUMNS = (
    "question",
    "ours",
    "peer",
    "peer's time",
    "ratio",
    "our answer",
    "peer's less ours",
    "certified width",
)

STEPS = 1000
INTERVAL = 1e-4
BATCH_SIZE, DATASET_SIZE = 100, 10_000
MONTE_CARLO_SAMPLES = 1 << 16
RENYI_ORDERS = np.array([2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
RENYI_NOISE, RENYI_SIZE = 15.24, 16
NORMS = 2_000
PEER_STARTS = 3  # of imports that take seconds


@dataclass(frozen=True)
class Question:
    """What is asked of everyone."""

    text: str
    ours: Callable[[], tuple[float, float]]
    """Both ends of our answer."""
    peers: dict[str, Callable[[], float]]
    symbol: str = "ε"
    width: str | None = None
    """What stands in the last column, in place of the width of our interval."""
    share: float = 1.0
    """Part of the question that the peers are asked, as the whole would take too long."""


def run_question(index: int, text: str) -> Question:
    """One of the runs of `benches.compare.accounting`."""
    run = RUNS[index]
    return Question(f"{text}: {run}", run.hockeystick, run.peers())


def fixed_batch_epsilon() -> tuple[float, float]:
    """Certified interval of epsilon for batches of fixed size."""
    sampling = hs.WithoutReplacement(BATCH_SIZE, DATASET_SIZE)
    lower, upper = hs.get_epsilon(
        delta=DELTA, noise_multiplier=1.0, sampling=sampling, steps=STEPS, bounds=True
    )
    return float(lower), float(upper)


def replaced_epsilon() -> tuple[float, float]:
    """Certified interval of epsilon where one record is replaced."""
    lower, upper = hs.get_epsilon(
        delta=DELTA, noise_multiplier=1.0, sample_rate=0.01, steps=STEPS, adjacency="replace", bounds=True
    )
    return float(lower), float(upper)


def accounting_questions() -> Iterator[Question]:
    """Exact answers beside dp-accounting and Opacus."""
    yield run_question(0, "one record")
    yield run_question(1, "group")
    calls: dict[str, Callable[[], float]] = {}
    if "dp-accounting" not in peers.missing():
        mixture = partial(
            peers.dp_accounting_fixed_batch_epsilon, 1.0, BATCH_SIZE, DATASET_SIZE, STEPS, DELTA, INTERVAL
        )
        calls = {f"dp_accounting mixture PLD, interval {INTERVAL:g}": mixture}
    yield Question(
        f"fixed batch: {BATCH_SIZE} of {DATASET_SIZE:,}, σ 1, T {STEPS}", fixed_batch_epsilon, calls
    )
    if calls:
        pld = partial(peers.dp_accounting_replaced_epsilon, 1.0, 0.01, STEPS, DELTA, INTERVAL)
        calls = {f"dp_accounting PLD, interval {INTERVAL:g}": pld}
    yield Question(f"replacement: k 1, σ 1, q 0.01, T {STEPS}", replaced_epsilon, calls)
    calls = {}
    if "opacus" not in peers.missing():
        target = (TARGET_EPSILON, DELTA, TARGET_SAMPLE_RATE, TARGET_STEPS)
        calls = {"Opacus PRV": partial(peers.opacus_noise_multiplier, *target)}
    text = f"calibration: ε {TARGET_EPSILON:g}, q {TARGET_SAMPLE_RATE:g}, T {TARGET_STEPS}"
    yield Question(text, partial(noise_multiplier, 1), calls, symbol="σ")


def monte_carlo_question() -> Question:
    """Delta of sixteen records by simulation, not tilted."""
    law = monte_carlo.binomial_weights(monte_carlo.GROUP_SIZE)
    question = (monte_carlo.EPSILON, *law, monte_carlo.NOISE_MULTIPLIER, monte_carlo.STEPS)

    def ours() -> tuple[float, float]:
        found = kernels.monte_carlo_delta(
            *question, samples=MONTE_CARLO_SAMPLES, direction="remove", tilt=0.0, seed=1
        )
        return float(found.lower), float(found.upper)

    def numpy() -> float:
        return numpy_monte_carlo.monte_carlo_delta(
            *question,
            samples=MONTE_CARLO_SAMPLES,
            direction="remove",
            seed=1,
            chunk=monte_carlo.NUMPY_CHUNKS[0],
        )[0]

    text = (
        f"Monte Carlo: k {monte_carlo.GROUP_SIZE}, σ 1, q 0.01, T {monte_carlo.STEPS}, ε 2, "
        f"{MONTE_CARLO_SAMPLES:,} samples"
    )
    return Question(text, ours, {"NumPy": numpy}, symbol="δ")


def renyi_question() -> Question:
    """Epsilon of a group by exact divergences of some orders."""

    def epsilon(divergences: object) -> float:
        return float(kernels.rdp_to_epsilon(RENYI_ORDERS, renyi.STEPS * np.asarray(divergences), DELTA))

    def ours() -> tuple[float, float]:
        found = epsilon(
            hs.renyi.group_rdp(
                hs.Gaussian(RENYI_NOISE),
                RENYI_ORDERS,
                sample_rate=renyi.SAMPLE_RATE,
                group_size=RENYI_SIZE,
                bound="exact",
            )
        )
        return found, found

    def scipy() -> float:
        return epsilon([renyi.scipy_exact(order, RENYI_NOISE, RENYI_SIZE) for order in RENYI_ORDERS])

    text = (
        f"Rényi group: k {RENYI_SIZE}, σ {RENYI_NOISE}, q {renyi.SAMPLE_RATE}, T {renyi.STEPS}, "
        f"{len(RENYI_ORDERS)} orders"
    )
    return Question(text, ours, {"SciPy quadrature": scipy}, width="upper bound")


def individual_question() -> Question:
    """Accounts of examples with norms of their own; the answer is the epsilon of the largest."""
    steps = 100

    def epsilon(rdp: object) -> float:
        return float(kernels.rdp_to_epsilon(ORDERS, np.asarray(rdp), DELTA))

    def ours() -> tuple[float, float]:
        norms = np.arange(1, NORMS + 1) / NORMS
        rdp = np.zeros((NORMS, len(ORDERS)))
        kernels.accumulate_rdp(rdp, norms, ORDERS, NOISE_MULTIPLIER, SAMPLE_RATE)
        found = epsilon(steps * rdp[-1])
        return found, found

    def opacus() -> float:
        compute_rdp = import_module("opacus.accountants.analysis.rdp").compute_rdp
        for norm in np.arange(1, PEER_NORMS + 1) / PEER_NORMS:
            rdp = compute_rdp(
                q=SAMPLE_RATE, noise_multiplier=NOISE_MULTIPLIER / norm, steps=steps, orders=ORDERS
            )
        return epsilon(rdp)

    calls = {} if "opacus" in peers.missing() else {"Opacus's `compute_rdp`": opacus}
    text = f"individual: {NORMS:,} norms, {len(ORDERS)} orders, σ {NOISE_MULTIPLIER:g}, q {SAMPLE_RATE}"
    return Question(text, ours, calls, width="upper bound", share=PEER_NORMS / NORMS)


def rows_of(question: Question) -> Iterator[tuple[str, ...]]:
    """Time a question; a row for each peer, or one without."""
    timing, (lower, upper) = measure(question.ours)
    ours = duration(timing.median)
    width = question.width or f"{upper - lower:.1e}"
    answer = f"{question.symbol} {upper:.7g}"
    if not question.peers:
        yield (question.text, ours, "not installed", "", "", answer, "", width)
    for name, call in question.peers.items():
        theirs, found = measure(call)
        seconds = theirs.median / question.share
        difference = f"{found - upper:+.1e}"
        ratio = f"{seconds / timing.median:,.0f}"
        yield (question.text, ours, name, duration(seconds), ratio, answer, difference, width)


def import_rows() -> Iterator[tuple[str, ...]]:
    """Time imports in fresh interpreters, less that of NumPy."""
    processor = import_cost.processor_seconds_to_run
    # `import hockeystick` alone imports next to nothing.
    ours = import_cost.extra_seconds("from hockeystick import get_epsilon", run=processor)
    statements = {"opacus": "import opacus.accountants", "dp-accounting": "import dp_accounting.pld"}
    for distribution, statement in statements.items():
        if distribution not in peers.missing():
            theirs = import_cost.extra_seconds(statement, PEER_STARTS, processor)
            yield (
                "import, beyond NumPy's",
                duration(ours),
                f"`{statement}`",
                duration(theirs),
                f"{theirs / ours:,.0f}",
                "",
                "",
                "",
            )


def questions() -> Iterator[Question]:
    """Everything that is asked, in the order of the table."""
    yield from accounting_questions()
    yield monte_carlo_question()
    yield renyi_question()
    yield individual_question()


def table_lines() -> Iterator[str]:
    """Measure, and give the table line by line."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for question in questions():
        yield from (f"| {' | '.join(row)} |" for row in rows_of(question))
    yield from (f"| {' | '.join(row)} |" for row in import_rows())


def with_written(page: str, written: str) -> str:
    """Put `written` between the two comments of a page."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must contain {BEGIN} and, after it, {END}")
    return f"{before}{BEGIN}\n\n{written}\n\n{END}{after}"


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    if os.environ.get("RAYON_NUM_THREADS") != "1":
        # Libraries read these when they are loaded.
        os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benches.compare.table", *sys.argv[1:]])
    if options.write and peers.missing():
        sys.exit(f"needed for the whole table: {', '.join(peers.missing())}")
    lines = [f"{describe_machine()}; beside {peers.versions() or 'no peers'}.", ""]
    print("\n".join(lines), flush=True)
    for line in table_lines():
        print(line, flush=True)
        lines.append(line)
    if options.write:
        page = with_written(PAGE.read_text(encoding="utf-8"), "\n".join(lines))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
