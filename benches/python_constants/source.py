"""Constants of the Python sources: where each is defined, doubled, and used.

A constant is a name in capitals in the body of a module, whose value is a number, a tuple or dict of
numbers, or an expression of such with at least one number in it: ``2.0**-52``, ``np.geomspace(1.0, 9.0, 5)``.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benches.constants.source import Constant, Place

PACKAGES = ("hockeystick", "hockeystick_verify")
DOUBLED, SEEN = "__doubled__", "__seen__"
"""Functions that changed sources call, which are put among the built-in names."""

_NAME = re.compile(r"_?[A-Z][A-Z0-9_]*")


class Module(NamedTuple):
    """A source file, and what names of constants in it mean."""

    file: str
    """From the folder of the packages."""
    tree: ast.Module
    constants: list[Constant]
    names: dict[str, Place]
    """Constants that are defined or imported here, by the names they have here."""
    modules: dict[str, str]
    """Files of modules that are imported here, by their names here."""


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every source of the packages."""
    for package in PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")


def constants(folder: Path) -> list[Constant]:
    """Find the constants of the packages in a folder, in the order of files and lines."""
    return [each for file, text in sources(folder) for each in constants_of(file, text)]


def constants_of(file: str, text: str) -> list[Constant]:
    """Find the constants of one source."""
    found = []
    for name, value in _definitions(ast.parse(text)):
        written = re.sub(r"\s+", " ", ast.get_source_segment(text, value) or "")
        found.append(Constant(file, name, "", written))
    return found


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of constants, and their values; ``A, B = 1, 2`` are two."""
    for statement in tree.body:
        for target, value in _assigned(statement):
            if isinstance(target, ast.Name) and _NAME.fullmatch(target.id) and _is_of_numbers(value):
                yield target.id, value


def _assigned(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement assigns to, and what."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if not isinstance(target, ast.Tuple):
                yield target, statement.value
            elif isinstance(statement.value, ast.Tuple):
                yield from zip(target.elts, statement.value.elts, strict=True)
            else:
                yield from ((each, statement.value) for each in target.elts)


def _is_of_numbers(value: ast.expr) -> bool:
    """Whether an expression is made of numbers, one at least, and of names."""
    nodes = list(ast.walk(value))
    keys = {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    leaves = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in keys]
    others = (ast.Lambda, ast.JoinedStr, ast.IfExp, ast.Compare, ast.BoolOp)
    return (
        bool(leaves)
        and all(isinstance(leaf, int | float) and not isinstance(leaf, bool) for leaf in leaves)
        and not any(isinstance(node, others) for node in nodes)
    )


def parsed(folder: Path) -> dict[str, Module]:
    """Read all sources, and find what the names of constants mean in each."""
    found = {}
    for file, text in sources(folder):
        own = constants_of(file, text)
        names = {each.name: (file, each.name) for each in own}
        found[file] = Module(file, ast.parse(text), own, names, {})
    waiting: dict[tuple[str, str], Place] = {}
    for module in found.values():
        for node in ast.walk(module.tree):
            for here, (origin, name) in _imported(node):
                if file := _file(f"{origin}.{name}" if name else origin, found):
                    module.modules[here] = file
                elif (file := _file(origin, found)) and _NAME.fullmatch(name):
                    waiting[module.file, here] = file, name
    for (file, here), place in waiting.items():
        while place in waiting:  # a module that hands on what it imports
            place = waiting[place]
        if place[1] in found[place[0]].names:
            found[file].names[here] = place
    return found


def _imported(node: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield names that a statement imports, with the module and the name there; no name for a module."""
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for each in node.names:
            yield each.asname or each.name, (node.module, each.name)
    if isinstance(node, ast.Import):
        for each in node.names:
            if each.asname:
                yield each.asname, (each.name, "")


def _file(module: str, files: Mapping[str, object]) -> str:
    """Return the file of a module of the packages, or nothing."""
    path = module.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if file in files), "")


def with_doubled(tree: ast.Module, name: str) -> ast.Module:
    """Return a source in which a constant has twice its value, from the line after its definition on."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        body.append(statement)
        if any(isinstance(target, ast.Name) and target.id == name for target, _ in _assigned(statement)):
            body += ast.parse(f"{name} = {DOUBLED}({name})").body
    return ast.fix_missing_locations(ast.Module(body, tree.type_ignores))


class _Uses(ast.NodeTransformer):
    """Put a call around every use of a constant, which says that it is read."""

    def __init__(self, module: Module, numbers: Mapping[Place, int]) -> None:
        self._module, self._numbers = module, numbers
        self._depth = 0
        self.outside: set[int] = set()
        """Constants that are read when the module is imported."""

    def _number(self, node: ast.expr) -> int | None:
        place = None
        if isinstance(node, ast.Name):
            place = self._module.names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            file = self._module.modules.get(node.value.id)
            place = (file, node.attr) if file else None
        return None if place is None else self._numbers.get(place)

    def _told(self, node: ast.expr) -> ast.expr:
        number = self._number(node)
        if number is None:
            return node
        if not self._depth:
            self.outside.add(number)
            return node
        return ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(number), node], [])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Tell of a name that is read."""
        return self._told(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Tell of a name of another module."""
        if isinstance(node.ctx, ast.Load) and self._number(node) is not None:
            return self._told(node)
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Tell of the body, and there of constants that are defaults of arguments."""
        defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
        told = [self._number(each) for default in defaults for each in _expressions(default)]
        self._depth += 1
        node.body = [self.visit(statement) for statement in node.body]
        self._depth -= 1
        lines = [f"{SEEN}({number}, None)" for number in told if number is not None]
        node.body[_after_docstring(node.body) : 0] = ast.parse("\n".join(lines)).body
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Tell of the body."""
        self._depth += 1
        node.body = self.visit(node.body)
        self._depth -= 1
        return node


def _expressions(node: ast.expr) -> Iterable[ast.expr]:
    return (each for each in ast.walk(node) if isinstance(each, ast.expr))


def _after_docstring(body: list[ast.stmt]) -> int:
    """Return 1 where a docstring comes first, and else 0."""
    first = body[0]
    return int(isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant))


def with_reads(module: Module, numbers: Mapping[Place, int]) -> tuple[ast.Module, set[int]]:
    """Return a source that tells which constants its functions read, and those that its import reads."""
    uses = _Uses(module, numbers)
    tree = uses.visit(module.tree)
    return ast.fix_missing_locations(tree), uses.outside


def made_of(modules: Iterable[Module], numbers: Mapping[Place, int]) -> dict[int, set[int]]:
    """Return the constants whose definitions read a constant, by its number."""
    found: dict[int, set[int]] = {}
    for module in modules:
        for name, value in _definitions(module.tree):
            for node in ast.walk(value):
                if isinstance(node, ast.Name) and node.id in module.names:
                    base = numbers[module.names[node.id]]
                    found.setdefault(base, set()).add(numbers[module.file, name])
    return found
