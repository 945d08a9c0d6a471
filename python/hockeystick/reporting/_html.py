"""A report as one HTML page that needs nothing else: style and pictures are inside, and no scripts."""

from __future__ import annotations

import base64
import io
from html import escape

from hockeystick import _html
from hockeystick._extras import needed
from hockeystick.plot._style import ONE_COLUMN, one_column, styled
from hockeystick.reporting._document import (
    Attachment,
    Block,
    Code,
    Document,
    Paragraph,
    Picture,
    Points,
    Section,
    Table,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Tells the browser to load nothing, should a page ever ask for something."""

_STYLE = """\
:root { color-scheme: light; }
body { margin: 2rem auto; max-width: 50rem; padding: 0 1rem; color: #1a1a1a; background: #fff;
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin-bottom: 0.5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid #ccc; }
.lead { font-size: 1.2rem; font-weight: 600; padding: 0.8rem 1rem; border-left: 5px solid #0072b2;
  background: #eef5fa; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; overflow-wrap: anywhere;
  border-bottom: 1px solid #e3e3e3; }
thead th { border-bottom: 2px solid #999; white-space: nowrap; }
tbody th { font-weight: 600; min-width: 9rem; }
pre { background: #f5f5f5; padding: 0.8rem; font-size: 0.85rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0.8rem 0; flex: 1 1 20rem; max-width: 24rem; }
figure img { width: 100%; height: auto; }
figcaption { font-size: 0.85rem; color: #444; }
@media (max-width: 32rem) { body { margin: 1rem auto; } table { font-size: 0.85rem; width: 100%; }
  thead th { overflow-wrap: break-word; white-space: normal; } tbody th { min-width: 5.5rem; }
  th, td { padding-right: 0.5rem; }
  figure { flex-basis: 100%; } }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } }
"""


def to_html(document: Document, *, pictures: bool = True) -> str:
    """Return the text of a file, with or without the pictures.

    Raises
    ------
    ImportError
        If there are pictures and Matplotlib is not installed.
    """
    kept = [_kept(section, pictures=pictures) for section in document.sections]
    sections = "\n".join(_section(section) for section in kept if section.blocks)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(document.title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(document.title)}</h1>
<p class="lead">{escape(document.lead)}</p>
{sections}
</main>
</body>
</html>
"""


def _kept(section: Section, *, pictures: bool) -> Section:
    return Section(
        section.heading, [block for block in section.blocks if pictures or not isinstance(block, Picture)]
    )


def _section(section: Section) -> str:
    lines = ["<section>", f"<h2>{escape(section.heading)}</h2>"]
    pictures: list[str] = []
    for block in section.blocks:
        if isinstance(block, Picture):
            pictures.append(_picture(block))
        else:
            lines.append(_text_block(block))
    if pictures:
        lines.append('<div class="pictures">\n' + "\n".join(pictures) + "\n</div>")
    return "\n".join([*lines, "</section>"])


def _text_block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Points):
        return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Table):
        return _html.table(block.rows, block.header, named=True, linked=True)
    if isinstance(block, Attachment):
        data = base64.b64encode(block.text.encode("utf-8")).decode("ascii")
        name, source = escape(block.name), f"data:application/json;base64,{data}"
        return f'<p><a download="{name}" href="{source}">Save {name}</a>, the file with this SHA-256.</p>'
    assert isinstance(block, Code)
    return f"<pre><code>{escape(block.text)}</code></pre>"


def _picture(picture: Picture) -> str:
    figures = needed("matplotlib.figure", "plot")
    settings = {"svg.fonttype": "path", "svg.hashsalt": "hockeystick"}  # the same page for the same numbers
    with one_column(), needed("matplotlib", "plot").rc_context(settings):
        figure = figures.Figure(figsize=picture.size or ONE_COLUMN, layout="constrained")
        picture.draw(styled(figure.subplots()))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    words = escape(picture.words)
    source = f"data:image/svg+xml;base64,{data}"
    return f'<figure><img alt="{words}" src="{source}"><figcaption>{words}</figcaption></figure>'
