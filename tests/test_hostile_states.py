"""States that somebody made up: a ``ValueError``, before they cost time or memory."""

import base64
import copy
import json
import tracemalloc
import zlib
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hockeystick as hs
from hockeystick import checkpoints
from hockeystick._strict_json import parse
from hockeystick.accountants import GroupAccountant, IndividualAccountant, IndividualFilter
from hockeystick.accountants._state_limits import MAX_DEPTH, MAX_PARTS, MAX_TEXT_LENGTH, check_limits
from hockeystick.errors import StateTypeError

GOLDEN = sorted((Path(__file__).parent / "data" / "states" / hs.__version__).glob("[!a]*.json"))
PATHS = {path.stem: path for path in GOLDEN}


def with_checksum(state: bytes, path: Path) -> Path:
    """A file with this text for a state, and the checksum of that."""
    path.write_bytes(checkpoints._head(state).encode() + state + checkpoints.TAIL)
    return path


def peak_of(action) -> int:
    """Bytes that were allocated at once, at most."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"\w"):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def parts_of(value, path=()):
    """Paths to all parts of a state."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from parts_of(part, (*path, key))


def replaced(state, path, value):
    if not path:
        return value
    state = copy.deepcopy(state)
    part = state
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return state


WRONG = (None, True, -1, 0, 2.5, -1e308, 2**63, 2**64 - 1, 10**30, "", "x" * 2000, [], [[]], {}, {"a": []})


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PATHS.keys() - {"individual-clipping"}))
def test_any_part_of_any_wrong_type_is_a_value_error_and_changes_nothing(name, tmp_path):
    state = json.loads(PATHS[name].read_bytes())["state"]
    accountant = checkpoints.load(PATHS[name])
    refused = taken = 0
    # A fifth of the values for each part of the states that take long.
    every = 5 if name.startswith("individual") else 1
    for i, path in enumerate(parts_of(state)):
        for value in WRONG[i % every :: every]:
            changed = replaced(state, path, value)
            if changed == state:
                continue
            try:
                accountant.load_state_dict(changed)
            except ValueError:
                refused += 1
                assert accountant.state_dict() == state
            else:
                # Another history is as good a state as this one.
                taken += 1
                # Any text may be a name that this kind of accountant was registered by.
                named = path == ("mechanism",) and isinstance(value, str)
                assert named or path[0] in {"history", "accounts"}
                accountant.load_state_dict(state)
            file = with_checksum(json.dumps(changed).encode(), tmp_path / "a")
            try:
                checkpoints.load(file)
            except ValueError:
                refused += 1
    assert refused > 3 * taken
    assert refused > 200


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=5))
VALUES = st.recursive(
    NUMBERS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=10
)


@given(st.sampled_from(sorted(PATHS)), st.data())
def test_no_state_raises_anything_but_a_value_error(name, data):
    accountant = checkpoints.load(PATHS[name])
    state = json.loads(PATHS[name].read_bytes())["state"]
    path = data.draw(st.sampled_from(list(parts_of(state))))
    try:
        accountant.load_state_dict(replaced(state, path, data.draw(VALUES)))
    except ValueError:
        assert accountant.state_dict() == state


@pytest.mark.parametrize("state", [None, [], 3, "state"])
def test_a_wrong_type_is_a_type_error_as_well(state):
    for accountant in (GroupAccountant(), IndividualAccountant(3), IndividualFilter(1.0, 1e-5)):
        with pytest.raises(StateTypeError, match="must be a mapping, got") as caught:
            accountant.load_state_dict(state)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"nul", "Expecting value"),
        (b"NaN", "finite numbers only, got NaN"),
        (b"[1, Infinity]", "finite numbers only, got Infinity"),
        (b"[-Infinity]", "finite numbers only, got -Infinity"),
        (b"1e999", "finite numbers only, got 1e999"),
        (b'{"a": 1, "a": 1}', "a key twice"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "a key twice"),
        (b"9" * 100_000, "a number of 100000 characters"),
        (b"0." + b"9" * 100_000, "a number of 100002 characters"),
        (b"1e" + b"9" * 100_000, "a number of 100002 characters"),
        (b"\xff", "ascii"),
        ('"é"'.encode(), "ascii"),
        (b"[" * 900 + b"]" * 900, "at most 1000 parts|nested too deeply|Expecting"),
        (b"[" + b"1," * 1000 + b"1]", "at most 1000 parts, got 1002"),
        (b'{"state":1} x', "Extra data"),
        (b'"\x00"', "Invalid control character"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else "",
)
def test_json_that_is_more_than_a_state_needs_is_refused(text, message):
    if text.startswith(b"[["):
        text = b"[" * 900 + b"1"
    with pytest.raises(ValueError, match=message):
        parse(text, 1000)


def test_what_is_written_is_read():
    text = b'{"a": [1, -2.5, 1e-300, true, null, "text"], "b": {}}'
    assert parse(text, 1000) == json.loads(text)


