"""The demo, from the command line to its files."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]


def test_demo_trains_accounts_and_writes_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "demo", "--output", str(tmp_path)]
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        command, cwd=TOP, env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    assert "test accuracy" in done.stdout
    assert "training: 100%" in done.stderr

    for picture in ("epsilon_by_group_size.png", "delta_by_epsilon.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    run = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert run["test_accuracy"] > 0.85
    settings = run["settings"]
    history = [[settings["noise_multiplier"], settings["sample_rate"], settings["steps"]]]
    assert run["accountant"]["history"] == history

    assert [row["group_size"] for row in run["table"]] == [1, 2, 4, 8, 16, 32]
    for row in run["table"]:
        assert 0 < row["exact"] <= row["jensen"] * (1 + 1e-9)
        assert row["exact"] <= row["black_box"] * (1 + 1e-9)
        simulated = row["simulated_delta"]
        assert 0 <= simulated["lower"] <= simulated["estimate"] <= simulated["upper"] <= run["delta"]
    for smaller, larger in zip(run["table"], run["table"][1:], strict=False):
        assert smaller["exact"] < larger["exact"]
