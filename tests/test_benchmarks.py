"""The table of all benchmarks, and the comparison of instruction counts."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from benches.compare import table

TOP = Path(__file__).parents[1]

COUNTING = SimpleNamespace(**runpy.run_path(str(TOP / "scripts" / "count_instructions.py")))


def test_the_table_replaces_what_stands_between_its_marks_and_nothing_else():
    page = f"above\n{table.BEGIN}\nold\n{table.END}\nbelow\n"
    once = table.with_written(page, "| new |")
    assert once == f"above\n{table.BEGIN}\n\n| new |\n\n{table.END}\nbelow\n"
    assert table.with_written(once, "| new |") == once


@pytest.mark.parametrize("page", ["", table.BEGIN, table.END, f"{table.END}{table.BEGIN}"])
def test_a_page_without_the_marks_is_refused(page):
    with pytest.raises(ValueError, match="must contain"):
        table.with_written(page, "new")


def test_a_row_has_the_ratio_the_difference_and_the_width(monkeypatch):
    monkeypatch.setattr("benches.compare.accounting.BUDGET", 0.0)
    times = iter([0.0, 0.002, 1.0, 1.5])
    monkeypatch.setattr("benches.compare.accounting.time.process_time", lambda: next(times))
    question = table.Question("k = 1", lambda: (1.0, 1.5), {"peer": lambda: 1.75}, share=0.5)
    (row,) = table.rows_of(question)
    assert row == ("k = 1", "2.00 ms", "peer", "1.00 s", "500", "ε 1.5", "+2.5e-01", "5.0e-01")
    assert len(row) == len(table.COLUMNS)


def test_a_peer_that_is_not_installed_leaves_our_answer():
    (row,) = table.rows_of(table.Question("k = 1", lambda: (1.0, 1.5), {}))
    assert row[2] == "not installed"
    assert len(row) == len(table.COLUMNS)


def test_the_kept_table_has_every_question():
    page = (TOP / "docs" / "benchmarks.md").read_text("utf-8")
    written = page.partition(table.BEGIN)[2].partition(table.END)[0]
    first = {line.split(" | ")[0].strip("| ") for line in written.splitlines() if line.startswith("| ")}
    assert {question.text for question in table.questions()} <= first
    assert "import, beyond NumPy's" in first


def test_more_instructions_than_kept_are_noticed_and_fewer_are_not():
    kept = {"exact": 1000, "gone": 1}
    counted = {"exact": 1031, "fresh": 5}
    wrong = COUNTING.compare(kept, counted)
    assert len(wrong) == 3
    assert any("exact takes 1,031 instructions, +3.1% on 1,000" in line for line in wrong)
    assert any("fresh is not kept" in line for line in wrong)
    assert any("gone is kept" in line for line in wrong)
    assert COUNTING.compare({"exact": 1000}, {"exact": 1030}) == []
    assert COUNTING.compare({"exact": 1000}, {"exact": 500}) == []


def test_a_count_is_kept_for_every_kernel_of_the_program():
    kept = json.loads((TOP / "benches" / "instructions.json").read_text("utf-8"))
    program = (TOP / "benches" / "instructions.rs").read_text("utf-8")
    assert kept["compiler"].startswith("rustc ")
    assert len(kept["instructions"]) >= 9
    assert all(f'"{kernel}"' in program for kernel in kept["instructions"])
    assert all(count > 100_000 for count in kept["instructions"].values())