@pytest.mark.parametrize("sign", [b"[", b'{"a":'])
def test_very_deep_json_is_refused(sign, tmp_path):
    deep = sign * 1_000_000 + b"1" + (b"]" if sign == b"[" else b"}") * 1_000_000
    with pytest.raises(ValueError, match="nested too deeply"):
        checkpoints.load(with_checksum(deep, tmp_path / "a"))


@pytest.mark.parametrize("text", [b"[]," * 3_000_000, b"1," * 6_000_000, b'{"a":1},' * 2_000_000])
def test_very_many_parts_are_refused_before_they_are_made(text, tmp_path):
    path = with_checksum(b"[" + text + b"1]", tmp_path / "a")
    assert peak_of(lambda: checkpoints.load(path)) < 6 * len(text)


def test_a_large_file_is_not_read(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(2**40)
    assert peak_of(lambda: checkpoints.load(tmp_path / "a", most_bytes=2**20)) < 2**22
    with pytest.raises(ValueError, match="at most most_bytes = 1048576 bytes"):
        checkpoints.load(tmp_path / "a", most_bytes=2**20)


def nested(depth):
    state = []
    for _ in range(depth):
        state = [state]
    return state


@pytest.mark.slow
def test_limits_of_a_state_are_these():
    check_limits(nested(MAX_DEPTH - 1))
    with pytest.raises(ValueError, match="at most 16 levels"):
        check_limits(nested(MAX_DEPTH))
    check_limits([0] * (MAX_PARTS - 2))
    with pytest.raises(ValueError, match="at most 5000000 parts"):
        check_limits([0] * (MAX_PARTS + 1))
    check_limits(["x" * MAX_TEXT_LENGTH, 2**64 - 1])
    with pytest.raises(ValueError, match="at most 1000 characters, got 1001"):
        check_limits(["x" * (MAX_TEXT_LENGTH + 1)])
    with pytest.raises(ValueError, match="below 2\\*\\*64, got one of 65 bits"):
        check_limits({"a": 2**64})
    with pytest.raises(ValueError, match="keys of a state must be strings, got a int"):
        check_limits({1: 2})
    array = {"type": "<f8", "shape": [2**26, 2], "data": ""}
    check_limits([array])
    with pytest.raises(ValueError, match="at most 1073741824 bytes, got 2147483648"):
        check_limits([array, array])
    check_limits([array, array], examples=2**20)
    check_limits([array, array], most_bytes=2**31)


def test_a_state_that_contains_itself_is_refused():
    state = {}
    state["a"] = [state]
    for accountant in (GroupAccountant(), IndividualAccountant(3), IndividualFilter(1.0, 1e-5)):
        with pytest.raises(ValueError, match="levels"):
            accountant.load_state_dict(state)


def bomb(shape, length):
    """An array that says it has this shape, of `length` zeros once unpacked."""
    data = base64.b64encode(zlib.compress(bytes(length))).decode()
    return {"type": "<f8", "shape": shape, "data": data}


BOMBS = {
    "as large as it says": ("norms", bomb([2**21], 2**24), 2**27),
    "larger than it says": ("norms", bomb([5], 2**24), 2**20),
    "far larger than the file": ("places", {**bomb([2**40, 4], 2**10), "type": "<i8"}, 2**20),
    "with a shape beyond all numbers": ("norms", bomb([2**63], 2**10), 2**20),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_arrays_that_unpack_to_very_much_are_refused(kind, tmp_path):
    place, array, most = BOMBS[kind]
    state = json.loads(PATHS["individual"].read_bytes())["state"]
    part = state["accounts"]["accounts"] if place == "places" else state["accounts"]
    part[place] = array
    path = with_checksum(json.dumps(state).encode(), tmp_path / "a")
    for action in (
        lambda: checkpoints.load(path),
        lambda: checkpoints.load(path, most_bytes=2**20),
        lambda: IndividualAccountant(5).load_state_dict(state),
    ):
        assert peak_of(action) < 2**20
    gate = IndividualFilter(1.0, 1e-5)
    gate.step([1.0], noise_multiplier=1.0, sample_rate=0.05)
    saved = gate.state_dict()
    saved["accounts"]["spent"] = array
    assert peak_of(lambda: gate.load_state_dict(saved)) < most


def test_a_small_file_makes_no_large_accountant(tmp_path):
    state = json.loads(PATHS["individual"].read_bytes())["state"]
    for size in (2**25, 2**40, 2**63 - 1, 2**64 - 1):
        state["settings"]["dataset_size"] = size
        path = with_checksum(json.dumps(state).encode(), tmp_path / "a")
        assert peak_of(lambda: checkpoints.load(path)) < 2**20  # noqa: B023 (called at once)
    many = json.loads(PATHS["individual-renyi"].read_bytes())["state"]
    many["settings"].update(dataset_size=2**16, orders=np.linspace(2.0, 3.0, 2**14).tolist())
    path = with_checksum(json.dumps(many).encode(), tmp_path / "a")
    with pytest.raises(ValueError, match="dataset_size must be small enough for most_bytes"):
        checkpoints.load(path)
