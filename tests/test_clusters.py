"""Executors of Ray and MPI, on processes of this machine: the bits of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cluster_jobs
import pytest

PROGRAM = str(Path(cluster_jobs.__file__))
MPI = [str(Path(sys.executable).with_name("mpiexec")), "-n", "3", sys.executable, "-m", "mpi4py.futures"]

pytestmark = pytest.mark.clusters


@pytest.mark.parametrize(
    ("kind", "command"),
    [pytest.param("ray", [sys.executable], marks=pytest.mark.long), ("mpi", MPI)],
)
def test_answers_have_the_bits_of_one_process(kind, command, tmp_path):
    alone = {"RAYON_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    finished = subprocess.run(
        [*command, PROGRAM, kind],
        env=os.environ | alone,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1]) == cluster_jobs.answers()
