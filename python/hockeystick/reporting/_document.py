"""The parts of a report, before they become HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of texts; the first of a row says what the others are about."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Lines of Python, or of another language."""

    text: str
    language: str = "python"


@dataclass(frozen=True)
class Picture:
    """A picture, drawn where it is shown, and what it shows in words."""

    draw: Callable[[Axes], object]
    words: str
    size: tuple[float, float] | None = None


@dataclass(frozen=True)
class Attachment:
    """A file of text to be saved from a page; formats without files leave it out."""

    name: str
    text: str


Block: TypeAlias = Paragraph | Points | Table | Code | Picture | Attachment


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: str
    sections: list[Section]
