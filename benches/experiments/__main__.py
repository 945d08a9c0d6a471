"""Run the experiments of all papers, or of those that are named, and write their numbers and pictures."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benches.experiments import page
from benches.experiments.effort import FULL, LONG, SHORT

PAPERS = ("individual", "rgp", "group", "shuffle")
OUTPUT = Path(__file__).parents[2] / "docs" / "experiments"


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benches.experiments", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)}; all by default")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder that is written into")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--short", action="store_true", help="a short version, in minutes")
    length.add_argument("--long", action="store_true", help="100 epochs of LeNet-5, 3.5 hours more")
    options = parser.parse_args()
    unknown = set(options.papers) - set(PAPERS)
    if unknown:
        parser.error(f"PAPER must be one of {', '.join(PAPERS)}, got {', '.join(sorted(unknown))}")
    effort = SHORT if options.short else LONG if options.long else FULL
    for paper in options.papers or PAPERS:
        import_module(f"benches.experiments.{paper}").main(options.output, effort)

    if options.output == OUTPUT and all((OUTPUT / f"{paper}.json").exists() for paper in page.PAPERS):
        page.main()


if __name__ == "__main__":
    main()
