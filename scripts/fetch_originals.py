"""Get the sources of other libraries, with their tests: usage `fetch_originals.py FOLDER [SUITE ...]`.

Source distributions come from PyPI where they carry the tests, and else one commit from GitHub. Every source
is checked: a distribution by its SHA-256, a commit by its own hash. ORIGINALS_GIT names another server that
has the repositories, or a folder as file:///...
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "originals"))
from suites import SUITES, Suite

GIT = os.environ.get("ORIGINALS_GIT", "https://github.com")


def fetch(suite: Suite, folder: Path) -> None:
    """Put the source into a folder, unless this version is there."""
    stamp = folder / ".version"
    if stamp.exists() and stamp.read_text("utf-8") == suite.version:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if "/" in suite.source:
        _commit(suite, folder)
    else:
        _distribution(suite, folder)
    stamp.write_text(suite.version, "utf-8")


def _commit(suite: Suite, folder: Path) -> None:
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    repository = f"{GIT}/{suite.source}"
    subprocess.run([*git, "fetch", "--quiet", "--depth", "1", repository, suite.version], check=True)
    subprocess.run([*git, "checkout", "--quiet", "--detach", suite.version], check=True)


def _distribution(suite: Suite, folder: Path) -> None:
    name = f"{suite.library}=={suite.version}"
    flags = ["--quiet", "--no-deps", "--no-binary", suite.library, "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *flags, name], check=True)
    (archive,) = folder.glob("*.tar.gz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != suite.source:
        raise SystemExit(f"{archive.name} must have the SHA-256 {suite.source}, got {digest}")
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            inner = member.name.partition("/")[2]
            if member.isfile() and ".." not in Path(inner).parts:
                target = folder / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                # Of a regular file there is always a reader.
                target.write_bytes(packed.extractfile(member).read())  # type: ignore[union-attr]


def main() -> None:
    """Fetch the suites that are named, or all of them."""
    folder, *names = sys.argv[1:]
    for name in names or SUITES:
        if name not in SUITES:
            raise SystemExit(f"SUITES must be some of {', '.join(SUITES)}, got {name}")
        fetch(SUITES[name], Path(folder) / name)


if __name__ == "__main__":
    main()
