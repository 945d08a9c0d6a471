"""Two processes that train one model, and account each for its own examples."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from distributed_accounts import STEPS, alone, last_common_step, load

pytestmark = pytest.mark.opacus

RANKS = 2
DIES_AT = 5


def train(folder, meeting, dies_at=-1):
    """Exit status of each rank."""
    script = Path(__file__).with_name("distributed_accounts.py")
    address = (folder / meeting).as_uri()
    commands = [
        [sys.executable, str(script), str(rank), str(RANKS), address, str(folder), str(dies_at)]
        for rank in range(RANKS)
    ]
    processes = [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in commands]
    try:
        errors = [process.communicate(timeout=180)[1] for process in processes]
        if dies_at < 0:
            assert [process.returncode for process in processes] == [0] * RANKS, errors
        return [process.returncode for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def found_in(folder):
    return [json.loads((folder / f"found-{rank}.json").read_text("utf-8")) for rank in range(RANKS)]


def as_json(accountant):
    return json.loads(json.dumps(accountant.state_dict()))


def test_gathered_accounts_are_those_of_one_process(tmp_path):
    train(tmp_path, "meeting")
    accountant, weights = alone(RANKS)
    assert accountant.is_guarantee
    for found in found_in(tmp_path):
        assert found["weights"] == weights.tolist()
        assert found["everyone"] == as_json(accountant)


def test_a_killed_rank_leaves_checkpoints_to_go_on_from(tmp_path):
    killed, left = 1, 0
    status = train(tmp_path, "first", DIES_AT)
    assert status[killed] == -signal.SIGKILL
    assert status[left] not in (0, -signal.SIGKILL)  # its partner did not answer
    assert (tmp_path / f"{killed}.unfinished").exists()
    assert last_common_step(tmp_path, RANKS) == DIES_AT - 1
    for rank in range(RANKS):
        _, accountant = load(tmp_path, rank, DIES_AT - 1)
        assert len(accountant) == DIES_AT
    train(tmp_path, "second")
    accountant, weights = alone(RANKS)
    assert len(accountant) == STEPS
    for found in found_in(tmp_path):
        assert found["resumed_from"] == DIES_AT - 1
        assert found["weights"] == weights.tolist()
        assert found["everyone"] == as_json(accountant)
