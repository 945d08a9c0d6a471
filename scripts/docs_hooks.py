"""Hooks of the documentation's build (mkdocs.yml): pages made of other files, formulas, code to copy."""

import base64
import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_copy import with_code_to_copy  # beside this file; MkDocs looks there while it loads the hooks

TOP = Path(__file__).parents[1]

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
LINK_TO_NOTEBOOK = re.compile(r"\]\(\.\./notebooks/([\w-]+)\.ipynb\)")
CODE = re.compile(r"<(pre|code|math)\b.*?</\1>", re.DOTALL)
EMPTY_LINK = re.compile(r'<a [^>]*href="[^"]*"[^>]*></a>')
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a menu of versions where the pages are published beside others: it asks for versions.json."""
    if os.environ.get("DOCS_VERSIONS"):
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    return config


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
    """Replace LaTeX by MathML, which browsers draw without scripts; let code be copied without prompts."""

    def replace(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return mathml(html.unescape(match[2]).strip(), display, page.file.src_uri)

    content = FORMULA.sub(replace, content)
    check(content, page.file.src_uri)
    return with_code_to_copy(content)


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
    """Yield the page of a notebook and its pictures, as file names and contents.

    The alternative texts of the pictures of a cell are in its metadata, in a list `alt`: outputs are written
    anew by every run.
    """
    blocks: list[str] = []
    pictures = 0
    contents = json.loads(notebook.read_text("utf-8"))
    models = contents["metadata"].get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for cell in contents["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source.replace("](../docs/", "](../"))
        elif cell["cell_type"] == "code" and source:
            blocks.append(fenced(source, "python"))
        alternatives = list(cell["metadata"].get("alt", ()))
        for output in with_stills(cell.get("outputs", ()), models, notebook.name):
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                name = f"{notebook.stem}-{pictures}.png"
                yield name, base64.b64decode("".join(data["image/png"]))
                if not alternatives:
                    raise PluginError(f"{notebook.name}: picture {pictures} has no `alt` in its cell")
                blocks.append(f"![{alternatives.pop(0)}]({name})")
            elif "text/html" in data:
                blocks.append("".join(data["text/html"]).strip())
            else:
                blocks.append(fenced(text_of(output), "text"))
        if alternatives:
            raise PluginError(f"{notebook.name}: an `alt` without a picture: {alternatives[0]!r}")
    where = f"This page is [`notebooks/{notebook.name}`]({notebook.name}), to be run by `make notebooks`."
    yield notebook.name, notebook.read_bytes()
    title, _, rest = "\n\n".join(blocks).partition("\n")
    yield f"{notebook.stem}.md", f"{title}\n\n{where}\n{rest}\n"


def with_stills(
    outputs: Iterable[dict[str, Any]], models: dict[str, Any], notebook: str
) -> Iterator[dict[str, Any]]:
    """Put stills in the place of interactive widgets: sliders that do not move, and what they have shown."""
    for output in outputs:
        view = output.get("data", {}).get(WIDGET_VIEW)
        if view is None:
            yield output
        elif view["model_id"] not in models:
            raise PluginError(
                f"{notebook} shows a widget whose state is not stored in it: run it with --write"
            )
        else:
            sliders, shown = stills(view["model_id"], models)
            if sliders:
                note = "<p>These sliders stand still here; they move where the notebook runs.</p>"
                yield {"data": {"text/html": f'<div class="widgets">\n{note}\n{"".join(sliders)}</div>'}}
            yield from shown


def stills(identity: str, models: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the sliders in a widget as HTML, and the outputs in it."""
    model = models[identity]
    state = model["state"]
    if model["model_name"].endswith("SliderModel"):
        return [slider(state, logarithmic="Log" in model["model_name"])], []
    sliders: list[str] = []
    shown: list[dict[str, Any]] = list(state.get("outputs", ()))
    for child in state.get("children", ()):
        inside = stills(child.removeprefix("IPY_MODEL_"), models)
        sliders += inside[0]
        shown += inside[1]
    return sliders, shown


def slider(state: dict[str, Any], *, logarithmic: bool) -> str:
    """Draw a slider at its value. The ends of a logarithmic one are powers of its base."""
    place = math.log(state["value"], state["base"]) if logarithmic else state["value"]
    ends = f'min="{state["min"]}" max="{state["max"]}" step="any" value="{place}"'
    value = format(state["value"], state["readout_format"])
    return (
        f'<label>{html.escape(state["description"])} <input type="range" {ends} disabled> {value}</label>\n'
    )


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
