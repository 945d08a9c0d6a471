"""Every function of the compiled core with hostile arguments: an error that says why, never a panic."""

import ast
import itertools
import random
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import _core
from hockeystick._vocabulary.sampling import Mixture

NAN, INF = float("nan"), float("inf")
FLOATS = [NAN, INF, -INF, -1.0, 0.0, 1.0, 0.3, 1e-320, 1.7e308, -1e308, 1e-17]
COUNTS = [0, 1, -1, 2, 3, 10_000, 2**40, 2**63 - 1, -(2**63)]
VECTORS = [
    np.array(values, dtype=np.float64)
    for values in (
        [],
        [NAN],
        [INF],
        [-1.0],
        [0.0, 0.0],
        [0.5, 0.5],
        [1e308, -1e308],
        [1e-320, 0.3],
        [1.7e308, 2.0],
    )
]
COUNT_VECTORS = [
    np.array(values, dtype=np.int64) for values in ([], [0], [1], [-1], [2**63 - 1], [1, 2], [-(2**63), 5])
]
MATRICES = [
    *(
        np.full(shape, value)
        for shape in ((0, 0), (1, 1), (2, 2), (2, 4))
        for value in (NAN, INF, -1.0, 1e308)
    ),
    np.zeros((1,) * 40),  # more dimensions than Rust's arrays know
    np.zeros((2, 2), dtype=np.int64),
]
WORDS = {
    "direction": ["add", "remove"],
    "adjacency": ["add_remove", "add", "remove", "replace", "zero_out"],
    "bound": ["exact", "jensen", "black_box", "lower"],
    "conversion": ["canonne", "optimal"],
    "unknown": ["epsilon", "delta", "noise_multiplier", "sample_rate", "steps", "group_size"],
    "sampling": ["shuffle", "without_replacement"],
    "route": ["one_step", "inversion", "split_inversion", "grid", "renyi"],
}
ANYTHING = [None, "", "x" * 100_000, [], (), {}, 10**400, NAN, -1]
# `meet_bounds` is told bounds at random, which contradict each other.
REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, hs.ContradictionError)
CALLS = 25
SECONDS = 1.0
"""After which a call that computes is stopped, as Ctrl-C would."""


def objects():
    """Return some of each class of the core."""
    gaussian, laplace = (1.0, 0.1, 1, 3), (hs.Laplace(1.0), 0.1, 2, 3)
    drawn = (np.array([0.5, 0.5]), np.array([0.0, 1.0]))
    accounts = _core.IndividualAccounts(2)
    accounts.add(np.array([0.5, 0.3]), 1.0, 1.0, 0.1, 5.0)
    return {
        "TradeoffCurve": [
            _core.TradeoffCurve.gaussian(1.0),
            _core.TradeoffCurve.gaussian(0.0),
            _core.TradeoffCurve.laplace(1.0),
            _core.TradeoffCurve.epsilon_delta(1.0, 0.1),
            _core.TradeoffCurve.of_steps([gaussian], "add_remove"),
            _core.TradeoffCurve.points(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.2, 0.0])),
        ],
        "Composition": [
            _core.Composition([gaussian], "add_remove", 1e-6),
            _core.Composition([laplace], "remove", 1e-6),
            _core.Composition([], "add", 1e-6),
        ],
        "IndividualAccounts": [_core.IndividualAccounts(0), accounts],
        "Simulation": [
            _core.Simulation(1.0, segments, False, 100, "remove", None, 1, 0.9)
            for segments in ([], [(*drawn, 1.0, 10)], [(*drawn, 0.0, 10)], [(*drawn, 1e-17, 10)])
        ],
    }


OBJECTS = objects()


