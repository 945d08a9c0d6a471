"""The paper: what it cites is in its bibliography, and its numbers are those of the documentation."""

import re
from pathlib import Path

TOP = Path(__file__).parents[1]
PAPER = (TOP / "paper" / "paper.md").read_text("utf-8")


def test_what_is_cited_is_listed_and_what_is_listed_is_cited():
    entries = re.findall(r"^@\w+\{(\w+),", (TOP / "paper" / "paper.bib").read_text("utf-8"), re.MULTILINE)
    assert len(entries) == len(set(entries)) > 10
    assert set(re.findall(r"@(\w+)", PAPER)) == set(entries)


def test_the_benchmarks_are_those_of_the_documentation():
    measured = (TOP / "docs" / "benchmarks.md").read_text("utf-8").splitlines()
    (table,) = (part for part in PAPER.split("\n\n") if part.startswith("| question"))
    rows = table.splitlines()
    assert len(rows) > 6
    for row in rows:
        assert row in measured, row
    (machine,) = re.findall(r"\((AMD[^)]*)\)", PAPER.replace("\n", " "))
    stated = next(line for line in measured if line.startswith("AMD"))
    for part in machine.split(", "):
        assert part in stated, part
