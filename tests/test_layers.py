"""Which parts of the package use which: arrows point one way, and packages at the edge use public names."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1] / "python" / "hockeystick"

LAYERS = (
    {
        # Checks of arguments, printing, files, workers: no mathematics, nothing of privacy.
        "_arguments", "_atomic", "_core", "_distinct", "_executors", "_extras", "_gradients", "_html",
        "_progress", "_readouts", "_rounding", "_simulation", "_strict_json", "_tables", "errors",
    },
    # Mathematics of matrices, for the vocabulary of correlated noise.
    {"_factorization"},
    # The vocabulary: what a step is, and which steps are supported.
    {"_vocabulary"},
    {
        # Curves, and functions that answer from one run.
        "_curves", "black_box", "kernels", "renyi", "shuffle", "tradeoff",
    },
    {"accountants"},
    # The names of users, each imported when it is asked for.
    {"hockeystick"},
    {"_guarantees", "_loaders"},
    # Adaptors to other libraries, and what is built on the interface.
    {
        "auditing", "checkpoints", "compat", "distributed", "dp_accounting", "_explaining", "opacus", "plot",
        "release", "training",
    },
    {"reporting"},
    # The command line, and data sets for experiments, which nothing else uses.
    {"cli", "datasets"},
    {"__main__"},
)  # fmt: skip
"""Rooms from the ground up: modules and packages below `hockeystick`, which is the name of the root here."""

OUR_OBJECTS = (
    "_explaining", "auditing", "checkpoints", "cli", "compat", "datasets", "distributed", "plot", "release",
    "reporting", "training",
)  # fmt: skip
AT_THE_EDGE = (*OUR_OBJECTS, "opacus")
"""Rooms that use public names of the others and nothing else; one has to touch objects of Opacus."""

TOOLS = LAYERS[0]
"""Rooms that know nothing of privacy, for all others."""

SHARED = {
    "_guarantees": "what explanations, pictures and reports ask about a guarantee",
    "_loaders": "how loaders draw, for the adaptors",
    "accountants._adaptors": "what adaptors ask of accountants, and users need not",
    "plot._style": "colours and sizes of pictures",
}
"""Modules and packages besides the interface of a package that others may use."""

BESIDE_THE_INTERFACE = {
    "auditing": {"_vocabulary.beside.with_terms", "_vocabulary.sampling.Sampling"},
    "reporting": {"_curves.expression.steps_of", "_vocabulary.spelling.spelled"},
}
"""Names that peripheral packages use and users do not: how a function takes a run, the type of all ways to
sample, and how a curve was made."""

PERIPHERAL = ("auditing", "checkpoints", "plot", "release", "reporting", "training")
"""Rooms that use the interface, tools, and what is named above."""

COMPUTED_BY_THE_CORE = {"auditing._one_run", "auditing._proportions"}
"""Modules at the edge whose mathematics is in the compiled core."""

PRIVATE = {("reporting._reproducing", "_recipe")}
"""Private attributes of objects of other packages that are used at the edge."""


class Use(NamedTuple):
    """A name of another module that is imported."""

    module: str
    name: str | None
    """None for the module itself."""


def name_of(path: Path) -> str:
    """Name of a module without that of the package; "hockeystick" for the root."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "hockeystick"


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    """Syntax of a module, when a test asks for it: each process of tests imports this file."""
    return ast.parse(MODULES[module].read_text("utf-8"))


