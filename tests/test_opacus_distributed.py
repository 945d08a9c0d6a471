"""Two processes that train one model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from opacus_runs import BATCHES, RATE

import hockeystick as hs

pytestmark = pytest.mark.opacus

RANKS = 2


def test_every_rank_has_the_account_of_the_whole_run(tmp_path):
    script = Path(__file__).with_name("distributed_training.py")
    address = (tmp_path / "meeting").as_uri()
    outputs = [tmp_path / f"{rank}.json" for rank in range(RANKS)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(RANKS), address, str(output)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, output in enumerate(outputs)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=180)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.wait()
    found = [json.loads(output.read_text("utf-8")) for output in outputs]
    assert found[0]["weights"] == found[1]["weights"]
    for each in found:
        assert each["optimizer"] == "DistributedDPOptimizer"
        # The rate of a record does not depend on the number of ranks, and one of them adds the noise.
        assert each["history"] == [[1.0, RATE, 2 * BATCHES]]
        assert each["epsilon"] == hs.get_epsilon(
            delta=1e-5, noise_multiplier=1.0, sample_rate=RATE, steps=2 * BATCHES, group_size=4
        )
