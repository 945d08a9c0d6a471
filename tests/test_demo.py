"""The demo, from the command line to its files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hockeystick as hs

TOP = Path(__file__).parents[1]


@pytest.mark.slow
def test_demo_trains_accounts_and_writes_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "demo", "--output", str(tmp_path)]
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        command, cwd=TOP, env=environment, check=True, capture_output=True, text=True, timeout=600
    )
    assert "test accuracy" in done.stdout
    for exact in ("2.79", "6.23", "14.58", "36.83", "102.71", "317.54"):
        assert exact in done.stdout
    assert "training: 100%" in done.stderr

    for picture in ("epsilon_by_group_size.png", "epsilon_by_group_size-dark.png", "delta_by_epsilon.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    run = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert run["test_accuracy"] > 0.85
    settings = run["settings"]
    history = [[settings["noise_multiplier"], settings["sample_rate"], settings["steps"]]]
    assert run["accountant"]["history"] == history

    assert [row["group_size"] for row in run["table"]] == [1, 2, 4, 8, 16, 32]
    plan = {name: settings[name] for name in ("noise_multiplier", "sample_rate", "steps")}
    for row in run["table"]:
        asked = {"delta": run["delta"], "group_size": row["group_size"], **plan}
        assert row["exact"] == hs.get_epsilon(**asked)
        assert row["black_box"] == hs.black_box.get_epsilon(**asked)
        assert row["exact"] <= row["black_box"]
        assert row["exact"] < row["renyi"] <= row["jensen"]
        # The exact value is confirmed from both sides: the simulated delta there is the delta asked for.
        simulated = row["simulated_delta"]
        assert simulated["lower"] <= run["delta"] <= simulated["upper"]
        # Where the interval lies is chance; how wide it is, is not.
        assert simulated["upper"] - simulated["lower"] <= 0.06 * run["delta"]
    assert done.stdout.count("holds delta") == len(run["table"])
    for smaller, larger in zip(run["table"], run["table"][1:], strict=False):
        assert smaller["exact"] < larger["exact"]