def unchecked(kind, **values):
    """Return an object of the vocabulary with values that its constructor would refuse."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


class Hostile:
    """Arguments for parameters of the stubs: mostly of the right type, with values that are out of range."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.one = self.random.choice

    def mechanism(self):
        kind = self.one([hs.Gaussian, hs.Laplace, hs.Skellam, hs.RandomizedResponse])
        numbers = {"noise_multiplier": FLOATS, "scale": FLOATS, "variance": FLOATS, "p": FLOATS}
        return unchecked(
            kind, **{name: self.one(of) for name, of in numbers.items()}, sensitivity=self.one(COUNTS)
        )

    def draw(self):
        kind = self.one([hs.Poisson, hs.WithoutReplacement, hs.FullBatch, Mixture])
        counts = {name: self.one(COUNTS) for name in ("batch_size", "dataset_size", "microbatches")}
        laws = {name: tuple(self.one(VECTORS).tolist()) for name in ("weights", "shifts")}
        return unchecked(kind, sample_rate=self.one(FLOATS), **counts, **laws)

    def group(self):
        members = [None, None, self.one(VECTORS).tolist()]
        gradients = self.one(["aligned", "orthogonal", ""])
        return unchecked(
            hs.Group,
            size=self.one(COUNTS),
            rates=self.one(members),
            norms=self.one(members),
            gradients=gradients,
            cosine=self.one([1.0, 0.0, 0.3, float("nan")]),
        )

    def step(self, *arrays):
        """Return noise, draw and group: nouns, numbers and, where they may be, arrays."""
        floats = [lambda: self.one(FLOATS), *(lambda kind=kind: self.one(kind) for kind in arrays)]
        counts = [lambda: self.one(COUNTS), *([lambda: self.one(COUNT_VECTORS)] if arrays else [])]
        nouns = ([*floats, self.mechanism], [*floats, self.draw], [*counts, self.group])
        return tuple(self.one(makers)() for makers in nouns)

    def segment(self):
        return (*self.step(), self.one(COUNTS))

    def several(self, make):
        return [make() for _ in range(self.one([0, 1, 2]))]

    def value(self, name, annotation):
        if self.random.random() < 0.03:
            return self.one(ANYTHING)
        makers = {
            "float": lambda: self.one(FLOATS),
            "float | None": lambda: self.one([None, *FLOATS]),
            "int": lambda: self.one(COUNTS),
            "bool": lambda: self.one([True, False]),
            "str": lambda: self.one([*WORDS[name], "x" * 100_000]),
            "_Array": lambda: self.one(MATRICES if name in ("rdp", "component_rdp", "moments") else VECTORS),
            "_Array | None": lambda: self.one([None, *VECTORS]),
            "_Counts": lambda: self.one(COUNT_VECTORS),
            "NDArray[np.int64]": lambda: self.one([*COUNT_VECTORS, np.full((1, 4), self.one(COUNTS))]),
            "NDArray[np.bool_]": lambda: np.ones(self.one([0, 1, 2]), dtype=np.bool_),
            "list[float]": lambda: self.one(VECTORS).tolist(),
            "Mechanism": self.mechanism,
            "type[Mechanism]": lambda: self.one([hs.Gaussian, hs.Laplace, hs.Skellam, hs.RandomizedResponse]),
            "_Steps": lambda: self.step(VECTORS),
            "float | _Array": lambda: self.one([*FLOATS, *VECTORS]),
            "int | _Counts": lambda: self.one([*COUNTS, *COUNT_VECTORS]),
            "_Runs": lambda: (self.one(VECTORS), self.one(COUNT_VECTORS), self.one(COUNT_VECTORS)),
            "tuple[int, int]": lambda: (self.one(COUNTS), self.one(COUNTS)),
            "tuple[float, float]": lambda: (self.one(FLOATS), self.one(FLOATS)),
            "list[_Segment]": lambda: self.several(self.segment),
            "list[tuple[list[_Segment], str]]": lambda: self.several(
                lambda: (self.several(self.segment), self.one(WORDS["adjacency"]))
            ),
            "list[tuple[_Array, _Array, float, int]]": lambda: self.several(
                lambda: (self.one(VECTORS), self.one(VECTORS), self.one(FLOATS), self.one(COUNTS))
            ),
            "list[tuple[_Array, float, float, float, float]]": lambda: self.several(
                lambda: (self.one(VECTORS), *(self.one(FLOATS) for _ in range(4)))
            ),
            "Callable[[int, int], object] | None": lambda: None,
            **{kind: lambda kind=kind: self.one(OBJECTS[kind]) for kind in OBJECTS},
        }
        return makers[annotation]()


def callables():
    """Yield every function and method of the stubs, which the linter holds to be those of the binary."""
    stub = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            yield None, node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.name, method) for method in node.body if isinstance(method, ast.FunctionDef))


CALLABLES = {f"{owner or ''}.{node.name}": (owner, node) for owner, node in callables()}


class TooLongError(Exception):
    """A call took longer than a test has."""


