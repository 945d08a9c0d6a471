"""The compiled core in which each constant can be multiplied while a program runs."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benches.constants.source import Constant, Place, closed, constants, homes_of, meant, rewritten, sources

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "target" / "constants"
"""Where the other sources, what is compiled from them, and a copy of the Python package are."""
FIXED = FOLDER / "fixed.json"
"""Which constants stay, so that a second time the compiler need not say so."""


def _write(numbers: dict[Constant, int], fixed: set[Place]) -> None:
    """Write the sources in which all constants but the fixed ones are calls."""
    for path, text in sources(ROOT / "src"):
        name = path.relative_to(ROOT / "src")
        to = FOLDER / "src" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        new = rewritten(text, name.as_posix(), numbers, fixed)
        if name.as_posix() == "lib.rs":
            new += "\nmod tuned;\n"
        _replace(to, new)
    _replace(FOLDER / "src" / "tuned.rs", Path(__file__).with_name("tuned.rs").read_text())
    _replace(FOLDER / "src" / "tuned_count.in", str(len(numbers)))


def _replace(path: Path, text: str) -> None:
    """Write a file unless it is the same, for which nothing is compiled."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _cargo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run cargo on the other sources; every lint is silent, as the sources are a machine's."""
    environment = os.environ | {
        "RUSTFLAGS": "--cap-lints allow -A warnings",
        "CARGO_TARGET_DIR": str(FOLDER / "target"),
        "PYO3_PYTHON": sys.executable,
    }
    # It would take the place of the other flags.
    environment.pop("CARGO_ENCODED_RUSTFLAGS", None)
    command = ["cargo", *arguments, "--locked", "--features", "python", "--lib"]
    return subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)


def _to_fix(output: str, homes: dict[str, set[str]]) -> set[Place]:
    """Definitions of the constants in what the compiler calls errors."""
    found: set[Place] = set()
    unknown = ""
    for line in output.splitlines():
        message = json.loads(line).get("message") if line.startswith("{") else None
        if not isinstance(message, dict) or message.get("level") != "error" or not message["spans"]:
            continue
        here = _named_in(message["spans"], homes)
        unknown = unknown if here else message["rendered"]
        found |= here
    if not found:
        raise RuntimeError(unknown)
    return found


def _named_in(spans: list[dict[str, Any]], homes: dict[str, set[str]]) -> set[Place]:
    """Definitions of what is named in the marked parts of sources, or else in their lines."""
    for whole in (False, True):
        found: set[Place] = set()
        for span in spans:
            file = Path(span["file_name"]).relative_to("src").as_posix()
            for text in span["text"]:
                part = slice(None) if whole else slice(text["highlight_start"] - 1, text["highlight_end"] - 1)
                for name in set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", text["text"][part])) & set(homes):
                    found |= meant(file, name, homes)
        if found:
            return found
    return set()


def kept() -> set[Place]:
    """Constants that the compiler had to know when the variant was compiled last."""
    return {(file, name) for file, name in json.loads(FIXED.read_text())} if FIXED.exists() else set()


def build() -> None:
    """Compile the variant beside a copy of the Python package."""
    numbers = {constant: number for number, constant in enumerate(constants(ROOT / "src"))}
    homes = homes_of(numbers)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("Cargo.lock", "README.md"):
        shutil.copy(ROOT / name, FOLDER)
    manifest = (ROOT / "Cargo.toml").read_text()
    (FOLDER / "Cargo.toml").write_text(re.sub(r"\[\[bench\]\].*?(?=\n\[|\Z)", "", manifest, flags=re.DOTALL))
    fixed = kept()
    while True:
        fixed = closed(ROOT / "src", fixed, homes)
        FIXED.write_text(json.dumps(sorted(fixed)))
        _write(numbers, fixed)
        done = _cargo("check", "--message-format=json")
        if done.returncode == 0:
            break
        more = _to_fix(done.stdout, homes) - fixed
        if not more:
            raise RuntimeError(done.stderr)
        print(f"known to the compiler: {', '.join(f'{file} {name}' for file, name in sorted(more))}")
        fixed |= more
    done = _cargo("build", "--release")
    if done.returncode:
        raise RuntimeError(done.stderr)
    package = FOLDER / "python"
    left_out = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python", package, dirs_exist_ok=True, ignore=left_out)
    shutil.copy(
        FOLDER / "target" / "release" / "libhockeystick.so", package / "hockeystick" / "_core.abi3.so"
    )


class Factors:
    """What the variant's constants are multiplied by, and which of them were read."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(FOLDER / "python" / "hockeystick" / "_core.abi3.so"))
        self._library.hockeystick_set_factor.argtypes = [ctypes.c_size_t, ctypes.c_double]
        self._library.hockeystick_was_read.argtypes = [ctypes.c_size_t]
        self._library.hockeystick_was_read.restype = ctypes.c_bool

    def multiply(self, number: int, factor: float) -> None:
        """Multiply a constant from now on."""
        self._library.hockeystick_set_factor(number, factor)

    def read_since(self, count: int) -> set[int]:
        """Return the constants that were read since the last call."""
        return {number for number in range(count) if self._library.hockeystick_was_read(number)}
