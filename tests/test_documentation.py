"""The code in README and docs/ runs and prints what it says; nothing public is left out."""

import ast
import codeop
import contextlib
import doctest
import importlib
import io
import json
import re
import runpy
from itertools import takewhile, zip_longest
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import hockeystick as hs

TOP = Path(__file__).parents[1]
DOCS = TOP / "docs"
PAGES = (TOP / "README.md", *sorted(DOCS.rglob("*.md")))
FENCE = re.compile(r"^```(.*)\n((?s:.*?))^```$", re.MULTILINE)
LANGUAGES = {"console", "json", "py", "python", "sh", "text", "toml"}
"""Python that needs a large library is "py": tests/test_own_loop.py runs it where that is installed."""
LARGE = r"(?:torch|opacus|(?:hockeystick\.)?dp_accounting|jax_privacy)"
HEAVY = re.compile(rf"^(?:>>> |\.\.\. )?\s*(?:from|import) {LARGE}\b", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of Python."""

    code: str
    line: int
    """Number of lines of the page above it."""
    prints: str | None
    """The `text` block that follows at once, if there is one."""

    @property
    def is_session(self) -> bool:
        return ">>> " in self.code

    @property
    def is_heavy(self) -> bool:
        return HEAVY.search(self.code) is not None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    fences = list(FENCE.finditer(text))
    blocks = []
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] == "python":
            prints = None
            if following and following[1] == "text" and not text[fence.end() : following.start()].strip():
                prints = following[2]
            blocks.append(Block(fence[2], text.count("\n", 0, fence.start(2)), prints))
    return blocks


def name_of(page: Path) -> str:
    return str(page.relative_to(TOP))


def without_large_libraries(blocks: list[Block]) -> list[Block]:
    """Sessions up to the first that imports such a library, other blocks up to the first that does."""
    sessions = takewhile(lambda block: not (block.is_heavy and block.is_session), blocks)
    leading = len(list(takewhile(lambda block: not block.is_heavy, blocks)))
    return [block for i, block in enumerate(sessions) if i < leading or block.is_session]


HEAVY_PAGES = [page for page in PAGES if any(block.is_heavy for block in blocks_of(page))]
LIGHT_PAGES = [page for page in PAGES if without_large_libraries(blocks_of(page))]
SLOW_PAGES = {f"docs/{name}.md" for name in ("individual", "sampling-and-groups", "shuffling", "tradeoff")}
"""Pages whose code takes seconds."""


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
            with contextlib.redirect_stdout(io.StringIO()) as output:
                # Empty lines above it: an error then names its line of the page.
                exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
            assert block.prints in (None, output.getvalue())
    assert not report, "".join(report)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may write files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if name_of(page) in SLOW_PAGES else page
        for page in LIGHT_PAGES
    ],
    ids=name_of,
)
def test_code_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    run(without_large_libraries(blocks_of(page)), page)


@pytest.mark.opacus
@pytest.mark.filterwarnings("ignore")  # what torch and Opacus warn about on import and in hooks is theirs
@pytest.mark.parametrize("page", HEAVY_PAGES, ids=name_of)
def test_code_of_a_page_that_needs_large_libraries_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opacus.accountants import registry

    # Pages register accountants under names.
    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    run(blocks_of(page), page)


@pytest.mark.parametrize(
    "block",
    [
        Block(">>> 1 + 1\n3\n", 0, None),
        Block("print(2)\n", 0, "3\n"),
        Block("assert False\n", 0, None),
    ],
)
def test_an_example_that_is_wrong_is_noticed(block: Block) -> None:
    with pytest.raises(AssertionError):
        run([block], TOP / "README.md")


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the documentation's build does for its copy buttons."""
    monkeypatch.syspath_prepend(TOP / "scripts")
    return importlib.import_module("docs_copy")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_the_copy_buttons_copy_is_code_that_was_run(page: Path, copying: ModuleType) -> None:
    for block in blocks_of(page):
        if not block.is_session:
            assert copying.code_of_session(block.code) is None
            continue
        copied = copying.code_of_session(block.code)
        examples = doctest.DocTestParser().get_examples(block.code)
        run = [statement for example in examples for statement in ast.parse(example.source).body]
        assert [ast.dump(statement) for statement in ast.parse(copied).body] == [
            ast.dump(each) for each in run
        ]
        assert pasted_line_by_line(copied)


def pasted_line_by_line(code: str) -> bool:
    """Whether the interpreter takes every line as it comes, as when code is pasted into it."""
    pending: list[str] = []
    for line in code.splitlines():
        pending.append(line)
        # A compound statement is complete only once an empty line has come.
        if codeop.compile_command("\n".join(pending), symbol="single") is not None:
            pending.clear()
    return not pending


def test_the_readme_shows_no_prompts() -> None:
    assert not any(block.is_session for block in blocks_of(TOP / "README.md"))


def test_the_copy_button_is_given_the_code_of_a_block(copying: ModuleType) -> None:
    shown = '<div class="language-python highlight"><pre><span></span><code>{}</code></pre></div>'
    session = shown.format('<a id="x"></a><span class="gp">&gt;&gt;&gt; </span>1 &lt; "2"\nTrue\n')
    page = copying.with_code_to_copy(f"<p>{session}</p>{shown.format('plain')}")
    assert page.count("data-copy") == 1
    assert '<div class="language-python highlight" data-copy="1 &lt; &quot;2&quot;\n"><pre>' in page
    assert (
        page.replace(' data-copy="1 &lt; &quot;2&quot;\n"', "") == f"<p>{session}</p>{shown.format('plain')}"
    )
    assert copying.code_of_session("$ hockeystick steps\nsteps 1\n$ ls\n") == "hockeystick steps\nls\n"
    assert copying.code_of_session(">>> for i in []:\n...     i\n>>> 1\n") == "for i in []:\n    i\n\n1\n"


def test_notebooks_store_the_state_of_the_widgets_that_they_show() -> None:
    shown = 0
    for notebook in (TOP / "notebooks").glob("*.ipynb"):
        contents = json.loads(notebook.read_text("utf-8"))
        states = contents["metadata"].get("widgets", {}).values()
        models = {name for state in states for name in state["state"]}
        for output in (output for cell in contents["cells"] for output in cell.get("outputs", ())):
            view = output.get("data", {}).get("application/vnd.jupyter.widget-view+json")
            assert view is None or view["model_id"] in models
            shown += view is not None
    assert shown == 1


def test_every_block_of_code_says_what_language_it_is_in() -> None:
    languages = {fence[1] for page in PAGES for fence in FENCE.finditer(page.read_text("utf-8"))}
    assert "python" in languages
    assert languages <= LANGUAGES


def test_what_the_pages_say_to_install_can_be_installed() -> None:
    table = (TOP / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]\n")[2]
    extras = set(re.findall(r"^([\w-]+) = \[", table.partition("\n[tool.")[0], re.MULTILINE))
    assert "cli" in extras
    examples = (TOP / "examples").glob("*.py")
    for page in (*PAGES, *examples):
        text = page.read_text("utf-8")
        for wanted in re.findall(r"pip install ([^\s`]+)", text):
            named = re.fullmatch(r"""(["'])hockeystick\[([\w-]+)\]\1""", wanted)
            in_checkout = wanted == "." and page.name == "getting-started.md"
            assert in_checkout or wanted == "hockeystick" or (named and named[2] in extras), (
                f"{page.name}: pip install {wanted}"
            )


def test_one_page_says_that_nothing_is_released_yet_and_the_readme_leads_there() -> None:
    saying = [page.name for page in PAGES if "not released yet" in page.read_text("utf-8")]
    assert saying == ["development.md", "getting-started.md"]  # the first on how to make a release
    readme = (TOP / "README.md").read_text("utf-8")
    assert readme.index("pip install hockeystick") < readme.index("(docs/getting-started.md)")
    assert "until the first version is released" in readme


def test_the_headline_of_rgp_is_what_its_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(TOP / "scripts" / "rgp_headline.py"), run_name="__main__")
    table = capsys.readouterr().out.partition("\n\n")[2]
    assert len(table.splitlines()) == 5
    assert table in (TOP / "README.md").read_text("utf-8")


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {hs.__version__}\n" in (TOP / "CITATION.cff").read_text("utf-8")


