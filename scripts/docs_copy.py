"""What the copy buttons of the documentation copy: code that runs, without prompts and output."""

import doctest
import html
import re

BLOCK = re.compile(r'<div class="[^"]*\bhighlight\b[^"]*"(?=>)(?:(?!<div\b).)*?<pre\b.*?</pre>', re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def with_code_to_copy(content: str) -> str:
    """Give the blocks of sessions in a page of HTML the attribute whose text the copy button takes."""

    def replace(match: re.Match[str]) -> str:
        shown = html.unescape(TAG.sub("", match[0][match[0].index("<pre") :]))
        code = code_of_session(shown)
        if code is None:
            return match[0]
        opening, rest = match[0].split(">", 1)
        return f'{opening} data-copy="{html.escape(code)}">{rest}'

    return BLOCK.sub(replace, content)


def code_of_session(shown: str) -> str | None:
    """Return what was typed in a session of Python or of a shell; None for a block that shows no prompt."""
    lines = shown.strip("\n").splitlines()
    if lines and lines[0].startswith(">>> "):
        return code_of_python(shown)
    if lines and lines[0].startswith("$ "):
        return "".join(f"{line[2:]}\n" for line in lines if line.startswith("$ "))
    return None


def code_of_python(session: str) -> str:
    """Return the statements of an interactive session of Python.

    An empty line ends each that closes with an indented line, as an interpreter wants it before the next.
    """
    sources = [example.source for example in doctest.DocTestParser().get_examples(session)]
    indented = [source.splitlines()[-1].startswith(" ") for source in sources]
    blocks = zip(sources, indented, strict=True)
    return "".join(f"{source}\n" if inside else source for source, inside in blocks)
