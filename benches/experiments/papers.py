"""What is done for each paper: all of its experiments, or its pictures alone.

Processes that are started afresh cannot import what a `__main__` module of a package defines.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from benches.experiments.effort import Effort
from benches.experiments.store import Store

PAPERS = ("individual", "rgp", "group", "shuffle", "figures")
"""In the order in which they are started; "figures" is of two papers, and needs no data."""


def run_one(paper: str, output: Path, effort: Effort, store: Store) -> None:
    """Run the experiments of one paper."""
    import_module(f"benches.experiments.{paper}").main(output, effort, store)


def redraw(paper: str, output: Path) -> None:
    """Draw again what the stored numbers of a paper show. Numbers of single examples are not stored."""
    numbers = json.loads((output / f"{paper}.json").read_text("utf-8"))
    if paper == "individual":
        from benches.experiments import individual_pictures

        individual_pictures.groups(output, numbers)
        individual_pictures.attacks(output, numbers["membership"])
    else:
        import_module(f"benches.experiments.{paper}").draw(output, numbers)