def test_relative_links_lead_somewhere() -> None:
    for page in (*PAGES, TOP / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_picture_is_there_and_said_in_words_for_light_pages_and_for_dark_ones() -> None:
    shown = 0
    for page in PAGES:
        for words, target in re.findall(r"!\[(.*?)\]\(([^)]+)\)", page.read_text("utf-8")):
            path, _, scheme = target.partition("#")
            assert (page.parent / path).is_file(), f"{page.name} shows {path}"
            assert len(words) >= 60, f"{page.name}: what does {path} show?"
            assert scheme in ("", "only-light", "only-dark")
            if scheme:
                name = path.removesuffix(".png").removesuffix("-dark")
                pair = f"{name}.png#only-light" if scheme == "only-dark" else f"{name}-dark.png#only-dark"
                assert f"![{words}]({pair})" in page.read_text("utf-8"), f"{page.name}: {path}"
            shown += 1
    assert shown >= 15


def test_comments_cite_theory_pages_that_exist() -> None:
    sources = sorted([*TOP.glob("src/**/*.rs"), *TOP.glob("python/**/*.py"), *TOP.glob("tests/*.py")])
    cited = 0
    for source in sources:
        text = source.read_text("utf-8")
        assert "theory" + " §" not in text, f"{source.name} cites a text that is not in the repository"
        for page in re.findall(r"docs/theory/[\w-]+\.md", text):
            assert (TOP / page).exists(), f"{source.name} cites {page}"
            cited += 1
    assert cited >= 15


def test_every_public_name_has_a_place_in_the_api_pages() -> None:
    documented = {
        name
        for page in DOCS.glob("api/*.md")
        for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.M)
    }
    # A module is on a page as a whole; the names of the package itself one by one.
    public = {f"hockeystick.{name}" for name in hs.__all__ if name != "__version__"}
    assert public <= documented


THEORY = sorted((DOCS / "theory").glob("*.md"))


@pytest.mark.parametrize(
    "page", [TOP / "CONTRIBUTING.md", DOCS / "development.md"], ids=lambda page: page.stem
)
def test_files_that_a_page_for_contributors_names_exist(page: Path) -> None:
    names = re.findall(
        r"`((?:src|tests|python|docs|benches|scripts)/[\w./-]+)`", page.read_text(encoding="utf-8")
    )
    missing = [name for name in names if not (TOP / name).exists()]
    assert names
    assert not missing, missing


@pytest.mark.parametrize("page", THEORY, ids=lambda page: page.stem)
def test_files_and_tests_that_a_theory_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = [TOP / name for name in re.findall(r"`((?:src|tests|python)/[\w./-]+)`", text)]
    missing = [path for path in paths if not path.exists()]
    assert not missing, missing
    named = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
    heading, _, section = text.partition("\n## Test\n")
    assert section or page.stem == "index", f"{page.name} names no test: {heading[:40]}"
    for name in re.findall(r"`([a-z0-9_]{12,})`", section):
        assert re.search(rf"\b(?:fn|def) {name}\b", named), (
            f"no test {name} in the files that {page.name} names"
        )
