"""The code in README and docs/ runs and prints what it says; nothing public is left out."""

import doctest
import re
import runpy
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

import hockeystick as hs

TOP = Path(__file__).parents[1]
DOCS = TOP / "docs"
PAGES = (TOP / "README.md", *sorted(DOCS.rglob("*.md")))
PYTHON_BLOCK = re.compile(r"^```(?:python|py)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LARGE = r"(?:torch|opacus|(?:hockeystick\.)?dp_accounting|jax|jax_privacy)"
HEAVY = re.compile(rf"^(?:>>> |\.\.\. )?\s*(?:from|import) {LARGE}\b", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of Python, and how many lines of the page are above it."""

    code: str
    line: int

    @property
    def is_session(self) -> bool:
        return ">>> " in self.code

    @property
    def is_heavy(self) -> bool:
        return HEAVY.search(self.code) is not None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(found[1], text.count("\n", 0, found.start(1))) for found in PYTHON_BLOCK.finditer(text)]


def name_of(page: Path) -> str:
    return str(page.relative_to(TOP))


WITH_CODE = [page for page in PAGES if blocks_of(page)]
HEAVY_PAGES = [page for page in WITH_CODE if any(block.is_heavy for block in blocks_of(page))]


def without_large_libraries(blocks: list[Block]) -> list[Block]:
    """Sessions up to the first that imports such a library, other blocks up to the first that does."""
    sessions = takewhile(lambda block: not (block.is_heavy and block.is_session), blocks)
    leading = len(list(takewhile(lambda block: not block.is_heavy, blocks)))
    return [block for i, block in enumerate(sessions) if i < leading or block.is_session]


def run(blocks: list[Block], page: Path) -> None:
    """Run blocks of a page in one name space, so that later ones build on earlier ones."""
    names: dict[str, object] = {"__name__": "__main__"}
    report: list[str] = []
    for block in blocks:
        if block.is_session:
            test = doctest.DocTestParser().get_doctest(block.code, {}, page.name, str(page), block.line)
            test.globs = names
            runner = doctest.DocTestRunner(verbose=False)
            result = runner.run(test, out=report.append, clear_globs=False)
            assert result.attempted > 0
        else:
            # Empty lines above it: an error then names its line of the page.
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
    assert not report, "".join(report)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may write files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    run(without_large_libraries(blocks_of(page)), page)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")  # what torch and Opacus warn about on import and in hooks is theirs
@pytest.mark.parametrize("page", HEAVY_PAGES, ids=name_of)
def test_code_of_a_page_that_needs_large_libraries_runs(page: Path) -> None:
    run(blocks_of(page), page)


def test_every_block_of_code_says_what_language_it_is_in() -> None:
    for page in PAGES:
        for fence in re.findall(
            r"^```(.*)$(?:\n(?:(?!```).*)?)*\n```$", page.read_text("utf-8"), re.MULTILINE
        ):
            assert fence in {"python", "sh", "text", "json", "toml", "yaml"}, f"{page.name}: {fence!r}"


def test_the_headline_of_rgp_is_what_its_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(TOP / "scripts" / "rgp_headline.py"), run_name="__main__")
    table = capsys.readouterr().out.partition("\n\n")[2]
    assert len(table.splitlines()) == 5
    assert table in (TOP / "README.md").read_text("utf-8")


def test_relative_links_lead_somewhere() -> None:
    for page in (*PAGES, TOP / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_has_a_place_in_the_api_pages() -> None:
    documented = {
        name
        for page in DOCS.glob("api/*.md")
        for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.M)
    }
    # A module is on a page as a whole; the names of the package itself one by one.
    public = {f"hockeystick.{name}" for name in hs.__all__ if name != "__version__"}
    assert public <= documented
