"""Write docs/calculator/engine.js with the compressed core in it, as a page that is a file may not fetch one.

usage: calculator_engine.py MODULE.wasm engine.js
"""

from __future__ import annotations

import base64
import gzip
import re
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]


def main() -> None:
    """Write the second file, from the first."""
    module, script = map(Path, sys.argv[1:])
    version = re.search(r'^version = "(.*)"', (TOP / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    if version is None:
        raise SystemExit("Cargo.toml names no version")
    code = base64.b64encode(gzip.compress(module.read_bytes(), mtime=0)).decode("ascii")
    script.write_text(
        "/* Made by `make calculator`; do not edit. */\n"
        f'self.HOCKEYSTICK_VERSION = "{version[1]}";\n'
        f'self.HOCKEYSTICK_ENGINE = "{code}";\n',
        "utf-8",
    )


if __name__ == "__main__":
    main()
