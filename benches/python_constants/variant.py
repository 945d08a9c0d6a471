"""The Python package with one constant doubled, or with functions that tell which constants they read."""

import ast
import builtins
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing.connection import Connection
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from benches.constants.comparing import FACTOR, PATIENCE, Asked, Question, ask, in_a_process
from benches.python_constants.source import DOUBLED, SEEN

Trees = dict[str, ast.Module]
"""Changed sources, by their files."""


class Read(NamedTuple):
    """What a question read."""

    constants: set[int]
    files: set[str]
    """Where functions were called."""


_read: set[int] = set()


def doubled(value: Any) -> Any:
    """Return twice a number, or twice each of the numbers, of the same type."""
    if isinstance(value, dict):
        return {key: doubled(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(doubled(each) for each in value)
    return value * int(FACTOR)


def seen(number: int, value: Any) -> Any:
    """Note that a constant is read, and return its value."""
    _read.add(number)
    return value


def what_it_reads(question: Question) -> Read:
    """Ask a question of sources that tell what they read."""
    files = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    _read.clear()
    sys.setprofile(note)
    ask(question)
    sys.setprofile(None)
    return Read(set(_read), files)


class _Changed(MetaPathFinder):
    """Imports changed sources in place of those in files."""

    def __init__(self, trees: Trees) -> None:
        self._trees = {module_name(file): tree for file, tree in trees.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does, and let it run what the changed source says."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._trees else None
        if spec is not None and spec.origin:
            spec.loader = _Loader(fullname, spec.origin, self._trees[fullname])
        return spec


class _Loader(SourceFileLoader):
    """Runs a changed source."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Compile it, whatever is kept of the file."""
        code: CodeType = compile(self._tree, self.get_filename(fullname), "exec")
        return code


def module_name(file: str) -> str:
    """Return the name by which a file is imported."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def take(trees: Trees) -> None:
    """Import changed sources from now on."""
    setattr(builtins, DOUBLED, doubled)
    setattr(builtins, SEEN, seen)
    sys.meta_path.insert(0, _Changed(trees))


class Worker:
    """A process that has imported one variant of the package, and asks questions of it.

    Each question is asked in a process of its own, so that nothing is kept from one to the next.

    Parameters
    ----------
    trees : dict
        Changed sources.
    questions : callable
        Imports the package, and returns the questions.
    answer : callable
        What is done with a question.
    """

    def __init__(
        self,
        trees: Trees,
        questions: Callable[[], list[Question]],
        answer: Callable[[Question], Any] = ask,
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(trees, questions, answer, there))
        self._process.start()
        there.close()
        self.kinds: list[str] = self._pipe.recv()
        """What the questions are about; none where the package could not be imported."""

    def ask(self, number: int) -> Any:
        """Return what comes of a question, or the word for why nothing does."""
        try:
            self._pipe.send(number)
            return self._pipe.recv() if self._pipe.poll(2.0 * PATIENCE) else "no end"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return "crash"

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(
    trees: Trees,
    questions: Callable[[], list[Question]],
    answer: Callable[[Question], Any],
    pipe: Connection,
) -> None:
    """Import, and answer with what comes of questions, or with the error that the import ended in."""
    take(trees)
    asked: list[Question] = []
    failed = Asked("", 0.0)
    try:
        asked = questions()
    except Exception as error:
        failed = Asked(type(error).__name__, 0.0)
    pipe.send([question.kind for question in asked])
    while True:
        number = pipe.recv()
        pipe.send(in_a_process(partial(answer, asked[number])) if asked else failed)
