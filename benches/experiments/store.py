"""Trainings that are done, one JSON file for each, so that experiments go on where they stopped.

A file is named after everything that its training depends on: the settings that are given, and a digest of
the code that trains. So a training whose settings or code have changed is run again. One that was stopped
half-way has left nothing, unless it saves its state now and then. Files are written under another name and
then renamed, because processes that run side by side share the folder.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / ".experiments"
"""Where ``make experiments`` keeps trainings that are done."""

SAVED_EVERY = 60.0
"""Seconds between two states that a long training saves: writing one takes about a third of a second."""


class Progress:
    """State of a training under way, from which it goes on after it was stopped.

    Parameters
    ----------
    path : Path, optional
        File of the state. Without it nothing is saved.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._start = time.process_time()
        self._saved = time.monotonic()
        self._seconds_before = 0.0

    def load(self) -> Any:  # the state as it was saved
        """Return the last state that was saved, or None."""
        if self._path is None or not self._path.exists():
            return None
        kept = json.loads(self._path.read_text("utf-8"))
        self._seconds_before = kept["processor_seconds"]
        return decoded(kept["state"])

    def save(self, make: Callable[[], Any]) -> None:
        """Save the state that `make` returns, if the last one is old."""
        if self._path is not None and time.monotonic() - self._saved >= SAVED_EVERY:
            write(self._path, {"processor_seconds": self.processor_seconds, "state": encoded(make())})
            self._saved = time.monotonic()

    @property
    def processor_seconds(self) -> float:
        """Processor time of the training, with that before the state that was loaded."""
        return self._seconds_before + time.process_time() - self._start

    def remove(self) -> None:
        """Remove the state of a training that is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class Store:
    """Values of trainings that are done.

    Parameters
    ----------
    folder : Path, optional
        Folder of the files. Without it nothing is kept.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.found_seconds = 0.0
        """Processor seconds that the trainings took whose values were found, and not computed."""

    def get(
        self, settings: dict[str, Any], modules: tuple[str, ...], make: Callable[[], Any]
    ) -> Any:  # what `make` returns, as it is read from JSON
        """Return the value of a training, from its file or else from `make`, and then write the file.

        Parameters
        ----------
        settings : dict
            Everything that decides the value, besides the code: paper, data, model, sizes, seed and so on.
        modules : tuple of str
            Names of the modules with the code that trains, and of packages, which count with all their files.
        make : callable
            Trains. What it returns has lists, dictionaries whose keys are texts, arrays, numbers and texts.
        """
        return self.get_in_parts(settings, modules, lambda _: make())

    def get_in_parts(
        self, settings: dict[str, Any], modules: tuple[str, ...], make: Callable[[Progress], Any]
    ) -> Any:  # as `get`
        """Do what `get` does for a long training, which may save its state with what `make` is given."""
        key = json.dumps(encoded(settings | {"code": digest(modules)}), sort_keys=True)
        path = self._path(key)
        if path is not None and path.exists():
            kept = json.loads(path.read_text("utf-8"))
            self.found_seconds += kept["processor_seconds"]
            return decoded(kept["value"])
        progress = Progress(None if path is None else path.with_suffix(".state"))
        value = encoded(make(progress))
        if path is not None:
            seconds = progress.processor_seconds
            write(path, {"settings": json.loads(key), "processor_seconds": seconds, "value": value})
            progress.remove()
        return decoded(json.loads(json.dumps(value)))

    def _path(self, key: str) -> Path | None:
        """Return the file of a training, or None if nothing is kept."""
        if self._folder is None:
            return None
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def write(path: Path, content: Any) -> None:
    """Write a file, which is either there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(content) + "\n", encoding="utf-8")
    unfinished.replace(path)


def encoded(value: Any) -> Any:
    """`value` as JSON has it, with the type and the shape of arrays."""
    if isinstance(value, np.ndarray):
        return {"array": str(value.dtype), "shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys of value must be texts, got {sorted(map(str, value))}")
        return {key: encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def decoded(value: Any) -> Any:
    """Inverse of `encoded`, with lists for tuples."""
    if isinstance(value, dict):
        if set(value) == {"array", "shape", "values"}:
            return np.array(value["values"], dtype=value["array"]).reshape(value["shape"])
        return {key: decoded(item) for key, item in value.items()}
    return [decoded(item) for item in value] if isinstance(value, list) else value


@cache
def digest(modules: tuple[str, ...]) -> str:
    """Digest of the code of modules and packages, without comments and docstrings."""
    found = hashlib.sha256(sys.version.split()[0].encode())
    for name in modules:
        file = import_module(name).__file__
        assert file is not None, name
        path = Path(file)
        files = sorted(path.parent.rglob("*")) if path.name == "__init__.py" else [path]
        for each in files:
            if each.suffix == ".py":
                found.update(without_docstrings(each.read_text("utf-8")).encode())
            elif each.suffix in {".so", ".pyd", ".dylib"}:
                found.update(each.read_bytes())
    return found.hexdigest()[:16]


def without_docstrings(source: str) -> str:
    """Return the syntax tree of some Python code without comments and texts that stand alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # Not every node has a body; this one does.
            node.body = [each for each in body if not is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a text that stands alone: a docstring, or the description of a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
