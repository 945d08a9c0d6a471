"""The table of all benchmarks."""

from pathlib import Path

import pytest

from benches.compare import table

TOP = Path(__file__).parents[1]


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
