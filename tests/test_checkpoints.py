"""Accountants in files: what was saved comes back, and nothing else ever does."""

import json
import os
import random
import runpy
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hockeystick as hs
from hockeystick import _atomic, checkpoints
from hockeystick.accountants import GroupAccountant, IndividualAccountant, IndividualFilter
from hockeystick.opacus._registering import registered_class

TOP = Path(__file__).parents[1]
GOLDEN = TOP / "tests" / "data" / "states"
SCRIPT = runpy.run_path(str(TOP / "scripts" / "write_states.py"))
STATES = [path for path in sorted(GOLDEN.glob("*/*.json")) if path.name != SCRIPT["ANSWERS"]]
EXAMPLES = SCRIPT["examples"]()


def approximate(answer):
    """`answer` up to the width of the certified intervals; what is no number stays as it is."""
    if isinstance(answer, dict):
        return {key: approximate(value) for key, value in answer.items()}
    numbers = answer if isinstance(answer, list) else [answer]
    return pytest.approx(answer, rel=2e-6, abs=0.0) if all(type(one) is float for one in numbers) else answer


@pytest.mark.parametrize("path", STATES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_states_of_every_version_keep_loading_with_the_same_answers(path):
    expected = json.loads((path.parent / SCRIPT["ANSWERS"]).read_text())[path.stem]
    assert SCRIPT["answers"](checkpoints.load(path)) == approximate(expected)


def test_there_are_golden_states_of_this_version_for_every_kind_of_accountant():
    assert {path.stem for path in STATES if path.parent.name == hs.__version__} == set(EXAMPLES)
    assert {type(one) for one in EXAMPLES.values()} == set(checkpoints.KINDS.values())


def test_golden_states_of_a_released_version_are_not_written_again(tmp_path):
    changelog = (TOP / "CHANGELOG.md").read_text("utf-8") + "\n## [9.8.7] - 2026-01-01\n"
    with pytest.raises(SystemExit, match=r"9\.8\.7 is released"):
        SCRIPT["write"](tmp_path, "9.8.7", changelog)
    assert list(tmp_path.iterdir()) == []
    SCRIPT["write"](tmp_path, "9.8.8", changelog)
    assert len(list((tmp_path / "9.8.8").iterdir())) == len(EXAMPLES) + 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_saved_accountant_comes_back_with_every_bit(name, tmp_path):
    accountant = EXAMPLES[name]
    checkpoints.save(accountant, tmp_path / "a.json")
    again = checkpoints.load(tmp_path / "a.json")
    assert type(again) is type(accountant)
    assert SCRIPT["answers"](again) == SCRIPT["answers"](accountant)
    checkpoints.save(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    # The file is JSON for every reader of JSON.
    assert json.loads((tmp_path / "a.json").read_bytes())["state"] == accountant.state_dict()


def test_a_filter_without_steps_keeps_the_order_it_was_made_with(tmp_path):
    checkpoints.save(IndividualFilter(1.0, 1e-5, order=20.0), tmp_path / "gate")
    gate = checkpoints.load(tmp_path / "gate")
    gate.step([1.0], noise_multiplier=1.0, sample_rate=0.05)
    assert gate.order == 20.0
    with pytest.raises(ValueError, match="settings must be"):
        IndividualFilter(1.0, 1e-5).load_state_dict(IndividualFilter(1.0, 1e-5, order=20.0).state_dict())


def test_a_filter_that_is_set_back_chooses_its_order_anew():
    gate, fresh = IndividualFilter(1.0, 1e-5), IndividualFilter(1.0, 1e-5)
    gate.step([1.0], noise_multiplier=1.0, sample_rate=0.05)
    gate.load_state_dict(fresh.state_dict())
    for one in (gate, fresh):
        one.step([1.0], noise_multiplier=5.0, sample_rate=0.5)
    assert gate.order == fresh.order
    assert gate.state_dict() == fresh.state_dict()


@pytest.mark.parametrize("name", ["group", "individual"])
def test_no_truncated_or_changed_byte_goes_unnoticed(name, tmp_path):
    whole = (GOLDEN / hs.__version__ / f"{name}.json").read_bytes()
    path = tmp_path / "damaged"
    # Every byte of the small file, every seventh of the large one.
    places, masks = (
        (range(len(whole)), (0x01, 0x20, 0x80)) if name == "group" else (range(0, len(whole), 7), (0x04,))
    )
    damaged = [whole[:length] for length in places]
    damaged += [whole[:i] + bytes([whole[i] ^ mask]) + whole[i + 1 :] for i in places for mask in masks]
    damaged += [whole + more for more in (b"\0", b"\n", b" ", whole)]
    for text in damaged:
        path.write_bytes(text)
        with pytest.raises(ValueError, match="damaged"):
            checkpoints.load(path)


def test_a_newer_version_is_named(tmp_path):
    text = (GOLDEN / hs.__version__ / "group.json").read_text()
    (tmp_path / "new").write_text(text.replace('"version":1', '"version":2', 1))
    with pytest.raises(ValueError, match=r"new: version is 2, this version of hockeystick reads up to 1"):
        checkpoints.load(tmp_path / "new")


def test_an_accountant_registered_with_opacus_comes_back_as_what_it_is(tmp_path):
    registered = registered_class(GroupAccountant(8), "mine", "raise")()
    registered.step(noise_multiplier=1.0, sample_rate=0.01)
    checkpoints.save(registered, tmp_path / "a")
    plain = checkpoints.load(tmp_path / "a")
    assert type(plain) is GroupAccountant
    assert plain.get_epsilon(1e-5) == registered.get_epsilon(1e-5)
    another = registered_class(GroupAccountant(8), "mine", "raise")()
    another.load_state_dict(plain.state_dict())
    assert another.state_dict() == registered.state_dict()


def test_what_is_no_accountant_is_refused(tmp_path):
    class Mine(GroupAccountant):
        pass

    for other in (
        None,
        {},
        "a",
        GroupAccountant,
        Mine(),
        hs.privacy_curve(noise_multiplier=1.0, steps=1, sample_rate=1),
    ):
        with pytest.raises(TypeError, match="accountant must be one of GroupAccountant"):
            checkpoints.save(other, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoints.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        checkpoints.save(GroupAccountant(), tmp_path / "nowhere" / "a")
    with pytest.raises(ValueError, match="a checkpoint must be a file"):
        checkpoints.load(tmp_path)
    with pytest.raises(ValueError, match="most_bytes must be a whole number >= 1, got 0"):
        checkpoints.load(tmp_path, most_bytes=0)


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_a_file_is_its_owners_alone_and_a_link_is_followed(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o644)
    (tmp_path / "link").symlink_to("a")
    checkpoints.save(IndividualAccountant(3), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert checkpoints.load(tmp_path / "a").dataset_size == 3


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    checkpoints.save(GroupAccountant(7), tmp_path / "a")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(_atomic.os, step, full)
    with pytest.raises(OSError, match="no space left"):
        checkpoints.save(GroupAccountant(8), tmp_path / "a")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert checkpoints.load(tmp_path / "a").group_size == 7


CHILD = """
import os, signal, sys
from hockeystick import _atomic, checkpoints
from hockeystick.accountants import GroupAccountant

path, moment = sys.argv[1:]
small, large = GroupAccountant(1), GroupAccountant(2)
large.history = [(1.0 + i / 1000, 0.01, 1) for i in range(2000)]
checkpoints.save(small, path)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "half":
    whole = os.fdopen
    class Half:
        def __init__(self, file):
            self.file = file
        def __enter__(self):
            return self
        def write(self, data):
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            die()
    os.fdopen = lambda *given: Half(whole(*given))
elif moment != "any":
    setattr(os, moment, die)
print("ready", flush=True)
while True:
    checkpoints.save(large, path)
    checkpoints.save(small, path)
"""


def killed(path, moment, seconds=None):
    """Save one of two accountants after the other in a process, until it is killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), moment], env=environment, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"ready\n"
        if seconds is not None:
            time.sleep(seconds)
            child.kill()
        assert child.wait(60) != 0


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("moment", ["half", "fsync", "replace"])
def test_a_process_killed_before_the_end_leaves_the_old_file(moment, tmp_path):
    killed(tmp_path / "a", moment)
    assert checkpoints.load(tmp_path / "a").group_size == 1
    # What it leaves beside it does no harm.
    checkpoints.save(GroupAccountant(5), tmp_path / "a")
    assert checkpoints.load(tmp_path / "a").group_size == 5


@pytest.mark.parametrize("attempt", range(4))
def test_a_process_killed_at_any_moment_leaves_the_old_file_or_the_new_one(attempt, tmp_path):
    killed(tmp_path / "a", "any", seconds=random.Random(attempt).uniform(0.0, 0.05))
    found = checkpoints.load(tmp_path / "a")
    assert (found.group_size, len(found)) in {(1, 0), (2, 2000)}
    assert len(list(tmp_path.iterdir())) <= 2


def device(path):
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        pytest.skip("may not make a device")


def listening(path):
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(os.fspath(path))


OCCUPIED = (
    {"pipe": os.mkfifo, "socket": listening, "device": device, "folder": os.mkdir}
    if os.name == "posix"
    else {}
)


@pytest.mark.parametrize("kind", OCCUPIED)
@pytest.mark.parametrize("by_link", [False, True])
def test_only_files_are_replaced_and_read(kind, by_link, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    target = Path("taken")
    OCCUPIED[kind](target)
    before = target.lstat()
    name = Path("link") if by_link else target
    if by_link:
        name.symlink_to(target)
    with pytest.raises(OSError, match="take the place of a"):
        checkpoints.save(GroupAccountant(), name)
    with pytest.raises(ValueError, match="must be a file"):
        checkpoints.load(name)
    after = target.lstat()
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)
    assert sorted(os.listdir()) == sorted({"taken", str(name)})


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_are_followed_also_to_what_is_not_there_yet(tmp_path):
    link, target = tmp_path / "link", tmp_path / "privacy.json"
    link.symlink_to(target)
    for _ in range(2):
        checkpoints.save(GroupAccountant(group_size=4), link)
        assert link.is_symlink()
        assert checkpoints.load(target).group_size == 4
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match=r"loop|link"):
        checkpoints.save(GroupAccountant(), loop)
    assert loop.is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_report_takes_the_place_of_no_pipe(tmp_path):
    pipe = tmp_path / "privacy.md"
    os.mkfifo(pipe)
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10)
    with pytest.raises(OSError, match="pipe"):
        hs.report(curve, pipe, delta=1e-5)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert os.listdir(tmp_path) == ["privacy.md"]


def test_a_reader_beside_a_writer_sees_the_old_file_or_the_new_one(tmp_path):
    path, done = tmp_path / "privacy.json", threading.Event()
    short, long = GroupAccountant(group_size=2), GroupAccountant(group_size=3)
    long.history = [(1.0 + i, 0.01, 1) for i in range(500)]
    checkpoints.save(short, path)

    def write():
        while not done.is_set():
            checkpoints.save(long, path)
            checkpoints.save(short, path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [checkpoints._state_text(path, 10**9) for _ in range(3000)]
    finally:
        done.set()
        writer.join()
    assert len(set(seen)) == 2
