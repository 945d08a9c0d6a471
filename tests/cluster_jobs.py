"""Work for the executor of a cluster, as a program: `python tests/cluster_jobs.py ray`, or under `mpiexec`.

It prints the answers as JSON, number by number.
"""

import json
import sys
from concurrent.futures import Executor

import numpy as np

import hockeystick as hs
from hockeystick import kernels
from hockeystick.accountants import IndividualAccountant

LOSSES = kernels.binomial_law(2, 0.1)


def answers(executor=None):
    """Monte Carlo, a sweep and individual epsilons."""
    drawn = kernels.monte_carlo_delta(
        [1.0, 20.0], *LOSSES, 1.0, 40_000, samples=2_000, direction="remove", seed=3, executor=executor
    )
    noise = np.linspace(0.6, 3.0, 40)
    sweep = hs.get_epsilon(
        delta=1e-5, noise_multiplier=noise, sample_rate=0.01, steps=1000, executor=executor
    )
    accountant = IndividualAccountant(20_000)
    accountant.update_norms(np.linspace(0.1, 1.0, 20_000))
    for _ in range(10):
        accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    epsilons = accountant.get_epsilons(1e-5, executor=executor)
    parts = (drawn.estimate, drawn.lower, drawn.upper, sweep, epsilons)
    return [np.asarray(part, dtype=float).tolist() for part in parts]


def on_ray():
    """Answers from Ray, whose tasks are made futures as docs/scaling.md does it."""
    import ray

    class RayExecutor(Executor):
        def submit(self, function, /, *arguments, **named):
            return ray.remote(function).remote(*arguments, **named).future()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    return answers(RayExecutor())


def on_mpi():
    """Answers from the other ranks of MPI."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        found = answers(executor)
        assert executor.num_workers == 2
    return found


if __name__ == "__main__":
    print(json.dumps({"ray": on_ray, "mpi": on_mpi}[sys.argv[1]]()))
