"""Hooks of the documentation's build (mkdocs.yml): pages made of other files, and formulas as MathML."""

import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[1]

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
LINK_TO_NOTEBOOK = re.compile(r"\]\(\.\./notebooks/([\w-]+)\.ipynb\)")
CODE = re.compile(r"<(pre|code|math)\b.*?</\1>", re.DOTALL)
EMPTY_LINK = re.compile(r'<a [^>]*href="[^"]*"[^>]*></a>')
COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the changelog, and the notebooks with the outputs that are stored in them."""
    files.append(File.generated(config, "changelog.md", content=(TOP / "CHANGELOG.md").read_text("utf-8")))
    for notebook in sorted((TOP / "notebooks").glob("*.ipynb")):
        for name, content in pages_of(notebook):
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to notebooks, which are files beside docs/, to their pages."""
    return LINK_TO_NOTEBOOK.sub(r"](notebooks/\1.md)", markdown)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace LaTeX by MathML, which browsers draw without any script."""

    def replace(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return mathml(html.unescape(match[2]).strip(), display, page.file.src_uri)

    content = FORMULA.sub(replace, content)
    check(content, page.file.src_uri)
    return content


def check(content: str, page: str) -> None:
    """Stop the build for what MkDocs lets pass: formulas that were not recognised, and links without text."""
    prose = CODE.sub("code", content)
    if (dollar := prose.find("$")) >= 0:
        around = prose[max(dollar - 40, 0) : dollar + 40]
        raise PluginError(
            f"{page}: a dollar sign that belongs to no formula, or to one badly indented: {around!r}"
        )
    if link := EMPTY_LINK.search(prose):
        raise PluginError(f"{page}: a link without text: {link[0]}")


def mathml(formula: str, display: str, page: str) -> str:
    """Convert one formula; a command that is not understood stops the build."""
    try:
        # A large brace keeps its backslash in the converter.
        drawn = convert(formula, display=display).replace(">\\{<", ">{<").replace(">\\}<", ">}<")
    except Exception as error:
        raise PluginError(f"{page}: {type(error).__name__} in the formula {formula!r}") from error
    if "\\" in drawn:
        raise PluginError(f"{page}: a command without a translation in the formula {formula!r}")
    return drawn


def pages_of(notebook: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield the page of a notebook and its pictures, as file names and contents."""
    blocks: list[str] = []
    pictures = 0
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
        elif cell["cell_type"] == "code" and source:
            blocks.append(fenced(source, "python"))
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                name = f"{notebook.stem}-{pictures}.png"
                yield name, base64.b64decode("".join(data["image/png"]))
                blocks.append(f"![Output {pictures} of this notebook]({name})")
            else:
                blocks.append(fenced(text_of(output), "text"))
    where = f"This page is [`notebooks/{notebook.name}`]({notebook.name}), to be run by `make notebooks`."
    yield notebook.name, notebook.read_bytes()
    title, _, rest = "\n\n".join(blocks).partition("\n")
    yield f"{notebook.stem}.md", f"{title}\n\n{where}\n{rest}\n"


def text_of(output: dict[str, Any]) -> str:
    """Return the text of an output without a picture."""
    if output["output_type"] == "error":
        raise PluginError(f"a notebook holds an error: {output['ename']}")
    text = "".join(output["text"] if "text" in output else output["data"]["text/plain"])
    return COLOUR_CODE.sub("", text).rstrip()


def fenced(text: str, language: str) -> str:
    """Make a block of code, with a fence longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
