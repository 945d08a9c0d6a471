"""What ``dir`` shows of each public module: its documented names and nothing else."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hockeystick as hs

PAGES = Path(__file__).parents[1] / "docs" / "api"
SUBMODULES = sorted(name for name in hs.__all__ if (PAGES / f"{name}.md").exists())
PARTS = [f"hockeystick.compat.{name}" for name in hs.compat.__all__]
OF_PARTS = "hockeystick.compat"
"""A package whose names are modules, one for each library that it stands in for."""
NOT_LOADED = "hockeystick.datasets"
"""A module for experiments, which is imported by its own name only."""
OTHERS = [
    NOT_LOADED,
    "hockeystick.errors",
    "hockeystick.tradeoff",
    "hockeystick.reporting",
    "hockeystick.cli",
    *PARTS,
]
OF_ANOTHER_LIBRARY = {
    "hockeystick.opacus": {"PrivacyEngine", "IndividualClippingOptimizer"},
    "hockeystick.dp_accounting": {"ExactAccountant"},
}
"""Subclasses of classes of Opacus and dp-accounting, which exist only where those are installed."""
MODULES = [*(f"hockeystick.{name}" for name in SUBMODULES), *OTHERS]
TO_IMPORT = [
    pytest.param(name, marks=pytest.mark.opacus) if name in OF_ANOTHER_LIBRARY else name for name in MODULES
]


def test_the_package_shows_the_names_of_its_pages() -> None:
    page = (PAGES / "functions.md").read_text("utf-8")
    documented = re.findall(r"^::: hockeystick\.(\w+)$", page, re.MULTILINE)
    assert len(documented) > 20
    assert sorted(dir(hs)) == sorted([*documented, *SUBMODULES, "__version__"])


def test_names_come_from_where_type_checkers_look_for_them() -> None:
    source = ast.parse(Path(hs.__file__).read_text("utf-8"))
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    read = {name.name: node.module for node in imports for name in node.names}
    assert sorted(read) == sorted(set(hs.__all__) - {"__version__"})
    for name, module in read.items():
        if module == "hockeystick":
            assert inspect.ismodule(getattr(hs, name))
        else:
            assert getattr(hs, name) is getattr(importlib.import_module(str(module)), name)


def test_importing_the_package_imports_no_other_module() -> None:
    code = "import sys, hockeystick; print(*sorted(name for name in sys.modules if 'hockeystick.' in name))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == ["hockeystick._core"]


def test_every_submodule_has_a_page() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"functions"}
    assert pages == {*SUBMODULES, NOT_LOADED.partition(".")[2]}
    assert len(pages) >= 13


@pytest.mark.parametrize("name", MODULES)
def test_a_module_shows_its_interface_and_nothing_else(name: str) -> None:
    module = importlib.import_module(name)
    shown = dir(module)
    assert shown
    assert sorted(shown) == sorted(module.__all__)
    for attribute in set(shown) - OF_ANOTHER_LIBRARY.get(name, set()):
        value = getattr(module, attribute)
        assert not attribute.startswith("_")
        assert inspect.ismodule(value) == (name == OF_PARTS)
        if inspect.ismodule(value):
            assert inspect.getdoc(value)
            continue
        assert value.__module__.partition(".")[0] == "hockeystick"
        assert inspect.getdoc(value), f"{name}.{attribute} has no docstring"


@pytest.mark.parametrize("name", ["hockeystick", *TO_IMPORT])
def test_what_is_shown_can_be_imported_by_a_star(name: str) -> None:
    wanted = set(dir(importlib.import_module(name)))
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert wanted <= set(names)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    for name in ("hockeystick", "hockeystick.opacus", "hockeystick.dp_accounting"):
        with pytest.raises(AttributeError, match="nonsense"):
            importlib.import_module(name).nonsense  # noqa: B018 -- the access is the test
