"""A report as Markdown: plain text, tables and code; pictures are for HTML."""

from __future__ import annotations

import re

from hockeystick.reporting._document import Block, Code, Document, Paragraph, Points, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#$~])")


def to_markdown(document: Document) -> str:
    """Return the text of a file."""
    parts = [f"# {_text(document.title)}", f"**{_text(document.lead)}**"]
    for section in document.sections:
        blocks = [text for block in section.blocks if (text := _block(block))]
        if blocks:
            parts += [f"## {_text(section.heading)}", *blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _text(block.text)
    if isinstance(block, Points):
        return "\n".join(f"- {_text(item)}" for item in block.items)
    if isinstance(block, Table):
        header = block.header or ("",) * len(block.rows[0])
        lines = [_row(header), "|" + " --- |" * len(header), *map(_row, block.rows)]
        return "\n".join(lines)
    if isinstance(block, Code):
        longest = max(map(len, re.findall("`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{block.language}\n{block.text}\n{fence}"
    return ""


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(_text, cells)) + " |"


def _text(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown or HTML would read as more than text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()).replace("&", "&amp;"))
