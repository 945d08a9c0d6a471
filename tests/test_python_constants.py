"""The page about constants of the Python package, and how they are doubled and their readers found."""

import ast
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benches.constants.comparing import Question
from benches.constants.page import known, row
from benches.constants.source import Constant
from benches.python_constants import page, source
from benches.python_constants.examples import numbers_in
from benches.python_constants.source import constants, made_of, parsed, with_doubled, with_reads
from benches.python_constants.variant import Worker, doubled, what_it_reads

pytestmark = pytest.mark.filterwarnings("ignore:.*is multi-threaded, use of fork")
"""Python from 3.12 on warns where other tests of the process have left threads."""

SOURCES = Path(__file__).parents[1] / "python"
FAR = '''"""Constants."""

import math

FAR = 2.0**3
"""How far."""
_NEAR, COUNT = 0.5, 3
TABLE: dict[str, float] = {"a": 1.0, "b": 2.0}
STEPS = (*(1 << size for size in range(3)), 9)
HALF = FAR / 2
ALIAS = FAR
NAMES = ("one", 1.0)
IS_ON = True
FORM, VERSION = "far", 1
lower = 1.0


def reach(times=COUNT):
    """Tell how far."""
    return FAR * times + math.pi


class Kept:
    size: int = VERSION

    def reach(self):
        return [_NEAR * step for step in STEPS]
'''
USED = """from fakes import far
from fakes.far import COUNT as NUMBER, reach


def total():
    return NUMBER + far.HALF + sum(far.TABLE.values())


def all_of_it():
    return reach() + far.Kept().size
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small package, which processes can import."""
    package = tmp_path / "fakes"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "far.py").write_text(FAR)
    (package / "used.py").write_text(USED)
    monkeypatch.setattr(source, "PACKAGES", ("fakes",))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def numbered(folder):
    places = [(each.file, each.name) for each in constants(folder)]
    return {place: number for number, place in enumerate(places)}


def questions():
    """What is asked of the small package: import it here, where it is changed."""
    from fakes import far, used

    return [
        Question("total", lambda: [(used.total(),) * 2]),
        Question("all", lambda: [(used.all_of_it(),) * 2]),
        Question("kept", lambda: [(value, value) for value in far.Kept().reach()]),
    ]


def test_constants_are_names_in_capitals_with_numbers(folder):
    assert constants(folder) == [
        Constant("fakes/far.py", "FAR", "", "2.0**3"),
        Constant("fakes/far.py", "_NEAR", "", "0.5"),
        Constant("fakes/far.py", "COUNT", "", "3"),
        Constant("fakes/far.py", "TABLE", "", '{"a": 1.0, "b": 2.0}'),
        Constant("fakes/far.py", "STEPS", "", "(*(1 << size for size in range(3)), 9)"),
        Constant("fakes/far.py", "HALF", "", "FAR / 2"),
        Constant("fakes/far.py", "VERSION", "", "1"),
    ]


def test_values_are_doubled_and_whole_numbers_stay_whole():
    assert doubled(3) == 6
    assert isinstance(doubled(3), int)
    assert doubled((1, [2.0, Fraction(1, 3)])) == (2, [4.0, Fraction(2, 3)])
    assert doubled({"a": 1, 2: (3,)}) == {"a": 2, 2: (6,)}
    assert doubled(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_a_doubled_constant_has_twice_its_value_from_its_definition_on(folder):
    tree = parsed(folder)["fakes/far.py"].tree
    for name, expected in (("FAR", (16.0, 0.5, 3, 8.0)), ("COUNT", (8.0, 0.5, 6, 4.0))):
        names = {"__doubled__": doubled}
        exec(compile(with_doubled(tree, name), "far.py", "exec"), names)
        assert tuple(names[each] for each in ("FAR", "_NEAR", "COUNT", "HALF")) == expected
        assert names["__doc__"] == "Constants."


def test_sources_tell_which_constants_their_functions_read(folder):
    modules, numbers = parsed(folder), numbered(folder)
    trees, outside = {}, {}
    for file, module in modules.items():
        trees[file], outside[file] = with_reads(module, numbers)
    worker = Worker(trees, questions, what_it_reads)
    read = [worker.ask(number) for number in range(3)]
    worker.end()
    names = [{name for (_, name), number in numbers.items() if number in each.constants} for each in read]
    assert names == [{"COUNT", "HALF", "TABLE"}, {"COUNT", "FAR"}, {"_NEAR", "STEPS"}]
    assert str(folder / "fakes" / "used.py") in read[0].files
    assert str(folder / "fakes" / "used.py") not in read[2].files
    # The default of a field, and what another constant is made of.
    assert outside["fakes/far.py"] == {numbers["fakes/far.py", name] for name in ("VERSION", "FAR")}
    far, half = (numbers["fakes/far.py", name] for name in ("FAR", "HALF"))
    assert made_of(parsed(folder).values(), numbers) == {far: {half}}


def test_workers_ask_of_their_own_variant(folder):
    tree = parsed(folder)["fakes/far.py"].tree
    plain = Worker({}, questions)
    other = Worker({"fakes/far.py": with_doubled(tree, "COUNT")}, questions)
    assert plain.kinds == ["total", "all", "kept"]
    assert plain.ask(0).answers == [(10.0, 10.0)]
    assert other.ask(0).answers == [(13.0, 13.0)]
    assert plain.ask(2).answers == other.ask(2).answers
    assert "fakes" not in sys.modules
    for worker in (plain, other):
        worker.end()
    broken = ast.parse("raise ValueError")
    worker = Worker({"fakes/far.py": broken}, questions)
    assert (worker.kinds, worker.ask(0).answers) == ([], "ValueError")
    worker.end()


def test_a_text_counts_by_its_numbers_and_its_length():
    assert numbers_in("epsilon 1.5 (of 2e-3, -4)") == [(1.5, 1.5), (2e-3, 2e-3), (-4.0, -4.0), (25.0, 25.0)]
    assert numbers_in("sha256 x1.5") == [(11.0, 11.0)]


def test_rooms_are_folders_of_the_packages():
    rooms = [page.folder_of(Constant(file, "A", "", "1")) for file in ("a/b.py", "a/b/c.py", "a/b/c/d.py")]
    assert rooms == ["a", "a/b", "a/b"]


def test_the_page_has_every_constant_of_the_package():
    found, said = {row(constant) for constant in constants(SOURCES)}, set(known(page.PAGE))
    missing, gone = sorted(found - said), sorted(said - found)
    if missing or gone:
        pytest.fail(f"run make python-constants: new are {missing[:5]}, gone are {gone[:5]}")
