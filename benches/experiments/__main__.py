"""Run the experiments of all papers, or of those that are named, and write their numbers and pictures.

A training that is done is stored, and not run again: what was stopped goes on from there.

The papers, and the trainings of SHUFFLE, run side by side in one process for each processor, those that take
longest first.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benches.experiments import page, shuffle
from benches.experiments.effort import FULL, LONG, SHORT, Effort
from benches.experiments.papers import PAPERS, redraw, run_one
from benches.experiments.store import FOLDER, Store

OUTPUT = Path(__file__).parents[2] / "docs" / "experiments"


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benches.experiments", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)}; all by default")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder that is written into")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes; one per processor by default"
    )
    parser.add_argument("--store", type=Path, default=FOLDER, help="folder of the trainings that are done")
    efforts = parser.add_mutually_exclusive_group()
    efforts.add_argument("--short", action="store_true", help="a short version, in minutes")
    efforts.add_argument("--long", action="store_true", help="LeNet-5 with all batch sizes, an hour more")
    parser.add_argument(
        "--redraw", action="store_true", help="the pictures of stored numbers alone, without any training"
    )
    options = parser.parse_args()
    unknown = set(options.papers) - set(PAPERS)
    if unknown:
        parser.error(f"PAPER must be one of {', '.join(PAPERS)}, got {', '.join(sorted(unknown))}")
    if options.redraw:
        for paper in options.papers or PAPERS:
            redraw(paper, options.output)
        return
    run(
        options.papers or PAPERS,
        options.output,
        SHORT if options.short else LONG if options.long else FULL,
        options.jobs,
        Store(options.store),
    )
    if options.output == OUTPUT and all((OUTPUT / f"{paper}.json").exists() for paper in page.PAPERS):
        page.main()


def run(papers: tuple[str, ...], output: Path, effort: Effort, jobs: int, store: Store) -> None:
    """Run the experiments of some papers in `jobs` processes."""
    # One thread for each process: what runs side by side are processes.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        shuffled = shuffle.start(output, effort, pool, store) if "shuffle" in papers else None
        others = [
            pool.submit(run_one, paper, output, effort, store) for paper in papers if paper != "shuffle"
        ]
        if shuffled is not None:
            shuffle.finish(shuffled, output)
        for other in others:
            other.result()


if __name__ == "__main__":
    main()
