"""Numbers of experiments as JSON."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benches.compare.machine import processor_name
from benches.experiments.effort import Effort
from benches.experiments.store import Store

DIGITS = 6
"""Significant digits of the numbers that are kept."""


class Results:
    """Numbers of one paper: settings, results and how long they took.

    Parameters
    ----------
    name : str
        Name of the file, without its ending.
    output : Path
        Folder that it is written into.
    effort : Effort
        Sizes of the trainings, which the file names.
    store : Store, optional
        Trainings that are done, whose processor time counts too.
    """

    def __init__(self, name: str, output: Path, effort: Effort, store: Store | None = None) -> None:
        self._effort = asdict(effort)
        self._store = store or Store()
        self.path = output / f"{name}.json"
        self.numbers: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Keep the processor time of a part of the experiments, in seconds of all threads together."""
        start, clock = self._processor_seconds(), time.perf_counter()
        yield
        self._seconds[part] = self._processor_seconds() - start
        print(f"{self.path.stem}: {part}: {time.perf_counter() - clock:.0f} s", flush=True)

    def _processor_seconds(self) -> float:
        """Return the time of this process, and that of trainings which were found done."""
        return time.process_time() + self._store.found_seconds

    def add_seconds(self, part: str, seconds: float) -> None:
        """Add processor time of another process to that of a part of the experiments."""
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    def write(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "written_by": "make experiments",
            "machine": f"{processor_name()}, Python {platform.python_version()}, NumPy {np.__version__}, "
            f"hockeystick {hs.__version__}",
            "effort": self._effort,
            "processor_seconds": self._seconds,
            **self.numbers,
        }
        self.path.write_text(
            json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def plain(value: Any) -> Any:
    """`value` with lists for arrays, numbers of `DIGITS` digits, and None for those that are not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
