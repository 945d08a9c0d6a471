"""Count the instructions of each kernel under callgrind and compare them with the kept counts.

    python scripts/count_instructions.py            # fails where a kernel takes more than kept
    python scripts/count_instructions.py --write    # keeps what is counted now

Unlike times, counts do not depend on what else the machine does. They do depend on the compiler and on the
instructions that the processor has (callgrind knows AVX2, not AVX-512), which are kept with them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).parents[1]
KEPT = TOP / "benches" / "instructions.json"
TOLERANCE = 0.03
"""What hash seeds, addresses and small differences of the C library change."""

BUILD = ("cargo", "build", "--release", "--locked", "--example", "instructions")


def build() -> Path:
    """Build the program with the kernels; where it is."""
    done = subprocess.run(
        [*BUILD, "--message-format=json"], cwd=TOP, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return Path(next(m["executable"] for m in reversed(messages) if m.get("executable")))


def count(program: Path, kernel: str) -> int:
    """Instructions of one process that runs a kernel once, with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), kernel]
        environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}:\n{done.stderr}")
        summary = re.search(r"^(?:summary|totals): (\d+)", out.read_text(encoding="utf-8"), re.M)
    if summary is None:
        sys.exit(f"callgrind wrote no total for {kernel}")
    return int(summary[1])


def compiler() -> str:
    """Version of rustc and what it compiles for."""
    done = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True)
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return f"rustc {facts['release']}, {facts['host']}"


def compare(kept: dict[str, int], counted: dict[str, int], tolerance: float = TOLERANCE) -> list[str]:
    """One line for each kernel that takes more instructions than kept, or is on one side only."""
    wrong = [f"{kernel} is not kept: run with --write" for kernel in counted if kernel not in kept]
    wrong += [f"{kernel} is kept, but is no kernel" for kernel in kept if kernel not in counted]
    for kernel, now in counted.items():
        before = kept.get(kernel, now)
        if now > before * (1 + tolerance):
            wrong.append(f"{kernel} takes {now:,} instructions, {now / before - 1:+.1%} on {before:,}")
    return wrong


def table(kept: dict[str, int], counted: dict[str, int]) -> str:
    """Return the counts as a Markdown table."""
    lines = ["| kernel | instructions | against the kept count |", "| --- | ---: | ---: |"]
    for kernel, now in counted.items():
        change = f"{now / kept[kernel] - 1:+.2%}" if kernel in kept else "new"
        lines.append(f"| `{kernel}` | {now:,} | {change} |")
    return "\n".join(lines)


def main() -> None:
    """Count, print, and compare or keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"keep the counts in {KEPT.relative_to(TOP)}")
    options = parser.parse_args()

    program = build()
    names = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    counted = {name: count(program, name) for name in names}
    before = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept = before.get("instructions", {})
    print(table(kept, counted))
    if options.write:
        facts = {"compiler": compiler(), "instructions": counted}
        KEPT.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        return
    if before.get("compiler") != compiler():
        print(f"\nkept with {before.get('compiler')}, counted with {compiler()}: expect differences")
    wrong = compare(kept, counted)
    if wrong:
        sys.exit("\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
