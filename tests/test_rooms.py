"""The rooms of the crate: no circle of files, no arrow upward, and nothing too long to be read at once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src"

ROOMS = (
    # The ground that every room stands on: errors, intervals, locks, progress.
    {"approx", "error", "interval", "locks", "monitor", "process", "stopping", "threads"},
    {"special"},
    {"step"},
    {"loss", "bins", "auditing"},
    {"inversion"},
    {"grid"},
    {"simulation", "renyi"},
    {"curve"},
    {"shuffle", "tradeoff", "individual"},
    {"python"},
)
"""Rooms from the ground up. A file uses files of its own room and of rooms below."""

MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60

FILES = sorted(ROOT.rglob("*.rs"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "::".join(part for part in parts if part not in ("mod", "lib"))


MODULES = {module_of(path) for path in FILES}


def without_tests(source: str) -> str:
    """The source without comments and without what is compiled for tests only."""
    lines = iter(source.split("\n"))
    kept = []
    for line in lines:
        if line.strip() != "#[cfg(test)]":
            kept.append(re.sub(r"//.*", "", line))
            continue
        item = next(lines)
        while item.strip().startswith("#["):
            item = next(lines)
        if not item.rstrip().endswith(";"):
            end = " " * (len(item) - len(item.lstrip())) + "}"
            while item != end:
                item = next(lines)
    return "\n".join(kept)


def paths_of(tree: str) -> Iterator[str]:
    """The paths that ``use`` brings in, one by one."""
    start, brace, rest = tree.partition("{")
    if not brace:
        yield tree.split(" as ")[0].strip()
        return
    depth, part = 0, ""
    for character in rest[: rest.rindex("}")] + ",":
        if character == "," and depth == 0:
            if part.strip():
                yield from paths_of(start.strip() + part.strip())
            part = ""
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        part += character


def uses(path: Path) -> set[str]:
    """The modules of the crate that a file names."""
    module = module_of(path)
    source = without_tests(path.read_text("utf-8"))
    trees = re.findall(r"\buse\s+((?:crate|super|self)::[^;]+);", source)
    named = [one for tree in trees for one in paths_of(re.sub(r"\s+", " ", tree))]
    named += re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse\s[^;]+;", "", source))
    found = set()
    for name in named:
        parts = name.split("::")
        here = module.split("::")
        while parts[0] in ("super", "self", "crate"):
            if parts[0] == "crate":
                here = []
            elif parts[0] == "super":
                here = here[:-1]
            parts = parts[1:]
        whole = [*here, *parts]
        while whole and "::".join(whole) not in MODULES:
            whole = whole[:-1]
        found.add("::".join(whole))
    return found - {module, ""}


USES = {
    module_of(path): uses(path) for path in FILES if path.name not in ("lib.rs", "tests.rs", "properties.rs")
}


def test_enough_is_seen():
    assert len(FILES) > 200
    assert sum(map(len, USES.values())) > 1_000
    assert "loss::gate" in USES["loss::smooth_pairs"]
    assert "special::log_space" in USES["loss::privacy_loss"] or "interval" in USES["loss::privacy_loss"]


def test_no_file_uses_a_room_above_its_own():
    height = {room: i for i, rooms in enumerate(ROOMS) for room in rooms}
    upward = [
        f"{module} uses {other}"
        for module, others in USES.items()
        for other in others
        if height[other.split("::")[0]] > height[module.split("::")[0]]
    ]
    assert not upward


def test_rooms_make_no_circle():
    rooms: dict[str, set[str]] = {}
    for module, others in USES.items():
        room = module.split("::")[0]
        rooms.setdefault(room, set()).update(other.split("::")[0] for other in others)
    assert not circle_in({room: others - {room} for room, others in rooms.items()})


def whole_of(module: str) -> str:
    """The file of a module whose parts are files in the folder of its name: together they are one."""
    parent = module.rpartition("::")[0]
    if parent and ROOT.joinpath(*parent.split("::")).with_suffix(".rs").exists():
        return whole_of(parent)
    return module


def test_files_make_no_circle():
    wholes: dict[str, set[str]] = {}
    for module, others in USES.items():
        wholes.setdefault(whole_of(module), set()).update(map(whole_of, others))
    assert not circle_in({module: others - {module} for module, others in wholes.items()})


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}
    assert circle_in(graph) == ["b", "c"]


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """Nodes of a circle, if there is one: what is left once nodes that lead nowhere are taken away."""
    left = {node: set(others) & set(graph) for node, others in graph.items()}
    while ends := [node for node, others in left.items() if not others]:
        for end in ends:
            del left[end]
        for others in left.values():
            others.difference_update(ends)
    # What only leads into the circle is no part of it.
    while loose := set(left) - {other for others in left.values() for other in others}:
        for node in loose:
            del left[node]
    return sorted(left)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_can_be_read_at_once(path):
    lines = path.read_text("utf-8").split("\n")
    assert len(lines) - 1 <= MOST_LINES
    for number, line in enumerate(lines):
        start = re.match(r"( *)(pub(\([^)]*\))? )?((const|async|unsafe|extern) )*fn (\w+)", line)
        if not start or line.rstrip().endswith(";"):
            continue
        last = next(
            i
            for i in range(number, len(lines))
            if (i == number and "}" in line[-1:]) or lines[i] == start[1] + "}"
        )
        assert last - number + 1 <= MOST_LINES_OF_A_FUNCTION, f"{start[6]} at line {number + 1}"
