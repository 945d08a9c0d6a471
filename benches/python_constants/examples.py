"""Questions that are the examples of docstrings and of the documentation: what they print is the answer."""

import doctest
import io
import os
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from benches.constants.comparing import Interval, Question

DOCS = Path(__file__).resolve().parents[2] / "docs"

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
_BLOCK = re.compile(r"^```python\n((?s:.*?))^```$", re.MULTILINE)
_HEAVY = re.compile(r"\b(?:torch|opacus|jax_privacy|dask)\b")


class _Printed(doctest.DocTestRunner):
    """Keeps what examples print, whether or not it is what the text says."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.texts: list[str] = []

    def report_start(self, out: Any, test: doctest.DocTest, example: doctest.Example) -> None:
        """Say nothing."""

    def report_success(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        """Keep it."""
        self.texts.append(got)

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        """Keep it."""
        self.texts.append(got)

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        """End with it."""
        raise exc_info[1]


def numbers_in(text: str) -> list[Interval]:
    """Return the numbers that a text has, and its length, so that another text differs."""
    return [(float(found), float(found)) for found in (*_NUMBER.findall(text), str(len(text)))]


def of_docstrings(modules: list[ModuleType]) -> Iterator[Question]:
    """Yield a question for every docstring with examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in modules:
        for test in finder.find(module):
            if test.examples and not _HEAVY.search(test.docstring or ""):
                yield Question(f"example, {module.__name__}", partial(_run, test))


def of_pages() -> Iterator[Question]:
    """Yield a question for every page with a session."""
    for page in sorted(DOCS.glob("*.md")):
        text = "\n".join(_BLOCK.findall(page.read_text(encoding="utf-8")))
        test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
        if test.examples and not _HEAVY.search(text):
            yield Question("page", partial(_run, test))


def _run(test: doctest.DocTest) -> list[Interval]:
    """Run examples in a folder of their own, and return the numbers that they print."""
    runner = _Printed()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            runner.run(test, out=io.StringIO().write, clear_globs=False)
        finally:
            os.chdir("/")
    return numbers_in("".join(runner.texts))