@contextmanager
def time_limit(seconds):
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def called(owner, node, hostile):
    """Return the callable and its arguments."""
    is_static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in node.decorator_list)
    if owner is None:
        function = getattr(_core, node.name)
    elif node.name == "__new__":
        function = getattr(_core, owner)
    else:
        function = getattr(getattr(_core, owner) if is_static else hostile.one(OBJECTS[owner]), node.name)
    parameters = node.args.args[0 if owner is None or is_static else 1 :]
    return function, [hostile.value(each.arg, ast.unparse(each.annotation)) for each in parameters]


def test_all_of_the_core_is_in_the_stubs():
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public == {(owner or name.removeprefix(".")) for name, (owner, _) in CALLABLES.items()}


@pytest.mark.parametrize("name", CALLABLES)
def test_hostile_arguments_are_refused_or_answered(name):
    hostile = Hostile(f"hostile {name}")
    for _ in range(CALLS):
        function, arguments = called(*CALLABLES[name], hostile)
        try:
            with time_limit(SECONDS):
                function(*arguments)
        except TooLongError:
            continue
        except REFUSALS as error:
            if len(str(error)) > 2000:
                pytest.fail(f"{name}: an error of {len(str(error))} characters")
        except BaseException as error:
            pytest.fail(f"{name}{tuple(arguments)}: {type(error).__name__}: {error}"[:2000])


@pytest.mark.parametrize(
    "sums", list(itertools.product([NAN, INF, -1.0, 101.0, 1e300], [NAN, 0.0, 1.0, INF]))
)
def test_impossible_sums_of_samples_are_refused(sums):
    for simulation in OBJECTS["Simulation"]:
        with pytest.raises(ValueError, match="sum"):
            simulation.estimate(*sums)


def test_accounts_that_no_memory_holds_are_refused():
    for examples in (2**63 - 1, 2**60):
        with pytest.raises(MemoryError, match="examples"):
            _core.IndividualAccounts(examples)
        with pytest.raises(MemoryError, match="examples"):
            _core.epsilons_of_histories(examples, [], 1e-5)


def test_columns_of_different_lengths_are_refused():
    two, one, counts = np.array([2.0, 3.0]), np.array([0.1]), np.array([1, 1])
    with pytest.raises(ValueError, match="one length"):
        _core.group_rdp((two, np.array([0.1, 0.2, 0.3]), 1), one, "exact", "add_remove")
    with pytest.raises(ValueError, match="one length"):
        _core.renyi_calibrate(hs.Gaussian, 1, two, one, (one, counts[:1], counts[:1]), "exact", "add_remove")
    with pytest.raises(ValueError, match="one length"):
        _core.renyi_calibrate_dp(
            hs.Gaussian, 1, one, one, None, (one, counts, counts[:1]), "exact", "add_remove", "canonne"
        )
    with pytest.raises(ValueError, match="one length"):
        _core.solve("epsilon", (two, 0.1, 1), 3, "add_remove", 0.0, np.array([0.1, 0.2, 0.3]), 1e-6)


def test_a_segment_is_one_kind_of_step():
    with pytest.raises(ValueError, match="a segment has one noise"):
        _core.Composition([(np.array([1.0, 2.0]), 0.1, 1, 3)], "add_remove", 1e-6)


@pytest.mark.parametrize(
    ("step", "noun"),
    [
        (("gaussian", 0.1, 1), "mechanism"),
        ((hs.Poisson(0.1), 0.1, 1), "mechanism"),
        ((1.0, "poisson", 1), "sampling"),
        ((1.0, hs.Shuffle(1, 2), 1), "sampling"),
        ((1.0, 0.1, "one"), "group"),
        ((1.0, 0.1, hs.Laplace(1.0)), "group"),
    ],
)
def test_a_noun_of_another_kind_is_refused_by_name(step, noun):
    with pytest.raises(TypeError, match=f"{noun} must be"):
        _core.solve("epsilon", step, 3, "add_remove", 0.0, 1e-5, 1e-6)


def test_a_number_and_the_noun_that_it_stands_for_have_one_answer():
    found = {
        _core.solve("epsilon", (noise, draw, group), 3, "add_remove", 0.0, 1e-5, 1e-6)[1].item()
        for noise in (2.0, np.array([2.0]), hs.Gaussian(2.0))
        for draw in (0.1, np.array([0.1]), hs.Poisson(0.1))
        for group in (3, np.array([3]), hs.Group(3))
    }
    assert len(found) == 1
