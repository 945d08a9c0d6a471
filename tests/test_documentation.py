"""The examples in README and docs/ print what they say."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
NEEDS_DP_ACCOUNTING = [pytest.mark.opacus, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PAGES = [
    pytest.param(page, marks=NEEDS_DP_ACCOUNTING if page.name == "dp-accounting.md" else [])
    for page in (TOP / "README.md", *sorted((TOP / "docs").glob("*.md")))
    if ">>>" in page.read_text("utf-8")
]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_print_what_the_page_says(page: Path) -> None:
    blocks = PYTHON_BLOCK.findall(page.read_text("utf-8"))
    assert blocks
    # One name space a page, so that later blocks build on earlier ones.
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


def test_the_headline_of_rgp_is_what_its_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(TOP / "scripts" / "rgp_headline.py"), run_name="__main__")
    table = capsys.readouterr().out.partition("\n\n")[2]
    assert len(table.splitlines()) == 5
    assert table in (TOP / "README.md").read_text("utf-8")


def test_relative_links_lead_somewhere() -> None:
    for page in (TOP / "README.md", *(TOP / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
