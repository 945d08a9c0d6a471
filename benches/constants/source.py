"""Constants of the Rust sources: where each is defined, and sources in which each can be multiplied.

A constant ``const REACH: f64 = 8.0;`` becomes a function ``fn REACH() -> f64``, which multiplies its value
by a factor that a program sets while it runs, and every use ``REACH`` becomes a call. Constants that must
be known to the compiler (lengths of arrays, patterns) stay as they are: the compiler names them, as calls
are errors there.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_TEXT = re.compile(
    r"""//[^\n]*                                # comments
    | /\*.*?\*/
    | r(\#*)".*?"\1                             # texts
    | "(?:\\.|[^"\\])*"
    | '(?:\\(?:u\{[^}]*\}|.)|[^\\'])'           # characters, which lifetimes are not
    """,
    re.DOTALL | re.VERBOSE,
)
_DEFINITION = re.compile(
    r"^(?P<before>[ \t]*(?:pub(?:\([a-z: ]+\))? )?)const "
    r"(?P<name>[A-Z][A-Z0-9_]*): (?P<type>[^=;]+|\[[^\]]+\]) =\s",
    re.MULTILINE,
)
_NUMBERS = re.compile(r"(?:f64|f32|usize|u8|u16|u32|u64|i8|i16|i32|i64)$")
_IMPORT = re.compile(r"^[ \t]*(?:pub(?:\([a-z: ]+\))? )?use [^;]*;|\bconst [A-Z0-9_]+\b", re.MULTILINE)
_WORD = re.compile(r"\b(?:(\w+)::)?([A-Z][A-Z0-9_]*)\b")
_OTHER_HOMES = {"f64", "f32", "usize", "u32", "u64", "i32", "i64", "consts"}
"""Types and modules of the standard library that have constants whose names are used here, too."""
_TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod (\w+)\s*(;|\{)")


Place = tuple[str, str]
"""The file and the name of a definition."""


class Constant(NamedTuple):
    """One definition."""

    file: str
    """Its file, from the folder of the sources."""
    name: str
    type: str
    value: str
    """As it is written."""


class _Definition(NamedTuple):
    """Where a definition is in its file."""

    constant: Constant
    before: str
    start: int
    value: int
    end: int


def masked(text: str) -> str:
    """Return a source of the same length in which comments, texts and characters are blank."""
    return _TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _closing(code: str, start: int) -> int:
    """Return the place behind the brace that closes the one at `start`."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise ValueError("a brace is not closed")


def _without_tests(code: str) -> str:
    """Return code in which modules that are compiled for tests alone are blank."""
    while (found := _TEST_MODULE.search(code)) is not None:
        end = _closing(code, found.end() - 1) if found[2] == "{" else found.end()
        code = code[: found.start()] + re.sub(r"[^\n]", " ", code[found.start() : end]) + code[end:]
    return code


def _test_files(folder: Path) -> set[Path]:
    """Files of modules that are compiled for tests alone."""
    found = set()
    for path in folder.rglob("*.rs"):
        inside = path.parent if path.name in ("mod.rs", "lib.rs") else path.with_suffix("")
        for name, _ in _TEST_MODULE.findall(masked(path.read_text())):
            found |= {inside / f"{name}.rs", *(inside / name).rglob("*.rs")}
    return found


def sources(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield files of the library, sorted, with their texts; those of tests are left out."""
    tests = _test_files(folder)
    for path in sorted(folder.rglob("*.rs")):
        if path not in tests:
            yield path, path.read_text()


def _definitions(file: str, text: str) -> Iterator[_Definition]:
    """Yield the definitions of numbers, and of arrays and pairs of numbers, in a file."""
    code = _without_tests(masked(text))
    for found in _DEFINITION.finditer(code):
        parts = re.split(r"[\[\](),]|;[^\]]*", found["type"])
        if not all(_NUMBERS.match(part.strip()) for part in parts if part.strip()):
            continue
        depth, end = 0, found.end()
        while code[end] != ";" or depth:
            depth += (code[end] in "([{") - (code[end] in ")]}")
            end += 1
        value = " ".join(text[found.end() : end].split())
        constant = Constant(file, found["name"], found["type"].strip(), value)
        yield _Definition(constant, found["before"], found.start(), found.end(), end)


def constants(folder: Path) -> list[Constant]:
    """List the constants that are numbers, or arrays or pairs of them, in the order of files and lines."""
    return [
        definition.constant
        for path, text in sources(folder)
        for definition in _definitions(path.relative_to(folder).as_posix(), text)
    ]


def meant(file: str, name: str, homes: dict[str, set[str]]) -> set[Place]:
    """Definitions that a name in a file may mean: that of the file itself, or else all others."""
    files = homes.get(name, set())
    return {(file, name)} if file in files else {(each, name) for each in files}


def closed(folder: Path, fixed: set[Place], homes: dict[str, set[str]]) -> set[Place]:
    """Return the definitions that stay constants, and those that a use cannot be told apart from."""
    found, before = set(fixed), set[Place]()
    while found != before:
        before = set(found)
        for path, text in sources(folder):
            file = path.relative_to(folder).as_posix()
            for _, name in _uses(_without_tests(masked(text)), set(homes)):
                here = meant(file, name, homes)
                if here & found:
                    found |= here
    return found


def rewritten(text: str, file: str, numbers: dict[Constant, int], fixed: set[Place]) -> str:
    """Return a source whose constants are calls.

    Parameters
    ----------
    text, file : str
        The source, and its name as in `Constant`.
    numbers : dict
        A number for every constant of the library.
    fixed : set of pairs of str
        Files and names of constants that stay so, with all that a use of them may mean (`closed`).
    """
    homes = homes_of(numbers)
    edits = [
        (place, place, "()")
        for place, name in _uses(_without_tests(masked(text)), set(homes))
        if not meant(file, name, homes) & fixed
    ]
    for each in _definitions(file, text):
        constant = each.constant
        if (file, constant.name) not in fixed:
            made = f"fn {constant.name}() -> {constant.type} {{ crate::tuned::at({numbers[constant]}, "
            edits += [(each.start, each.value, each.before + made), (each.end, each.end + 1, ") }")]
    found, last = [], 0
    for start, end, new in sorted(edits):
        found += [text[last:start], new]
        last = end
    return "".join(found) + text[last:]


def homes_of(found: Iterable[Constant]) -> dict[str, set[str]]:
    """Files in which constants of each name are defined."""
    homes: dict[str, set[str]] = {}
    for constant in found:
        homes.setdefault(constant.name, set()).add(constant.file)
    return homes


def _uses(code: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the places behind the uses of constants, and their names; imports and definitions are none."""
    blank = _IMPORT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)
    for use in _WORD.finditer(blank):
        if use[2] in names and use[1] not in _OTHER_HOMES:
            yield use.end(), use[2]
