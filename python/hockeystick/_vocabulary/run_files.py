"""Runs in TOML and JSON files."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from pathlib import Path
from typing import Any

from hockeystick._arguments import require, shown

LARGEST_FILE = 1_000_000
"""Bytes of a file that is read: a run has a few hundred."""

HASH = "sha256"


def written_as_json(facts: dict[str, Any], sha256: str) -> str:
    """Return the facts as a JSON document with their hash."""
    return json.dumps({**facts, HASH: sha256}, indent=2, allow_nan=False) + "\n"


def written_as_toml(facts: dict[str, Any], sha256: str) -> str:
    """Return the facts as a TOML document; the hash is a comment, so that the file may be edited."""
    lines = [f"# sha256 {sha256}"]
    tables = []
    for name, value in facts.items():
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *(f"{key} = {_value(inner)}" for key, inner in value.items())]
        else:
            lines.append(f"{name} = {_value(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _value(value: Any) -> str:
    # JSON's strings, integers and lists are those of TOML, and so are its floats: those have a point or an
    # exponent in both.
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def read_facts(path: str | os.PathLike[str]) -> tuple[dict[str, Any], str | None]:
    """Read the facts from a file, and the hash that stands beside them, if there is one.

    Raises
    ------
    ValueError
        If the file is neither TOML nor JSON, or too large.
    OSError
        If it cannot be read.
    """
    file = Path(os.fspath(path))
    require(file.suffix in (".toml", ".json"), "path", str(file), "a name that ends in .toml or .json")
    with file.open("rb") as stream:
        data = stream.read(LARGEST_FILE + 1)
    require(len(data) <= LARGEST_FILE, "path", str(file), f"a file of at most {LARGEST_FILE} bytes")
    try:
        text = data.decode("utf-8")
        found = json.loads(text) if file.suffix == ".json" else _toml(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not a valid {file.suffix[1:].upper()} file: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} must hold the arguments of Run by name, got {shown(found)}")
    return found, found.pop(HASH, None)


def _toml(text: str) -> Any:
    for name in ("tomllib", "tomli"):  # the second for Python 3.10
        with contextlib.suppress(ImportError):
            return importlib.import_module(name).loads(text)
    raise ImportError("TOML files need Python 3.11 or newer, or: pip install tomli")