def executed(module: str) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    waiting: list[ast.AST] = [tree(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        else:
            yield node
            waiting.extend(ast.iter_child_nodes(node))


@cache
def uses(module: str) -> set[Use]:
    """Names of this package that a module imports, inside of functions too."""
    found = set()
    for node in executed(module):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            pairs = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            pairs = [(alias.name, "") for alias in node.names]
        else:
            continue
        for whole, name in pairs:
            top, _, source = whole.partition(".")
            if top != "hockeystick":
                continue
            inner = f"{source}.{name}".strip(".")
            is_module = inner in MODULES or inner == "_core"
            found.add(Use(inner, None) if is_module else Use(source or "hockeystick", name or None))
    return found


def room(module: str) -> str:
    return module.partition(".")[0]


LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def test_every_room_has_a_place_in_the_table() -> None:
    assert {room(module) for module in MODULES} | {"_core"} == set(LEVEL)
    assert sum(map(len, LAYERS)) == len(LEVEL)


def test_the_imports_are_seen() -> None:
    assert Use("_curves.curve", "PrivacyCurve") in uses("_curves.making")
    assert Use("_core", None) in uses("_curves.composed_run")
    assert Use("cli._commands", "hockeystick") in uses("cli")  # inside a function
    assert uses("hockeystick") == {Use("_core", "__version__")}  # the others are for type checkers alone
    assert sum(len(uses(module)) for module in MODULES) > 500


def test_arrows_point_down() -> None:
    up = [
        f"{module} uses {use}, which is built on it"
        for module in MODULES
        for use in uses(module)
        if LEVEL[room(use.module)] > LEVEL[room(module)]
    ]
    assert not up, up


def is_shared(module: str) -> bool:
    return any(module == known or module.startswith(f"{known}.") for known in SHARED)


@pytest.mark.parametrize("module", sorted(module for module in MODULES if room(module) in AT_THE_EDGE))
def test_packages_at_the_edge_use_public_names(module: str) -> None:
    files = {path.stem for path in ROOT.glob("*.py")} | {"_core"}
    for use in uses(module):
        if room(use.module) == room(module) or use == Use("_core", "__version__"):
            continue
        assert use.module != "_core" or module in COMPUTED_BY_THE_CORE, f"{module} uses the compiled core"
        assert use.name is None or not use.name.startswith("_"), f"{module} imports {use.name}"
        if room(use.module) in TOOLS or is_shared(use.module):
            continue
        if room(use.module) in ("_curves", "_vocabulary"):
            assert use.name not in public_names("hockeystick"), f"{module} imports {use}, which users have"
        elif room(use.module) not in files:
            assert use.module == room(use.module), (
                f"{module} uses {use.module}, which is private to its package"
            )
            assert use.name is None or use.name in public_names(use.module), f"{module} imports {use}"


def beside_the_interface(module: str) -> set[str]:
    """The names that a module imports and that users do not have."""
    return {
        f"{use.module}.{use.name}"
        for use in uses(module)
        if room(use.module).startswith("_") and room(use.module) not in TOOLS and not is_shared(use.module)
    }


@pytest.mark.parametrize("package", PERIPHERAL)
def test_peripheral_packages_use_the_interface(package: str) -> None:
    used = {name for module in MODULES if room(module) == package for name in beside_the_interface(module)}
    assert used == BESIDE_THE_INTERFACE.get(package, set())


def public_names(package: str) -> set[str]:
    """The names in ``__all__``, without an import of the package."""
    for node in tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{package} has no __all__")


def test_modules_that_are_not_interface_have_an_underscore() -> None:
    interface = {"__main__", "cli", "datasets", "errors", "hockeystick", "reporting", "tradeoff"}
    interface |= public_names("hockeystick") | {f"compat.{name}" for name in public_names("compat")}
    private = {module for module in MODULES if any(part.startswith("_") for part in module.split("."))}
    assert set(MODULES) - private <= interface


@pytest.mark.parametrize("module", sorted(module for module in MODULES if room(module) in OUR_OBJECTS))
def test_packages_at_the_edge_use_no_private_attributes(module: str) -> None:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            owner = ast.unparse(node.value)
            assert owner in ("self", "cls") or (module, node.attr) in PRIVATE, f"{owner}.{node.attr}"


def circles(arrows: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules each of which uses all others, in one step or several."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            following = arrows.get(waiting.pop(), set()) - seen
            seen |= following
            waiting.extend(following)
        reached[start] = seen
    return {
        frozenset(other for other in reached[start] if start in reached.get(other, ()))
        for start in arrows
        if start in reached[start]
    }


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset("bc")}
    assert circles({"a": {"b", "c"}, "b": {"c"}}) == set()


def test_no_modules_use_each_other() -> None:
    arrows = {module: {use.module for use in uses(module)} for module in MODULES}
    assert not circles(arrows)
