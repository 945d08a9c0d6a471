"""Run the tests of other libraries with our names: usage `run_originals.py FOLDER [SUITE ...]`.

The test files are those that `fetch_originals.py` put into the folder, unchanged. Each suite has a process of
its own, in which names of the original's modules are replaced by ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HARNESS = Path(__file__).parents[1] / "tests" / "originals"
sys.path.insert(0, str(HARNESS))
from suites import SUITES  # noqa: E402 -- the folder is no package


def run(name: str, folder: Path) -> int:
    """Exit status of one suite."""
    suite = SUITES[name]
    path = os.pathsep.join(
        filter(None, [str(HARNESS), str(folder / suite.code), os.environ.get("PYTHONPATH")])
    )
    environment = {**os.environ, "PYTHONPATH": path, "ORIGINALS_SUITE": name}
    options = [
        "-p",
        "plugin",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
        "--tb=line",
    ]
    command = [sys.executable, "-m", "pytest", "--quiet", "-W", "ignore", *options, *suite.tests]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main() -> None:
    """Run the suites that are named, or all of them; exits with 1 if one of them is not as listed."""
    folder, *names = sys.argv[1:]
    failed = [name for name in names or SUITES if run(name, Path(folder).resolve() / name)]
    if failed:
        raise SystemExit(f"not as tests/originals/suites.py says: {', '.join(failed)}")


if __name__ == "__main__":
    main()
