"""Run every notebook in notebooks/, each in a fresh kernel, two at a time; start no more after an error.

usage: python scripts/run_notebooks.py [--write] [NOTEBOOK ...]

Needs the extra `notebooks`. Without --write nothing is saved: the run only shows that every cell
still works and that every assertion in it holds.
"""

import argparse
import json
import os
import queue
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
CELL_LIMIT_SECONDS = 300
LOOK_SECONDS = 1.0
"""How often the channel of replies is looked at: see `look_often`."""
AT_ONCE = 2
"""Notebooks that run beside each other."""

LONG = ("pitfalls", "individual", "group", "shuffle")
"""Those that start first, for short ones to fill up what is left of the time: they take 30 to 80 processor
seconds each, the others 5 to 25."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebooks named, or all of them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="save each notebook with its new outputs")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all in notebooks/")
    options = parser.parse_args(arguments)

    paths = options.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"), key=lambda path: path.stem not in LONG)
    if not paths:
        print(f"no notebooks in {NOTEBOOKS}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as settings:
        # Start-up files and settings in the home directory must not change what a notebook does.
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[variable] = settings
        with ThreadPoolExecutor(AT_ONCE) as pool:
            runs = [pool.submit(execute, path, write=options.write) for path in paths]
            try:
                for path, run in zip(paths, runs, strict=True):
                    print(f"{path.name}: {run.result():.0f} s", flush=True)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                print(f"{path.name} failed\n{error}", file=sys.stderr)
                pool.shutdown(cancel_futures=True)
                return 1
    return 0


def execute(path: Path, *, write: bool) -> float:
    """Run one notebook from its first cell to its last, in its own folder; return the seconds it took."""
    start = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    client.on_notebook_start = lambda **_: look_often(client.kc.shell_channel)
    client.execute()
    if write:
        # The kernel writes its Python's version into the metadata: no reason for a notebook to change. What
        # sliders show is kept, for the documentation's still of them.
        metadata.pop("widgets", None)
        if "widgets" in notebook.metadata:
            metadata["widgets"] = notebook.metadata["widgets"]
        notebook.metadata = nbformat.from_dict(metadata)
        path.write_text(with_stable_names(nbformat.writes(notebook)) + "\n", encoding="utf-8")
    return time.perf_counter() - start


def look_often(channel):
    """Have a channel looked at once a second for messages that nobody was told of.

    nbclient answers widgets on the socket on which it waits for replies. ZeroMQ tells of several messages
    once, and the answer may take that notice: the reply then lay there until the limit for a cell was over.
    """
    wait = channel.get_msg

    async def get_msg(timeout=None):
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK_SECONDS if until is None else min(LOOK_SECONDS, max(until - time.monotonic(), 0.0))
            try:
                return await wait(timeout=left)
            except queue.Empty:
                if until is not None and time.monotonic() >= until:
                    raise

    channel.get_msg = get_msg


def with_stable_names(notebook: str) -> str:
    """Replace the names of widgets' models, which every run draws at random, by numbers."""
    models = json.loads(notebook)["metadata"].get("widgets", {})
    for number, name in enumerate(name for state in models.values() for name in state["state"]):
        notebook = notebook.replace(name, f"widget-{number}")
    return notebook


if __name__ == "__main__":
    sys.exit(main())
